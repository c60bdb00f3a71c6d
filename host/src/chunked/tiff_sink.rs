//! BigTIFF in tiles without compression, written at their places in any order.

use std::fs::File;
use std::io::Seek;

use faltung::chunked::{BoxError, ChunkSink, Window};
use faltung::{PixelType, View};
use tiff::encoder::TiffEncoder;
use tiff::tags::Tag;

use super::io::write_at;
use super::{ImageInfo, Value};
use crate::files::{Metadata, write_tiff_metadata};

/// Columns and rows of a tile.
pub const TILE: usize = 512;

/// The most tiles of a file. Programs read the whole list of tiles, which takes 16 bytes for each.
const MOST_TILES: u64 = 1 << 24;

/// A BigTIFF file that is being written. Its chunks begin at multiples of [`TILE`].
#[derive(Debug)]
pub struct TiffSink<'a> {
    file: &'a File,
    info: ImageInfo,
    /// The position of the first tile.
    start: u64,
}

/// Where the tiles begin: after the header, the tags, two numbers for each tile, and the colour profile.
fn start(tiles: u64, metadata: &Metadata) -> u64 {
    let profile = metadata.icc_profile.as_ref().map_or(0, |profile| profile.len() as u64);
    (4096 + 16 * tiles + profile).next_multiple_of(4096)
}

impl<'a> TiffSink<'a> {
    /// Writes the directory to an empty file, and makes the file as long as it will be. `extra` says what the values
    /// beside grey or RGB are (tag `ExtraSamples`); by default alpha that the colours are not multiplied by. Of the
    /// metadata, the colour profile and the resolution are written.
    ///
    /// # Errors
    /// Those of the file, in words.
    pub fn begin(file: &'a File, info: ImageInfo, extra: Option<u16>, metadata: &Metadata) -> Result<Self, String> {
        let ImageInfo { width, height, channels, pixel } = info;
        let side = |side: usize| u32::try_from(side).map_err(|_| format!("a side of {side} is too large for TIFF"));
        let (width, height) = (side(width)?, side(height)?);
        let tiles = (info.width.div_ceil(TILE) * info.height.div_ceil(TILE)) as u64;
        if tiles > MOST_TILES {
            return Err(format!("would have {tiles} tiles in one TIFF file, at most {MOST_TILES} are written"));
        }
        let tile_bytes = (TILE * TILE * info.pixel_bytes()) as u64;
        let sink = Self { file, info, start: start(tiles, metadata) };
        let offsets: Vec<u64> = (0..tiles).map(|tile| sink.start + tile * tile_bytes).collect();
        let words = |error: tiff::TiffError| error.to_string();

        let mut encoder = TiffEncoder::new_big(file).map_err(words)?;
        let mut directory = encoder.image_directory().map_err(words)?;
        let bits = vec![8 * pixel.bytes() as u16; channels];
        let format = vec![if pixel == PixelType::F32 { 3_u16 } else { 1 }; channels];
        // Grey is 1, RGB 2.
        let photometric = if channels < 3 { 1_u16 } else { 2 };
        let mut write = || {
            directory.write_tag(Tag::ImageWidth, width)?;
            directory.write_tag(Tag::ImageLength, height)?;
            directory.write_tag(Tag::BitsPerSample, &bits[..])?;
            directory.write_tag(Tag::Compression, 1_u16)?;
            directory.write_tag(Tag::PhotometricInterpretation, photometric)?;
            directory.write_tag(Tag::SamplesPerPixel, channels as u16)?;
            directory.write_tag(Tag::PlanarConfiguration, 1_u16)?;
            directory.write_tag(Tag::SampleFormat, &format[..])?;
            if channels.is_multiple_of(2) {
                directory.write_tag(Tag::ExtraSamples, extra.unwrap_or(2))?;
            }
            directory.write_tag(Tag::TileWidth, TILE as u32)?;
            directory.write_tag(Tag::TileLength, TILE as u32)?;
            directory.write_tag(Tag::TileOffsets, &offsets[..])?;
            directory.write_tag(Tag::TileByteCounts, &vec![tile_bytes; offsets.len()][..])?;
            write_tiff_metadata(&mut directory, metadata)
        };
        write().map_err(words)?;
        directory.finish().map_err(words)?;
        let mut written = file;
        let end = written.stream_position().map_err(|error| error.to_string())?;
        if end > sink.start {
            return Err(format!("its directory takes {end} bytes, {} were expected at most", sink.start));
        }
        file.set_len(sink.start + tiles * tile_bytes).map_err(|error| error.to_string())?;
        Ok(sink)
    }
}

impl<U: Value> ChunkSink<U> for TiffSink<'_> {
    fn write(&self, _: usize, window: Window, values: View<'_, U>) -> Result<(), BoxError> {
        let Window { x, y, width, height } = window;
        let ends = |end: usize, most: usize| end.is_multiple_of(TILE) || end == most;
        let is_whole = x.is_multiple_of(TILE) && y.is_multiple_of(TILE);
        if !(is_whole && ends(x + width, self.info.width) && ends(y + height, self.info.height)) {
            return Err(format!("{window} does not consist of tiles").into());
        }
        let channels = self.info.channels;
        let across = self.info.width.div_ceil(TILE);
        let mut tile = vec![U::default(); TILE * TILE * channels];
        for top in (0..height).step_by(TILE) {
            for left in (0..width).step_by(TILE) {
                tile.fill(U::default());
                let columns = TILE.min(width - left);
                for (row, to) in tile.chunks_exact_mut(TILE * channels).take(height - top).enumerate() {
                    let from = &values.row(top + row)[left * channels..][..columns * channels];
                    to[..from.len()].copy_from_slice(from);
                }
                let number = ((y + top) / TILE * across + (x + left) / TILE) as u64;
                write_at(self.file, bytemuck::cast_slice(&tile), self.start + number * size_of_val(&*tile) as u64)?;
            }
        }
        Ok(())
    }

    fn extra_bytes(&self, _: Window) -> u64 {
        (TILE * TILE * self.info.pixel_bytes()) as u64
    }
}

#[cfg(test)]
mod tests {
    use faltung::Image;
    use faltung::chunked::WindowSource;

    use super::super::TiffSource;
    use super::*;
    use crate::files::{OverwritePolicy, Picture};

    fn there_and_back<T: Value>(width: usize, height: usize, channels: usize) {
        let values = (0..width * height * channels).map(|i| T::from_f32((i * 31 % 251) as f32)).collect();
        let image = Image::<T>::new(width, height, channels, values).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let [tiled, strips] = ["tiled.tif", "strips.tif"].map(|name| folder.path().join(name));
        let file = File::create(&tiled).unwrap();
        let info = ImageInfo { width, height, channels, pixel: T::TYPE };
        let sink = TiffSink::begin(&file, info, None, &Metadata::default()).unwrap();
        let (columns, rows) = (2 * TILE, TILE);
        for y in (0..height).step_by(rows) {
            for x in (0..width).step_by(columns) {
                let window = Window { x, y, width: columns.min(width - x), height: rows.min(height - y) };
                let part = image.crop(x, y, window.width, window.height).unwrap();
                sink.write(0, window, part.view()).unwrap();
            }
        }
        // The other reader agrees.
        assert!(Picture::read(&tiled).unwrap().pixels == image.clone().into(), "{channels} channels");
        Picture::from(image.clone()).write(&strips, OverwritePolicy::Keep).unwrap();
        for path in [tiled, strips] {
            let source = TiffSource::open(&path).unwrap();
            assert_eq!(source.info(), ImageInfo { width, height, channels, pixel: T::TYPE });
            let windows = [(0, 0, width, height), (width - 1, height - 1, 1, 1), (width / 3, height / 2, width / 2, 3)];
            for (x, y, width, height) in windows {
                let found: Image<T> = source.read(Window { x, y, width, height }).unwrap();
                assert!(found == image.crop(x, y, width, height).unwrap(), "{x}, {y}, {width} x {height}");
            }
        }
        let odd = Window { x: 1, y: 0, width: 1, height: 1 };
        assert!(sink.write(0, odd, Image::<T>::zeros(1, 1, channels).unwrap().view()).is_err());
    }

    #[test]
    fn the_kind_of_alpha_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tif");
        for (extra, written) in [(Some(1), Some(1)), (Some(2), Some(2)), (Some(0), Some(0)), (None, Some(2))] {
            let file = File::create(&path).unwrap();
            let info = ImageInfo { width: 9, height: 9, channels: 4, pixel: PixelType::U8 };
            TiffSink::begin(&file, info, extra, &Metadata::default()).unwrap();
            assert_eq!(TiffSource::open(&path).unwrap().extra(), written);
        }
    }

    #[test]
    fn windows_are_those_of_the_whole() {
        there_and_back::<u8>(1300, 700, 3);
        there_and_back::<u16>(512, 513, 1);
        there_and_back::<f32>(40, 1100, 1);
        there_and_back::<u16>(1025, 30, 4);
        there_and_back::<u8>(30, 30, 2);
    }
}
