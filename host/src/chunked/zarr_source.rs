//! Zarr arrays, read in windows.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use faltung::Image;
use faltung::chunked::{BoxError, Window, WindowSource};
use rayon::prelude::*;
use zarrs::array::{Array, ArraySubset, CodecOptions};
use zarrs::filesystem::FilesystemStore;

use super::zarr_cache::{Cache, Place};
use super::zarr_checksum;
use super::zarr_layout::{ZarrLayout, store};
use super::{ImageInfo, Value};
use crate::files::{escaped, guarded};
use crate::{Error, Result};

/// An image in a Zarr array of version 3. Chunks that are missing have the array's fill value.
pub struct ZarrSource {
    folder: PathBuf,
    array: Array<FilesystemStore>,
    layout: ZarrLayout,
    options: CodecOptions,
    cache: Cache,
}

impl ZarrSource {
    /// Opens the array in a folder.
    ///
    /// # Errors
    /// [`Error::File`] with the reason: it is no image, or uses a codec that this program has not.
    pub fn open(folder: &Path) -> Result<Self> {
        let blame = |reason: String| Error::File { path: folder.into(), reason };
        let layout = ZarrLayout::read(folder).map_err(blame)?;
        zarr_checksum::register();
        let array = Array::open(store(folder).map_err(blame)?, "/").map_err(|error| {
            blame(format!("can't be read: {error} (the codecs are bytes, sharding_indexed, zstd, gzip and crc32c)"))
        })?;
        let options = CodecOptions::default().with_concurrent_target(rayon::current_num_threads());
        Ok(Self { folder: folder.into(), array, layout, options, cache: Cache::default() })
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

    /// Keeps at most so many bytes of decoded parts, so that a part under the halos of several chunks is decoded once.
    pub fn keep_decoded(&self, bytes: u64) {
        self.cache.set_most(bytes);
    }

    pub(super) fn layout(&self) -> &ZarrLayout {
        &self.layout
    }

    /// Decodes a window.
    fn decode<T: Value>(&self, rows: Range<usize>, columns: Range<usize>) -> Result<Vec<T>, String> {
        let range = |range: &Range<usize>| range.start as u64..range.end as u64;
        let mut ranges = vec![range(&rows), range(&columns)];
        if self.layout.chunk.len() == 3 {
            ranges.push(0..self.layout.info.channels as u64);
        }
        let subset = ArraySubset::new_with_ranges(&ranges);
        let decoded = self.array.retrieve_array_subset_opt(&subset, &self.options);
        decoded.map_err(|error| self.damaged::<T>(&subset).unwrap_or_else(|| error.to_string()))
    }

    /// The first of the array's files under a subset that can't be decoded, and the reason.
    fn damaged<T: Value>(&self, subset: &ArraySubset) -> Option<String> {
        let chunks = self.array.chunks_in_array_subset(subset).ok()??;
        chunks.indices().into_iter().find_map(|chunk| {
            let part = self.array.chunk_subset(&chunk).ok()?.overlap(subset).ok()?;
            let error = self.array.retrieve_array_subset_opt::<Vec<T>>(&part, &self.options).err()?;
            Some(format!("file {}: {error}", escaped(self.array.chunk_key(&chunk).as_str())))
        })
    }

    /// Reads a window part by part. Parts at its edges are taken from the cache, and kept there.
    fn read_parts<T: Value>(&self, window: Window, (height, width): (usize, usize)) -> Result<Image<T>, String> {
        let ImageInfo { channels, .. } = self.layout.info;
        let mut image = Image::<T>::zeros(window.width, window.height, channels).map_err(|error| error.to_string())?;
        let down = window.y / height..(window.y + window.height).div_ceil(height);
        let across = window.x / width..(window.x + window.width).div_ceil(width);
        let mut rest = image.values_mut();
        let mut bands = Vec::new();
        for row in down.clone() {
            let rows = window.y.max(row * height)..(window.y + window.height).min((row + 1) * height);
            let (band, others) = rest.split_at_mut(rows.len() * window.width * channels);
            bands.push((row, rows, band));
            rest = others;
        }
        bands.into_par_iter().try_for_each(|(row, rows, band)| {
            for column in across.clone() {
                let columns = window.x.max(column * width)..(window.x + window.width).min((column + 1) * width);
                // Those beside an edge are under the halo of the chunk on the other side.
                let is_shared = is_near_an_edge(row, &down) || is_near_an_edge(column, &across);
                let part = self.part::<T>((row, column), (height, width), is_shared)?;
                let pitch = ((column + 1) * width).min(self.layout.info.width) - column * width;
                for (to, y) in band.chunks_exact_mut(window.width * channels).zip(rows.clone()) {
                    let from = ((y - row * height) * pitch + columns.start - column * width) * channels;
                    let to = &mut to[(columns.start - window.x) * channels..][..columns.len() * channels];
                    to.copy_from_slice(&part[from..][..to.len()]);
                }
            }
            Ok::<(), String>(())
        })?;
        Ok(image)
    }

    /// The values of a part, from the cache or decoded.
    fn part<T: Value>(&self, place: Place, (height, width): (usize, usize), keep: bool) -> Result<Arc<Vec<T>>, String> {
        if let Some(part) = self.cache.get(place).filter(|_| keep) {
            return Ok(part);
        }
        let ImageInfo { width: all_columns, height: all_rows, .. } = self.layout.info;
        let (row, column) = place;
        let rows = row * height..((row + 1) * height).min(all_rows);
        let part = Arc::new(self.decode(rows, column * width..((column + 1) * width).min(all_columns))?);
        if keep {
            self.cache.keep(place, Arc::clone(&part));
        }
        Ok(part)
    }

    /// Rows and columns of a part, if parts are to be kept.
    fn kept_part(&self) -> Option<(usize, usize)> {
        let side = |side: u64| usize::try_from(side).unwrap_or(usize::MAX / 4);
        let unit = &self.layout.unit;
        let has_all_channels = unit.get(2).is_none_or(|&channels| channels >= self.layout.info.channels as u64);
        let fits = self.layout.bytes(unit) <= self.cache.most();
        (has_all_channels && fits).then(|| (side(unit[0]), side(unit[1])))
    }
}

/// Whether a part lies at an edge of a window of parts, or beside one there.
fn is_near_an_edge(part: usize, parts: &Range<usize>) -> bool {
    part < parts.start + 2 || part + 2 >= parts.end
}

impl<T: Value> WindowSource<T> for ZarrSource {
    fn read(&self, window: Window) -> Result<Image<T>, BoxError> {
        let blame = |error: String| format!("{}: {window}: {error}", escaped(&self.folder));
        if let Some(part) = self.kept_part() {
            return Ok(guarded(|| self.read_parts(window, part)).map_err(blame)?);
        }
        let values = guarded(|| self.decode(window.rows(), window.columns())).map_err(blame)?;
        Ok(Image::new(window.width, window.height, self.layout.info.channels, values)?)
    }

    /// Each thread decodes one part of a file: its coded bytes, its values, and what the decoder takes.
    fn extra_bytes(&self, _: Window) -> u64 {
        let part = self.layout.bytes(&self.layout.unit).saturating_mul(2).saturating_add(1 << 20);
        part.saturating_mul(self.options.concurrent_target() as u64)
    }
}
