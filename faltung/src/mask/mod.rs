//! Masks: the coefficients of a filter.

mod gabor;
mod generators;
mod separate;
mod text;

use std::fmt;

pub use gabor::Gabor;
pub use generators::Axis;
pub use text::WrittenMask;
pub(crate) use text::number;

use crate::debug::First;
use crate::image::check_side;
use crate::{Error, Result};

/// A mask (a filter's coefficients, a convolution "kernel"): `height` rows of `width` coefficients.
///
/// ```
/// use faltung::Mask;
///
/// let sharpen = Mask::new(3, 3, vec![0.0, -1.0, 0.0, -1.0, 5.0, -1.0, 0.0, -1.0, 0.0])?;
/// assert_eq!(sharpen.at(1, 1), 5.0);
/// # Ok::<(), faltung::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Mask {
    width: usize,
    height: usize,
    coefficients: Vec<f32>,
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, height, coefficients } = self;
        let mut mask = f.debug_struct("Mask");
        mask.field("width", width).field("height", height).field("coefficients", &First(coefficients)).finish()
    }
}

impl Mask {
    /// A mask of `width * height` coefficients, row by row. Any size from 1 x 1, odd, even or rectangular.
    ///
    /// # Errors
    /// [`Error::EmptyMask`] if a side is 0, [`Error::TooLarge`] if one is above 2^30 - 1, [`Error::Length`] if there
    /// are more or fewer coefficients. NaN and infinite coefficients are allowed; they do what IEEE 754 says.
    pub fn new(width: usize, height: usize, coefficients: Vec<f32>) -> Result<Self> {
        if width == 0 || height == 0 {
            return Err(Error::EmptyMask { width, height });
        }
        check_side("mask width", width)?;
        check_side("mask height", height)?;
        // Two sides below 2^30 can't overflow.
        let (required, found) = (width * height, coefficients.len());
        if found != required {
            return Err(Error::Length { what: "mask", width, height, channels: 1, required, found });
        }
        Ok(Self { width, height, coefficients })
    }

    /// Columns.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// The coefficients, row by row.
    #[must_use]
    pub fn coefficients(&self) -> &[f32] {
        &self.coefficients
    }

    /// The coefficient in row `k`, column `l`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[inline]
    pub fn at(&self, k: usize, l: usize) -> f32 {
        assert!(k < self.height && l < self.width, "row {k}, column {l} of {} x {}", self.height, self.width);
        self.coefficients[k * self.width + l]
    }

    /// The sum of the coefficients, in f64.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.coefficients.iter().map(|&c| f64::from(c)).sum()
    }

    /// The 2-norm of the coefficients, in f64.
    pub(crate) fn norm(&self) -> f64 {
        self.coefficients.iter().map(|&c| f64::from(c).powi(2)).sum::<f64>().sqrt()
    }

    /// Whether the coefficients sum to 0: derivatives, Laplacians. A sum within 10^-6 of the sum of the absolute
    /// coefficients counts as 0, since each coefficient is rounded to `f32` (by at most 6 * 10^-8 of it). A sum that is
    /// not finite counts, too.
    ///
    /// ```
    /// use faltung::Mask;
    ///
    /// assert!(Mask::laplacian_of_gaussian(2.0)?.sums_to_zero());
    /// assert!(!Mask::sharpen(1.0)?.sums_to_zero());
    /// # Ok::<(), faltung::Error>(())
    /// ```
    #[must_use]
    pub fn sums_to_zero(&self) -> bool {
        let absolute: f64 = self.coefficients.iter().map(|&c| f64::from(c).abs()).sum();
        let sum = self.sum().abs();
        !sum.is_finite() || sum <= 1e-6 * absolute
    }

    /// The mask divided by the sum of its coefficients, so that flat areas keep their value.
    ///
    /// # Errors
    /// [`Error::Number`] if the sum is 0 or not finite.
    pub fn normalized(&self) -> Result<Self> {
        let sum = self.sum();
        if sum == 0.0 || !sum.is_finite() {
            return Err(Error::Number {
                what: "the sum of a mask that is to be normalised",
                required: "finite and not 0",
                found: sum.to_string(),
            });
        }
        let coefficients = self.coefficients.iter().map(|&c| (f64::from(c) / sum) as f32).collect();
        Ok(Self { coefficients, ..*self })
    }

    /// The mask rotated by 180°: what a convolution walks over where a correlation walks over the mask itself.
    #[must_use]
    pub fn rotated_180(&self) -> Self {
        let coefficients = self.coefficients.iter().rev().copied().collect();
        Self { coefficients, ..*self }
    }
}
