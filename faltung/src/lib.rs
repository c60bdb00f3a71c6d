//! Image convolution on NVIDIA GPUs, with every kernel written in Rust, and on any CPU.
//!
//! # Features
//! - `cuda` (default): CUDA devices. Without it there are the CPU and the emulator.
//! - `image`: conversions from and to `image::ImageBuffer` and `image::DynamicImage`.
//! - `ndarray`: conversions from and to arrays and their views, of two axes (rows, columns) or three (rows, columns,
//!   channels).
//!
//! A conversion of an image by value keeps its memory. A conversion of a reference or a view lends it. One conversion
//! can copy: that of an array whose elements are not in the order of an image's values.

mod accuracy;
mod any_image;
#[cfg(any(feature = "cuda", test))]
mod bands;
mod border;
mod convert;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod device;
mod device_choice;
mod device_image;
mod emulated;
mod error;
mod filter;
mod gpu_info;
mod image;
#[cfg(feature = "lab")]
#[doc(hidden)]
pub mod lab;
mod mask;
pub mod memory;
mod page_locked;
mod pipeline;
pub mod plan;
mod prepared;
mod problem;
mod recent;
#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "only CUDA devices copy rows"))]
mod rows;
mod stream;
#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "only CUDA devices have memory of their own"))]
mod strips;
#[cfg(test)]
mod threads;
mod view;

pub use crate::image::{Image, Pixel, PixelType};
pub use accuracy::{Accuracy, ErrorBound};
pub use any_image::AnyImage;
pub use border::Border;
pub use device::Device;
pub use device_choice::{DeviceChoice, Rates};
pub use device_image::DeviceImage;
pub use error::{DriverError, Error, Result};
pub use gpu_info::{GpuInfo, devices};
pub use kernels_gpu::registry::Variant;
pub use mask::{Axis, Gabor, Mask, WrittenMask};
pub use page_locked::PageLocked;
pub use pipeline::Pipeline;
pub use plan::VariantChoice;
pub use prepared::Prepared;
pub use problem::{Filter, Operation, PixelFormat, Problem};
pub use stream::{Event, Stream};
pub use view::{View, ViewMut};

/// A NaN that no arithmetic makes of other values. It marks results that nothing wrote.
pub const POISON: f32 = f32::from_bits(0x7fc0_dead);

/// The name that the CPU gives itself, or that of its architecture.
pub use cpu::name as cpu_name;
/// Computes `problem` one output and one coefficient at a time. This is the accuracy contract, spelled out.
#[doc(hidden)]
pub use cpu::reference;
