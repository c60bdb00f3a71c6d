//! `host plan-scale`: how long a large image will take, and what limits it.

use std::fmt::Write;

use anyhow::{Result, anyhow, ensure};
use faltung::PixelType;
use host::scale::{Machines, ScaleTask, Step, predict};
use host::units::time;

use super::{OrUsage, Outcome, output};

/// Predict how long it takes to filter a large image in chunks, and what limits it
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// Pixels of the image, such as 1e12
    #[arg(long, value_name = "P", value_parser = up_to(MOST_PIXELS))]
    pixels: f64,

    /// GPUs of all machines
    #[arg(long, value_name = "N", default_value = "1", value_parser = amount)]
    gpus: f64,

    /// GPUs of one machine
    #[arg(long, value_name = "N", default_value = "1", value_parser = amount)]
    gpus_per_machine: f64,

    /// Cores of one machine
    #[arg(long, value_name = "N", default_value = "16", value_parser = amount)]
    cores: f64,

    /// Rate of the storage that all machines share, such as 5GB/s
    #[arg(long, value_name = "RATE", value_parser = amount)]
    disk: f64,

    /// Rate at which all cores of one machine together read and write memory
    #[arg(long, value_name = "RATE", default_value = "88GB/s", value_parser = amount)]
    memory: f64,

    /// Rate between one machine's memory and its GPUs, both directions together [default: 88, 145 or 180 GB/s for 1, 2
    /// or more GPUs in a machine, as measured with H100s]
    #[arg(long, value_name = "RATE", value_parser = amount)]
    link: Option<f64>,

    /// Values that one core decodes, in bytes
    #[arg(long, value_name = "RATE", default_value = "500MB/s", value_parser = amount)]
    decode: f64,

    /// Values that one core encodes, in bytes
    #[arg(long, value_name = "RATE", default_value = "150MB/s", value_parser = amount)]
    encode: f64,

    /// Pixels that one GPU computes in a second: `host bench` measures them
    #[arg(long, value_name = "RATE", default_value = "300G", value_parser = amount)]
    kernel: f64,

    /// Type of the image's values
    #[arg(long, value_name = "TYPE", default_value = "u16", value_parser = super::pixel_type())]
    pixel: PixelType,

    /// Type of the result's values [default: the image's]
    #[arg(long, value_name = "TYPE", value_parser = super::pixel_type())]
    output_type: Option<PixelType>,

    /// Values of a pixel
    #[arg(long, value_name = "C", default_value = "1", value_parser = amount)]
    channels: f64,

    /// Radius of the mask
    #[arg(long, value_name = "R", default_value = "12", value_parser = length)]
    radius: f64,

    /// Side of a chunk, which is one file
    #[arg(long, value_name = "K", default_value = "4096", value_parser = up_to(MOST_SIDE))]
    chunk: f64,

    /// Side of the parts of a chunk that are decoded alone
    #[arg(long, value_name = "K", default_value = "512", value_parser = up_to(MOST_SIDE))]
    part: f64,

    /// Coded bytes for each byte of values: 1 without compression
    #[arg(long, value_name = "K", default_value = "0.7", value_parser = amount)]
    coded: f64,
}

const HELP: &str = "\
Examples:
  host plan-scale --pixels 3.6e9 --disk 1GB/s
  host plan-scale --pixels 1e12 --gpus 64 --gpus-per-machine 4 --disk 50GB/s --radius 31
  host plan-scale --pixels 1e15 --gpus 1024 --gpus-per-machine 8 --disk 1TB/s --chunk 16384

The steps overlap, so the slowest one gives the time. The formula is in docs/larger-than-memory.md. The defaults of \
the rates are guesses for your machine. For an image in chunks, `host filter` prints the real ones, in the line that \
begins as \"25 of 25 chunks\".";

/// About the pixels of the largest image: its sides are below 2^30.
const MOST_PIXELS: f64 = 1e18;
/// About the largest side and the largest radius.
const MOST_SIDE: f64 = 1e9;
/// The greatest count or rate.
const MOST: f64 = 1e24;

/// A number above 0 and up to [`MOST`].
fn amount(text: &str) -> Result<f64> {
    up_to(MOST)(text)
}

/// A number above 0 and up to `most`.
fn up_to(most: f64) -> impl Fn(&str) -> Result<f64> + Clone {
    move |text| {
        let value = prefixed(text)?;
        ensure!(value > 0.0 && value <= most, "a number above 0 and up to {most:e} was expected, not {text}");
        Ok(value)
    }
}

/// A number, with k, M, G or T for powers of 1000; B, B/s and /s behind it say nothing more.
fn prefixed(text: &str) -> Result<f64> {
    let number = text.trim_end_matches("/s").trim_end_matches('B').trim_end();
    let (digits, unit) = match number.char_indices().last() {
        Some((at, 'k' | 'K')) => (&number[..at], 1e3),
        Some((at, 'M')) => (&number[..at], 1e6),
        Some((at, 'G')) => (&number[..at], 1e9),
        Some((at, 'T')) => (&number[..at], 1e12),
        _ => (number, 1.0),
    };
    let number: f64 = digits.trim_end().parse().map_err(|_| anyhow!("a number was expected, such as 1e12 or 5GB/s"))?;
    Ok(number * unit)
}

/// A number from 0 to [`MOST_SIDE`].
fn length(text: &str) -> Result<f64> {
    let value: f64 = text.parse().map_err(|_| anyhow!("a number was expected, not \"{text}\""))?;
    ensure!((0.0..=MOST_SIDE).contains(&value), "a number from 0 to {MOST_SIDE:e} was expected, not {text}");
    Ok(value)
}

pub(super) fn run(args: &Args) -> Result<Outcome> {
    if args.part > args.chunk {
        return Err(anyhow!("--part {} is larger than --chunk {}", args.part, args.chunk)).or_usage();
    }
    let bytes = |pixel: PixelType| pixel.bytes() as f64 * args.channels;
    let task = ScaleTask {
        pixels: args.pixels,
        input_bytes: bytes(args.pixel),
        output_bytes: bytes(args.output_type.unwrap_or(args.pixel)),
        chunk: args.chunk,
        part: args.part,
        radius: args.radius,
        coded: args.coded,
    };
    // GB/s both ways together, page-locked memory, H100s of one machine.
    let link = args.link.unwrap_or(match args.gpus_per_machine {
        ..1.5 => 88e9,
        ..2.5 => 145e9,
        _ => 180e9,
    });
    let machines = Machines {
        gpus: args.gpus,
        gpus_of_a_machine: args.gpus_per_machine,
        cores_of_a_machine: args.cores,
        disk: args.disk,
        decode: args.decode,
        encode: args.encode,
        memory: args.memory,
        link,
        kernel: args.kernel,
    };
    let found = predict(&task, &machines);
    let mut text = format!("time: {}, limited by {}\n", time(found.total() * 1e6), found.bound().name());
    for (step, seconds) in Step::ALL.into_iter().zip(found.seconds) {
        writeln!(text, "  {:<10} {}", step.name(), time(seconds * 1e6))?;
    }
    writeln!(text, "rate: {:.3e} pixels/s", task.pixels / found.total())?;
    writeln!(
        text,
        "files: {:.0}, of {:.1} MB before compression; computed {:.3} and decoded {:.3} times",
        found.files,
        found.chunk_bytes / 1e6,
        found.computed,
        found.decoded
    )?;
    for line in found.advice(&task) {
        writeln!(text, "note: {line}")?;
    }
    output::result(text)?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_prefixes() {
        for (text, expected) in [("5GB/s", 5e9), ("1e12", 1e12), ("300G", 3e11), ("0.5", 0.5), ("2 TB/s", 2e12)] {
            assert_eq!(amount(text).unwrap(), expected, "{text}");
        }
        for text in ["", "GB/s", "-1", "0", "NaN", "inf", "5X", "1e400", "1e308T", "1e13T"] {
            assert!(amount(text).is_err(), "{text}");
        }
    }
}
