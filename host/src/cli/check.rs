//! `host check`: compares every variant with the oracle on this machine.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use faltung::{Accuracy, Device, DeviceChoice, VariantChoice};
use host::check::{CPU_METHODS, Checker, SEED, Verdict, cases};
use host::wanted::Wanted;
use indicatif::{ProgressBar, ProgressStyle};

use super::{OrUsage as _, Outcome, output, select};
use kernels_gpu::registry::Variant;

const EXAMPLES: &str = "\
Each case is a problem of another size, mask, border, operation and anchor, some with NaN and infinities in the \
image. Every answer must lie within its variant's error bound of the f64 oracle. That of an exact variant must have \
the bits of the scalar reference, and so must every answer of integers.

The CPU has no variants to name. It computes each case with the methods that it takes for exact and for bounded results.

Examples:
  host check                               the first CUDA device, or else the CPU
  host check --device cpu                  the CPU's methods: direct, separable, fft
  host check --device emulator --quick     the GPU's kernels without a GPU, every access checked
  host check --variants shared_tile        one variant only";

/// Hold every variant against a reference and an oracle
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Where to compute: auto, cpu, emulator or cuda:NUMBER
    #[arg(long, default_value_t, value_name = "D")]
    device: DeviceChoice,
    /// Which variants: all, auto, exact, or names such as "naive"
    #[arg(long, default_value = "all", value_delimiter = ',', value_name = "all|NAME,...")]
    variants: Vec<Wanted>,
    /// Only the cheapest cases that together try each kernel, border and tile edge
    #[arg(long)]
    quick: bool,
    /// What images and masks are made from
    #[arg(long, default_value_t = SEED, value_name = "N")]
    seed: u64,
}

/// The outcomes of one variant's cases.
struct Tally {
    choice: VariantChoice,
    accuracy: Accuracy,
    name: &'static str,
    right: usize,
    not_eligible: usize,
    wrong: usize,
    /// The largest error in units of the bound.
    worst: f64,
    time: Duration,
}

impl Tally {
    fn new(choice: VariantChoice, accuracy: Accuracy, name: &'static str) -> Self {
        let time = Duration::ZERO;
        Self { choice, accuracy, name, right: 0, not_eligible: 0, wrong: 0, worst: 0.0, time }
    }

    /// Checks one answer, and describes it in `reports` if it is wrong.
    fn check(
        &mut self,
        checker: &Checker,
        device: &Device,
        accuracy: Accuracy,
        reports: &mut Vec<String>,
    ) -> Result<()> {
        let start = Instant::now();
        let verdict = checker.check(device, self.choice, accuracy)?;
        self.time += start.elapsed();
        match verdict {
            Verdict::Right(comparison) => {
                self.right += 1;
                self.worst = self.worst.max(comparison.error_over_bound);
            }
            Verdict::NotEligible(_) => self.not_eligible += 1,
            Verdict::Wrong(report) => {
                self.wrong += 1;
                reports.push(report);
            }
        }
        Ok(())
    }
}

/// The most wrong cases that are described.
const MOST_SHOWN: usize = 20;

/// Runs the subcommand: a line for each variant, and a report of wrong results.
pub(super) fn run(args: &Args) -> Result<Outcome> {
    let device = select(args.device)?;
    let by_method = device.backend() == "cpu" && args.variants.contains(&Wanted::All);
    let mut tallies = if by_method {
        CPU_METHODS.map(|method| Tally::new(VariantChoice::Auto, Accuracy::default(), method.name)).into()
    } else {
        tallies(&device, &args.variants)?
    };
    output::message(format_args!("checking on {}", device.describe()));
    if let Some(reason) = device.reason() {
        output::message(format_args!("(auto: {reason})"));
    }

    let cases = cases(args.quick, args.seed);
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} cases, {eta} left")?;
    // Hidden by itself where stderr is no terminal.
    let progress = ProgressBar::new(cases.len() as u64).with_style(style);
    let mut reports = Vec::new();
    let total = cases.len();
    for case in cases {
        let checker = Checker::new(case)?;
        if by_method {
            check_methods(&checker, &device, &mut tallies, &mut reports)?;
        } else {
            for tally in &mut tallies {
                if checker.case().concerns(tally.choice) {
                    tally.check(&checker, &device, tally.accuracy, &mut reports)?;
                } else {
                    tally.not_eligible += 1;
                }
            }
        }
        progress.inc(1);
    }
    progress.finish_and_clear();

    for report in reports.iter().take(MOST_SHOWN) {
        output::message(format_args!("wrong: {report}"));
    }
    if reports.len() > MOST_SHOWN {
        output::message(format_args!("… and {} more", reports.len() - MOST_SHOWN));
    }
    output::result(table(&tallies, total, args.seed))?;
    Ok(if reports.is_empty() { Outcome::Done } else { Outcome::SomeFailed })
}

/// Checks the methods that the CPU takes for a case. The accuracy class decides between them.
fn check_methods(checker: &Checker, device: &Device, tallies: &mut [Tally], reports: &mut Vec<String>) -> Result<()> {
    let mut taken = Vec::new();
    for accuracy in Accuracy::ALL {
        let problem = checker.problem().clone().with_accuracy(accuracy);
        let prepared = device.prepare(&problem, VariantChoice::Auto)?;
        let (method, kept) = (prepared.variant(), prepared.bound().class());
        // The same method with the same bound gives the same answer.
        if !taken.contains(&(method, kept)) {
            let tally = tallies.iter_mut().find(|tally| tally.name == method);
            let tally = tally.with_context(|| format!("{method} is not in the list of the CPU's methods"))?;
            tally.check(checker, device, accuracy, reports)?;
            taken.push((method, kept));
        }
    }
    for tally in tallies.iter_mut().filter(|tally| taken.iter().all(|&(method, _)| method != tally.name)) {
        tally.not_eligible += 1;
    }
    Ok(())
}

/// One tally per variant that is asked for.
fn tallies(device: &Device, wanted: &[Wanted]) -> Result<Vec<Tally>> {
    let of_choice = |choice: VariantChoice| Tally::new(choice, Accuracy::default(), choice.name());
    let all = wanted.contains(&Wanted::All);
    let one = |wanted: &Wanted| match wanted {
        Wanted::All => None,
        Wanted::Exact => Some(Tally::new(VariantChoice::Auto, Accuracy::Exact, "exact")),
        Wanted::One(choice) => Some(of_choice(*choice)),
    };
    let tallies: Vec<_> = if all {
        Variant::ALL.map(VariantChoice::Named).map(of_choice).into()
    } else {
        wanted.iter().filter_map(one).collect()
    };
    if device.backend() == "cpu"
        && let Some(variant) = tallies.iter().find_map(|tally| tally.choice.named())
    {
        let variant = variant.name();
        let error = faltung::Error::NeedsGpu { variant };
        return Err(anyhow::Error::new(error).context(format!("--variants {variant}"))).or_usage();
    }
    Ok(tallies)
}

/// The result for people.
fn table(tallies: &[Tally], cases: usize, seed: u64) -> String {
    let mut text = format!(
        "{:<16} {:>6} {:>13} {:>6} {:>12} {:>9}\n",
        "variant", "right", "not eligible", "wrong", "worst/bound", "seconds"
    );
    for Tally { name, right, not_eligible, wrong, worst, time, .. } in tallies {
        text +=
            &format!("{name:<16} {right:>6} {not_eligible:>13} {wrong:>6} {worst:>12.3} {:>9.1}\n", time.as_secs_f64());
    }
    let wrong: usize = tallies.iter().map(|tally| tally.wrong).sum();
    let verdict = if wrong == 0 {
        "all right: within the bound of the oracle, the exact ones with the bits of the reference"
    } else {
        "WRONG"
    };
    text + &format!("{cases} cases of seed {seed}: {verdict}\n")
}
