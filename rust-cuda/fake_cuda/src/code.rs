//! The driver's status codes, their names and descriptions.

use std::ffi::{CStr, c_char};

use crate::driver::PLAIN;

/// A `CUresult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) u32);

macro_rules! codes {
    ($($name:ident = $number:literal $text:literal;)*) => {
        impl Code {
            $(
                #[allow(dead_code, reason = "some are only asked for by number")]
                pub(crate) const $name: Self = Self($number);
            )*

            /// The name and the description. None for a number that is not a code.
            fn texts(self) -> Option<(&'static CStr, &'static CStr)> {
                /// The text as a C string.
                const fn text(bytes: &'static [u8]) -> &'static CStr {
                    match CStr::from_bytes_with_nul(bytes) {
                        Ok(text) => text,
                        Err(_) => panic!("the text ends with its only NUL"),
                    }
                }
                match self.0 {
                    0 => Some((c"CUDA_SUCCESS", c"no error")),
                    $($number => Some((
                        const { text(concat!("CUDA_ERROR_", stringify!($name), "\0").as_bytes()) },
                        const { text(concat!($text, "\0").as_bytes()) },
                    )),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    INVALID_VALUE = 1 "invalid argument";
    OUT_OF_MEMORY = 2 "out of memory";
    NOT_INITIALIZED = 3 "initialization error";
    NO_DEVICE = 100 "no CUDA-capable device is detected";
    INVALID_DEVICE = 101 "invalid device ordinal";
    INVALID_CONTEXT = 201 "invalid device context";
    NO_BINARY_FOR_GPU = 209 "no kernel image is available for execution on the device";
    ECC_UNCORRECTABLE = 214 "uncorrectable ECC error encountered";
    INVALID_PTX = 218 "a PTX JIT compilation failed";
    JIT_COMPILER_NOT_FOUND = 221 "PTX JIT compiler library not found";
    UNSUPPORTED_PTX_VERSION = 222 "the provided PTX was compiled with an unsupported toolchain.";
    OPERATING_SYSTEM = 304 "OS call failed or operation not supported on this OS";
    INVALID_HANDLE = 400 "invalid resource handle";
    NOT_FOUND = 500 "named symbol not found";
    NOT_READY = 600 "device not ready";
    ILLEGAL_ADDRESS = 700 "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701 "too many resources requested for launch";
    LAUNCH_TIMEOUT = 702 "the launch timed out and was terminated";
    CONTEXT_IS_DESTROYED = 709 "context is destroyed";
    HOST_MEMORY_ALREADY_REGISTERED = 712 "part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED = 713 "pointer does not correspond to a registered memory region";
    ILLEGAL_INSTRUCTION = 715 "an illegal instruction was encountered";
    MISALIGNED_ADDRESS = 716 "misaligned address";
    LAUNCH_FAILED = 719 "unspecified launch failure";
    NOT_PERMITTED = 800 "operation not permitted";
    NOT_SUPPORTED = 801 "operation not supported";
    STREAM_CAPTURE_UNSUPPORTED = 900 "operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901 "operation failed due to a previous error during capture";
    STREAM_CAPTURE_UNMATCHED = 903 "operation failed due to an unmatched capture";
    STREAM_CAPTURE_IMPLICIT = 906 "operation would make the legacy stream depend on a capturing blocking stream";
    UNKNOWN = 999 "unknown error";
}

impl Code {
    /// Whether a number is a code that callers know.
    pub(crate) fn is_known(self) -> bool {
        self.texts().is_some()
    }

    /// Whether the code is of a kernel's failure, which ends the context and not the device.
    pub(crate) fn ends_the_context_only(self) -> bool {
        matches!(self.0, 700 | 702 | 710 | 714..=719)
    }
}

driver_functions! {
    /// The call is not counted and never fails, because callers describe a failure with it.
    fn cuGetErrorName(code: u32, text: *mut *const c_char) at PLAIN, |_driver| {
        let (name, _) = Code(code).texts().ok_or(Code::INVALID_VALUE)?;
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { crate::driver::put(text, name.as_ptr()) }
    }

    /// As [`cuGetErrorName`], but with the description.
    fn cuGetErrorString(code: u32, text: *mut *const c_char) at PLAIN, |_driver| {
        let (_, words) = Code(code).texts().ok_or(Code::INVALID_VALUE)?;
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { crate::driver::put(text, words.as_ptr()) }
    }
}
