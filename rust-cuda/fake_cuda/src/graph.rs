//! Graphs, made by stream capture or node by node.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use crate::code::Code;
use crate::driver::{CONTEXT, Failure, WAITS_OR_FREES, put};
use crate::launch;
use crate::stream::CaptureMode;
use crate::table::Handle;
use crate::work::Work;

/// The work items of a graph, one after the other.
pub(crate) struct Graph {
    pub(crate) context: Handle,
    works: Vec<Work>,
    /// The last node that was added. None in a graph that a capture made.
    last: Option<Handle>,
}

/// A node that a caller has added.
pub(crate) struct GraphNode {
    pub(crate) graph: Handle,
}

/// The driver's description of a kernel node, version 1.
#[repr(C)]
struct KernelNode {
    function: Handle,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    arguments: *const *const c_void,
    extra: *const *const c_void,
}

/// An executable graph.
pub(crate) struct GraphExec {
    pub(crate) context: Handle,
    works: Vec<Work>,
}

driver_functions! {
    /// The mode says which threads must not make unsafe calls.
    fn cuStreamBeginCapture_v2(stream: Handle, mode: c_uint) at CONTEXT, |driver| {
        if stream <= 2 {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED.into());
        }
        let mode = match mode {
            0 => CaptureMode::Global,
            1 => CaptureMode::ThreadLocal,
            2 => CaptureMode::Relaxed,
            _ => return Err(Code::INVALID_VALUE.into()),
        };
        let stream = driver.stream_handle(stream)?;
        driver.begin_capture(stream, mode)
    }

    /// Writes the captured graph, or null if the capture was invalidated.
    fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) at WAITS_OR_FREES, |driver| {
        let stream = driver.stream_handle(stream)?;
        let context = driver.current()?;
        let capture = driver.end_capture(stream)?;
        if capture.is_invalid {
            // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
            unsafe { put(graph, 0) }?;
            return Err(Code::STREAM_CAPTURE_INVALIDATED.into());
        }
        if driver.fails_now() {
            // The call fails, so the caller does not get the graph.
            return Ok(());
        }
        let made = driver.graphs.insert(Graph { context, works: capture.works, last: None });
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(graph, made) }
    }

    /// 1 if the stream is captured, else 0.
    ///
    /// For the legacy default stream the call fails while a blocking stream is captured. The capture stays valid.
    fn cuStreamIsCapturing(stream: Handle, status: *mut c_int) at CONTEXT, |driver| {
        let stream = driver.stream_handle(stream)?;
        if driver.captured_beside(stream)?.is_some() {
            return Err(Code::STREAM_CAPTURE_IMPLICIT.into());
        }
        let is_capturing = driver.is_capturing(stream)?;
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(status, c_int::from(is_capturing)) }
    }

    /// An empty graph.
    fn cuGraphCreate(graph: *mut Handle, flags: c_uint) at CONTEXT, |driver| {
        let context = driver.current()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE.into());
        }
        let made = driver.graphs.insert(Graph { context, works: Vec::new(), last: None });
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(graph, made) }
    }

    /// A graph is a chain: the only dependency of a new node must be the node before it.
    fn cuGraphAddKernelNode(
        node: *mut Handle,
        graph: Handle,
        after: *const Handle,
        count: usize,
        kernel: *const KernelNode,
    ) at CONTEXT, |driver| {
        // SAFETY: the pointers are null or valid, by the contract of all driver functions; `after` for `count` handles.
        let (last, kernel) = unsafe { ((count == 1 && !after.is_null()).then(|| after.read()), kernel.as_ref()) };
        let Some(kernel) = kernel else { return Err(Failure::misuse(Code::INVALID_VALUE, "a node without a kernel")) };
        if count > 1 || driver.graphs.get(graph)?.last != last {
            return Err(Failure::misuse(Code::NOT_SUPPORTED, "a node that does not come after the last one alone"));
        }
        if !kernel.extra.is_null() {
            return Err(Code::NOT_SUPPORTED.into());
        }
        let shape = (kernel.grid, kernel.block, kernel.shared_bytes);
        // SAFETY: the arguments fit the kernel's parameters, by the contract of all driver functions.
        let work = unsafe { launch::work(driver, kernel.function, shape, kernel.arguments) }?;
        let made = driver.graph_nodes.insert(GraphNode { graph });
        let graph = driver.graphs.get_mut(graph)?;
        graph.works.push(work);
        graph.last = Some(made);
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(node, made) }
    }

    /// The executable graph is independent of the graph.
    fn cuGraphInstantiateWithFlags(made: *mut Handle, graph: Handle, _flags: c_ulonglong) at CONTEXT, |driver| {
        let context = driver.current()?;
        let works = driver.graphs.get(graph)?.works.clone();
        let handle = driver.graph_execs.insert(GraphExec { context, works });
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(made, handle) }
    }

    /// Enqueues the work items in the order of the capture.
    fn cuGraphLaunch(graph: Handle, stream: Handle) at CONTEXT, |driver| {
        let stream = driver.stream_handle(stream)?;
        let works = driver.graph_execs.get(graph)?.works.clone();
        works.into_iter().try_for_each(|work| driver.enqueue(stream, work).map(|_| ()))
    }

    /// Executable graphs stay valid.
    fn cuGraphDestroy(graph: Handle) at WAITS_OR_FREES, |driver| {
        driver.graphs.remove(graph)?;
        driver.graph_nodes.retain(|node| node.graph != graph);
        Ok(())
    }

    /// Work that was launched continues.
    fn cuGraphExecDestroy(graph: Handle) at WAITS_OR_FREES, |driver| {
        driver.graph_execs.remove(graph).map(|_| ())
    }
}
