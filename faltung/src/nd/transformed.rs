//! Large dense weights with integer results: the FFT.
//!
//! Tiles of the array are transformed in `f64`, multiplied by the spectrum of the weights, and transformed back, as
//! [`cpu::fft`](crate::cpu::fft) does it for images. Its bound says how far such a sum can be from the exact one.
//! SciPy's ordered sum has a bound of its own. Their sum is a radius. Where no whole number but 0 lies within the
//! radius of the sum, both drop to the same integer. The other results are summed in order.

use super::axis::{Axis, before, offsets};
use super::border::PaddedRange;
use super::convert::{Run, load_line, store};
use super::dense::{Correlation, counts_as_0};
use super::kernel::{SLACK, Tap};
use super::narrow::{Order, TOGETHER, Values};
use super::scratch::Scratch;
use super::{Element, Input, Output, narrow, run_jobs};
use crate::Result;
use crate::cpu::fft::error::transforms;
use crate::cpu::fft::size::TileSize;
use crate::cpu::fft::transform::{Buffers, Spectrum, Transform};
use crate::cpu::simd::{Level, Simd, Work};
use crate::spares::Spares;

/// Nanoseconds of one core for a product of a dense sum of `f32`, on the CPU on which the FFT was timed, and with its
/// vectors of 16 values.
const PRODUCT: f64 = 1.0 / 32.0;

/// The largest radius: sums this close to a whole number are computed again.
const LARGEST_RADIUS: f64 = 0.001;

/// An axis that is filtered.
#[derive(Clone, Copy, Debug)]
struct Filtered {
    axis: Axis,
    /// Weights along the axis.
    size: usize,
    /// Elements that a result reads before its own place.
    before: usize,
}

/// Weights of two axes, ready for arrays of one shape.
pub(super) struct Tiles {
    level: Level,
    rows: Filtered,
    columns: Filtered,
    /// The other axes. The weights have one element along each.
    others: Vec<Axis>,
    size: TileSize,
    transform: Transform,
    spectrum: Spectrum,
    radius: f64,
    order: Order,
    /// Values from one row of a tile to the next.
    pitch: usize,
    products: usize,
}

impl Tiles {
    /// For integer results of integers that are `values`. None if another method serves, or serves better.
    ///
    /// # Errors
    /// [`Error::HostMemory`](crate::Error::HostMemory) if there is too little for the spectrum.
    pub(super) fn new(
        level: Level,
        input: &Input<'_>,
        output: &Output<'_>,
        correlation: &Correlation<'_>,
        values: Option<Values>,
    ) -> Result<Option<Self>> {
        let Some(values) = values.filter(|_| output.layout.element.is_integer()) else { return Ok(None) };
        let weights = correlation.weights;
        let mut filtered: Vec<usize> =
            (0..correlation.shape.len()).filter(|&axis| correlation.shape[axis] > 1).collect();
        let direct = weights.len() as f64 * PRODUCT * 16.0 / level.lanes() as f64;
        let is_large = direct > TileSize::LEAST_NANOSECONDS;
        if !is_large || filtered.len() != 2 || !weights.iter().all(narrow::is_normal) {
            return Ok(None);
        }
        filtered.sort_by_key(|&axis| std::cmp::Reverse(output.layout.strides[axis].unsigned_abs()));
        let axis = |number: usize| Axis::of(input, output, number);
        let [rows, columns] = [filtered[0], filtered[1]].map(|number| {
            let size = correlation.shape[number];
            Filtered { axis: axis(number), size, before: before(size, correlation.origins[number]) }
        });
        let Some(size) = TileSize::of([columns.size, rows.size], [columns.axis.length, rows.axis.length]) else {
            return Ok(None);
        };
        let magnitude = values.magnitude(weights);
        let radius = {
            let transformed = transforms(size.width, size.height, weights) * values.norm(size.width * size.height);
            let ordered = magnitude * (weights.len() as f64 + 2.0) * (f64::EPSILON / 2.0);
            (transformed + ordered) * 1.01
        };
        if direct < size.nanoseconds || radius > LARGEST_RADIUS || magnitude > 8_388_608.0 {
            return Ok(None);
        }

        let pitch = size.columns + columns.size - 1;
        // The weights as rows of a tile, and the products in SciPy's order.
        let (mut of_tile, mut taps) = (vec![0.0; weights.len()], Vec::with_capacity(weights.len()));
        let is_swapped = filtered[0] > filtered[1];
        for (number, &weight) in weights.iter().enumerate() {
            let last = if is_swapped { rows.size } else { columns.size };
            let (first, second) = (number / last, number % last);
            let (row, column) = if is_swapped { (second, first) } else { (first, second) };
            of_tile[row * columns.size + column] = if counts_as_0(&weight) { 0.0 } else { weight };
            if !counts_as_0(&weight) {
                taps.push(Tap { offset: (row * pitch + column) as isize, weight });
            }
        }
        let transform = Transform::new(size.width, size.height);
        Ok(Some(Self {
            level,
            rows,
            columns,
            others: (0..correlation.shape.len()).filter(|i| !filtered.contains(i)).map(axis).collect(),
            spectrum: transform.spectrum(columns.size, &of_tile)?,
            transform,
            size,
            radius,
            order: Order::Taps(taps),
            pitch,
            products: weights.len(),
        }))
    }

    /// As if nothing were rounded, to see that wrong results are noticed.
    #[cfg(test)]
    pub(super) fn without_radius(mut self) -> Self {
        self.radius = -1.0;
        self
    }

    /// Correlates.
    ///
    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled), [`Error::HostMemory`](crate::Error::HostMemory).
    pub(super) fn run(&self, input: &Input<'_>, output: &Output<'_>, correlation: &Correlation<'_>) -> Result<()> {
        let Self { rows, columns, size, .. } = self;
        let across = columns.axis.length.div_ceil(size.columns);
        let tiles = across * rows.axis.length.div_ceil(size.rows);
        let outer: usize = self.others.iter().map(|axis| axis.length).product();
        let work = input.layout.elements().saturating_mul(self.products);
        let spares = Spares::default();
        let memory = || spares.take(|| Memory::new(self));
        run_jobs(tiles * outer, work, memory, |memory, number| {
            let (tile, rest) = (number % tiles, number / tiles);
            let (from, to) = offsets(&self.others, rest);
            let (from, to) = (input.first.wrapping_offset(from), output.first.wrapping_offset(to));
            let (top, left) = (tile / across * size.rows, tile % across * size.columns);
            // SAFETY: each job has a tile of its own, at the places of the other axes that `from` and `to` are.
            unsafe {
                self.tile([input.layout.element, output.layout.element], correlation, memory, [top, left], from, to)
            };
        })
    }

    /// Computes the tile whose first result is the one at `[top, left]` of both axes.
    ///
    /// # Safety
    /// - `from` and `to` are the elements at position 0 of both axes in arrays of these types.
    /// - Nothing else uses the tile's results.
    unsafe fn tile(
        &self,
        [from_element, to_element]: [Element; 2],
        correlation: &Correlation<'_>,
        memory: &mut Memory,
        [top, left]: [usize; 2],
        from: *const u8,
        to: *mut u8,
    ) {
        let Self { level, rows, columns, size, pitch, .. } = *self;
        let counts = [size.rows.min(rows.axis.length - top), size.columns.min(columns.axis.length - left)];
        let range = |of: &Filtered, start: usize, count: usize| {
            PaddedRange::new(
                correlation.border,
                start as isize - of.before as isize,
                count + of.size - 1,
                of.axis.length,
            )
        };
        let (of_rows, of_columns) = (range(&rows, top, counts[0]), range(&columns, left, counts[1]));
        let (read, outside) = (counts[1] + columns.size - 1, correlation.value as f32);
        let Memory { values, results, buffers } = memory;
        for (y, position) in of_rows.iter().enumerate() {
            // SAFETY: the memory has room for the rows that all results of a tile read, and the position is within the
            // axis.
            let row = unsafe {
                let to = values.as_mut_ptr().add(y * pitch);
                match position {
                    Some(position) => {
                        let from = from.wrapping_offset(position as isize * rows.axis.from);
                        load_line(level, from_element, from, columns.axis.from, &of_columns, outside, to);
                    }
                    None => std::slice::from_raw_parts_mut(to, read).fill(outside),
                }
                std::slice::from_raw_parts(to, read)
            };
            let (to, beyond) = buffers.row.split_at_mut(read);
            to.iter_mut().zip(row).for_each(|(to, &value)| *to = f64::from(value));
            beyond.fill(0.0);
            self.transform.row_forward(buffers, y);
        }
        self.transform.multiply(buffers, counts[0] + rows.size - 1, &self.spectrum, counts[0]);
        for y in 0..counts[0] {
            self.transform.row_inverse(buffers, y);
            // SAFETY: the row's values lie at `from`, with those of the rows below it, and the places of the results
            // are this tile's.
            unsafe {
                let from = values.as_mut_ptr().add(y * pitch).cast_const();
                let (sums, to_sums) = (&buffers.row[..counts[1]], results.as_mut_ptr());
                level.run(Judge { order: &self.order, radius: self.radius, sums, from, to: to_sums });
                let to = to
                    .wrapping_offset((top + y) as isize * rows.axis.to)
                    .wrapping_offset(left as isize * columns.axis.to);
                store::<_, true>(level, to_element, to_sums, to, Run::ONE, Run::adjacent(counts[1], columns.axis.to));
            }
        }
    }
}

/// Memory for a tile.
struct Memory {
    /// What the results of the tile read, border included.
    values: Scratch<f32>,
    /// A row of results.
    results: Scratch<f32>,
    buffers: Buffers,
}

impl Memory {
    fn new(tiles: &Tiles) -> Result<Self> {
        Ok(Self {
            values: Scratch::new(tiles.pitch * (tiles.size.rows + tiles.rows.size - 1) + SLACK),
            results: Scratch::new(tiles.size.columns + SLACK),
            buffers: tiles.transform.buffers()?,
        })
    }
}

/// Sums that are judged at a time: a vector of `f64` has no more.
const JUDGED: usize = 8;

/// Drops the fractions of transformed sums, and sums those again that are too close to a whole number. `from` is what
/// [`Order::sum`] reads.
struct Judge<'a> {
    order: &'a Order,
    radius: f64,
    sums: &'a [f64],
    from: *const f32,
    to: *mut f32,
}

impl Judge<'_> {
    /// Whether a sum is close to a whole number other than 0.
    #[inline(always)]
    fn is_uncertain(&self, sum: f64) -> bool {
        (sum - sum.round_ties_even()).abs() <= self.radius && sum.abs() >= 0.5
    }
}

impl Work for Judge<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let (chunks, rest) = self.sums.as_chunks::<JUDGED>();
        let (mut starts, mut found) = ([0; TOGETHER], 0);
        for number in 0..chunks.len() + usize::from(!rest.is_empty()) {
            let mut sums = [0.0; JUDGED];
            match chunks.get(number) {
                Some(chunk) => sums = *chunk,
                None => sums[..rest.len()].copy_from_slice(rest),
            }
            let mut uncertain = 0_u64;
            let mut dropped = [0.0_f32; JUDGED];
            for i in 0..JUDGED {
                uncertain |= u64::from(self.is_uncertain(sums[i]));
                dropped[i] = sums[i].trunc() as f32;
            }
            // SAFETY: less than SLACK values after the last result.
            unsafe { self.to.add(number * JUDGED).cast::<[f32; JUDGED]>().write(dropped) };
            if uncertain == 0 {
                continue;
            }
            for start in (number * JUDGED..(number + 1) * JUDGED).step_by(S::LANES / 2) {
                starts[found] = start;
                found += 1;
                if found == TOGETHER {
                    // SAFETY: the values of the results, and less than SLACK values more.
                    unsafe { self.order.sum(simd, self.from, 1, self.to, &starts) };
                    found = 0;
                }
            }
        }
        if found > 0 {
            let last = starts[found - 1];
            starts[found..].fill(last);
            // SAFETY: as above.
            unsafe { self.order.sum(simd, self.from, 1, self.to, &starts) };
        }
    }
}
