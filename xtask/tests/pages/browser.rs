//! A browser without a window: what it says of a page, and its screenshots.
//!
//! A browser shows all pages of a test, because its start takes longer than most pages. It is told what to do in the
//! [DevTools protocol], over two pipes.
//!
//! [DevTools protocol]: https://chromedevtools.github.io/devtools-protocol/

use std::cell::RefCell;
use std::env;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::{Value, json};

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

/// A page.
#[derive(Clone, Copy)]
pub(crate) enum Shown<'a> {
    /// The text of a page that needs no other files.
    Html(&'a str),
    /// A file among those that it needs.
    File(&'a Path),
}

/// What the browser says of a page.
pub(crate) struct Seen {
    pub(crate) probe: Value,
    /// Errors of scripts, and what scripts log.
    pub(crate) console: Vec<String>,
}

/// A browser without a window, and a folder for its pages.
pub(crate) struct Browser {
    connection: RefCell<Connection>,
    place: tempfile::TempDir,
}

impl Browser {
    pub(crate) fn new(program: &Path) -> Result<Self, Failed> {
        let place = tempfile::tempdir()?;
        let connection = RefCell::new(Connection::open(program, place.path())?);
        Ok(Self { connection, place })
    }

    /// Loads a page into a window of this width.
    pub(crate) fn see(&self, shown: Shown<'_>, width: u32, dark: bool) -> Result<Seen, Failed> {
        let mut connection = self.connection.borrow_mut();
        // Scripts of the book work on after it was loaded.
        let (file, milliseconds) = match shown {
            Shown::Html(html) => {
                let file = self.place.path().join("page.html");
                fs::write(&file, html)?;
                (file, 50)
            }
            Shown::File(path) => (path.to_owned(), 500),
        };
        connection.events.clear();
        connection.resize(width, 900)?;
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        connection.call("Emulation.setEmulatedMedia", features)?;
        let loader = connection.call("Page.navigate", json!({"url": format!("file://{}", file.display())}))?;
        connection.wait(|event| {
            event["method"] == "Page.lifecycleEvent"
                && event["params"]["name"] == "load"
                && event["params"]["loaderId"] == loader["loaderId"]
        })?;
        let later = format!("new Promise(done => setTimeout(done, {milliseconds}))");
        let expression = format!("document.fonts.ready.then(() => {later}).then(() => {{ {PROBE} }})");
        let said = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let said = connection.call("Runtime.evaluate", said)?;
        let probe = said["result"]["value"].as_str().ok_or_else(|| format!("the page can't be looked at: {said}"))?;
        let of_console = ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"];
        let console = connection.events.iter().filter(|event| of_console.iter().any(|name| event["method"] == *name));
        let console = console.map(|event| format!("CONSOLE: {}", event["params"])).collect();
        Ok(Seen { probe: serde_json::from_str(probe)?, console })
    }

    /// Loads a page as [`see`](Self::see) does, and writes a screenshot of all of it.
    pub(crate) fn shoot(&self, shown: Shown<'_>, width: u32, dark: bool, file: &Path) -> Result<Seen, Failed> {
        let seen = self.see(shown, width, dark)?;
        let height = seen.probe["height"].as_u64().ok_or("a height")?;
        // A browser draws no more at once.
        let height = height.clamp(200, 16_000);
        let mut connection = self.connection.borrow_mut();
        connection.resize(width, height)?;
        let shot = connection.call("Page.captureScreenshot", json!({"format": "png"}))?;
        let bytes = from_base64(shot["data"].as_str().ok_or("a screenshot")?)?;
        fs::create_dir_all(file.parent().ok_or("a folder")?)?;
        fs::write(file, &bytes)?;
        // Of a PNG: the width and the height in its first chunk.
        let number =
            |at: usize| bytes.get(at..at + 4).map(|four| four.iter().fold(0, |all, &one| all << 8 | u64::from(one)));
        if number(16) == Some(width.into()) && number(20) == Some(height) {
            return Ok(seen);
        }
        Err(format!("{} is {:?} x {:?} pixels", file.display(), number(16), number(20)).into())
    }
}

/// The bytes of a text in base64.
fn from_base64(text: &str) -> Result<Vec<u8>, Failed> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let value = DIGITS.iter().position(|&one| one == digit).ok_or("a digit of base64")?;
        (bits, count) = (bits << 6 | value as u32, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Ok(bytes)
}

/// The two pipes of a browser that runs.
struct Connection {
    process: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    /// That of the one window.
    session: Option<String>,
    /// The number of the last call.
    last: u64,
    /// What the browser has said without being asked.
    events: Vec<Value>,
    log: PathBuf,
}

/// The longest silence of a browser.
const SILENCE: Duration = Duration::from_secs(120);

impl Connection {
    fn open(program: &Path, place: &Path) -> Result<Self, Failed> {
        // The browser reads from descriptor 3 and writes to descriptor 4.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >&2", "sh"]).arg(program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]);
        command.args(["--disable-background-networking", "--disable-extensions", "--disable-dev-shm-usage"]);
        command.args(["--remote-debugging-pipe", &format!("--user-data-dir={}", place.join("profile").display())]);
        let log = place.join("log");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&log)?);
        let mut process = command.spawn()?;
        let (to, from) = (process.stdin.take().ok_or("a pipe")?, process.stdout.take().ok_or("a pipe")?);
        let (said, heard) = channel();
        thread::spawn(move || {
            for message in BufReader::new(from).split(0) {
                let message = message.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
                if message.is_none_or(|message| said.send(message).is_err()) {
                    break;
                }
            }
        });
        let mut connection = Self { process, to, from: heard, session: None, last: 0, events: Vec::new(), log };
        let target = connection.call("Target.createTarget", json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = connection.call("Target.attachToTarget", attach)?;
        connection.session = Some(session["sessionId"].as_str().ok_or("a session")?.to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            connection.call(&format!("{domain}.enable"), json!({}))?;
        }
        connection.call("Page.setLifecycleEventsEnabled", json!({"enabled": true}))?;
        Ok(connection)
    }

    /// The size of the window.
    fn resize(&mut self, width: u32, height: u64) -> Result<(), Failed> {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics).map(drop)
    }

    /// Has the browser do something, and returns its answer.
    fn call(&mut self, method: &str, parameters: Value) -> Result<Value, Failed> {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes())?;
        loop {
            let mut answer = self.hear()?;
            if answer["id"] != self.last {
                self.events.push(answer);
            } else if answer["error"].is_null() && answer["result"]["errorText"].is_null() {
                return Ok(answer["result"].take());
            } else {
                return Err(format!("{method}: {answer}").into());
            }
        }
    }

    /// Waits for an event, which may have come before.
    fn wait(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Result<(), Failed> {
        while !self.events.iter().any(&is_wanted) {
            let event = self.hear()?;
            self.events.push(event);
        }
        Ok(())
    }

    /// The next message.
    fn hear(&self) -> Result<Value, Failed> {
        let log = || fs::read_to_string(&self.log).unwrap_or_default();
        Ok(self
            .from
            .recv_timeout(SILENCE)
            .map_err(|error| format!("the browser says no more ({error}):\n{}", log()))?)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
