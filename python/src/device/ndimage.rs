//! Filters on arrays of all real types and up to four axes, by the library's kernels for arrays.

use faltung::nd::{self, Correlation, Element, Layout, Lines, Sums};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::array::DeviceArray;
use super::call;
use crate::array;
use crate::ndimage::{Weights, border, leave_nan_out, sums};

impl DeviceArray {
    /// The type of the elements; None unless they are real numbers in the device's byte order.
    pub(super) fn element(&self, py: Python<'_>) -> PyResult<Option<Element>> {
        let dtype = self.dtype.bind(py);
        if !dtype.getattr(pyo3::intern!(py, "isnative"))?.extract::<bool>()? {
            return Ok(None);
        }
        let kind: char = dtype.getattr(pyo3::intern!(py, "kind"))?.extract()?;
        Ok(Some(match (kind, self.item_size) {
            ('b', 1) => Element::Bool,
            ('i', 1) => Element::I8,
            ('i', 2) => Element::I16,
            ('i', 4) => Element::I32,
            ('i', 8) => Element::I64,
            ('u', 1) => Element::U8,
            ('u', 2) => Element::U16,
            ('u', 4) => Element::U32,
            ('u', 8) => Element::U64,
            ('f', 4) => Element::F32,
            ('f', 8) => Element::F64,
            _ => return Ok(None),
        }))
    }

    /// The type of the elements, and where they are.
    ///
    /// # Errors
    /// `TypeError` unless they are real numbers in the device's byte order.
    pub(crate) fn layout(&self, py: Python<'_>) -> PyResult<Layout> {
        let element = self.element(py)?.ok_or_else(|| {
            let found = self.dtype.bind(py);
            PyTypeError::new_err(format!("the array's elements must be real numbers in native byte order, not {found}"))
        })?;
        Ok(Layout { element, shape: self.shape.clone(), strides: self.strides.clone() })
    }
}

/// Whether two arrays may have a byte in common.
#[pyfunction]
pub(super) fn device_overlap(one: &Bound<'_, DeviceArray>, other: &Bound<'_, DeviceArray>) -> bool {
    let range =
        |array: &DeviceArray| array::addresses(array.pointer as usize, array.item_size, &array.shape, &array.strides);
    array::overlap(&range(one.get()), &range(other.get()))
}

/// Enqueues a filter from `input` to `output`. `filter` gets the arrays and the handle of the stream.
fn enqueue(
    input: &Bound<'_, DeviceArray>,
    output: &Bound<'_, DeviceArray>,
    filter: impl FnOnce(&faltung::Device, nd::DeviceArray<'_>, nd::DeviceArray<'_>, u64) -> faltung::Result<()> + Send,
) -> PyResult<()> {
    let py = input.py();
    let (from, to) = (input.get(), output.get());
    let layouts = (from.layout(py)?, to.layout(py)?);
    let (read, written, stream) = (from.pointer, to.pointer, from.stream as u64);
    call::enqueue(input, output, |device, _| {
        let array = |address, layout| nd::DeviceArray { address, layout };
        filter(device, array(read, &layouts.0), array(written, &layouts.1), stream)
    })
}

/// Correlates `input` with weights of as many axes. `output` is an array of the same shape, apart from `input`.
#[pyfunction]
pub(super) fn device_correlate(
    input: &Bound<'_, DeviceArray>,
    weights: &Bound<'_, PyAny>,
    output: &Bound<'_, DeviceArray>,
    mode: u32,
    cval: f64,
    origins: Vec<isize>,
    is_f32: bool,
) -> PyResult<()> {
    let (Weights { mut values, shape }, border) = (Weights::get(weights)?, border(mode)?);
    leave_nan_out(&mut values);
    let correlation = Correlation { weights: &values, shape: &shape, origins: &origins, border, value: cval };
    enqueue_correlation(input, output, &correlation, sums(is_f32))
}

/// Enqueues a correlation. `output` is apart from `input`.
pub(super) fn enqueue_correlation(
    input: &Bound<'_, DeviceArray>,
    output: &Bound<'_, DeviceArray>,
    correlation: &Correlation<'_>,
    sums: Sums,
) -> PyResult<()> {
    enqueue(input, output, |device, input, output, stream| {
        // SAFETY: the arrays have these elements on the device, as their libraries say. They do not overlap, as this
        // function requires. What frees or writes them is ordered after the stream's work: by the libraries, or because
        // the call keeps the arrays.
        unsafe { device.correlate_array(input, output, correlation, sums, stream) }
    })
}

/// Correlates the lines of `input` along an axis with weights. `output` is an array of the same shape, apart from
/// `input`.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the Python part passes them by position")]
pub(super) fn device_correlate1d(
    input: &Bound<'_, DeviceArray>,
    weights: &Bound<'_, PyAny>,
    output: &Bound<'_, DeviceArray>,
    axis: usize,
    mode: u32,
    cval: f64,
    origin: isize,
    is_f32: bool,
) -> PyResult<()> {
    let weights = Weights::get(weights)?;
    let lines = Lines { axis, origin, border: border(mode)?, value: cval };
    enqueue(input, output, |device, input, output, stream| {
        // SAFETY: as in `device_correlate`.
        unsafe { device.correlate1d_array(input, output, &weights.values, &lines, sums(is_f32), stream) }
    })
}

/// The mean of `size` elements along an axis. `output` is an array of the same shape, apart from `input`.
#[pyfunction]
pub(super) fn device_uniform1d(
    input: &Bound<'_, DeviceArray>,
    size: usize,
    output: &Bound<'_, DeviceArray>,
    axis: usize,
    mode: u32,
    cval: f64,
    origin: isize,
) -> PyResult<()> {
    let lines = Lines { axis, origin, border: border(mode)?, value: cval };
    enqueue(input, output, |device, input, output, stream| {
        // SAFETY: as in `device_correlate`.
        unsafe { device.uniform1d_array(input, output, size, &lines, stream) }
    })
}
