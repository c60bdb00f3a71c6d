//! Writes pictures: PNG, JPEG and TIFF by modules of their own, Netpbm's formats here, the others with crate `image`.

use std::error::Error;
use std::io::{Seek, Write};

use image::codecs::bmp::BmpEncoder;
use image::codecs::openexr::OpenExrEncoder;
use image::codecs::qoi::QoiEncoder;
use image::codecs::webp::WebPEncoder;
use image::{EncodableLayout, ExtendedColorType, ImageEncoder, ImageError};

use super::{AnyImage, Format, Picture, WriteOptions, jpeg_write, npy, png, tiff_write};

/// Writes a picture in a format that holds its [values](Format::check) and [sides](Format::check_sides).
pub(super) fn write(
    mut writer: impl Write + Seek,
    format: Format,
    picture: &Picture,
    options: WriteOptions,
) -> Result<(), String> {
    match format {
        Format::Npy => npy::write(&mut writer, &picture.pixels),
        Format::Pgm | Format::Ppm | Format::Pnm | Format::Pam => {
            netpbm(&mut writer, format, &picture.pixels).map_err(|error| error.to_string())
        }
        Format::Png => png::write(writer, picture),
        Format::Jpeg => jpeg_write::write(writer, picture, options),
        Format::Tiff => tiff_write::write(writer, picture),
        Format::Bmp => encode(BmpEncoder::new(&mut writer), picture),
        Format::WebP => encode(WebPEncoder::new_lossless(writer), picture),
        Format::Qoi => encode(QoiEncoder::new(writer), picture),
        Format::Exr => encode(OpenExrEncoder::new(writer), picture),
    }
}

fn encode(mut encoder: impl ImageEncoder, picture: &Picture) -> Result<(), String> {
    use ExtendedColorType::{L8, L16, La8, La16, Rgb8, Rgb16, Rgb32F, Rgba8, Rgba16, Rgba32F};
    let pixels = &picture.pixels;
    let (bytes, colours) = match pixels {
        AnyImage::U8(image) => (image.values().as_bytes(), [Some(L8), Some(La8), Some(Rgb8), Some(Rgba8)]),
        AnyImage::U16(image) => (image.values().as_bytes(), [Some(L16), Some(La16), Some(Rgb16), Some(Rgba16)]),
        AnyImage::F32(image) => (image.values().as_bytes(), [None, None, Some(Rgb32F), Some(Rgba32F)]),
    };
    let channels = pixels.channels();
    let colour = *colours
        .get(channels - 1)
        .and_then(Option::as_ref)
        .ok_or_else(|| format!("can't hold {} in {channels} channels", pixels.pixel_type().name()))?;
    // `Metadata::lost_in` reports what a format can't hold.
    if let Some(profile) = &picture.metadata.icc_profile {
        let _ = encoder.set_icc_profile(profile.clone());
    }
    if let Some(exif) = &picture.metadata.exif {
        let _ = encoder.set_exif_metadata(exif.clone());
    }
    // Sides are below 2^30.
    let (width, height) = (pixels.width() as u32, pixels.height() as u32);
    // Without the cause, an error of writing OpenEXR is called one of decoding.
    let words = |error: ImageError| error.source().map_or_else(|| error.to_string(), ToString::to_string);
    encoder.write_image(bytes, width, height, colour).map_err(words)
}

/// Netpbm's binary formats, <https://netpbm.sourceforge.net/doc/pam.html>: values of 16 bits with the larger byte
/// first.
fn netpbm(writer: &mut impl Write, format: Format, pixels: &AnyImage) -> std::io::Result<()> {
    let (width, height, channels) = (pixels.width(), pixels.height(), pixels.channels());
    let most = if matches!(pixels, AnyImage::U8(_)) { 255 } else { 65_535 };
    if format == Format::Pam {
        let kind = ["GRAYSCALE", "GRAYSCALE_ALPHA", "RGB", "RGB_ALPHA"][channels - 1];
        writeln!(
            writer,
            "P7\nWIDTH {width}\nHEIGHT {height}\nDEPTH {channels}\nMAXVAL {most}\nTUPLTYPE {kind}\nENDHDR"
        )?;
    } else {
        let magic = if channels == 1 { "P5" } else { "P6" };
        writeln!(writer, "{magic}\n{width} {height}\n{most}")?;
    }
    match pixels {
        AnyImage::U8(image) => writer.write_all(image.values())?,
        AnyImage::U16(image) => {
            for value in image.values() {
                writer.write_all(&value.to_be_bytes())?;
            }
        }
        AnyImage::F32(_) => unreachable!("no Netpbm format holds f32, which Format::check says"),
    }
    Ok(())
}
