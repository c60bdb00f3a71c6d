//! Correlation with weights of as many axes as the array.
//!
//! A job takes a block of results. It converts the elements that the block reads, border included, to a packed block of
//! scratch memory. There each product of a sum lies at the same distance from its result.

use std::sync::atomic::AtomicBool;

use kernels_gpu::abi::border::BorderMode;

use super::axis::before;
use super::border::PaddedRange;
use super::convert::{Run, are_values, load, load_line, store};
use super::kernel::{Planes, Real, SLACK, TILE_ROWS, Tap, group, tile_sums, weighted_sums};
use super::narrow::{Again, Final, Narrow, Order, PARTIAL, Radius, Recheck, Values};
use super::scratch::Scratch;
use super::transformed::Tiles;
use super::{Input, Output, Sums, run_jobs};
use crate::cpu::simd::{Level, Simd, Work};
use crate::{Error, Result};

/// Weights, and what stands outside of the array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correlation<'a> {
    /// The weights, the last axis fastest. Those of magnitude 2^-52 or less count as 0, and products with 0 are left
    /// out, as in SciPy: a NaN there does not matter.
    pub weights: &'a [f64],
    /// Weights along each axis.
    pub shape: &'a [usize],
    /// How far the weights are shifted towards the start of each axis, as in [`Lines::origin`](super::Lines::origin).
    pub origins: &'a [isize],
    /// What stands outside of the array.
    pub border: BorderMode,
    /// The value outside, with [`BorderMode::Constant`].
    pub value: f64,
}

impl Correlation<'_> {
    /// Fails unless the weights fit an array of so many axes.
    pub(super) fn check(&self, axes: usize) -> Result<()> {
        let Self { weights, shape, origins, .. } = *self;
        if shape.len() != axes || origins.len() != axes {
            return Err(Error::Number {
                what: "the axes of the weights and of the origins",
                required: "as many as the array has",
                found: format!("{} and {} for {axes}", shape.len(), origins.len()),
            });
        }
        for (&size, &origin) in shape.iter().zip(origins) {
            super::check_size(size, origin)?;
        }
        if Some(weights.len()) != shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size)) {
            let required = "the product of their shape";
            let found = format!("{} of shape {shape:?}", weights.len());
            return Err(Error::Number { what: "the number of weights", required, found });
        }
        Ok(())
    }
}

/// `output[i] = sum over j of weights[j] * input[i + j - shape / 2 - origins]`, where i and j are indices of all axes:
/// `scipy.ndimage.correlate`.
///
/// Input and output have no byte in common. `cancelled` ends the call early.
///
/// # Errors
/// - [`Error::Number`] if the output has another shape, weights or origins do not fit the array, or sums of `f32` are
///   asked for other types.
/// - [`Error::Cancelled`]. Some results are then unwritten.
/// - [`Error::Parse`] if `FALTUNG_CPU` names no instruction set that the CPU has.
pub fn correlate(
    input: Input<'_>,
    output: Output<'_>,
    correlation: &Correlation<'_>,
    sums: Sums,
    cancelled: Option<&AtomicBool>,
) -> Result<()> {
    sums.check(input.layout.element, output.layout.element)?;
    output.layout.check_shape(&input.layout)?;
    correlation.check(input.layout.shape.len())?;
    if input.layout.elements() == 0 {
        return Ok(());
    }
    match sums {
        Sums::F32 => run::<f32, _>(input, output, correlation, usize::MAX, |_| Final, cancelled),
        Sums::F64 => {
            let outside = (correlation.border == BorderMode::Constant).then_some(correlation.value);
            let values = Values::new(input.layout.element, outside);
            let weights: Vec<_> = correlation.weights.iter().copied().filter(|weight| !counts_as_0(weight)).collect();
            let narrow = Narrow::new(values, output.layout.element, &weights, additions(correlation));
            if narrow == Some(Narrow::Exact) {
                return run::<f32, _>(input, output, correlation, usize::MAX, |_| Final, cancelled);
            }
            if let Some(tiles) = Tiles::new(Level::chosen()?, &input, &output, correlation, values)? {
                return tiles.run(&input, &output, correlation, cancelled);
            }
            match narrow {
                Some(Narrow::Proven(radius)) => proven(input, output, correlation, radius, cancelled),
                _ => run::<f64, _>(input, output, correlation, usize::MAX, |_| Final, cancelled),
            }
        }
    }
}

/// By sums of `f32` that are off by less than the radius.
pub(super) fn proven(
    input: Input<'_>,
    output: Output<'_>,
    correlation: &Correlation<'_>,
    radius: Radius,
    cancelled: Option<&AtomicBool>,
) -> Result<()> {
    let again = |taps| Again { order: Order::Taps(taps), radius };
    run::<f32, _>(input, output, correlation, PARTIAL, again, cancelled)
}

/// Whether products with a weight are left out.
pub(super) fn counts_as_0(weight: &f64) -> bool {
    weight.abs() <= f64::EPSILON
}

/// The most additions that a product goes through, in partial sums of [`PARTIAL`] products or rows of about as many.
fn additions(correlation: &Correlation<'_>) -> usize {
    let (shape, products) = (correlation.shape, correlation.weights.len());
    let of_rows = |shape: &[usize]| {
        let [planes @ .., rows, columns] = shape else { return 0 };
        let rows = planes.iter().product::<usize>() * (rows + TILE_ROWS);
        PARTIAL.max(*columns) + rows.div_ceil(rows_of_partial(*columns))
    };
    // The last axis may be that of the channels within a row.
    let outer = shape.split_last().map_or(0, |(_, outer)| of_rows(outer));
    of_rows(shape).max(outer).max(PARTIAL + products.div_ceil(PARTIAL))
}

/// Rows of weights whose products make a partial sum.
fn rows_of_partial(columns: usize) -> usize {
    (PARTIAL / columns.max(1)).max(1)
}

/// An axis in both arrays and in the blocks.
#[derive(Clone, Copy, Debug)]
struct Axis {
    length: usize,
    /// Bytes from one element of the input to the next.
    from: isize,
    /// Bytes from one element of the output to the next.
    to: isize,
    /// Weights along the axis.
    size: usize,
    /// Elements that a result reads before its own place.
    before: usize,
    /// Results of a block.
    block: usize,
    /// Places from one element of a packed block to the next.
    packed: usize,
}

impl Axis {
    /// Elements that a block of results reads, halo included.
    fn padded(&self) -> usize {
        self.block + self.size - 1
    }

    fn blocks(&self) -> usize {
        self.length.div_ceil(self.block)
    }
}

/// Bytes of a packed block: within the second-level cache.
const BLOCK: usize = 384 << 10;

/// Results of a row of a block: at least so many, and as many as are so many bytes of the input, which the CPU then
/// fetches ahead well.
const ROW: (usize, usize) = (512, 1024);

/// Sets the axes' blocks, of which the packed ones have `most` places. The last axis is the one of the rows: of `inner`
/// elements of so many `bytes`.
fn set_blocks(axes: &mut [Axis], inner: usize, bytes: usize, most: usize) {
    let Some((row, outer)) = axes.split_last_mut() else { return };
    row.block = row.length.min((ROW.0.max(ROW.1 / bytes) / inner).max(1));
    let places = |row: &Axis, outer: &[Axis]| {
        outer.iter().fold(row.padded().saturating_mul(inner), |places, axis| places.saturating_mul(axis.padded()))
    };
    while places(row, outer) > most && row.block * inner > 64 {
        row.block = row.block.div_ceil(2);
    }
    // Twice as many results along the axis whose border costs most, as long as the block stays small enough.
    loop {
        let cost = |axis: &Axis| (axis.size as f64 - 0.5) / axis.block as f64;
        let mut order: Vec<usize> = (0..outer.len()).filter(|&i| outer[i].block < outer[i].length).collect();
        order.sort_by(|&a, &b| cost(&outer[b]).total_cmp(&cost(&outer[a])));
        let grown = order.into_iter().find(|&i| {
            let old = outer[i].block;
            outer[i].block = (2 * old).min(outer[i].length);
            let fits = places(row, outer) <= most;
            if !fits {
                outer[i].block = old;
            }
            fits
        });
        if grown.is_none() {
            return;
        }
    }
}

/// Sums of type `A`, in partial sums of so many products. `recheck` makes of the products in `f64` what looks at the
/// sums.
fn run<A: Real, R: Recheck<A>>(
    input: Input<'_>,
    output: Output<'_>,
    correlation: &Correlation<'_>,
    partial: usize,
    recheck: impl FnOnce(Vec<Tap<f64>>) -> R,
    cancelled: Option<&AtomicBool>,
) -> Result<()> {
    let Correlation { weights, shape, origins, border, value } = *correlation;
    let count = input.layout.shape.len();
    let level = Level::chosen()?;

    // The axis whose results lie closest together comes last. The order of the sums does not depend on it.
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|&axis| std::cmp::Reverse(output.layout.strides[axis].unsigned_abs()));
    let mut axes: Vec<_> = order
        .iter()
        .map(|&axis| Axis {
            length: input.layout.shape[axis],
            from: input.layout.strides[axis],
            to: output.layout.strides[axis],
            size: shape[axis],
            before: before(shape[axis], origins[axis]),
            block: 1,
            packed: 1,
        })
        .collect();
    let single = Axis { length: 1, from: 0, to: 0, size: 1, before: 0, block: 1, packed: 1 };
    if axes.is_empty() {
        axes.push(single); // an array without axes has one element
    }
    // The channels of a picture: a row holds all of them.
    let inner = match axes[..] {
        [.., _, last] if last.size == 1 && last.length <= 16 => axes.pop().unwrap_or(single),
        _ => single,
    };
    set_blocks(&mut axes, inner.length, input.layout.element.size(), BLOCK / size_of::<A>());
    let mut places = inner.length;
    for axis in axes.iter_mut().rev() {
        axis.packed = places;
        places *= axis.padded();
    }

    // In the order of the weights, whatever that of the axes.
    let packed = |axis: usize| {
        let place = order.iter().position(|&number| number == axis);
        place.and_then(|place| axes.get(place)).map_or(0, |axis| axis.packed)
    };
    let packed: Vec<_> = (0..count).map(packed).collect();
    let mut taps = Vec::new();
    for (number, &weight) in weights.iter().enumerate() {
        if counts_as_0(&weight) {
            continue;
        }
        let (mut rest, mut offset) = (number, 0);
        for (&size, &packed) in shape.iter().zip(&packed).rev() {
            offset += rest % size * packed;
            rest /= size;
        }
        taps.push(Tap { offset: offset as isize, weight });
    }
    let narrowed: Vec<_> = taps.iter().map(|tap| Tap { offset: tap.offset, weight: A::from_f64(tap.weight) }).collect();
    let (taps, recheck) = (narrowed, recheck(taps));

    let planes = planes(correlation, &order, &axes, inner.length, &taps, partial);
    let jobs = axes.iter().map(Axis::blocks).product();
    let work = input.layout.elements().saturating_mul(taps.len() + 1);
    let row = axes.last().map_or(1, |axis| axis.block) * inner.length + SLACK;
    let scratch = || Ok((Scratch::new(places + SLACK), Scratch::new(TILE_ROWS * row)));
    run_jobs(jobs, work, cancelled, scratch, |(block, results), mut number| {
        let mut starts = vec![0; axes.len()];
        for (start, axis) in starts.iter_mut().zip(&axes).rev() {
            *start = number % axis.blocks() * axis.block;
            number /= axis.blocks();
        }
        let ranges: Vec<_> = axes
            .iter()
            .zip(&starts)
            .map(|(axis, &start)| {
                PaddedRange::new(border, start as isize - axis.before as isize, axis.padded(), axis.length)
            })
            .collect();
        level.run(Block {
            level,
            input: &input,
            output: &output,
            axes: &axes,
            inner,
            starts: &starts,
            ranges: &ranges,
            outside: A::from_f64(value),
            taps: &taps,
            planes: planes.as_ref(),
            partial,
            recheck: &recheck,
            block: block.as_mut_ptr(),
            results: results.as_mut_ptr(),
            pitch: row as isize,
        });
    })
}

/// The weights of the axis of the rows and of the one before it, if they may be walked as rows of a picture: none of
/// them counts as 0, and the order of the sums is that of these axes.
fn planes<A: Real>(
    correlation: &Correlation<'_>,
    order: &[usize],
    axes: &[Axis],
    column_step: usize,
    taps: &[Tap<A>],
    partial: usize,
) -> Option<Planes<A>> {
    let [.., above, row] = axes else { return None };
    let is_in_order = order.is_sorted() && taps.len() == correlation.weights.len();
    if !is_in_order || above.size == 1 {
        return None;
    }
    let of_plane = above.size * row.size;
    Some(Planes {
        offsets: taps.iter().step_by(of_plane).map(|tap| tap.offset).collect(),
        weights: taps.iter().map(|tap| tap.weight).collect(),
        rows: above.size,
        columns: row.size,
        row_step: above.packed,
        column_step,
        partial: if partial == usize::MAX { partial } else { rows_of_partial(row.size) },
    })
}

/// A job.
struct Block<'a, A, R> {
    level: Level,
    input: &'a Input<'a>,
    output: &'a Output<'a>,
    /// The last one is that of the rows.
    axes: &'a [Axis],
    /// The channels within a row.
    inner: Axis,
    /// The first result's index.
    starts: &'a [usize],
    ranges: &'a [PaddedRange],
    outside: A,
    taps: &'a [Tap<A>],
    /// The same weights, if rows of results may be computed together.
    planes: Option<&'a Planes<A>>,
    /// Products of a partial sum.
    partial: usize,
    recheck: &'a R,
    block: *mut A,
    results: *mut A,
    /// Places from one row of results to the next.
    pitch: isize,
}

impl<A: Real, R> Block<'_, A, R> {
    /// Converts what lies at the positions of `range` in one row, from the element at `from` on.
    ///
    /// # Safety
    /// - `from` is the element at position 0 of a row of the input.
    /// - `to` has room for the row.
    #[inline(always)]
    unsafe fn fill_row(&self, from: *const u8, range: &PaddedRange, row: Axis, to: *mut A) {
        let (element, inner) = (self.input.layout.element, self.inner);
        if inner.length == 1 {
            // SAFETY: as this function requires.
            unsafe { load_line(self.level, element, from, row.from, range, self.outside, to) };
            return;
        }
        // SAFETY: the positions that the range names are within the row, and there is room for each.
        unsafe {
            let mut place = to;
            for &position in &range.before {
                self.fill_one(from, position, row, place);
                place = place.add(inner.length);
            }
            let start = from.wrapping_offset(range.first as isize * row.from);
            let pixels = Run { count: range.inside, stride: row.from, step: inner.length };
            let channels = Run::adjacent(inner.length, inner.from);
            if row.from == inner.from * inner.length as isize {
                let row = Run::adjacent(range.inside * inner.length, inner.from);
                load(self.level, element, start, place, Run::ONE, row);
            } else {
                load(self.level, element, start, place, channels, pixels);
            }
            place = place.add(range.inside * inner.length);
            for &position in &range.after {
                self.fill_one(from, position, row, place);
                place = place.add(inner.length);
            }
        }
    }

    /// Converts what stands at one position of a row.
    ///
    /// # Safety
    /// As for [`fill_row`](Self::fill_row).
    #[inline(always)]
    unsafe fn fill_one(&self, from: *const u8, position: Option<usize>, row: Axis, to: *mut A) {
        // SAFETY: the position is within the row, and there is room for its channels.
        unsafe {
            match position {
                Some(position) => {
                    let from = from.offset(position as isize * row.from);
                    let channels = Run::adjacent(self.inner.length, self.inner.from);
                    load(self.level, self.input.layout.element, from, to, Run::ONE, channels);
                }
                None => std::slice::from_raw_parts_mut(to, self.inner.length).fill(self.outside),
            }
        }
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
        are_adjacent && are_values && !R::NEEDS_SLACK && values >= group::<S, A>()
    }

    /// Converts the results of one row, which begins at `to`.
    ///
    /// # Safety
    /// - `from` has a sum for each result.
    /// - `to` is the place of the first result, and the row's other places belong to this block.
    #[inline(always)]
    unsafe fn write_row(&self, from: *const A, row: Axis, count: usize, to: *mut u8) {
        let (element, inner) = (self.output.layout.element, self.inner);
        // SAFETY: the places are those of the row's results, and there are as many sums.
        unsafe {
            if row.to == inner.to * inner.length as isize || inner.length == 1 {
                let (count, stride) =
                    if inner.length == 1 { (count, row.to) } else { (count * inner.length, inner.to) };
                store::<_, true>(self.level, element, from, to, Run::ONE, Run::adjacent(count, stride));
            } else {
                let pixels = Run { count, stride: row.to, step: inner.length };
                store::<_, true>(self.level, element, from, to, Run::adjacent(inner.length, inner.to), pixels);
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
