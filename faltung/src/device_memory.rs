//! Memory of CUDA devices by its address, for arrays that libraries exchange.

use std::ffi::c_void;

use crate::cuda::{Allocation, describe_address};
use crate::device::Kind;
use crate::stream::HOST;
use crate::{Device, Error, Result, Stream};

/// What kind of memory lies at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryKind {
    /// Memory of a device.
    Device,
    /// Page-locked memory of the host.
    Host,
    /// Managed memory, which moves between host and devices.
    Managed,
}

/// What the driver knows of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddressInfo {
    /// The kind of its memory.
    pub kind: MemoryKind,
    /// The number of the CUDA device on which it was allocated, as in `cuda:0`.
    pub device: usize,
}

impl AddressInfo {
    /// What the driver knows of an address; None if it knows of no memory there.
    ///
    /// ```no_run
    /// assert_eq!(faltung::AddressInfo::of(0x1000)?, None);
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoDevice`], [`Error::DriverTooOld`], [`Error::Driver`], [`Error::DeviceLost`].
    pub fn of(address: usize) -> Result<Option<Self>> {
        describe_address(address as u64)
    }
}

/// Memory of a CUDA device, allocated for somebody who uses it by its address. Made by [`Device::allocate`].
///
/// Its drop waits for all work of the device, so that work of any library on any stream may use it until then.
#[derive(Debug)]
pub struct DeviceMemory {
    memory: Allocation,
    bytes: usize,
}

impl DeviceMemory {
    /// The address of the first byte, a multiple of 256.
    #[must_use]
    pub fn as_ptr(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.memory.address() as usize)
    }

    /// Bytes that were asked for.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Fills the memory with one byte, in the order of the stream. It does not wait. Other work on the memory is
    /// ordered by whoever uses its address.
    ///
    /// # Errors
    /// [`Error::Driver`], [`Error::DeviceLost`]; [`Error::OtherDevice`] if this is not a stream of the memory's device.
    pub fn fill(&mut self, byte: u8, stream: &Stream) -> Result<()> {
        self.memory.fill(byte, stream)
    }
}

impl Device {
    /// Uninitialised memory of a CUDA device.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`], [`Error::Driver`], [`Error::DeviceLost`]; [`Error::OtherDevice`] if this is not a CUDA
    /// device.
    pub fn allocate(&self, bytes: usize) -> Result<DeviceMemory> {
        match &self.kind {
            Kind::Cuda(gpu) => Ok(DeviceMemory { memory: Allocation::new(gpu, bytes)?, bytes }),
            _ => {
                let (what, required) = ("memory by its address", "a CUDA device".into());
                Err(Error::OtherDevice { what, required, found: self.describe() })
            }
        }
    }
}

impl Stream {
    /// Copies `bytes` bytes from one address of the stream's CUDA device to another, in the order of the stream.
    ///
    /// # Errors
    /// [`Error::Driver`], [`Error::DeviceLost`]; [`Error::OtherDevice`] if this is not a stream of a CUDA device.
    ///
    /// # Safety
    /// - Both addresses have the bytes in memory of the stream's device, which lives until the copy is done.
    /// - They do not overlap.
    /// - What else uses them is ordered before or after the stream's work.
    pub unsafe fn copy(&self, to: *mut c_void, from: *const c_void, bytes: usize) -> Result<()> {
        let Some(own) = self.on_cuda() else {
            return Err(Error::OtherDevice {
                what: "the stream",
                required: "a CUDA device".into(),
                found: HOST.into(),
            });
        };
        // SAFETY: this function requires that both addresses have the bytes in memory of the device until the copy is
        // done, that they do not overlap, and that other uses of them are ordered.
        unsafe { own.copy(to.expose_provenance() as u64, from.expose_provenance() as u64, bytes) }
    }
}
