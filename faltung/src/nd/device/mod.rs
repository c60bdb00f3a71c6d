//! The same filters on arrays in the memory of a [`Device`].
//!
//! ```
//! use faltung::nd::{DeviceArray, Element, Layout, Lines, Sums};
//! use faltung::{BorderMode, Device};
//!
//! let device = Device::emulator(1); // computes in host memory
//! let (values, mut result) = ([3_u8, 1, 4, 1, 5, 9], [0.0_f64; 6]);
//! let (from, to) = (Layout::dense(Element::U8, &[2, 3]), Layout::dense(Element::F64, &[2, 3]));
//! let input = DeviceArray { address: values.as_ptr().expose_provenance() as u64, layout: &from };
//! let output = DeviceArray { address: result.as_mut_ptr().expose_provenance() as u64, layout: &to };
//!
//! let along_rows = Lines { axis: 1, origin: 0, border: BorderMode::Reflect, value: 0.0 };
//! // SAFETY: both arrays have 2 x 3 elements of their type, and nothing else uses them.
//! unsafe { device.correlate1d_array(input, output, &[-1.0, 0.0, 1.0], &along_rows, Sums::F64, 0)? };
//! assert_eq!(result, [-2.0, 1.0, 3.0, 4.0, 8.0, 4.0]);
//! # Ok::<(), faltung::Error>(())
//! ```

mod emulated;
mod plan;
mod separable;
mod tiles;

use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

pub(crate) use self::plan::ArrayLaunch;
use super::{
    AxisFilter, Correlation, Input, Layout, Lines, Output, Sums, correlate, correlate1d, filter_axes, uniform1d,
};
use crate::device::Kind;
use crate::{Device, Result};

/// An array in the memory of a device: of the host for the CPU and the emulator.
#[derive(Clone, Copy, Debug)]
pub struct DeviceArray<'a> {
    /// The address of the element at index 0 of every axis.
    pub address: u64,
    /// The type of the elements, and where they are.
    pub layout: &'a Layout,
}

/// # Arrays of a device
///
/// Each of these methods checks the arguments, enqueues the work on `stream` and returns without waiting for it. The
/// CPU and the emulator compute before they return, and ignore `stream`.
///
/// A CUDA device and the emulator want addresses and strides that are multiples of an element's size. They take up to
/// four axes. Axes of one element and axes that can be walked as one do not count, unless the filter reaches along
/// them.
///
/// The results are bit-exact with [`correlate`], [`correlate1d`], [`filter_axes`] and [`uniform1d`]. Means of floating
/// point are an exception: there the sums start afresh every 32 results, so roundings and NaN do not reach as far.
///
/// The first call with a filter copies its weights to the device and waits for this copy. The last filters are kept. So
/// a stream that captures a graph needs one call with the same arguments before. The weights of a captured call stay on
/// the device until it is closed.
///
/// ## Errors
/// - Those of [`correlate`], [`correlate1d`] and [`uniform1d`].
/// - [`Error::Number`](crate::Error::Number) for too many axes, an address or a stride that is not aligned, or an
///   output that is the input.
/// - [`Error::TooLarge`](crate::Error::TooLarge) for more than 2^31 - 1 blocks of results, or a filter of more than
///   2^31 weights along an axis.
/// - [`Error::DeviceMemory`](crate::Error::DeviceMemory), [`Error::Driver`](crate::Error::Driver),
///   [`Error::DeviceLost`](crate::Error::DeviceLost); [`Error::Emulator`](crate::Error::Emulator).
///
/// ## Safety
/// - An initialised element of the layout's type is at each index of the input, and room for one at each index of the
///   output. They are in memory of the device, which lives until the work is done.
/// - No two indices of the output have a byte in common. Input and output have no byte in common.
/// - Until the work is done nothing else writes the input, or uses the output. Work before it on the stream is done
///   then.
/// - `stream` is a `CUstream` of the device's primary context, or 0, 1 or 2 for a default stream.
/// - A graph that captured the work runs only while the device is open.
impl Device {
    /// [`correlate`] on arrays of this device.
    ///
    /// # Errors
    /// [Those of arrays of a device](Self#errors).
    ///
    /// # Safety
    /// [Those of arrays of a device](Self#safety).
    pub unsafe fn correlate_array(
        &self,
        input: DeviceArray<'_>,
        output: DeviceArray<'_>,
        correlation: &Correlation<'_>,
        sums: Sums,
        stream: u64,
    ) -> Result<()> {
        if matches!(self.kind, Kind::Cpu) {
            // SAFETY: the arrays are in host memory, as this function requires.
            let (input, output) = unsafe { on_host(input, output)? };
            return correlate(input, output, correlation, sums);
        }
        let launch = plan::correlate(input, output, correlation, sums)?;
        // SAFETY: as this function requires.
        unsafe { self.launch_array(launch, input, output, stream) }
    }

    /// [`correlate1d`] on arrays of this device.
    ///
    /// # Errors
    /// [Those of arrays of a device](Self#errors).
    ///
    /// # Safety
    /// [Those of arrays of a device](Self#safety).
    pub unsafe fn correlate1d_array(
        &self,
        input: DeviceArray<'_>,
        output: DeviceArray<'_>,
        weights: &[f64],
        lines: &Lines,
        sums: Sums,
        stream: u64,
    ) -> Result<()> {
        if matches!(self.kind, Kind::Cpu) {
            // SAFETY: the arrays are in host memory, as this function requires.
            let (input, output) = unsafe { on_host(input, output)? };
            return correlate1d(input, output, weights, lines, sums);
        }
        let launch = plan::correlate1d(input, output, weights, lines, sums)?;
        // SAFETY: as this function requires.
        unsafe { self.launch_array(launch, input, output, stream) }
    }

    /// [`uniform1d`] on arrays of this device.
    ///
    /// # Errors
    /// [Those of arrays of a device](Self#errors).
    ///
    /// # Safety
    /// [Those of arrays of a device](Self#safety).
    pub unsafe fn uniform1d_array(
        &self,
        input: DeviceArray<'_>,
        output: DeviceArray<'_>,
        size: usize,
        lines: &Lines,
        stream: u64,
    ) -> Result<()> {
        if matches!(self.kind, Kind::Cpu) {
            // SAFETY: the arrays are in host memory, as this function requires.
            let (input, output) = unsafe { on_host(input, output)? };
            return uniform1d(input, output, size, lines);
        }
        let launch = plan::uniform1d(input, output, size, lines)?;
        // SAFETY: as this function requires.
        unsafe { self.launch_array(launch, input, output, stream) }
    }

    /// [`filter_axes`] with two filters on arrays of this device, in one launch.
    ///
    /// Returns true if it enqueued the work. Returns false, without side effects, if the kernel does not take the
    /// filters, or if two launches are expected to be faster. Then call [`correlate1d_array`](Self::correlate1d_array)
    /// or [`uniform1d_array`](Self::uniform1d_array) for each filter: the results are the same.
    ///
    /// A CUDA device and the emulator take two symmetric or antisymmetric filters of 3 to 13 weights along different
    /// axes, from `f64` to `f64`, with the same border mode and value. The array has at least 32 elements along the
    /// second filter's axis, and 16 along the first one's.
    ///
    /// # Errors
    /// [Those of arrays of a device](Self#errors), but for too many axes.
    ///
    /// # Safety
    /// [Those of arrays of a device](Self#safety).
    pub unsafe fn filter_axes_array(
        &self,
        input: DeviceArray<'_>,
        output: DeviceArray<'_>,
        filters: &[AxisFilter<'_>; 2],
        sums: Sums,
        stream: u64,
    ) -> Result<bool> {
        if matches!(self.kind, Kind::Cpu) {
            // SAFETY: the arrays are in host memory, as this function requires.
            let (input, output) = unsafe { on_host(input, output)? };
            return filter_axes(input, output, filters, sums).map(|()| true);
        }
        let launch = separable::separable(input, output, filters, sums)?;
        let is_one = launch.is_some();
        // SAFETY: as this function requires.
        unsafe { self.launch_array(launch, input, output, stream)? };
        Ok(is_one)
    }

    /// Runs a launch, if there is anything to compute.
    ///
    /// # Safety
    /// Those of arrays of a device, of the arrays that the launch was planned for.
    unsafe fn launch_array(
        &self,
        launch: Option<ArrayLaunch>,
        input: DeviceArray<'_>,
        output: DeviceArray<'_>,
        #[cfg_attr(not(feature = "cuda"), allow(unused_variables))] stream: u64,
    ) -> Result<()> {
        let Some(launch) = launch else { return Ok(()) };
        match &self.kind {
            Kind::Cpu => unreachable!("the CPU has no kernels"),
            // SAFETY: the arrays are in host memory, and are those of the launch.
            Kind::Emulator { seed } => unsafe { emulated::run(*seed, &launch, input, output) },
            #[cfg(feature = "cuda")]
            // SAFETY: the arrays are in the device's memory, and are those of the launch.
            Kind::Cuda(gpu) => unsafe { gpu.run_array(&launch, input.address, output.address, stream) },
        }
    }
}

/// Arrays in host memory.
///
/// # Safety
/// Those of arrays of a device.
unsafe fn on_host<'a>(input: DeviceArray<'_>, output: DeviceArray<'_>) -> Result<(Input<'a>, Output<'a>)> {
    // SAFETY: the elements are in host memory, initialised, and nothing else uses them.
    unsafe {
        Ok((
            Input::from_raw(with_exposed_provenance(input.address as usize), input.layout.clone())?,
            Output::from_raw(with_exposed_provenance_mut(output.address as usize), output.layout.clone())?,
        ))
    }
}
