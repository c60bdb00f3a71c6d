//! Correlation of two-dimensional arrays of `float32` by the library's kernels.

use std::borrow::Cow;
use std::sync::Arc;

use faltung::nd::{Correlation, Sums};
use faltung::{
    Border, BorderMode, Device, DeviceImage, Error, Filter, Mask, Operation, Prepared, Problem, Recent, Stream,
    VariantChoice,
};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::array::DeviceArray;
use super::{call, interface, libraries, ndimage};
use crate::ndimage::{MODES, all_fit_f32, leave_nan_out, same_bits};

/// What is computed. Equal keys have equal results.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    device: usize,
    /// Rows and columns.
    size: (usize, usize),
    mask_size: (usize, usize),
    is_separable: bool,
    mode: BorderMode,
    /// The bits of the value outside.
    value: u32,
    origins: (isize, isize),
}

/// A problem with its mask, made ready.
#[derive(Debug)]
struct Ready {
    key: Key,
    weights: Vec<f64>,
    /// None if the library can't compute it.
    prepared: Option<Prepared>,
}

/// What was made ready last.
static READY: Recent<Arc<Ready>, KEPT> = Recent::new();
/// More filters and sizes than a loop of a program has.
const KEPT: usize = 48;

fn border(mode: BorderMode, value: f32) -> Border {
    match mode {
        BorderMode::Constant => Border::Constant(value),
        BorderMode::Clamp => Border::Clamp,
        BorderMode::Reflect => Border::Reflect,
        BorderMode::Mirror => Border::Mirror,
        BorderMode::Wrap => Border::Wrap,
    }
}

/// The element of a window's side that lies on the result: SciPy's middle, moved by the origin. None if there is none.
fn anchor(side: usize, origin: isize) -> Option<usize> {
    (side / 2).checked_add_signed(origin).filter(|&anchor| anchor < side)
}

/// Makes a problem ready. None if the library can't compute it.
fn prepare(device: &Device, key: &Key, weights: &[f64]) -> faltung::Result<Option<Prepared>> {
    let (rows, columns) = key.mask_size;
    let weights: Cow<'_, [f64]> = if key.is_separable {
        let (column, row) = weights.split_at(rows);
        column.iter().flat_map(|&factor| row.iter().map(move |&weight| factor * weight)).collect()
    } else {
        weights.into()
    };
    let (Some(row), Some(column)) = (anchor(rows, key.origins.0), anchor(columns, key.origins.1)) else {
        return Ok(None);
    };
    // A weight above the range of `f32` would be infinite, and one below it would lose its precision.
    if !all_fit_f32(&weights) {
        return Ok(None);
    }
    let coefficients: Vec<f32> = weights.iter().map(|&weight| weight as f32).collect();
    let make = || {
        let filter = Filter::new(Mask::new(columns, rows, coefficients)?)
            .operation(Operation::Correlate)
            .border(border(key.mode, f32::from_bits(key.value)))
            .anchor(row, column);
        device.prepare_for_device_images(&Problem::new(key.size.1, key.size.0, &filter)?, VariantChoice::Auto)
    };
    match make() {
        Ok(prepared) => Ok(Some(prepared)),
        Err(Error::TooLarge { .. } | Error::Refused { .. } | Error::Accuracy { .. } | Error::EmptyMask { .. }) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Values from one row to the next, if an array is rows of `f32` that do not overlap.
fn row_pitch(array: &DeviceArray) -> Option<usize> {
    let (&[height, width], &[down, right]) = (array.shape.as_slice(), array.strides.as_slice()) else { return None };
    if width > 1 && right != 4 {
        return None;
    }
    // The stride of a single row means nothing.
    let pitch = if height > 1 { usize::try_from(down).ok()? / 4 } else { width };
    (pitch >= width).then_some(pitch)
}

/// Correlates a two-dimensional ``float32`` array with weights, on its device, into ``output``; returns whether it did.
///
/// ``array`` and ``output`` are device arrays of one shape, wrapped or not. ``weights`` is a NumPy array of
/// ``float64`` with two axes, in the order of the window. ``mode`` is a name of SciPy's, ``cval`` the value outside
/// for "constant", ``origins`` two integers. The work is enqueued on the array's stream and not waited for. ``array``
/// and ``output`` may overlap.
///
/// False, and nothing done, where the library's kernels can't: other types, gaps between columns, weights beyond
/// ``float32``, origins outside of the window.
///
/// Raises ``ValueError`` for shapes that differ, an unknown mode and a read-only output, ``TypeError`` for weights of
/// another type, ``MemoryError``, ``RuntimeError`` with the driver's text.
#[pyfunction]
pub(super) fn correlate2d_f32(
    array: &Bound<'_, PyAny>,
    weights: PyBuffer<f64>,
    output: &Bound<'_, PyAny>,
    mode: &str,
    cval: f64,
    origins: (isize, isize),
) -> PyResult<bool> {
    let (array, output) = (on_device("array", array)?, on_device("output", output)?);
    let &[rows, columns] = weights.shape() else {
        let found = weights.dimensions();
        return Err(PyValueError::new_err(format!("weights must have 2 axes, not {found}")));
    };
    let mode = border_mode(mode)
        .ok_or_else(|| PyValueError::new_err(format!("mode must be a border of scipy.ndimage, not \"{mode}\"")))?;
    let weights = weights.to_vec(array.py())?;
    let window = Window { weights, is_separable: false, size: (rows, columns), origins };
    correlate(&array, &output, &window, mode, cval)
}

/// Correlates a two-dimensional array of real numbers with weights into ``output``, or into a new array of its library.
/// Convolves it if ``is_convolution``.
///
/// This is `ndimage.correlate` and `convolve` in one call. On small arrays the checks of the arguments in Python take
/// longer than the filter.
///
/// ``weights`` is a NumPy array of ``float64`` with two axes, ``output`` None or an array of the same shape and type
/// that shares no memory with the input, ``mode`` a name of SciPy's, ``cval`` the value outside for "constant",
/// ``origin`` the origin of both axes. Returns None, and does nothing, for arrays on no device, for other arguments,
/// and for ``float32`` where `correlate2d_f32` returns False.
///
/// Raises what `wrap` raises, ``MemoryError``, ``RuntimeError`` with the driver's text.
#[pyfunction]
pub(super) fn filter_picture<'py>(
    array: &Bound<'py, PyAny>,
    weights: &Bound<'py, PyAny>,
    output: &Bound<'py, PyAny>,
    mode: &Bound<'py, PyAny>,
    cval: &Bound<'py, PyAny>,
    origin: &Bound<'py, PyAny>,
    is_convolution: bool,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = array.py();
    let Some(array) = interface::wrap(array)? else { return Ok(None) };
    if array.get().shape.len() != 2 || !array.get().library.makes_arrays() {
        return Ok(None);
    }
    let (Ok(cval), Ok(origin)) = (cval.extract::<f64>(), origin.extract::<isize>()) else { return Ok(None) };
    let Some(mode) = mode.cast::<PyString>().ok().and_then(|mode| border_mode(mode.to_str().ok()?)) else {
        return Ok(None);
    };
    if is_beyond_f32(mode, cval) {
        return Ok(None);
    }
    let Ok(buffer) = PyBuffer::<f64>::get(weights) else { return Ok(None) };
    let &[rows, columns] = buffer.shape() else { return Ok(None) };
    let weights = buffer.to_vec(py)?;
    let mut window = Window { weights, is_separable: false, size: (rows, columns), origins: (origin, origin) };
    if is_convolution {
        window.weights.reverse();
        // SciPy's middle of an even side is one element past the centre. Reversed, it is one element before.
        let reversed = |side: usize| origin.checked_neg()?.checked_sub(isize::from(side.is_multiple_of(2)));
        let (Some(row), Some(column)) = (reversed(rows), reversed(columns)) else { return Ok(None) };
        window.origins = (row, column);
    }
    if array.get().is_f32(py)? {
        let Some((object, output)) = libraries::result_array(&array, output)? else { return Ok(None) };
        return Ok(correlate(&array, &output, &window, mode, cval)?.then_some(object));
    }
    let has_anchor = anchor(rows, origin).is_some() && anchor(columns, origin).is_some();
    if !has_anchor || array.get().element(py)?.is_none() {
        return Ok(None);
    }
    leave_nan_out(&mut window.weights);
    let (shape, origins) = ([rows, columns], [window.origins.0, window.origins.1]);
    let correlation =
        Correlation { weights: &window.weights, shape: &shape, origins: &origins, border: mode, value: cval };
    let Some((object, output)) = libraries::result_array(&array, output)? else { return Ok(None) };
    ndimage::enqueue_correlation(&array, &output, &correlation, Sums::F64)?;
    Ok(Some(object))
}

/// Whether the value outside is a number that `f32` has no place for.
pub(super) fn is_beyond_f32(mode: BorderMode, cval: f64) -> bool {
    mode == BorderMode::Constant && cval.is_finite() && cval.abs() > f32::MAX.into()
}

/// The border mode with a name of SciPy's.
fn border_mode(name: &str) -> Option<BorderMode> {
    MODES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
}

/// Weights by rows, in the order of the window.
pub(super) struct Window {
    /// All weights; of a separable window those of its column, then those of its row.
    pub(super) weights: Vec<f64>,
    pub(super) is_separable: bool,
    /// Rows and columns.
    pub(super) size: (usize, usize),
    pub(super) origins: (isize, isize),
}

/// Enqueues a correlation. Returns false, and does nothing, where the library's kernels can't compute it.
pub(super) fn correlate(
    array: &Bound<'_, DeviceArray>,
    output: &Bound<'_, DeviceArray>,
    window: &Window,
    mode: BorderMode,
    cval: f64,
) -> PyResult<bool> {
    let py = array.py();
    let (from, to) = (array.get(), output.get());
    if from.shape != to.shape {
        let (required, found) = (&from.shape, &to.shape);
        return Err(PyValueError::new_err(format!("output must have the shape {required:?}, not {found:?}")));
    }
    if !from.is_f32(py)? || !to.is_f32(py)? {
        return Ok(false);
    }
    let &[height, width] = from.shape.as_slice() else { return Ok(false) };
    if height == 0 || width == 0 {
        return Ok(true);
    }
    let (Some(pitch), Some(to_pitch)) = (row_pitch(from), row_pitch(to)) else { return Ok(false) };
    let &Window { ref weights, is_separable, size: mask_size, origins } = window;
    let value = if mode == BorderMode::Constant { (cval as f32).to_bits() } else { 0 };
    let key = Key { device: from.device, size: (height, width), mask_size, is_separable, mode, value, origins };
    let is_wanted = |ready: &Arc<Ready>| ready.key == key && same_bits(&ready.weights, weights);
    let ready = match READY.find(is_wanted) {
        Some(ready) => ready,
        None => {
            let device = call::open(py, from.device)?;
            let make = || -> faltung::Result<_> {
                let prepared = prepare(&device, &key, weights)?;
                Ok(Arc::new(Ready { key: key.clone(), weights: weights.clone(), prepared }))
            };
            // To compile a kernel takes long, and to unload that of the oldest filter may wait for the driver.
            py.detach(|| READY.get(is_wanted, make)).map_err(super::exception)?
        }
    };
    let Some(prepared) = &ready.prepared else { return Ok(false) };
    let (source, target) = (from.pointer as usize, to.pointer as usize);
    call::enqueue(array, output, |_: &Device, stream: &Stream| {
        let pointer = |address: usize| std::ptr::with_exposed_provenance_mut::<f32>(address);
        // SAFETY: the arrays have these rows on the stream's device, as their libraries say. What frees or writes them
        // is ordered after the stream's work: by the libraries, or because the call keeps the arrays.
        let (image, mut result) = unsafe {
            let image = DeviceImage::<f32>::borrow_raw(pointer(source), width, height, 1, pitch)?;
            (image, DeviceImage::<f32>::borrow_raw(pointer(target), width, height, 1, to_pitch)?)
        };
        prepared.run_into(&image, &mut result, stream)
    })?;
    Ok(true)
}

/// An argument as a device array.
fn on_device<'py>(name: &str, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, DeviceArray>> {
    interface::wrap(object)?.ok_or_else(|| {
        let found = object.get_type();
        PyTypeError::new_err(format!("{name} must be an array on a CUDA device, not {found}"))
    })
}
