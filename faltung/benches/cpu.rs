//! How fast the CPU's inner loops are: pixels per second on one thread, through the public interface.
//!
//! `cargo bench -p faltung` runs all, in half a minute. `cargo bench -p faltung -- gaussian` runs those with this name.
//! An item is a pixel. An image of 256 x 256 stays in the second-level cache, one of 2048 x 2048 does not. Nothing is
//! verified here: `host bench` and the tests do that.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use faltung::{Accuracy, Border, Device, Filter, Mask, Pixel, PixelFormat, Problem, VariantChoice};

/// Sides of square images.
const SIDES: [usize; 2] = [256, 2048];
/// Sides of dense masks.
const DENSE: [usize; 4] = [3, 7, 13, 31];
/// Sides of Gaussian masks, which are separable.
const GAUSSIAN: [usize; 4] = [3, 7, 31, 63];

/// All in a pool of one thread. The bencher runs on this thread, so the pool adds no switch of threads.
fn main() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("one thread can be started");
    pool.install(divan::main);
}

/// A type of values and a number of channels.
trait Format {
    type Value: Pixel;
    const CHANNELS: usize;
}

struct F32;
struct U8;
struct RgbU8;

impl Format for F32 {
    type Value = f32;
    const CHANNELS: usize = 1;
}

impl Format for U8 {
    type Value = u8;
    const CHANNELS: usize = 1;
}

impl Format for RgbU8 {
    type Value = u8;
    const CHANNELS: usize = 3;
}

#[divan::bench(types = [F32, U8, RgbU8], consts = SIDES, args = DENSE, max_time = 0.5)]
fn dense<F: Format, const SIDE: usize>(bencher: Bencher, k: usize) {
    time::<F>(bencher, SIDE, random(k), Accuracy::Bounded);
}

/// The ordered sum of all products. It takes the same time for a Gaussian.
#[divan::bench(types = [F32, U8, RgbU8], consts = SIDES, args = DENSE, max_time = 0.5)]
fn dense_exact<F: Format, const SIDE: usize>(bencher: Bencher, k: usize) {
    time::<F>(bencher, SIDE, random(k), Accuracy::Exact);
}

#[divan::bench(types = [F32, U8, RgbU8], consts = SIDES, args = GAUSSIAN, max_time = 0.5)]
fn gaussian<F: Format, const SIDE: usize>(bencher: Bencher, k: usize) {
    let mask = Mask::gaussian(k as f64 / 6.0, Some(k / 2)).expect("sigma is positive");
    time::<F>(bencher, SIDE, mask, Accuracy::Bounded);
}

/// Random coefficients, which are not separable.
fn random(k: usize) -> Mask {
    let mut random = fastrand::Rng::with_seed(1);
    let scale = 2.0 / (k * k) as f32;
    Mask::new(k, k, (0..k * k).map(|_| random.f32() * scale).collect()).expect("k * k coefficients")
}

/// Times a filter on a square image, from memory to memory.
fn time<F: Format>(bencher: Bencher, side: usize, mask: Mask, accuracy: Accuracy) {
    let filter = Filter::new(mask).border(Border::Mirror).accuracy(accuracy);
    let format = PixelFormat::of::<F::Value, F::Value>(F::CHANNELS);
    let problem = Problem::new(side, side, &filter).and_then(|problem| problem.with_format(format));
    let problem = problem.expect("1 to 4 channels, and a size that can be counted");
    let prepared = Device::cpu().prepare(&problem, VariantChoice::Auto).expect("the CPU computes everything");

    let mut random = fastrand::Rng::with_seed(2);
    // Integers take the whole range of u8, f32 takes the same values.
    let source: Vec<F::Value> = (0..problem.values()).map(|_| F::Value::from_f32(random.u8(..).into())).collect();
    let mut result = source.clone();
    bencher.counter(ItemsCount::new(side * side)).bench_local(|| {
        prepared.apply_values(black_box(&source), black_box(&mut result)).expect("a result of the image's size");
    });
}
