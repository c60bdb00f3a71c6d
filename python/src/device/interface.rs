//! Objects of other libraries as device arrays, by `__cuda_array_interface__` and DLPack.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use faltung::{AddressInfo, MemoryKind};

use super::array::{DeviceArray, Library, Owner, Parts, numpy_dtype};
use super::dlpack::{DeviceType, Managed};
use super::export::LEGACY;
use super::libraries::{self, Kind};
use super::{call, exception};

/// The device array that an object is, without a copy; None for what is not on a device.
///
/// Takes ``cupy.ndarray``, ``torch.Tensor``, device arrays of Numba, and any object with ``__cuda_array_interface__``
/// or ``__dlpack__``. Nothing is waited for on the host: the work of the object's stream comes before later work on the
/// result's ``stream``.
///
/// Raises ``TypeError`` for types of values and kinds of memory that can't be used, ``ValueError`` for an object that
/// contradicts itself or whose memory was freed, ``RuntimeError`` where there is no such device, and in a process that
/// was forked after the GPU was used.
#[pyfunction]
pub(super) fn wrap<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, DeviceArray>>> {
    let py = object.py();
    let array = match libraries::kind(object)? {
        Kind::Host => return Ok(None),
        Kind::Own => {
            call::check_process()?;
            return Ok(Some(object.cast::<DeviceArray>()?.clone()));
        }
        Kind::CuPy => libraries::wrap_cupy(object)?,
        Kind::Torch if libraries::is_torch_on_cuda(object)? => libraries::wrap_torch(object)?,
        Kind::Torch => return Ok(None),
        Kind::Numba => match object.getattr_opt(intern!(py, "__cuda_array_interface__"))? {
            Some(interface) => from_interface(object, &interface, Library::Numba)?,
            None => return Ok(None),
        },
        Kind::Unknown => match object.getattr_opt(intern!(py, "__cuda_array_interface__"))? {
            Some(interface) => from_interface(object, &interface, Library::Other)?,
            None => match dlpack_device(object)? {
                Some((DeviceType::CUDA, device)) => from_dlpack(object, device)?,
                Some((DeviceType::CPU, _)) | None => return Ok(None),
                Some((other, _)) => {
                    let other = other.name();
                    let text = format!("the array: memory of a CUDA device or of the CPU is required, not of {other}");
                    return Err(PyTypeError::new_err(text));
                }
            },
        },
    };
    // The device is there, and this process may use it.
    call::open(py, array.device)?;
    Bound::new(py, array).map(Some)
}

/// The device of an object that has DLPack.
fn dlpack_device(object: &Bound<'_, PyAny>) -> PyResult<Option<(DeviceType, i64)>> {
    let py = object.py();
    let Some(method) = object.getattr_opt(intern!(py, "__dlpack_device__"))? else { return Ok(None) };
    if object.is_instance_of::<pyo3::types::PyType>() {
        // A class, whose objects have the method.
        return Ok(None);
    }
    let device = method.call0()?;
    let (kind, number): (i32, i64) = device.extract().map_err(|_| {
        PyValueError::new_err(format!("the array: __dlpack_device__ must return two integers, not {device}"))
    })?;
    Ok(Some((DeviceType(kind), number)))
}

/// The number of a device, if it is one.
fn device_number(number: i64) -> PyResult<usize> {
    usize::try_from(number)
        .map_err(|_| PyValueError::new_err(format!("the array: its device must be 0 or more, not {number}")))
}

/// An array by DLPack. The producer makes the legacy default stream wait for its work.
fn from_dlpack(object: &Bound<'_, PyAny>, device: i64) -> PyResult<DeviceArray> {
    let py = object.py();
    let device = device_number(device)?;
    // This fails without the device. Then the producer's code must not run.
    call::open(py, device)?;
    let tensor = Managed::of(object, Some(LEGACY as i64))?;
    let contents = tensor.contents()?;
    if contents.device_type != DeviceType::CUDA || device_number(contents.device.into())? != device {
        let (kind, number) = (contents.device_type.name(), contents.device);
        let text =
            format!("the array: __dlpack_device__ says cuda:{device}, and __dlpack__ gives {kind}, number {number}");
        return Err(PyValueError::new_err(text));
    }
    let parts = Parts {
        pointer: contents.pointer,
        shape: contents.shape,
        strides: contents.strides,
        dtype: numpy_dtype(PyString::new(py, &contents.dtype).as_any())?.unbind(),
        device,
        stream: LEGACY,
        library: Library::Other,
        read_only: contents.read_only,
        owner: Owner::Tensor(tensor),
    };
    DeviceArray::new(py, parts)
}

/// An array by `__cuda_array_interface__`. Work on it is enqueued on the producer's stream, where it names one.
fn from_interface(object: &Bound<'_, PyAny>, interface: &Bound<'_, PyAny>, library: Library) -> PyResult<DeviceArray> {
    let py = object.py();
    let wrong = |what: String| PyValueError::new_err(format!("the array: __cuda_array_interface__ {what}"));
    let interface = interface.cast::<PyDict>().map_err(|_| wrong(format!("must be a dict, not {interface}")))?;
    let required = |key: &str| {
        interface.get_item(key)?.ok_or_else(|| wrong(format!("must have the key {key:?}, it has {}", interface.keys())))
    };
    // None means the same as a missing key.
    let optional = |key: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
        Ok(interface.get_item(key)?.filter(|value| !value.is_none()))
    };
    let typed = |key: &str, required: &str, value: &Bound<'_, PyAny>| {
        wrong(format!("[{key:?}] must be {required}, not {value}"))
    };

    let version = required("version")?;
    if !version.extract::<i64>().is_ok_and(|version| version >= 2) {
        return Err(typed("version", "2 or later", &version));
    }
    if let Some(mask) = optional("mask")? {
        return Err(typed("mask", "None", &mask));
    }
    let shape = required("shape")?;
    let shape: Vec<usize> = shape.extract().map_err(|_| typed("shape", "a tuple of sizes", &shape))?;
    let strides = match optional("strides")? {
        Some(strides) => Some(strides.extract().map_err(|_| typed("strides", "None or a tuple of bytes", &strides))?),
        None => None,
    };
    let typestr = required("typestr")?;
    let dtype = match numpy_dtype(&typestr) {
        Ok(dtype) => dtype,
        Err(_) => return Err(typed("typestr", "the name of a type of NumPy, such as \"<f4\"", &typestr)),
    };
    let data = required("data")?;
    let (pointer, read_only): (u64, bool) =
        data.extract().map_err(|_| typed("data", "an address and whether it is read-only", &data))?;
    let stream = match optional("stream")? {
        None => LEGACY,
        Some(stream) => match stream.extract::<usize>() {
            Ok(handle) if handle > 0 => handle,
            _ => return Err(typed("stream", "None, 1, 2 or a stream's handle", &stream)),
        },
    };
    let is_empty = shape.contains(&0);
    // The type, the sizes and a null address are errors on any machine.
    let owner = Owner::Object(object.clone().unbind());
    let (dtype, device) = (dtype.unbind(), 0);
    let parts = Parts { pointer, shape, strides, dtype, device, stream, library, read_only, owner };
    let mut array = DeviceArray::new(py, parts)?;
    call::check_process()?;
    if !is_empty {
        array.device = device_of(py, pointer)?;
    }
    Ok(array)
}

/// The device of an address.
///
/// # Errors
/// `ValueError` if the driver knows of no memory there, `TypeError` if it is none of a device.
fn device_of(py: Python<'_>, pointer: u64) -> PyResult<usize> {
    let known = call::noted(py.detach(|| AddressInfo::of(pointer as usize))).map_err(exception)?;
    let known = known.ok_or_else(|| {
        PyValueError::new_err(format!("the array: there is no memory of a device at {pointer:#x}; was it freed?"))
    })?;
    let found = match known.kind {
        MemoryKind::Device => return Ok(known.device),
        MemoryKind::Managed => "managed memory",
        _ => "page-locked memory of the host",
    };
    Err(PyTypeError::new_err(format!("the array: memory of a CUDA device is required, {found} is at {pointer:#x}")))
}
