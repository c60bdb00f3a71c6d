//! Device memory that is used again. To allocate takes the driver some 100 µs, and to free waits for the whole device.

use std::sync::{Mutex, PoisonError};

use cust::error::CudaError;

use cust::memory::{DevicePointer, cuda_free, cuda_malloc, mem_get_info};

use super::Gpu;
use super::event::Event;
use super::launch::Area;
use super::status::DriverResultExt;
use crate::{Error, Result};

/// A piece of device memory. It goes back to its device's pool by [`Gpu::give_back`]; a dropped one stays allocated.
#[derive(Debug)]
#[must_use]
pub(super) struct Block {
    address: u64,
    bytes: usize,
}

impl Block {
    /// All of it, at least as many bytes as were asked for.
    pub(super) fn area(&self) -> Area {
        Area { address: self.address, bytes: self.bytes }
    }
}

/// A block that waits to be used.
struct Idle {
    block: Block,
    /// Recorded behind the last work that uses it.
    pending: Vec<Event>,
}

/// The blocks of a device that have no owner. Earlier work may still use them until its events complete.
#[derive(Default)]
pub(super) struct Pool(Mutex<Vec<Idle>>);

/// Small blocks have a power of two of bytes, at least this many.
const LEAST: usize = 512;
/// Large blocks have a multiple of this many bytes.
const STEP: usize = 2 << 20;
/// Idle blocks together take at most `1 / MOST_IDLE` of the device's memory.
const MOST_IDLE: usize = 4;

/// The size of the block for so many bytes; None if there is no such number.
fn rounded(bytes: usize) -> Option<usize> {
    if bytes <= STEP / 2 { bytes.max(LEAST).checked_next_power_of_two() } else { bytes.checked_next_multiple_of(STEP) }
}

impl Gpu {
    /// A block of at least `bytes` bytes, and the events that whoever uses it first must wait for.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`] if there is not so much, even when all idle blocks are freed; [`Error::Driver`].
    pub(super) fn block(&self, bytes: usize) -> Result<(Block, Vec<Event>)> {
        self.find_block(bytes, |_| true)
    }

    /// A block of at least `bytes` bytes that nothing uses any more.
    ///
    /// # Errors
    /// As for [`block`](Self::block).
    pub(super) fn ready_block(&self, bytes: usize) -> Result<Block> {
        let _entered = self.enter()?;
        let is_complete = |event: &Event| event.is_complete().is_ok_and(|is_complete| is_complete);
        let is_ready = |idle: &Idle| idle.pending.iter().all(is_complete);
        self.find_block(bytes, is_ready).map(|(block, _complete)| block)
    }

    fn find_block(&self, bytes: usize, is_wanted: impl Fn(&Idle) -> bool) -> Result<(Block, Vec<Event>)> {
        let Some(size) = rounded(bytes) else { return Err(self.out_of_memory(bytes, None)) };
        {
            let mut pool = self.lock_pool();
            // The smallest that is large enough, and not much larger. Of equals the one that was given back last: most
            // often its work is on the same stream.
            let fits = |idle: &Idle| (size..=size + size / 4).contains(&idle.block.bytes) && is_wanted(idle);
            let places = pool.iter().enumerate().rev().filter(|(_, idle)| fits(idle));
            if let Some((place, _)) = places.min_by_key(|(_, idle)| idle.block.bytes) {
                let Idle { block, pending } = pool.remove(place);
                return Ok((block, pending));
            }
        }
        let _entered = self.enter()?;
        // Nothing reads a block before it was written: images by copies and kernels, and what lies between rows is not
        // used.
        Ok((Block { address: self.allocate(size)?, bytes: size }, Vec::new()))
    }

    /// Takes a block that is used no more once `pending` is complete.
    pub(super) fn give_back(&self, block: Block, pending: Vec<Event>) {
        let most = self.info.memory_bytes / MOST_IDLE;
        let mut too_many = Vec::new();
        {
            let mut pool = self.lock_pool();
            pool.push(Idle { block, pending });
            let mut idle: usize = pool.iter().map(|idle| idle.block.bytes).sum();
            while idle > most {
                let oldest = pool.remove(0);
                idle -= oldest.block.bytes;
                too_many.push(oldest);
            }
        }
        // What can't be freed was reported by the call that lost the device.
        let _ = self.free(too_many);
    }

    /// Gives all idle blocks back to the driver, and waits for what still uses them.
    ///
    /// # Errors
    /// [`Error::Driver`], [`Error::DeviceLost`].
    pub(crate) fn free_idle(&self) -> Result<()> {
        let idle = std::mem::take(&mut *self.lock_pool());
        self.free(idle)
    }

    fn free(&self, idle: Vec<Idle>) -> Result<()> {
        if idle.is_empty() {
            return Ok(());
        }
        // Tried even where the context can't be entered: it may be the current one already.
        let (_entered, mut freed) = match self.enter() {
            Ok(entered) => (Some(entered), Ok(())),
            Err(error) => (None, Err(error)),
        };
        for Idle { block, pending } in idle {
            for event in &pending {
                freed = freed.and(event.synchronize().context("wait for device memory"));
            }
            // SAFETY: the address is of `allocate`, the block is nobody's, and what used it is done. A device that was
            // lost has no memory any more.
            freed = freed
                .and(unsafe { cuda_free(DevicePointer::<u8>::from_raw(block.address)) }.context("free device memory"));
        }
        freed
    }

    /// The address of new memory, which is uninitialised. If there is too little, idle blocks are freed before another
    /// attempt. The device's context is the current one.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`], [`Error::Driver`], [`Error::DeviceLost`].
    pub(super) fn allocate(&self, bytes: usize) -> Result<u64> {
        match self.try_allocate(bytes) {
            Err(Error::DeviceMemory { .. }) if !self.lock_pool().is_empty() => {
                self.free_idle()?;
                self.try_allocate(bytes)
            }
            other => other,
        }
    }

    fn try_allocate(&self, bytes: usize) -> Result<u64> {
        // SAFETY: whoever gets the address writes the memory before it is read.
        match unsafe { cuda_malloc::<u8>(bytes) } {
            Ok(address) => Ok(address.as_raw()),
            Err(CudaError::OutOfMemory | CudaError::InvalidMemoryAllocation) => Err(self.out_of_memory(bytes, None)),
            Err(error) => Err(error).context(format!("allocate {bytes} bytes on the device")),
        }
    }

    /// The error for `needed` bytes that the device, or a limit of it, does not have.
    pub(super) fn out_of_memory(&self, needed: usize, limit: Option<usize>) -> Error {
        let known = self.enter().ok().and_then(|_entered| mem_get_info().ok());
        let (free, total) = known.unwrap_or((0, self.info.memory_bytes));
        let free = limit.map_or(free, |limit| limit.min(free));
        Error::DeviceMemory { needed, free, total }
    }

    fn lock_pool(&self) -> std::sync::MutexGuard<'_, Vec<Idle>> {
        self.pool.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up() {
        for (bytes, size) in
            [(0, 512), (1, 512), (513, 1024), (1 << 20, 1 << 20), ((1 << 20) + 1, 2 << 20), (5 << 20, 6 << 20)]
        {
            assert_eq!(rounded(bytes), Some(size), "{bytes}");
        }
        assert_eq!(rounded(usize::MAX), None);
    }
}
