//! Filters of bytes with symmetric weights that are not negative, as a Gaussian has them. Sums of `f32` give the
//! integers that SciPy's sums of `f64` are truncated to.
//!
//! The weights add up to at most 1.002. So all sums `S` lie from 0 to 255.5. The loops add up `S - 1/2`. Rounded to the
//! nearest integer, this is S without its fraction. [`narrow`](super::narrow) bounds the error. A sum that is closer to
//! an integer than this bound is recomputed in `f64`, in SciPy's order. Sums below 1 are truncated to 0 in any case.
//! Where all values under a window are equal, as in a white background, a table has the result.
//!
//! - **Along the columns**, a tile has [`ROWS`] rows of results. A byte is converted once for all of them.
//! - **Along a row** the values are the integers of the first pass, in `f32`.

use std::sync::OnceLock;

use super::Element;
use super::kernel::starts;
use super::line_filter::{LineFilter, is_odd};
use super::narrow::{Narrow, Order, TOGETHER, Values};
use crate::cpu::simd::Simd;

/// The most weights of a filter. With more of them most groups have a sum that is recomputed.
const MOST_WEIGHTS: usize = 255;

/// Rows of results in a tile.
pub(super) const ROWS: usize = 4;

/// The fewest bytes of a row: a group of vectors of the widest instructions.
pub(super) const MIN_ROW_BYTES: usize = 64;

/// Vectors that are recomputed at a time.
const VECTORS: usize = TOGETHER / 2;

/// The most values of these vectors.
const BATCH: usize = 16 * VECTORS;

/// 1.5 * 2^23: its addition rounds to an integer, and its subtraction leaves that integer.
const ROUNDING: f32 = 12_582_912.0;

/// The filter along one axis.
pub(super) struct ByteSums {
    weights: Vec<f32>,
    /// The largest distance of `S - 1/2` from an integer at which the result is certain.
    limit: f32,
    /// SciPy's sum, for values that are [`BATCH`] places apart.
    order: Order,
    /// The result for each value, if all values under the window are equal.
    of_constants: OnceLock<[u8; 256]>,
}

/// Vectors with results that are not certain, and memory to recompute them.
#[derive(Default)]
pub(super) struct RecomputeQueue {
    /// The row of the tile, and the first byte of a vector.
    starts: Vec<(usize, usize)>,
    /// [`BATCH`] values for each weight.
    values: Vec<f32>,
    sums: Vec<f32>,
}

impl RecomputeQueue {
    /// Makes room for values of so many weights.
    fn clear(&mut self, weights: usize) {
        self.starts.clear();
        self.values.resize(weights * BATCH, 0.0);
        self.sums.resize(BATCH, 0.0);
    }

    /// Adds the vectors with sums that are not certain.
    #[inline(always)]
    fn push_uncertain<S: Simd, const V: usize>(
        &mut self,
        simd: S,
        sums: &[S::Vector; V],
        limit: f32,
        row: usize,
        x: usize,
    ) {
        for (v, &sum) in sums.iter().enumerate() {
            // All sums from 0 up to 1 are truncated to 0.
            if simd.far_from_whole(sum, limit) & !simd.below(sum, 0.25) != 0 {
                self.starts.push((row, x + v * S::LANES));
            }
        }
    }
}

impl ByteSums {
    /// None unless the filter is of this kind. `outside` is the value of the border, 0 if there is none.
    pub(super) fn new(weights: &[f64], outside: f64) -> Option<Self> {
        // One weight is no filter along an axis.
        if !(3..=MOST_WEIGHTS).contains(&weights.len()) || is_odd(weights) != Some(false) {
            return None;
        }
        // As SciPy does: the weights before the middle are those of both sides.
        let (before, middle) = (&weights[..weights.len() / 2], weights[weights.len() / 2]);
        let weights: Vec<f64> = before.iter().copied().chain([middle]).chain(before.iter().rev().copied()).collect();
        let values = Values::new(Element::U8, Some(outside))?;
        let are_bytes = outside.fract() == 0.0 && (0.0..=255.0).contains(&outside);
        if !are_bytes || weights.iter().any(|&weight| weight < 0.0) || values.magnitude(&weights) > 255.5 {
            return None;
        }
        // The addition of -1/2 rounds, too.
        let Narrow::Proven(radius) = Narrow::new(Some(values), Element::U8, &weights, weights.len() + 1)? else {
            return None;
        };
        Some(Self {
            weights: weights.iter().map(|&weight| weight as f32).collect(),
            limit: (0.5 - radius.value()).next_down(),
            order: LineFilter::of(&weights).order(),
            of_constants: OnceLock::new(),
        })
    }

    /// The results for windows of equal values.
    fn of_constants(&self) -> &[u8; 256] {
        self.of_constants.get_or_init(|| {
            std::array::from_fn(|value| {
                let Order::Mirrored { middle, pairs, .. } = &self.order else {
                    unreachable!("the weights are symmetric")
                };
                let value = value as f64;
                pairs.iter().fold(middle * value, |sum, pair| sum + pair.weight * (value + value)) as u8
            })
        })
    }

    /// Truncated sums of [`ROWS`] rows along the columns. `input_rows` are the rows of bytes from the first one under
    /// the first window to the last one under the last. Row r of the sums begins at `to[r * pitch]`.
    #[inline(always)]
    pub(super) fn along_columns<S: Simd, const V: usize>(
        &self,
        simd: S,
        input_rows: &[&[u8]],
        to: &mut [f32],
        pitch: usize,
        queue: &mut RecomputeQueue,
    ) {
        const { assert!(V * S::LANES <= MIN_ROW_BYTES && (V * S::LANES).is_multiple_of(16)) };
        let size = self.weights.len();
        let length = input_rows[0].len();
        assert!(input_rows.len() == size + ROWS - 1 && input_rows.iter().all(|row| row.len() == length));
        assert!(length >= V * S::LANES && pitch >= length && to.len() >= (ROWS - 1) * pitch + length);
        queue.clear(size);
        for x in starts(length, V * S::LANES) {
            if let Some(first) = equal_rows(input_rows, x, V * S::LANES) {
                for (i, &value) in first.iter().enumerate() {
                    let result = self.of_constants()[usize::from(value)].into();
                    for row in 0..ROWS {
                        to[row * pitch + x + i] = result;
                    }
                }
                continue;
            }
            // SAFETY: V vectors of each row from x on.
            let sums = unsafe { self.tile::<S, V>(simd, input_rows, x) };
            for (row, sums) in sums.iter().enumerate() {
                for (v, &sum) in sums.iter().enumerate() {
                    let whole = simd.sub(simd.add(sum, simd.splat(ROUNDING)), simd.splat(ROUNDING));
                    // SAFETY: as above, and `to` has rows of this length.
                    unsafe { simd.store(to.as_mut_ptr().add(row * pitch + x + v * S::LANES), whole) };
                }
                if simd.any_far_from_whole(sums, self.limit) {
                    queue.push_uncertain(simd, sums, self.limit, row, x);
                }
            }
        }
        let RecomputeQueue { starts, values, sums } = queue;
        for starts in starts.chunks(VECTORS) {
            for (i, &(row, x)) in starts.iter().enumerate() {
                for (place, values) in values.chunks_exact_mut(BATCH).enumerate() {
                    // SAFETY: a vector of a row, and `i` is below VECTORS.
                    unsafe {
                        let bytes = simd.load_u8(input_rows.get_unchecked(row + place).as_ptr().add(x));
                        simd.store(values.as_mut_ptr().add(i * S::LANES), bytes);
                    }
                }
            }
            self.recompute(simd, values, sums);
            for (sums, &(row, x)) in sums.chunks_exact(S::LANES).zip(starts) {
                to[row * pitch + x..][..S::LANES].copy_from_slice(sums);
            }
        }
    }

    /// `S - 1/2` for V vectors of [`ROWS`] rows.
    ///
    /// # Safety
    /// `input_rows` has a row for each weight and [`ROWS`] - 1 more, each with V vectors from byte `x` on.
    #[inline(always)]
    unsafe fn tile<S: Simd, const V: usize>(&self, simd: S, input_rows: &[&[u8]], x: usize) -> [[S::Vector; V]; ROWS] {
        let size = self.weights.len();
        let mut sums = [[simd.splat(-0.5); V]; ROWS];
        macro_rules! step {
            ($s:expr, $serves:expr) => {
                let s: usize = $s;
                let mut values = [simd.splat(0.0); V];
                for (v, value) in values.iter_mut().enumerate() {
                    // SAFETY: as this function requires.
                    *value = unsafe { simd.load_u8(input_rows.get_unchecked(s).as_ptr().add(x + v * S::LANES)) };
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    if $serves(r, s) {
                        // SAFETY: `s - r` is below the number of weights.
                        let weight = simd.splat(unsafe { *self.weights.get_unchecked(s - r) });
                        for (sum, &value) in sums.iter_mut().zip(&values) {
                            *sum = simd.fma(weight, value, *sum);
                        }
                    }
                }
            };
        }
        for s in 0..ROWS - 1 {
            step!(s, |r: usize, s: usize| r <= s && s - r < size);
        }
        for s in ROWS - 1..size {
            step!(s, |_, _| true);
        }
        for s in size.max(ROWS - 1)..size + ROWS - 1 {
            step!(s, |r: usize, s: usize| s - r < size);
        }
        sums
    }

    /// Truncated sums along a row. `line` has the values from the first one under the first window on,
    /// `step` values apart.
    #[inline(always)]
    pub(super) fn along_row<S: Simd, const V: usize>(
        &self,
        simd: S,
        line: &[f32],
        step: usize,
        to: &mut [u8],
        queue: &mut RecomputeQueue,
    ) {
        let (size, length) = (self.weights.len(), to.len());
        assert!(length >= V * S::LANES && line.len() >= length + (size - 1) * step);
        queue.clear(size);
        for x in starts(length, V * S::LANES) {
            let (from, to) = (&line[x..][..V * S::LANES + (size - 1) * step], &mut to[x..][..V * S::LANES]);
            if is_periodic(from, step) {
                // The last bits of the sum are those of the whole number.
                let result = |value: f32| self.of_constants()[(value + 8_388_608.0).to_bits() as usize & 255];
                if step == 1 {
                    to.fill(result(from[0]));
                    continue;
                }
                for (to, &value) in to.iter_mut().zip(from) {
                    *to = result(value);
                }
                continue;
            }
            let mut sums = [simd.splat(-0.5); V];
            for (place, &weight) in self.weights.iter().enumerate() {
                let weight = simd.splat(weight);
                for (v, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: these are the values of V vectors of windows.
                    let value = unsafe { simd.load(from.as_ptr().add(place * step + v * S::LANES)) };
                    *sum = simd.fma(weight, value, *sum);
                }
            }
            // SAFETY: room for V vectors.
            unsafe { simd.store_u8(to.as_mut_ptr(), &sums) };
            if simd.any_far_from_whole(&sums, self.limit) {
                queue.push_uncertain(simd, &sums, self.limit, 0, x);
            }
        }
        let RecomputeQueue { starts, values, sums } = queue;
        for starts in starts.chunks(VECTORS) {
            for (i, &(_, x)) in starts.iter().enumerate() {
                for (place, values) in values.chunks_exact_mut(BATCH).enumerate() {
                    values[i * S::LANES..][..S::LANES].copy_from_slice(&line[x + place * step..][..S::LANES]);
                }
            }
            self.recompute(simd, values, sums);
            for (sums, &(_, x)) in sums.chunks_exact(S::LANES).zip(starts) {
                for (to, &sum) in to[x..][..S::LANES].iter_mut().zip(sums) {
                    *to = sum as u8;
                }
            }
        }
    }

    /// SciPy's sums of a batch, truncated.
    #[inline(always)]
    fn recompute<S: Simd>(&self, simd: S, values: &[f32], sums: &mut [f32]) {
        let mut starts = [0; TOGETHER];
        for (i, start) in starts.iter_mut().enumerate() {
            *start = i * S::LANES / 2;
        }
        let middle = self.weights.len() / 2;
        assert!(values.len() >= self.weights.len() * BATCH && sums.len() >= BATCH);
        const { assert!(TOGETHER * S::LANES / 2 <= BATCH) };
        // SAFETY: each weight has BATCH values, and BATCH sums have room. From each start on half a vector is read and
        // written, which ends within the batch.
        unsafe {
            self.order.sum(simd, values.as_ptr().add(middle * BATCH), BATCH as isize, sums.as_mut_ptr(), &starts)
        };
    }

    /// As if all results were certain, to see that wrong results are noticed.
    #[cfg(test)]
    pub(super) fn trust_all(&mut self) {
        self.limit = 0.5;
    }
}

/// The bytes from `x` on, if they are the same in all rows. `group` is a multiple of 16.
#[inline(always)]
fn equal_rows<'a>(rows: &[&'a [u8]], x: usize, group: usize) -> Option<&'a [u8]> {
    let first = &rows[0][x..][..group];
    for row in &rows[1..] {
        for (a, b) in first.as_chunks().0.iter().zip(row[x..][..group].as_chunks().0) {
            if u128::from_ne_bytes(*a) != u128::from_ne_bytes(*b) {
                return None;
            }
        }
    }
    Some(first)
}

/// Whether each value is the same as the one `step` places before.
#[inline(always)]
fn is_periodic(values: &[f32], step: usize) -> bool {
    let (first, later) = (&values[..values.len() - step], &values[step..]);
    // Eight at a time are one comparison of vectors.
    let differ = |a: &[f32], b: &[f32]| a.iter().zip(b).fold(0, |bits, (a, b)| bits | (a.to_bits() ^ b.to_bits()));
    let (chunks, rest) = first.as_chunks::<8>();
    let (later_chunks, later_rest) = later.as_chunks::<8>();
    chunks.iter().zip(later_chunks).all(|(a, b)| differ(a, b) == 0) && differ(rest, later_rest) == 0
}
