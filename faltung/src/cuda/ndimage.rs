//! Filters on arrays that the library does not own, on streams of the caller.
//!
//! # The weights
//! A kernel reads its weights from device memory. They are copied there when a filter is first used, and that copy is
//! waited for, so every stream may read them. The last filters are kept.
//!
//! The memory of a filter that is removed goes to the pool with the [events](ForeignEvents) of its streams. So nothing
//! waits. If the default stream takes no event because another thread captures a graph, the memory is
//! [kept](super::kept).
//!
//! A launch that is captured runs whenever the graph does, and no event tells when. So the weights of such a filter
//! stay as long as the device is open.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use cust::function::Function;
use cust::sys::CUstream;

use super::event::ForeignEvents;
use super::kernel::function;
use super::launch::{self, Area};
use super::lend::DeviceRows;
use super::pool::Block;
use super::status::DriverResultExt;
use super::{Gpu, driver};
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
    /// Behind the launches.
    users: ForeignEvents,
    /// Whether a graph may read them at any time.
    is_captured: bool,
}

impl Weights {
    fn bytes(&self) -> usize {
        self.block.area().bytes
    }
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
    /// - A graph that captures the launch runs only while the device is open.
    pub(crate) unsafe fn run_array(&self, launch: &ArrayLaunch, input: u64, output: u64, stream: u64) -> Result<()> {
        let _entered = self.enter()?;
        // Locked until the launch is enqueued: the weights must not be removed before.
        let mut locked = self.array_filters.lock().unwrap_or_else(PoisonError::into_inner);
        let filters = &mut *locked;
        let symbol = launch.kernel.symbol;
        if !filters.functions.contains_key(symbol) {
            let module = self.module(launch.kernel.module())?;
            filters.functions.insert(symbol, function(&module, symbol)?);
        }
        let handle = std::ptr::with_exposed_provenance_mut::<std::ffi::c_void>(stream as usize) as CUstream;
        // SAFETY: the stream is open, as this function requires. The value is not dropped.
        let stream = unsafe { driver::stream_of(handle) };
        let used = match launch.list[..] {
            [] => None,
            ref list => Some(self.weights(&mut filters.weights, list)?),
        };
        let is_captured = driver::is_captured(&stream);
        let area = used.as_ref().map_or(Area { address: 0, bytes: 0 }, |weights| weights.block.area());
        // SAFETY: the function is the launch's kernel, and the weights stay, as this module says. The arrays and the
        // stream are as this function requires.
        unsafe { launch::array(&filters.functions[symbol], launch, (input, output), area, handle)? };
        let Some(weights) = used else { return Ok(()) };
        if is_captured {
            weights.is_captured = true;
            return Ok(());
        }
        let noted = weights.users.note(&stream);
        if noted.is_err() {
            // What fails here, too, is a lost device, which runs nothing any more.
            let _ = driver::finish(&stream, "run what the stream was given");
        }
        noted.context("record an event")
    }

    /// The list on the device.
    fn weights<'a>(&self, kept: &'a mut Vec<Weights>, list: &[u64]) -> Result<&'a mut Weights> {
        if let Some(place) = kept.iter().rposition(|weights| weights.list == list) {
            kept[place..].rotate_left(1);
        } else {
            self.make_room(kept, size_of_val(list));
            let block = self.ready_block(size_of_val(list))?;
            if let Err(error) = self.upload_list(block.area(), list) {
                self.give_back(block, Vec::new());
                return Err(error);
            }
            let (list, users) = (list.to_vec(), ForeignEvents::default());
            kept.push(Weights { list, block, users, is_captured: false });
        }
        Ok(kept.last_mut().expect("it was found or added"))
    }

    /// Removes the filters that were not used for longest, if there is no room for another one.
    fn make_room(&self, kept: &mut Vec<Weights>, bytes: usize) {
        let removable = |weights: &Weights| !weights.is_captured;
        let mut count = kept.iter().filter(|weights| removable(weights)).count();
        let mut left: usize = kept.iter().filter(|weights| removable(weights)).map(Weights::bytes).sum();
        let mut place = 0;
        while count > 0 && (count >= MOST_FILTERS || left + bytes > MOST_BYTES) {
            if kept[place].is_captured {
                place += 1;
                continue;
            }
            let Weights { block, users, .. } = kept.remove(place);
            left -= block.area().bytes;
            count -= 1;
            self.give_back_or_keep(block, users.into_pending());
        }
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

    /// Gives the weights of all filters back when the device is closed. No graph runs any more that reads them.
    pub(super) fn drop_array_filters(&self) {
        let filters = std::mem::take(&mut *self.array_filters.lock().unwrap_or_else(PoisonError::into_inner));
        for Weights { block, users, .. } in filters.weights {
            self.give_back_or_keep(block, users.into_pending());
        }
    }
}

/// The filters of a device behind a lock.
pub(super) type LockedFilters = Mutex<ArrayFilters>;
