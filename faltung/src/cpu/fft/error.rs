//! How far a transformed sum can be from the exact one, and which sums are accepted.
//!
//! # The error of the transforms
//! Let `X` be the pixels of a tile, `M` the mask, `u = 2^-53`. One transform of length `n` in floating point has a
//! relative error in the 2-norm of at most `t eta / (1 - t eta)`, where `t = log2 n` and `eta = mu + gamma_4 (sqrt 2 +
//! mu)`; `mu` is the error of a twiddle factor (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd edition,
//! Theorem 24.2, for radix 2). rustfft evaluates sine and cosine in `f64` at an angle with three roundings, which is at
//! most `2 pi`: `mu <= 20 u`. So `eta <= 26 u`. **Assumed of the library:** its plans for lengths without prime factors
//! above 5 do not lose more for a factor of two than that. [`STAGE`] is 64 u for each factor of two, and the real
//! transform counts as one more. For a tile of `w x h` values
//! ```text
//! tau = 64 u (log2 w + log2 h + 4)
//! ```
//! bounds the relative error of the 2-D transform, forward and inverse. The tests hold the measured error below a
//! fiftieth of it.
//!
//! Let `F` be the exact transform, `P = w h`, `|| ||` the 2-norm, `dM` and `dX` the errors of the computed spectra. A
//! value of the result is `1/P sum (F M)(F X) omega` with `|omega| = 1`, so by Cauchy and Schwarz it moves by at most
//! ```text
//! 1/P ||dM|| ||F X|| <= tau ||M|| ||X||         the mask's spectrum
//! 1/P ||F M|| ||dX|| <= tau ||M|| ||X||         the tile's spectrum
//! 3 u ||M|| ||X||                               the complex products, and the division by P
//! tau ||M * X|| <= tau ||M||_1 ||X||            the inverse transform: its relative error, at one value
//! ```
//! Terms of second order are below `tau` times these. All together it is less than
//! ```text
//! E = tau (3 ||M|| + 2 ||M||_1) ||X||
//! ```
//!
//! # Results of `f32`
//! The sum `S` is rounded to `f32`. `|S_f32 - exact| <= E + v |S|` with `v = 2^-24`, but for underflow, of which the
//! contract allows `2^-150` for each coefficient. The exact sum is a lower bound of `A = sum|M*I|`, whatever the signs:
//! `A >= |S| - E`. So the contract, an error of at most `gamma(c) A`, holds where
//! ```text
//! E + v |S| <= gamma(c) (|S| - E),   that is   |S| >= E (1 + gamma) / (gamma - v)
//! ```
//! Here c is the number of coefficients. Where that fails for many, a second transform computes `A` with an error of at
//! most `E`, and the contract holds where `E + v |S| <= gamma(c) (A - E)`. Scale and offset are applied to `S_f32` as
//! to an ordered sum, so what the contract says of them holds too.
//!
//! # Integers
//! [`DirectSum`] bounds how far the value that the contract names can be from the exact one. With E and the roundings
//! of `S * scale + offset` in `f64` this is a radius. Rounding and saturation are monotone. So the integer is certain
//! where both ends of `S * scale + offset +- radius` give the same.
//!
//! In the class Normwise every finite sum is accepted: the radius is 0. `E / (u ||M|| ||X||)` is then a part of the
//! bound's constant.
//!
//! Where the ordered sum rounds nothing, S is known to be a multiple of a power of two. The nearest multiple is the
//! ordered sum, if E is below a quarter of the step.

use crate::accuracy::UNIT_ROUNDOFF;
use crate::plan::direct_sum::{ABOVE, DirectSum};
use crate::{Accuracy, ErrorBound, PixelType, Problem};

/// The relative error of a transform for each factor of two of its length.
const STAGE: f64 = 64.0 * (f64::EPSILON / 2.0);

/// The bounds of a problem, whatever the image.
#[derive(Debug)]
pub(super) struct Bounds {
    /// E of a tile whose pixels have the 2-norm 1.
    transforms: f64,
    /// The sum of the magnitudes of the coefficients.
    pub(super) mask_sum: f64,
    /// No coefficient is negative.
    pub(super) is_positive: bool,
    gamma: f64,
    pub(super) direct: Option<DirectSum>,
    scale: f64,
    offset: f64,
    output: PixelType,
    /// Whether integers are those of the ordered sums.
    has_ordered_bits: bool,
}

/// When the sums of a tile are accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rule {
    /// As `f32`, from this magnitude on.
    Magnitude { least: f64 },
    /// As the nearest multiple of this power of two.
    Multiple { unit: f64 },
    /// As integers up to `most`, where `S * scale + offset +- radius` rounds to one.
    Rounded { scale: f64, offset: f64, radius: f64, most: f64 },
}

impl Bounds {
    pub(super) fn new(problem: &Problem, width: usize, height: usize) -> Self {
        let mask = problem.window();
        let coefficients = super::coefficients(mask, |coefficient| coefficient);
        let (scale, offset) = problem.scale_and_offset();
        Self {
            transforms: transforms(width, height, &coefficients),
            has_ordered_bits: problem.required_class() == Accuracy::Exact,
            mask_sum: coefficients.iter().map(|coefficient| coefficient.abs()).sum(),
            is_positive: mask.coefficients().iter().all(|&coefficient| coefficient >= 0.0),
            gamma: ErrorBound::direct(problem).gamma(),
            direct: DirectSum::of(problem),
            scale: f64::from(scale),
            offset: f64::from(offset),
            output: problem.format().output,
        }
    }

    /// E for pixels with this sum of squares.
    pub(super) fn transforms(&self, squares: f64) -> f64 {
        self.transforms * squares.sqrt()
    }

    /// The constant of a bound of the class Normwise, for a mask with this 2-norm.
    pub(super) fn normwise_constant(&self, norm: f64) -> f64 {
        let of_transforms = if norm > 0.0 { self.transforms / (UNIT_ROUNDOFF * norm) } else { 0.0 };
        of_transforms.ceil() + 1.0
    }

    /// Whether the ordered sum rounds nothing, so that results have its bits in any format.
    pub(super) fn is_exact(&self) -> bool {
        self.direct.as_ref().is_some_and(|direct| direct.exact_unit().is_some())
    }

    /// The rule for a tile; None if no sum can be accepted.
    pub(super) fn rule(&self, most: f64, squares: f64) -> Option<Rule> {
        // The ordered sum might overflow on its way.
        if most * self.mask_sum >= f64::from(f32::MAX) / 4.0 {
            return None;
        }
        let error = self.transforms(squares);
        if let Some(unit) = self.direct.as_ref().and_then(DirectSum::exact_unit) {
            // Another rule would not give the bits that `is_exact` promises.
            return (error < unit / 4.0).then_some(Rule::Multiple { unit });
        }
        let integer = |largest: f64| {
            if !self.has_ordered_bits {
                return Some(Rule::Rounded { scale: self.scale, offset: self.offset, radius: 0.0, most: largest });
            }
            let sums = self.direct.as_ref()?.sum_error(most);
            let radius = self.radius(most, error, sums)?;
            Some(Rule::Rounded { scale: self.scale, offset: self.offset, radius, most: largest })
        };
        match self.output {
            PixelType::F32 => {
                let least = error * (1.0 + self.gamma) / (self.gamma - UNIT_ROUNDOFF) * ABOVE;
                Some(Rule::Magnitude { least: if self.gamma.is_finite() { least } else { 0.0 } })
            }
            PixelType::U8 => integer(255.0),
            PixelType::U16 => integer(65_535.0),
        }
    }

    /// The radius for integers, where the ordered sum's error is at most `sums`. None if nothing is certain.
    fn radius(&self, most: f64, error: f64, sums: f64) -> Option<f64> {
        let largest = most * self.mask_sum * self.scale.abs() + self.offset.abs();
        let rounded = largest * 8.0 * f64::EPSILON;
        let last = self.direct.as_ref()?.last_error();
        let radius = ((sums + error) * self.scale.abs() + last + rounded) * ABOVE;
        (radius < 0.5).then_some(radius)
    }

    /// The radius at one sum, for pixels without negative values.
    pub(super) fn radius_at(&self, most: f64, squares: f64, sum: f64) -> Option<f64> {
        let (direct, error) = (self.direct.as_ref()?, self.transforms(squares));
        let computed = (sum.max(0.0) + error + direct.sum_error(most)) * ABOVE;
        self.radius(most, error, direct.sum_error_below(most, computed))
    }

    /// Whether a sum that was rounded to `f32` keeps the contract, where `magnitudes` is the transformed `sum|M*I|`.
    pub(super) fn is_accepted(&self, sum: f32, magnitudes: f64, error: f64) -> bool {
        ABOVE * (error + UNIT_ROUNDOFF * ABOVE * f64::from(sum.abs())) <= self.gamma * (magnitudes - error)
    }

    /// The same with all errors taken to be 0, to see that wrong results are noticed.
    #[cfg(test)]
    pub(super) fn without_errors(mut self) -> Self {
        self.transforms = 0.0;
        self.direct = self.direct.map(DirectSum::without_errors);
        self
    }
}

/// E for tiles of `width x height` values whose 2-norm is 1.
pub(crate) fn transforms(width: usize, height: usize, coefficients: &[f64]) -> f64 {
    let tau = STAGE * ((width as f64).log2() + (height as f64).log2() + 4.0);
    let sum: f64 = coefficients.iter().map(|coefficient| coefficient.abs()).sum();
    let norm = coefficients.iter().map(|coefficient| coefficient * coefficient).sum::<f64>().sqrt();
    tau * (3.0 * norm + 2.0 * sum)
}
