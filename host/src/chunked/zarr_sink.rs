//! Zarr arrays, written in chunks. Each chunk is one file, which appears whole or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};

use faltung::chunked::{BoxError, ChunkGrid, ChunkSink, Window};
use faltung::{View, memory};
use serde_json::{Value as Json, json};
use zarrs::array::codec::{ShardingCodecOptions, SubchunkWriteOrder};
use zarrs::array::{Array, ArrayBytes, ArrayMetadata, ArrayToBytesCodecTraits, CodecOptions, CodecSpecificOptions};
use zarrs::filesystem::FilesystemStore;

use super::zarr_layout::{METADATA, ZarrLayout, new_metadata, store};
use super::{ImageInfo, Task, Value, ZarrSource};
use crate::files::{self, OverwritePolicy};
use crate::{Error, Result};

/// How a new array is cut.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZarrOptions {
    /// Rows and columns of a chunk that is one file. By default as in the source, if that is a Zarr array.
    pub chunk: Option<(usize, usize)>,
}

/// Rows and columns of a chunk where nothing else says so.
const CHUNK: usize = 4096;

/// An array that is being written, perhaps by several processes at the same time.
pub struct ZarrSink {
    folder: PathBuf,
    array: Array<FilesystemStore>,
    layout: ZarrLayout,
    options: CodecOptions,
    task: Task,
}

impl ZarrSink {
    /// An array for the results of a task. Nothing is written yet.
    ///
    /// # Errors
    /// [`Error::File`] if such an array can't be written.
    pub fn new(
        folder: &Path,
        info: ImageInfo,
        source: Option<&ZarrSource>,
        options: ZarrOptions,
        task: Task,
    ) -> Result<Self> {
        let mut metadata = match (source, options.chunk) {
            (Some(source), None) => source.layout().metadata_of_result(info.pixel),
            (_, chunk) => new_metadata(info, chunk.unwrap_or((CHUNK, CHUNK))),
        };
        metadata["attributes"] = json!({ "host": task.attribute() });
        Self::with(folder, metadata, task)
    }

    /// Makes the array if it is not there. If it is there, and `join` says so, its chunks are kept until they are
    /// written again.
    ///
    /// The attributes of the array hold the task. So an array of another task is not taken for one of this task.
    ///
    /// # Errors
    /// [`Error::Exists`] if it is there and not to be joined. [`Error::File`] if it holds the results of another task,
    /// is no array of this program, or can't be made.
    pub fn begin(&self, join: bool) -> Result<()> {
        let folder = &self.folder;
        let blame = |reason: String| Error::File { path: folder.into(), reason };
        let path = folder.join(METADATA);
        if !path.exists() {
            if has_other_files(folder) && !path.exists() {
                return Err(blame("is a folder that is not empty, and no Zarr array".into()));
            }
            std::fs::create_dir_all(folder).map_err(|error| blame(format!("can't be made: {error}")))?;
            let text = format!("{:#}\n", self.layout.metadata);
            match files::write_text(&path, &text, OverwritePolicy::Keep) {
                // Another process has just made it.
                Err(Error::Exists { .. }) if join => {}
                result => return result,
            }
        }
        if !join {
            return Err(Error::Exists { path: folder.into() });
        }
        let found = ZarrLayout::read(folder).map_err(blame)?;
        let theirs = &found.metadata["attributes"]["host"];
        if !self.task.is_of(theirs) {
            return Err(blame(self.task.difference(theirs)));
        }
        if found.metadata != self.layout.metadata {
            return Err(blame("has other chunks or codecs than this task gives (--chunk)".into()));
        }
        Ok(())
    }

    /// Removes an array that this program wrote, with all of its chunks.
    ///
    /// # Errors
    /// [`Error::File`] if it is another folder, or can't be removed.
    pub fn remove(folder: &Path) -> Result<()> {
        let blame = |reason: String| Error::File { path: folder.into(), reason };
        let found = ZarrLayout::read(folder).map_err(blame)?;
        if !found.metadata["attributes"]["host"]["task"].is_object() {
            return Err(blame("is kept: it is no array that this program wrote".into()));
        }
        // The metadata is removed last, so an interrupted removal can be repeated.
        let chunks = folder.join("c");
        if chunks.exists() {
            std::fs::remove_dir_all(&chunks).map_err(|error| blame(format!("can't be removed: {error}")))?;
        }
        std::fs::remove_file(folder.join(METADATA)).map_err(|error| blame(format!("can't be removed: {error}")))
    }

    fn with(folder: &Path, metadata: Json, task: Task) -> Result<Self> {
        let blame = |reason: String| Error::File { path: folder.into(), reason };
        let layout = ZarrLayout::parse(metadata).map_err(blame)?;
        if let Some(&channels) = layout.chunk.get(2).filter(|&&channels| channels != layout.info.channels as u64) {
            let needed = layout.info.channels;
            let reason =
                format!("would have chunks of {channels} channels, and {needed} are needed (--chunk gives them)");
            return Err(blame(reason));
        }
        let described: ArrayMetadata =
            serde_json::from_value(layout.metadata.clone()).map_err(|error| blame(error.to_string()))?;
        let array = Array::new_with_metadata(store(folder).map_err(blame)?, "/", described);
        // In any other order the bytes of a shard would depend on its threads.
        let order = ShardingCodecOptions::default().with_subchunk_write_order(SubchunkWriteOrder::C);
        let array = array
            .map_err(|error| blame(format!("can't be written: {error}")))?
            .with_codec_specific_options(&CodecSpecificOptions::default().with_option(order));
        let options =
            CodecOptions::default().with_concurrent_target(rayon::current_num_threads()).with_store_empty_chunks(true);
        Ok(Self { folder: folder.into(), array, layout, options, task })
    }

    /// The grid of the chunks.
    ///
    /// # Errors
    /// Those of [`ChunkGrid::new`].
    pub fn grid(&self) -> Result<ChunkGrid> {
        let side = |side: u64| usize::try_from(side).unwrap_or(usize::MAX);
        let ImageInfo { width, height, .. } = self.layout.info;
        Ok(ChunkGrid::new(width, height, side(self.layout.chunk[1]), side(self.layout.chunk[0]))?)
    }

    /// Column and row of a chunk, as Zarr's indices.
    fn indices(&self, chunk: usize) -> Vec<u64> {
        let columns = (self.layout.info.width as u64).div_ceil(self.layout.chunk[1]);
        let mut indices = vec![chunk as u64 / columns, chunk as u64 % columns];
        indices.resize(self.layout.chunk.len(), 0);
        indices
    }

    /// The name of a chunk's file in the folder.
    #[must_use]
    pub fn name(&self, chunk: usize) -> String {
        self.array.chunk_key(&self.indices(chunk)).as_str().to_owned()
    }

    /// Whether a chunk was written. An empty file is no chunk.
    #[must_use]
    pub fn has(&self, chunk: usize) -> bool {
        self.folder.join(self.name(chunk)).metadata().is_ok_and(|found| found.is_file() && found.len() > 0)
    }

    /// A whole chunk: one at the right or lower edge reaches out of the image, where it is 0.
    fn padded<U: Value>(&self, window: Window, values: &View<'_, U>) -> Result<Vec<U>> {
        let row = usize::try_from(self.layout.chunk[1]).unwrap_or(usize::MAX) * values.channels();
        let length = self.layout.bytes(&self.layout.chunk) / size_of::<U>() as u64;
        let mut padded = memory::zeros(usize::try_from(length).unwrap_or(usize::MAX), "for a chunk of the result")?;
        for (y, to) in padded.chunks_exact_mut(row).take(window.height).enumerate() {
            let from = values.row(y);
            to[..from.len()].copy_from_slice(from);
        }
        Ok(padded)
    }
}

/// Whether a folder has files that no process of this program is just writing.
fn has_other_files(folder: &Path) -> bool {
    let is_other = |name: std::ffi::OsString| !name.to_string_lossy().starts_with(files::UNFINISHED);
    folder.read_dir().is_ok_and(|entries| entries.flatten().any(|entry| is_other(entry.file_name())))
}

impl<U: Value> ChunkSink<U> for ZarrSink {
    fn write(&self, chunk: usize, window: Window, values: View<'_, U>) -> Result<(), BoxError> {
        let padded = self.padded(window, &values)?;
        let indices = self.indices(chunk);
        let shape = self.array.chunk_shape(&indices)?;
        let bytes = ArrayBytes::new_flen(bytemuck::cast_slice::<U, u8>(&padded));
        let (codecs, kind, fill) = (self.array.codecs(), self.array.data_type(), self.array.fill_value());
        let encoded = codecs.encode(bytes, &shape, kind, fill, &self.options)?;
        let path = self.folder.join(self.name(chunk));
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        files::write_through(path, OverwritePolicy::Replace, |file| {
            file.write_all(&encoded).map_err(|error| error.to_string())
        })?;
        Ok(())
    }

    /// The whole chunk, its coded parts, and the shard that is made of them. Coded values may take as much as values.
    fn extra_bytes(&self, _: Window) -> u64 {
        let threads = self.options.concurrent_target() as u64;
        let coding = threads.saturating_mul(self.layout.bytes(&self.layout.unit).saturating_add(1 << 20));
        self.layout.bytes(&self.layout.chunk).saturating_mul(3).saturating_add(coding)
    }
}
