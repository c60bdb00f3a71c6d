//! Device memory by its address: what the driver knows of an address, memory that users allocate, and copies.

use std::ffi::c_void;
use std::sync::Arc;

use cust::memory::{DevicePointer, cuda_free};

use super::launch::Area;
use super::lend::{DeviceRows, copy_rows_on_device};
use super::status::{DriverResultExt, Failure, checked};
use super::stream::OwnStream;
use super::{Gpu, driver, initialise};
use crate::device_memory::{AddressInfo, MemoryKind};
use crate::{Result, Stream};

unsafe extern "C" {
    fn cuPointerGetAttributes(count: u32, attributes: *const u32, values: *mut *mut c_void, address: u64) -> u32;
}

/// What the driver knows of an address; None if it knows of no memory there.
pub(crate) fn describe(address: u64) -> Result<Option<AddressInfo>> {
    /// The status where no context is current and the driver wants one.
    const INVALID_CONTEXT: u32 = 201;
    initialise()?;
    let known = match read(address) {
        Err(Failure(INVALID_CONTEXT)) => {
            let gpu = Gpu::open(0)?;
            let _entered = gpu.enter()?;
            read(address)
        }
        known => known,
    };
    known.context(format!("find the memory at {address:#x}"))
}

fn read(address: u64) -> Result<Option<AddressInfo>, Failure> {
    /// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`, `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`, `CU_POINTER_ATTRIBUTE_IS_MANAGED`.
    const ATTRIBUTES: [u32; 3] = [2, 9, 8];
    /// `CU_MEMORYTYPE_HOST` and `CU_MEMORYTYPE_DEVICE`.
    const HOST: u32 = 1;
    const DEVICE: u32 = 2;
    let (mut kind, mut device, mut is_managed) = (0_u32, -1_i32, 0_u32);
    let mut values: [*mut c_void; 3] = [(&raw mut kind).cast(), (&raw mut device).cast(), (&raw mut is_managed).cast()];
    // SAFETY: the driver reads three attributes, and writes three numbers of up to 4 bytes. Older drivers write an
    // `unsigned int` for the last one, newer ones a C `bool`.
    checked(unsafe { cuPointerGetAttributes(3, ATTRIBUTES.as_ptr(), values.as_mut_ptr(), address) })?;
    let kind = match kind {
        _ if is_managed != 0 => MemoryKind::Managed,
        HOST => MemoryKind::Host,
        DEVICE => MemoryKind::Device,
        _ => return Ok(None),
    };
    Ok(usize::try_from(device).ok().map(|device| AddressInfo { kind, device }))
}

/// Memory that a user of the library allocated. The driver frees it, and waits for what uses it.
#[derive(Debug)]
pub(crate) struct Allocation {
    gpu: Arc<Gpu>,
    area: Area,
}

impl Allocation {
    /// At least one byte, so that there is an address.
    pub(crate) fn new(gpu: &Arc<Gpu>, bytes: usize) -> Result<Self> {
        let _entered = gpu.enter()?;
        let bytes = bytes.max(1);
        // The memory is used by its address alone. Its users know that it is uninitialised.
        let address = gpu.allocate(bytes)?;
        Ok(Self { gpu: Arc::clone(gpu), area: Area { address, bytes } })
    }

    pub(crate) fn address(&self) -> u64 {
        self.area.address
    }

    /// Fills the memory with one byte, in the order of the stream.
    pub(crate) fn fill(&mut self, byte: u8, stream: &Stream) -> Result<()> {
        let stream = stream.own(&self.gpu)?;
        let _entered = self.gpu.enter()?;
        // SAFETY: the area is memory of the stream's device, as `own` checks, and its drop waits for all work. Who uses
        // it by its address orders that with this.
        unsafe { driver::fill(self.area, byte, stream.stream()) }.context("fill memory on the device")
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let _entered = self.gpu.enter();
        // SAFETY: the address is of `new`, and the driver waits for all work before it frees. A failure means that the
        // device is lost, and its memory with it.
        let _ = unsafe { cuda_free(DevicePointer::<u8>::from_raw(self.area.address)) };
    }
}

impl OwnStream {
    /// Copies bytes on the device, in the order of the stream.
    ///
    /// # Safety
    /// - Both addresses have the bytes in memory of the device, which lives until the copy is done.
    /// - They do not overlap, and nobody else writes them until then.
    pub(crate) unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
        let _entered = self.device().enter()?;
        // SAFETY: this function requires that both addresses have the bytes in memory of the device until the copy is
        // done, and that they do not overlap.
        unsafe { copy_rows_on_device(DeviceRows::one(to, bytes), DeviceRows::one(from, bytes), self.stream()) }
            .context("copy memory on the device")
    }
}
