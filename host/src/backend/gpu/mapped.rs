//! The way of small images: page-locked memory that the device reads and writes by itself, in one graph of two kernels.
//!
//! A small image takes as long as what is done about it. A copy that the driver starts runs in another unit than kernels do, and each waits for the
//! other some microseconds. So the first kernel copies the source out of the host's memory, the second one convolves it and writes its result there;
//! both are given to the driver in one call that was prepared before. For 200 x 200 `f32` and 13 x 13 that took 32 µs in place of 51 on an
//! H100 (`docs/measurements/2026-11-21-h100-small.md`), of which 11 are the host's copies from and to ordinary memory; for 600 x 600, 151 in place of 459.

use std::mem::ManuallyDrop;

use cust::memory::{DeviceBuffer, LockedBuffer};

use super::Gpu;
use super::driver::{self, DuringAction, Graph};
use super::staging;
use crate::{Error, Result};

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

/// What a convolution knows of its short way.
pub(super) enum Shortcut {
    /// It has not run yet.
    Untried,
    /// It ran once, and the next run is worth a graph.
    Next,
    /// Both kernels, ready to be launched.
    Recorded(Graph),
    /// The image is too large, or the driver can't.
    None,
}

/// The page-locked memory of a device for one small image and its result, with the device's own view of it.
pub(super) struct Mapped {
    host: (LockedBuffer<u8>, LockedBuffer<u8>),
    // Never dropped: the memory is the host's.
    pub(super) source: ManuallyDrop<DeviceBuffer<u8>>,
    pub(super) result: ManuallyDrop<DeviceBuffer<u8>>,
}

impl Mapped {
    fn new() -> Result<Self> {
        const ACTION: &str = "allocate page-locked memory";
        // SAFETY: bytes are read only where they were written: the source by `set_source`, the result by the kernel.
        let allocate = || unsafe { LockedBuffer::uninitialized(MOST) }.to(ACTION);
        let mut host = (allocate()?, allocate()?);
        let view = |memory: &mut LockedBuffer<u8>| -> Result<_, Error> {
            let address = driver::mapped(memory).to("map page-locked memory")?;
            // SAFETY: the address is that of `MOST` bytes, which live as long as the view.
            Ok(ManuallyDrop::new(unsafe { DeviceBuffer::from_raw_parts(address, MOST) }))
        };
        let (source, result) = (view(&mut host.0)?, view(&mut host.1)?);
        Ok(Self { host, source, result })
    }

    /// Copies rows without gaps to where the device reads them.
    pub(super) fn set_source(&mut self, from: &[u8], row: RowBytes) {
        let rows = from.len() / row.bytes;
        let to = &mut self.host.0[..rows * row.pitch];
        if row.bytes == row.pitch {
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
        if row.bytes == row.pitch {
            return staging::copy(to, from);
        }
        for (to, from) in to.chunks_exact_mut(row.bytes).zip(from.chunks_exact(row.pitch)) {
            to.copy_from_slice(&from[..row.bytes]);
        }
    }
}

impl Gpu {
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
