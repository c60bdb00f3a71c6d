//! WebP's container, RFC 9649: the chunks apart from the values.

use std::io::{Read, Seek, SeekFrom};

use super::decode::{Scan, bounded};

/// Reads the metadata, which the decoder then is not asked for. With it come the bytes of coded values that the decoder holds at once.
pub(super) fn scan(reader: &mut (impl Read + Seek)) -> Result<(Scan, u64), String> {
    let io = |error: std::io::Error| error.to_string();
    let mut scan = Scan::default();
    let mut coded = 0;
    let mut at = 12;
    loop {
        reader.seek(SeekFrom::Start(at)).map_err(io)?;
        let mut header = [0; 8];
        if reader.read_exact(&mut header).is_err() {
            return Ok((scan, coded));
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
            b"VP8 " | b"ALPH" | b"ANMF" => coded = coded.max(length),
            _ => {}
        }
        scan.animated |= &name == b"ANMF";
        at += 8 + length + (length & 1);
    }
}
