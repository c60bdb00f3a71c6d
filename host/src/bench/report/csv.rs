//! The report as CSV: the fields of the JSON document, one line for each row, what all rows share in front.

use serde_json::Value;

use super::{Document, Report};

/// The columns: paths into the document, then fields of a row.
const SHARED: [&str; 12] = [
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
];
const OF_ROW: [&str; 28] = [
    "backend",
    "variant",
    "pixel",
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
    "max_abs_error",
    "error_over_bound",
    "bits_equal_cpu",
    "speedup_vs_cpu",
    "batches",
    "runs_per_batch",
    "preferred",
    "reason",
];

/// The report as CSV, a line of names first. What does not apply is empty.
///
/// # Panics
/// Never: see [`super::json`].
#[must_use]
pub fn csv(report: &Report) -> String {
    let document = serde_json::to_value(Document::new(report)).expect("numbers, strings, lists and structures");
    let names = SHARED.iter().chain(&OF_ROW).map(|name| name.replace('.', "_")).collect::<Vec<_>>();
    let mut text = names.join(",") + "\r\n";
    let shared: Vec<String> =
        SHARED.iter().map(|path| field(path.split('.').fold(&document, |value, key| &value[key]))).collect();
    for row in document["rows"].as_array().into_iter().flatten() {
        let of_row = OF_ROW.iter().map(|name| field(&row[*name]));
        let fields: Vec<String> = shared.iter().cloned().chain(of_row).collect();
        text += &(fields.join(",") + "\r\n");
    }
    text
}

/// A value as a field, quoted by RFC 4180 where it must be.
fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains(['"', ',', '\n', '\r']) => format!("\"{}\"", text.replace('"', "\"\"")),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::report;

    #[test]
    fn every_field_of_a_row_has_a_column() {
        let document = serde_json::to_value(Document::new(&report())).unwrap();
        let mut fields: Vec<_> = document["rows"][0].as_object().unwrap().keys().map(String::as_str).collect();
        let mut columns = OF_ROW.to_vec();
        fields.sort_unstable();
        columns.sort_unstable();
        assert_eq!(fields, columns);
    }

    #[test]
    fn commas_and_quotes_are_quoted() {
        assert_eq!(field(&Value::from("a,b \"c\"")), "\"a,b \"\"c\"\"\"");
        assert_eq!(field(&Value::Null), "");
        assert_eq!(field(&Value::from(0.25)), "0.25");
        let text = csv(&report());
        assert_eq!(text.lines().count(), 1 + report().verified().count());
    }
}
