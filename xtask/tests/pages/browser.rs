//! A browser without a window: what it says of a page, and its screenshots.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::Value;
use xtask::process::{Finished, finish};

/// What a reader would see of a page, as JSON.
const PROBE: &str = include_str!("probe.js");

/// The browser: the one that is named, or one of the usual names.
pub(crate) fn browser(wanted: &str) -> Option<PathBuf> {
    if Path::new(wanted).is_file() {
        return Some(wanted.into());
    }
    let names = ["chromium", "google-chrome", "chromium-browser", "chrome"];
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file())
}

pub(crate) fn browser_is_missing(wanted: &str) -> bool {
    browser(wanted).is_none() && wanted != "require"
}

/// A browser without a window, and a folder for its pages.
pub(crate) struct Browser {
    program: PathBuf,
    place: tempfile::TempDir,
}

/// Time in the browser goes on until its work is done, so that scripts and fonts are there.
const VIRTUAL_TIME: &str = "--virtual-time-budget=5000";

/// A page.
#[derive(Clone, Copy)]
pub(crate) enum Shown<'a> {
    /// The text of a page that needs no other files.
    Html(&'a str),
    /// A file among those that it needs. It is one of [`with_probe`].
    File(&'a Path),
}

impl Shown<'_> {
    /// A frame with the page.
    fn frame(self, style: &str, width: u32, height: u64) -> String {
        let source = match self {
            Self::Html(html) => {
                let page = html.replacen("</body>", &format!("<script>{PROBE}</script></body>"), 1);
                format!("srcdoc=\"{}\"", page.replace('&', "&amp;").replace('"', "&quot;"))
            }
            Self::File(path) => format!("src=\"file://{}\"", path.display()),
        };
        format!("<iframe width=\"{width}\" height=\"{height}\" style=\"{style}\" {source}></iframe>")
    }
}

/// A page that says what a reader sees once its scripts have worked.
pub(crate) fn with_probe(html: &str) -> String {
    let probe = format!("<script>addEventListener('load', () => setTimeout(() => {{ {PROBE} }}, 500))</script></body>");
    html.replacen("</body>", &probe, 1)
}

/// What the browser says of a page.
pub(crate) struct Seen {
    pub(crate) probe: Value,
    /// Errors of scripts, as the browser logs them.
    pub(crate) console: Vec<String>,
}

impl Browser {
    pub(crate) fn new(program: PathBuf) -> Result<Self, Failed> {
        Ok(Self { program, place: tempfile::tempdir()? })
    }

    /// Loads a page into a window of this width.
    pub(crate) fn see(&self, shown: Shown<'_>, width: u32, dark: bool) -> Result<Seen, Failed> {
        // A window has at least 500 pixels. A frame has any width, and the page sees the frame as its window.
        let frame = shown.frame("border: 0", width, 900);
        // Scripts of the page may work on after it was loaded.
        let show = "setInterval(() => { \
            const probe = document.querySelector('iframe')?.contentDocument?.getElementById('probe'); \
            if (probe) document.body.append(probe) }, 50)";
        let body = format!("<body><script>{show}</script>{frame}</body>");
        let size = "--window-size=1400,1000";
        let done = self.run(&body, dark, &["--enable-logging=stderr", "--dump-dom", size, VIRTUAL_TIME])?;
        let console = done.stderr.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
        // The last one: the text of the frame's script comes before it.
        let probe = done.stdout.rsplit_once("<pre id=\"probe\">").and_then(|(_, rest)| rest.split_once("</pre>"));
        let (probe, _) = probe.ok_or_else(|| format!("the page did not load: {console:?}\n{}", done.stderr))?;
        let probe = probe.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&amp;", "&");
        Ok(Seen { probe: serde_json::from_str(&probe)?, console })
    }

    /// Loads a page as [`see`](Self::see) does, and writes a screenshot of all of it.
    pub(crate) fn shoot(&self, shown: Shown<'_>, width: u32, dark: bool, file: &Path) -> Result<Seen, Failed> {
        let seen = self.see(shown, width, dark)?;
        let height = seen.probe["height"].as_u64().ok_or("a height")?;
        // A browser draws no more at once.
        let height = height.clamp(200, 16_000);
        let frame = shown.frame("border: 0; display: block; margin: 0 auto", width, height);
        let body = format!("<body style=\"margin: 0\">{frame}</body>");
        let size = format!("--window-size={},{height}", width.max(500));
        let shot = format!("--screenshot={}", file.display());
        fs::create_dir_all(file.parent().ok_or("a folder")?)?;
        let _ = fs::remove_file(file);
        self.run(&body, dark, &[&size, &shot, VIRTUAL_TIME])?;
        let bytes = fs::read(file)?;
        // Of a PNG: the width and the height in its first chunk.
        let number =
            |at: usize| bytes.get(at..at + 4).map(|four| four.iter().fold(0, |all, &one| all << 8 | u64::from(one)));
        if number(16) == Some(width.max(500).into()) && number(20) == Some(height) {
            return Ok(seen);
        }
        Err(format!("{} is {:?} x {:?} pixels", file.display(), number(16), number(20)).into())
    }

    /// Runs the browser on a page with this body.
    fn run(&self, body: &str, dark: bool, more: &[&str]) -> Result<Finished, Failed> {
        let style = "<!doctype html><meta charset=utf-8><style>:root { color-scheme: light dark }</style>";
        let file = self.place.path().join("page.html");
        fs::write(&file, format!("{style}{body}"))?;
        let scheme = if dark { 0 } else { 1 };
        let profile = self.place.path().join("profile");
        let mut command = Command::new(&self.program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]);
        command.args(["--disable-background-networking", "--disable-extensions", "--disable-dev-shm-usage"]);
        // A file may look into a frame with another file.
        command
            .arg("--allow-file-access-from-files")
            .args(more)
            .arg(format!("--blink-settings=preferredColorScheme={scheme}"));
        command.arg(format!("--user-data-dir={}", profile.display())).arg(format!("file://{}", file.display()));
        Ok(finish(&mut command, Duration::from_secs(120)).map_err(|error| format!("{error:#}"))?)
    }
}
