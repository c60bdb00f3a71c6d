//! `examples/outside`: a program that depends on the library alone, built and run as its users do it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::own_kernels::write_profiles;
use crate::process::{show, shown};
use crate::stamp::Stamp;
use crate::target;

/// The program's folder.
const FOLDER: &str = "examples/outside";

/// `.cargo/config.toml` of a user, as the documentation of the library has it.
const CONFIG: &str = "[env]\nCUDA_LIBRARY_PATH = \"/\"\n";

/// What the check depends on: the library with the crates that it is made of, and the program.
///
/// # Errors
/// A source can't be read.
pub fn stamp(root: &Path) -> Result<Stamp> {
    let mut stamp = Stamp::new(root, "outside", "outside");
    for input in ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "faltung", "kernels-gpu", "rust-cuda"] {
        stamp = stamp.files(input)?;
    }
    for item in ["Cargo.toml", "src"] {
        stamp = stamp.files(&format!("{FOLDER}/{item}"))?;
    }
    stamp.files("xtask/src/outside.rs")
}

/// Runs the [`check`], and writes the [`stamp`] if it has passed.
///
/// # Errors
/// A step fails, or the stamp can't be written.
pub fn write(root: &Path) -> Result<()> {
    stamp(root)?.write_after(|| check(root))
}

/// Checks the program without CUDA, then builds it with CUDA and runs it on every device of this machine.
///
/// # Errors
/// The program does not build, or its results differ between devices.
pub fn check(root: &Path) -> Result<()> {
    let program = root.join(FOLDER);
    // With the versions of the workspace nothing is downloaded. Cargo removes the packages that the program does not
    // need.
    fs::copy(root.join("Cargo.lock"), program.join("Cargo.lock")).context("could not copy Cargo.lock")?;

    // Cargo reads `.cargo/config.toml` from the current folder and its parents. Here it must not be that of this
    // workspace.
    let user = tempfile::tempdir()?;
    fs::create_dir(user.path().join(".cargo"))?;
    fs::write(user.path().join(".cargo/config.toml"), CONFIG)?;
    let profiles = user.path().join("profiles.toml");
    write_profiles(root, &profiles)?;
    let cargo = |subcommand: &str, arguments: &[&str]| {
        let mut command = Command::new("cargo");
        command.current_dir(user.path()).env_remove("CUDA_LIBRARY_PATH").env("CARGO_TARGET_DIR", target(root));
        command.arg("--config").arg(&profiles).arg(subcommand);
        command.arg("--manifest-path").arg(program.join("Cargo.toml")).args(arguments);
        println!("{}", shown(&command));
        show(&mut command)
    };
    cargo("clippy", &["--no-default-features", "--", "-D", "warnings"])?;
    cargo("run", &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> String {
        let path = crate::root().join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn the_readme_quotes_the_program() {
        let readme = read("README.md");
        let (_, section) = readme.split_once("\n## The library\n").expect("README.md has the section");
        let (_, block) = section.split_once("```rust\n").expect("the section has a block of Rust");
        let (block, _) = block.split_once("```\n").expect("the block ends");
        assert!(block.lines().count() >= 10, "{block}");
        assert!(read("examples/outside/src/main.rs").contains(block), "not in the program:\n{block}");
    }

    #[test]
    fn the_documentation_has_the_configuration() {
        let documentation = read("faltung/src/lib.rs").replace("//! ", "");
        for text in [read("faltung/README.md"), documentation] {
            assert!(text.contains(&format!("```toml\n{CONFIG}```\n")), "{text}");
        }
    }
}
