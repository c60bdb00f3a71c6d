//! A report beside an older one: ratios of kernel times, and whether they are more than the spread.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::report::{Document, Report, SCHEMA};
use super::stats::{RUN_TO_RUN, STANDARD_ERRORS, geometric_mean, median_interval};
use crate::text_table::{TextColumn, text_table};
use crate::units::{plural, time};

/// Kernel times of one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// The median of the batches, in microseconds.
    pub median: f64,
    /// Their median absolute deviation.
    pub mad: f64,
    /// How many batches there were.
    pub batches: f64,
    /// How far the true median may be below and above, as shares of it, by the batches themselves. None if the report
    /// does not have them, or too few.
    pub interval: Option<(f64, f64)>,
}

impl Times {
    /// The times of a row of a report; None if it has none.
    fn of(row: &Value) -> Option<Self> {
        let of = |name: &str| row[name].as_f64().filter(|value| value.is_finite() && *value >= 0.0);
        let batches = row["kernel_batches_ns"].as_str().unwrap_or_default().split_ascii_whitespace();
        let batches: Option<Vec<f64>> = batches.map(|batch| batch.parse().ok()).collect();
        let interval = batches.and_then(|batches| median_interval(&batches));
        let times = Self { median: of("kernel_us")?, mad: of("kernel_us_mad")?, batches: of("batches")?, interval };
        (times.median > 0.0 && times.batches >= 1.0).then_some(times)
    }

    /// The standard error of the median as a share of it, as for a normal distribution: there a standard deviation is
    /// 1.4826 deviations, and the error of a median 1.2533 times that of a mean.
    fn error(self) -> f64 {
        1.4826 * 1.2533 * self.mad / self.median / self.batches.sqrt()
    }
}

/// What a ratio of two times says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The spread explains the ratio.
    NoDifference,
    /// The new time is longer, by at least and at most these shares.
    Slower(f64, f64),
    /// The new time is shorter, by at least and at most these shares.
    Faster(f64, f64),
}

impl Verdict {
    /// Compares a new time with an old one.
    #[must_use]
    pub fn of(new: Times, old: Times) -> Self {
        let ratio = new.median / old.median;
        let (down, up) = match (new.interval, old.interval) {
            // A ratio is least where the new time is low and the old one is high.
            (Some(new), Some(old)) => (new.0.hypot(old.1), new.1.hypot(old.0)),
            _ => [STANDARD_ERRORS * new.error().hypot(old.error()); 2].into(),
        };
        let (least, most) = (ratio * (1.0 - RUN_TO_RUN - down), ratio * (1.0 + RUN_TO_RUN + up));
        if least > 1.0 {
            Self::Slower(least - 1.0, most - 1.0)
        } else if most < 1.0 {
            Self::Faster(1.0 - most, 1.0 - least)
        } else {
            Self::NoDifference
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, least, most) = match *self {
            Self::NoDifference => return f.write_str("no difference"),
            Self::Slower(least, most) => ("slower", least, most),
            Self::Faster(least, most) => ("faster", least, most),
        };
        match (format!("{:.0}", 100.0 * least), format!("{:.0}", 100.0 * most)) {
            (least, most) if least == most => write!(f, "{what} by {least} %"),
            (least, most) => write!(f, "{what} by {least} to {most} %"),
        }
    }
}

/// What makes two rows comparable. Rows of older programs have no `output`, and no `cache`: theirs were warm.
fn key(row: &Value) -> String {
    let output = if row["output"].is_null() { &row["pixel"] } else { &row["output"] };
    let names = ["backend", "variant", "pixel", "channels", "picture", "width", "height", "mask_width", "mask_height"];
    let fields: Vec<_> = names.iter().map(|name| row[*name].to_string()).collect();
    format!("{} {output} {} {}", fields.join(" "), row["border"], row["cache"] == "cold")
}

/// The rows of a report that an older one has too, as a table.
///
/// # Errors
/// The older document is no report of `host bench --json`.
pub fn compare(report: &Report, old: &Value) -> Result<String, &'static str> {
    let new = serde_json::to_value(Document::new(report)).map_err(|_| "the new report can't be written")?;
    table(&new, old)
}

/// Whether a document is a report with rows.
///
/// # Errors
/// It is not; what is missing.
pub fn check(document: &Value) -> Result<(), &'static str> {
    if !(1..=SCHEMA).any(|schema| document["schema"] == schema) {
        return Err("no report of host bench --json with schema 1 or 2");
    }
    document["rows"].as_array().map(drop).ok_or("a report without rows")
}

/// The name of separable masks, or of the others.
#[must_use]
pub fn name_of_masks(separable: bool) -> &'static str {
    if separable { "Gaussian" } else { "random" }
}

/// Which masks a report has. None if it does not say.
#[must_use]
pub fn masks(document: &Value) -> Option<&str> {
    // Older programs wrote whether masks were separable, or nothing. All their masks were random.
    let of_older = |separable| if separable { "random separable" } else { "random" };
    document["masks"].as_str().or_else(|| document["separable"].as_bool().map(of_older))
}

/// Whether the caches were cold.
#[must_use]
pub fn is_cold(document: &Value) -> bool {
    document["rows"].as_array().into_iter().flatten().any(|row| row["cache"] == "cold")
}

fn table(new: &Value, old: &Value) -> Result<String, &'static str> {
    check(old)?;
    if masks(old).is_some_and(|of_old| Some(of_old) != masks(new)) {
        return Err("reports with different masks can't be compared");
    }
    let rows = |document: &Value| document["rows"].as_array().cloned().unwrap_or_default();
    let known: HashMap<String, Times> = rows(old).iter().filter_map(|row| Some((key(row), Times::of(row)?))).collect();
    let columns = [
        TextColumn::left("backend"),
        TextColumn::left("variant"),
        TextColumn::left("cell"),
        TextColumn::right("before"),
        TextColumn::right("now"),
        TextColumn::right("now / before"),
        TextColumn::left("verdict"),
    ];
    let mut lines = Vec::new();
    let mut ratios: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut others = 0;
    for row in rows(new) {
        let (Some(now), Some(&before)) = (Times::of(&row), known.get(&key(&row))) else {
            others += 1;
            continue;
        };
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let ratio = now.median / before.median;
        ratios.entry(text("backend")).or_default().push(ratio);
        lines.push(vec![
            text("backend"),
            text("variant"),
            format!("{} x {}, mask {} x {}", row["width"], row["height"], row["mask_height"], row["mask_width"]),
            time(before.median),
            time(now.median),
            format!("{ratio:.3}"),
            Verdict::of(now, before).to_string(),
        ]);
    }
    let mut out = String::new();
    for (what, place) in [("GPU or CPU", "/device/name"), ("CPU", "/cpu/name")] {
        let (now, before) = (new.pointer(place), old.pointer(place));
        if now != before {
            out += &format!("another {what} than in the older report: the times are of two machines\n");
        }
    }
    if !lines.is_empty() {
        out += &text_table(&columns, lines);
        for (backend, ratios) in &ratios {
            if let Some(mean) = geometric_mean(ratios) {
                out += &format!(
                    "geometric mean of now / before, {backend}: {mean:.3} over {}\n",
                    plural(ratios.len(), "row")
                );
            }
        }
        out += "every row weighs alike in a mean, whatever its time, and one slower row can hide behind faster ones\n";
    }
    out += &format!("{others} of the rows have no time, or none in the older report\n");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::report;
    use crate::bench::stats::{Summary, synthetic};

    /// The times of batches: with a deviation alone, or with the interval of the batches.
    fn of(batches: &[f64], has_batches: bool) -> Times {
        let Summary { median, mad, count } = Summary::of(batches).expect("finite numbers");
        Times { median, mad, batches: count as f64, interval: median_interval(batches).filter(|_| has_batches) }
    }

    /// A report of either schema, with samples and without.
    #[test]
    fn a_slowdown_of_10_percent_is_told_and_noise_is_not() {
        for has_batches in [false, true] {
            slowdown(has_batches);
        }
    }

    fn slowdown(has_batches: bool) {
        const SEED: u64 = 20_261;
        const TRIALS: usize = 500;
        let mut random = fastrand::Rng::with_seed(SEED);
        // Times of batches that scatter by about 1 % around a mean.
        let measured = |random: &mut fastrand::Rng, mean: f64| {
            let batches: Vec<f64> = synthetic::normal(random, 15, 1.0).iter().map(|time| mean / 100.0 * time).collect();
            of(&batches, has_batches)
        };
        let (mut alarms, mut missed, mut outside) = (0, 0, 0);
        for _ in 0..TRIALS {
            let (old, same) = (measured(&mut random, 100.0), measured(&mut random, 100.0));
            alarms += usize::from(Verdict::of(same, old) != Verdict::NoDifference);
            let slow = measured(&mut random, 110.0);
            match Verdict::of(slow, old) {
                Verdict::Slower(least, most) => outside += usize::from(!(least..=most).contains(&0.1)),
                _ => missed += 1,
            }
            assert!(matches!(Verdict::of(old, slow), Verdict::Faster(..)), "seed {SEED}");
        }
        println!("seed {SEED}: {alarms} false alarms, {missed} missed, {outside} outside, of {TRIALS}");
        assert!(alarms * 100 <= TRIALS && missed == 0 && outside * 100 <= TRIALS, "seed {SEED}");
    }

    /// A wide spread takes the verdict away; nothing else does.
    #[test]
    fn the_spread_decides() {
        let times = |median, mad| Times { median, mad, batches: 9.0, interval: None };
        assert_eq!(Verdict::of(times(110.0, 0.0), times(100.0, 0.0)).to_string(), "slower by 9 to 11 %");
        assert_eq!(Verdict::of(times(100.0, 0.0), times(110.0, 0.0)).to_string(), "faster by 8 to 10 %");
        assert_eq!(Verdict::of(times(110.0, 6.0), times(100.0, 6.0)).to_string(), "no difference");
    }

    /// A clock with two states: most batches take 110, many 100. Their deviation is 0, and the median could as well be
    /// 100.
    #[test]
    fn samples_show_a_spread_that_the_deviation_hides() {
        let batches: Vec<f64> = (0..60).map(|i| if i % 9 < 4 { 100.0 } else { 110.0 }).collect();
        let verdict = |has_batches| Verdict::of(of(&batches, has_batches), of(&[100.0; 60], has_batches));
        assert_eq!(verdict(false).to_string(), "slower by 9 to 11 %");
        assert_eq!(verdict(true), Verdict::NoDifference);
        // One side has no samples: what is known of both counts.
        assert_eq!(Verdict::of(of(&batches, true), of(&[100.0; 60], false)), verdict(false));
    }

    /// Reports of schema 1 have no samples, no `cache`, and are compared as before.
    #[test]
    fn reports_of_both_schemas_are_read() {
        let mut new = serde_json::to_value(Document::new(&report())).expect("JSON");
        new["rows"][1]["kernel_batches_ns"] = ["36000"; 9].join(" ").into();
        let mut old = new.clone();
        old["schema"] = 1.into();
        for row in old["rows"].as_array_mut().expect("rows") {
            let row = row.as_object_mut().expect("a row");
            row.retain(|name, _| !["cache", "kernel_batches_ns", "end_to_end_runs_ns"].contains(&name.as_str()));
        }
        assert!(Times::of(&new["rows"][1]).is_some_and(|times| times.interval.is_some()));
        assert!(Times::of(&old["rows"][1]).is_some_and(|times| times.interval.is_none()));
        assert!(table(&new, &old).is_ok_and(|text| text.contains("no difference")));
        old["schema"] = 3.into();
        assert!(check(&old).is_err());
        // What is no time is no sample.
        new["rows"][1]["kernel_batches_ns"] = ["36000", "fast"].repeat(9).join(" ").into();
        assert!(Times::of(&new["rows"][1]).is_some_and(|times| times.interval.is_none()));
    }

    /// Another state of the caches is another cell.
    #[test]
    fn cold_times_are_not_compared_with_warm_ones() {
        let mut cold = report();
        cold.cells[0].cold = true;
        let of = |report| serde_json::to_value(Document::new(report)).expect("JSON");
        let (warm, cold) = (of(&report()), of(&cold));
        assert!(is_cold(&cold) && !is_cold(&warm));
        assert!(table(&cold, &warm).is_ok_and(|text| text.contains("2 of the rows have no") && !text.contains("mean")));
        assert!(table(&cold, &cold).is_ok_and(|text| text.contains("1 of the rows have no")));
    }

    /// By hand: sqrt(1.5 * 0.75) = 1.061. Rows that one report has alone do not count.
    #[test]
    fn the_mean_is_over_the_rows_of_both() {
        let mut new = serde_json::to_value(Document::new(&report())).expect("JSON");
        let row = new["rows"][1].clone();
        new["rows"] = [3, 5, 7]
            .map(|side: u32| {
                let mut row = row.clone();
                row["mask_width"] = side.into();
                row
            })
            .to_vec()
            .into();
        let mut old = new.clone();
        for (row, side, times) in [(0, 3, 1.5), (1, 5, 0.75), (2, 9, 100.0)] {
            old["rows"][row]["mask_width"] = side.into();
            old["rows"][row]["kernel_us"] = (12.0 / times).into();
        }
        let text = table(&new, &old).expect("a table");
        assert!(text.contains("geometric mean of now / before, cpu: 1.061 over 2 rows\nevery row weighs"), "{text}");
    }

    #[test]
    fn a_report_is_compared_row_by_row() {
        let mut new = serde_json::to_value(Document::new(&report())).expect("JSON");
        let mut old = new.clone();
        // Both rows of that report are one problem; the emulator's has no time.
        old["rows"][1]["kernel_us"] = (12.0 / 1.5).into();
        let text = table(&new, &old).expect("a table");
        assert!(
            text.contains("1.500") && text.contains("slower by ") && text.contains("1 of the rows have no"),
            "{text}"
        );
        old["rows"][1]["kernel_us"] = 12.0.into();
        assert!(table(&new, &old).is_ok_and(|text| text.contains("no difference")));
        // Another cell is not compared; neither is another machine taken for this one.
        old["rows"][1]["mask_width"] = 7.into();
        old["cpu"]["name"] = "another".into();
        let text = table(&new, &old).expect("a table");
        assert!(text.contains("another CPU") && text.contains("2 of the rows have no") && !text.contains("verdict"));
        old["masks"] = Value::Null;
        assert!(table(&new, &old).is_ok());
        // Separable masks of older reports are random, too, but not those of a report without separable masks.
        old["separable"] = true.into();
        assert!(table(&new, &old).is_err() && check(&Value::Null).is_err());
        new["masks"] = "Gaussian".into();
        assert!(table(&new, &old).is_err());
    }
}
