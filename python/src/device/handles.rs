//! `faltung.Device`, `faltung.devices()` and `faltung.info()`.

use std::hash::{Hash, Hasher};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

use faltung::GpuInfo;

use super::{call, exception};
use crate::compute;

/// A device that computes: the CPU or a CUDA device.
///
/// ``Device("cpu")``, ``Device("cuda:1")``; ``Device("cuda")`` is ``Device("cuda:0")``. Devices are equal if their
/// names are.
///
/// Attributes: ``kind`` ("cpu" or "cuda"), ``index`` (int, 0 for the CPU), ``name`` (str), ``memory`` (int, bytes of
/// device memory; None for the CPU), ``compute_capability`` (two ints; None for the CPU).
///
/// Raises ``ValueError`` for a text that names no kind of device, ``RuntimeError`` where there is no such device.
///
/// >>> import faltung
/// >>> faltung.Device("cpu")
/// Device('cpu')
/// >>> faltung.Device("cpu").kind
/// 'cpu'
#[pyclass(frozen, eq, hash, module = "faltung")]
#[derive(Clone, Debug)]
pub(super) struct Device {
    id: String,
    gpu: Option<GpuInfo>,
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Hash for Device {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl Device {
    fn of(gpu: GpuInfo) -> Self {
        Self { id: format!("cuda:{}", gpu.number), gpu: Some(gpu) }
    }
}

#[pymethods]
impl Device {
    #[new]
    fn new(name: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = name.py();
        let Ok(text) = name.cast::<PyString>() else {
            let found = name.repr()?;
            return Err(PyTypeError::new_err(format!(
                "name must be \"cpu\", \"cuda\" or \"cuda:N\", a str, not {found}"
            )));
        };
        let name = text.to_str()?;
        if name == "cpu" {
            return Ok(Self { id: name.to_owned(), gpu: None });
        }
        let number = match name.strip_prefix("cuda") {
            Some("") => Some(0),
            Some(rest) => rest.strip_prefix(':').and_then(|number| number.parse::<u32>().ok()),
            None => None,
        };
        let Some(number) = number else {
            return Err(PyValueError::new_err(format!("name must be \"cpu\", \"cuda\" or \"cuda:N\", not {name:?}")));
        };
        let device = call::open(py, number as usize)?;
        device.gpu().cloned().map(Self::of).ok_or_else(|| PyValueError::new_err(format!("{name} is no CUDA device")))
    }

    #[getter]
    fn kind(&self) -> &'static str {
        if self.gpu.is_some() { "cuda" } else { "cpu" }
    }

    #[getter]
    fn index(&self) -> usize {
        self.gpu.as_ref().map_or(0, |gpu| gpu.number)
    }

    #[getter]
    fn name(&self) -> String {
        self.gpu.as_ref().map_or_else(faltung::cpu_name, |gpu| gpu.name.clone())
    }

    #[getter]
    fn memory(&self) -> Option<usize> {
        self.gpu.as_ref().map(|gpu| gpu.memory_bytes)
    }

    #[getter]
    fn compute_capability(&self) -> Option<(u32, u32)> {
        self.gpu.as_ref().map(|gpu| gpu.compute_capability)
    }

    fn __str__(&self) -> String {
        self.id.clone()
    }

    fn __repr__(&self) -> String {
        format!("Device('{}')", self.id)
    }

    /// A copy, also one in another process, is the device with the same name.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (String,)) {
        (slf.get_type(), (slf.get().id.clone(),))
    }
}

/// The CUDA devices of this machine, by the driver.
fn found(py: Python<'_>) -> PyResult<Result<Vec<GpuInfo>, faltung::Error>> {
    call::check_process()?;
    Ok(call::noted(py.detach(faltung::devices)))
}

/// The CUDA devices of this machine: a list of `Device`. It is empty where there is none, and `info()["reason"]` says
/// why.
///
/// Raises ``RuntimeError`` in a process that was forked after the GPU was used.
///
/// >>> import faltung
/// >>> all(device.kind == "cuda" for device in faltung.devices())
/// True
#[pyfunction]
pub(super) fn devices(py: Python<'_>) -> PyResult<Vec<Device>> {
    Ok(found(py)?.map_or_else(|_| Vec::new(), |gpus| gpus.into_iter().map(Device::of).collect()))
}

/// What computes here, for people and bug reports: a dict.
///
/// ``version`` (str), ``cpu`` (str, one line with the instruction set), ``threads`` (int, of the CPU), ``devices``
/// (list of `Device`), ``driver`` (str, the newest CUDA version of the driver; None without one), ``reason`` (str, why
/// there is no CUDA device; None if there is one).
///
/// >>> import faltung
/// >>> sorted(faltung.info())
/// ['cpu', 'devices', 'driver', 'reason', 'threads', 'version']
/// >>> faltung.info()["threads"] >= 1
/// True
#[pyfunction]
pub(super) fn info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    // A child of `fork` has its CPU, and a reason why there is no more.
    let (gpus, reason) = match found(py) {
        Ok(Ok(gpus)) if gpus.is_empty() => (gpus, Some("the driver is loaded but finds no device".to_owned())),
        Ok(Ok(gpus)) => (gpus, None),
        Ok(Err(error)) => (Vec::new(), Some(exception(error).value(py).to_string())),
        Err(error) => (Vec::new(), Some(error.value(py).to_string())),
    };
    let info = PyDict::new(py);
    info.set_item("version", env!("CARGO_PKG_VERSION"))?;
    info.set_item("cpu", compute::describe_cpu()?)?;
    info.set_item("threads", compute::pool()?.current_num_threads())?;
    info.set_item("driver", gpus.first().map(GpuInfo::driver))?;
    info.set_item("devices", gpus.into_iter().map(Device::of).collect::<Vec<_>>())?;
    info.set_item("reason", reason)?;
    Ok(info)
}
