//! Launches kernels that are written with [`cuda_std`] on an NVIDIA GPU or on the emulator.
//!
//! [`#[kernel]`](cuda_std::kernel) makes a struct for each kernel, which has the arguments by name. A [`Device`] is a
//! GPU or the emulator. The same call launches the struct on either:
//!
//! ```
//! use cuda_launch::{Device, Launch};
//! use cuda_std::prelude::*;
//!
//! /// `y = a x + y` for `length` elements.
//! ///
//! /// # Safety
//! /// - `x` and `y` hold `length` elements each.
//! #[kernel(lengths(x = length, y = length))]
//! pub unsafe fn saxpy(a: f32, x: Global<f32>, y: GlobalMut<f32>, length: u32) {
//!     let i = thread::index_1d();
//!     if i < length {
//!         let i = i as isize;
//!         // SAFETY: i < length, checked above, and no other thread has this i.
//!         unsafe { y.store(i, fma(a, x.load(i), y.load(i))) };
//!     }
//! }
//!
//! let device = Device::emulator();
//! let x = device.upload("x", &[1.0_f32, 2.0, 3.0])?;
//! let mut y = device.upload("y", &[10.0_f32, 20.0, 30.0])?;
//! // SAFETY: the kernel needs `length` elements of x and y, which `lengths` checks.
//! unsafe { device.launch(&Launch::cover(3, 256), &Saxpy { a: 2.0, x: &x, y: &mut y, length: 3 })? };
//! assert_eq!(device.download(&y)?, [12.0, 24.0, 36.0]);
//!
//! // An array that is too short. SAFETY: as above.
//! let error = unsafe { device.launch(&Launch::cover(4, 256), &Saxpy { a: 2.0, x: &x, y: &mut y, length: 4 }) };
//! assert_eq!(error.unwrap_err().to_string(), "saxpy: x must have at least 4 elements, but has 3");
//! # Ok::<(), cuda_launch::Error>(())
//! ```
//!
//! On a GPU two lines differ. The device is [`Device::cuda`], and [`Device::load`] gets the PTX of the crate of the
//! kernels, which `cuda_builder` makes in the `build.rs` of the program:
//!
//! ```ignore
//! let device = Device::cuda(0)?;
//! device.load(cuda_launch::ptx!("kernels"))?;
//! ```
//!
//! # What is checked before a launch
//! - The compiler checks the types of the arguments, and that an array that a kernel writes is no other argument.
//! - Arrays are on the device of the launch, and are as long as the kernel's `lengths(…)` says.
//! - Grid, block and shared memory are within the limits of the device, and the block within the kernel's
//!   `launch_bounds(…)`.
//! - On the emulator, every access of the kernel.
//!
//! # Names of symbols
//! The symbol of a kernel in the PTX is the name of its function. So the names of the kernels of one crate differ. Each
//! crate has PTX of its own, which becomes a module of its own, so kernels of two crates may have one name. A launch
//! takes the PTX of the crate that the kernel is defined in. A crate with many kernels may have PTX for some of its
//! Rust modules: [`Ptx::module`] says which, and a launch takes the PTX of the innermost module around the kernel. On
//! the host a kernel has no symbol of its own.
//!
//! # Order
//! All work of a device runs in the order of the calls. [`Device::launch`] returns before a GPU has run the kernel;
//! [`Device::download`] and [`Device::wait`] wait for it, and return the error of a kernel that failed.
//!
//! # Safety of launches
//! [`Device::launch`] is unsafe, because a GPU checks no access of a kernel. The caller must fulfil the conditions in
//! the kernel's `# Safety` section.

mod arguments;
mod buffer;
#[cfg(feature = "cuda")]
mod cuda;
mod device;
mod emulated;
mod error;
mod ptx;
#[cfg(feature = "testing")]
pub mod testing;

pub use buffer::Buffer;
pub use cuda_emulator::{Counts, Emulator, Launch, LaunchError, Limits};
pub use cuda_std::launch::{Array, ArrayMut, Kernel};
pub use device::Device;
pub use error::Error;
pub use ptx::Ptx;
