//! Images of bytes and masks of small whole numbers times one factor: boxes, and small binomial Gaussians.
//!
//! `mask[k, l] = unit * column[k] * row[l]`, with whole numbers `column` and `row`. The sum of whole products is exact,
//! so it may be added in any order. Its product with `unit` is rounded once.
//!
//! | the sums of a window | along the columns | along the rows |
//! | --- | --- | --- |
//! | fit 16 bits | first, in 16 bits | second, in 16 bits |
//! | fit 24 bits | second, in `f32`, which rounds none of them | first, in 16 bits |
//!
//! A box has running sums along the columns. Along the rows it has sums of 2, 4, 8, .. values, so its cost grows with
//! the logarithm of the width.
//!
//! The contract's `f32` sum may round. Then the results near the boundary of two integers are computed again in order,
//! as for [`separable`](super::method) masks.

mod rows;

use super::aligned::Aligned;
use super::finish::{FinishRow, Results, Sum};
use super::method::GRADED;
use super::recompute::Recompute;
use super::simd::Level;
use super::strips::{ByteBlocks, ByteMask, RingStarts, Strip};
use super::uncertain::{Limits, Uncertain};
use crate::plan::direct_sum::{ABOVE, DirectSum, half_unit, power, saturated, unit_of};
use crate::{PixelType, Problem, Result};
use rows::{AddFloats, AddRow, Quotients, RunningFloats, RunningRow, SLACK, ShiftRow, Weigh, WeighFloats, WindowSums};

pub(crate) use rows::window_sums;

/// The largest sum of 16 bits.
const MOST_SHORT: f64 = 65_535.0;

/// The most coefficients along an axis, unless all are equal.
const MOST_TAPS: usize = 16;

/// A mask of whole numbers.
#[derive(Debug)]
pub(super) struct Whole {
    column: Vec<u16>,
    row: Vec<u16>,
    unit: f32,
    /// The sums of a window fit 16 bits.
    is_short: bool,
    /// If set, results are bytes: the sum over `2^shift`, rounded half to even.
    shift: Option<u32>,
    limits: Limits,
}

impl Whole {
    /// The mask of a problem, and the expected share of uncertain results. None if it is of another kind.
    pub(super) fn of(problem: &Problem) -> Option<(Self, f64)> {
        if problem.integer_pixels() != Some(PixelType::U8) || problem.format().output == PixelType::F32 {
            return None;
        }
        let (column, row, unit) = factors(problem.window().coefficients(), problem.window().width())?;
        let sum = |weights: &[u16]| weights.iter().map(|&weight| f64::from(weight)).sum::<f64>();
        let (of_row, of_all) = (255.0 * sum(&row), 255.0 * sum(&row) * sum(&column));
        let is_cheap = |weights: &[u16]| weights.len() <= MOST_TAPS || is_box(weights);
        if of_row > MOST_SHORT || of_all > power(24) || !is_cheap(&row) || !is_cheap(&column) {
            return None;
        }
        let ordered = DirectSum::of(problem)?;
        let is_power = f64::from(unit) == power(unit_of(unit));
        // A power of two rounds no product, and the last step is the contract's.
        let is_same = is_power && ordered.exact_unit().is_some();
        let (limits, uncertain_part) = if is_same {
            (Limits::NONE, 0.0)
        } else {
            let (scale, offset) = problem.scale_and_offset();
            let most = ABOVE * of_all * f64::from(unit.abs());
            let scaled = most * f64::from(scale.abs()) + f64::from(offset.abs());
            let product = f64::from(scale.abs()) * half_unit(most);
            let last = if problem.is_plain() {
                0.0
            } else {
                half_unit((scaled * ABOVE).min(saturated(problem.format().output)))
            };
            let radius = |ordered: f64| (ordered + product + last) * 1.001 + 1e-12;
            if radius(ordered.error()) >= 0.25 {
                return None;
            }
            let limit = |ordered: f64| ((0.5 - radius(ordered)) as f32).next_down();
            let limits = Limits::uniform(limit(ordered.error()));
            let uncertain_part = 2.0 * radius(ordered.error());
            if problem.is_plain() && uncertain_part > GRADED {
                let below = |sum: f64| ordered.sum_error_below(255.0, sum);
                let graded = Limits { below_half: limit(below(127.9)), below_quarter: limit(below(63.9)), ..limits };
                // Half of the results are below half of the largest.
                (graded, uncertain_part.midpoint(2.0 * radius(below(127.9))))
            } else {
                (limits, uncertain_part)
            }
        };
        let is_short = of_all <= MOST_SHORT;
        let shift = -unit_of(unit);
        // The half that is added before the shift must fit, too.
        let can_shift = is_short
            && is_same
            && problem.is_plain()
            && problem.format().output == PixelType::U8
            && (1..16).contains(&shift)
            && of_all <= 255.0 * power(shift)
            && of_all + power(shift - 1) <= MOST_SHORT;
        let shift = (unit > 0.0 && can_shift).then_some(shift as u32);
        Some((Self { column, row, unit, is_short, shift, limits }, uncertain_part))
    }

    /// Whether sums have 16 bits, the shift, and the weights along both axes.
    #[cfg(test)]
    pub(super) fn form(&self) -> (bool, Option<u32>, [usize; 2]) {
        (self.is_short, self.shift, [self.column.len(), self.row.len()])
    }

    /// As if all results were certain, to see that wrong ones are noticed.
    #[cfg(test)]
    pub(super) fn trust_all(&mut self) {
        self.limits = Limits::NONE;
    }

    /// Whether all sums have 16 bits.
    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    /// The cost in multiply-adds of the direct method for a result.
    pub(super) fn cost(&self, level: Level) -> f64 {
        // Measured on an Intel Xeon with AVX-512 and with AVX2, with one thread.
        let (of_result, of_weight) = match (self.is_short, level) {
            (true, Level::Avx512) => (2.0, 0.3),
            (true, _) => (1.2, 0.4),
            (false, Level::Avx512) => (5.6, 0.65),
            (false, _) => (5.5, 1.1),
        };
        let of = |weights: &[u16], has_few_sums| if has_few_sums { 1.0 } else { of_weight * weights.len() as f64 };
        of_result + of(&self.row, is_wide_box(&self.row)) + of(&self.column, is_tall_box(&self.column))
    }
}

fn is_box(weights: &[u16]) -> bool {
    weights.iter().all(|&weight| weight == 1)
}

/// Column, row and unit of a mask of whole numbers.
fn factors(coefficients: &[f32], width: usize) -> Option<(Vec<u16>, Vec<u16>, f32)> {
    let first = *coefficients.first()?;
    if !coefficients.iter().all(|coefficient| coefficient.is_finite() && *coefficient >= 0.0) {
        return None;
    }
    if first > 0.0 && coefficients.iter().all(|&coefficient| coefficient == first) {
        return Some((vec![1; coefficients.len() / width], vec![1; width], first));
    }
    let used = coefficients.iter().filter(|&&coefficient| coefficient != 0.0);
    let exponent = used.map(|&coefficient| unit_of(coefficient)).min()?;
    let unit = power(exponent) as f32;
    let whole = |coefficient: f32| {
        let number = f64::from(coefficient) / power(exponent);
        (number <= MOST_SHORT).then_some(number as u32)
    };
    let numbers = coefficients.iter().map(|&coefficient| whole(coefficient)).collect::<Option<Vec<u32>>>()?;
    let divisor = |numbers: &[u32]| numbers.iter().fold(0, |divisor, &number| greatest_divisor(divisor, number));
    let model = numbers.chunks_exact(width).find(|row| row.iter().any(|&number| number != 0))?;
    let of_model = divisor(model);
    let row: Vec<u32> = model.iter().map(|number| number / of_model).collect();
    // A row of zeros has the divisor 0.
    let column: Vec<u32> = numbers.chunks_exact(width).map(divisor).collect();
    let is_product = numbers
        .chunks_exact(width)
        .zip(&column)
        .all(|(numbers, &factor)| numbers.iter().zip(&row).all(|(&number, &of_row)| number == factor * of_row));
    let short = |numbers: Vec<u32>| numbers.into_iter().map(|number| u16::try_from(number).ok()).collect::<Option<_>>();
    is_product.then_some((short(column)?, short(row)?, unit))
}

fn greatest_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

/// Memory that a thread uses again for each block.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Lines of bytes under the windows of a row.
    bytes: Aligned<u8>,
    /// The same, filtered along the row.
    filtered: Aligned<u16>,
    /// A line between the passes.
    line: Aligned<u16>,
    /// Running sums along the columns.
    sums: Aligned<u16>,
    floats: Aligned<f32>,
    /// The sums of a row of results.
    results: Aligned<u16>,
    totals: Aligned<f32>,
}

impl ByteMask for Whole {
    type Scratch = Scratch;

    fn line_bytes_per_column(&self) -> usize {
        self.column.len() * if self.is_short { 1 } else { 2 }
    }

    /// The values under the last window, but for the first.
    fn beyond(&self, channels: usize) -> usize {
        (self.row.len() - 1) * channels
    }

    fn compute(
        strip: &Strip<'_, Self>,
        scratch: &mut Scratch,
        results: &mut Results<'_>,
        recompute: &mut Recompute<'_>,
    ) -> Result<()> {
        if strip.blocks.mask.is_short {
            strip.shorts(scratch, results, recompute)
        } else {
            strip.floats(scratch, results, recompute)
        }
    }
}

impl Strip<'_, Whole> {
    /// Makes results of a row of sums.
    fn finish<T: Sum>(
        &self,
        sums: &[T],
        row: usize,
        uncertain: &mut Uncertain,
        results: &mut Results<'_>,
        recompute: &mut Recompute<'_>,
    ) -> Result<()> {
        let ByteBlocks { problem, mask, level, .. } = *self.blocks;
        let (unit, last_step, pixel) = (mask.unit, problem.last_step(), problem.format().output);
        let to = results.part(row, self.columns());
        level.run(FinishRow { sums, unit, last_step, uncertain, pixel, to });
        uncertain.places(1, 0..self.width, |_, column| recompute.push(row, [self.start + column]));
        recompute.compute_batches(results)
    }

    /// Columns first, in sums of 16 bits.
    fn shorts(&self, scratch: &mut Scratch, results: &mut Results<'_>, recompute: &mut Recompute<'_>) -> Result<()> {
        let ByteBlocks { problem, mask, level, cancel, .. } = *self.blocks;
        let (height, step) = (mask.column.len(), problem.format().channels);
        let (length, pitch) = (self.line_length, self.line_length + SLACK);
        let Scratch { bytes, line, sums, results: row_sums, .. } = scratch;
        let bytes = bytes.of_length(height * pitch);
        let [line, sums, row_sums] = [line, sums, row_sums].map(|line| line.of_length(pitch));
        let (is_running, is_wide) = (is_tall_box(&mask.column), is_wide_box(&mask.row));
        let mut uncertain = Uncertain::new(level, mask.limits, self.width);
        let (column_starts, row_starts) = (RingStarts::new(height, pitch), starts_of_row(mask.row.len(), step));
        let mut ready = 0;
        for y in 0..results.height() {
            cancel.check()?;
            for s in ready..y + height {
                let to = &mut bytes[s % height * pitch..][..pitch];
                self.fill(s, to);
                if is_running && s + 1 < height {
                    if s == 0 {
                        sums.fill(0);
                    }
                    level.run(AddRow { from: to, to: &mut *sums });
                }
            }
            ready = y + height;
            let row = |s: usize| &bytes[s % height * pitch..][..pitch];
            if is_running {
                let (new, old) = (row(y + height - 1), row(y));
                level.run(RunningRow { new, old, sums: &mut *sums, to: &mut *line, count: length });
            } else {
                let (starts, weights) = (column_starts.from(y), &mask.column[..]);
                level.run(Weigh { from: &*bytes, starts, weights, to: &mut *line, count: length });
            }
            let (size, count, starts, weights) = (mask.row.len(), self.width, &row_starts[..], &mask.row[..]);
            if is_wide {
                level.run(WindowSums { line, size, step, to: row_sums, count });
            } else if mask.shift.is_none() {
                level.run(Weigh { from: &*line, starts, weights, to: &mut *row_sums, count });
            }
            let Some(shift) = mask.shift else {
                self.finish(row_sums, y, &mut uncertain, results, recompute)?;
                continue;
            };
            let to = Quotients { shift, to: results.part(y, self.columns()) };
            if is_wide {
                level.run(ShiftRow { sums: row_sums, to });
            } else {
                // Quotients of the sums while these are in registers.
                level.run(Weigh { from: &*line, starts, weights, to, count });
            }
        }
        Ok(())
    }

    /// Rows first, in sums of 16 bits; then columns in `f32`.
    fn floats(&self, scratch: &mut Scratch, results: &mut Results<'_>, recompute: &mut Recompute<'_>) -> Result<()> {
        let ByteBlocks { problem, mask, level, cancel, .. } = *self.blocks;
        let (height, step) = (mask.column.len(), problem.format().channels);
        let (length, pitch) = (self.line_length, self.line_length + SLACK);
        let Scratch { bytes, filtered, line, floats, totals, .. } = scratch;
        let (bytes, line) = (bytes.of_length(pitch), line.of_length(pitch));
        let filtered = filtered.of_length(height * pitch);
        let [sums, totals] = [floats, totals].map(|line| line.of_length(pitch));
        let (is_running, is_wide) = (is_tall_box(&mask.column), is_wide_box(&mask.row));
        let mut uncertain = Uncertain::new(level, mask.limits, self.width);
        let (column_starts, row_starts) = (RingStarts::new(height, pitch), starts_of_row(mask.row.len(), step));
        let mut ready = 0;
        for y in 0..results.height() {
            cancel.check()?;
            for s in ready..y + height {
                self.fill(s, bytes);
                let to = &mut filtered[s % height * pitch..][..pitch];
                if is_wide {
                    level.run(Weigh { from: &*bytes, starts: &[0], weights: &[1], to: &mut *line, count: length });
                    level.run(WindowSums { line, size: mask.row.len(), step, to, count: self.width });
                } else {
                    let (starts, weights) = (&row_starts[..], &mask.row[..]);
                    level.run(Weigh { from: &*bytes, starts, weights, to: &mut *to, count: self.width });
                }
                if is_running && s + 1 < height {
                    if s == 0 {
                        sums.fill(0.0);
                    }
                    level.run(AddFloats { from: to, to: &mut *sums, count: self.width });
                }
            }
            ready = y + height;
            let row = |s: usize| &filtered[s % height * pitch..][..pitch];
            if is_running {
                let (new, old) = (row(y + height - 1), row(y));
                level.run(RunningFloats { new, old, sums: &mut *sums, to: &mut *totals, count: self.width });
            } else {
                let (starts, weights) = (column_starts.from(y), &mask.column[..]);
                level.run(WeighFloats { from: &*filtered, starts, weights, to: &mut *totals, count: self.width });
            }
            self.finish(totals, y, &mut uncertain, results, recompute)?;
        }
        Ok(())
    }
}

/// Widths of boxes up to which each value of a window is added.
const FEW: usize = 6;

/// Whether the row pass takes [`WindowSums`].
fn is_wide_box(row: &[u16]) -> bool {
    is_box(row) && row.len() > FEW
}

/// Whether the column pass has running sums.
fn is_tall_box(column: &[u16]) -> bool {
    is_box(column) && column.len() > 2
}

/// Where the values of a row's weights begin. Neighbours of one channel are `step` values apart.
fn starts_of_row(size: usize, step: usize) -> Vec<usize> {
    (0..).step_by(step).take(size).collect()
}
