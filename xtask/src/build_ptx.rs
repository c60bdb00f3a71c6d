//! The kernels to PTX: one file per module, and an index that a Rust program includes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use kernels_gpu::registry;

use crate::process::show;
use crate::stamp::Stamp;
use crate::{kernels, module_text, setup};

/// Where the files are, relative to the root of the workspace.
pub const FOLDER: &str = "kernels-gpu/ptx";

/// The generated files: name and text.
pub type Files = BTreeMap<String, String>;

/// Builds the kernels and writes what changed, and the [`stamp`].
///
/// # Errors
/// The build fails, the PTX is not what the list of entries says, or a file can't be written.
pub fn write(root: &Path) -> Result<()> {
    let files = generate(root)?;
    let folder = root.join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
    let old = read(&folder)?;
    // The index is written after the files that it names. Then the files that it does not name are removed.
    let (index, modules): (Vec<_>, Vec<_>) = files.iter().partition(|(name, _)| *name == INDEX);
    let mut written = 0;
    for (name, text) in modules.into_iter().chain(index) {
        if old.get(name) != Some(text) {
            replace(&folder, name, text)?;
            written += 1;
        }
    }
    let stale: Vec<_> = old.keys().filter(|name| !files.contains_key(*name)).collect();
    for name in &stale {
        fs::remove_file(folder.join(name)).with_context(|| format!("could not remove {name}"))?;
    }
    println!("{FOLDER}: {} files, {written} written, {} removed", files.len(), stale.len());
    stamp(root)?.write()?;
    if test_builder(root, false)? { builder_stamp(root)?.write() } else { Ok(()) }
}

/// Builds the kernels and compares them with the committed files.
///
/// # Errors
/// The build fails, or a file is missing, differs or should not be there; each is named.
pub fn check(root: &Path) -> Result<()> {
    let differences = differences(&read(&root.join(FOLDER))?, &generate(root)?);
    ensure!(
        differences.is_empty(),
        "{FOLDER} is not what the kernels compile to; run `cargo xtask build-ptx` and commit the result:\n  {}",
        differences.join("\n  ")
    );
    println!("{FOLDER} is what the kernels compile to, byte for byte");
    Ok(())
}

/// Runs the test of `cuda_builder` that compiles `core`, unless the stamp says that it has passed. Returns whether it
/// ran.
///
/// # Errors
/// The test fails, or the sources of `core` can't be had.
pub fn test_builder(root: &Path, force: bool) -> Result<bool> {
    if !force && builder_stamp(root)?.is_current() {
        return Ok(false);
    }
    setup::require(root)?;
    let arguments = ["test", "--package", "cuda_builder", "--test", "small_crate", "--", "--ignored"];
    show(Command::new("cargo").current_dir(root).args(arguments))?;
    Ok(true)
}

/// What the test of `cuda_builder` depends on.
fn builder_stamp(root: &Path) -> Result<Stamp> {
    Stamp::new(root, "cuda_builder", "build-ptx").files("rust-cuda/cuda_builder")?.files("rust-toolchain.toml")
}

/// What the committed PTX depends on, and the PTX itself. It is current if a build of these sources by this compiler
/// gave this PTX.
///
/// # Errors
/// A source is not there.
pub fn stamp(root: &Path) -> Result<Stamp> {
    // The hash of the sources covers neither the edition of the workspace nor this file.
    let manifest = root.join("Cargo.toml");
    let manifest = fs::read_to_string(&manifest).with_context(|| format!("could not read {}", manifest.display()))?;
    let package = manifest.split("\n[").find(|section| section.starts_with("workspace.package]"));
    Stamp::new(root, "ptx", "build-ptx")
        .text("sources", &kernels::source_hash(root)?)
        .text("workspace.package", package.context("Cargo.toml has no [workspace.package]")?)
        .files("xtask/src/build_ptx.rs")?
        .files("rust-toolchain.toml")?
        .files(FOLDER)
}

const INDEX: &str = "index.rs";

/// Builds the kernels and gives the files that belong in [`FOLDER`]. Gets the sources of `core` first, where they are
/// missing.
fn generate(root: &Path) -> Result<Files> {
    setup::require(root)?;
    let hash = kernels::source_hash(root)?;
    let list: Vec<_> = registry::kernels().collect();
    let built = kernels::build(root, &list)?;
    let texts = || built.modules.iter().map(|module| (module.name.as_str(), module.text.as_str()));
    let problems = kernels::mismatches(texts(), &list);
    ensure!(problems.is_empty(), "the PTX is not what the list of entries says:\n  {}", problems.join("\n  "));

    let mut files = Files::new();
    println!("{:<34} {:>7} {:>9}", "module", "entries", "bytes");
    for module in &built.modules {
        let text = module_text::of(&module.text, &list);
        println!("{:<34} {:>7} {:>9}", module.name, module.entries.len(), text.len());
        ensure!(
            module.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'),
            "module {:?} can't be the name of a file: letters, digits and _ are required",
            module.name
        );
        files.insert(format!("{}.ptx", module.name), text);
    }
    println!("{:<34} {:>7} {:>9}", "total", list.len(), files.values().map(String::len).sum::<usize>());
    let names: Vec<_> = built.modules.iter().map(|module| module.name.as_str()).collect();
    files.insert(INDEX.to_owned(), module_text::index(&names, &built.rustc, &hash));
    Ok(files)
}

/// The files of a folder that could be generated ones; a folder that is not there has none.
fn read(folder: &Path) -> Result<Files> {
    let mut files = Files::new();
    if !folder.exists() {
        return Ok(files);
    }
    for item in fs::read_dir(folder).with_context(|| format!("could not list {}", folder.display()))? {
        let path = item?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            let bytes = fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
            files.insert(name, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    Ok(files)
}

/// Writes a file under another name, then renames it. So the file is always whole.
fn replace(folder: &Path, name: &str, text: &str) -> Result<()> {
    let place = || format!("could not write {}", folder.join(name).display());
    let file = tempfile::Builder::new().prefix(".").suffix(".tmp").tempfile_in(folder).with_context(place)?;
    fs::write(file.path(), text).with_context(place)?;
    #[cfg(unix)]
    fs::set_permissions(file.path(), std::os::unix::fs::PermissionsExt::from_mode(0o644)).with_context(place)?;
    match file.persist(folder.join(name)) {
        Ok(_) => Ok(()),
        Err(error) => bail!("{}: {error}", place()),
    }
}

/// One line for each file that is missing, differs from what was made, or should not be there.
fn differences(there: &Files, made: &Files) -> Vec<String> {
    let mut differences = Vec::new();
    for (name, text) in made {
        match there.get(name) {
            None => differences.push(format!("{name} is missing")),
            Some(found) if found == text => {}
            Some(found) => differences.push(first_difference(name, found, text)),
        }
    }
    differences
        .extend(there.keys().filter(|name| !made.contains_key(*name)).map(|name| format!("{name} is left over")));
    differences
}

/// The first line in which two texts differ. Line ends count.
fn first_difference(name: &str, found: &str, made: &str) -> String {
    let (mut found, mut made) = (found.split('\n'), made.split('\n'));
    let mut line = 1;
    loop {
        let (left, right) = (found.next(), made.next());
        if left != right {
            let shown = |line: Option<&str>| line.map_or("the end".to_owned(), |line| format!("{line:?}"));
            return format!("{name}:{line}: there is {}, the kernels give {}", shown(left), shown(right));
        }
        line += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Files {
        list.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn differences_name_the_file_and_the_line() {
        let made = files(&[("a.ptx", "1\n2\n"), ("b.ptx", "1\n"), ("c.ptx", "x")]);
        assert_eq!(differences(&made, &made), Vec::<String>::new());
        let there = files(&[("a.ptx", "1\n3\n"), ("b.ptx", "1\r\n"), ("d.ptx", "")]);
        assert_eq!(
            differences(&there, &made),
            [
                "a.ptx:2: there is \"3\", the kernels give \"2\"",
                "b.ptx:1: there is \"1\\r\", the kernels give \"1\"",
                "c.ptx is missing",
                "d.ptx is left over"
            ]
        );
        let shorter = files(&[("a.ptx", "1\n2\n"), ("b.ptx", "1"), ("c.ptx", "x")]);
        assert_eq!(differences(&shorter, &made), ["b.ptx:2: there is the end, the kernels give \"\""]);
    }

    #[test]
    fn a_file_is_replaced_whole_and_hidden_ones_are_not_ours() {
        let folder = tempfile::tempdir().unwrap();
        replace(folder.path(), "a.ptx", "old").unwrap();
        replace(folder.path(), "a.ptx", "new").unwrap();
        fs::write(folder.path().join(".hidden"), "x").unwrap();
        assert_eq!(read(folder.path()).unwrap(), files(&[("a.ptx", "new")]));
        assert_eq!(read(&folder.path().join("none")).unwrap(), Files::new());
    }
}
