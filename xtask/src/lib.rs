//! The project's own tasks, as a library for the program `cargo xtask` and for its tests.
//!
//! | module | task |
//! | --- | --- |
//! | [`build_ptx`] | `build-ptx`: the kernels to the committed PTX, or a check that this is what is there |
//! | [`kernels`] | how the kernels are built, what they are built from, and what their PTX must look like |

pub mod build_ptx;
pub mod kernels;

use std::path::PathBuf;

/// The root of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    // cargo sets it for what it runs; a program that was started by hand falls back on where it was built.
    let package =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    package.parent().map_or(package.clone(), PathBuf::from)
}
