//! The project's own tasks, as a library for the program `cargo xtask` and for its tests.
//!
//! | module | task |
//! | --- | --- |
//! | [`setup`] | `setup`: the sources of `core`, which the kernels are compiled with |
//! | [`build_ptx`] | `build-ptx`: the kernels to the committed PTX, or a check that this is what is there |
//! | [`ptxas`] | `ptxas`: registers, stack and spills of every entry, without a GPU |
//! | [`gpu_bundle`] | `gpu-bundle`: a folder to test with on a machine that has a GPU and no Rust |
//! | [`package`] | `package`: the packages of the crates, with their fields, licences and sizes |
//! | [`new_kernel`] | `new-kernel`: a workspace with a first kernel, its test and a program |
//! | [`own_kernels`] | `own-kernels`: the example of kernels of one's own, and a workspace of `new-kernel` |
//! | [`outside`] | `outside`: a program outside of the workspace that uses the library |
//! | [`wheel`] | `wheel`: the wheel of the Python module, and its tests |
//! | [`book`] | `book`: the book, with all links and drawings checked |
//! | [`report`] | `report`: a page of measurements for each machine |
//! | [`deny`] | `deny`: licences and sources of all dependencies |
//! | [`aarch64`] | `aarch64`: the tests of the CPU path on 64-bit Arm, in QEMU |
//! | [`ci`] | `ci`: everything that a change must pass |
//! | [`jobs`] | the binaries of the tests and other programs, two at a time |
//! | [`kernels`] | how the kernels are built, what they are built from, and what their PTX must look like |
//! | [`module_text`] | the committed file of a module |
//! | [`stamp`] | what a slow check has covered, so that an unchanged tree skips it |
//! | [`quick_start`] | the commands and the code of the quick starts |
//! | [`process`] | the programs that the tasks start |
//! | [`python`] | Python, virtual environments, packages from PyPI |

pub mod aarch64;
pub mod book;
pub mod build_ptx;
pub mod ci;
pub mod deny;
pub mod gpu_bundle;
pub mod jobs;
pub mod kernels;
pub mod module_text;
pub mod new_kernel;
pub mod outside;
pub mod own_kernels;
pub mod package;
pub mod pictures;
pub mod process;
pub mod ptxas;
pub mod python;
pub mod quick_start;
pub mod report;
pub mod setup;
pub mod stamp;
pub mod wheel;

use std::env;
use std::path::{Path, PathBuf};

/// The root of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    // cargo sets it for what it runs; a program that was started by hand falls back on where it was built.
    let package = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    package.parent().map_or(package.clone(), PathBuf::from)
}

/// Where cargo builds.
#[must_use]
pub fn target(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |target| root.join(target))
}
