//! CUDA devices, through the driver alone: no CUDA installation, and no driver needed to start.
//!
//! # The legacy default stream
//! All streams of the library have the flag `CU_STREAM_NON_BLOCKING`. So no work of the program in the legacy default
//! stream waits for the library's work, and none of the library's work waits for it. In return the library gives no
//! work to the legacy default stream unless a caller names it:
//! - A copy or a memset is asynchronous, in the stream that uses the memory next. Or the library waits for its stream
//!   before another one uses the memory. A synchronous memset is not done when it returns, nor is a synchronous copy
//!   from pageable memory.
//! - The library captures no stream. During a capture the driver fails `cuCtxSynchronize` of any thread. It also fails
//!   work in the legacy default stream if the captured stream is a blocking one. [`graph`] adds the nodes itself.

mod address;
mod context;
mod convolution;
mod driver;
mod event;
mod graph;
mod image;
mod kept;
mod kernel;
mod lane;
mod launch;
mod lend;
mod mapped;
mod modules;
mod ndimage;
mod overlap;
mod page_locked;
mod pool;
mod rates;
mod staging;
mod status;
mod stream;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use cust::context::Context;
use cust::device::{Device, DeviceAttribute};
use cust::error::CudaError;
use cust::sys::CUdevice_attribute;
use cust::{CudaApiVersion, CudaFlags};
use kernels_gpu::ptx;

use self::context::Entered;
use self::kept::Kept;
use self::lane::Lane;
use self::launch::Area;
use self::modules::Instances;
use self::ndimage::LockedFilters;
use self::page_locked::Areas;
use self::pool::Pool;
use self::status::{DriverResultExt, Failure};
use crate::calibration;
use crate::gpu_info::GpuInfo;
use crate::spares::Spares;
use crate::{Error, Result};

pub(crate) use self::address::{Allocation, describe as describe_address};
pub(crate) use self::convolution::GpuConvolution;
pub(crate) use self::image::{ForeignMemory, ImageStorage, StoredImage};
pub(crate) use self::page_locked::LockedBytes;
pub(crate) use self::stream::{Mark, OwnStream};

impl GpuInfo {
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

/// The oldest CUDA version of a driver that has all functions that are called here, and compiles the kernels' PTX.
const OLDEST_CUDA: (u32, u32) = (11, 4);

/// Initialises the driver, once per process, and says which CUDA version it supports.
///
/// # Errors
/// [`Error::NoDevice`] with the loader's or the driver's own words; [`Error::DriverTooOld`].
fn initialise() -> Result<(u32, u32)> {
    // The loader's words are all that it has to say.
    cuda_driver::load().map_err(|error| Error::NoDevice { reason: error.to_string(), source: None })?;
    let no_device = |error: CudaError| {
        let source = Failure::from(error).describe();
        Error::NoDevice { reason: source.text().to_owned(), source: Some(source) }
    };
    cust::init(CudaFlags::empty()).map_err(no_device)?;
    let version = CudaApiVersion::get().map_err(no_device)?;
    let version = (version.major() as u32, version.minor() as u32);
    if version < OLDEST_CUDA {
        let text = |(major, minor): (u32, u32)| format!("CUDA {major}.{minor}");
        return Err(Error::DriverTooOld { required: text(OLDEST_CUDA), found: text(version), source: None });
    }
    Ok(version)
}

/// The CUDA devices of this machine.
///
/// # Errors
/// [`Error::NoDevice`] if there is no driver or it doesn't start; the reason is in its own words.
/// [`Error::DriverTooOld`], [`Error::Driver`].
pub(crate) fn devices() -> Result<Vec<GpuInfo>> {
    let cuda = initialise()?;
    let count = Device::num_devices().context("count the devices")?;
    (0..count as usize).map(|number| info(number, cuda)).collect()
}

/// Reads what a device is.
fn info(number: usize, cuda: (u32, u32)) -> Result<GpuInfo> {
    let action = || format!("describe device {number}");
    let device = Device::get_device(number as u32).context(action())?;
    let number_of = |attribute| device.get_attribute(attribute).map(|value| value.max(0) as u32).context(action());
    // Predictions do without these figures, so none is an error.
    let figure = |attribute| number_of(attribute).unwrap_or(0);
    // Two transfers a clock.
    let memory_kb_s = u64::from(figure(DeviceAttribute::MemoryClockRate))
        * u64::from(figure(DeviceAttribute::GlobalMemoryBusWidth) / 8)
        * 2;
    let opt_in = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
    let name = device.name().context(action())?;
    let pci = |attribute| device.get_attribute(attribute).ok();
    let pci = (pci(DeviceAttribute::PciDomainId), pci(DeviceAttribute::PciBusId), pci(DeviceAttribute::PciDeviceId));
    Ok(GpuInfo {
        number,
        compute_capability: (
            number_of(DeviceAttribute::ComputeCapabilityMajor)?,
            number_of(DeviceAttribute::ComputeCapabilityMinor)?,
        ),
        sm_count: number_of(DeviceAttribute::MultiprocessorCount)?,
        memory_bytes: device.total_memory().context(action())?,
        shared_bytes_per_block: driver::attribute(device, opt_in).context(action())?.max(0) as u64,
        clock_mhz: figure(DeviceAttribute::ClockRate) / 1000,
        memory_gb_s: (memory_kb_s / 1_000_000) as u32,
        l2_bytes: figure(DeviceAttribute::L2CacheSize).into(),
        pci_address: match pci {
            (Some(domain), Some(bus), Some(device)) => Some(format!("{domain:08x}:{bus:02x}:{device:02x}.0")),
            _ => None,
        },
        cuda,
        costs: calibration::of_device(&name),
        name,
    })
}

/// An open CUDA device: its context, the modules that have been used, and what runs take turns with.
///
/// All of its methods may be called from several threads at once.
pub(crate) struct Gpu {
    info: GpuInfo,
    modules: Box<[Instances]>,
    lanes: Spares<Lane>,
    pool: Pool,
    areas: Areas,
    array_filters: LockedFilters,
    kept: Kept,
    context: Context,
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Gpu {
    /// Device `number`, which all who have it open share.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is no driver or no such device, [`Error::DriverTooOld`], [`Error::Driver`] if it
    /// can't be opened.
    pub(crate) fn open(number: usize) -> Result<Arc<Self>> {
        static OPEN: Mutex<Vec<(usize, Weak<Gpu>)>> = Mutex::new(Vec::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, gpu)| gpu.strong_count() > 0);
        if let Some(gpu) = open.iter().find_map(|(of, gpu)| (*of == number).then(|| gpu.upgrade()).flatten()) {
            return Ok(gpu);
        }
        let gpu = Arc::new(Self::open_anew(number)?);
        open.push((number, Arc::downgrade(&gpu)));
        Ok(gpu)
    }

    fn open_anew(number: usize) -> Result<Self> {
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
        // To retain a context makes it the current one.
        let _before = Entered::keep().context("ask for the current context")?;
        let context = Context::new(device).context("create a context")?;
        let modules = ptx::MODULES.iter().map(|_| Instances::default()).collect();
        let (lanes, pool, areas, array_filters, kept) = Default::default();
        let gpu = Self { info, modules, lanes, pool, areas, array_filters, kept, context };
        // `cust` does not say whether the new context became the current one.
        drop(gpu.enter()?);
        Ok(gpu)
    }

    pub(crate) fn info(&self) -> &GpuInfo {
        &self.info
    }

    /// The device in one line for people, such as "NVIDIA H100 80GB HBM3 (cuda:0)".
    pub(crate) fn describe(&self) -> String {
        format!("{} (cuda:{})", self.info.name, self.info.number)
    }

    /// Sets all bytes of an area to 0, and waits.
    fn clear(&self, area: Area) -> Result<()> {
        let lane = self.lane()?;
        self.lend(|lent| {
            lent.uses(&lane.main);
            // SAFETY: the caller has the area for itself, and the scope waits.
            unsafe { driver::fill(area, 0, &lane.main) }.context("clear memory on the device")
        })
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // Modules, streams and memory belong to the context, which must be the current one when they go. Whoever used
        // them had the device open, so nothing runs any more. A context that can't be entered is gone, and they with
        // it.
        let _entered = self.enter();
        self.drop_array_filters();
        self.drop_kept();
        drop(self.lanes.drain());
        let _ = self.free_idle();
        self.modules = Box::default();
    }
}
