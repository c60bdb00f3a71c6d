//! Page-locked memory that callers keep their images in: the device reads and writes it by itself, without a copy of
//! the host's.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use cust::memory::{DevicePointer, LockedBuffer};

use super::Gpu;
use super::driver;
use super::staging::Home;
use super::status::DriverResultExt;
use crate::Result;

/// Bytes in page-locked memory.
pub(crate) struct LockedBytes<'gpu> {
    gpu: &'gpu Gpu,
    memory: LockedBuffer<u8>,
}

/// Which page-locked memory of callers there is.
#[derive(Default)]
pub(super) struct Areas(RefCell<Vec<Area>>);

/// One piece of it.
struct Area {
    /// Its first byte's address on the host.
    host: usize,
    bytes: usize,
    /// That byte's address on the device.
    device: DevicePointer<u8>,
}

impl Areas {
    /// The device's address of `bytes`, if all of them lie in one of the areas.
    pub(super) fn address(&self, bytes: &[u8]) -> Option<DevicePointer<u8>> {
        let areas = self.0.borrow();
        areas.iter().find_map(|area| {
            let before = bytes.as_ptr().addr().checked_sub(area.host)?;
            let lies_inside = before.checked_add(bytes.len())? <= area.bytes;
            // SAFETY: the byte lies in the area, which is mapped as a whole.
            lies_inside.then(|| unsafe { area.device.add(before) })
        })
    }
}

impl Gpu {
    /// Where these bytes lie.
    pub(super) fn home(&self, bytes: &[u8]) -> Home {
        if self.areas.address(bytes).is_some() { Home::PageLocked } else { Home::Ordinary }
    }

    /// `bytes` zeros, at least one.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver): the system has less memory to give away, or does not let this process
    /// lock it.
    pub(crate) fn page_locked(&self, bytes: usize) -> Result<LockedBytes<'_>> {
        self.enter()?;
        let action = || format!("allocate {bytes} bytes of page-locked memory");
        // SAFETY: set to zero in the next line.
        let mut memory: LockedBuffer<u8> = unsafe { LockedBuffer::uninitialized(bytes) }.context(action())?;
        // SAFETY: the memory is as long. (A slice of it must not exist before.)
        unsafe { memory.as_mut_ptr().write_bytes(0, bytes) };
        let device = driver::mapped(&mut memory).context(action())?;
        // Exposed, because the device's accesses come through this address, whoever holds a reference.
        let host = memory.as_mut_ptr().expose_provenance();
        self.areas.0.borrow_mut().push(Area { host, bytes, device });
        Ok(LockedBytes { gpu: self, memory })
    }
}

impl Deref for LockedBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory
    }
}

impl DerefMut for LockedBytes<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }
}

impl Drop for LockedBytes<'_> {
    fn drop(&mut self) {
        let host = self.memory.as_ptr().addr();
        self.gpu.areas.0.borrow_mut().retain(|area| area.host != host);
        // Every scope that lends the memory has waited (`lend`), so that nothing uses it.
        self.gpu.enter_to_free();
    }
}
