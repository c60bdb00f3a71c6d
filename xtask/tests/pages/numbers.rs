//! The numbers of a page, compared with the reports that stand in it.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::browser::Seen;

/// Compares the texts of the cells with the documents in the page's data.
pub(crate) fn wrong_numbers(data: &Value, seen: &Seen) -> Vec<String> {
    let lists = ["reports", "python"].into_iter().filter_map(|list| data[list].as_array());
    let documents: HashMap<&str, &Value> =
        lists.flatten().filter_map(|one| Some((one["name"].as_str()?, &one["document"]))).collect();
    let rows: usize = documents.values().filter_map(|document| document["rows"].as_array()).map(Vec::len).sum();
    let mut wrong = Vec::new();
    let mut shown = std::collections::BTreeSet::new();
    for cell in seen.probe["fields"].as_array().into_iter().flatten() {
        let (name, field, text) = (cell[0].as_str(), cell[2].as_str(), cell[3].as_str());
        let (Some(name), Some(row), Some(field), Some(text)) = (name, cell[1].as_u64(), field, text) else {
            wrong.push(format!("a cell without a place: {cell}"));
            continue;
        };
        shown.insert((name, row));
        let value = documents.get(name).map(|document| &document["rows"][row as usize][field]);
        if !value.is_some_and(|value| says(text, field, value)) {
            wrong.push(format!("{name}, row {row}, {field}: {text:?}, not {value:?}"));
        }
    }
    // A row of Python's reports that has no time has no number to compare.
    let silent = documents.values().filter_map(|document| document["rows"].as_array()).flatten();
    let silent = silent.filter(|row| row.get("status").is_some() && row["median_us"].is_null()).count();
    if shown.len() + silent != rows {
        wrong.push(format!("{} of {rows} rows are shown, {silent} have no time", shown.len()));
    }
    wrong
}

/// The geometric mean of each library's times over ours, in the cells and calls that both have.
fn means(data: &Value) -> BTreeMap<String, f64> {
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut ours: HashMap<String, f64> = HashMap::new();
    let mut times: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for report in array(&data["reports"]) {
        let command = report["command"].as_str().unwrap_or_default();
        let separable = report["document"]["separable"].as_bool().unwrap_or(command.contains("--separable"));
        for row in array(&report["document"]["rows"]) {
            let (side, mask) = (&row["width"], &row["mask_width"]);
            let is_plane = row["pixel"] == "f32" && row["channels"] == 1 && !separable && row["picture"] == "random";
            let is_square = *side == row["height"] && *mask == row["mask_height"];
            if is_plane && is_square && row["preferred"] == true && row["backend"] == "cuda" {
                let best = ours.entry(format!("{side} {mask}")).or_insert(f64::INFINITY);
                *best = best.min(row["kernel_us"].as_f64().unwrap_or(f64::INFINITY));
            }
        }
    }
    for cell in array(&data["peers"]["document"]["cells"]) {
        let who = cell["who"].as_str().unwrap_or_default();
        let us = ours.get(&format!("{} {}", cell["n"], cell["k"]));
        if let (Some(us), Some(ms)) = (us, cell["ms"].as_f64()) {
            let who = if who.starts_with("cuda-tile") { "cuda-tile" } else { who };
            times.entry(format!("kernels: {who}")).or_default().push(1e3 * ms / us);
        }
    }
    for report in array(&data["python"]) {
        let rows = array(&report["document"]["rows"]);
        let is_same =
            |a: &Value, b: &Value| ["filter", "type", "side", "arrays"].iter().all(|name| a[*name] == b[*name]);
        for row in rows.iter().filter(|row| row["library"] != "faltung" && row["status"] == "ok") {
            let own = rows.iter().find(|own| own["library"] == "faltung" && is_same(own, row));
            let own = own.and_then(|own| own["median_us"].as_f64());
            if let (Some(own), Some(us), Some(who)) = (own, row["median_us"].as_f64(), row["library"].as_str()) {
                times.entry(format!("calls from Python: {who}")).or_default().push(us / own);
            }
        }
    }
    let mean = |times: &[f64]| times.iter().product::<f64>().powf(1.0 / times.len() as f64);
    times.into_iter().map(|(who, times)| (who, mean(&times))).collect()
}

/// The means of the page that are not those of the data, to three digits.
pub(crate) fn wrong_means(data: &Value, seen: &Seen) -> Vec<String> {
    let shown: BTreeMap<&str, f64> = seen.probe["means"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|mean| {
            Some((mean[0].as_str()?, mean[1].as_str()?.trim_end_matches('x').replace(',', "").parse().ok()?))
        })
        .collect();
    let right = means(data);
    let is_right = |who: &str, mean: f64| shown.get(who).is_some_and(|shown| (shown / mean - 1.0).abs() <= 0.00501);
    let mut wrong: Vec<_> =
        right.iter().filter(|(who, mean)| !is_right(who, **mean)).map(|one| format!("{one:?}")).collect();
    if shown.len() != right.len() {
        wrong.push(format!("{} means are shown, not {}", shown.len(), right.len()));
    }
    wrong
}

/// Whether a text of the page says what a report holds, to three digits.
fn says(text: &str, field: &str, value: &Value) -> bool {
    match value {
        Value::Null => {
            ["not measured", "not recorded", "not compared", "none", "above the measured ceiling"].contains(&text)
        }
        Value::Bool(yes) => text == if *yes { "yes" } else { "no" },
        Value::String(word) => text == word,
        Value::Array(words) if words.is_empty() => text == "nothing",
        Value::Array(words) => words.iter().filter_map(Value::as_str).eq(text.split(", ")),
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            let end = text.find(|c: char| !(c.is_ascii_digit() || ".,-+e".contains(c))).unwrap_or(text.len());
            let Ok(shown) = text[..end].replace(',', "").parse::<f64>() else { return false };
            // Behind Python's times stands the ratio to faltung's, in brackets.
            let unit = text[end..].split(" (").next().unwrap_or_default().trim();
            let (factor, has_unit) = match unit {
                "µs" => (1.0, field.contains("_us")),
                "ms" => (1e3, field.contains("_us")),
                "s" => (1e6, field.contains("_us")),
                "%" => (0.01, field == "floor_fraction"),
                "MHz" => (1.0, field.contains("_mhz")),
                "" => (1.0, !field.contains("_us") && !field.contains("_mhz")),
                // "12.5x separable"
                _ => (1.0, unit.starts_with('x') && field == "speedup_vs_cpu"),
            };
            // Three digits, or a tenth of a per cent.
            let allowed = if field == "floor_fraction" { 0.00501 } else { 0.00501 * number.abs() };
            has_unit && (shown * factor - number).abs() <= allowed
        }
        _ => false,
    }
}
