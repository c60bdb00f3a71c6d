//! Results against references that share no code with the kernels: other libraries, loops over all values, two passes
//! of the CPU, sums in `f64`.

#[path = "reference/fft.rs"]
mod fft;
#[path = "reference/fft_channels.rs"]
mod fft_channels;
#[path = "reference/golden.rs"]
mod golden;
#[path = "reference/pictures.rs"]
mod pictures;
#[path = "reference/planes.rs"]
mod planes;
#[path = "reference/separable.rs"]
mod separable;
#[path = "reference/separable_tensor.rs"]
mod separable_tensor;

/// Whether this run takes one in `every` of the combinations, this one among them. `HOST_TEST_SWEEP=full` takes all.
fn is_in_sweep(number: usize, every: usize) -> bool {
    number.is_multiple_of(every) || std::env::var("HOST_TEST_SWEEP").is_ok_and(|sweep| sweep == "full")
}

/// Numbers in -1 to 1.
fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| random.f32().mul_add(2.0, -1.0)).collect()
}
