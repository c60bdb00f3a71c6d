//! Copies between pageable host memory and device memory, through a few page-locked staging buffers (`Piece`).
//!
//! For pageable memory the driver itself copies to page-locked memory first, on one thread. Here all threads of the
//! pool copy one piece while the device transfers another. Page-locked memory is slow to allocate. So each lane
//! allocates a few pieces on first use and keeps them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cust::memory::LockedBuffer;
use cust::stream::Stream;
use rayon::prelude::*;

use super::event::Event;
use super::lend::{DeviceRows, LentToDevice};
use super::status::{DriverResultExt, PageLockedResultExt};
use crate::rows::{HostRows, HostRowsMut};
use crate::{Error, Result};

/// Bytes of a piece: large enough that starting a transfer (some 10 µs) costs little of its time (80 µs at 54 GB/s).
pub(super) const PIECE: usize = 4 << 20;
/// Pieces of each direction: one travels, one is copied, the others are spare.
pub(super) const PIECES: usize = 4;
/// The same for large images: more threads copy at once.
pub(super) const MOST_PIECES: usize = 8;
/// Up to this many bytes the driver's own way is as fast: it copies small images itself.
const DIRECT: usize = 1 << 16;
/// Bytes that one thread copies at a time.
const PART: usize = 1 << 18;

/// Page-locked memory for transfers in both directions, made when it is first needed.
#[derive(Default)]
pub(super) struct Staging {
    /// For images on their way to the device.
    pub(super) up: Vec<Piece>,
    /// For results on their way back.
    pub(super) down: Vec<Piece>,
    next: usize,
    /// Why there are none.
    refused: Option<String>,
}

/// What kind of memory an image lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostMemoryKind {
    /// Memory that only the host can read.
    Pageable,
    /// [`page_locked`](super::page_locked) memory: there is nothing to do but to start the transfer.
    PageLocked,
}

pub(super) struct Piece {
    pub(super) memory: Mutex<LockedBuffer<u8>>,
    /// Recorded behind the last transfer from or to this piece.
    pub(super) done: Event,
}

/// A part of a transfer that fits into a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    /// Its first row, and where in that it begins.
    row: usize,
    column: usize,
    /// Rows, and bytes of each.
    rows: usize,
    bytes: usize,
}

/// The parts of at most `most` bytes of `rows` rows of `bytes`.
fn parts(rows: usize, bytes: usize, most: usize) -> Vec<Part> {
    if bytes > most {
        let of_row = |row: usize| {
            (0..bytes).step_by(most).map(move |column| Part { row, column, rows: 1, bytes: most.min(bytes - column) })
        };
        return (0..rows).flat_map(of_row).collect();
    }
    let step = most / bytes;
    (0..rows).step_by(step).map(|row| Part { row, column: 0, rows: step.min(rows - row), bytes }).collect()
}

impl Part {
    /// This part of rows on the device.
    fn of(self, rows: DeviceRows) -> DeviceRows {
        let address = rows.address + (self.row * rows.pitch + self.column) as u64;
        DeviceRows { address, rows: self.rows, bytes: self.bytes, ..rows }
    }

    /// Copies it to a piece.
    fn copy_in(self, piece: &mut [u8], from: HostRows<'_>) {
        let rows = from.range(self.row..self.row + self.rows);
        if self.bytes == from.row_bytes() {
            copy_in(piece, rows);
        } else {
            copy(&mut piece[..self.bytes], &rows.at(0)[self.column..][..self.bytes]);
        }
    }

    /// Copies it out of a piece.
    fn copy_out(self, to: &mut HostRowsMut<'_>, piece: &[u8]) {
        if self.bytes == to.row_bytes() {
            let (_, rows) = to.reborrow().split_at(self.row);
            copy_out(rows.split_at(self.rows).0, piece);
        } else {
            copy(&mut to.at_mut(self.row)[self.column..][..self.bytes], &piece[..self.bytes]);
        }
    }
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
        from: HostRows<'scope>,
        kind: HostMemoryKind,
        stream: &'env Stream,
    ) -> Result<()> {
        const ACTION: &str = "copy the image to the device";
        let is_direct = kind == HostMemoryKind::PageLocked || from.span().len() <= DIRECT;
        let parts = if is_direct { Vec::new() } else { parts(to.rows, to.bytes, PIECE) };
        // One more than an image needs, for the next one.
        let pieces = (parts.len() + 1).min(PIECES);
        if is_direct || !self.prepare(pieces, 0)? {
            // SAFETY: `to` lies in such an allocation, as this function requires.
            return unsafe { lent.upload(to, from, stream) }.context(ACTION);
        }
        assert_eq!((from.len(), from.row_bytes()), (to.rows, to.bytes), "rows to copy, and bytes of each");
        for part in parts {
            let piece = &self.up[self.next % pieces];
            self.next = (self.next + 1) % pieces;
            piece.done.synchronize().context(ACTION)?;
            let mut memory = lock(&piece.memory);
            part.copy_in(&mut memory, from);
            // SAFETY: the piece lives as long as the device is open. It is written again when `done` has come, which is
            // recorded behind this copy; or, where recording fails, in another scope, after this one has waited.
            unsafe { lent.upload_from(part.of(to), memory.as_ptr(), part.bytes, stream).context(ACTION)? };
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
        mut to: HostRowsMut<'scope>,
        from: DeviceRows,
        kind: HostMemoryKind,
        stream: &'env Stream,
    ) -> Result<()> {
        const ACTION: &str = "copy the result from the device";
        const KERNEL: &str = "run the kernel";
        let is_direct = kind == HostMemoryKind::PageLocked || to.span().len() <= DIRECT;
        let parts = if is_direct { Vec::new() } else { parts(from.rows, from.bytes, PIECE) };
        let pieces = parts.len().min(PIECES);
        if is_direct || !self.prepare(0, pieces)? {
            // SAFETY: `from` lies in such an allocation, as this function requires.
            return unsafe { lent.download(to, from, stream) }.context(ACTION);
        }
        assert_eq!((to.len(), to.row_bytes()), (from.rows, from.bytes), "rows to copy, and bytes of each");
        // Part i goes through piece i mod `pieces`; `pieces - 1` of them are under way while one is copied out.
        for step in 0..parts.len() + pieces - 1 {
            if let Some(part) = parts.get(step) {
                let piece = &self.down[step % pieces];
                // SAFETY: the piece lives as long as the device is open. It is read when `done` has come, which is
                // recorded behind this copy; where recording fails, nobody reads it before the scope has waited.
                unsafe {
                    lent.download_to(lock(&piece.memory).as_mut_ptr(), part.bytes, part.of(from), stream)
                        .context(ACTION)?;
                }
                piece.done.record(stream).context(ACTION)?;
            }
            if let Some(index) = step.checked_sub(pieces - 1)
                && let Some(part) = parts.get(index)
            {
                let piece = &self.down[index % pieces];
                if index + 1 == parts.len() {
                    // Nothing comes behind the last part: this is the wait at the end of the scope, too.
                    lent.wait()?;
                } else {
                    piece.done.synchronize().context(KERNEL)?;
                }
                part.copy_out(&mut to, &lock(&piece.memory));
            }
        }
        Ok(())
    }

    /// Why images go the driver's own way: the system gave no page-locked memory.
    pub(super) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Makes pieces until there are `up` and `down` of them. Page-locked memory takes long to make: only what is used.
    /// False if the system gives no more of it. It is asked until it refuses.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub(super) fn prepare(&mut self, up: usize, down: usize) -> Result<bool> {
        for (pieces, wanted) in [(&mut self.up, up), (&mut self.down, down)] {
            while pieces.len() < wanted && self.refused.is_none() {
                match Piece::new() {
                    Ok(piece) => pieces.push(piece),
                    Err(error @ Error::DeviceLost { .. }) => return Err(error),
                    Err(error) => self.refused = Some(error.to_string()),
                }
            }
        }
        Ok(self.up.len() >= up && self.down.len() >= down)
    }
}

impl Piece {
    fn new() -> Result<Self> {
        // SAFETY: a piece is read only where it was written.
        let memory = unsafe { LockedBuffer::uninitialized(PIECE) }.page_locked(PIECE)?;
        let done = Event::new().context("create an event")?;
        Ok(Self { memory: Mutex::new(memory), done })
    }
}

/// The memory of a piece. Whoever copies locks it; what the device does with it is ordered by events.
pub(super) fn lock(memory: &Mutex<LockedBuffer<u8>>) -> MutexGuard<'_, LockedBuffer<u8>> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Copies with all threads, or with this one what is not worth waking others.
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    to.par_chunks_mut(PART).zip(from.par_chunks(PART)).for_each(|(to, from)| to.copy_from_slice(from));
}

/// Copies rows to the beginning of `to`, without gaps.
pub(super) fn copy_in(to: &mut [u8], from: HostRows<'_>) {
    let bytes = from.row_bytes();
    let to = &mut to[..from.len() * bytes];
    match from.dense() {
        Some(from) => copy(to, from),
        None => {
            let rows = (PART / bytes).max(1);
            to.par_chunks_mut(rows * bytes).enumerate().for_each(|(index, to)| {
                for (row, to) in to.chunks_exact_mut(bytes).enumerate() {
                    to.copy_from_slice(from.at(index * rows + row));
                }
            });
        }
    }
}

/// Copies the beginning of `from`, which has no gaps, to rows.
pub(super) fn copy_out(mut to: HostRowsMut<'_>, from: &[u8]) {
    let (rows, bytes) = (to.len(), to.row_bytes());
    let from = &from[..rows * bytes];
    if let Some(to) = to.dense_mut() {
        return copy(to, from);
    }
    if rows <= PART / bytes {
        for (row, from) in from.chunks_exact(bytes).enumerate() {
            to.at_mut(row).copy_from_slice(from);
        }
        return;
    }
    let (first, second) = to.split_at(rows / 2);
    let (first_from, second_from) = from.split_at(rows / 2 * bytes);
    rayon::join(|| copy_out(first, first_from), || copy_out(second, second_from));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte goes once, in parts that fit.
    #[test]
    fn parts_are_the_whole() {
        for (rows, bytes, most) in [(7, 10, 40), (1, 70, 16), (3, 100, 33), (1, 5, 5), (5, 8, 8)] {
            let mut seen = vec![false; rows * bytes];
            for part in parts(rows, bytes, most) {
                assert!(part.rows * part.bytes <= most && part.rows > 0, "{part:?}");
                for row in part.row..part.row + part.rows {
                    for column in part.column..part.column + part.bytes {
                        let place = &mut seen[row * bytes + column];
                        assert!(!std::mem::replace(place, true), "twice: {part:?}");
                    }
                }
            }
            assert!(seen.into_iter().all(|seen| seen), "{rows} x {bytes} in {most}");
        }
    }

    #[test]
    fn rows_are_copied_in_and_out() {
        let (rows, bytes, pitch) = (300, 1000, 1003);
        let from: Vec<u8> = (0..rows * pitch).map(|i| (i % 251) as u8).collect();
        let view = crate::View::new(bytes, rows, 1, pitch, &from).unwrap();
        let mut piece = vec![0; rows * bytes];
        copy_in(&mut piece, HostRows::of(&view));
        assert!((0..rows).all(|row| piece[row * bytes..][..bytes] == *view.row(row)));
        let mut to = vec![9; rows * pitch];
        copy_out(HostRowsMut::of(crate::ViewMut::new(bytes, rows, 1, pitch, &mut to).unwrap()), &piece);
        assert!((0..rows).all(|row| to[row * pitch..][..bytes] == *view.row(row)));
        assert!((0..rows).all(|row| to[row * pitch + bytes..][..3] == [9; 3]));
    }
}
