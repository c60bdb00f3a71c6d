//! Stamps: a check that passed need not run again while its inputs are the same.
//!
//! A stamp is a committed file with the hash of the inputs that a check passed with. The task that runs the check writes
//! it. `cargo xtask ci` skips the check while the hash is still that of the inputs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use cuda_builder::SourceHash;

/// Where the stamps are, relative to the root of the workspace.
const FOLDER: &str = "xtask/stamps";

/// The committed file of a check, and the hash of its inputs as they are now.
#[derive(Debug)]
pub struct Stamp {
    path: PathBuf,
    hash: String,
}

impl Stamp {
    /// The stamp of a check. `inputs` must cover everything that the outcome depends on.
    #[must_use]
    pub fn new(root: &Path, check: &str, inputs: SourceHash) -> Self {
        Self { path: root.join(FOLDER).join(check), hash: inputs.finish() }
    }

    /// Whether the check has passed with exactly these inputs.
    #[must_use]
    pub fn is_current(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|text| text.trim_end() == self.hash)
    }

    /// Records that the check has passed. The file belongs in the next commit.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write(&self) -> Result<()> {
        let failed = || format!("could not write {}", self.path.display());
        fs::create_dir_all(self.path.parent().expect("the path names a file in a folder")).with_context(failed)?;
        fs::write(&self.path, format!("{}\n", self.hash)).with_context(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_current_while_its_inputs_are_the_same() {
        let root = tempfile::tempdir().unwrap();
        let stamp = |version: &str| {
            let inputs = SourceHash::new(root.path()).sources(&["input"]).unwrap().setting("version", version);
            Stamp::new(root.path(), "example", inputs)
        };
        fs::write(root.path().join("input"), "a").unwrap();
        assert!(!stamp("1").is_current(), "there is no file yet");
        stamp("1").write().unwrap();
        assert!(stamp("1").is_current());
        assert!(!stamp("2").is_current());
        fs::write(root.path().join("input"), "b").unwrap();
        assert!(!stamp("1").is_current());
        fs::write(root.path().join("input"), "a").unwrap();
        assert!(stamp("1").is_current());
    }
}
