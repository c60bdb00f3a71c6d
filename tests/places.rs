//! The program and the test data. A test that was moved to another machine finds them by variables of the environment.

use std::path::PathBuf;

/// The program `host`: `HOST_BIN`, or the one that cargo built.
#[allow(dead_code, reason = "not every test runs the program")]
pub(crate) fn program() -> PathBuf {
    std::env::var_os("HOST_BIN").map_or_else(|| env!("CARGO_BIN_EXE_host").into(), PathBuf::from)
}

/// The folder of the test data: `HOST_TEST_DATA`, or that of the repository.
#[allow(dead_code, reason = "not every test reads data")]
pub(crate) fn data() -> PathBuf {
    match std::env::var_os("HOST_TEST_DATA") {
        Some(folder) => folder.into(),
        None => concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data").into(),
    }
}
