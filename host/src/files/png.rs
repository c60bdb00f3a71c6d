//! PNG, <https://www.w3.org/TR/png-3/>: the chunks except the values, and writing.

use std::io::{BufRead, Read, SeekFrom, Write};

use flate2::read::ZlibDecoder;

use super::decode::{Scan, bounded, too_much};
use super::metadata::{MOST_METADATA, Resolution};
use super::{AnyImage, Picture, Source};

/// Metres of an inch.
const INCH: f64 = 0.0254;

/// Reads all chunks except the values. The decoder sees only the chunks that the values need.
pub(super) fn scan(reader: &mut (impl Source + BufRead)) -> Result<Scan, String> {
    /// No chunk of a colour space is longer.
    const COLOUR: u64 = 64;
    let io = |error: std::io::Error| error.to_string();
    let mut scan = Scan::default();
    let mut at = 8;
    scan.kept.add(0..at)?;
    reader.seek(SeekFrom::Start(at)).map_err(io)?;
    loop {
        let mut header = [0; 8];
        if reader.read_exact(&mut header).is_err() {
            // Cut off, as the decoder says.
            return Ok(scan);
        }
        let [l0, l1, l2, l3, name @ ..] = header;
        let length = u64::from(u32::from_be_bytes([l0, l1, l2, l3]));
        // The header and a checksum.
        let end = at + 8 + length + 4;
        match &name {
            b"IHDR" | b"PLTE" | b"tRNS" if length > 3 * 256 => {
                let name = name.escape_ascii();
                return Err(format!("is damaged: its chunk {name} has {length} bytes, at most 768 are possible"));
            }
            b"IHDR" | b"PLTE" | b"tRNS" | b"IDAT" | b"IEND" => scan.kept.add(at..end)?,
            b"iCCP" => scan.metadata.icc_profile = profile(&bounded(reader, length, PROFILE)?)?,
            b"eXIf" => scan.orientation = scan.metadata.set_exif(bounded(reader, length, "EXIF")?),
            b"gAMA" | b"cHRM" | b"sRGB" | b"cICP" | b"mDCV" | b"cLLI" if length <= COLOUR => {
                let chunk = (name, bounded(reader, length, "a colour space")?);
                if !scan.metadata.png_colour.iter().any(|(other, _)| *other == name) {
                    scan.metadata.png_colour.push(chunk);
                }
            }
            b"pHYs" if length == 9 => scan.metadata.resolution = resolution(&bounded(reader, length, "a resolution")?),
            b"tEXt" | b"zTXt" | b"iTXt" => {
                let start = bounded(reader, length.min(80), "a text")?;
                scan.metadata.dropped.insert(kind_of_text(&start));
            }
            b"acTL" => scan.animated = true,
            _ => {}
        }
        if &name == b"IEND" {
            return Ok(scan);
        }
        at = end;
        let position = reader.stream_position().map_err(io)?;
        reader.seek_relative(at as i64 - position as i64).map_err(io)?;
    }
}

const PROFILE: &str = "a colour profile";

/// The profile of a chunk: a name, 0, the method of compression, and the compressed bytes. None if it is damaged.
fn profile(chunk: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let compressed = match chunk.iter().position(|&byte| byte == 0) {
        Some(end) if chunk.get(end + 1) == Some(&0) => &chunk[end + 2..],
        _ => return Ok(None),
    };
    let mut profile = Vec::new();
    if ZlibDecoder::new(compressed).take(MOST_METADATA + 1).read_to_end(&mut profile).is_err() {
        return Ok(None);
    }
    if profile.len() as u64 > MOST_METADATA { Err(too_much(PROFILE)) } else { Ok(Some(profile)) }
}

/// Pixels per unit along both axes, and whether the unit is the metre.
fn resolution(chunk: &[u8]) -> Option<Resolution> {
    let [x0, x1, x2, x3, y0, y1, y2, y3, 1] = *chunk else { return None };
    let inch = |bytes| f64::from(u32::from_be_bytes(bytes)) * INCH;
    Resolution::new(inch([x0, x1, x2, x3]), inch([y0, y1, y2, y3]))
}

/// What a text is, by its keyword.
fn kind_of_text(start: &[u8]) -> &'static str {
    let keyword = start.split(|&byte| byte == 0).next().unwrap_or_default();
    match keyword {
        b"XML:com.adobe.xmp" => "XMP",
        b"Raw profile type iptc" | b"Raw profile type 8bim" => "IPTC",
        b"Raw profile type exif" | b"Raw profile type APP1" => "EXIF as text",
        _ => "comments",
    }
}

/// Writes a picture.
pub(super) fn write(writer: impl Write, picture: &Picture) -> Result<(), String> {
    let (width, height) = (picture.pixels.width() as u32, picture.pixels.height() as u32);
    let metadata = &picture.metadata;
    let mut info = png::Info::with_size(width, height);
    // The encoder writes no profile beside an sRGB of its own, and knows no cICP: those chunks are written below.
    info.icc_profile = metadata.icc_profile.as_deref().map(Into::into);
    info.color_type = match picture.pixels.channels() {
        1 => png::ColorType::Grayscale,
        2 => png::ColorType::GrayscaleAlpha,
        3 => png::ColorType::Rgb,
        _ => png::ColorType::Rgba,
    };
    info.bit_depth = match picture.pixels {
        AnyImage::U8(_) => png::BitDepth::Eight,
        _ => png::BitDepth::Sixteen,
    };
    let write = || {
        let mut encoder = png::Encoder::with_info(writer, info)?;
        encoder.set_compression(png::Compression::Fast);
        encoder.set_filter(png::Filter::Adaptive);
        let mut file = encoder.write_header()?;
        for (name, data) in &metadata.png_colour {
            // A file says sRGB or has a profile, not both.
            if !(name == b"sRGB" && metadata.icc_profile.is_some()) {
                file.write_chunk(png::chunk::ChunkType(*name), data)?;
            }
        }
        if let Some(Resolution { x, y }) = metadata.resolution {
            let metre = |inch: f64| ((inch / INCH).round() as u32).to_be_bytes();
            file.write_chunk(png::chunk::pHYs, &[&metre(x)[..], &metre(y), &[1]].concat())?;
        }
        if let Some(exif) = &metadata.exif {
            file.write_chunk(png::chunk::eXIf, exif)?;
        }
        match &picture.pixels {
            AnyImage::U8(image) => file.write_image_data(image.values())?,
            AnyImage::U16(image) => {
                let bytes: Vec<u8> = image.values().iter().flat_map(|value| value.to_be_bytes()).collect();
                file.write_image_data(&bytes)?;
            }
            AnyImage::F32(_) => unreachable!("PNG holds no f32, which Format::check says"),
        }
        file.finish()
    };
    write().map_err(|error: png::EncodingError| error.to_string())
}
