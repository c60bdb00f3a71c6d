//! Licences, versions and sources of all dependencies, checked by [cargo-deny]. `deny.toml` says what is allowed.
//!
//! cargo-deny takes some minutes to build and a second to run. So its outcome is kept in a [stamp](crate::stamp).
//!
//! [cargo-deny]: https://embarkstudios.github.io/cargo-deny

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::process::{capture, show, shown};
use crate::ptxas::in_ci;
use crate::stamp::Stamp;

/// The only version that is used. A newer one may judge differently.
const VERSION: &str = "0.20.2";

/// What is checked. Advisories are left out: they change without a change here.
const CHECKS: [&str; 3] = ["licenses", "bans", "sources"];

/// What the checks read of a package, by its names in `cargo metadata`.
const OF_PACKAGE: [&str; 6] = ["name", "version", "license", "license_file", "publish", "features"];

/// What they read of a dependency. Not `path`, which says where this checkout is.
const OF_DEPENDENCY: [&str; 10] =
    ["name", "source", "req", "kind", "rename", "optional", "uses_default_features", "features", "target", "registry"];

/// Checks the dependencies, unless the stamp says that they have passed.
///
/// # Errors
/// A dependency is not allowed. Where cargo-deny can't be had: an error on a CI machine, elsewhere a message.
pub fn check(root: &Path) -> Result<()> {
    if stamp(root)?.is_current() {
        return Ok(());
    }
    match find(root) {
        Ok(program) => {
            run(root, &program)?;
            println!("`cargo xtask deny` records that they have passed");
            Ok(())
        }
        Err(error) if in_ci() => Err(error),
        Err(error) => {
            println!("SKIPPED, nothing was checked: {error:#}");
            Ok(())
        }
    }
}

/// Checks the dependencies, and writes the stamp.
///
/// # Errors
/// A dependency is not allowed, cargo-deny can't be had, or the stamp can't be written.
pub fn write(root: &Path) -> Result<()> {
    stamp(root)?.write_after(|| run(root, &find(root)?))
}

fn run(root: &Path, program: &Path) -> Result<()> {
    let mut command = Command::new(program);
    command.current_dir(root).args(["--locked", "check"]).args(CHECKS);
    println!("{}", shown(&command));
    show(&mut command)
}

/// The stamp of the lock file, the configuration, and what the manifests of the workspace say about dependencies and
/// licences.
fn stamp(root: &Path) -> Result<Stamp> {
    let mut metadata = Command::new("cargo");
    metadata.current_dir(root).args(["metadata", "--no-deps", "--format-version=1"]);
    let metadata = capture(&mut metadata, Duration::from_secs(120))?;
    let metadata: Value = serde_json::from_str(&metadata).context("the output of `cargo metadata` is not JSON")?;
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    let mut stamp = Stamp::new(root, "deny", "deny").text("cargo-deny", VERSION).text("checks", &CHECKS.join(" "));
    for file in ["Cargo.lock", "deny.toml"] {
        stamp = stamp.files(file)?;
    }
    for package in packages {
        stamp = add(stamp, package, &OF_PACKAGE)?;
        for dependency in package["dependencies"].as_array().context("a package lists no dependencies")? {
            stamp = add(stamp, dependency, &OF_DEPENDENCY)?;
        }
    }
    Ok(stamp)
}

/// Adds some members of a JSON object.
fn add(stamp: Stamp, object: &Value, keys: &[&str]) -> Result<Stamp> {
    keys.iter().try_fold(stamp, |stamp, key| {
        let member = object.get(key).with_context(|| format!("`cargo metadata` has no `{key}`"))?;
        Ok(stamp.text(key, &member.to_string()))
    })
}

/// The installed cargo-deny, or else one that is built into the target folder.
fn find(root: &Path) -> Result<PathBuf> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |target| root.join(target));
    let folder = target.join("cargo-deny");
    let own = folder.join("bin/cargo-deny");
    if let Some(found) = ["cargo-deny".into(), own.clone()].into_iter().find(|program| has_version(program)) {
        return Ok(found);
    }
    println!("cargo-deny {VERSION} is built into {}: some minutes, once", folder.display());
    let mut install = Command::new("cargo");
    install.current_dir(root).args(["install", "cargo-deny", "--locked", "--version", VERSION, "--root"]).arg(&folder);
    show(&mut install).with_context(|| format!("cargo-deny {VERSION} could not be installed"))?;
    ensure!(has_version(&own), "{} is not cargo-deny {VERSION}", own.display());
    Ok(own)
}

fn has_version(program: &Path) -> bool {
    let output = capture(Command::new(program).arg("--version"), Duration::from_secs(20));
    output.is_ok_and(|text| text.trim_end() == format!("cargo-deny {VERSION}"))
}
