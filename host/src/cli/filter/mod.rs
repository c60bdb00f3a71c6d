//! `host filter`: filters pictures with masks.

mod alpha;
mod args;
mod chunk_progress;
mod chunked;
mod compute;
mod devices;
mod first_done;
mod light;
mod mask;
mod paths;
mod pattern;
mod pictures;
mod progress;
mod saturation;
mod steps;

use anyhow::Result;
use faltung::{Border, Device, DeviceChoice, Filter};
use host::batch::{self, QueueLimits};
use host::files::{DeferredSync, decoded_bytes};

pub(super) use self::args::Args;
use self::compute::Compute;
use self::devices::DeviceArg;
use self::paths::Inputs;
use self::pictures::{Pictures, ReadAhead};
use self::progress::Progress;
use super::{OrUsage, Outcome, interrupt, output};

/// Filters all inputs.
pub(super) fn run(args: &Args) -> Result<Outcome> {
    let steps = args.steps().or_usage()?;
    if chunked::is_wanted(args, &steps) {
        return chunked::run(args, &steps);
    }
    let DeviceArg::One(choice) = args.device else {
        let text = "--device: several devices are for an image that is filtered in chunks (.zarr, --memory, --chunk)";
        return Err(anyhow::anyhow!(text)).or_usage();
    };
    let Inputs { mut jobs, failed, empty, passed_over } =
        paths::inputs(&args.inputs, &args.output, args.output_type).or_usage()?;
    if args.quality.is_some() {
        paths::check_quality(&jobs).or_usage()?;
    }
    let found = jobs.len();
    if args.skip_existing {
        jobs.retain(|job| !job.has_result());
    }
    let kept_before = found - jobs.len();
    // Opening a GPU takes about as long as decoding a large picture, so both run at once.
    let first = jobs.first().and_then(|job| ReadAhead::begin(job, args.overwrite));
    let cpu_is_first = match &jobs[..] {
        // To open a GPU pays for many pictures.
        [job] if choice == DeviceChoice::Auto && args.variant().named().is_none() => {
            // A decoder takes about four times the bytes of the values.
            first_done::reason_for_cpu(decoded_bytes(&job.input) / 4, &steps.filters)
        }
        _ => None,
    };
    let device = if cpu_is_first.is_some() { Device::cpu() } else { super::select(choice)? };
    let device = match args.device_memory {
        Some(bytes) => device.with_memory_limit(bytes),
        None => device,
    };
    let reason = cpu_is_first.as_deref().or(device.reason());
    let notes = if args.quiet { Vec::new() } else { notes(args, &device, reason, &steps.filters) };
    let cpu = Device::cpu();
    let mut compute = Compute::new(&device, &steps.filters, args.variant()).or_usage()?;
    if choice == DeviceChoice::Auto {
        compute = compute.replaced_by(&cpu);
    }
    if !jobs.is_empty() {
        paths::prepare(&args.output).or_usage()?;
    }
    for note in notes {
        output::message(format_args!("{note}"));
    }
    for line in passed_over.iter().filter(|_| !args.quiet) {
        output::message(format_args!("{line}"));
    }
    for error in empty.iter().chain(&failed) {
        output::message(format_args!("error: {error:#}"));
    }

    let all = found + failed.len();
    let progress = Progress::new(jobs.len(), args.quiet);
    let bar = progress.clone();
    interrupt::clean_up_when_interrupted(move || bar.interrupted());
    let pictures = Pictures::new(args, &steps, &progress, first);
    let sync = DeferredSync::begin();
    let summary = batch::run(&pictures, &jobs, QueueLimits::of_this_machine(), |job, picture| {
        pictures.compute(&mut compute, job, picture)
    });
    let synced = sync.finish();
    progress.finish();
    if let Some(note) = pictures.note(all).filter(|_| !args.quiet) {
        output::message(format_args!("{note}"));
    }
    if let Err(error) = &synced {
        output::message(format_args!("error: {error}"));
    }

    // Other processes may have written some of the results meanwhile.
    let kept_meanwhile = pictures.kept();
    let failed = failed.len() + summary.failed + summary.abandoned - kept_meanwhile;
    let kept = kept_before + kept_meanwhile;
    if failed > 0 && all > 1 {
        let abandoned = match summary.abandoned {
            0 => String::new(),
            count => format!(", {count} of them not begun because the device is lost"),
        };
        output::message(format_args!("{failed} of {all} pictures failed{abandoned}"));
    }
    if !empty.is_empty() && all > 0 {
        let (s, count) = (if empty.len() == 1 { "" } else { "s" }, empty.len());
        output::message(format_args!("{count} input{s} gave no picture"));
    }
    if summary.done > 0 && all + empty.len() > 1 && !args.quiet {
        output::message(format_args!("{}", progress.summary(&summary)));
    }
    if kept > 0 && !args.quiet {
        let s = if kept == 1 { "" } else { "s" };
        output::message(format_args!("{kept} result{s} existed and {} kept", if kept == 1 { "is" } else { "are" }));
    }
    Ok(if failed > 0 || !empty.is_empty() || synced.is_err() { Outcome::SomeFailed } else { Outcome::Done })
}

/// A note on values that are not finite.
const RESULTS: &str = "the results (as u8 and u16: 0 for NaN, the least or the most for infinity)";

/// The notes before the work.
fn notes(args: &Args, device: &Device, reason: Option<&str>, filters: &[Filter]) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(reason) = reason {
        // `host info` has the name of the CPU.
        let name = if device.backend() == "cpu" { "CPU".into() } else { device.describe() };
        notes.push(format!("device: {name} ({reason})"));
    }
    if args.device_memory.is_some() && device.backend() == "cpu" {
        notes.push("note: the CPU has no memory of its own: --device-memory says nothing to it".into());
    }
    // Both are valid, and rarely intended.
    for mask in filters.iter().filter_map(|filter| filter.mask().ok()) {
        let odd = mask.coefficients().iter().filter(|value| !value.is_finite()).count();
        let all = mask.coefficients().len();
        if odd == 0 {
            continue;
        }
        notes.push(format!(
            "note: {odd} of {all} coefficients of the mask are NaN or infinite, and so will be {RESULTS}"
        ));
    }
    if let Border::Constant(value) = args.border
        && !value.is_finite()
    {
        notes.push(format!(
            "note: outside of the picture stands {value}: near its edges NaN or infinite will be {RESULTS}"
        ));
    }
    notes
}
