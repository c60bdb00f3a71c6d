//! Screenshots for people: in light and dark, in a wide window and in one of 400 pixels.
//!
//! They lie in target/screenshots. CI keeps them beside its log.

use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Failed;

use crate::browser::{Browser, Seen, Shown};
use crate::{all, page_of};

/// Width, dark, and how the file ends.
type Look = (u32, bool, &'static str);

const LOOKS: [Look; 4] =
    [(1280, false, "wide-light"), (1280, true, "wide-dark"), (400, false, "400px-light"), (400, true, "400px-dark")];

/// The pages of the book that are shown: drawings, tables, code, generated pages.
const CHAPTERS: [&str; 5] = ["index", "accuracy", "kernels/fft", "start/program", "repository/METHODOLOGY"];

/// The folder of the book.
pub(crate) fn book() -> PathBuf {
    xtask::target(&xtask::root()).join("book")
}

fn shoot(browser: &Browser, name: &str, shown: Shown<'_>, (width, dark, look): Look) -> Result<Seen, Failed> {
    let file = xtask::target(&xtask::root()).join("screenshots").join(format!("{name}-{look}.png"));
    browser.shoot(shown, width, dark, &file)
}

/// The looks of the screenshots of one page after the other: two of them, and of the next page the other two. The pages
/// share their styles, and a shot takes seconds.
fn looks_of_pages() -> impl Iterator<Item = [Look; 2]> {
    let [wide_light, wide_dark, narrow_light, narrow_dark] = LOOKS;
    [[wide_light, narrow_dark], [wide_dark, narrow_light]].into_iter().cycle()
}

/// The pages of measurements, and one of a single report with rows of each kind.
pub(crate) fn pages(browser: &Browser) -> Result<(), Failed> {
    let report = fs::read_to_string(xtask::root().join("docs/measurements/h100/u8-8192.json"))?;
    let one_report = page_of(&[serde_json::from_str(&report)?]);
    let pages = all()?.into_iter().map(|page| (format!("measurements-{}", page.name), page.html()));
    for ((name, html), looks) in pages.chain([("one-report".to_owned(), one_report)]).zip(looks_of_pages()) {
        for look in looks {
            shoot(browser, &name, Shown::Html(&html), look)?;
        }
    }
    Ok(())
}

/// The chapters of the book: nothing is wider than the window, and the colours are those of the system, also at the
/// second visit.
pub(crate) fn of_the_book(browser: &Browser) -> Result<(), Failed> {
    for (chapter, shot) in CHAPTERS.into_iter().zip(looks_of_pages()) {
        let file = found(chapter)?;
        let shown = Shown::File(&file);
        for (width, dark, look) in LOOKS {
            let seen = if shot.contains(&(width, dark, look)) {
                shoot(browser, &format!("book-{}", chapter.replace('/', "-")), shown, (width, dark, look))?
            } else {
                browser.see(shown, width, dark)?
            };
            let is_wide = seen.probe["scroll_width"].as_u64().is_none_or(|found| found > width.into());
            if is_wide || seen.probe["dark"] != dark {
                let (wide, dark) = (&seen.probe["scroll_width"], &seen.probe["dark"]);
                return Err(format!("{chapter}, {look}: {wide} pixels wide, dark: {dark}").into());
            }
        }
    }
    Ok(())
}

/// The file of a chapter: MkDocs makes `name.html` or `name/index.html`.
fn found(chapter: &str) -> Result<PathBuf, Failed> {
    let [file, folder] = [format!("{chapter}.html"), format!("{chapter}/index.html")].map(|name| book().join(name));
    [file, folder].into_iter().find(|path| Path::is_file(path)).ok_or_else(|| format!("no chapter {chapter}").into())
}
