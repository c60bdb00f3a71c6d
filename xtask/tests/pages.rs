//! The pages of measurements in a browser: no error of a script, each number as in its report, nothing wider than the
//! window, text that can be read on light and on dark pages.
//!
//! A harness of its own, because the tests need Chromium or Chrome: without one they are reported as ignored.
//! HOST_TEST_BROWSER=require makes that a failure, and a path in its place names the browser.

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use xtask::process::finish;
use xtask::report::{Page, fits, page, pages};

/// What a reader would see of a page, as JSON.
const PROBE: &str = include_str!("probe.js");

fn main() -> ExitCode {
    let wanted = env::var("HOST_TEST_BROWSER").unwrap_or_default();
    let found = browser(&wanted);
    if found.is_none() {
        let what = if wanted == "require" { "will fail" } else { "are ignored" };
        println!("the tests in a browser {what}: there is no chromium and no google-chrome in PATH");
    }
    let browser = move |test: fn(&Browser) -> Result<(), Failed>| {
        let found = found.clone();
        move || test(&Browser::new(found.ok_or("there is no browser")?)?)
    };
    let ignored = browser_is_missing(&wanted);
    let in_browser = |name: &str, test| Trial::test(name, browser(test)).with_ignored_flag(ignored);
    let trials = vec![
        Trial::test("a_command_that_does_not_fit_is_found", a_command_that_does_not_fit_is_found),
        Trial::test("data_does_not_end_its_element", data_does_not_end_its_element),
        in_browser("pages_show_the_numbers_of_their_reports", pages_show_the_numbers_of_their_reports),
        in_browser("pages_fit_a_narrow_window_in_light_and_dark", pages_fit_a_narrow_window_in_light_and_dark),
        in_browser("planted_defects_are_found", planted_defects_are_found),
        in_browser("a_page_of_one_report_is_whole", a_page_of_one_report_is_whole),
    ];
    // One browser at a time: each takes several processes.
    libtest_mimic::run(&Arguments { test_threads: Some(1), ..Arguments::from_args() }, trials).exit_code()
}

/// The browser: the one that is named, or one of the usual names.
fn browser(wanted: &str) -> Option<PathBuf> {
    if Path::new(wanted).is_file() {
        return Some(wanted.into());
    }
    let names = ["chromium", "google-chrome", "chromium-browser", "chrome"];
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file())
}

fn browser_is_missing(wanted: &str) -> bool {
    browser(wanted).is_none() && wanted != "require"
}

/// A browser without a window, and a folder for its pages.
struct Browser {
    program: PathBuf,
    place: tempfile::TempDir,
}

/// What the browser says of a page.
struct Seen {
    probe: Value,
    /// Errors of scripts, as the browser logs them.
    console: Vec<String>,
}

impl Browser {
    fn new(program: PathBuf) -> Result<Self, Failed> {
        Ok(Self { program, place: tempfile::tempdir()? })
    }

    /// Loads a page into a window of this width.
    fn see(&self, html: &str, width: u32, dark: bool) -> Result<Seen, Failed> {
        // A window has at least 500 pixels. A frame has any width, and the page sees the frame as its window.
        let page = html.replacen("</body>", &format!("<script>{PROBE}</script></body>"), 1);
        let page = page.replace('&', "&amp;").replace('"', "&quot;");
        let frame = format!("<iframe width=\"{width}\" height=\"900\" style=\"border: 0\" srcdoc=\"{page}\"></iframe>");
        let show = "document.body.append(document.querySelector('iframe').contentDocument.getElementById('probe'))";
        let style = "<!doctype html><meta charset=utf-8><style>:root { color-scheme: light dark }</style>";
        let file = self.place.path().join("page.html");
        fs::write(&file, format!("{style}<body onload=\"{show}\">{frame}</body>"))?;
        let scheme = if dark { 0 } else { 1 };
        let profile = self.place.path().join("profile");
        let mut command = Command::new(&self.program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]);
        command.args(["--disable-background-networking", "--disable-extensions", "--disable-dev-shm-usage"]);
        command.args(["--enable-logging=stderr", "--dump-dom", "--window-size=1400,1000"]);
        command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
        command.arg(format!("--user-data-dir={}", profile.display())).arg(format!("file://{}", file.display()));
        let done = finish(&mut command, Duration::from_secs(120)).map_err(|error| format!("{error:#}"))?;
        let console = done.stderr.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
        // The last one: the text of the frame's script comes before it.
        let probe = done.stdout.rsplit_once("<pre id=\"probe\">").and_then(|(_, rest)| rest.split_once("</pre>"));
        let (probe, _) = probe.ok_or_else(|| format!("the page did not load: {console:?}\n{}", done.stderr))?;
        let probe = probe.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&amp;", "&");
        Ok(Seen { probe: serde_json::from_str(&probe)?, console })
    }
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
    require(seen.probe["sections"].as_array().is_some_and(|all| all.len() == 11), "a section is missing");
    found
}

/// Compares the texts of the cells with the documents in the page's data.
fn wrong_numbers(data: &Value, seen: &Seen) -> Vec<String> {
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
        let is_left_out = !data["peers"]["left_out"][who].is_null();
        let us = ours.get(&format!("{} {}", cell["n"], cell["k"])).filter(|_| !is_left_out);
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
fn wrong_means(data: &Value, seen: &Seen) -> Vec<String> {
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
                "" => (1.0, !field.contains("_us")),
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
        let seen = browser.see(&page.html(), 1280, false)?;
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
            let seen = browser.see(&page.html(), 400, dark)?;
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
    let found = wrong_numbers(&data, &browser.see(&off, 1280, false)?);
    if found.len() != 1 || !found[0].contains("row 0, kernel_us") {
        return Err(format!("a wrong number: {} problems", found.len()).into());
    }
    // An arithmetic mean.
    let arithmetic = planted(
        "Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0)",
        "(values.reduce((sum, value) => sum + value, 0)",
    )?;
    if wrong_means(&data, &browser.see(&arithmetic, 1280, false)?).is_empty() {
        return Err("an arithmetic mean was taken for a geometric one".into());
    }
    for (what, from, to) in [
        ("CONSOLE", "const SECTIONS = [", "setTimeout(() => missing.name); const SECTIONS = ["),
        ("problems: ", "function accuracy() {", "function accuracy() { null.length;"),
        ("wide: ", "<p id=\"machine\">", "<p style=\"width: 450px\">wide</p><p id=\"machine\">"),
        ("pale: ", "--quiet: light-dark(#545c66,", "--quiet: light-dark(#bbbbbb,"),
        ("does not sort", "show(sorted(list, column.sort, up));", ""),
    ] {
        let found = problems(&browser.see(&planted(from, to)?, 400, false)?, 400, false);
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
        row["note"] = "drift: kernel: times rise by 3.7 % from the first third to the last".into();
    }
    Ok(report.to_string())
}

/// The page of `host bench --html`: one report, no file beside it.
fn a_page_of_one_report_is_whole(browser: &Browser) -> Result<(), Failed> {
    for (file, schema) in [("h200/fft-8192.json", 1), ("h100/separable-8192.json", 1), ("h100/u8-8192.json", 2)] {
        let document = fs::read_to_string(xtask::root().join("docs/measurements").join(file))?;
        let document = if schema == 1 { document } else { of_schema_2(&document)? };
        let data = format!("{{\"reports\":[{{\"name\":\"report\",\"document\":{document}}}]}}");
        let seen = browser.see(&page::fill("One report", &data), 400, true)?;
        none(file, problems(&seen, 400, true))?;
        none(file, wrong_numbers(&serde_json::from_str(&data)?, &seen))?;
        let links = seen.probe["links"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let strange = links.filter(|link| !link.starts_with('#') && !link.starts_with("blob:"));
        none(file, strange.map(|link| format!("a link to {link}")).collect())?;
    }
    Ok(())
}

fn data_does_not_end_its_element() -> Result<(), Failed> {
    let html = page::fill("a < b & c", "{\"notes\":[\"</script><b> {{title}}\"]}");
    let kept = html.contains("{\"notes\":[\"\\u003c/script>\\u003cb> {{title}}\"]}");
    if kept && html.contains("<title>a &lt; b &amp; c</title>") { Ok(()) } else { Err("not escaped".into()) }
}

fn a_command_that_does_not_fit_is_found() -> Result<(), Failed> {
    let report = fs::read_to_string(xtask::root().join("docs/measurements/h200/u8-rgb-4096.json"))?;
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
