//! The options for the accuracy of results, which several subcommands have.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use faltung::Accuracy;

/// `--accuracy` and its short form `--exact`.
#[derive(clap::Args)]
pub(super) struct AccuracyArgs {
    /// How accurate results must be. exact: bit-exact on every device. bounded: the same for integers; f32 within a
    /// stated bound of the exact value at each pixel, so that large separable masks (Gaussian, box) may be computed as
    /// rows, then columns. normwise: within a bound of the norms of mask and image, which makes large masks fast for
    /// u8 and u16, and for f32 where products cancel; an integer is such a result, rounded [default: bounded]
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
