//! The errors of this crate: of files, and of the library.

use std::path::PathBuf;

use crate::files::escaped;

/// The result of a call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a file, or of the library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the library.
    #[error(transparent)]
    Library(#[from] faltung::Error),
    /// A file format that can't hold an image.
    #[error("{}: {format} holds {holds}, not {found}", escaped(.path))]
    Unsupported {
        /// The file that was to be written.
        path: PathBuf,
        /// The format's name.
        format: &'static str,
        /// The types and channels, or the sides, that the format holds.
        holds: String,
        /// Those of the image.
        found: String,
    },
    /// A file that would be replaced.
    #[error("{} exists, and is kept", escaped(.path))]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error("{}: {reason}", escaped(.path))]
    File {
        /// The file.
        path: PathBuf,
        /// Why, in words.
        reason: String,
    },
}
