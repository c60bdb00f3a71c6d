//! An array on a CUDA device, as the module sees it.

use std::ffi::c_void;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::dlpack::{DeviceType, Managed};
use super::export;
use crate::forks;

/// Whose arrays these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    CuPy,
    Torch,
    Numba,
    /// Any other one, or the module itself.
    Other,
}

impl Library {
    fn name(self) -> &'static str {
        match self {
            Self::CuPy => "cupy",
            Self::Torch => "torch",
            Self::Numba => "numba",
            Self::Other => "other",
        }
    }

    /// Whether [`libraries::like`](super::libraries::like) makes arrays of the library.
    pub(super) fn makes_arrays(self) -> bool {
        matches!(self, Self::CuPy | Self::Torch)
    }

    /// Whether work on the library's current stream needs no reference to its arrays.
    ///
    /// The library then reuses freed memory for later work of that stream alone. Numba frees memory by the driver,
    /// which waits for the work.
    pub(super) fn frees_in_stream_order(self) -> bool {
        self != Self::Other
    }
}

/// What keeps the memory.
pub(super) enum Owner {
    /// The object that was wrapped.
    Object(Py<PyAny>),
    /// A DLPack tensor.
    Tensor(#[allow(dead_code, reason = "its drop gives the tensor back")] Managed),
    /// The module, in a process of this [generation](forks::generation). None once it is freed.
    Module(Option<faltung::DeviceMemory>, u32),
}

/// An array on a CUDA device.
///
/// Results for arrays of libraries other than CuPy, PyTorch and Numba are of this class. It offers DLPack and
/// ``__cuda_array_interface__``, so that other libraries take it without a copy::
///
///     x = cupy.asarray(result)
///     x = torch.from_dlpack(result)
///
/// Attributes: ``shape`` (tuple of int), ``strides`` (tuple of int, bytes), ``dtype`` (``numpy.dtype``), ``ndim``,
/// ``size``, ``nbytes``, ``pointer`` (int, the device's address), ``device`` (int, as in ``cuda:0``), ``stream`` (int,
/// the stream that orders the work on it), ``library`` ("cupy", "torch", "numba" or "other"), ``read_only`` (bool).
#[pyclass(frozen, module = "faltung", weakref)]
pub(crate) struct DeviceArray {
    pub(crate) pointer: u64,
    pub(crate) shape: Vec<usize>,
    /// In bytes.
    pub(crate) strides: Vec<isize>,
    /// NumPy's.
    pub(crate) dtype: Py<PyAny>,
    pub(crate) item_size: usize,
    #[pyo3(get)]
    pub(crate) device: usize,
    /// The driver's handle of the stream that orders the work on the array.
    #[pyo3(get)]
    pub(crate) stream: usize,
    pub(crate) library: Library,
    #[pyo3(get)]
    pub(crate) read_only: bool,
    pub(super) owner: Owner,
}

/// What a new array is made of.
pub(super) struct Parts {
    pub(super) pointer: u64,
    pub(super) shape: Vec<usize>,
    /// In bytes. None for an array in C order without gaps.
    pub(super) strides: Option<Vec<isize>>,
    pub(super) dtype: Py<PyAny>,
    pub(super) device: usize,
    pub(super) stream: usize,
    pub(super) library: Library,
    pub(super) read_only: bool,
    pub(super) owner: Owner,
}

impl DeviceArray {
    /// Checks what every kernel relies on.
    ///
    /// # Errors
    /// `ValueError` for an array of no real or complex type, a null or misaligned address, and sizes beyond memory.
    pub(super) fn new(py: Python<'_>, parts: Parts) -> PyResult<Self> {
        let Parts { pointer, shape, strides, dtype, device, stream, library, read_only, owner } = parts;
        let item_size = item_size(dtype.bind(py))?;
        let too_large = || PyValueError::new_err(format!("the array: {shape:?} values are more than memory can hold"));
        let bytes = shape.iter().try_fold(item_size, |bytes, &side| bytes.checked_mul(side)).ok_or_else(too_large)?;
        isize::try_from(bytes).map_err(|_| too_large())?;
        let strides = match strides {
            None => dense_strides(&shape, item_size),
            Some(strides) if strides.len() == shape.len() => strides,
            Some(strides) => {
                let (found, required) = (strides.len(), shape.len());
                return Err(PyValueError::new_err(format!("the array: {required} strides are required, not {found}")));
            }
        };
        if bytes > 0 {
            if pointer == 0 {
                return Err(PyValueError::new_err(format!(
                    "the array: its address must not be null with a shape of {shape:?}; was its memory freed?"
                )));
            }
            // Complex numbers are aligned as their parts are.
            let alignment = if is_complex(dtype.bind(py))? { item_size / 2 } else { item_size };
            let is_aligned = |number: u64| number.is_multiple_of(alignment as u64);
            if !is_aligned(pointer) || !strides.iter().all(|stride| is_aligned(stride.unsigned_abs() as u64)) {
                return Err(PyValueError::new_err(format!(
                    "the array: address and strides must be multiples of {alignment} bytes, not {pointer:#x} and \
                     {strides:?}"
                )));
            }
        }
        Ok(Self { pointer, shape, strides, dtype, item_size, device, stream, library, read_only, owner })
    }

    /// The address for kernels.
    pub(crate) fn address(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.pointer as usize)
    }

    /// The number of values.
    pub(crate) fn values(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the array is in C order without gaps.
    pub(crate) fn is_dense(&self) -> bool {
        let dense = dense_strides(&self.shape, self.item_size);
        self.values() == 0
            || self
                .shape
                .iter()
                .zip(&self.strides)
                .zip(dense)
                .all(|((&side, &stride), dense)| side == 1 || stride == dense)
    }

    /// Whether the values are NumPy's `float32` in the device's byte order.
    pub(crate) fn is_f32(&self, py: Python<'_>) -> PyResult<bool> {
        let f32 = f32_dtype(py)?;
        Ok(self.dtype.is(f32) || self.dtype.bind(py).eq(f32)?)
    }

    /// Whether the module owns the memory. Its drop waits for all work.
    pub(super) fn is_of_module(&self) -> bool {
        matches!(self.owner, Owner::Module(..))
    }
}

impl Drop for DeviceArray {
    fn drop(&mut self) {
        if let Owner::Module(memory, generation) = &mut self.owner {
            let memory = memory.take();
            if forks::generation() != *generation {
                // A child of `fork` can't use the parent's driver, nor free its memory.
                std::mem::forget(memory);
                return;
            }
            // The driver waits for the device, whose work may wait for a thread that wants the GIL.
            let _ = Python::try_attach(|py| py.detach(|| drop(memory)));
        }
    }
}

/// Strides without gaps, in bytes.
pub(super) fn dense_strides(shape: &[usize], item_size: usize) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut next = item_size as isize;
    for (stride, &side) in strides.iter_mut().zip(shape).rev() {
        *stride = next;
        next = next.saturating_mul(side.max(1) as isize);
    }
    strides
}

/// NumPy's `float32` in the machine's byte order.
fn f32_dtype(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static F32: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || numpy_dtype(PyString::new(py, "=f4").as_any()).map(Bound::unbind);
    F32.get_or_try_init(py, make).map(|dtype| dtype.bind(py))
}

/// `numpy.dtype(of)`.
pub(super) fn numpy_dtype<'py>(of: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static DTYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    DTYPE.import(of.py(), "numpy", "dtype")?.call1((of,))
}

/// Bytes of a value, if it is a number.
fn item_size(dtype: &Bound<'_, PyAny>) -> PyResult<usize> {
    let py = dtype.py();
    let f32 = f32_dtype(py)?;
    if dtype.is(f32) {
        return Ok(4);
    }
    let kind: char = dtype.getattr(pyo3::intern!(py, "kind"))?.extract()?;
    if !"biufc".contains(kind) {
        return Err(pyo3::exceptions::PyTypeError::new_err(format!(
            "the array: values of type {dtype} can't be filtered on a device; numbers are required"
        )));
    }
    dtype.getattr(pyo3::intern!(py, "itemsize"))?.extract()
}

fn is_complex(dtype: &Bound<'_, PyAny>) -> PyResult<bool> {
    if dtype.is(f32_dtype(dtype.py())?) {
        return Ok(false);
    }
    Ok(dtype.getattr(pyo3::intern!(dtype.py(), "kind"))?.extract::<char>()? == 'c')
}

#[pymethods]
impl DeviceArray {
    #[getter]
    fn pointer(&self) -> u64 {
        self.pointer
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.strides)
    }

    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.dtype.clone_ref(py)
    }

    #[getter]
    fn ndim(&self) -> usize {
        self.shape.len()
    }

    #[getter]
    fn size(&self) -> usize {
        self.values()
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.values() * self.item_size
    }

    #[getter]
    fn library(&self) -> &'static str {
        self.library.name()
    }

    #[getter(__cuda_array_interface__)]
    fn cuda_array_interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        export::cuda_array_interface(py, self)
    }

    /// ``(2, n)`` for an array on ``cuda:n``.
    fn __dlpack_device__(&self) -> (i32, usize) {
        (DeviceType::CUDA.0, self.device)
    }

    /// The array as a DLPack capsule; see the DLPack standard. ``stream`` is the consumer's stream: 1 or None the
    /// default stream, 2 that of the thread, -1 none to wait, or a handle.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<i128>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, usize)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        export::dlpack(slf, stream, max_version, dl_device, copy.unwrap_or(false))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shape = self.shape(py)?;
        Ok(format!("<faltung.DeviceArray {shape} {} on cuda:{}>", self.dtype.bind(py), self.device))
    }
}
