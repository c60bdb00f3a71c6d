//! CuPy, PyTorch and Numba: whose object this is, what it says of itself, and new arrays of the same library.
//!
//! A library is never imported here: an object of it is there only if the program has imported it.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType, PyWeakrefMethods, PyWeakrefReference};

use super::array::{DeviceArray, Library, Owner, Parts, numpy_dtype};
use super::ndimage::device_overlap;
use super::{export, interface};

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing that could be on a device.
    Host,
    /// A device array of the module.
    Own,
    CuPy,
    Torch,
    Numba,
    /// Something that may offer one of the protocols.
    Unknown,
}

/// A type that was seen. The reference is weak, so that a class may end before the program does.
struct SeenType {
    address: usize,
    reference: Py<PyWeakrefReference>,
    kind: Kind,
}

/// The types that were seen. They are few.
static TYPES: Mutex<Vec<SeenType>> = Mutex::new(Vec::new());

/// What an object is, by its type.
pub(super) fn kind(object: &Bound<'_, PyAny>) -> PyResult<Kind> {
    /// More types than programs have arrays of.
    const MOST: usize = 64;
    let own_type = object.get_type();
    let address = own_type.as_ptr().addr();
    // A new class may have the address of one that has ended.
    let is_same = |seen: &SeenType| {
        seen.address == address && seen.reference.bind(object.py()).upgrade().is_some_and(|known| known.is(&own_type))
    };
    {
        let types = TYPES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = types.iter().find(|seen| is_same(seen)) {
            return Ok(seen.kind);
        }
    }
    let kind = kind_of_type(object, &own_type)?;
    let reference = PyWeakrefReference::new(&own_type)?.unbind();
    let mut types = TYPES.lock().unwrap_or_else(PoisonError::into_inner);
    types.retain(|seen| seen.reference.bind(object.py()).upgrade().is_some());
    if types.len() < MOST {
        types.push(SeenType { address, reference, kind });
    }
    Ok(kind)
}

fn kind_of_type(object: &Bound<'_, PyAny>, own_type: &Bound<'_, PyType>) -> PyResult<Kind> {
    let py = object.py();
    if object.is_instance_of::<DeviceArray>() {
        return Ok(Kind::Own);
    }
    let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    let is_a = |module: &str, class: &str| -> PyResult<bool> {
        match modules.get_item(module)? {
            // A module that is being imported may lack the class.
            Some(module) => match module.getattr_opt(class)? {
                Some(class) => object.is_instance(&class),
                None => Ok(false),
            },
            None => Ok(false),
        }
    };
    if is_a("numpy", "ndarray")? || is_a("numpy", "generic")? {
        return Ok(Kind::Host);
    }
    if is_a("cupy", "ndarray")? {
        return Ok(Kind::CuPy);
    }
    if is_a("torch", "Tensor")? {
        return Ok(Kind::Torch);
    }
    if is_a("numba.cuda.cudadrv.devicearray", "DeviceNDArrayBase")? {
        return Ok(Kind::Numba);
    }
    // Python's own types have neither protocol.
    let module: Option<String> = own_type.getattr("__module__")?.extract().ok();
    Ok(if module.as_deref() == Some("builtins") { Kind::Host } else { Kind::Unknown })
}

/// The integers of a tuple, as arrays have them in `shape` and `strides`. Faster than any sequence.
fn integers(numbers: &Bound<'_, PyAny>) -> PyResult<Vec<isize>> {
    match numbers.cast::<PyTuple>() {
        Ok(numbers) => numbers.iter().map(|number| number.extract::<isize>()).collect(),
        Err(_) => numbers.extract(),
    }
}

/// The sizes of an array's axes.
fn sizes(shape: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let wrong = |_| PyValueError::new_err(format!("the array: sizes must be 0 or more, not {shape}"));
    integers(shape)?.into_iter().map(|side| usize::try_from(side).map_err(wrong)).collect()
}

/// CuPy's functions.
struct CuPy {
    get_current_stream: Py<PyAny>,
    get_device_id: Py<PyAny>,
    device: Py<PyAny>,
    ndarray: Py<PyAny>,
}

impl CuPy {
    fn get(py: Python<'_>) -> PyResult<&Self> {
        static CUPY: PyOnceLock<CuPy> = PyOnceLock::new();
        CUPY.get_or_try_init(py, || {
            let cuda = py.import("cupy.cuda")?;
            Ok(Self {
                get_current_stream: cuda.getattr("get_current_stream")?.unbind(),
                get_device_id: py.import("cupy.cuda.device")?.getattr("get_device_id")?.unbind(),
                device: cuda.getattr("Device")?.unbind(),
                ndarray: py.import("cupy")?.getattr("ndarray")?.unbind(),
            })
        })
    }
}

/// A CuPy array, on the current stream of its device.
pub(super) fn wrap_cupy(object: &Bound<'_, PyAny>) -> PyResult<DeviceArray> {
    let py = object.py();
    let data = object.getattr(intern!(py, "data"))?;
    let device: usize = data.getattr(intern!(py, "device_id"))?.extract()?;
    let stream = CuPy::get(py)?.get_current_stream.bind(py).call1((device,))?;
    let parts = Parts {
        pointer: data.getattr(intern!(py, "ptr"))?.extract()?,
        shape: sizes(&object.getattr(intern!(py, "shape"))?)?,
        strides: Some(integers(&object.getattr(intern!(py, "strides"))?)?),
        dtype: object.getattr(intern!(py, "dtype"))?.unbind(),
        device,
        stream: stream.getattr(intern!(py, "ptr"))?.extract()?,
        library: Library::CuPy,
        read_only: false,
        owner: Owner::Object(object.clone().unbind()),
    };
    DeviceArray::new(py, parts)
}

/// PyTorch's functions, and its types beside NumPy's.
struct Torch {
    /// A private function that returns a handle in a tenth of the time, where there is one.
    raw_stream: Option<Py<PyAny>>,
    current_stream: Py<PyAny>,
    strided: Py<PyAny>,
    empty_like: Py<PyAny>,
    dtypes: Vec<TorchType>,
    is_rocm: bool,
}

/// A type of PyTorch that NumPy has, too.
struct TorchType {
    torch: Py<PyAny>,
    numpy: Py<PyAny>,
    /// NumPy's letter: 'f' for floating-point numbers, 'c' for complex ones.
    kind: char,
    item_size: isize,
}

impl Torch {
    fn get(py: Python<'_>) -> PyResult<&Self> {
        static TORCH: PyOnceLock<Torch> = PyOnceLock::new();
        TORCH.get_or_try_init(py, || {
            let torch = py.import("torch")?;
            let names = [
                "bool",
                "uint8",
                "int8",
                "int16",
                "int32",
                "int64",
                "uint16",
                "uint32",
                "uint64",
                "float16",
                "float32",
                "float64",
                "complex64",
                "complex128",
            ];
            let mut dtypes = Vec::new();
            for name in names {
                // Older releases lack some of them.
                if let Some(dtype) = torch.getattr_opt(name)? {
                    let numpy = numpy_dtype(pyo3::types::PyString::new(py, name).as_any())?;
                    let (kind, item_size) = (numpy.getattr("kind")?.extract()?, numpy.getattr("itemsize")?.extract()?);
                    dtypes.push(TorchType { torch: dtype.unbind(), numpy: numpy.unbind(), kind, item_size });
                }
            }
            let raw_stream = torch.getattr("_C")?.getattr_opt("_cuda_getCurrentRawStream")?;
            Ok(Self {
                raw_stream: raw_stream.map(Bound::unbind),
                current_stream: torch.getattr("cuda")?.getattr("current_stream")?.unbind(),
                strided: torch.getattr("strided")?.unbind(),
                empty_like: torch.getattr("empty_like")?.unbind(),
                dtypes,
                is_rocm: !torch.getattr("version")?.getattr_opt("hip")?.is_none_or(|hip| hip.is_none()),
            })
        })
    }

    fn stream(&self, py: Python<'_>, device: usize) -> PyResult<usize> {
        match &self.raw_stream {
            Some(raw_stream) => raw_stream.bind(py).call1((device,))?.extract(),
            None => {
                let stream = self.current_stream.bind(py).call1((device,))?;
                stream.getattr(intern!(py, "cuda_stream"))?.extract()
            }
        }
    }
}

/// Whether a tensor is on a CUDA device. One on the CPU is not.
///
/// # Errors
/// `TypeError` for a tensor of any other device, and for a build for ROCm.
pub(super) fn is_torch_on_cuda(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    if object.getattr(intern!(py, "is_cuda"))?.is_truthy()? {
        if Torch::get(py)?.is_rocm {
            return Err(PyTypeError::new_err("the array: a CUDA device or the CPU is required, not a ROCm device"));
        }
        return Ok(true);
    }
    let device = object.getattr(intern!(py, "device"))?;
    let name: String = device.getattr(intern!(py, "type"))?.extract()?;
    if name == "cpu" {
        return Ok(false);
    }
    Err(PyTypeError::new_err(format!("the array: a CUDA device or the CPU is required, not the device {device}")))
}

/// A tensor on a CUDA device, on PyTorch's current stream of the device.
pub(super) fn wrap_torch(object: &Bound<'_, PyAny>) -> PyResult<DeviceArray> {
    let py = object.py();
    let torch = Torch::get(py)?;
    if object.getattr(intern!(py, "requires_grad"))?.is_truthy()? {
        let text = "the array: the filters have no gradients; a tensor that requires none is needed: tensor.detach()";
        return Err(PyRuntimeError::new_err(text));
    }
    let layout = object.getattr(intern!(py, "layout"))?;
    if !layout.is(&torch.strided) {
        return Err(PyTypeError::new_err(format!("the array: a dense tensor is required, not one of {layout}")));
    }
    let own_dtype = object.getattr(intern!(py, "dtype"))?;
    let known = torch.dtypes.iter().find(|known| own_dtype.is(&known.torch));
    let &TorchType { ref numpy, kind, item_size, .. } = known.ok_or_else(|| {
        PyTypeError::new_err(format!("the array: values of type {own_dtype} can't be filtered, NumPy has no such type"))
    })?;
    // The memory of a tensor may hold the conjugate, or the negative. The imaginary part of a conjugated tensor is of
    // real numbers and holds the negative.
    let says = |what| -> PyResult<bool> { object.call_method0(what)?.is_truthy() };
    if kind == 'c' && says(intern!(py, "is_conj"))? || matches!(kind, 'c' | 'f') && says(intern!(py, "is_neg"))? {
        let text = "the array: a tensor whose memory holds its values is required: tensor.resolve_conj().resolve_neg()";
        return Err(PyValueError::new_err(text));
    }
    let device: usize = object.call_method0(intern!(py, "get_device"))?.extract()?;
    let strides = integers(&object.call_method0(intern!(py, "stride"))?)?;
    let parts = Parts {
        pointer: object.call_method0(intern!(py, "data_ptr"))?.extract()?,
        shape: sizes(&object.getattr(intern!(py, "shape"))?)?,
        strides: Some(strides.into_iter().map(|stride| stride * item_size).collect()),
        dtype: numpy.clone_ref(py),
        device,
        stream: torch.stream(py, device)?,
        library: Library::Torch,
        read_only: false,
        owner: Owner::Object(object.clone().unbind()),
    };
    DeviceArray::new(py, parts)
}

/// An uninitialised array on the device and of the library of another one.
///
/// ``like`` is what ``wrap`` returned, ``shape`` a tuple of int, ``dtype`` anything that ``numpy.dtype`` takes. The
/// result is a ``cupy.ndarray``, a ``torch.Tensor``, a device array of Numba, or a ``DeviceArray``.
#[pyfunction]
pub(super) fn empty<'py>(
    like: &Bound<'py, DeviceArray>,
    shape: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, array) = (like.py(), like.get());
    let is_same = dtype.is(&array.dtype);
    let object = match &array.owner {
        Owner::Object(object) => Some(object.bind(py)),
        Owner::Tensor(_) | Owner::Module(..) => None,
    };
    match (array.library, object) {
        (Library::CuPy, _) => {
            let cupy = CuPy::get(py)?;
            let current: usize = cupy.get_device_id.bind(py).call0()?.extract()?;
            if current == array.device {
                return cupy.ndarray.bind(py).call1((shape, dtype));
            }
            let device = cupy.device.bind(py).call1((array.device,))?;
            within(&device, || cupy.ndarray.bind(py).call1((shape, dtype)))
        }
        (Library::Torch, Some(object)) => {
            if is_same {
                return object.call_method1(intern!(py, "new_empty"), (shape,));
            }
            let wanted = numpy_dtype(dtype)?;
            let torch = Torch::get(py)?;
            for known in &torch.dtypes {
                if known.numpy.bind(py).eq(&wanted)? {
                    let options = PyDict::new(py);
                    options.set_item("dtype", &known.torch)?;
                    return object.call_method(intern!(py, "new_empty"), (shape,), Some(&options));
                }
            }
            Err(PyTypeError::new_err(format!("output: PyTorch has no type for {wanted}")))
        }
        (Library::Numba, Some(_)) => {
            let cuda = py.import("numba.cuda")?;
            let gpu = cuda.getattr("gpus")?.get_item(array.device)?;
            within(&gpu, || cuda.call_method1("device_array", (shape, dtype)))
        }
        _ => {
            let shape: Vec<usize> = shape.extract()?;
            let array = export::new(py, array, shape, numpy_dtype(dtype)?.unbind())?;
            Ok(Bound::new(py, array)?.into_any())
        }
    }
}

/// An uninitialised array of the library, device, shape and type of another one, and its description. Its stream is
/// that of the other one.
pub(super) fn like<'py>(array: &Bound<'py, DeviceArray>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, DeviceArray>)> {
    let (py, given) = (array.py(), array.get());
    let object = match (given.library, &given.owner) {
        // In two thirds of the time of `new_empty`. Without gaps in the tensor there are none in the new one.
        (Library::Torch, Owner::Object(tensor)) if given.is_dense() => {
            Torch::get(py)?.empty_like.bind(py).call1((tensor,))?
        }
        _ => empty(array, PyTuple::new(py, &given.shape)?.as_any(), given.dtype.bind(py))?,
    };
    let pointer = match given.library {
        Library::CuPy => object.getattr(intern!(py, "data"))?.getattr(intern!(py, "ptr"))?,
        _ => object.call_method0(intern!(py, "data_ptr"))?,
    };
    let parts = Parts {
        pointer: pointer.extract()?,
        shape: given.shape.clone(),
        strides: None,
        dtype: given.dtype.clone_ref(py),
        device: given.device,
        stream: given.stream,
        library: given.library,
        read_only: false,
        owner: Owner::Object(object.clone().unbind()),
    };
    let described = Bound::new(py, DeviceArray::new(py, parts)?)?;
    Ok((object, described))
}

/// The array for the result of a filter, and its description: ``output``, or [one like the input](like) if that is
/// None. Rust's None for an output that is on no device, that is not like the input, or that may share memory with it.
pub(super) fn result_array<'py>(
    array: &Bound<'py, DeviceArray>,
    output: &Bound<'py, PyAny>,
) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, DeviceArray>)>> {
    if output.is_none() {
        return like(array).map(Some);
    }
    let Some(described) = interface::wrap(output)? else { return Ok(None) };
    let (given, found) = (array.get(), described.get());
    let is_like = found.shape == given.shape
        && found.element(array.py())? == given.element(array.py())?
        && !device_overlap(array, &described);
    Ok(is_like.then(|| (output.clone(), described)))
}

/// Runs `work` within a context manager.
fn within<'py>(
    manager: &Bound<'py, PyAny>,
    work: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = manager.py();
    manager.call_method0("__enter__")?;
    let done = work();
    let nothing = PyTuple::new(py, [py.None(), py.None(), py.None()])?;
    manager.call_method1("__exit__", nothing)?;
    done
}
