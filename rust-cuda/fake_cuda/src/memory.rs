//! Device memory: host RAM with addresses of its own.

use std::collections::{BTreeMap, TryReserveError};
use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, PoisonError};

use crate::code::Code;
use crate::driver::{CONTEXT, Driver, Failure, Outcome, PLAIN, State, WAITS_OR_FREES, put};
use crate::table::Handle;

/// The address of the first block: beyond the address space of a process on x86-64 or AArch64.
pub(crate) const FIRST_ADDRESS: u64 = 0x00d0_0000_0000_0000;
/// The gap between blocks, so that a small overrun reaches no other block.
const GAP: u64 = 1 << 20;
/// The alignment of blocks.
pub(crate) const ALIGNMENT: u64 = 256;

/// The most bytes that are kept after they were freed.
const MOST_SPARE: usize = 64 << 20;

/// The storage of blocks that were freed, for the next ones. To map pages anew takes longer than many tests run.
static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// An empty vector with room for `bytes` bytes.
fn allocate_or_reuse(bytes: usize) -> Result<Vec<u8>, TryReserveError> {
    let mut storage = {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        let place = spare.iter().position(|storage| (bytes..=2 * bytes).contains(&storage.capacity()));
        place.map(|place| spare.swap_remove(place)).unwrap_or_default()
    };
    storage.clear();
    storage.try_reserve_exact(bytes)?;
    Ok(storage)
}

impl Drop for Block {
    fn drop(&mut self) {
        let storage = std::mem::take(&mut self.bytes);
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.iter().map(Vec::capacity).sum::<usize>() + storage.capacity() <= MOST_SPARE {
            spare.push(storage);
        }
    }
}

/// A block of device memory.
pub(crate) struct Block {
    pub(crate) bytes: Vec<u8>,
    context: Handle,
    /// Whether it belongs to a module and not to the caller.
    of_module: Option<Handle>,
}

/// All blocks by address.
#[derive(Default)]
pub(crate) struct Memory {
    blocks: BTreeMap<u64, Block>,
    /// The bytes of the address space that are used up. No address is used twice.
    given: u64,
}

impl Memory {
    /// The number of bytes in blocks of callers.
    pub(crate) fn used(&self) -> usize {
        self.blocks.values().filter(|block| block.of_module.is_none()).map(|block| block.bytes.len()).sum()
    }

    /// The number of blocks of callers.
    pub(crate) fn live(&self) -> usize {
        self.blocks.values().filter(|block| block.of_module.is_none()).count()
    }

    /// Allocates a block of all ones, which is NaN in `f32`.
    pub(crate) fn allocate(&mut self, bytes: usize, context: Handle, of_module: Option<Handle>) -> Outcome<u64> {
        let mut storage = allocate_or_reuse(bytes).map_err(|_| Code::OUT_OF_MEMORY)?;
        storage.resize(bytes, u8::MAX);
        let address = FIRST_ADDRESS + self.given;
        self.given += (bytes as u64 + GAP).next_multiple_of(ALIGNMENT);
        self.blocks.insert(address, Block { bytes: storage, context, of_module });
        Ok(address)
    }

    /// The block of an address, with its first address.
    pub(crate) fn block(&self, address: u64) -> Option<(u64, &Block)> {
        let (&start, block) = self.blocks.range(..=address).next_back()?;
        (address - start < block.bytes.len() as u64).then_some((start, block))
    }

    /// `bytes` bytes from `address` on, if they lie in one block.
    pub(crate) fn bytes_mut(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        let (&start, block) = self.blocks.range_mut(..=address).next_back()?;
        let from = usize::try_from(address - start).ok()?;
        block.bytes.get_mut(from..from.checked_add(bytes)?)
    }

    /// Frees a caller's block.
    fn free(&mut self, address: u64) -> Outcome {
        match self.blocks.get(&address) {
            Some(block) if block.of_module.is_none() => {
                self.blocks.remove(&address);
                Ok(())
            }
            _ => Err(Failure::misuse(Code::INVALID_VALUE, format!("{address:#x} is no live block of device memory"))),
        }
    }

    /// Frees the blocks of a module.
    pub(crate) fn end_module(&mut self, module: Handle) {
        self.blocks.retain(|_, block| block.of_module != Some(module));
    }

    /// Frees all blocks of a context. Returns the number of blocks that callers have not freed.
    pub(crate) fn end_context(&mut self, context: Handle) -> usize {
        let before = self.live();
        self.blocks.retain(|_, block| block.context != context);
        before - self.live()
    }
}

impl State {
    /// `bytes` bytes from `address` on that the device can access: its own, or page-locked ones of the host.
    pub(crate) fn reachable(&mut self, address: u64, bytes: usize) -> Outcome<*mut u8> {
        if let Some(bytes) = self.memory.bytes_mut(address, bytes) {
            return Ok(bytes.as_mut_ptr());
        }
        let host = usize::try_from(address).ok().filter(|&host| self.page_locked.holds(host, bytes));
        host.map(std::ptr::with_exposed_provenance_mut).ok_or_else(|| {
            let text =
                format!("{bytes} bytes at {address:#x} do not lie in one block of memory that the device reaches");
            Failure::misuse(Code::INVALID_VALUE, text)
        })
    }
}

impl Driver {
    /// Waits for all work before memory is freed, as the real driver does. Counts the free if work used the memory.
    pub(crate) fn wait_before_free(&mut self, uses: impl Fn(&State, &crate::work::Work) -> bool) {
        let state: &State = self;
        let in_use = state.streams.iter().any(|(_, stream)| stream.pending().any(|work| uses(state, work)));
        self.counts.waiting_frees += u64::from(in_use);
        // A failure of the work appears at the next call.
        let _ = self.drain(|_| true);
    }
}

/// The attributes of an address that callers ask for.
const MEMORY_TYPE: c_uint = 2;
const IS_MANAGED: c_uint = 8;
const DEVICE_ORDINAL: c_uint = 9;

driver_functions! {
    /// The kind of memory and the device. All memory is of device 0. An address that is none of the driver's has the
    /// kind 0 and the device -2.
    fn cuPointerGetAttributes(
        count: c_uint,
        attributes: *const c_uint,
        values: *const *mut c_int,
        address: u64,
    ) at PLAIN, |driver| {
        let host = usize::try_from(address).ok().and_then(|host| driver.page_locked.area(host));
        let kind = match (driver.memory.block(address), host) {
            (Some(_), _) => 2,
            (None, Some(_)) => 1,
            (None, None) => 0,
        };
        for index in 0..count as usize {
            // SAFETY: there are `count` attributes and pointers, by the contract of all driver functions.
            let (attribute, value) = unsafe { (attributes.add(index).read(), values.add(index).read()) };
            let found = match attribute {
                MEMORY_TYPE => kind,
                IS_MANAGED => 0,
                DEVICE_ORDINAL => if kind == 0 { -2 } else { 0 },
                _ => return Err(Failure::misuse(Code::NOT_SUPPORTED, format!("attribute {attribute} of an address"))),
            };
            // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
            unsafe { put(value, found) }?;
        }
        Ok(())
    }

    /// The settings limit the memory.
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) at CONTEXT, |driver| {
        driver.refuse_during_capture("cuMemAlloc_v2")?;
        if bytes == 0 {
            return Err(Code::INVALID_VALUE.into());
        }
        let context = driver.current()?;
        if bytes > driver.settings.memory.saturating_sub(driver.memory.used()) {
            return Err(Code::OUT_OF_MEMORY.into());
        }
        let block = driver.memory.allocate(bytes, context, None)?;
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(address, block) }
    }

    /// Waits for work that uses the memory.
    fn cuMemFree_v2(address: u64) at WAITS_OR_FREES, |driver| {
        driver.refuse_during_capture("cuMemFree_v2")?;
        if address == 0 {
            return Ok(());
        }
        let block = driver.memory.block(address).map(|(start, block)| start..start + block.bytes.len() as u64);
        driver.wait_before_free(|_, work| {
            work.device_addresses().into_iter().any(|at| block.as_ref().is_some_and(|block| block.contains(&at)))
        });
        driver.memory.free(address)
    }
}
