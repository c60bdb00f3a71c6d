//! The book: all Markdown files of the repository as HTML, with their links and drawings checked.
//!
//! MkDocs makes it, from `book/mkdocs.yml`. The packages of `book/requirements.txt` come from PyPI, into a virtual
//! environment in the target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::process::{show, shown};
use crate::python::{environment_with, path_text, pip};
use crate::report;

/// Tests the link checker, checks that the drawings are current, builds the book with the pages of measurements, and
/// checks all links.
///
/// # Errors
/// The packages can't be had, a drawing is not what its script makes, a link leads nowhere, or a test fails.
pub fn book(root: &Path) -> Result<()> {
    let python = tools(root)?;
    let tools = root.join("book");
    let book = crate::target(root).join("book");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        // No advertisement of the theme, and no files beside the sources.
        command.env("NO_MKDOCS_2_WARNING", "1").env("PYTHONDONTWRITEBYTECODE", "1");
        command.current_dir(&tools).args(arguments);
        println!("{}", shown(&command));
        show(&mut command)
    };
    run(&["-m", "unittest", "--quiet"])?;
    run(&["../docs/drawings/make.py", "--check"])?;
    run(&["-m", "mkdocs", "build", "--clean", "--config-file", "mkdocs.yml", "-d", path_text(&book)?])?;
    report::write(root, &book.join("report"))?;
    run(&["links.py", path_text(&book)?])?;
    println!("{}", book.join("index.html").display());
    Ok(())
}

/// The Python that has the packages, in the versions of `book/requirements.txt`.
fn tools(root: &Path) -> Result<PathBuf> {
    let requirements = root.join("book/requirements.txt");
    environment_with(&crate::target(root).join("book-tools"), &fs::read_to_string(&requirements)?, |python| {
        pip(python, &["-r", path_text(&requirements)?])
    })
}
