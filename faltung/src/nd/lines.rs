//! Filters along one axis.
//!
//! A job takes a block of `rows` positions along the filtered axis and of `columns` adjacent lines. It converts the
//! block and its border to rows of scratch memory, computes, and converts the results. Where the filtered axis is the
//! one whose elements lie closest together, a block is a part of one line: one column. A job takes several such blocks, of
//! lines side by side. But [short](SHORT) lines are transposed, and a block has many of them. Elements of the type of the
//! sums may need no copy: see [`block`](super::block).

use std::ops::Range;

use kernels_gpu::abi::border::BorderMode;

use super::axis::{Axis, before, offsets};
use super::block::{Block, Buffers, Places};
use super::border::PaddedRange;
use super::kernel::{SLACK, Scalar};
use super::line_filter::{LineFilter, Summed};
use super::narrow::{Again, Narrow, PARTIAL, Values};
use super::scratch::Scratch;
use super::whole::{Correlated, Means};
use super::{Element, Input, Layout, Output, SERIAL, Sums, run_jobs};
use crate::cpu::simd::{Level, Simd};
use crate::{Error, Result, memory, parallel};

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

    /// [`check`](Self::check) for the CPU. There may be too little memory for a filter that is much longer than its axis.
    pub(super) fn check_on_cpu(&self, size: usize, array: &Layout) -> Result<()> {
        /// For each position under a filter: its place on the axis, and for each thread eight lines of `f64`.
        const OF_AXIS: usize = size_of::<Option<usize>>();
        const OF_THREAD: usize = 8 * size_of::<f64>();
        self.check(size, array.shape.len())?;
        // A short call has one thread. To ask for the number would start rayon's pool.
        let is_short = array.elements().saturating_mul(size) < SERIAL;
        let threads = if is_short { 1 } else { parallel::threads() };
        let bytes = size.saturating_mul(OF_AXIS + OF_THREAD * threads);
        memory::with_capacity::<u8>(bytes, "for the lines under a filter").map(drop)
    }
}

/// `output[i] = sum over j of weights[j] * input[i + j - size / 2 - origin]` along one axis:
/// `scipy.ndimage.correlate1d`.
///
/// Input and output are the same array, of the same layout, or have no byte in common.
///
/// # Errors
/// - [`Error::Number`] if the output has another shape, there is no such axis, there are no weights, the origin is out
///   of range, or sums of `f32` are asked for other types.
/// - [`Error::HostMemory`] if the filter is so long that the lines under it don't fit memory.
/// - [`Error::Cancelled`]. Some results are then unwritten.
/// - [`Error::Parse`] if `FALTUNG_CPU` names no instruction set that the CPU has.
pub fn correlate1d(input: Input<'_>, output: Output<'_>, weights: &[f64], lines: &Lines, sums: Sums) -> Result<()> {
    correlate1d_part(input, output, weights, lines, sums, Part::All)
}

/// [`correlate1d`] for a part of the filtered axis.
pub(super) fn correlate1d_part(
    input: Input<'_>,
    output: Output<'_>,
    weights: &[f64],
    lines: &Lines,
    sums: Sums,
    part: Part,
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
/// Input and output are the same array, of the same layout, or have no byte in common.
///
/// # Errors
/// As for [`correlate1d`].
///
/// ```
/// use faltung::BorderMode;
/// use faltung::nd::{Input, Lines, Output, uniform1d};
///
/// let (values, mut result) = ([0_u8, 3, 6, 9], [0.0_f32; 4]);
/// let (input, output) = (Input::new(&values, &[4])?, Output::new(&mut result, &[4])?);
/// let lines = Lines { axis: 0, origin: 0, border: BorderMode::Reflect, value: 0.0 };
/// uniform1d(input, output, 3, &lines)?;
/// assert_eq!(result, [1.0, 3.0, 6.0, 8.0]);
/// # Ok::<(), faltung::Error>(())
/// ```
pub fn uniform1d(input: Input<'_>, output: Output<'_>, size: usize, lines: &Lines) -> Result<()> {
    let (from, to) = (input.layout.element, output.layout.element);
    let outside = if lines.border == BorderMode::Constant { lines.value } else { 0.0 };
    // The largest magnitude of a sum, if all are whole numbers.
    let largest = from.largest().filter(|_| outside.fract() == 0.0);
    let most = largest.map(|largest| largest.max(outside.abs()) * size as f64);
    let has_fractions = matches!(to, Element::F32 | Element::F64);
    let part = Part::All;
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

    /// With so many [adjacent](Places::adjacent) results or more, `run` needs no slack and does not write the values.
    /// [`usize::MAX`]: it always may.
    fn fewest<S: Simd>(&self) -> usize {
        usize::MAX
    }

    /// # Safety
    /// - The places have the values that the results read, and room for the results.
    /// - Unless there are [`fewest`](Self::fewest) adjacent results, all rows are adjacent, [`SLACK`] values follow
    ///   values and results, and the values may be written.
    unsafe fn run<S: Simd>(&self, simd: S, places: &Places<Self::Value>);
}

/// The axes other than the filtered one, the widest strides first. Axes of one element are left out. Two axes that can
/// be walked as one are one.
fn other_axes(input: &Input<'_>, output: &Output<'_>, filtered: usize) -> Vec<Axis> {
    let mut axes: Vec<_> = (0..input.layout.shape.len())
        .filter(|&axis| axis != filtered && input.layout.shape[axis] != 1)
        .map(|axis| Axis::of(input, output, axis))
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

/// Adjacent lines in a block from which on more rows are worth more than longer rows.
const COLUMNS: usize = 256;

/// Multiply-adds of a job of several short lines: so many that starting the job costs little beside them.
const JOB: usize = 1 << 15;

/// Places of the longest part of a line.
const LONGEST: usize = 1 << 15;

/// Elements of the longest line that is transposed. A longer one takes more time to transpose than to be a block of its
/// own.
pub(super) const SHORT: usize = 32;

/// A block with fewer elements takes more time to start than to compute. Then the lines of a block lie side by side along
/// the longest axis, not along the innermost one.
const FEW: usize = 64;

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
    fn new(line: Axis, mut outer: Vec<Axis>, size: usize, bytes: usize, is_running: bool, is_same_array: bool) -> Self {
        let is_along_line =
            line.length > SHORT && outer.last().is_none_or(|axis| line.to.unsigned_abs() < axis.to.unsigned_abs());
        if !is_along_line && outer.last().is_some_and(|axis| axis.length * line.length < FEW) {
            outer.sort_by_key(|axis| axis.length);
        }
        let columns = outer.pop().unwrap_or(Axis::ONE);
        let most = match (is_along_line, is_running) {
            (true, false) => 1,
            // Running sums wait for each other, so several lines are computed at the same time.
            (true, true) => 8,
            (false, _) => (ROW / bytes).max(COLUMNS),
        };
        let mut width = most.min(columns.length);
        let padded = if is_same_array { line.length } else { size } + size;
        // A block of few rows reads much more than its own.
        while width > 8 && padded * width > BLOCK || width > COLUMNS && 6 * size * width > BLOCK {
            width /= 2;
        }
        let rows = match (is_same_array, is_along_line && !is_running) {
            (true, _) => line.length,
            (false, true) => LONGEST.max(2 * size),
            (false, false) => (BLOCK / width).saturating_sub(size).max(size),
        };
        let rows = rows.min(line.length);
        let lines = if width == 1 { JOB / size.saturating_mul(rows) } else { 0 };
        Self { columns, width, taken: lines.clamp(width, columns.length.max(width)), rows, outer }
    }
}

/// The results along the filtered axis that a call computes.
pub(super) enum Part {
    /// All, on all threads.
    All,
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
fn run<F: LineSums>(input: Input<'_>, output: Output<'_>, lines: &Lines, filter: F, part: Part) -> Result<()> {
    let Lines { axis, origin, border, value } = *lines;
    let size = filter.size();
    let (results, first, length, is_part) = match part {
        Part::All => {
            output.layout.check_shape(&input.layout)?;
            lines.check_on_cpu(size, &input.layout)?;
            (0..input.layout.shape[axis], 0, input.layout.shape[axis], false)
        }
        Part::Some { results, first, length } => (results, first, length, true),
    };
    if input.layout.elements() == 0 || results.is_empty() {
        return Ok(());
    }
    let level = Level::chosen()?;
    let line = Axis { length: results.len(), ..Axis::of(&input, &output, axis) };
    let is_same_array = !is_part && std::ptr::eq(input.first, output.first);
    let is_running = filter.is_running();
    let cut =
        Cut::new(line, other_axes(&input, &output, axis), size, input.layout.element.size(), is_running, is_same_array);

    // The sums of a running filter are those of one block's columns.
    debug_assert!(!is_running || cut.taken == cut.width);
    let (blocks, chunks) = (line.length.div_ceil(cut.rows), cut.columns.length.div_ceil(cut.taken));
    let outer: usize = cut.outer.iter().map(|axis| axis.length).product();
    let places = (cut.rows + size) * cut.width + SLACK;
    let scratch = || {
        let (results, sums) = (Scratch::new(cut.rows * cut.width + SLACK), Scratch::new(cut.width));
        Ok(Buffers { rows: Scratch::new(places), results, sums })
    };
    // Position 0 of the axis, which need not be there.
    let position_0 = -(first as isize) * line.from;
    let before = before(size, origin);
    let range = |block: usize| {
        let start = block * cut.rows;
        let rows = cut.rows.min(line.length - start);
        // A running sum also reads what leaves it.
        let more = usize::from(is_running && start > 0);
        let first = (results.start + start) as isize - (before + more) as isize;
        PaddedRange::new(border, first, rows + size - 1 + more, length)
    };
    let ranges: Vec<_> = (0..blocks).map(range).collect();
    let work = if is_part { 0 } else { input.layout.elements().saturating_mul(size) };
    // The blocks of a line follow each other, so that what two of them read is still in a cache. A running sum goes on
    // from block to block, in one job.
    let (jobs, blocks_of_job) = if is_running { (outer * chunks, blocks) } else { (outer * chunks * blocks, 1) };
    run_jobs(jobs, work, scratch, |scratch, number| {
        let (first, rest) = if is_running { (0, number) } else { (number % blocks, number / blocks) };
        let (chunk, rest) = (rest % chunks, rest / chunks);
        let (mut from, mut to) = offsets(&cut.outer, rest);
        let column = chunk * cut.taken;
        from += column as isize * cut.columns.from;
        to += column as isize * cut.columns.to;
        for (block, range) in ranges.iter().enumerate().skip(first).take(blocks_of_job) {
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
                range,
                is_same_array,
                outside: F::Value::from_f64(value),
                filter: &filter,
                is_first: start == 0,
                scratch,
            });
        }
    })
}
