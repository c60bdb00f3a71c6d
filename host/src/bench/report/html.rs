//! The report as a page for a browser: drawings and tables of the document that `--json` writes, in one file.

use super::{Report, json, page};

/// The report as a page.
#[must_use]
pub fn html(report: &Report) -> String {
    let machine = &report.machine;
    let gpu = machine.gpu.as_ref().map(|(info, _)| info.name.as_str());
    let device = gpu.or(machine.emulator.as_deref()).unwrap_or(&machine.cpu_name);
    let document = json(report);
    let data = format!(
        "{{\"made_by\":\"host bench --html\",\"reports\":[{{\"name\":\"this report\",\"document\":{document}}}]}}"
    );
    page::fill(&format!("Image convolution measured: {device}"), &data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::report;

    #[test]
    fn the_page_holds_the_document_and_nothing_breaks_out() {
        let mut report = report();
        report.cells[0].picture = "</script><b>&\"".to_owned();
        report.machine.cpu_name = "A <b> & C".to_owned();
        let page = html(&report);
        assert!(page.contains("<title>Image convolution measured: A &lt;b> &amp; C</title>"));
        let (_, data) = page.split_once("<script type=\"application/json\" id=\"data\">").expect("data");
        let (data, _) = data.split_once("</script>").expect("an end");
        let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
        let document: serde_json::Value = serde_json::from_str(&json(&report)).expect("JSON");
        assert!(data["reports"][0]["document"] == document, "another document");
        assert_eq!(document["rows"][0]["picture"], "</script><b>&\"");
        // Two script elements, both closed, and no name of a part is left.
        assert_eq!((page.matches("<script").count(), page.matches("</script>").count()), (2, 2));
        assert!(!page.contains("{{"));
    }
}
