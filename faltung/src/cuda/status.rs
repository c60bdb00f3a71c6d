//! The driver's statuses: which of them mean that the device is lost, and errors that keep them.

use std::ffi::{CStr, c_char};

use cust::error::{CudaError, CudaResult};

use crate::{DriverError, Error, Result};

/// The driver's status for success.
const SUCCESS: u32 = 0;
/// The driver's status for an argument that it does not take.
const INVALID_VALUE: u32 = 1;
/// The driver's status for a name that a module lacks.
pub(super) const NOT_FOUND: u32 = 500;

/// A call into the driver that failed, by its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure(pub(super) u32);

impl From<CudaError> for Failure {
    fn from(error: CudaError) -> Self {
        match error {
            // `cust`'s own, for sizes that the driver refuses.
            CudaError::InvalidMemoryAllocation | CudaError::OptixError => Self(INVALID_VALUE),
            error => Self(error as u32),
        }
    }
}

/// A status as a result.
pub(super) fn checked(status: u32) -> Result<(), Failure> {
    if status == SUCCESS { Ok(()) } else { Err(Failure(status)) }
}

impl Failure {
    /// Whether the context can't be used any more, and nothing that was begun in it still runs.
    ///
    /// These are the statuses of which the driver API's documentation (`CUresult`) says that they leave the process in
    /// an inconsistent state, that any further CUDA work returns the same error, and that the process must be
    /// relaunched; those of an uncorrectable error of the hardware; and those of a context, a driver or a device that
    /// is gone.
    pub(super) fn is_device_lost(self) -> bool {
        matches!(
            self.0,
            4       // DEINITIALIZED
            | 46    // DEVICE_UNAVAILABLE
            | 214   // ECC_UNCORRECTABLE
            | 220   // NVLINK_UNCORRECTABLE
            | 226   // CONTAINED
            | 700   // ILLEGAL_ADDRESS
            | 702   // LAUNCH_TIMEOUT
            | 709   // CONTEXT_IS_DESTROYED
            | 710   // ASSERT
            | 714   // HARDWARE_STACK_ERROR
            | 715   // ILLEGAL_INSTRUCTION
            | 716   // MISALIGNED_ADDRESS
            | 717   // INVALID_ADDRESS_SPACE
            | 718   // INVALID_PC
            | 719   // LAUNCH_FAILED
            | 721   // TENSOR_MEMORY_LEAK
            | 810   // MPS_CLIENT_TERMINATED
            | 911 // EXTERNAL_DEVICE
        )
    }

    /// The status with the driver's name and description of it.
    pub(super) fn describe(self) -> DriverError {
        // The driver's functions by the signature that they have: a status is a number. `cust`'s enum of them ends with
        // CUDA 11.4, and a value that an enum lacks is undefined behaviour.
        unsafe extern "C" {
            fn cuGetErrorName(status: u32, name: *mut *const c_char) -> u32;
            fn cuGetErrorString(status: u32, text: *mut *const c_char) -> u32;
        }
        let read = |get: unsafe extern "C" fn(u32, *mut *const c_char) -> u32| {
            let mut text = std::ptr::null();
            // SAFETY: the driver sets `text` to a static C string, or, for a status that it does not know, to null or
            // not at all.
            let is_known = unsafe { get(self.0, &raw mut text) } == SUCCESS && !text.is_null();
            // SAFETY: a static C string, as was just checked.
            is_known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        let name = read(cuGetErrorName).unwrap_or_else(|| "CUDA_ERROR".to_owned());
        let text =
            read(cuGetErrorString).unwrap_or_else(|| format!("status {}, which the driver does not explain", self.0));
        DriverError::new(self.0, name, text)
    }

    /// The error for a failure to `action`.
    pub(super) fn into_error(self, action: impl Into<String>) -> Error {
        let (action, source) = (action.into(), self.describe());
        if self.is_device_lost() { Error::DeviceLost { action, source } } else { Error::Driver { action, source } }
    }
}

impl Error {
    /// The error for a status (`CUresult`) that a call into the driver returned: for programs that launch kernels of
    /// their own beside the library. `action` is what was being done, such as "launch my_kernel".
    ///
    /// [`Error::DeviceLost`] if the status says that the process can't use the device any more, else [`Error::Driver`].
    #[must_use]
    pub fn from_driver_status(status: u32, action: impl Into<String>) -> Self {
        Failure(status).into_error(action)
    }
}

/// Turns the driver's errors into ours, saying what was being done.
pub(super) trait DriverResultExt<T> {
    /// The error for a failure to `action`: [`Error::DeviceLost`] or [`Error::Driver`].
    fn context(self, action: impl Into<String>) -> Result<T>;
}

impl<T> DriverResultExt<T> for CudaResult<T> {
    fn context(self, action: impl Into<String>) -> Result<T> {
        self.map_err(|error| Failure::from(error).into_error(action))
    }
}

impl<T> DriverResultExt<T> for Result<T, Failure> {
    fn context(self, action: impl Into<String>) -> Result<T> {
        self.map_err(|failure| failure.into_error(action))
    }
}

/// Names the failure to allocate page-locked memory.
pub(super) trait PageLockedResultExt<T> {
    /// [`Error::PageLockedMemory`] for so many bytes, or [`Error::DeviceLost`].
    fn page_locked(self, bytes: usize) -> Result<T>;
}

impl<T> PageLockedResultExt<T> for CudaResult<T> {
    fn page_locked(self, bytes: usize) -> Result<T> {
        self.map_err(|error| {
            let failure = Failure::from(error);
            if failure.is_device_lost() {
                return failure.into_error(format!("allocate {bytes} bytes of page-locked memory"));
            }
            Error::PageLockedMemory { bytes, source: failure.describe() }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    /// No driver is loaded here: the name and the text are made up, the number stays.
    #[test]
    fn a_lost_device_is_told_apart_and_keeps_its_source() {
        for (error, is_lost) in [
            (CudaError::IllegalAddress, true),
            (CudaError::LaunchFailed, true),
            (CudaError::EccUncorrectable, true),
            (CudaError::AssertError, true),
            (CudaError::HardwareStackError, true),
            (CudaError::LaunchTimeout, true),
            (CudaError::OutOfMemory, false),
            (CudaError::InvalidValue, false),
            (CudaError::LaunchOutOfResources, false),
            (CudaError::NotReady, false),
            (CudaError::InvalidPtx, false),
            (CudaError::UnknownError, false),
        ] {
            let ours = Err::<(), _>(error).context("run the kernel").unwrap_err();
            assert_eq!(matches!(ours, Error::DeviceLost { .. }), is_lost, "{error:?}");
            assert!(is_lost || matches!(ours, Error::Driver { .. }), "{error:?}");
            let source = ours.source().and_then(|source| source.downcast_ref::<DriverError>()).unwrap();
            assert_eq!(source.code(), error as u32);
            let text = ours.to_string();
            assert!(text.contains("failed to run the kernel: ") && text.ends_with(source.text()), "{text}");
        }
    }

    #[test]
    fn a_status_of_a_newer_driver_is_an_error_like_any_other() {
        let error = Err::<(), _>(Failure(123_456)).context("count").unwrap_err();
        assert!(matches!(&error, Error::Driver { source, .. } if source.code() == 123_456), "{error}");
    }
}
