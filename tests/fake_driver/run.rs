//! A run of the program under the fake driver, which it finds as any driver: by the loader's path.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use libtest_mimic::Failed;

use crate::fake::{Report, folder};

/// A filter whose sums are exact, so that each device gives the same bits.
pub(crate) const FILTER: [&str; 3] = ["--kernel", "3x3: 0.5 1 -2 3 0.25 1.5 -1 2 0.125", "--exact"];

/// The arguments of one tiny cell.
pub(crate) const BENCH: [&str; 11] =
    ["bench", "--sizes", "24x20", "--masks", "3", "--variants", "naive", "--min-time", "0", "--device", "cuda:0"];

/// How a run ended.
pub(crate) struct Ended {
    /// None if a signal ended it.
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// None if the driver wrote none.
    pub(crate) report: Option<Report>,
}

/// The program with these arguments, in a folder.
pub(crate) fn command(place: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_host"));
    command.args(arguments).current_dir(place).env("LD_LIBRARY_PATH", folder());
    if arguments[0] == "bench" {
        // Several run at once, and each measures the rates of its threads.
        command.env("RAYON_NUM_THREADS", "1");
    }
    command
}

/// Runs the program with these arguments and settings of the driver.
pub(crate) fn host(place: &Path, settings: &str, arguments: &[&str]) -> Ended {
    run(&mut command(place, arguments), settings)
}

/// Runs a command with these settings of the driver.
pub(crate) fn run(command: &mut Command, settings: &str) -> Ended {
    // Each of the runs at the same time has its own file.
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let name = format!("report-{}", RUNS.fetch_add(1, Ordering::Relaxed));
    let report = command.get_current_dir().expect("a run has a folder").join(name);
    let output = command
        .env("FAKE_CUDA", format!("{settings};report={}", report.display()))
        .output()
        .expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ended {
        status: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
        report: fs::read_to_string(&report).ok().map(|text| Report::parse(&text)),
    }
}

impl Ended {
    /// A defect of any run: a crash, a panic, objects that are left.
    pub(crate) fn trouble(&self) -> Option<String> {
        let Some(status) = self.status else { return Some(format!("ended by a signal: {}", self.stderr)) };
        if !(0..=3).contains(&status) || self.stderr.contains("panicked") {
            return Some(format!("status {status}: {}", self.stderr));
        }
        match &self.report {
            None => Some("the driver wrote no report".into()),
            Some(report) => report.trouble(),
        }
    }

    /// Checks a run that must succeed.
    pub(crate) fn well(self) -> Result<Self, Failed> {
        match (self.trouble(), self.status) {
            (None, Some(0)) => Ok(self),
            (trouble, status) => Err(format!("status {status:?}, {trouble:?}: {}", self.stderr).into()),
        }
    }

    /// Checks a run on the CPU. It opens no driver, so there is no report.
    pub(crate) fn well_on_cpu(self) -> Result<(), Failed> {
        match (self.status, &self.report) {
            (Some(0), None) if !self.stderr.contains("panicked") => Ok(()),
            (status, report) => Err(format!("status {status:?}, {report:?}: {}", self.stderr).into()),
        }
    }

    /// The lines of the messages with these words.
    pub(crate) fn lines(&self, words: &str) -> Vec<&str> {
        self.stderr.lines().filter(|line| line.contains(words)).collect()
    }

    /// The only line with these words.
    pub(crate) fn line(&self, words: &str) -> Result<&str, Failed> {
        match self.lines(words)[..] {
            [line] => Ok(line),
            _ => Err(format!("\"{words}\" is not in one line: {}", self.stderr).into()),
        }
    }
}
