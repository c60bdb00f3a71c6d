//! Image convolution on NVIDIA GPUs and on the CPU, with every GPU kernel written in Rust.
//!
//! A [`Filter`] says what to compute, a [`Device`] computes it. Images have 1 to 4 interleaved channels of `u8`, `u16`
//! or `f32`.
//!
//! ```
//! use faltung::{Border, Device, Filter, Image};
//!
//! let device = Device::auto(); // the first CUDA device, or else the CPU
//! let filter = Filter::gaussian(3.0).border(Border::Mirror);
//! let image = Image::from_fn(640, 480, |x, y| (x ^ y) as u8)?;
//! let blurred: Image<u8> = device.apply(&filter, &image)?;
//! # Ok::<(), faltung::Error>(())
//! ```
//!
//! [`Device::auto`] never fails. [`Device::cpu`], [`Device::cuda`] and [`Device::emulator`] name a device.
//! [`Filter::new`] takes any [`Mask`]. [`View`] lends images from memory that is not an [`Image`].
//!
//! # Images that stay on the device
//!
//! [`Device::apply`] copies each image to the device and back. For several filters, upload the image once and run a
//! [`Pipeline`]. The images between two filters stay on the device, in `f32`.
//!
//! ```
//! use faltung::{Axis, Device, DeviceImage, Filter, Image};
//!
//! let device = Device::auto();
//! let edges = device.pipeline(&[Filter::gaussian(1.5), Filter::sobel(Axis::X)])?;
//!
//! let stream = device.stream()?;
//! let image = Image::from_fn(640, 480, |x, y| (x ^ y) as u8)?;
//! let source = device.upload(&image, &stream)?;
//! let result: DeviceImage<f32> = edges.run(&source, &stream)?; // enqueued, not waited for
//! let result: Image<f32> = result.download(&stream)?; // waits
//! # Ok::<(), faltung::Error>(())
//! ```
//!
//! The same program runs on the CPU and the emulator, where a [`DeviceImage`] is host memory. These devices also take
//! each other's images and streams. A CUDA device refuses those of another device: [`Error::OtherDevice`].
//! [`DeviceImage::from_raw`] takes device memory of other libraries.
//!
//! # Large images, and arrays
//!
//! [`chunked`] filters images that are never whole in memory. [`nd`] has the linear filters of `scipy.ndimage` for
//! arrays of any number of axes and all real types, `f64` among them.
//!
//! # Release mode
//!
//! Build with `--release`. A debug build computes on the CPU about 100 times slower. To optimise debug builds, add this
//! to the `Cargo.toml` of your program:
//!
//! ```toml
//! [profile.dev]
//! opt-level = 3
//! ```
//!
//! `[profile.dev.package."*"]` is not enough: generic functions of this library are compiled with your crate.
//!
//! # Threads
//!
//! - [`Device`], [`Prepared`], [`Pipeline`], [`Stream`] and [`DeviceImage`] are `Send` and `Sync`. Several threads may
//!   call them at once. Clones, which all but an image have, are cheap and share everything.
//! - The library works on the calling thread and on the threads of the current rayon pool. [`with_pool`] names another
//!   pool for work on the CPU. Copies for CUDA devices always use the current pool. Calls from rayon tasks are safe.
//!   While a call copies for a CUDA device, rayon may run another task of yours in the same thread. So do not hold a
//!   lock across such a call if one of your tasks takes the same lock.
//! - [`cancellable`] names a flag that ends work on the CPU early.
//! - The current CUDA context of the calling thread is the same after each call as before.
//!
//! # Reuse
//!
//! - [`Device::apply`] keeps the last few filters and sizes ready, a [`Pipeline`] the last few sizes. A loop over
//!   frames plans and compiles once.
//! - [`Device::prepare`] makes one filter ready for one size, for as long as the [`Prepared`] lives.
//! - [`Prepared::run_into`] writes to an image that is there already, at first one of [`Device::zeros`].
//! - The memory of a dropped [`DeviceImage`] is kept for the next one. [`Device::free_unused_memory`] frees it.
//! - A CUDA device reads and writes [`Device::page_locked`] memory by itself, which saves the host's copies.
//!
//! # Accuracy
//!
//! A filter names the least accurate class that it allows: [`Filter::accuracy`].
//!
//! | [`Accuracy`] | results of `f32` | results of `u8` and `u16` |
//! | --- | --- | --- |
//! | `Exact` | the same bits on every device | the same bits on every device |
//! | `Bounded`, the default | an error bound at every pixel, relative to `sum\|mask * image\|` | as for `Exact` |
//! | `Normwise` | an error bound relative to the norms of mask and image | the same bound, then rounded |
//!
//! # Features
//!
//! | feature | |
//! | --- | --- |
//! | `cuda` (default) | CUDA devices. Without it there are the CPU and the emulator |
//! | `image` | conversions from and to `image::ImageBuffer` and `image::DynamicImage` |
//! | `ndarray` | conversions from and to arrays and views of axes (rows, columns) or (rows, columns, channels) |
//!
//! A conversion of an image by value keeps its memory. A conversion of a reference or a view lends it. One conversion
//! can copy: that of an array whose elements are not in the order of an image's values.
//!
//! # Depending on it
//!
//! The build needs no CUDA installation, and the program starts without a driver. The feature `cuda` needs one line in
//! `.cargo/config.toml` of your project:
//!
//! ```toml
//! [env]
//! CUDA_LIBRARY_PATH = "/"
//! ```
//!
//! `cargo check -p cuda_driver` prints the line for your system. Without the line, and without CUDA in
//! `/usr/local/cuda` or `/opt/cuda`, the build script of `cust_raw` panics:
//!
//! ```text
//! Could not find a cuda installation
//! ```
//!
//! It asks for a folder that contains a folder `lib64`, and for nothing in it.
//!
//! `default-features = false` needs no such line.

#![cfg_attr(docsrs, feature(doc_cfg))]

/// Tests the code of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod accuracy;
mod any_image;
#[cfg(any(feature = "cuda", test))]
mod bands;
mod border;
pub mod calibration;
pub mod chunked;
mod convert;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod debug;
mod device;
mod device_choice;
mod device_image;
#[cfg(feature = "cuda")]
mod device_memory;
mod emulated;
mod error;
mod filter;
mod gather;
mod gpu_info;
mod image;
mod mask;
#[doc(hidden)]
pub mod memory;
pub mod nd;
mod page_locked;
#[doc(hidden)] // its loops are for the Python module
pub mod parallel;
mod pipeline;
pub mod plan;
mod prepared;
mod problem;
mod recent;
#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "only CUDA devices copy rows"))]
mod rows;
mod spares;
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
pub use cpu::instruction_set as cpu_instruction_set;
pub use cuda_emulator::Counts;
pub use device::Device;
pub use device_choice::{DeviceChoice, Rates};
pub use device_image::DeviceImage;
#[cfg(feature = "cuda")]
pub use device_memory::{AddressInfo, DeviceMemory, MemoryKind};
pub use error::{DriverError, Error, Result};
pub use gpu_info::{GpuInfo, devices};
pub use kernels_gpu::abi::border::BorderMode;
pub use kernels_gpu::registry::{Ineligible, Variant};
pub use mask::{Axis, Gabor, Mask, WrittenMask};
pub use page_locked::PageLocked;
pub use parallel::{cancellable, with_pool};
pub use pipeline::Pipeline;
pub use plan::VariantChoice;
pub use prepared::Prepared;
pub use problem::{Filter, Operation, PixelFormat, Problem};
pub use stream::{Event, Stream};
pub use view::{View, ViewMut};

#[doc(hidden)]
/// A NaN that no arithmetic makes of other values. It marks results that nothing wrote.
pub const POISON: f32 = f32::from_bits(0x7fc0_dead);

#[doc(hidden)]
/// White in a type's values: the largest value of an integer type, 1 for `f32`.
#[must_use]
pub const fn white(kind: PixelType) -> f32 {
    match kind {
        PixelType::U8 => 255.0,
        PixelType::U16 => 65_535.0,
        PixelType::F32 => 1.0,
    }
}

#[doc(hidden)]
pub use cpu::name as cpu_name;
/// Computes `problem` one output and one coefficient at a time. This is the accuracy contract, spelled out.
#[doc(hidden)]
pub use cpu::reference;
#[doc(hidden)]
pub use recent::Recent;
