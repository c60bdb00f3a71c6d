//! [`gpu_assert!`](crate::gpu_assert): a condition that a kernel checks, as CUDA's `assert`.

/// Stops the grid if a condition does not hold, with a message, the file and the line: CUDA's `assert`.
///
/// On a device it calls `__assertfail`, which the driver provides. The driver writes the message to standard error,
/// with the block and the thread:
///
/// ```text
/// /kernels/src/lib.rs:17: kernels::normalise: block: [3,0,0], thread: [31,0,0] Assertion `sum > 0.0` failed.
/// ```
///
/// The next call of the host that waits for the device then returns the error 710, `CUDA_ERROR_ASSERT`. The context is
/// lost: the process can't use the device again.
///
/// In the emulator the launch fails. The report names the threads with their line, and the other threads run on.
///
/// `assert!` and other panics of `core` are for the host: `cuda_builder` refuses kernels that can panic.
///
/// ```
/// use cuda_std::gpu_assert;
/// use cuda_std::prelude::*;
///
/// /// Inverts `length` elements.
/// ///
/// /// # Safety
/// /// - `values` holds `length` elements.
/// #[kernel(lengths(values = length))]
/// pub unsafe fn invert(values: GlobalMut<f32>, length: u32) {
///     let i = thread::index_1d();
///     if i < length {
///         // SAFETY: i < length, and no other thread has this i.
///         let value = unsafe { values.load(i as isize) };
///         gpu_assert!(value != 0.0);
///         gpu_assert!(value.is_finite(), "an element is infinite or NaN");
///         // SAFETY: as above.
///         unsafe { values.store(i as isize, 1.0 / value) };
///     }
/// }
/// ```
///
/// The message is a literal. [`gpu_println!`](crate::gpu_println) before the assertion shows values.
#[macro_export]
macro_rules! gpu_assert {
    ($condition:expr $(,)?) => {
        $crate::gpu_assert!(@ $condition, stringify!($condition))
    };
    ($condition:expr, $message:literal $(,)?) => {
        $crate::gpu_assert!(@ $condition, $message)
    };
    (@ $condition:expr, $message:expr) => {
        if !$condition {
            $crate::assertion_failed(
                concat!($message, "\0"),
                concat!(file!(), "\0"),
                line!(),
                concat!(module_path!(), "\0"),
            )
        }
    };
}

#[cfg(target_arch = "nvptx64")]
unsafe extern "C" {
    /// CUDA's function. The texts end with a zero byte. `char_size` is the size of a character, 1.
    fn __assertfail(message: *const u8, file: *const u8, line: u32, function: *const u8, char_size: usize) -> !;
}

/// For the code of `gpu_assert!`: stops the grid. The texts end with a zero byte.
#[doc(hidden)]
#[track_caller]
#[cold]
#[inline(always)]
pub fn assertion_failed(message: &'static str, file: &'static str, line: u32, function: &'static str) -> ! {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the texts end with a zero byte.
        unsafe { __assertfail(message.as_ptr(), file.as_ptr(), line, function.as_ptr(), 1) }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = (file, line, function);
        crate::executor::current().assertion_failed(message.trim_end_matches('\0'), core::panic::Location::caller())
    }
}

/// Stops the grid after a panic, with its file and line.
#[cfg(target_arch = "nvptx64")]
pub(crate) fn panicked(info: &core::panic::PanicInfo) -> ! {
    let (file, line) = match info.location() {
        Some(location) => (location.file_as_c_str(), location.line()),
        None => (c"", 0),
    };
    // SAFETY: the texts end with a zero byte.
    unsafe { __assertfail(c"no panic".as_ptr().cast(), file.as_ptr().cast(), line, c"".as_ptr().cast(), 1) }
}
