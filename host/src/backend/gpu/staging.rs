//! The way of images between ordinary and device memory: through a few pieces of page-locked memory that are used again and
//! again.
//!
//! The driver can't let a device read ordinary memory by itself: it copies it to page-locked memory first, on one thread, and
//! waits. Here all threads copy a piece while the device fetches the one before. Page-locked memory is slow to
//! allocate, so there is little of it, made once for a device, whatever the images' sizes.

use cust::event::{Event, EventFlags};
use cust::memory::LockedBuffer;
use cust::stream::Stream;
use rayon::prelude::*;

use super::driver::{self, DeviceRows, DuringAction};
use crate::Result;

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
    /// # Safety
    /// `from` stays borrowed until the stream has been waited for; `to` lies in an allocation.
    pub(super) unsafe fn upload(&mut self, to: DeviceRows, from: &[u8], home: Home, stream: &Stream) -> Result<()> {
        const ACTION: &str = "copy the image to the device";
        assert_eq!(from.len(), to.rows * to.bytes, "bytes of the rows to copy");
        if home == Home::PageLocked || from.len() <= DIRECT {
            // SAFETY: the caller's promise.
            return unsafe { driver::upload_rows(to, from.as_ptr(), stream) }.to(ACTION);
        }
        self.prepare()?;
        for part in parts(to.rows, to.bytes, to.pitch, PIECE) {
            let piece = &mut self.pieces[self.next];
            self.next = (self.next + 1) % PIECES;
            piece.done.synchronize().to(ACTION)?;
            let length = part.rows * part.bytes;
            copy(&mut piece.memory[..length], &from[part.host..][..length]);
            // SAFETY: the piece lives as long as the device is open, and is written again only when `done` has come; the part
            // lies within `to`.
            unsafe {
                let to = DeviceRows { address: to.address.add(part.device), rows: part.rows, bytes: part.bytes, ..to };
                driver::upload_rows(to, piece.memory.as_ptr(), stream).to(ACTION)?;
            }
            piece.done.record(stream).to(ACTION)?;
        }
        Ok(())
    }

    /// Copies rows from the device, after all that the stream was given before, and waits for them.
    ///
    /// # Safety
    /// `from` lies in an allocation.
    pub(super) unsafe fn download(
        &mut self,
        to: &mut [u8],
        from: DeviceRows,
        home: Home,
        stream: &Stream,
    ) -> Result<()> {
        const ACTION: &str = "copy the result from the device";
        assert_eq!(to.len(), from.rows * from.bytes, "bytes of the rows to copy");
        if home == Home::PageLocked || to.len() <= DIRECT {
            // SAFETY: `to` is borrowed until the stream has been waited for, in the next line; the rest is the caller's promise.
            let copied = unsafe { driver::download_rows(to.as_mut_ptr(), from, stream) }.to(ACTION);
            // What the stream was given before fails here, too, and is the cause.
            return stream.synchronize().to("run the kernel").and(copied);
        }
        self.prepare()?;
        let parts = parts(from.rows, from.bytes, from.pitch, PIECE);
        // Part i goes through piece i mod PIECES; PIECES - 1 of them are under way while one is copied out.
        for step in 0..parts.len() + PIECES - 1 {
            if let Some(part) = parts.get(step) {
                let piece = &mut self.pieces[step % PIECES];
                // An upload may still be reading it.
                piece.done.synchronize().to("run the kernel")?;
                // SAFETY: the piece lives as long as the device is open, and is read only when `done` has come; the part lies
                // within `from`.
                unsafe {
                    let address = from.address.add(part.device);
                    let from = DeviceRows { address, rows: part.rows, bytes: part.bytes, ..from };
                    driver::download_rows(piece.memory.as_mut_ptr(), from, stream).to(ACTION)?;
                }
                piece.done.record(stream).to(ACTION)?;
            }
            if let Some(index) = step.checked_sub(PIECES - 1) {
                let (part, piece) = (parts[index], &self.pieces[index % PIECES]);
                piece.done.synchronize().to("run the kernel")?;
                let length = part.rows * part.bytes;
                copy(&mut to[part.host..][..length], &piece.memory[..length]);
            }
        }
        Ok(())
    }

    /// Makes the pieces, once.
    fn prepare(&mut self) -> Result<()> {
        const ACTION: &str = "allocate page-locked memory";
        while self.pieces.len() < PIECES {
            // SAFETY: a piece is read only where it was written.
            let memory = unsafe { LockedBuffer::uninitialized(PIECE) }.to(ACTION)?;
            let done = Event::new(EventFlags::DISABLE_TIMING).to(ACTION)?;
            self.pieces.push(Piece { memory, done });
        }
        Ok(())
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
