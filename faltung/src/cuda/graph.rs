//! Kernels that are prepared once, to be given to a stream as a whole.
//!
//! The nodes are added one by one. A stream capture would make the same graph, but other threads would notice it. The
//! CUDA programming guide says that a context must not be synchronised while one of its streams is captured. That holds
//! in all modes of the capture: the call fails, and so does the capture.

use std::cell::Cell;

use cust::sys::{CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphExec, CUgraphNode};

use super::status::{DriverResultExt, Failure, checked};
use crate::Result;

unsafe extern "C" {
    fn cuGraphCreate(graph: *mut CUgraph, flags: u32) -> u32;
    fn cuGraphAddKernelNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        kernel: *const CUDA_KERNEL_NODE_PARAMS,
    ) -> u32;
    fn cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: u64) -> u32;
    fn cuGraphDestroy(graph: CUgraph) -> u32;
    fn cuGraphExecDestroy(exec: CUgraphExec) -> u32;
}

/// Kernels in a fixed order. [`Lent::launch`](super::lend::Lent::launch) gives them to a stream.
///
/// It holds addresses of memory, and keeps none of it alive.
pub(super) struct Graph(CUgraphExec);

// SAFETY: the driver's functions on a graph may be called from any thread, by one at a time; `Graph` gives no shared
// access to it but for launches, which the workspace that owns it does one after the other.
unsafe impl Send for Graph {}

/// A graph to which kernels are added. Each runs after the one before it.
pub(super) struct GraphBuilder {
    graph: CUgraph,
    last: Cell<Option<CUgraphNode>>,
}

impl GraphBuilder {
    fn new() -> Result<Self, Failure> {
        let mut graph = std::ptr::null_mut();
        // SAFETY: the driver writes one handle.
        checked(unsafe { cuGraphCreate(&raw mut graph, 0) })?;
        Ok(Self { graph, last: Cell::new(None) })
    }

    /// Adds a kernel. The driver copies its arguments before this returns.
    ///
    /// # Safety
    /// - The arguments of `kernel` are pointers to a value for each parameter of its function.
    /// - All launches of the graph keep what [`launch`](super::launch) requires for this kernel.
    pub(super) unsafe fn add(&self, kernel: &CUDA_KERNEL_NODE_PARAMS) -> Result<(), Failure> {
        let mut node = std::ptr::null_mut();
        let after = self.last.get();
        let (nodes, count) = after.as_ref().map_or((std::ptr::null(), 0), |node| (std::ptr::from_ref(node), 1));
        // SAFETY: the graph is open and has the node. The arguments fit, as this function requires. The driver writes
        // one handle.
        checked(unsafe { cuGraphAddKernelNode(&raw mut node, self.graph, nodes, count, kernel) })?;
        self.last.set(Some(node));
        Ok(())
    }
}

impl Drop for GraphBuilder {
    fn drop(&mut self) {
        // SAFETY: the handle is the driver's, and what was made of it stands by itself. A failure leaves it in the
        // context until that ends.
        let _ = checked(unsafe { cuGraphDestroy(self.graph) });
    }
}

impl Graph {
    /// The graph of the kernels that `work` adds.
    pub(super) fn build(work: impl FnOnce(&GraphBuilder) -> Result<()>) -> Result<Self> {
        const ACTION: &str = "build a graph of launches";
        let graph = GraphBuilder::new().context(ACTION)?;
        work(&graph)?;
        let mut exec = std::ptr::null_mut();
        // SAFETY: the graph is whole; the driver writes a handle.
        checked(unsafe { cuGraphInstantiateWithFlags(&raw mut exec, graph.graph, 0) }).context(ACTION)?;
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
