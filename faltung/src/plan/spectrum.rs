//! A mask as [`fft_tile`](kernels_gpu::fft::tile) and [`fft_passes`](kernels_gpu::fft::passes) read it: its spectrum,
//! and what a block needs to prove its results.
//!
//! # Without a proof
//! The class [`Accuracy::Normwise`] needs no proof. Then the least magnitude of a result that holds is 0, and the
//! blocks accept each result of a tile whose norm is finite.
//!
//! With the names of [`error`](kernels_gpu::fft::error), `|O - exact| <= E + u |m S| + u |O|`. Let `I` be the pixels of
//! the pair of tiles, and `n` the number of coefficients. `|O|` is at most about `||M|| ||I||`, and `|S| <= sqrt(n)
//! ||M||`.
//! - `fft_tile`: `m` is the mean of all pixels. So `||z|| <= ||I||`, and `|m| <= ||I|| / sqrt(P)`.
//!   With several channels the tiles are scaled, and `||z|| <= sqrt(5) ||I||`.
//! - `fft_passes`: `m` is the mean of 256 of the `P = 2^20` pixels. They may all be bright in a dark tile. So only
//!   `||z|| <= ||I|| + sqrt(P) |m| <= 65 ||I||` and `|m| <= ||I||` are certain. In usual images `||z||` is less than
//!   `||I||`.

use std::f64::consts::TAU;

use faltung_fft::Complex;
use kernels_gpu::fft::error::{Transforms, least};
use kernels_gpu::fft::layout::{COEFFICIENTS, Header, SIDE, SPECTRUM, TWIDDLES, frequency, length};
use kernels_gpu::fft::passes;
use kernels_gpu::registry::Ineligible;

use super::direct_sum::ABOVE;
use crate::accuracy::UNIT_ROUNDOFF;
use crate::{ErrorBound, Mask, Problem};

/// All values for a problem's mask, in the order of [`layout`](kernels_gpu::fft::layout).
pub(super) fn values(problem: &Problem, is_proven: bool) -> Vec<f32> {
    let window = problem.window();
    let mut values = vec![0.0; length((window.width() as u32, window.height() as u32))];
    values[..Header::LENGTH].copy_from_slice(&header(window, Transforms::TILE, is_proven).values());
    let factors = (0..SIDE).map(|number| number / 4 * (number % 4));
    write_factors(&mut values[TWIDDLES..SPECTRUM], factors, SIDE);
    write_spectrum(&mut values[SPECTRUM..COEFFICIENTS], window, SIDE as usize, frequency);
    values[COEFFICIENTS..].copy_from_slice(window.coefficients());
    values
}

/// All values for a problem's mask, in the order of [`passes::layout`].
pub(super) fn values_of_passes(problem: &Problem, is_proven: bool) -> Vec<f32> {
    use passes::layout::{COEFFICIENTS, POINTS, SPECTRUM, TWIDDLES, frequency, length};
    let window = problem.window();
    let mut values = vec![0.0; length((window.width() as u32, window.height() as u32))];
    values[..Header::LENGTH].copy_from_slice(&header(window, Transforms::PASSES, is_proven).values());
    let factors = (0..POINTS).map(|number| number / 32 * (number % 32) % POINTS);
    write_factors(&mut values[TWIDDLES..SPECTRUM], factors, POINTS);
    write_spectrum(&mut values[SPECTRUM..COEFFICIENTS], window, POINTS as usize, frequency);
    values[COEFFICIENTS..].copy_from_slice(window.coefficients());
    values
}

/// The bound of results that are not proven, for a kernel for images of `channels` channels.
pub(super) fn normwise(problem: &Problem, transforms: Transforms, channels: u32) -> ErrorBound {
    let norm = problem.window().norm();
    let of_transforms = if norm > 0.0 { transforms.relative(norm) / (norm * UNIT_ROUNDOFF) } else { 0.0 };
    // At most ||z|| and |m|, for ||I|| = 1.
    let (pixels, mean) = match transforms {
        Transforms::PASSES => (1.0 + (transforms.points() / f64::from(passes::THREADS)).sqrt(), 1.0),
        _ if channels > 1 => (5.0_f64.sqrt(), 1.0 / transforms.points().sqrt()),
        _ => (1.0, 1.0 / transforms.points().sqrt()),
    };
    let coefficients = problem.window().coefficients().len() as f64;
    // 1 for |O|, 1 more for terms of second order.
    let constant = of_transforms * pixels + mean * coefficients.sqrt() + 2.0;
    ErrorBound::normwise(constant.ceil()).with_underflows(64.0 * transforms.points() * (1.0 + norm))
}

/// Refuses masks whose sums are not finite as `f32`.
///
/// The [`Header`] holds the sum of the coefficients, and that of their magnitudes. If one of them is infinite, so are
/// both sides of the comparison that proves a tile, and every result counts as proven.
pub(super) fn expect_finite_sums(window: &Mask) -> Result<(), Ineligible> {
    let magnitudes = sum_of_magnitudes(window);
    if magnitudes <= f64::from(f32::MAX) {
        return Ok(());
    }
    // NaN is in no range, either.
    let found = magnitudes as f32;
    let property = "the sum of the coefficients' magnitudes, which must be finite as f32";
    Err(Ineligible::Range { property, required: (0.0, f32::MAX), found: (found, found) })
}

/// The sum of the magnitudes of the coefficients.
fn sum_of_magnitudes(window: &Mask) -> f64 {
    window.coefficients().iter().map(|&coefficient| f64::from(coefficient).abs()).sum()
}

/// Refuses masks with which hardly any result of a usual image is proven: of few coefficients, or of few that are
/// large.
///
/// The image is noise from 0 to 1: its mean is 1/2, and `||z|| = sqrt(P / 6)`. Half of each window is outside, and 0.
/// So the magnitude of a result is at most a quarter of the sum of the coefficients' magnitudes. It must be at least
/// the error divided by `c u`.
pub(super) fn expect_proofs(window: &Mask, transforms: Transforms) -> Result<(), Ineligible> {
    let found = (sum_of_magnitudes(window) / window.norm()) as f32;
    let constant = transforms.error_constant((window.width() as u32, window.height() as u32));
    let norm_of_noise = (transforms.points() / 6.0).sqrt();
    let least = (4.0 * f64::from(transforms.constant()) * norm_of_noise / constant as f64) as f32;
    // A NaN is not worth a transform, either.
    if found >= least {
        return Ok(());
    }
    let property = "the sum of the coefficients' magnitudes divided by their 2-norm";
    Err(Ineligible::Range { property, required: (least, f32::INFINITY), found: (found, found) })
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

/// The numbers about a mask, with which a block proves its results or accepts them without a proof. They are finite:
/// see [`expect_finite_sums`].
fn header(window: &Mask, transforms: Transforms, is_proven: bool) -> Header {
    /// With a norm of the pixels up to this one their transform does not overflow.
    const MOST_NORM: f64 = 1e18;
    /// With a product of both norms up to this one the transform of the product does not.
    const MOST_PRODUCT: f64 = 1e37;
    let norm = window.norm();
    let up = |value: f64| (value * ABOVE) as f32;
    let constant = transforms.error_constant((window.width() as u32, window.height() as u32));
    let most_norm = MOST_NORM.min(MOST_PRODUCT / norm.max(f64::MIN_POSITIVE));
    Header {
        transform: up(transforms.relative(norm)),
        underflow: up(transforms.underflow(norm)),
        least: if is_proven { up(least(constant)) } else { 0.0 },
        sum: window.coefficients().iter().map(|&coefficient| f64::from(coefficient)).sum::<f64>() as f32,
        magnitudes: (sum_of_magnitudes(window) / ABOVE) as f32,
        most_squares: (most_norm * most_norm) as f32,
    }
}

/// The transform of the mask with zeros around it: row `a`, column `b` for these frequencies of rows and columns.
fn spectrum(window: &Mask, points: usize) -> Vec<Complex<f64>> {
    let plan = faltung_fft::complex(points).forward;
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
