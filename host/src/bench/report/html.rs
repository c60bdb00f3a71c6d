//! The report as a page for a browser: a bar for each variant, as long as its share of the roofline. One file, no
//! script.

use std::fmt::Write;

use super::{Cell, Report, Timed, Verified, text};
use crate::units::{digits, time};

/// Colours follow the reader's choice of a light or a dark page.
const STYLE: &str = "\
:root { color-scheme: light dark; --bar: light-dark(#3a7ca5, #5aa9d6); --best: light-dark(#2f8f5b, #52c288); \
--line: light-dark(#ddd, #444) }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem }
ul { padding-left: 1.2rem } li, footer { color: light-dark(#555, #aaa) }
table { border-collapse: collapse; width: 100% }
td, th { padding: .2rem 0 .2rem .6rem; text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
td:first-child, th:first-child, th:nth-child(2) { text-align: left } \
th { font-weight: 500; color: light-dark(#555, #aaa) }
td:first-child, th:first-child, th:nth-child(2) { padding-left: 0 } td:first-child { padding-right: .6rem } \
td.scale { width: 45%; text-align: left; padding: 0; border-right: 2px solid var(--line) }
.bar { background: var(--bar); height: 1rem; border-radius: 0 3px 3px 0 } .preferred .bar { background: var(--best) }
.wrong { color: light-dark(#b00020, #ff6b81) }";

/// The report as a page. The line at the right end of the bars is the roofline of the row's method.
#[must_use]
pub fn html(report: &Report) -> String {
    let mut out = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">";
    out += &format!("<title>Image convolution, measured</title><style>\n{STYLE}\n</style></head><body>\n");
    out += "<h1>Image convolution, measured</h1>\n<ul>\n";
    for line in text::header(&report.machine).lines() {
        out += &format!("<li>{}</li>\n", escape(line.trim()));
    }
    out += "</ul>\n<p>A bar is the share of the roofline that a variant reaches. The line at its right end is the \
            roofline: all bytes moved once at the measured copy rate, or all products at the measured multiply-add \
            rate. Green is the variant that auto takes.</p>\n";
    for cell in &report.cells {
        section(&mut out, cell);
    }
    out += &format!("<footer><p>{}</p></footer>\n</body></html>\n", escape(text::summary(report).trim()));
    out
}

/// One cell: its heading, and a row for each variant.
fn section(out: &mut String, cell: &Cell) {
    let Cell { image, picture, mask, border, format, .. } = cell;
    let heading = format!("{image} ({picture}), {}, mask {mask}, border {border}", text::values(*format));
    // Writing to a String does not fail.
    let _ = writeln!(out, "<h2>{}</h2>\n<table>", escape(&heading));
    let titles = ["variant", "roofline share", "", "kernel", "Gpix/s", "end to end", "vs CPU"];
    let titles: String = titles.iter().map(|title| format!("<th>{title}</th>")).collect();
    let _ = writeln!(out, "<tr>{titles}</tr>");
    for row in &cell.rows {
        self::row(out, cell, row);
    }
    out.push_str("</table>\n");
    for failure in &cell.failures {
        let _ = writeln!(out, "<p class=\"wrong\">{}</p>", escape(&failure.to_string()));
    }
    for line in cell.refusals() {
        let _ = writeln!(out, "<p>not eligible: {}</p>", escape(&line));
    }
}

fn row(out: &mut String, cell: &Cell, row: &Verified) {
    let timed = row.timed.as_ref();
    // Caches may help beyond the rate of the memory.
    let part = timed.and_then(Timed::roofline_share).unwrap_or(0.0).clamp(0.0, 1.0);
    let cells = [
        text::or_dash(timed.map(text::roofline)),
        text::or_dash(timed.map(|timed| time(timed.times.kernel.us.median))),
        text::or_dash(timed.map(|timed| digits(timed.gpix_s(cell.image)))),
        text::or_dash(timed.map(|timed| time(timed.times.end_to_end.us.median))),
        text::or_dash(timed.and_then(text::vs_cpu)),
    ];
    let class = if row.preferred { " class=\"preferred\"" } else { "" };
    let title = format!("{}; {}", row.reason, text::check(row));
    let _ = write!(out, "<tr{class} title=\"{}\"><td>{} {}</td>", escape(&title), row.backend, escape(row.variant));
    let _ = write!(out, "<td class=\"scale\"><div class=\"bar\" style=\"width: {:.1}%\"></div></td>", 100.0 * part);
    for text in &cells {
        let _ = write!(out, "<td>{}</td>", escape(text));
    }
    out.push_str("</tr>\n");
}

/// Text that stands in a page, or in an attribute between double quotes.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::report;

    #[test]
    fn the_page_holds_what_was_measured_and_nothing_breaks_out() {
        let mut report = report();
        report.cells[0].picture = "<script>&\"".to_owned();
        let page = html(&report);
        assert!(
            page.contains("(&lt;script&gt;&amp;&quot;), f32, mask 3 rows x 5 columns") && !page.contains("<script>")
        );
        for part in [
            "width: 50.0%",
            "50.0 % FMA",
            "12.0 µs",
            "wrong answer: the answer has 1199 values",
            "&quot;AVX2&quot;; exact, error 0.25",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        assert_eq!((page.matches("<tr").count(), page.matches("</tr>").count()), (3, 3));
        assert_eq!(page.matches("<td").count(), page.matches("</td>").count());
    }
}
