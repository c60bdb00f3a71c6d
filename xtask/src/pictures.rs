//! The pictures of the documentation: photographs before and after filters, errors, drawings and plots.
//!
//! All come from committed data. Tests compare the committed pictures with what would be made now.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::process::{show, shown};
use crate::python::find_python;

/// Writes all pictures in `docs/images` and `docs/drawings`.
///
/// # Errors
/// The program does not compile, a test fails, or there is no Python.
pub fn write(root: &Path) -> Result<()> {
    // Pictures come first, because a drawing takes its colours from a picture.
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "-p", "host", "--test", "cli", "--test", "reference", "pictures"]).env("HOST_TEST_WRITE", "1");
    let mut python = Command::new(find_python()?);
    python.arg("docs/drawings/make.py").env("PYTHONDONTWRITEBYTECODE", "1");
    for mut command in [cargo, python] {
        command.current_dir(root);
        println!("{}", shown(&command));
        show(&mut command)?;
    }
    Ok(())
}
