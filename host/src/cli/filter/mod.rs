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
mod trial;

use anyhow::Result;
use faltung::{Border, Device, Filter};
use host::batch::{self, QueueLimits};
use host::files::{DeferredSync, Picture, decoded_bytes};

pub(super) use self::args::Args;
use self::compute::Compute;
pub(super) use self::paths::identity;
use self::paths::{Inputs, Job};
use self::pictures::{Pictures, ReadAhead};
use self::progress::Progress;
use self::steps::Steps;
use super::{OrUsage, Outcome, interrupt, output};

/// Filters all inputs.
pub(super) fn run(args: &Args) -> Result<Outcome> {
    let steps = args.steps().or_usage()?;
    if chunked::is_wanted(args, &steps) {
        return chunked::run(args, &steps);
    }
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
    if kept_before > 0 && jobs.is_empty() && failed.is_empty() && empty.is_empty() {
        // Nothing is left to compute, so no device is opened.
        if !args.quiet {
            passed_over.iter().for_each(|line| output::message(format_args!("{line}")));
            say_kept(kept_before);
        }
        return Ok(Outcome::Done);
    }
    // Opening a GPU takes about as long as decoding a large picture, so both run at once.
    let first = jobs.first().and_then(|job| ReadAhead::begin(job, args.overwrite));
    let reason_for_cpu = reason_for_cpu(args, &jobs, &steps);
    let devices = if reason_for_cpu.is_some() { vec![Device::cpu()] } else { args.open_devices()? };
    let reason = reason_for_cpu.as_deref().or(devices[0].reason());
    let notes = if args.quiet { Vec::new() } else { notes(args, &devices[0], reason, &steps.filters) };
    let cpu = args.device.is_auto().then(Device::cpu);
    let computes = computes(args, &steps, &devices, cpu.as_ref()).or_usage()?;
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
    let of_device = |mut compute| {
        let pictures = &pictures;
        move |job: &Job, picture: Picture| pictures.compute(&mut compute, job, picture)
    };
    let computes = computes.into_iter().map(of_device).collect();
    let summary = batch::run_on_several(&pictures, &jobs, QueueLimits::of_this_machine(), computes);
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
    report_failures(failed, summary.abandoned, all, empty.len());
    if !args.quiet {
        if summary.done > 0 && all + empty.len() > 1 {
            output::message(format_args!("{}", progress.summary(&summary)));
        }
        if kept_before + kept_meanwhile > 0 {
            say_kept(kept_before + kept_meanwhile);
        }
    }
    Ok(if failed > 0 || !empty.is_empty() || synced.is_err() { Outcome::SomeFailed } else { Outcome::Done })
}

/// Why `--device auto` takes the CPU for a single picture. None if it looks for a GPU.
fn reason_for_cpu(args: &Args, jobs: &[Job], steps: &Steps) -> Option<String> {
    match jobs {
        [job] if args.device.is_auto() && args.variant().named().is_none() => {
            // A decoder takes about four times the bytes of the values.
            first_done::reason_for_cpu(decoded_bytes(&job.input) / 4, &steps.filters)
        }
        // With several pictures the GPU is worth the time to open it.
        _ => None,
    }
}

/// Prints how many of all pictures failed, and how many inputs were without any.
fn report_failures(failed: usize, abandoned: usize, all: usize, empty: usize) {
    if failed > 0 && all > 1 {
        let abandoned = match abandoned {
            0 => String::new(),
            count => format!(", {count} of them not begun because the device is lost"),
        };
        output::message(format_args!("{failed} of {all} pictures failed{abandoned}"));
    }
    if empty > 0 && all > 0 {
        let s = if empty == 1 { "" } else { "s" };
        output::message(format_args!("{empty} input{s} gave no picture"));
    }
}

/// Says how many results were not computed again.
fn say_kept(kept: usize) {
    let (s, are) = if kept == 1 { ("", "is") } else { ("s", "are") };
    output::message(format_args!("{kept} result{s} existed and {are} kept"));
}

/// The filters on each device. If a device is lost, the others do its work, and the CPU if there is one.
fn computes<'a>(
    args: &Args,
    steps: &'a Steps,
    devices: &'a [Device],
    cpu: Option<&'a Device>,
) -> faltung::Result<Vec<Compute<'a>>> {
    let on = |number: usize| {
        // The next device comes first, so that lost devices do not all give their work to the same one.
        let others = (1..devices.len()).map(|step| &devices[(number + step) % devices.len()]);
        let compute = Compute::new(&devices[number], &steps.filters, args.variant())?;
        Ok(compute.replaced_by(others.chain(cpu)))
    };
    (0..devices.len()).map(on).collect()
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
    // Coefficients and borders that are not finite are valid, but rarely intended.
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
