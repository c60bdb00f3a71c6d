//! TIFF with one channel of f32, which crate `image` knows neither to read nor to write; crate `tiff` beneath it does.

use std::io::{Seek, Write};

use tiff::ColorType;
use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::encoder::TiffEncoder;
use tiff::encoder::colortype::Gray32Float;
use tiff::tags::Tag;

use super::{MOST_BYTES, Picture, Source};
use crate::{Image, memory};

/// Reads a picture; None if the file is a TIFF of another kind, or broken in a way that others report.
pub(super) fn read(reader: impl Source) -> Result<Option<Image<f32>>, String> {
    let Ok(decoder) = Decoder::new(reader) else { return Ok(None) };
    let mut limits = Limits::default();
    limits.decoding_buffer_size = MOST_BYTES as usize;
    limits.intermediate_buffer_size = MOST_BYTES as usize;
    let mut decoder = decoder.with_limits(limits);
    if !matches!(decoder.colortype(), Ok(ColorType::Gray(32))) {
        return Ok(None);
    }
    let (width, height) = decoder.dimensions().map_err(|error| error.to_string())?;
    let (width, height) = (width as usize, height as usize);
    let values = Image::<f32>::checked_len(width, height, 1).map_err(|error| error.to_string())?;
    let bytes = values as u64 * 4;
    if bytes > MOST_BYTES {
        return Err(format!("has {width} x {height} pixels, {bytes} bytes; at most {MOST_BYTES} are decoded"));
    }
    let Some(_reserved) = memory::reserve(bytes * 2) else {
        return Err(format!("has {width} x {height} pixels, {bytes} bytes; there is not that much memory"));
    };
    match decoder.read_image().map_err(|error| error.to_string())? {
        DecodingResult::F32(values) => {
            Image::new(width, height, 1, values).map(Some).map_err(|error| error.to_string())
        }
        _ => Err("is a TIFF with 32-bit integers; u8, u16 or f32 is needed".into()),
    }
}

/// Writes a picture.
pub(super) fn write(writer: impl Write + Seek, image: &Image<f32>, picture: &Picture) -> Result<(), String> {
    let write = || {
        let mut file = TiffEncoder::new(writer)?;
        // Sides are below 2^30.
        let mut page = file.new_image::<Gray32Float>(image.width() as u32, image.height() as u32)?;
        if let Some(profile) = &picture.icc_profile {
            page.encoder().write_tag(Tag::IccProfile, profile.as_slice())?;
        }
        page.write_data(image.values())
    };
    write().map_err(|error: tiff::TiffError| error.to_string())
}
