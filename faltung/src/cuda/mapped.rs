//! Runs small images in one graph of two kernels, which read and write page-locked memory of the host.
//!
//! The time of a small image is that of launches and waits. A copy of the driver runs in a copy engine. Kernels and the
//! copy engine wait for each other for some microseconds. So the first kernel copies the source out of the host's
//! memory. The second one convolves it and writes its result to the host's memory. One call launches both, as a graph
//! that was built before. On an H100, 200 x 200 `f32` with 13 x 13 took 32 µs in place of 51
//! (`docs/kernels/small-images.md`). Of these, 11 are the host's copies from and to ordinary memory. 600 x 600 took
//! 151 µs in place of 459.
//!
//! Where the caller's image or the result lies in page-locked memory already ([`page_locked`](super::page_locked)), the
//! kernels work there.

use std::ops::Range;

use cust::memory::LockedBuffer;
use kernels_gpu::util::memcpy::COPY_QUADS;

use super::convolution::{GpuConvolution, ImageArea, Workspace};
use super::graph::Graph;
use super::kernel::Buffers;
use super::lane::Lane;
use super::launch::{self, Area};
use super::lend::{DeviceRows, lend};
use super::status::{DriverResultExt, PageLockedResultExt};
use super::{Gpu, driver, staging};
use crate::plan::Rows;
use crate::rows::{HostRows, HostRowsMut};
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

    /// These rows of an area, which must have them.
    pub(super) fn of(self, area: Area, rows: Range<usize>) -> DeviceRows {
        let Self { bytes, pitch } = self;
        assert!(rows.end * pitch <= area.bytes, "the area holds the rows");
        let address = area.address + (rows.start * pitch) as u64;
        DeviceRows { address, rows: rows.len(), bytes, pitch }
    }
}

/// Rows of images begin at multiples of this many bytes.
const ALIGNMENT: u64 = 32;

impl RowBytes {
    /// Whether an image of the device lies as the kernels want it: rows at this pitch, which begin where they shall,
    /// with memory behind the last one that a vector may touch.
    pub(super) fn suits(self, image: ImageArea, height: usize) -> bool {
        let ImageArea { area, pitch } = image;
        pitch == self.pitch && area.address.is_multiple_of(ALIGNMENT) && area.bytes >= height * pitch
    }

    /// All rows of an area, which may end with the last one.
    pub(super) fn all(self, area: Area, height: usize) -> DeviceRows {
        let Self { bytes, pitch } = self;
        assert!((height - 1) * pitch + bytes <= area.bytes, "the area holds the rows");
        DeviceRows { address: area.address, rows: height, bytes, pitch }
    }
}

/// Where the device reads a small image and writes its result: its own addresses of page-locked memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) source: u64,
    pub(super) result: u64,
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

/// The page-locked memory of a device for one small image and its result, with the device's own view of it.
pub(super) struct Mapped {
    host: (LockedBuffer<u8>, LockedBuffer<u8>),
    pub(super) ends: Ends,
}

impl Mapped {
    fn new() -> Result<Self> {
        // SAFETY: bytes are read only where they were written: the source by `set_source`, the result by the kernel.
        let allocate = || unsafe { LockedBuffer::uninitialized(MOST) }.page_locked(MOST);
        let mut host = (allocate()?, allocate()?);
        let address = |memory: &mut LockedBuffer<u8>| driver::mapped(memory).context("map page-locked memory");
        let ends = Ends { source: address(&mut host.0)?, result: address(&mut host.1)? };
        Ok(Self { host, ends })
    }

    /// Copies rows to where the device reads them, `pitch` bytes apart.
    pub(super) fn set_source(&mut self, from: HostRows<'_>, pitch: usize) {
        let to = &mut self.host.0[..from.len() * pitch];
        if pitch == from.row_bytes() {
            return staging::copy_in(to, from);
        }
        for (row, to) in to.chunks_exact_mut(pitch).enumerate() {
            to[..from.row_bytes()].copy_from_slice(from.at(row));
        }
    }

    /// Copies the rows that the device wrote, `pitch` bytes apart.
    pub(super) fn result(&self, mut to: HostRowsMut<'_>, pitch: usize) {
        let from = &self.host.1[..to.len() * pitch];
        if pitch == to.row_bytes() {
            return staging::copy_out(to, from);
        }
        let bytes = to.row_bytes();
        for (row, from) in from.chunks_exact(pitch).enumerate() {
            to.at_mut(row).copy_from_slice(&from[..bytes]);
        }
    }
}

impl Gpu {
    /// The device's address of a small image in page-locked memory, if its rows lie there as the kernels need them:
    /// without gaps, and so on the device, too.
    pub(super) fn end(&self, span: *const [u8], is_dense: bool) -> Option<u64> {
        /// Bytes that a kernel's accesses are aligned to.
        const ALIGNMENT: u64 = 16;
        let address = self.areas.address(span)?;
        (is_dense && address.is_multiple_of(ALIGNMENT)).then_some(address)
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

impl GpuConvolution {
    /// Runs a small image in one graph.
    pub(super) fn run_graph(
        &self,
        lane: &mut Lane,
        workspace: &mut Workspace,
        source: HostRows<'_>,
        mut result: HostRowsMut<'_>,
    ) -> Result<(), GraphError> {
        let gpu = self.gpu();
        let (from, to) = self.row_bytes();
        // Page-locked memory is allocated in the device's context.
        let _entered = gpu.enter().map_err(GraphError::Run)?;
        let own_source = gpu.end(source.span(), from.is_dense() && source.dense().is_some());
        let is_dense = to.is_dense() && result.dense_mut().is_some();
        let own_result = gpu.end(result.span(), is_dense);
        if (own_source.is_none() || own_result.is_none()) && lane.mapped.is_none() {
            lane.mapped = Some(Mapped::new().map_err(GraphError::preparing)?);
        }
        if let Some(mapped) = &mut lane.mapped
            && own_source.is_none()
        {
            mapped.set_source(source, from.pitch);
        }
        let ends = lane.mapped.as_ref().map(|mapped| mapped.ends);
        let ends = Ends {
            source: own_source.or(ends.map(|ends| ends.source)).expect("made above"),
            result: own_result.or(ends.map(|ends| ends.result)).expect("made above"),
        };
        if workspace.graphs.get(ends).is_none() {
            let built = self.build_graph(workspace, ends).map_err(GraphError::preparing)?;
            workspace.graphs.insert(ends, built);
        }
        let graph = workspace.graphs.get(ends).expect("built above");
        let written = result.reborrow();
        lend(|lent| {
            // SAFETY: the blocks in the graph are the workspace's, and the lane's page-locked memory or these two; all
            // are borrowed longer than the scope.
            unsafe { lent.launch(graph, source, written, &lane.main) }.context("launch a graph of kernels")
        })
        .map_err(GraphError::Run)?;
        if let Some(mapped) = &lane.mapped
            && own_result.is_none()
        {
            mapped.result(result, to.pitch);
        }
        Ok(())
    }

    /// The graph that brings the source from page-locked memory and puts the result there.
    fn build_graph(&self, workspace: &Workspace, ends: Ends) -> Result<Graph> {
        let module = self.gpu().module(COPY_QUADS.module)?;
        let copy = module.get_function(COPY_QUADS.symbol).context("find the kernel that copies")?;
        let (from, to) = self.row_bytes();
        let height = self.height();
        let bytes = height * from.pitch;
        let source = Area { address: ends.source, bytes };
        let result = Area { address: ends.result, bytes: height * to.pitch };
        Graph::build(|graph| {
            // SAFETY: nothing runs before the graph is launched; then `run_graph` keeps all of it alive and to itself.
            unsafe {
                launch::copy(&copy, workspace.source.area(), source, bytes, graph.into())?;
                self.kernel().launch(Buffers { result, ..workspace.buffers() }, &Rows::of(height, 0..height), graph)
            }
        })
    }
}
