//! The functions before `load`, and on a machine without a driver.

mod common;

use std::ffi::CStr;
use std::ptr;

use cust::error::CudaError;
use cust::sys;

// Something must name the crate, or it is not linked. Nothing here loads a driver.
use cuda_driver as _;

#[test]
fn the_program_starts_without_the_driver_library() {
    // A program that is linked with libcuda would have it mapped now, or would not start.
    assert!(!common::is_mapped("libcuda.so"));
}

#[test]
fn calls_return_not_initialized() {
    let not_initialized = sys::CUresult::CUDA_ERROR_NOT_INITIALIZED;
    // SAFETY: no driver is loaded, and the fallback reads no argument.
    unsafe {
        assert_eq!(sys::cuInit(0), not_initialized);
        assert_eq!(sys::cuDriverGetVersion(ptr::null_mut()), not_initialized);
        // Three of the arguments are on the stack even on AArch64.
        let launched = sys::cuLaunchKernel(
            ptr::null_mut(),
            1,
            1,
            1,
            1,
            1,
            1,
            0,
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
        );
        assert_eq!(launched, not_initialized);
    }
}

#[test]
fn cust_reports_an_error() {
    assert_eq!(cust::init(cust::CudaFlags::empty()), Err(CudaError::NotInitialized));
    assert_eq!(cust::device::Device::num_devices().err(), Some(CudaError::NotInitialized));
    assert_eq!(cust::quick_init().err(), Some(CudaError::NotInitialized));
    let buffer = cust::memory::DeviceBuffer::<u32>::from_slice(&[1, 2, 3]);
    assert_eq!(buffer.err(), Some(CudaError::NotInitialized));
}

#[test]
fn errors_can_be_printed() {
    let text = CudaError::NotInitialized.to_string();
    assert!(text.contains("no CUDA driver is loaded"), "{text}");
    let text = CudaError::IllegalAddress.to_string();
    assert!(text.contains("no description"), "{text}");
}

#[test]
fn errors_have_a_name() {
    let mut name = ptr::null();
    // SAFETY: `name` is valid for the write, and the function writes a C string.
    let name = unsafe {
        let result = sys::cuGetErrorName(sys::CUresult::CUDA_ERROR_NOT_INITIALIZED, &mut name);
        assert_eq!(result, sys::CUresult::CUDA_SUCCESS);
        CStr::from_ptr(name)
    };
    assert_eq!(name, c"CUDA_ERROR_NOT_INITIALIZED");
    // SAFETY: the function returns an error for a null pointer.
    let result = unsafe { sys::cuGetErrorName(sys::CUresult::CUDA_SUCCESS, ptr::null_mut()) };
    assert_eq!(result, sys::CUresult::CUDA_ERROR_INVALID_VALUE);
}
