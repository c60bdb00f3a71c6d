//! `host tutorial`: reproduces four well-known tutorials.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use faltung::{Device, DeviceChoice};
use host::Error;
use host::files::{self, OverwritePolicy, Picture, escaped};
use host::tutorial::{self, Transcript, Tutorial, TutorialOptions};

use super::{OrUsage, Outcome, interrupt, output, select};

/// Reproduce a tutorial: its kernels in Rust, checked, with the numbers beside it
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Which, one or more: numba ("CUDA in Python, part 3"), hpp (the course "Programming Massively Parallel
    /// Processors"), cupy (a notebook on raw kernels), rocm (HIP's tutorial on stencils)
    #[arg(value_name = "NAME", default_value = "all", value_parser = names(), hide_possible_values = false)]
    which: Vec<Which>,

    /// auto (the first CUDA device, else the CPU), cpu, cuda:N, or emulator: the GPU's kernels on the CPU, with every
    /// access checked, and counts in the place of times
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
  host tutorial hpp rocm                 two of them
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
    let tutorials = chosen(&args.which);
    let device = select(args.device)?;
    if let Some(first) = tutorials.iter().flat_map(|tutorial| tutorial.pictures()).next() {
        make_folder(&args.output).or_usage()?;
        // A folder that is not writable is reported before the computation.
        files::check_writable(args.output.join(first), OverwritePolicy::Replace).or_usage()?;
    }
    interrupt::clean_up_when_interrupted(|| {});
    output::result(heading(&device))?;

    let options = TutorialOptions { quick: args.quick, ..TutorialOptions::default() };
    let mut all_well = true;
    for tutorial in tutorials {
        output::result(format_args!("\n=== {tutorial}: {}\n\n", tutorial.source()))?;
        // A closed output does not stop the tutorial. Its error is returned afterwards.
        let mut printed = Ok(());
        let report = tutorial::run(tutorial, &device, options, &mut |part| {
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

/// The tutorials of the command line, each once.
fn chosen(which: &[Which]) -> Vec<Tutorial> {
    let mut tutorials = Vec::new();
    for which in which {
        let more = match which {
            Which::All => &Tutorial::ALL[..],
            Which::One(tutorial) => std::slice::from_ref(tutorial),
        };
        for &tutorial in more {
            if !tutorials.contains(&tutorial) {
                tutorials.push(tutorial);
            }
        }
    }
    tutorials
}

/// What runs the tutorials.
fn heading(device: &Device) -> String {
    let reason = device.reason().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let hint = if device.backend() == "cpu" {
        "The CPU computes the same in plain Rust; to run the kernels themselves: --device emulator\n"
    } else {
        ""
    };
    format!("device: {}{reason}\n{hint}", device.describe())
}

fn make_folder(folder: &Path) -> Result<()> {
    if folder.exists() && !folder.is_dir() {
        anyhow::bail!("{}: is a file, not a folder", escaped(folder));
    }
    std::fs::create_dir_all(folder).with_context(|| format!("{}: can't be made", escaped(folder)))
}

/// Saves the pictures; false if one can't be.
fn save(args: &Args, report: &Transcript) -> Result<bool> {
    let mut all_saved = true;
    for (name, picture) in &report.pictures {
        let path = args.output.join(name);
        match save_one(&path, picture, args.overwrite) {
            Ok(()) => output::result(format_args!("picture  {}\n", escaped(&path)))?,
            Err(error) => {
                all_saved = false;
                output::message(format_args!("error: {error:#}"));
            }
        }
    }
    Ok(all_saved)
}

/// Saves a picture. A file with the same pixels, which another run wrote, counts as saved.
fn save_one(path: &Path, picture: &Picture, overwrite: bool) -> Result<()> {
    let existing = if overwrite { OverwritePolicy::Replace } else { OverwritePolicy::Keep };
    match files::check_writable(path, existing).and_then(|()| picture.write(path, existing)) {
        // This comes after the failed write, because another run may have written the file since the check.
        Err(Error::Exists { .. }) if Picture::read(path).is_ok_and(|there| there.pixels == picture.pixels) => Ok(()),
        Err(error @ Error::Exists { .. }) => {
            Err(anyhow::anyhow!("{error}: it is another picture (--overwrite replaces it)"))
        }
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    use faltung::Image;

    use super::*;

    #[test]
    fn each_tutorial_once() {
        use Which::{All, One};
        assert_eq!(
            chosen(&[One(Tutorial::Rocm), One(Tutorial::Numba), One(Tutorial::Rocm)]),
            [Tutorial::Rocm, Tutorial::Numba]
        );
        assert_eq!(chosen(&[All]), Tutorial::ALL);
        assert_eq!(chosen(&[One(Tutorial::Hpp), All]).len(), 4);
    }

    /// Runs beside each other write the same pictures, and none of them fails.
    #[test]
    fn several_at_once() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("picture.png");
        let picture = Picture::from(Image::from_fn(300, 200, |x, y| (x ^ y) as u8)?);
        std::thread::scope(|scope| {
            let runs: Vec<_> = (0..8).map(|_| scope.spawn(|| save_one(&path, &picture, false))).collect();
            runs.into_iter().try_for_each(|run| run.join().expect("no panic"))
        })?;
        let other = Picture::from(Image::from_fn(300, 200, |x, _| x as u8)?);
        assert!(save_one(&path, &other, false).unwrap_err().to_string().contains("another picture"));
        save_one(&path, &other, true)
    }
}
