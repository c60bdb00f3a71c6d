//! Means of floating-point numbers along the rows and the columns of an array, in one pass over memory.
//!
//! ```text
//! rows of the input --along the column--> some rows, border written out --along the row--> rows of the output
//! ```
//! - **Sums of `f64`** are SciPy's running sums, with its bits. A running sum depends on all values before. So a first
//!   pass computes the sums with which each block of rows begins. One thread needs no such pass.
//! - **Sums of `f32`** are sums of the window alone, so no value leaves a rounding error behind. Along the column,
//!   `size` rows have sums of the rows from each of them to the last one. A result adds one of these to a sum of the
//!   rows that follow. That takes three additions for any size.

use std::marker::PhantomData;
use std::ops::Range;

use kernels_gpu::abi::border::BorderMode;

use super::axes::{Along, AxisFilter};
use super::axis::before;
use super::border::PaddedRange;
use super::byte_axes::rows_without_gaps;
use super::convert::Value;
use super::kernel::{SLACK, window_sums};
use super::{Element, Input, Output, SERIAL, Sums, run_jobs};
use crate::Result;
use crate::cpu::simd::{Level, Simd, Work};
use crate::parallel::{self, threads};

/// Rows that are summed along at the same time: each step of a running sum waits for the one before.
const TOGETHER: usize = 4;

/// Values of a row whose sums are divided at once, and columns of a strip: within the first-level cache.
const CHUNK: usize = 512;

/// Columns of a block of sums of `f32`.
const STRIP: usize = 1024;

/// Values of the sums of `f32` of a block: 4 MiB.
const BLOCK: usize = 1 << 20;

/// A mean along an axis.
#[derive(Clone, Copy)]
struct Mean {
    size: usize,
    /// Positions before the one of the result.
    before: usize,
    border: BorderMode,
}

impl Mean {
    /// The positions that the results from `start` on read.
    fn range(&self, start: usize, count: usize, length: usize) -> PaddedRange {
        PaddedRange::new(self.border, start as isize - self.before as isize, count + self.size - 1, length)
    }
}

/// Both means of a two-dimensional array.
pub(super) struct FloatMeans<'a> {
    input: &'a Input<'a>,
    output: &'a Output<'a>,
    column: Mean,
    row: Mean,
    outside: f64,
    height: usize,
    width: usize,
    sums: Sums,
}

impl<'a> FloatMeans<'a> {
    /// None unless both arrays have two axes, the same type `f32` or `f64`, and rows without gaps, and the filters are
    /// means along the first axis, then along the second one.
    pub(super) fn new(
        input: &'a Input<'a>,
        output: &'a Output<'a>,
        filters: &[AxisFilter<'_>],
        sums: Sums,
    ) -> Option<Self> {
        let [first, second] = filters else { return None };
        let element = input.layout.element;
        let are_floats = matches!(element, Element::F32 | Element::F64) && element == output.layout.element;
        if !are_floats || std::ptr::eq(input.first, output.first) || (first.lines.axis, second.lines.axis) != (0, 1) {
            return None;
        }
        let of = |filter: &AxisFilter<'_>| match filter.along {
            Along::Mean(size) => {
                let before = before(size, filter.lines.origin);
                Some(Mean { size, before, border: filter.lines.border })
            }
            Along::Weights(_) => None,
        };
        let (column, row, outside) = (of(first)?, of(second)?, first.lines.value);
        let (height, width, step) = rows_without_gaps(&input.layout)?;
        rows_without_gaps(&output.layout)?;
        let is_block = sums == Sums::F64 || column.size * (STRIP + row.size) <= BLOCK;
        let places = [(input.first.addr(), &input.layout), (output.first.addr(), &output.layout)];
        let is_aligned = places
            .iter()
            .all(|(first, layout)| first % element.size() == 0 && layout.strides[0] % element.size() as isize == 0);
        (step == 1 && is_block && is_aligned && outside.to_bits() == second.lines.value.to_bits()).then_some(Self {
            input,
            output,
            column,
            row,
            outside,
            height,
            width,
            sums,
        })
    }

    /// Filters.
    ///
    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub(super) fn run(&self, level: Level) -> Result<()> {
        match (self.sums, self.input.layout.element) {
            (Sums::F32, _) => self.windows(level),
            (Sums::F64, Element::F32) => self.running::<f32>(level),
            (Sums::F64, _) => self.running::<f64>(level),
        }
    }

    fn work(&self) -> usize {
        self.height.saturating_mul(self.width).saturating_mul(8)
    }

    /// The row of the input at a position along the first axis; None outside.
    #[inline(always)]
    fn row_at<T>(&self, at: isize) -> Option<&[T]> {
        // SAFETY: `new` has checked that rows have no gaps and are aligned.
        unsafe { self.input.row(at, self.column.border, self.width) }
    }

    /// Part of a row of the output.
    ///
    /// # Safety
    /// `T` is the type of the output, the part is within the row, and nothing else uses it.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the output is lent mutably, and each job writes a part of its own")]
    unsafe fn results<T>(&self, y: usize, first: usize, count: usize) -> &mut [T] {
        // SAFETY: the part is in the output, without gaps and aligned.
        unsafe {
            let start = self.output.first.offset(y as isize * self.output.layout.strides[0]);
            std::slice::from_raw_parts_mut(start.cast::<T>().add(first), count)
        }
    }

    /// SciPy's running sums of `f64`.
    fn running<T: Value + Default + Send + Sync>(&self, level: Level) -> Result<()> {
        let is_serial = self.work() < SERIAL || threads() == 1;
        let part_of_thread = self.height.div_ceil(2 * threads()).next_multiple_of(TOGETHER);
        let rows = if is_serial { self.height } else { part_of_thread };
        let bands = self.height.div_ceil(rows);
        let strip = |number: usize| number * CHUNK..self.width.min((number + 1) * CHUNK);
        let strips = if bands > 1 { self.width.div_ceil(CHUNK) } else { 0 };
        let starts =
            |number: usize| level.run(Starts::<T> { means: self, columns: strip(number), rows, of: PhantomData });
        let mut starts_of_strips = vec![Vec::new(); strips];
        parallel::for_each(
            starts_of_strips.iter_mut().enumerate(),
            || (),
            |(), (number, to)| {
                *to = starts(number);
                Ok(())
            },
        )?;
        let padded = self.width + self.row.size - 1;
        let scratch = || {
            let rows = std::array::from_fn(|_| vec![T::default(); padded]);
            Ok((vec![0.0; self.width], rows, vec![[0.0; CHUNK]; TOGETHER]))
        };
        let range = self.row.range(0, self.width, self.width);
        run_jobs(bands, self.work(), scratch, |(sums, lines, quotients), number| {
            if number > 0 {
                for (i, starts) in starts_of_strips.iter().enumerate() {
                    let columns = strip(i);
                    sums[columns.clone()].copy_from_slice(&starts[(number - 1) * columns.len()..][..columns.len()]);
                }
            }
            let (top, bottom) = (number * rows, self.height.min((number + 1) * rows));
            level.run(Running { means: self, top, bottom, range: &range, sums, lines, quotients });
        })
    }

    /// The first sums of the columns: those of row 0.
    #[inline(always)]
    fn first_sums<T: Value>(&self, sums: &mut [f64], first: usize) {
        sums.fill(0.0);
        for place in 0..self.column.size {
            match self.row_at::<T>(place as isize - self.column.before as isize) {
                Some(row) => {
                    for (sum, &value) in sums.iter_mut().zip(&row[first..]) {
                        *sum += value.widen();
                    }
                }
                None => sums.iter_mut().for_each(|sum| *sum += self.outside),
            }
        }
    }

    /// The sums of row `y` from those of the row before.
    #[inline(always)]
    fn next_sums<T: Value>(&self, sums: &mut [f64], first: usize, y: usize) {
        let old = y as isize - 1 - self.column.before as isize;
        let new = old + self.column.size as isize;
        match (self.row_at::<T>(new), self.row_at::<T>(old)) {
            (Some(new), Some(old)) => {
                for ((sum, &new), &old) in sums.iter_mut().zip(&new[first..]).zip(&old[first..]) {
                    *sum += new.widen() - old.widen();
                }
            }
            (Some(new), None) => {
                for (sum, &new) in sums.iter_mut().zip(&new[first..]) {
                    *sum += new.widen() - self.outside;
                }
            }
            (None, Some(old)) => {
                for (sum, &old) in sums.iter_mut().zip(&old[first..]) {
                    *sum += self.outside - old.widen();
                }
            }
            (None, None) => {
                // As SciPy does: NaN where the value is infinite.
                let (new, old) = (self.outside, self.outside);
                sums.iter_mut().for_each(|sum| *sum += new - old);
            }
        }
    }

    /// Sums of `f32`.
    fn windows(&self, level: Level) -> Result<()> {
        let size = self.column.size;
        let strips = self.width.div_ceil(STRIP);
        let part = self.height.div_ceil(4 * threads().div_ceil(strips));
        let rows = part.next_multiple_of(size).max(3 * size).min(self.height.next_multiple_of(size));
        let bands = self.height.div_ceil(rows);
        let padded = STRIP.min(self.width) + self.row.size - 1;
        let scratch = || {
            let of = |rows: usize| vec![0.0_f32; rows * padded + SLACK];
            Ok([of(size), of(1), of(1), of(1)])
        };
        run_jobs(bands * strips, self.work(), scratch, |scratch, number| {
            let (left, top) = (number / bands * STRIP, number % bands * rows);
            let (right, bottom) = (self.width.min(left + STRIP), self.height.min(top + rows));
            level.run(Windows { means: self, top, bottom, left, right, scratch });
        })
    }
}

/// The sums of some columns with which each block of rows but the first one begins, one block after the other.
struct Starts<'a, T> {
    means: &'a FloatMeans<'a>,
    columns: Range<usize>,
    /// Rows of a block.
    rows: usize,
    of: PhantomData<T>,
}

impl<T: Value> Work for Starts<'_, T> {
    type Output = Vec<f64>;

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, _: S) -> Vec<f64> {
        let Self { means, columns, rows, .. } = self;
        let mut sums = vec![0.0; columns.len()];
        means.first_sums::<T>(&mut sums, columns.start);
        let mut starts = Vec::with_capacity(means.height.div_ceil(rows) * columns.len());
        for y in 1..means.height {
            means.next_sums::<T>(&mut sums, columns.start, y);
            if y % rows == 0 {
                starts.extend_from_slice(&sums);
            }
            if y + rows >= means.height && y % rows == 0 {
                break;
            }
        }
        starts
    }
}

/// Rows `top..bottom` by running sums.
struct Running<'a, T> {
    means: &'a FloatMeans<'a>,
    top: usize,
    bottom: usize,
    /// The columns of a row with its border.
    range: &'a PaddedRange,
    /// The sums along the columns: those of row `top`, unless it is row 0.
    sums: &'a mut [f64],
    /// Rows with their borders.
    lines: &'a mut [Vec<T>; TOGETHER],
    /// Sums along the rows.
    quotients: &'a mut [[f64; CHUNK]],
}

impl<T: Value> Work for Running<'_, T> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "all rows take a step before any takes the next one")]
    fn run<S: Simd, const V: usize>(self, _: S) {
        let Self { means, top, bottom, range, sums, lines, quotients } = self;
        let (width, before, size) = (means.width, means.row.before, means.row.size);
        let divisor = means.column.size as f64;
        for first in (top..bottom).step_by(TOGETHER) {
            let count = TOGETHER.min(bottom - first);
            for (y, line) in (first..first + count).zip(lines.iter_mut()) {
                match y {
                    0 => means.first_sums::<T>(sums, 0),
                    _ if y == top => {}
                    _ => means.next_sums::<T>(sums, 0, y),
                }
                for (to, &sum) in line[before..][..width].iter_mut().zip(sums.iter()) {
                    *to = T::convert(sum / divisor);
                }
                write_border(line, range, T::convert(means.outside));
            }
            // Sums of rows that do not exist are not written.
            let rows: [&[T]; TOGETHER] = lines.each_ref().map(|line| &line[..width + size - 1]);
            let mut running = [0.0; TOGETHER];
            for (running, row) in running.iter_mut().zip(rows) {
                for &value in &row[..size] {
                    *running += value.widen();
                }
            }
            for start in (0..width).step_by(CHUNK) {
                let columns = CHUNK.min(width - start);
                for i in 0..columns {
                    let at = start + i;
                    for r in 0..TOGETHER {
                        if at > 0 {
                            // SAFETY: at + size - 1 < width + size - 1, the length of each row.
                            running[r] += unsafe {
                                rows[r].get_unchecked(at + size - 1).widen() - rows[r].get_unchecked(at - 1).widen()
                            };
                        }
                        quotients[r][i] = running[r];
                    }
                }
                for (y, quotients) in (first..first + count).zip(quotients.iter()) {
                    // SAFETY: the output has this type, and these results are of this job alone.
                    let to = unsafe { means.results::<T>(y, start, columns) };
                    for (to, &sum) in to.iter_mut().zip(quotients) {
                        *to = T::convert(sum / size as f64);
                    }
                }
            }
        }
    }
}

/// Writes the border of a row.
#[inline(always)]
fn write_border<T: Copy>(row: &mut [T], range: &PaddedRange, outside: T) {
    let first = range.before.len();
    let after = first + range.inside;
    for (places, start) in [(&range.before, 0), (&range.after, after)] {
        for (i, &column) in places.iter().enumerate() {
            row[start + i] = column.map_or(outside, |column| row[first + column]);
        }
    }
}

/// Columns `left..right` of rows `top..bottom` by sums of windows of `f32`.
struct Windows<'a> {
    means: &'a FloatMeans<'a>,
    top: usize,
    bottom: usize,
    left: usize,
    right: usize,
    /// Sums of rows from each of `size` rows to the last one; sums of the rows that follow; a row between the passes;
    /// sums along the row.
    scratch: &'a mut [Vec<f32>; 4],
}

impl Work for Windows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { means, top, bottom, left, right, scratch: [suffixes, prefix, line, results] } = self;
        let width = right - left;
        let padded = width + means.row.size - 1;
        let range = means.row.range(left, width, means.width);
        let size = means.column.size;
        let (of_column, of_row) = (1.0 / size as f32, 1.0 / means.row.size as f32);
        let outside = means.outside as f32;
        let start = |y: usize| y as isize - means.column.before as isize;
        for first in (top..bottom).step_by(size) {
            for place in (0..size).rev() {
                let (these, after) = suffixes[place * padded..].split_at_mut(padded);
                let after = if place + 1 < size { Some(&after[..padded]) } else { None };
                let row = means.row_at::<f32>(start(first) + place as isize);
                weighted_row(row, &range, outside, after, of_column, these);
            }
            prefix[..padded].fill(0.0);
            for y in first..bottom.min(first + size) {
                let suffix = &suffixes[(y - first) * padded..][..padded];
                for ((to, &suffix), &prefix) in line.iter_mut().zip(suffix).zip(prefix.iter()) {
                    *to = (suffix + prefix) * of_row;
                }
                // SAFETY: both have SLACK values more than these.
                unsafe { window_sums(simd, line.as_mut_ptr(), means.row.size, 1, results.as_mut_ptr(), width) };
                // SAFETY: the output has this type, and these results are of this job alone.
                unsafe { means.results::<f32>(y, left, width) }.copy_from_slice(&results[..width]);
                let row = means.row_at::<f32>(start(y) + size as isize);
                let prefix = &mut prefix[..padded];
                add_row(row, &range, outside, of_column, prefix);
            }
        }
    }
}

/// `to = before + weight * row`, with the row's border.
#[inline(always)]
fn weighted_row(
    row: Option<&[f32]>,
    range: &PaddedRange,
    outside: f32,
    before: Option<&[f32]>,
    weight: f32,
    to: &mut [f32],
) {
    match before {
        Some(before) => to.copy_from_slice(before),
        None => to.fill(0.0),
    }
    add_row(row, range, outside, weight, to);
}

/// `to += weight * row`, with the row's border.
#[inline(always)]
fn add_row(row: Option<&[f32]>, range: &PaddedRange, outside: f32, weight: f32, to: &mut [f32]) {
    let Some(row) = row else {
        to.iter_mut().for_each(|to| *to += weight * outside);
        return;
    };
    let (before, rest) = to.split_at_mut(range.before.len());
    let (inside, after) = rest.split_at_mut(range.inside);
    for (to, &value) in inside.iter_mut().zip(&row[range.first..]) {
        *to += weight * value;
    }
    for (places, to) in [(&range.before, before), (&range.after, after)] {
        for (to, column) in to.iter_mut().zip(places) {
            *to += weight * column.map_or(outside, |column| row[column]);
        }
    }
}
