//! OpenEXR's headers, <https://openexr.com/en/latest/OpenEXRFileLayout.html>: the sizes of what the decoder allocates
//! before it reads the values.

use std::io::BufRead;

use super::decode::too_much;
use super::limits::{self, MEMORY_CONSTANT};
use super::metadata::MOST_METADATA;

/// Sizes of one part.
#[derive(Default)]
struct Part {
    /// Columns and rows of the picture, and of the values that there are.
    display: Option<(u64, u64)>,
    data: Option<(u64, u64)>,
    /// Bytes of all channels of a pixel.
    pixel: u64,
    /// Rows of a block of compressed values.
    rows: u64,
    tile: Option<(u64, u64)>,
}

/// Reads all headers, from the beginning of the file. An error is the reason why the file is refused.
pub(super) fn check(reader: &mut impl BufRead) -> Result<(), String> {
    let mut magic = [0; 8];
    if reader.read_exact(&mut magic).is_err() {
        return Ok(()); // cut off, as the decoder says
    }
    let several = magic[5] & 0x10 != 0;
    let mut bytes = 0;
    loop {
        let Some(part) = part(reader, &mut bytes)? else { return Ok(()) };
        part.check()?;
        if !several {
            return Ok(());
        }
    }
}

/// A text and the 0 after it. None at the end of the file.
fn text(reader: &mut impl BufRead, bytes: &mut u64) -> Result<Option<Vec<u8>>, String> {
    /// The format's own limit.
    const MOST: u64 = 255;
    let mut text = Vec::new();
    // The limit of the reader is one of this text alone.
    std::io::Read::take(&mut *reader, MOST + 1).read_until(0, &mut text).map_err(|error| error.to_string())?;
    *bytes += text.len() as u64;
    Ok((text.pop() == Some(0)).then_some(text))
}

/// A header: attributes to an empty name. None where there is none, or a broken one, as the decoder says.
fn part(reader: &mut impl BufRead, bytes: &mut u64) -> Result<Option<Part>, String> {
    let mut part = Part { rows: 1, ..Part::default() };
    let mut is_empty = true;
    loop {
        let Some(name) = text(reader, bytes)? else { return Ok(None) };
        if name.is_empty() {
            return Ok((!is_empty).then_some(part));
        }
        is_empty = false;
        let mut length = [0; 4];
        if text(reader, bytes)?.is_none() || reader.read_exact(&mut length).is_err() {
            return Ok(None);
        }
        let length = u64::from(u32::from_le_bytes(length));
        *bytes += length;
        if *bytes > MOST_METADATA {
            return Err(too_much("attributes"));
        }
        let mut value = vec![0; length as usize];
        if reader.read_exact(&mut value).is_err() {
            return Ok(None);
        }
        match name.as_slice() {
            b"displayWindow" => part.display = window(&value),
            b"dataWindow" => part.data = window(&value),
            b"channels" => part.pixel = pixel_bytes(&value),
            b"compression" => {
                // None, RLE and ZIPS; ZIP and PXR24; PIZ, B44, B44A and DWAA; DWAB.
                part.rows = match value.first() {
                    Some(0..=2) => 1,
                    Some(3 | 5) => 16,
                    Some(9) => 256,
                    _ => 32,
                };
            }
            b"tiles" => part.tile = Some((number(&value, 0), number(&value, 4))),
            _ => {}
        }
    }
}

fn number(value: &[u8], at: usize) -> u64 {
    let bytes = value.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    u64::from(bytes.map_or(0, u32::from_le_bytes))
}

/// Columns and rows of a window: its first and last column and row, both within. 0 if the last one is before the first.
fn window(value: &[u8]) -> Option<(u64, u64)> {
    let side = |first: usize, last: usize| {
        let corner = |at| i64::from(number(value, at) as u32 as i32);
        u64::try_from(corner(last) - corner(first) + 1).unwrap_or(0)
    };
    (value.len() == 16).then(|| (side(0, 8), side(4, 12)))
}

/// The bytes of a pixel: each channel has a name, 0, a type of 4 bytes and 12 bytes more.
fn pixel_bytes(mut channels: &[u8]) -> u64 {
    let mut bytes = 0;
    while let Some(end) = channels.iter().position(|&byte| byte == 0).filter(|&end| end > 0) {
        bytes += if number(channels, end + 1) == 1 { 2 } else { 4 };
        channels = channels.get(end + 1 + 16..).unwrap_or_default();
    }
    bytes
}

impl Part {
    fn check(&self) -> Result<(), String> {
        let (Some(display), Some(data)) = (self.display, self.data) else { return Ok(()) };
        if [display.0, display.1, data.0, data.1].contains(&0) {
            return Err("is damaged: a window without columns or rows".into());
        }
        let area = |(width, height): (u64, u64)| width.saturating_mul(height);
        let (tile_width, tile_height) = self.tile.unwrap_or((data.0, self.rows.min(data.1)));
        // A block is held as it is compressed, decompressed, and unpacked.
        let block = area((tile_width, tile_height)).saturating_mul(self.pixel.max(4)).saturating_mul(3);
        // Each block of rows, and each tile, has its offset in a table.
        let blocks = match self.tile {
            Some((width, height)) => area((data.0.div_ceil(width.max(1)), data.1.div_ceil(height.max(1)))),
            None => data.1.div_ceil(self.rows),
        };
        let needed = block.saturating_add(blocks.saturating_mul(16));
        let most = limits::MEMORY_CONSTANT / 2 + area(display).saturating_mul(12);
        if needed > most {
            let (width, height) = display;
            return Err(format!(
                "has {width} x {height} pixels in blocks that take {needed} bytes of memory; at most {most} are used"
            ));
        }
        Ok(())
    }
}

const _: () = assert!(MOST_METADATA < MEMORY_CONSTANT / 2);
