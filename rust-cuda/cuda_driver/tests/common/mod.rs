//! Functions for all integration tests. The slots are global to a process, so each of their states has a test file, and
//! with it a process, of its own.

use std::path::PathBuf;
use std::process::Command;

/// Compiles `tests/fake_driver/driver.rs` and returns the library's path.
#[allow(dead_code, reason = "not every test needs a driver")]
pub(crate) fn fake_driver(test: &str) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake_driver/driver.rs");
    let library = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("lib{test}_cuda.so.1"));
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let status = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=cdylib", "--crate-name=fake_driver", "-o"])
        .arg(&library)
        .arg(source)
        .status()
        .expect("rustc starts");
    assert!(status.success(), "the fake driver compiles");
    library
}

/// Whether a file whose name begins with `name` is mapped into this process.
#[allow(dead_code, reason = "not every test asks")]
pub(crate) fn is_mapped(name: &str) -> bool {
    std::fs::read_to_string("/proc/self/maps")
        .expect("Linux has /proc")
        .lines()
        .filter_map(|line| line.rsplit('/').next())
        .any(|file| file.starts_with(name))
}
