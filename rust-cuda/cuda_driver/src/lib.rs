//! Opens the CUDA driver at run time and provides the symbols that `cust` links against.
//!
//! `cust` declares the driver's functions as `extern "C"` and links with `-lcuda`. Such a program needs a CUDA
//! installation to build, and it does not start on a machine without a driver. This crate removes both requirements:
//!
//! * It *defines* every driver function as a trampoline: one indirect jump through a slot. A jump leaves the arguments
//!   in registers and on the stack unchanged, so it serves any signature.
//! * At first each slot holds a fallback, which returns `CUDA_ERROR_NOT_INITIALIZED` (3).
//! * [`load`] opens `libcuda.so.1` and stores the driver's functions in the slots.
//! * Its build script writes `libcuda.a`, an empty archive, which satisfies `-lcuda`.
//!
//! # The folder that `cust` asks for
//!
//! The build script of `cust` panics with "Could not find a cuda installation" unless it finds a folder that contains
//! `lib64`. The folder need not be CUDA. Add this to `.cargo/config.toml`:
//!
//! ```toml
//! [env]
//! CUDA_LIBRARY_PATH = "/"
//! ```
//!
//! `cargo check -p cuda_driver` fails with the line for your system if it is missing. This check is the feature `cust`,
//! which is on by default. Programs without `cust` do not need the line and switch the feature off.
//!
//! # Use
//!
//! Call [`load`] before the first call of `cust`. A program that does not name this crate in its sources does not link
//! it, and the linker reports every `cu…` symbol as undefined. A call of [`load`] or `use cuda_driver as _;` is enough.
//!
//! ```
//! match cuda_driver::load() {
//!     Ok(driver) => println!("{} is loaded", driver.path().display()),
//!     Err(error) => println!("no GPU: {error}"),
//! }
//! // Without a driver this is `Err(CudaError::NotInitialized)`.
//! let _ = cust::init(cust::CudaFlags::empty());
//! ```
//!
//! # How to add a symbol
//!
//! Add its name to the table in `src/symbols.rs`, in alphabetical order. Spell it as the driver exports it, with the
//! `_v2` that the CUDA headers hide behind a macro. The signature does not matter. The caller declares a function that
//! `cust::sys` does not declare:
//!
//! ```standalone_crate
//! unsafe extern "C" {
//!     fn cuTensorMapReplaceAddress(map: *mut u8, address: *mut u8) -> u32;
//! }
//! # let _ = cuda_driver::SYMBOLS;
//! // SAFETY: no driver is loaded here, and the fallback reads no argument.
//! let result = unsafe { cuTensorMapReplaceAddress(std::ptr::null_mut(), std::ptr::null_mut()) };
//! assert_eq!(result, 3);
//! ```
//!
//! The test `covers_cust_raw` compares the table with all declarations of `cust_raw`. After an update of `cust` that
//! needs more functions, it fails with their names.
//!
//! # Limits
//!
//! * Linux on x86-64 and AArch64 only: the trampolines are assembly for ELF. The driver for Windows has another name
//!   and another calling convention.
//! * The symbols are hidden: only the program or the shared library that this crate is linked into sees them. The
//!   driver calls its own functions by the same names, and exported trampolines could catch these calls. Therefore
//!   `cust` and this crate must be linked into the same binary, and neither may be alone in a Rust `dylib`.
//! * The library stays open until the process ends. A process uses one driver.

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!(
    "cuda_driver supports Linux on x86-64 and AArch64 only: \
     its trampolines are written in assembly for these targets (see src/trampoline.rs)"
);

#[macro_use]
mod symbols;

mod error;
mod fallback;
mod load;
mod trampoline;

pub use error::LoadError;
pub use load::{DRIVER_LIBRARY, Driver, load, load_from};
pub use trampoline::SYMBOLS;
