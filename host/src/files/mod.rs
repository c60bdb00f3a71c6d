//! Pictures and masks in files.
//!
//! | format | extensions | types | channels |
//! | --- | --- | --- | --- |
//! | PNG | `png` | u8, u16 | 1 to 4 |
//! | JPEG | `jpg`, `jpeg` | u8 | 1, 3 |
//! | TIFF | `tif`, `tiff` | u8, u16, f32 | 1 to 4 |
//! | BMP | `bmp` | u8 | 1, 3, 4 |
//! | PGM, PPM, PNM, PAM | `pgm`, `ppm`, `pnm`, `pam` | u8, u16 | 1; 3; 1 and 3; 1 to 4 |
//! | PBM, only read | `pbm` | u8 | 1 |
//! | WebP | `webp` | u8 | 1 to 4 |
//! | QOI | `qoi` | u8 | 3, 4 |
//! | OpenEXR | `exr` | f32 | 3, 4 |
//! | NumPy | `npy` | u8, u16, f32 | 1 to 4 |
//!
//! Two channels are grey and alpha, four are RGB and alpha. Values are taken and written as they are stored: nothing is
//! scaled and nothing converted to linear light. Only what no type here holds is converted. Palettes, CMYK and YCbCr
//! become RGB. Grey of 1 to 4 bits becomes u8 from 0 to 255. PNM with another greatest value than 255 or 65,535 is
//! stretched to that. TIFF whose 0 is white is inverted, and its f16 becomes f32.
//!
//! The content of a file decides its format when it is read, the extension when it is written. Of several frames or
//! pages the first is read. JPEG is written with up to 65,500 columns and rows. WebP is written without loss and with
//! up to 16,383. Grey pictures and palettes come back from BMP and WebP as RGB. TIFF is read uncompressed and
//! compressed with LZW, Deflate, PackBits, JPEG or CCITT group 4, not with Zstandard or WebP.
//!
//! # Metadata
//! Reading applies the EXIF orientation. The rest is [`Metadata`]:
//!
//! | | read from | written to |
//! | --- | --- | --- |
//! | colour profile (ICC) that fits the channels | PNG, JPEG, TIFF, WebP | PNG, JPEG, TIFF, WebP |
//! | EXIF, upright and without its thumbnail | PNG, JPEG, WebP | PNG, JPEG up to 64 KiB, WebP |
//! | resolution (dpi) | PNG, JPEG, TIFF | PNG, JPEG, TIFF |
//! | gamma, primaries, sRGB, cICP | PNG | PNG |
//!
//! XMP, IPTC, comments and other metadata are dropped. [`Metadata::lost_in`] names them. PNG's gamma is kept and not
//! applied, like a profile: the result looks like the input in a program that honours it.
//!
//! # Memory
//! Reading a picture takes at most [`MEMORY_MULTIPLE`] times the bytes of its decoded values and [`MEMORY_CONSTANT`]
//! more, and less for most formats ([`decoded_bytes`]). A file that would take more is refused: with more than
//! [`MOST_METADATA`] bytes of profile or EXIF, compressed or not, or with more coded data than any picture of its size
//! has.
//!
//! In `.npy`, a picture is an array of height x width or height x width x channels, of either byte order and in C or
//! Fortran order; it is written little-endian in C order, with two dimensions if it has one channel.

mod alpha;
mod atomic_write;
mod content;
mod decode;
mod encode;
mod escaped;
mod exr;
mod format;
mod jpeg;
mod jpeg_write;
mod limits;
mod metadata;
mod npy;
mod orient;
mod parts;
mod png;
mod tiff_directory;
mod tiff_read;
mod tiff_write;
mod unfinished;
mod vp8l;
mod webp;

use std::fs::File;
use std::io::{BufReader, BufWriter, Cursor, Read, Seek, Write};
use std::path::Path;

use crate::{Error, Result};
use faltung::{AnyImage, Image, Mask, Pixel, WrittenMask, memory};

pub use atomic_write::{DeferredSync, OverwritePolicy, remove_unfinished};
pub use content::Content;
pub use escaped::{Escaped, escaped};
pub use format::Format;
pub use jpeg_write::JPEG_QUALITY;
pub use limits::{MEMORY_CONSTANT, MEMORY_MULTIPLE};
pub use metadata::{MOST_METADATA, Metadata, Resolution};
pub(crate) use npy::{Layout as NpyLayout, layout as npy_layout};
pub(crate) use tiff_read::{is_jpeg as is_jpeg_tiff, metadata_of_page as tiff_metadata};
pub(crate) use tiff_write::metadata as write_tiff_metadata;

pub use unfinished::PREFIX as UNFINISHED;

/// Bytes that a decoder may allocate: 8 GiB. A larger picture is refused; `.npy` has no such limit.
pub const MOST_BYTES: u64 = 8 << 30;

/// Bytes that are read of a picture that comes through a pipe, before it is decoded: 1 GiB.
const MOST_PIPED: u64 = 1 << 30;

/// The path of the standard input.
pub const STANDARD_INPUT: &str = "/dev/stdin";

/// A picture: its pixels and the metadata that this program keeps.
///
/// ```
/// use faltung::Image;
/// use host::files::{OverwritePolicy, Picture};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("gradient.png");
/// let picture = Picture::from(Image::from_fn(256, 64, |x, _| x as u8)?);
/// picture.write(&path, OverwritePolicy::Keep)?;
/// assert_eq!(Picture::read(&path)?.pixels, picture.pixels);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// The values.
    pub pixels: AnyImage,
    /// The metadata of the file.
    pub metadata: Metadata,
    /// The meaning of the values.
    pub content: Content,
}

/// How a picture is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// The quality of JPEG, from 1 to 100; [`JPEG_QUALITY`] if None.
    pub quality: Option<u8>,
}

impl<T: Pixel> From<Image<T>> for Picture {
    fn from(image: Image<T>) -> Self {
        Self { pixels: image.into(), metadata: Metadata::default(), content: Content::default() }
    }
}

impl Picture {
    /// Reads a file, or a pipe to its end, of any of the [formats](self).
    ///
    /// # Errors
    /// [`Error::File`] with the reason if it can't be opened, is in no known format, is cut off, or is larger than a
    /// decoder may make it ([`MOST_BYTES`], sides of 2^30 - 1).
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_path(path.as_ref())
    }

    /// Not generic, as the others here, so that the decoders and encoders are compiled once, in this crate.
    fn read_path(path: &Path) -> Result<Self> {
        let blame = |reason: String| Error::File { path: path.into(), reason };
        let file = open(path)?;
        if file.metadata().is_ok_and(|found| found.is_file()) {
            return Self::read_from(buffered(file)).map_err(blame);
        }
        // The detection of the format reads twice, which a pipe can't.
        let bytes = memory::read_to_end(file, MOST_PIPED + 1).map_err(|error| blame(error.to_string()))?;
        if bytes.len() as u64 > MOST_PIPED {
            return Err(blame(format!("is no file, and gives more than {MOST_PIPED} bytes")));
        }
        Self::read_from(any_reader(Cursor::new(bytes))).map_err(blame)
    }

    fn read_from(mut reader: AnyReader) -> Result<Self, String> {
        if npy::starts(&mut reader).map_err(|error| error.to_string())? {
            let pixels = npy::read_pixels(reader)?;
            return Ok(Self { pixels, metadata: Metadata::default(), content: Content::Array });
        }
        guarded(|| decode::read(reader))
    }

    /// Writes a file in the format that its extension names. It appears whole or not at all.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the format can't hold the values, [`Error::Exists`], [`Error::File`] with the reason.
    pub fn write(&self, path: impl AsRef<Path>, existing: OverwritePolicy) -> Result<()> {
        self.write_with(path, existing, WriteOptions::default())
    }

    /// As [`write`](Self::write), with options.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn write_with(&self, path: impl AsRef<Path>, existing: OverwritePolicy, options: WriteOptions) -> Result<()> {
        self.write_path(path.as_ref(), existing, options)
    }

    fn write_path(&self, path: &Path, existing: OverwritePolicy, options: WriteOptions) -> Result<()> {
        let format = Format::of(path)?;
        format.check(path, self.pixels.pixel_type(), self.pixels.channels())?;
        format.check_sides(path, self.pixels.width(), self.pixels.height())?;
        // Most encoders hold their compressed output in memory. An allocation that fails there would end the process.
        let values = self.pixels.width() * self.pixels.height() * self.pixels.channels();
        let bytes = (values * self.pixels.pixel_type().bytes()) as u64;
        let Some(_reserved) = memory::reserve(bytes.saturating_mul(2)) else {
            let reason = format!("there is not enough memory to encode its {bytes} bytes");
            return Err(Error::File { path: path.into(), reason });
        };
        let converted = alpha::as_held_by(format, self)?;
        let picture = converted.as_ref().unwrap_or(self);
        atomic_write::write(path, existing, |file| encode::write(file, format, picture, options))
    }
}

/// The most bytes of memory that reading a picture takes, from its file's metadata and the sizes of its values. That is
/// no more than [`MEMORY_MULTIPLE`] times the bytes of the values and [`MEMORY_CONSTANT`]. 0 if it can't be read, which
/// [`Picture::read`] then says.
#[must_use]
pub fn decoded_bytes(path: impl AsRef<Path>) -> u64 {
    decoded_bytes_of(path.as_ref())
}

fn decoded_bytes_of(path: &Path) -> u64 {
    // A pipe can be read only once, and not here.
    let Some(file) = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file) else { return 0 };
    let Ok(mut reader) = open(path).map(buffered) else { return 0 };
    if npy::starts(&mut reader).unwrap_or(false) {
        // Its bytes, and its values.
        return file.len().saturating_mul(2);
    }
    guarded(|| decode::memory(reader)).unwrap_or(0)
}

/// What [`Picture::read`] ignores in a file, in words: more pages or channels of a TIFF, more frames of a PNG or WebP.
#[must_use]
pub fn left_out(path: impl AsRef<Path>) -> Option<String> {
    left_out_of(path.as_ref())
}

fn left_out_of(path: &Path) -> Option<String> {
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let reader = buffered(open(path).ok()?);
    guarded(|| decode::left_out(reader)).ok().flatten()
}

/// Reads a mask: a `.npy` file of two dimensions and any numeric type, or a [text](WrittenMask::from_text). The
/// content says which.
///
/// # Errors
/// [`Error::File`] with the reason: it can't be opened, or is no mask.
pub fn read_mask(path: impl AsRef<Path>) -> Result<WrittenMask> {
    let path = path.as_ref();
    read_mask_from(&mut open(path)?).map_err(|error| {
        let reason = match error {
            Error::File { reason, .. } => reason,
            error => error.to_string(),
        };
        Error::File { path: path.into(), reason }
    })
}

/// Reads a mask from anything that can be read, such as the standard input; otherwise as [`read_mask`].
///
/// # Errors
/// As for [`read_mask`], without a path.
pub fn read_mask_from(reader: &mut dyn Read) -> Result<WrittenMask> {
    // No useful mask is larger. This stops endless files such as /dev/zero.
    const MOST: u64 = 1 << 30;
    let failed = |reason: String| Error::File { path: "mask".into(), reason };
    let bytes = memory::read_to_end(reader, MOST + 1).map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > MOST {
        return Err(failed(format!("has more than {MOST} bytes, as no mask has")));
    }
    if bytes.starts_with(npy::MAGIC) {
        let (height, width, values) = npy::read_numbers(bytes.as_slice()).map_err(failed)?;
        return Ok(Mask::new(width, height, values)?.into());
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| failed("is neither text nor .npy".into()))?;
    Ok(WrittenMask::from_text(text)?)
}

/// Writes text, such as a report. The file appears whole or not at all.
///
/// # Errors
/// [`Error::Exists`], [`Error::File`] with the reason.
pub fn write_text(path: impl AsRef<Path>, text: &str, existing: OverwritePolicy) -> Result<()> {
    write_through(path, existing, |file| file.write_all(text.as_bytes()).map_err(|error| error.to_string()))
}

/// Writes a file through `contents`. The file appears whole or not at all: it has a temporary name meanwhile.
///
/// # Errors
/// [`Error::Exists`], [`Error::File`] with the reason, which may be that of `contents`.
pub fn write_through(
    path: impl AsRef<Path>,
    existing: OverwritePolicy,
    contents: impl FnOnce(&mut BufWriter<File>) -> Result<(), String>,
) -> Result<()> {
    atomic_write::write(path.as_ref(), existing, contents)
}

/// Checks that a file could be written. Call it before long work.
///
/// # Errors
/// [`Error::Exists`], [`Error::File`] with the reason.
pub fn check_writable(path: impl AsRef<Path>, existing: OverwritePolicy) -> Result<()> {
    atomic_write::check(path.as_ref(), existing)
}

/// Whether files could be written in a folder.
///
/// # Errors
/// [`Error::File`] with the folder and the reason.
pub fn check_folder(folder: impl AsRef<Path>) -> Result<()> {
    atomic_write::check_folder(folder.as_ref())
}

/// Whether a name's extension is one of a picture that can be read: those that can be written, and `.pbm`.
#[must_use]
pub fn is_picture(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    let bitmap = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(format::READ_ONLY));
    bitmap || Format::of(path).is_ok()
}

/// Runs a decoder, and turns a panic into an error. A hostile file must not end a whole batch.
pub(crate) fn guarded<T>(decode: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    // A panic drops the decoder and its state, so nobody sees a broken invariant.
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(decode));
    result.unwrap_or_else(|_| Err("can't be read: its decoder failed in an unexpected way".into()))
}

fn open(path: &Path) -> Result<File> {
    let blame = |error: std::io::Error| Error::File { path: path.into(), reason: error.to_string() };
    let file = match standard_input(path) {
        Some(duplicate) => duplicate.map_err(blame)?,
        None => File::open(path).map_err(blame)?,
    };
    if file.metadata().map_err(blame)?.is_dir() {
        return Err(Error::File { path: path.into(), reason: "is a folder".into() });
    }
    Ok(file)
}

/// A duplicate of the standard input, if that is what is asked for and it is no file. A socket has no path by which it
/// could be opened. A file is opened by its path, because its position would be shared.
#[cfg(unix)]
fn standard_input(path: &Path) -> Option<std::io::Result<File>> {
    use std::os::fd::AsFd;
    let is_file = || std::fs::metadata(path).is_ok_and(|found| found.is_file());
    if path != Path::new(STANDARD_INPUT) || is_file() {
        return None;
    }
    Some(std::io::stdin().as_fd().try_clone_to_owned().map(File::from))
}

#[cfg(not(unix))]
fn standard_input(_: &Path) -> Option<std::io::Result<File>> {
    None
}

/// What every reader of pictures needs.
pub(crate) trait Source: Read + Seek + Send {}
impl<R: Read + Seek + Send> Source for R {}

/// A reader of any source. Each decoder reads from this type alone, so it is compiled once.
pub(crate) type AnyReader<'a> = BufReader<Box<dyn Source + 'a>>;

/// Reads from a file.
pub(crate) fn buffered(file: File) -> AnyReader<'static> {
    BufReader::with_capacity(1 << 16, Box::new(file))
}

/// Reads from another source.
fn any_reader<'a>(source: impl Source + 'a) -> AnyReader<'a> {
    BufReader::new(Box::new(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_that_panics_is_an_error() {
        assert_eq!(guarded(|| Ok(3)), Ok(3));
        let words = guarded::<()>(|| panic!("as a decoder might")).unwrap_err();
        assert!(words.contains("its decoder failed"), "{words}");
    }

    #[test]
    fn the_memory_of_a_picture_is_known_before_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str, values: u64| {
            let found = decoded_bytes(folder.path().join(name));
            let most = MEMORY_MULTIPLE * values + MEMORY_CONSTANT;
            assert!((2 * values..most).contains(&found), "{name}: {found} for {values}");
        };
        for (name, channels) in [("a.png", 3), ("a.jpg", 1), ("a.tif", 4), ("a.qoi", 3), ("a.webp", 3), ("a.npy", 2)] {
            let image = Image::new(200, 100, channels, vec![7_u8; 200 * 100 * channels]).unwrap();
            Picture::from(image).write(folder.path().join(name), OverwritePolicy::Keep).unwrap();
            check(name, 200 * 100 * channels as u64);
        }
        let float = folder.path().join("b.tif");
        Picture::from(Image::new(200, 100, 1, vec![0.5_f32; 20_000]).unwrap())
            .write(&float, OverwritePolicy::Keep)
            .unwrap();
        check("b.tif", 80_000);
        assert_eq!(decoded_bytes(folder.path().join("nowhere.png")), 0);
        assert_eq!(decoded_bytes(folder.path()), 0);
    }
}
