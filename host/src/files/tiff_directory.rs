//! The first directory of a TIFF, read apart from the decoder: its metadata, however large the file says they are, and
//! what the decoder would allocate.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};

use super::decode::bounded;

/// Tags of TIFF 6.0, and of Adobe's and the ICC's additions.
pub(super) mod tags {
    pub(crate) const PHOTOMETRIC: u16 = 262;
    pub(crate) const DOCUMENT_NAME: u16 = 269;
    pub(crate) const DESCRIPTION: u16 = 270;
    pub(crate) const MAKE: u16 = 271;
    pub(crate) const MODEL: u16 = 272;
    pub(crate) const ORIENTATION: u16 = 274;
    pub(crate) const X_RESOLUTION: u16 = 282;
    pub(crate) const Y_RESOLUTION: u16 = 283;
    pub(crate) const PAGE_NAME: u16 = 285;
    pub(crate) const RESOLUTION_UNIT: u16 = 296;
    pub(crate) const SOFTWARE: u16 = 305;
    pub(crate) const DATE: u16 = 306;
    pub(crate) const ARTIST: u16 = 315;
    pub(crate) const COLOUR_MAP: u16 = 320;
    pub(crate) const EXTRA_SAMPLES: u16 = 338;
    pub(crate) const XMP: u16 = 700;
    pub(crate) const COPYRIGHT: u16 = 33_432;
    pub(crate) const IPTC: u16 = 33_723;
    pub(crate) const PHOTOSHOP: u16 = 34_377;
    pub(crate) const EXIF: u16 = 34_665;
    pub(crate) const ICC_PROFILE: u16 = 34_675;
    pub(crate) const GPS: u16 = 34_853;
}

/// A field: the type of its values, how many there are, and where they stand.
struct Field {
    kind: u16,
    count: u64,
    at: u64,
}

/// The fields of a directory by their tags.
pub(super) struct Directory {
    big_endian: bool,
    fields: BTreeMap<u16, Field>,
}

impl Directory {
    /// Reads the first directory. None if there is none, or a broken one, as the decoder says.
    pub(super) fn read(reader: &mut (impl Read + Seek)) -> Option<Self> {
        let mut header = [0; 8];
        reader.seek(SeekFrom::Start(0)).ok()?;
        reader.read_exact(&mut header).ok()?;
        let big_endian = header.starts_with(b"MM");
        let mut directory = Self { big_endian, fields: BTreeMap::new() };
        let big = directory.number(&header[2..4]) == 43;
        let (mut offset, count) = (directory.number(&header[4..8]), if big { 8 } else { 2 });
        if big {
            reader.read_exact(&mut header).ok()?;
            offset = directory.number(&header);
        }
        reader.seek(SeekFrom::Start(offset)).ok()?;
        reader.read_exact(&mut header[..count]).ok()?;
        let entries = directory.number(&header[..count]);
        let (size, word) = if big { (20, 8) } else { (12, 4) };
        // A tag has 16 bits, so that there are no more of them.
        for entry in 0..entries.min(1 << 16) {
            let start = offset.checked_add(count as u64 + entry * size)?;
            let mut bytes = [0; 20];
            let bytes = &mut bytes[..size as usize];
            reader.read_exact(bytes).ok()?;
            let number = |range| directory.number(&bytes[range]);
            let (tag, kind, count) = (number(0..2) as u16, number(2..4) as u16, number(4..4 + word));
            let inline = Self::size(kind).saturating_mul(count) <= word as u64;
            let at = if inline { start + 4 + word as u64 } else { number(4 + word..4 + 2 * word) };
            directory.fields.entry(tag).or_insert(Field { kind, count, at });
        }
        Some(directory)
    }

    /// Bytes of a value of a type.
    fn size(kind: u16) -> u64 {
        match kind {
            3 | 8 => 2,
            4 | 9 | 11 | 13 => 4,
            5 | 10 | 12 | 16 | 17 | 18 => 8,
            _ => 1,
        }
    }

    fn number(&self, bytes: &[u8]) -> u64 {
        let add = |sum: u64, &byte: &u8| sum << 8 | u64::from(byte);
        if self.big_endian { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) }
    }

    pub(super) fn has(&self, tag: u16) -> bool {
        self.fields.contains_key(&tag)
    }

    /// Where the values of a field stand.
    pub(super) fn position(&self, tag: u16) -> Option<u64> {
        self.fields.get(&tag).map(|field| field.at)
    }

    /// A number of 16 bits as this file stores it.
    pub(super) fn short(&self, number: u16) -> [u8; 2] {
        if self.big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    /// The bytes of a field. None without it, or if the file ends before; an error if they are too many.
    pub(super) fn bytes(
        &self,
        reader: &mut (impl Read + Seek),
        tag: u16,
        what: &'static str,
    ) -> Result<Option<Vec<u8>>, String> {
        let Some(field) = self.fields.get(&tag) else { return Ok(None) };
        let length = Self::size(field.kind).saturating_mul(field.count);
        if reader.seek(SeekFrom::Start(field.at)).is_err() {
            return Ok(None);
        }
        bounded(reader, length, what).map(|bytes| (bytes.len() as u64 == length).then_some(bytes))
    }

    /// The whole numbers of a field.
    pub(super) fn numbers(
        &self,
        reader: &mut (impl Read + Seek),
        tag: u16,
        what: &'static str,
    ) -> Result<Vec<u64>, String> {
        let bytes = self.bytes(reader, tag, what)?.unwrap_or_default();
        let size = self.fields.get(&tag).map_or(1, |field| Self::size(field.kind)) as usize;
        Ok(bytes.chunks_exact(size).map(|bytes| self.number(bytes)).collect())
    }

    /// The first of the fractions of a field.
    pub(super) fn fraction(&self, reader: &mut (impl Read + Seek), tag: u16) -> Option<f64> {
        let bytes = self.bytes(reader, tag, "a resolution").ok()??;
        let (numerator, denominator) = (self.number(bytes.get(..4)?), self.number(bytes.get(4..8)?));
        Some(numerator as f64 / denominator as f64)
    }
}
