//! Everything that a change must pass, in the order in which it fails soonest.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::process::{finish, show, shown};
use crate::stamp::Stamp;
use crate::{aarch64, book, build_ptx, deny, outside, own_kernels, package, ptxas, quick_start, target};

/// How long the tests of the Python module may take beside the others.
const MODULE_LIMIT: Duration = Duration::from_secs(1800);

/// Runs all steps; the first failure ends it with the step's name. Stamps skip the steps of the kernels, of AArch64 and
/// of programs outside of the workspace where nothing changed, unless all is `full`: then the sweep over the devices is
/// the full one, too.
///
/// # Errors
/// The step that failed.
pub fn ci(root: &Path, full: bool) -> Result<()> {
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new("cargo");
        command.current_dir(root).args(arguments);
        command
    };
    let start = Instant::now();
    let mut times = Vec::new();
    let mut step = |name: &'static str, run: &mut dyn FnMut() -> Result<()>| {
        println!("\n=== {name}");
        let start = Instant::now();
        let result = run();
        let seconds = start.elapsed().as_secs_f32();
        println!("=== {name}: {} after {seconds:.1} s", if result.is_ok() { "passed" } else { "FAILED" });
        times.push((name, seconds));
        result.with_context(|| format!("step {name:?} failed"))
    };
    let run = |mut command: Command| {
        println!("{}", shown(&command));
        show(&mut command)
    };

    let check_unless_covered = |stamp: fn(&Path) -> Result<Stamp>, check: fn(&Path) -> Result<()>| {
        if !full && stamp(root)?.is_current() { Ok(()) } else { check(root) }
    };

    step("format", &mut || {
        run(cargo(&["fmt", "--all", "--check"]))?;
        run(cargo(&["fmt", "--manifest-path", "examples/outside/Cargo.toml", "--check"]))?;
        run(cargo(&["fmt", "--manifest-path", "examples/own-kernels/Cargo.toml", "--all", "--check"]))
    })?;
    step("licences and sources of dependencies", &mut || deny::check(root))?;
    step("PTX is current", &mut || {
        build_ptx::test_builder(root, full)?;
        check_unless_covered(build_ptx::stamp, build_ptx::check)
    })?;
    step("ptxas", &mut || check_unless_covered(ptxas::stamp, |root| ptxas::check(root).map(drop)))?;
    step("book", &mut || book::book(root))?;
    step("packages", &mut || package::check(root, false))?;

    // One set of features for the whole workspace: each crate is compiled once for clippy and once for the tests.
    const ALL: [&str; 2] = ["--workspace", "--all-features"];
    // What a user of the library without CUDA has.
    const NONE: [&str; 3] = ["-p", "faltung", "--no-default-features"];
    step("clippy", &mut || {
        for crates in [&ALL[..], &NONE] {
            run(cargo(&[&["clippy", "--all-targets"], crates, &["--", "-D", "warnings"]].concat()))?;
        }
        Ok(())
    })?;
    step("documentation", &mut || {
        for crates in [&ALL[..], &NONE] {
            let mut doc = cargo(&[&["doc", "--no-deps"], crates].concat());
            doc.env("RUSTDOCFLAGS", "-D warnings");
            run(doc)?;
        }
        Ok(())
    })?;
    step("compilation of tests", &mut || run(cargo(&[&["test", "--no-run"], &ALL[..]].concat())))?;
    // The tests of the Python module mostly take one core. So they run beside the others.
    thread::scope(|scope| {
        let module = scope.spawn(|| {
            // Not our own file, which the compilation of the tests may have replaced.
            let mut test = Command::new(target(root).join("debug/xtask"));
            finish(test.current_dir(root).args(["wheel", "--test"]), MODULE_LIMIT)
        });
        step("tests", &mut || {
            let mut tests = cargo(&[&["test"], &ALL[..]].concat());
            if full {
                tests.env("HOST_TEST_SWEEP", "full");
            }
            run(tests)
        })?;
        step("quick starts", &mut || quick_start::run(root))?;
        let mut module = Some(module);
        step("Python module", &mut || {
            let module = module.take().context("the step runs once")?.join();
            let module = module.expect("a failure of `finish` is an error")?;
            print!("{}{}", module.stdout, module.stderr);
            ensure!(module.status.success(), "`cargo xtask wheel --test` failed ({})", module.status);
            Ok(())
        })
    })?;
    step("CPU path on AArch64", &mut || check_unless_covered(aarch64::stamp, aarch64::check))?;
    // `cargo run -p host -- bench`, with the program that the tests were built with.
    step("benchmark", &mut || {
        let mut benchmark = Command::new(target(root).join("debug/host"));
        benchmark.current_dir(root).arg("bench");
        run(benchmark)
    })?;
    step("program outside of the workspace", &mut || check_unless_covered(outside::stamp, outside::check))?;
    step("kernels outside of the workspace", &mut || check_unless_covered(own_kernels::stamp, own_kernels::check))?;

    println!("\nall steps passed in {:.0} s:", start.elapsed().as_secs_f32());
    for (name, seconds) in times {
        println!("{seconds:>8.1} s  {name}");
    }
    Ok(())
}
