//! The page of measurements for a browser: one file, whose script draws the reports that stand in it as JSON.
//!
//! `host bench --html` fills it with one report. `cargo xtask report` compiles this file too, and fills the page with
//! all reports of a record.

/// What surrounds the data. `{{name}}` is replaced.
const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// One script, in the order in which its parts need each other.
const SCRIPTS: [&str; 6] = [
    include_str!("data.js"),
    include_str!("draw.js"),
    include_str!("charts.js"),
    include_str!("tables.js"),
    include_str!("summary.js"),
    include_str!("sections.js"),
];

/// The page with a title and the data, a document in JSON.
///
/// The data are an object: `reports` is a list of `{name, href, command, document}`, with documents of
/// `host bench --json`. Of the same form are `peers`, an object, and `python`, a list. `matrix` has `text`, CSV, in the
/// place of a document. `notes` are sentences. What is missing or null was not measured.
#[must_use]
pub fn fill(title: &str, data: &str) -> String {
    let scripts = SCRIPTS.join("\n");
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    // In JSON `<` stands only in strings. Escaped, nothing there ends the script element.
    let data = data.replace('<', "\\u003c");
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + scripts.len() + data.len());
    let mut parts = PAGE.split("{{");
    page.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (name, rest) = part.split_once("}}").unwrap_or((part, ""));
        page.push_str(match name {
            "title" => &title,
            "style" => STYLE.trim_end(),
            "script" => scripts.trim_end(),
            "data" => &data,
            _ => name,
        });
        page.push_str(rest);
    }
    page
}
