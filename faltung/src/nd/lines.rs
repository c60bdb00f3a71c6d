//! Filters along one axis.
//!
//! A job takes a block of `rows` positions along the filtered axis and of `columns` adjacent lines. It converts the
//! block and its border to rows of scratch memory, computes, and converts the results. Where the filtered axis is the
//! one whose elements lie closest together, a block is a part of one line: one column.

use std::sync::atomic::AtomicBool;

use kernels_gpu::abi::border::BorderMode;

use super::border::PaddedRange;
use super::convert::{Run, load, store};
use super::kernel::{Mirrored, Real, SLACK, Tap, divide, mirrored_sums, running_sums, weighted_sums, window_sums};
use super::narrow::{Again, Final, Narrow, Order, PARTIAL, Recheck, Values};
use super::scratch::Scratch;
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
    sums.check(input.layout.element, output.layout.element)?;
    match sums {
        Sums::F32 => {
            let weights: Vec<_> = weights.iter().map(|&weight| weight as f32).collect();
            run(input, output, lines, &LineFilter::<f32>::of(&weights), usize::MAX, |_| Final, cancelled)
        }
        Sums::F64 => {
            let filter = LineFilter::<f64>::of(weights);
            let outside = (lines.border == BorderMode::Constant).then_some(lines.value);
            let values = Values::new(input.layout.element, outside);
            match Narrow::new(values, output.layout.element, weights, filter.additions()) {
                Some(Narrow::Exact) => run(input, output, lines, &filter.narrowed(), usize::MAX, |_| Final, cancelled),
                Some(Narrow::Proven(radius)) => {
                    let again = |width| Again { order: filter.order(width), radius };
                    run(input, output, lines, &filter.narrowed(), PARTIAL, again, cancelled)
                }
                None => run(input, output, lines, &filter, usize::MAX, |_| Final, cancelled),
            }
        }
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
    match most {
        // A quotient that is no whole number is at least 1 / size away from one, and a rounding of `f32` moves it by
        // less: it loses the same fraction.
        Some(most) if most < 16_777_216.0 && !has_fractions => {
            run(input, output, lines, &LineFilter::<f32>::Windows(size), usize::MAX, |_| Final, cancelled)
        }
        Some(most) if most < 9_007_199_254_740_992.0 => {
            run(input, output, lines, &LineFilter::<f64>::Windows(size), usize::MAX, |_| Final, cancelled)
        }
        _ => run(input, output, lines, &LineFilter::<f64>::Running(size), usize::MAX, |_| Final, cancelled),
    }
}

/// What is computed along a line.
enum LineFilter<A> {
    /// The weights in the order in which they are added, each with its number.
    Taps(Vec<(usize, A)>),
    Mirrored(Mirrored<A>),
    /// The mean of so many values, of which no sum rounds.
    Windows(usize),
    /// The mean of so many values, summed in SciPy's order.
    Running(usize),
}

/// Whether the weights after the middle are the negatives of those before it, or else equal to them; None if neither.
pub(super) fn is_odd<A: Real>(weights: &[A]) -> Option<bool> {
    let middle = weights.len() / 2;
    let is = |sign: f64| {
        (1..=middle).all(|d| {
            let (before, after) = (weights[middle - d].to_f64(), weights[middle + d].to_f64());
            (after - sign * before).abs() <= f64::EPSILON
        })
    };
    match weights.len() % 2 {
        1 if is(1.0) => Some(false),
        1 if is(-1.0) => Some(true),
        _ => None,
    }
}

impl<A: Real> LineFilter<A> {
    fn of(weights: &[A]) -> Self {
        if let Some(is_odd) = is_odd(weights) {
            let middle = weights.len() / 2;
            return Self::Mirrored(Mirrored { middle: weights[middle], before: weights[..middle].to_vec(), is_odd });
        }
        let size = weights.len();
        // The last one comes first, as in SciPy.
        let numbers = size.checked_sub(1).into_iter().chain(0..size.saturating_sub(1));
        Self::Taps(numbers.map(|number| (number, weights[number])).collect())
    }

    fn size(&self) -> usize {
        match self {
            Self::Taps(taps) => taps.len(),
            Self::Mirrored(mirrored) => 2 * mirrored.before.len() + 1,
            Self::Windows(size) | Self::Running(size) => *size,
        }
    }
}

impl LineFilter<f64> {
    /// With weights of `f32`.
    fn narrowed(&self) -> LineFilter<f32> {
        match self {
            Self::Taps(taps) => {
                LineFilter::Taps(taps.iter().map(|&(number, weight)| (number, weight as f32)).collect())
            }
            Self::Mirrored(Mirrored { middle, before, is_odd }) => LineFilter::Mirrored(Mirrored {
                middle: *middle as f32,
                before: before.iter().map(|&weight| weight as f32).collect(),
                is_odd: *is_odd,
            }),
            Self::Windows(size) => LineFilter::Windows(*size),
            Self::Running(size) => LineFilter::Running(*size),
        }
    }

    /// The most additions that a product goes through, in partial sums of [`PARTIAL`] products.
    fn additions(&self) -> usize {
        match self {
            // Both values of a pair are added first.
            Self::Mirrored(mirrored) => mirrored.before.len() + 2,
            _ => PARTIAL + self.size().div_ceil(PARTIAL),
        }
    }

    /// The products of a sum in their order, where the values of a line are `step` places apart.
    fn order(&self, step: usize) -> Order {
        let tap = |(places, weight)| Tap { offset: (places * step) as isize, weight };
        match self {
            Self::Mirrored(Mirrored { middle, before, is_odd }) => {
                let pairs = (1..=before.len()).rev().zip(before.iter().copied()).map(tap).collect();
                Order::Mirrored { middle: *middle, pairs, is_odd: *is_odd }
            }
            Self::Taps(taps) => Order::Taps(taps.iter().copied().map(tap).collect()),
            Self::Windows(_) | Self::Running(_) => unreachable!("means are not summed again"),
        }
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

/// Scratch values of a block without the border: 384 KiB of `f64`, within the second-level cache.
const BLOCK: usize = 48 << 10;

/// Bytes of the input in a row of a block: as many as the CPU fetches ahead well.
const ROW: usize = 1024;

/// Adjacent lines in a block from which on more rows are worth more than longer rows.
const COLUMNS: usize = 256;

/// Places of the longest part of a line.
const LONGEST: usize = 1 << 15;

/// How the arrays are cut into jobs.
struct Cut {
    /// The adjacent lines.
    columns: Axis,
    /// Columns of a block.
    width: usize,
    /// Rows of a block.
    rows: usize,
    outer: Vec<Axis>,
}

impl Cut {
    /// For lines of elements of so many `bytes`.
    fn new(line: Axis, mut outer: Vec<Axis>, size: usize, bytes: usize, is_running: bool, is_in_place: bool) -> Self {
        let single = Axis { length: 1, from: 0, to: 0 };
        let is_along_line = outer.last().is_none_or(|axis| line.to.unsigned_abs() < axis.to.unsigned_abs());
        let (columns, most) = match (is_along_line, is_running) {
            (true, false) => (single, 1),
            // Running sums wait for each other, so several lines are computed at the same time.
            (true, true) => (outer.pop().unwrap_or(single), 8),
            (false, _) => (outer.pop().unwrap_or(single), (ROW / bytes).max(COLUMNS)),
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
        Self { columns, width, rows: rows.min(line.length), outer }
    }
}

/// Scratch memory of a thread.
struct Buffers<A> {
    rows: Scratch<A>,
    results: Scratch<A>,
    /// The sums of the last row, for [`LineFilter::Running`].
    sums: Scratch<A>,
}

/// Filters lines by partial sums of so many products. `recheck` makes what looks at the sums, for values of a line that
/// are so many places apart.
fn run<A: Real, R: Recheck<A>>(
    input: Input<'_>,
    output: Output<'_>,
    lines: &Lines,
    filter: &LineFilter<A>,
    partial: usize,
    recheck: impl FnOnce(usize) -> R,
    cancelled: Option<&AtomicBool>,
) -> Result<()> {
    let Lines { axis, origin, border, value } = *lines;
    output.layout.check_shape(&input.layout)?;
    let size = filter.size();
    lines.check(size, input.layout.shape.len())?;
    if input.layout.elements() == 0 {
        return Ok(());
    }
    let level = Level::chosen()?;
    let line =
        Axis { length: input.layout.shape[axis], from: input.layout.strides[axis], to: output.layout.strides[axis] };
    let is_in_place = std::ptr::eq(input.first, output.first);
    let is_running = matches!(filter, LineFilter::Running(_));
    let cut =
        Cut::new(line, other_axes(&input, &output, axis), size, input.layout.element.size(), is_running, is_in_place);

    let (blocks, chunks) = (line.length.div_ceil(cut.rows), cut.columns.length.div_ceil(cut.width));
    let outer: usize = cut.outer.iter().map(|axis| axis.length).product();
    let places = (cut.rows + size) * cut.width + SLACK;
    let scratch = || {
        let (results, sums) = (Scratch::new(cut.rows * cut.width + SLACK), Scratch::new(cut.width));
        Ok(Buffers { rows: Scratch::new(places), results, sums })
    };
    let taps: Vec<_> = match filter {
        LineFilter::Taps(taps) => {
            let at = |&(number, weight): &(usize, A)| Tap { offset: (number * cut.width) as isize, weight };
            taps.iter().map(at).collect()
        }
        _ => Vec::new(),
    };
    let recheck = recheck(cut.width);
    let before = (size / 2) as isize + origin;
    let work = input.layout.elements().saturating_mul(size);
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
        let column = chunk * cut.width;
        from += column as isize * cut.columns.from;
        to += column as isize * cut.columns.to;
        for block in first..first + blocks_of_job {
            let start = block * cut.rows;
            let rows = cut.rows.min(line.length - start);
            // A running sum also reads what leaves it.
            let more = usize::from(is_running && start > 0);
            let range =
                PaddedRange::new(border, start as isize - before - more as isize, rows + size - 1 + more, line.length);
            level.run(Block {
                level,
                input: &input,
                output: &output,
                from: input.first.wrapping_offset(from),
                to: output.first.wrapping_offset(to + start as isize * line.to),
                line,
                stride: cut.columns,
                width: cut.width,
                columns: cut.width.min(cut.columns.length - column),
                rows,
                range,
                outside: A::from_f64(value),
                filter,
                taps: &taps,
                partial,
                recheck: &recheck,
                is_first: start == 0,
                scratch,
            });
        }
    })
}

/// A job.
struct Block<'a, A, R> {
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
    /// Columns of this block.
    columns: usize,
    rows: usize,
    range: PaddedRange,
    outside: A,
    filter: &'a LineFilter<A>,
    taps: &'a [Tap<A>],
    /// Products of a partial sum.
    partial: usize,
    recheck: &'a R,
    /// Whether the block is the first one of its lines.
    is_first: bool,
    scratch: &'a mut Buffers<A>,
}

impl<A: Real, R> Block<'_, A, R> {
    /// Converts the elements at one position of all lines.
    ///
    /// # Safety
    /// - `from` is the element at position 0 of the first line, and the position is within the axis.
    /// - `to` has room for the block's columns.
    #[inline(always)]
    unsafe fn fill_one(&self, from: *const u8, position: Option<usize>, to: *mut A) {
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
        let PaddedRange { before, first, inside, after } = &self.range;
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
}

impl<A: Real, R: Recheck<A>> Work for Block<'_, A, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(mut self, simd: S) {
        self.fill();
        let count = self.rows * self.width;
        let (from, to) = (self.scratch.rows.as_mut_ptr(), self.scratch.results.as_mut_ptr());
        // SAFETY: the scratch memory has the rows of the results and as many before and after them as the filter
        // reads, and SLACK values more.
        unsafe {
            match self.filter {
                LineFilter::Taps(_) => {
                    weighted_sums(simd, from, self.taps, self.partial, to, count);
                    self.recheck.run(simd, from, to, count);
                }
                LineFilter::Mirrored(filter) => {
                    let from = from.add(filter.before.len() * self.width);
                    if filter.is_odd {
                        mirrored_sums::<_, _, true>(simd, from, self.width, filter, to, count);
                    } else {
                        mirrored_sums::<_, _, false>(simd, from, self.width, filter, to, count);
                    }
                    self.recheck.run(simd, from, to, count);
                }
                LineFilter::Windows(size) => {
                    window_sums(simd, from, *size, self.width, to, count);
                    divide(to, count, A::from_f64(*size as f64));
                }
                LineFilter::Running(size) => {
                    let from = if self.is_first { from } else { from.add(self.width) };
                    let sums = self.scratch.sums.as_mut_ptr();
                    running_sums(from, *size, self.width, self.rows, self.is_first, sums, to);
                    divide(to, count, A::from_f64(*size as f64));
                }
            }
        }
        self.write();
    }
}
