//! The report as JSON, for other programs.

use std::time::Duration;

use cuda_emulator::{Counts, Traffic};
use serde::Serialize;

use super::{Cell, Report, Timed, Verified};
use crate::bench::clocks::Recorded;
use crate::bench::compare::name_of_masks;
use crate::bench::roofline::AboveRoofline;
use crate::bench::system::Machine;
use faltung::Rates;

/// The version of the document. Version 2 has added fields to the rows: `cache`, the samples, `..._drift`, `note` and
/// the clocks.
pub(in crate::bench) const SCHEMA: u32 = 2;

/// The document. Names that are here stay; a field that does not apply is null.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Document {
    schema: u32,
    device: Option<Device>,
    cpu: Cpu,
    commit: Option<&'static str>,
    build: Build,
    /// The GPU's rates, or the CPU's if no GPU is measured.
    copy_gb_s: f64,
    fma_tflop_s: f64,
    seed: u64,
    min_time_s: f64,
    /// Whether end-to-end times on the GPU are from and to page-locked memory, not pageable memory.
    page_locked: bool,
    /// Whether the masks are separable (rank 1).
    separable: bool,
    /// "random" or "Gaussian". Reports without it have random masks, separable ones, too.
    masks: &'static str,
    /// The command that makes the report again.
    command: Option<String>,
    /// The verified rows.
    pub rows: Vec<Row>,
    not_eligible: Vec<Absent>,
    errors: Vec<Absent>,
}

/// The CUDA device, or its emulator.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Device {
    name: String,
    kind: &'static str,
    compute_capability: Option<String>,
    driver: Option<String>,
    sm_count: Option<u32>,
    l2_bytes: Option<u64>,
}

impl Device {
    /// The GPU or its emulator, if one was measured.
    fn new(machine: &Machine) -> Option<Self> {
        let gpu = machine.gpu.as_ref().map(|(info, _)| Self {
            name: info.name.clone(),
            kind: "cuda",
            compute_capability: Some(format!("{}.{}", info.compute_capability.0, info.compute_capability.1)),
            driver: Some(info.driver()),
            sm_count: Some(info.sm_count),
            l2_bytes: Some(info.l2_bytes),
        });
        gpu.or_else(|| {
            let name = machine.emulator.clone()?;
            Some(Self {
                name,
                kind: "emulator",
                compute_capability: None,
                driver: None,
                sm_count: None,
                l2_bytes: None,
            })
        })
    }
}

/// The CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Cpu {
    name: String,
    threads: usize,
    copy_gb_s: f64,
    fma_tflop_s: f64,
    last_level_cache_bytes: Option<u64>,
}

/// The program.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Build {
    version: &'static str,
    profile: &'static str,
    opt_level: &'static str,
    assertions: bool,
    target: &'static str,
}

/// One verified row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    backend: &'static str,
    variant: &'static str,
    pixel: &'static str,
    output: &'static str,
    channels: u32,
    picture: String,
    width: usize,
    height: usize,
    mask_width: usize,
    mask_height: usize,
    border: String,
    kernel_us: Option<f64>,
    kernel_us_mad: Option<f64>,
    end_to_end_us: Option<f64>,
    end_to_end_us_mad: Option<f64>,
    first_call_us: Option<f64>,
    first_call_loaded: Option<bool>,
    gpix_s: Option<f64>,
    floor_us: Option<f64>,
    /// Null also if the row is above the measured ceiling.
    floor_fraction: Option<f64>,
    floor_bound: Option<&'static str>,
    above_floor: Option<bool>,
    /// Why the row is above its floor.
    above_floor_reason: Option<&'static str>,
    max_abs_error: f64,
    error_over_bound: f64,
    /// The accuracy class that the variant keeps: "exact" or "bounded".
    accuracy: &'static str,
    /// The constant c of its bound.
    error_constant: f64,
    bits_equal_cpu: Option<bool>,
    speedup_vs_cpu: Option<f64>,
    vs_cpu_variant: Option<&'static str>,
    /// The older name of `vs_cpu_variant`.
    cpu_method: Option<&'static str>,
    batches: Option<usize>,
    runs_per_batch: Option<usize>,
    /// "cold" if the caches were evicted before each timed run, else "warm".
    cache: Option<&'static str>,
    /// The times of the batches in nanoseconds, in their order: whole numbers between spaces. Divided by
    /// `runs_per_batch` they are the samples of `kernel_us`.
    kernel_batches_ns: Option<String>,
    /// The times of the runs from host memory to host memory, in the same form.
    end_to_end_runs_ns: Option<String>,
    /// The change from the first third of the samples to the last, as a share; null without a trend.
    kernel_drift: Option<f64>,
    end_to_end_drift: Option<f64>,
    /// The GPU's clocks while the kernel was timed.
    #[serde(flatten)]
    clocks: Recorded,
    /// What to know before the times are used.
    note: Option<String>,
    preferred: bool,
    reason: String,
    counts: Option<Counted>,
}

/// What the emulator counted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Counted {
    threads: u64,
    barriers: u64,
    bank_conflicts: u64,
    global_loads: Accesses,
    global_stores: Accesses,
    shared_loads: Accesses,
    shared_stores: Accesses,
    constant_loads: Accesses,
}

/// Accesses of one kind: of threads, as warp instructions, and the transactions that these make, of which `ideal` are
/// needed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Accesses {
    threads: u64,
    instructions: u64,
    transactions: u64,
    ideal: u64,
}

impl From<Traffic> for Accesses {
    fn from(Traffic { threads, instructions, transactions, ideal }: Traffic) -> Self {
        Self { threads, instructions, transactions, ideal }
    }
}

impl From<Counts> for Counted {
    fn from(counts: Counts) -> Self {
        Self {
            threads: counts.threads,
            barriers: counts.barriers,
            bank_conflicts: counts.bank_conflicts(),
            global_loads: counts.global_loads.into(),
            global_stores: counts.global_stores.into(),
            shared_loads: counts.shared_loads.into(),
            shared_stores: counts.shared_stores.into(),
            constant_loads: counts.constant_loads.into(),
        }
    }
}

/// A variant without a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Absent {
    backend: &'static str,
    variant: &'static str,
    width: usize,
    height: usize,
    mask_width: usize,
    mask_height: usize,
    reason: String,
}

impl Document {
    /// The document of a report.
    #[must_use]
    pub fn new(report: &Report) -> Self {
        let machine = &report.machine;
        let build = machine.build;
        Self {
            schema: SCHEMA,
            device: Device::new(machine),
            cpu: Cpu {
                name: machine.cpu_name.clone(),
                threads: machine.cpu_threads,
                copy_gb_s: copy_gb_s(machine.cpu_rates),
                fma_tflop_s: fma_tflop_s(machine.cpu_rates),
                last_level_cache_bytes: machine.cpu_cache_bytes,
            },
            commit: build.commit,
            build: Build {
                version: build.version,
                profile: build.profile,
                opt_level: build.opt_level,
                assertions: build.assertions,
                target: build.target,
            },
            copy_gb_s: copy_gb_s(machine.rates()),
            fma_tflop_s: fma_tflop_s(machine.rates()),
            seed: report.seed,
            min_time_s: report.min_time.as_secs_f64(),
            page_locked: report.page_locked,
            separable: report.separable,
            masks: name_of_masks(report.separable),
            command: report.command.clone(),
            rows: report.cells.iter().flat_map(|cell| cell.rows.iter().map(|row| Row::new(cell, row))).collect(),
            not_eligible: absent(report, |cell| {
                cell.not_eligible.iter().map(|one| (one.backend, one.variant, one.reason.to_string())).collect()
            }),
            errors: absent(report, |cell| {
                cell.failures.iter().map(|one| (one.backend, one.variant, one.cause.to_string())).collect()
            }),
        }
    }
}

impl Row {
    fn new(cell: &Cell, row: &Verified) -> Self {
        let timed = row.timed.as_ref();
        let times = timed.map(|timed| &timed.times);
        Self {
            backend: row.backend,
            variant: row.variant,
            pixel: cell.format.input.name(),
            output: cell.format.output.name(),
            channels: cell.format.channels as u32,
            picture: cell.picture.clone(),
            width: cell.image.width,
            height: cell.image.height,
            mask_width: cell.mask.width,
            mask_height: cell.mask.height,
            border: cell.border.to_string(),
            kernel_us: times.map(|times| times.kernel.us.median),
            kernel_us_mad: times.map(|times| times.kernel.us.mad),
            end_to_end_us: times.map(|times| times.end_to_end.us.median),
            end_to_end_us_mad: times.map(|times| times.end_to_end.us.mad),
            first_call_us: times.map(|times| times.first_call_us),
            first_call_loaded: timed.and_then(|timed| timed.loaded_before),
            gpix_s: timed.map(|timed| timed.gpix_s(cell.image)),
            floor_us: timed.map(|timed| timed.roofline.us),
            floor_fraction: timed.and_then(Timed::roofline_share),
            floor_bound: timed.map(|timed| timed.roofline.ceiling.name()),
            above_floor: timed.map(|timed| timed.above_roofline.is_some()),
            above_floor_reason: timed.and_then(|timed| timed.above_roofline).map(AboveRoofline::name),
            max_abs_error: row.deviation.max_abs_error,
            error_over_bound: row.deviation.error_over_bound,
            accuracy: row.deviation.bound.class().name(),
            error_constant: row.deviation.bound.constant(),
            bits_equal_cpu: row.deviation.bits_equal_cpu,
            speedup_vs_cpu: timed.and_then(|timed| timed.vs_cpu).map(|vs| vs.speedup),
            vs_cpu_variant: timed.and_then(|timed| timed.vs_cpu).map(|vs| vs.variant),
            cpu_method: timed.and_then(|timed| timed.vs_cpu).map(|vs| vs.variant),
            batches: times.map(|times| times.kernel.us.count),
            runs_per_batch: times.map(|times| times.kernel.runs),
            cache: timed.map(|_| if cell.cold { "cold" } else { "warm" }),
            kernel_batches_ns: times.map(|times| nanoseconds(&times.kernel.batches)),
            end_to_end_runs_ns: times.map(|times| nanoseconds(&times.end_to_end.batches)),
            kernel_drift: times.and_then(|times| times.kernel.drift()).map(|drift| drift.change),
            end_to_end_drift: times.and_then(|times| times.end_to_end.drift()).map(|drift| drift.change),
            clocks: times.and_then(|times| times.clocks.as_ref()).map(Recorded::from).unwrap_or_default(),
            note: timed.and_then(Timed::note),
            preferred: row.preferred,
            reason: row.reason.clone(),
            counts: row.counts.map(Counted::from),
        }
    }
}

/// Times as one text: in a list, each would stand on a line of its own.
fn nanoseconds(times: &[Duration]) -> String {
    times.iter().map(|time| time.as_nanos().to_string()).collect::<Vec<_>>().join(" ")
}

/// The variants without rows that `of` finds in each cell: backend, variant, reason.
fn absent(report: &Report, of: impl Fn(&Cell) -> Vec<(&'static str, &'static str, String)>) -> Vec<Absent> {
    let with_sizes = |cell: &Cell| {
        let (image, mask) = (cell.image, cell.mask);
        let one = move |(backend, variant, reason)| Absent {
            backend,
            variant,
            width: image.width,
            height: image.height,
            mask_width: mask.width,
            mask_height: mask.height,
            reason,
        };
        of(cell).into_iter().map(one).collect::<Vec<_>>()
    };
    report.cells.iter().flat_map(with_sizes).collect()
}

/// 10^9 bytes per second.
fn copy_gb_s(rates: Rates) -> f64 {
    rates.copy_bytes_per_s / 1e9
}

/// 10^12 operations per second.
fn fma_tflop_s(rates: Rates) -> f64 {
    rates.flop_per_s / 1e12
}

/// The report as JSON.
///
/// # Panics
/// Never: the document has no maps with keys that are no strings, the one thing that JSON can't say.
#[must_use]
pub fn json(report: &Report) -> String {
    let mut text =
        serde_json::to_string_pretty(&Document::new(report)).expect("numbers, strings, lists and structures");
    text.push('\n');
    text
}
