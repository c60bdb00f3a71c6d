//! The variants that a user names, for `bench` and `check`.

use std::str::FromStr;

use faltung::{Error, Result, Variant, VariantChoice};

/// The variants that a user asks for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Every variant that can compute the problem.
    All,
    /// The variant that [`Accuracy::Exact`](faltung::Accuracy::Exact) chooses.
    Exact,
    /// One variant, or the choice by the device (`auto`).
    One(VariantChoice),
}

impl FromStr for Wanted {
    type Err = Error;

    /// # Errors
    /// [`Error::Parse`], which lists the names.
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "all" => Ok(Self::All),
            "exact" => Ok(Self::Exact),
            _ => text.parse().map(Self::One).map_err(|_| {
                let names = ["all", "auto", "exact"].into_iter().chain(Variant::ALL.map(Variant::name));
                let required = names.collect::<Vec<_>>().join(", ");
                Error::Parse { what: "variant", required, found: text.into() }
            }),
        }
    }
}
