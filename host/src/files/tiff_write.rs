//! Writing of TIFF through crate `tiff`: uncompressed, in strips.

use std::io::{Seek, Write};

use tiff::encoder::{DirectoryEncoder, Rational, TiffEncoder, TiffKind, TiffValue};
use tiff::tags::Tag;
use tiff::{TiffError, TiffResult};

use super::{AnyImage, Metadata, Picture};
use faltung::{Image, Pixel};

/// The least bytes of a strip. A reader of a part reads only some strips.
const STRIP: usize = 1 << 20;

/// Writes a picture.
pub(super) fn write(writer: impl Write + Seek, picture: &Picture) -> Result<(), String> {
    let written = match &picture.pixels {
        AnyImage::U8(image) => page(writer, picture, image, 1),
        AnyImage::U16(image) => page(writer, picture, image, 1),
        AnyImage::F32(image) => page(writer, picture, image, 3),
    };
    written.map_err(|error| match error {
        TiffError::LimitsExceeded | TiffError::IntSizeError => "a TIFF has at most 4 GiB".into(),
        other => other.to_string(),
    })
}

/// `sample_format` is 1 for whole numbers without a sign, 3 for floating point.
fn page<T: Pixel>(writer: impl Write + Seek, picture: &Picture, image: &Image<T>, sample_format: u16) -> TiffResult<()>
where
    [T]: TiffValue,
{
    let mut file = TiffEncoder::new(writer)?;
    let mut page = file.image_directory()?;
    let (width, height, channels) = (image.width(), image.height(), image.channels());
    // Sides are below 2^30.
    page.write_tag(Tag::ImageWidth, width as u32)?;
    page.write_tag(Tag::ImageLength, height as u32)?;
    page.write_tag(Tag::BitsPerSample, vec![8 * size_of::<T>() as u16; channels].as_slice())?;
    page.write_tag(Tag::Compression, 1_u16)?;
    // 1: black is 0. 2: RGB.
    page.write_tag(Tag::PhotometricInterpretation, if channels < 3 { 1_u16 } else { 2 })?;
    page.write_tag(Tag::SamplesPerPixel, channels as u16)?;
    page.write_tag(Tag::SampleFormat, vec![sample_format; channels].as_slice())?;
    if matches!(channels, 2 | 4) {
        // 1: alpha, which the colours are multiplied by. 2: alpha.
        page.write_tag(Tag::ExtraSamples, if picture.metadata.premultiplied { 1_u16 } else { 2 })?;
    }
    metadata(&mut page, &picture.metadata)?;
    let row = width * channels;
    let rows = (STRIP / (row * size_of::<T>())).clamp(1, height);
    let (mut offsets, mut lengths) = (Vec::new(), Vec::new());
    for strip in image.values().chunks(rows * row) {
        offsets.push(u32::try_from(page.write_data(strip)?)?);
        lengths.push(u32::try_from(size_of_val(strip))?);
    }
    page.write_tag(Tag::RowsPerStrip, rows as u32)?;
    page.write_tag(Tag::StripOffsets, offsets.as_slice())?;
    page.write_tag(Tag::StripByteCounts, lengths.as_slice())?;
    page.finish()
}

/// Writes the fields of the metadata that TIFF keeps: [`Metadata::lost_in`] names the others.
pub(crate) fn metadata<W: Write + Seek, K: TiffKind>(
    page: &mut DirectoryEncoder<'_, W, K>,
    metadata: &Metadata,
) -> TiffResult<()> {
    if let Some(profile) = &metadata.icc_profile {
        page.write_tag(Tag::IccProfile, profile.as_slice())?;
    }
    if let Some(resolution) = metadata.resolution {
        /// What fractions are of.
        const D: u32 = 100;
        let fraction = |number: f64| Rational { n: (number * f64::from(D)).round() as u32, d: D };
        page.write_tag(Tag::XResolution, fraction(resolution.x))?;
        page.write_tag(Tag::YResolution, fraction(resolution.y))?;
        // The inch.
        page.write_tag(Tag::ResolutionUnit, 2_u16)?;
    }
    Ok(())
}
