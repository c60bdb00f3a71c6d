//! Sums of `f32` in the place of sums of `f64`, where the results are the same.
//!
//! Arrays of small integers ask for sums of `f64`, as SciPy has them. Sums of `f32` take a quarter of the time. They
//! serve in two cases.
//!
//! - **Exact**: all products and partial sums are multiples of one power of two and below 2^24 times that. Then neither
//!   type rounds. Weights of edge filters and of small binomial filters are like that.
//! - **Proven**: the results are integers, which drop the fraction of the sum. Let `S` be the sum of `f32` and `T` the
//!   one of `f64`, with `|S - T| < radius`. Where `S - radius` and `S + radius` drop to the same integer, T does, too.
//!   The other results are [summed again](Recheck) in `f64`, in SciPy's order.
//!
//! # The radius
//! Let `u = 2^-24` and `A = sum |weight * value|`, at most the sum of the magnitudes of the weights times the largest
//! magnitude of a value. The values are exact in `f32`. A weight loses at most `u` of itself, and a sum at most `u` of
//! itself for each addition that it goes through. So `|S - exact| <= A ((1 + u)^(steps + 1) - 1)`, where `steps` is the
//! longest way of a product through the additions. Partial sums of few products keep it short. `T` has the same bound
//! with the number of products and 2^-53. [`Radius::new`] adds two more `u A`, for the comparison in `f32`.

use super::Element;
use super::kernel::{Real, Tap};
use crate::cpu::simd::Simd;

/// Products of a partial sum of `f32`.
pub(super) const PARTIAL: usize = 64;

/// The largest radius that is worth it: results this close to a whole number are summed twice.
const LARGEST_RADIUS: f64 = 0.02;

/// What sums of `f32` are good for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Narrow {
    /// They are those of `f64`.
    Exact,
    /// They give the same integers, but for those that are less than the radius away from a whole number.
    Proven(Radius),
}

/// The largest whole number up to which `f32` has all of them, less one.
pub(super) const EXACT: f64 = 16_777_215.0;

/// How far a sum of `f32` can be from the one of `f64`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Radius(f32);

/// What is known of the values that a filter reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Values {
    /// The largest magnitude.
    most: f64,
    /// All are multiples of this power of two.
    unit: f64,
}

impl Values {
    /// Those of an array of integers, and the `outside` value of its border, if there is one. None if they are not
    /// known, or have no place in an `f32`.
    pub(super) fn new(element: Element, outside: Option<f64>) -> Option<Self> {
        let (largest, outside) = (element.largest()?, outside.unwrap_or(0.0));
        let is_exact = f64::from(outside as f32) == outside && largest < 16_777_216.0;
        is_exact.then(|| Self { most: largest.max(outside.abs()), unit: unit(outside).min(1.0) })
    }
}

impl Values {
    /// The most that the magnitudes of products with these weights add up to.
    pub(super) fn magnitude(&self, weights: &[f64]) -> f64 {
        weights.iter().map(|weight| weight.abs()).sum::<f64>() * self.most
    }

    /// The power of two of which all products with these weights are multiples.
    pub(super) fn step(&self, weights: &[f64]) -> f64 {
        weights.iter().map(|&weight| unit(weight)).fold(1.0, f64::min) * self.unit
    }

    /// Whether sums of `f32` with these weights round nothing, nor do those of `f64`.
    pub(super) fn are_exact(&self, weights: &[f64]) -> bool {
        weights.iter().all(is_normal) && self.magnitude(weights) <= EXACT * self.step(weights)
    }

    /// What is known of the sums with these weights, if they are exact.
    pub(super) fn summed(&self, weights: &[f64]) -> Self {
        Self { most: self.magnitude(weights), unit: self.step(weights) }
    }

    /// Whether they are whole numbers of magnitudes up to `most`.
    pub(super) fn are_whole(&self, most: f64) -> bool {
        self.unit == 1.0 && self.most <= most
    }

    /// The largest 2-norm of so many values.
    pub(super) fn norm(&self, count: usize) -> f64 {
        self.most * (count as f64).sqrt()
    }
}

/// Whether no product with a weight underflows or overflows.
pub(super) fn is_normal(&weight: &f64) -> bool {
    weight == 0.0 || (1e-25..1e25).contains(&weight.abs())
}

/// The largest power of two of which a number is a multiple; infinity for 0.
fn unit(number: f64) -> f64 {
    if number == 0.0 {
        return f64::INFINITY;
    }
    // The last bit of the significand that is set. A subnormal number has no hidden bit, and its unit is not needed.
    let significand = number.to_bits() & ((1 << 52) - 1) | 1 << 52;
    let exponent = (number.to_bits() >> 52 & 2047) as i32 - 1075;
    2.0_f64.powi(exponent + significand.trailing_zeros() as i32)
}

impl Narrow {
    /// For results of the type `to`, where a product goes through at most `steps` additions. None if sums of `f32` do
    /// not serve.
    pub(super) fn new(values: Option<Values>, to: Element, weights: &[f64], steps: usize) -> Option<Self> {
        let values = values?;
        if !weights.iter().all(is_normal) {
            return None;
        }
        if values.are_exact(weights) {
            return Some(Self::Exact);
        }
        let radius = Radius::new(values.magnitude(weights), steps, weights.len());
        (to.is_integer() && f64::from(radius.0) <= LARGEST_RADIUS).then_some(Self::Proven(radius))
    }
}

impl Radius {
    /// As if nothing were rounded, to see that wrong results are noticed.
    #[cfg(test)]
    pub(super) const NONE: Self = Self(0.0);

    pub(super) fn value(self) -> f32 {
        self.0
    }

    /// For sums of magnitudes up to `magnitude`.
    fn new(magnitude: f64, steps: usize, products: usize) -> Self {
        let unit = f64::from(f32::EPSILON / 2.0);
        let narrow = (steps as f64 + 3.0) * unit;
        let wide = (products as f64 + 1.0) * (f64::EPSILON / 2.0);
        // Above the terms of second order, and above the rounding to f32.
        Self((magnitude * (narrow + wide) * 1.01) as f32)
    }
}

/// What is done with the sums of a block before they are converted.
pub(super) trait Recheck<A>: Sync {
    /// Whether it reads and writes up to [`SLACK`](super::kernel::SLACK) values after the last one.
    const NEEDS_SLACK: bool;

    /// Takes care of `count` sums at `sums`, of which the values lie at `from`, `step` places apart.
    ///
    /// # Safety
    /// - As for the sums themselves: [`weighted_sums`](super::kernel::weighted_sums).
    /// - If the slack is needed, the values and the sums have it.
    unsafe fn run<S: Simd>(&self, simd: S, from: *const A, step: isize, sums: *mut A, count: usize);
}

/// Sums that are final.
pub(super) struct Final;

impl<A> Recheck<A> for Final {
    const NEEDS_SLACK: bool = false;

    #[inline(always)]
    unsafe fn run<S: Simd>(&self, _: S, _: *const A, _: isize, _: *mut A, _: usize) {}
}

/// A sum in SciPy's order: the products that it has.
pub(super) enum Order {
    /// One after the other.
    Taps(Vec<Tap<f64>>),
    /// The middle one, then both values at a distance before their product, each with the distance.
    Mirrored { middle: f64, pairs: Vec<Tap<f64>>, is_odd: bool },
}

/// Sums that are final where they are far enough from a whole number.
pub(super) struct Again {
    pub(super) order: Order,
    pub(super) radius: Radius,
}

/// Vectors of sums that are computed again at a time: as many as hide the latency of an addition.
pub(super) const TOGETHER: usize = 8;

impl Recheck<f32> for Again {
    const NEEDS_SLACK: bool = true;

    #[inline(always)]
    unsafe fn run<S: Simd>(&self, simd: S, from: *const f32, step: isize, sums: *mut f32, count: usize) {
        let (half, radius) = (S::LANES / 2, simd.splat(self.radius.0));
        let mut starts = [0; TOGETHER];
        let mut found = 0;
        for start in (0..count).step_by(S::LANES) {
            // SAFETY: less than SLACK values after the last one.
            let sum = unsafe { simd.load(sums.add(start)) };
            let bits = simd.differ_without_fractions(simd.sub(sum, radius), simd.add(sum, radius));
            if bits == 0 {
                continue;
            }
            for (part, start) in [(bits, start), (bits >> half, start + half)] {
                if part & ((1 << half) - 1) == 0 {
                    continue;
                }
                starts[found] = start;
                found += 1;
                if found == TOGETHER {
                    // SAFETY: as this function requires.
                    unsafe { self.order.sum(simd, from, step, sums, &starts) };
                    found = 0;
                }
            }
        }
        if found > 0 {
            let last = starts[found - 1];
            starts[found..].fill(last);
            // SAFETY: as this function requires.
            unsafe { self.order.sum(simd, from, step, sums, &starts) };
        }
    }
}

impl Order {
    /// Sums half a vector from each of the starts on in `f64`, and drops the fractions.
    ///
    /// # Safety
    /// As for [`sums`](Self::sums); `to` has the places of the results, and SLACK more.
    #[inline(always)]
    pub(super) unsafe fn sum<S: Simd>(
        &self,
        simd: S,
        from: *const f32,
        step: isize,
        to: *mut f32,
        starts: &[usize; TOGETHER],
    ) {
        // SAFETY: as this function requires.
        let sums = unsafe { self.sums(simd, from, step, starts) };
        for (&sum, &start) in sums.iter().zip(starts) {
            let mut wide = [0.0; 8];
            // SAFETY: a vector of `f64` has at most 8 lanes.
            unsafe { f64::store(simd, wide.as_mut_ptr(), sum) };
            for (i, &sum) in wide[..S::LANES / 2].iter().enumerate() {
                // A whole number below 2^24 is exact in `f32`.
                // SAFETY: less than SLACK values after the last one that is asked for.
                unsafe { to.add(start + i).write(sum.trunc() as f32) };
            }
        }
    }

    /// The sums of half a vector of values from each of the starts on. The values lie `step` places apart.
    ///
    /// # Safety
    /// As for [`Recheck::run`]; the starts are less than its `count`.
    #[inline(always)]
    pub(super) unsafe fn sums<S: Simd, A: Real>(
        &self,
        simd: S,
        from: *const A,
        step: isize,
        starts: &[usize; TOGETHER],
    ) -> [S::Doubles; TOGETHER] {
        let mut sums = [simd.splat_f64(0.0); TOGETHER];
        let weigh = |weight, value, sum| simd.add_f64(sum, simd.mul_f64(weight, value));
        match self {
            Self::Taps(taps) => {
                for tap in taps {
                    let weight = simd.splat_f64(tap.weight);
                    for (sum, &start) in sums.iter_mut().zip(starts) {
                        // SAFETY: the values of a sum, and less than SLACK values more.
                        let value = unsafe { A::load_wide(simd, from.offset(tap.offset * step).add(start)) };
                        *sum = weigh(weight, value, *sum);
                    }
                }
            }
            Self::Mirrored { middle, pairs, is_odd } => {
                let weight = simd.splat_f64(*middle);
                for (sum, &start) in sums.iter_mut().zip(starts) {
                    // SAFETY: as above.
                    *sum = weigh(weight, unsafe { A::load_wide(simd, from.add(start)) }, *sum);
                }
                for pair in pairs {
                    let distance = pair.offset * step;
                    let weight = simd.splat_f64(pair.weight);
                    for (sum, &start) in sums.iter_mut().zip(starts) {
                        // SAFETY: as above, at the distance before and after.
                        let (before, after) = unsafe {
                            let at = from.add(start);
                            (A::load_wide(simd, at.offset(-distance)), A::load_wide(simd, at.offset(distance)))
                        };
                        let both = if *is_odd { simd.sub_f64(before, after) } else { simd.add_f64(before, after) };
                        *sum = weigh(weight, both, *sum);
                    }
                }
            }
        }
        sums
    }
}
