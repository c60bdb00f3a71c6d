//! Which separable sums of bytes have the byte of the ordered sum, before any image is seen.
//!
//! The radius is that of [`proof`](super::proof): the ordered sum's error, the kernel's, and the roundings of scale and
//! offset. The kernel knows the sum, so the radius is
//! ```text
//! constant + factor * 2^e     where 2^e <= (1 + 2^-7) * sum < 2^(e + 1)
//! ```
//! Without negative coefficients no partial sum exceeds the ordered sum. The separable and the ordered sum differ by
//! less than a part in 200. So the ordered sum is below `0.999 * 2^(e + 1)`, and each of its steps rounds by at most
//! half a unit of numbers below that. The factor is the largest quotient of the sum of both errors and `2^e`.
//!
//! With negative coefficients a partial sum may be larger than the sum. Then the factor is 0, and the constant has the
//! error of the largest sums.
//!
//! # Half-way results
//! If the ordered sum rounds nothing, all sums are multiples of a power of two. Of multiples of 1/4, for example, every
//! fourth is half-way between two integers. Those are uncertain, whatever the radius is.
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
pub(crate) struct ProvenSums {
    /// The part of the radius that all sums have.
    pub(crate) constant: f64,
    /// The part that grows with the binade of the sum.
    pub(crate) factor: f64,
    /// The part of the results that is expected to be uncertain.
    pub(crate) uncertain: f32,
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
        let uncertain = uncertain.max((2.0 * constant).min(1.0)) + integers.direct.half_way_part();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Filter, Mask, Pixel as _, PixelFormat};

    /// The byte of a sum, and whether it is certain, as the kernel decides it.
    fn convert([limit, slope]: [f32; 2], problem: &Problem, sum: f32) -> (u8, bool) {
        let clamped = problem.finish(sum).clamp(0.0, 255.0);
        let binade = f32::from_bits((sum * 1.007_812_5).to_bits() & 0x7f80_0000);
        let is_certain = (clamped - clamped.round_ties_even()).abs() <= binade.mul_add(slope, limit);
        (u8::from_f32(clamped), is_certain)
    }

    /// A problem of one channel, with the error of a kernel.
    fn random_problem(random: &mut fastrand::Rng, is_positive: bool) -> (Problem, Integers, KernelError) {
        let (width, height) = (random.usize(1..=20), random.usize(1..=20));
        let low = if is_positive { 0.0 } else { -0.3 };
        let coefficients: Vec<f32> = (0..width * height).map(|_| low + random.f32()).collect();
        let mask = Mask::new(width, height, coefficients).unwrap().normalized().unwrap();
        let (scale, offset) = [(1.0, 0.0), (0.75, 3.5), (-0.5, 140.0)][random.usize(..3)];
        let filter = Filter::new(mask).scale(scale).offset(offset);
        let problem = Problem::new(9, 9, &filter).unwrap().with_format(PixelFormat::of::<u8, u8>(1)).unwrap();
        let (integers, kernel) = (Integers::of(&problem).unwrap(), KernelError::with_gamma(random.u32(20..200)));
        (problem, integers, kernel)
    }

    /// Sums as far from the exact ones as the kernel's bound allows, of windows whose results lie anywhere. Returns
    /// how many certain bytes differ from those of the ordered sums, of how many certain ones.
    fn differing(change: fn(ProvenSums) -> ProvenSums, seed: u64) -> (usize, usize) {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut wrong, mut all) = (0, 0);
        for round in 0..80 {
            let (problem, integers, kernel) = random_problem(&mut random, round % 3 > 0);
            let Ok(sums) = ProvenSums::with_error(&integers, &kernel) else { continue };
            let numbers = change(sums).numbers();
            for _ in 0..300 {
                let brightest = random.u8(1..);
                // Half of the windows have their bright pixels first.
                let dark_from = if random.bool() { random.f64() } else { 1.0 };
                let (mut sum, mut exact, mut magnitude) = (0.0_f32, 0.0_f64, 0.0_f64);
                let coefficients = problem.window().coefficients();
                for (i, &coefficient) in coefficients.iter().enumerate() {
                    let is_dark = i as f64 > dark_from * coefficients.len() as f64;
                    let pixel = f32::from(if is_dark { 0 } else { random.u8(..=brightest) });
                    sum = coefficient.mul_add(pixel, sum);
                    let product = f64::from(coefficient) * f64::from(pixel);
                    (exact, magnitude) = (exact + product, magnitude + product.abs());
                }
                let right = u8::from_f32(problem.finish(sum));
                for sign in [-1.0, 1.0] {
                    let value = (exact + sign * 0.999 * kernel.at(magnitude)) as f32;
                    let (byte, is_certain) = convert(numbers, &problem, value);
                    all += usize::from(is_certain);
                    wrong += usize::from(is_certain && byte != right);
                }
            }
        }
        (wrong, all)
    }

    #[test]
    fn certain_sums_have_the_byte_of_the_ordered_sum() {
        let seed = 92;
        println!("seed {seed}");
        let (wrong, all) = differing(|sums| sums, seed);
        assert!(wrong == 0 && all > 10_000, "{wrong} of {all}");
        // Without a radius some do not.
        let (wrong, _) = differing(ProvenSums::without_radius, seed);
        assert!(wrong > 0);
    }

    /// Sums of each binade, of which the radius covers the bound of both errors, and not much more.
    #[test]
    fn the_radius_covers_each_binade() {
        let mut random = fastrand::Rng::with_seed(93);
        for _ in 0..40 {
            let (_, integers, kernel) = random_problem(&mut random, true);
            let Ok(ProvenSums { constant, factor, .. }) = ProvenSums::with_error(&integers, &kernel) else { continue };
            let scale = integers.scale.abs();
            for exponent in -8..8 {
                let (least, most) = (power(exponent), 0.99 * power(exponent + 1));
                if least > integers.largest_sum() {
                    continue;
                }
                let bound = scale * (integers.direct.sum_error_below(integers.most, most) + kernel.at(most));
                let radius = constant + factor * least;
                assert!(bound <= radius, "{bound:e} for {radius:e}, binade {exponent}");
                assert!(radius < 4.0 * bound + 1e-4, "{radius:e} for {bound:e}, binade {exponent}");
            }
        }
    }

    /// What a problem is refused for.
    #[test]
    fn problems_without_a_proof_say_why() {
        let refusal = |values: Vec<f32>| {
            let filter = Filter::new(Mask::new(2, 1, values).unwrap());
            let problem = Problem::new(9, 9, &filter).unwrap().with_format(PixelFormat::of::<u8, u8>(1)).unwrap();
            let factors = Factors::of(problem.window()).unwrap();
            ProvenSums::of(&problem, &factors).unwrap_err().to_string()
        };
        assert!(refusal(vec![0.5, 1e-20]).contains("between 2^-60 and 2^7"));
        assert!(refusal(vec![200.0, 1.0]).contains("between 2^-60 and 2^7"));
    }
}
