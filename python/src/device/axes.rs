//! Filters along several axes of an array, in one call from Python. On small arrays calls take longer than filters.

use faltung::BorderMode;
use faltung::nd::{self, Along, AxisFilter, Element, Layout, Lines, Sums};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::array::DeviceArray;
use super::correlate::{Window, correlate, is_beyond_f32};
use super::ndimage::device_overlap;
use super::{call, interface, libraries};
use crate::ndimage::{FilterOfAxis, Kind, all_fit_f32, axis_filters, border, sums};

/// Up to this size a mean of floats is computed as a sum of products. It takes one pass over memory, running sums take
/// more.
const MOST_PRODUCTS_OF_MEAN: usize = 128;

/// The axes that the kernels take.
pub(super) const MOST_AXES: usize = 4;

/// Filters `input` along several axes, one after the other, into `output`, an array of the same shape.
///
/// Returns False, and does nothing, where the arrays overlap, or their library gives new arrays another stream. Sums
/// are of `float32` if source and result are, unless `exact` is true.
#[pyfunction]
pub(super) fn device_filter_axes(
    input: &Bound<'_, DeviceArray>,
    output: &Bound<'_, DeviceArray>,
    filters: Vec<FilterOfAxis<'_>>,
    cval: f64,
    exact: bool,
) -> PyResult<bool> {
    filter_axes(input, output, axis_filters(&filters, cval)?, exact)
}

/// Filters an array along each of its axes into ``output``, or into a new array of its library.
///
/// ``filter`` is an array of weights, or the size of a mean; its origin is 0. ``output`` is None or an array of the
/// same shape and type that shares no memory with the input. ``mode`` is the code of a mode, ``cval`` the value outside
/// for "constant". For arrays on no device and for other arguments it returns None and does nothing.
#[pyfunction]
pub(super) fn filter_all_axes<'py>(
    array: &Bound<'py, PyAny>,
    filter: &Bound<'py, PyAny>,
    output: &Bound<'py, PyAny>,
    mode: u32,
    cval: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(array) = interface::wrap(array)? else { return Ok(None) };
    let axes = array.get().shape.len();
    let is_taken = (1..=MOST_AXES).contains(&axes) && array.get().library.makes_arrays();
    if !is_taken || array.get().element(array.py())?.is_none() {
        return Ok(None);
    }
    let Ok(value) = cval.extract::<f64>() else { return Ok(None) };
    let (kind, border) = (Kind::get(filter)?, border(mode)?);
    if is_beyond_f32(border, value) {
        return Ok(None);
    }
    let filters = (0..axes).map(|axis| (kind.clone(), Lines { axis, origin: 0, border, value })).collect();
    let Some((object, output)) = libraries::result_array(&array, output)? else { return Ok(None) };
    Ok(filter_axes(&array, &output, filters, false)?.then_some(object))
}

/// [`device_filter_axes`] with arguments of Rust.
fn filter_axes(
    input: &Bound<'_, DeviceArray>,
    output: &Bound<'_, DeviceArray>,
    mut filters: Vec<(Kind, Lines)>,
    exact: bool,
) -> PyResult<bool> {
    let py = input.py();
    let layouts = [input.get().layout(py)?, output.get().layout(py)?];
    let are = |element: Element| layouts.iter().all(|layout| layout.element == element);
    if !exact && (are(Element::F32) || are(Element::F64)) {
        filters.iter_mut().for_each(|(kind, _)| kind.make_products());
    }
    let are_f32 = are(Element::F32) && !exact;
    if are_f32
        && layouts[0].shape.len() == 2
        && let Some((window, mode, value)) = picture_filter(&filters)
        && correlate(input, output, &window, mode, value)?
    {
        return Ok(true);
    }
    // Kernels can't filter an array in place.
    if device_overlap(input, output) {
        return Ok(false);
    }
    if are(Element::F64) && one_launch(input, output, &layouts, &filters)? {
        return Ok(true);
    }
    let between = if filters.len() > 1 { another_like(output)? } else { output.clone() };
    if between.get().stream != input.get().stream {
        return Ok(false);
    }
    let [of_input, of_output] = &layouts;
    let of_between = &between.get().layout(py)?;
    let mut source = nd::DeviceArray { address: input.get().pointer, layout: of_input };
    let last = nd::DeviceArray { address: output.get().pointer, layout: of_output };
    let between = nd::DeviceArray { address: between.get().pointer, layout: of_between };
    let stream = input.get().stream as u64;
    call::enqueue(input, output, |device, _| {
        for (number, (kind, lines)) in filters.iter().enumerate() {
            // The last filter writes the output. Those before it write `between` and the output in turn.
            let target = if (filters.len() - number) % 2 == 1 { last } else { between };
            // SAFETY: the arrays have these elements on the device, as their libraries say. They do not overlap. What
            // frees or writes them is ordered after the stream's work: by the libraries, or because the call keeps the
            // arrays. The library of `between` reuses its memory for later work of the stream alone, or frees it after
            // all work.
            unsafe {
                match kind {
                    Kind::Mean(size) => device.uniform1d_array(source, target, *size, lines, stream)?,
                    Kind::Weights(weights) => {
                        let sums = sums(are_f32 && all_fit_f32(weights));
                        device.correlate1d_array(source, target, weights, lines, sums, stream)?;
                    }
                }
            }
            source = target;
        }
        Ok(())
    })?;
    Ok(true)
}

/// Enqueues two filters as one launch, which needs no array between them. Returns whether it did.
fn one_launch(
    input: &Bound<'_, DeviceArray>,
    output: &Bound<'_, DeviceArray>,
    [of_input, of_output]: &[Layout; 2],
    filters: &[(Kind, Lines)],
) -> PyResult<bool> {
    let [(Kind::Weights(first), of_first), (Kind::Weights(second), of_second)] = filters else { return Ok(false) };
    let filter = |weights, lines: &Lines| AxisFilter { along: Along::Weights(weights), lines: *lines };
    let filters = [filter(first, of_first), filter(second, of_second)];
    let (from, to, stream) = (input.get().pointer, output.get().pointer, input.get().stream as u64);
    call::enqueue(input, output, |device, _| {
        let from = nd::DeviceArray { address: from, layout: of_input };
        let to = nd::DeviceArray { address: to, layout: of_output };
        // SAFETY: the arrays have these elements on the device, as their libraries say. They do not overlap. What frees
        // or writes them is ordered after the stream's work: by the libraries, or because the call keeps the arrays.
        unsafe { device.filter_axes_array(from, to, &filters, Sums::F64, stream) }
    })
}

/// Another array of the same library, shape and type.
fn another_like<'py>(array: &Bound<'py, DeviceArray>) -> PyResult<Bound<'py, DeviceArray>> {
    if array.get().library.makes_arrays() {
        return Ok(libraries::like(array)?.1);
    }
    let (py, given) = (array.py(), array.get());
    let object = libraries::empty(array, PyTuple::new(py, &given.shape)?.as_any(), given.dtype.bind(py))?;
    Ok(interface::wrap(&object)?.expect("a new array of a device library is on a device"))
}

/// The separable window of two filters along both axes of a picture, with its mode and its value outside.
///
/// None for other filters, and if their borders differ. None also for a constant other than 0: outside, the second
/// filter reads the constant, but a window reads there what the first filter makes of it.
fn picture_filter(filters: &[(Kind, Lines)]) -> Option<(Window, BorderMode, f64)> {
    let [(Kind::Weights(first), of_first), (Kind::Weights(second), of_second)] = filters else { return None };
    let ((column, of_column), (row, of_row)) = match (of_first.axis, of_second.axis) {
        (0, 1) => ((first, of_first), (second, of_second)),
        (1, 0) => ((second, of_second), (first, of_first)),
        _ => return None,
    };
    let is_one = of_column.border == of_row.border && (of_row.border != BorderMode::Constant || of_row.value == 0.0);
    let window = Window {
        weights: [column.as_slice(), row].concat(),
        is_separable: true,
        size: (column.len(), row.len()),
        origins: (of_column.origin, of_row.origin),
    };
    is_one.then_some((window, of_row.border, of_row.value))
}

impl Kind {
    /// Makes a mean of few elements a sum of products.
    fn make_products(&mut self) {
        if let Self::Mean(size @ 1..=MOST_PRODUCTS_OF_MEAN) = *self {
            *self = Self::Weights(vec![1.0 / size as f64; size]);
        }
    }
}
