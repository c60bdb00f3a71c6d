//! Reads pictures: detects the format, reads the metadata, and decodes the values with crate `image`.

use std::io::{ErrorKind, Read, Seek, SeekFrom};

use image::codecs::jpeg::JpegDecoder;
use image::codecs::png::PngDecoder;
use image::codecs::webp::WebPDecoder;
use image::metadata::Orientation;
use image::{ColorType, DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};

use super::limits::{self, MEMORY_CONSTANT, SMALL};
use super::metadata::MOST_METADATA;
use super::parts::{Kept, Parts};
use super::{
    AnyImage, AnyReader, Content, Format, MOST_BYTES, Metadata, Picture, any_reader, exr, jpeg, orient, png, tiff_read,
    webp,
};
use faltung::Image;
use faltung::memory::{self, has_room};

/// The contents of a file except its values.
pub(super) struct Scan {
    /// The parts that the decoder needs.
    pub(super) kept: Kept,
    pub(super) metadata: Metadata,
    pub(super) orientation: Orientation,
    pub(super) animated: bool,
}

impl Default for Scan {
    fn default() -> Self {
        let (kept, metadata) = (Kept::default(), Metadata::default());
        Self { kept, metadata, orientation: Orientation::NoTransforms, animated: false }
    }
}

/// Reads metadata of the given length, or less at the end of the file.
pub(super) fn bounded(reader: &mut impl Read, length: u64, what: &'static str) -> Result<Vec<u8>, String> {
    if length > MOST_METADATA {
        return Err(too_much(what));
    }
    let mut bytes = Vec::new();
    reader.take(length).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// The reason why a file with too large metadata is refused.
pub(super) fn too_much(what: &str) -> String {
    format!("has {what} of more than {} MiB, as no ordinary picture has", MOST_METADATA >> 20)
}

/// Decoders may hold coded data of at most twice the bytes of the values.
pub(super) fn coded_data_fits(coded: u64, bytes: u64) -> Result<(), String> {
    let most = bytes.saturating_mul(2).saturating_add(MEMORY_CONSTANT / 4);
    if coded <= most {
        return Ok(());
    }
    Err(format!("has {coded} bytes of coded data for {bytes} bytes of values; at most {most} are decoded"))
}

/// A picture that is ready to be decoded.
struct Opened<'a> {
    decoder: Box<dyn ImageDecoder + 'a>,
    metadata: Metadata,
    orientation: Orientation,
    /// The memory of decoding, as a multiple of the bytes of the values.
    multiple: u64,
}

/// Reads a picture of any format but `.npy`.
pub(super) fn read(mut reader: AnyReader) -> Result<Picture, String> {
    let format = format(&mut reader)?;
    if format == ImageFormat::Tiff {
        return tiff_read::read(reader);
    }
    let mut picture = open(reader, format)?.read()?;
    if format == ImageFormat::OpenExr {
        picture.content = Content::LinearLight;
        picture.metadata.premultiplied = picture.content.has_alpha(picture.pixels.channels());
    }
    Ok(picture)
}

/// The most bytes of memory that [`read`] takes, by the beginning of the file.
///
/// If there is too little memory to read the beginning, the function returns [`MOST_BYTES`]. Then the file is read when
/// nothing else is under way.
pub(super) fn memory(mut reader: AnyReader) -> Result<u64, String> {
    // This thread must not wait for memory: it also writes results, which releases memory.
    if memory::try_reserve(SMALL).is_none() {
        return Ok(MOST_BYTES);
    }
    let format = format(&mut reader)?;
    if format == ImageFormat::Tiff {
        return tiff_read::memory(reader);
    }
    if format == ImageFormat::Jpeg {
        let (frame, metadata) = jpeg::beginning(&mut reader).ok_or("is cut off")?;
        return Ok(frame.memory().saturating_add(2 * metadata));
    }
    let opened = open(reader, format)?;
    let metadata = &opened.metadata;
    let more =
        [&metadata.icc_profile, &metadata.exif].into_iter().flatten().map(|bytes| bytes.len() as u64).sum::<u64>();
    Ok(limits::peak(opened.multiple, opened.decoder.total_bytes()).saturating_add(2 * more))
}

/// The further pages or frames of a picture, which [`read`] leaves out.
pub(super) fn left_out(mut reader: AnyReader) -> Result<Option<String>, String> {
    /// More are not counted.
    const MANY: usize = 1000;
    let animated = |scan: Scan| scan.animated.then(|| "is animated; its first frame is read".to_owned());
    Ok(match format(&mut reader)? {
        ImageFormat::Tiff => {
            let mut decoder = tiff::decoder::Decoder::new(reader).map_err(|error| error.to_string())?;
            let channels = tiff_read::left_out_channels(&mut decoder);
            let mut pages = 1;
            while pages < MANY && decoder.more_images() && decoder.next_image().is_ok() {
                pages += 1;
            }
            let more = if pages == MANY { " or more" } else { "" };
            let pages = (pages > 1).then(|| format!("has {pages}{more} pages; the first is read"));
            let notes: Vec<String> = pages.into_iter().chain(channels).collect();
            (!notes.is_empty()).then(|| notes.join("; "))
        }
        ImageFormat::Png => animated(png::scan(&mut reader)?),
        ImageFormat::WebP => animated(webp::scan(&mut reader)?),
        _ => None,
    })
}

/// Detects the format from the first bytes of a file, and rewinds.
fn format(reader: &mut AnyReader) -> Result<ImageFormat, String> {
    let io = |error: std::io::Error| error.to_string();
    if !has_room(SMALL) {
        return Err("can't be read: there is hardly any memory".into());
    }
    let mut start = Vec::new();
    reader.by_ref().take(64).read_to_end(&mut start).map_err(io)?;
    reader.seek(SeekFrom::Start(0)).map_err(io)?;
    if start.is_empty() {
        return Err("is empty".into());
    }
    if BIG_TIFF.iter().any(|magic| start.starts_with(magic)) {
        return Ok(ImageFormat::Tiff);
    }
    image::guess_format(&start)
        .ok()
        .filter(ImageFormat::reading_enabled)
        .ok_or_else(|| format!("is in no format that can be read ({})", Format::readable()))
}

/// What a TIFF for more than 4 GiB begins with, in both byte orders; [`image::guess_format`] knows only the others.
const BIG_TIFF: [&[u8]; 2] = [b"II\x2b\0", b"MM\0\x2b"];

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.max_image_width = Some(kernels_gpu::abi::params::MAX_SIDE as u32);
    limits.max_image_height = limits.max_image_width;
    limits.max_alloc = Some(MOST_BYTES);
    limits
}

fn broken(error: ImageError) -> String {
    match error {
        ImageError::Limits(_) => format!("is larger than the {} GiB that are decoded at most", MOST_BYTES >> 30),
        ImageError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => "is cut off".into(),
        ImageError::Unsupported(error) => {
            format!("is of a kind that is not read: {error}; values of u8, u16 and f32 are read")
        }
        ImageError::Decoding(error) => format!("is damaged, or no such picture: {error}"),
        other => format!("can't be decoded: {other}"),
    }
}

/// Reads the metadata. The decoder gets a file without it, so that it holds none.
fn open<'a>(mut reader: AnyReader<'a>, format: ImageFormat) -> Result<Opened<'a>, String> {
    let io = |error: std::io::Error| error.to_string();
    let multiple = limits::multiple(format, false);
    Ok(match format {
        ImageFormat::Png => {
            let Scan { kept, metadata, orientation, .. } = png::scan(&mut reader)?;
            let reader = any_reader(Parts::new(reader, kept).map_err(io)?);
            let decoder = PngDecoder::with_limits(reader, limits()).map_err(broken)?;
            Opened { decoder: Box::new(decoder), metadata, orientation, multiple }
        }
        ImageFormat::Jpeg => {
            let (Scan { kept, metadata, orientation, .. }, frame) = jpeg::scan(&mut reader)?;
            let multiple = limits::multiple(format, frame.progressive);
            if !has_room(frame.memory()) {
                return Err(no_memory(frame.width.into(), frame.height.into(), frame.bytes()));
            }
            let reader = any_reader(Parts::new(reader, kept).map_err(io)?);
            let mut decoder = JpegDecoder::new(reader).map_err(broken)?;
            decoder.set_limits(limits()).map_err(broken)?;
            Opened { decoder: Box::new(decoder), metadata, orientation, multiple }
        }
        ImageFormat::WebP => {
            let Scan { metadata, orientation, .. } = webp::scan(&mut reader)?;
            reader.seek(SeekFrom::Start(0)).map_err(io)?;
            let bytes = WebPDecoder::new(any_reader(&mut reader)).map_err(broken)?.total_bytes();
            webp::check(&mut reader, bytes)?;
            reader.seek(SeekFrom::Start(0)).map_err(io)?;
            let decoder = WebPDecoder::new(reader).map_err(broken)?;
            Opened { decoder: Box::new(decoder), metadata, orientation, multiple }
        }
        _ => {
            match format {
                ImageFormat::OpenExr => exr::check(&mut reader)?,
                ImageFormat::Pnm => check_netpbm(&mut reader)?,
                _ => {}
            }
            reader.seek(SeekFrom::Start(0)).map_err(io)?;
            let mut reader = ImageReader::with_format(reader, format);
            reader.limits(limits());
            let kinds = if format == ImageFormat::OpenExr { " (of OpenEXR, RGB and RGBA are read)" } else { "" };
            let decoder = reader.into_decoder().map_err(|error| broken(error) + kinds)?;
            let (metadata, orientation) = (Metadata::default(), Orientation::NoTransforms);
            Opened { decoder: Box::new(decoder), metadata, orientation, multiple }
        }
    })
}

/// The decoder holds each line and each number of Netpbm's headers, however long.
fn check_netpbm(reader: &mut impl Read) -> Result<(), String> {
    const MOST: usize = 1 << 16;
    let mut start = Vec::new();
    reader.take(MOST as u64).read_to_end(&mut start).map_err(|error| error.to_string())?;
    let ends = match &start[..] {
        [b'P', b'7', ..] => start.windows(7).any(|word| word == b"ENDHDR\n"),
        // The kind, columns, rows, and the greatest value, which bitmaps don't have; lines with # are comments.
        [b'P', kind, ..] => {
            let lines = start.split(|&byte| byte == b'\n').filter(|line| !line.starts_with(b"#"));
            let words = lines.flat_map(|line| line.split(u8::is_ascii_whitespace)).filter(|word| !word.is_empty());
            // The last may be longer than what was read.
            words.count() > if matches!(kind, b'1' | b'4') { 3 } else { 4 }
        }
        _ => true,
    };
    if start.len() < MOST || ends { Ok(()) } else { Err(format!("has a header of more than {} KiB", MOST >> 10)) }
}

fn no_memory(width: u32, height: u32, bytes: u64) -> String {
    format!("has {width} x {height} pixels, {bytes} bytes; there is not that much memory")
}

impl Opened<'_> {
    fn read(self) -> Result<Picture, String> {
        let Self { decoder, multiple, .. } = &self;
        let bytes = decoder.total_bytes();
        let (width, height) = decoder.dimensions();
        if bytes > MOST_BYTES {
            return Err(format!("has {width} x {height} pixels, {bytes} bytes; at most {MOST_BYTES} are decoded"));
        }
        // The decoder's own allocations would end the process if they failed.
        let Some(reserved) = memory::reserve(limits::peak(*multiple, bytes)) else {
            return Err(no_memory(width, height, bytes));
        };
        reserved.during(|| self.read_reserved())
    }

    /// [`read`](Self::read), once there is memory for it.
    fn read_reserved(self) -> Result<Picture, String> {
        let Self { decoder, mut metadata, orientation, .. } = self;
        let bytes = decoder.total_bytes();
        let (width, height) = decoder.dimensions();
        let pixels = match decoder.color_type() {
            colour @ (ColorType::L8 | ColorType::La8 | ColorType::Rgb8 | ColorType::Rgba8) => {
                // Below `MOST_BYTES`.
                let mut values =
                    memory::zeros(bytes as usize, "for a decoded picture").map_err(|error| error.to_string())?;
                let values_broken =
                    |error: ImageError| jpeg::cut_off(&error.to_string()).unwrap_or_else(|| broken(error));
                decoder.read_image_boxed(&mut values).map_err(values_broken)?;
                let channels = colour.channel_count().into();
                Image::new(width as usize, height as usize, channels, values).map(AnyImage::from)
            }
            _ => AnyImage::try_from(DynamicImage::from_decoder(decoder).map_err(broken)?),
        };
        let pixels = pixels.map_err(|error| error.to_string())?;
        let pixels = orient::apply(pixels, orientation).map_err(|error| error.to_string())?;
        metadata.turn(orientation);
        metadata.keep_profile_for(pixels.channels());
        Ok(Picture { pixels, metadata, content: Content::default() })
    }
}
