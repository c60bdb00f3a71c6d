//! Images whose rows are shorter than a few vectors: vectors run down the columns.
//!
//! The columns of a block of rows become lines of `f32`, with the border above and below. A result is a sum over taps: a
//! coefficient, the line of a column, and a row in it. The taps come in the order of the contract.
//! ```text
//! dense:      O[x][y] = sum over k, over l of W[k, l] * line[x + l][y + k]
//! separable:  F[x][y] = sum over l of row[l] * line[x + l][y],  O[x][y] = sum over k of column[k] * F[x][y + k]
//! ```

use kernels_gpu::abi::border::{OUTSIDE, map};

use super::line::Values;
use super::line::image_rows;
use super::recompute::Recompute;
use super::simd::{Level, Simd, Work};
use super::sink::Output;
use super::tile::Window;
use crate::Problem;

/// Vectors whose sums are in registers at once.
const SUMS: usize = 8;
/// Rows of a block.
pub(super) const ROWS: usize = 1024;

/// Whether the rows of an image are so short, and the columns so long, that vectors should run down the columns.
pub(super) fn is_narrow(level: Level, problem: &Problem) -> bool {
    problem.row_values() <= 3 * level.lanes() && problem.height() >= 4 * SUMS * level.lanes()
}

/// What all blocks of a problem have in common.
pub(super) struct Narrow<'a> {
    /// The problem.
    pub(super) problem: &'a Problem,
    /// Column and row of a separable mask.
    pub(super) factors: Option<(&'a Window, &'a [f32])>,
    /// Results further than this from a whole number are uncertain. Infinity unless the image is of bytes.
    pub(super) limit: f32,
    /// The image.
    pub(super) source: Values<'a>,
    /// The instructions.
    pub(super) level: Level,
}

/// Memory that a thread uses again for each block.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    lines: Vec<f32>,
    filtered: Vec<f32>,
    sums: Vec<f32>,
}

impl Narrow<'_> {
    /// Computes the rows of `results`, the first of which is row `top`.
    pub(super) fn compute<U: Output>(&self, scratch: &mut Scratch, top: usize, results: &mut [U]) {
        let (problem, step) = (self.problem, self.problem.format().channels);
        let width = problem.row_values();
        let count = results.len() / width;
        let padded = count.next_multiple_of(SUMS * self.level.lanes());
        let (above, window) = (problem.window().height() - 1, problem.window());
        // A filtered line is computed in whole vectors, too.
        let filtered_length = (padded + above).next_multiple_of(SUMS * self.level.lanes());
        let length = filtered_length + above;
        let Scratch { lines, filtered, sums } = scratch;
        self.fill(lines, length, top, count);
        filtered.resize(filtered_length, 0.0);
        sums.resize(padded, 0.0);

        let (code, columns) = (problem.border().mode().code(), problem.width() as i32);
        // The line of a column that is a number of columns from the first one; the last line is that of the border.
        let line = |column: i32, channel: usize| {
            let place = map(code, column, columns);
            let line = if place == OUTSIDE { width } else { place as usize * step + channel };
            &lines[line * length..][..length]
        };
        let mut again = Vec::new();
        for value in 0..width {
            let first = (value / step) as i32 - problem.origin().1 as i32;
            let row: Vec<&[f32]> = (0..window.width()).map(|l| line(first + l as i32, value % step)).collect();
            if let Some((column, coefficients)) = self.factors {
                let taps: Vec<Tap<'_>> = coefficients.iter().copied().zip(row).collect();
                self.level.run(Taps { taps: &taps, sums: filtered });
                let taps: Vec<Tap<'_>> =
                    (0..window.height()).map(|k| (column.coefficient(k), &filtered[k..])).collect();
                self.level.run(Taps { taps: &taps, sums });
            } else {
                let of_row = |(k, coefficients): (usize, &[f32])| -> Vec<Tap<'_>> {
                    coefficients.iter().zip(&row).map(|(&coefficient, line)| (coefficient, &line[k..])).collect()
                };
                let taps: Vec<Tap<'_>> =
                    window.coefficients().chunks_exact(window.width()).enumerate().flat_map(of_row).collect();
                self.level.run(Taps { taps: &taps, sums });
            }
            for (y, (to, &sum)) in results[value..].iter_mut().step_by(width).zip(&*sums).enumerate() {
                let result = problem.finish(sum);
                *to = U::from_f32(result);
                if (result - result.round_ties_even()).abs() > self.limit {
                    again.push((top + y, value));
                }
            }
        }
        if let (Values::U8(image), false) = (self.source, again.is_empty()) {
            Recompute::new(problem, image, self.level).values(&again, |number, value| {
                let (y, x) = again[number];
                results[(y - top) * width + x] = U::from_f32(value);
            });
        }
    }

    /// Writes the lines of all columns and, after them, that of the border's value. Beyond the rows that `count` results
    /// from row `top` on need they are 0.
    fn fill(&self, lines: &mut Vec<f32>, length: usize, top: usize, count: usize) {
        let (width, outside) = (self.problem.row_values(), self.problem.border().value());
        lines.clear();
        lines.resize((width + 1) * length, 0.0);
        let rows = image_rows(self.problem, top, count);
        for (s, &row) in rows.iter().enumerate() {
            for value in 0..width {
                let inside = || self.source.at(row as usize * width + value);
                lines[value * length + s] = if row == OUTSIDE { outside } else { inside() };
            }
        }
        lines[width * length..][..rows.len()].fill(outside);
    }
}

/// A coefficient, and the pixels that it is multiplied with, from the first output on.
type Tap<'a> = (f32, &'a [f32]);

/// `sums[y] = sum over the taps of coefficient * pixels[y]`, one fused multiply-add a tap, from 0.
struct Taps<'a> {
    taps: &'a [Tap<'a>],
    sums: &'a mut [f32],
}

impl Work for Taps<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { taps, sums } = self;
        assert!(
            sums.len().is_multiple_of(SUMS * S::LANES) && taps.iter().all(|(_, pixels)| pixels.len() >= sums.len())
        );
        for first in (0..sums.len()).step_by(SUMS * S::LANES) {
            let mut vectors = [simd.splat(0.0); SUMS];
            for &(coefficient, pixels) in taps {
                let coefficient = simd.splat(coefficient);
                for (n, vector) in vectors.iter_mut().enumerate() {
                    // SAFETY: first + SUMS * LANES is at most the length of the sums, and of the pixels.
                    let pixels = unsafe { simd.load(pixels.as_ptr().add(first + n * S::LANES)) };
                    *vector = simd.fma(coefficient, pixels, *vector);
                }
            }
            for (n, &vector) in vectors.iter().enumerate() {
                // SAFETY: as above.
                unsafe { simd.store(sums.as_mut_ptr().add(first + n * S::LANES), vector) };
            }
        }
    }
}
