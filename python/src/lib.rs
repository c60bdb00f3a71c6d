//! The native part of the Python module `faltung`.

mod array;
mod channels;
mod compute;
mod device;
mod forks;
mod ndimage;
mod opencv;
mod opencv_f64;
mod result_memory;

/// The native part of `faltung`: filters on arrays that the Python part has checked.
#[pyo3::pymodule(name = "_native", gil_used = false)]
mod native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::array::tuples_have_overlap;
    #[pymodule_export]
    use crate::ndimage::{are_above, correlate, count, counts, filter_axes, fits_f32};
    #[pymodule_export]
    use crate::opencv::{correlate_image, device_correlate_image};
    #[pymodule_export]
    use crate::opencv_f64::{blur_array, correlate_array};
    #[pymodule_export]
    use crate::result_memory::empty_large;

    /// One line about the CPU that computes.
    #[pyfunction]
    fn describe_cpu() -> PyResult<String> {
        crate::compute::describe_cpu()
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::forks::count()?;
        crate::opencv::initialize();
        super::device::register(module)?;
        module.add("LARGE", crate::result_memory::LARGE)?;
        module.add("MODES", crate::ndimage::modes(module.py())?)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
