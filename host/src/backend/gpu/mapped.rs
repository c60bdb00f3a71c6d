//! The way of small images: page-locked memory that the device reads and writes by itself, in one graph of two kernels.
//!
//! A small image takes as long as what is done about it. A copy that the driver starts runs in another unit than kernels do, and each waits for the
//! other some microseconds. So the first kernel copies the source out of the host's memory, the second one convolves it and writes its result there;
//! both are given to the driver in one call that was prepared before. For 200 x 200 `f32` and 13 x 13 that took 32 µs in place of 51 on an
//! H100 (`docs/measurements/2026-11-21-h100-small.md`), of which 11 are the host's copies from and to ordinary memory; for 600 x 600, 151 in place of 459.
//!
//! Where the caller's image or the result lies in page-locked memory already ([`page_locked`](super::page_locked)), the kernels work there.

use std::mem::ManuallyDrop;
use std::ops::Range;

use cust::memory::{DeviceBuffer, DevicePointer, LockedBuffer};

use super::Gpu;
use super::graph::Graph;
use super::lend::DeviceRows;
use super::status::DriverResultExt;
use super::{driver, staging};
use crate::Result;

/// The most bytes of a source or a result on the device: a 1024 x 1024 `f32`, for which it still takes less than half of the other way's time.
pub(super) const MOST: usize = 4 << 20;

/// A row on the device, or in page-locked memory.
#[derive(Clone, Copy)]
pub(super) struct RowBytes {
    /// Bytes of its values.
    pub(super) bytes: usize,
    /// Bytes from its start to the next one's.
    pub(super) pitch: usize,
}

impl RowBytes {
    /// Whether rows without gaps are as the device has them.
    pub(super) fn is_dense(self) -> bool {
        self.bytes == self.pitch
    }

    /// These rows of a buffer, which must have them.
    pub(super) fn of(self, buffer: &DeviceBuffer<u8>, rows: Range<usize>) -> DeviceRows {
        let Self { bytes, pitch } = self;
        assert!(rows.end * pitch <= buffer.len(), "the buffer holds the rows");
        // SAFETY: the first of them lies in the buffer, as was just checked.
        let address = unsafe { buffer.as_device_ptr().add(rows.start * pitch) };
        DeviceRows { address, rows: rows.len(), bytes, pitch }
    }
}

/// Where the device reads a small image and writes its result: its own addresses of page-locked memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) source: DevicePointer<u8>,
    pub(super) result: DevicePointer<u8>,
}

/// The graphs of a convolution, each with its ends.
#[derive(Default)]
pub(super) struct Graphs(Vec<(Ends, Graph)>);

/// The most graphs that are kept: images and results of callers that take turns.
const MOST_GRAPHS: usize = 16;

impl Graphs {
    /// The graph between these ends.
    pub(super) fn get(&self, ends: Ends) -> Option<&Graph> {
        self.0.iter().find(|(known, _)| *known == ends).map(|(_, graph)| graph)
    }

    /// One more graph, in the place of the oldest one where there are many.
    pub(super) fn insert(&mut self, ends: Ends, graph: Graph) {
        if self.0.len() == MOST_GRAPHS {
            self.0.remove(0);
        }
        self.0.push((ends, graph));
    }
}

/// `bytes` bytes that the device finds at `address`, as the launches take them. Never to be dropped: the memory is somebody else's.
///
/// # Safety
/// They are there as long as the view, and nobody else uses them as long as something is launched that does.
pub(super) unsafe fn view(address: DevicePointer<u8>, bytes: usize) -> ManuallyDrop<DeviceBuffer<u8>> {
    // SAFETY: the caller's promise.
    ManuallyDrop::new(unsafe { DeviceBuffer::from_raw_parts(address, bytes) })
}

/// The page-locked memory of a device for one small image and its result, with the device's own view of it.
pub(super) struct Mapped {
    host: (LockedBuffer<u8>, LockedBuffer<u8>),
    pub(super) ends: Ends,
}

impl Mapped {
    fn new() -> Result<Self> {
        const ACTION: &str = "allocate page-locked memory";
        // SAFETY: bytes are read only where they were written: the source by `set_source`, the result by the kernel.
        let allocate = || unsafe { LockedBuffer::uninitialized(MOST) }.context(ACTION);
        let mut host = (allocate()?, allocate()?);
        let address = |memory: &mut LockedBuffer<u8>| driver::mapped(memory).context("map page-locked memory");
        let ends = Ends { source: address(&mut host.0)?, result: address(&mut host.1)? };
        Ok(Self { host, ends })
    }

    /// Copies rows without gaps to where the device reads them.
    pub(super) fn set_source(&mut self, from: &[u8], row: RowBytes) {
        let rows = from.len() / row.bytes;
        let to = &mut self.host.0[..rows * row.pitch];
        if row.is_dense() {
            return staging::copy(to, from);
        }
        for (to, from) in to.chunks_exact_mut(row.pitch).zip(from.chunks_exact(row.bytes)) {
            to[..row.bytes].copy_from_slice(from);
        }
    }

    /// Copies the rows that the device wrote to rows without gaps.
    pub(super) fn result(&self, to: &mut [u8], row: RowBytes) {
        let rows = to.len() / row.bytes;
        let from = &self.host.1[..rows * row.pitch];
        if row.is_dense() {
            return staging::copy(to, from);
        }
        for (to, from) in to.chunks_exact_mut(row.bytes).zip(from.chunks_exact(row.pitch)) {
            to.copy_from_slice(&from[..row.bytes]);
        }
    }
}

impl Gpu {
    /// The device's address of a small image in page-locked memory, if its rows lie there as the kernels need them.
    pub(super) fn end(&self, image: &[u8], row: RowBytes) -> Option<DevicePointer<u8>> {
        /// Bytes that a kernel's accesses are aligned to.
        const ALIGNMENT: u64 = 16;
        let address = self.areas.address(image)?;
        (row.is_dense() && address.as_raw().is_multiple_of(ALIGNMENT)).then_some(address)
    }

    /// The page-locked memory for small images, made when it is first needed.
    pub(super) fn mapped(&self) -> Result<std::cell::RefMut<'_, Mapped>> {
        if self.mapped.get().is_none() {
            let made = Mapped::new()?;
            // Single-threaded: `Gpu` is not Sync, so nobody else filled the place meanwhile.
            let _ = self.mapped.set(made.into());
        }
        Ok(self.mapped.get().expect("filled above").borrow_mut())
    }
}
