//! Arrays of Python in host memory, through the buffer protocol.

use std::ffi::CStr;
use std::ops::Range;

use faltung::nd::{self, Element, Input, Layout, Output};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// A lent array. The lender keeps the memory until this is dropped.
pub(crate) struct Array {
    buffer: PyUntypedBuffer,
    layout: Layout,
}

impl Array {
    /// # Errors
    /// `TypeError` if the object lends no buffer, or its elements are no real numbers in the order of the machine's
    /// bytes.
    pub(crate) fn get(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        let element = element(buffer.format(), buffer.item_size()).ok_or_else(|| {
            let format = buffer.format().to_string_lossy().into_owned();
            PyTypeError::new_err(format!(
                "the array's elements must be real numbers in native byte order, not of format {format:?}"
            ))
        })?;
        let layout = Layout { element, shape: buffer.shape().to_vec(), strides: buffer.strides().to_vec() };
        Ok(Self { buffer, layout })
    }

    /// As [`get`](Self::get), to be written.
    ///
    /// # Errors
    /// `ValueError` if the array is read-only, or two of its elements may have a byte in common.
    pub(crate) fn get_output(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let array = Self::get(object)?;
        if array.buffer.readonly() {
            return Err(PyValueError::new_err("output must be writable, but it is read-only"));
        }
        let Layout { element, shape, strides } = &array.layout;
        if has_overlap(element.size(), shape, strides) {
            return Err(PyValueError::new_err("the elements of output must not overlap in memory"));
        }
        Ok(array)
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The address of the first element.
    pub(crate) fn address(&self) -> usize {
        self.buffer.buf_ptr().expose_provenance()
    }

    /// The addresses of the elements.
    fn range(&self) -> Range<usize> {
        let Layout { element, shape, strides } = &self.layout;
        addresses(self.address(), element.size(), shape, strides)
    }

    pub(crate) fn input(&self) -> faltung::Result<Input<'_>> {
        // SAFETY: the buffer protocol promises the elements, until the buffer is released. Python code that writes them
        // meanwhile races with this, as with every function that releases the GIL.
        unsafe { Input::from_raw(self.buffer.buf_ptr().cast(), self.layout.clone()) }
    }

    /// Only for what [`get_output`](Self::get_output) returns.
    pub(crate) fn output(&self) -> faltung::Result<Output<'_>> {
        // SAFETY: as above; `get_output` has tested that the array may be written and that its elements are apart.
        unsafe { Output::from_raw(self.buffer.buf_ptr().cast(), self.layout.clone()) }
    }
}

/// The type for a format of the module `struct`.
fn element(format: &CStr, size: usize) -> Option<Element> {
    let format = match format.to_bytes() {
        [b'@' | b'=', rest @ ..] => rest,
        #[cfg(target_endian = "little")]
        [b'<', rest @ ..] => rest,
        format => format,
    };
    Some(match (format, size) {
        (b"?", 1) => Element::Bool,
        (b"b", 1) => Element::I8,
        (b"B", 1) => Element::U8,
        (b"h", 2) => Element::I16,
        (b"H", 2) => Element::U16,
        (b"i" | b"l" | b"q", 4) => Element::I32,
        (b"I" | b"L" | b"Q", 4) => Element::U32,
        (b"i" | b"l" | b"q", 8) => Element::I64,
        (b"I" | b"L" | b"Q", 8) => Element::U64,
        (b"f", 4) => Element::F32,
        (b"d", 8) => Element::F64,
        _ => return None,
    })
}

/// The addresses from the first byte of any element to the last one, gaps included. `first` is the address of the
/// element at index 0 of every axis.
pub(crate) fn addresses(first: usize, size: usize, shape: &[usize], strides: &[isize]) -> Range<usize> {
    if shape.contains(&0) {
        return 0..0;
    }
    let all = 0..usize::MAX;
    nd::extent(size, shape, strides)
        .map_or(all, |extent| first.wrapping_add_signed(extent.start)..first.wrapping_add_signed(extent.end))
}

/// Whether two arrays with these addresses may have a byte in common.
pub(crate) fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Checks the arguments of a filter of images.
///
/// # Errors
/// `ValueError` if source and result may have a byte in common.
pub(crate) fn check_apart(source: &Array, result: &Array) -> PyResult<()> {
    if overlap(&source.range(), &result.range()) {
        return Err(PyValueError::new_err("dst: memory apart from that of src is required"));
    }
    Ok(())
}

/// Whether two elements may have a byte in common: each stride must be at least what the narrower axes span. `size` is
/// that of an element, in bytes, as the strides are.
#[pyfunction(name = "has_overlap")]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 makes vectors of tuples")]
pub(crate) fn tuples_have_overlap(size: usize, shape: Vec<usize>, strides: Vec<isize>) -> bool {
    has_overlap(size, &shape, &strides)
}

/// As [`tuples_have_overlap`].
pub(crate) fn has_overlap(size: usize, shape: &[usize], strides: &[isize]) -> bool {
    if shape.contains(&0) {
        return false;
    }
    let axes = || {
        let axes = shape.iter().zip(strides).filter(|&(&length, _)| length > 1);
        axes.map(|(&length, stride)| (stride.unsigned_abs(), length))
    };
    // Most arrays have the narrowest axis last. They need no memory here.
    if are_apart(size, axes().rev()) {
        return false;
    }
    let mut sorted: Vec<_> = axes().collect();
    sorted.sort_unstable();
    !are_apart(size, sorted)
}

/// Whether the stride of each axis is at least what the axes before it span.
fn are_apart(size: usize, axes: impl IntoIterator<Item = (usize, usize)>) -> bool {
    let mut span = size;
    axes.into_iter().all(|(stride, length)| {
        let is_apart = stride >= span;
        span = span.saturating_add(stride.saturating_mul(length - 1));
        is_apart
    })
}
