//! Filters along one axis.
//!
//! A job takes a block of `rows` positions along the filtered axis and of `columns` adjacent lines. It converts the
//! block and its border to rows of scratch memory, computes, and converts the results. Elements of the type of the sums
//! are read and written where they are, if the border is not needed and the rows are long enough. Where the filtered
//! axis is the one whose elements lie closest together, a block is a part of one line: one column. A job takes several
//! of these.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use kernels_gpu::abi::border::BorderMode;

use super::border::PaddedRange;
use super::convert::{Run, load, load_line, store};
use super::kernel::{SLACK, Scalar};
use super::line_filter::{LineFilter, Summed};
use super::narrow::{Again, Narrow, PARTIAL, Values};
use super::scratch::Scratch;
use super::whole::{Correlated, Means};
use super::{Element, Input, Output, Sums, run_jobs};
use crate::cpu::simd::{Level, Simd, Work};
use crate::{Error, Result};

/// What filters along one axis have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lines {
    /// The axis.
    pub axis: usize,
    /// How far the filter is shifted towards the start of the axis; 0 is the middle. It lies between `-(size / 2)` and
    /// `(size - 1) / 2`.
    pub origin: isize,
    /// What stands outside of the array.
    pub border: BorderMode,
    /// The value outside, with [`BorderMode::Constant`].
    pub value: f64,
}

impl Lines {
    /// Fails unless a filter of `size` elements fits an array of so many axes.
    pub(super) fn check(&self, size: usize, axes: usize) -> Result<()> {
        if self.axis >= axes {
            let required = "below the number of axes";
            return Err(Error::Number { what: "the axis", required, found: format!("{} of {axes}", self.axis) });
        }
        super::check_size(size, self.origin)
    }
}

/// `output[i] = sum over j of weights[j] * input[i + j - size / 2 - origin]` along one axis:
/// `scipy.ndimage.correlate1d`.
///
/// Input and output may be the same array. `cancelled` ends the call early.
///
/// # Errors
/// - [`Error::Number`] if the output has another shape, there is no such axis, there are no weights, the origin is out
///   of range, or sums of `f32` are asked for other types.
/// - [`Error::Cancelled`]. Some results are then unwritten.
/// - [`Error::Parse`] if `FALTUNG_CPU` names no instruction set that the CPU has.
pub fn correlate1d(
    input: Input<'_>,
    output: Output<'_>,
    weights: &[f64],
    lines: &Lines,
    sums: Sums,
    cancelled: Option<&AtomicBool>,
) -> Result<()> {
    correlate1d_part(input, output, weights, lines, sums, Part::All(cancelled))
}

/// [`correlate1d`] for a part of the filtered axis.
pub(super) fn correlate1d_part(
    input: Input<'_>,
    output: Output<'_>,
    weights: &[f64],
    lines: &Lines,
    sums: Sums,
    part: Part<'_>,
) -> Result<()> {
    sums.check(input.layout.element, output.layout.element)?;
    let (from, to) = (input.layout.element, output.layout.element);
    let filter = LineFilter::<f64>::of(weights);
    if sums == Sums::F32 {
        let weights: Vec<_> = weights.iter().map(|&weight| weight as f32).collect();
        return run(input, output, lines, Summed::of(LineFilter::<f32>::of(&weights)), part);
    }
    let outside = (lines.border == BorderMode::Constant).then_some(lines.value);
    if let Some(correlated) = Correlated::new(weights, from, to, outside) {
        return run(input, output, lines, correlated, part);
    }
    let values = Values::new(from, outside);
    match Narrow::new(values, to, weights, filter.additions()) {
        Some(Narrow::Exact) => run(input, output, lines, Summed::of(filter.narrowed()), part),
        Some(Narrow::Proven(radius)) => {
            let recheck = Again { order: filter.order(), radius };
            run(input, output, lines, Summed { filter: filter.narrowed(), partial: PARTIAL, recheck }, part)
        }
        None => run(input, output, lines, Summed::of(filter), part),
    }
}

/// The mean of `size` elements along one axis, by running sums of `f64`: `scipy.ndimage.uniform_filter1d`.
///
/// Input and output may be the same array. `cancelled` ends the call early.
///
/// # Errors
/// As for [`correlate1d`].
pub fn uniform1d(
    input: Input<'_>,
    output: Output<'_>,
    size: usize,
    lines: &Lines,
    cancelled: Option<&AtomicBool>,
) -> Result<()> {
    let (from, to) = (input.layout.element, output.layout.element);
    let outside = if lines.border == BorderMode::Constant { lines.value } else { 0.0 };
    // The largest magnitude of a sum, if all are whole numbers.
    let largest = from.largest().filter(|_| outside.fract() == 0.0);
    let most = largest.map(|largest| largest.max(outside.abs()) * size as f64);
    let has_fractions = matches!(to, Element::F32 | Element::F64);
    let part = Part::All(cancelled);
    if let Some(means) = Means::new(size, from, to, outside) {
        return run(input, output, lines, means, part);
    }
    match most {
        // A quotient that is no whole number is at least 1 / size away from one, and a rounding of `f32` moves it by
        // less: it loses the same fraction.
        Some(most) if most < 16_777_216.0 && !has_fractions => {
            let windows = LineFilter::<f32>::Windows(size);
            run(input, output, lines, Summed::of(windows), part)
        }
        Some(most) if most < 9_007_199_254_740_992.0 => {
            let windows = LineFilter::<f64>::Windows(size);
            run(input, output, lines, Summed::of(windows), part)
        }
        _ => {
            let running = LineFilter::<f64>::Running(size);
            run(input, output, lines, Summed::of(running), part)
        }
    }
}

/// What is computed from the values of lines.
pub(super) trait LineSums: Sync {
    /// The type of the values and of the results before they are converted.
    type Value: Scalar;

    /// Values that a result reads.
    fn size(&self) -> usize;

    /// Whether a result depends on the one before.
    fn is_running(&self) -> bool {
        false
    }

    /// The fewest [adjacent](Places::adjacent) results that are computed without the slack, and without a write to the
    /// values. [`usize::MAX`] if no number is enough.
    fn fewest<S: Simd>(&self) -> usize {
        usize::MAX
    }

    /// # Safety
    /// - The places have the values that the results read, and room for the results.
    /// - Unless there are [`fewest`](Self::fewest) adjacent results, [`SLACK`] values follow both, all rows are adjacent,
    ///   and the values may be written.
    unsafe fn run<S: Simd>(&self, simd: S, places: &Places<Self::Value>);
}

/// A block: rows of the values at one position of each line, in scratch memory or in the arrays.
pub(super) struct Places<A> {
    /// The values. There is a row for each result, and `size - 1` more: those that the first and the last result read
    /// before and after. Blocks that continue running sums have one row before these.
    pub(super) values: *mut A,
    /// Places from a row of values to the next.
    pub(super) step: isize,
    /// Room for the rows of results. It has no place in common with the values.
    pub(super) results: *mut A,
    /// Places from a row of results to the next.
    pub(super) pitch: isize,
    /// A row that stays from block to block.
    pub(super) sums: *mut A,
    /// Rows of results.
    pub(super) rows: usize,
    /// Values of a row.
    pub(super) width: usize,
    /// Whether the block is the first one of its lines.
    pub(super) is_first: bool,
}

impl<A> Places<A> {
    /// Rows of adjacent results that read adjacent values, and the length of a row. Without gaps all are one row.
    #[inline(always)]
    pub(super) fn adjacent(&self) -> (usize, usize) {
        let is_one_row = [self.step, self.pitch] == [self.width as isize; 2];
        if is_one_row { (1, self.rows * self.width) } else { (self.rows, self.width) }
    }

    /// A row of values.
    ///
    /// # Safety
    /// The row exists.
    #[inline(always)]
    pub(super) unsafe fn values_of(&self, row: usize) -> *const A {
        // SAFETY: within the memory of the values.
        unsafe { self.values.offset(row as isize * self.step) }
    }

    /// A row of results.
    ///
    /// # Safety
    /// The row exists.
    #[inline(always)]
    pub(super) unsafe fn results_of(&self, row: usize) -> *mut A {
        // SAFETY: within the memory of the results.
        unsafe { self.results.offset(row as isize * self.pitch) }
    }
}

/// An axis in both arrays.
#[derive(Clone, Copy, Debug)]
struct Axis {
    length: usize,
    /// Bytes from one element of the input to the next.
    from: isize,
    /// Bytes from one element of the output to the next.
    to: isize,
}

/// The axes other than the filtered one, the widest strides first. Axes of one element are left out. Two axes that can
/// be walked as one are one.
fn other_axes(input: &Input<'_>, output: &Output<'_>, filtered: usize) -> Vec<Axis> {
    let mut axes: Vec<_> = (0..input.layout.shape.len())
        .filter(|&axis| axis != filtered && input.layout.shape[axis] != 1)
        .map(|axis| Axis {
            length: input.layout.shape[axis],
            from: input.layout.strides[axis],
            to: output.layout.strides[axis],
        })
        .collect();
    axes.sort_by_key(|axis| std::cmp::Reverse(axis.to.unsigned_abs()));
    let mut merged: Vec<Axis> = Vec::with_capacity(axes.len());
    for axis in axes {
        let spans = |stride: isize| stride.checked_mul(axis.length as isize);
        match merged.last_mut() {
            Some(last) if spans(axis.from) == Some(last.from) && spans(axis.to) == Some(last.to) => {
                *last = Axis { length: last.length * axis.length, ..axis };
            }
            _ => merged.push(axis),
        }
    }
    merged
}

/// Scratch values of a block without the border: 128 KiB of `f64`. With its results, it is within the second-level
/// cache.
const BLOCK: usize = 16 << 10;

/// Bytes of the input in a row of a block: as many as the CPU fetches ahead well.
const ROW: usize = 1024;

/// Bytes of a first-level cache. With 8 ways, it holds 8 rows that are a multiple of 4 KiB apart.
const FIRST_LEVEL: usize = 32 << 10;

/// Adjacent lines in a block from which on more rows are worth more than longer rows.
const COLUMNS: usize = 256;

/// Multiply-adds that take much longer than a job does without them.
const JOB: usize = 1 << 15;

/// Places of the longest part of a line.
const LONGEST: usize = 1 << 15;

/// How the arrays are cut into jobs.
struct Cut {
    /// The adjacent lines.
    columns: Axis,
    /// Columns of a block.
    width: usize,
    /// Columns of a job.
    taken: usize,
    /// Rows of a block.
    rows: usize,
    outer: Vec<Axis>,
}

impl Cut {
    /// For lines of elements of so many `bytes`.
    fn new(line: Axis, mut outer: Vec<Axis>, size: usize, bytes: usize, is_running: bool, is_in_place: bool) -> Self {
        let is_along_line = outer.last().is_none_or(|axis| line.to.unsigned_abs() < axis.to.unsigned_abs());
        let columns = outer.pop().unwrap_or(Axis { length: 1, from: 0, to: 0 });
        let most = match (is_along_line, is_running) {
            (true, false) => 1,
            // Running sums wait for each other, so several lines are computed at the same time.
            (true, true) => 8,
            (false, _) => (ROW / bytes).max(COLUMNS),
        };
        let mut width = most.min(columns.length);
        let padded = if is_in_place { line.length } else { size } + size;
        // A block of few rows reads much more than its own.
        while width > 8 && padded * width > BLOCK || width > COLUMNS && 6 * size * width > BLOCK {
            width /= 2;
        }
        let rows = match (is_in_place, is_along_line && !is_running) {
            (true, _) => line.length,
            (false, true) => LONGEST.max(2 * size),
            (false, false) => (BLOCK / width).saturating_sub(size).max(size),
        };
        let rows = rows.min(line.length);
        let lines = if width == 1 { JOB / size.saturating_mul(rows) } else { 0 };
        Self { columns, width, taken: lines.clamp(width, columns.length.max(width)), rows, outer }
    }
}

/// Scratch memory of a thread.
struct Buffers<A> {
    rows: Scratch<A>,
    results: Scratch<A>,
    /// [`Places::sums`].
    sums: Scratch<A>,
}

/// The results along the filtered axis that a call computes.
pub(super) enum Part<'a> {
    /// All, on all threads, until the flag becomes true.
    All(Option<&'a AtomicBool>),
    /// Some of an axis of `length` positions, on the calling thread.
    Some {
        /// The positions of the results. The output has these alone.
        results: Range<usize>,
        /// The position of the input's first elements. The input has what the results read.
        first: usize,
        length: usize,
    },
}

/// Filters all lines.
fn run<F: LineSums>(input: Input<'_>, output: Output<'_>, lines: &Lines, filter: F, part: Part<'_>) -> Result<()> {
    let Lines { axis, origin, border, value } = *lines;
    let size = filter.size();
    let (results, first, length, cancelled, is_part) = match part {
        Part::All(cancelled) => {
            output.layout.check_shape(&input.layout)?;
            lines.check(size, input.layout.shape.len())?;
            (0..input.layout.shape[axis], 0, input.layout.shape[axis], cancelled, false)
        }
        Part::Some { results, first, length } => (results, first, length, None, true),
    };
    if input.layout.elements() == 0 {
        return Ok(());
    }
    let level = Level::chosen()?;
    let line = Axis { length: results.len(), from: input.layout.strides[axis], to: output.layout.strides[axis] };
    let is_in_place = !is_part && std::ptr::eq(input.first, output.first);
    let is_running = filter.is_running();
    let cut =
        Cut::new(line, other_axes(&input, &output, axis), size, input.layout.element.size(), is_running, is_in_place);

    let (blocks, chunks) = (line.length.div_ceil(cut.rows), cut.columns.length.div_ceil(cut.taken));
    let outer: usize = cut.outer.iter().map(|axis| axis.length).product();
    let places = (cut.rows + size) * cut.width + SLACK;
    let scratch = || {
        let (results, sums) = (Scratch::new(cut.rows * cut.width + SLACK), Scratch::new(cut.width));
        Ok(Buffers { rows: Scratch::new(places), results, sums })
    };
    // Position 0 of the axis, which need not be there.
    let position_0 = -(first as isize) * line.from;
    let before = (size / 2) as isize + origin;
    let range = |block: usize| {
        let start = block * cut.rows;
        let rows = cut.rows.min(line.length - start);
        // A running sum also reads what leaves it.
        let more = usize::from(is_running && start > 0);
        let first = (results.start + start) as isize - before - more as isize;
        PaddedRange::new(border, first, rows + size - 1 + more, length)
    };
    let ranges: Vec<_> = (0..blocks).map(range).collect();
    let work = if is_part { 0 } else { input.layout.elements().saturating_mul(size) };
    // The blocks of a line follow each other, so that what two of them read is still in a cache. A running sum goes on
    // from block to block, in one job.
    let (jobs, blocks_of_job) = if is_running { (outer * chunks, blocks) } else { (outer * chunks * blocks, 1) };
    run_jobs(jobs, work, cancelled, scratch, |scratch, number| {
        let (first, rest) = if is_running { (0, number) } else { (number % blocks, number / blocks) };
        let (chunk, mut rest) = (rest % chunks, rest / chunks);
        let (mut from, mut to) = (0_isize, 0_isize);
        for axis in cut.outer.iter().rev() {
            let i = (rest % axis.length) as isize;
            rest /= axis.length;
            from += i * axis.from;
            to += i * axis.to;
        }
        let column = chunk * cut.taken;
        from += column as isize * cut.columns.from;
        to += column as isize * cut.columns.to;
        for block in first..first + blocks_of_job {
            let start = block * cut.rows;
            level.run(Block {
                level,
                input: &input,
                output: &output,
                from: input.first.wrapping_offset(position_0 + from),
                to: output.first.wrapping_offset(to + start as isize * line.to),
                line,
                stride: cut.columns,
                width: cut.width,
                columns: cut.taken.min(cut.columns.length - column),
                rows: cut.rows.min(line.length - start),
                range: &ranges[block],
                is_in_place,
                outside: F::Value::from_f64(value),
                filter: &filter,
                is_first: start == 0,
                scratch,
            });
        }
    })
}

/// Whether so many rows that are `stride` bytes apart have places of their own in the first-level cache. Rows a multiple
/// of a large power of two apart share few places.
fn fit_cache(rows: usize, stride: isize) -> bool {
    stride == 0 || rows <= FIRST_LEVEL >> stride.trailing_zeros().min(12)
}

/// The first value of a block in an array, and the places from one row to the next.
type InPlace<A> = (*mut A, isize);

/// A job: one block after the other.
struct Block<'a, F: LineSums> {
    level: Level,
    input: &'a Input<'a>,
    output: &'a Output<'a>,
    /// The element of the input at position 0 of the first line.
    from: *const u8,
    /// The first result.
    to: *mut u8,
    line: Axis,
    /// From one line to the next.
    stride: Axis,
    /// Columns of the scratch memory.
    width: usize,
    /// Columns of the job, and while it runs, of a block.
    columns: usize,
    rows: usize,
    /// The positions that the block reads.
    range: &'a PaddedRange,
    /// Whether input and output are the same array.
    is_in_place: bool,
    outside: F::Value,
    filter: &'a F,
    /// Whether the block is the first one of its lines.
    is_first: bool,
    scratch: &'a mut Buffers<F::Value>,
}

impl<F: LineSums> Block<'_, F> {
    /// Converts the elements at one position of all lines.
    ///
    /// # Safety
    /// - `from` is the element at position 0 of the first line, and the position is within the axis.
    /// - `to` has room for the block's columns.
    #[inline(always)]
    unsafe fn fill_one(&self, from: *const u8, position: Option<usize>, to: *mut F::Value) {
        // SAFETY: the elements are there, and so is room for them.
        unsafe {
            match position {
                Some(position) => {
                    let from = from.offset(position as isize * self.line.from);
                    let columns = Run::adjacent(self.columns, self.stride.from);
                    load(self.level, self.input.layout.element, from, to, Run::ONE, columns);
                }
                None => std::slice::from_raw_parts_mut(to, self.columns).fill(self.outside),
            }
        }
    }

    /// The part of the input that the block reads, in the type of the sums.
    #[inline(always)]
    fn fill(&mut self) {
        let Self { width, columns, line, stride, .. } = *self;
        // `run` made the scratch memory so large that each row of the range has its place, and the positions that the
        // range names are within the axis.
        let (from, rows) = (self.from, self.scratch.rows.as_mut_ptr());
        if width == 1 {
            let (element, outside) = (self.input.layout.element, self.outside);
            // SAFETY: see above.
            return unsafe { load_line(self.level, element, from, line.from, self.range, outside, rows) };
        }
        let PaddedRange { before, first, inside, after } = self.range;
        for (row, &position) in before.iter().enumerate() {
            // SAFETY: see above.
            unsafe { self.fill_one(from, position, rows.add(row * width)) };
        }
        let along = Run { count: *inside, stride: line.from, step: width };
        let across = Run::adjacent(columns, stride.from);
        let is_along = line.from.unsigned_abs() < stride.from.unsigned_abs();
        let (outer, inner) = if columns == 1 || is_along { (across, along) } else { (along, across) };
        let start = from.wrapping_offset(*first as isize * line.from);
        // SAFETY: see above.
        unsafe { load(self.level, self.input.layout.element, start, rows.add(before.len() * width), outer, inner) };
        for (row, &position) in after.iter().enumerate() {
            // SAFETY: see above.
            unsafe { self.fill_one(from, position, rows.add((before.len() + inside + row) * width)) };
        }
    }

    /// The values in the input, and the places from one row to the next. None if they must be copied.
    #[inline(always)]
    fn values_in_place(&self) -> Option<InPlace<F::Value>> {
        let PaddedRange { before, first, after, .. } = self.range;
        let is_inside = before.is_empty() && after.is_empty() && !self.is_in_place;
        let fit = self.columns == 1 || fit_cache(self.filter.size(), self.line.from);
        let from = self.from.wrapping_offset(*first as isize * self.line.from);
        let (row, line) = (self.stride.from, self.line.from);
        if is_inside && fit { self.in_place(self.input.layout.element, from.cast_mut(), row, line) } else { None }
    }

    /// The results in the output, and the places from one row to the next. None if they must be copied.
    #[inline(always)]
    fn results_in_place(&self) -> Option<InPlace<F::Value>> {
        self.in_place(self.output.layout.element, self.to, self.stride.to, self.line.to)
    }

    /// Rows of elements from `first` on, `line` bytes apart, as values of sums. Elements of a row are `row` bytes apart.
    /// None unless they are of the type of the sums, aligned, and adjacent.
    #[inline(always)]
    fn in_place(&self, element: Element, first: *mut u8, row: isize, line: isize) -> Option<InPlace<F::Value>> {
        let size = size_of::<F::Value>();
        let are_adjacent = self.columns == 1 || row == size as isize;
        let are_aligned = first.addr().is_multiple_of(size) && line % size as isize == 0;
        (element == F::Value::ELEMENT && are_adjacent && are_aligned).then(|| (first.cast(), line / size as isize))
    }

    /// The places of the block: those in the arrays, or else in scratch memory.
    #[inline(always)]
    fn places(&mut self, values: Option<InPlace<F::Value>>, results: Option<InPlace<F::Value>>) -> Places<F::Value> {
        let Buffers { rows, results: scratch, sums } = &mut *self.scratch;
        let is_scratch = values.is_none() && results.is_none();
        let (values, step) = values.unwrap_or_else(|| (rows.as_mut_ptr(), self.width as isize));
        let (results, pitch) = results.unwrap_or_else(|| (scratch.as_mut_ptr(), self.width as isize));
        Places {
            values,
            step,
            results,
            pitch,
            sums: sums.as_mut_ptr(),
            rows: self.rows,
            width: if is_scratch { self.width } else { self.columns },
            is_first: self.is_first,
        }
    }

    /// Converts the results.
    #[inline(always)]
    fn write(&mut self) {
        let Self { width, columns, rows, line, stride, .. } = *self;
        let (from, to) = (self.scratch.results.as_mut_ptr().cast_const(), self.to);
        let along = Run { count: rows, stride: line.to, step: width };
        let across = Run::adjacent(columns, stride.to);
        let is_along = line.to.unsigned_abs() < stride.to.unsigned_abs();
        let (outer, inner) = if columns == 1 || is_along { (across, along) } else { (along, across) };
        // SAFETY: row and column are those of a result of this block, in scratch memory and output.
        unsafe { store::<_, false>(self.level, self.output.layout.element, from, to, outer, inner) };
    }

    /// Computes the results of one block.
    #[inline(always)]
    fn compute<S: Simd>(&mut self, simd: S) {
        let (mut values, mut results) = (self.values_in_place(), self.results_in_place());
        if self.places(values, results).adjacent().1 < self.filter.fewest::<S>() {
            (values, results) = (None, None);
        }
        if values.is_none() {
            self.fill();
        }
        #[cfg(test)]
        super::tests::in_place::count(values.is_some(), results.is_some());
        let places = self.places(values, results);
        // SAFETY: `run` made the scratch memory for these rows and SLACK values more, and `fill` has written them. Rows
        // in the arrays have `fewest` adjacent results.
        unsafe { self.filter.run(simd, &places) };
        if results.is_none() {
            self.write();
        }
    }
}

impl<F: LineSums> Work for Block<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(mut self, simd: S) {
        let Self { from, to, stride, columns, width, .. } = self;
        for first in (0..columns).step_by(width) {
            self.from = from.wrapping_offset(first as isize * stride.from);
            self.to = to.wrapping_offset(first as isize * stride.to);
            self.columns = width.min(columns - first);
            self.compute(simd);
        }
    }
}
