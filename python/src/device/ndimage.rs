//! Filters on arrays of all real types and up to four axes, by the library's kernels for arrays.

use faltung::nd::{self, Correlation, Element, Layout, Lines, Sums};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::array::DeviceArray;
use super::call;
use crate::array;
use crate::ndimage::{FilterOfAxis, Kind, Weights, all_fit_f32, axis_filters, border, leave_nan_out, sums};

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
        // SAFETY: the arrays have these elements on the device, as their libraries say. What frees or writes them is
        // ordered behind the stream's work: by the libraries, or because the call keeps the arrays. They are apart, as
        // this function requires.
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

/// Filters `input` along several axes, one after the other, in one call: on small arrays the calls take longer than the
/// filters. Returns whether it did. False, and nothing done, if `between` is on another stream than `input`.
///
/// `between` is an array like `output` for the results of a filter that is not the last. The three arrays have one
/// shape, and are apart. Sums are of `float32` where source and result are and `exact` is false.
#[pyfunction]
pub(super) fn device_filter_axes(
    input: &Bound<'_, DeviceArray>,
    between: &Bound<'_, DeviceArray>,
    output: &Bound<'_, DeviceArray>,
    filters: Vec<FilterOfAxis<'_>>,
    cval: f64,
    exact: bool,
) -> PyResult<bool> {
    let py = input.py();
    let stream = input.get().stream;
    if between.get().stream != stream {
        return Ok(false);
    }
    let filters = axis_filters(&filters, cval)?;
    let layouts = [input.get().layout(py)?, between.get().layout(py)?, output.get().layout(py)?];
    let addresses = [input, between, output].map(|array| array.get().pointer);
    call::enqueue(input, output, |device, _| {
        let array = |number: usize| nd::DeviceArray { address: addresses[number], layout: &layouts[number] };
        let mut source = array(0);
        for (number, (kind, lines)) in filters.iter().enumerate() {
            // The last one writes the output, and the ones before it take turns.
            let target = array(if (filters.len() - number) % 2 == 1 { 2 } else { 1 });
            let is_f32 = |weights: &[f64]| {
                let are_f32 = [source, target].iter().all(|array| array.layout.element == Element::F32);
                are_f32 && !exact && all_fit_f32(weights)
            };
            // SAFETY: as in `device_correlate`. `between` belongs to the stream: its library gives its memory to later
            // work of that stream alone, or frees it after all work.
            unsafe {
                match kind {
                    Kind::Mean(size) => device.uniform1d_array(source, target, *size, lines, stream as u64)?,
                    Kind::Weights(weights) => {
                        let sums = sums(is_f32(weights));
                        device.correlate1d_array(source, target, weights, lines, sums, stream as u64)?;
                    }
                }
            }
            source = target;
        }
        Ok(())
    })?;
    Ok(true)
}
