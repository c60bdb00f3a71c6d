//! DLPack: the structures of its versions 0 and 1, and tensors that other libraries give.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

/// The kind of a device, `DLDeviceType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct DeviceType(pub(super) i32);

impl DeviceType {
    pub(super) const CPU: Self = Self(1);
    pub(super) const CUDA: Self = Self(2);

    /// The name in error messages.
    pub(super) fn name(self) -> String {
        let name = match self.0 {
            1 => "the CPU",
            2 => "a CUDA device",
            3 => "page-locked memory (kDLCUDAHost)",
            4 => "OpenCL",
            7 => "Vulkan",
            8 => "Metal",
            10 => "a ROCm device",
            11 => "page-locked memory of ROCm",
            13 => "managed memory (kDLCUDAManaged)",
            14 => "oneAPI",
            15 => "WebGPU",
            17 => "MAIA",
            number => return format!("a device of DLPack's type {number}"),
        };
        name.to_owned()
    }
}

/// `DLDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct DataType {
    pub(super) code: u8,
    pub(super) bits: u8,
    pub(super) lanes: u16,
}

impl DataType {
    /// DLPack's codes of NumPy's kinds.
    const CODES: [(u8, char); 5] = [(0, 'i'), (1, 'u'), (2, 'f'), (5, 'c'), (6, 'b')];

    /// NumPy's name of the type, such as `=f4`.
    fn numpy_name(self) -> PyResult<String> {
        let kind = Self::CODES.iter().find(|(code, _)| *code == self.code).map(|(_, kind)| *kind);
        match kind {
            Some(kind) if self.lanes == 1 && self.bits.is_multiple_of(8) => Ok(format!("={kind}{}", self.bits / 8)),
            _ => {
                let Self { code, bits, lanes } = self;
                let text = format!(
                    "the array: DLPack's type with code {code}, {bits} bits and {lanes} lanes has no type in NumPy"
                );
                Err(PyTypeError::new_err(text))
            }
        }
    }

    /// The type of NumPy's kind and size.
    pub(super) fn of_numpy(kind: char, bytes: usize) -> Option<Self> {
        let (code, _) = Self::CODES.iter().find(|(_, known)| *known == kind)?;
        Some(Self { code: *code, bits: u8::try_from(bytes * 8).ok()?, lanes: 1 })
    }
}

/// `DLTensor`.
#[repr(C)]
pub(super) struct Tensor {
    pub(super) data: *mut c_void,
    pub(super) device_type: DeviceType,
    pub(super) device_id: i32,
    pub(super) ndim: i32,
    pub(super) dtype: DataType,
    pub(super) shape: *mut i64,
    /// The distances of neighbours along each axis, in values. Null for an array in C order.
    pub(super) strides: *mut i64,
    pub(super) byte_offset: u64,
}

/// `DLManagedTensor`, of version 0.
#[repr(C)]
pub(super) struct Unversioned {
    pub(super) tensor: Tensor,
    pub(super) context: *mut c_void,
    pub(super) deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`, of version 1. All versions have the first four fields.
#[repr(C)]
pub(super) struct Versioned {
    pub(super) major: u32,
    pub(super) minor: u32,
    pub(super) context: *mut c_void,
    pub(super) deleter: Option<unsafe extern "C" fn(*mut Self)>,
    pub(super) flags: u64,
    pub(super) tensor: Tensor,
}

/// The flags of version 1.
pub(super) const READ_ONLY: u64 = 1;
pub(super) const IS_COPIED: u64 = 2;

/// The names of a capsule that holds a tensor, and its names after a consumer has taken the tensor.
pub(super) const NAME: &CStr = c"dltensor";
pub(super) const NAME_VERSIONED: &CStr = c"dltensor_versioned";
pub(super) const USED: &CStr = c"used_dltensor";
pub(super) const USED_VERSIONED: &CStr = c"used_dltensor_versioned";

/// A tensor of another library, taken out of its capsule. The drop calls the tensor's deleter.
pub(super) enum Managed {
    Unversioned(*mut Unversioned),
    Versioned(*mut Versioned),
}

// SAFETY: nothing writes the tensor. DLPack allows a call of the deleter on any thread.
unsafe impl Send for Managed {}
// SAFETY: as above.
unsafe impl Sync for Managed {}

/// The contents of a tensor, checked.
pub(super) struct Contents {
    pub(super) pointer: u64,
    pub(super) device_type: DeviceType,
    pub(super) device: i32,
    /// NumPy's name of the type.
    pub(super) dtype: String,
    pub(super) shape: Vec<usize>,
    /// The distances of neighbours along each axis, in bytes. None for an array in C order.
    pub(super) strides: Option<Vec<isize>>,
    pub(super) read_only: bool,
}

impl Managed {
    /// Takes the tensor of an object.
    ///
    /// # Errors
    /// Those of the object's `__dlpack__`; `BufferError` for an object that is no DLPack capsule, and for a capsule
    /// whose tensor was taken already.
    pub(super) fn of(object: &Bound<'_, PyAny>, stream: Option<i64>) -> PyResult<Self> {
        let py = object.py();
        let arguments = PyDict::new(py);
        arguments.set_item("stream", stream)?;
        arguments.set_item("max_version", (1, 0))?;
        let method = object.getattr(pyo3::intern!(py, "__dlpack__"))?;
        let capsule = match method.call((), Some(&arguments)) {
            // A producer that knows only DLPack 0 has no argument `max_version`.
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {
                arguments.del_item("max_version")?;
                method.call((), Some(&arguments))?
            }
            capsule => capsule?,
        };
        let refused = |required: &str| {
            let found = capsule.repr().map_or_else(|_| "something else".to_owned(), |text| text.to_string());
            PyBufferError::new_err(format!("__dlpack__ must return a capsule {required}, not {found}"))
        };
        let capsule = capsule.cast::<PyCapsule>().map_err(|_| refused("with a DLPack tensor"))?;
        Self::take(capsule).ok_or_else(|| refused("named dltensor or dltensor_versioned that nobody has taken"))
    }

    /// Takes the tensor out of a capsule and renames the capsule, as DLPack requires; None if there is no tensor.
    fn take(capsule: &Bound<'_, PyCapsule>) -> Option<Self> {
        let capsule = capsule.as_ptr();
        let take = |name: &CStr, used: &'static CStr| -> Option<*mut c_void> {
            // SAFETY: `capsule` is a capsule, and the names are C strings. `used` lives as long as the program.
            unsafe {
                if pyo3::ffi::PyCapsule_IsValid(capsule, name.as_ptr()) != 1 {
                    return None;
                }
                let tensor = pyo3::ffi::PyCapsule_GetPointer(capsule, name.as_ptr());
                (pyo3::ffi::PyCapsule_SetName(capsule, used.as_ptr()) == 0).then_some(tensor)
            }
        };
        let versioned = take(NAME_VERSIONED, USED_VERSIONED).map(|tensor| Self::Versioned(tensor.cast()));
        versioned.or_else(|| take(NAME, USED).map(|tensor| Self::Unversioned(tensor.cast())))
    }

    /// The contents of the tensor.
    ///
    /// # Errors
    /// `BufferError` for an unknown version or an invalid tensor; `TypeError` for a type that NumPy lacks.
    pub(super) fn contents(&self) -> PyResult<Contents> {
        let (tensor, flags) = match self {
            // SAFETY: a capsule named `dltensor` has such a tensor, which lives until its deleter is called.
            Self::Unversioned(managed) => (unsafe { &raw const (**managed).tensor }, 0),
            Self::Versioned(managed) => {
                // SAFETY: as above, for `dltensor_versioned`. The first four fields are the same in all versions.
                let (major, minor) = unsafe { ((**managed).major, (**managed).minor) };
                if major != 1 {
                    let text = format!("the array: DLPack 1 is required, the tensor is of version {major}.{minor}");
                    return Err(PyBufferError::new_err(text));
                }
                // SAFETY: as above. The version is 1, checked above.
                unsafe { (&raw const (**managed).tensor, (**managed).flags) }
            }
        };
        // SAFETY: the tensor lives until its deleter is called, in the drop of `self`.
        let tensor = unsafe { &*tensor };
        let wrong = |what: String| PyBufferError::new_err(format!("the array: a DLPack tensor with {what}"));
        let ndim = usize::try_from(tensor.ndim).map_err(|_| wrong(format!("{} axes", tensor.ndim)))?;
        let numbers = |values: *mut i64| -> Vec<i64> {
            // SAFETY: a tensor has one number for each axis, if the pointer is not null.
            (0..ndim).map(|axis| unsafe { values.add(axis).read() }).collect()
        };
        if ndim > 0 && tensor.shape.is_null() {
            return Err(wrong("no shape".to_owned()));
        }
        let shape = numbers(tensor.shape);
        let sides: Option<Vec<usize>> = shape.iter().map(|&side| usize::try_from(side).ok()).collect();
        let sides = sides.ok_or_else(|| wrong(format!("the shape {shape:?}")))?;
        let dtype = tensor.dtype.numpy_name()?;
        let strides = if ndim == 0 || tensor.strides.is_null() {
            None
        } else {
            let strides = numbers(tensor.strides);
            let bytes = i64::from(tensor.dtype.bits / 8);
            let in_bytes = |stride: &i64| isize::try_from(stride.checked_mul(bytes)?).ok();
            let in_bytes: Option<Vec<isize>> = strides.iter().map(in_bytes).collect();
            Some(in_bytes.ok_or_else(|| wrong(format!("the strides {strides:?}")))?)
        };
        // An empty tensor may have no address.
        let address = tensor.data.addr() as u64;
        let pointer = if address == 0 { 0 } else { address.wrapping_add(tensor.byte_offset) };
        Ok(Contents {
            pointer,
            device_type: tensor.device_type,
            device: tensor.device_id,
            dtype,
            shape: sides,
            strides,
            read_only: flags & READ_ONLY != 0,
        })
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        // The deleter may run Python code, so this thread must be attached to the interpreter. After the interpreter
        // has ended, the deleter is not called.
        let _ = Python::try_attach(|_py| {
            // SAFETY: the tensor was taken out of its capsule, so this is the only call of its deleter.
            unsafe {
                match self {
                    Self::Unversioned(managed) => {
                        if let Some(deleter) = (**managed).deleter {
                            deleter(*managed);
                        }
                    }
                    Self::Versioned(managed) => {
                        if let Some(deleter) = (**managed).deleter {
                            deleter(*managed);
                        }
                    }
                }
            }
        });
    }
}
