//! Page-locked memory that callers keep their images in: the device reads and writes it by itself, without a copy of
//! the host's.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError, RwLock};

use cust::memory::LockedBuffer;

use super::Gpu;
use super::driver;
use super::staging::HostMemoryKind;
use super::status::{DriverResultExt, PageLockedResultExt};
use crate::Result;

/// Bytes in page-locked memory.
pub(crate) struct LockedBytes {
    gpu: Arc<Gpu>,
    /// None once it is freed.
    memory: Option<LockedBuffer<u8>>,
}

/// Which page-locked memory of callers there is.
#[derive(Default)]
pub(super) struct Areas(RwLock<Vec<LockedArea>>);

/// One piece of it.
struct LockedArea {
    /// Its first byte's address on the host.
    host: usize,
    bytes: usize,
    /// That byte's address on the device.
    device: u64,
}

impl Areas {
    /// The device's address of `bytes`, if all of them lie in one of the areas.
    pub(super) fn address(&self, bytes: *const [u8]) -> Option<u64> {
        let areas = self.0.read().unwrap_or_else(PoisonError::into_inner);
        areas.iter().find_map(|area| {
            let before = bytes.addr().checked_sub(area.host)?;
            let lies_inside = before.checked_add(bytes.len())? <= area.bytes;
            lies_inside.then(|| area.device + before as u64)
        })
    }
}

impl Gpu {
    /// What kind of memory these bytes lie in.
    pub(super) fn kind(&self, bytes: *const [u8]) -> HostMemoryKind {
        match self.areas.address(bytes) {
            Some(_) => HostMemoryKind::PageLocked,
            None => HostMemoryKind::Pageable,
        }
    }

    /// `bytes` zeros, at least one.
    ///
    /// # Errors
    /// [`Error::PageLockedMemory`](crate::Error::PageLockedMemory): the system has less memory to give away, or does
    /// not let this process lock it.
    pub(crate) fn page_locked(self: &Arc<Self>, bytes: usize) -> Result<LockedBytes> {
        let _entered = self.enter()?;
        // SAFETY: set to zero in the next line.
        let mut memory: LockedBuffer<u8> = unsafe { LockedBuffer::uninitialized(bytes) }.page_locked(bytes)?;
        // SAFETY: the memory is as long. (A slice of it must not exist before.)
        unsafe { memory.as_mut_ptr().write_bytes(0, bytes) };
        let device = driver::mapped(&mut memory).context("map page-locked memory")?;
        // Exposed, because the device's accesses come through this address, whoever holds a reference.
        let host = memory.as_mut_ptr().expose_provenance();
        self.areas.0.write().unwrap_or_else(PoisonError::into_inner).push(LockedArea { host, bytes, device });
        Ok(LockedBytes { gpu: Arc::clone(self), memory: Some(memory) })
    }
}

impl Deref for LockedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.memory.as_ref().expect("it is freed last")
    }
}

impl DerefMut for LockedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.memory.as_mut().expect("it is freed last")
    }
}

impl Drop for LockedBytes {
    fn drop(&mut self) {
        let host = self.as_ptr().addr();
        self.gpu.areas.0.write().unwrap_or_else(PoisonError::into_inner).retain(|area| area.host != host);
        // Every scope that lends the memory has waited (`lend`), so that nothing uses it.
        let _entered = self.gpu.enter();
        self.memory = None;
    }
}
