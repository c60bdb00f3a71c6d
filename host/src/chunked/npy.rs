//! `.npy` files, read and written in windows.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use faltung::chunked::{BoxError, ChunkSink, Window, WindowSource};
use faltung::{Image, View};

use super::io::{read_at, to_native_order, write_at};
use super::{ImageInfo, Value};
use crate::files::{NpyLayout, npy_layout};
use crate::{Error, Result};

/// A `.npy` file in C order.
#[derive(Debug)]
pub struct NpySource {
    path: PathBuf,
    file: File,
    layout: NpyLayout,
    info: ImageInfo,
}

impl NpySource {
    /// Opens a file and checks its length.
    ///
    /// # Errors
    /// [`Error::File`] with the reason.
    pub fn open(path: &Path) -> Result<Self> {
        let blame = |reason: String| Error::File { path: path.into(), reason };
        let mut file = File::open(path).map_err(|error| blame(error.to_string()))?;
        let layout = npy_layout(&mut file).map_err(blame)?;
        let NpyLayout { width, height, channels, pixel, start, .. } = layout;
        let info = ImageInfo::new(width, height, channels, pixel).map_err(blame)?;
        let required = start + (height as u64) * (width * info.pixel_bytes()) as u64;
        let found = file.metadata().map_err(|error| blame(error.to_string()))?.len();
        if found < required {
            return Err(blame(format!("is cut off: it takes {required} bytes, {found} are there")));
        }
        Ok(Self { path: path.into(), file, layout, info })
    }

    /// Size and type.
    #[must_use]
    pub fn info(&self) -> ImageInfo {
        self.info
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Byte position of a pixel.
fn position(info: &ImageInfo, start: u64, x: usize, y: usize) -> u64 {
    start + (y as u64 * info.width as u64 + x as u64) * info.pixel_bytes() as u64
}

impl<T: Value> WindowSource<T> for NpySource {
    fn read(&self, window: Window) -> Result<Image<T>, BoxError> {
        let Window { x, y, width, height } = window;
        let mut image = Image::<T>::zeros(width, height, self.info.channels)?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(image.values_mut());
        let row = width * self.info.pixel_bytes();
        // Full rows lie behind each other.
        let step = if width == self.info.width { row * height } else { row };
        for (number, part) in bytes.chunks_exact_mut(step).enumerate() {
            read_at(&self.file, part, position(&self.info, self.layout.start, x, y + number))?;
        }
        to_native_order(bytes, T::TYPE.bytes(), self.layout.big_endian);
        Ok(image)
    }
}

/// A `.npy` file that is being written, in place.
#[derive(Debug)]
pub struct NpySink<'a> {
    file: &'a File,
    info: ImageInfo,
    start: u64,
}

impl<'a> NpySink<'a> {
    /// Writes the header to an empty file, and makes the file as long as it will be.
    ///
    /// # Errors
    /// Those of the file.
    pub fn begin(mut file: &'a File, info: ImageInfo) -> std::io::Result<Self> {
        let ImageInfo { width, height, channels, pixel } = info;
        let kind = match pixel {
            faltung::PixelType::U8 => "|u1".to_owned(),
            faltung::PixelType::U16 => format!("{}u2", order()),
            faltung::PixelType::F32 => format!("{}f4", order()),
        };
        let shape = match channels {
            1 => format!("({height}, {width})"),
            _ => format!("({height}, {width}, {channels})"),
        };
        let mut text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
        // Magic, version and length take 10 bytes. NumPy aligns the values to 64.
        let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
        text.push_str(&" ".repeat(length - 1 - text.len()));
        text.push('\n');
        file.write_all(b"\x93NUMPY\x01\x00")?;
        file.write_all(&u16::try_from(length).map_err(std::io::Error::other)?.to_le_bytes())?;
        file.write_all(text.as_bytes())?;
        let start = 10 + length as u64;
        file.set_len(position(&info, start, 0, height))?;
        Ok(Self { file, info, start })
    }
}

/// NumPy's letter for this machine's byte order.
fn order() -> char {
    if cfg!(target_endian = "big") { '>' } else { '<' }
}

impl<U: Value> ChunkSink<U> for NpySink<'_> {
    fn write(&self, _: usize, window: Window, values: View<'_, U>) -> Result<(), BoxError> {
        for y in 0..window.height {
            let place = position(&self.info, self.start, window.x, window.y + y);
            write_at(self.file, bytemuck::cast_slice(values.row(y)), place)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use super::*;
    use crate::files::Picture;

    fn there_and_back<T: Value>(channels: usize) {
        let (width, height) = (37, 11);
        let values = (0..width * height * channels).map(|i| T::from_f32((i % 251) as f32)).collect();
        let image = Image::<T>::new(width, height, channels, values).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        let file = File::create(&path).unwrap();
        let sink = NpySink::begin(&file, ImageInfo { width, height, channels, pixel: T::TYPE }).unwrap();
        for (x, y, width, height) in [(30, 0, 7, 11), (0, 0, 30, 5), (0, 5, 30, 6)] {
            let part = image.crop(x, y, width, height).unwrap();
            sink.write(0, Window { x, y, width, height }, part.view()).unwrap();
        }
        assert_eq!(Picture::read(&path).unwrap().pixels, image.clone().into());
        let source = NpySource::open(&path).unwrap();
        for (x, y, width, height) in [(3, 2, 20, 9), (0, 4, 37, 3), (36, 10, 1, 1)] {
            let found: Image<T> = source.read(Window { x, y, width, height }).unwrap();
            assert_eq!(found, image.crop(x, y, width, height).unwrap());
        }
        file.set_len(file.metadata().unwrap().len() - 1).unwrap();
        assert!(NpySource::open(&path).unwrap_err().to_string().contains("is cut off"));
    }

    #[test]
    fn windows_are_those_of_the_whole() {
        there_and_back::<u8>(3);
        there_and_back::<u16>(1);
        there_and_back::<f32>(4);
    }

    #[test]
    fn big_endian_values_are_turned() {
        let mut file = tempfile::tempfile().unwrap();
        NpySink::begin(&file, ImageInfo { width: 2, height: 1, channels: 1, pixel: faltung::PixelType::U16 }).unwrap();
        let end = file.metadata().unwrap().len();
        write_at(&file, b">", 21).unwrap();
        write_at(&file, &[1, 2, 3, 4], end - 4).unwrap();
        file.rewind().unwrap();
        let layout = npy_layout(&mut file).unwrap();
        assert!(layout.big_endian);
        let info = ImageInfo { width: 2, height: 1, channels: 1, pixel: layout.pixel };
        let source = NpySource { path: "a.npy".into(), file, layout, info };
        let found: Image<u16> = source.read(Window { x: 0, y: 0, width: 2, height: 1 }).unwrap();
        assert_eq!(found.values(), [0x0102, 0x0304]);
    }
}
