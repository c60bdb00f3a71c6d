//! Programs that run beside each other, because most of them use all cores for a part of their time only.

use std::env;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::process::{capture, finish, shown};
use crate::target;

/// The number of programs that run at once. Some take one core, or wait, as a browser and `pip` do.
const AT_ONCE: usize = 2;

/// The longest time of a program.
const LIMIT: Duration = Duration::from_secs(1800);

/// Runs programs. They begin in this order. The output of each is printed when it ends. All of them run, even after one
/// has failed.
///
/// # Errors
/// Some failed: their names.
pub fn run_all(jobs: Vec<(String, Command)>) -> Result<()> {
    let count = jobs.len();
    let jobs = Mutex::new(jobs.into_iter());
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((name, mut command)) = next() {
                    let start = Instant::now();
                    let done = finish(&mut command, LIMIT);
                    let seconds = start.elapsed().as_secs_f32();
                    // The lock also keeps the output of programs apart.
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    println!("\n--- {name}: {}", shown(&command));
                    let how = match &done {
                        Ok(done) => {
                            print!("{}{}", done.stdout, done.stderr);
                            done.status.to_string()
                        }
                        Err(error) => format!("{error:#}"),
                    };
                    let passed = done.is_ok_and(|done| done.status.success());
                    println!("--- {name}: {} after {seconds:.1} s", if passed { "passed" } else { "FAILED" });
                    if !passed {
                        failed.push(format!("{name} ({how})"));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    ensure!(failed.is_empty(), "{} of {count} programs failed: {}", failed.len(), failed.join(", "));
    Ok(())
}

/// The binaries of the tests, from what `cargo test --no-run --message-format json` says. `first` names those to begin
/// with.
///
/// # Errors
/// A message is not as it must be, or one of `first` is not there.
pub fn test_binaries(root: &Path, messages: &str, first: &[&str]) -> Result<Vec<(String, Command)>> {
    // Cargo sets this path for the tests that it runs. The tests of a procedural macro load the standard library.
    let libraries = capture(Command::new("rustc").current_dir(root).args(["--print", "target-libdir"]), LIMIT)?;
    let others = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let libraries = [target(root).join("debug/deps"), libraries.trim().into()].into_iter();
    let libraries = env::join_paths(libraries.chain(env::split_paths(&others)))?;
    let mut tests = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let Some((name, package, binary)) = test_of(&serde_json::from_str(line)?) else { continue };
        let mut command = Command::new(binary);
        command.current_dir(&package).env("CARGO_MANIFEST_DIR", &package);
        command.env("CARGO", "cargo").env("LD_LIBRARY_PATH", &libraries);
        tests.push((name, command));
    }
    for name in first {
        ensure!(tests.iter().any(|(found, _)| found == name), "there is no binary of tests called {name:?}");
    }
    tests.sort_by_key(|(name, _)| first.iter().position(|one| one == name).unwrap_or(first.len()));
    Ok(tests)
}

/// Of a message about a binary of tests: a name such as `host cli` or `faltung lib`, the folder of the package, and the
/// binary.
fn test_of(message: &Value) -> Option<(String, String, String)> {
    let binary = message["executable"].as_str()?;
    let package = Path::new(message["manifest_path"].as_str()?).parent()?;
    let folder = package.file_name()?.to_string_lossy();
    let (target, kind) = (message["target"]["name"].as_str()?, message["target"]["kind"][0].as_str()?);
    let tests = match kind {
        "test" => target,
        "bin" => kind,
        _ => "lib",
    };
    let name = format!("{folder} {tests}");
    message["profile"]["test"].as_bool()?.then(|| (name, package.to_string_lossy().into(), binary.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_run_and_what_failed_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let shell = |name: &str, script: &str| {
            let mut command = Command::new("sh");
            command.current_dir(&folder).args(["-c", script]);
            (name.to_owned(), command)
        };
        run_all(vec![shell("good", "true")]).unwrap();
        let none = ("none".to_owned(), Command::new("no-such-program"));
        let jobs = vec![shell("bad", "exit 3"), none, shell("good", "true"), shell("last", "touch last")];
        let error = run_all(jobs).unwrap_err().to_string();
        assert!(error.starts_with("2 of 4 programs failed: "), "{error}");
        assert!(error.contains("bad (exit status: 3)") && error.contains("none (could not start"), "{error}");
        assert!(folder.path().join("last").is_file());
    }

    #[test]
    fn binaries_of_tests_are_found_and_the_long_ones_are_first() {
        let message = |package: &str, target: &str, kind: &str, test: bool, executable: Option<&str>| {
            json!({
                "reason": "compiler-artifact", "manifest_path": format!("/w/{package}/Cargo.toml"),
                "target": {"name": target, "kind": [kind]}, "profile": {"test": test}, "executable": executable,
            })
            .to_string()
        };
        let messages = [
            message("a", "a", "rlib", false, None),
            message("a", "a", "bin", false, Some("/w/target/a")),
            message("a", "a", "rlib", true, Some("/w/target/a-1")),
            message("a", "a", "bin", true, Some("/w/target/a-2")),
            message("a", "long", "test", true, Some("/w/target/long-3")),
            "{\"reason\":\"build-finished\",\"success\":true}".to_owned(),
        ];
        let found = |first: &[&str]| test_binaries(&crate::root(), &messages.join("\n"), first);
        let found_first = found(&["a long"]).unwrap();
        let names: Vec<&str> = found_first.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a long", "a lib", "a bin"]);
        assert_eq!(found_first[0].1.get_program(), "/w/target/long-3");
        assert_eq!(found_first[0].1.get_current_dir(), Some(Path::new("/w/a")));
        assert!(found(&["a short"]).is_err());
    }
}
