//! The sources of `core`, which are compiled for the GPU along with the kernels.

use std::fs;
use std::path::{Path, PathBuf};

use crate::CudaBuilderError;
use crate::child::Toolchain;

/// The sources of `core` that belong to a compiler.
#[derive(Clone, Debug)]
pub struct RustSrc {
    /// The folder `rust` that holds `library`: `lib/rustlib/src/rust` in the compiler's sysroot.
    pub folder: PathBuf,
    /// The compiler's version: `1.95.0`.
    pub rustc: String,
}

impl RustSrc {
    /// The place of the sources of the compiler in `directory`. They may be missing.
    ///
    /// # Errors
    /// rustc does not start, or it does not print its sysroot.
    pub fn locate(directory: &Path) -> Result<Self, CudaBuilderError> {
        let toolchain = Toolchain::of(directory)?;
        Ok(Self { folder: toolchain.sysroot.join("lib/rustlib/src/rust"), rustc: toolchain.release })
    }

    /// The file with the version in a source tree of Rust.
    ///
    /// rustup's component lacks it, but always has the version of the compiler. Other sources must have it.
    #[must_use]
    pub fn version_file(&self) -> PathBuf {
        self.folder.join("src/version")
    }

    /// Checks that the sources exist and belong to this compiler.
    ///
    /// # Errors
    /// [`RustSrcMissing`](CudaBuilderError::RustSrcMissing) or [`RustSrcVersion`](CudaBuilderError::RustSrcVersion).
    pub fn check(&self) -> Result<(), CudaBuilderError> {
        let library = self.folder.join("library");
        // The file that cargo reads first, and the one that is compiled.
        if !library.join("Cargo.lock").is_file() || !library.join("core/src/lib.rs").is_file() {
            return Err(CudaBuilderError::RustSrcMissing { path: library });
        }
        match fs::read_to_string(self.version_file()) {
            Ok(found) if found.trim() != self.rustc => Err(CudaBuilderError::RustSrcVersion {
                path: self.folder.clone(),
                required: self.rustc.clone(),
                found: found.trim().to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(folder: &Path) -> RustSrc {
        RustSrc { folder: folder.to_owned(), rustc: "1.95.0".to_owned() }
    }

    fn plant(folder: &Path, file: &str, text: &str) {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn missing_incomplete_wrong_and_right_sources() {
        let folder = tempfile::tempdir().unwrap();
        let sources = sources(folder.path());
        let error = sources.check().unwrap_err();
        assert!(matches!(&error, CudaBuilderError::RustSrcMissing { path } if path.ends_with("library")));
        assert!(error.to_string().contains("rustup component add rust-src"), "{error}");

        plant(folder.path(), "library/Cargo.lock", "");
        assert!(sources.check().is_err(), "a folder without core is not enough");
        plant(folder.path(), "library/core/src/lib.rs", "");
        sources.check().unwrap(); // as rustup leaves it: no version file

        plant(folder.path(), "src/version", "1.94.0\n");
        let error = sources.check().unwrap_err();
        assert!(
            matches!(&error, CudaBuilderError::RustSrcVersion { required, found, .. }
                if required == "1.95.0" && found == "1.94.0"),
            "{error}"
        );
        plant(folder.path(), "src/version", "1.95.0\n");
        sources.check().unwrap();
    }
}
