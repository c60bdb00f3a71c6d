//! The errors of opening the driver.

use std::path::{Path, PathBuf};

/// The reason why no CUDA driver is in use.
///
/// ```
/// // SAFETY: there is no such file, so no code of it can run.
/// let error = unsafe { cuda_driver::load_from("/nowhere/libcuda.so.1") }.unwrap_err();
/// assert!(matches!(error, cuda_driver::LoadError::NotFound { .. }));
/// println!("{error}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The dynamic loader could not open the library.
    ///
    /// Most often no NVIDIA driver is installed. Otherwise the file, or a library that it needs, is broken or for
    /// another architecture.
    #[error("{}", not_found(searched, reason))]
    NotFound {
        /// The name or path that was passed to the dynamic loader.
        searched: PathBuf,
        /// The loader's message.
        reason: String,
    },

    /// The library was opened, but lacks the function that every CUDA driver has.
    #[error(
        "`{}` was opened as the CUDA driver library, but it is none: \
         it must define `cuInit`, and the dynamic loader says: {reason}",
        opened.display()
    )]
    NotADriver {
        /// The name or path that was passed to the dynamic loader.
        opened: PathBuf,
        /// The loader's message.
        reason: String,
    },

    /// [`load_from`](crate::load_from) was called for a second driver. The slots hold the functions of the first one,
    /// whose contexts and handles are not valid in another library.
    #[error(
        "`{}` was requested as the CUDA driver library, but this process already uses `{}`",
        requested.display(),
        loaded.display()
    )]
    AlreadyLoaded {
        /// The requested name or path.
        requested: PathBuf,
        /// The library whose functions are in use.
        loaded: PathBuf,
    },
}

/// The message: short if there is no driver, otherwise with the loader's message, which names the file.
fn not_found(searched: &Path, reason: &str) -> String {
    let searched = searched.display();
    if reason == format!("{searched}: cannot open shared object file: No such file or directory") {
        return format!("no NVIDIA driver, `{searched}`, is installed");
    }
    match reason.strip_prefix(&format!("{searched}: ")) {
        Some(rest) => format!("the CUDA driver library `{searched}` cannot be opened: {rest}"),
        None => format!("the CUDA driver library `{searched}` cannot be opened: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_one_short_line() {
        let text = |searched: &str, reason: &str| {
            LoadError::NotFound { searched: searched.into(), reason: reason.into() }.to_string()
        };
        let missing = "libcuda.so.1: cannot open shared object file: No such file or directory";
        assert_eq!(text("libcuda.so.1", missing), "no NVIDIA driver, `libcuda.so.1`, is installed");
        // The message may be about a library that the driver needs.
        let other = "libother.so: cannot open shared object file: No such file or directory";
        let expected = format!("the CUDA driver library `libcuda.so.1` cannot be opened: {other}");
        assert_eq!(text("libcuda.so.1", other), expected);
        assert_eq!(
            text("/a/b.so", "/a/b.so: file too short"),
            "the CUDA driver library `/a/b.so` cannot be opened: file too short"
        );
        assert_eq!(
            text("libcuda.so.1", "libother.so: wrong ELF class"),
            "the CUDA driver library `libcuda.so.1` cannot be opened: libother.so: wrong ELF class"
        );
    }
}
