//! TIFF and BigTIFF, tiled or in strips, read in windows.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use faltung::chunked::{BoxError, Window, WindowSource};
use faltung::{Image, PixelType};
use tiff::ColorType;
use tiff::decoder::{Decoder, Limits};
use tiff::tags::Tag;

use super::{ImageInfo, Value};
use crate::files::{AnyReader, Metadata, buffered, escaped, guarded, is_jpeg_tiff, tiff_metadata};
use crate::{Error, Result};

type TiffDecoder = Decoder<AnyReader<'static>>;

/// What a file says of its first page.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Page {
    info: ImageInfo,
    /// Columns and rows of a tile or a strip.
    part: (usize, usize),
    /// What the values beside grey or RGB are (tag `ExtraSamples`), if it says so.
    extra: Option<u16>,
}

/// The first page of a TIFF file, whose tiles or strips are decoded one by one.
pub struct TiffSource {
    path: PathBuf,
    page: Page,
    metadata: Metadata,
    /// Decoders that no thread uses. Each has a file of its own, because decoding moves the file's position.
    idle: Mutex<Vec<TiffDecoder>>,
}

impl TiffSource {
    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::File`] with the reason: it is no TIFF, or of a kind that is not read in windows.
    pub fn open(path: &Path) -> Result<Self> {
        let blame = |reason: String| Error::File { path: path.into(), reason };
        let mut decoder = guarded(|| open(path)).map_err(blame)?;
        let page = guarded(|| describe(&mut decoder)).map_err(blame)?;
        // The decoder moves to the place of all that it reads, so that its file may be anywhere.
        let metadata = guarded(|| tiff_metadata(decoder.inner(), page.info.channels)).map_err(blame)?;
        Ok(Self { path: path.into(), page, metadata, idle: Mutex::new(vec![decoder]) })
    }

    /// Size and type.
    #[must_use]
    pub fn info(&self) -> ImageInfo {
        self.page.info
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the file says apart from its values.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub(super) fn extra(&self) -> Option<u16> {
        self.page.extra
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<TiffDecoder>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies what the tiles or strips under a window hold of it.
    fn copy<T: Value>(&self, decoder: &mut TiffDecoder, window: Window, image: &mut Image<T>) -> Result<(), String> {
        let (columns, rows) = self.page.part;
        let (channels, across) = (self.page.info.channels, self.page.info.width.div_ceil(columns));
        let words = |error: tiff::TiffError| error.to_string();
        let mut values: Vec<T> = Vec::new();
        for row in window.y / rows..(window.y + window.height).div_ceil(rows) {
            for column in window.x / columns..(window.x + window.width).div_ceil(columns) {
                let number = u32::try_from(row * across + column).map_err(|error| error.to_string())?;
                let (width, height) = decoder.chunk_data_dimensions(number);
                let (width, height) = (width as usize, height as usize);
                values.resize(width * height * channels, T::default());
                decoder.read_chunk_bytes(number, bytemuck::cast_slice_mut(&mut values)).map_err(words)?;
                // What both have in common.
                let (left, top) = (column * columns, row * rows);
                let (begin, end) = (window.x.max(left), (window.x + window.width).min(left + width));
                for y in window.y.max(top)..(window.y + window.height).min(top + height) {
                    let length = end.saturating_sub(begin) * channels;
                    let from = &values[((y - top) * width + begin - left) * channels..][..length];
                    let to = ((y - window.y) * window.width + begin - window.x) * channels;
                    image.values_mut()[to..][..length].copy_from_slice(from);
                }
            }
        }
        Ok(())
    }
}

fn open(path: &Path) -> Result<TiffDecoder, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let decoder = Decoder::new(buffered(file)).map_err(|error| error.to_string())?;
    // A strip may be as large as the image: the memory of a chunk counts it.
    Ok(decoder.with_limits(Limits::unlimited()))
}

/// Reads what a file says of its first page.
fn describe(decoder: &mut TiffDecoder) -> Result<Page, String> {
    let words = |error: tiff::TiffError| error.to_string();
    is_jpeg_tiff(decoder)?;
    let (width, height) = decoder.dimensions().map_err(words)?;
    let colour = decoder.colortype().map_err(words)?;
    let (channels, bits) = match colour {
        ColorType::Gray(bits) => (1, bits),
        ColorType::GrayA(bits) => (2, bits),
        ColorType::RGB(bits) => (3, bits),
        ColorType::RGBA(bits) => (4, bits),
        // Grey and alpha, too.
        ColorType::Multiband { bit_depth, num_samples } => (usize::from(num_samples), bit_depth),
        _ => return Err(format!("holds {colour:?}, and grey or RGB is needed to read it in chunks")),
    };
    let mut number = |tag: Tag, default: u16| {
        decoder
            .find_tag_unsigned_vec::<u16>(tag)
            .map(|values| values.and_then(|v| v.first().copied()).unwrap_or(default))
    };
    const UNSIGNED: u16 = 1;
    const FLOAT: u16 = 3;
    let pixel = match (number(Tag::SampleFormat, UNSIGNED).map_err(words)?, bits) {
        (UNSIGNED, 8) => PixelType::U8,
        (UNSIGNED, 16) => PixelType::U16,
        (FLOAT, 32) => PixelType::F32,
        _ => return Err(format!("holds {colour:?}, and u8, u16 or f32 is needed to read it in chunks")),
    };
    if number(Tag::PlanarConfiguration, 1).map_err(words)? != 1 && channels > 1 {
        return Err("has its channels in planes, and interleaved ones are needed to read it in chunks".into());
    }
    if number(Tag::Orientation, 1).map_err(words)? != 1 {
        return Err("is turned by its orientation, and an upright image is needed to read it in chunks".into());
    }
    // 0 is white.
    if number(Tag::PhotometricInterpretation, 1).map_err(words)? == 0 {
        return Err("has white as 0, and black as 0 is needed to read it in chunks".into());
    }
    let (columns, rows) = decoder.chunk_dimensions();
    let info = ImageInfo::new(width as usize, height as usize, channels, pixel)?;
    let extra = decoder.find_tag_unsigned_vec::<u16>(Tag::ExtraSamples).map_err(words)?;
    let part = ((columns as usize).max(1), (rows as usize).max(1));
    Ok(Page { info, part, extra: extra.and_then(|kinds| kinds.first().copied()) })
}

impl<T: Value> WindowSource<T> for TiffSource {
    fn read(&self, window: Window) -> Result<Image<T>, BoxError> {
        let blame = |reason: String| format!("{}: {window}: {reason}", escaped(&self.path));
        let idle = self.lock().pop();
        let mut decoder = match idle {
            Some(decoder) => decoder,
            None => {
                let mut decoder = open(&self.path).map_err(blame)?;
                // The file may have been replaced.
                let found = describe(&mut decoder).map_err(blame)?;
                if found != self.page {
                    return Err(blame("is another image than when it was opened".into()).into());
                }
                decoder
            }
        };
        let mut image = Image::<T>::zeros(window.width, window.height, self.page.info.channels)?;
        guarded(|| self.copy(&mut decoder, window, &mut image)).map_err(blame)?;
        self.lock().push(decoder);
        Ok(image)
    }

    /// One tile or strip, coded and decoded.
    fn extra_bytes(&self, _: Window) -> u64 {
        let (columns, rows) = self.page.part;
        // A hostile file has tiles as large as 32 bits can say.
        let values = (columns as u64).saturating_mul(rows.min(self.page.info.height) as u64);
        values.saturating_mul(2 * self.page.info.pixel_bytes() as u64).saturating_add(1 << 20)
    }
}
