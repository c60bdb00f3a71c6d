//! The variant that is asked for.

use std::fmt;
use std::str::FromStr;

use kernels_gpu::registry::{Entry, Variant};

use crate::{Error, Result};

/// Which variant is to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum VariantChoice {
    /// The one that is predicted to be fastest of those that can, and that keep the accuracy class of the problem
    /// ([`Problem::accuracy`](crate::Problem::accuracy)). [`Plan::bound`](super::Plan::bound) states the class that it
    /// keeps.
    #[default]
    Auto,
    /// This one, with its kernel for the mask's size if it has one, or an error that says why not. It must keep the
    /// accuracy class of the problem, too: a bounded variant is [`Error::Accuracy`] for
    /// [`Accuracy::Exact`](crate::Accuracy::Exact).
    Named(Variant),
    /// This kernel, or an error that says why not.
    Kernel {
        /// The kernel.
        entry: &'static Entry,
        /// Whether it computes the channels one after the other, as planes of `f32`.
        in_planes: bool,
    },
}

impl VariantChoice {
    /// All that can be asked for, in the order in which help texts list them.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Auto].into_iter().chain(Variant::ALL.map(Self::Named))
    }

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Named(variant) | Self::Kernel { entry: &Entry { variant, .. }, .. } => variant.name(),
        }
    }

    /// The variant, if one was asked for by name.
    #[must_use]
    pub const fn named(self) -> Option<Variant> {
        match self {
            Self::Auto => None,
            Self::Named(variant) | Self::Kernel { entry: &Entry { variant, .. }, .. } => Some(variant),
        }
    }

    /// Whether a kernel, for the image or for its planes, is what was asked for.
    pub(super) fn allows(self, entry: &Entry, in_planes: bool) -> bool {
        match self {
            Self::Auto => true,
            Self::Named(wanted) => entry.variant == wanted && !in_planes,
            Self::Kernel { entry: wanted, in_planes: wants_planes } => entry == wanted && in_planes == wants_planes,
        }
    }

    /// Whether planes may be what was asked for.
    pub(super) fn allows_planes(self) -> bool {
        match self {
            Self::Auto => true,
            Self::Named(_) => false,
            Self::Kernel { in_planes, .. } => in_planes,
        }
    }
}

impl fmt::Display for VariantChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for VariantChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::all().find(|choice| choice.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::all().map(Self::name).collect();
            Error::Parse { what: "variant", required: names.join(", "), found: text.into() }
        })
    }
}
