//! Image convolution on NVIDIA GPUs, with every kernel written in Rust, and on any CPU.
//!
//! The way of the data: an [`Image`] and a [`Filter`] make a [`Problem`] (validated once), a [`Device`] makes a
//! [`Convolution`] of it (which kernel, why, with which launches; buffers and modules ready), which runs any number of
//! times. With [`Accuracy::Exact`] the answer has the same bits on every device. [`files`] reads and writes pictures,
//! [`batch`] many at once.
//!
//! ```
//! use faltung::{Border, Device, Filter, Image, Mask};
//!
//! let image = Image::from_fn(640, 480, |x, y| ((x ^ y) & 255) as u8)?;
//! let filter = Filter::new(Mask::new(3, 3, vec![1.0 / 9.0; 9])?).border(Border::Mirror);
//!
//! let device = Device::auto(); // the first CUDA device, or else the CPU
//! let blurred: Image<u8> = device.apply(&filter, &image)?;
//! assert_eq!(blurred.width(), 640);
//! # Ok::<(), faltung::Error>(())
//! ```

pub mod batch;
pub mod bench;
pub mod check;
pub mod compare;
mod error;
pub mod files;
pub mod oracle;
pub mod resident;
mod threads;
pub mod tutorial;

pub use error::{Error, Result};
pub use threads::fit_threads;
