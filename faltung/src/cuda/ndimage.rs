//! Filters on arrays that the library does not own, on streams of the caller.
//!
//! # The weights
//! A kernel reads its weights from device memory. They are copied there when a filter is first used, and that copy is
//! waited for, so every stream may read them. The last filters are kept. A filter is removed only when all work of the
//! context is done, because the library does not know the callers' streams.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use cust::context::CurrentContext;
use cust::function::Function;
use cust::sys::CUstream;

use super::Gpu;
use super::kernel::function;
use super::launch::{self, Area};
use super::lend::DeviceRows;
use super::pool::Block;
use super::status::DriverResultExt;
use crate::nd::ArrayLaunch;
use crate::rows::HostRows;
use crate::{Result, View};

/// Filters that are kept.
const MOST_FILTERS: usize = 64;
/// Bytes of the filters that are kept, unless there is only one.
const MOST_BYTES: usize = 32 << 20;

/// The kernels that were used, and the weights of the last filters.
#[derive(Default)]
pub(super) struct ArrayFilters {
    /// By symbol. Their modules stay loaded as long as the device is open.
    functions: HashMap<&'static str, Function<'static>>,
    /// The last one used is at the end.
    weights: Vec<Weights>,
}

/// A list of weights on the device.
struct Weights {
    list: Vec<u64>,
    block: Block,
}

impl Gpu {
    /// Enqueues a launch on a stream of the caller.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`](crate::Error::DeviceMemory), [`Error::KernelRefused`](crate::Error::KernelRefused),
    /// [`Error::DriverTooOld`](crate::Error::DriverTooOld), [`Error::Driver`](crate::Error::Driver),
    /// [`Error::DeviceLost`](crate::Error::DeviceLost).
    ///
    /// # Safety
    /// - `input` and `output` are the addresses of arrays of this device for which the launch was planned. They live
    ///   until it is done.
    /// - Until then nothing else writes the input, or uses the output.
    /// - `stream` is a `CUstream` of the device's primary context, or that of a default stream.
    pub(crate) unsafe fn run_array(&self, launch: &ArrayLaunch, input: u64, output: u64, stream: u64) -> Result<()> {
        let _entered = self.enter()?;
        // Locked until the launch is enqueued: the weights must not be removed before.
        let mut filters = self.array_filters.lock().unwrap_or_else(PoisonError::into_inner);
        let symbol = launch.kernel.symbol;
        if !filters.functions.contains_key(symbol) {
            let module = self.module(launch.kernel.module())?;
            filters.functions.insert(symbol, function(&module, symbol)?);
        }
        let weights = match launch.list[..] {
            [] => Area { address: 0, bytes: 0 },
            ref list => self.weights(&mut filters.weights, list)?,
        };
        let stream = std::ptr::with_exposed_provenance_mut::<std::ffi::c_void>(stream as usize) as CUstream;
        // SAFETY: the function is the launch's kernel, and the weights stay, as this module says. The arrays and the
        // stream are as this function requires.
        unsafe { launch::array(&filters.functions[symbol], launch, (input, output), weights, stream) }
    }

    /// The list on the device.
    fn weights(&self, kept: &mut Vec<Weights>, list: &[u64]) -> Result<Area> {
        if let Some(place) = kept.iter().rposition(|weights| weights.list == list) {
            kept[place..].rotate_left(1);
        } else {
            self.make_room(kept, size_of_val(list))?;
            let block = self.ready_block(size_of_val(list))?;
            if let Err(error) = self.upload_list(block.area(), list) {
                self.give_back(block, Vec::new());
                return Err(error);
            }
            kept.push(Weights { list: list.to_vec(), block });
        }
        Ok(kept.last().expect("it was found or added").block.area())
    }

    /// Removes the filters that were not used for longest, if there is no room for another one.
    fn make_room(&self, kept: &mut Vec<Weights>, bytes: usize) -> Result<()> {
        let total: usize = kept.iter().map(|weights| weights.block.area().bytes).sum();
        if kept.len() < MOST_FILTERS && total + bytes <= MOST_BYTES {
            return Ok(());
        }
        // Half of them, so that not every new filter waits for the device.
        CurrentContext::synchronize().context("wait for the filters on the device")?;
        let mut left = total;
        let least = kept.len() / 2;
        let mut removed = 0;
        while removed < kept.len() && (removed < least || left + bytes > MOST_BYTES / 2) {
            left -= kept[removed].block.area().bytes;
            removed += 1;
        }
        for weights in kept.drain(..removed) {
            self.give_back(weights.block, Vec::new());
        }
        Ok(())
    }

    /// Copies a list to the device, and waits.
    fn upload_list(&self, to: Area, list: &[u64]) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(list);
        assert!(bytes.len() <= to.bytes, "the area holds the list");
        let lane = self.lane()?;
        let view = View::new(bytes.len(), 1, 1, bytes.len(), bytes)?;
        self.lend(|lent| {
            // SAFETY: the area holds the list, as was just checked, and its owner keeps it until this has waited.
            unsafe { lent.upload(DeviceRows::one(to.address, bytes.len()), HostRows::of(&view), &lane.main) }
                .context("copy weights to the device")
        })
    }

    /// Gives the weights of all filters back, when nothing uses the device any more.
    pub(super) fn drop_array_filters(&self) {
        let filters = std::mem::take(&mut *self.array_filters.lock().unwrap_or_else(PoisonError::into_inner));
        // Callers' streams may still read the weights. Memory that can't be waited for stays allocated.
        if !filters.weights.is_empty() && CurrentContext::synchronize().is_ok() {
            for weights in filters.weights {
                self.give_back(weights.block, Vec::new());
            }
        }
    }
}

/// The filters of a device behind a lock.
pub(super) type LockedFilters = Mutex<ArrayFilters>;
