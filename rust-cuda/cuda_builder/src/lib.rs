//! Builds a crate of GPU kernels to PTX with plain rustc: no LLVM 7, no libNVVM, no linker, no CUDA installation.
//!
//! The name and the shape of the API are those of rust-cuda's `cuda_builder`; the code is our own. rustc's
//! `nvptx64-nvidia-cuda` target writes PTX as its assembly, so a kernels crate is compiled like any
//! other, with `core` compiled along (`-Zbuild-std=core`), and the assembly file is the result.
//!
//! ```no_run
//! use cuda_builder::{Arch, CudaBuilder};
//!
//! # fn main() -> Result<(), cuda_builder::CudaBuilderError> {
//! let build = CudaBuilder::new("kernels-gpu").arch(Arch::Sm80).copy_to("target/kernels.ptx").build()?;
//! for entry in build.entries() {
//!     println!("{} takes {} parameters", entry.name, entry.params.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//!
//! - **The same sources give the same bytes**, wherever the checkout and the target folder lie, and whatever flags the
//!   outer cargo was given: the child process sees neither the environment variables nor the settings
//!   that change code. See [`CudaBuilder::build`].
//! - **The outer build is left alone**: the child has a target folder of its own, `cuda-builder` in the
//!   workspace's, and `RUSTC_BOOTSTRAP=1`, which the device's unstable features need, is set for the child only.
//! - **The kernels' folder decides on the compiler**, and builds in one target folder wait for each other.
//! - **A build script needs no lines of its own**: `cargo::rerun-if-changed` is printed for every source.
//! - **Errors say what to do**: see [`CudaBuilderError`].
//!
//! # The parts
//!
//! [`CudaBuilder`] compiles. [`ptx`] reads what came out: which entries there are, what parameters they take, whether every
//! symbol is there; and splits one PTX into modules that a program can load one by one.
//! [`SourceHash`] tells whether a committed PTX belongs to the sources beside it.

mod arch;
mod build_script;
mod builder;
mod child;
mod error;
mod hash;
mod lock_file;
pub mod ptx;
pub mod rust_src;
mod target;

pub use arch::Arch;
/// rust-cuda's name for [`Arch`].
pub use arch::Arch as NvvmArch;
pub use builder::{Build, CudaBuilder};
pub use error::CudaBuilderError;
pub use hash::SourceHash;
