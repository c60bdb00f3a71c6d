//! A block of a filter along one axis: the values in the type of the sums, the sums, and the results.
//!
//! Values and results lie in scratch memory. Elements that already have the type of the sums stay where they are:
//!
//! - **Results**: if the results of a row are adjacent and aligned, and a row is long enough for the loops.
//! - **Values**: on the same conditions, if the block reads no border, input and output are different arrays, and the
//!   rows that a result reads fit the first-level cache together.

use super::axis::Axis;
use super::border::PaddedRange;
use super::convert::{AsScipy, Run, are_values, load, load_line, store};
use super::lines::{LineSums, SHORT};
use super::scratch::Scratch;
use super::{Element, Input, Output};
use crate::cpu::simd::{Level, Simd, Work};

/// Bytes of a first-level cache. With 8 ways, it holds 8 rows that are a multiple of 4 KiB apart.
const FIRST_LEVEL: usize = 32 << 10;

/// A block: rows of the values at one position of each line, in scratch memory or in the arrays.
pub(super) struct Places<A> {
    /// The values. There is a row for each result, and `size - 1` more, which the first and the last result read before
    /// and after. Blocks that continue running sums have one row before these.
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
    /// Values of a row. In scratch memory some of the last ones may belong to no line.
    pub(super) width: usize,
    /// Whether the block is the first one of its lines.
    pub(super) is_first: bool,
}

impl<A> Places<A> {
    /// How many rows the loops take, and how many results each has. Rows without gaps, in values and results, are one
    /// row.
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

/// Scratch memory of a thread.
pub(super) struct Buffers<A> {
    pub(super) rows: Scratch<A>,
    pub(super) results: Scratch<A>,
    /// [`Places::sums`].
    pub(super) sums: Scratch<A>,
}

/// Whether this many rows, `stride` bytes apart, have places of their own in the first-level cache. Rows that are
/// a multiple of a large power of two apart share few places.
fn fit_cache(rows: usize, stride: isize) -> bool {
    stride == 0 || rows <= FIRST_LEVEL >> stride.trailing_zeros().min(12)
}

/// The order of the loops over the positions of lines and over the lines: the outer and the inner one. The inner one
/// goes through elements that lie close together, if they are not few.
#[inline(always)]
fn nested(along: Run, across: Run) -> (Run, Run) {
    let is_along = along.stride.unsigned_abs() < across.stride.unsigned_abs() && along.count > SHORT;
    if across.count == 1 || is_along { (across, along) } else { (along, across) }
}

/// The first value of a block in an array, and the places from one row to the next.
type InPlace<A> = (*mut A, isize);

/// A job: one block after the other.
pub(super) struct Block<'a, F: LineSums> {
    pub(super) level: Level,
    pub(super) input: &'a Input<'a>,
    pub(super) output: &'a Output<'a>,
    /// The element of the input at position 0 of the first line.
    pub(super) from: *const u8,
    /// The first result.
    pub(super) to: *mut u8,
    pub(super) line: Axis,
    /// From one line to the next.
    pub(super) stride: Axis,
    /// Columns of the scratch memory.
    pub(super) width: usize,
    /// Columns of the job. `run` sets it to the columns of one block after the other, as it does `from` and `to`.
    pub(super) columns: usize,
    pub(super) rows: usize,
    /// The positions that the block reads.
    pub(super) range: &'a PaddedRange,
    /// Whether input and output are the same array.
    pub(super) is_same_array: bool,
    pub(super) outside: F::Value,
    pub(super) filter: &'a F,
    /// Whether the block is the first one of its lines.
    pub(super) is_first: bool,
    pub(super) scratch: &'a mut Buffers<F::Value>,
}

impl<F: LineSums> Block<'_, F> {
    /// Writes the values at one position of all lines to a row outside of the axis. They are copied from the `inside`
    /// rows if these have them.
    ///
    /// # Safety
    /// - The element at the position is in the input.
    /// - `inside` has the rows of the range that are within the axis.
    /// - `to` has room for the block's columns, and is none of these rows.
    #[inline(always)]
    unsafe fn fill_outside(&self, position: Option<usize>, inside: *const F::Value, to: *mut F::Value) {
        let row_of = |position: usize| position.checked_sub(self.range.first).filter(|&row| row < self.range.inside);
        // SAFETY: the elements are there, and so is room for them.
        unsafe {
            match position.map(|position| row_of(position).ok_or(position)) {
                Some(Ok(row)) => to.copy_from_nonoverlapping(inside.add(row * self.width), self.columns),
                Some(Err(position)) => {
                    let from = self.from.wrapping_offset(position as isize * self.line.from);
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
        let along = Run { count: *inside, stride: line.from, step: width };
        let (outer, inner) = nested(along, Run::adjacent(columns, stride.from));
        let start = from.wrapping_offset(*first as isize * line.from);
        // SAFETY: see above. `nested` has only changed the order.
        unsafe {
            let rows_inside = rows.add(before.len() * width);
            load(self.level, self.input.layout.element, start, rows_inside, outer, inner);
            for (row, &position) in before.iter().enumerate() {
                self.fill_outside(position, rows_inside, rows.add(row * width));
            }
            for (row, &position) in after.iter().enumerate() {
                self.fill_outside(position, rows_inside, rows_inside.add((inside + row) * width));
            }
        }
    }

    /// The values in the input, and the places from one row to the next. None if they must be copied.
    #[inline(always)]
    fn values_in_place(&self) -> Option<InPlace<F::Value>> {
        let PaddedRange { before, first, after, .. } = self.range;
        let is_inside = before.is_empty() && after.is_empty() && !self.is_same_array;
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

    /// Rows of elements from `first` on, `line` bytes apart. Elements of a row are `row` bytes apart. None unless they
    /// are of the type of the sums, aligned, and adjacent.
    #[inline(always)]
    fn in_place(&self, element: Element, first: *mut u8, row: isize, line: isize) -> Option<InPlace<F::Value>> {
        let size = size_of::<F::Value>() as isize;
        let are_adjacent = self.columns == 1 || row == size;
        let are_values = are_values::<F::Value>(element, first, [line].into_iter());
        (are_adjacent && are_values).then(|| (first.cast(), line / size))
    }

    /// The places of the block: in the arrays, or else in scratch memory.
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
        let (outer, inner) = nested(along, Run::adjacent(columns, stride.to));
        // SAFETY: row and column are those of a result of this block, in scratch memory and output.
        unsafe { store(self.level, self.output.layout.element, from, to, outer, inner, AsScipy::<false>) };
    }

    /// Computes the results of one block.
    #[inline(always)]
    fn compute<S: Simd>(&mut self, simd: S) {
        let (mut values, mut results) = (self.values_in_place(), self.results_in_place());
        let fewest = self.filter.fewest::<S>();
        if self.places(values, results).adjacent().1 < fewest {
            values = None;
        }
        if self.places(values, results).adjacent().1 < fewest {
            (values, results) = (None, None);
        }
        if values.is_none() {
            self.fill();
        }
        #[cfg(test)]
        super::tests::in_place::count(values.is_some(), results.is_some());
        let places = self.places(values, results);
        // SAFETY: in scratch memory there are these rows and SLACK values more. All are initialised, and `fill` has
        // written those of the block's columns. In an array the rows exist, as the range has no border. If either place
        // is in an array, there are `fewest` adjacent results.
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
