//! What the slots hold until a driver is loaded, and where a driver lacks a function.

use std::ffi::{CStr, c_char};

/// A `CUresult`. A plain integer: the driver may return codes that no enum here knows.
type CuResult = u32;

const SUCCESS: CuResult = 0;
const INVALID_VALUE: CuResult = 1;
const NOT_INITIALIZED: CuResult = 3;

/// Stands in for every function, whatever its parameters: both supported C ABIs leave it to the
/// caller to remove arguments from the stack, so a callee may ignore them. That only holds below
/// the level of Rust's types, which is why nothing but a trampoline's jump leads here.
pub(crate) extern "C" fn not_initialized() -> CuResult {
    NOT_INITIALIZED
}

/// Stands in for `cuGetErrorString`.
///
/// `cust` prints a `CudaError` by calling that function, and an error from it makes `println!` and
/// `to_string` panic. So the most likely error of all, "there is no driver", needs a text without one.
///
/// # Safety
///
/// `text` is null or valid for a write of a pointer, as the driver's function demands.
pub(crate) unsafe extern "C" fn error_string(error: CuResult, text: *mut *const c_char) -> CuResult {
    let answer = match error {
        SUCCESS => c"no error",
        NOT_INITIALIZED => c"initialization error: no CUDA driver is loaded, or it lacks the function",
        _ => c"no description: no CUDA driver is loaded to ask",
    };
    // SAFETY: the caller upholds this function's contract, which is the same.
    unsafe { put(answer, text) }
}

/// Stands in for `cuGetErrorName`, for the same reason as [`error_string`].
///
/// # Safety
///
/// `name` is null or valid for a write of a pointer, as the driver's function demands.
pub(crate) unsafe extern "C" fn error_name(error: CuResult, name: *mut *const c_char) -> CuResult {
    let answer = match error {
        SUCCESS => c"CUDA_SUCCESS",
        NOT_INITIALIZED => c"CUDA_ERROR_NOT_INITIALIZED",
        _ => c"CUDA_ERROR_UNNAMED",
    };
    // SAFETY: the caller upholds this function's contract, which is the same.
    unsafe { put(answer, name) }
}

/// # Safety
///
/// `out` is null or valid for a write of a pointer.
unsafe fn put(answer: &'static CStr, out: *mut *const c_char) -> CuResult {
    if out.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: `out` is not null, so the caller vouches for it. The text is static: it outlives any use.
    unsafe { out.write(answer.as_ptr()) };
    SUCCESS
}
