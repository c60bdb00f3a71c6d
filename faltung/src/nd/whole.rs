//! Filters along a line in integers of 16 bits: a vector has twice as many of them as of `f32`.
//!
//! - [`Correlated`]: arrays of 8 or 16 bits and whole weights. SciPy converts a sum to an integer of 32 bits and keeps
//!   its last bits. The last bits of a sum depend on the last bits of values and weights alone, so it does not matter
//!   that sums of 16 bits wrap around.
//! - [`Means`]: unsigned bytes. The sums of up to [`MOST`] of them fit, and a product takes the place of the division.

use super::Element;
use super::block::Places;
use super::convert::Value;
use super::kernel::{SLACK, Scalar, starts};
use super::lines::LineSums;
use crate::cpu::simd::Simd;
use crate::cpu::whole::window_sums;

impl Scalar for u16 {
    const ELEMENT: Element = Element::U16;

    /// The last bits of a whole number below 2^63.
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as i64 as u16
    }
    #[inline(always)]
    fn of<T: Value>(element: T) -> Self {
        element.last_bits()
    }
    #[inline(always)]
    fn convert<T: Value, const IS_DENSE: bool>(self) -> T {
        T::from_last_bits(self)
    }
}

/// Whether a type has integers of at most 16 bits.
fn is_small(element: Element) -> bool {
    element.is_integer() && element.size() <= 2
}

/// A correlation with whole weights.
pub(super) struct Correlated {
    size: usize,
    /// The place of each weight that is not 0.
    weights: Vec<(usize, u16)>,
}

impl Correlated {
    /// None unless the results are the last bits of whole sums. `outside` is the value of the border, if there is one.
    pub(super) fn new(weights: &[f64], from: Element, to: Element, outside: Option<f64>) -> Option<Self> {
        let outside = outside.unwrap_or(0.0);
        let most = weights.iter().map(|weight| weight.abs()).sum::<f64>() * from.largest()?.max(outside.abs());
        let are_whole = weights.iter().chain([&outside]).all(|number| number.fract() == 0.0);
        // What has no place in 32 bits is not converted to its last bits.
        if !is_small(from) || !is_small(to) || !are_whole || most >= 2_147_483_648.0 {
            return None;
        }
        let weights_and_places = weights.iter().copied().enumerate();
        let used = weights_and_places.filter(|&(_, weight)| weight != 0.0);
        Some(Self {
            size: weights.len(),
            weights: used.map(|(place, weight)| (place, u16::from_f64(weight))).collect(),
        })
    }

    /// The place of each weight that is not 0, and its last bits.
    pub(super) fn weights(&self) -> &[(usize, u16)] {
        &self.weights
    }
}

/// Registers of sums that are computed together: as many as hide the latency of a product.
const TOGETHER: usize = 4;
const _: () = assert!(TOGETHER * 32 <= SLACK);

impl LineSums for Correlated {
    type Value = u16;

    fn size(&self) -> usize {
        self.size
    }

    #[inline(always)]
    fn fewest<S: Simd>(&self) -> usize {
        TOGETHER * 2 * S::LANES
    }

    #[inline(always)]
    unsafe fn run<S: Simd>(&self, simd: S, places: &Places<u16>) {
        let (rows, count) = places.adjacent();
        for row in 0..rows {
            // SAFETY: the row exists.
            let (from, to) = unsafe { (places.values_of(row), places.results_of(row)) };
            for start in starts(count, self.fewest::<S>()) {
                let mut sums = [simd.splat_shorts(0); TOGETHER];
                for &(place, weight) in &self.weights {
                    let weight = simd.splat_shorts(weight);
                    let distance = place as isize * places.step;
                    for (i, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: a vector of a group of the values.
                        let values = unsafe { simd.load_shorts(from.offset(distance).add(start + i * 2 * S::LANES)) };
                        *sum = simd.add_shorts(*sum, simd.mul_shorts(weight, values));
                    }
                }
                for (i, &sum) in sums.iter().enumerate() {
                    // SAFETY: a vector of a group of the results.
                    unsafe { simd.store_shorts(to.add(start + i * 2 * S::LANES), sum) };
                }
            }
        }
    }
}

/// The largest size of a mean in 16 bits.
const MOST: usize = 128;

/// The mean of 2 to [`MOST`] bytes.
pub(super) struct Means {
    size: usize,
    /// `sum / size` is `sum * factor >> 16 >> shift`.
    factor: u16,
    shift: u32,
}

impl Means {
    /// None unless the mean drops its fraction, and all sums fit.
    ///
    /// # Division by a product
    /// Let `p = 16 + shift` and `factor = 2^p / size`, rounded up. Then `factor * size = 2^p + e` with `e < size`, and
    /// `sum * factor / 2^p` is too large by `sum * e / (size * 2^p)`. That is less than `1 / size`, the distance of a
    /// quotient from the next whole number, if `sum * e < 2^p`. `sum` is at most `255 * size`, `e` at most `size - 1`,
    /// and `2^p` at least `2^15 * size`. So it suffices that `255 * (size - 1) < 2^15`.
    pub(super) fn new(size: usize, from: Element, to: Element, outside: f64) -> Option<Self> {
        let are_bytes = matches!(from, Element::U8 | Element::Bool) && outside.fract() == 0.0;
        if !are_bytes || !(0.0..256.0).contains(&outside) || !to.is_integer() || !(2..=MOST).contains(&size) {
            return None;
        }
        let shift = size.next_power_of_two().trailing_zeros() - 1;
        Some(Self { size, factor: (1_usize << (16 + shift)).div_ceil(size) as u16, shift })
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The mean for a sum.
    #[inline(always)]
    pub(super) fn mean(&self, sum: u16) -> u16 {
        ((u32::from(sum) * u32::from(self.factor)) >> 16) as u16 >> self.shift
    }

    /// The means of values that are `step` places apart, of which the next result's are one place further. `from` is
    /// overwritten.
    ///
    /// # Safety
    /// - `from` is valid for reads and writes of `count + (size - 1) * step` + [`SLACK`] values.
    /// - `to` is valid for writes of `count` + [`SLACK`] values.
    #[inline(always)]
    pub(super) unsafe fn along_memory<S: Simd>(
        &self,
        simd: S,
        from: *mut u16,
        to: *mut u16,
        step: usize,
        count: usize,
    ) {
        // SAFETY: as this function requires; a vector is at most SLACK values.
        unsafe { window_sums(simd, from, self.size, step, to, count) };
        let factors = self.factors(simd);
        for i in (0..count).step_by(2 * S::LANES) {
            // SAFETY: less than SLACK values after the last one.
            unsafe { simd.store_shorts(to.add(i), self.means(simd, &factors, simd.load_shorts(to.add(i)))) };
        }
    }

    /// The factor in every lane, for [`means`](Self::means).
    #[inline(always)]
    pub(super) fn factors<S: Simd>(&self, simd: S) -> S::Shorts {
        simd.splat_shorts(self.factor)
    }

    /// [`mean`](Self::mean), lane by lane.
    #[inline(always)]
    pub(super) fn means<S: Simd>(&self, simd: S, factors: &S::Shorts, sums: S::Shorts) -> S::Shorts {
        simd.shift_right_shorts(simd.mul_high_shorts(sums, factors), self.shift)
    }

    /// The means of values that are `width` places apart, by running sums.
    ///
    /// # Safety
    /// As for [`LineSums::run`].
    #[inline(always)]
    unsafe fn across_memory<S: Simd>(&self, simd: S, places: &Places<u16>) {
        let Places { values, results, sums, rows, width, .. } = *places;
        let factors = self.factors(simd);
        // SAFETY: row and column exist.
        unsafe {
            for column in 0..width {
                *sums.add(column) = 0;
            }
            for row in 0..self.size - 1 {
                for column in 0..width {
                    *sums.add(column) = (*sums.add(column)).wrapping_add(*values.add(row * width + column));
                }
            }
            let whole = width / (2 * S::LANES) * (2 * S::LANES);
            for row in 0..rows {
                let (old, new) = (values.add(row * width), values.add((row + self.size - 1) * width));
                let to = results.add(row * width);
                for column in (0..whole).step_by(2 * S::LANES) {
                    let sum = simd.add_shorts(simd.load_shorts(sums.add(column)), simd.load_shorts(new.add(column)));
                    simd.store_shorts(to.add(column), self.means(simd, &factors, sum));
                    simd.store_shorts(sums.add(column), simd.sub_shorts(sum, simd.load_shorts(old.add(column))));
                }
                for column in whole..width {
                    let sum = (*sums.add(column)).wrapping_add(*new.add(column));
                    *to.add(column) = self.mean(sum);
                    *sums.add(column) = sum.wrapping_sub(*old.add(column));
                }
            }
        }
    }
}

impl LineSums for Means {
    type Value = u16;

    fn size(&self) -> usize {
        self.size
    }

    #[inline(always)]
    unsafe fn run<S: Simd>(&self, simd: S, places: &Places<u16>) {
        // SAFETY: as this function requires.
        unsafe {
            if places.width == 1 {
                self.along_memory(simd, places.values, places.results, 1, places.rows);
            } else {
                self.across_memory(simd, places);
            }
        }
    }
}
