//! Correlations and means of images with sums of `f64`, for the functions with OpenCV's names: all types that
//! [`opencv`](crate::opencv) does not compute in `f32`.

use std::ops::Range;
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::slice;

use faltung::nd::{Correlation, Element, Input, Layout, Lines, Output, SERIAL, Sums};
use faltung::nd::{correlate, correlate1d, position, window_means};
use faltung::{Border, BorderMode, memory, parallel};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::{Array, check_apart};
use crate::compute::{compute, exception};
use crate::opencv::numbers;

/// Results that one job converts.
const CONVERTED: usize = 1 << 15;
/// Bytes of sums in a band of rows: half of a second-level cache.
const BAND: usize = 512 << 10;

/// An array of 2 or 3 axes: rows, columns and channels.
struct Image {
    array: Array,
}

impl Image {
    fn new(name: &str, array: Array) -> PyResult<Self> {
        let axes = array.layout().shape.len();
        if !(2..=3).contains(&axes) {
            return Err(PyValueError::new_err(format!("{name}: 2 or 3 dimensions are required, not {axes}")));
        }
        if array.layout().elements() == 0 {
            return Err(PyValueError::new_err(format!("{name}: at least 1 pixel is required")));
        }
        Ok(Self { array })
    }

    fn layout(&self) -> &Layout {
        self.array.layout()
    }
}

/// Source and result of one shape, without a byte in common. The result is dense and writable.
fn images(source: &Bound<'_, PyAny>, result: &Bound<'_, PyAny>) -> PyResult<(Image, Image)> {
    let (source, result) = (Image::new("src", Array::get(source)?)?, Image::new("dst", Array::get_output(result)?)?);
    let (required, found) = (&source.layout().shape, &result.layout().shape);
    if required != found {
        return Err(PyValueError::new_err(format!("dst: the shape {required:?} of src is required, not {found:?}")));
    }
    let element = result.layout().element;
    let dense = Layout::dense(element, found);
    let is_dense = dense.strides.iter().zip(&result.layout().strides).zip(found).all(|((a, b), &n)| a == b || n == 1);
    if !is_dense || !result.array.address().is_multiple_of(element.size()) {
        return Err(PyValueError::new_err("dst: a contiguous and aligned array is required"));
    }
    use Element::{F32, F64, I16, I32, U8, U16};
    if ![U8, U16, I16, I32, F32, F64].contains(&element) {
        let required = "uint8, uint16, int16, int32, float32 or float64";
        return Err(PyValueError::new_err(format!("dst: {required} is required, not {element:?}")));
    }
    check_apart(&source.array, &result.array)?;
    Ok((source, result))
}

/// Correlates an image with a mask: `result = sum * scale + offset`, with sums of `f64`, rounded half to even.
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
    scale: f64,
    offset: f64,
    border: &str,
) -> PyResult<()> {
    let (source, mut result) = images(source, result)?;
    let border: Border = border.parse().map_err(exception)?;
    let (mut column, row) = (numbers("column", column)?, row.map(|row| numbers("row", row)).transpose()?);
    let origin = |axis: usize| -> isize {
        let (anchor, size) = if axis == 0 { (anchor.0, mask.0) } else { (anchor.1, mask.1) };
        anchor as isize - (size / 2) as isize
    };
    let lines = |axis| Lines { axis, origin: origin(axis), border: border.mode(), value: border.value().into() };
    let steps = if row.is_some() { mask.0.saturating_add(mask.1) } else { mask.0.saturating_mul(mask.1) };
    let work = steps.saturating_mul(source.layout().elements());
    compute(py, work, || {
        let mut scale = scale * normalize(&mut column);
        if let Some(mut row) = row {
            scale *= normalize(&mut row);
            let passes = Passes { row: &row, along_rows: &lines(1), column: &column, above: anchor.0 };
            return passes.run(&source, &mut result, work, |sum| sum * scale + offset);
        }
        let mut sums = Sums64::new(&source.layout().shape)?;
        let (shape, origins) = (&[mask.0, mask.1, 1][..], &[origin(0), origin(1), 0][..]);
        let axes = source.layout().shape.len();
        let (border, value) = (border.mode(), border.value().into());
        let correlation =
            Correlation { weights: &column, shape: &shape[..axes], origins: &origins[..axes], border, value };
        correlate(source.rows(0..source.layout().shape[0])?, sums.all()?, &correlation, Sums::F64)?;
        // SAFETY: this is the only use of the result. As with NumPy, the caller's other threads must leave it alone.
        unsafe { result.write(0, &sums.values, &|sum| sum * scale + offset) }
    })
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
    compute(py, work, || {
        let first: *mut u8 = with_exposed_provenance_mut(result.array.address());
        // SAFETY: the buffer's format and shape say that these elements exist, and `result` holds it. `images` has checked
        // that it is writable. As with NumPy, the caller's other threads must leave the array alone during the call.
        let output = unsafe { Output::from_raw(first, result.layout().clone())? };
        window_means(source.rows(0..source.layout().shape[0])?, output, sizes, &lines)
    })
}

/// A filter along rows, then one along columns.
struct Passes<'a> {
    row: &'a [f64],
    along_rows: &'a Lines,
    column: &'a [f64],
    /// Coefficients of the column above the output pixel.
    above: usize,
}

impl Passes<'_> {
    /// Computes bands of rows on all threads. The sums of a band stay in the cache.
    fn run(&self, source: &Image, result: &mut Image, work: usize, finish: impl Fn(f64) -> f64 + Sync) -> Done {
        let (height, shape) = (source.layout().shape[0], &source.layout().shape[1..]);
        let values: usize = shape.iter().product();
        // The rows above and below a band are filtered for its neighbours, too. So it has as many rows of its own.
        let rows = (BAND / size_of::<f64>() / values).saturating_sub(self.column.len()).max(self.column.len()).max(8);
        let bands = height.div_ceil(rows).next_multiple_of(parallel::threads().min(height));
        let rows = if work < SERIAL { height } else { height.div_ceil(bands).max(self.column.len()).min(height) };
        let result = &*result;
        let filter = |sums: &mut Sums64, band: usize| {
            let (first, last) = (band * rows, height.min((band + 1) * rows));
            let filtered = last - first + self.column.len() - 1;
            sums.resize(filtered, shape)?;
            self.filter_rows(source, sums, first as isize - self.above as isize, filtered)?;
            // Result i of the band takes the filtered rows from i on. The last ones have no results.
            let origin = -((self.column.len() / 2) as isize);
            let lines = Lines { axis: 0, origin, border: BorderMode::Constant, value: 0.0 };
            let (from, to) = sums.in_place()?;
            correlate1d(from, to, self.column, &lines, Sums::F64)?;
            // SAFETY: each band has rows of its own.
            unsafe { result.write(first * values, &sums.values[..(last - first) * values], &finish) }
        };
        parallel::for_each(0..height.div_ceil(rows), Sums64::default, filter)
    }

    /// Filters `count` rows from `first` on, which may lie outside of the image.
    fn filter_rows(&self, source: &Image, sums: &mut Sums64, first: isize, count: usize) -> Done {
        let height = source.layout().shape[0];
        let mut done = 0;
        while done < count {
            let row = first + done as isize;
            let inside = (0..height as isize).contains(&row);
            let rows = if inside { (height - row as usize).min(count - done) } else { 1 };
            match position(self.along_rows.border, row, height) {
                Some(place) => {
                    let (from, to) = (source.rows(place..place + rows)?, sums.rows(done..done + rows)?);
                    correlate1d(from, to, self.row, self.along_rows, Sums::F64)?;
                }
                // A row of zeros.
                None => sums.clear(done),
            }
            done += rows;
        }
        Ok(())
    }
}

/// Scales coefficients by a power of two, so that the largest lies in 1..2. Returns the factor that undoes it. The
/// library leaves out coefficients of a magnitude below 2^-52.
fn normalize(coefficients: &mut [f64]) -> f64 {
    let largest = coefficients.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    // Within these bounds neither the factor nor its inverse overflows.
    if !(1e-290..1e290).contains(&largest) {
        return 1.0;
    }
    let factor = largest.log2().floor().exp2();
    coefficients.iter_mut().for_each(|value| *value /= factor);
    factor
}

/// Sums of rows, without gaps.
#[derive(Default)]
struct Sums64 {
    values: Vec<f64>,
    shape: Vec<usize>,
}

type Done = faltung::Result<()>;

impl Sums64 {
    fn new(shape: &[usize]) -> faltung::Result<Self> {
        let mut sums = Self::default();
        sums.resize(shape[0], &shape[1..])?;
        Ok(sums)
    }

    /// Makes room for rows of this shape.
    fn resize(&mut self, rows: usize, shape: &[usize]) -> Done {
        let length = rows * shape.iter().product::<usize>();
        if length > self.values.capacity() {
            self.values = memory::with_capacity(length, "for the sums")?;
        }
        self.values.resize(length, 0.0);
        self.shape.clear();
        self.shape.push(rows);
        self.shape.extend(shape);
        Ok(())
    }

    fn row_values(&self) -> usize {
        self.shape[1..].iter().product()
    }

    fn clear(&mut self, row: usize) {
        let values = self.row_values();
        self.values[row * values..][..values].fill(0.0);
    }

    fn all(&mut self) -> faltung::Result<Output<'_>> {
        self.rows(0..self.shape[0])
    }

    fn rows(&mut self, rows: Range<usize>) -> faltung::Result<Output<'_>> {
        let values = self.row_values();
        let part = &mut self.values[rows.start * values..rows.end * values];
        let mut layout = Layout::dense(Element::F64, &self.shape);
        layout.shape[0] = rows.len();
        // SAFETY: the slice is borrowed for as long as the output, and has an element for each index of this layout.
        unsafe { Output::from_raw(part.as_mut_ptr().cast(), layout) }
    }

    /// The sums as input and output of a filter along lines.
    fn in_place(&mut self) -> faltung::Result<(Input<'_>, Output<'_>)> {
        let first: *mut u8 = self.values.as_mut_ptr().cast();
        let layout = Layout::dense(Element::F64, &self.shape);
        // SAFETY: the vector is borrowed for as long as both, and has an element for each index of this layout. Filters
        // along lines allow that input and output are the same array.
        unsafe { Ok((Input::from_raw(first, layout.clone())?, Output::from_raw(first, layout)?)) }
    }
}

impl Image {
    /// Some rows, as the input of a filter.
    fn rows(&self, rows: Range<usize>) -> faltung::Result<Input<'_>> {
        assert!(rows.end <= self.layout().shape[0]);
        let mut layout = self.layout().clone();
        layout.shape[0] = rows.len();
        let first: *const u8 = with_exposed_provenance(self.array.address());
        // SAFETY: the buffer's format, shape and strides say that these elements exist, and `self` holds it. As
        // with NumPy, the caller's other threads must leave the array alone during the call.
        unsafe { Input::from_raw(first.offset(rows.start as isize * layout.strides[0]), layout) }
    }

    /// Writes `finish` of each sum as a value of the result, from the value `start` on. Integers are rounded half to
    /// even and saturate.
    ///
    /// # Safety
    /// Nothing else reads or writes these values of the result during the call.
    unsafe fn write(&self, start: usize, sums: &[f64], finish: &(impl Fn(f64) -> f64 + Sync)) -> Done {
        // SAFETY: the types are those of the format. The caller promises the rest.
        unsafe {
            match self.layout().element {
                Element::U8 => self.write_as(start, sums, |sum| finish(sum).round_ties_even() as u8),
                Element::U16 => self.write_as(start, sums, |sum| finish(sum).round_ties_even() as u16),
                Element::I16 => self.write_as(start, sums, |sum| finish(sum).round_ties_even() as i16),
                Element::I32 => self.write_as(start, sums, |sum| finish(sum).round_ties_even() as i32),
                Element::F32 => self.write_as(start, sums, |sum| finish(sum) as f32),
                Element::F64 => self.write_as(start, sums, finish),
                other => unreachable!("`images` has refused {other:?}"),
            }
        }
    }

    /// # Safety
    /// - `T` is the type of the buffer's values.
    /// - As for [`write`](Self::write).
    unsafe fn write_as<T: Copy + Send>(&self, start: usize, sums: &[f64], value: impl Fn(f64) -> T + Sync) -> Done {
        assert_eq!(size_of::<T>(), self.layout().element.size());
        assert!(start + sums.len() <= self.layout().elements());
        // SAFETY: `images` has checked that the result is dense, aligned and writable, and the values lie in it by the
        // assertion above. The caller promises the rest.
        let results = unsafe {
            let first: *mut T = with_exposed_provenance_mut(self.array.address());
            slice::from_raw_parts_mut(first.add(start), sums.len())
        };
        let jobs = results.chunks_mut(CONVERTED).zip(sums.chunks(CONVERTED));
        let convert = |(): &mut (), (results, sums): (&mut [T], &[f64])| {
            for (result, &sum) in results.iter_mut().zip(sums) {
                *result = value(sum);
            }
            Ok(())
        };
        parallel::for_each(jobs, || (), convert)
    }
}
