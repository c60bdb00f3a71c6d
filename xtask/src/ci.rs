//! Everything that a change must pass, in the order in which it fails soonest.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::process::{finish, show, shown};
use crate::stamp::{Stamp, unless_current};
use crate::{aarch64, book, build_ptx, deny, outside, own_kernels, package, ptxas, quick_start, target};

/// How long the tests of the Python module may take beside the others.
const MODULE_LIMIT: Duration = Duration::from_secs(1800);

/// One set of features for the whole workspace: each crate is compiled once for clippy and once for the tests.
const ALL: [&str; 2] = ["--workspace", "--all-features"];
/// What a user of the library without CUDA has.
const NONE: [&str; 3] = ["-p", "faltung", "--no-default-features"];

/// Runs all steps; the first failure ends it with the step's name. Stamps skip the steps of the kernels, of AArch64 and
/// of programs outside of the workspace where nothing changed, unless all is `full`: then the sweep over the devices is
/// the full one, too.
///
/// # Errors
/// The step that failed.
pub fn ci(root: &Path, full: bool) -> Result<()> {
    let start = Instant::now();
    let mut steps = Steps { root, full, times: Vec::new() };
    steps.sources()?;
    steps.compilation()?;
    steps.tests()?;
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

/// Runs a command, and shows it.
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

    /// What needs no compilation of the workspace.
    fn sources(&mut self) -> Result<()> {
        let (root, full) = (self.root, self.full);
        self.step("format", || {
            run(&mut cargo(root, &["fmt", "--all", "--check"]))?;
            run(&mut cargo(root, &["fmt", "--manifest-path", "examples/outside/Cargo.toml", "--check"]))?;
            run(&mut cargo(root, &["fmt", "--manifest-path", "examples/own-kernels/Cargo.toml", "--all", "--check"]))
        })?;
        self.step("licences and sources of dependencies", || deny::check(root))?;
        self.step("PTX is current", || {
            build_ptx::test_builder(root, full)?;
            unless_current(root, full, build_ptx::stamp, build_ptx::check)
        })?;
        self.stamped("ptxas", ptxas::stamp, |root| ptxas::check(root).map(drop))?;
        self.step("book", || book::book(root))?;
        self.step("packages", || package::check(root, false))
    }

    fn compilation(&mut self) -> Result<()> {
        let root = self.root;
        self.step("clippy", || {
            for crates in [&ALL[..], &NONE] {
                run(&mut cargo(root, &[&["clippy", "--all-targets"], crates, &["--", "-D", "warnings"]].concat()))?;
            }
            Ok(())
        })?;
        self.step("documentation", || {
            for crates in [&ALL[..], &NONE] {
                run(cargo(root, &[&["doc", "--no-deps"], crates].concat()).env("RUSTDOCFLAGS", "-D warnings"))?;
            }
            Ok(())
        })?;
        self.step("compilation of tests", || run(&mut cargo(root, &[&["test", "--no-run"], &ALL[..]].concat())))
    }

    /// The tests of the Python module mostly take one core. So they run beside the others.
    fn tests(&mut self) -> Result<()> {
        let (root, full) = (self.root, self.full);
        thread::scope(|scope| {
            let module = scope.spawn(|| {
                // Not our own file, which the compilation of the tests may have replaced.
                let mut test = Command::new(target(root).join("debug/xtask"));
                finish(test.current_dir(root).args(["wheel", "--test"]), MODULE_LIMIT)
            });
            self.step("tests", || {
                let mut tests = cargo(root, &[&["test"], &ALL[..]].concat());
                if full {
                    tests.env("HOST_TEST_SWEEP", "full");
                }
                run(&mut tests)
            })?;
            self.step("quick starts", || quick_start::run(root))?;
            self.step("Python module", || {
                let module = module.join().expect("a failure of `finish` is an error")?;
                print!("{}{}", module.stdout, module.stderr);
                ensure!(module.status.success(), "`cargo xtask wheel --test` failed ({})", module.status);
                Ok(())
            })
        })
    }

    /// What runs or is built in another way than the tests.
    fn programs(&mut self) -> Result<()> {
        let root = self.root;
        self.stamped("CPU path on AArch64", aarch64::stamp, aarch64::check)?;
        // `cargo run -p host -- bench`, with the program that the tests were built with.
        self.step("benchmark", || run(Command::new(target(root).join("debug/host")).current_dir(root).arg("bench")))?;
        self.stamped("program outside of the workspace", outside::stamp, outside::check)?;
        self.stamped("kernels outside of the workspace", own_kernels::stamp, own_kernels::check)
    }
}
