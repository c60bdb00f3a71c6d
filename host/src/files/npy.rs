//! NumPy's `.npy` files. Crate `npyz` reads and writes the headers; the values are converted here.

use std::io::{Read, Seek, SeekFrom, Write};

use npyz::{DType, Endianness, NpyHeader, Order, TypeChar, WriterBuilder};

use super::AnyImage;
use faltung::{Image, Pixel, PixelType, memory};

/// What a `.npy` file begins with.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Bytes of a header at most, as in NumPy.
const MOST_HEADER: usize = 10_000;

/// Whether a `.npy` file begins here; the position stays.
pub(super) fn starts(reader: &mut (impl Read + Seek)) -> std::io::Result<bool> {
    let mut start = Vec::new();
    reader.by_ref().take(MAGIC.len() as u64).read_to_end(&mut start)?;
    reader.seek(SeekFrom::Start(0))?;
    Ok(start == MAGIC)
}

/// A file's type of values: kind and bytes, such as `f` and 4; and whether the largest byte comes first.
#[derive(Clone, Copy)]
struct Kind {
    letter: char,
    bytes: usize,
    big_endian: bool,
}

/// Shape, type, and the bytes in C order.
struct Array {
    shape: Vec<usize>,
    kind: Kind,
    bytes: Vec<u8>,
}

fn header(reader: &mut impl Read) -> Result<NpyHeader, String> {
    let mut bytes = vec![0; 10];
    let cut_off = |_| "ends within the .npy header".to_owned();
    reader.read_exact(&mut bytes).map_err(cut_off)?;
    let short = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let length = if bytes[6] == 1 {
        short
    } else {
        let mut high = [0; 2];
        reader.read_exact(&mut high).map_err(cut_off)?;
        bytes.extend(high);
        short | usize::from(u16::from_le_bytes(high)) << 16
    };
    if length > MOST_HEADER {
        return Err(format!("has a .npy header of {length} bytes, at most {MOST_HEADER} are read"));
    }
    let start = bytes.len();
    bytes.resize(start + length, 0);
    reader.read_exact(&mut bytes[start..]).map_err(cut_off)?;
    // The header's parser calls itself for every parenthesis, and a real header has two within each other.
    let mut depth = 0_usize;
    for byte in &bytes[start..] {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > 8 {
            return Err("has a .npy header with too many parentheses".into());
        }
    }
    NpyHeader::from_reader(bytes.as_slice()).map_err(|error| format!("has a bad .npy header: {error}"))
}

fn kind(header: &NpyHeader) -> Result<Kind, String> {
    let unreadable = || format!("holds {}, and simple numbers are needed", header.dtype().descr());
    let DType::Plain(text) = header.dtype() else { return Err(unreadable()) };
    let letter = match text.type_char() {
        TypeChar::Int => 'i',
        TypeChar::Uint => 'u',
        TypeChar::Float => 'f',
        TypeChar::Bool => 'b',
        _ => return Err(unreadable()),
    };
    let bytes = text.num_bytes().filter(|bytes| [1, 2, 4, 8].contains(bytes)).ok_or_else(unreadable)?;
    Ok(Kind { letter, bytes, big_endian: text.endianness() == Endianness::Big })
}

/// The values of a file, in C order.
fn read(mut reader: impl Read) -> Result<Array, String> {
    let header = header(&mut reader)?;
    let kind = kind(&header)?;
    let too_large = || format!("has the shape {:?}, which is too large", header.shape());
    let shape: Vec<usize> =
        header.shape().iter().map(|&side| usize::try_from(side)).collect::<Result<_, _>>().map_err(|_| too_large())?;
    let required = shape
        .iter()
        .try_fold(kind.bytes, |bytes, &side| bytes.checked_mul(side))
        .filter(|&bytes| bytes < isize::MAX as usize)
        .ok_or_else(too_large)?;
    // No more is allocated than the file has.
    let bytes = memory::read_to_end(reader, required as u64).map_err(|error| error.to_string())?;
    if bytes.len() != required {
        let found = bytes.len();
        return Err(format!("is cut off: the shape {shape:?} takes {required} bytes, {found} are there"));
    }
    let bytes = match header.order() {
        Order::Fortran => to_c_order(&shape, kind.bytes, &bytes)?,
        Order::C => bytes,
    };
    Ok(Array { shape, kind, bytes })
}

/// Values whose first index runs fastest, so arranged that the last one does.
fn to_c_order(shape: &[usize], size: usize, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let too_little = |error: faltung::Error| format!("has the shape {shape:?}: {error}");
    let mut result = memory::with_capacity(bytes.len(), "to reorder its values").map_err(too_little)?;
    let mut index = vec![0_usize; shape.len()];
    for _ in 0..bytes.len() / size {
        let place = index.iter().zip(shape).rev().fold(0, |place, (&i, &side)| place * side + i);
        result.extend_from_slice(&bytes[place * size..][..size]);
        for (i, &side) in index.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < side {
                break;
            }
            *i = 0;
        }
    }
    Ok(result)
}

fn values<T, const N: usize>(array: &Array, from: fn([u8; N]) -> T) -> Result<Vec<T>, String> {
    let (chunks, _) = array.bytes.as_chunks::<N>();
    let value = |&bytes: &[u8; N]| {
        let mut bytes = bytes;
        if array.kind.big_endian {
            bytes.reverse();
        }
        from(bytes)
    };
    let too_little = |error: faltung::Error| format!("has the shape {:?}: {error}", array.shape);
    memory::collect(chunks.iter().map(value), "to convert its values").map_err(too_little)
}

/// Where the values of a picture stand in a file, in C order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) channels: usize,
    pub(crate) pixel: PixelType,
    /// Whether the largest byte of a value comes first.
    pub(crate) big_endian: bool,
    /// The position of the first value.
    pub(crate) start: u64,
}

/// Reads the header of a picture from the beginning of a file.
pub(crate) fn layout(reader: &mut (impl Read + Seek)) -> Result<Layout, String> {
    if !starts(reader).map_err(|error| error.to_string())? {
        return Err("is no .npy file".into());
    }
    let header = header(reader)?;
    let start = reader.stream_position().map_err(|error| error.to_string())?;
    let kind = kind(&header)?;
    if header.order() == Order::Fortran {
        return Err("has its values in Fortran order, and C order is needed to read it in chunks".into());
    }
    let pixel = match (kind.letter, kind.bytes) {
        ('u', 1) => PixelType::U8,
        ('u', 2) => PixelType::U16,
        ('f', 4) => PixelType::F32,
        (letter, bytes) => return Err(format!("holds {letter}{}, and u8, u16 or f32 is needed", bytes * 8)),
    };
    let side = |side: u64| usize::try_from(side).unwrap_or(usize::MAX);
    let (height, width, channels) = match *header.shape() {
        [height, width] => (side(height), side(width), 1),
        [height, width, channels] => (side(height), side(width), side(channels)),
        _ => {
            let shape = header.shape();
            return Err(format!("has the shape {shape:?}: height x width, or height x width x 1 to 4 is needed"));
        }
    };
    Ok(Layout { width, height, channels, pixel, big_endian: kind.big_endian, start })
}

/// A picture: u8, u16 or f32, of height x width or height x width x channels.
pub(super) fn read_pixels(reader: impl Read) -> Result<AnyImage, String> {
    let array = read(reader)?;
    let (height, width, channels) = match *array.shape.as_slice() {
        [height, width] => (height, width, 1),
        [height, width, channels @ 0..=4] => (height, width, channels),
        _ => {
            let shape = &array.shape;
            return Err(format!("has the shape {shape:?}: height x width, or height x width x 1 to 4 is needed"));
        }
    };
    fn image<T: Pixel>(width: usize, height: usize, channels: usize, values: Vec<T>) -> Result<AnyImage, String> {
        Image::new(width, height, channels, values).map(Into::into).map_err(|error| error.to_string())
    }
    match (array.kind.letter, array.kind.bytes) {
        ('u', 1) => image(width, height, channels, array.bytes),
        ('u', 2) => image(width, height, channels, values(&array, u16::from_le_bytes)?),
        ('f', 4) => image(width, height, channels, values(&array, f32::from_le_bytes)?),
        ('b', _) => Err("holds bool, and u8, u16 or f32 is needed: save array.astype(\"uint8\"), for example".into()),
        (letter, bytes) => {
            let bits = bytes * 8;
            Err(format!(
                "holds {letter}{bits}, and u8, u16 or f32 is needed: save array.astype(\"float32\"), for example"
            ))
        }
    }
}

/// Numbers of any type as f32: height, width and the values of an array of two dimensions.
pub(super) fn read_numbers(reader: impl Read) -> Result<(usize, usize, Vec<f32>), String> {
    let array = read(reader)?;
    let [height, width] = *array.shape.as_slice() else {
        return Err(format!("has the shape {:?}: rows x columns is needed", array.shape));
    };
    let numbers = match (array.kind.letter, array.kind.bytes) {
        ('u', 1) => values(&array, |b| f32::from(u8::from_le_bytes(b)))?,
        ('i', 1) => values(&array, |b| f32::from(i8::from_le_bytes(b)))?,
        ('u', 2) => values(&array, |b| f32::from(u16::from_le_bytes(b)))?,
        ('i', 2) => values(&array, |b| f32::from(i16::from_le_bytes(b)))?,
        ('u', 4) => values(&array, |b| u32::from_le_bytes(b) as f32)?,
        ('i', 4) => values(&array, |b| i32::from_le_bytes(b) as f32)?,
        ('u', 8) => values(&array, |b| u64::from_le_bytes(b) as f32)?,
        ('i', 8) => values(&array, |b| i64::from_le_bytes(b) as f32)?,
        ('f', 4) => values(&array, f32::from_le_bytes)?,
        ('f', 8) => {
            let doubles = values(&array, f64::from_le_bytes)?;
            let single = |&value: &f64| match value as f32 {
                single if single.is_infinite() && value.is_finite() => {
                    Err(format!("holds {value:e}, which is beyond f32"))
                }
                single => Ok(single),
            };
            doubles.iter().map(single).collect::<Result<_, _>>()?
        }
        ('b', _) => values(&array, |[b]| f32::from(u8::from(b != 0)))?,
        (letter, bytes) => {
            let bits = bytes * 8;
            return Err(format!("holds {letter}{bits}, and f32, f64, integers or bool are needed"));
        }
    };
    Ok((height, width, numbers))
}

/// Writes a picture, little-endian in C order.
pub(super) fn write(writer: &mut impl Write, pixels: &AnyImage) -> Result<(), String> {
    fn array<T: Pixel + npyz::AutoSerialize>(writer: &mut impl Write, image: &Image<T>) -> std::io::Result<()> {
        let [height, width, channels] = [image.height(), image.width(), image.channels()].map(|side| side as u64);
        let shape: &[u64] = if channels == 1 { &[height, width] } else { &[height, width, channels] };
        let mut npy = npyz::WriteOptions::new().default_dtype().shape(shape).writer(writer).begin_nd()?;
        npy.extend(image.values().iter().copied())?;
        npy.finish()
    }
    let written = match pixels {
        AnyImage::U8(image) => array(writer, image),
        AnyImage::U16(image) => array(writer, image),
        AnyImage::F32(image) => array(writer, image),
    };
    written.map_err(|error| error.to_string())
}
