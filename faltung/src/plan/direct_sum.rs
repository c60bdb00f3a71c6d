//! The error of the ordered sum of integer pixels, for all images at once.

use crate::{PixelType, Problem};

/// For sums in `f64` to be bounds all the same.
pub(crate) const ABOVE: f64 = 1.0 + 1.0 / (1 << 20) as f64;

/// How far the value that the contract names can be from the exact one, for any image of integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectSum {
    error: f64,
    largest_pixel: f64,
    most_result: f64,
}

impl DirectSum {
    /// None if the image is not one of integers, the sum can overflow, or a number is not finite.
    pub(crate) fn of(problem: &Problem) -> Option<Self> {
        let most_of = |of| match of {
            PixelType::U8 => 255.0,
            PixelType::U16 => 65_535.0,
            PixelType::F32 => f64::INFINITY,
        };
        let largest_pixel = most_of(problem.format().input);
        let most_result = most_of(problem.format().output) + 1.0;
        if largest_pixel.is_infinite() {
            return None;
        }
        let (scale, offset) = problem.scale_and_offset();
        let coefficients = problem.window().coefficients();
        if !coefficients.iter().all(|coefficient| coefficient.is_finite()) {
            return None;
        }
        let (mut positive, mut negative, mut error, mut unit) = (0.0, 0.0, 0.0, i32::MAX);
        for &coefficient in coefficients.iter().filter(|&&coefficient| coefficient != 0.0) {
            *(if coefficient > 0.0 { &mut positive } else { &mut negative }) +=
                largest_pixel * f64::from(coefficient.abs());
            error += half_unit(ABOVE * (f64::max(positive, negative) + error));
            unit = unit.min(unit_of(coefficient));
        }
        let mut most = ABOVE * f64::max(positive, negative);
        if most >= f64::from(f32::MAX) / 2.0 {
            return None;
        }
        if unit == i32::MAX || most <= power(unit.saturating_add(24)) {
            error = 0.0;
        }
        let is_exact = error == 0.0;
        most += error;
        error *= f64::from(scale.abs());
        // Without scale and offset there is no last step.
        if scale != 1.0 || offset != 0.0 {
            let most = ABOVE * (most * f64::from(scale.abs()) + f64::from(offset.abs()));
            let of = |value: f32| if value == 0.0 { i32::MAX } else { unit_of(value) };
            let unit = if unit == i32::MAX || scale == 0.0 { i32::MAX } else { unit + of(scale) };
            let unit = unit.min(of(offset));
            if !(is_exact && (unit == i32::MAX || unit >= -149 && most <= power(unit.saturating_add(24)))) {
                // A larger value is beyond the range of the results, here and there.
                error += half_unit(most.min(2.0 * most_result));
            }
        }
        Some(Self { error, largest_pixel, most_result })
    }

    /// The error, in units of the result.
    pub(crate) fn error(&self) -> f64 {
        self.error
    }

    /// The largest pixel of the input type.
    pub(crate) fn largest_pixel(&self) -> f64 {
        self.largest_pixel
    }

    /// One more than the largest result; infinity for `f32`.
    pub(crate) fn most_result(&self) -> f64 {
        self.most_result
    }
}

/// `2^exponent`.
pub(crate) fn power(exponent: i32) -> f64 {
    f64::powi(2.0, exponent.clamp(-1000, 1000))
}

/// Half a unit in the last place of an `f32` of at most this magnitude.
pub(crate) fn half_unit(most: f64) -> f64 {
    power((most.log2().floor() as i32).max(-126) - 24)
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

    #[test]
    fn the_lowest_bit() {
        let found = [1.0, 0.75, 6.0, 1.0e-45, -0.1].map(unit_of);
        assert_eq!(found, [0, -2, 1, -149, -27]);
        assert_eq!(half_unit(256.0), 2.0_f64.powi(-16));
        assert_eq!(half_unit(255.0), 2.0_f64.powi(-17));
    }
}
