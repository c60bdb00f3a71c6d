//! The CPU path on 64-bit Arm, on a machine of another architecture: its tests are built for AArch64 and run by QEMU.
//!
//! They compare NEON with the scalar reference, bit by bit. QEMU computes what the instructions compute, and says
//! nothing about their speed.

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use crate::process::{capture, finish, show, shown};
use crate::ptxas::in_ci;
use crate::setup;
use crate::stamp::Stamp;

/// The target, as Rust calls it.
const TARGET: &str = "aarch64-unknown-linux-gnu";

/// Whether the machine needs no QEMU.
const NATIVE: bool = cfg!(target_arch = "aarch64");

/// The folder in which Debian's packages put the C library of the target.
const SYSROOT: &str = "/usr/aarch64-linux-gnu";

const EMULATOR: &str = "qemu-aarch64";
const LINKER: &str = "aarch64-linux-gnu-gcc";
/// A file of the C library that the linker needs.
const C_LIBRARY: &str = "/usr/aarch64-linux-gnu/lib/libc.so";

/// What is needed, and the package of Debian and Ubuntu that has it. A path is a file, a name is a program.
const NEEDED: [(&str, &str); 3] =
    [(EMULATOR, "qemu-user"), (LINKER, "gcc-aarch64-linux-gnu"), (C_LIBRARY, "libc6-dev-arm64-cross")];

/// The tests that are run.
const TESTS: [&str; 2] = ["cpu::", "nd::"];

/// Tests that are left out. QEMU can't measure times, and can't start another program of its architecture. One test
/// takes it long.
const SKIPPED: [&str; 3] =
    ["cpu::rates::", "cpu::tests::a_forced_level_takes_effect", "cpu::fft::tests::shapes::large_masks"];

/// The GPU's kernels are not optimised, because these tests do not run them. They would take a third of the build.
const UNOPTIMISED: &str = "profile.dev.package.kernels-gpu.opt-level=0";

/// A test that must be among those that passed. It fails if the CPU path does not use NEON.
const REQUIRED: &str = "cpu::tests::levels_of_this_architecture";

/// Without a network rustup gives up at once or never.
const RUSTUP_LIMIT: Duration = Duration::from_secs(90);
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(300);
const TEST_LIMIT: Duration = Duration::from_secs(900);

/// Where Rust's standard library for the target comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StandardLibrary {
    Installed,
    Built,
}

/// What the check depends on. The rest of the library has no instruction of an architecture: `cargo test` covers it.
///
/// # Errors
/// The sources can't be read.
pub fn stamp(root: &Path) -> Result<Stamp> {
    let stamp = Stamp::new(root, "aarch64", "aarch64").files("xtask/src/aarch64.rs")?;
    stamp.files("rust-toolchain.toml")?.files("faltung/src/cpu")?.files("faltung/src/nd")
}

/// Runs the tests, and writes the [`stamp`] if they have passed.
///
/// # Errors
/// A test fails, something that is needed is missing, or the stamp can't be written.
pub fn write(root: &Path) -> Result<()> {
    ensure!(!NATIVE, "this machine is AArch64: `cargo test` runs the tests here");
    stamp(root)?.write_after(|| run(root, prepare(root)?))
}

/// Runs the tests.
///
/// # Errors
/// A test fails. Where something that is needed can't be had: an error on a CI machine, elsewhere a message.
pub fn check(root: &Path) -> Result<()> {
    if NATIVE {
        println!("this machine is AArch64: `cargo test` runs the tests here");
        return Ok(());
    }
    match prepare(root) {
        Ok(library) => run(root, library),
        Err(error) if in_ci() => Err(error),
        Err(error) => {
            println!("SKIPPED, nothing was checked: {error:#}");
            Ok(())
        }
    }
}

/// Gets what is needed: on a CI machine the packages, and everywhere Rust's standard library for the target.
fn prepare(root: &Path) -> Result<StandardLibrary> {
    let mut missing = missing(is_there);
    if !missing.is_empty() && in_ci() {
        println!("installing {}", missing.join(", "));
        if let Err(error) = install(&missing) {
            println!("{error:#}");
        }
        missing = self::missing(is_there);
    }
    if let Some(message) = advice(&missing) {
        bail!(message);
    }
    standard_library(root)
}

/// The packages of what is missing.
fn missing(is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    NEEDED.iter().filter(|(needed, _)| !is_there(needed)).map(|&(_, package)| package).collect()
}

/// Whether a file or a program is there.
fn is_there(needed: &str) -> bool {
    if needed.contains('/') {
        return Path::new(needed).is_file();
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| folder.join(needed).is_file())
}

/// What to do about missing packages.
fn advice(missing: &[&str]) -> Option<String> {
    let list = missing.join(" ");
    (!missing.is_empty()).then(|| {
        format!("the tests for AArch64 need {list}; on Debian and Ubuntu `sudo apt-get install {list}` installs them")
    })
}

/// Installs packages of Debian, if this process may.
fn install(packages: &[&str]) -> Result<()> {
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        capture(&mut apt, DOWNLOAD_LIMIT)
    };
    apt(&["update", "-qq"])?;
    apt(&[&["install", "-qq", "--yes", "--no-install-recommends"], packages].concat())?;
    Ok(())
}

/// Rust's standard library for the target, which rustup adds to the toolchain that works here. Where rustup can't,
/// cargo is to build it from the sources that the kernels need, too.
fn standard_library(root: &Path) -> Result<StandardLibrary> {
    let mut rustc = Command::new("rustc");
    let sysroot = capture(rustc.current_dir(root).args(["--print", "sysroot"]), DOWNLOAD_LIMIT)?;
    if Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).join("lib").is_dir() {
        return Ok(StandardLibrary::Installed);
    }
    let mut rustup = Command::new("rustup");
    rustup.current_dir(root).args(["target", "add", TARGET]).env("RUSTUP_MAX_RETRIES", "1");
    println!("{}", shown(&rustup));
    match capture(&mut rustup, RUSTUP_LIMIT) {
        Ok(_) => Ok(StandardLibrary::Installed),
        Err(error) => {
            println!("{error:#}; cargo builds the standard library for {TARGET} instead");
            setup::require(root)?;
            Ok(StandardLibrary::Built)
        }
    }
}

/// Builds the tests and runs them.
fn run(root: &Path, library: StandardLibrary) -> Result<()> {
    let tests = |last: &[&str]| {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(root).args(["test", "-p", "faltung", "--no-default-features", "--lib"]);
        cargo.args(["--target", TARGET, "--config", UNOPTIMISED]);
        if library == StandardLibrary::Built {
            // A stable cargo has the option for those who set the variable.
            cargo.arg("-Zbuild-std").env("RUSTC_BOOTSTRAP", "1");
        }
        cargo.args(last);
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", format!("{EMULATOR} -L {SYSROOT}"));
        // The tests choose the instruction set, whatever the user has forced.
        cargo.env_remove("FALTUNG_CPU");
        println!("{}", shown(&cargo));
        cargo
    };
    show(&mut tests(&["--no-run"]))?;
    let skipped = SKIPPED.iter().flat_map(|test| ["--skip", test]);
    let arguments: Vec<_> = ["--"].into_iter().chain(TESTS).chain(skipped).collect();
    let finished = finish(&mut tests(&arguments), TEST_LIMIT)?;
    print!("{}", finished.stdout);
    ensure!(finished.status.success(), "the tests failed on AArch64 ({}):\n{}", finished.status, finished.stderr);
    // With filters that fit no test, cargo would succeed.
    ensure!(finished.stdout.contains(&format!("test {REQUIRED} ... ok")), "the test {REQUIRED} was not run");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(advice(&missing(|_| true)), None);
        let message = advice(&missing(|needed| needed == LINKER)).unwrap();
        assert!(message.contains("`sudo apt-get install qemu-user libc6-dev-arm64-cross`"), "{message}");
    }

    #[test]
    fn programs_and_files_are_found() {
        assert!(is_there("cargo") && !is_there("no-such-program") && !is_there("/no/such/file"));
        assert!(is_there(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")));
        assert!(!is_there(env!("CARGO_MANIFEST_DIR")), "a folder is no file");
    }
}
