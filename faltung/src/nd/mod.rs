//! Filters on arrays of any number of axes, with the sums and the conversions of `scipy.ndimage`.
//!
//! A [`Device`](crate::Device) filters images. This module filters arrays: any number of axes, any strides, all real
//! types. Sums of `f32` arrays with `f32` results may be of `f32`. All others are of `f64`, and they are added in the
//! order in which `scipy.ndimage` adds them, with a rounding after each product. So the results have SciPy's bits on
//! x86-64. Integer results drop the fraction and wrap around, as SciPy's do. Beyond 2^31 the results of smaller types
//! are not defined by C; they are those of SciPy on x86-64.
//!
//! Integer results of small integers are the same integers, but computed faster: by sums of `f32` or by the FFT. A
//! bound proves each result, or it is summed again as above.
//!
//! ```
//! use faltung::BorderMode;
//! use faltung::nd::{Input, Lines, Output, Sums, correlate1d};
//!
//! let (values, mut result) = ([3_u8, 1, 4, 1, 5, 9], [0.0_f64; 6]);
//! let (input, output) = (Input::new(&values, &[2, 3])?, Output::new(&mut result, &[2, 3])?);
//!
//! let along_rows = Lines { axis: 1, origin: 0, border: BorderMode::Reflect, value: 0.0 };
//! correlate1d(input, output, &[-1.0, 0.0, 1.0], &along_rows, Sums::F64)?;
//! assert_eq!(result, [-2.0, 1.0, 3.0, 4.0, 8.0, 4.0]);
//! # Ok::<(), faltung::Error>(())
//! ```
//!
//! With the feature `ndarray`, arrays of that crate convert into [`Input`] and [`Output`], whatever their strides.
//! [`Input::from_raw`] and [`Output::from_raw`] take any memory.

mod array;
mod axes;
mod axis;
mod bands;
mod block;
mod border;
mod byte_axes;
mod byte_sums;
mod convert;
mod dense;
mod device;
mod float_means;
mod image;
mod image_lines;
mod kernel;
mod lent;
mod line_filter;
mod lines;
mod narrow;
mod scratch;
#[cfg(test)]
mod tests;
mod transformed;
mod whole;
mod window_means;

#[doc(hidden)]
pub use array::extent;
pub use array::{Element, Input, Layout, Output};
pub use axes::{Along, AxisFilter, filter_axes};
#[doc(hidden)]
pub use border::position;
pub use dense::{Correlation, correlate};
#[cfg_attr(not(feature = "cuda"), allow(unused_imports, reason = "only CUDA devices launch elsewhere"))]
pub(crate) use device::ArrayLaunch;
pub use device::DeviceArray;
pub use image::{ImageFilter, ImageMask, correlate_image};
pub use lent::ElementType;
pub use lines::{Lines, correlate1d, uniform1d};
pub use window_means::window_means;

use crate::{Error, Result, parallel};

/// The type of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// `f32`, by fused multiply-adds: for `f32` arrays with `f32` results alone.
    F32,
    /// `f64`, with SciPy's bits.
    F64,
}

/// Multiply-adds below which a call stays in the calling thread: less than 0.1 ms.
#[doc(hidden)] // the Python module asks it
pub const SERIAL: usize = 1 << 19;

/// Runs `job` for all numbers below `jobs`, each with scratch memory that a thread makes once.
///
/// # Errors
/// - [`Error::Cancelled`]. Some results are then unwritten.
/// - Those of `scratch`.
fn run_jobs<T>(
    jobs: usize,
    work: usize,
    scratch: impl Fn() -> Result<T> + Sync + Send,
    job: impl Fn(&mut T, usize) + Sync + Send,
) -> Result<()> {
    if work < SERIAL {
        let mut scratch = scratch()?;
        (0..jobs).for_each(|number| job(&mut scratch, number));
        return Ok(());
    }
    parallel::for_each(0..jobs, scratch, |scratch, number| {
        job(scratch.as_mut().map_err(|error| error.clone())?, number);
        Ok(())
    })
}

impl Sums {
    /// Fails unless arrays of these types may have sums of this type.
    fn check(self, input: Element, output: Element) -> Result<()> {
        match (self, input, output) {
            (Self::F64, ..) | (Self::F32, Element::F32, Element::F32) => Ok(()),
            (Self::F32, from, to) => Err(Error::Number {
                what: "the type of the sums",
                required: "F64, unless both arrays are of F32",
                found: format!("F32 for {from:?} to {to:?}"),
            }),
        }
    }
}

/// Fails if a filter of `size` elements can't have this origin, or is none.
fn check_size(size: usize, origin: isize) -> Result<()> {
    const MOST: usize = 1 << 40;
    if size == 0 || size > MOST {
        let required = "from 1 to 2^40";
        return Err(Error::Number { what: "the size of the filter", required, found: size.to_string() });
    }
    let (first, last) = (-((size / 2) as isize), ((size - 1) / 2) as isize);
    if (first..=last).contains(&origin) {
        return Ok(());
    }
    let required = "between -(size / 2) and (size - 1) / 2";
    Err(Error::Number { what: "the origin", required, found: format!("{origin} for a size of {size}") })
}
