//! An image in a file of any of the formats, opened.

use std::path::Path;

use faltung::chunked::WindowSource;
use serde_json::json;

use super::{ImageInfo, NpySource, TiffSource, Value, ZarrSource, is_zarr};
use crate::files::Metadata;
use crate::{Error, Result};

/// Whether a path has one of these extensions, in capitals or not.
fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    let is_one = |found: &std::ffi::OsStr| extensions.iter().any(|extension| found.eq_ignore_ascii_case(extension));
    path.extension().is_some_and(is_one)
}

/// An image that can be read in windows.
pub enum OpenedSource {
    /// A `.npy` file.
    Npy(NpySource),
    /// A TIFF or BigTIFF file.
    Tiff(TiffSource),
    /// A Zarr array.
    Zarr(Box<ZarrSource>),
}

impl OpenedSource {
    /// Opens a file or a folder.
    ///
    /// # Errors
    /// [`Error::File`] with the reason.
    pub fn open(path: &Path) -> Result<Self> {
        if is_zarr(path) {
            return ZarrSource::open(path).map(|source| Self::Zarr(Box::new(source)));
        }
        if has_extension(path, &["npy"]) {
            return NpySource::open(path).map(Self::Npy);
        }
        if has_extension(path, &["tif", "tiff"]) {
            return TiffSource::open(path).map(Self::Tiff);
        }
        let reason = "can't be read in chunks: a Zarr array (.zarr), .npy or .tif is needed".to_owned();
        Err(Error::File { path: path.into(), reason })
    }

    /// Whether a path has the extension of a format that can be read in windows.
    #[must_use]
    pub fn is_readable(path: &Path) -> bool {
        is_zarr(path) || has_extension(path, &["npy", "tif", "tiff"])
    }

    /// Size and type.
    #[must_use]
    pub fn info(&self) -> ImageInfo {
        match self {
            Self::Npy(source) => source.info(),
            Self::Tiff(source) => source.info(),
            Self::Zarr(source) => source.info(),
        }
    }

    /// The source, for values of its type.
    #[must_use]
    pub fn windows<T: Value>(&self) -> &dyn WindowSource<T> {
        match self {
            Self::Npy(source) => source,
            Self::Tiff(source) => source,
            Self::Zarr(source) => &**source,
        }
    }

    /// The Zarr array, if it is one.
    #[must_use]
    pub fn zarr(&self) -> Option<&ZarrSource> {
        match self {
            Self::Zarr(source) => Some(source),
            _ => None,
        }
    }

    /// What the values beside grey or RGB are, as the tag `ExtraSamples` of TIFF says it; None if the file does not.
    #[must_use]
    pub fn extra_samples(&self) -> Option<u16> {
        match self {
            Self::Tiff(source) => source.extra(),
            _ => None,
        }
    }

    /// What the file says apart from its values, if it is a TIFF.
    #[must_use]
    pub fn metadata(&self) -> Option<&Metadata> {
        match self {
            Self::Tiff(source) => Some(source.metadata()),
            _ => None,
        }
    }

    /// Keeps at most so many bytes of decoded parts, if the format has parts: those under the halos of several chunks
    /// are then decoded once.
    pub fn keep_decoded(&self, bytes: u64) {
        if let Self::Zarr(source) = self {
            source.keep_decoded(bytes);
        }
    }

    /// The identity of the image: its name, size and type, and when its file was written. Of an array it is the time of
    /// the metadata.
    ///
    /// # Errors
    /// [`Error::File`] if the file can't be asked.
    pub fn identity(&self) -> Result<serde_json::Value> {
        let (path, file) = match self {
            Self::Npy(source) => (source.path(), source.path().to_owned()),
            Self::Tiff(source) => (source.path(), source.path().to_owned()),
            Self::Zarr(source) => (source.path(), source.path().join(super::zarr_layout::METADATA)),
        };
        let blame = |error: std::io::Error| Error::File { path: path.into(), reason: error.to_string() };
        let found = file.metadata().map_err(blame)?;
        let written = found.modified().map_err(blame)?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let name = path.canonicalize().map_err(blame)?;
        let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let ImageInfo { width, height, channels, pixel } = self.info();
        Ok(json!({
            "name": name, "width": width, "height": height, "channels": channels, "type": pixel.name(),
            "bytes": found.len(), "written_ns": written.as_nanos().to_string(),
        }))
    }
}
