//! The options for the accuracy of results, which several subcommands have.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use faltung::Accuracy;

/// `--accuracy` and its short form `--exact`.
#[derive(clap::Args)]
pub(super) struct AccuracyArgs {
    /// How accurate f32 results must be. exact: bit-exact on every device. bounded: each pixel within a stated
    /// bound of the exact value, so that large separable masks (Gaussian, box) may be computed as rows, then columns.
    /// normwise: within a bound of the norms of mask and image, so that a GPU may transform for any large mask, also
    /// one whose products cancel. Integers always are exact [default: bounded]
    #[arg(long, value_name = "CLASS", value_parser = class(), conflicts_with = "exact")]
    accuracy: Option<Accuracy>,

    /// Short for --accuracy exact
    #[arg(long)]
    exact: bool,
}

impl AccuracyArgs {
    /// The class that is asked for, if one is.
    pub(super) fn asked_for(&self) -> Option<Accuracy> {
        if self.exact { Some(Accuracy::Exact) } else { self.accuracy }
    }
}

fn class() -> impl TypedValueParser<Value = Accuracy> {
    PossibleValuesParser::new(Accuracy::ALL.map(Accuracy::name))
        .map(|name| name.parse().expect("clap lets only names through"))
}
