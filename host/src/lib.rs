//! Image convolution on NVIDIA GPUs, with every kernel written in Rust, and on any CPU.
//!
//! The way of the data: an [`Image`] and a [`Filter`] make a [`Problem`] (validated once), a [`Device`] makes a
//! [`Convolution`] of it (which kernel, why, with which launches; buffers and modules ready), which runs any number of
//! times. Whatever the device, the answer has the same bits; the one exception is what [`VariantChoice::Auto`] may take
//! for separable masks on a GPU, and [`VariantChoice::Exact`] does not. [`files`] reads and writes pictures, [`batch`]
//! many at once.
//!
//! ```
//! use host::{Border, Device, Filter, Image, Mask};
//!
//! let image = Image::from_fn(640, 480, |x, y| ((x ^ y) & 255) as u8)?;
//! let filter = Filter::new(Mask::new(3, 3, vec![1.0 / 9.0; 9])?).border(Border::Mirror);
//!
//! let device = Device::auto(); // the first CUDA device, or else the CPU
//! let blurred: Image<u8> = device.apply(&filter, &image)?;
//! assert_eq!(blurred.width(), 640);
//! # Ok::<(), host::Error>(())
//! ```

mod backend;
pub mod batch;
pub mod bench;
mod border;
pub mod check;
pub mod compare;
mod error;
pub mod files;
mod image;
mod mask;
mod memory;
pub mod oracle;
pub mod plan;
mod problem;
pub mod tutorial;
mod view;

pub use backend::{Convolution, Device, DeviceChoice, GpuInfo, PageLocked, Rates, devices, lab};
pub use border::Border;
pub use cuda_emulator;
pub use error::{DriverError, Error, Result};
pub use image::{Image, Pixel, PixelType};
pub use kernels_gpu;
pub use kernels_gpu::registry::Variant;
pub use mask::{Axis, Gabor, Mask, WrittenMask};
pub use memory::fit_threads;
pub use plan::VariantChoice;
pub use problem::{Filter, Layout, Operation, Problem};
pub use view::{View, ViewMut};
