//! Stamps: hashes of what a slow check has covered. They are committed, so that an unchanged tree skips the check.
//!
//! A stamp is written only after its check has passed. A stale one hides nothing, because its check then runs.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

/// Where the stamps are, relative to the root of the workspace.
pub const FOLDER: &str = "xtask/stamps";

/// What one check depends on: text, files and folders.
#[derive(Clone, Debug)]
pub struct Stamp {
    /// The name of its file.
    name: &'static str,
    /// The task that writes it.
    task: &'static str,
    root: PathBuf,
    digest: Sha256,
}

impl Stamp {
    /// A stamp that `cargo xtask <task>` writes, without inputs so far.
    #[must_use]
    pub fn new(root: &Path, name: &'static str, task: &'static str) -> Self {
        Self { name, task, root: root.to_owned(), digest: Sha256::new() }
    }

    /// Adds text that is in no file, under a name.
    #[must_use]
    pub fn text(mut self, name: &str, text: &str) -> Self {
        self.part(name, text.as_bytes());
        self
    }

    /// Adds a file, or each file of a folder that is not hidden.
    ///
    /// # Errors
    /// It is not there or can't be read.
    pub fn files(mut self, relative: &str) -> Result<Self> {
        let path = self.root.join(relative);
        if !path.is_dir() {
            let bytes = fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
            self.part(relative, &bytes);
            return Ok(self);
        }
        let mut names = Vec::new();
        for item in fs::read_dir(&path).with_context(|| format!("could not list {}", path.display()))? {
            names.push(item?.file_name().to_string_lossy().into_owned());
        }
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        names.into_iter().try_fold(self, |stamp, name| stamp.files(&format!("{relative}/{name}")))
    }

    /// Whether the committed stamp covers just these inputs. Says so.
    #[must_use]
    pub fn is_current(&self) -> bool {
        let is_current = fs::read_to_string(self.path()).is_ok_and(|found| found == self.contents());
        if is_current {
            println!("skipped: {FOLDER}/{} covers these inputs; --force runs the check", self.name);
        } else {
            println!("{FOLDER}/{} is of other inputs; `cargo xtask {}` renews it", self.name, self.task);
        }
        is_current
    }

    /// Runs the check, and writes the stamp if it has passed. The stamp has the inputs from before the check, so it
    /// does not cover later changes.
    ///
    /// # Errors
    /// The check's, or the file can't be written.
    pub fn write_after(self, check: impl FnOnce() -> Result<()>) -> Result<()> {
        check()?;
        self.write()
    }

    /// Writes the stamp. Only a check that has passed in full may do this.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write(&self) -> Result<()> {
        let path = self.path();
        fs::create_dir_all(self.root.join(FOLDER)).with_context(|| format!("could not create {FOLDER}"))?;
        fs::write(&path, self.contents()).with_context(|| format!("could not write {}", path.display()))
    }

    fn path(&self) -> PathBuf {
        self.root.join(FOLDER).join(self.name)
    }

    /// What the file of the stamp has.
    fn contents(&self) -> String {
        let mut hash = String::new();
        for byte in self.digest.clone().finalize() {
            write!(hash, "{byte:02x}").expect("a String takes everything");
        }
        format!("{hash}\n")
    }

    /// The lengths come first, so that different lists of parts have different bytes.
    fn part(&mut self, name: &str, value: &[u8]) {
        for bytes in [name.as_bytes(), value] {
            self.digest.update((bytes.len() as u64).to_le_bytes());
            self.digest.update(bytes);
        }
    }
}

/// Does `work`, unless its stamp covers just these inputs and it is not forced.
///
/// # Errors
/// Those of `work`, or an input of the stamp can't be read.
pub fn unless_current(
    root: &Path,
    force: bool,
    stamp: fn(&Path) -> Result<Stamp>,
    work: fn(&Path) -> Result<()>,
) -> Result<()> {
    if !force && stamp(root)?.is_current() { Ok(()) } else { work(root) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_of_an_input_makes_a_stamp_stale() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let stamp = |text: &str| {
            let stamp = Stamp::new(root.path(), "name", "task").text("rustc", text);
            stamp.files("folder").unwrap().files("file").unwrap()
        };
        write("folder/a", "1");
        write("folder/inner/b", "2");
        write("file", "3");
        assert!(!stamp("4").is_current(), "there is none");
        stamp("4").write().unwrap();
        assert!(stamp("4").is_current());
        write("folder/.hidden", "x");
        assert!(stamp("4").is_current());
        assert!(!stamp("5").is_current());
        for (path, text, changed) in [("folder/a", "1", "10"), ("folder/inner/b", "2", ""), ("file", "3", "3\r")] {
            write(path, changed);
            assert!(!stamp("4").is_current(), "{path}");
            write(path, text);
            assert!(stamp("4").is_current(), "{path}");
        }
        write("folder/c", "");
        assert!(!stamp("4").is_current(), "a file too many");
        fs::remove_file(root.path().join("folder/c")).unwrap();
        fs::rename(root.path().join("folder/a"), root.path().join("folder/d")).unwrap();
        assert!(!stamp("4").is_current(), "another name");
        assert!(Stamp::new(root.path(), "name", "task").files("none").is_err());
    }
}
