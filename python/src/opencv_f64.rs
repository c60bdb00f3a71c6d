//! Correlations and means of images with sums of `f64`, for the functions with OpenCV's names: all types that
//! [`opencv`](crate::opencv) does not compute in `f32`.

use faltung::Border;
use faltung::nd::{Element, ImageFilter, ImageMask, Layout, Lines, correlate_image, window_means};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::{Array, check_apart};
use crate::compute::{compute, exception};
use crate::opencv::numbers;

/// Source and result: rows, columns and perhaps channels, of one shape, without a byte in common. The result is dense
/// and writable.
fn images(source: &Bound<'_, PyAny>, result: &Bound<'_, PyAny>) -> PyResult<(Array, Array)> {
    let (source, result) = (Array::get(source)?, Array::get_output(result)?);
    for (name, array) in [("src", &source), ("dst", &result)] {
        let axes = array.layout().shape.len();
        if !(2..=3).contains(&axes) {
            return Err(PyValueError::new_err(format!("{name}: 2 or 3 dimensions are required, not {axes}")));
        }
        if array.layout().elements() == 0 {
            return Err(PyValueError::new_err(format!("{name}: at least 1 pixel is required")));
        }
    }
    let (required, found) = (&source.layout().shape, &result.layout().shape);
    if required != found {
        return Err(PyValueError::new_err(format!("dst: the shape {required:?} of src is required, not {found:?}")));
    }
    let element = result.layout().element;
    let dense = Layout::dense(element, found);
    let is_dense = dense.strides.iter().zip(&result.layout().strides).zip(found).all(|((a, b), &n)| a == b || n == 1);
    if !is_dense || !result.address().is_multiple_of(element.size()) {
        return Err(PyValueError::new_err("dst: a contiguous and aligned array is required"));
    }
    use Element::{F32, F64, I16, I32, U8, U16};
    if ![U8, U16, I16, I32, F32, F64].contains(&element) {
        let required = "uint8, uint16, int16, int32, float32 or float64";
        return Err(PyValueError::new_err(format!("dst: {required} is required, not {element:?}")));
    }
    check_apart(&source, &result)?;
    Ok((source, result))
}

/// Correlates an image with a mask: `result = sum + offset`, with sums of `f64`, rounded half to even.
///
/// `source` and `result` are buffers of one shape: rows, columns and perhaps channels. `column` and `row` are float64
/// values as bytes. Without `row` the mask is dense, and `column` has all its coefficients. `mask` is rows and columns,
/// `anchor` row and column.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "one call from one place in Python, where a struct would cost time")]
pub(crate) fn correlate_array(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    result: &Bound<'_, PyAny>,
    column: &[u8],
    row: Option<&[u8]>,
    mask: (usize, usize),
    anchor: (usize, usize),
    offset: f64,
    border: &str,
    accuracy: &str,
) -> PyResult<()> {
    let (source, result) = images(source, result)?;
    let (column, row) = (numbers("column", column)?, row.map(|row| numbers("row", row)).transpose()?);
    let steps = if row.is_some() { mask.0.saturating_add(mask.1) } else { mask.0.saturating_mul(mask.1) };
    let filter = ImageFilter {
        mask: row.as_ref().map_or(ImageMask::Dense(&column), |row| ImageMask::Separable(&column, row)),
        size: mask.into(),
        anchor: anchor.into(),
        border: border.parse().map_err(exception)?,
        offset,
        accuracy: accuracy.parse().map_err(exception)?,
    };
    let work = steps.saturating_mul(source.layout().elements());
    let (from, to) = (source.input().map_err(exception)?, result.output().map_err(exception)?);
    compute(py, work, || correlate_image(from, to, &filter))
}

/// The mean of a window at each pixel, rounded half to even. The arguments are those of [`correlate_array`].
#[pyfunction]
pub(crate) fn blur_array(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    result: &Bound<'_, PyAny>,
    mask: (usize, usize),
    anchor: (usize, usize),
    border: &str,
) -> PyResult<()> {
    let (source, result) = images(source, result)?;
    let border: Border = border.parse().map_err(exception)?;
    let (sizes, anchor) = ([mask.0, mask.1], [anchor.0, anchor.1]);
    let lines = [0, 1].map(|axis| {
        let origin = anchor[axis] as isize - (sizes[axis] / 2) as isize;
        Lines { axis, origin, border: border.mode(), value: border.value().into() }
    });
    // A running sum is as much work as some multiply-adds.
    let work = source.layout().elements().saturating_mul(16);
    let (from, to) = (source.input().map_err(exception)?, result.output().map_err(exception)?);
    compute(py, work, || window_means(from, to, sizes, &lines))
}
