//! Reading of TIFF through crate `tiff`: grey, RGB, palettes, CMYK and YCbCr of u8, u16, f16 and f32, in strips, tiles
//! and planes.

use std::io::{Read, Seek, SeekFrom};

use image::ImageFormat;
use image::metadata::Orientation;
use tiff::ColorType;
use tiff::decoder::{BufferLayoutPreference, ChunkType, Decoder, DecodingResult, Limits};
use tiff::tags::Tag;
use tiff::{TiffError, TiffFormatError};

use super::decode::coded_data_fits;
use super::metadata::Resolution;
use super::parts::Patched;
use super::tiff_directory::{Directory, tags};
use super::{AnyImage, AnyReader, Content, MOST_BYTES, Metadata, Picture, any_reader, jpeg, limits, orient};
use faltung::{Image, Pixel, memory};

/// The compressions that are read: none, CCITT group 4, LZW, JPEG, Deflate by two numbers, PackBits.
const COMPRESSIONS: [u16; 7] = [1, 4, 5, JPEG, 8, 32_773, 32_946];
/// The compression that is JPEG.
const JPEG: u16 = 7;

/// Checks the compression of a page, and whether that is JPEG.
pub(crate) fn is_jpeg(decoder: &mut Decoder<AnyReader>) -> Result<bool, String> {
    let found = decoder.find_tag_unsigned::<u16>(Tag::Compression).map_err(broken)?.unwrap_or(1);
    if found == JPEG {
        // The decoder would return the rest in grey.
        let end = decoder.inner().seek(SeekFrom::End(0)).map_err(|error| error.to_string())?;
        let is_cut_off = strips_or_tiles(decoder)?.any(|(offset, length)| offset.saturating_add(length) > end);
        return if is_cut_off { Err(jpeg::NO_END.into()) } else { Ok(true) };
    }
    if COMPRESSIONS.contains(&found) {
        return Ok(false);
    }
    let name = match found {
        2 => "CCITT RLE",
        3 => "CCITT group 3",
        6 => "JPEG of TIFF 6.0",
        33_003 | 33_005 | 34_712 => "JPEG 2000",
        34_676 | 34_677 => "LogLuv",
        34_887 => "LERC",
        34_925 => "LZMA",
        50_000 => "Zstandard",
        50_001 => "WebP",
        50_002 => "JPEG XL",
        _ => "an unknown method",
    };
    let read = "without compression, with LZW, Deflate, PackBits, JPEG or CCITT group 4";
    Err(format!("is a TIFF compressed with {name} ({found}), which is not read; TIFF is read {read}"))
}

/// How the values of a palette are found.
struct Palette {
    /// Red, green and blue of each index.
    colours: Vec<[u8; 3]>,
    /// Where the file says that it has a palette.
    at: u64,
}

/// What is decoded.
struct Plan {
    width: usize,
    height: usize,
    /// As they are stored, and as they come out.
    stored: usize,
    channels: usize,
    /// Bytes of the values.
    bytes: u64,
    /// Whether strips or tiles are in JPEG.
    jpeg: bool,
}

impl Plan {
    /// Bytes of memory that reading takes.
    fn memory(&self) -> u64 {
        let format = if self.jpeg { ImageFormat::Jpeg } else { ImageFormat::Tiff };
        limits::peak(limits::multiple(format, self.jpeg), self.bytes)
    }
}

/// Reads the first page.
pub(super) fn read(mut reader: AnyReader) -> Result<Picture, String> {
    let mut metadata = Metadata::default();
    let mut orientation = Orientation::NoTransforms;
    let directory = Directory::read(&mut reader);
    if let Some(directory) = &directory {
        orientation = read_metadata(directory, &mut reader, &mut metadata)?;
    }
    let palette = directory.as_ref().map_or(Ok(None), |directory| palette(directory, &mut reader))?;
    reader.seek(SeekFrom::Start(0)).map_err(|error| error.to_string())?;
    let pixels = match palette {
        // Crate `tiff` reads no palettes: it is told that the indices are grey.
        Some(palette) => {
            let grey = directory.expect("it has the palette").short(1);
            let patched = Patched::new(reader, palette.at, grey).map_err(|error| error.to_string())?;
            decode(any_reader(patched), Some(&palette.colours))?
        }
        None => decode(reader, None)?,
    };
    let pixels = orient::apply(pixels, orientation).map_err(|error| error.to_string())?;
    metadata.turn(orientation);
    metadata.keep_profile_for(pixels.channels());
    metadata.premultiplied &= matches!(pixels.channels(), 2 | 4);
    Ok(Picture { pixels, metadata, content: Content::default() })
}

/// The bytes of memory that [`read`] takes.
pub(super) fn memory(mut reader: AnyReader) -> Result<u64, String> {
    let palette = Directory::read(&mut reader).map_or(Ok(None), |directory| {
        palette(&directory, &mut reader).map(|palette| palette.map(|palette| (palette.at, directory.short(1))))
    })?;
    reader.seek(SeekFrom::Start(0)).map_err(|error| error.to_string())?;
    let plan = match palette {
        Some((at, grey)) => {
            let patched = Patched::new(reader, at, grey).map_err(|error| error.to_string())?;
            plan(&mut Decoder::new(any_reader(patched)).map_err(broken)?, true)?
        }
        None => plan(&mut Decoder::new(reader).map_err(broken)?, false)?,
    };
    Ok(plan.memory())
}

/// The metadata of the first page, for a reader of its values that is not [`read`].
pub(crate) fn metadata_of_page(reader: &mut AnyReader, channels: usize) -> Result<Metadata, String> {
    let mut metadata = Metadata::default();
    if let Some(directory) = Directory::read(reader) {
        read_metadata(&directory, reader, &mut metadata)?;
    }
    metadata.keep_profile_for(channels);
    metadata.premultiplied &= matches!(channels, 2 | 4);
    Ok(metadata)
}

/// Keeps what a directory says, and gives the orientation.
fn read_metadata(
    directory: &Directory,
    reader: &mut (impl Read + Seek),
    metadata: &mut Metadata,
) -> Result<Orientation, String> {
    metadata.icc_profile = directory.bytes(reader, tags::ICC_PROFILE, "a colour profile")?;
    for (tag, what) in [
        (tags::XMP, "XMP"),
        (tags::IPTC, "IPTC"),
        (tags::PHOTOSHOP, "IPTC"),
        (tags::EXIF, "EXIF"),
        (tags::GPS, "the position"),
        (tags::DOCUMENT_NAME, "comments"),
        (tags::DESCRIPTION, "comments"),
        (tags::PAGE_NAME, "comments"),
        (tags::MAKE, "the camera"),
        (tags::MODEL, "the camera"),
        (tags::SOFTWARE, "the software"),
        (tags::DATE, "the date"),
        (tags::ARTIST, "author and copyright"),
        (tags::COPYRIGHT, "author and copyright"),
    ] {
        if directory.has(tag) {
            metadata.dropped.insert(what);
        }
    }
    let mut number = |tag| Ok::<_, String>(directory.numbers(reader, tag, "a number")?.first().copied());
    let orientation = number(tags::ORIENTATION)?.and_then(|number| u8::try_from(number).ok());
    let unit = number(tags::RESOLUTION_UNIT)?.unwrap_or(2);
    metadata.premultiplied = number(tags::EXTRA_SAMPLES)? == Some(1);
    // 2 is the inch, 3 the centimetre.
    let factor = if unit == 3 { 2.54 } else { 1.0 };
    let mut axis = |tag| directory.fraction(reader, tag).map(|number| number * factor);
    if let (2 | 3, Some(x), Some(y)) = (unit, axis(tags::X_RESOLUTION), axis(tags::Y_RESOLUTION)) {
        metadata.resolution = Resolution::new(x, y);
    }
    Ok(orientation.and_then(Orientation::from_exif).unwrap_or(Orientation::NoTransforms))
}

/// The palette of a directory, if it has one.
fn palette(directory: &Directory, reader: &mut (impl Read + Seek)) -> Result<Option<Palette>, String> {
    const PALETTE: u64 = 3;
    let kind = directory.numbers(reader, tags::PHOTOMETRIC, "a number")?;
    let Some(at) = directory.position(tags::PHOTOMETRIC).filter(|_| kind == [PALETTE]) else { return Ok(None) };
    let values = directory.numbers(reader, tags::COLOUR_MAP, "a palette")?;
    let count = values.len() / 3;
    if count == 0 || values.len() != 3 * count {
        return Err("is damaged: a TIFF with a palette that has no colours".into());
    }
    // 16 bits a colour; some programs write 8 all the same.
    let shift = if values.iter().all(|&value| value < 256) { 0 } else { 8 };
    let colour = |index: usize| [0, 1, 2].map(|channel| (values[channel * count + index] >> shift) as u8);
    Ok(Some(Palette { colours: (0..count).map(colour).collect(), at }))
}

/// What comes out of the decoder, and that there is room for it.
fn plan(decoder: &mut Decoder<AnyReader>, palette: bool) -> Result<Plan, String> {
    let (width, height) = decoder.dimensions().map_err(broken)?;
    let colour = decoder.colortype().map_err(broken)?;
    let format = decoder.image_buffer_layout().map_err(broken)?;
    let (stored, channels) = match colour {
        ColorType::Gray(1 | 2 | 4 | 8 | 16) if palette => (1, 3),
        ColorType::Gray(1 | 2 | 4 | 8 | 16 | 32) => (1, 1),
        ColorType::Multiband { num_samples: 2, bit_depth: 8 | 16 | 32 } if has_alpha(decoder) => (2, 2),
        ColorType::RGB(8 | 16 | 32) | ColorType::YCbCr(8) => (3, 3),
        ColorType::RGBA(8 | 16 | 32) => (4, 4),
        ColorType::CMYK(8 | 16) => (4, 3),
        other => return Err(unreadable(format!("{other:?}"))),
    };
    let (width, height) = (width as usize, height as usize);
    let too_large = |error: faltung::Error| error.to_string();
    let values = Image::<f32>::checked_len(width, height, channels).map_err(too_large)? as u64;
    let bytes_per_value = match sample(&format) {
        Some(SampleKind::U8) => 1,
        Some(SampleKind::U16) if palette => 1,
        Some(SampleKind::U16) => 2,
        Some(SampleKind::F16 | SampleKind::F32) => 4,
        None => {
            let format = format!("{:?} of {} bits", format.sample_format, colour.bit_depth());
            return Err(unreadable(format));
        }
    };
    let bytes = values * bytes_per_value;
    if bytes > MOST_BYTES {
        return Err(format!("has {width} x {height} pixels, {bytes} bytes; at most {MOST_BYTES} are decoded"));
    }
    // A row of a tile may be longer than the picture, and the decoder holds it.
    let (columns, rows) = decoder.chunk_dimensions();
    if format.planes > 1 && decoder.get_chunk_type() == ChunkType::Tile && height % rows as usize > 0 {
        // The decoder takes the last tiles of all planes but the first for whole ones.
        return Err(unreadable("its planes are in tiles that reach beyond its last row".into()));
    }
    let row = u64::from(columns) * u64::from(colour.num_samples()) * u64::from(colour.bit_depth()) / 8;
    if row > bytes.saturating_add(limits::MEMORY_CONSTANT / 4) {
        return Err(format!("has {width} x {height} pixels in tiles of {columns} columns, as no ordinary TIFF has"));
    }
    let jpeg = is_jpeg(decoder)?;
    Ok(Plan { width, height, stored, channels, bytes, jpeg })
}

/// Whether the samples besides the colours are alpha.
fn has_alpha(decoder: &mut Decoder<AnyReader>) -> bool {
    let extra = decoder.find_tag_unsigned_vec::<u16>(Tag::ExtraSamples);
    matches!(extra.ok().flatten().as_deref(), Some([1 | 2]))
}

/// The samples of a pixel that are neither colours nor alpha, which the decoder leaves out.
pub(super) fn left_out_channels(decoder: &mut Decoder<AnyReader>) -> Option<String> {
    let samples = decoder.find_tag_unsigned::<u16>(Tag::SamplesPerPixel).ok().flatten()?;
    let read = decoder.colortype().ok()?.num_samples();
    (samples > read).then(|| format!("has {samples} channels; the first {read} are read"))
}

/// The types of values that are read.
enum SampleKind {
    U8,
    U16,
    F16,
    F32,
}

fn sample(format: &BufferLayoutPreference) -> Option<SampleKind> {
    use tiff::decoder::DecodingSampleType as Type;
    Some(match format.sample_type? {
        Type::U8 => SampleKind::U8,
        Type::U16 => SampleKind::U16,
        Type::F16 => SampleKind::F16,
        Type::F32 => SampleKind::F32,
        _ => return None,
    })
}

fn decode(reader: AnyReader, palette: Option<&[[u8; 3]]>) -> Result<AnyImage, String> {
    let mut decoder = Decoder::new(reader).map_err(broken)?;
    let plan = plan(&mut decoder, palette.is_some())?;
    let Some(_reserved) = memory::reserve(plan.memory()) else {
        let Plan { width, height, bytes, .. } = plan;
        return Err(format!("has {width} x {height} pixels, {bytes} bytes; there is not that much memory"));
    };
    check_chunks(&mut decoder, &plan)?;
    let mut limits = Limits::default();
    limits.decoding_buffer_size = MOST_BYTES as usize;
    limits.intermediate_buffer_size = MOST_BYTES as usize;
    let mut decoder = decoder.with_limits(limits);
    let colour = decoder.colortype().map_err(broken)?;
    let mut values = DecodingResult::U8(Vec::new());
    let format = decoder.read_image_to_buffer(&mut values).map_err(broken)?;
    drop(decoder);
    match values {
        DecodingResult::U8(values) if colour.bit_depth() < 8 => {
            let indices = unpack(&values, &plan, colour.bit_depth());
            match palette {
                Some(palette) => look_up(&plan, &indices, palette),
                None => {
                    let factor = 255 / ((1_u16 << colour.bit_depth()) - 1) as u8;
                    image(&plan, indices.into_iter().map(|value| value * factor).collect())
                }
            }
        }
        DecodingResult::U8(values) => {
            let values = interleave(values, &format, &plan);
            match (palette, colour) {
                (Some(palette), _) => look_up(&plan, &values, palette),
                (None, ColorType::CMYK(_)) => {
                    image(&plan, values.as_chunks().0.iter().flat_map(|pixel| cmyk(pixel, 255.0)).collect())
                }
                (None, ColorType::YCbCr(_)) => image(&plan, values.as_chunks().0.iter().flat_map(ycbcr).collect()),
                _ => image(&plan, values),
            }
        }
        DecodingResult::U16(values) => {
            let values = interleave(values, &format, &plan);
            match (palette, colour) {
                (Some(palette), _) => look_up(&plan, &values, palette),
                (None, ColorType::CMYK(_)) => {
                    image(&plan, values.as_chunks().0.iter().flat_map(|pixel| cmyk(pixel, 65_535.0)).collect())
                }
                _ => image(&plan, values),
            }
        }
        DecodingResult::F16(values) => {
            let values = interleave(values, &format, &plan);
            image(&plan, values.into_iter().map(|value| value.to_f32()).collect())
        }
        DecodingResult::F32(values) => image(&plan, interleave(values, &format, &plan)),
        _ => Err(unreadable("its integers are signed, or longer than 16 bits".into())),
    }
}

/// The offset and the length of each strip or tile.
fn strips_or_tiles(decoder: &mut Decoder<AnyReader>) -> Result<impl Iterator<Item = (u64, u64)> + use<>, String> {
    let mut numbers = |strips, tiles| {
        let tag = match decoder.find_tag_unsigned_vec::<u64>(strips) {
            Ok(Some(numbers)) => return Ok(numbers),
            _ => tiles,
        };
        decoder.find_tag_unsigned_vec::<u64>(tag).map_err(broken).map(Option::unwrap_or_default)
    };
    let offsets = numbers(Tag::StripOffsets, Tag::TileOffsets)?;
    let lengths = numbers(Tag::StripByteCounts, Tag::TileByteCounts)?;
    Ok(offsets.into_iter().zip(lengths))
}

/// Strips and tiles are held as they are stored. Those in JPEG have sizes of their own, which the decoder does not
/// compare.
fn check_chunks(decoder: &mut Decoder<AnyReader>, plan: &Plan) -> Result<(), String> {
    if !plan.jpeg {
        return Ok(());
    }
    let (columns, rows) = decoder.chunk_dimensions();
    let fits = |frame: jpeg::Frame| {
        let most = plan.bytes.saturating_add(limits::MEMORY_CONSTANT / 8);
        u32::from(frame.width) <= columns
            && u32::from(frame.height) <= rows
            && usize::from(frame.components) <= plan.stored
            && frame.bytes() <= most
    };
    let tables = decoder.find_tag(Tag::JPEGTables).map_err(broken)?;
    let tables = tables.and_then(|tables| tables.into_u8_vec().ok()).unwrap_or_default();
    let refused = "is damaged: a strip or tile in JPEG is larger than the TIFF says";
    if jpeg::frame(&mut tables.as_slice()).0.is_some() {
        return Err(refused.into());
    }
    for (offset, length) in strips_or_tiles(decoder)? {
        coded_data_fits(length, plan.bytes)?;
        let reader = decoder.inner();
        reader.seek(SeekFrom::Start(offset)).map_err(|error| error.to_string())?;
        let (frame, is_cut_off) = jpeg::frame(&mut reader.take(length));
        if !frame.is_none_or(fits) {
            return Err(refused.into());
        }
        if is_cut_off {
            return Err(jpeg::NO_END.into());
        }
    }
    Ok(())
}

/// One byte for each value of fewer bits; rows begin at a byte.
fn unpack(packed: &[u8], plan: &Plan, bits: u8) -> Vec<u8> {
    let per_byte = usize::from(8 / bits);
    let mask = (1_u16 << bits) as u8 - 1;
    let mut values = Vec::with_capacity(plan.width * plan.height);
    for row in packed.chunks_exact(plan.width.div_ceil(per_byte)).take(plan.height) {
        values.extend((0..plan.width).map(|x| {
            let shift = 8 - bits * (x % per_byte + 1) as u8;
            row[x / per_byte] >> shift & mask
        }));
    }
    values
}

/// Brings the planes of the channels together, where there are several.
fn interleave<T: Copy>(values: Vec<T>, format: &BufferLayoutPreference, plan: &Plan) -> Vec<T> {
    let pixels = plan.width * plan.height;
    if format.planes < 2 || values.len() != pixels * plan.stored {
        return values;
    }
    (0..values.len()).map(|i| values[i % plan.stored * pixels + i / plan.stored]).collect()
}

fn look_up<T: Copy + Into<usize>>(plan: &Plan, indices: &[T], palette: &[[u8; 3]]) -> Result<AnyImage, String> {
    let colours = indices.iter().map(|&index| palette.get(index.into()).copied());
    let mut values = Vec::with_capacity(indices.len() * 3);
    for colour in colours {
        values.extend(colour.ok_or("is damaged: an index is beyond the palette")?);
    }
    image(plan, values)
}

fn image<T: Pixel>(plan: &Plan, values: Vec<T>) -> Result<AnyImage, String> {
    Image::new(plan.width, plan.height, plan.channels, values).map(Into::into).map_err(|error| error.to_string())
}

/// As crate `image` converts it: without a profile. `most` is the value of full ink.
fn cmyk<T: Pixel>(&[c, m, y, k]: &[T; 4], most: f32) -> [T; 3] {
    let light = 1.0 - k.to_f32() / most;
    [c, m, y].map(|ink| T::from_f32(((most - ink.to_f32()) * light).trunc()))
}

/// With the coefficients of BT.601, over the full range, as in JPEG.
fn ycbcr(&[y, blue, red]: &[u8; 3]) -> [u8; 3] {
    let (y, blue, red) = (f32::from(y), f32::from(blue) - 128.0, f32::from(red) - 128.0);
    // A cast of f32 saturates.
    [y + 1.402 * red, y - 0.344_136 * blue - 0.714_136 * red, y + 1.772 * blue].map(|value| value.round() as u8)
}

fn unreadable(found: String) -> String {
    format!("is a TIFF of a kind that is not read: {found}; values of u8, u16, f16 and f32 are read")
}

pub(super) fn broken(error: TiffError) -> String {
    match error {
        TiffError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => "is cut off".into(),
        TiffError::UnsupportedError(error) => unreadable(error.to_string()),
        TiffError::LimitsExceeded => "has tables that are larger than any ordinary TIFF's".into(),
        TiffError::FormatError(TiffFormatError::TiffSignatureNotFound) => "is no TIFF".into(),
        other => format!("is damaged, or no such picture: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::cmyk;

    #[test]
    fn ink_becomes_light_without_its_fraction() {
        assert_eq!(cmyk(&[0_u8, 255, 10, 0], 255.0), [255, 0, 245]);
        assert_eq!(cmyk(&[0_u8, 0, 0, 255], 255.0), [0; 3]);
        // (255 - 10) * 127 / 255 = 122.02, (255 - 200) * 127 / 255 = 27.4, (255 - 31) * 127 / 255 = 111.6
        assert_eq!(cmyk(&[10_u8, 200, 31, 128], 255.0), [122, 27, 111]);
        // 65,535 * 32,767 / 65,535 = 32,767; 55,535 * 32,767 / 65,535 = 27,767.08; 1 * 32,767 / 65,535 = 0.5
        assert_eq!(cmyk(&[0_u16, 10_000, 65_534, 32_768], 65_535.0), [32_767, 27_767, 0]);
    }
}
