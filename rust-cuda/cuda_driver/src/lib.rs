//! The CUDA driver, opened at run time, under the symbol names that `cust` links against.
//!
//! `cust` declares the driver's functions as `extern "C"` and asks the linker for `-lcuda`. A program
//! built that way needs a CUDA installation to build, and the dynamic loader refuses to start it on
//! a machine without a driver. With this crate in the program neither holds:
//!
//! * every driver function is *defined* here, as a trampoline: one indirect jump through a slot, which
//!   leaves the arguments, in registers and on the stack, where they are: it serves any signature;
//! * at first each slot holds a fallback, which returns `CUDA_ERROR_NOT_INITIALIZED` (3);
//! * [`load`] opens `libcuda.so.1` and puts the driver's own functions into the slots;
//! * `lib64/libcuda.a` in this crate's folder is an empty archive, which satisfies `-lcuda`. Set
//!   `CUDA_LIBRARY_PATH` to the crate's folder (not to `lib64`) when building `cust`, for a workspace
//!   in the `[env]` table of `.cargo/config.toml`, and it is found before any installed CUDA.
//!
//! # Use
//!
//! Call [`load`] before the first call of `cust`. A program that names this crate nowhere in its
//! sources does not link it, and then the linker reports every `cu…` symbol as undefined; calling
//! [`load`], or `use cuda_driver as _;`, is enough.
//!
//! ```
//! match cuda_driver::load() {
//!     Ok(driver) => println!("{} is loaded", driver.path().display()),
//!     Err(error) => println!("no GPU: {error}"),
//! }
//! // Safe either way: without a driver this is `Err(CudaError::NotInitialized)`.
//! let _ = cust::init(cust::CudaFlags::empty());
//! ```
//!
//! # How to add a symbol
//!
//! Add its name to the table in `src/symbols.rs`, in alphabetical order, spelled as the driver
//! exports it: with the `_v2` that the CUDA headers hide behind a macro. Nothing else depends on
//! the signature. A function that the declarations in `cust::sys` lack is declared by its caller:
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
//! The test `covers_cust_raw` compares the table with all the declarations of `cust_raw`, so an update of
//! `cust` that needs more functions fails there with their names.
//!
//! # Limits
//!
//! * Linux on x86-64 and AArch64 only: the trampolines are assembly for ELF. Windows' driver has
//!   another name and another calling convention.
//! * The symbols are hidden: they serve the program or the shared library that this crate is linked
//!   into and are invisible to others. That is on purpose. The driver also calls its own functions
//!   by these names; were they exported here, its calls could end in the trampolines, which lead
//!   back to it. The price: `cust` and this crate must be linked into the same binary, so neither
//!   may sit alone in a Rust `dylib`.
//! * The library stays open until the process ends, and one process uses one driver.

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
