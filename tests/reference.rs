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
mod places;
#[path = "reference/planes.rs"]
mod planes;
#[path = "reference/separable.rs"]
mod separable;
#[path = "reference/separable_tensor.rs"]
mod separable_tensor;

use faltung::{Accuracy, Border, Device, Filter, Image, Mask, Problem, VariantChoice};
use host::compare::{Comparison, with_oracle};
use host::oracle::Oracle;
use kernels_gpu::registry::Variant;

/// All borders.
const BORDERS: [Border; 6] =
    [Border::ZERO, Border::Constant(2.5), Border::Clamp, Border::Mirror, Border::Reflect, Border::Wrap];

/// Whether this run takes the combination with this number. It takes one of `every`, or all with
/// `HOST_TEST_SWEEP=full`.
fn is_in_sweep(number: usize, every: usize) -> bool {
    number.is_multiple_of(every) || std::env::var("HOST_TEST_SWEEP").is_ok_and(|sweep| sweep == "full")
}

/// The result of a variant on the emulator, and its comparison with the oracle.
fn compare(variant: Variant, filter: &Filter, image: &Image) -> faltung::Result<(Image, Comparison)> {
    let problem = Problem::new(image.width(), image.height(), filter)?;
    let convolution = Device::emulator(1).prepare(&problem, VariantChoice::Named(variant))?;
    let found: Image = convolution.apply(image)?;
    let comparison = with_oracle(&Oracle::new(&problem, image.values()), &problem, found.values(), convolution.bound());
    Ok((found, comparison))
}

/// How many results have the bits of the ordered sums.
fn ordered_sums(filter: &Filter, image: &Image, found: &Image) -> faltung::Result<usize> {
    let right: Image = Device::cpu().apply(&filter.clone().accuracy(Accuracy::Exact), image)?;
    Ok(found.values().iter().zip(right.values()).filter(|(a, b)| a.to_bits() == b.to_bits()).count())
}

/// The separable mask of a column and a row.
fn product(column: &[f32], row: &[f32]) -> faltung::Result<Mask> {
    let values = column.iter().flat_map(|a| row.iter().map(move |b| a * b)).collect();
    Mask::new(row.len(), column.len(), values)
}

/// Numbers in -1 to 1.
fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| random.f32().mul_add(2.0, -1.0)).collect()
}
