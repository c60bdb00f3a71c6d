//! `host bench`, run as a program.

use std::process::{Command, Output};

use faltung::Image;
use host::files::{OverwritePolicy, Picture};
use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(super::program()).arg("bench").args(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("what is printed is UTF-8")
}

/// A short run with `arguments`, which must succeed; its JSON.
fn measured(arguments: &[&str]) -> Value {
    let output = bench(&[&["--min-time", "0", "--json", "-"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the standard output is JSON and nothing else")
}

/// What a field of a row must be.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Whole,
    /// A number above 0.
    Positive,
    /// A number from 0 on.
    Amount,
    Flag,
    FlagOrNull,
    PositiveOrNull,
}

fn check(object: &Value, name: &str, kind: Kind) {
    let value = object.get(name).unwrap_or_else(|| panic!("no field {name} in {object}"));
    let number = value.as_f64();
    let right = match kind {
        Kind::Text => value.as_str().is_some_and(|text| !text.is_empty()),
        Kind::Whole => value.as_u64().is_some_and(|number| number > 0),
        Kind::Positive => number.is_some_and(|number| number > 0.0 && number.is_finite()),
        Kind::Amount => number.is_some_and(|number| number >= 0.0 && number.is_finite()),
        Kind::Flag => value.is_boolean(),
        Kind::FlagOrNull => value.is_boolean() || value.is_null(),
        Kind::PositiveOrNull => value.is_null() || number.is_some_and(|number| number > 0.0),
    };
    assert!(right, "{name} is {value}");
}

/// A share above 105 % has a reason. Where the ceilings are too low there is no share.
fn check_roofline(row: &Value) {
    let (share, above) = (row["floor_fraction"].as_f64(), row["above_floor"].as_bool());
    match row["above_floor_reason"].as_str() {
        None => assert!(share.is_some_and(|share| (0.0..=1.05).contains(&share)) && above == Some(false), "{row}"),
        Some("fits the last-level cache") => assert!(share > Some(1.05) && above == Some(true), "{row}"),
        Some(reason) => {
            assert_eq!(reason, "above the measured ceiling");
            assert!(share.is_none() && above == Some(true), "{row}");
        }
    }
}

#[test]
fn the_json_has_every_field() {
    let document = measured(&["--sizes", "33x21,16", "--masks", "3,2x5", "--border", "mirror", "--device", "cpu"]);
    assert_eq!(document["schema"], 2);
    assert!(document["device"].is_null());
    check(&document["cpu"], "name", Kind::Text);
    check(&document["cpu"], "threads", Kind::Whole);
    check(&document["cpu"], "last_level_cache_bytes", Kind::PositiveOrNull);
    check(&document, "copy_gb_s", Kind::Positive);
    check(&document, "fma_tflop_s", Kind::Positive);
    assert!(document["commit"].is_string() || document["commit"].is_null());

    let rows = document["rows"].as_array().unwrap();
    let sizes = |row: &Value| {
        ["width", "height", "mask_width", "mask_height"].map(|name| row[name].as_u64().expect("a whole number"))
    };
    let expected = [[33, 21, 3, 3], [33, 21, 5, 2], [16, 16, 3, 3], [16, 16, 5, 2]];
    assert_eq!(rows.iter().map(sizes).collect::<Vec<_>>(), expected);
    for row in rows {
        for name in ["backend", "variant", "pixel", "border", "reason"] {
            check(row, name, Kind::Text);
        }
        for name in ["channels", "batches", "runs_per_batch"] {
            check(row, name, Kind::Whole);
        }
        for name in ["kernel_us", "end_to_end_us", "first_call_us", "gpix_s", "floor_us"] {
            check(row, name, Kind::Positive);
        }
        check_roofline(row);
        for name in ["kernel_us_mad", "end_to_end_us_mad", "max_abs_error", "error_over_bound", "error_constant"] {
            check(row, name, Kind::Amount);
        }
        assert_eq!(row["accuracy"], "exact");
        check(row, "bits_equal_cpu", Kind::FlagOrNull);
        check(row, "speedup_vs_cpu", Kind::PositiveOrNull);
        assert!(row["vs_cpu_variant"].is_null() && row["cpu_method"].is_null(), "{row}");
        check(row, "preferred", Kind::Flag);
        assert!(row["error_over_bound"].as_f64() <= Some(1.0));
        assert_eq!((row["border"].as_str(), row["pixel"].as_str()), (Some("mirror"), Some("f32")));
        let product = row["gpix_s"].as_f64().unwrap() * row["kernel_us"].as_f64().unwrap() * 1e3;
        let pixels = row["width"].as_f64().unwrap() * row["height"].as_f64().unwrap();
        assert!((product / pixels - 1.0).abs() < 1e-9, "{row}");
        assert_eq!(row["cache"], "warm");
        check_samples(row, "kernel_batches_ns", "kernel_us", row["runs_per_batch"].as_f64().unwrap());
        check_samples(row, "end_to_end_runs_ns", "end_to_end_us", 1.0);
        // A note tells of a drift that matters, and of nothing else on a CPU.
        let drifts = ["kernel_drift", "end_to_end_drift"]
            .iter()
            .any(|name| row[*name].as_f64().is_some_and(|drift| drift.abs() >= 0.05));
        assert!(row["sm_mhz_lowest"].is_null() && row["throttle_reasons"].is_null(), "{row}");
        assert_eq!(row["note"].as_str().is_some_and(|note| note.starts_with("drift: ")), drifts, "{row}");
    }
}

/// The middle sample is the figure, and each batch is there.
fn check_samples(row: &Value, name: &str, figure: &str, runs: f64) {
    let mut samples: Vec<u64> =
        row[name].as_str().expect("samples").split(' ').map(|time| time.parse().expect("a whole number")).collect();
    samples.sort_unstable();
    let count = samples.len();
    assert!(count >= 3 && (name != "kernel_batches_ns" || row["batches"] == count), "{row}");
    let median = (samples[(count - 1) / 2] + samples[count / 2]) as f64 / 2.0;
    assert!((median / runs / 1e3 / row[figure].as_f64().unwrap() - 1.0).abs() < 1e-9, "{row}");
}

/// Each timed run comes after an eviction: a run is a sample, and the row says so. A report with warm caches is refused
/// before anything is measured.
#[test]
fn cold_caches_are_measured_and_not_compared_with_warm_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cold.json").to_str().unwrap().to_owned();
    let cell = ["--sizes", "48x40", "--masks", "3", "--min-time", "0", "--device", "cpu"];
    let output = bench(&[&cell[..], &["--cold", "--json", &path]].concat());
    assert!(output.status.success() && text(&output.stdout).contains(", cold caches\n"), "{}", text(&output.stderr));
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let row = &document["rows"][0];
    assert_eq!((row["cache"].as_str(), row["runs_per_batch"].as_u64()), (Some("cold"), Some(1)));
    let output = bench(&[&cell[..], &["--compare", &path]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("that report has cold caches"), "{}", text(&output.stderr));
    let output = bench(&[&cell[..], &["--cold", "--compare", &path]].concat());
    let shown = text(&output.stdout);
    assert!(output.status.success() && shown.contains("geometric mean of now / before, cpu: "), "{shown}");
}

/// Every record of the repository can be compared with, and so can older reports, of schema 1.
#[test]
fn records_are_still_read() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut records = [0; 2];
    for folder in ["docs/measurements/h100", "docs/measurements/h200", "tests/data/bench_schema_1"] {
        for file in std::fs::read_dir(root.join(folder)).expect("the records").flatten() {
            let document: Value = match std::fs::read_to_string(file.path()).map(|text| serde_json::from_str(&text)) {
                Ok(Ok(document)) => document,
                _ => continue,
            };
            if document["rows"][0].get("kernel_us").is_some() {
                host::bench::compare::check(&document).expect("a report");
                assert!(!host::bench::compare::is_cold(&document));
                records[usize::from(document["schema"] == 2)] += 1;
            }
        }
    }
    assert!(records[0] == 3 && records[1] >= 20, "{records:?} records of schema 1 and 2");
}

/// What the CPU takes for exact results has a row in each cell: the direct method for `f32`. The CPU's choice has one
/// if it is another method. They are the last rows, in this order.
#[test]
fn the_exact_method_of_the_cpu_is_measured_with_its_choice() {
    let of = |more: &[&str]| {
        let common = ["--sizes", "96x80", "--masks", "31", "--separable", "--device", "cpu"];
        let document = measured(&[&common[..], more].concat());
        let rows = document["rows"].as_array().unwrap().clone();
        for row in &rows {
            assert_eq!(row["backend"], "cpu");
            check_roofline(row);
        }
        assert_eq!(rows[0]["accuracy"], "exact");
        assert!(rows[0]["variant"] == "direct" || rows[0]["pixel"] == "u8", "{}", rows[0]);
        assert_eq!((rows[0]["preferred"].as_bool(), rows[0]["bits_equal_cpu"].as_bool()), (Some(false), None));
        rows
    };
    assert_eq!(of(&["--exact"]).len(), 1);
    for pixel in ["f32", "u8"] {
        let rows = of(&["--pixel", pixel]);
        assert!(rows.len() <= 2, "{rows:?}");
        if let Some(choice) = rows.get(1) {
            assert!(choice["variant"] != "direct" || choice["accuracy"] != "exact", "{choice}");
            assert_eq!(choice["preferred"], true);
            check(choice, "bits_equal_cpu", Kind::Flag);
            assert!(pixel == "f32" || choice["bits_equal_cpu"] == true, "{choice}");
        }
    }
}

/// With a CUDA device: a row for each variant that can, each with the CPU's bits. Without one: the CPU's row.
#[test]
fn auto_measures_what_is_there() {
    let document = measured(&["--sizes", "70x40", "--masks", "5"]);
    let rows = document["rows"].as_array().unwrap();
    let last = rows.last().unwrap();
    assert_eq!(last["backend"], "cpu");
    assert!(last["speedup_vs_cpu"].is_null());
    if document["device"].is_null() {
        assert!(std::env::var_os("HOST_TEST_GPU").is_none(), "HOST_TEST_GPU is set, and there is no GPU");
        assert_eq!(rows.len(), 1);
        return;
    }
    assert!(rows.len() > 1);
    for row in &rows[..rows.len() - 1] {
        assert_eq!((row["backend"].as_str(), row["bits_equal_cpu"].as_bool()), (Some("cuda"), Some(true)));
        check(row, "speedup_vs_cpu", Kind::Positive);
        assert_eq!((row["vs_cpu_variant"].as_str(), row["cpu_method"].as_str()), (Some("direct"), Some("direct")));
        check_roofline(row);
    }
    assert_eq!(rows.iter().filter(|row| row["preferred"] == true).count(), 1);
}

/// The emulator's answers are verified; its times say nothing and are left out.
#[test]
fn the_emulator_is_not_timed() {
    let document = measured(&["--sizes", "21x13", "--masks", "3,129", "--device", "emulator"]);
    assert_eq!(document["device"]["kind"], "emulator");
    let rows = document["rows"].as_array().unwrap();
    let (emulated, cpu): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(|row| row["backend"] == "emulator");
    assert_eq!(cpu.iter().filter(|row| row["accuracy"] == "exact" && row["variant"] == "direct").count(), 2);
    let of_mask = |side: u64| emulated.iter().filter(move |row| row["mask_width"] == side);
    assert!(of_mask(3).count() >= 3);
    assert_eq!(of_mask(3).filter(|row| row["preferred"] == true).count(), 1);
    for row in &emulated {
        assert!(row["bits_equal_cpu"] == true || row["accuracy"] == "bounded", "{row}");
        assert!(row["kernel_us"].is_null() && row["floor_fraction"].is_null() && row["speedup_vs_cpu"].is_null());
        check(row, "error_over_bound", Kind::Amount);
        check(row, "reason", Kind::Text);
    }
    // 16,641 coefficients: more than constant memory holds.
    let refused = document["not_eligible"].as_array().unwrap();
    assert!(refused.iter().any(|one| one["variant"] == "constant_mask" && one["mask_width"] == 129), "{refused:?}");
    assert!(refused.iter().all(|one| one["reason"].as_str().is_some_and(|reason| !reason.is_empty())));

    let one = measured(&["--sizes", "21x13", "--masks", "3", "--device", "emulator", "--variants", "naive,auto,naive"]);
    let variants: Vec<_> = one["rows"].as_array().unwrap().iter().map(|row| row["variant"].as_str().unwrap()).collect();
    assert_eq!(variants.len(), 3, "{variants:?}");
    assert_eq!(variants[0], "naive");
}

/// Exact variants have the CPU's bits, bounded ones name their constant. `--exact` leaves these out.
#[test]
fn the_accuracy_of_each_variant_is_said() {
    let of = |more: &[&str]| {
        let common = ["--sizes", "21x13", "--masks", "5x3", "--separable", "--device", "emulator"];
        let document = measured(&[&common[..], more].concat());
        let rows = document["rows"].as_array().unwrap().iter();
        let of_row = |row: &Value| {
            let (variant, accuracy) = (row["variant"].as_str().unwrap(), row["accuracy"].as_str().unwrap());
            assert!(accuracy == "bounded" || row["backend"] == "cpu" || row["bits_equal_cpu"] == true, "{row}");
            (variant.to_owned(), accuracy.to_owned(), row["error_constant"].as_f64().unwrap())
        };
        rows.map(of_row).collect::<Vec<_>>()
    };
    let row = |variant: &str, accuracy: &str, constant: f64| (variant.to_owned(), accuracy.to_owned(), constant);
    let direct = row("direct", "exact", 15.0);
    let found = of(&["--variants", "naive,exact,separable_ring"]);
    let exact = found[1].0.clone();
    let bounded = row("separable_ring", "bounded", 24.0);
    assert_eq!(found[..4], [row("naive", "exact", 15.0), row(&exact, "exact", 15.0), bounded, direct]);
    // The CPU's choice, if it is not the exact method.
    assert!(found.len() <= 5 && found[4..].iter().all(|(variant, ..)| variant == "separable"), "{found:?}");
    for options in [&["--exact"][..], &["--accuracy", "exact"]] {
        let found = of(options);
        assert!(found.len() > 2 && found.iter().all(|(_, accuracy, _)| accuracy == "exact"), "{found:?}");
    }
}

#[test]
fn the_tables_say_what_was_measured() {
    let output = bench(&["--sizes", "40x30", "--masks", "3x5", "--min-time", "0", "--device", "cpu", "--quick"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for part in [
        "CPU    ",
        "build  host ",
        "40 x 30 (random), f32, mask 3 rows x 5 columns, border zero",
        "  exact, error 0.",
        "1 answer verified",
        "quick:",
    ] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
}

#[test]
fn files_are_written_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (json, csv, markdown, html) = (path("a.json"), path("a.csv"), path("a.md"), path("a.html"));
    std::fs::write(&json, "an older report").unwrap();
    let output = bench(&[
        "--sizes",
        "20",
        "--masks",
        "3",
        "--min-time",
        "0",
        "--device",
        "cpu",
        "--json",
        &json,
        "--csv",
        &csv,
        "--markdown",
        &markdown,
        "--html",
        &html,
    ]);
    let page = std::fs::read_to_string(&html).unwrap();
    let command = "\"command\": \"host bench --sizes 20 --masks 3 --min-time 0 --device cpu\"";
    assert!(page.ends_with("</html>\n") && page.contains("\"width\": 20,") && page.contains(command));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("20 x 20"), "the tables are shown beside");
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let row = &document["rows"][0];

    let csv = std::fs::read_to_string(&csv).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 2);
    let at = lines[0].split(',').rev().position(|name| name == "kernel_us").expect("a column kernel_us");
    // From the end, because the CPU's name may hold commas; the reason, too, is text, but the last.
    let reason = row["reason"].as_str().unwrap();
    if !reason.contains([',', '"']) {
        let field = lines[1].split(',').rev().nth(at).unwrap();
        // serde_json reads numbers to within a last bit or so.
        assert!((field.parse::<f64>().unwrap() / row["kernel_us"].as_f64().unwrap() - 1.0).abs() < 1e-12, "{field}");
    }
    let markdown = std::fs::read_to_string(&markdown).unwrap();
    assert!(markdown.contains("| random 20 x 20, f32 | 3 x 3 | cpu |"), "{markdown}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4, "nothing else is left");
}

#[test]
fn a_picture_is_measured_in_grey() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("colours.png");
    let values = (0..31 * 17 * 3).map(|i| (i * 7 % 256) as u8).collect();
    Picture::from(Image::new(31, 17, 3, values).unwrap()).write(&path, OverwritePolicy::Keep).unwrap();
    let document = measured(&["--image", path.to_str().unwrap(), "--masks", "3", "--device", "cpu"]);
    let row = &document["rows"][0];
    assert_eq!((row["picture"].as_str(), row["width"].as_u64()), (Some("colours.png"), Some(31)));
}

/// Each is refused with status 2 before anything is measured, and the message names what is wrong.
#[test]
fn wrong_arguments() {
    for (arguments, named) in [
        (&["--sizes", "0"][..], "1 x 1"),
        (&["--sizes", "12x"], "12x"),
        (&["--sizes", "nan"], "nan"),
        (&["--sizes", "99999999999"], "99999999999"),
        (&["--sizes", "99999999999999999999999"], "99999999999999999999999"),
        (&["--sizes", "1000000000"], "--sizes"),
        (&["--masks", "0x3"], "1 x 1"),
        (&["--masks", "3.5"], "3.5"),
        (&["--masks", "100000x100000"], "100000x100000"),
        (&["--variants", "fastest"], "naive"),
        (&["--variants", "naive", "--device", "cpu"], "naive"),
        (&["--exact", "--accuracy", "bounded"], "cannot be used with"),
        (&["--exact", "--variants", "naive,separable_ring"], "--variants separable_ring"),
        (&["--accuracy", "high"], "exact, bounded, normwise"),
        (&["--border", "soft"], "soft"),
        (&["--device", "tpu"], "tpu"),
        (&["--min-time", "-1"], "--min-time"),
        (&["--min-time", "nan"], "--min-time"),
        (&["--min-time", "inf"], "--min-time"),
        (&["--min-time", "1e9"], "--min-time"),
        (&["--json", "-", "--csv", "-"], "--csv"),
        (&["--json", "no/such/folder/a.json"], "no/such/folder"),
        (&["--markdown", "."], "--markdown"),
        (&["--image", "no-such-picture.png"], "no-such-picture.png"),
        (&["--image", "a.png", "--sizes", "3"], "--sizes"),
    ] {
        let output = bench(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(named), "{arguments:?}: no {named:?} in: {message}");
        assert!(output.stdout.is_empty(), "{arguments:?}: {}", text(&output.stdout));
        assert!(!message.contains("panicked"), "{message}");
    }
}

#[test]
fn two_reports_need_two_files() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().file_name().unwrap();
    let [one, other] = [folder.path().join("a.csv"), folder.path().join("..").join(name).join("a.csv")];
    let quick = ["--sizes", "8", "--masks", "3", "--device", "cpu", "--min-time", "0"];
    let reports = ["--csv", one.to_str().unwrap(), "--json", other.to_str().unwrap()];
    let output = bench(&[&quick[..], &reports].concat());
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("--json and --csv can't both go to"), "{message}");
    assert!(!one.exists());
}

#[test]
fn a_device_that_is_not_there() {
    let output = bench(&["--device", "cuda:999"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("cuda:999"), "{}", text(&output.stderr));
}
