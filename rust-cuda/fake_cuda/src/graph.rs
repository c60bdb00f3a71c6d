//! Graphs from stream capture.

use std::ffi::{c_int, c_uint, c_ulonglong};

use crate::code::Code;
use crate::driver::{CONTEXT, WAITS_OR_FREES, put};
use crate::table::Handle;
use crate::work::Work;

/// The captured work items.
pub(crate) struct Graph {
    pub(crate) context: Handle,
    works: Vec<Work>,
}

/// An executable graph.
pub(crate) struct GraphExec {
    pub(crate) context: Handle,
    works: Vec<Work>,
}

driver_functions! {
    /// In every mode only calls of this thread are refused during the capture.
    fn cuStreamBeginCapture_v2(stream: Handle, _mode: c_uint) at CONTEXT, |driver| {
        if stream <= 2 {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED.into());
        }
        let stream = driver.stream_handle(stream)?;
        driver.begin_capture(stream)
    }

    /// Null if the capture was invalidated.
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
        let made = driver.graphs.insert(Graph { context, works: capture.works });
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(graph, made) }
    }

    /// The status of the capture, 0 or 1.
    fn cuStreamIsCapturing(stream: Handle, status: *mut c_int) at CONTEXT, |driver| {
        let stream = driver.stream_handle(stream)?;
        let is_capturing = driver.is_capturing(stream)?;
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(status, c_int::from(is_capturing)) }
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
        driver.graphs.remove(graph).map(|_| ())
    }

    /// Work that was launched continues.
    fn cuGraphExecDestroy(graph: Handle) at WAITS_OR_FREES, |driver| {
        driver.graph_execs.remove(graph).map(|_| ())
    }
}
