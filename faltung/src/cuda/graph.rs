//! Work that was recorded once, to be given to a stream as a whole.

use cust::stream::Stream;
use cust::sys::{CUgraph, CUgraphExec, CUstream, CUstreamCaptureMode};

use super::status::{DriverResultExt, Failure, checked};
use crate::Result;

unsafe extern "C" {
    fn cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode) -> u32;
    fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) -> u32;
    fn cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: u64) -> u32;
    fn cuGraphDestroy(graph: CUgraph) -> u32;
    fn cuGraphExecDestroy(exec: CUgraphExec) -> u32;
}

/// Recorded work. [`Lent::launch`](super::lend::Lent::launch) gives it to a stream.
///
/// It holds addresses of memory, and keeps none of it alive.
pub(super) struct Graph(CUgraphExec);

// SAFETY: the driver's functions on a graph may be called from any thread, by one at a time; `Graph` gives no shared
// access to it but for launches, which the workspace that owns it does one after the other.
unsafe impl Send for Graph {}

/// A stream that records what it is given, until this is dropped: a panic ends the recording, too.
struct Recording<'a> {
    stream: &'a Stream,
    /// Whether the stream still records.
    is_open: bool,
}

impl<'a> Recording<'a> {
    fn begin(stream: &'a Stream) -> Result<Self, Failure> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is open.
        checked(unsafe { cuStreamBeginCapture_v2(stream.as_inner(), mode) })?;
        Ok(Self { stream, is_open: true })
    }

    fn end(&mut self) -> Result<Recorded, Failure> {
        let mut graph = Recorded(std::ptr::null_mut());
        // SAFETY: ends what was begun; the driver writes a handle, or null. A recording that failed has ended, too.
        let ended = checked(unsafe { cuStreamEndCapture(self.stream.as_inner(), &raw mut graph.0) });
        self.is_open = false;
        ended.map(|()| graph)
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // What was recorded is not wanted. A failure means that the driver has ended the recording itself.
            let _ = self.end();
        }
    }
}

/// What was recorded.
struct Recorded(CUgraph);

impl Drop for Recorded {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the handle is the driver's, and what was made of it stands by itself. A failure leaves it in the
            // context until that ends.
            let _ = checked(unsafe { cuGraphDestroy(self.0) });
        }
    }
}

impl Graph {
    /// Records what `work` gives to the stream, which does none of it.
    pub(super) fn record(stream: &Stream, work: impl FnOnce() -> Result<()>) -> Result<Self> {
        const ACTION: &str = "record a graph of launches";
        let mut recording = Recording::begin(stream).context(ACTION)?;
        work()?;
        let recorded = recording.end().context(ACTION)?;
        let mut exec = std::ptr::null_mut();
        // SAFETY: the graph is whole; the driver writes a handle.
        checked(unsafe { cuGraphInstantiateWithFlags(&raw mut exec, recorded.0, 0) }).context(ACTION)?;
        Ok(Self(exec))
    }

    /// The driver's handle.
    pub(super) fn handle(&self) -> CUgraphExec {
        self.0
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: the handle is the graph's own. One that still runs is freed when it is done, as the driver API's
        // documentation says. A failure means that the device is lost, and the graph with it.
        let _ = checked(unsafe { cuGraphExecDestroy(self.0) });
    }
}
