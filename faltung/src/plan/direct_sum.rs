//! How far the ordered `f32` sum can be from the exact one, before any image is seen.

use crate::{PixelType, Problem, white};

/// A bound that is summed in `f64` times this is a bound in spite of the roundings of `f64`.
pub(crate) const ABOVE: f64 = 1.0 + 1.0 / (1 << 20) as f64;

/// The input values that a bound is for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Inputs {
    /// The largest magnitude.
    most: f64,
    /// They are whole numbers, none of them negative.
    whole: bool,
}

/// How far the value that the contract demands can be from the exact one.
///
/// # Why it holds
/// A step of the sum rounds by at most half a unit in the last place of the partial sum. A partial sum is at most the
/// largest input times the larger one of the sums of positive and of negative coefficients so far. (For inputs of both
/// signs: times the sum of the magnitudes so far.) A coefficient of 0 rounds nothing. Nothing is rounded at all where
/// all products are multiples of a power of two of which the sums have at most `2^24`.
///
/// Scale and offset are one more rounded step. Its value counts up to twice the largest integer of the output's type:
/// beyond that, both values saturate to the same integer.
///
/// The numbers are `f32`s, whose products and differences here fit an `f64`; their sums are rounded up by a part in
/// `2^20`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DirectSum {
    inputs: Inputs,
    /// What the steps of the sum round, in units of the sum.
    sum: f64,
    /// Entry `i` is the same for sums whose partial sums are all below `2^(top - i)`.
    below: Vec<f64>,
    top: i32,
    /// Of what all products are multiples, if nothing is rounded.
    unit: Option<f64>,
    /// Coefficients that are not 0.
    steps: f64,
    scale: f64,
    /// What the last step rounds, in units of the result.
    last: f64,
}

/// Binades below the largest partial sum for which a bound is kept.
const BINADES: usize = 24;

/// A power of two above which all values become the largest one of the type, also after an error.
pub(crate) fn saturated(of: PixelType) -> f64 {
    match of {
        PixelType::U8 => 512.0,
        PixelType::U16 => 131_072.0,
        PixelType::F32 => f64::INFINITY,
    }
}

impl DirectSum {
    /// For any image of the problem's input type. None if the sum can overflow, or a number is not finite.
    ///
    /// Inputs of `f32`, or a border's value that is not of the input's type, have no largest value: the bound is for
    /// magnitudes up to 1, and [`scaled`](Self::scaled) gives the others. Their sums may overflow.
    pub(crate) fn of(problem: &Problem) -> Option<Self> {
        let inputs = match problem.integer_pixels() {
            Some(integers) => Inputs { most: white(integers).into(), whole: true },
            None => Inputs { most: 1.0, whole: false },
        };
        Self::with_inputs(problem, inputs)
    }

    fn with_inputs(problem: &Problem, inputs: Inputs) -> Option<Self> {
        let (scale, offset) = problem.scale_and_offset();
        let coefficients = problem.window().coefficients();
        if !coefficients.iter().all(|coefficient| coefficient.is_finite()) {
            return None;
        }
        let (mut positive, mut negative, mut error, mut unit) = (0.0, 0.0, 0.0, i32::MAX);
        let nonzero = || coefficients.iter().filter(|&&coefficient| coefficient != 0.0);
        // The largest partial sum after a coefficient, but for the errors before it.
        let mut grow = |coefficient: f32| {
            let product = inputs.most * f64::from(coefficient.abs());
            *(if coefficient > 0.0 || !inputs.whole { &mut positive } else { &mut negative }) += product;
            f64::max(positive, negative)
        };
        let mut partial_sums = Vec::with_capacity(coefficients.len());
        for &coefficient in nonzero() {
            let most = ABOVE * (grow(coefficient) + error);
            error += half_unit(most);
            partial_sums.push(most);
            unit = unit.min(unit_of(coefficient));
        }
        let mut most = ABOVE * f64::max(positive, negative);
        if most >= f64::from(f32::MAX) / 2.0 {
            return None;
        }
        let is_exact = unit == i32::MAX || inputs.whole && most <= power(unit.saturating_add(24));
        if is_exact {
            error = 0.0;
        }
        most += error;
        let top = exponent(most) + 1;
        let below = |limit: f64| partial_sums.iter().map(|&sum| half_unit(sum.min(limit))).sum::<f64>() * ABOVE;
        let below = (0..BINADES).map(|i| if is_exact { 0.0 } else { below(0.999 * power(top - i as i32)) }).collect();

        let mut last = 0.0;
        // Without scale and offset there is no last step.
        if !problem.is_plain() {
            let limit = saturated(problem.format().output);
            let most = ABOVE * (most * f64::from(scale.abs()) + f64::from(offset.abs()));
            let most = if inputs.whole { most.min(limit) } else { limit };
            let of = |value: f32| if value == 0.0 { i32::MAX } else { unit_of(value) };
            let unit = if unit == i32::MAX || scale == 0.0 { i32::MAX } else { unit + of(scale) };
            let unit = unit.min(of(offset));
            if !(is_exact && (unit == i32::MAX || unit >= -149 && most <= power(unit.saturating_add(24)))) {
                last = half_unit(most);
            }
        }
        let unit = is_exact.then(|| power(unit.min(0)));
        let (steps, scale) = (partial_sums.len() as f64, f64::from(scale.abs()));
        Some(Self { inputs, sum: error, below, top, unit, steps, scale, last })
    }

    /// In units of the result.
    pub(crate) fn error(&self) -> f64 {
        self.sum * self.scale + self.last
    }

    /// The error of a sum, in units of the sum, of inputs of magnitudes up to `most`.
    pub(crate) fn sum_error(&self, most: f64) -> f64 {
        self.scaled(self.sum, self.ratio(most))
    }

    /// The same, for masks and inputs without negative values, where the sum that is computed is below `sum`. No
    /// partial sum is larger then.
    pub(crate) fn sum_error_below(&self, most: f64, sum: f64) -> f64 {
        let ratio = self.ratio(most);
        let binades = self.top - 1 - exponent(sum / ratio);
        let index = usize::try_from(binades).unwrap_or(0).min(BINADES - 1);
        self.scaled(self.below[index].min(self.sum), ratio)
    }

    /// What scale and offset round, in units of the result.
    pub(crate) fn last_error(&self) -> f64 {
        self.last
    }

    /// Of what each sum is a multiple, if the ordered sum rounds nothing.
    pub(crate) fn exact_unit(&self) -> Option<f64> {
        self.unit
    }

    /// The part of the results that lie half-way between two integers, if the ordered sum rounds nothing. All results
    /// are multiples of a unit then: of multiples of 1/4, for example, every fourth is half-way.
    pub(super) fn half_way_part(&self) -> f64 {
        self.unit.map(|unit| unit * self.scale).filter(|&unit| unit < 1.0).unwrap_or(0.0)
    }

    /// The same with errors of 0, to see that wrong results are noticed.
    #[cfg(test)]
    pub(crate) fn without_errors(self) -> Self {
        Self { sum: 0.0, below: vec![0.0; BINADES], steps: 0.0, last: 0.0, ..self }
    }

    /// Errors are proportional to the inputs, in steps of powers of two, but for subnormal numbers: there a step
    /// rounds up to `2^-150`.
    fn scaled(&self, error: f64, ratio: f64) -> f64 {
        if self.unit.is_some() { 0.0 } else { error * ratio + self.steps * power(-150) }
    }

    /// The power of two by which inputs are smaller, or larger, than those of the bound.
    fn ratio(&self, most: f64) -> f64 {
        let ratio = most.max(f64::MIN_POSITIVE) / self.inputs.most;
        let up = power(exponent(ratio));
        if up < ratio { 2.0 * up } else { up }
    }
}

/// `2^exponent`, clamped to normal numbers.
pub(crate) fn power(exponent: i32) -> f64 {
    // The bits of the exponent, plus 1023, begin at bit 52.
    f64::from_bits(((exponent.clamp(-1000, 1000) + 1023) as u64) << 52)
}

/// The exponent of the highest bit of a number that is not negative; that of the smallest normal `f64` at the least.
#[inline(always)]
pub(crate) fn exponent(value: f64) -> i32 {
    (value.max(f64::MIN_POSITIVE).to_bits() >> 52) as i32 - 1023
}

/// Half a unit in the last place of an `f32` of at most this magnitude.
pub(crate) fn half_unit(most: f64) -> f64 {
    power(exponent(most).max(-126) - 24)
}

/// The exponent of the lowest bit that is set.
pub(crate) fn unit_of(value: f32) -> i32 {
    let bits = value.to_bits();
    let (exponent, digits) = ((bits >> 23 & 0xff) as i32, bits & 0x7f_ffff);
    let (exponent, digits) = if exponent == 0 { (1, digits) } else { (exponent, digits | 0x80_0000) };
    exponent - 127 - 23 + digits.trailing_zeros() as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Filter, Mask, Pixel, PixelFormat};

    /// Ordered sums of random windows, also of a smaller range, stay within the bounds.
    #[test]
    fn sums_stay_within_their_bounds() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut closest: f64 = 0.0;
        for round in 0..200 {
            let side = random.usize(2..=12);
            let is_positive = random.bool();
            let mask = (0..side * side).map(|_| random.f32() - if is_positive { 0.0 } else { 0.5 }).collect();
            let filter = Filter::new(Mask::new(side, side, mask).unwrap());
            let problem = Problem::new(9, 9, &filter).unwrap();
            let is_whole = round % 2 == 0;
            let format = if is_whole { PixelFormat::of::<u8, u8>(1) } else { PixelFormat::of::<f32, u8>(1) };
            let problem = problem.with_format(format).unwrap();
            let direct = DirectSum::of(&problem).unwrap();
            let most = if is_whole { f64::from(random.u8(1..)) } else { random.f64() * 1e6 };
            for _ in 0..20 {
                let low = if is_positive || is_whole { 0.0 } else { -most };
                let value = |random: &mut fastrand::Rng| low + random.f64() * (most - low);
                let (mut sum, mut exact) = (0.0_f32, 0.0_f64);
                for &coefficient in problem.window().coefficients() {
                    let pixel = value(&mut random) as f32;
                    let pixel = if is_whole { u8::from_f32(pixel).to_f32() } else { pixel };
                    sum = coefficient.mul_add(pixel, sum);
                    exact += f64::from(coefficient) * f64::from(pixel);
                }
                let error = (f64::from(sum) - exact).abs() * (1.0 - 1e-6);
                assert!(error <= direct.sum_error(most), "{error:e}, round {round}");
                if is_positive {
                    let below = direct.sum_error_below(most, f64::from(sum));
                    assert!(error <= below && below <= direct.sum_error(most), "{error:e}, {below:e}, round {round}");
                }
                closest = closest.max(error / direct.sum_error(most));
            }
        }
        assert!(closest > 0.05, "the bound is {} times too large", 1.0 / closest);
    }

    #[test]
    fn the_lowest_bit() {
        let found = [1.0, 0.75, 6.0, 1.0e-45, -0.1].map(unit_of);
        assert_eq!(found, [0, -2, 1, -149, -27]);
        assert_eq!(half_unit(256.0), 2.0_f64.powi(-16));
        assert_eq!(half_unit(255.0), 2.0_f64.powi(-17));
    }
}
