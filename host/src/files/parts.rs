//! A view of a file that skips some of its parts, so that a decoder does not hold them in memory.

use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom};
use std::ops::Range;

/// Ranges of a file, in ascending order, that are kept.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    ranges: Vec<Range<u64>>,
    /// The offset of each range among the kept bytes.
    offsets: Vec<u64>,
    length: u64,
    /// What follows the ranges.
    pub(super) tail: &'static [u8],
}

impl Kept {
    /// More ranges are not kept; a picture has a handful.
    const MOST_RANGES: usize = 1 << 16;

    /// Adds a range that begins at or after the end of the last. An error is the reason why the file is refused.
    pub(super) fn add(&mut self, range: Range<u64>) -> std::result::Result<(), String> {
        let length = range.end - range.start;
        let count = self.ranges.len();
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ if count == Self::MOST_RANGES => {
                return Err(format!("has metadata in more than {} places", Self::MOST_RANGES));
            }
            _ => {
                self.ranges.push(range);
                self.offsets.push(self.length);
            }
        }
        self.length += length;
        Ok(())
    }

    /// The bytes that are kept.
    pub(super) fn len(&self) -> u64 {
        self.length
    }

    /// The end of the tail.
    fn end(&self) -> u64 {
        self.length + self.tail.len() as u64
    }
}

/// The kept ranges of `reader`, one after the other.
pub(super) struct Parts<R> {
    reader: R,
    kept: Kept,
    /// Among the kept bytes.
    position: u64,
    /// The position of `reader`.
    at: u64,
}

impl<R: Read + Seek> Parts<R> {
    pub(super) fn new(mut reader: R, kept: Kept) -> Result<Self> {
        reader.seek(SeekFrom::Start(0))?;
        Ok(Self { reader, kept, position: 0, at: 0 })
    }
}

impl<R: Read + Seek> Read for Parts<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if let Some(place) = self.position.checked_sub(self.kept.length) {
            let read = (&self.kept.tail[place as usize..]).read(buffer)?;
            self.position += read as u64;
            return Ok(read);
        }
        let index = self.kept.offsets.partition_point(|&offset| offset <= self.position) - 1;
        let range = &self.kept.ranges[index];
        let from = range.start + (self.position - self.kept.offsets[index]);
        if from != self.at {
            // Relative, so that a buffered reader keeps its buffer.
            self.reader.seek_relative(from.wrapping_sub(self.at) as i64)?;
            self.at = from;
        }
        let most = usize::try_from(range.end - from).map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = self.reader.read(&mut buffer[..most])?;
        self.at += read as u64;
        self.position += read as u64;
        Ok(read)
    }

    /// Asks for the memory once, and in a way that may fail.
    fn read_to_end(&mut self, buffer: &mut Vec<u8>) -> Result<usize> {
        let left = usize::try_from(self.kept.end() - self.position).map_err(|_| ErrorKind::OutOfMemory)?;
        let start = buffer.len();
        buffer.try_reserve_exact(left).map_err(|_| Error::from(ErrorKind::OutOfMemory))?;
        buffer.resize(start + left, 0);
        self.read_exact(&mut buffer[start..])?;
        Ok(left)
    }
}

impl<R: Read + Seek> Seek for Parts<R> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.kept.end().checked_add_signed(by),
        };
        self.position = position.ok_or(ErrorKind::InvalidInput)?.min(self.kept.end());
        Ok(self.position)
    }
}

/// A file with two of its bytes replaced.
pub(super) struct Patched<R> {
    reader: R,
    position: u64,
    at: u64,
    bytes: [u8; 2],
}

impl<R: Read + Seek> Patched<R> {
    /// `bytes` stand at offset `at` of the file.
    pub(super) fn new(mut reader: R, at: u64, bytes: [u8; 2]) -> Result<Self> {
        reader.seek(SeekFrom::Start(0))?;
        Ok(Self { reader, position: 0, at, bytes })
    }
}

impl<R: Read + Seek> Read for Patched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = self.reader.read(buffer)?;
        for (offset, byte) in (self.at..).zip(self.bytes) {
            let place = offset.checked_sub(self.position).and_then(|place| usize::try_from(place).ok());
            if let Some(place) = place.filter(|&place| place < read) {
                buffer[place] = byte;
            }
        }
        self.position += read as u64;
        Ok(read)
    }
}

impl<R: Read + Seek> Seek for Patched<R> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.position = self.reader.seek(to)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn the_parts_are_one_file() {
        let mut kept = Kept::default();
        for range in [1..3, 3..4, 6..9] {
            kept.add(range).unwrap();
        }
        assert_eq!((kept.ranges.len(), kept.len()), (2, 6));
        let mut parts = Parts::new(Cursor::new(b"abcdefghijk"), kept).unwrap();
        let mut all = Vec::new();
        parts.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"bcdghi");
        for start in 0..=6 {
            parts.seek(SeekFrom::Start(start)).unwrap();
            let mut rest = String::new();
            parts.read_to_string(&mut rest).unwrap();
            assert_eq!(rest, "bcdghi"[start as usize..]);
        }
        parts.seek(SeekFrom::End(-2)).unwrap();
        parts.seek(SeekFrom::Current(-1)).unwrap();
        let mut byte = [0];
        parts.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"g");
    }

    #[test]
    fn two_bytes_are_others() {
        for step in 1..5 {
            let mut patched = Patched::new(Cursor::new(b"abcdef"), 2, *b"XY").unwrap();
            let mut read = Vec::new();
            let mut buffer = vec![0; step];
            while let Ok(count @ 1..) = patched.read(&mut buffer) {
                read.extend_from_slice(&buffer[..count]);
            }
            assert_eq!(read, b"abXYef");
            patched.seek(SeekFrom::Start(3)).unwrap();
            let mut rest = String::new();
            patched.read_to_string(&mut rest).unwrap();
            assert_eq!(rest, "Yef");
        }
    }
}
