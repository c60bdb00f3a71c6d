//! Large dense weights: the FFT.
//!
//! Tiles of the array are transformed in `f64`, multiplied by the spectrum of the weights, and transformed back, as
//! [`cpu::fft`](crate::cpu::fft) does it for images. Its bound says how far such a sum can be from the exact one. The
//! ordered sum has a bound of its own. Both bounds together are a radius.
//!
//! | results | accepted where |
//! | --- | --- |
//! | SciPy's integers, which drop the fraction | no whole number but 0 lies within the radius of the sum |
//! | OpenCV's integers, which are rounded | both ends of `sum * scale + offset ± radius` round to the same integer |
//! | all of OpenCV's, if no ordered sum rounds | always. The sum is the nearest multiple of the unit of the sums |
//! | OpenCV's of floating point | the error is within the class Bounded: see [`error`](crate::cpu::fft::error) |
//! | OpenCV's in class Normwise | always |
//!
//! The other results are summed in order. An array with values that are not finite is not transformed.

use std::sync::atomic::{AtomicBool, Ordering};

use super::axis::{Axis, before, offsets};
use super::border::PaddedRange;
use super::convert::{AsScipy, LastStep, Run, load_line, store};
use super::dense::{Correlation, counts_as_0};
use super::kernel::{Real, SLACK, Tap};
use super::narrow::{Order, TOGETHER, Values};
use super::scratch::Scratch;
use super::{Element, Input, Output, narrow, run_jobs};
use crate::accuracy::UNIT_ROUNDOFF;
use crate::cpu::fft::error::transforms;
use crate::cpu::fft::size::TileSize;
use crate::cpu::fft::transform::{Buffers, Spectrum, Transform};
use crate::cpu::simd::{Level, Simd, Work};
use crate::spares::Spares;
use crate::{Accuracy, Result};

/// Nanoseconds of one core for a product of a dense sum of `f32`, on the CPU on which the FFT was timed, and with its
/// vectors of 16 values.
const PRODUCT: f64 = 1.0 / 32.0;

/// The same for sums of `f64`, with vectors of 8 values.
const PRODUCT_OF_F64: f64 = 1.0 / 16.0;

/// The largest radius: sums this close to a whole number, or to the middle between two, are computed again.
const LARGEST_RADIUS: f64 = 0.001;

/// A row of values whose squares have such a sum might overflow in a transform.
const TOO_LARGE: f64 = 1e200;

/// What becomes of the sums.
#[derive(Clone, Copy, Debug)]
pub(super) enum Results {
    /// SciPy's conversion.
    Dropped,
    /// The last step, and the class that results of floating point keep.
    Rounded(LastStep, Accuracy),
}

/// Which sums are accepted, and as what.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// Without the fraction, unless a whole number other than 0 is within the radius.
    Dropped { radius: f64 },
    /// All.
    All,
    /// All, as the nearest multiple of this power of two.
    Multiple { unit: f64 },
    /// Those that the last step rounds to one integer, within the radius.
    Rounded { last: LastStep, radius: f64 },
    /// From this magnitude on. [`Rule::new`] gives that of a tile whose values have the 2-norm 1.
    Magnitude { least: f64 },
}

impl Rule {
    /// The rule for tiles of `count` values. A sum is off by at most `error`, times the 2-norm of the tile. `values` are
    /// those of an array of integers. None if too few sums would be accepted.
    fn new(
        to: Element,
        results: Results,
        weights: &[f64],
        values: Option<Values>,
        count: usize,
        error: f64,
    ) -> Option<Self> {
        let of_integers = values.map(|values| {
            let magnitude = values.magnitude(weights);
            let ordered = magnitude * (weights.len() as f64 + 2.0) * (f64::EPSILON / 2.0);
            let transformed = error * values.norm(count);
            (magnitude, transformed, (transformed + ordered) * 1.01, values.step(weights))
        });
        let (last, accuracy) = match results {
            Results::Dropped => {
                let (magnitude, _, radius, _) = of_integers?;
                let is_served = to.is_integer() && radius <= LARGEST_RADIUS && magnitude <= 8_388_608.0;
                return is_served.then_some(Self::Dropped { radius });
            }
            Results::Rounded(last, accuracy) => (last, accuracy),
        };
        if let Some((magnitude, transformed, _, unit)) = of_integers
            && magnitude <= unit / f64::EPSILON
            && transformed < unit / 4.0
        {
            return Some(Self::Multiple { unit });
        }
        match (accuracy, to, of_integers) {
            (Accuracy::Normwise, ..) => Some(Self::All),
            (Accuracy::Exact, Element::F32 | Element::F64, _) => None,
            (_, Element::F32 | Element::F64, _) => {
                let steps = weights.len() as f64 * UNIT_ROUNDOFF;
                let gamma = steps / (1.0 - steps);
                let least = error * (1.0 + gamma) / (gamma - UNIT_ROUNDOFF) * 1.01;
                (steps < 0.5).then_some(Self::Magnitude { least })
            }
            (_, _, Some((magnitude, _, radius, _))) => {
                let largest = magnitude * last.scale.abs() + last.offset.abs();
                let radius = (radius * last.scale.abs() + largest * 4.0 * f64::EPSILON) * 1.01;
                (radius <= LARGEST_RADIUS).then_some(Self::Rounded { last, radius })
            }
            _ => None,
        }
    }
}

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
    rule: Rule,
    last: Option<LastStep>,
    order: Order,
    /// Values from one row of a tile to the next.
    pitch: usize,
    products: usize,
}

impl Tiles {
    /// For arrays of integers that are `values`, or of `f64`. None if another method serves, or serves better.
    ///
    /// # Errors
    /// [`Error::HostMemory`](crate::Error::HostMemory) if there is too little for the spectrum.
    pub(super) fn new(
        level: Level,
        input: &Input<'_>,
        output: &Output<'_>,
        correlation: &Correlation<'_>,
        values: Option<Values>,
        results: Results,
    ) -> Result<Option<Self>> {
        let weights = correlation.weights;
        let mut filtered: Vec<usize> =
            (0..correlation.shape.len()).filter(|&axis| correlation.shape[axis] > 1).collect();
        let product = if matches!(results, Results::Dropped) { PRODUCT } else { PRODUCT_OF_F64 };
        let direct = weights.len() as f64 * product * 16.0 / level.lanes() as f64;
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
        if direct < size.nanoseconds {
            return Ok(None);
        }
        let (count, error) = (size.width * size.height, transforms(size.width, size.height, weights));
        let Some(rule) = Rule::new(output.layout.element, results, weights, values, count, error) else {
            return Ok(None);
        };

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
            rule,
            last: match results {
                Results::Dropped => None,
                Results::Rounded(last, _) => Some(last),
            },
            order: Order::Taps(taps),
            pitch,
            products: weights.len(),
        }))
    }

    /// As if nothing were rounded, to see that wrong results are noticed.
    #[cfg(test)]
    pub(super) fn without_radius(mut self) -> Self {
        match &mut self.rule {
            Rule::Dropped { radius } => *radius = -1.0,
            Rule::Rounded { radius, .. } => *radius = 0.0,
            _ => {}
        }
        self
    }

    /// Correlates. False if the array has values that can't be transformed. The results are then none.
    ///
    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled), [`Error::HostMemory`](crate::Error::HostMemory).
    pub(super) fn run(&self, input: &Input<'_>, output: &Output<'_>, correlation: &Correlation<'_>) -> Result<bool> {
        let Self { rows, columns, size, .. } = self;
        let across = columns.axis.length.div_ceil(size.columns);
        let tiles = across * rows.axis.length.div_ceil(size.rows);
        let outer: usize = self.others.iter().map(|axis| axis.length).product();
        let work = input.layout.elements().saturating_mul(self.products);
        let spares = Spares::default();
        let memory = || spares.take(|| Memory::new(self));
        let can_transform = AtomicBool::new(true);
        run_jobs(tiles * outer, work, memory, |memory, number| {
            let (tile, rest) = (number % tiles, number / tiles);
            let (from, to) = offsets(&self.others, rest);
            let (from, to) = (input.first.wrapping_offset(from), output.first.wrapping_offset(to));
            let (top, left) = (tile / across * size.rows, tile % across * size.columns);
            let elements = [input.layout.element, output.layout.element];
            // SAFETY: each job has a tile of its own, at the places of the other axes that `from` and `to` are.
            if !unsafe { self.tile(elements, correlation, memory, [top, left], from, to) } {
                can_transform.store(false, Ordering::Relaxed);
            }
        })?;
        Ok(can_transform.into_inner())
    }

    /// Computes the tile whose first result is the one at `[top, left]` of both axes. False if it has values that can't
    /// be transformed.
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
    ) -> bool {
        let Self { level, rows, columns, size, pitch, rule, last, .. } = *self;
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
        let read = counts[1] + columns.size - 1;
        let Memory { values, results, buffers } = memory;
        let mut squares = 0.0;
        for (y, position) in of_rows.iter().enumerate() {
            // SAFETY: the memory has room for the rows that all results of a tile read, and the position is within the
            // axis.
            let row = unsafe {
                let to = values.as_mut_ptr().add(y * pitch);
                match position {
                    Some(position) => {
                        let from = from.wrapping_offset(position as isize * rows.axis.from);
                        load_line(level, from_element, from, columns.axis.from, &of_columns, correlation.value, to);
                    }
                    None => std::slice::from_raw_parts_mut(to, read).fill(correlation.value),
                }
                std::slice::from_raw_parts(to, read)
            };
            if matches!(rule, Rule::Magnitude { .. }) || from_element == Element::F64 {
                let of_row = sum_of_squares(row);
                let is_small = of_row < TOO_LARGE; // NaN is not
                if !is_small {
                    return false;
                }
                squares += of_row;
            }
            let (to, beyond) = buffers.row.split_at_mut(read);
            to.copy_from_slice(row);
            beyond.fill(0.0);
            self.transform.row_forward(buffers, y);
        }
        let rule = match rule {
            Rule::Magnitude { least } => Rule::Magnitude { least: least * squares.sqrt() },
            rule => rule,
        };
        self.transform.multiply(buffers, counts[0] + rows.size - 1, &self.spectrum, counts[0]);
        for y in 0..counts[0] {
            self.transform.row_inverse(buffers, y);
            let (sums, results) = (&buffers.row[..counts[1]], results.as_mut_ptr());
            // SAFETY: the row's values lie at `from`, with those of the rows below it, and the places of the results
            // are this tile's.
            unsafe {
                let from = values.as_mut_ptr().add(y * pitch).cast_const();
                level.run(Judge { order: &self.order, rule, sums, from, to: results });
                let to = to
                    .wrapping_offset((top + y) as isize * rows.axis.to)
                    .wrapping_offset(left as isize * columns.axis.to);
                let row = Run::adjacent(counts[1], columns.axis.to);
                match last {
                    None => store(level, to_element, results, to, Run::ONE, row, AsScipy::<true>),
                    Some(last) => store(level, to_element, results, to, Run::ONE, row, last),
                }
            }
        }
        true
    }
}

/// The sum of the squares of some values.
fn sum_of_squares(values: &[f64]) -> f64 {
    let mut squares = [0.0; JUDGED];
    let (chunks, rest) = values.as_chunks::<JUDGED>();
    for chunk in chunks.iter().map(<[f64; JUDGED]>::as_slice).chain([rest]) {
        chunk.iter().zip(&mut squares).for_each(|(value, squares)| *squares += value * value);
    }
    squares.into_iter().sum()
}

/// Memory for a tile.
struct Memory {
    /// What the results of the tile read, border included, for sums in order.
    values: Scratch<f64>,
    /// A row of sums.
    results: Scratch<f64>,
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

/// Applies the rule to transformed sums, and sums those again that are not accepted. `from` is what [`Order::sums`]
/// reads.
struct Judge<'a> {
    order: &'a Order,
    rule: Rule,
    sums: &'a [f64],
    from: *const f64,
    to: *mut f64,
}

impl Judge<'_> {
    /// Makes some sums what is accepted. Returns whether all are.
    #[inline(always)]
    fn accept(&self, sums: &mut [f64; JUDGED]) -> bool {
        let mut uncertain = 0_u64;
        match self.rule {
            Rule::All => {}
            Rule::Dropped { radius } => {
                for sum in sums {
                    uncertain |= u64::from((*sum - sum.round_ties_even()).abs() <= radius && sum.abs() >= 0.5);
                    *sum = sum.trunc();
                }
            }
            Rule::Multiple { unit } => {
                let per_unit = 1.0 / unit;
                for sum in sums {
                    *sum = (*sum * per_unit).round_ties_even() * unit;
                }
            }
            Rule::Rounded { last, radius } => {
                for sum in sums {
                    let value = *sum * last.scale + last.offset;
                    let [low, high] = [value - radius, value + radius];
                    uncertain |= u64::from(low.round_ties_even() != high.round_ties_even());
                }
            }
            Rule::Magnitude { least } => {
                for sum in sums {
                    uncertain |= u64::from(sum.abs() < least);
                }
            }
        }
        uncertain == 0
    }

    /// Sums in order, half a vector from each of the starts on.
    ///
    /// # Safety
    /// The values of the results, and less than SLACK values more, lie at `from`, and there is room for the results.
    #[inline(always)]
    unsafe fn sum_in_order<S: Simd>(&self, simd: S, starts: &[usize; TOGETHER]) {
        // SAFETY: as this function requires.
        let sums = unsafe { self.order.sums(simd, self.from, 1, starts) };
        for (&sum, &start) in sums.iter().zip(starts) {
            // SAFETY: less than SLACK values after the last result.
            unsafe {
                let to = self.to.add(start);
                f64::store(simd, to, sum);
                if let Rule::Dropped { .. } = self.rule {
                    for i in 0..S::LANES / 2 {
                        *to.add(i) = (*to.add(i)).trunc();
                    }
                }
            }
        }
    }
}

impl Work for Judge<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let (chunks, rest) = self.sums.as_chunks::<JUDGED>();
        let (mut starts, mut found) = ([0; TOGETHER], 0);
        for number in 0..chunks.len() + usize::from(!rest.is_empty()) {
            // Behind the last sum is a copy of one, which is accepted if that one is.
            let mut sums = [rest.first().copied().unwrap_or(0.0); JUDGED];
            match chunks.get(number) {
                Some(chunk) => sums = *chunk,
                None => sums[..rest.len()].copy_from_slice(rest),
            }
            let are_accepted = self.accept(&mut sums);
            // SAFETY: less than SLACK values after the last result.
            unsafe { self.to.add(number * JUDGED).cast::<[f64; JUDGED]>().write(sums) };
            if are_accepted {
                continue;
            }
            for start in (number * JUDGED..(number + 1) * JUDGED).step_by(S::LANES / 2) {
                starts[found] = start;
                found += 1;
                if found == TOGETHER {
                    // SAFETY: the values of the results, and less than SLACK values more.
                    unsafe { self.sum_in_order(simd, &starts) };
                    found = 0;
                }
            }
        }
        if found > 0 {
            let last = starts[found - 1];
            starts[found..].fill(last);
            // SAFETY: as above.
            unsafe { self.sum_in_order(simd, &starts) };
        }
    }
}
