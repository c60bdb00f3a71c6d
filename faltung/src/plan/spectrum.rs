//! A mask as [`fft_tile`](kernels_gpu::fft::tile) and [`fft_passes`](kernels_gpu::fft::passes) read it: its spectrum,
//! and what a block needs to prove its results.

use std::f64::consts::TAU;

use kernels_gpu::fft::error::{Transforms, least};
use kernels_gpu::fft::layout::{COEFFICIENTS, Header, SIDE, SPECTRUM, TWIDDLES, frequency, length};
use kernels_gpu::fft::passes;
use rustfft::FftPlanner;
use rustfft::num_complex::Complex;

use super::direct_sum::ABOVE;
use crate::{Mask, Problem};

/// All values for a problem's mask, in the order of [`layout`](kernels_gpu::fft::layout).
pub(super) fn values(problem: &Problem) -> Vec<f32> {
    let window = problem.window();
    let mut values = vec![0.0; length((window.width() as u32, window.height() as u32))];
    values[..Header::LENGTH].copy_from_slice(&header(window, Transforms::TILE).values());
    let factors = (0..SIDE).map(|number| number / 4 * (number % 4));
    write_factors(&mut values[TWIDDLES..SPECTRUM], factors, SIDE);
    write_spectrum(&mut values[SPECTRUM..COEFFICIENTS], window, SIDE as usize, frequency);
    values[COEFFICIENTS..].copy_from_slice(window.coefficients());
    values
}

/// All values for a problem's mask, in the order of [`passes::layout`].
pub(super) fn values_of_passes(problem: &Problem) -> Vec<f32> {
    use passes::layout::{COEFFICIENTS, POINTS, SPECTRUM, TWIDDLES, frequency, length};
    let window = problem.window();
    let mut values = vec![0.0; length((window.width() as u32, window.height() as u32))];
    values[..Header::LENGTH].copy_from_slice(&header(window, Transforms::PASSES).values());
    let factors = (0..POINTS).map(|number| number / 32 * (number % 32) % POINTS);
    write_factors(&mut values[TWIDDLES..SPECTRUM], factors, POINTS);
    write_spectrum(&mut values[SPECTRUM..COEFFICIENTS], window, POINTS as usize, frequency);
    values[COEFFICIENTS..].copy_from_slice(window.coefficients());
    values
}

/// Writes `exp(-2 pi i j / points)` for each `j`.
fn write_factors(to: &mut [f32], numbers: impl Iterator<Item = u32>, points: u32) {
    for (to, j) in to.chunks_exact_mut(2).zip(numbers) {
        let (sine, cosine) = (TAU * f64::from(j) / f64::from(points)).sin_cos();
        to.copy_from_slice(&[cosine as f32, -sine as f32]);
    }
}

/// Writes the conjugate of the mask's spectrum for tiles of `points` x `points`, divided by their number. `frequency`
/// gives row and column of each number.
fn write_spectrum(to: &mut [f32], window: &Mask, points: usize, frequency: fn(u32) -> (u32, u32)) {
    let spectrum = spectrum(window, points);
    for (to, index) in to.chunks_exact_mut(2).zip(0..) {
        let (row, column) = frequency(index);
        let value = spectrum[row as usize * points + column as usize].conj() / (points * points) as f64;
        to.copy_from_slice(&[value.re as f32, value.im as f32]);
    }
}

/// The numbers about a mask.
fn header(window: &Mask, transforms: Transforms) -> Header {
    /// With a norm of the pixels up to this one their transform does not overflow.
    const MOST_NORM: f64 = 1e18;
    /// With a product of both norms up to this one the transform of the product does not.
    const MOST_PRODUCT: f64 = 1e37;
    let of =
        |value: fn(f64) -> f64| window.coefficients().iter().map(move |&coefficient| value(f64::from(coefficient)));
    let norm = of(|coefficient| coefficient * coefficient).sum::<f64>().sqrt();
    let up = |value: f64| (value * ABOVE) as f32;
    let constant = transforms.error_constant((window.width() as u32, window.height() as u32));
    let most_norm = MOST_NORM.min(MOST_PRODUCT / norm.max(f64::MIN_POSITIVE));
    Header {
        transform: up(transforms.relative(norm)),
        underflow: up(transforms.underflow(norm)),
        least: up(least(constant)),
        sum: of(|coefficient| coefficient).sum::<f64>() as f32,
        magnitudes: (of(f64::abs).sum::<f64>() / ABOVE) as f32,
        most_squares: (most_norm * most_norm) as f32,
    }
}

/// The transform of the mask with zeros around it: row `a`, column `b` for these frequencies of rows and columns.
fn spectrum(window: &Mask, points: usize) -> Vec<Complex<f64>> {
    let plan = FftPlanner::new().plan_fft_forward(points);
    let mut spectrum = vec![Complex::default(); points * points];
    for (to, row) in spectrum.chunks_exact_mut(points).zip(window.coefficients().chunks_exact(window.width())) {
        for (to, &coefficient) in to.iter_mut().zip(row) {
            to.re = f64::from(coefficient);
        }
        plan.process(to);
    }
    /// Columns that are transformed together: what a line of the cache holds.
    const TOGETHER: usize = 8;
    let mut columns = vec![Complex::default(); TOGETHER * points];
    for first in (0..points).step_by(TOGETHER) {
        for (a, row) in spectrum.chunks_exact(points).enumerate() {
            for (b, &value) in row[first..first + TOGETHER].iter().enumerate() {
                columns[b * points + a] = value;
            }
        }
        plan.process(&mut columns);
        for (a, row) in spectrum.chunks_exact_mut(points).enumerate() {
            for (b, value) in row[first..first + TOGETHER].iter_mut().enumerate() {
                *value = columns[b * points + a];
            }
        }
    }
    spectrum
}
