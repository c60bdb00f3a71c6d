//! What was measured, cell by cell, and how that is written down.

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
use super::verify::Verdict;
use crate::units;
use crate::workload::{ImageSize, MaskSize};
use faltung::{Border, Error, PixelFormat, Rates};

/// A whole run.
#[derive(Debug)]
pub struct Report {
    /// What it was measured on, with the best rates of the run.
    pub machine: Machine,
    /// The rates as measured before the first cell.
    pub first_rates: DeviceRates,
    /// What lay outside of the images.
    pub border: Border,
    /// Whether the GPU's way from end to end began and ended in page-locked memory, not in ordinary one.
    pub page_locked: bool,
    /// The seed of the random values.
    pub seed: u64,
    /// The least time that each figure was measured for.
    pub min_time: Duration,
    /// What was measured.
    pub cells: Vec<Cell>,
    /// How long all of it took.
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
    /// Computes each row's roofline again, by the best rates of the run.
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

    /// All rows that an error stands for.
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
    /// What lay outside.
    pub border: Border,
    /// What was verified, and timed, the CPU last.
    pub rows: Vec<Verified>,
    /// What can't compute this, and why.
    pub not_eligible: Vec<NotEligible>,
    /// What went wrong.
    pub failures: Vec<Failure>,
}

impl Cell {
    /// What can't compute this, a line for each reason: the variants, and why.
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

    /// The fastest variant of the GPU, and how many times its time the preferred one takes; None unless several were
    /// timed and the preferred one among them.
    ///
    /// The thresholds of what is preferred rest on measurements: this is what tells whether they still hold.
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
    /// Whether it is what the device takes when left the choice.
    pub preferred: bool,
    /// How right the answer is.
    pub verdict: Verdict,
    /// How fast; None for the emulator, whose times say nothing about a GPU.
    pub timed: Option<Timed>,
    /// What a profiler would count; the emulator's alone.
    pub counts: Option<Counts>,
}

/// How fast a variant is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    /// The times.
    pub times: Times,
    /// Whether the kernel had been compiled and loaded before the first call, by a cell before this one; None on the
    /// CPU, which loads nothing.
    pub loaded_before: Option<bool>,
    /// What its method must do at least.
    pub work: Work,
    /// The least time for that on its device, by the best rates that the run measured.
    pub roofline: Roofline,
    /// How it compares with the CPU; None for the CPU itself, or if that gave no figure.
    pub vs_cpu: Option<VsCpu>,
}

/// A kernel's time beside that of the CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VsCpu {
    /// How many times as fast.
    pub speedup: f64,
    /// The CPU's method, by the name of its row. A separable kernel beside a direct CPU compares methods as well as
    /// devices.
    pub method: &'static str,
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

    /// Whether the kernel is faster than its roofline by more than noise. Caches explain that for small images; for
    /// others the ceilings were measured too low, and the share means nothing.
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
    /// Why not: [`Error::Refused`] or [`Error::DeviceMemory`].
    pub reason: Error,
}

/// A variant that gave a wrong answer, or none.
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
pub(in crate::bench) mod tests {
    use super::*;
    use crate::bench::measure::Measured;
    use crate::bench::roofline::Bound;
    use crate::bench::stats::Summary;
    use crate::bench::system::Build;
    use crate::bench::verify::Wrong;
    use faltung::{ErrorBound, Filter, Mask, Problem};

    /// A report with one row on the CPU and a failure.
    pub(in crate::bench) fn report() -> Report {
        let measured = |median, mad| Measured { us: Summary { median, mad, count: 7 }, runs: 3 };
        let rates = Rates { copy_bytes_per_s: 2e10, flop_per_s: 3e11 };
        let (image, mask) = (ImageSize { width: 40, height: 30 }, MaskSize { width: 5, height: 3 });
        let filter = Filter::new(Mask::average(5, 3).expect("a mask"));
        let bound = ErrorBound::direct(&Problem::new(40, 30, &filter).expect("a problem"));
        let row = Verified {
            backend: "cpu",
            variant: "direct",
            reason: "tiles of 4 x 3 vectors, \"AVX2\"".to_owned(),
            preferred: false,
            verdict: Verdict { max_abs_error: 1e-7, error_over_bound: 0.25, bound, bits_equal_cpu: None },
            timed: Some(Timed {
                times: Times { kernel: measured(12.0, 0.5), end_to_end: measured(14.0, 1.0), first_call_us: 1500.0 },
                loaded_before: None,
                work: Work { bytes: 9600.0, flop: 1.8e6 },
                roofline: Roofline { us: 6.0, bound: Bound::Fma },
                vs_cpu: None,
            }),
            counts: None,
        };
        let counts = Some(Counts { threads: 1280, ..Counts::default() });
        let emulated = Verified { backend: "emulator", variant: "naive", timed: None, counts, ..row.clone() };
        let cause = Wrong::Length { required: 1200, found: 1199 }.into();
        let failure = Failure { backend: "cuda", variant: "naive", image, mask, cause };
        let cell = Cell {
            picture: "random".to_owned(),
            image,
            mask,
            format: PixelFormat::PLANE,
            border: Border::ZERO,
            rows: vec![emulated, row],
            not_eligible: Vec::new(),
            failures: vec![failure],
        };
        let machine = Machine {
            gpu: None,
            emulator: None,
            no_gpu: Some("no driver".to_owned()),
            cpu_name: "a processor, of some kind".to_owned(),
            cpu: "CPU: a processor, of some kind, 2 threads".to_owned(),
            cpu_threads: 2,
            cpu_rates: rates,
            build: Build::this(),
        };
        let (min_time, took) = (Duration::from_millis(300), Duration::from_millis(1234));
        let first_rates = DeviceRates { gpu: None, cpu: rates };
        let cells = vec![cell];
        Report { machine, first_rates, border: Border::ZERO, page_locked: false, seed: 1, min_time, cells, took }
    }

    #[test]
    fn the_texts_say_what_was_measured() {
        let report = report();
        let text = text_of_cell(&report.cells[0]);
        assert!(text.starts_with("40 x 30 (random), f32, mask 3 rows x 5 columns, border zero\n"), "{text}");
        for part in
            ["12.0 µs", "0.500 µs", "14.0 µs", "1.50 ms", "0.100", "50.0 % FMA", "exact, error 0.25 of the bound"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        let summary = text_of_summary(&report);
        let last = summary.lines().last().unwrap();
        assert_eq!(
            last,
            "2 answers verified over the whole frame, 1 of them timed, 1 problem; 1 WRONG OR FAILED; seed 1, 1.2 s in all"
        );
        assert!(text_of_header(&report.machine).contains("only the CPU is measured: no driver"));
        let markdown = markdown(&report);
        assert!(
            markdown.contains("| random 40 x 30, f32 | 3 rows x 5 columns | cpu | direct | 12.0 µs |"),
            "{markdown}"
        );
    }

    /// A first measurement at half the rate made rooflines twice as long: the share would be 100 % where it is 50 %.
    #[test]
    fn rooflines_follow_the_best_ceilings_of_the_run() {
        let mut report = report();
        let first = report.first_rates.cpu;
        assert!(!text_of_summary(&report).contains("ceilings rose"));
        report.machine.cpu_rates = Rates { flop_per_s: 2.0 * first.flop_per_s, ..first };
        report.settle_rooflines();
        let timed = report.cells[0].rows[1].timed.expect("the CPU's row has times");
        assert_eq!(timed.roofline, Roofline { us: 3.0, bound: Bound::Fma });
        let summary = text_of_summary(&report);
        let told =
            "ceilings rose during the run: CPU copies 20.0 GB/s, FMA 600 GFLOP/s, first copies 20.0 GB/s, FMA 300";
        assert!(summary.contains(told), "{summary}");
    }

    #[test]
    fn a_share_above_the_roofline_is_marked() {
        let mut report = report();
        assert!(!text_of_cell(&report.cells[0]).contains('!') && !text_of_summary(&report).contains('!'));
        report.machine.cpu_rates.flop_per_s /= 3.0;
        report.settle_rooflines();
        let text = text_of_cell(&report.cells[0]);
        assert!(text.contains("150.0 % FMA !"), "{text}");
        let summary = text_of_summary(&report);
        assert!(summary.contains("\n!: 1 row above the roofline"), "{summary}");
        let document: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
        assert_eq!(document["rows"][1]["above_floor"], true);
    }

    #[test]
    fn a_speedup_names_the_method_of_the_cpu() {
        let mut report = report();
        let timed = report.cells[0].rows[1].timed.as_mut().expect("the CPU's row has times");
        timed.vs_cpu = Some(VsCpu { speedup: 12.5, method: "direct" });
        assert!(text_of_cell(&report.cells[0]).contains("12.5x direct"));
        assert!(markdown(&report).contains("| 12.5x direct |"));
        let document: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
        assert_eq!(document["rows"][1]["cpu_method"], "direct");
    }

    /// All reports have the class of a row; JSON and CSV the constant, too.
    #[test]
    fn a_bounded_answer_names_its_constant() {
        let mut report = report();
        for row in &mut report.cells[0].rows {
            row.verdict.bound = ErrorBound::with_constant(15.0);
        }
        let check = "bounded (c = 15), error 0.25 of the bound";
        for text in [text_of_cell(&report.cells[0]), markdown(&report), html(&report)] {
            assert_eq!(text.matches(check).count(), 2, "{text}");
        }
        let document: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
        let row = &document["rows"][0];
        assert_eq!((row["accuracy"].as_str(), row["error_constant"].as_f64()), (Some("bounded"), Some(15.0)));
        assert_eq!(csv(&report).matches(",bounded,15.0,").count(), 2);
    }

    #[test]
    fn a_choice_that_is_not_the_fastest_is_told() {
        let summary = |times: &[f64]| {
            let mut report = report();
            let row = report.cells[0].rows[1].clone();
            let of = |(i, us): (usize, &f64)| {
                let mut row = Verified {
                    backend: "cuda",
                    variant: ["sliding_window", "naive"][i],
                    preferred: i == 0,
                    ..row.clone()
                };
                row.timed.as_mut().expect("the row has times").times.kernel.us.median = *us;
                row
            };
            // The CPU's is the fastest, and no choice of the GPU's.
            report.cells[0].rows = times.iter().enumerate().map(of).chain([row.clone()]).collect();
            text_of_summary(&report)
        };
        assert!(!summary(&[20.0]).contains("fastest"));
        let good = summary(&[20.9, 20.0]);
        assert!(good.contains("* is the fastest variant, or within 5 % of it, in 1 of 1\n"), "{good}");
        let missed = summary(&[25.0, 20.0]);
        let told = "in 0 of 1\n  40 x 30, mask 3 rows x 5 columns: naive is 1.25 times as fast\n";
        assert!(missed.contains(told), "{missed}");
    }

    #[test]
    fn the_document_holds_null_where_nothing_applies() {
        let document: serde_json::Value = serde_json::from_str(&json(&report())).unwrap();
        assert_eq!(document["schema"], 1);
        assert!(document["device"].is_null());
        assert_eq!(document["copy_gb_s"], 20.0);
        let row = &document["rows"][1];
        assert!(row["speedup_vs_cpu"].is_null() && row["bits_equal_cpu"].is_null());
        assert_eq!((row["floor_fraction"].as_f64(), row["gpix_s"].as_f64()), (Some(0.5), Some(0.1)));
        let emulated = document["rows"][0].as_object().unwrap();
        for (name, value) in emulated {
            let is_time =
                ["_us", "_s", "_mad", "floor", "batch", "speedup", "first"].iter().any(|part| name.contains(part));
            assert!(!is_time || value.is_null(), "{name}: {value}");
        }
        assert_eq!(document["errors"][0]["reason"], "wrong answer: the answer has 1199 values, 1200 were required");
    }

    /// One line for each reason, not for each variant.
    #[test]
    fn refusals_with_one_reason_share_a_line() {
        use kernels_gpu::registry::Ineligible;

        let mut cell = report().cells.remove(0);
        let refused =
            |variant, reason| NotEligible { backend: "cuda", variant, reason: Error::Refused { variant, reason } };
        let older = Ineligible::ComputeCapability { required: (8, 0), found: (7, 5) };
        cell.not_eligible = vec![
            refused("separable_block_tile", Ineligible::NotSeparable),
            refused("shared_tile_async", older),
            refused("separable_ring", Ineligible::NotSeparable),
        ];
        let lines = cell.refusals();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("separable_block_tile, separable_ring: the mask is not separable"), "{lines:?}");
        assert!(lines[1].starts_with("shared_tile_async: made for compute capability 8.0"), "{lines:?}");
    }
}
