//! CUDA devices, through the driver alone: no CUDA installation, and no driver needed to start.

mod convolution;
mod driver;
mod lab;
mod launch;
mod mapped;
mod overlap;
mod page_locked;
mod rates;
mod staging;

use std::cell::{Cell, OnceCell, RefCell};

use cust::context::{Context, ContextHandle, CurrentContext};
use cust::device::{Device, DeviceAttribute};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use cust::sys::CUdevice_attribute;
use cust::{CudaApiVersion, CudaFlags};
use kernels_gpu::ptx;

use self::driver::DuringAction;
use self::mapped::Mapped;
use self::overlap::Lanes;
use self::page_locked::Areas;
use self::staging::Staging;
use crate::plan::Limits;
use crate::{Error, Result};

pub(crate) use self::convolution::GpuConvolution;
pub(crate) use self::lab::LaunchOnDevice;
pub(super) use self::lab::{Bench, DeviceArray};
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
    let no_device = |reason: String| Error::NoDevice { reason };
    cuda_driver::load().map_err(|error| no_device(error.to_string()))?;
    cust::init(CudaFlags::empty()).map_err(|error| no_device(driver::words(error)))?;
    let version = CudaApiVersion::get().map_err(|error| no_device(driver::words(error)))?;
    Ok((version.major() as u32, version.minor() as u32))
}

/// The CUDA devices of this machine.
///
/// # Errors
/// [`Error::NoDevice`] if there is no driver or it doesn't start; the reason is in its own words.
pub fn devices() -> Result<Vec<GpuInfo>> {
    let cuda = initialise()?;
    let count = Device::num_devices().to("count the devices")?;
    (0..count as usize).map(|number| info(number, cuda)).collect()
}

/// Reads what a device is.
fn info(number: usize, cuda: (u32, u32)) -> Result<GpuInfo> {
    let action = || format!("describe device {number}");
    let device = Device::get_device(number as u32).to(action())?;
    let number_of = |attribute| device.get_attribute(attribute).map(|value| value.max(0) as u32).to(action());
    let opt_in = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
    Ok(GpuInfo {
        number,
        name: device.name().to(action())?,
        compute_capability: (
            number_of(DeviceAttribute::ComputeCapabilityMajor)?,
            number_of(DeviceAttribute::ComputeCapabilityMinor)?,
        ),
        sm_count: number_of(DeviceAttribute::MultiprocessorCount)?,
        memory_bytes: device.total_memory().to(action())?,
        shared_bytes_per_block: driver::attribute(device, opt_in).to(action())?.max(0) as u64,
        cuda,
    })
}

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
        let count = Device::num_devices().to("count the devices")? as usize;
        if number >= count {
            let reason = match count {
                0 => "the driver is loaded but finds no device".to_owned(),
                1 => format!("device {number} was asked for, there is only cuda:0"),
                _ => format!("device {number} was asked for, there are cuda:0 to cuda:{}", count - 1),
            };
            return Err(Error::NoDevice { reason });
        }
        let info = info(number, cuda)?;
        info.check_architecture()?;
        let device = Device::get_device(number as u32).to("open the device")?;
        let context = Context::new(device).to("create a context")?;
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).to("create a stream")?;
        let modules = ptx::MODULES.iter().map(|_| Loaded::default()).collect();
        let (staging, mapped, areas, lanes) = Default::default();
        Ok(Self { info, modules, staging, mapped, areas, lanes, stream, context })
    }

    pub(crate) fn info(&self) -> &GpuInfo {
        &self.info
    }

    /// Makes the device's context the current one of this thread, as every driver call needs it.
    fn enter(&self) -> Result<()> {
        debug_assert!(!self.context.get_inner().is_null());
        CurrentContext::set_current(&self.context).to("switch to the device's context")
    }

    /// The module with this name, compiled by the driver when it is first asked for.
    fn module(&self, name: &str) -> Result<(&Module, &Cell<u64>)> {
        let index = ptx::MODULES
            .iter()
            .position(|module| module.name == name)
            .unwrap_or_else(|| panic!("the list of entries names the module {name}, which was not built"));
        let place = &self.modules[index];
        if place.module.get().is_none() {
            let module = Module::from_ptx(ptx::MODULES[index].ptx(), &[]).map_err(|error| Error::Driver {
                action: format!(
                    "compile the kernels of {name} for {} (driver for CUDA {})",
                    self.info.name,
                    self.info.driver()
                ),
                reason: driver::words(error),
            })?;
            // Single-threaded: `Gpu` is not Sync, so nobody else filled the place meanwhile.
            let _ = place.module.set(module);
        }
        let module = place.module.get().expect("filled above");
        Ok((module, &place.mask_of))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // The fields that follow free driver objects, which belong to this context. A failure here means that the context is
        // already lost, and its objects with it.
        let _ = self.enter();
        // Nothing may be on its way when the page-locked memory goes.
        let _ = self.stream.synchronize();
    }
}
