//! Files that are read in windows and written in chunks, for images that are never whole in memory.
//!
//! | format | is read | is written |
//! | --- | --- | --- |
//! | Zarr, version 3 ([`ZarrSource`], [`ZarrSink`]) | any window | each chunk (shard) is one file |
//! | `.npy` in C order ([`NpySource`], [`NpySink`]) | any window | in place, in a temporary file |
//! | BigTIFF, TIFF ([`TiffSource`], [`TiffSink`]) | tiles or strips under the window | in tiles, in a temporary file |
//!
//! Values are `u8`, `u16` or `f32`. An image has the axes height and width, or height, width and 1 to 4 channels.
//!
//! All reads have a position, and no file is mapped: mapped pages would count as memory of the process.

mod io;
mod npy;
mod source;
mod task;
mod tiff_sink;
mod tiff_source;
mod zarr_cache;
mod zarr_checksum;
mod zarr_layout;
mod zarr_sink;
mod zarr_source;

use faltung::{Pixel, PixelType};

pub use npy::{NpySink, NpySource};
pub use source::OpenedSource;
pub use task::Task;
pub use tiff_sink::{TILE, TiffSink};
pub use tiff_source::TiffSource;
pub use zarr_layout::is_zarr;
pub use zarr_sink::{ZarrOptions, ZarrSink};
pub use zarr_source::ZarrSource;

/// A type of values that files hold.
pub trait Value: Pixel + bytemuck::Pod + zarrs::array::ElementOwned {}

impl Value for u8 {}
impl Value for u16 {}
impl Value for f32 {}

/// Size and type of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageInfo {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Values of a pixel, 1 to 4.
    pub channels: usize,
    /// The type of the values.
    pub pixel: PixelType,
}

impl ImageInfo {
    /// Bytes of a pixel.
    #[must_use]
    pub fn pixel_bytes(&self) -> usize {
        self.channels * self.pixel.bytes()
    }

    /// Checks the sizes.
    fn new(width: usize, height: usize, channels: usize, pixel: PixelType) -> Result<Self, String> {
        faltung::Image::<u8>::checked_len(width, height, channels).map_err(|error| error.to_string())?;
        if channels > faltung::PixelFormat::MOST_CHANNELS {
            return Err(format!("has {channels} channels: 1 to 4 are needed, on the last axis"));
        }
        Ok(Self { width, height, channels, pixel })
    }
}
