//! The report of a run, and its formats.

mod counts;
mod csv;
mod html;
mod json;
mod markdown;
mod text;

pub use self::csv::csv;
pub use self::html::html;
pub use self::json::{Document, Row, json};
pub use self::markdown::markdown;
pub use self::text::{cell as text_of_cell, header as text_of_header, summary as text_of_summary};

use std::time::Duration;

use cuda_emulator::Counts;

use super::measure::{Cause, Times};
use super::roofline::{Roofline, Work};
use super::system::Machine;
use super::verify::Deviation;
use crate::samples::{ImageSize, MaskSize};
use faltung::{Border, Error, PixelFormat, Rates};

/// A whole run.
#[derive(Debug)]
pub struct Report {
    /// The machine, with the best rates of the run.
    pub machine: Machine,
    /// The rates as measured before the first cell.
    pub first_rates: DeviceRates,
    /// The values outside of the images.
    pub border: Border,
    /// Whether end-to-end times on the GPU are from and to page-locked memory, not pageable memory.
    pub page_locked: bool,
    /// The seed of the random values.
    pub seed: u64,
    /// The least time of each measurement.
    pub min_time: Duration,
    /// What was measured.
    pub cells: Vec<Cell>,
    /// The time of the whole run.
    pub took: Duration,
}

/// The rates of the measured devices at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceRates {
    /// The GPU's, if one is measured.
    pub gpu: Option<Rates>,
    /// The CPU's.
    pub cpu: Rates,
}

impl Report {
    /// Computes each row's roofline from the best rates of the run.
    pub(super) fn settle_rooflines(&mut self) {
        let Machine { gpu, cpu_rates, .. } = &self.machine;
        for row in self.cells.iter_mut().flat_map(|cell| &mut cell.rows) {
            let rates = match gpu {
                Some((_, rates)) if row.backend == "cuda" => *rates,
                _ => *cpu_rates,
            };
            if let Some(timed) = &mut row.timed {
                timed.roofline = timed.work.roofline(rates);
            }
        }
    }

    /// All verified rows.
    pub fn verified(&self) -> impl Iterator<Item = &Verified> {
        self.cells.iter().flat_map(|cell| &cell.rows)
    }

    /// All failures.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.cells.iter().flat_map(|cell| &cell.failures)
    }
}

/// One picture with one mask: a row for each variant.
#[derive(Debug)]
pub struct Cell {
    /// What the picture shows.
    pub picture: String,
    /// Its size.
    pub image: ImageSize,
    /// The mask's size.
    pub mask: MaskSize,
    /// Types and channels.
    pub format: PixelFormat,
    /// The values outside of the image.
    pub border: Border,
    /// The verified variants, the CPU last.
    pub rows: Vec<Verified>,
    /// The variants that can't compute this cell.
    pub not_eligible: Vec<NotEligible>,
    /// The variants that failed.
    pub failures: Vec<Failure>,
}

impl Cell {
    /// A line for each reason why variants are not eligible: the variants, and the reason.
    #[must_use]
    pub fn refusals(&self) -> Vec<String> {
        let mut lines: Vec<(String, String)> = Vec::new();
        for one in &self.not_eligible {
            let (variant, why) = match &one.reason {
                Error::Refused { variant, reason } => (*variant, reason.to_string()),
                other => (one.variant, other.to_string()),
            };
            match lines.iter_mut().find(|(_, known)| *known == why) {
                Some((variants, _)) => *variants += &format!(", {variant}"),
                None => lines.push((variant.to_owned(), why)),
            }
        }
        lines.into_iter().map(|(variants, why)| format!("{variants}: {why}")).collect()
    }

    /// The fastest variant of the GPU, and the preferred one's time as a multiple of its time. None unless several were
    /// timed, the preferred one among them.
    ///
    /// This checks the choices of `auto`, which rest on the cost model.
    #[must_use]
    pub fn fastest(&self) -> Option<(&Verified, f64)> {
        let kernel = |row: &Verified| row.timed.map(|timed| timed.times.kernel.us.median);
        let preferred = self.rows.iter().find(|row| row.preferred && row.timed.is_some())?;
        let of_the_gpu: Vec<_> =
            self.rows.iter().filter(|row| row.backend == preferred.backend && row.timed.is_some()).collect();
        let fastest = of_the_gpu.iter().copied().min_by(|a, b| kernel(a).partial_cmp(&kernel(b)).expect("times"))?;
        (of_the_gpu.len() > 1).then_some((fastest, kernel(preferred)? / kernel(fastest)?))
    }
}

/// A variant that was verified over the whole frame, then timed.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    /// "cuda", "emulator" or "cpu".
    pub backend: &'static str,
    /// The variant's name.
    pub variant: &'static str,
    /// Why this one, or why not by default.
    pub reason: String,
    /// Whether `auto` takes this variant.
    pub preferred: bool,
    /// The error of the result.
    pub deviation: Deviation,
    /// The times; None for the emulator, whose times say nothing about a GPU.
    pub timed: Option<Timed>,
    /// What a profiler would count; the emulator's alone.
    pub counts: Option<Counts>,
}

/// How fast a variant is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    /// The times.
    pub times: Times,
    /// Whether the first call was warm: an earlier cell had loaded the kernel. None on the CPU, which loads nothing.
    pub loaded_before: Option<bool>,
    /// The least work of its method.
    pub work: Work,
    /// The least time for that work, by the best rates of the run.
    pub roofline: Roofline,
    /// The ratio to the CPU's time; None for the CPU itself, and where it has no time.
    pub vs_cpu: Option<VsCpu>,
}

/// A kernel's time compared with the CPU's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VsCpu {
    /// How many times as fast.
    pub speedup: f64,
    /// The CPU's method, by the name of its row.
    pub method: &'static str,
    /// Whether the variant computes by this method, too. If not, the ratio compares methods as well as devices, and
    /// only JSON and CSV have it.
    pub is_same_method: bool,
}

impl Timed {
    /// Pixels per second of the kernel, in 10^9.
    #[must_use]
    pub fn gpix_s(&self, image: ImageSize) -> f64 {
        image.width as f64 * image.height as f64 / self.times.kernel.us.median / 1e3
    }

    /// The share of the roofline: the least time over the kernel's time.
    #[must_use]
    pub fn roofline_share(&self) -> f64 {
        self.roofline.us / self.times.kernel.us.median
    }

    /// Whether the kernel is faster than its roofline by more than noise. Small images stay in caches. For larger ones
    /// the measured ceilings are too low, and the share means nothing.
    #[must_use]
    pub fn is_above_roofline(&self) -> bool {
        self.roofline_share() > 1.05
    }
}

/// A variant that can't compute a cell on its device.
#[derive(Debug)]
pub struct NotEligible {
    /// "cuda", "emulator" or "cpu".
    pub backend: &'static str,
    /// The variant's name.
    pub variant: &'static str,
    /// The reason: [`Error::Refused`] or [`Error::DeviceMemory`].
    pub reason: Error,
}

/// A variant that returned a wrong result, or none.
#[derive(Debug)]
pub struct Failure {
    /// "cuda", "emulator" or "cpu".
    pub backend: &'static str,
    /// The variant's name.
    pub variant: &'static str,
    /// The image's size.
    pub image: ImageSize,
    /// The mask's size.
    pub mask: MaskSize,
    /// What went wrong.
    pub cause: Cause,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { backend, variant, image, mask, cause } = self;
        write!(f, "{backend} {variant}, {image} pixels, mask {mask}: {cause}")
    }
}

#[cfg(test)]
pub(in crate::bench) mod tests;
