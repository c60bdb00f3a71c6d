//! Everything that a change must pass, in the order in which it fails soonest.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::process::{show, shown};
use crate::{build_ptx, deny, outside, package, ptxas, setup};

/// Runs all steps; the first failure ends it with the step's name.
///
/// # Errors
/// The step that failed.
pub fn ci(root: &Path) -> Result<()> {
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

    step("format", &mut || {
        run(cargo(&["fmt", "--all", "--check"]))?;
        run(cargo(&["fmt", "--manifest-path", "examples/outside/Cargo.toml", "--check"]))
    })?;
    step("licences and sources of dependencies", &mut || deny::check(root))?;
    step("rust-src", &mut || setup::setup(root))?;
    step("PTX is current", &mut || build_ptx::check(root))?;
    step("ptxas", &mut || ptxas::check(root))?;
    step("packages", &mut || package::check(root, false))?;
    step("clippy", &mut || run(cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])))?;
    // The members above build `faltung` with the features that `host` needs.
    const FEATURES: [&str; 2] = ["--no-default-features", "--all-features"];
    step("clippy of faltung's features", &mut || {
        let clippy = |features| cargo(&["clippy", "-p", "faltung", features, "--all-targets", "--", "-D", "warnings"]);
        FEATURES.into_iter().try_for_each(|features| run(clippy(features)))
    })?;
    step("documentation", &mut || {
        let doc = |arguments: &[&str]| {
            let mut doc = cargo(&["doc", "--no-deps"]);
            doc.args(arguments).env("RUSTDOCFLAGS", "-D warnings");
            run(doc)
        };
        doc(&["--workspace"])?;
        FEATURES.into_iter().try_for_each(|features| doc(&["-p", "faltung", features]))
    })?;
    // The two commands of the README.
    step("tests of host", &mut || run(cargo(&["test", "-p", "host"])))?;
    step("benchmark", &mut || run(cargo(&["run", "-p", "host", "--", "bench"])))?;
    let other = ["test", "--workspace", "--exclude", "host", "--exclude", "faltung"];
    step("other tests", &mut || run(cargo(&other)))?;
    step("tests of faltung", &mut || run(cargo(&["test", "-p", "faltung", "--all-features"])))?;
    step("program outside of the workspace", &mut || outside::check(root))?;

    println!("\nall steps passed in {:.0} s:", start.elapsed().as_secs_f32());
    for (name, seconds) in times {
        println!("{seconds:>8.1} s  {name}");
    }
    Ok(())
}
