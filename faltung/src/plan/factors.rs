//! Separable masks, within the contract of the variants for such masks.

use kernels_gpu::registry::{FactorPlaces, Ineligible};
use kernels_gpu::separable::error_bound::MASK_ERROR;

use super::direct_sum::power;
use crate::Mask;
use crate::accuracy::UNIT_ROUNDOFF;

/// Column and row of a separable mask, in window order, as the kernels for separable masks take them.
///
/// # Contract
/// - Each `column[k] * row[l]` is within [`MASK_ERROR`] `* 2^-24` of the mask's coefficient, *relative to that
///   coefficient*: then the error bound holds for every image, also one that is 0 wherever the mask is large. Where the
///   mask has a 0, so has the product.
/// - The row's magnitudes sum to at most 1/2. A filtered row of finite pixels is then finite, so that an overflow can
///   happen only where it can in the direct sum, too, and a column's 0 takes away whatever finite pixels it is
///   multiplied with.
#[derive(Clone, Debug, PartialEq)]
pub struct Factors {
    row: Vec<f32>,
    column: Vec<f32>,
}

impl Factors {
    /// Those of `mask`, if it is separable within the contract.
    pub(crate) fn of(mask: &Mask) -> Option<Self> {
        let (column, row) = mask.separated(Mask::SEPARABLE)?;
        // By a power of two, which rounds nothing but what is left of denormal numbers. The check below sees those.
        let sum = magnitudes(&row);
        let mut factor = 1.0_f64;
        while sum * factor > 0.5 {
            factor /= 2.0;
        }
        while sum * factor <= 0.25 {
            factor *= 2.0;
        }
        let scaled = |values: &[f32], factor: f64| -> Vec<f32> {
            values.iter().map(|&value| (f64::from(value) * factor) as f32).collect()
        };
        let (row, column) = (scaled(&row, factor), scaled(&column, 1.0 / factor));
        // An infinite coefficient of the column is near nothing.
        let near = |value: f64| f64::from(MASK_ERROR) * UNIT_ROUNDOFF * value.abs();
        mask.is_outer_product(&column, &row, near).then_some(Self { row, column })
    }

    /// Refuses a column that is too large for images with small pixels.
    ///
    /// A row of w coefficients may lose `w 2^-150` to underflow, and the column multiplies that. With a sum of at most
    /// `2^24` the loss is at most `w 2^-126`, which is w times the least normal number. The direct sum of a larger mask
    /// loses less, because its products are larger.
    ///
    /// A larger row would lose less, too. But its sums could overflow where the direct sum does not.
    pub(crate) fn keep_small_pixels(&self) -> Result<(), Ineligible> {
        const MOST: f32 = (1 << 24) as f32;
        let sum = magnitudes(&self.column);
        if sum <= f64::from(MOST) {
            return Ok(());
        }
        let property = "the sum of the magnitudes of the column factor";
        Err(Ineligible::Range { property, required: (0.0, MOST), found: (sum as f32, sum as f32) })
    }

    /// The row's coefficients.
    pub(crate) fn row(&self) -> &[f32] {
        &self.row
    }

    /// The column's coefficients.
    pub(crate) fn column(&self) -> &[f32] {
        &self.column
    }

    /// The least and the largest exponent of the coefficients of both, but for zeros: `2^e <= |value| < 2^(e + 1)`.
    pub(crate) fn exponents(&self) -> (i32, i32) {
        // As an f64 each f32 is normal.
        let exponent = |value: &f32| (f64::from(*value).to_bits() >> 52 & 0x7ff) as i32 - 1023;
        let all = || self.row.iter().chain(&self.column).filter(|&&value| value != 0.0).map(exponent);
        (all().min().unwrap_or(0), all().max().unwrap_or(0))
    }

    /// The coefficients at these places, times their powers of two, and zeros elsewhere.
    #[must_use]
    pub fn placed(&self, places: FactorPlaces) -> Vec<f32> {
        let FactorPlaces { row, column, powers } = places;
        let parts = [(row as usize, &self.row, powers.row), (column as usize, &self.column, powers.column)];
        let mut placed = vec![0.0; parts.iter().map(|(at, factor, _)| at + factor.len()).max().unwrap_or(0)];
        for (at, factor, power) in parts {
            for (to, &from) in placed[at..].iter_mut().zip(factor) {
                *to = times_power(from, power);
            }
        }
        placed
    }

    /// How many times `2^-150` may be lost to underflow: once a step, the row's steps multiplied with the column.
    pub(crate) fn underflows(&self) -> f64 {
        // What the columns' sum makes of the rows' errors it rounds, too.
        1.01 * self.row.len() as f64 * magnitudes(&self.column) + self.column.len() as f64
    }

    /// The same where the tensor cores compute with numbers in two parts: what is left of a pixel, or of a filtered
    /// one, has no digits below `2^-133`, so up to `2^-134` of each is lost, which is `2^16` times `2^-150`; and the
    /// same once more for all that is lost besides.
    pub(crate) fn underflows_in_parts(&self) -> f64 {
        let [row, column] = [&self.row, &self.column].map(|values| magnitudes(values));
        f64::from(1 << 17) * (row * column + column + 1.0)
    }
}

/// The sum of the magnitudes.
fn magnitudes(values: &[f32]) -> f64 {
    values.iter().map(|&value| f64::from(value).abs()).sum()
}

/// `value * 2^exponent`, which is exact if it is normal.
pub(super) fn times_power(value: f32, exponent: i32) -> f32 {
    (f64::from(value) * power(exponent)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Axis;

    #[test]
    fn the_usual_separable_masks_keep_the_contract() {
        let masks = [
            Mask::identity(),
            Mask::gaussian(0.8, None).unwrap(),
            Mask::gaussian(3.0, None).unwrap(),
            Mask::gaussian(9.0, Some(31)).unwrap(),
            Mask::average(7, 5).unwrap(),
            Mask::sobel(Axis::X),
            Mask::scharr(Axis::Y),
            Mask::prewitt(Axis::X),
            Mask::gaussian(2.0, None).unwrap().normalized().unwrap(),
            Mask::new(2, 2, vec![3e-30, -1e-30, 3e-32, -1e-32]).unwrap(),
        ];
        for mask in masks {
            let Factors { row, column } = Factors::of(&mask).unwrap_or_else(|| panic!("{mask:?}"));
            let sum: f64 = row.iter().map(|&value| f64::from(value).abs()).sum();
            assert!(sum <= 0.5 && sum > 0.2, "{sum}");
            for (k, l) in (0..mask.height()).flat_map(|k| (0..mask.width()).map(move |l| (k, l))) {
                let (product, value) = (f64::from(column[k]) * f64::from(row[l]), f64::from(mask.at(k, l)));
                assert!(
                    (product - value).abs() <= 16.0 * UNIT_ROUNDOFF * value.abs(),
                    "{k} {l}: {product:e} for {value:e}"
                );
            }
        }
    }

    /// Masks of usual magnitudes keep small pixels. Large ones do not.
    #[test]
    fn large_columns_lose_small_pixels() {
        let gaussian = Mask::gaussian(3.0, None).unwrap();
        let of = |factor: f32| {
            let coefficients = gaussian.coefficients().iter().map(|&coefficient| coefficient * factor).collect();
            Factors::of(&Mask::new(gaussian.width(), gaussian.height(), coefficients).unwrap()).unwrap()
        };
        for exponent in [-60, -8, 0, 8, 20] {
            assert_eq!(of(2.0_f32.powi(exponent)).keep_small_pixels(), Ok(()), "{exponent}");
        }
        for exponent in [24, 100] {
            let refused = of(2.0_f32.powi(exponent)).keep_small_pixels().unwrap_err();
            assert!(matches!(refused, Ineligible::Range { required: (0.0, 16_777_216.0), .. }), "{refused}");
        }
    }

    /// Within the tolerance of the largest coefficient is not enough: a small one must be right to its own digits.
    #[test]
    fn almost_separable_masks_are_not_taken() {
        let outer = |changed: usize, by: f32| {
            let mut values: Vec<f32> = (0..49).map(|i| (1.0 + (i / 7) as f32) * 0.01_f32.powi(i % 7)).collect();
            values[changed] *= 1.0 + by;
            Mask::new(7, 7, values).unwrap()
        };
        assert!(Factors::of(&outer(6, 0.0)).is_some());
        for changed in [6, 13, 24, 45] {
            let almost = outer(changed, 64.0 * UNIT_ROUNDOFF as f32);
            assert!(Factors::of(&almost).is_none(), "coefficient {changed}");
        }
        // The smallest of them may be off by all of itself within the tolerance of the largest.
        assert!(outer(6, 64.0 * UNIT_ROUNDOFF as f32).separated(Mask::SEPARABLE).is_some());
        // A column whose coefficients would be infinite, the row's being as small as they have to be.
        assert!(Factors::of(&Mask::new(2, 2, vec![3e38, -1e38, 3e36, -1e36]).unwrap()).is_none());
        // Tails that underflow to 0, where the outer product does not.
        assert!(Factors::of(&Mask::new(2, 2, vec![1.0, 1e-30, 1e-30, 0.0]).unwrap()).is_none());
    }
}
