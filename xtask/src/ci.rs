//! Everything that a change must pass: the sources first, then the tests.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::jobs::{run_all, test_binaries};
use crate::process::{show, shown};
use crate::stamp::{Stamp, unless_current};
use crate::{aarch64, build_ptx, deny, outside, own_kernels, ptxas, quick_start, target};

/// The tests that take longest. They start first, so that both cores are busy to the end.
const LONGEST: [&str; 9] = [
    "host devices",
    "faltung lib",
    "host fake_driver",
    "host cli",
    "host reference",
    "xtask pages",
    "host tutorials",
    "host lib",
    "xtask ptx",
];

/// One set of features for the whole workspace: each crate is compiled once for clippy and once for the tests.
const ALL: [&str; 2] = ["--workspace", "--all-features"];
/// What a user of the library without CUDA has.
const NONE: [&str; 3] = ["-p", "faltung", "--no-default-features"];

/// Runs all steps. The first failure ends the run with the name of the step.
///
/// Current stamps skip the steps of the kernels, of AArch64 and of programs outside of the workspace. If `full`, no
/// step is skipped, and the sweep over the devices is the full one.
///
/// # Errors
/// The step that failed.
pub fn ci(root: &Path, full: bool) -> Result<()> {
    let start = Instant::now();
    let mut steps = Steps { root, full, times: Vec::new() };
    steps.sources()?;
    let messages = steps.compilation()?;
    steps.tests(&messages)?;
    steps.programs()?;

    println!("\nall steps passed in {:.0} s:", start.elapsed().as_secs_f32());
    for (name, seconds) in steps.times {
        println!("{seconds:>8.1} s  {name}");
    }
    Ok(())
}

fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(arguments);
    command
}

/// A task of this program, run by cargo. The compilation of the tests may have replaced the file of this process.
fn xtask(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(target(root).join("debug/xtask"));
    command.current_dir(root).args(arguments);
    command
}

/// Prints a command, and runs it.
fn run(command: &mut Command) -> Result<()> {
    println!("{}", shown(command));
    show(command)
}

/// A run of all steps.
struct Steps<'a> {
    root: &'a Path,
    full: bool,
    /// The steps that have ended, and their seconds.
    times: Vec<(&'static str, f32)>,
}

impl Steps<'_> {
    fn step(&mut self, name: &'static str, run: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("\n=== {name}");
        let start = Instant::now();
        let result = run();
        let seconds = start.elapsed().as_secs_f32();
        println!("=== {name}: {} after {seconds:.1} s", if result.is_ok() { "passed" } else { "FAILED" });
        self.times.push((name, seconds));
        result.with_context(|| format!("step {name:?} failed"))
    }

    /// Runs a step that its stamp may skip.
    fn stamped(
        &mut self,
        name: &'static str,
        stamp: fn(&Path) -> Result<Stamp>,
        check: fn(&Path) -> Result<()>,
    ) -> Result<()> {
        let (root, full) = (self.root, self.full);
        self.step(name, || unless_current(root, full, stamp, check))
    }

    /// Checks that need no program of the workspace but this one.
    fn sources(&mut self) -> Result<()> {
        let (root, full) = (self.root, self.full);
        self.step("licences and sources of dependencies", || deny::check(root))?;
        self.step("PTX is current", || {
            build_ptx::test_builder(root, full)?;
            unless_current(root, full, build_ptx::stamp, build_ptx::check)
        })?;
        self.stamped("ptxas", ptxas::stamp, |root| ptxas::check(root).map(drop))?;
        // Clippy runs beside steps that wait for the network or take one core.
        self.step("clippy, format, book, packages, documentation", || {
            let clippy = |crates: &[&str]| {
                cargo(root, &[&["clippy", "--all-targets"], crates, &["--", "-D", "warnings"]].concat())
            };
            let doc = |crates: &[&str]| {
                let mut doc = cargo(root, &[&["doc", "--no-deps"], crates].concat());
                doc.env("RUSTDOCFLAGS", "-D warnings");
                doc
            };
            let format = |arguments: &[&str]| cargo(root, &[&["fmt", "--check"], arguments].concat());
            let jobs = [
                ("clippy", clippy(&ALL)),
                ("format", format(&["--all"])),
                ("format of the program outside", format(&["--manifest-path", "examples/outside/Cargo.toml"])),
                ("format of kernels outside", format(&["--manifest-path", "examples/own-kernels/Cargo.toml", "--all"])),
                ("book", xtask(root, &["book"])),
                ("packages", xtask(root, &["package"])),
                ("clippy without CUDA", clippy(&NONE)),
                ("documentation", doc(&ALL)),
                ("documentation without CUDA", doc(&NONE)),
            ];
            run_all(jobs.map(|(name, command)| (name.to_owned(), command)).into())
        })
    }

    /// Returns what cargo says of the tests.
    fn compilation(&mut self) -> Result<String> {
        let root = self.root;
        let messages = tempfile::NamedTempFile::new()?;
        self.step("compilation of tests", || {
            let form = ["--message-format", "json-render-diagnostics"];
            let mut tests = cargo(root, &[&["test", "--no-run"], &ALL[..], &form].concat());
            run(tests.stdout(messages.reopen()?))
        })?;
        Ok(fs::read_to_string(messages.path())?)
    }

    /// Runs the tests, and other programs from the same build.
    fn tests(&mut self, messages: &str) -> Result<()> {
        let (root, full) = (self.root, self.full);
        self.step("tests", || {
            let mut jobs = test_binaries(root, messages, &LONGEST)?;
            if full {
                for (_, tests) in &mut jobs {
                    tests.env("HOST_TEST_SWEEP", "full");
                }
            }
            // `cargo run -p host -- bench`.
            let mut bench = Command::new(target(root).join("debug/host"));
            bench.current_dir(root).arg("bench");
            let examples = cargo(root, &[&["test", "--doc"], &ALL[..]].concat());
            jobs.insert(LONGEST.len(), ("examples of the documentation".to_owned(), examples));
            jobs.insert(LONGEST.len(), ("benchmark".to_owned(), bench));
            jobs.insert(1, ("Python module".to_owned(), xtask(root, &["wheel", "--test"])));
            run_all(jobs)
        })?;
        self.step("quick starts", || quick_start::run(root))
    }

    /// Runs what is not part of the build of the tests.
    fn programs(&mut self) -> Result<()> {
        self.stamped("CPU path on AArch64", aarch64::stamp, aarch64::check)?;
        self.stamped("program outside of the workspace", outside::stamp, outside::check)?;
        self.stamped("kernels outside of the workspace", own_kernels::stamp, own_kernels::check)
    }
}
