//! WebP's container, RFC 9649: the chunks except the values, and the memory that the values take.

use std::io::{BufRead, Read, Seek, SeekFrom};

use super::decode::{Scan, bounded, coded_data_fits};
use super::limits::MEMORY_CONSTANT;
use super::vp8l;

/// Reads the metadata, which the decoder then is not asked for.
pub(super) fn scan(reader: &mut (impl BufRead + Seek)) -> Result<Scan, String> {
    let io = |error: std::io::Error| error.to_string();
    let mut scan = Scan::default();
    let mut at = 12;
    loop {
        reader.seek(SeekFrom::Start(at)).map_err(io)?;
        let mut header = [0; 8];
        if reader.read_exact(&mut header).is_err() {
            return Ok(scan);
        }
        let [name @ .., l0, l1, l2, l3] = header;
        let length = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
        match &name {
            // The decoder, too, takes the first of each.
            b"ICCP" if scan.metadata.icc_profile.is_none() => {
                scan.metadata.icc_profile = Some(bounded(reader, length, "a colour profile")?);
            }
            b"EXIF" if scan.metadata.exif.is_none() => {
                let mut exif = bounded(reader, length, "EXIF")?;
                // Some programs put JPEG's header before it.
                if exif.starts_with(b"Exif\0\0") {
                    exif.drain(..6);
                }
                scan.orientation = scan.metadata.set_exif(exif);
            }
            b"XMP " => drop(scan.metadata.dropped.insert("XMP")),
            _ => {}
        }
        scan.animated |= &name == b"ANMF";
        at += 8 + length + (length & 1);
    }
}

/// Whether the decoder takes no more memory than is stated for so many bytes of values.
pub(super) fn check(reader: &mut (impl BufRead + Seek), bytes: u64) -> Result<(), String> {
    let mut at = 12;
    let mut canvas = None;
    let mut parts = 0;
    // The first image, with its alpha, is all that is decoded.
    while parts < 2 {
        if reader.seek(SeekFrom::Start(at)).is_err() {
            return Ok(());
        }
        let mut header = [0; 8];
        if reader.read_exact(&mut header).is_err() {
            return Ok(());
        }
        let [name @ .., l0, l1, l2, l3] = header;
        let length = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
        at += 8 + length + (length & 1);
        match &name {
            b"VP8X" => canvas = Some(sides(reader, 4)?),
            // Of an animation, the chunks of its first frame.
            b"ANMF" => {
                canvas = Some(sides(reader, 6)?);
                at = reader.stream_position().map_err(|error| error.to_string())? + 4;
            }
            // The decoder holds it twice.
            b"VP8 " => {
                coded_data_fits(length.saturating_mul(2), bytes)?;
                return Ok(());
            }
            b"VP8L" => return check_tables(reader.by_ref().take(length), None, bytes),
            b"ALPH" => {
                let mut kind = [0];
                // The lowest two bits: 1 is compression as of VP8L.
                if reader.read_exact(&mut kind).is_ok() && kind[0] & 3 == 1 {
                    check_tables(reader.by_ref().take(length.saturating_sub(1)), canvas, bytes)?;
                }
                parts += 1;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Columns and rows, less one in three bytes each, after `skip` bytes.
fn sides(reader: &mut impl BufRead, skip: usize) -> Result<(u32, u32), String> {
    let mut bytes = [0; 12];
    reader.read_exact(&mut bytes[..skip + 6]).map_err(|_| "is cut off")?;
    let side = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], 0]) + 1;
    Ok((side(skip), side(skip + 3)))
}

fn check_tables(stream: impl BufRead, sides: Option<(u32, u32)>, bytes: u64) -> Result<(), String> {
    let most = bytes.saturating_mul(2).saturating_add(MEMORY_CONSTANT / 2);
    match vp8l::table_bytes(stream, sides, most) {
        Some(tables) if tables > most => {
            Err(format!("has Huffman codes whose tables take more than {most} bytes for {bytes} bytes of values"))
        }
        // The decoder reports damage.
        _ => Ok(()),
    }
}
