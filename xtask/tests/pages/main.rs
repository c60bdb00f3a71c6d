//! The pages of measurements and the book in a browser: no error of a script, each number as in its report, nothing
//! wider than the window, text that can be read on light and on dark pages. Screenshots stay in target/screenshots.
//!
//! A harness of its own, because the tests need Chromium or Chrome: without one they are reported as ignored.
//! HOST_TEST_BROWSER=require makes that a failure, and a path in its place names the browser.

mod browser;
mod numbers;
mod shots;

use std::env;
use std::fs;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};
use xtask::report::{Page, fits, page, pages};

use crate::browser::{Browser, Seen, Shown, browser, browser_is_missing};
use crate::numbers::{wrong_means, wrong_numbers};

fn main() -> ExitCode {
    let wanted = env::var("HOST_TEST_BROWSER").unwrap_or_default();
    let found = browser(&wanted);
    if found.is_none() {
        let what = if wanted == "require" { "will fail" } else { "are ignored" };
        println!("the tests in a browser {what}: there is no chromium and no google-chrome in PATH");
    }
    let with_browser = move |test: fn(&Browser) -> Result<(), Failed>| {
        let found = found.clone();
        move || test(&Browser::new(&found.ok_or("there is no browser")?)?)
    };
    let ignored = browser_is_missing(&wanted);
    let in_browser = |name: &str, test| Trial::test(name, with_browser(test)).with_ignored_flag(ignored);
    // CI builds the book before.
    let no_book = wanted != "require" && !shots::book().join("index.html").is_file();
    if no_book {
        println!("the test of the book is ignored: `cargo xtask book` makes the book");
    }
    let trials = vec![
        // The longest ones first.
        Trial::test("screenshots_of_the_book", with_browser(shots::of_the_book)).with_ignored_flag(ignored || no_book),
        in_browser("screenshots_of_the_pages", shots::pages),
        Trial::test("a_command_that_does_not_fit_is_found", a_command_that_does_not_fit_is_found),
        Trial::test("data_does_not_end_its_element", data_does_not_end_its_element),
        in_browser("pages_show_the_numbers_of_their_reports", pages_show_the_numbers_of_their_reports),
        in_browser("pages_fit_a_narrow_window_in_light_and_dark", pages_fit_a_narrow_window_in_light_and_dark),
        in_browser("planted_defects_are_found", planted_defects_are_found),
        in_browser("a_page_of_one_report_is_whole", a_page_of_one_report_is_whole),
        in_browser("cold_and_warm_caches_stand_beside_each_other", cold_and_warm_caches_stand_beside_each_other),
        in_browser("a_throttle_is_told", a_throttle_is_told),
        in_browser("rows_above_the_roofline_are_not_far_from_it", rows_above_the_roofline_are_not_far_from_it),
        in_browser("disturbed_times_are_in_no_claim", disturbed_times_are_in_no_claim),
    ];
    // Two browsers at a time: one alone uses a core for some 60 % of its time.
    libtest_mimic::run(&Arguments { test_threads: Some(2), ..Arguments::from_args() }, trials).exit_code()
}

/// What is wrong with a page that must fit the window.
fn problems(seen: &Seen, width: u32, dark: bool) -> Vec<String> {
    let mut found = seen.console.clone();
    for what in ["problems", "wide", "pale"] {
        let list = seen.probe[what].as_array().into_iter().flatten();
        found.extend(list.map(|one| format!("{what}: {one}")));
    }
    let mut require = |holds: bool, what: &str| {
        if !holds {
            found.push(what.to_owned());
        }
    };
    require(seen.probe["width"] == width, &format!("the window is {} wide, not {width}", seen.probe["width"]));
    require(seen.probe["dark"] == dark, "the page has the other colours");
    require(seen.probe["sorts"] == true, "a click on a title does not sort");
    require(seen.probe["tips"] == true, "a mark has no tip");
    let count = |what: &str| seen.probe[what].as_array().map_or(0, Vec::len);
    require(count("sections") + count("empty") == 11, "a section is missing");
    found
}

fn all() -> Result<Vec<Page>, Failed> {
    Ok(pages(&xtask::root()).map_err(|error| format!("{error:#}"))?)
}

fn none(what: &str, wrong: Vec<String>) -> Result<(), Failed> {
    let (count, some) = (wrong.len(), wrong.iter().take(5).map(String::as_str).collect::<Vec<_>>().join("\n"));
    if count == 0 { Ok(()) } else { Err(format!("{what}: {count} problems, the first are\n{some}").into()) }
}

fn pages_show_the_numbers_of_their_reports(browser: &Browser) -> Result<(), Failed> {
    for page in all()? {
        let data: Value = serde_json::from_str(&page.data)?;
        let seen = browser.see(Shown::Html(&page.html()), 1280, false)?;
        none(&page.name, problems(&seen, 1280, false))?;
        none(&page.name, wrong_numbers(&data, &seen))?;
        none(&page.name, wrong_means(&data, &seen))?;
        // Each report is linked, with its command.
        let has =
            |list: &str, text: &str| seen.probe[list].as_array().is_some_and(|all| all.iter().any(|one| one == text));
        let missing = page.files.iter().filter(|file| !has("links", &format!("measurements/{file}")));
        none(&page.name, missing.map(|file| format!("no link to {file}")).collect())?;
        let commands = data["reports"].as_array().into_iter().flatten().filter_map(|report| report["command"].as_str());
        let missing = commands.filter(|command| !has("commands", command));
        none(&page.name, missing.map(|command| format!("no command {command}")).collect())?;
    }
    Ok(())
}

fn pages_fit_a_narrow_window_in_light_and_dark(browser: &Browser) -> Result<(), Failed> {
    for page in all()? {
        for dark in [false, true] {
            let seen = browser.see(Shown::Html(&page.html()), 400, dark)?;
            none(&format!("{}, dark: {dark}", page.name), problems(&seen, 400, dark))?;
        }
    }
    Ok(())
}

/// The checks above find what they are for.
fn planted_defects_are_found(browser: &Browser) -> Result<(), Failed> {
    let page = all()?.into_iter().find(|page| page.name == "h100").ok_or("there is no page h100")?;
    let data: Value = serde_json::from_str(&page.data)?;
    let html = page.html();
    let planted = |from: &str, to: &str| {
        let changed = html.replacen(from, to, 1);
        if changed == html { Err(Failed::from(format!("nothing to change: {from}"))) } else { Ok(changed) }
    };
    // A number of the first row, one per cent off.
    let time = data["reports"][0]["document"]["rows"][0]["kernel_us"].as_f64().ok_or("a time")?;
    let off = planted(&format!("\"kernel_us\": {time}"), &format!("\"kernel_us\": {}", 1.01 * time))?;
    let found = wrong_numbers(&data, &browser.see(Shown::Html(&off), 1280, false)?);
    if found.len() != 1 || !found[0].contains("row 0, kernel_us") {
        return Err(format!("a wrong number: {} problems", found.len()).into());
    }
    // An arithmetic mean.
    let arithmetic = planted(
        "Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0)",
        "(values.reduce((sum, value) => sum + value, 0)",
    )?;
    if wrong_means(&data, &browser.see(Shown::Html(&arithmetic), 1280, false)?).is_empty() {
        return Err("an arithmetic mean was taken for a geometric one".into());
    }
    for (what, from, to) in [
        ("CONSOLE", "const SECTIONS = [", "setTimeout(() => missing.name); const SECTIONS = ["),
        ("problems: ", "function accuracy() {", "function accuracy() { null.length;"),
        ("wide: ", "<p id=\"machine\">", "<p style=\"width: 450px\">wide</p><p id=\"machine\">"),
        ("pale: ", "--quiet: light-dark(#545c66,", "--quiet: light-dark(#bbbbbb,"),
        ("does not sort", "show(sorted(list, column.sort, up));", ""),
    ] {
        let found = problems(&browser.see(Shown::Html(&planted(from, to)?), 400, false)?, 400, false);
        if !found.iter().any(|one| one.contains(what)) {
            return Err(format!("{what:?} was not found among {} problems", found.len()).into());
        }
    }
    Ok(())
}

/// The report with what schema 2 has added.
fn of_schema_2(report: &str) -> Result<String, Failed> {
    let mut report: Value = serde_json::from_str(report)?;
    report["schema"] = 2.into();
    for row in report["rows"].as_array_mut().ok_or("rows")? {
        row["cache"] = "cold".into();
        row["kernel_batches_ns"] = "5012345 5013456".into();
        row["note"] = "drift: kernel: times rise by 5.9 % from the first third to the last".into();
        row["sm_mhz_lowest"] = 1410.into();
        row["throttle_reasons"] = json!(["power", "temperature"]);
    }
    Ok(report.to_string())
}

/// The page of `host bench --html`: one report, no file beside it.
fn a_page_of_one_report_is_whole(browser: &Browser) -> Result<(), Failed> {
    for (file, schema) in [
        ("tests/data/bench_schema_1/fft-8192.json", 1),
        ("tests/data/bench_schema_1/separable-8192.json", 1),
        ("docs/measurements/h100/u8-8192.json", 2),
    ] {
        let document = fs::read_to_string(xtask::root().join(file))?;
        let document = if schema == 1 { document } else { of_schema_2(&document)? };
        let data = format!("{{\"reports\":[{{\"name\":\"report\",\"document\":{document}}}]}}");
        let seen = browser.see(Shown::Html(&page::fill("One report", &data)), 400, true)?;
        none(file, problems(&seen, 400, true))?;
        none(file, wrong_numbers(&serde_json::from_str(&data)?, &seen))?;
        let links = seen.probe["links"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let strange = links.filter(|link| !link.starts_with('#') && !link.starts_with("blob:"));
        none(file, strange.map(|link| format!("a link to {link}")).collect())?;
    }
    Ok(())
}

/// A report, changed, as a page of its own.
fn changed(file: &str, change: impl Fn(&mut Value)) -> Result<Value, Failed> {
    let text = fs::read_to_string(xtask::root().join("docs/measurements").join(file))?;
    let mut report: Value = serde_json::from_str(&text)?;
    report["rows"].as_array_mut().ok_or("rows")?.iter_mut().for_each(change);
    Ok(report)
}

/// The page of some reports.
fn page_of(reports: &[Value]) -> String {
    let reports = reports.iter().enumerate();
    let reports: Vec<Value> =
        reports.map(|(i, document)| json!({"name": format!("{i}"), "document": document})).collect();
    page::fill("Reports", &json!({ "reports": reports }).to_string())
}

/// Two reports of the same cells: in the second one all times are tenfold, and the caches were cold.
fn cold_and_warm_caches_stand_beside_each_other(browser: &Browser) -> Result<(), Failed> {
    let file = "h100/separable-8192.json";
    let tenfold = |row: &mut Value| {
        row["cache"] = "cold".into();
        for field in ["kernel_us", "end_to_end_us"] {
            row[field] = (10.0 * row[field].as_f64().unwrap_or(f64::NAN)).into();
        }
    };
    let (warm, cold) = (changed(file, |_| ())?, changed(file, tenfold)?);
    let table = |reports: &[Value]| -> Result<Vec<Vec<String>>, Failed> {
        let seen = browser.see(Shown::Html(&page_of(reports)), 1280, false)?;
        none(file, problems(&seen, 1280, false))?;
        Ok(serde_json::from_value(seen.probe["caches"].clone())?)
    };
    let beside = table(&[warm.clone(), cold])?;
    assert_eq!(
        beside[0][4..],
        ["end to end, cold caches", "end to end, warm caches", "kernel, cold caches", "kernel, warm caches"]
    );
    assert!(beside.len() > 6, "a line for each mask and device: {beside:?}");
    // "1.5 ms" and "150 µs": ten times as long, to three digits.
    let us = |text: &str| -> Option<f64> {
        let (number, unit) = text.trim_end_matches(" (disturbed)").split_once(' ')?;
        let factor = [("µs", 1.0), ("ms", 1e3), ("s", 1e6)].into_iter().find(|(name, _)| *name == unit)?.1;
        Some(number.replace(',', "").parse::<f64>().ok()? * factor)
    };
    for line in &beside[1..] {
        for pair in line[4..].chunks(2) {
            let times = us(&pair[0]).zip(us(&pair[1])).map(|(cold, warm)| cold / warm);
            if !times.is_some_and(|times| (9.9..10.1).contains(&times)) {
                return Err(format!("{line:?}").into());
            }
        }
    }
    let alone = table(&[warm])?;
    if alone[0].iter().any(|title| title.contains("cold")) || alone.len() != beside.len() {
        return Err(format!("no report has cold caches: {:?}", alone[0]).into());
    }
    Ok(())
}

/// A throttle is among what to know before a number is used.
fn a_throttle_is_told(browser: &Browser) -> Result<(), Failed> {
    let told = |note: Option<&str>| -> Result<String, Failed> {
        let report = changed("h100/separable-8192.json", |row| {
            if row["backend"] == "cuda" {
                row["note"] = note.into();
            }
        })?;
        let seen = browser.see(Shown::Html(&page_of(&[report])), 400, true)?;
        none("throttled", problems(&seen, 400, true))?;
        Ok(seen.probe["short"].as_str().unwrap_or_default().to_owned())
    };
    let note = "throttled: power; SM clock 1410 of 1980 MHz";
    if told(None)?.contains("lowered its clock") || !told(Some(note))?.contains("The GPU lowered its clock in ") {
        return Err("the summary does not tell of a throttle, or tells of one that was not".into());
    }
    Ok(())
}

/// What the summary of a page says.
fn summary(browser: &Browser, html: &str) -> Result<String, Failed> {
    let seen = browser.see(Shown::Html(html), 1280, true)?;
    none("the page of one report", problems(&seen, 1280, true))?;
    Ok(seen.probe["short"].as_str().unwrap_or_default().to_owned())
}

/// Four of the six cells of this report have no share, because they are faster than the measured rates allow.
fn rows_above_the_roofline_are_not_far_from_it(browser: &Browser) -> Result<(), Failed> {
    let file = "h100/u8-separable-8192.json";
    let without_share = changed(file, |row| row["floor_fraction"] = Value::Null)?;
    let told = summary(browser, &page_of(&[without_share]))?;
    if told.contains("Far from the limit") || !told.contains("Above the roofline:") {
        return Err(format!("rows without a share: {told}").into());
    }
    let told = summary(browser, &page_of(&[changed(file, |row| row["floor_fraction"] = 0.3.into())?]))?;
    if !told.contains("Far from the limit") || told.contains("Above the roofline:") {
        return Err(format!("rows with a share of 30 %: {told}").into());
    }
    Ok(())
}

/// An end-to-end time above the first call, or with runs that differ by more than a factor of two.
fn disturbed_times_are_in_no_claim(browser: &Browser) -> Result<(), Failed> {
    let page = |end_to_end_us: f64, runs: &str| -> Result<String, Failed> {
        let report = changed("h100/f32-rgb-separable-4096.json", |row| {
            row["first_call_us"] = 9e3.into();
            row["end_to_end_us"] = end_to_end_us.into();
            row["end_to_end_runs_ns"] = runs.into();
        })?;
        Ok(page_of(&[report]))
    };
    let claims = |told: &str| told.contains("From host memory and back");
    for (what, us, runs, holds) in [
        ("quiet", 4e3, "4000000 4100000", true),
        ("above the first call", 1e4, "9900000 10000000", false),
        ("runs that differ", 4e3, "4000000 8100000", false),
    ] {
        let html = page(us, runs)?;
        let told = summary(browser, &html)?;
        if claims(&told) != holds || told.contains("Disturbed:") == holds {
            return Err(format!("{what}: {told}").into());
        }
        // A page that does not look for disturbances makes the claim.
        let blind = html.replacen("disturbed: isDisturbed(row)", "disturbed: false", 1);
        if blind == html || !claims(&summary(browser, &blind)?) {
            return Err(format!("{what}: the claim does not depend on the disturbance").into());
        }
    }
    Ok(())
}

fn data_does_not_end_its_element() -> Result<(), Failed> {
    let html = page::fill("a < b & c", "{\"notes\":[\"</script><b> {{title}}\"]}");
    let kept = html.contains("{\"notes\":[\"\\u003c/script>\\u003cb> {{title}}\"]}");
    if kept && html.contains("<title>a &lt; b &amp; c</title>") { Ok(()) } else { Err("not escaped".into()) }
}

fn a_command_that_does_not_fit_is_found() -> Result<(), Failed> {
    let report = fs::read_to_string(xtask::root().join("tests/data/bench_schema_1/u8-rgb-4096.json"))?;
    let report: Value = serde_json::from_str(&report)?;
    let command = "host bench --pixel u8 --channels 3 --sizes 4096x2048 --masks 3,5,7,9,11,13 --min-time 0.08";
    fits(command, &report).map_err(|error| format!("{error:#}"))?;
    // A report of cold caches.
    let mut cold = report.clone();
    cold["rows"].as_array_mut().ok_or("rows")?.iter_mut().for_each(|row| row["cache"] = "cold".into());
    fits(&format!("{command} --cold"), &cold).map_err(|error| format!("{error:#}"))?;
    if fits(command, &cold).is_ok() {
        return Err("a report of cold caches was taken for one of warm caches".into());
    }
    for (from, to) in [
        ("u8", "u16"),
        ("--channels 3", ""),
        ("4096x2048", "4096"),
        ("11,13", "13"),
        ("0.08", "0.1"),
        ("--min-time", "--page-locked --min-time"),
        ("--min-time", "--cold --min-time"),
        ("host bench", "host"),
    ] {
        let wrong = command.replacen(from, to, 1);
        if fits(&wrong, &report).is_ok() {
            return Err(format!("{wrong} was taken").into());
        }
    }
    Ok(())
}
