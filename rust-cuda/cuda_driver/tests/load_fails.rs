//! `load_from` with files that are not a driver.

use std::path::Path;

use cuda_driver::{LoadError, load_from};
use cust::sys;

#[test]
fn a_missing_library_is_not_found() {
    // SAFETY: there is no such library.
    let error = unsafe { load_from("libno_such_cuda.so.1") }.unwrap_err();
    let LoadError::NotFound { searched, reason } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(searched, Path::new("libno_such_cuda.so.1"));
    assert!(reason.contains("cannot open shared object file"), "{reason}");
    // The loader's longer message stays in `reason`.
    assert_eq!(error.to_string(), "no NVIDIA driver, `libno_such_cuda.so.1`, is installed");
}

#[test]
fn another_library_is_no_driver() {
    // SAFETY: the C mathematics library has no initialisers that matter, and defines no `cuInit`.
    let error = unsafe { load_from("libm.so.6") }.unwrap_err();
    let LoadError::NotADriver { opened, reason } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(opened, Path::new("libm.so.6"));
    assert!(reason.contains("cuInit"), "{reason}");
    assert!(error.to_string().contains("must define `cuInit`"), "{error}");
    // SAFETY: no driver is loaded, and the fallback reads no argument.
    let result = unsafe { sys::cuInit(0) };
    assert_eq!(result, sys::CUresult::CUDA_ERROR_NOT_INITIALIZED);
}
