//! Calls on device arrays: the device, the stream, and who keeps what.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use faltung::{Device, Event, Stream};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use super::array::DeviceArray;
use super::exception;
use crate::array::has_overlap;
use crate::forks;

/// The process that used a GPU first, and its [generation](forks::generation); 0 if none did.
static USER: AtomicU64 = AtomicU64::new(0);

/// Returns the driver's answer, and notes that this process has used the driver.
///
/// Where there is no driver, nothing is noted: a child of `fork` may ask again.
pub(super) fn noted<T>(answer: faltung::Result<T>) -> faltung::Result<T> {
    if !matches!(answer, Err(faltung::Error::NoDevice { .. })) && USER.load(Ordering::Relaxed) == 0 {
        // Another thread of this process may do the same.
        let generation = u64::from(forks::generation());
        USER.store(u64::from(std::process::id()) << 32 | generation, Ordering::Relaxed);
    }
    answer
}

/// Checks that this process may use a GPU.
///
/// # Errors
/// `RuntimeError` in a child of `fork` whose parent used one.
pub(super) fn check_process() -> PyResult<()> {
    let generation = u64::from(forks::generation());
    let used = USER.load(Ordering::Relaxed);
    if used == 0 || used & u64::from(u32::MAX) == generation {
        return Ok(());
    }
    let (process, user) = (std::process::id(), used >> 32);
    Err(PyRuntimeError::new_err(format!(
        "faltung: process {process} was forked from process {user} after that had used a GPU. CUDA does not work in \
         such a process; start processes by \"spawn\" or \"forkserver\". NumPy arrays can be filtered."
    )))
}

/// The CUDA device with this number, open until the process ends.
///
/// # Errors
/// `RuntimeError` if there is none, or in a child of `fork`.
pub(crate) fn open(py: Python<'_>, number: usize) -> PyResult<Device> {
    /// More devices than a machine has.
    const MOST: usize = 64;
    static DEVICES: [OnceLock<Device>; MOST] = [const { OnceLock::new() }; MOST];
    check_process()?;
    let Some(place) = DEVICES.get(number) else {
        return Err(PyValueError::new_err(format!(
            "the device must be cuda:0 to cuda:{}, not cuda:{number}",
            MOST - 1
        )));
    };
    if let Some(device) = place.get() {
        return Ok(device.clone());
    }
    let device = noted(py.detach(|| Device::cuda(number))).map_err(exception)?;
    Ok(place.get_or_init(|| device).clone())
}

/// The stream with this handle, which another library owns.
fn stream(device: &Device, handle: usize) -> faltung::Result<Stream> {
    // SAFETY: the handle is the current stream of a library, or the one that an array names. Its owner keeps it open
    // during the call. The images of the call own no memory, and only events outlive the call. A call takes place in
    // one thread.
    unsafe { Stream::from_raw(device, std::ptr::with_exposed_provenance_mut(handle)) }
}

/// Arrays that must live until their work is done, each with an event after that work.
static IN_USE: Mutex<Vec<(Event, Py<DeviceArray>)>> = Mutex::new(Vec::new());

/// Enqueues work that reads `input` and writes `output` on the stream of `input`, and does not wait for it. `work`
/// enqueues it, without the GIL.
///
/// If `output` has another stream, the device orders both streams: earlier work of that stream runs before this work,
/// and its later work runs after.
///
/// # Errors
/// `ValueError` if the arrays are on different devices, or `output` is read-only or has elements that overlap; what
/// [`exception`] makes of the library's errors; `RuntimeError` in a child of `fork`.
pub(crate) fn enqueue<R: Send>(
    input: &Bound<'_, DeviceArray>,
    output: &Bound<'_, DeviceArray>,
    work: impl FnOnce(&Device, &Stream) -> faltung::Result<R> + Send,
) -> PyResult<R> {
    let py = input.py();
    let (from, to) = (input.get(), output.get());
    if from.device != to.device {
        let (required, found) = (from.device, to.device);
        return Err(PyValueError::new_err(format!(
            "output must be on the input's device, cuda:{required}, not on cuda:{found}"
        )));
    }
    if to.read_only {
        return Err(PyValueError::new_err("output must be writable, this array is read-only"));
    }
    if has_overlap(to.item_size, &to.shape, &to.strides) {
        return Err(PyValueError::new_err("the elements of output must not overlap in memory"));
    }
    let device = open(py, from.device)?;
    let is_kept = [from, to].map(|array| !array.library.frees_in_stream_order() && !array.is_of_module());
    let (result, event) = py
        .detach(|| {
            let own = stream(&device, from.stream)?;
            let other = (from.stream != to.stream).then(|| stream(&device, to.stream)).transpose()?;
            if let Some(other) = &other {
                own.wait_for(&other.record()?)?;
            }
            let result = work(&device, &own);
            if let Some(other) = &other {
                other.wait_for(&own.record()?)?;
            }
            let event = if is_kept == [false; 2] { None } else { Some(own.record()?) };
            Ok((result, event))
        })
        .map_err(exception)?;
    if let Some(event) = event {
        let mut in_use = lock();
        for (array, _) in [input, output].into_iter().zip(is_kept).filter(|(_, is_kept)| *is_kept) {
            in_use.push((event.clone(), array.clone().unbind()));
        }
        drop(in_use);
        release(py, false);
    }
    result.map_err(exception)
}

fn lock() -> std::sync::MutexGuard<'static, Vec<(Event, Py<DeviceArray>)>> {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops the arrays whose work is done. If `waits`, waits for the work of all.
fn release(py: Python<'_>, waits: bool) {
    let all = std::mem::take(&mut *lock());
    // An event that returns an error belongs to a lost device, which uses no array.
    let is_done = |event: &Event| if waits { event.synchronize().map(|()| true) } else { event.is_complete() };
    let is_done = |event: &Event| is_done(event).unwrap_or(true);
    let is_done: Vec<bool> = py.detach(|| all.iter().map(|(event, _)| is_done(event)).collect());
    let (mut done, mut rest) = (Vec::new(), Vec::new());
    for (array, is_done) in all.into_iter().zip(is_done) {
        if is_done { done.push(array) } else { rest.push(array) }
    }
    lock().extend(rest);
    // The lock is released, because this drop runs code of the arrays' libraries.
    drop(done);
}

/// Drops the references to arrays of libraries other than CuPy, PyTorch and Numba whose work is done. With
/// ``wait=True`` waits for the work first. Called at the end of the interpreter.
#[pyfunction]
#[pyo3(signature = (wait = false))]
pub(super) fn release_finished(py: Python<'_>, wait: bool) {
    if check_process().is_ok() {
        release(py, wait);
    }
}

/// Orders later work of the consumer's stream, on the device, after all work that the array's stream has now.
pub(super) fn follow(array: &Bound<'_, DeviceArray>, consumer: usize) -> PyResult<()> {
    let (py, array) = (array.py(), array.get());
    if array.stream == consumer {
        return Ok(());
    }
    let device = open(py, array.device)?;
    py.detach(|| stream(&device, consumer)?.wait_for(&stream(&device, array.stream)?.record()?)).map_err(exception)
}
