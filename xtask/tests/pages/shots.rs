//! Screenshots for people: pages in light and dark, in a wide window and in one of 400 pixels.
//!
//! They lie in target/screenshots. CI keeps them beside its log.

use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Failed;

use crate::browser::{Browser, Shown, with_probe};
use crate::{all, page_of};

/// Width, dark, and how the file ends.
const LOOKS: [(u32, bool, &str); 4] =
    [(1280, false, "wide-light"), (1280, true, "wide-dark"), (400, false, "400px-light"), (400, true, "400px-dark")];

/// The pages of the book that are shown: drawings, tables, code, generated pages.
const CHAPTERS: [&str; 5] = ["index", "accuracy", "kernels/fft", "start/program", "repository/METHODOLOGY"];

/// The folder of the book.
pub(crate) fn book() -> PathBuf {
    xtask::target(&xtask::root()).join("book")
}

fn shoot(browser: &Browser, name: &str, shown: Shown<'_>) -> Result<(), Failed> {
    for (width, dark, look) in LOOKS {
        let file = xtask::target(&xtask::root()).join("screenshots").join(format!("{name}-{look}.png"));
        browser.shoot(shown, width, dark, &file)?;
    }
    Ok(())
}

/// The pages of measurements, and one of a single report with rows of each kind.
pub(crate) fn pages(browser: &Browser) -> Result<(), Failed> {
    for page in all()? {
        shoot(browser, &format!("measurements-{}", page.name), Shown::Html(&page.html()))?;
    }
    let report = fs::read_to_string(xtask::root().join("docs/measurements/h100/u8-8192.json"))?;
    shoot(browser, "one-report", Shown::Html(&page_of(&[serde_json::from_str(&report)?])))
}

/// The chapters of the book: nothing is wider than the window, and the colours are those of the system, also at the
/// second visit.
pub(crate) fn of_the_book(browser: &Browser) -> Result<(), Failed> {
    for chapter in CHAPTERS {
        let file = found(chapter)?;
        // Beside the chapter, because its links lead from there.
        let probed = tempfile::Builder::new().suffix(".html").tempfile_in(file.parent().ok_or("a folder")?)?;
        fs::write(&probed, with_probe(&fs::read_to_string(&file)?))?;
        let shown = Shown::File(probed.path());
        for (width, dark, look) in LOOKS {
            let seen = browser.see(shown, width, dark)?;
            let is_wide = seen.probe["scroll_width"].as_u64().is_none_or(|found| found > width.into());
            if is_wide || seen.probe["dark"] != dark {
                let (wide, dark) = (&seen.probe["scroll_width"], &seen.probe["dark"]);
                return Err(format!("{chapter}, {look}: {wide} pixels wide, dark: {dark}").into());
            }
        }
        shoot(browser, &format!("book-{}", chapter.replace('/', "-")), shown)?;
    }
    Ok(())
}

/// The file of a chapter: MkDocs makes `name.html` or `name/index.html`.
fn found(chapter: &str) -> Result<PathBuf, Failed> {
    let [file, folder] = [format!("{chapter}.html"), format!("{chapter}/index.html")].map(|name| book().join(name));
    [file, folder].into_iter().find(|path| Path::is_file(path)).ok_or_else(|| format!("no chapter {chapter}").into())
}
