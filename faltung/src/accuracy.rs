//! How accurate results are: the class that a request allows, and the bound that a variant keeps.

use std::fmt;
use std::str::FromStr;

use kernels_gpu::registry::{Accuracy as Guarantee, Variant};

use crate::{Error, Problem, Result};

/// The unit roundoff of `f32`: the relative error of one rounded operation is at most this.
pub(crate) const UNIT_ROUNDOFF: f64 = 1.0 / (1 << 24) as f64;

/// The accuracy class that a request allows, and that a variant keeps.
///
/// `O` is a computed result of type `f32`. `exact` is the same result without rounding errors. `M` is the mask, `I` the
/// image, and `u = 2^-24` the unit roundoff of `f32`.
///
/// | class | guarantee |
/// | --- | --- |
/// | [`Exact`](Self::Exact) | `O` has the bits of the ordered sum, on every device |
/// | [`Bounded`](Self::Bounded) | `\|O - exact\| <= gamma(c) * sum\|M*I\|` at every pixel, `gamma(c) = c u / (1 - c u)` |
/// | [`Normwise`](Self::Normwise) | `\|O - exact\| <= c * u * \|\|M\|\|_2 * \|\|I_tile\|\|_2` |
///
/// The variant states the constant `c`: see [`ErrorBound`]. Scale and offset add one rounding to each class. Underflow
/// adds [`ErrorBound::underflows`] times `2^-150`.
///
/// The classes are ordered. The stricter one is the lesser one, and its results satisfy a bound of each looser class:
/// the ordered sum of n products has `c = n`, and `sum|M*I|` is at most the product of the two norms.
///
/// Results of integer types (`u8`, `u16`) have the bits of [`Exact`](Self::Exact) in the class
/// [`Bounded`](Self::Bounded), too. In the class [`Normwise`](Self::Normwise) a result is the sum with an error of at
/// most `c * u * ||M||_2 * ||I_tile||_2`, scaled and rounded. In the project's records it differs by at most 1 from the
/// exact result.
///
/// Very large masks on integers take the direct sum in the classes `Exact` and `Bounded`, and in `Normwise` a much
/// faster method. [`Device::apply`](crate::Device::apply) says how to see that before it computes.
///
/// ```
/// use faltung::{Accuracy, Filter, Mask};
///
/// let filter = Filter::new(Mask::gaussian(3.0, None)?).accuracy(Accuracy::Exact);
/// assert_eq!("exact".parse::<Accuracy>()?, Accuracy::Exact);
/// assert!(Accuracy::Exact < Accuracy::Bounded && Accuracy::Bounded < Accuracy::Normwise);
/// # Ok::<(), faltung::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Accuracy {
    /// The bits of the ordered sum: one fused multiply-add a coefficient, from 0, the rows of the image's window from
    /// top to bottom, each row from left to right. They do not depend on device, threads or tiles.
    Exact,
    /// `|O - exact| <= gamma(c) * sum|M*I|` at every pixel, where `gamma(c) = c u / (1 - c u)` and `u = 2^-24`.
    #[default]
    Bounded,
    /// `|O - exact| <= c * u * ||M||_2 * ||I_tile||_2`, where `I_tile` are the pixels that one transform reads.
    ///
    /// The transforms of a GPU keep this class if it is asked for: `fft_tile` and `fft_passes`. They then recompute
    /// only tiles with NaN or infinity, or with values so large that a transform could overflow. Other variants keep
    /// the class that they keep otherwise.
    ///
    /// Integers may take any method for `f32`, without a proof.
    Normwise,
}

impl Accuracy {
    /// All classes, the strictest first.
    pub const ALL: [Self; 3] = [Self::Exact, Self::Bounded, Self::Normwise];

    /// The class that a variant keeps.
    #[must_use]
    pub const fn of(variant: Variant) -> Self {
        match variant.spec().accuracy {
            Guarantee::Exact => Self::Exact,
            Guarantee::Bounded { .. } => Self::Bounded,
        }
    }

    /// Whether a request for this class takes results of class `kept`.
    #[must_use]
    pub fn allows(self, kept: Self) -> bool {
        kept <= self
    }

    /// The name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Bounded => "bounded",
            Self::Normwise => "normwise",
        }
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Accuracy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|class| class.name() == text).ok_or_else(|| Error::Parse {
            what: "accuracy",
            required: Self::ALL.map(Self::name).join(", "),
            found: text.into(),
        })
    }
}

/// The error bound that a variant keeps for a problem: its class, and the constant `c`.
///
/// # The ordered sum
/// n fused multiply-adds round n times. Each product passes through at most n roundings. So the sum S satisfies
/// `|S - exact| <= gamma(n) * sum|M*I|` with `gamma(n) = n u / (1 - n u)` and `u = 2^-24`, in any order of the products
/// (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd edition, section 3.1; a fused step has one rounding
/// where that section has two). Each step may also lose `2^-150` to underflow.
///
/// Scale s and offset are one more rounding, of `s * S + offset`:
/// ```text
/// |O - exact| <= E + u (|exact| + E) + 2^-150   with   E = |s| (gamma(n) sum|M*I| + n 2^-150)
/// ```
///
/// # Other sums
/// A variant of class [`Accuracy::Bounded`] states its own constant c in the place of n, and derives it. An example is
/// [`kernels_gpu::separable::error_bound::error_constant`].
///
/// # Norms
/// A result of class [`Accuracy::Normwise`] has `|S - exact| <= c u ||M||_2 ||I_tile||_2`, or it is an ordered sum: the
/// transform of a tile with NaN, infinity or a norm above `10^18` computes nothing.
///
/// # Integers
/// A result of `u8` or `u16` is rounded, which adds half a unit. Saturation moves no two values further apart.
///
/// # Overflow
/// A partial sum may exceed `f32::MAX` if `sum|M*I|` or `|s| sum|M*I| + |offset|`, with the errors above, does. Then
/// infinities of either sign and NaN are right as well. An exact value that is NaN or infinite, because the image or
/// the mask is, must be met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErrorBound {
    class: Accuracy,
    constant: f64,
    /// How many times a sum may lose 2^-150 to underflow: the constant, or more.
    underflows: f64,
}

impl ErrorBound {
    /// The bound of the ordered sum, of class [`Accuracy::Exact`]: one fused multiply-add a coefficient.
    #[must_use]
    pub fn direct(problem: &Problem) -> Self {
        let window = problem.window();
        let coefficients = window.width() as f64 * window.height() as f64;
        Self { class: Accuracy::Exact, ..Self::with_constant(coefficients) }
    }

    /// The bound `gamma(c) * sum|M*I|`, of class [`Accuracy::Bounded`].
    ///
    /// # Panics
    /// If `constant` is negative or not finite.
    #[must_use]
    pub fn with_constant(constant: f64) -> Self {
        assert!(constant >= 0.0 && constant.is_finite(), "the constant of a bound: {constant}");
        Self { class: Accuracy::Bounded, constant, underflows: constant }
    }

    /// The bound `c u ||M||_2 ||I_tile||_2`, of class [`Accuracy::Normwise`].
    ///
    /// # Panics
    /// If `constant` is negative or not finite.
    #[must_use]
    pub fn normwise(constant: f64) -> Self {
        Self { class: Accuracy::Normwise, ..Self::with_constant(constant) }
    }

    /// The same bound, with up to `underflows` losses of 2^-150 where those are more than before. A bound begins with as
    /// many as its constant. A variant that multiplies what underflowed multiplies the loss.
    #[must_use]
    pub fn with_underflows(self, underflows: f64) -> Self {
        Self { underflows: self.underflows.max(underflows), ..self }
    }

    /// The class that the results keep. Those of [`Accuracy::Exact`] also have the bits of the ordered sum.
    #[must_use]
    pub fn class(self) -> Accuracy {
        self.class
    }

    /// The constant c. For the class [`Accuracy::Exact`] it is the number of coefficients.
    #[must_use]
    pub fn constant(self) -> f64 {
        self.constant
    }

    /// How many times a sum may lose 2^-150 to underflow.
    #[must_use]
    pub fn underflows(self) -> f64 {
        self.underflows
    }

    /// `gamma(c) = c u / (1 - c u)`, for the classes [`Accuracy::Exact`] and [`Accuracy::Bounded`]. It is infinite from
    /// `c = 2^24` on, where `f32` guarantees nothing.
    #[must_use]
    pub fn gamma(self) -> f64 {
        let cu = self.constant * UNIT_ROUNDOFF;
        if cu < 1.0 { cu / (1.0 - cu) } else { f64::INFINITY }
    }
}

/// As reports have it: "exact", or "bounded (c = 30)".
impl fmt::Display for ErrorBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            Accuracy::Exact => write!(f, "{}", self.class),
            Accuracy::Bounded | Accuracy::Normwise => write!(f, "{} (c = {})", self.class, self.constant),
        }
    }
}

#[cfg(test)]
mod tests {
    use kernels_gpu::registry::entries;

    use super::*;
    use crate::{Filter, Mask, PixelType};

    #[test]
    fn classes_have_names() {
        for class in Accuracy::ALL {
            assert_eq!(class.to_string().parse::<Accuracy>().unwrap(), class);
        }
        let names = Accuracy::ALL.map(|class| class.to_string());
        assert_eq!(names, ["exact", "bounded", "normwise"]);
        for text in ["", "Exact", "exact ", "fast"] {
            let error = text.parse::<Accuracy>().unwrap_err().to_string();
            assert_eq!(error, format!("accuracy: exact, bounded, normwise was expected, not \"{text}\""));
        }
    }

    #[test]
    fn a_class_allows_itself_and_stricter_ones() {
        use Accuracy::{Bounded, Exact, Normwise};
        assert_eq!(Accuracy::default(), Bounded);
        assert_eq!(Accuracy::ALL.map(|kept| Exact.allows(kept)), [true, false, false]);
        assert_eq!(Accuracy::ALL.map(|kept| Bounded.allows(kept)), [true, true, false]);
        assert_eq!(Accuracy::ALL.map(|kept| Normwise.allows(kept)), [true, true, true]);
    }

    /// So results of integers have the exact bits, whatever the request.
    #[test]
    fn only_exact_variants_make_integers() {
        for entry in entries().filter(|entry| Accuracy::of(entry.variant) != Accuracy::Exact) {
            let results = (entry.variant.spec().results)(entry.pixel);
            assert_eq!(results, [PixelType::F32], "{}", entry.symbol);
        }
    }

    #[test]
    fn bounds_say_class_and_constant() {
        let problem = crate::Problem::new(9, 9, &Filter::new(Mask::average(5, 3).unwrap())).unwrap();
        let direct = ErrorBound::direct(&problem);
        assert_eq!((direct.class(), direct.constant(), direct.to_string()), (Accuracy::Exact, 15.0, "exact".into()));
        let bounded = ErrorBound::with_constant(30.0);
        assert_eq!((bounded.class(), bounded.to_string()), (Accuracy::Bounded, "bounded (c = 30)".into()));
        assert!(bounded.gamma() > 30.0 * UNIT_ROUNDOFF && bounded.gamma() < 30.001 * UNIT_ROUNDOFF);
    }
}
