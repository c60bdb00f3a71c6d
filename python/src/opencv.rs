//! Correlations of images in `f32`, for the functions with OpenCV's names: on the CPU, or on the device of the images.
//! `python/faltung/_opencv.py` checks their arguments.

use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, LazyLock};

use faltung::nd::{Element, Layout, SERIAL};
use faltung::{
    Border, Device, DeviceImage, Filter, Mask, Operation, Pixel, PixelFormat, PixelType, Prepared, Problem, Recent,
    Stream, VariantChoice, View, ViewMut, for_pixel_type,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::array::{Array, check_apart};
use crate::channels;
use crate::compute::{compute, exception};
use crate::device::{DeviceArray, enqueue};
use crate::forks;
use crate::ndimage::same_bits;

/// How many prepared filters are kept.
const KEPT: usize = 16;

/// The filters that were prepared last.
type Known = Recent<Arc<(Request, Prepared)>, KEPT>;

/// The prepared filters of this process. A child of `fork` begins without any and leaks those of the parent: a thread
/// of the parent may have held their lock at the fork.
fn known() -> &'static Known {
    static LATEST: AtomicPtr<(u32, Known)> = AtomicPtr::new(std::ptr::null_mut());
    let generation = forks::generation();
    let latest = LATEST.load(Ordering::Acquire);
    // SAFETY: the pointer is null, or points to a box that was leaked below.
    if let Some((_, known)) = unsafe { latest.as_ref() }.filter(|(of, _)| *of == generation) {
        return known;
    }
    let new = Box::into_raw(Box::new((generation, Known::new())));
    match LATEST.compare_exchange(latest, new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: `new` was leaked.
        Ok(_) => unsafe { &(*new).1 },
        Err(other) => {
            // SAFETY: nobody else has `new`. Another thread of this process has leaked `other`.
            unsafe {
                drop(Box::from_raw(new));
                &(*other).1
            }
        }
    }
}

static CPU: LazyLock<Device> = LazyLock::new(Device::cpu);

/// Initializes what the first call would initialize without the GIL. A child that is forked in that moment would wait
/// for it forever.
pub(crate) fn initialize() {
    LazyLock::force(&CPU);
    // A wrong value of FALTUNG_CPU is an error of the first call.
    let _ = faltung::cpu_instruction_set();
}

/// What a call from Python asks for, the key of a prepared filter.
#[derive(Clone)]
struct Request {
    /// The number of the CUDA device; None is the CPU.
    device: Option<usize>,
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
    /// Whether results of both have the same bits: NaN is the same as itself, and -0.0 differs from 0.0.
    fn is_same(&self, other: &Self) -> bool {
        let Self { device, width, height, format, column, row, mask, anchor, scale, offset, border, accuracy } = self;
        let have_same_row = match (row, &other.row) {
            (Some(row), Some(other)) => same_bits(row, other),
            (row, other) => row.is_none() && other.is_none(),
        };
        (device, width, height, format) == (&other.device, &other.width, &other.height, &other.format)
            && (mask, anchor, accuracy) == (&other.mask, &other.anchor, &other.accuracy)
            && (scale.to_bits(), offset.to_bits()) == (other.scale.to_bits(), other.offset.to_bits())
            && border.is_same(other.border)
            && same_bits(column, &other.column)
            && have_same_row
    }

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

    /// Prepares the filter, or finds it among the [`known`] ones. `device` is that of the request.
    fn ready(self, device: &Device) -> faltung::Result<Prepared> {
        let make = || -> faltung::Result<_> {
            let ready = device.prepare_for_device_images(&self.problem()?, VariantChoice::Auto)?;
            Ok(Arc::new((self.clone(), ready)))
        };
        let ready = known().get(|known| known.0.is_same(&self), make)?;
        Ok(ready.1.clone())
    }
}

/// Rows without gaps between their pixels: 2 axes, or 3 with the channels last.
#[derive(Clone, Copy)]
struct Rows {
    address: usize,
    width: usize,
    height: usize,
    channels: usize,
    /// Values from one row to the next.
    pitch: usize,
    kind: PixelType,
}

impl Rows {
    /// # Errors
    /// `ValueError` for other types and for gaps between pixels.
    fn new(name: &str, address: usize, layout: &Layout) -> PyResult<Self> {
        let Layout { element, shape, strides } = layout;
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
        let is_aligned = address.is_multiple_of(kind.bytes()) && pitch % bytes == 0;
        if !inner_fits || pitch < width as isize * step || !is_aligned {
            let required = "aligned and contiguous rows are required";
            return Err(PyValueError::new_err(format!("{name}: {required}, the strides are {strides:?}")));
        }
        Ok(Self { width, height, channels, pitch: (pitch / bytes) as usize, kind, address })
    }

    /// The number of values from the first one to the last one, gaps between rows included.
    fn span(&self) -> usize {
        match self.height * self.width * self.channels {
            0 => 0,
            _ => (self.height - 1) * self.pitch + self.width * self.channels,
        }
    }

    /// # Safety
    /// - The rows are those of an array in the host's memory, and `T` is the type of its values.
    /// - While the slice lives, the array is held, and nothing writes to it.
    unsafe fn values<T: Pixel>(&self) -> &[T] {
        match self.span() {
            0 => &[],
            // SAFETY: the buffer's shape and strides say that these values exist, and `new` has checked the alignment.
            // The caller promises the rest.
            span => unsafe { slice::from_raw_parts(with_exposed_provenance(self.address), span) },
        }
    }

    /// # Safety
    /// - The rows are those of an array in the host's memory, and `T` is the type of its values.
    /// - The array may be written. While the slice lives, it is held, and nothing else reads or writes it.
    unsafe fn values_mut<T: Pixel>(&mut self) -> &mut [T] {
        match self.span() {
            0 => &mut [],
            // SAFETY: as in `values`.
            span => unsafe { slice::from_raw_parts_mut(with_exposed_provenance_mut(self.address), span) },
        }
    }

    /// # Safety
    /// - The rows are those of an array on a CUDA device, and `T` is the type of its values.
    /// - [`DeviceImage::borrow_raw`]'s conditions on the array's users hold.
    unsafe fn image<T: Pixel>(&self) -> faltung::Result<DeviceImage<T>> {
        let pointer = with_exposed_provenance_mut(self.address);
        // SAFETY: the shape and the strides say that these values exist. The caller promises the rest.
        unsafe { DeviceImage::borrow_raw(pointer, self.width, self.height, self.channels, self.pitch) }
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

/// A mask, and what becomes of its sums: `sum * scale + offset`. Python hands it over as a tuple.
///
/// `column` and `row` are float64 values as bytes. Without `row` the mask is dense, and `column` has all its
/// coefficients. `mask` is rows and columns, `anchor` row and column.
#[derive(FromPyObject)]
pub(crate) struct Correlation<'py>(
    /* column */ Bound<'py, PyBytes>,
    /* row */ Option<Bound<'py, PyBytes>>,
    /* mask */ (usize, usize),
    /* anchor */ (usize, usize),
    /* scale */ f32,
    /* offset */ f32,
    /* border */ Bound<'py, PyString>,
    /* accuracy */ Bound<'py, PyString>,
);

impl Correlation<'_> {
    /// The request for these images.
    ///
    /// # Errors
    /// `ValueError` if the images differ in shape; a border or an accuracy of another name.
    fn request(&self, source: &Rows, result: &Rows, device: Option<usize>) -> PyResult<Request> {
        let Self(column, row, mask, anchor, scale, offset, border, accuracy) = self;
        let shape = |rows: &Rows| (rows.height, rows.width, rows.channels);
        if shape(source) != shape(result) {
            let (required, found) = (shape(source), shape(result));
            return Err(PyValueError::new_err(format!(
                "dst: the shape {required:?} of src is required, not {found:?}"
            )));
        }
        Ok(Request {
            device,
            width: source.width,
            height: source.height,
            format: PixelFormat { channels: source.channels, input: source.kind, output: result.kind },
            column: numbers("column", column.as_bytes())?,
            row: row.as_ref().map(|row| numbers("row", row.as_bytes())).transpose()?,
            mask: *mask,
            anchor: *anchor,
            scale: *scale,
            offset: *offset,
            border: border.to_str()?.parse().map_err(exception)?,
            accuracy: accuracy.to_str()?.parse().map_err(exception)?,
        })
    }
}

/// Correlates an image with a mask on the CPU.
///
/// `source` and `result` are buffers of one shape with contiguous rows, of uint8, uint16 or float32. They must not
/// overlap.
#[pyfunction]
pub(crate) fn correlate_image(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    result: &Bound<'_, PyAny>,
    correlation: Correlation<'_>,
) -> PyResult<()> {
    let (from, to) = (Array::get(source)?, Array::get_output(result)?);
    let source = Rows::new("src", from.address(), from.layout())?;
    let mut result = Rows::new("dst", to.address(), to.layout())?;
    let request = correlation.request(&source, &result, None)?;
    check_apart(&from, &to)?;
    let (rows, columns) = request.mask;
    let row = source.width * source.channels;
    let work = (rows.saturating_mul(columns).saturating_add(16)).saturating_mul(row * source.height);
    // The library splits narrow images among threads, however small. That must happen in the pool of this process.
    let work = if row < 64 { work.max(SERIAL) } else { work };
    compute(py, work, move || {
        // SAFETY: the types are the arrays'. `get_output` has checked that the result is writable, and `check_apart`
        // that its memory is not the source's. Both arrays are held until the end of this function. As with NumPy, the
        // caller's other threads must leave them alone during the call.
        let done = unsafe {
            for_pixel_type!(source.kind, T => for_pixel_type!(result.kind, U => {
                on_cpu::<T, U>(&source, &mut result, request)
            }))
        };
        drop((from, to));
        done
    })
}

/// # Safety
/// `T` and `U` are the types of the arrays' values. As for [`Rows::values`] and [`Rows::values_mut`].
unsafe fn on_cpu<T: Pixel, U: Pixel>(source: &Rows, result: &mut Rows, request: Request) -> faltung::Result<()> {
    let &Rows { width, height, channels, pitch, .. } = source;
    let result_pitch = result.pitch;
    // SAFETY: as the caller promises.
    let (source, result) = unsafe { (source.values::<T>(), result.values_mut::<U>()) };
    if channels > channels::MOST && !source.is_empty() {
        let shape = channels::Shape { width, height, channels, source_pitch: pitch, result_pitch };
        return channels::filter_parts(source, result, shape, |source, result| {
            let format = PixelFormat { channels: source.channels(), ..request.format };
            Request { format, ..request.clone() }.ready(&CPU)?.apply_view(source, result)
        });
    }
    let source = View::new(width, height, channels, pitch, source)?;
    request.ready(&CPU)?.apply_view(source, ViewMut::new(width, height, channels, result_pitch, result)?)
}

/// Enqueues the correlation of an image with a mask on the device of the image.
///
/// `source` and `result` are arrays as for `correlate_image`, on one device. They may overlap.
#[pyfunction]
pub(crate) fn device_correlate_image(
    source: &Bound<'_, DeviceArray>,
    result: &Bound<'_, DeviceArray>,
    correlation: Correlation<'_>,
) -> PyResult<()> {
    let rows = |name: &str, array: &Bound<'_, DeviceArray>| -> PyResult<Rows> {
        Rows::new(name, array.get().pointer as usize, &array.get().layout(array.py())?)
    };
    let (from, to) = (rows("src", source)?, rows("dst", result)?);
    let request = correlation.request(&from, &to, Some(source.get().device))?;
    enqueue(source, result, |device, stream| {
        // SAFETY: the types are the arrays', which are on this device, as their libraries say. What frees or writes
        // them is ordered behind the stream's work: by the libraries, or because the call keeps the arrays.
        unsafe {
            for_pixel_type!(from.kind, T => for_pixel_type!(to.kind, U => {
                on_device::<T, U>(&from, &to, request, device, stream)
            }))
        }
    })
}

/// # Safety
/// `T` and `U` are the types of the arrays' values. As for [`Rows::image`], for both.
unsafe fn on_device<T: Pixel, U: Pixel>(
    source: &Rows,
    result: &Rows,
    request: Request,
    device: &Device,
    stream: &Stream,
) -> faltung::Result<()> {
    // SAFETY: as the caller promises.
    let (source, mut result) = unsafe { (source.image::<T>()?, result.image::<U>()?) };
    request.ready(device)?.run_into(&source, &mut result, stream)
}
