//! The FFT against the ordered sum and an oracle in `f64`: every format, border and shape, and images that are meant to
//! break it. Seeds are in the messages.

use super::*;
use crate::cpu::Convolution;
use crate::cpu::method::Method;
use crate::image::{bytes_of, bytes_of_mut, values_of};
use crate::{Border, Filter, Mask, Operation, Pixel};

mod adversarial;
mod shapes;

const BORDERS: [Border; 8] = [
    Border::ZERO,
    Border::Constant(-2.5),
    Border::Clamp,
    Border::Reflect,
    Border::Mirror,
    Border::Wrap,
    Border::Constant(f32::NAN),
    Border::Constant(f32::NEG_INFINITY),
];

/// A mask of coefficients at random: positive ones whose sum is 1, or of both signs.
fn mask(width: usize, height: usize, is_positive: bool, random: &mut fastrand::Rng) -> Mask {
    let coefficients = (0..width * height).map(|_| if is_positive { random.f32() } else { random.f32() - 0.5 });
    let mask = Mask::new(width, height, coefficients.collect()).unwrap();
    if is_positive { mask.normalized().unwrap() } else { mask }
}

/// Values as bytes of the problem's input type, aligned as values are.
fn bytes(problem: &Problem, values: &[f32]) -> Vec<u32> {
    let mut words = vec![0_u32; values.len()];
    let to = bytemuck::cast_slice_mut::<u32, u8>(&mut words);
    match problem.format().input {
        PixelType::F32 => to.copy_from_slice(bytes_of(values)),
        PixelType::U8 => to.iter_mut().zip(values).for_each(|(to, &value)| *to = u8::from_f32(value)),
        PixelType::U16 => {
            let integers: Vec<u16> = values.iter().map(|&value| u16::from_f32(value)).collect();
            to[..2 * values.len()].copy_from_slice(bytes_of(&integers));
        }
    }
    words
}

/// Tiles of this size, whatever they cost.
fn sized(problem: &Problem, width: usize, height: usize) -> Fft {
    let window = problem.window();
    let columns = (width - window.width() + 1).min(problem.width());
    let rows = (height - window.height() + 1).min(problem.height());
    Fft::with_size(Level::chosen().unwrap(), problem, TileSize { width, height, columns, rows, nanoseconds: 0.0 })
        .unwrap()
}

/// Tiles that cut the image into two to four on each axis.
fn small_tiles(problem: &Problem, random: &mut fastrand::Rng) -> Fft {
    let length = |mask: usize, image: usize, random: &mut fastrand::Rng| {
        let least = mask + image.div_ceil(random.usize(2..=4)) - 1;
        (least.max(2)..).find(|&length| length % 2 == 0 && size::is_smooth(length)).unwrap()
    };
    let width = length(problem.window().width(), problem.width(), random);
    let height = length(problem.window().height(), problem.height(), random);
    sized(problem, width, height)
}

/// Results as `f32`.
fn run(fft: &Fft, problem: &Problem, source: &[f32]) -> Vec<f32> {
    compute(problem, source, |from, to| fft.convolve(problem, from, to, &Cancel::default()).unwrap())
}

/// The ordered sums, as the direct method computes them; its own tests hold it against the reference.
fn ordered(problem: &Problem, source: &[f32]) -> Vec<f32> {
    compute(problem, source, |from, to| {
        let direct = Convolution::with(Level::chosen().unwrap(), Method::direct(problem));
        direct.run(problem, from, to).unwrap();
    })
}

fn compute(problem: &Problem, source: &[f32], convolve: impl FnOnce(&[u8], &mut [u8])) -> Vec<f32> {
    let PixelFormat { input, output, .. } = problem.format();
    let source = bytes(problem, source);
    let mut result = vec![crate::POISON; problem.values()];
    let to = &mut bytes_of_mut(&mut result)[..problem.values() * output.bytes()];
    convolve(&bytemuck::cast_slice::<u32, u8>(&source)[..problem.values() * input.bytes()], to);
    match output {
        PixelType::F32 => result,
        PixelType::U8 => to.iter().map(|&value| f32::from(value)).collect(),
        PixelType::U16 => values_of::<u16>(to).iter().map(|&value| f32::from(value)).collect(),
    }
}

/// Whether two results are the same number, or both NaN. That of an unwritten value is none.
fn same(found: f32, expected: f32) -> bool {
    found.to_bits() != crate::POISON.to_bits() && (found == expected || found.is_nan() && expected.is_nan())
}

/// Holds results against the ordered sums, and results of `f32` against the bound.
fn check(fft: &Fft, problem: &Problem, source: &[f32], what: &str) {
    let (found, expected) = (run(fft, problem, source), ordered(problem, source));
    let (width, channels) = (problem.width(), problem.format().channels);
    for (i, (&found, &expected)) in found.iter().zip(&expected).enumerate() {
        let (x, y, channel) = (i / channels % width, i / channels / width, i % channels);
        let is_right = same(found, expected)
            || problem.format().output == PixelType::F32
                && found.to_bits() != crate::POISON.to_bits()
                && is_within_bound(fft, problem, source, (x, y, channel), found);
        assert!(
            is_right,
            "{what}: column {x}, row {y}, channel {channel}: {found:e} is not {expected:e}; {}, window {} x {}, image \
             {width} x {}, {}, tiles {} x {}",
            problem.format(),
            problem.window().width(),
            problem.window().height(),
            problem.height(),
            problem.border(),
            fft.size.width,
            fft.size.height,
        );
    }
}

/// `|O - exact| <= E + u (|exact| + E) + 2^-150`, as [`ErrorBound`] has it. Not for windows with NaN or infinity.
fn is_within_bound(fft: &Fft, problem: &Problem, source: &[f32], place: (usize, usize, usize), found: f32) -> bool {
    let (bound, (scale, offset)) = (fft.bound(problem), problem.scale_and_offset());
    let input = problem.format().input;
    let (mut exact, mut magnitudes) = (0.0, 0.0);
    let (mut window, channels) = (problem.window().coefficients().iter(), problem.format().channels);
    // The values of a window are seen one by one, in order.
    let mut add = |value: f32| {
        let product = f64::from(*window.next().unwrap()) * f64::from(value);
        exact += product;
        magnitudes += product.abs();
    };
    let (code, (above, before)) = (problem.border().mode().code(), problem.origin());
    for k in 0..problem.window().height() {
        for l in 0..problem.window().width() {
            use kernels_gpu::abi::border::{OUTSIDE, map};
            let row = map(code, (place.1 + k) as i32 - above as i32, problem.height() as i32);
            let column = map(code, (place.0 + l) as i32 - before as i32, problem.width() as i32);
            let value = || source[(row as usize * problem.width() + column as usize) * channels + place.2];
            let value = if row == OUTSIDE || column == OUTSIDE { problem.border().value() } else { value() };
            add(if input == PixelType::F32 || row == OUTSIDE || column == OUTSIDE { value } else { value.round() });
        }
    }
    let (scale, u) = (f64::from(scale), f64::powi(2.0, -24));
    let error = scale.abs() * (bound.gamma() * magnitudes + bound.underflows() * f64::powi(2.0, -150));
    let exact = exact * scale + f64::from(offset);
    let last = if problem.is_plain() { 0.0 } else { u * (exact.abs() + error) + f64::powi(2.0, -150) };
    // What the oracle itself rounds.
    let oracle = magnitudes * scale.abs() * f64::EPSILON * bound.constant();
    (f64::from(found) - exact).abs() <= error + last + oracle
}

/// What was computed again, and what directly, since the last call.
fn tally(fft: &Fft) -> [usize; 2] {
    fft.scratch.drain().iter().fold([0, 0], |all, scratch| [0, 1].map(|i| all[i] + scratch.tally[i]))
}
