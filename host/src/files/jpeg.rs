//! Whether a JPEG file is complete. Crate `image` decodes what is there of a file that was cut off and leaves the rest
//! grey, which would be a wrong picture without a word.

use std::io::{BufRead, ErrorKind, Read, Result};

/// Whether the end-of-image marker comes, walking from segment to segment as ITU T.81, annex B, lays them out.
pub(super) fn is_complete(mut file: impl BufRead) -> Result<bool> {
    match walk(&mut file) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        other => other.map(|()| true),
    }
}

fn walk(file: &mut impl BufRead) -> Result<()> {
    loop {
        match next_marker(file)? {
            // The end of the image.
            0xD9 => return Ok(()),
            // Nothing follows the start of the image and 0x01; 0 and the restart markers stand within coded data.
            0 | 0x01 | 0xD0..=0xD8 => {}
            // A segment; after that of a scan, its coded data.
            _ => skip_segment(file)?,
        }
    }
}

/// The byte after the next run of 0xFF.
fn next_marker(file: &mut impl BufRead) -> Result<u8> {
    file.skip_until(0xFF)?;
    loop {
        let mut byte = [0];
        file.read_exact(&mut byte)?;
        if byte[0] != 0xFF {
            return Ok(byte[0]);
        }
    }
}

fn skip_segment(file: &mut impl BufRead) -> Result<()> {
    let mut length = [0; 2];
    file.read_exact(&mut length)?;
    let length = u64::from(u16::from_be_bytes(length)).saturating_sub(2);
    let skipped = std::io::copy(&mut file.take(length), &mut std::io::sink())?;
    if skipped < length { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_file_is_complete() {
        let file: &[u8] = &[
            0xFF, 0xD8, // start
            0xFF, 0xE1, 0, 6, 1, 0xFF, 0xD9, 2, // a segment with an end marker within, as of a thumbnail
            0xFF, 0xDA, 0, 3, 9, 1, 2, 0xFF, 0, 3, 0xFF, 0xD3, 4, // a scan with a stuffed 0xFF and a restart
            0xFF, 0xC4, 0, 4, 7, 7, 0xFF, 0xDA, 0, 2, 5, 6, // tables, and a second scan
            0xFF, 0xFF, 0xD9, // fill byte, end
            8, 8, // what cameras append
        ];
        for length in 0..=file.len() {
            assert_eq!(is_complete(&file[..length]).unwrap(), length >= file.len() - 2, "{length}");
        }
    }
}
