//! `examples/own-kernels` and a workspace of `cargo xtask new-kernel`, built and run as their users do it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use cuda_builder::{Arch, CudaBuilder};

use crate::new_kernel::new_kernel;
use crate::process::{show, shown};
use crate::stamp::Stamp;
use crate::{setup, target};

/// The example's folder.
const FOLDER: &str = "examples/own-kernels";

/// One more kernel of a new workspace.
const SECOND_KERNEL: &str = "
/// Does nothing.
///
/// # Safety
/// - Nothing is required.
#[kernel]
pub unsafe fn second_kernel() {}
";

/// A test of the program that sees whether its PTX has that kernel.
const TEST: &str = "
#[test]
fn the_ptx_is_that_of_these_sources() {
    assert!(cuda_launch::ptx!(\"first_kernel\").text.contains(\".entry second_kernel(\"));
}
";

/// Writes the profiles of this workspace to a file for `cargo --config`. With the same profiles other workspaces reuse
/// its compiled dependencies.
pub(crate) fn write_profiles(root: &Path, file: &Path) -> Result<()> {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).context("could not read Cargo.toml")?;
    fs::write(file, profiles(&manifest)).context("could not write the profiles")
}

/// The profiles of a manifest.
fn profiles(manifest: &str) -> String {
    let is_profile = |section: &&str| section.starts_with("profile.");
    manifest.split("\n[").filter(is_profile).map(|section| format!("[{section}\n")).collect()
}

/// What the check depends on: the toolchain crates, the example, and the template with what uses it.
///
/// # Errors
/// A source can't be read.
pub fn stamp(root: &Path) -> Result<Stamp> {
    let mut stamp = Stamp::new(root, "own-kernels", "own-kernels");
    for input in ["Cargo.lock", "rust-toolchain.toml", "rust-cuda", "xtask/template"] {
        stamp = stamp.files(input)?;
    }
    for item in ["Cargo.toml", "rust-toolchain.toml", "app", "kernels"] {
        stamp = stamp.files(&format!("{FOLDER}/{item}"))?;
    }
    stamp.files("xtask/src/own_kernels.rs")?.files("xtask/src/new_kernel.rs")
}

/// Runs the [`check`], and writes the [`stamp`] if it has passed.
///
/// # Errors
/// A step fails, or the stamp can't be written.
pub fn write(root: &Path) -> Result<()> {
    stamp(root)?.write_after(|| check(root))
}

/// Checks and tests the example, runs its program, then makes a new workspace, tests it and runs its program. A second
/// workspace of the same name has other kernels, and its program must have their PTX.
///
/// # Errors
/// A step fails.
pub fn check(root: &Path) -> Result<()> {
    // The PTX needs the sources of core.
    setup::require(root)?;
    let example = root.join(FOLDER);
    fs::copy(root.join("Cargo.lock"), example.join("Cargo.lock")).context("could not copy Cargo.lock")?;
    let temporary = tempfile::tempdir()?;
    let config = temporary.path().join("profiles.toml");
    write_profiles(root, &config)?;
    let cargo = |folder: &Path, arguments: &[&str]| {
        let mut command = Command::new("cargo");
        command.current_dir(folder).env_remove("CUDA_LIBRARY_PATH");
        command.env("CARGO_TARGET_DIR", target(root)).arg("--config").arg(&config).args(arguments);
        println!("{}", shown(&command));
        show(&mut command)
    };
    cargo(&example, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    cargo(&example, &["test", "--workspace"])?;
    cargo(&example, &["run", "-p", "app"])?;

    let folder = new_kernel(root, temporary.path(), "first-kernel")?;
    // This workspace is made before the first build, so that its `build.rs` is not newer than the compiled one.
    let elsewhere = tempfile::tempdir()?;
    let second = new_kernel(root, elsewhere.path(), "first-kernel")?;
    // The format is checked without the configuration, because the text is that of the template.
    show(Command::new("cargo").current_dir(&folder).args(["fmt", "--all", "--check"]))?;
    cargo(&folder, &["test", "--workspace"])?;
    cargo(&folder, &["run"])?;

    // This is a workspace of the same name in another folder. Cargo gives it the same `OUT_DIR`.
    let kernels = second.join("kernels/src/lib.rs");
    let text = fs::read_to_string(&kernels).context("could not read the kernels")?;
    fs::write(&kernels, text + SECOND_KERNEL).context("could not write the kernels")?;
    let program = second.join("app/src/main.rs");
    let text = fs::read_to_string(&program).context("could not read the program")?;
    fs::write(&program, text + TEST).context("could not write the program")?;
    cargo(&second, &["test", "-p", "first-kernel-app"])
}

/// Compiles the kernels of the example to a file of PTX, as the `build.rs` of its program does.
///
/// # Errors
/// The build fails, or the file can't be written.
pub fn write_ptx(root: &Path, file: &Path) -> Result<()> {
    setup::require(root)?;
    let example = root.join(FOLDER);
    fs::copy(root.join("Cargo.lock"), example.join("Cargo.lock")).context("could not copy Cargo.lock")?;
    let builder = CudaBuilder::new(example.join("kernels")).arch(Arch::Sm80);
    let build = builder.target_dir(target(root).join("own-kernels-ptx")).copy_to(file).build()?;
    println!("{}: {} kernels, {} bytes", file.display(), build.entries().count(), build.text.len());
    if let Some(statistics) = build.sass_statistics(Arch::Sm90)? {
        println!("{statistics}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read(path: &str) -> String {
        let path = crate::root().join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The blocks of a chapter with the file that the line before them names: `<!-- examples/… -->`.
    fn quotes(chapter: &str) -> Vec<(String, String)> {
        let mut quotes = Vec::new();
        for piece in chapter.split("\n<!-- ").skip(1) {
            let (file, rest) = piece.split_once(" -->\n").expect("the comment ends");
            let block = rest.trim_start_matches('\n').strip_prefix("```").expect("a block follows");
            let (_, block) = block.split_once('\n').expect("the block begins");
            let (block, _) = block.split_once("\n```").expect("the block ends");
            quotes.push((file.to_owned(), block.to_owned()));
        }
        quotes
    }

    /// Whether a text has the lines of a block, one after the other. A line `…` stands for any lines.
    fn has(text: &str, block: &str) -> bool {
        let mut rest = text;
        block.split("\n…\n").all(|part| match rest.find(part) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    }

    #[test]
    fn the_chapter_quotes_files_that_are_built_and_run() {
        let chapter = read("docs/own-kernels.md");
        let quotes = quotes(&chapter);
        let code = chapter.matches("\n```rust\n").count() + chapter.matches("\n```toml\n").count();
        assert_eq!(quotes.len(), code, "each listing of Rust and TOML has the comment with its file");
        assert!(quotes.len() >= 8, "{}", quotes.len());
        for (file, block) in &quotes {
            assert!(file.starts_with("examples/own-kernels/") || file.starts_with("xtask/template/"), "{file}");
            assert!(has(&read(file), block), "not in {file}:\n{block}");
        }
        let by_file: BTreeMap<_, _> = quotes.iter().map(|(file, block)| (file, block.len())).collect();
        assert!(by_file.len() >= 6, "{by_file:?}");
    }

    #[test]
    fn profiles_are_those_of_the_workspace() {
        let found = profiles(
            "[workspace]\na = 1\n\n[profile.dev]\nopt-level = 3\n\n[lints]\nb = 1\n[profile.dev.package.x]\nc = 2\n",
        );
        assert_eq!(found, "[profile.dev]\nopt-level = 3\n\n[profile.dev.package.x]\nc = 2\n\n");
        assert!(profiles(&read("Cargo.toml")).contains("[profile.dev]\nopt-level = 2\n"));
    }

    #[test]
    fn a_quote_that_differs_is_found() {
        let text = "a\nb\nc\nd\n";
        assert!(has(text, "b\nc") && has(text, "a\n…\nc\nd"));
        assert!(!has(text, "a\nc") && !has(text, "c\n…\na"));
        let chapter = "x\n\n<!-- f.rs -->\n```rust\na\nb\n```\ny\n";
        assert_eq!(quotes(chapter), [("f.rs".to_owned(), "a\nb".to_owned())]);
    }
}
