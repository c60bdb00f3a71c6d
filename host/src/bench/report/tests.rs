use super::*;
use crate::bench::measure::Measured;
use crate::bench::roofline::Ceiling;
use crate::bench::stats::Summary;
use crate::bench::system::Build;
use crate::bench::verify::Wrong;
use faltung::{ErrorBound, Filter, Mask, Problem};

/// A report with one row on the CPU and a failure.
pub(in crate::bench) fn report() -> Report {
    let measured = |median: f64, mad: f64| {
        // Three runs a batch, and the median and the deviation that are asked for.
        let batches =
            [0.0, -mad, mad, -mad, 2.0 * mad, mad, 0.0].map(|by| Duration::from_secs_f64(3e-6 * (median + by)));
        let measured = Measured::new(batches.to_vec(), 3).expect("times");
        Measured { us: Summary { median, mad, ..measured.us }, ..measured }
    };
    let rates = Rates { copy_bytes_per_s: 2e10, flop_per_s: 3e11 };
    let (image, mask) = (ImageSize { width: 40, height: 30 }, MaskSize { width: 5, height: 3 });
    let filter = Filter::new(Mask::average(5, 3).expect("a mask"));
    let bound = ErrorBound::direct(&Problem::new(40, 30, &filter).expect("a problem"));
    let row = Verified {
        backend: "cpu",
        variant: "direct",
        reason: "tiles of 4 x 3 vectors, \"AVX2\"".to_owned(),
        preferred: false,
        deviation: Deviation { max_abs_error: 1e-7, error_over_bound: 0.25, bound, bits_equal_cpu: None },
        timed: Some(Timed {
            times: Times {
                kernel: measured(12.0, 0.5),
                end_to_end: measured(14.0, 1.0),
                first_call_us: 1500.0,
                clocks: None,
            },
            loaded_before: None,
            work: Work { bytes: 9600.0, flop: 1.8e6 },
            roofline: Roofline { us: 6.0, ceiling: Ceiling::Fma },
            above_roofline: None,
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
        cold: false,
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
        cpu_cache_bytes: None,
        build: Build::this(),
    };
    let (min_time, took) = (Duration::from_millis(300), Duration::from_millis(1234));
    let first_rates = DeviceRates { gpu: None, cpu: rates };
    let cells = vec![cell];
    let (page_locked, separable, command) = (false, false, Some("host bench --masks 3x5".to_owned()));
    let border = Border::ZERO;
    Report { machine, first_rates, border, page_locked, separable, command, seed: 1, min_time, cells, took }
}

#[test]
fn the_texts_say_what_was_measured() {
    let report = report();
    let text = text_of_cell(&report.cells[0]);
    assert!(text.starts_with("40 x 30 (random), f32, mask 3 rows x 5 columns, border zero\n"), "{text}");
    for part in ["12.0 µs", "0.500 µs", "14.0 µs", "1.50 ms", "0.100", "50.0 % FMA", "exact, error 0.25 of the bound"]
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
    assert!(markdown.contains("| random 40 x 30, f32 | 3 rows x 5 columns | cpu | direct | 12.0 µs |"), "{markdown}");
}

/// A first measurement at half the rate made rooflines twice as long: the share would be 100 % where it is 50 %.
#[test]
fn rooflines_follow_the_best_ceilings_of_the_run() {
    let mut report = report();
    let first = report.first_rates.cpu;
    assert!(!text_of_summary(&report).contains("rates rose"));
    report.machine.cpu_rates = Rates { flop_per_s: 2.0 * first.flop_per_s, ..first };
    report.settle_rooflines();
    let timed = report.cells[0].rows[1].timed.as_ref().expect("the CPU's row has times");
    assert_eq!(timed.roofline, Roofline { us: 3.0, ceiling: Ceiling::Fma });
    let summary = text_of_summary(&report);
    let told = "rates rose during the run: CPU copies 20.0 GB/s, FMA 600 GFLOP/s (at first copies 20.0 GB/s, FMA 300";
    assert!(summary.contains(told), "{summary}");
}

/// The first row of the report that has times, as JSON.
fn row_of(report: &Report) -> serde_json::Value {
    let document: serde_json::Value = serde_json::from_str(&json(report)).unwrap();
    document["rows"][1].clone()
}

#[test]
fn a_share_above_the_measured_ceiling_is_not_shown() {
    let mut report = report();
    let note = "above the measured ceiling";
    assert!(!text_of_cell(&report.cells[0]).contains(note) && !text_of_summary(&report).contains(note));
    assert!(row_of(&report)["above_floor_reason"].is_null());
    report.machine.cpu_rates.flop_per_s /= 3.0;
    report.settle_rooflines();
    for text in [text_of_cell(&report.cells[0]), markdown(&report)] {
        assert!(text.contains(note) && !text.contains("150.0 %"), "{text}");
    }
    assert!(markdown(&report).contains("\n\nabove the measured ceiling: the kernel is"));
    assert!(text_of_summary(&report).contains("\nabove the measured ceiling: the kernel is"));
    let row = row_of(&report);
    assert_eq!((row["above_floor"].as_bool(), row["above_floor_reason"].as_str()), (Some(true), Some(note)));
    assert!(row["floor_fraction"].is_null() && row["floor_us"] == 18.0, "{row}");
}

#[test]
fn a_share_that_a_cache_explains_is_marked() {
    let mut report = report();
    // The copies of 9600 bytes take 24 µs, the multiply-adds 6.
    report.machine.cpu_rates.copy_bytes_per_s = 4e8;
    report.machine.cpu_cache_bytes = Some(9599);
    report.settle_rooflines();
    assert_eq!(row_of(&report)["above_floor_reason"], "above the measured ceiling");
    report.machine.cpu_cache_bytes = Some(9600);
    report.settle_rooflines();
    let legend = "†: image and result fit the last-level cache";
    for text in [text_of_cell(&report.cells[0]), markdown(&report)] {
        assert!(text.contains("200.0 % memory †"), "{text}");
    }
    for text in [text_of_summary(&report), markdown(&report)] {
        assert!(text.contains(legend) && !text.contains("above the measured ceiling"), "{text}");
    }
    let row = row_of(&report);
    assert_eq!((row["floor_fraction"].as_f64(), row["above_floor"].as_bool()), (Some(2.0), Some(true)));
    assert_eq!(row["above_floor_reason"], "fits the last-level cache");
}

#[test]
fn a_speedup_names_the_variant_of_the_cpu() {
    let mut report = report();
    let timed = report.cells[0].rows[1].timed.as_mut().expect("the CPU's row has times");
    timed.vs_cpu = Some(VsCpu { speedup: 12.5, variant: "separable" });
    assert!(text_of_cell(&report.cells[0]).contains("12.5x separable"));
    assert!(markdown(&report).contains("| 12.5x separable |"));
    assert!(csv(&report).contains(",12.5,separable,separable,"));
    let row = row_of(&report);
    assert_eq!((row["speedup_vs_cpu"].as_f64(), row["vs_cpu_variant"].as_str()), (Some(12.5), Some("separable")));
    assert_eq!(row["cpu_method"], "separable");
}

/// All reports have the class of a row; JSON and CSV the constant, too.
#[test]
fn a_bounded_answer_names_its_constant() {
    let mut report = report();
    for row in &mut report.cells[0].rows {
        row.deviation.bound = ErrorBound::with_constant(15.0);
    }
    let check = "bounded (c = 15), error 0.25 of the bound";
    for text in [text_of_cell(&report.cells[0]), markdown(&report)] {
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
            let mut row =
                Verified { backend: "cuda", variant: ["sliding_window", "naive"][i], preferred: i == 0, ..row.clone() };
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
    let told = "in 0 of 1\n  40 x 30, mask 3 rows x 5 columns: cuda naive is 1.25 times as fast\n";
    assert!(missed.contains(told), "{missed}");
}

/// The CPU's choice is held against its exact method, not against the GPU.
#[test]
fn a_choice_of_the_cpu_is_judged_too() {
    let mut report = report();
    let row = report.cells[0].rows[1].clone();
    let of = |backend, variant, preferred, us| {
        let mut row = Verified { backend, variant, preferred, ..row.clone() };
        row.timed.as_mut().expect("the row has times").times.kernel.us.median = us;
        row
    };
    report.cells[0].rows = vec![
        of("cuda", "sliding_window", true, 1.0),
        of("cuda", "naive", false, 2.0),
        of("cpu", "direct", false, 20.0),
        of("cpu", "separable", true, 30.0),
    ];
    let summary = text_of_summary(&report);
    let told = "in 1 of 2\n  40 x 30, mask 3 rows x 5 columns: cpu direct is 1.50 times as fast\n";
    assert!(summary.contains(told), "{summary}");
}

/// The median of the samples is the figure.
#[test]
fn the_samples_are_in_the_document() {
    let row = row_of(&report());
    for (samples, figure, runs) in
        [("kernel_batches_ns", "kernel_us", 3.0), ("end_to_end_runs_ns", "end_to_end_us", 3.0)]
    {
        let samples = row[samples].as_str().expect("samples").split(' ');
        let us: Vec<f64> = samples.map(|time| time.parse::<f64>().expect("a number") / runs / 1e3).collect();
        let summary = Summary::of(&us).expect("times");
        assert!(summary.count == 7 && (summary.median - row[figure].as_f64().unwrap()).abs() < 1e-3, "{us:?}");
    }
    assert_eq!(row["kernel_batches_ns"], "36000 34500 37500 34500 39000 37500 36000");
    assert_eq!((row["cache"].as_str(), row["note"].as_str()), (Some("warm"), None));
}

/// A planted drift is in all reports, and the row of the emulator has no times that could drift.
#[test]
fn a_drift_is_told() {
    let mut report = report();
    assert!(report.cells[0].notes().is_empty() && !text_of_summary(&report).contains("drift"));
    let slope = (0..40).map(|i| Duration::from_nanos(36_000 + 80 * i)).collect();
    let timed = report.cells[0].rows[1].timed.as_mut().expect("the CPU's row has times");
    timed.times.kernel = Measured::new(slope, 3).expect("times");
    let note = "drift: kernel: times rise by 5.9 % from the first third to the last";
    let row = row_of(&report);
    assert_eq!(row["note"], note);
    assert!(row["kernel_drift"].as_f64().is_some_and(|change| (0.059..0.06).contains(&change)), "{row}");
    assert!(row["end_to_end_drift"].is_null());
    let line = format!("cpu direct: {note}\n");
    assert!(text_of_cell(&report.cells[0]).contains(&format!("\n  {line}")));
    assert!(markdown(&report).contains(&format!("\n\n40 x 30, mask 3 rows x 5 columns: {line}")));
    assert!(csv(&report).contains(&format!(",{note},")));
    assert!(text_of_summary(&report).contains("; 1 with times that drift: measure again; 1 WRONG"));
}

/// A change that is known and does not matter is in the documents for programs alone.
#[test]
fn a_small_drift_is_recorded_and_not_told() {
    let mut report = report();
    let timed = report.cells[0].rows[1].timed.as_mut().expect("the CPU's row has times");
    let rising = (0..9).map(|i| Duration::from_nanos(36_000 + 100 * i)).collect();
    timed.times.kernel = Measured::new(rising, 3).expect("times");
    let row = row_of(&report);
    assert!(row["kernel_drift"].as_f64().is_some_and(|change| (0.015..0.02).contains(&change)), "{row}");
    assert!(row["note"].is_null() && report.cells[0].notes().is_empty(), "{row}");
    assert!(!text_of_summary(&report).contains("measure again"));
}

/// A planted throttle is in all reports.
#[test]
fn a_throttle_is_told() {
    use crate::bench::clocks::{Clocks, Reading};
    use nvml_wrapper::bitmasks::device::ThrottleReasons;

    let mut report = report();
    assert!(row_of(&report)["throttle_reasons"].is_null() && row_of(&report)["sm_mhz_lowest"].is_null());
    let reading = |sm_mhz, reasons| Reading { sm_mhz: Some(sm_mhz), reasons: Some(reasons), ..Reading::default() };
    let before = Reading { watts: Some(650.5), ..reading(1980, ThrottleReasons::empty()) };
    let mut clocks = Clocks { before, after: before, sm_mhz_max: Some(1980) };
    let set = |report: &mut Report, clocks| {
        report.cells[0].rows[1].timed.as_mut().expect("a timed row").times.clocks = Some(clocks);
    };
    set(&mut report, clocks);
    assert!(report.cells[0].notes().is_empty() && csv(&report).contains(",1980,1980,none,1980,1980,"));
    clocks.after = reading(1410, ThrottleReasons::SW_POWER_CAP);
    set(&mut report, clocks);
    let note = "throttled: power; SM clock 1410 of 1980 MHz";
    let row = row_of(&report);
    assert_eq!((row["note"].as_str(), row["sm_mhz_lowest"].as_u64()), (Some(note), Some(1410)), "{row}");
    assert_eq!((&row["throttle_reasons"][0], row["watts_before"].as_f64()), (&"power".into(), Some(650.5)), "{row}");
    let line = format!("cpu direct: {note}\n");
    assert!(text_of_cell(&report.cells[0]).contains(&format!("\n  {line}")));
    assert!(markdown(&report).contains(&format!("\n\n40 x 30, mask 3 rows x 5 columns: {line}")));
    assert!(text_of_summary(&report).contains("; 1 on a GPU that lowered its clock; 1 WRONG"));
}

#[test]
fn cold_caches_are_told() {
    let mut report = report();
    for (cold, cache) in [(false, "warm"), (true, "cold")] {
        report.cells[0].cold = cold;
        assert_eq!(row_of(&report)["cache"], cache);
        assert_eq!(text_of_cell(&report.cells[0]).contains("border zero, cold caches\n"), cold);
        assert_eq!(markdown(&report).contains("| random 40 x 30, f32, cold caches |"), cold);
    }
}

#[test]
fn the_document_holds_null_where_nothing_applies() {
    let document: serde_json::Value = serde_json::from_str(&json(&report())).unwrap();
    assert_eq!(document["schema"], 2);
    assert_eq!(document["command"], "host bench --masks 3x5");
    assert_eq!(document["separable"], false);
    assert!(document["device"].is_null());
    assert_eq!(document["copy_gb_s"], 20.0);
    let row = &document["rows"][1];
    assert!(row["speedup_vs_cpu"].is_null() && row["bits_equal_cpu"].is_null());
    assert_eq!((row["floor_fraction"].as_f64(), row["gpix_s"].as_f64()), (Some(0.5), Some(0.1)));
    let emulated = document["rows"][0].as_object().unwrap();
    for (name, value) in emulated {
        let is_time = ["_us", "_s", "_ns", "_mad", "floor", "batch", "speedup", "first", "drift", "cache", "note"]
            .iter()
            .any(|part| name.contains(part));
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
