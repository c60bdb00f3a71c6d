//! The report as tables, for people.

use super::{Cell, Report, Timed, Verified};
use crate::bench::roofline::AboveRoofline;
use crate::bench::stats::MATTERS;
use crate::bench::system::Machine;
use crate::text_table::{TextColumn, text_table};
use crate::units::{digits, plural, time};
use faltung::{Accuracy, PixelFormat, Rates};

/// The device, the CPU and the build, a line each.
#[must_use]
pub fn header(machine: &Machine) -> String {
    let mut out = String::new();
    if let Some((gpu, rates)) = &machine.gpu {
        let (major, minor) = gpu.compute_capability;
        out += &format!(
            "GPU    {} (cuda:{}), compute capability {major}.{minor}, {} SMs, driver for CUDA {}; {}\n",
            gpu.name,
            gpu.number,
            gpu.sm_count,
            gpu.driver(),
            speeds(*rates)
        );
    } else if let Some(emulator) = &machine.emulator {
        out += &format!("GPU    {emulator}; verified and counted, not timed\n");
    } else if let Some(reason) = &machine.no_gpu {
        out += &format!("GPU    none, only the CPU is measured: {reason}\n");
    }
    out += &format!("CPU    {}; {}\n", machine.cpu.trim_start_matches("CPU: "), speeds(machine.cpu_rates));
    out += &format!("build  {}\n", machine.build);
    if let Some(caution) = machine.build.caution() {
        out += &format!("       {caution}\n");
    }
    out
}

/// Measured rates.
fn speeds(rates: Rates) -> String {
    let (copy, fma) = (rates.copy_bytes_per_s / 1e9, rates.flop_per_s / 1e9);
    let of = |value: f64, small: &str, large: &str| match value {
        value if value < 1e3 => format!("{} {small}", digits(value)),
        value => format!("{} {large}", digits(value / 1e3)),
    };
    format!("copies {}, FMA {}", of(copy, "GB/s", "TB/s"), of(fma, "GFLOP/s", "TFLOP/s"))
}

/// The columns. The widths fit most texts, so that the tables of several cells stand in line.
const COLUMNS: [TextColumn; 10] = [
    TextColumn::left("backend").at_least(7),
    TextColumn::left("variant").at_least(15),
    TextColumn::right("kernel").at_least(7),
    TextColumn::right("±").at_least(8),
    TextColumn::right("end to end").at_least(10),
    TextColumn::right("first call").at_least(10),
    TextColumn::right("Gpix/s").at_least(6),
    TextColumn::left("roofline share").at_least(14),
    TextColumn::right("vs CPU").at_least(15),
    TextColumn::left("check"),
];

/// One cell: the problem, a row for each variant, then the variants that are not eligible.
#[must_use]
pub fn cell(cell: &Cell) -> String {
    let Cell { image, picture, mask, border, .. } = cell;
    let caches = if cell.cold { ", cold caches" } else { "" };
    let mut out = format!("{image} ({picture}), {}, mask {mask}, border {border}{caches}\n", values(cell.format));
    if !cell.rows.is_empty() {
        out += &text_table(&COLUMNS, cell.rows.iter().map(|row| columns(cell, row)));
    }
    for line in cell.notes() {
        out += &format!("  {line}\n");
    }
    out += &super::counts::table(cell);
    for line in cell.refusals() {
        out += &format!("  not eligible: {line}\n");
    }
    out
}

/// The types and channels, such as "f32" or "3 channels of u8 to f32".
pub(super) fn values(PixelFormat { channels, input, output }: PixelFormat) -> String {
    let of = if channels == 1 { String::new() } else { format!("{channels} channels of ") };
    let to = if output == input { String::new() } else { format!(" to {}", output.name()) };
    format!("{of}{}{to}", input.name())
}

/// The columns of a row.
fn columns(cell: &Cell, row: &Verified) -> Vec<String> {
    let timed = row.timed.as_ref();
    let first_call = |timed: &Timed| {
        time(timed.times.first_call_us) + if timed.loaded_before == Some(true) { " (warm)" } else { "" }
    };
    vec![
        row.backend.to_owned(),
        format!("{}{}", row.variant, if row.preferred { " *" } else { "" }),
        or_dash(timed.map(|timed| time(timed.times.kernel.us.median))),
        or_dash(timed.map(|timed| time(timed.times.kernel.us.mad))),
        or_dash(timed.map(|timed| time(timed.times.end_to_end.us.median))),
        or_dash(timed.map(first_call)),
        or_dash(timed.map(|timed| digits(timed.gpix_s(cell.image)))),
        or_dash(timed.map(roofline)),
        or_dash(timed.and_then(vs_cpu)),
        check(row),
    ]
}

/// A dash for what does not apply.
pub(super) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// The share of the roofline, and its ceiling. A mark shows what a cache explains. No share is shown that can't be
/// right.
pub(super) fn roofline(timed: &Timed) -> String {
    let Some(share) = timed.roofline_share() else { return AboveRoofline::CeilingTooLow.name().to_owned() };
    let mark = if timed.above_roofline == Some(AboveRoofline::FitsCache) { " †" } else { "" };
    format!("{:.1} % {}{mark}", 100.0 * share, timed.roofline.ceiling.name())
}

/// What is said on rows above their roofline, a line for each kind that the report has.
pub(super) fn above_rooflines(report: &Report) -> Vec<&'static str> {
    let has =
        |kind| report.verified().any(|row| row.timed.as_ref().is_some_and(|timed| timed.above_roofline == Some(kind)));
    let notes = [
        (
            AboveRoofline::FitsCache,
            "†: image and result fit the last-level cache of the device: the roofline of memory does not bound the row",
        ),
        (
            AboveRoofline::CeilingTooLow,
            "above the measured ceiling: the kernel is more than 5 % faster than the measured rates allow \
             (METHODOLOGY.md)",
        ),
    ];
    notes.into_iter().filter(|(kind, _)| has(*kind)).map(|(_, note)| note).collect()
}

/// How many times as fast as the CPU, and the CPU's variant.
pub(super) fn vs_cpu(timed: &Timed) -> Option<String> {
    timed.vs_cpu.map(|vs| format!("{}x {}", digits(vs.speedup), vs.variant))
}

/// The result of the verification: the accuracy class, and the largest error.
pub(super) fn check(row: &Verified) -> String {
    let deviation = &row.deviation;
    let is_compared = row.backend == "cpu" || deviation.bits_equal_cpu.is_some();
    let bits = match deviation.bound.class() {
        // The CPU's answer was wrong.
        Accuracy::Exact if !is_compared => " (bits not compared)",
        Accuracy::Exact | Accuracy::Bounded | Accuracy::Normwise => "",
    };
    format!("{}{bits}, error {:.2} of the bound", deviation.bound, deviation.error_over_bound)
}

/// The meaning of the marks in the tables, how much was measured and verified, and the time of the run.
#[must_use]
pub fn summary(report: &Report) -> String {
    let mut out = "±: median absolute deviation".to_owned();
    if report.verified().any(|row| row.preferred) {
        out += "; *: the variant that auto takes; (warm): the first call found its kernel loaded";
    }
    if let Some(note) = end_to_end(report) {
        out += &format!("\n{note}");
    }
    out += &choices(report);
    if let Some(note) = ceilings(report) {
        out += &format!("\n{note}");
    }
    for note in above_rooflines(report) {
        out += &format!("\n{note}");
    }
    let (answers, failures) = (report.verified().count(), report.failures().count());
    let timed = report.verified().filter(|row| row.timed.is_some()).count();
    let not_eligible: usize = report.cells.iter().map(|cell| cell.not_eligible.len()).sum();
    out += &format!("\n{} verified over the whole frame, ", plural(answers, "answer"));
    out += &if timed < answers { format!("{timed} of them timed, ") } else { "then timed, ".to_owned() };
    out += &plural(report.cells.len(), "problem");
    if not_eligible > 0 {
        out += &format!("; {not_eligible} not eligible");
    }
    let count = |note: fn(&Timed) -> Option<String>| {
        report.verified().filter_map(|row| row.timed.as_ref()).filter_map(note).count()
    };
    let (throttled, drifted) = (count(Timed::throttle_note), count(Timed::drift_note));
    if throttled > 0 {
        out += &format!("; {throttled} on a GPU that lowered its clock");
    }
    if drifted > 0 {
        out += &format!("; {drifted} with times that drift: measure again");
    }
    if failures > 0 {
        out += &format!("; {failures} WRONG OR FAILED");
    }
    out + &format!("; seed {}, {:.1} s in all\n", report.seed, report.took.as_secs_f64())
}

/// A note on end-to-end times, if they are from and to page-locked memory.
pub(super) fn end_to_end(report: &Report) -> Option<&'static str> {
    (report.page_locked && report.machine.gpu.is_some())
        .then_some("end to end on the GPU: from and to page-locked memory")
}

/// The report mentions a ceiling that rose by more than this part during the run.
const ROSE: f64 = 0.02;

/// The ceilings, if they rose during the run: the tables above used the lower ones.
fn ceilings(report: &Report) -> Option<String> {
    let Machine { gpu, cpu_rates, .. } = &report.machine;
    let last = [gpu.as_ref().map(|(_, rates)| ("GPU", *rates)), Some(("CPU", *cpu_rates))];
    let rose =
        last.into_iter().zip([report.first_rates.gpu, Some(report.first_rates.cpu)]).filter_map(|(last, first)| {
            let ((name, last), first) = (last?, first?);
            let by = |last: f64, first: f64| last > first * (1.0 + ROSE);
            let rose = by(last.copy_bytes_per_s, first.copy_bytes_per_s) || by(last.flop_per_s, first.flop_per_s);
            rose.then(|| format!("{name} {} (at first {})", speeds(last), speeds(first)))
        });
    let rose: Vec<_> = rose.collect();
    (!rose.is_empty()).then(|| {
        format!(
            "the measured rates rose during the run: {}. The shares above are of the rates when each row was printed, \
             those in reports of the last ones",
            rose.join("; ")
        )
    })
}

/// How often the preferred variant was the fastest of its device, and a line for each cell where it was not.
fn choices(report: &Report) -> String {
    let judged: Vec<_> =
        report.cells.iter().flat_map(|cell| cell.fastest().map(move |fastest| (cell, fastest))).collect();
    let missed: Vec<_> = judged.iter().filter(|(_, (_, ratio))| *ratio > 1.0 + MATTERS).collect();
    if judged.is_empty() {
        return String::new();
    }
    let (good, percent) = (judged.len() - missed.len(), 100.0 * MATTERS);
    let mut out = format!("\n* is the fastest variant, or within {percent:.0} % of it, in {good} of {}", judged.len());
    for (cell, (fastest, ratio)) in missed {
        out += &format!(
            "\n  {}, mask {}: {} {} is {ratio:.2} times as fast",
            cell.image, cell.mask, fastest.backend, fastest.variant
        );
    }
    out
}
