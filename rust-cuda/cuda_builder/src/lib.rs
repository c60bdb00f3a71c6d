//! Builds a crate of GPU kernels to PTX with plain rustc: no LLVM 7, no libNVVM, no linker, no CUDA installation.
//!
//! The name and the API follow rust-cuda's `cuda_builder`; the code is our own. rustc's target `nvptx64-nvidia-cuda`
//! writes PTX as its assembly. A crate of kernels is compiled as any other crate, together with `core`
//! (`-Zbuild-std=core`), and the assembly file is the result.
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
//! In the `build.rs` of a program, [`CudaBuilder::build_for_cargo`] puts the PTX where the program includes it.
//!
//! # Guarantees
//!
//! - **The same sources give the same bytes**, in any checkout and target folder and with any flags of an outer cargo.
//!   The child process sees no variables and settings that change code. See [`CudaBuilder::build`].
//! - **The outer build is not affected.** The child has a target folder of its own, `cuda-builder` in that of the
//!   workspace. `RUSTC_BOOTSTRAP=1`, which the device's unstable features need, is set for the child only.
//! - **The folder of the kernels chooses the compiler.**
//! - **Builds in one target folder wait for each other.**
//! - **A build script needs no further lines**: `cargo::rerun-if-changed` is printed for every source.
//! - **Errors name the remedy**: see [`CudaBuilderError`].
//!
//! # The parts
//!
//! - [`CudaBuilder`] compiles.
//! - [`ptx`] parses the result: entries, parameters and symbols. It also splits one PTX into modules that a program
//!   loads one by one.
//! - [`Build::sass_statistics`] has the registers, spills and instructions of each kernel, where there is `ptxas`.
//! - [`SourceHash`] checks whether a committed PTX belongs to its sources.

mod arch;
mod build_script;
mod builder;
mod child;
mod error;
mod hash;
mod hint;
mod lock_file;
mod panics;
pub mod ptx;
pub mod rust_src;
mod sass;
mod target;

pub use arch::Arch;
/// rust-cuda's name for [`Arch`].
pub use arch::Arch as NvvmArch;
pub use builder::{Build, CudaBuilder};
pub use error::CudaBuilderError;
pub use hash::SourceHash;
pub use panics::PanickingKernel;
pub use sass::{KernelStatistics, SassStatistics};
