//! The report of a run, and its formats.

mod counts;
mod csv;
mod html;
mod json;
mod markdown;
pub mod page;
mod text;

pub use self::csv::csv;
pub use self::html::html;
pub(super) use self::json::SCHEMA;
pub use self::json::{Document, Row, json};
pub use self::markdown::markdown;
pub use self::text::{cell as text_of_cell, header as text_of_header, summary as text_of_summary};

use std::time::Duration;

use cuda_emulator::Counts;

use super::measure::{Cause, Times};
use super::roofline::{AboveRoofline, Ceilings, Roofline, Work};
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
    /// Whether the masks are separable (rank 1).
    pub separable: bool,
    /// The command that made the report, if a program knows it.
    pub command: Option<String>,
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
        for cell in &mut self.cells {
            cell.settle_rooflines(&self.machine);
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
    /// Whether the caches were evicted before each timed run.
    pub cold: bool,
    /// The verified variants: the GPU's, then the CPU's exact method, then the CPU's choice if that is another one.
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

    /// A line for each row that has a note.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let of = |row: &Verified| Some(format!("{} {}: {}", row.backend, row.variant, row.timed.as_ref()?.note()?));
        self.rows.iter().filter_map(of).collect()
    }

    /// For each device the fastest variant, and the preferred one's time as a multiple of its time. Leaves a device out
    /// unless several variants were timed there, the preferred one among them.
    ///
    /// This checks the choices of `auto`, which rest on cost models.
    pub fn fastest(&self) -> impl Iterator<Item = (&Verified, f64)> {
        self.rows.iter().filter(|row| row.preferred).filter_map(|preferred| {
            let of_the_device = self.rows.iter().filter(|row| row.backend == preferred.backend);
            let timed: Vec<_> = of_the_device.filter_map(|row| Some((row, row.timed.as_ref()?.us()))).collect();
            let fastest = timed.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))?;
            (timed.len() > 1).then_some((fastest.0, preferred.timed.as_ref()?.us() / fastest.1))
        })
    }

    /// Computes each row's roofline from the machine's best rates.
    pub(super) fn settle_rooflines(&mut self, machine: &Machine) {
        for row in &mut self.rows {
            let ceilings = machine.ceilings(row.backend);
            if let Some(timed) = &mut row.timed {
                timed.settle_roofline(ceilings);
            }
        }
    }

    /// Whether a row is above the measured ceilings, and nothing explains it.
    pub(super) fn is_above_ceilings(&self) -> bool {
        let above = |row: &Verified| row.timed.as_ref()?.above_roofline;
        self.rows.iter().any(|row| above(row) == Some(AboveRoofline::CeilingTooLow))
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
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    /// The times.
    pub times: Times,
    /// Whether the first call was warm: an earlier cell had loaded the kernel. None on the CPU, which loads nothing.
    pub loaded_before: Option<bool>,
    /// The least work of its method.
    pub work: Work,
    /// The least time for that work, by the best rates of the run.
    pub roofline: Roofline,
    /// What it means that the kernel is faster than that, if it is.
    pub above_roofline: Option<AboveRoofline>,
    /// The ratio to the CPU's time; None for the CPU itself, and where it has no time.
    pub vs_cpu: Option<VsCpu>,
}

/// A kernel's time compared with that of the CPU's fastest row, among those of an accuracy class that the kernel's
/// class allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VsCpu {
    /// How many times as fast.
    pub speedup: f64,
    /// The variant of the CPU's row.
    pub variant: &'static str,
}

impl Timed {
    /// With the roofline that these ceilings make.
    pub(super) fn new(
        times: Times,
        loaded_before: Option<bool>,
        work: Work,
        ceilings: Ceilings,
        vs_cpu: Option<VsCpu>,
    ) -> Self {
        let roofline = work.roofline(ceilings.rates);
        let above_roofline = AboveRoofline::of(work, times.kernel.us.median, ceilings);
        Self { times, loaded_before, work, roofline, above_roofline, vs_cpu }
    }

    /// Computes the roofline that these ceilings make.
    fn settle_roofline(&mut self, ceilings: Ceilings) {
        self.roofline = self.work.roofline(ceilings.rates);
        self.above_roofline = AboveRoofline::of(self.work, self.us(), ceilings);
    }

    /// Whether the times of the kernel or from end to end drifted by so much that it matters: which, and how.
    #[must_use]
    pub fn drift_note(&self) -> Option<String> {
        let Times { kernel, end_to_end, .. } = &self.times;
        let said = [("kernel", kernel), ("end to end", end_to_end)]
            .into_iter()
            .filter_map(|(what, measured)| Some((what, measured.drift().filter(|drift| drift.matters())?)))
            .map(|(what, drift)| format!("{what}: {drift}"));
        let said: Vec<_> = said.collect();
        (!said.is_empty()).then(|| format!("drift: {}", said.join("; ")))
    }

    /// Whether the GPU lowered its clock by so much that it matters, and why.
    #[must_use]
    pub fn throttle_note(&self) -> Option<String> {
        self.times.clocks.as_ref()?.note()
    }

    /// What to know before the times are used: throttling, then drift. None if there is nothing.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let said: Vec<_> = [self.throttle_note(), self.drift_note()].into_iter().flatten().collect();
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// The median time of the kernel in microseconds.
    #[must_use]
    pub fn us(&self) -> f64 {
        self.times.kernel.us.median
    }

    /// Pixels per second of the kernel, in 10^9.
    #[must_use]
    pub fn gpix_s(&self, image: ImageSize) -> f64 {
        image.width as f64 * image.height as f64 / self.us() / 1e3
    }

    /// The share of the roofline: the least time over the kernel's time. None if the measured ceilings are too low.
    #[must_use]
    pub fn roofline_share(&self) -> Option<f64> {
        (self.above_roofline != Some(AboveRoofline::CeilingTooLow)).then(|| self.roofline.us / self.us())
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
