//! The block of a job: converts what it reads, sums, and converts the results.

use crate::cpu::simd::{Level, Simd, Work};
use crate::nd::border::PaddedRange;
use crate::nd::convert::{AsScipy, LastStep, Run, are_values, load_pixels, store};
use crate::nd::kernel::{Planes, Real, TILE_ROWS, Tap, group, tile_sums, weighted_sums};
use crate::nd::narrow::Recheck;
use crate::nd::{Input, Output};

/// An axis in both arrays and in the blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockAxis {
    pub(super) length: usize,
    /// Bytes from one element of the input to the next.
    pub(super) from: isize,
    /// Bytes from one element of the output to the next.
    pub(super) to: isize,
    /// Weights along the axis.
    pub(super) size: usize,
    /// Elements that a result reads before its own place.
    pub(super) before: usize,
    /// Results of a block.
    pub(super) block: usize,
    /// Places from one element of a packed block to the next.
    pub(super) packed: usize,
}

impl BlockAxis {
    /// Elements that a block of results reads, halo included.
    pub(super) fn padded(&self) -> usize {
        self.block + self.size - 1
    }

    /// Blocks along the axis.
    pub(super) fn blocks(&self) -> usize {
        self.length.div_ceil(self.block)
    }
}

/// The work of a job.
pub(super) struct Block<'a, A, R> {
    pub(super) level: Level,
    pub(super) input: &'a Input<'a>,
    pub(super) output: &'a Output<'a>,
    /// The last one is that of the rows.
    pub(super) axes: &'a [BlockAxis],
    /// The channels within a row.
    pub(super) inner: BlockAxis,
    /// The first result's index.
    pub(super) starts: &'a [usize],
    pub(super) ranges: &'a [PaddedRange],
    pub(super) outside: A,
    pub(super) taps: &'a [Tap<A>],
    /// The same weights, if rows of results may be computed together.
    pub(super) planes: Option<&'a Planes<A>>,
    /// Products of a partial sum.
    pub(super) partial: usize,
    pub(super) recheck: &'a R,
    /// What becomes of the sums; None is SciPy's conversion.
    pub(super) last: Option<LastStep>,
    pub(super) block: *mut A,
    pub(super) results: *mut A,
    /// Places from one row of results to the next.
    pub(super) pitch: isize,
}

impl<A: Real, R> Block<'_, A, R> {
    /// Converts what lies at the positions of `range` in one row, from the element at `from` on.
    ///
    /// # Safety
    /// - `from` is the element at position 0 of a row of the input.
    /// - `to` has room for the row.
    #[inline(always)]
    unsafe fn fill_row(&self, from: *const u8, range: &PaddedRange, row: BlockAxis, to: *mut A) {
        let (element, channels) = (self.input.layout.element, Run::adjacent(self.inner.length, self.inner.from));
        // SAFETY: as this function requires.
        unsafe { load_pixels(self.level, element, from, row.from, channels, range, self.outside, to) };
    }

    /// Whether the sums of a row of so many `values` may be written straight to the output: to adjacent and aligned
    /// elements of the type of the sums.
    #[inline(always)]
    fn writes_in_place<S: Simd>(&self, values: usize) -> bool
    where
        R: Recheck<A>,
    {
        let (size, inner, output) = (size_of::<A>() as isize, self.inner, self.output);
        let Some((row, outer)) = self.axes.split_last() else { return false };
        let are_adjacent = row.to == size * inner.length as isize && (inner.length == 1 || inner.to == size);
        let are_values = are_values::<A>(output.layout.element, output.first, outer.iter().map(|axis| axis.to));
        are_adjacent && are_values && self.last.is_none() && !R::NEEDS_SLACK && values >= group::<S, A>()
    }

    /// Converts the results of one row, which begins at `to`.
    ///
    /// # Safety
    /// - `from` has a sum for each result.
    /// - `to` is the place of the first result, and the row's other places belong to this block.
    #[inline(always)]
    unsafe fn write_row(&self, from: *const A, row: BlockAxis, count: usize, to: *mut u8) {
        let (element, inner) = (self.output.layout.element, self.inner);
        let (channels, row) = Run::of_pixels(count, row.to, Run::adjacent(inner.length, inner.to));
        // SAFETY: the places are those of the row's results, and there are as many sums.
        unsafe {
            match self.last {
                None => store(self.level, element, from, to, channels, row, AsScipy::<true>),
                Some(last) => store(self.level, element, from, to, channels, row, last),
            }
        }
    }
}

/// Makes `index` the next index of an array of this shape, the last axis fastest; false after the last one.
fn advance(index: &mut [usize], shape: impl Fn(usize) -> usize) -> bool {
    for (axis, i) in index.iter_mut().enumerate().rev() {
        *i += 1;
        if *i < shape(axis) {
            return true;
        }
        *i = 0;
    }
    false
}

impl<A: Real, R: Recheck<A>> Work for Block<'_, A, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Some((&row, outer)) = self.axes.split_last() else { return };
        let (row_start, row_range) = (self.starts[outer.len()], &self.ranges[outer.len()]);
        let positions: Vec<Vec<_>> = self.ranges[..outer.len()].iter().map(|range| range.iter().collect()).collect();

        let mut index = vec![0; outer.len()];
        let values = row.padded() * self.inner.length;
        let mut to = self.block;
        loop {
            let mut from = Some(self.input.first);
            for ((axis, positions), &i) in outer.iter().zip(&positions).zip(&index) {
                // A block at the end of an axis may need fewer elements than the others.
                from = match (from, positions.get(i).copied().flatten()) {
                    (Some(from), Some(position)) => Some(from.wrapping_offset(position as isize * axis.from)),
                    _ => None,
                };
            }
            // SAFETY: the block has room for a row at each index of the outer axes.
            unsafe {
                match from {
                    Some(from) => self.fill_row(from, row_range, row, to),
                    None => std::slice::from_raw_parts_mut(to, values).fill(self.outside),
                }
                to = to.add(values);
            }
            if !advance(&mut index, |axis| outer[axis].padded()) {
                break;
            }
        }

        let count = row.block.min(row.length - row_start);
        let values = count * self.inner.length;
        let is_in_place = self.writes_in_place::<S>(values);
        index.fill(0);
        loop {
            let (mut place, mut to) = (0, self.output.first.wrapping_offset(row_start as isize * row.to));
            for ((axis, &start), &i) in outer.iter().zip(self.starts).zip(&index) {
                place += i * axis.packed;
                to = to.wrapping_offset((start + i) as isize * axis.to);
            }
            // How many rows below this one are computed with it.
            let below = match (self.planes, outer.last()) {
                (Some(_), Some(axis)) => {
                    let (start, i) = (self.starts[outer.len() - 1], index[outer.len() - 1]);
                    axis.block.min(axis.length - start) - i
                }
                _ => 0,
            };
            let pitch_in_place = outer.last().map_or(0, |axis| axis.to / size_of::<A>() as isize);
            let (sums, pitch) = if is_in_place { (to.cast(), pitch_in_place) } else { (self.results, self.pitch) };
            // SAFETY: the block has all that these results read, and SLACK values more. The results' places are this
            // job's own. In the output a row has a group of values or more, and V vectors are at most a group. In
            // scratch memory SLACK values follow.
            unsafe {
                let from = self.block.add(place).cast_const();
                match (self.planes, outer.last()) {
                    (Some(planes), Some(axis)) if below >= TILE_ROWS => {
                        tile_sums::<_, _, V>(simd, from, planes, sums, pitch, values);
                        if !is_in_place {
                            for i in 0..TILE_ROWS {
                                let (from, sums) = (from.add(i * planes.row_step), sums.offset(i as isize * pitch));
                                self.recheck.run(simd, from, 1, sums, values);
                                let to = to.wrapping_offset(i as isize * axis.to);
                                self.write_row(sums, row, count, to);
                            }
                        }
                        index[outer.len() - 1] += TILE_ROWS - 1;
                    }
                    _ => {
                        weighted_sums(simd, from, 1, self.taps, self.partial, sums, values);
                        if !is_in_place {
                            self.recheck.run(simd, from, 1, sums, values);
                            self.write_row(sums, row, count, to);
                        }
                    }
                }
            }
            if !advance(&mut index, |axis| outer[axis].block.min(outer[axis].length - self.starts[axis])) {
                return;
            }
        }
    }
}
