//! A hash of the sources of PTX. It reveals a stale copy without a build.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::CudaBuilderError;

/// SHA-256 over files and settings.
///
/// The hash covers the path of each file relative to the root, and its bytes. The place of the root, the order of a
/// folder's listing and dates have no influence. Hidden files and editors' backups (`.name`, `name~`) are left out.
///
/// ```
/// # let root = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(root.path().join("src")).unwrap();
/// # std::fs::write(root.path().join("src/lib.rs"), "").unwrap();
/// # std::fs::write(root.path().join("Cargo.toml"), "").unwrap();
/// let hash = cuda_builder::SourceHash::new(root.path())
///     .sources(&["src", "Cargo.toml"])?
///     .setting("arch", "sm_70")
///     .finish();
/// assert_eq!(hash.len(), 64);
/// # Ok::<(), cuda_builder::CudaBuilderError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SourceHash {
    root: PathBuf,
    digest: Sha256,
}

impl SourceHash {
    /// A hash of files below `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), digest: Sha256::new() }
    }

    /// Adds files, and folders with everything in them. The paths are relative to the root.
    ///
    /// # Errors
    /// A path does not exist or can't be read.
    pub fn sources(mut self, relative: &[impl AsRef<Path>]) -> Result<Self, CudaBuilderError> {
        let mut files = Vec::new();
        for path in relative {
            let path = self.root.join(path);
            if !path.exists() {
                return Err(CudaBuilderError::NoSource { path });
            }
            collect(&path, &mut files)?;
        }
        let mut named: Vec<(String, PathBuf)> = files
            .into_iter()
            .map(|file| {
                let parts = file.strip_prefix(&self.root).expect("found below the root").components();
                let name: Vec<_> = parts.map(|part| part.as_os_str().to_string_lossy()).collect();
                (name.join("/"), file)
            })
            .collect();
        named.sort();
        named.dedup();
        for (name, file) in named {
            let bytes = fs::read(&file).map_err(CudaBuilderError::file("read", &file))?;
            self.part("file", name.as_bytes(), &bytes);
        }
        Ok(self)
    }

    /// Adds the versions and checksums of the packages that `package` is built with, from the `Cargo.lock` of the root.
    ///
    /// # Errors
    /// There is no such file, or the package is not in it.
    pub fn locked(mut self, package: &str) -> Result<Self, CudaBuilderError> {
        let path = self.root.join("Cargo.lock");
        let text = fs::read_to_string(&path).map_err(CudaBuilderError::file("read", &path))?;
        let closure = crate::lock_file::closure(&text, package);
        let closure = closure.ok_or_else(|| CudaBuilderError::NotLocked { path, package: package.to_owned() })?;
        for line in closure {
            self.part("locked", package.as_bytes(), line.as_bytes());
        }
        Ok(self)
    }

    /// Adds something that changes the PTX but is in no file, such as a flag or the compiler's version.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.part("setting", name.as_bytes(), value.as_bytes());
        self
    }

    /// The hash as 64 hexadecimal digits.
    #[must_use]
    pub fn finish(self) -> String {
        self.digest.finalize().iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a String takes everything");
            text
        })
    }

    /// The length precedes the bytes, so that different lists of parts have different bytes.
    fn part(&mut self, kind: &str, name: &[u8], value: &[u8]) {
        for bytes in [kind.as_bytes(), name, value] {
            self.digest.update((bytes.len() as u64).to_le_bytes());
            self.digest.update(bytes);
        }
    }
}

/// `path` itself, or all files below it.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), CudaBuilderError> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for item in fs::read_dir(path).map_err(CudaBuilderError::file("read", path))? {
        let item = item.map_err(CudaBuilderError::file("read", path))?;
        let name = item.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with('.') && !name.ends_with('~') {
            collect(&item.path(), files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn hash(root: &Path, sources: &[&str]) -> String {
        SourceHash::new(root).sources(sources).unwrap().setting("arch", "sm_70").finish()
    }

    #[test]
    fn place_and_order_do_not_count() {
        let one = tree(&[("src/a.rs", "a"), ("src/b/c.rs", "c"), ("Cargo.toml", "t")]);
        let two = tree(&[("Cargo.toml", "t"), ("src/b/c.rs", "c"), ("src/a.rs", "a"), ("src/.a.rs.swp", "x")]);
        assert_eq!(hash(one.path(), &["src", "Cargo.toml"]), hash(two.path(), &["Cargo.toml", "src", "src/a.rs"]));
    }

    #[test]
    fn every_change_counts() {
        let base = [("src/a.rs", "a"), ("src/b.rs", "b")];
        let hashes = [
            hash(tree(&base).path(), &["src"]),
            hash(tree(&[("src/a.rs", "a"), ("src/b.rs", "b\r")]).path(), &["src"]),
            hash(tree(&[("src/a.rs", "a"), ("src/c.rs", "b")]).path(), &["src"]),
            hash(tree(&[("src/a.rs", "ab"), ("src/b.rs", "")]).path(), &["src"]),
            hash(tree(&[("src/a.rs", "a"), ("src/b.rs", "b"), ("src/c.rs", "")]).path(), &["src"]),
            {
                let root = tree(&base);
                SourceHash::new(root.path()).sources(&["src"]).unwrap().finish()
            },
        ];
        for (i, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..i].contains(hash), "{i}");
        }
    }

    #[test]
    fn a_source_that_is_gone_is_an_error() {
        let root = tree(&[]);
        let error = SourceHash::new(root.path()).sources(&["src"]).unwrap_err();
        assert!(matches!(error, CudaBuilderError::NoSource { path } if path.ends_with("src")));
    }
}
