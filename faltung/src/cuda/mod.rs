//! CUDA devices, through the driver alone: no CUDA installation, and no driver needed to start.

mod convolution;
mod driver;
mod graph;
#[cfg(feature = "lab")]
mod lab;
mod launch;
mod lend;
mod mapped;
mod overlap;
mod page_locked;
mod rates;
mod staging;
mod status;

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::CString;

use cust::context::{Context, ContextHandle, CurrentContext};
use cust::device::{Device, DeviceAttribute};
use cust::error::CudaError;
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use cust::sys::CUdevice_attribute;
use cust::{CudaApiVersion, CudaFlags};
use kernels_gpu::ptx;

use self::mapped::Mapped;
use self::overlap::Lanes;
use self::page_locked::Areas;
use self::staging::Staging;
use self::status::{DriverResultExt, Failure};
use crate::plan::Limits;
use crate::{Error, Result};

pub(crate) use self::convolution::GpuConvolution;
#[cfg(feature = "lab")]
pub(crate) use self::lab::{Bench, DeviceArray, LaunchOnDevice};
pub(crate) use self::page_locked::LockedBytes;

/// What a CUDA device is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GpuInfo {
    /// Its number, as in `cuda:0`.
    pub number: usize,
    /// Its name, such as "NVIDIA H100 80GB HBM3".
    pub name: String,
    /// Major and minor compute capability.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Device memory in bytes.
    pub memory_bytes: usize,
    /// The most shared memory of a block in bytes, after opting in.
    pub shared_bytes_per_block: u64,
    /// The newest CUDA version that the driver supports, major and minor.
    pub cuda: (u32, u32),
}

impl GpuInfo {
    /// What planning needs to know.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            shared_bytes: self.shared_bytes_per_block,
            sm_count: self.sm_count,
            compute_capability: self.compute_capability,
        }
    }

    /// The newest CUDA version that the driver supports, as text, such as "13.0".
    #[must_use]
    pub fn driver(&self) -> String {
        format!("{}.{}", self.cuda.0, self.cuda.1)
    }

    /// Whether the device can run the PTX that ships.
    fn check_architecture(&self) -> Result<()> {
        let (major, minor) = self.compute_capability;
        // The PTX is for compute capability 7.0 and runs on every later one.
        if major < 7 {
            return Err(Error::NoDevice {
                reason: format!("{} has compute capability {major}.{minor}, the kernels need 7.0 or later", self.name),
                source: None,
            });
        }
        Ok(())
    }
}

/// Initialises the driver, once per process, and says which CUDA version it supports.
///
/// # Errors
/// [`Error::NoDevice`] with the loader's or the driver's own words.
fn initialise() -> Result<(u32, u32)> {
    // The loader's words are all that it has to say.
    cuda_driver::load().map_err(|error| Error::NoDevice { reason: error.to_string(), source: None })?;
    let no_device = |error: CudaError| {
        let source = Failure::from(error).describe();
        Error::NoDevice { reason: source.text().to_owned(), source: Some(source) }
    };
    cust::init(CudaFlags::empty()).map_err(no_device)?;
    let version = CudaApiVersion::get().map_err(no_device)?;
    Ok((version.major() as u32, version.minor() as u32))
}

/// The CUDA devices of this machine.
///
/// # Errors
/// [`Error::NoDevice`] if there is no driver or it doesn't start; the reason is in its own words.
pub fn devices() -> Result<Vec<GpuInfo>> {
    let cuda = initialise()?;
    let count = Device::num_devices().context("count the devices")?;
    (0..count as usize).map(|number| info(number, cuda)).collect()
}

/// Reads what a device is.
fn info(number: usize, cuda: (u32, u32)) -> Result<GpuInfo> {
    let action = || format!("describe device {number}");
    let device = Device::get_device(number as u32).context(action())?;
    let number_of = |attribute| device.get_attribute(attribute).map(|value| value.max(0) as u32).context(action());
    let opt_in = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
    Ok(GpuInfo {
        number,
        name: device.name().context(action())?,
        compute_capability: (
            number_of(DeviceAttribute::ComputeCapabilityMajor)?,
            number_of(DeviceAttribute::ComputeCapabilityMinor)?,
        ),
        sm_count: number_of(DeviceAttribute::MultiprocessorCount)?,
        memory_bytes: device.total_memory().context(action())?,
        shared_bytes_per_block: driver::attribute(device, opt_in).context(action())?.max(0) as u64,
        cuda,
    })
}

/// What is being done when a context is made the current one.
const ENTER: &str = "switch to the device's context";

/// An open CUDA device: its context, one stream, the modules that have been used, and the way to it.
pub(crate) struct Gpu {
    info: GpuInfo,
    // Dropped in the order of declaration: modules and stream before their context.
    modules: Box<[Loaded]>,
    staging: RefCell<Staging>,
    mapped: OnceCell<RefCell<Mapped>>,
    areas: Areas,
    lanes: OnceCell<Lanes>,
    stream: Stream,
    context: Context,
}

/// A place for a module, filled when it is first used.
#[derive(Default)]
struct Loaded {
    module: OnceCell<Module>,
    /// The number of the convolution whose mask is in the module's constant memory; 0 is none's.
    mask_of: Cell<u64>,
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Gpu {
    /// Opens device `number`.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is no driver or no such device, [`Error::Driver`] if it can't be opened.
    pub(crate) fn open(number: usize) -> Result<Self> {
        let cuda = initialise()?;
        let count = Device::num_devices().context("count the devices")? as usize;
        if number >= count {
            let reason = match count {
                0 => "the driver is loaded but finds no device".to_owned(),
                1 => format!("device {number} was asked for, there is only cuda:0"),
                _ => format!("device {number} was asked for, there are cuda:0 to cuda:{}", count - 1),
            };
            return Err(Error::NoDevice { reason, source: None });
        }
        let info = info(number, cuda)?;
        info.check_architecture()?;
        let device = Device::get_device(number as u32).context("open the device")?;
        let context = Context::new(device).context("create a context")?;
        // `cust` does not say whether the new context became the current one.
        CurrentContext::set_current(&context).context(ENTER)?;
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).context("create a stream")?;
        let modules = ptx::MODULES.iter().map(|_| Loaded::default()).collect();
        let (staging, mapped, areas, lanes) = Default::default();
        Ok(Self { info, modules, staging, mapped, areas, lanes, stream, context })
    }

    pub(crate) fn info(&self) -> &GpuInfo {
        &self.info
    }

    /// Makes the device's context the current one of this thread, as every driver call needs it.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], whatever the status: only a context that is gone can't be made the current one twice.
    fn enter(&self) -> Result<()> {
        debug_assert!(!self.context.get_inner().is_null());
        let enter = || CurrentContext::set_current(&self.context);
        enter().or_else(|_| enter()).map_err(|error| {
            let source = Failure::from(error).describe();
            Error::DeviceLost { action: ENTER.to_owned(), source }
        })
    }

    /// The module with this name, compiled by the driver when it is first asked for.
    fn module(&self, name: &str) -> Result<(&Module, &Cell<u64>)> {
        let index = ptx::MODULES
            .iter()
            .position(|module| module.name == name)
            .unwrap_or_else(|| panic!("the list of entries names the module {name}, which was not built"));
        let place = &self.modules[index];
        if place.module.get().is_none() {
            let module = self.compile(name, ptx::MODULES[index].ptx())?;
            // Single-threaded: `Gpu` is not Sync, so nobody else filled the place meanwhile.
            let _ = place.module.set(module);
        }
        let module = place.module.get().expect("filled above");
        Ok((module, &place.mask_of))
    }

    /// Has the driver compile a module.
    fn compile(&self, name: &str, ptx: String) -> Result<Module> {
        let text = CString::new(ptx).expect("PTX is text");
        Module::from_ptx_cstr(&text, &[]).map_err(|error| {
            let failure = match error {
                // `cust` has no names for most of the reasons to refuse PTX.
                CudaError::UnknownError => driver::refusal(&text).unwrap_or(Failure::from(error)),
                error => Failure::from(error),
            };
            let (device, cuda) = (&self.info.name, self.info.driver());
            failure.into_error(format!("compile the kernels of {name} for {device} (driver for CUDA {cuda})"))
        })
    }

    /// Makes the device's context the current one for a `drop` that frees objects of it, and can't report. A failure
    /// means that the context is gone, and its objects with it.
    fn enter_to_free(&self) {
        let _ = self.enter();
    }

    /// Makes the device's context the current one, and waits until nothing runs on it any more, for a `drop` as above.
    fn settle(&self) {
        self.enter_to_free();
        let lanes = self.lanes.get().map(Lanes::streams);
        for stream in lanes.into_iter().flatten().chain([&self.stream]) {
            // What fails here was reported by the call that caused it, or the device is lost. Either way it is done.
            let _ = driver::finish(stream, "wait for the device");
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // The fields free driver objects, which belong to this context, and page-locked memory.
        self.settle();
    }
}
