//! A mask as [`fft_tile`](kernels_gpu::fft::tile) reads it: its spectrum, and what a block needs to prove its results.

use std::f64::consts::TAU;

use kernels_gpu::fft::error::{least, part_constant, relative, underflow};
use kernels_gpu::fft::layout::{COEFFICIENTS, Header, Part, SIDE, SPECTRUM, TWIDDLES, frequency, length, parts};
use rustfft::FftPlanner;
use rustfft::num_complex::Complex;

use super::direct_sum::ABOVE;
use crate::{Mask, Problem};

/// Points of a transform.
const POINTS: usize = SIDE as usize;

/// All values for a problem's mask, part after part, in the order of [`layout`](kernels_gpu::fft::layout).
pub(super) fn values(problem: &Problem) -> Vec<f32> {
    let window = problem.window();
    let size = (window.width() as u32, window.height() as u32);
    let mut values = vec![0.0; length(size)];
    let count = parts(size).count();
    for (i, part) in parts(size).enumerate() {
        let of_part = PartOfMask::new(window, part);
        let header = Header {
            accumulates: if i > 0 { 1.0 } else { 0.0 },
            finishes: if i + 1 == count { 1.0 } else { 0.0 },
            ..of_part.header()
        };
        of_part.write(header, &mut values[part.offset..]);
    }
    values
}

/// A part of a mask.
struct PartOfMask {
    width: usize,
    height: usize,
    coefficients: Vec<f32>,
}

impl PartOfMask {
    fn new(window: &Mask, part: Part) -> Self {
        let [width, height, left, top] =
            [part.size.0, part.size.1, part.first.0, part.first.1].map(|number| number as usize);
        let rows = window.coefficients().chunks_exact(window.width()).skip(top).take(height);
        Self { width, height, coefficients: rows.flat_map(|row| &row[left..left + width]).copied().collect() }
    }

    fn write(&self, header: Header, values: &mut [f32]) {
        values[..Header::LENGTH].copy_from_slice(&header.values());
        for (j, to) in values[TWIDDLES..SPECTRUM].chunks_exact_mut(2).enumerate() {
            let (sine, cosine) = (TAU * j as f64 / POINTS as f64).sin_cos();
            to.copy_from_slice(&[cosine as f32, -sine as f32]);
        }
        let spectrum = self.spectrum();
        for (to, index) in values[SPECTRUM..COEFFICIENTS].chunks_exact_mut(2).zip(0..) {
            let (row, column) = frequency(index);
            let value = spectrum[row as usize * POINTS + column as usize].conj() / (POINTS * POINTS) as f64;
            to.copy_from_slice(&[value.re as f32, value.im as f32]);
        }
        values[COEFFICIENTS..][..self.coefficients.len()].copy_from_slice(&self.coefficients);
    }

    /// The numbers about it, for a mask of one part.
    fn header(&self) -> Header {
        /// With a norm of the pixels up to this one their transform does not overflow.
        const MOST_NORM: f64 = 1e18;
        /// With a product of both norms up to this one the transform of the product does not.
        const MOST_PRODUCT: f64 = 1e37;
        let of =
            |value: fn(f64) -> f64| self.coefficients.iter().map(move |&coefficient| value(f64::from(coefficient)));
        let norm = of(|coefficient| coefficient * coefficient).sum::<f64>().sqrt();
        let up = |value: f64| (value * ABOVE) as f32;
        let constant = part_constant((self.width as u32, self.height as u32));
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

    /// Its transform with zeros around it: row `a`, column `b` for these frequencies of rows and columns.
    fn spectrum(&self) -> Vec<Complex<f64>> {
        let plan = FftPlanner::new().plan_fft_forward(POINTS);
        let mut spectrum = vec![Complex::default(); POINTS * POINTS];
        for (to, row) in spectrum.chunks_exact_mut(POINTS).zip(self.coefficients.chunks_exact(self.width)) {
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
}
