//! The pages of measurements: one HTML file for each machine in docs/measurements/pages.json, with all its reports.
//!
//! The page itself is that of `host bench --html`. Beside it lie copies of the reports, which its numbers link.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value};

#[path = "../../host/src/bench/report/page/mod.rs"]
pub mod page;

/// Where the reports are, below the root.
const MEASUREMENTS: &str = "docs/measurements";

/// The page of one machine.
#[derive(Debug)]
pub struct Page {
    /// The name of its file, without ".html".
    pub name: String,
    /// Its title.
    pub title: String,
    /// What it is drawn from, as JSON.
    pub data: String,
    /// The reports, as paths below docs/measurements.
    pub files: Vec<String>,
}

impl Page {
    /// The HTML.
    #[must_use]
    pub fn html(&self) -> String {
        page::fill(&self.title, &self.data)
    }
}

/// Writes all pages, and the reports that they link, into a folder.
///
/// # Errors
/// What [`pages`] finds, or a file can't be written.
pub fn write(root: &Path, folder: &Path) -> Result<()> {
    for page in pages(root)? {
        for file in &page.files {
            let copy = folder.join("measurements").join(file);
            fs::create_dir_all(copy.parent().context("a folder")?)?;
            fs::copy(root.join(MEASUREMENTS).join(file), copy)?;
        }
        let path = folder.join(format!("{}.html", page.name));
        fs::write(&path, page.html())?;
        println!("{}", path.display());
    }
    Ok(())
}

/// The pages that docs/measurements/pages.json lists.
///
/// # Errors
/// A report is missing, is on no page, or is not what its command makes.
pub fn pages(root: &Path) -> Result<Vec<Page>> {
    let folder = root.join(MEASUREMENTS);
    let list = read(&folder.join("pages.json"))?;
    let list = list.as_object().context("pages.json is no object")?;
    let pages = list.iter().map(|(name, page)| one(&folder, name, page).with_context(|| format!("pages.json, {name}")));
    let pages: Vec<Page> = pages.collect::<Result<_>>()?;
    let listed: BTreeSet<&str> = pages.iter().flat_map(|page| &page.files).map(String::as_str).collect();
    for report in reports(&folder)? {
        ensure!(listed.contains(report.as_str()), "{report} is on no page of pages.json");
    }
    Ok(pages)
}

/// The reports that lie in the folders of the machines.
fn reports(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for machine in fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()? {
        if !machine.file_type()?.is_dir() {
            continue;
        }
        for file in fs::read_dir(machine.path())?.collect::<Result<Vec<_>, _>>()? {
            let name = PathBuf::from(machine.file_name()).join(file.file_name());
            if name.extension().is_some_and(|end| end == "json") {
                found.push(name.to_str().context("a name in UTF-8")?.to_owned());
            }
        }
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

fn one(folder: &Path, name: &str, page: &Value) -> Result<Page> {
    let page = page.as_object().context("no object")?;
    let title = text(page, "title")?.to_owned();
    let mut files = Vec::new();
    // Documents are copied as text. Numbers that are parsed and written again could differ in the last digit.
    let mut document = |file: &str, more: &[(&str, Value)]| -> Result<String> {
        let text = fs::read_to_string(folder.join(file)).with_context(|| file.to_owned())?;
        files.push(file.to_owned());
        let mut fields = Map::from_iter(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        fields.insert("name".to_owned(), file.into());
        fields.insert("href".to_owned(), format!("measurements/{file}").into());
        let head = Value::from(fields).to_string();
        let head = head.strip_suffix('}').context("an object")?;
        Ok(if file.ends_with(".csv") {
            format!("{head},\"text\":{}}}", Value::from(text))
        } else {
            serde_json::from_str::<Value>(&text).with_context(|| file.to_owned())?;
            format!("{head},\"document\":{}}}", text.trim())
        })
    };
    let list = |key: &str| page.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();

    let mut reports = Vec::new();
    for entry in list("reports") {
        let (Some(file), Some(command)) = (entry[0].as_str(), entry[1].as_str()) else {
            bail!("a report is [file, command], not {entry}");
        };
        fits(command, &read(&folder.join(file))?).with_context(|| format!("{file}: {command}"))?;
        reports.push(document(file, &[("command", command.into())])?);
    }
    let mut python = Vec::new();
    for file in list("python") {
        python.push(document(file.as_str().context("a report is a path")?, &[])?);
    }
    let mut single = |key: &str| -> Result<String> {
        let Some(entry) = page.get(key) else { return Ok("null".to_owned()) };
        let entry = entry.as_object().context("no object")?;
        let more: Vec<_> = entry.iter().filter(|(key, _)| *key != "file").collect();
        let more: Vec<_> = more.into_iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
        document(text(entry, "file")?, &more)
    };
    let (peers, matrix) = (single("peers")?, single("matrix")?);
    let data = format!(
        "{{\"made_by\":\"cargo xtask report\",\"notes\":{},\"reports\":[{}],\"python\":[{}],\
         \"peers\":{peers},\"matrix\":{matrix}}}",
        page.get("notes").unwrap_or(&Value::Array(Vec::new())),
        reports.join(","),
        python.join(","),
    );
    Ok(Page { name: name.to_owned(), title, data, files })
}

fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Result<&'a str> {
    object.get(key).and_then(Value::as_str).with_context(|| format!("{key} is no text"))
}

/// Compares a command of `host bench` with the report that it is said to make.
///
/// # Errors
/// An option that the report records has another value there.
pub fn fits(command: &str, document: &Value) -> Result<()> {
    let words: Vec<&str> = command.split_whitespace().collect();
    ensure!(words.starts_with(&["host", "bench"]), "no command of host bench");
    let option = |name: &str, default: &str| {
        let place = words.iter().position(|word| *word == name);
        place.and_then(|place| words.get(place + 1)).map_or_else(|| default.to_owned(), |word| (*word).to_owned())
    };
    let square = |size: &str| if size.contains('x') { size.to_owned() } else { format!("{size}x{size}") };
    let set = |list: String| -> BTreeSet<String> { list.split(',').map(square).collect() };
    let rows = document["rows"].as_array().context("the report has no rows")?;
    let of = |row: &Value, a: &str, b: &str| format!("{}x{}", row[a], row[b]);
    let same = |what: &str, asked: &BTreeSet<String>, found: BTreeSet<String>| {
        ensure!(*asked == found, "{what}: the command has {asked:?}, the report {found:?}");
        Ok(())
    };
    same("--sizes", &set(option("--sizes", "")), rows.iter().map(|row| of(row, "width", "height")).collect())?;
    let masks = rows.iter().map(|row| of(row, "mask_height", "mask_width")).collect();
    same("--masks", &set(option("--masks", "")), masks)?;
    for (name, default, key) in [("--pixel", "f32", "pixel"), ("--channels", "1", "channels")] {
        let found = rows.iter().map(|row| row[key].to_string().replace('"', "")).collect();
        same(name, &BTreeSet::from([option(name, default)]), found)?;
    }
    let min_time: f64 = option("--min-time", "0.3").parse()?;
    ensure!(document["min_time_s"] == min_time, "--min-time: the report has {}", document["min_time_s"]);
    let page_locked = words.contains(&"--page-locked");
    ensure!(document["page_locked"] == page_locked, "--page-locked: the report has {}", document["page_locked"]);
    // Rows of older programs do not say it: their caches were warm.
    let is_cold = rows.iter().any(|row| row["cache"] == "cold");
    ensure!(is_cold == words.contains(&"--cold"), "--cold: the caches of the report were cold: {is_cold}");
    Ok(())
}
