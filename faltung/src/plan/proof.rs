//! Which values of a plane round to the integer of the ordered sum, before any image is seen.
//!
//! A kernel of class Bounded computes a plane of values `v`. The contract demands another value `w`: the ordered sum
//! in `f32`, scaled. The exact value is `e`. Then `|v - w| <= |v - e| + |e - w|`. The *radius* bounds that sum.
//! [`kernels_gpu::util::planes::proven`] compares the distance from `v` to the next rounding boundary with it.
//!
//! # The contract's part
//! [`DirectSum`] bounds `|e - w|`: the roundings of the ordered sum, times the scale, and the one of scale and offset.
//!
//! # The kernel's part
//! Let `A = sum |M I|`, which is at most the largest pixel times the sum of the magnitudes of the coefficients.
//! - A kernel with the constant c is off by at most `gamma(c) A`. Below the normal numbers it may lose a multiple of
//!   `2^-150` more; see [`ErrorBound::underflows`].
//! - `fft_tile` knows more. [`kernels_gpu::fft::error`] derives `82 u ||M|| ||z||` for a sum of
//!   transforms. The `2 * 128^2` pixels are in `0..=p`, and their mean is subtracted. A number in an interval of
//!   length p has a variance of at most `p^2 / 4` (Popoviciu), so `||z|| <= 64 sqrt(2) p`, but for the rounding of the
//!   mean. The sum S of the coefficients is rounded, and multiplied by the mean m. That is off by `u |m S|`, which does
//!   not shrink with A: it is at most u times p times the sum of the magnitudes of the coefficients. Adding the mean
//!   rounds once more, by at most `u A`. A sum that is not accepted comes from one warp: each lane adds the products of
//!   its columns, and some sums combine the lanes. That is off by at most `gamma(n) A` with
//!   `n = rows * ceil(columns / 32) + 12`. If many sums are not accepted, the block adds all products in the order of
//!   the contract. The error is the largest of these.
//! - `fft_passes` knows the same with `130 u`. What it subtracts from the `2 * 1024^2` pixels is not their mean, but
//!   also in `0..=p`. So `||z|| <= 1024 sqrt(2) p`.
//!
//! The scale multiplies both. Scale and offset are one more rounding. A value beyond twice the largest integer
//! saturates, and so does the contract's; so the rounding of a larger value counts as one of twice the largest integer.
//!
//! # Small values
//! Without negative coefficients no partial sum exceeds the sum. So the ordered sum rounds less where it is small, and
//! `A` is the exact sum. Class `i` of the values has the sums below `2^(t - i)`, where `2^t` is above all sums. Its
//! radius is that of these sums. A value `v` belongs to the class if `v < s 2^(t - i) + o - R`, where R is the radius
//! of all values, s > 0 the scale and o the offset: then the ordered sum is below `2^(t - i)`. A thousandth less covers
//! the roundings of that comparison.
//!
//! # What is left
//! If fractions are equally likely, twice the radius is the part of the values that is uncertain. The plan refuses a
//! kernel with more than [`MOST_UNCERTAIN`].

use kernels_gpu::fft::error::Transforms;
use kernels_gpu::registry::{Accuracy as Guarantee, Arithmetic, Entry, Ineligible, MaskForm};
use kernels_gpu::separable::error_bound;
use kernels_gpu::util::planes::proven::{CLASSES, Conversion, ValueLimits, proven_planes};

use super::Factors;
use super::direct_sum::{ABOVE, DirectSum, half_unit, power, unit_of};
use crate::accuracy::UNIT_ROUNDOFF;
use crate::{ErrorBound, Problem, white};

/// The largest part of uncertain values.
pub(super) const MOST_UNCERTAIN: f64 = 0.25;

/// How integers are made of planes whose values have an error.
#[derive(Clone, Copy, Debug)]
pub struct Proof {
    /// The conversion that makes them.
    pub(crate) conversion: &'static Conversion,
    /// Which values are certain.
    pub(crate) certain: ValueLimits,
    /// The part of the values that is expected to be uncertain.
    pub(crate) uncertain: f32,
    /// The unit of the ordered sums, or 0: see
    /// [`ProvenParams::unit`](kernels_gpu::util::planes::proven::ProvenParams::unit).
    pub(crate) unit: f32,
}

impl Proof {
    /// A coefficient for the ordered sums in the proof's unit.
    pub(super) fn coefficient(&self, coefficient: f32) -> f32 {
        in_unit(coefficient, self.unit, self.conversion.factor_exponent())
    }
}

/// A coefficient for ordered sums in a [unit](sum_unit), or the coefficient itself if the unit is 0.
pub(super) fn in_unit(coefficient: f32, unit: f32, factor_exponent: i32) -> f32 {
    if unit == 0.0 {
        return coefficient;
    }
    (f64::from(coefficient) / (f64::from(unit) * power(factor_exponent))) as f32
}

/// The unit of the ordered sums: the smallest power of two with which all coefficients stay below `2^128`. The pixels
/// are multiplied by `2^factor_exponent`. None if a sum in the unit could round in another way than the sum itself.
///
/// That may happen to sums that are subnormal in the unit or without it. All sums are multiples of the least bit that
/// is set in a coefficient. If that bit is at least `2^-149` in the unit, all sums below `2^-125` are exact in both.
///
/// The coefficients are finite, and their sums with pixels far from overflow. So the unit is a normal number.
pub(super) fn sum_unit(coefficients: impl Iterator<Item = f32>, factor_exponent: i32) -> Option<f32> {
    let nonzero = coefficients.filter(|&coefficient| coefficient != 0.0);
    let (least, most) = nonzero.fold((i32::MAX, f32::MIN_POSITIVE), |(least, most), coefficient| {
        (least.min(unit_of(coefficient)), most.max(coefficient.abs()))
    });
    // 2^127 <= most / 2^(factor_exponent + exponent) < 2^128
    let exponent = (i32::from((most.to_bits() >> 23) as u8) - 127) - 127 - factor_exponent;
    (least.saturating_sub(exponent) >= -149).then(|| power(exponent) as f32)
}

/// What a problem with integer results brings to the proofs for all kernels.
#[derive(Clone, Debug)]
pub(super) struct Integers {
    conversion: &'static Conversion,
    pub(super) direct: DirectSum,
    mask: (u32, u32),
    /// The largest pixel.
    pub(super) most: f64,
    /// The unit of the ordered sums, or 0.
    unit: f32,
    /// The sum of the magnitudes of the coefficients.
    magnitudes: f64,
    /// Their 2-norm.
    norm: f64,
    /// No coefficient is negative.
    pub(super) is_positive: bool,
    pub(super) scale: f64,
    offset: f64,
    is_plain: bool,
    /// The largest integer.
    most_result: f64,
}

/// The error of a kernel. For each way in which it may compute a result: a fixed part, and a factor of `A`.
pub(super) struct KernelError([(f64, f64); 2]);

impl KernelError {
    /// That of sums of so many products.
    #[cfg(test)]
    pub(super) fn with_gamma(steps: u32) -> Self {
        Self([(0.0, gamma(steps)); 2])
    }

    /// The error where `A` is at most this.
    pub(super) fn at(&self, magnitude: f64) -> f64 {
        self.0.iter().map(|(fixed, factor)| fixed + factor * magnitude).fold(0.0, f64::max)
    }
}

/// The error of the ordered sum of this many products, as a factor of `A`.
fn gamma(steps: u32) -> f64 {
    ErrorBound::with_constant(steps.into()).gamma()
}

impl Integers {
    /// What all proofs for a problem need.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn of(problem: &Problem) -> Result<Self, Ineligible> {
        let refused = |property| Ineligible::Proof { property };
        let format = problem.format();
        let conversion = proven_planes(format.output, format.channels as u32)
            .filter(|_| format.input == format.output)
            .ok_or(refused("image and result must be integers of one type"))?;
        if problem.integer_pixels().is_none() {
            return Err(Ineligible::BorderValue { required: format.input, found: problem.border().value() });
        }
        let (scale, offset) = problem.scale_and_offset();
        if scale == 0.0 {
            return Err(refused("the scale must not be 0"));
        }
        let direct = DirectSum::of(problem).ok_or(refused("the sums must be far from overflow"))?;
        let window = problem.window();
        let coefficients = || window.coefficients().iter().map(|&coefficient| f64::from(coefficient));
        let most = white(format.input).into();
        Ok(Self {
            conversion,
            direct,
            mask: (window.width() as u32, window.height() as u32),
            most,
            unit: sum_unit(window.coefficients().iter().copied(), conversion.factor_exponent()).unwrap_or(0.0),
            magnitudes: coefficients().map(f64::abs).sum(),
            norm: window.norm(),
            is_positive: coefficients().all(|coefficient| coefficient >= 0.0),
            scale: scale.into(),
            offset: offset.into(),
            is_plain: problem.is_plain(),
            most_result: white(format.output).into(),
        })
    }

    /// The proof for the results of `entry`, of which each channel is a plane.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn proof(
        &self,
        entry: &Entry,
        factors: Option<&Factors>,
        shared_limit: u64,
    ) -> Result<Proof, Ineligible> {
        let (most, needed) = (shared_limit, self.conversion.least_shared_bytes(self.mask));
        if needed > most {
            return Err(Ineligible::SharedMemory { most, needed });
        }
        let (certain, uncertain) = self.certain(&self.kernel_error(entry, factors));
        // NaN is not small.
        let is_small = uncertain <= MOST_UNCERTAIN;
        if !is_small {
            let (most, found) = (MOST_UNCERTAIN as f32, uncertain as f32);
            return Err(Ineligible::Uncertain { most, found });
        }
        Ok(Proof { conversion: self.conversion, certain, uncertain: uncertain as f32, unit: self.unit })
    }

    /// The error of the entry's sums.
    fn kernel_error(&self, entry: &Entry, factors: Option<&Factors>) -> KernelError {
        let Guarantee::Bounded { error_constant, arithmetic } = entry.variant.spec().accuracy else {
            // The value that the contract names: no error remains.
            return KernelError([(0.0, 0.0); 2]);
        };
        // Of tiles: the transforms, and the most that a pixel minus the mean differs from 0, as a part of the largest
        // pixel and in the root mean square.
        let transforms = match entry.variant.spec().mask_form {
            MaskForm::Spectrum => Some((Transforms::TILE, 0.5)),
            MaskForm::SpectrumOfPasses => Some((Transforms::PASSES, 1.0)),
            _ => None,
        };
        if let Some((transforms, deviation)) = transforms {
            // The rounding of the mean is far less than a thousandth.
            let norm = 1.001 * f64::sqrt(2.0 * transforms.points()) * deviation * self.most;
            let transforms = transforms.relative(self.norm) * norm + transforms.underflow(self.norm);
            let of_mean = UNIT_ROUNDOFF * self.most * self.magnitudes;
            let by_warp = gamma(self.mask.1 * self.mask.0.div_ceil(32) + 12);
            let of_tile = (ABOVE * (transforms + of_mean), ABOVE * UNIT_ROUNDOFF);
            return KernelError([of_tile, (self.underflow(0.0), by_warp)]);
        }
        let underflows = factors.map_or(0.0, |factors| match arithmetic {
            Arithmetic::F32 => factors.underflows(),
            Arithmetic::SplitTf32 => factors.underflows_in_parts(),
        });
        self.bounded_error(error_constant(entry, self.mask), underflows)
    }

    /// The error of sums with the constant `constant` that lose `2^-150` so many times.
    fn bounded_error(&self, constant: u64, underflows: f64) -> KernelError {
        let bound = ErrorBound::with_constant(constant as f64).with_underflows(underflows);
        KernelError([(self.underflow(bound.underflows()), bound.gamma()); 2])
    }

    /// The error of sums of rows, then of columns.
    pub(super) fn separable_error(&self, factors: &Factors) -> KernelError {
        self.bounded_error(error_bound::error_constant(self.mask.0, self.mask.1), factors.underflows())
    }

    /// More than any sum of magnitudes.
    pub(super) fn largest_sum(&self) -> f64 {
        ABOVE * self.most * self.magnitudes
    }

    /// What scale and offset round of a sum with a kernel's error, in units of the result.
    pub(super) fn finish_error(&self, kernel: &KernelError) -> f64 {
        if self.is_plain {
            return 0.0;
        }
        let all = self.largest_sum();
        let size = self.scale.abs() * (all + kernel.at(all)) + self.offset.abs();
        half_unit((ABOVE * size).min(2.0 * (self.most_result + 1.0)))
    }

    /// What underflow may cost a sum that loses `2^-150` this often, and at least once for each coefficient.
    fn underflow(&self, times: f64) -> f64 {
        times.max(f64::from(self.mask.0) * f64::from(self.mask.1)) * power(-150)
    }

    /// The limits of all classes, and the part of the values that is expected to be uncertain.
    fn certain(&self, kernel: &KernelError) -> (ValueLimits, f64) {
        let all = self.largest_sum();
        let scale = self.scale.abs();
        let last = self.finish_error(kernel);
        // The sums of f64 are rounded, too.
        let radius = |ordered: f64, magnitude: f64| {
            ABOVE * (scale * (ordered + kernel.at(magnitude)) + self.direct.last_error() + last) + 1e-12
        };
        let limit = |radius: f64| ((0.5 - radius) as f32).next_down();
        let of_all = radius(self.direct.sum_error(self.most), all);
        let mut certain = ValueLimits::uniform(limit(of_all));
        let mut radii = [of_all; CLASSES];
        if self.is_positive && self.scale > 0.0 && all > 0.0 {
            let top = (all.log2().floor() + 1.0) as i32;
            for (class, of_class) in radii.iter_mut().enumerate().skip(1) {
                let sums = power(top - class as i32);
                let ordered = self.direct.sum_error_below(self.most, 0.999 * sums);
                *of_class = radius(ordered, ABOVE * (sums + ordered)).min(of_all);
                certain.limits[class] = limit(*of_class);
                certain.below[class] = ((0.998 * self.scale * sums + self.offset - of_all) as f32).next_down();
            }
        }
        // Results are taken to be spread evenly over the integers that there can be.
        let low = if self.is_positive { self.offset.max(0.0) } else { 0.0 };
        let high = (scale * all + self.offset).min(self.most_result);
        let mut uncertain = 0.0;
        let mut above = high;
        for (class, &of_class) in radii.iter().enumerate() {
            let next = certain.below.get(class + 1).map_or(low, |&next| f64::from(next).clamp(low, above.max(low)));
            let next = if next.is_finite() { next } else { low };
            uncertain += (above - next).max(0.0) * (2.0 * of_class).min(1.0);
            above = next.min(above);
        }
        let uncertain = if high > low { uncertain / (high - low) } else { (2.0 * of_all).min(1.0) };
        (certain, uncertain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Filter, Mask, Pixel, PixelFormat, PixelType};

    /// Whether a value is certain, as the kernel decides it.
    fn is_certain(certain: &ValueLimits, value: f32, most: f32) -> bool {
        let class = (1..CLASSES).rev().find(|&class| value < certain.below[class]).unwrap_or(0);
        let clamped = value.clamp(0.0, most);
        (clamped - clamped.round_ties_even()).abs() <= certain.limits[class]
    }

    /// A problem of one channel, of bytes or of words.
    fn problem<T: Pixel>(mask: Mask, scale: f32, offset: f32) -> Problem {
        let filter = Filter::new(mask).scale(scale).offset(offset);
        Problem::new(9, 9, &filter).unwrap().with_format(PixelFormat::of::<T, T>(1)).unwrap()
    }

    /// Values as far from the exact one as the kernel's bound allows, of windows whose results lie anywhere: the
    /// certain ones round as the ordered sum does. `shrink` multiplies each radius. Returns how many differ, of how
    /// many certain.
    fn differing<T: Pixel>(most: u16, shrink: f32, seed: u64) -> (usize, usize) {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut wrong, mut all) = (0, 0);
        for round in 0..60 {
            let side = random.usize(2..=if most == 255 { 20 } else { 6 });
            let is_positive = round % 3 > 0;
            let low = if is_positive { 0.0 } else { -0.3 };
            let coefficients: Vec<f32> = (0..side * side).map(|_| low + random.f32()).collect();
            let mask = Mask::new(side, side, coefficients).unwrap().normalized().unwrap();
            let (scale, offset) = [(1.0, 0.0), (0.75, 3.5), (-0.5, 140.0)][random.usize(..3)];
            let problem = problem::<T>(mask, scale, offset);
            let integers = Integers::of(&problem).unwrap();
            let kernel = KernelError([(0.0, gamma(random.u32(20..200))); 2]);
            let (mut certain, _) = integers.certain(&kernel);
            for limit in &mut certain.limits {
                *limit = 0.5 - (0.5 - *limit) * shrink;
            }
            for _ in 0..300 {
                let brightest = random.u16(1..=most);
                let (mut sum, mut exact, mut magnitude) = (0.0_f32, 0.0_f64, 0.0_f64);
                for &coefficient in problem.window().coefficients() {
                    let pixel = f32::from(random.u16(..=brightest));
                    sum = coefficient.mul_add(pixel, sum);
                    let product = f64::from(coefficient) * f64::from(pixel);
                    (exact, magnitude) = (exact + product, magnitude + product.abs());
                }
                let right = T::from_f32(problem.finish(sum));
                for sign in [-1.0, 1.0] {
                    let value = problem.finish((exact + sign * 0.999 * kernel.at(magnitude)) as f32);
                    if is_certain(&certain, value, f32::from(most)) {
                        all += 1;
                        wrong += usize::from(T::from_f32(value) != right);
                    }
                }
            }
        }
        (wrong, all)
    }

    /// Ordered sums in the unit, times the unit, are the ordered sums; also where coefficients are subnormal numbers.
    #[test]
    fn sums_in_the_unit_are_the_ordered_sums() {
        let seed = 17;
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut with_unit = 0;
        for _ in 0..3000 {
            // Magnitudes from 2^middle on, or up to it.
            let (middle, spread) = (random.i32(-149..30), random.i32(-150..60));
            let coefficients: Vec<f32> = (0..40)
                .map(|_| {
                    let exponent = middle + spread.signum() * random.i32(0..=spread.abs());
                    let magnitude = f64::from(1.0 + random.f32()) * power(exponent.clamp(-160, 90));
                    if random.u8(..4) == 0 { 0.0 } else { (magnitude * if random.bool() { 1.0 } else { -0.7 }) as f32 }
                })
                .collect();
            for (pixel, most) in [(PixelType::U8, 255), (PixelType::U16, 65_535)] {
                let conversion = proven_planes(pixel, 1).unwrap();
                let Some(unit) = sum_unit(coefficients.iter().copied(), conversion.factor_exponent()) else { continue };
                let certain = ValueLimits::uniform(0.0);
                let proof = Proof { conversion, certain, uncertain: 0.0, unit };
                let (mut sum, mut in_unit) = (0.0_f32, 0.0_f32);
                for &coefficient in &coefficients {
                    let pixel = f32::from(random.u16(..=most));
                    let factor = (f64::from(pixel) * power(conversion.factor_exponent())) as f32;
                    sum = coefficient.mul_add(pixel, sum);
                    in_unit = proof.coefficient(coefficient).mul_add(factor, in_unit);
                    assert_eq!(in_unit * unit, sum, "unit {unit:e}, coefficients {coefficients:?}");
                }
                with_unit += 1;
            }
        }
        assert!(with_unit > 2000, "only {with_unit} masks have a unit");
    }

    /// Blurs have a unit. Masks with coefficients of very different magnitudes have none.
    #[test]
    fn most_masks_have_a_unit() {
        let exponent = |pixel| proven_planes(pixel, 1).unwrap().factor_exponent();
        for pixel in [PixelType::U8, PixelType::U16] {
            for coefficients in [vec![0.0], vec![1e-3, 1e-12], vec![-4.0, 1.0], vec![1e-45, 1e-4], vec![1e8, -1e-9]] {
                assert!(sum_unit(coefficients.iter().copied(), exponent(pixel)).is_some(), "{coefficients:?}");
            }
            for coefficients in [[1e-45, 1.0], [1e-30, 1e10], [1e-45, 1e-1]] {
                assert_eq!(sum_unit(coefficients.into_iter(), exponent(pixel)), None, "{coefficients:?}");
            }
        }
    }

    #[test]
    fn certain_values_round_as_the_ordered_sum() {
        let seed = 91;
        println!("seed {seed}");
        for (wrong, all) in [differing::<u8>(255, 1.0, seed), differing::<u16>(65_535, 1.0, seed)] {
            assert!(wrong == 0 && all > 10_000, "{wrong} of {all}");
        }
        // Without a radius some do not.
        let (wrong, _) = differing::<u16>(65_535, 0.0, seed);
        assert!(wrong > 0);
    }

    /// In a dark place of a bright tile the mean times the sum of the coefficients rounds as in a bright place.
    #[test]
    fn the_rounded_sum_of_a_transform_counts_in_dark_places() {
        use kernels_gpu::registry::Variant;
        let problem = problem::<u8>(Mask::average(40, 40).unwrap(), 1.0, 0.0);
        let integers = Integers::of(&problem).unwrap();
        for (variant, transforms, deviation) in
            [(Variant::FftTile, Transforms::TILE, 0.5), (Variant::FftPasses, Transforms::PASSES, 1.0)]
        {
            let error = integers.kernel_error(variant.entries().next().unwrap(), None);
            let norm = f64::sqrt(2.0 * transforms.points()) * deviation * 255.0;
            let of_transforms = 1.001 * transforms.relative(integers.norm) * norm;
            let of_mean = UNIT_ROUNDOFF * 255.0 * integers.magnitudes;
            assert!(error.at(0.0) > of_transforms + 0.999 * of_mean, "{variant:?}: {:e}", error.at(0.0));
            // The sum of the mean's term and of the transform rounds in proportion to the result.
            let of_result = (error.at(255.0) - error.at(0.0)) / UNIT_ROUNDOFF;
            assert!((255.0..255.1).contains(&of_result), "{of_result}");
        }
    }

    /// What a problem is refused for.
    #[test]
    fn problems_without_a_proof_say_why() {
        let average = || Mask::average(5, 5).unwrap();
        let refusal = |problem: &Problem| Integers::of(problem).unwrap_err().to_string();
        let words = PixelFormat::of::<u8, u16>(1);
        let mixed = problem::<u8>(average(), 1.0, 0.0).with_format(words).unwrap();
        assert!(refusal(&mixed).contains("image and result must be integers of one type"));
        assert!(refusal(&problem::<u8>(average(), 0.0, 7.0)).contains("the scale must not be 0"));
        let large = Mask::new(1, 2, vec![3e38, 3e38]).unwrap();
        assert!(refusal(&problem::<u8>(large, 1.0, 0.0)).contains("far from overflow"));
        let outside = Filter::new(average()).border(crate::Border::Constant(0.5));
        let outside = Problem::new(9, 9, &outside).unwrap().with_format(PixelFormat::of::<u8, u8>(2)).unwrap();
        assert!(refusal(&outside).contains("a constant border must be a whole number"));
        // 31 x 31 products of words round by more than the half of a unit.
        let entry = kernels_gpu::registry::Variant::SeparableRing.entries().next().unwrap();
        let integers = Integers::of(&problem::<u16>(Mask::average(31, 31).unwrap(), 1.0, 0.0)).unwrap();
        let refused = integers.proof(entry, None, 200_000).unwrap_err();
        assert!(matches!(refused, Ineligible::Uncertain { .. }), "{refused}");
        let refused = integers.proof(entry, None, 10_000).unwrap_err();
        assert!(matches!(refused, Ineligible::SharedMemory { .. }), "{refused}");
    }
}
