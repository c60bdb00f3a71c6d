//! Reads and writes at a position, by several threads at once.

use std::fs::File;
use std::io;

/// Reads all of `bytes` from a position of a file.
#[cfg(unix)]
pub(super) fn read_at(file: &File, bytes: &mut [u8], position: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, position)
}

/// Writes all of `bytes` at a position of a file.
#[cfg(unix)]
pub(super) fn write_at(file: &File, bytes: &[u8], position: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, position)
}

/// Reads all of `bytes` from a position of a file.
#[cfg(windows)]
pub(super) fn read_at(file: &File, mut bytes: &mut [u8], mut position: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, position)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                bytes = &mut bytes[count..];
                position += count as u64;
            }
        }
    }
    Ok(())
}

/// Writes all of `bytes` at a position of a file.
#[cfg(windows)]
pub(super) fn write_at(file: &File, mut bytes: &[u8], mut position: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, position)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => {
                bytes = &bytes[count..];
                position += count as u64;
            }
        }
    }
    Ok(())
}

/// Turns the bytes of each value around where the file's order is not this machine's.
pub(super) fn to_native_order(bytes: &mut [u8], value: usize, is_big_endian: bool) {
    if value > 1 && is_big_endian != cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(value).for_each(<[u8]>::reverse);
    }
}
