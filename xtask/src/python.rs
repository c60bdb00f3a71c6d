//! The machine's Python, virtual environments, and packages from PyPI.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::process::capture;

/// The oldest Python that the module and the tools support.
pub(crate) const OLDEST_PYTHON: (u32, u32) = (3, 11);

/// Names of Python, in the order in which they are tried.
const PYTHONS: [&str; 5] = ["python3", "python3.13", "python3.12", "python3.11", "python"];

/// The longest time for a download.
pub(crate) const DOWNLOAD_LIMIT: Duration = Duration::from_secs(300);

/// Makes a virtual environment. A failure leaves none behind.
pub(crate) fn make_environment(folder: &Path) -> Result<()> {
    let python = find_python()?;
    let made = capture(Command::new(python).args(["-m", "venv", "--clear"]).arg(folder), DOWNLOAD_LIMIT);
    if made.is_err() {
        // A half-made environment may have a `bin/python`, so it is removed.
        fs::remove_dir_all(folder).ok();
    }
    made.map(drop).context("could not make a virtual environment; on Debian and Ubuntu python3-venv is needed")
}

/// The Python of the environment in `folder`, with the packages of the list `required`, which `install` installs.
///
/// A file in the environment has the list. It is written after the packages were installed. An environment without this
/// file, or with another list, is made anew.
pub(crate) fn environment_with(
    folder: &Path,
    required: &str,
    install: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    complete(folder, required, make_environment, install)
}

/// [`environment_with`] with a function `make` for the environment.
fn complete(
    folder: &Path,
    required: &str,
    make: impl FnOnce(&Path) -> Result<()>,
    install: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let (python, installed) = (folder.join("bin/python"), folder.join("requirements.txt"));
    if !python.is_file() || !fs::read_to_string(&installed).is_ok_and(|found| found == required) {
        make(folder)?;
        install(&python)?;
        fs::write(&installed, required).with_context(|| format!("could not write {}", installed.display()))?;
    }
    Ok(python)
}

/// Installs packages into the environment of `python`.
pub(crate) fn pip(python: &Path, packages: &[&str]) -> Result<()> {
    println!("fetching {} with pip", packages.join(", "));
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]).args(packages);
    let done = capture(&mut pip, DOWNLOAD_LIMIT).map(drop);
    done.with_context(|| format!("could not install {} from PyPI", packages.join(", ")))
}

/// The first Python that is new enough.
pub(crate) fn find_python() -> Result<&'static str> {
    let (major, minor) = OLDEST_PYTHON;
    let mut found = Vec::new();
    for python in PYTHONS {
        let program = "import sys; print(*sys.version_info[:2])";
        let Ok(said) = capture(Command::new(python).args(["-c", program]), DOWNLOAD_LIMIT) else { continue };
        match version(&said) {
            Some(version) if version >= OLDEST_PYTHON => return Ok(python),
            _ => found.push(format!("{python} {}", said.trim().replace(' ', "."))),
        }
    }
    let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
    bail!("Python {major}.{minor} or newer is required, found: {found}")
}

/// The version in a text such as `3 11`.
fn version(said: &str) -> Option<(u32, u32)> {
    let (major, minor) = said.trim().split_once(' ')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// `PATH` with the folders of some programs in front.
pub(crate) fn path_with(programs: &[&Path]) -> Result<OsString> {
    let others = env::var_os("PATH").unwrap_or_default();
    let own = programs.iter().map(|program| program.parent().expect("a program lies in a folder").to_owned());
    Ok(env::join_paths(own.chain(env::split_paths(&others)))?)
}

/// A path as text.
pub(crate) fn path_text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("the path {} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_complete_after_its_packages_were_installed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("environment");
        let make = |folder: &Path| {
            fs::create_dir_all(folder.join("bin"))?;
            Ok(fs::write(folder.join("bin/python"), "")?)
        };
        let install = |required: &str, works: bool| {
            let mut tried = false;
            let made = complete(&folder, required, make, |python| {
                tried = true;
                assert!(python.is_file());
                if works { Ok(()) } else { bail!("no network") }
            });
            (tried, made.is_ok())
        };
        assert_eq!(install("one", false), (true, false));
        assert_eq!(install("one", true), (true, true));
        assert_eq!(install("one", true), (false, true));
        assert_eq!(install("one\ntwo", true), (true, true));
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(version("3 9\n").unwrap() < OLDEST_PYTHON && version("3 11").unwrap() >= OLDEST_PYTHON);
        assert!(version("4 0").unwrap() > OLDEST_PYTHON);
        assert_eq!(version("Python 2.7"), None);
    }
}
