//! `host bench`: verifies and times every variant.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use faltung::{Accuracy, Border, DeviceChoice, Error, PixelType};
use host::bench::report::{csv, html, json, markdown, text_of_cell, text_of_header, text_of_summary};
use host::bench::{self, BenchImage, Event, ImageSize, MaskSize, Report, SEED, Settings, Wanted, compare};
use host::files::{self, OverwritePolicy, escaped};
use indicatif::ProgressBar;
use serde_json::Value;

use super::accuracy::AccuracyArgs;
use super::filter::identity;
use super::{NoDevice, OrUsage, Outcome, Usage, interrupt, output};

/// Measure every variant on this machine, each verified first
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Sizes of random images: N or WIDTHxHEIGHT [default: the tutorial's 200x200 crop of a picture, and 4096]
    #[arg(long, value_name = "N,WxH,...", value_delimiter = ',')]
    sizes: Option<Vec<ImageSize>>,

    /// Sizes of random masks: K or HEIGHTxWIDTH [default: 13 for the crop, else 3,7,13]
    #[arg(long, value_name = "K,HxW,...", value_delimiter = ',')]
    masks: Option<Vec<MaskSize>>,

    /// The GPU's variants: all, auto, exact, or names such as "naive"; the CPU chooses its method itself
    #[arg(long, value_name = "all|NAME,...", value_delimiter = ',', default_value = "all")]
    variants: Vec<Wanted>,

    #[command(flatten)]
    accuracy: AccuracyArgs,

    /// Gaussians, as OpenCV's getGaussianKernel(size, 0) has them, instead of random masks
    #[arg(long)]
    separable: bool,

    /// The type of the values of images
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = super::pixel_type())]
    pixel: PixelType,

    /// The type of the values of results [default: that of the images]
    #[arg(long, value_name = "TYPE", value_parser = super::pixel_type())]
    output: Option<PixelType>,

    /// Interleaved channels of a pixel: 3 is RGB, 4 RGBA
    #[arg(long, value_name = "1|2|3|4", default_value_t = 1, value_parser = channels())]
    channels: usize,

    /// Measure end-to-end times on the GPU from and to page-locked memory, which it reads and writes directly
    #[arg(long)]
    page_locked: bool,

    /// Evict the caches before each timed run: times of data that comes from memory
    #[arg(long)]
    cold: bool,

    /// What lies outside of the image: zero, constant:VALUE, clamp, reflect, mirror or wrap
    #[arg(long, default_value = "zero")]
    border: Border,

    /// auto: the first CUDA device, if any, and the CPU; cuda:N: that device and the CPU; cpu: only the CPU; emulator:
    /// the GPU's kernels on the CPU, verified, not timed
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,

    /// The least time to measure each figure for, in seconds [default: 0.3, or 0.05 with --quick]
    #[arg(long, value_name = "S", value_parser = seconds)]
    min_time: Option<Duration>,

    /// Less and shorter: 512x512 with masks 3,7 in the place of 4096x4096 with 3,7,13
    #[arg(long)]
    quick: bool,

    /// Measure on a picture (in grey unless --channels says otherwise) in the place of the crop and the random images
    #[arg(long, value_name = "FILE", conflicts_with = "sizes")]
    image: Option<PathBuf>,

    /// Write the figures as JSON; - is the standard output. An existing file is replaced
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,

    /// Write the figures as CSV. An existing file is replaced
    #[arg(long, value_name = "FILE|-")]
    csv: Option<PathBuf>,

    /// Write the figures as a Markdown table. An existing file is replaced
    #[arg(long, value_name = "FILE|-")]
    markdown: Option<PathBuf>,

    /// Write the figures as a page for a browser, with drawings. An existing file is replaced
    #[arg(long, value_name = "FILE|-")]
    html: Option<PathBuf>,

    /// Compare the times of kernels with those of an older report in JSON, of the same machine
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  host bench
  host bench --sizes 512,1920x1080 --masks 3,5x9 --border mirror
  host bench --sizes 8192 --masks 3,5,7,9,13,15 --device cuda:0 --json h100.json
  host bench --image photo.jpg --masks 13 --markdown -
  host bench --sizes 3840x2160 --pixel u8 --channels 3
  host bench --sizes 3840x2160 --pixel u8 --output f32 --channels 3 --separable
  host bench --sizes 8192 --masks 7,15,31 --separable
  host bench --sizes 1024 --masks 3,7 --cold

Every answer is first compared with one computed in f64, over the whole frame; a wrong one is never timed. \
METHODOLOGY.md says how the times are taken and what they leave out.";

fn seconds(text: &str) -> Result<Duration> {
    const MOST: f64 = 3600.0;
    let value: Option<f64> = text.parse().ok();
    // NaN is in no range.
    match value.filter(|value| (0.0..=MOST).contains(value)) {
        Some(value) => Ok(Duration::from_secs_f64(value)),
        None => bail!("a number of seconds from 0 to {MOST} was expected"),
    }
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> Result<Outcome> {
    let outputs = args.outputs().or_usage()?;
    let settings = args.settings().or_usage()?;
    let older = args.older().or_usage()?;
    interrupt::clean_up_when_interrupted(|| {});
    // A report on stdout must be readable by a program, so the tables stay out.
    let tables = !outputs.iter().any(|one| one.is_stdout());

    // Draws itself only on a terminal.
    let progress = ProgressBar::new_spinner();
    progress.enable_steady_tick(Duration::from_millis(200));
    let mut printed = Ok(());
    let mut print = |text: String| {
        if tables && printed.is_ok() {
            printed = progress.suspend(|| output::result(text));
        }
    };
    let report = bench::run(&settings, &mut |event| match event {
        Event::Step(step) => progress.set_message(step.to_string()),
        Event::Machine(machine) => match &machine.no_gpu {
            Some(reason) if !tables => progress.suspend(|| output::message(format_args!("device: the CPU ({reason})"))),
            _ => print(text_of_header(machine)),
        },
        Event::Cell(cell) => print(format!("\n{}", text_of_cell(cell))),
        Event::Failure(failure) => progress.suspend(|| output::message(format_args!("error: {failure}"))),
    });
    progress.finish_and_clear();
    printed?;
    let mut report = report.map_err(|error| args.explain(error))?;
    report.command = Some(command_line(std::env::args_os().skip(1)));
    if tables {
        output::result(format_args!("\n{}{}", text_of_summary(&report), args.left_out()))?;
    }
    for one in &outputs {
        one.write(&report)?;
    }
    if let Some(older) = &older {
        let text = compare::compare(&report, older).map_err(|why| anyhow!("--compare: {why}"))?;
        if tables {
            output::result(format_args!("\n{text}"))?;
        } else {
            text.lines().for_each(|line| output::message(format_args!("{line}")));
        }
    }
    Ok(if report.failures().next().is_some() { Outcome::SomeFailed } else { Outcome::Done })
}

impl Args {
    /// What to measure.
    fn settings(&self) -> Result<Settings> {
        let pictures = match (&self.image, &self.sizes) {
            (Some(path), _) => Some(vec![picture(path).context("--image")?]),
            (None, Some(sizes)) => Some(sizes.iter().copied().map(BenchImage::Random).collect()),
            // More would take hours on the emulator.
            (None, None) if self.device == DeviceChoice::Emulator => Some(vec![BenchImage::Coffee]),
            (None, None) => None,
        };
        let accuracy = self.accuracy.asked_for().unwrap_or_default();
        let named = self.variants.iter().filter_map(|wanted| match wanted {
            Wanted::One(choice) => choice.named(),
            Wanted::All | Wanted::Exact => None,
        });
        for (variant, kept) in named.map(|variant| (variant.name(), Accuracy::of(variant))) {
            if !accuracy.allows(kept) {
                bail!("--variants {variant} cannot be used with --accuracy {accuracy}: it is {kept}");
            }
        }
        let usual = Duration::from_millis(if self.quick { 50 } else { 300 });
        Ok(Settings {
            device: self.device,
            subjects: bench::subjects(pictures, self.masks.clone(), self.quick),
            variants: self.variants.clone(),
            pixel: self.pixel,
            output: self.output.unwrap_or(self.pixel),
            channels: self.channels,
            separable: self.separable,
            accuracy,
            page_locked: self.page_locked,
            cold: self.cold,
            border: self.border,
            min_time: self.min_time.unwrap_or(usual),
            seed: SEED,
        })
    }

    /// The files of the report. They are checked before the measurement.
    fn outputs(&self) -> Result<Vec<Output<'_>>> {
        let places = [
            (&self.json, "--json", json as Format),
            (&self.csv, "--csv", csv),
            (&self.markdown, "--markdown", markdown),
            (&self.html, "--html", html),
        ];
        let mut outputs: Vec<Output<'_>> = Vec::new();
        for (path, option, format) in places {
            let Some(path) = path else { continue };
            if let Some(other) = outputs.iter().find(|other| identity(other.path) == identity(path)) {
                bail!("{} and {option} can't both go to {}", other.option, escaped(path));
            }
            let output = Output { option, path, format };
            if !output.is_stdout() {
                files::check_writable(path, OverwritePolicy::Replace).context(option)?;
            }
            outputs.push(output);
        }
        Ok(outputs)
    }

    /// The older report. It is read before the measurement.
    fn older(&self) -> Result<Option<Value>> {
        let Some(path) = &self.compare else { return Ok(None) };
        let read = || -> Result<Value> {
            let older = serde_json::from_str(&std::fs::read_to_string(path)?)
                .context("a report that `host bench --json` wrote was expected")?;
            compare::check(&older).map_err(|why| anyhow!(why))?;
            if let Some(found) = compare::masks(&older).filter(|&found| found != compare::name_of_masks(self.separable))
            {
                bail!("that report has {found} masks");
            }
            if compare::is_cold(&older) != self.cold {
                bail!("that report has {} caches", if self.cold { "warm" } else { "cold" });
            }
            Ok(older)
        };
        read().with_context(|| format!("--compare: {}", escaped(path))).map(Some)
    }

    /// Adds the argument that caused an error, if one did.
    fn explain(&self, error: Error) -> anyhow::Error {
        let blame = |error, argument: String| Usage(anyhow::Error::new(error).context(argument)).into();
        match error {
            Error::NoDevice { .. } => NoDevice { choice: self.device, error }.into(),
            Error::NeedsGpu { .. } => blame(error, format!("--variants with --device {}", self.device)),
            Error::HostMemory { .. } if self.image.is_some() => blame(error, "--image".into()),
            Error::HostMemory { .. } => blame(error, "--sizes".into()),
            error => error.into(),
        }
    }

    /// What `--quick` does not measure.
    fn left_out(&self) -> &'static str {
        match (self.quick, self.sizes.is_some() || self.image.is_some()) {
            (false, _) => "",
            (true, true) => "quick: short timing, noisier than without --quick\n",
            (true, false) => "quick: short timing, and no 4096 x 4096 image, no mask of 13 x 13 on random data\n",
        }
    }
}

/// The number of channels.
fn channels() -> impl TypedValueParser<Value = usize> {
    PossibleValuesParser::new(["1", "2", "3", "4"]).map(|digit| digit.parse().expect("clap lets only digits through"))
}

/// A picture and its name.
fn picture(path: &Path) -> Result<BenchImage> {
    let pixels = files::Picture::read(path)?.pixels;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(BenchImage::Given { name, image: Arc::new(pixels) })
}

/// The command, as a shell reads it, without the places of reports: they are of the user's machine.
fn command_line(arguments: impl Iterator<Item = OsString>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/+".contains(c);
    let mut command = "host".to_owned();
    let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    while let Some(argument) = arguments.next() {
        let (name, value) =
            argument.split_once('=').map_or((argument.as_str(), None), |(name, value)| (name, Some(value)));
        if ["--json", "--csv", "--markdown", "--html", "--compare"].contains(&name) {
            if value.is_none() {
                arguments.next();
            }
            continue;
        }
        command.push(' ');
        if !argument.is_empty() && argument.chars().all(plain) {
            command.push_str(&argument);
        } else {
            command.push_str(&format!("'{}'", argument.replace('\'', "'\\''")));
        }
    }
    command
}

/// How a report is written.
type Format = fn(&Report) -> String;

/// A place for the report, in one format.
struct Output<'a> {
    option: &'static str,
    path: &'a Path,
    format: Format,
}

impl Output<'_> {
    fn is_stdout(&self) -> bool {
        self.path == Path::new("-")
    }

    fn write(&self, report: &Report) -> Result<()> {
        let text = (self.format)(report);
        if self.is_stdout() {
            return output::result(text);
        }
        files::write_text(self.path, &text, OverwritePolicy::Replace).context(self.option)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_leaves_the_places_of_reports_out() {
        let command = |words: &[&str]| command_line(words.iter().map(OsString::from));
        let words = ["bench", "--sizes", "40x30", "--html", "a b.html", "--json=-", "--separable"];
        assert_eq!(command(&words), "host bench --sizes 40x30 --separable");
        assert_eq!(command(&["bench", "--image", "it's"]), "host bench --image 'it'\\''s'");
    }
}
