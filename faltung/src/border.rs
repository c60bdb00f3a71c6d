//! What lies outside of an image, as users name it.

use std::fmt;
use std::str::FromStr;

use kernels_gpu::abi::border::BorderMode;

use crate::mask::number;
use crate::{Error, Result};

/// What the pixels outside of an image are. The patterns show a row `a b c d` and what stands beside it.
///
/// ```
/// use faltung::Border;
///
/// assert_eq!("reflect101".parse::<Border>()?, Border::Mirror);
/// assert_eq!("constant:0.5".parse::<Border>()?, Border::Constant(0.5));
/// # Ok::<(), faltung::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Border {
    /// `v v v | a b c d | v v v`, the default with 0. SciPy's `constant`, OpenCV's `BORDER_CONSTANT`.
    Constant(f32),
    /// `a a a | a b c d | d d d`. SciPy's `nearest`, OpenCV's `BORDER_REPLICATE`.
    Clamp,
    /// `c b a | a b c d | d c b`. SciPy's `reflect`, OpenCV's `BORDER_REFLECT`, NumPy's `symmetric`.
    Reflect,
    /// `d c b | a b c d | c b a`. SciPy's `mirror`, OpenCV's `BORDER_REFLECT_101`, NumPy's `reflect`.
    Mirror,
    /// `b c d | a b c d | a b c`. SciPy's `wrap`, OpenCV's `BORDER_WRAP`.
    Wrap,
}

impl Default for Border {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Border {
    /// Zeros outside.
    pub const ZERO: Self = Self::Constant(0.0);

    /// What the names are, for messages and help.
    pub const NAMES: &str = "zero, constant:VALUE, clamp, reflect, mirror or wrap";

    /// The mode, without the value.
    #[must_use]
    pub fn mode(self) -> BorderMode {
        match self {
            Self::Constant(_) => BorderMode::Constant,
            Self::Clamp => BorderMode::Clamp,
            Self::Reflect => BorderMode::Reflect,
            Self::Mirror => BorderMode::Mirror,
            Self::Wrap => BorderMode::Wrap,
        }
    }

    /// Whether both give the same bits, whatever these are: NaN is the same as itself, and -0.0 differs from 0.0. `==`
    /// compares numbers.
    ///
    /// ```
    /// use faltung::Border;
    ///
    /// assert!(Border::Constant(f32::NAN).is_same(Border::Constant(f32::NAN)));
    /// assert!(!Border::Constant(-0.0).is_same(Border::ZERO));
    /// ```
    #[must_use]
    pub fn is_same(self, other: Self) -> bool {
        self.mode() == other.mode() && self.value().to_bits() == other.value().to_bits()
    }

    /// The value outside of a constant border, 0 for the others.
    #[must_use]
    pub fn value(self) -> f32 {
        match self {
            Self::Constant(value) => value,
            _ => 0.0,
        }
    }
}

impl fmt::Display for Border {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // -0.0 is a number of its own: see `is_same`.
            Self::Constant(value) if value.to_bits() == 0 => f.write_str("zero"),
            Self::Constant(value) => write!(f, "constant:{value}"),
            Self::Clamp => f.write_str("clamp"),
            Self::Reflect => f.write_str("reflect"),
            Self::Mirror => f.write_str("mirror"),
            Self::Wrap => f.write_str("wrap"),
        }
    }
}

impl FromStr for Border {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || Error::Parse { what: "border", required: Self::NAMES.into(), found: text.into() };
        Ok(match text {
            "zero" | "constant" => Self::ZERO,
            "clamp" | "nearest" | "replicate" | "edge" => Self::Clamp,
            "reflect" | "symmetric" => Self::Reflect,
            "mirror" | "reflect101" => Self::Mirror,
            "wrap" | "circular" | "periodic" | "tile" => Self::Wrap,
            _ => {
                let value = text.strip_prefix("constant:").ok_or_else(unknown)?;
                Self::Constant(number(value).map_err(|number| {
                    let required = format!("{number} after \"constant:\"");
                    Error::Parse { what: "border", required, found: value.into() }
                })?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        let constants = [0.0, -0.0, -2.5, f32::NAN, f32::NEG_INFINITY].map(Border::Constant);
        for border in constants.into_iter().chain([Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap]) {
            assert!(border.to_string().parse::<Border>().unwrap().is_same(border), "{border}");
        }
        for (also, border) in [("constant", Border::ZERO), ("edge", Border::Clamp), ("symmetric", Border::Reflect)] {
            assert_eq!(also.parse::<Border>().unwrap(), border);
        }
        for text in ["", "constant:", "constant:x", "constant:1e40", "constant:-1e400", "Zero", "reflect 101"] {
            assert!(text.parse::<Border>().is_err(), "{text:?}");
        }
        for (value, number) in [("x", "a number"), ("1e40", "a number from -3.4e38 to 3.4e38")] {
            let error = format!("constant:{value}").parse::<Border>().unwrap_err().to_string();
            assert_eq!(error, format!("border: {number} after \"constant:\" was expected, not \"{value}\""));
        }
    }
}
