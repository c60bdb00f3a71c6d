//! The functions in the slots before a driver is loaded, and for functions that a driver lacks.

use std::ffi::{CStr, c_char};

/// A `CUresult`. It is an integer, because the driver may return codes that no enum here has.
type CuResult = u32;

const SUCCESS: CuResult = 0;
const INVALID_VALUE: CuResult = 1;
const NOT_INITIALIZED: CuResult = 3;

/// Replaces every function with any parameters.
///
/// In both supported C ABIs the caller removes arguments from the stack, so a callee may ignore them. Rust's types do
/// not allow such a call, so only a trampoline's jump leads here.
pub(crate) extern "C" fn not_initialized() -> CuResult {
    NOT_INITIALIZED
}

/// Replaces `cuGetErrorString`.
///
/// `cust` calls that function to print a `CudaError`, and `println!` and `to_string` panic if it fails. The most
/// frequent error, that there is no driver, therefore needs a text without a driver.
///
/// # Safety
///
/// - `text` is null or valid for a write of a pointer.
pub(crate) unsafe extern "C" fn error_string(error: CuResult, text: *mut *const c_char) -> CuResult {
    let answer = match error {
        SUCCESS => c"no error",
        NOT_INITIALIZED => c"initialization error: no CUDA driver is loaded, or it lacks the function",
        _ => c"no description: no CUDA driver is loaded to ask",
    };
    // SAFETY: the pointer is null or valid for a write, as required above.
    unsafe { put(answer, text) }
}

/// Replaces `cuGetErrorName`, for the same reason as [`error_string`].
///
/// # Safety
///
/// - `name` is null or valid for a write of a pointer.
pub(crate) unsafe extern "C" fn error_name(error: CuResult, name: *mut *const c_char) -> CuResult {
    let answer = match error {
        SUCCESS => c"CUDA_SUCCESS",
        NOT_INITIALIZED => c"CUDA_ERROR_NOT_INITIALIZED",
        _ => c"CUDA_ERROR_UNNAMED",
    };
    // SAFETY: the pointer is null or valid for a write, as required above.
    unsafe { put(answer, name) }
}

/// # Safety
///
/// - `out` is null or valid for a write of a pointer.
unsafe fn put(answer: &'static CStr, out: *mut *const c_char) -> CuResult {
    if out.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: `out` is not null, so it is valid for a write. The text is static.
    unsafe { out.write(answer.as_ptr()) };
    SUCCESS
}
