//! Reading of pictures through crate `image`.

use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};

use image::codecs::png::PngDecoder;
use image::codecs::tiff::TiffDecoder;
use image::codecs::webp::WebPDecoder;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};

use super::{Format, MOST_BYTES, Picture, Pixels, Source, jpeg, tiff_grey};
use crate::{Image, Pixel, memory};

/// Reads a picture of any format but `.npy`.
pub(super) fn read(mut reader: BufReader<impl Source>) -> Result<Picture, String> {
    let io = |error: std::io::Error| error.to_string();
    let format = format(&mut reader)?;
    if format == ImageFormat::Jpeg {
        if !jpeg::is_complete(&mut reader).map_err(io)? {
            return Err("is cut off: a JPEG without its end".into());
        }
        reader.seek(SeekFrom::Start(0)).map_err(io)?;
    }
    if format == ImageFormat::Tiff {
        if let Some(image) = tiff_grey::read(&mut reader)? {
            return Ok(image.into());
        }
        reader.seek(SeekFrom::Start(0)).map_err(io)?;
    }
    decode(reader, format)
}

/// The bytes of the decoded values, as the beginning of the file says.
pub(super) fn bytes(mut reader: BufReader<impl Source>) -> Result<u64, String> {
    let format = format(&mut reader)?;
    let mut reader = ImageReader::with_format(reader, format);
    reader.limits(limits());
    reader.into_decoder().map(|decoder| decoder.total_bytes()).map_err(broken)
}

/// What [`read`] leaves out.
pub(super) fn left_out(mut reader: BufReader<impl Source>) -> Result<Option<String>, String> {
    /// More are not counted.
    const MANY: usize = 1000;
    let animated = || "is animated; its first frame is read".to_owned();
    Ok(match format(&mut reader)? {
        ImageFormat::Tiff => {
            let mut decoder = tiff::decoder::Decoder::new(reader).map_err(|error| error.to_string())?;
            let mut pages = 1;
            while pages < MANY && decoder.more_images() && decoder.next_image().is_ok() {
                pages += 1;
            }
            let more = if pages == MANY { " or more" } else { "" };
            (pages > 1).then(|| format!("has {pages}{more} pages; the first is read"))
        }
        ImageFormat::Png => {
            let decoder = PngDecoder::with_limits(reader, limits()).map_err(broken)?;
            decoder.is_apng().map_err(broken)?.then(animated)
        }
        ImageFormat::WebP => WebPDecoder::new(reader).map_err(broken)?.has_animation().then(animated),
        _ => None,
    })
}

/// The format that a file's first bytes tell; the position is its beginning.
fn format(reader: &mut BufReader<impl Source>) -> Result<ImageFormat, String> {
    let io = |error: std::io::Error| error.to_string();
    if !memory::has_room(SMALL) {
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

/// Bytes that decoders need beside what grows with the picture.
const SMALL: u64 = 1 << 20;

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.max_image_width = Some(kernels_gpu::params::MAX_SIDE as u32);
    limits.max_image_height = limits.max_image_width;
    limits.max_alloc = Some(MOST_BYTES);
    limits
}

fn broken(error: ImageError) -> String {
    match error {
        ImageError::Limits(_) => format!("is larger than the {} GiB that are decoded at most", MOST_BYTES >> 30),
        ImageError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => "is cut off".into(),
        ImageError::Unsupported(error) => {
            format!("is of a kind that can't be read, whose values are not u8, u16 or f32, perhaps: {error}")
        }
        ImageError::Decoding(error) => format!("is damaged, or no such picture: {error}"),
        other => format!("can't be decoded: {other}"),
    }
}

fn decode(reader: BufReader<impl Source>, format: ImageFormat) -> Result<Picture, String> {
    if format == ImageFormat::Tiff {
        // Its profile must be read before the limits are set: they would hold it to the size of the picture.
        let mut decoder = TiffDecoder::new(reader).map_err(broken)?;
        let profile = decoder.icc_profile().ok().flatten();
        decoder.set_limits(limits()).map_err(broken)?;
        return finish(decoder, profile);
    }
    let mut reader = ImageReader::with_format(reader, format);
    reader.limits(limits());
    let kinds = if format == ImageFormat::OpenExr { " (of OpenEXR, RGB and RGBA are read)" } else { "" };
    let mut decoder = reader.into_decoder().map_err(|error| broken(error) + kinds)?;
    // Without it, the picture can still be read.
    let profile = decoder.icc_profile().ok().flatten();
    finish(decoder, profile)
}

fn finish(mut decoder: impl ImageDecoder, profile: Option<Vec<u8>>) -> Result<Picture, String> {
    let bytes = decoder.total_bytes();
    let (width, height) = decoder.dimensions();
    if bytes > MOST_BYTES {
        return Err(format!("has {width} x {height} pixels, {bytes} bytes; at most {MOST_BYTES} are decoded"));
    }
    // The decoder's own allocations would end the process if they failed: the values, and what it decodes them from.
    let Some(_reserved) = memory::reserve(bytes.saturating_mul(2).saturating_add(SMALL)) else {
        return Err(format!("has {width} x {height} pixels, {bytes} bytes; there is not that much memory"));
    };
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut decoded = DynamicImage::from_decoder(decoder).map_err(broken)?;
    decoded.apply_orientation(orientation);
    let pixels = pixels(decoded)?;
    Ok(Picture { icc_profile: profile.filter(|profile| fits(profile, pixels.channels())), pixels })
}

fn pixels(decoded: DynamicImage) -> Result<Pixels, String> {
    let (width, height) = (decoded.width() as usize, decoded.height() as usize);
    let channels = usize::from(decoded.color().channel_count());
    fn image<T: Pixel>((width, height, channels): (usize, usize, usize), values: Vec<T>) -> Result<Pixels, String>
    where
        Pixels: From<Image<T>>,
    {
        Image::new(width, height, channels, values).map(Into::into).map_err(|error| error.to_string())
    }
    let sizes = (width, height, channels);
    match decoded {
        DynamicImage::ImageLuma8(buffer) => image(sizes, buffer.into_raw()),
        DynamicImage::ImageLumaA8(buffer) => image(sizes, buffer.into_raw()),
        DynamicImage::ImageRgb8(buffer) => image(sizes, buffer.into_raw()),
        DynamicImage::ImageRgba8(buffer) => image(sizes, buffer.into_raw()),
        DynamicImage::ImageLuma16(buffer) => image(sizes, buffer.into_raw()),
        DynamicImage::ImageLumaA16(buffer) => image(sizes, buffer.into_raw()),
        DynamicImage::ImageRgb16(buffer) => image(sizes, buffer.into_raw()),
        DynamicImage::ImageRgba16(buffer) => image(sizes, buffer.into_raw()),
        DynamicImage::ImageRgb32F(buffer) => image(sizes, buffer.into_raw()),
        DynamicImage::ImageRgba32F(buffer) => image(sizes, buffer.into_raw()),
        other => Err(format!("has pixels of type {:?}, which can't be read", other.color())),
    }
}

/// Whether a profile is for these channels: a decoded CMYK picture is RGB, and its profile no longer speaks of it. Bytes
/// 16 to 19 of a profile name its colour space.
fn fits(profile: &[u8], channels: usize) -> bool {
    profile.get(16..20) == Some(if channels < 3 { b"GRAY" } else { b"RGB " })
}
