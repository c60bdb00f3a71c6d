//! What is promised of results.

use crate::Problem;

/// The unit roundoff of `f32`: a result of one operation is off by at most this part of itself.
const U: f64 = 1.0 / (1 << 24) as f64;

/// By how much a variant may miss the exact result.
///
/// # The direct sum
/// n fused multiply-adds round n times. The first product passes through at most n roundings, so `|S - exact| <=
/// gamma(n) * sum|M*I|` with `gamma(n) = n u / (1 - n u)`, u = 2^-24 (Higham, *Accuracy and Stability of Numerical
/// Algorithms*, 2nd edition, section 3.1; a fused step has one rounding where that has two). Each step may also lose
/// 2^-150 to underflow. Scale s and offset are one more rounding, of `s * S + offset`:
/// ```text
/// |O - exact| <= E + u (|exact| + E) + 2^-150   with   E = |s| (gamma(n) sum|M*I| + n 2^-150)
/// ```
/// To that comes what the oracle itself may be off by, n 2^-53 sum|M*I| and a rounding or two of `exact`.
///
/// # Other orders
/// A variant that sums in another way states its own constant c in place of n, and derives it:
/// [`kernels_gpu::separable::error_bound::error_constant`].
///
/// # Integers
/// A result of `u8` or `u16` is rounded: half a unit more; and saturated, which takes no two values further apart.
///
/// # Overflow
/// If a partial sum may exceed `f32::MAX`, which is so if `sum|M*I|` or `|s| sum|M*I| + |offset|` does (with the errors
/// above), infinities of either sign and NaN are right as well, because they are what the order of the sum makes of it.
/// An exact value that is itself NaN or infinite, because the image or the mask is, must be met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    constant: f64,
    /// How many times a sum may lose 2^-150, if that is more often than the mask has coefficients.
    underflows: f64,
    /// Whether the bits of the direct sum are promised.
    direct: bool,
}

impl Bound {
    /// The bound of the direct variants: one fused multiply-add a coefficient, in any order of the coefficients.
    #[must_use]
    pub fn direct(problem: &Problem) -> Self {
        let window = problem.window();
        let coefficients = window.width() as f64 * window.height() as f64;
        Self { direct: true, ..Self::with_constant(coefficients) }
    }

    /// Whether results with this bound have the bits of the direct sum, too, as those of the CPU do.
    #[must_use]
    pub fn promises_bits(self) -> bool {
        self.direct
    }

    /// The bound `gamma(c) * sum|M*I|` for variants that sum otherwise.
    ///
    /// # Panics
    /// If `constant` is negative or not finite.
    #[must_use]
    pub fn with_constant(constant: f64) -> Self {
        assert!(constant >= 0.0 && constant.is_finite(), "the constant of a bound: {constant}");
        Self { constant, underflows: constant, direct: false }
    }

    /// The same bound, with up to `underflows` losses of 2^-150 where those are more than the mask has coefficients: a
    /// variant that multiplies what underflowed multiplies the loss.
    #[must_use]
    pub fn with_underflows(self, underflows: f64) -> Self {
        Self { underflows: self.underflows.max(underflows), ..self }
    }

    /// How many times a sum may lose 2^-150 to underflow.
    #[must_use]
    pub fn underflows(self) -> f64 {
        self.underflows
    }

    /// `gamma(c) = c u / (1 - c u)`; infinite from 2^24 on, where `f32` promises nothing.
    #[must_use]
    pub fn gamma(self) -> f64 {
        let cu = self.constant * U;
        if cu < 1.0 { cu / (1.0 - cu) } else { f64::INFINITY }
    }
}
