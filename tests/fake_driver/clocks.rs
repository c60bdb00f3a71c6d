//! `host bench` with a fake NVML: the clocks of a GPU in its reports, and a planted throttle.

use std::fs;
use std::path::Path;

use libtest_mimic::Failed;
use serde_json::{Value, json};

use crate::Test;
use crate::fake::{folder, folder_with_nvml};
use crate::run::{BENCH, command, run};

pub(crate) const TESTS: &[Test] = &[
    ("clocks_are_recorded", clocks_are_recorded),
    ("clocks_of_a_throttled_gpu_are_told", a_throttle_is_told),
    ("clocks_are_null_without_nvml", without_nvml),
];

/// Runs the bench with the libraries of a folder and these states of the GPU. Returns what it says and its report.
fn bench(libraries: &Path, states: &str) -> Result<(String, Value), Failed> {
    let place = tempfile::tempdir()?;
    let mut bench = command(place.path(), &[&BENCH[..], &["--json", "report.json"]].concat());
    bench.env("LD_LIBRARY_PATH", libraries).env("FAKE_NVML", states);
    let text = run(&mut bench, "memory=4194304").well()?.stdout;
    Ok((text, serde_json::from_str(&fs::read_to_string(place.path().join("report.json"))?)?))
}

/// The row of a backend.
fn row<'a>(report: &'a Value, backend: &str) -> &'a Value {
    let rows = report["rows"].as_array().expect("rows");
    rows.iter().find(|row| row["backend"] == backend).expect("a row of each device")
}

fn clocks_are_recorded() -> Result<(), Failed> {
    let (text, report) = bench(folder_with_nvml(), "1980,2619,50,301500,0; 1950,2619,51,402500,1")?;
    assert!(!text.contains("throttled"), "{text}");
    let gpu = row(&report, "cuda");
    for (field, value) in [
        ("sm_mhz_lowest", 1950.0),
        ("sm_mhz_max", 1980.0),
        ("sm_mhz_before", 1980.0),
        ("sm_mhz_after", 1950.0),
        ("memory_mhz_before", 2619.0),
        ("memory_mhz_after", 2619.0),
        ("celsius_before", 50.0),
        ("celsius_after", 51.0),
        ("watts_before", 301.5),
        ("watts_after", 402.5),
    ] {
        assert_eq!(gpu[field].as_f64(), Some(value), "{field} of {gpu}");
    }
    assert_eq!(gpu["throttle_reasons"], json!(["idle"]));
    assert!(row(&report, "cpu")["sm_mhz_lowest"].is_null(), "nobody reads the clocks of a CPU");
    Ok(())
}

/// Between the two readings the clock falls, by power and by temperature.
fn a_throttle_is_told() -> Result<(), Failed> {
    let (text, report) = bench(folder_with_nvml(), "1980,2619,60,300000,0; 1410,2619,84,700000,36")?;
    let note = "throttled: power, temperature; SM clock 1410 of 1980 MHz";
    assert!(text.contains(&format!("cuda naive: {note}")), "{text}");
    assert!(text.contains("1 on a GPU that lowered its clock"), "{text}");
    let gpu = row(&report, "cuda");
    assert_eq!(gpu["throttle_reasons"], json!(["power", "temperature"]));
    assert!(gpu["note"].as_str().is_some_and(|found| found.starts_with(note)), "{gpu}");
    Ok(())
}

/// Without the library, and with one that does not start.
fn without_nvml() -> Result<(), Failed> {
    for (libraries, states) in [(folder(), "1410,2619,84,700000,4"), (folder_with_nvml(), "")] {
        let (text, report) = bench(libraries, states)?;
        assert!(!text.contains("throttled"), "{text}");
        let gpu = row(&report, "cuda");
        assert!(gpu["kernel_us"].is_number() && gpu["sm_mhz_lowest"].is_null(), "{gpu}");
        assert!(gpu["throttle_reasons"].is_null() && gpu["watts_after"].is_null(), "{gpu}");
    }
    Ok(())
}
