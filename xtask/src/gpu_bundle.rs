//! One folder with everything that a machine with a GPU, but without Rust, needs to test this project.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::process::make_executable;

/// The folder, relative to the root of the workspace; git ignores it.
pub const FOLDER: &str = "gpu-bundle";

/// The most bytes of the folder. A larger one has files that it should not have. Packed it takes a third.
const MOST_BYTES: u64 = 192 << 20;

const RUN: &str = include_str!("run.sh");

/// Builds the program and its tests and puts them into [`FOLDER`].
///
/// # Errors
/// A build fails, a file can't be copied, or the folder gets too large.
pub fn bundle(root: &Path) -> Result<()> {
    let program = binaries(root, &["build", "--release", "-p", "host", "--bin", "host"])?;
    let mut tests = binaries(root, &["test", "-p", "host", "--no-run"])?;
    // This test needs a library that cargo puts beside it, and tests no GPU.
    tests.retain(|(name, _)| name != "fake_driver");
    let [(_, program)] = &program[..] else {
        anyhow::bail!("one program was expected of `cargo build -p host`, found {}", program.len());
    };
    ensure!(!tests.is_empty(), "`cargo test -p host` has no test binaries");

    // The new folder is complete before it replaces the old one.
    let new = tempfile::Builder::new().prefix(".gpu-bundle").tempdir_in(root)?;
    fs::create_dir_all(new.path().join("tests"))?;
    install(program, &new.path().join("host"))?;
    for (name, test) in &tests {
        install(test, &new.path().join("tests").join(name))?;
    }
    let data = root.join("tests/data");
    if data.is_dir() {
        copy_folder(&data, &new.path().join("tests/data"))?;
    }
    let run = new.path().join("run.sh");
    fs::write(&run, RUN)?;
    make_executable(&run)?;

    let bytes = size(new.path())?;
    ensure!(bytes < MOST_BYTES, "the bundle has {bytes} bytes, at most {MOST_BYTES} were expected");
    let place = root.join(FOLDER);
    if place.exists() {
        fs::remove_dir_all(&place).with_context(|| format!("could not remove {}", place.display()))?;
    }
    let new = new.keep();
    fs::rename(&new, &place).with_context(|| format!("could not rename {} to {FOLDER}", new.display()))?;
    #[cfg(unix)]
    fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let count = tests.len();
    println!("{FOLDER}: host, {count} test binaries, run.sh; {:.1} MiB, without symbols", bytes as f64 / 1048576.0);
    Ok(())
}

/// Runs cargo, and returns the executables with the names of their targets, each name once.
fn binaries(root: &Path, arguments: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let text = format!("cargo {}", arguments.join(" "));
    println!("{text}");
    let output = Command::new("cargo")
        .current_dir(root)
        .args(arguments)
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .context("could not start cargo")?;
    ensure!(output.status.success(), "`{text}` failed ({})", output.status);
    executables(&String::from_utf8_lossy(&output.stdout), arguments[0] == "test")
}

/// The executables in cargo's messages; of tests, only the test binaries: cargo also builds the program that they
/// start.
fn executables(messages: &str, tests: bool) -> Result<Vec<(String, PathBuf)>> {
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    for line in messages.lines() {
        let message: serde_json::Value = serde_json::from_str(line).with_context(|| format!("cargo said {line:?}"))?;
        let Some(path) = message["executable"].as_str() else { continue };
        if message["profile"]["test"].as_bool() != Some(tests) {
            continue;
        }
        let target = &message["target"];
        let name = target["name"].as_str().context("a target without a name")?;
        // The library and the program have the same name and unit tests each.
        let kind = target["kind"][0].as_str().unwrap_or_default();
        let name = if kind == "test" || !tests { name.to_owned() } else { format!("{name}-{kind}") };
        found.push((name, path.into()));
    }
    found.sort();
    Ok(found)
}

/// Copies a program without its debug information and symbols, which are most of it.
fn install(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("could not copy {}", from.display()))?;
    match Command::new("strip").arg(to).status() {
        Ok(status) => ensure!(status.success(), "strip failed for {} ({status})", from.display()),
        Err(_) => println!("there is no program `strip`: {} keeps its symbols", to.display()),
    }
    make_executable(to)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for item in fs::read_dir(from).with_context(|| format!("could not list {}", from.display()))? {
        let item = item?;
        let to = to.join(item.file_name());
        if item.file_type()?.is_dir() {
            copy_folder(&item.path(), &to)?;
        } else {
            fs::copy(item.path(), &to).with_context(|| format!("could not copy {}", item.path().display()))?;
        }
    }
    Ok(())
}

/// The bytes of all files below a folder.
fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for item in fs::read_dir(folder)? {
        let item = item?;
        bytes += if item.file_type()?.is_dir() { size(&item.path())? } else { item.metadata()?.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = r#"{"reason":"compiler-artifact","target":{"name":"host","kind":["lib"]},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","target":{"name":"host","kind":["bin"]},"profile":{"test":false},"executable":"/t/host"}
{"reason":"compiler-artifact","target":{"name":"host","kind":["bin"]},"profile":{"test":true},"executable":"/t/host-2"}
{"reason":"compiler-artifact","target":{"name":"host","kind":["lib"]},"profile":{"test":true},"executable":"/t/host-1"}
{"reason":"compiler-artifact","target":{"name":"cli","kind":["test"]},"profile":{"test":true},"executable":"/t/cli-3"}
{"reason":"build-finished","success":true}"#;

    #[test]
    fn programs_and_tests_are_told_apart_and_no_name_is_used_twice() {
        let names = |tests| -> Vec<String> {
            let found = executables(MESSAGES, tests).unwrap();
            found.into_iter().map(|(name, path)| format!("{name} {}", path.display())).collect()
        };
        assert_eq!(names(false), ["host /t/host"]);
        assert_eq!(names(true), ["cli /t/cli-3", "host-bin /t/host-2", "host-lib /t/host-1"]);
        assert!(executables("noise", true).is_err());
    }

    /// A bundle whose host is a script: what run.sh makes of steps that pass and steps that fail.
    fn run(host: &str, test: &str, step: &[&str]) -> (Option<i32>, String) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tests")).unwrap();
        for (name, text) in [("host", host), ("tests/one", test), ("run.sh", RUN)] {
            let text = if name == "run.sh" { text.to_owned() } else { format!("#!/bin/sh\n{text}\n") };
            fs::write(folder.path().join(name), text).unwrap();
            make_executable(&folder.path().join(name)).unwrap();
        }
        let output = Command::new("bash")
            .arg(folder.path().join("run.sh"))
            .args(step)
            .env("LIMIT", "2")
            .env_remove("OUT")
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Writes the report of a benchmark, as host does.
    const HOST: &str = r#"test "$1" != bench || echo {} > "$5""#;

    #[test]
    fn run_sh_passes_what_passes_and_fails_what_fails() {
        let (status, said) = run(HOST, "test -n \"$HOST_TEST_DATA\" && test -x \"$HOST_BIN\"", &[]);
        let steps: Vec<_> =
            said.lines().map(|line| line.rsplit_once(' ').unwrap().0.trim_end_matches(char::is_numeric)).collect();
        let expected = vec!["PASS info ", "PASS check ", "PASS test-one ", "PASS bench ", "PASS tutorial "];
        assert_eq!((status, steps), (Some(0), expected));

        let (status, said) = run("exit 0", "echo broken; exit 7", &["tests"]);
        assert_eq!(status, Some(1));
        assert!(
            said.starts_with("FAIL test-one ") && said.contains("exit status 7") && said.contains("broken"),
            "{said}"
        );

        let (status, said) = run(&format!("test \"$1\" != check || exit 1; {HOST}"), "", &[]);
        assert!(status == Some(1) && said.contains("FAIL check") && said.contains("PASS bench"), "{said}");

        let (status, said) = run("sleep 30", "", &["bench"]);
        assert!(status == Some(1) && said.contains("exit status 124"), "{said}");

        let (status, said) = run("exit 0", "", &["bench"]);
        assert!(status == Some(1) && said.contains("PASS bench") && said.contains("FAIL bench.json"), "{said}");

        assert_eq!(run("exit 0", "", &["nonsense"]).0, Some(2));
    }
}
