//! Correlations of images in `f32`, for the functions with OpenCV's names. `python/faltung/_opencv.py` checks their
//! arguments.

use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::slice;
use std::sync::{Arc, LazyLock};

use faltung::nd::{Element, Layout, SERIAL};
use faltung::{
    Border, Device, Filter, Mask, Operation, Pixel, PixelFormat, PixelType, Prepared, Problem, Recent, VariantChoice,
    View, ViewMut,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::{Array, check_apart};
use crate::compute::{compute, exception};

/// How many filters and sizes stay ready.
const KEPT: usize = 16;

/// The problems that were made ready last.
static RECENT: Recent<Arc<(Request, Prepared)>, KEPT> = Recent::new();

static CPU: LazyLock<Device> = LazyLock::new(Device::cpu);

/// A problem as Python states it: a key of [`RECENT`].
#[derive(Clone, PartialEq)]
struct Request {
    width: usize,
    height: usize,
    format: PixelFormat,
    /// All coefficients of a dense mask, or the column of a separable one.
    column: Box<[f64]>,
    /// The row of a separable mask.
    row: Option<Box<[f64]>>,
    /// Rows and columns.
    mask: (usize, usize),
    /// Row and column.
    anchor: (usize, usize),
    scale: f32,
    offset: f32,
    border: Border,
    accuracy: faltung::Accuracy,
}

impl Request {
    fn problem(&self) -> faltung::Result<Problem> {
        let (rows, columns) = self.mask;
        let coefficients = match &self.row {
            None => self.column.iter().map(|&coefficient| coefficient as f32).collect(),
            Some(row) => self.column.iter().flat_map(|&c| row.iter().map(move |&r| (c * r) as f32)).collect(),
        };
        let filter = Filter::new(Mask::new(columns, rows, coefficients)?)
            .operation(Operation::Correlate)
            .anchor(self.anchor.0, self.anchor.1)
            .border(self.border)
            .scale(self.scale)
            .offset(self.offset)
            .accuracy(self.accuracy);
        Problem::new(self.width, self.height, &filter)?.with_format(self.format)
    }

    /// Made ready now or before.
    fn ready(self) -> faltung::Result<Prepared> {
        let make = || -> faltung::Result<_> {
            let ready = CPU.prepare(&self.problem()?, VariantChoice::Auto)?;
            Ok(Arc::new((self.clone(), ready)))
        };
        let ready = RECENT.get(|known| known.0 == self, make)?;
        Ok(ready.1.clone())
    }
}

/// An array of contiguous rows: 2 axes, or 3 with the channels last.
struct Rows {
    array: Array,
    width: usize,
    height: usize,
    channels: usize,
    /// Values from one row to the next.
    pitch: usize,
    kind: PixelType,
}

impl Rows {
    fn new(name: &str, array: Array) -> PyResult<Self> {
        let Layout { element, shape, strides } = array.layout();
        let kind = match element {
            Element::U8 => PixelType::U8,
            Element::U16 => PixelType::U16,
            Element::F32 => PixelType::F32,
            other => {
                let required = "uint8, uint16 or float32 is required";
                return Err(PyValueError::new_err(format!("{name}: {required}, not {other:?}")));
            }
        };
        let (height, width, channels) = match **shape {
            [height, width] => (height, width, 1),
            [height, width, channels] => (height, width, channels),
            _ => {
                let found = shape.len();
                return Err(PyValueError::new_err(format!("{name}: 2 or 3 dimensions are required, not {found}")));
            }
        };
        let bytes = kind.bytes() as isize;
        let step = channels as isize * bytes;
        let is_dense = |axis: usize, stride: isize| shape[axis] <= 1 || strides[axis] == stride;
        let inner_fits = is_dense(1, step) && (strides.len() == 2 || is_dense(2, bytes));
        // The stride of a single row means nothing.
        let pitch = if height <= 1 { width as isize * step } else { strides[0] };
        let is_aligned = array.address().is_multiple_of(kind.bytes()) && pitch % bytes == 0;
        if !inner_fits || pitch < width as isize * step || !is_aligned {
            let required = "aligned and contiguous rows are required";
            return Err(PyValueError::new_err(format!("{name}: {required}, the strides are {strides:?}")));
        }
        Ok(Self { width, height, channels, pitch: (pitch / bytes) as usize, kind, array })
    }

    /// The values from the first row's first to the last row's last.
    fn span(&self) -> usize {
        match self.height * self.width * self.channels {
            0 => 0,
            _ => (self.height - 1) * self.pitch + self.width * self.channels,
        }
    }

    /// # Safety
    /// - `T` is the type of the array's values.
    /// - While the view lives, nothing writes to the array.
    unsafe fn view<T: Pixel>(&self) -> faltung::Result<View<'_, T>> {
        let values: &[T] = match self.span() {
            0 => &[],
            // SAFETY: the buffer's shape and strides say that these values exist, and `new` has checked the alignment.
            // The caller promises the rest.
            span => unsafe { slice::from_raw_parts(with_exposed_provenance(self.array.address()), span) },
        };
        View::new(self.width, self.height, self.channels, self.pitch, values)
    }

    /// # Safety
    /// - `T` is the type of the array's values.
    /// - The array may be written, and while the view lives, nothing else reads or writes it.
    unsafe fn view_mut<T: Pixel>(&mut self) -> faltung::Result<ViewMut<'_, T>> {
        let values: &mut [T] = match self.span() {
            0 => &mut [],
            // SAFETY: as in `view`.
            span => unsafe { slice::from_raw_parts_mut(with_exposed_provenance_mut(self.array.address()), span) },
        };
        ViewMut::new(self.width, self.height, self.channels, self.pitch, values)
    }
}

/// `float64` values as bytes.
pub(crate) fn numbers(name: &str, bytes: &[u8]) -> PyResult<Box<[f64]>> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(PyValueError::new_err(format!("{name}: a multiple of 8 bytes is required, not {}", bytes.len())));
    }
    Ok(numbers.iter().map(|&number| f64::from_ne_bytes(number)).collect())
}

/// Correlates an image with a mask on the CPU: `result = sum * scale + offset`.
///
/// `source` and `result` are buffers of one shape with contiguous rows, of uint8, uint16 or float32. They must not
/// overlap. `column` and `row` are float64 values as bytes. Without `row` the mask is dense, and `column` has all its
/// coefficients. `mask` is rows and columns, `anchor` row and column.
#[pyfunction]
#[pyo3(signature = (source, result, column, row, mask, anchor, scale, offset, border, accuracy))]
#[allow(clippy::too_many_arguments, reason = "one call from one place in Python, where a struct would cost time")]
pub(crate) fn correlate_image(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    result: &Bound<'_, PyAny>,
    column: &[u8],
    row: Option<&[u8]>,
    mask: (usize, usize),
    anchor: (usize, usize),
    scale: f32,
    offset: f32,
    border: &str,
    accuracy: &str,
) -> PyResult<()> {
    let source = Rows::new("src", Array::get(source)?)?;
    let mut result = Rows::new("dst", Array::get_output(result)?)?;
    let shape = |rows: &Rows| (rows.height, rows.width, rows.channels);
    if shape(&source) != shape(&result) {
        let (required, found) = (shape(&source), shape(&result));
        return Err(PyValueError::new_err(format!("dst: the shape {required:?} of src is required, not {found:?}")));
    }
    check_apart(&source.array, &result.array)?;
    let request = Request {
        width: source.width,
        height: source.height,
        format: PixelFormat { channels: source.channels, input: source.kind, output: result.kind },
        column: numbers("column", column)?,
        row: row.map(|row| numbers("row", row)).transpose()?,
        mask,
        anchor,
        scale,
        offset,
        border: border.parse().map_err(exception)?,
        accuracy: accuracy.parse().map_err(exception)?,
    };
    let row = source.width * source.channels;
    let work = (mask.0.saturating_mul(mask.1).saturating_add(16)).saturating_mul(row * source.height);
    // The library splits narrow images among threads, however small. That must happen in the pool of this process.
    let work = if row < 64 { work.max(SERIAL) } else { work };
    compute(py, work, move |_| compute_image(&source, &mut result, request))
}

fn compute_image(source: &Rows, result: &mut Rows, request: Request) -> faltung::Result<()> {
    match source.kind {
        PixelType::U8 => compute_from::<u8>(source, result, request),
        PixelType::U16 => compute_from::<u16>(source, result, request),
        PixelType::F32 => compute_from::<f32>(source, result, request),
    }
}

fn compute_from<T: Pixel>(source: &Rows, result: &mut Rows, request: Request) -> faltung::Result<()> {
    match result.kind {
        PixelType::U8 => compute_as::<T, u8>(source, result, request),
        PixelType::U16 => compute_as::<T, u16>(source, result, request),
        PixelType::F32 => compute_as::<T, f32>(source, result, request),
    }
}

fn compute_as<T: Pixel, U: Pixel>(source: &Rows, result: &mut Rows, request: Request) -> faltung::Result<()> {
    // SAFETY: `compute_image` and `compute_from` have taken the types from the arrays. `get_output` has checked that
    // the result is writable, and `correlate_image` that its memory is not the source's. Both arrays are held until the
    // views are gone. As with NumPy, the caller's other threads must leave them alone during the call.
    let (source, result) = unsafe { (source.view::<T>()?, result.view_mut::<U>()?) };
    request.ready()?.apply_view(source, result)
}
