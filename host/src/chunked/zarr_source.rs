//! Zarr arrays, read in windows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use faltung::Image;
use faltung::chunked::{BoxError, Window, WindowSource};
use zarrs::array::{Array, ArraySubset, CodecOptions};
use zarrs::filesystem::FilesystemStore;

use super::zarr_layout::ZarrLayout;
use super::{ImageInfo, Value};
use crate::files::escaped;
use crate::{Error, Result};

/// An image in a Zarr array of version 3. Chunks that are missing have the array's fill value.
pub struct ZarrSource {
    folder: PathBuf,
    array: Array<FilesystemStore>,
    layout: ZarrLayout,
    options: CodecOptions,
}

impl ZarrSource {
    /// Opens the array in a folder.
    ///
    /// # Errors
    /// [`Error::File`] with the reason: it is no image, or uses a codec that this program has not.
    pub fn open(folder: &Path) -> Result<Self> {
        let blame = |reason: String| Error::File { path: folder.into(), reason };
        let layout = ZarrLayout::read(folder).map_err(blame)?;
        let store = FilesystemStore::new(folder).map_err(|error| blame(error.to_string()))?;
        let array = Array::open(Arc::new(store), "/").map_err(|error| {
            blame(format!("can't be read: {error} (the codecs are bytes, sharding_indexed, zstd, gzip and crc32c)"))
        })?;
        let options = CodecOptions::default().with_concurrent_target(rayon::current_num_threads());
        Ok(Self { folder: folder.into(), array, layout, options })
    }

    /// Size and type.
    #[must_use]
    pub fn info(&self) -> ImageInfo {
        self.layout.info
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.folder
    }

    pub(super) fn layout(&self) -> &ZarrLayout {
        &self.layout
    }
}

impl<T: Value> WindowSource<T> for ZarrSource {
    fn read(&self, window: Window) -> Result<Image<T>, BoxError> {
        let channels = self.layout.info.channels;
        let range = |range: std::ops::Range<usize>| range.start as u64..range.end as u64;
        let mut ranges = vec![range(window.rows()), range(window.columns())];
        if self.layout.chunk.len() == 3 {
            ranges.push(0..channels as u64);
        }
        let values: Vec<T> = self
            .array
            .retrieve_array_subset_opt(&ArraySubset::new_with_ranges(&ranges), &self.options)
            .map_err(|error| format!("{}: {window}: {error}", escaped(&self.folder)))?;
        Ok(Image::new(window.width, window.height, channels, values)?)
    }

    /// Each thread decodes one part of a file: its coded bytes, its values, and what the decoder takes.
    fn extra_bytes(&self, _: Window) -> u64 {
        let unit = self.layout.bytes(&self.layout.unit);
        self.options.concurrent_target() as u64 * (unit * 2 + (1 << 20))
    }
}
