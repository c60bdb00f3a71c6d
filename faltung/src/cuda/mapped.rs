//! The way of small images: page-locked memory that the device reads and writes by itself, in one graph of two kernels.
//!
//! A small image takes as long as what is done about it. A copy that the driver starts runs in another unit than
//! kernels do, and each waits for the other some microseconds. So the first kernel copies the source out of the host's
//! memory, the second one convolves it and writes its result there; both are given to the driver in one call that was
//! prepared before. For 200 x 200 `f32` and 13 x 13 that took 32 µs in place of 51 on an H100
//! (`docs/measurements/2026-11-21-h100-small.md`), of which 11 are the host's copies from and to ordinary memory; for
//! 600 x 600, 151 in place of 459.
//!
//! Where the caller's image or the result lies in page-locked memory already ([`page_locked`](super::page_locked)), the
//! kernels work there.

use std::mem::ManuallyDrop;
use std::ops::Range;

use cust::memory::{DeviceBuffer, DevicePointer, LockedBuffer};
use kernels_gpu::util::memcpy::COPY_QUADS;

use super::convolution::Way;
use super::graph::Graph;
use super::launch::{self, Images};
use super::lend::{DeviceRows, lend};
use super::status::DriverResultExt;
use super::{Gpu, GpuConvolution, driver, staging};
use crate::{Error, Result};

/// The most bytes of a source or a result on the device: a 1024 x 1024 `f32`, for which it still takes less than half
/// of the other way's time.
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

/// `bytes` bytes that the device finds at `address`, as the launches take them. Never to be dropped: the memory is
/// somebody else's.
///
/// # Safety
/// They are there as long as the view, and nobody else uses them as long as something is launched that does.
unsafe fn view(address: DevicePointer<u8>, bytes: usize) -> ManuallyDrop<DeviceBuffer<u8>> {
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

/// Why a graph did not run.
pub(super) enum GraphError {
    /// It could not be made; nothing was begun, and there are other ways.
    Prepare(Error),
    /// The device is lost, or failed on the way.
    Run(Error),
}

impl GraphError {
    /// For a failure before anything was begun.
    fn preparing(error: Error) -> Self {
        match error {
            Error::DeviceLost { .. } => Self::Run(error),
            error => Self::Prepare(error),
        }
    }
}

impl GpuConvolution<'_> {
    /// Runs a small image in one graph.
    pub(super) fn run_graph(&mut self, source: &[u8], result: &mut [u8]) -> Result<(), GraphError> {
        let gpu = self.gpu;
        let (from, to) = self.row_bytes();
        // Page-locked memory is allocated in the device's context.
        gpu.enter().map_err(GraphError::Run)?;
        let (own_source, own_result) = (gpu.end(source, from), gpu.end(result, to));
        let ends = match (own_source, own_result) {
            (Some(source), Some(result)) => Ends { source, result },
            _ => {
                let mut mapped = gpu.mapped().map_err(GraphError::preparing)?;
                if own_source.is_none() {
                    mapped.set_source(source, from);
                }
                let Ends { source, result } = mapped.ends;
                Ends { source: own_source.unwrap_or(source), result: own_result.unwrap_or(result) }
            }
        };
        if !matches!(&self.way, Way::Graphs(graphs) if graphs.get(ends).is_some()) {
            let recorded = self.record_graph(ends).map_err(GraphError::preparing)?;
            if let Way::Graphs(graphs) = &mut self.way {
                graphs.insert(ends, recorded);
            }
        }
        let Way::Graphs(graphs) = &self.way else { unreachable!("a graph is run by one that has graphs") };
        let graph = graphs.get(ends).expect("recorded above");
        let written = &mut *result;
        lend(|lent| {
            // Constant memory is not part of the graph: it must hold this mask before each launch.
            self.place_mask(lent)?;
            // SAFETY: the buffers in the graph are this convolution's, and the device's or these two; this convolution
            // and the device are borrowed longer than the scope.
            unsafe { lent.launch(graph, source, written, &gpu.stream) }.context("launch a graph of kernels")
        })
        .map_err(GraphError::Run)?;
        if own_result.is_none() {
            gpu.mapped().map_err(GraphError::Run)?.result(result, to);
        }
        Ok(())
    }

    /// Records what brings the source from page-locked memory and puts the result there.
    fn record_graph(&mut self, ends: Ends) -> Result<Graph> {
        let (module, _) = self.gpu.module(COPY_QUADS.module)?;
        let copy = module.get_function(COPY_QUADS.symbol).context("find the kernel that copies")?;
        let mask = self.mask.buffer();
        let stream = &self.gpu.stream;
        let height = self.plan.params.height as usize;
        let (from, to) = self.row_bytes();
        let bytes = height * from.pitch;
        // SAFETY: page-locked memory has as many rows at these pitches; nothing runs before the graph is launched.
        let (source, mut result) = unsafe { (view(ends.source, bytes), view(ends.result, height * to.pitch)) };
        let launches = self.plan.launches(height, 0..height);
        Graph::record(stream, || {
            launch::copy(&copy, &mut self.source, &source, bytes, stream)?;
            for one in &launches {
                let images = Images { layout: self.layout, source: &self.source, result: &mut result };
                launch::convolution(&self.function, one, images, mask, stream)?;
            }
            Ok(())
        })
    }
}
