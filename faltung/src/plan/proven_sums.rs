//! Which separable sums of bytes have the byte of the ordered sum, before any image is seen.
//!
//! The radius is that of [`proof`](super::proof): the ordered sum's error, the kernel's, and the roundings of scale and
//! offset. The kernel knows the sum, so the radius is
//! ```text
//! constant + factor * 2^e     where 2^e <= (1 + 2^-7) * sum < 2^(e + 1)
//! ```
//! Without negative coefficients no partial sum exceeds the ordered sum. The separable and the ordered sum differ by
//! less than a part in 200. So the ordered sum is below `0.999 * 2^(e + 1)`, and each of its steps rounds by at most
//! half a unit of numbers below that. The factor is the largest quotient of that error, and of the kernel's, and `2^e`.
//!
//! With negative coefficients a partial sum may be larger than the sum. Then the factor is 0, and the constant has the
//! error of the largest sums.
//!
//! # Why the partial sums are not smaller
//! A result may have all its bright pixels in the first rows of the window. Then its first partial sums are as large as
//! the result, whatever the coefficients of those rows are, up to the largest pixel times their sum.
//! [`DirectSum`](super::direct_sum::DirectSum) takes both limits into account. No tighter one holds for all images.

use kernels_gpu::registry::{Ineligible, ProvenPlaces};
use kernels_gpu::separable::interleaved::EXPONENTS;

use super::Factors;
use super::direct_sum::{ABOVE, power};
use super::factors::times_power;
use super::proof::{Integers, KernelError, MOST_UNCERTAIN};
use crate::Problem;

/// What the rounding of the kernel's comparison may cost: some units in the last place of 1/2.
const COMPARISON: f64 = 3e-7;

/// Binades of sums that have an error of their own. Smaller sums have that of the last one.
const BINADES: i32 = 20;

/// Which sums are certain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProvenSums {
    /// The part of the radius that all sums have.
    pub constant: f64,
    /// The part that grows with the binade of the sum.
    pub factor: f64,
    /// The part of the results that is expected to be uncertain.
    pub uncertain: f32,
}

impl ProvenSums {
    /// Those of the kernels that add separable sums of bytes.
    ///
    /// # Errors
    /// Why nothing proves them.
    pub(super) fn of(problem: &Problem, factors: &Factors) -> Result<Self, Ineligible> {
        let integers = Integers::of(problem)?;
        // The ordered sums are computed in the unit of a row factor.
        let is_usual = |&value: &f32| value == 0.0 || (2.0_f32.powi(EXPONENTS.0)..128.0).contains(&value.abs());
        if !problem.window().coefficients().iter().all(is_usual) {
            return Err(Ineligible::Proof { property: "coefficients must be 0 or between 2^-60 and 2^7" });
        }
        Self::with_error(&integers, &integers.separable_error(factors))
    }

    /// Those of a kernel with this error.
    fn with_error(integers: &Integers, kernel: &KernelError) -> Result<Self, Ineligible> {
        let (all, scale) = (integers.largest_sum(), integers.scale.abs());
        let fixed = ABOVE * (integers.direct.last_error() + integers.finish_error(kernel)) + COMPARISON;
        let error_below = |sums: f64| {
            let ordered = integers.direct.sum_error_below(integers.most, 0.999 * sums);
            ABOVE * scale * (ordered + kernel.at(ABOVE * (sums + ordered)))
        };
        let (constant, factor) = if integers.is_positive && all > 0.0 {
            let top = all.log2().floor() as i32 + 1;
            let factor = (0..BINADES).map(|i| error_below(power(top - i)) / power(top - i - 1)).fold(0.0, f64::max);
            (fixed + error_below(power(top - BINADES)), factor)
        } else {
            (fixed + ABOVE * scale * (integers.direct.sum_error(integers.most) + kernel.at(all)), 0.0)
        };
        // Sums are taken to be spread evenly.
        let mut uncertain = 0.0;
        let mut above = all;
        while factor > 0.0 && above > all / 1e6 {
            let below = power(above.log2().ceil() as i32 - 1);
            uncertain += (above - below) / all * (2.0 * (constant + factor * below)).min(1.0);
            above = below;
        }
        let uncertain = uncertain.max((2.0 * constant).min(1.0));
        // NaN is not small.
        let is_small = uncertain <= MOST_UNCERTAIN;
        if !is_small {
            return Err(Ineligible::Uncertain { most: MOST_UNCERTAIN as f32, found: uncertain as f32 });
        }
        Ok(Self { constant, factor, uncertain: uncertain as f32 })
    }

    /// The two numbers that the kernel compares with.
    fn numbers(&self) -> [f32; 2] {
        [((0.5 - self.constant) as f32).next_down(), -(self.factor as f32).next_up()]
    }

    /// All coefficients that the kernel reads.
    pub(super) fn coefficients(&self, problem: &Problem, factors: &Factors, places: ProvenPlaces) -> Vec<f32> {
        let window = problem.window();
        let mut all = factors.placed(places.factors);
        all.resize(places.length(window.height() as u32) as usize, 0.0);
        all[places.certain as usize..][..2].copy_from_slice(&self.numbers());
        let rows = window.coefficients().chunks_exact(window.width());
        let to = all[places.ordered as usize..].chunks_exact_mut(places.ordered_pitch as usize);
        for (to, from) in to.zip(rows) {
            for (to, &from) in to.iter_mut().zip(from) {
                *to = times_power(from, places.factors.powers.row);
            }
        }
        all
    }

    /// The same with a radius of 0, to see that wrong results are noticed.
    #[cfg(test)]
    pub(crate) fn without_radius(self) -> Self {
        Self { constant: 0.0, factor: 0.0, ..self }
    }
}
