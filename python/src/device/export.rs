//! The module's own device arrays for other libraries.

use std::ffi::c_void;

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::array::{DeviceArray, Library, Owner, Parts};
use super::dlpack::{DataType, DeviceType, IS_COPIED, NAME, NAME_VERSIONED, READ_ONLY, Tensor, Unversioned, Versioned};
use super::{call, exception};
use crate::forks;

/// The driver's handle of the legacy default stream, where 0 is not allowed.
pub(super) const LEGACY: usize = 1;

/// `__cuda_array_interface__`, version 3.
pub(super) fn cuda_array_interface<'py>(py: Python<'py>, array: &DeviceArray) -> PyResult<Bound<'py, PyDict>> {
    let interface = PyDict::new(py);
    interface.set_item("shape", PyTuple::new(py, &array.shape)?)?;
    interface.set_item("typestr", array.dtype.bind(py).getattr("str")?)?;
    let pointer = if array.values() == 0 { 0 } else { array.pointer };
    interface.set_item("data", (pointer, array.read_only))?;
    let strides = if array.is_dense() { None } else { Some(PyTuple::new(py, &array.strides)?) };
    interface.set_item("strides", strides)?;
    interface.set_item("stream", if array.stream == 0 { LEGACY } else { array.stream })?;
    interface.set_item("version", 3)?;
    Ok(interface)
}

/// What a consumer's tensor holds on to.
struct Exported<M> {
    managed: M,
    /// Shape, then strides, to which the tensor points.
    _numbers: Vec<i64>,
    array: Option<Py<DeviceArray>>,
}

/// The tensor of an array. Its numbers lie in `numbers`.
fn tensor(py: Python<'_>, array: &DeviceArray, numbers: &mut Vec<i64>) -> PyResult<Tensor> {
    let kind: char = array.dtype.bind(py).getattr("kind")?.extract()?;
    let byte_order: char = array.dtype.bind(py).getattr("byteorder")?.extract()?;
    let dtype = DataType::of_numpy(kind, array.item_size)
        .filter(|_| byte_order != '>')
        .ok_or_else(|| PyBufferError::new_err(format!("DLPack has no type for {}", array.dtype.bind(py))))?;
    let strides = array.strides.iter().map(|&stride| stride / array.item_size as isize);
    numbers.extend(array.shape.iter().map(|&side| side as i64));
    numbers.extend(strides.map(|stride| stride as i64));
    let shape = numbers.as_mut_ptr();
    Ok(Tensor {
        data: if array.values() == 0 { std::ptr::null_mut() } else { array.address() },
        device_type: DeviceType::CUDA,
        device_id: array.device as i32,
        ndim: array.shape.len() as i32,
        dtype,
        shape,
        strides: shape.wrapping_add(array.shape.len()),
        byte_offset: 0,
    })
}

/// The deleter, which a consumer calls.
///
/// # Safety
/// - `managed` lies in an `Exported` of [`dlpack`], and this is called once.
unsafe extern "C" fn delete<M: HasContext>(managed: *mut M) {
    // SAFETY: the context is the box of the tensor, and nobody else uses it any more.
    let mut exported = unsafe { Box::from_raw((*managed).context().cast::<Exported<M>>()) };
    // A consumer may call this without the GIL. At the interpreter's end the array stays.
    let array = exported.array.take();
    let _ = Python::try_attach(|_py| drop(array));
}

/// Both versions keep their box in their context.
trait HasContext: Sized {
    fn context(&self) -> *mut c_void;
    fn set_context(&mut self, context: *mut c_void);
}

impl HasContext for Unversioned {
    fn context(&self) -> *mut c_void {
        self.context
    }
    fn set_context(&mut self, context: *mut c_void) {
        self.context = context;
    }
}

impl HasContext for Versioned {
    fn context(&self) -> *mut c_void {
        self.context
    }
    fn set_context(&mut self, context: *mut c_void) {
        self.context = context;
    }
}

/// The destructor of a capsule. It deletes the tensor if no consumer has taken it.
///
/// # Safety
/// - `capsule` is one of [`dlpack`]'s.
unsafe extern "C" fn end_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule with one of these names has the tensor of this module, which nobody has taken.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast::<Unversioned>());
        } else if ffi::PyCapsule_IsValid(capsule, NAME_VERSIONED.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, NAME_VERSIONED.as_ptr()).cast::<Versioned>());
        }
    }
}

/// A capsule with a tensor.
fn capsule<'py, M: HasContext>(
    py: Python<'py>,
    exported: Box<Exported<M>>,
    name: &'static std::ffi::CStr,
) -> PyResult<Bound<'py, PyAny>> {
    let exported = Box::into_raw(exported);
    // SAFETY: the box was just leaked. The context gets the whole box, the capsule the tensor in it.
    let capsule = unsafe {
        (*exported).managed.set_context(exported.cast());
        ffi::PyCapsule_New((&raw mut (*exported).managed).cast(), name.as_ptr(), Some(end_capsule))
    };
    if capsule.is_null() {
        // SAFETY: nobody has got the box.
        drop(unsafe { Box::from_raw(exported) });
        return Err(PyErr::fetch(py));
    }
    // SAFETY: a new reference.
    Ok(unsafe { Bound::from_owned_ptr(py, capsule) })
}

/// `__dlpack__`.
pub(super) fn dlpack<'py>(
    array: &Bound<'py, DeviceArray>,
    stream: Option<i128>,
    max_version: Option<(u32, u32)>,
    dl_device: Option<(i32, usize)>,
    copy: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let own = array.get();
    let own_device = (DeviceType::CUDA.0, own.device);
    if let Some(device) = dl_device.filter(|device| *device != own_device) {
        return Err(PyBufferError::new_err(format!("dl_device must be {own_device:?}, not {device:?}")));
    }
    let consumer = match stream {
        None => Some(LEGACY),
        Some(-1) => None,
        Some(0) => {
            let text = "stream must be 1 for the legacy default stream or 2 for that of the thread; 0 is ambiguous";
            return Err(PyValueError::new_err(text));
        }
        Some(handle) => Some(usize::try_from(handle).map_err(|_| {
            PyValueError::new_err(format!("stream must be None, -1, 1, 2 or a stream's handle, not {handle}"))
        })?),
    };
    let array = if copy { copied(array)? } else { array.clone() };
    if let Some(consumer) = consumer {
        call::follow(&array, consumer)?;
    }
    let own = array.get();
    let mut numbers = Vec::with_capacity(2 * own.shape.len());
    let tensor = tensor(py, own, &mut numbers)?;
    let read_only = own.read_only;
    let array = Some(array.unbind());
    let context = std::ptr::null_mut();
    if max_version.is_some_and(|(major, _)| major >= 1) {
        let flags = if read_only { READ_ONLY } else { 0 } | if copy { IS_COPIED } else { 0 };
        let managed = Versioned { major: 1, minor: 0, context, deleter: Some(delete::<Versioned>), flags, tensor };
        return capsule(py, Box::new(Exported { managed, _numbers: numbers, array }), NAME_VERSIONED);
    }
    if read_only {
        return Err(PyBufferError::new_err("a read-only array needs max_version=(1, 0) or later"));
    }
    let managed = Unversioned { tensor, context, deleter: Some(delete::<Unversioned>) };
    capsule(py, Box::new(Exported { managed, _numbers: numbers, array }), NAME)
}

/// A copy in memory of the module, enqueued on the array's stream.
fn copied<'py>(array: &Bound<'py, DeviceArray>) -> PyResult<Bound<'py, DeviceArray>> {
    let (py, own) = (array.py(), array.get());
    if !own.is_dense() {
        return Err(PyBufferError::new_err("copy=True needs an array without gaps between its values"));
    }
    let to = new(py, own, own.shape.clone(), own.dtype.clone_ref(py))?;
    let to = Bound::new(py, to)?;
    let bytes = own.values() * own.item_size;
    let (target, source) = (to.get().pointer as usize, own.pointer as usize);
    if bytes > 0 {
        call::enqueue(array, &to, |_, stream| {
            let (target, source) =
                (std::ptr::with_exposed_provenance_mut(target), std::ptr::with_exposed_provenance(source));
            // SAFETY: both arrays have the bytes without gaps. The new one is freed by the driver, which waits; the
            // call keeps the other one.
            unsafe { stream.copy(target, source, bytes) }
        })?;
    }
    Ok(to)
}

/// A new array in memory of the module, on the device and the stream of another one.
pub(super) fn new(py: Python<'_>, like: &DeviceArray, shape: Vec<usize>, dtype: Py<PyAny>) -> PyResult<DeviceArray> {
    let device = call::open(py, like.device)?;
    let item_size: usize = dtype.bind(py).getattr("itemsize")?.extract()?;
    let bytes = shape.iter().try_fold(item_size, |bytes, &side| bytes.checked_mul(side));
    let bytes = bytes.ok_or_else(|| PyValueError::new_err(format!("shape {shape:?} is more than memory can hold")))?;
    let memory = py.detach(|| device.allocate(bytes)).map_err(exception)?;
    DeviceArray::new(
        py,
        Parts {
            pointer: memory.as_ptr().addr() as u64,
            shape,
            strides: None,
            dtype,
            device: like.device,
            stream: like.stream,
            library: Library::Other,
            read_only: false,
            owner: Owner::Module(Some(memory), forks::generation()),
        },
    )
}
