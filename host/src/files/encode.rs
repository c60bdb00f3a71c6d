//! Writing of pictures through crate `image`, of JPEG through `jpeg-encoder`, which is twice as fast, and of Netpbm's formats.

use std::io::{Seek, Write};

use image::codecs::bmp::BmpEncoder;
use image::codecs::openexr::OpenExrEncoder;
use image::codecs::png::PngEncoder;
use image::codecs::qoi::QoiEncoder;
use image::codecs::tiff::TiffEncoder;
use image::codecs::webp::WebPEncoder;
use image::{EncodableLayout, ExtendedColorType, ImageEncoder};
use jpeg_encoder::{ColorType, SamplingFactor};

use super::{Format, Picture, Pixels, npy, tiff_grey};

/// Of 100.
const JPEG_QUALITY: u8 = 95;
/// The format has 16 bits for a side, but libjpeg, through which most programs read it, takes no more than this (`JPEG_MAX_DIMENSION`).
const JPEG_SIDE: u16 = 65_500;

/// Writes a picture in a format that [holds](Format::check) it.
pub(super) fn write(mut writer: impl Write + Seek, format: Format, picture: &Picture) -> Result<(), String> {
    match format {
        Format::Npy => npy::write(&mut writer, &picture.pixels),
        Format::Pgm | Format::Ppm | Format::Pnm | Format::Pam => {
            netpbm(&mut writer, format, &picture.pixels).map_err(|error| error.to_string())
        }
        Format::Png => encode(PngEncoder::new(writer), picture),
        Format::Jpeg => jpeg(writer, picture),
        Format::Tiff => match &picture.pixels {
            Pixels::F32(image) if image.channels() == 1 => tiff_grey::write(writer, image, picture),
            _ => encode(TiffEncoder::new(writer), picture),
        },
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
        Pixels::U8(image) => (image.values().as_bytes(), [Some(L8), Some(La8), Some(Rgb8), Some(Rgba8)]),
        Pixels::U16(image) => (image.values().as_bytes(), [Some(L16), Some(La16), Some(Rgb16), Some(Rgba16)]),
        Pixels::F32(image) => (image.values().as_bytes(), [None, None, Some(Rgb32F), Some(Rgba32F)]),
    };
    let channels = pixels.channels();
    let colour = *colours
        .get(channels - 1)
        .and_then(Option::as_ref)
        .ok_or_else(|| format!("can't hold {} in {channels} channels", pixels.pixel_type().name()))?;
    if let Some(profile) = &picture.icc_profile {
        // Formats without a place for it go without.
        let _ = encoder.set_icc_profile(profile.clone());
    }
    // Sides are below 2^30.
    let (width, height) = (pixels.width() as u32, pixels.height() as u32);
    encoder.write_image(bytes, width, height, colour).map_err(|error| error.to_string())
}

/// JPEG, each pixel with its own colour.
fn jpeg(writer: impl Write, picture: &Picture) -> Result<(), String> {
    let Pixels::U8(image) = &picture.pixels else {
        unreachable!("JPEG holds u8 alone, which Format::check says");
    };
    let (columns, rows) = (image.width(), image.height());
    let side = |side: usize| u16::try_from(side).ok().filter(|&side| side <= JPEG_SIDE);
    let (Some(width), Some(height)) = (side(columns), side(rows)) else {
        return Err(format!("JPEG has at most {JPEG_SIDE} columns and rows, this picture {columns} x {rows}"));
    };
    let mut encoder = jpeg_encoder::Encoder::new(writer, JPEG_QUALITY);
    encoder.set_sampling_factor(SamplingFactor::F_1_1);
    if let Some(profile) = &picture.icc_profile {
        let too_long = |_| format!("JPEG has no room for a colour profile of {} bytes", profile.len());
        encoder.add_icc_profile(profile).map_err(too_long)?;
    }
    let colour = if image.channels() == 1 { ColorType::Luma } else { ColorType::Rgb };
    encoder.encode(image.values(), width, height, colour).map_err(|error| error.to_string())
}

/// Netpbm's binary formats, <https://netpbm.sourceforge.net/doc/pam.html>: values of 16 bits with the larger byte first.
fn netpbm(writer: &mut impl Write, format: Format, pixels: &Pixels) -> std::io::Result<()> {
    let (width, height, channels) = (pixels.width(), pixels.height(), pixels.channels());
    let most = if matches!(pixels, Pixels::U8(_)) { 255 } else { 65_535 };
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
        Pixels::U8(image) => writer.write_all(image.values())?,
        Pixels::U16(image) => {
            for value in image.values() {
                writer.write_all(&value.to_be_bytes())?;
            }
        }
        Pixels::F32(_) => unreachable!("no Netpbm format holds f32, which Format::check says"),
    }
    Ok(())
}
