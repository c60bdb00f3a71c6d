//! Images whose rows are shorter than a few vectors: vectors run down the columns.
//!
//! Each image column of a block becomes a line of `f32` with its top and bottom border. A tap is a coefficient, the
//! line of a column, and an offset into it. The taps come in the order of the contract.
//! ```text
//! dense:      O[x][y] = sum over k, over l of W[k, l] * line[x + l][y + k]
//! separable:  F[x][y] = sum over l of row[l] * line[x + l][y],  O[x][y] = sum over k of column[k] * F[x][y + k]
//! ```

use kernels_gpu::abi::border::{OUTSIDE, map};

use super::finish::{Results, put};
use super::line::{Values, image_rows};
use super::recompute::Recompute;
use super::simd::{Level, Simd, Work};
use super::tile::Window;
use super::uncertain::{Limits, Uncertain};
use crate::image::bytes_of_mut;
use crate::parallel::Cancel;
use crate::{PixelType, Problem, Result};

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
    /// Which results are uncertain. None unless the image is of bytes.
    pub(super) limits: Limits,
    /// The image.
    pub(super) source: Values<'a>,
    /// The instructions.
    pub(super) level: Level,
    /// Whether to end early.
    pub(super) cancel: &'a Cancel,
}

/// Memory that a thread uses again for each block.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    lines: Vec<f32>,
    filtered: Vec<f32>,
}

impl Narrow<'_> {
    /// Computes some rows. `results` are their bytes, and `top` is the first row.
    ///
    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub(super) fn compute(&self, scratch: &mut Scratch, top: usize, results: &mut [u8]) -> Result<()> {
        let (problem, step) = (self.problem, self.problem.format().channels);
        let width = problem.row_values();
        let (pixel, bytes) = (problem.format().output, problem.format().output.bytes());
        let count = results.len() / (width * bytes);
        let at_once = SUMS * self.level.lanes();
        let padded = count.next_multiple_of(at_once);
        let (window, below) = (problem.window(), problem.window().height() - 1);
        // A filtered line is computed in whole vectors, too.
        let filtered_length = (padded + below).next_multiple_of(at_once);
        let length = filtered_length + below;
        let Scratch { lines, filtered } = scratch;
        lines.clear();
        lines.resize((width + 1) * length, 0.0);
        filtered.resize(filtered_length, 0.0);
        match self.source {
            Values::F32(image) => self.fill(image, lines, length, top, count),
            Values::U8(image) => self.fill(image, lines, length, top, count),
            Values::U16(image) => self.fill(image, lines, length, top, count),
        }

        let (code, columns) = (problem.border().mode().code(), problem.width() as i32);
        // The line of a column of the image; the last line is that of the border.
        let line = |column: i32, channel: usize| {
            let place = map(code, column, columns);
            let line = if place == OUTSIDE { width } else { place as usize * step + channel };
            &lines[line * length..][..length]
        };
        let finish = problem.last_step();
        let mut column_results = vec![0_u8; padded * bytes];
        let mut uncertain = Uncertain::new(self.level, self.limits, padded);
        let mut recompute = Recompute::new(problem, self.source, self.level, self.cancel, (top, 0));
        for value in 0..width {
            self.cancel.check()?;
            let first = (value / step) as i32 - problem.origin().1 as i32;
            let row = (0..window.width()).map(|l| line(first + l as i32, value % step));
            let taps: Vec<Tap<'_>> = if let Some((column, coefficients)) = self.factors {
                let taps: Vec<Tap<'_>> = coefficients.iter().copied().zip(row).collect();
                let (pixel, to) = (PixelType::F32, bytes_of_mut(filtered));
                self.level.run(Taps { taps: &taps, finish: None, pixel, to, uncertain: &mut Uncertain::none() });
                column
                    .column_from_bottom()
                    .iter()
                    .rev()
                    .enumerate()
                    .map(|(k, &value)| (value, &filtered[k..]))
                    .collect()
            } else {
                let row: Vec<&[f32]> = row.collect();
                let places = (0..window.height()).flat_map(|k| row.iter().map(move |line| &line[k..]));
                window.coefficients().iter().copied().zip(places).collect()
            };
            self.level.run(Taps { taps: &taps, finish, pixel, to: &mut column_results, uncertain: &mut uncertain });
            let (to, from) = (&mut results[value * bytes..], &column_results[..count * bytes]);
            match bytes {
                1 => copy_column::<1>(from, to, width),
                2 => copy_column::<2>(from, to, width),
                _ => copy_column::<4>(from, to, width),
            }
            uncertain.places(1, 0..count, |_, row| recompute.push(row, [value]));
        }
        if recompute.is_empty() {
            return Ok(());
        }
        recompute.compute_rest(&mut Results::new(results.chunks_mut(width * bytes).collect(), pixel))
    }

    /// Writes the lines of all columns and, after them, that of the border's value, as far as the windows of `count`
    /// results from row `top` on reach.
    fn fill<T: Copy + Into<f32>>(&self, image: &[T], lines: &mut [f32], length: usize, top: usize, count: usize) {
        let (width, outside) = (self.problem.row_values(), self.problem.border().value());
        let rows = image_rows(self.problem, top, count);
        // The rows in the image follow one another, but for those that the border repeats.
        let above = self.problem.origin().0.saturating_sub(top).min(rows.len());
        let first = top.saturating_sub(self.problem.origin().0);
        let inside = above..(above + self.problem.height() - first).min(rows.len()).max(above);
        for (value, line) in lines.chunks_exact_mut(length).take(width).enumerate() {
            let (to, from) = (&mut line[inside.clone()], &image[first * width + value..]);
            if width == 1 {
                to.iter_mut().zip(from).for_each(|(to, &from)| *to = from.into());
            } else {
                to.iter_mut().zip(from.iter().step_by(width)).for_each(|(to, &from)| *to = from.into());
            }
            for s in (0..inside.start).chain(inside.end..rows.len()) {
                line[s] = if rows[s] == OUTSIDE { outside } else { image[rows[s] as usize * width + value].into() };
            }
        }
        lines[width * length..][..rows.len()].fill(outside);
    }
}

/// Writes a column: value i of `from` becomes value `i * width` of `to`. A value has `BYTES` bytes.
fn copy_column<const BYTES: usize>(from: &[u8], to: &mut [u8], width: usize) {
    if width == 1 {
        return to.copy_from_slice(from);
    }
    let (from, to) = (from.as_chunks::<BYTES>().0, to.as_chunks_mut::<BYTES>().0);
    to.iter_mut().step_by(width).zip(from).for_each(|(to, from)| *to = *from);
}

/// A coefficient, and the pixels that it is multiplied with, from the first output on.
type Tap<'a> = (f32, &'a [f32]);

/// `to[y] = sum over the taps of coefficient * pixels[y]`, one fused multiply-add a tap, from 0; then scale and offset.
struct Taps<'a> {
    taps: &'a [Tap<'a>],
    finish: Option<(f32, f32)>,
    /// The type of the results.
    pixel: PixelType,
    /// Their bytes.
    to: &'a mut [u8],
    uncertain: &'a mut Uncertain,
}

impl Work for Taps<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { taps, finish, pixel, to, uncertain } = self;
        let count = to.len() / pixel.bytes();
        assert!(count.is_multiple_of(SUMS * S::LANES) && taps.iter().all(|(_, pixels)| pixels.len() >= count));
        assert!(uncertain.has_room(S::LANES, count));
        let mut uncertain = uncertain.notes();
        for first in (0..count).step_by(SUMS * S::LANES) {
            let mut vectors = [simd.splat(0.0); SUMS];
            for &(coefficient, pixels) in taps {
                let coefficient = simd.splat(coefficient);
                for (n, vector) in vectors.iter_mut().enumerate() {
                    // SAFETY: first + SUMS * LANES is at most the length of the results, and of the pixels.
                    let pixels = unsafe { simd.load(pixels.as_ptr().add(first + n * S::LANES)) };
                    *vector = simd.fma(coefficient, pixels, *vector);
                }
            }
            if let Some((scale, offset)) = finish {
                let (scale, offset) = (simd.splat(scale), simd.splat(offset));
                for vector in &mut vectors {
                    *vector = simd.fma(*vector, scale, offset);
                }
            }
            // SAFETY: first + SUMS * LANES is at most the length of the results, for which `uncertain` has room.
            unsafe {
                put(
                    simd,
                    &vectors,
                    pixel,
                    to.as_mut_ptr().add(first * pixel.bytes()),
                    (0, first),
                    uncertain.as_deref_mut(),
                )
            };
        }
    }
}
