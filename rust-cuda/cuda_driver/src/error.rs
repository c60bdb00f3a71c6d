//! What can go wrong when the driver is opened.

use std::path::PathBuf;

/// Why no CUDA driver is in use.
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
    /// The dynamic loader could not open the library: mostly because no NVIDIA driver is installed,
    /// else because the file, or a library it needs, is broken or for another machine.
    #[error(
        "the CUDA driver library `{}` is required, but the dynamic loader cannot open it: {reason}",
        searched.display()
    )]
    NotFound {
        /// The name or path handed to the dynamic loader.
        searched: PathBuf,
        /// The loader's own text.
        reason: String,
    },

    /// The library was opened, but lacks the function that every CUDA driver has.
    #[error(
        "`{}` was opened as the CUDA driver library, but it is none: \
         it must define `cuInit`, and the dynamic loader says: {reason}",
        opened.display()
    )]
    NotADriver {
        /// The name or path handed to the dynamic loader.
        opened: PathBuf,
        /// The loader's own text.
        reason: String,
    },

    /// [`load_from`](crate::load_from) asked for a second driver. The slots hold functions of the
    /// first, whose contexts and handles mean nothing to another library.
    #[error(
        "`{}` was requested as the CUDA driver library, but this process already uses `{}`",
        requested.display(),
        loaded.display()
    )]
    AlreadyLoaded {
        /// The name or path that was asked for.
        requested: PathBuf,
        /// The library whose functions are in use.
        loaded: PathBuf,
    },
}
