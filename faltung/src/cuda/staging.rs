//! Copies between pageable host memory and device memory, through a few page-locked staging buffers.
//!
//! For pageable memory the driver itself copies to page-locked memory first, on one thread. Here all threads of the
//! pool copy one buffer while the device transfers another. Page-locked memory is slow to allocate. So each lane
//! allocates a few buffers on first use and keeps them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cust::memory::LockedBuffer;
use cust::stream::Stream;
use rayon::prelude::*;

use super::event::Event;
use super::lend::{DeviceRows, LentToDevice};
use super::status::{DriverResultExt, PageLockedResultExt};
use crate::rows::{HostRows, HostRowsMut};
use crate::{Error, Result};

/// Bytes of a buffer: large enough that starting a transfer (some 10 µs) costs little of its time (80 µs at 54 GB/s).
pub(super) const BUFFER_BYTES: usize = 4 << 20;
/// Buffers of each direction: one travels, one is copied, the others are spare.
pub(super) const BUFFERS: usize = 4;
/// The same for large images: more threads copy at once.
pub(super) const MOST_BUFFERS: usize = 8;
/// Up to this many bytes the driver's own way is as fast: it copies small images itself.
const DIRECT: usize = 1 << 16;
/// Bytes that one thread copies at a time.
const PART: usize = 1 << 18;

/// Page-locked memory for transfers in both directions, made when it is first needed.
#[derive(Default)]
pub(super) struct Staging {
    /// For images on their way to the device.
    pub(super) up: Vec<StagingBuffer>,
    /// For results on their way back.
    pub(super) down: Vec<StagingBuffer>,
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

pub(super) struct StagingBuffer {
    pub(super) memory: Mutex<LockedBuffer<u8>>,
    /// Recorded behind the last transfer from or to this buffer.
    pub(super) done: Event,
}

/// A part of a transfer that fits into a buffer.
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

    /// Copies it to a buffer.
    fn copy_in(self, buffer: &mut [u8], from: HostRows<'_>) {
        let rows = from.range(self.row..self.row + self.rows);
        if self.bytes == from.row_bytes() {
            copy_in(buffer, rows);
        } else {
            copy(&mut buffer[..self.bytes], &rows.at(0)[self.column..][..self.bytes]);
        }
    }

    /// Copies it out of a buffer.
    fn copy_out(self, to: &mut HostRowsMut<'_>, buffer: &[u8]) {
        if self.bytes == to.row_bytes() {
            let (_, rows) = to.reborrow().split_at(self.row);
            copy_out(rows.split_at(self.rows).0, buffer);
        } else {
            copy(&mut to.at_mut(self.row)[self.column..][..self.bytes], &buffer[..self.bytes]);
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
        let parts = if is_direct { Vec::new() } else { parts(to.rows, to.bytes, BUFFER_BYTES) };
        // One more than an image needs, for the next one.
        let buffers = (parts.len() + 1).min(BUFFERS);
        if is_direct || !self.prepare(buffers, 0)? {
            // SAFETY: `to` lies in such an allocation, as this function requires.
            return unsafe { lent.upload(to, from, stream) }.context(ACTION);
        }
        assert_eq!((from.len(), from.row_bytes()), (to.rows, to.bytes), "rows to copy, and bytes of each");
        for part in parts {
            let buffer = &self.up[self.next % buffers];
            self.next = (self.next + 1) % buffers;
            buffer.done.synchronize().context(ACTION)?;
            let mut memory = lock(&buffer.memory);
            part.copy_in(&mut memory, from);
            // SAFETY: the buffer lives as long as the device is open. It is written again when `done` is complete,
            // which is recorded after this copy; or, where recording fails, in another scope, after this one has waited.
            unsafe { lent.upload_from(part.of(to), memory.as_ptr(), part.bytes, stream).context(ACTION)? };
            buffer.done.record(stream).context(ACTION)?;
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
        let parts = if is_direct { Vec::new() } else { parts(from.rows, from.bytes, BUFFER_BYTES) };
        let buffers = parts.len().min(BUFFERS);
        if is_direct || !self.prepare(0, buffers)? {
            // SAFETY: `from` lies in such an allocation, as this function requires.
            return unsafe { lent.download(to, from, stream) }.context(ACTION);
        }
        assert_eq!((to.len(), to.row_bytes()), (from.rows, from.bytes), "rows to copy, and bytes of each");
        // Part i goes through buffer i mod `buffers`; `buffers - 1` of them are under way while one is copied out.
        for step in 0..parts.len() + buffers - 1 {
            if let Some(part) = parts.get(step) {
                let buffer = &self.down[step % buffers];
                // SAFETY: the buffer lives as long as the device is open. It is read when `done` is complete, which is
                // recorded behind this copy; where recording fails, nobody reads it before the scope has waited.
                unsafe {
                    lent.download_to(lock(&buffer.memory).as_mut_ptr(), part.bytes, part.of(from), stream)
                        .context(ACTION)?;
                }
                buffer.done.record(stream).context(ACTION)?;
            }
            if let Some(index) = step.checked_sub(buffers - 1)
                && let Some(part) = parts.get(index)
            {
                let buffer = &self.down[index % buffers];
                if index + 1 == parts.len() {
                    // Nothing comes behind the last part: this is the wait at the end of the scope, too.
                    lent.wait()?;
                } else {
                    buffer.done.synchronize().context(KERNEL)?;
                }
                part.copy_out(&mut to, &lock(&buffer.memory));
            }
        }
        Ok(())
    }

    /// Why images go the driver's own way: the system gave no page-locked memory.
    pub(super) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Makes buffers until there are `up` and `down` of them. Page-locked memory takes long to make: only what is used.
    /// False if the system gives no more of it. It is asked until it refuses.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub(super) fn prepare(&mut self, up: usize, down: usize) -> Result<bool> {
        for (buffers, wanted) in [(&mut self.up, up), (&mut self.down, down)] {
            while buffers.len() < wanted && self.refused.is_none() {
                match StagingBuffer::new() {
                    Ok(buffer) => buffers.push(buffer),
                    Err(error @ Error::DeviceLost { .. }) => return Err(error),
                    Err(error) => self.refused = Some(error.to_string()),
                }
            }
        }
        Ok(self.up.len() >= up && self.down.len() >= down)
    }
}

impl StagingBuffer {
    fn new() -> Result<Self> {
        // SAFETY: a buffer is read only where it was written.
        let memory = unsafe { LockedBuffer::uninitialized(BUFFER_BYTES) }.page_locked(BUFFER_BYTES)?;
        let done = Event::new().context("create an event")?;
        Ok(Self { memory: Mutex::new(memory), done })
    }
}

/// The memory of a buffer. Whoever copies locks it; what the device does with it is ordered by events.
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
        let mut buffer = vec![0; rows * bytes];
        copy_in(&mut buffer, HostRows::of(&view));
        assert!((0..rows).all(|row| buffer[row * bytes..][..bytes] == *view.row(row)));
        let mut to = vec![9; rows * pitch];
        copy_out(HostRowsMut::of(crate::ViewMut::new(bytes, rows, 1, pitch, &mut to).unwrap()), &buffer);
        assert!((0..rows).all(|row| to[row * pitch..][..bytes] == *view.row(row)));
        assert!((0..rows).all(|row| to[row * pitch + bytes..][..3] == [9; 3]));
    }
}
