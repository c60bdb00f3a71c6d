//! Tells the program how it was built: what cargo tells build scripts alone, and the commit. `bench` prints it beside
//! its figures.

use std::path::Path;
use std::process::Command;

/// What the program is made of, from the root of the repository.
const SOURCES: [&str; 7] =
    ["Cargo.lock", "Cargo.toml", "faltung", "host", "kernels-gpu", "rust-cuda", "rust-toolchain.toml"];

fn main() {
    for source in SOURCES {
        println!("cargo::rerun-if-changed=../{source}");
    }
    for variable in ["PROFILE", "OPT_LEVEL", "TARGET"] {
        println!("cargo::rustc-env=HOST_{variable}={}", std::env::var(variable).unwrap_or_default());
    }
    println!("cargo::rustc-env=HOST_COMMIT={}", commit().unwrap_or_default());
}

/// The commit, with `-dirty` if the sources were changed since; None outside of a repository.
fn commit() -> Option<String> {
    // The log of HEAD grows with each commit and checkout. The index is no input: `git status` writes it, too.
    let log = Path::new("..").join(git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    let hash = git(&["rev-parse", "--short", "HEAD"])?;
    let changes = git(&[&["status", "--porcelain", "--"], &SOURCES[..]].concat())?;
    Some(if changes.is_empty() { hash } else { hash + "-dirty" })
}

/// What a git command prints in the root of the repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).current_dir("..").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
