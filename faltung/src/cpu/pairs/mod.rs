//! Images of bytes and separable masks without negative coefficients, such as Gaussians: dot products of pairs of
//! 16-bit numbers.
//!
//! ```text
//! two rows of bytes --widen--> 16-bit numbers --along the row--> lines of pairs
//! lines of pairs --along the column--> two rows of results
//! ```
//! One instruction multiplies two pairs of signed 16-bit numbers and adds both products in 32 bits, in each lane of a
//! vector: twice as many products as `f32` has. Both passes use it:
//!
//! - **Along the row** a pair is two neighbouring pixels of a channel. The sums of 32 bits are exact. 16 of their bits
//!   are the filtered value, with 8 binary digits behind the point. Only this step rounds.
//! - **Along the column** a pair is the filtered values of two rows, so two rows are filtered together.
//!
//! Where the row or the column has a pair of coefficients `(c0, c1)` for one of two neighbouring results, it has
//! `(0, c0), (c1, c2)` for the other one. So both read the same pairs.
//!
//! # Which results are certain
//! A result is `floor(z)` without its last 8 bits, where `z = 256 s + 128 + r + e`. Here `s` is the ordered sum, and
//! `e` is the error. `|e|` is at most the radius `r`, the sum of these, in units of 2^-8:
//!
//! 1. The coefficients in fixed point are not exactly the mask: `sum |column row - M| * 127.5 * 256`. A pixel is 127.5
//!    plus or minus up to 127.5. What the first part makes of the difference is known, and it is subtracted.
//! 2. Filtered rows are rounded by up to 1/2, which counts `sum(column)` times.
//! 3. The ordered sum has an error: [`DirectSum`].
//!
//! If `s` rounds to an integer `m`, then `z` is at least `256 m` and less than `256 (m + 1) + 2 r`. So if the last 8
//! bits of `floor(z)` are more than `2 r`, the result is `m`. The others are recomputed as ordered sums.

mod passes;

use super::aligned::Aligned;
use super::finish::Results;
use super::recompute::Recompute;
use super::simd::{Dot, Level, NoVnni};
use super::strips::{ByteBlocks, ByteMask, RingStarts, Strip};
use crate::plan::Factors;
use crate::plan::direct_sum::{DirectSum, power};
use crate::{PixelType, Problem, Result};
use passes::{AlongColumn, AlongRow, PLACE, Places, SLACK, Widen};

/// The largest coefficient in fixed point.
const MOST: f64 = i16::MAX as f64;

/// Scales of the row that are tried. With another scale other coefficients are rounded up.
const SCALES: usize = 64;

/// The coefficients of a pass.
#[derive(Clone, Debug)]
struct Coefficients {
    /// In pairs, for the first of two results; the lower half is the first coefficient.
    even: Vec<u32>,
    /// For the second one: they begin with a 0.
    odd: Vec<u32>,
    /// Where a sum begins.
    bias: u32,
    /// The place of the result's 16 bits in a sum.
    shift: u32,
}

impl Coefficients {
    fn new(whole: &[i64], bias: i64, shift: i32) -> Self {
        let pairs = whole.len() / 2 + 1;
        let coefficient = |at: usize| whole.get(at).map_or(0, |&value| value as u16);
        let pair = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
        let before = |at: usize| at.checked_sub(1).map_or(0, coefficient);
        Self {
            even: (0..pairs).map(|i| pair(coefficient(2 * i), coefficient(2 * i + 1))).collect(),
            odd: (0..pairs).map(|i| pair(before(2 * i), coefficient(2 * i))).collect(),
            bias: bias as u32,
            shift: shift as u32,
        }
    }
}

/// A mask in fixed point.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    row: Coefficients,
    column: Coefficients,
    /// Results with a smaller fraction are uncertain, in units of 2^-8.
    uncertain: u16,
    sizes: [usize; 2],
    /// Whether `vpdpwssd` may be used. Only a test sets it to false.
    uses_vnni: bool,
}

impl Pairs {
    /// The mask of a problem. None if it is of another kind.
    pub(super) fn of(problem: &Problem) -> Option<Self> {
        let output = problem.format().output;
        if problem.integer_pixels() != Some(PixelType::U8) || output != PixelType::U8 || !problem.is_plain() {
            return None;
        }
        let mask = problem.window();
        if !mask.coefficients().iter().all(|&coefficient| coefficient >= 0.0) {
            return None;
        }
        let factors = Factors::of(mask)?;
        let sum = |values: &[f32]| values.iter().map(|&value| f64::from(value)).sum::<f64>();
        // The row sums to 1.
        let of_row = sum(factors.row());
        let row: Vec<f64> = factors.row().iter().map(|&value| f64::from(value) / of_row).collect();
        let column: Vec<f64> = factors.column().iter().map(|&value| f64::from(value) * of_row).collect();
        let total = column.iter().sum::<f64>();
        let largest = |values: &[f64]| values.iter().fold(0.0_f64, |largest, &value| largest.max(value));
        let (of_row, of_column) = (largest(&row), largest(&column));
        // Denormal factors, and sums beyond a byte.
        if !(1e-3..1.001).contains(&total) {
            return None;
        }
        let bits = |largest: f64, most: i32| (14..=most).rev().find(|&bits| largest * power(bits) <= MOST);
        let (row_bits, column_bits) = (bits(of_row, 17)?, bits(of_column, 16)?);
        let ordered = DirectSum::of(problem)?.error() * 256.0;
        let try_scale = |number: usize| {
            let scale = 1.0 - number as f64 / (4 * SCALES) as f64;
            let whole =
                |values: &[f64], scale: f64| values.iter().map(|value| (value * scale).round() as i64).collect();
            let (row, column): (Vec<i64>, Vec<i64>) =
                (whole(&row, power(row_bits) * scale), whole(&column, power(column_bits) / scale));
            let sum = |values: &[i64]| values.iter().sum::<i64>() as f64;
            // A filtered value, and its rounding, fit 16 bits.
            if of_column * power(column_bits) / scale > MOST || sum(&row) > power(row_bits) * 1.0009 {
                return None;
            }
            let (mut left, mut sum_left) = (0.0, 0.0);
            let unit = power(row_bits) * power(column_bits);
            for (values, &of_column) in mask.coefficients().chunks_exact(row.len()).zip(&column) {
                for (&value, &of_row) in values.iter().zip(&row) {
                    let rest = (of_row * of_column) as f64 / unit - f64::from(value);
                    left += rest.abs();
                    sum_left += rest;
                }
            }
            let (left, centre) = (left * 127.5 * 256.0, sum_left * 127.5 * 256.0);
            let radius = left + 0.5 * sum(&column) / power(column_bits) + ordered;
            Some((radius, centre, row, column))
        };
        let (radius, centre, row, column) =
            (0..SCALES).filter_map(try_scale).min_by(|(a, ..), (b, ..)| a.total_cmp(b))?;
        // Sums of `f64` are rounded, and so is the bias below.
        let radius = radius * 1.001 + 1e-4;
        let uncertain = (2.0 * radius).floor() + 1.0;
        let largest = 255.0 * 256.0 * total + 129.0 + 2.0 * radius + radius;
        if uncertain > 64.0 || largest >= power(16) {
            return None;
        }
        // Filtered values have 2^15 subtracted, so that they are signed. The column gives it back.
        let row_shift = row_bits + PLACE as i32 - 8;
        let row_bias = (1 << (row_shift - 1)) - (1_i64 << (15 + row_shift));
        let column_bias =
            ((128.0 + radius - centre) * power(column_bits)).ceil() as i64 + (column.iter().sum::<i64>() << 15);
        Some(Self {
            row: Coefficients::new(&row, row_bias, row_shift),
            column: Coefficients::new(&column, column_bias, column_bits),
            uncertain: uncertain as u16,
            sizes: [column.len(), row.len()],
            uses_vnni: true,
        })
    }

    /// As if all results were certain, to see that wrong ones are noticed.
    #[cfg(test)]
    pub(super) fn trust_all(&mut self) {
        self.uncertain = 0;
    }

    /// As on a CPU that has AVX-512 and not VNNI.
    #[cfg(test)]
    pub(super) fn without_vnni(mut self) -> Self {
        self.uses_vnni = false;
        self
    }

    /// The share of uncertain results, if all fractions are equally likely.
    pub(super) fn uncertain_part(&self) -> f64 {
        f64::from(self.uncertain) / 256.0
    }

    /// The cost in multiply-adds of the direct method for a result, without that of uncertain ones.
    pub(super) fn cost(&self, level: Level) -> f64 {
        let taps = (self.sizes[0] + self.sizes[1]) as f64;
        match level {
            Level::Avx512 => 3.5 + 0.3 * taps,
            Level::Avx2 => 5.0 + 0.5 * taps,
            // Nobody has measured them.
            Level::Neon | Level::Portable => f64::INFINITY,
        }
    }
}

/// Memory that a thread uses again for each block.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Two lines of bytes, with the border.
    bytes: [Aligned<u8>; 2],
    /// The same as pairs.
    even: [Aligned<u16>; 2],
    odd: [Aligned<u16>; 2],
    /// Filtered lines of pairs.
    lines: Aligned<u16>,
    /// The second row of results, if there is only one.
    spare: Aligned<u8>,
    uncertain: [Places; 2],
}

impl ByteMask for Pairs {
    type Scratch = Scratch;

    fn line_bytes_per_column(&self) -> usize {
        4 * self.column.even.len()
    }

    /// The values under the last window, and the pair after them.
    fn beyond(&self, channels: usize) -> usize {
        2 * self.row.even.len() * channels
    }

    fn compute(
        strip: &Strip<'_, Self>,
        scratch: &mut Scratch,
        results: &mut Results<'_>,
        recompute: &mut Recompute<'_>,
    ) -> Result<()> {
        // One instruction for two products and their addition. Where LLVM has the choice, it takes two.
        match strip.blocks.level.vnni().filter(|_| strip.blocks.mask.uses_vnni) {
            Some(vnni) => strip.pairs(vnni, scratch, results, recompute),
            None => strip.pairs(NoVnni, scratch, results, recompute),
        }
    }
}

/// Two lines at once: as bytes, and as pairs.
struct TwoLines<'a> {
    bytes: [&'a mut [u8]; 2],
    even: [&'a mut [u16]; 2],
    odd: [&'a mut [u16]; 2],
}

impl Strip<'_, Pairs> {
    /// Computes the strip, two rows at a time.
    fn pairs<D: Dot>(
        &self,
        dot: D,
        scratch: &mut Scratch,
        results: &mut Results<'_>,
        recompute: &mut Recompute<'_>,
    ) -> Result<()> {
        let ByteBlocks { mask, level, cancel, .. } = *self.blocks;
        let (width, length) = (self.width, self.line_length + 2 * SLACK);
        let (count, line) = (mask.column.even.len(), 2 * (width.next_multiple_of(SLACK) + SLACK));
        let Scratch { bytes, even, odd, lines, spare, uncertain } = scratch;
        let mut two_lines = TwoLines {
            bytes: bytes.each_mut().map(|bytes| bytes.of_length(length)),
            even: even.each_mut().map(|pairs| pairs.of_length(length)),
            odd: odd.each_mut().map(|pairs| pairs.of_length(length)),
        };
        let (lines, spare) = (lines.of_length(count * line), spare.of_length(width));
        let starts = RingStarts::new(count, line);
        let mut ready = 0;
        for y in (0..results.height()).step_by(2) {
            cancel.check()?;
            for number in ready..y / 2 + count {
                let to = &mut lines[number % count * line..][..line];
                self.filter_rows(dot, 2 * number, &mut two_lines, to);
            }
            ready = y / 2 + count;
            uncertain.iter_mut().for_each(|places| places.clear(width));
            let is_last = y + 1 == results.height();
            let [first, second] = uncertain;
            let (to, to_second) = results.two_parts(y, self.columns());
            let to_second = to_second.unwrap_or(&mut *spare);
            level.run(AlongColumn {
                dot,
                lines,
                starts: starts.from(y / 2),
                column: &mask.column,
                uncertain: mask.uncertain,
                to: [to, to_second],
                again: [first, second],
            });
            recompute.push(y, first.all().map(|column| self.start + column));
            if !is_last {
                recompute.push(y + 1, second.all().map(|column| self.start + column));
            }
            recompute.compute_batches(results)?;
        }
        Ok(())
    }

    /// Filters rows `at` and `at + 1` of those under the block's windows.
    fn filter_rows<D: Dot>(&self, dot: D, at: usize, two_lines: &mut TwoLines<'_>, to: &mut [u16]) {
        let ByteBlocks { problem, mask, level, .. } = *self.blocks;
        let step = problem.format().channels;
        let TwoLines { bytes, even, odd } = two_lines;
        for (i, bytes) in bytes.iter_mut().enumerate() {
            // After the last row: its coefficients are 0.
            self.fill((at + i).min(self.rows() - 1), bytes);
        }
        level.run(Widen {
            bytes: bytes.each_ref().map(|line| &line[..]),
            step,
            even: even.each_mut().map(|line| &mut line[..]),
            odd: odd.each_mut().map(|line| &mut line[..]),
            count: self.line_length,
        });
        level.run(AlongRow {
            dot,
            even: even.each_ref().map(|line| &line[..]),
            odd: odd.each_ref().map(|line| &line[..]),
            step,
            row: &mask.row,
            to,
            count: self.width,
        });
    }
}
