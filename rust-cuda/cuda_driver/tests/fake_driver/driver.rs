//! A CUDA driver of a few functions, compiled by the tests into a shared library.
//!
//! Each function hands its arguments back through a pointer, so that the test can compare them.

#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::ffi::{c_char, c_int, c_uint, c_void};

#[repr(C)]
pub struct IpcMemHandle {
    reserved: [c_char; 64],
}

/// A code that no fallback returns.
const CALLED: c_uint = 218;

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: c_uint) -> c_uint {
    if flags == 0 { 0 } else { CALLED }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_uint {
    // SAFETY: the test passes the address of an integer.
    unsafe { version.write(12_340) };
    0
}

/// Eleven arguments: more than there are argument registers on x86-64 (6) or AArch64 (8).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: *mut c_void,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: *mut c_void,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> c_uint {
    let arguments: [u64; 11] = [
        function as u64,
        grid_x.into(),
        grid_y.into(),
        grid_z.into(),
        block_x.into(),
        block_y.into(),
        block_z.into(),
        shared.into(),
        stream as u64,
        parameters as u64,
        extra as u64,
    ];
    // SAFETY: the test passes the address of such an array as the last argument.
    unsafe { extra.cast::<[u64; 11]>().write(arguments) };
    0
}

/// Arguments in floating-point registers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuTexRefSetMipmapLevelClamp(
    out: *mut [f32; 2],
    min: f32,
    max: f32,
) -> c_uint {
    // SAFETY: the test passes the address of such an array as the handle.
    unsafe { out.write([min, max]) };
    0
}

/// A structure by value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuIpcOpenMemHandle_v2(
    pointer: *mut u64,
    handle: IpcMemHandle,
    flags: c_uint,
) -> c_uint {
    let sum: u64 = handle.reserved.iter().map(|&byte| byte as u64).sum();
    // SAFETY: the test passes the address of an integer.
    unsafe { pointer.write(sum + u64::from(flags)) };
    CALLED
}
