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
    /// Where the sources of the compiler that works in `directory` belong, there or not.
    ///
    /// # Errors
    /// rustc does not start or does not say where its sysroot is.
    pub fn locate(directory: &Path) -> Result<Self, CudaBuilderError> {
        let toolchain = Toolchain::of(directory)?;
        Ok(Self { folder: toolchain.sysroot.join("lib/rustlib/src/rust"), rustc: toolchain.release })
    }

    /// The file that names the version in a source tree of Rust. rustup's component leaves it out, and is never of another
    /// version than the compiler; other sources must have it.
    #[must_use]
    pub fn version_file(&self) -> PathBuf {
        self.folder.join("src/version")
    }

    /// Looks whether they are there, and those of this compiler.
    ///
    /// # Errors
    /// [`RustSrcMissing`](CudaBuilderError::RustSrcMissing) or [`RustSrcVersion`](CudaBuilderError::RustSrcVersion).
    pub fn check(&self) -> Result<(), CudaBuilderError> {
        let library = self.folder.join("library");
        // What cargo reads first, and what is compiled.
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
