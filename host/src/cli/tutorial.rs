//! `host tutorial`: four well-known tutorials, reproduced.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use host::files::{self, Existing, Picture};
use host::tutorial::{self, Report, Settings, Tutorial};
use host::{Device, DeviceChoice, Error};

use super::{OrUsage, Outcome, interrupt, output, select};

/// Reproduce a tutorial: its kernels in Rust, checked, with the numbers beside it
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Which: numba ("CUDA in Python, part 3"), hpp (the course "Programming Massively Parallel Processors"), cupy (a notebook on
    /// raw kernels), rocm (HIP's tutorial on stencils)
    #[arg(value_name = "NAME", default_value = "all", value_parser = names(), hide_possible_values = false)]
    which: Which,

    /// auto (the first CUDA device, else the CPU), cpu, cuda:N, or emulator: the GPU's kernels on the CPU, with every access checked,
    /// and counts in the place of times
    #[arg(long, default_value = "auto", value_name = "D")]
    device: DeviceChoice,

    /// The folder of the pictures
    #[arg(short, long, value_name = "FOLDER", default_value = "tutorial-pictures")]
    output: PathBuf,

    /// Replace pictures that exist and differ
    #[arg(long)]
    overwrite: bool,

    /// Shorter timings, and no large sizes
    #[arg(long)]
    quick: bool,
}

const EXAMPLES: &str = "\
Examples:
  host tutorial numba                    one tutorial, on the first CUDA device, or else the CPU
  host tutorial all --device emulator    all of them without a GPU: every access checked and counted
  host tutorial rocm -o pictures         with the folder for its pictures

Every answer is checked against an exact one, or one in f64, before its figures are shown. docs/tutorials explains \
the kernels line by line.";

/// One tutorial, or all.
#[derive(Clone, Copy)]
enum Which {
    All,
    One(Tutorial),
}

fn names() -> impl TypedValueParser<Value = Which> {
    let names = Tutorial::ALL.map(Tutorial::name).into_iter().chain(["all"]);
    PossibleValuesParser::new(names).map(|name| name.parse().map_or(Which::All, Which::One))
}

/// Runs the tutorials, shows what they find, and saves their pictures.
pub(super) fn run(args: &Args) -> Result<Outcome> {
    let tutorials = match args.which {
        Which::All => Tutorial::ALL.to_vec(),
        Which::One(tutorial) => vec![tutorial],
    };
    let device = select(args.device)?;
    let makes_pictures = tutorials.iter().any(|tutorial| !tutorial.pictures().is_empty());
    if makes_pictures {
        make_folder(&args.output).or_usage()?;
    }
    interrupt::clean_up_when_interrupted(|| {});
    output::result(heading(&device))?;

    let settings = Settings { quick: args.quick, ..Settings::default() };
    let mut all_well = true;
    for tutorial in tutorials {
        output::result(format_args!("\n=== {tutorial}: {}\n\n", tutorial.source()))?;
        // The rest goes on where nobody reads; an error of the output ends it afterwards.
        let mut printed = Ok(());
        let report = tutorial::run(tutorial, &device, settings, &mut |part| {
            if printed.is_ok() {
                printed = output::result(part);
            }
        })
        .with_context(|| tutorial.name())?;
        printed?;
        all_well &= report.all_right();
        all_well &= save(args, &report)?;
    }
    Ok(if all_well { Outcome::Done } else { Outcome::SomeFailed })
}

/// What runs the tutorials.
fn heading(device: &Device) -> String {
    let reason = device.reason().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("device: {}{reason}\n", device.describe())
}

fn make_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}: can't be made", folder.display()))
}

/// Saves the pictures; false if one can't be.
fn save(args: &Args, report: &Report) -> Result<bool> {
    let mut all_saved = true;
    for (name, picture) in &report.pictures {
        let path = args.output.join(name);
        match save_one(&path, picture, args.overwrite) {
            Ok(()) => output::result(format_args!("picture  {}\n", path.display()))?,
            Err(error) => {
                all_saved = false;
                output::message(format_args!("error: {error:#}"));
            }
        }
    }
    Ok(all_saved)
}

/// Saves a picture. One that is there with the same pixels, as from an earlier run, is as good as saved.
fn save_one(path: &Path, picture: &Picture, overwrite: bool) -> Result<()> {
    if !overwrite && Picture::read(path).is_ok_and(|there| there.pixels == picture.pixels) {
        return Ok(());
    }
    let existing = if overwrite { Existing::Replace } else { Existing::Keep };
    files::check_writable(path, existing).and_then(|()| picture.write(path, existing)).map_err(|error| match error {
        Error::Exists { .. } => anyhow::anyhow!("{error}: it is another picture (--overwrite replaces it)"),
        error => error.into(),
    })
}
