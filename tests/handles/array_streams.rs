//! Filters on arrays on streams of another library: many filters, none of which is waited for, and graphs.

use std::sync::mpsc::channel;

use cust::context::{Context, CurrentContext};
use cust::error::CudaError;
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::sys::{self, CUresult, CUstream, CUstreamCaptureMode_enum};
use faltung::nd::{DeviceArray, Element, Input, Layout, Lines, Output, Sums, correlate1d};
use faltung::{BorderMode, Device};

use super::context::{Restored, driver, enter_primary};
use super::{Checked, Test, ensure, words};

pub(crate) const OF_CUDA: &[Test] =
    &[("array_filters_beside_a_capture", beside_a_capture), ("array_filters_in_a_graph", in_a_graph)];

/// More filters than the library keeps on the device.
const FILTERS: usize = 150;

/// Elements of an array.
const LENGTH: usize = 50;

const LINES: Lines = Lines { axis: 0, origin: 0, border: BorderMode::Wrap, value: 0.0 };

/// The weights of a filter. No two filters are equal, and all have as many weights.
fn weights(filter: usize) -> [f64; 4] {
    [1.0 + filter as f64, -2.0, 0.25, 4.0]
}

fn values() -> Vec<f64> {
    (0..LENGTH).map(|i| (i * i % 17) as f64 - 3.5).collect()
}

/// A stream with the flag `CU_STREAM_NON_BLOCKING`, which `cust` removes. Without it, work that other tests give the
/// default stream would end a capture.
struct Stream(CUstream);

impl Stream {
    fn new() -> Result<Self, CudaError> {
        const NON_BLOCKING: u32 = 1;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the driver writes one handle.
        match unsafe { sys::cuStreamCreate(&raw mut handle, NON_BLOCKING) } {
            CUresult::CUDA_SUCCESS => Ok(Self(handle)),
            _ => Err(CudaError::UnknownError),
        }
    }

    fn synchronize(&self) -> Checked {
        // SAFETY: the stream is open.
        driver("wait", unsafe { sys::cuStreamSynchronize(self.0) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: nobody else has the stream.
        let _ = unsafe { sys::cuStreamDestroy_v2(self.0) };
    }
}

/// Another library of the process, with an array of its own.
struct Library<'a> {
    device: &'a Device,
    stream: Stream,
    input: DeviceBuffer<f64>,
    _context: Context,
}

impl<'a> Library<'a> {
    fn new(device: &'a Device) -> Result<Self, String> {
        let context = enter_primary(device)?;
        let open = || {
            let stream = Stream::new()?;
            let input = DeviceBuffer::from_slice(&values())?;
            // The copy may be under way, and the stream does not wait for it.
            CurrentContext::synchronize()?;
            Ok(Self { device, stream, input, _context: context })
        };
        open().map_err(|error: CudaError| error.to_string())
    }

    /// Memory for as many results as there are filters.
    fn results(&self, filters: usize) -> Result<DeviceBuffer<f64>, String> {
        DeviceBuffer::from_slice(&vec![f64::NAN; filters * LENGTH])
            .and_then(|results| CurrentContext::synchronize().map(|()| results))
            .map_err(|error| error.to_string())
    }

    /// Enqueues a filter whose results go to a place of the results.
    fn filter(&self, filter: usize, results: &DeviceBuffer<f64>, place: usize) -> Checked {
        let layout = Layout::dense(Element::F64, &[LENGTH]);
        let input = DeviceArray { address: self.input.as_device_ptr().as_raw(), layout: &layout };
        let address = results.as_device_ptr().as_raw() + (place * LENGTH * size_of::<f64>()) as u64;
        let output = DeviceArray { address, layout: &layout };
        let stream = self.stream.0.expose_provenance() as u64;
        // SAFETY: the memory has the arrays' elements, lives until the stream was waited for, and nothing else uses it.
        unsafe { self.device.correlate1d_array(input, output, &weights(filter), &LINES, Sums::F64, stream) }
            .map_err(words)
    }

    /// Waits for the stream, and compares each place of the results with those of a filter.
    fn compare(&self, results: &DeviceBuffer<f64>, filters: impl Iterator<Item = usize>) -> Checked {
        self.stream.synchronize()?;
        let mut found = vec![0.0; results.len()];
        results.copy_to(&mut found).map_err(|error| error.to_string())?;
        for (found, filter) in found.chunks(LENGTH).zip(filters) {
            let (layout, from, mut right) = (Layout::dense(Element::F64, &[LENGTH]), values(), vec![0.0; LENGTH]);
            // SAFETY: both have the layout's elements, and nothing else uses them.
            let (input, output) = unsafe {
                let output = Output::from_raw(right.as_mut_ptr().cast(), layout.clone());
                (Input::from_raw(from.as_ptr().cast(), layout).map_err(words)?, output.map_err(words)?)
            };
            correlate1d(input, output, &weights(filter), &LINES, Sums::F64).map_err(words)?;
            ensure(found == right, || format!("the results of filter {filter} are those of another one"))?;
        }
        Ok(())
    }
}

/// A graph that a stream captured.
pub(super) struct Captured(sys::CUgraph);

impl Captured {
    /// Captures what `enqueue` gives the stream.
    pub(super) fn new(stream: CUstream, enqueue: impl FnOnce() -> Checked) -> Result<Self, String> {
        let mode = CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is open.
        driver("begin a capture", unsafe { sys::cuStreamBeginCapture_v2(stream, mode) })?;
        let enqueued = enqueue();
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream is open, and the driver writes one handle.
        let ended = driver("end a capture", unsafe { sys::cuStreamEndCapture(stream, &raw mut graph) });
        enqueued.and(ended).map(|()| Self(graph))
    }

    /// Runs the graph on the stream, and waits.
    fn run(&self, stream: &Stream) -> Checked {
        let mut made = std::ptr::null_mut();
        // SAFETY: the graph and the stream are open, and the driver writes one handle.
        driver("make a graph", unsafe { sys::cuGraphInstantiateWithFlags(&raw mut made, self.0, 0) })?;
        // SAFETY: as above.
        let launched = driver("launch a graph", unsafe { sys::cuGraphLaunch(made, stream.0) });
        let waited = stream.synchronize();
        // SAFETY: the graph has run.
        launched.and(waited).and(driver("drop a graph", unsafe { sys::cuGraphExecDestroy(made) }))
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        // SAFETY: nobody else has the graph.
        let _ = unsafe { sys::cuGraphDestroy(self.0) };
    }
}

/// While another thread captures a graph, a thread may use any number of filters. Their weights stay as long as
/// launches read them.
fn beside_a_capture(device: &Device) -> Checked {
    let _restored = Restored::keep();
    let library = Library::new(device)?;
    let results = library.results(FILTERS)?;
    std::thread::scope(|scope| {
        let ((begun, is_begun), (end, is_end)) = (channel(), channel::<()>());
        let other = scope.spawn(move || {
            let other = Library::new(device)?;
            let graph = Captured::new(other.stream.0, || {
                begun.send(()).map_err(|error| error.to_string())?;
                // The filters are used until the other end is dropped.
                let _ = is_end.recv();
                Ok(())
            });
            graph.map(drop)
        });
        is_begun.recv().map_err(|_| "the capture did not begin".to_owned())?;
        let filtered = (0..FILTERS).try_for_each(|filter| library.filter(filter, &results, filter));
        drop(end);
        let other: Checked = other.join().unwrap_or_else(|panic| Err(super::message(panic)));
        filtered.and(other.map_err(|error| format!("in the other thread: {error}")))
    })?;
    library.compare(&results, 0..FILTERS)
}

/// A graph has its filter's weights whenever it runs, also after many other filters.
fn in_a_graph(device: &Device) -> Checked {
    let _restored = Restored::keep();
    let library = Library::new(device)?;
    let results = library.results(FILTERS)?;
    // The first use copies the weights.
    library.filter(0, &results, 0)?;
    library.compare(&results, std::iter::once(0))?;
    let of_graph = library.results(1)?;
    let graph = Captured::new(library.stream.0, || library.filter(0, &of_graph, 0))?;
    for filter in 1..FILTERS {
        library.filter(filter, &results, filter)?;
    }
    library.compare(&results, 0..FILTERS)?;
    graph.run(&library.stream)?;
    library.compare(&of_graph, std::iter::once(0))
}
