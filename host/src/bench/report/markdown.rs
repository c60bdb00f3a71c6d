//! The report as a Markdown table, for a README.

use super::{Report, text};
use crate::units::{digits, time};

/// The report as Markdown: what it was measured on, then one table.
#[must_use]
pub fn markdown(report: &Report) -> String {
    let mut out = String::new();
    for line in text::header(&report.machine).lines() {
        out += &format!("- {}\n", escape(line.trim()));
    }
    if let Some(note) = text::end_to_end(report) {
        out += &format!("- {note}\n");
    }
    out += "\n| image | mask | backend | variant | kernel | end to end | Gpix/s | roofline share | vs CPU | check |\n";
    out += "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |\n";
    for cell in &report.cells {
        let caches = if cell.cold { ", cold caches" } else { "" };
        let problem = format!("{} {}, {}{caches}", cell.picture, cell.image, text::values(cell.format));
        for row in &cell.rows {
            let timed = row.timed.as_ref();
            let cells = [
                problem.clone(),
                cell.mask.to_string(),
                row.backend.to_owned(),
                row.variant.to_owned(),
                text::or_dash(timed.map(|timed| time(timed.times.kernel.us.median))),
                text::or_dash(timed.map(|timed| time(timed.times.end_to_end.us.median))),
                text::or_dash(timed.map(|timed| digits(timed.gpix_s(cell.image)))),
                text::or_dash(timed.map(text::roofline)),
                text::or_dash(timed.and_then(text::vs_cpu)),
                text::check(row),
            ];
            out += &format!("| {} |\n", cells.map(|text| escape(&text)).join(" | "));
        }
    }
    for cell in &report.cells {
        for note in cell.notes() {
            out += &format!("\n{}, mask {}: {}\n", cell.image, cell.mask, escape(&note));
        }
    }
    for note in text::above_rooflines(report) {
        out += &format!("\n{}\n", escape(note));
    }
    out
}

/// Text that can stand in a table's cell.
fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}
