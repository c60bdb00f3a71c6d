//! The way of images between ordinary and device memory: through a few pieces of page-locked memory that are used again
//! and again.
//!
//! The driver can't let a device read ordinary memory by itself: it copies it to page-locked memory first, on one
//! thread, and waits. Here all threads copy a piece while the device fetches the one before. Page-locked memory is slow
//! to allocate, so there is little of it, made once for a device, whatever the images' sizes.

use cust::event::{Event, EventFlags};
use cust::memory::LockedBuffer;
use cust::stream::Stream;
use rayon::prelude::*;

use super::lend::{DeviceRows, LentToDevice};
use super::status::DriverResultExt;
use crate::{Error, Result};

/// Bytes of a piece: large enough that starting a transfer (some 10 µs) costs little of its time (80 µs at 54 GB/s).
const PIECE: usize = 4 << 20;
/// Pieces: one travels, one is copied, one is spare.
const PIECES: usize = 3;
/// Up to this many bytes the driver's own way is as fast: it copies small images itself.
const DIRECT: usize = 1 << 16;
/// Bytes that one thread copies at a time.
const PART: usize = 1 << 18;

/// The page-locked memory of a device, made when it is first needed.
#[derive(Default)]
pub(super) struct Staging {
    pieces: Vec<Piece>,
    next: usize,
    /// Why there are none.
    refused: Option<String>,
}

/// Where an image lies on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// In memory that only the host can read.
    Ordinary,
    /// In [`page_locked`](super::page_locked) memory: there is nothing to do but to start the transfer.
    PageLocked,
}

struct Piece {
    memory: LockedBuffer<u8>,
    /// Recorded behind the last transfer from or to this piece.
    done: Event,
}

/// A part of a transfer that fits into a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    /// Where it begins in host memory.
    host: usize,
    /// Where it begins on the device.
    device: usize,
    /// Rows, and bytes of each.
    rows: usize,
    bytes: usize,
}

/// The parts of a transfer of rows that lie `pitch` bytes apart on the device and without gaps on the host.
fn parts(rows: usize, bytes: usize, pitch: usize, most: usize) -> Vec<Part> {
    // Without gaps on either side it is a single long row; one that is too long goes in parts of a row.
    let (rows, bytes) = if pitch == bytes { (1, rows * bytes) } else { (rows, bytes) };
    if bytes > most {
        let of_row = |row: usize| {
            (0..bytes).step_by(most).map(move |from| Part {
                host: row * bytes + from,
                device: row * pitch + from,
                rows: 1,
                bytes: most.min(bytes - from),
            })
        };
        return (0..rows).flat_map(of_row).collect();
    }
    let step = most / bytes;
    let from = |row: usize| Part { host: row * bytes, device: row * pitch, rows: step.min(rows - row), bytes };
    (0..rows).step_by(step).map(from).collect()
}

impl Staging {
    /// Copies rows to the device. The transfer may still be under way when this returns.
    ///
    /// # Errors
    /// [`Error::Driver`], [`Error::DeviceLost`].
    ///
    /// # Safety
    /// `to` lies in an allocation of the stream's device, which lives until the scope has waited.
    pub(super) unsafe fn upload<'scope, 'env>(
        &mut self,
        lent: &LentToDevice<'scope, 'env>,
        to: DeviceRows,
        from: &'scope [u8],
        home: Home,
        stream: &'env Stream,
    ) -> Result<()> {
        const ACTION: &str = "copy the image to the device";
        if home == Home::PageLocked || from.len() <= DIRECT || !self.prepare()? {
            // SAFETY: the caller's promise.
            return unsafe { lent.upload(to, from, stream) }.context(ACTION);
        }
        assert_eq!(from.len(), to.len(), "bytes of the rows to copy");
        for part in parts(to.rows, to.bytes, to.pitch, PIECE) {
            let piece = &mut self.pieces[self.next];
            self.next = (self.next + 1) % PIECES;
            piece.done.synchronize().context(ACTION)?;
            let length = part.rows * part.bytes;
            copy(&mut piece.memory[..length], &from[part.host..][..length]);
            // SAFETY: the piece lives as long as the device is open. It is written again when `done` has come, which is
            // recorded behind this copy; or, where recording fails, in another scope, after this one has waited. The
            // part lies within `to`.
            unsafe {
                let to = DeviceRows { address: to.address.add(part.device), rows: part.rows, bytes: part.bytes, ..to };
                lent.upload_from(to, piece.memory.as_ptr(), stream).context(ACTION)?;
            }
            piece.done.record(stream).context(ACTION)?;
        }
        Ok(())
    }

    /// Copies rows from the device, after all that the stream was given before. The transfer may still be under way
    /// when this returns.
    ///
    /// # Errors
    /// [`Error::Driver`], [`Error::DeviceLost`]: of all that the stream was given.
    ///
    /// # Safety
    /// `from` lies in an allocation of the stream's device, which lives until the scope has waited.
    pub(super) unsafe fn download<'scope, 'env>(
        &mut self,
        lent: &LentToDevice<'scope, 'env>,
        to: &'scope mut [u8],
        from: DeviceRows,
        home: Home,
        stream: &'env Stream,
    ) -> Result<()> {
        const ACTION: &str = "copy the result from the device";
        const KERNEL: &str = "run the kernel";
        if home == Home::PageLocked || to.len() <= DIRECT || !self.prepare()? {
            // SAFETY: the caller's promise.
            return unsafe { lent.download(to, from, stream) }.context(ACTION);
        }
        assert_eq!(to.len(), from.len(), "bytes of the rows to copy");
        let parts = parts(from.rows, from.bytes, from.pitch, PIECE);
        // Part i goes through piece i mod PIECES; PIECES - 1 of them are under way while one is copied out.
        for step in 0..parts.len() + PIECES - 1 {
            if let Some(part) = parts.get(step) {
                let piece = &mut self.pieces[step % PIECES];
                // An upload may still be reading it.
                piece.done.synchronize().context(KERNEL)?;
                // SAFETY: the piece lives as long as the device is open. It is read when `done` has come, which is
                // recorded behind this copy; where recording fails, nobody reads it before the scope has waited. The
                // part lies within `from`.
                unsafe {
                    let address = from.address.add(part.device);
                    let from = DeviceRows { address, rows: part.rows, bytes: part.bytes, ..from };
                    lent.download_to(piece.memory.as_mut_ptr(), from, stream).context(ACTION)?;
                }
                piece.done.record(stream).context(ACTION)?;
            }
            if let Some(index) = step.checked_sub(PIECES - 1)
                && let Some(part) = parts.get(index)
            {
                let piece = &self.pieces[index % PIECES];
                if index + 1 == parts.len() {
                    // Nothing comes behind the last part: this is the wait at the end of the scope, too.
                    lent.wait()?;
                } else {
                    piece.done.synchronize().context(KERNEL)?;
                }
                let length = part.rows * part.bytes;
                copy(&mut to[part.host..][..length], &piece.memory[..length]);
            }
        }
        Ok(())
    }

    /// Why images go the driver's own way: the system gave no page-locked memory.
    pub(super) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Makes the pieces, once; false if the system gives no page-locked memory, which it is asked for once.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    fn prepare(&mut self) -> Result<bool> {
        while self.pieces.len() < PIECES && self.refused.is_none() {
            match Piece::new() {
                Ok(piece) => self.pieces.push(piece),
                Err(error @ Error::DeviceLost { .. }) => return Err(error),
                Err(error) => {
                    // Nothing was given to them yet.
                    self.pieces.clear();
                    self.refused = Some(error.to_string());
                }
            }
        }
        Ok(self.refused.is_none())
    }
}

impl Piece {
    fn new() -> Result<Self> {
        const ACTION: &str = "allocate page-locked memory";
        // SAFETY: a piece is read only where it was written.
        let memory = unsafe { LockedBuffer::uninitialized(PIECE) }.context(ACTION)?;
        let done = Event::new(EventFlags::DISABLE_TIMING).context(ACTION)?;
        Ok(Self { memory, done })
    }
}

/// Copies with all threads, or with this one what is not worth waking others.
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    to.par_chunks_mut(PART).zip(from.par_chunks(PART)).for_each(|(to, from)| to.copy_from_slice(from));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte goes once, to its place, in parts that fit.
    #[test]
    fn parts_are_the_whole() {
        for (rows, bytes, pitch, most) in
            [(7, 10, 16, 40), (7, 10, 10, 16), (3, 100, 128, 33), (1, 5, 32, 5), (5, 8, 8, 8)]
        {
            let mut device = vec![usize::MAX; rows * pitch];
            for part in parts(rows, bytes, pitch, most) {
                assert!(part.rows * part.bytes <= most && part.rows > 0, "{part:?}");
                for row in 0..part.rows {
                    for byte in 0..part.bytes {
                        let place = &mut device[part.device + row * pitch + byte];
                        assert_eq!(*place, usize::MAX, "twice: {part:?}");
                        *place = part.host + row * part.bytes + byte;
                    }
                }
            }
            for (at, host) in device.into_iter().enumerate() {
                let expected = if at % pitch < bytes { at / pitch * bytes + at % pitch } else { usize::MAX };
                assert_eq!(host, expected, "byte {at} of {rows} x {bytes} at {pitch}");
            }
        }
    }
}
