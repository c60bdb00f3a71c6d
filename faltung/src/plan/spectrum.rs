//! A mask as [`fft_tile`](kernels_gpu::fft::tile) reads it: its spectrum, and what a block needs to prove its results.

use std::f64::consts::TAU;

use kernels_gpu::fft::error::{error_constant, least, relative, underflow};
use kernels_gpu::fft::layout::{COEFFICIENTS, Header, SIDE, SPECTRUM, TWIDDLES, frequency, length};
use rustfft::FftPlanner;
use rustfft::num_complex::Complex;

use super::direct_sum::ABOVE;
use crate::{Mask, Problem};

/// Points of a transform.
const POINTS: usize = SIDE as usize;

/// All values for a problem's mask, in the order of [`layout`](kernels_gpu::fft::layout).
pub(super) fn values(problem: &Problem) -> Vec<f32> {
    let mask = problem.window();
    let mut values = vec![0.0; length((mask.width() as u32, mask.height() as u32))];
    values[..Header::LENGTH].copy_from_slice(&header(mask).values());
    for (j, to) in values[TWIDDLES..SPECTRUM].chunks_exact_mut(2).enumerate() {
        let (sine, cosine) = (TAU * j as f64 / POINTS as f64).sin_cos();
        to.copy_from_slice(&[cosine as f32, -sine as f32]);
    }
    let spectrum = spectrum(mask);
    for (to, index) in values[SPECTRUM..COEFFICIENTS].chunks_exact_mut(2).zip(0..) {
        let (row, column) = frequency(index);
        let value = spectrum[row as usize * POINTS + column as usize].conj() / (POINTS * POINTS) as f64;
        to.copy_from_slice(&[value.re as f32, value.im as f32]);
    }
    values[COEFFICIENTS..][..mask.coefficients().len()].copy_from_slice(mask.coefficients());
    values
}

/// The numbers about a mask.
fn header(mask: &Mask) -> Header {
    /// With a norm of the pixels up to this one their transform does not overflow.
    const MOST_NORM: f64 = 1e18;
    /// With a product of both norms up to this one the transform of the product does not.
    const MOST_PRODUCT: f64 = 1e37;
    let of = |value: fn(f64) -> f64| mask.coefficients().iter().map(move |&coefficient| value(f64::from(coefficient)));
    let norm = of(|coefficient| coefficient * coefficient).sum::<f64>().sqrt();
    let up = |value: f64| (value * ABOVE) as f32;
    let constant = error_constant((mask.width() as u32, mask.height() as u32));
    let most_norm = MOST_NORM.min(MOST_PRODUCT / norm.max(f64::MIN_POSITIVE));
    Header {
        transform: up(relative(norm)),
        underflow: up(underflow(norm)),
        least: up(least(constant)),
        sum: of(|coefficient| coefficient).sum::<f64>() as f32,
        magnitudes: (of(f64::abs).sum::<f64>() / ABOVE) as f32,
        most_squares: (most_norm * most_norm) as f32,
        accumulates: 0.0,
        finishes: 1.0,
    }
}

/// The transform of a mask with zeros around it: row `a`, column `b` for these frequencies of rows and columns.
fn spectrum(mask: &Mask) -> Vec<Complex<f64>> {
    let plan = FftPlanner::new().plan_fft_forward(POINTS);
    let mut spectrum = vec![Complex::default(); POINTS * POINTS];
    for (to, row) in spectrum.chunks_exact_mut(POINTS).zip(mask.coefficients().chunks_exact(mask.width())) {
        for (to, &coefficient) in to.iter_mut().zip(row) {
            to.re = f64::from(coefficient);
        }
        plan.process(to);
    }
    let mut column = vec![Complex::default(); POINTS];
    for b in 0..POINTS {
        for (a, to) in column.iter_mut().enumerate() {
            *to = spectrum[a * POINTS + b];
        }
        plan.process(&mut column);
        for (a, &from) in column.iter().enumerate() {
            spectrum[a * POINTS + b] = from;
        }
    }
    spectrum
}
