//! A driver that has only some of the functions.

mod common;

use std::ffi::c_void;
use std::ptr;

use cuda_driver::{LoadError, SYMBOLS, load, load_from};
use cust::sys;

/// One test, because the steps change the state of the process.
#[test]
fn a_driver_with_some_functions() {
    let path = common::fake_driver("some");
    // SAFETY: the functions in the fake driver have the signatures of the driver's.
    let driver = unsafe { load_from(&path) }.expect("the fake driver is a driver");
    assert_eq!(driver.path(), path);

    calls_arrive();
    arguments_arrive();
    the_rest_is_reported_missing(driver.missing_symbols());
    the_first_driver_stays(driver);
}

fn calls_arrive() {
    assert_eq!(cust::init(cust::CudaFlags::empty()), Ok(()));
    let version = cust::CudaApiVersion::get().expect("the fake driver answers");
    assert_eq!((version.major(), version.minor()), (12, 34));
}

fn arguments_arrive() {
    let mut seen = [0_u64; 11];
    let seen_at = (&raw mut seen).cast::<*mut c_void>();
    let at = |address: usize| ptr::without_provenance_mut::<c_void>(address);
    // SAFETY: the fake function writes eleven integers to its last argument and reads no pointer.
    let result = unsafe {
        sys::cuLaunchKernel(
            at(0x1111_2222_3333_4444).cast(),
            2,
            3,
            4,
            5,
            6,
            7,
            u32::MAX,
            at(0x5555_6666_7777_8888).cast(),
            at(0x9999_aaaa_bbbb_cccc).cast(),
            seen_at,
        )
    };
    assert_eq!(result, sys::CUresult::CUDA_SUCCESS);
    let expected = [
        0x1111_2222_3333_4444,
        2,
        3,
        4,
        5,
        6,
        7,
        u64::from(u32::MAX),
        0x5555_6666_7777_8888,
        0x9999_aaaa_bbbb_cccc,
        seen_at as u64,
    ];
    assert_eq!(seen, expected);

    let mut floats = [0.0_f32; 2];
    // SAFETY: the fake function writes two floats to its first argument.
    let result = unsafe { sys::cuTexRefSetMipmapLevelClamp((&raw mut floats).cast(), 1.25, -7.5) };
    assert_eq!(result, sys::CUresult::CUDA_SUCCESS);
    assert_eq!(floats, [1.25, -7.5]);

    let mut sum = 0;
    let handle = sys::CUipcMemHandle { reserved: std::array::from_fn(|index| index as _) };
    // SAFETY: the fake function writes an integer to its first argument.
    let result = unsafe { sys::cuIpcOpenMemHandle_v2(&mut sum, handle, 10_000) };
    // The fake's own error code comes back as well.
    assert_eq!(result, sys::CUresult::CUDA_ERROR_INVALID_PTX);
    assert_eq!(sum, (0..64).sum::<u64>() + 10_000);
}

fn the_rest_is_reported_missing(missing: &[&str]) {
    let defined =
        ["cuDriverGetVersion", "cuInit", "cuIpcOpenMemHandle_v2", "cuLaunchKernel", "cuTexRefSetMipmapLevelClamp"];
    let expected: Vec<_> = SYMBOLS.iter().copied().filter(|name| !defined.contains(name)).collect();
    assert_eq!(missing, expected);

    // SAFETY: the fake driver lacks the function, and the fallback reads no argument.
    let result = unsafe { sys::cuDeviceGetCount(ptr::null_mut()) };
    assert_eq!(result, sys::CUresult::CUDA_ERROR_NOT_INITIALIZED);
    let text = cust::error::CudaError::NotInitialized.to_string();
    assert!(text.contains("lacks the function"), "{text}");
}

fn the_first_driver_stays(driver: &'static cuda_driver::Driver) {
    assert!(ptr::eq(load().expect("a driver is loaded"), driver));
    // SAFETY: as for the first call.
    let again = unsafe { load_from(driver.path()) };
    assert!(ptr::eq(again.expect("it is the same driver"), driver));
    // SAFETY: the C library has no `cuInit`.
    let error = unsafe { load_from("libc.so.6") }.unwrap_err();
    assert!(matches!(error, LoadError::AlreadyLoaded { .. }), "{error:?}");
}
