//! Arrays on CUDA devices: in and out by the protocols of other libraries, without a copy and without waiting.

mod array;
mod axes;
mod call;
mod correlate;
mod dlpack;
mod export;
mod handles;
mod interface;
mod libraries;
mod ndimage;

use pyo3::prelude::*;

pub(crate) use self::array::DeviceArray;
pub(crate) use self::call::enqueue;
use crate::compute::exception;

/// Adds the functions and classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DeviceArray>()?;
    module.add_class::<handles::Device>()?;
    module.add("MOST_AXES", axes::MOST_AXES)?;
    for function in [
        wrap_pyfunction!(interface::wrap, module)?,
        wrap_pyfunction!(libraries::empty, module)?,
        wrap_pyfunction!(correlate::correlate2d_f32, module)?,
        wrap_pyfunction!(correlate::filter_picture, module)?,
        wrap_pyfunction!(ndimage::device_overlap, module)?,
        wrap_pyfunction!(ndimage::device_correlate, module)?,
        wrap_pyfunction!(ndimage::device_correlate1d, module)?,
        wrap_pyfunction!(ndimage::device_uniform1d, module)?,
        wrap_pyfunction!(axes::device_filter_axes, module)?,
        wrap_pyfunction!(axes::filter_all_axes, module)?,
        wrap_pyfunction!(call::release_finished, module)?,
        wrap_pyfunction!(handles::devices, module)?,
        wrap_pyfunction!(handles::info, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
