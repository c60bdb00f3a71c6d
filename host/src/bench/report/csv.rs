//! The report as CSV: the fields of the JSON document, one line for each row, what all rows share in front.

use serde_json::Value;

use super::{Document, Report};

/// The columns: paths into the document, then fields of a row.
const SHARED: [&str; 14] = [
    "device.name",
    "device.kind",
    "device.compute_capability",
    "device.driver",
    "device.sm_count",
    "cpu.name",
    "cpu.threads",
    "commit",
    "copy_gb_s",
    "fma_tflop_s",
    "seed",
    "min_time_s",
    "page_locked",
    "separable",
];
const OF_ROW: [&str; 52] = [
    "backend",
    "variant",
    "pixel",
    "output",
    "channels",
    "picture",
    "width",
    "height",
    "mask_width",
    "mask_height",
    "border",
    "kernel_us",
    "kernel_us_mad",
    "end_to_end_us",
    "end_to_end_us_mad",
    "first_call_us",
    "first_call_loaded",
    "gpix_s",
    "floor_us",
    "floor_fraction",
    "floor_bound",
    "above_floor",
    "above_floor_reason",
    "max_abs_error",
    "error_over_bound",
    "accuracy",
    "error_constant",
    "bits_equal_cpu",
    "speedup_vs_cpu",
    "vs_cpu_variant",
    "cpu_method",
    "batches",
    "runs_per_batch",
    "cache",
    "kernel_batches_ns",
    "end_to_end_runs_ns",
    "kernel_drift",
    "end_to_end_drift",
    "sm_mhz_lowest",
    "sm_mhz_max",
    "throttle_reasons",
    "sm_mhz_before",
    "sm_mhz_after",
    "memory_mhz_before",
    "memory_mhz_after",
    "celsius_before",
    "celsius_after",
    "watts_before",
    "watts_after",
    "note",
    "preferred",
    "reason",
];

/// What the emulator counts, as fields of a row's `counts`: alone, and for each kind of access.
const COUNTS: [&str; 3] = ["threads", "barriers", "bank_conflicts"];
const ACCESSES: [&str; 5] = ["global_loads", "global_stores", "shared_loads", "shared_stores", "constant_loads"];
const OF_ACCESSES: [&str; 4] = ["threads", "instructions", "transactions", "ideal"];

/// The columns of a row, as paths into it.
fn of_row() -> Vec<String> {
    let fields = OF_ROW.iter().map(|&name| name.to_owned());
    let counts = COUNTS.iter().map(|name| format!("counts.{name}"));
    let accesses = ACCESSES.iter().flat_map(|kind| OF_ACCESSES.map(|name| format!("counts.{kind}.{name}")));
    fields.chain(counts).chain(accesses).collect()
}

/// The value at a path; null where there is none.
fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |value, key| &value[key])
}

/// The report as CSV, a line of names first. What does not apply is empty.
///
/// # Panics
/// Never: see [`super::json`]; and writing to memory does not fail.
#[must_use]
pub fn csv(report: &Report) -> String {
    const IN_MEMORY: &str = "writing to memory does not fail";
    let document = serde_json::to_value(Document::new(report)).expect("numbers, strings, lists and structures");
    let of_row = of_row();
    // The line breaks of RFC 4180.
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let paths = SHARED.into_iter().chain(of_row.iter().map(String::as_str));
    writer.write_record(paths.map(|path| path.replace('.', "_"))).expect(IN_MEMORY);
    let shared = SHARED.map(|path| field(at(&document, path)));
    for row in document["rows"].as_array().into_iter().flatten() {
        let fields = of_row.iter().map(|path| field(at(row, path)));
        writer.write_record(shared.iter().cloned().chain(fields)).expect(IN_MEMORY);
    }
    String::from_utf8(writer.into_inner().expect(IN_MEMORY)).expect("all fields are text")
}

/// A value as a field.
fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) if list.is_empty() => "none".to_owned(),
        Value::Array(list) => list.iter().map(field).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::report;

    /// The paths of all values in an object, nested ones with their keys joined by points.
    fn paths(value: &Value, prefix: &str, found: &mut Vec<String>) {
        for (key, value) in value.as_object().unwrap() {
            let path = format!("{prefix}{key}");
            if value.is_object() { paths(value, &format!("{path}."), found) } else { found.push(path) }
        }
    }

    #[test]
    fn every_field_of_a_row_has_a_column() {
        let document = serde_json::to_value(Document::new(&report())).unwrap();
        let mut fields = Vec::new();
        // The first row is the emulator's, which has counts.
        paths(&document["rows"][0], "", &mut fields);
        let mut columns = of_row();
        fields.sort_unstable();
        columns.sort_unstable();
        assert_eq!(fields, columns);
    }

    #[test]
    fn each_field_comes_back() {
        let report = report();
        let text = csv(&report);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let reason = reader.headers().unwrap().iter().position(|name| name == "reason").unwrap();
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), report.verified().count());
        // Commas and quotes stand in the report's texts.
        assert!(rows.iter().all(|row| row[reason] == *"tiles of 4 x 3 vectors, \"AVX2\""), "{text}");
        assert!(text.lines().count() == 1 + rows.len() && text.contains("\r\n"));
    }
}
