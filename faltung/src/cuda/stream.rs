//! Streams that users hold, and what orders the work of several.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cust::stream::Stream;
use cust::sys::CUstream;

use super::event::Event;
use super::launch::Area;
use super::pool::Block;
use super::status::DriverResultExt;
use super::{Gpu, driver};
use crate::Result;

/// A stream of a device, which keeps the device open.
pub(crate) struct OwnStream {
    pub(super) gpu: Arc<Gpu>,
    stream: ManuallyDrop<Stream>,
    /// Whether somebody else made the stream, who destroys it, too.
    is_foreign: bool,
}

impl std::fmt::Debug for OwnStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnStream").field("gpu", &self.gpu).finish_non_exhaustive()
    }
}

impl OwnStream {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Arc<Self>> {
        let _entered = gpu.enter()?;
        let stream = driver::stream().context("create a stream")?;
        Ok(Arc::new(Self { gpu: Arc::clone(gpu), stream: ManuallyDrop::new(stream), is_foreign: false }))
    }

    /// A stream that somebody else made. It is never destroyed here.
    ///
    /// # Safety
    /// - `handle` is a stream of the device's primary context, or one of the driver's default streams: 0, 1, 2.
    /// - It stays open until this and all memory that notes it as its user are dropped.
    pub(crate) unsafe fn foreign(gpu: &Arc<Gpu>, handle: CUstream) -> Arc<Self> {
        // SAFETY: the stream stays open, as this function requires. The drop of a foreign stream destroys nothing.
        let stream = unsafe { driver::stream_of(handle) };
        Arc::new(Self { gpu: Arc::clone(gpu), stream, is_foreign: true })
    }

    /// Whether somebody else made the stream.
    pub(super) fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// The stream's device.
    pub(crate) fn device(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// The driver's stream.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The driver's handle.
    pub(crate) fn handle(&self) -> CUstream {
        self.stream.as_inner()
    }

    /// Waits for all work that the stream was given.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let _entered = self.gpu.enter()?;
        driver::finish(self.stream(), "run what the stream was given")
    }

    /// Marks a place in the stream's work.
    pub(crate) fn record(self: &Arc<Self>) -> Result<Mark> {
        let _entered = self.gpu.enter()?;
        let event = Event::with_time().context("create an event")?;
        event.record(self.stream()).context("record an event")?;
        Ok(Mark { gpu: Arc::clone(&self.gpu), event: Some(event) })
    }

    /// Lets all that the stream is given from now on wait for a mark.
    pub(crate) fn wait_for(&self, mark: &Mark) -> Result<()> {
        let _entered = self.gpu.enter()?;
        mark.event().hold(self.stream()).context("let a stream wait for an event")
    }
}

impl Drop for OwnStream {
    fn drop(&mut self) {
        if self.is_foreign {
            return;
        }
        // What the stream was given goes on; the driver frees the stream when it is done. A device that can't be
        // entered is lost, and its streams with it.
        let _entered = self.gpu.enter();
        // SAFETY: nobody uses the field after this.
        unsafe { ManuallyDrop::drop(&mut self.stream) };
    }
}

/// An event that users hold.
pub(crate) struct Mark {
    gpu: Arc<Gpu>,
    /// None once it is dropped.
    event: Option<Event>,
}

impl std::fmt::Debug for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mark").field("gpu", &self.gpu).finish_non_exhaustive()
    }
}

impl Mark {
    fn event(&self) -> &Event {
        self.event.as_ref().expect("it is dropped last")
    }

    /// Waits until the work before it is done.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let _entered = self.gpu.enter()?;
        self.event().synchronize().context("run what the stream was given")
    }

    /// Whether the work before it is done.
    pub(crate) fn is_complete(&self) -> Result<bool> {
        let _entered = self.gpu.enter()?;
        self.event().is_complete().context("ask for an event")
    }

    /// The device's time between two.
    pub(crate) fn since(&self, start: &Self) -> Result<Duration> {
        let _entered = self.gpu.enter()?;
        self.event().since(start.event()).context("read the timing events")
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let _entered = self.gpu.enter();
        self.event = None;
    }
}

/// How a stream uses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// The streams that use some memory, so that none reads what another one still writes.
///
/// Work in one stream runs in order, so memory that one stream alone uses needs no events. Otherwise a stream waits for
/// earlier conflicting accesses of the others. Two accesses conflict if one of them writes.
#[derive(Debug)]
pub(super) struct Uses {
    /// The stream that wrote the memory first; none for memory of somebody else.
    home: Option<Arc<OwnStream>>,
    others: Mutex<Vec<(Arc<OwnStream>, Access)>>,
}

impl Uses {
    pub(super) fn new(home: Option<Arc<OwnStream>>) -> Self {
        Self { home, others: Mutex::default() }
    }

    /// Lets `stream` wait until it may use the memory, and notes that it does.
    pub(super) fn order(&self, stream: &Arc<OwnStream>, access: Access) -> Result<()> {
        let is_home = self.home.as_ref().is_some_and(|home| Arc::ptr_eq(home, stream));
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if is_home && others.is_empty() {
            return Ok(());
        }
        let conflicts = |other: &&(Arc<OwnStream>, Access)| {
            !Arc::ptr_eq(&other.0, stream) && (access == Access::Write || other.1 == Access::Write)
        };
        let home = self.home.iter().filter(|_| !is_home);
        for other in others.iter().filter(conflicts).map(|other| &other.0).chain(home) {
            let event = Event::behind(other.stream()).context("record an event")?;
            event.hold(stream.stream()).context("let a stream wait for another")?;
        }
        if is_home {
            // Its work is behind that of all others now.
            if access == Access::Write {
                others.clear();
            }
            return Ok(());
        }
        match others.iter_mut().find(|other| Arc::ptr_eq(&other.0, stream)) {
            Some(other) if access == Access::Write => other.1 = access,
            Some(_) => {}
            None => others.push((Arc::clone(stream), access)),
        }
        Ok(())
    }

    /// Events behind all work that uses the memory.
    pub(super) fn pending(&self) -> Vec<Event> {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        events_behind(others.iter().map(|other| &other.0).chain(&self.home))
    }

    /// Waits for all work that uses the memory.
    pub(super) fn wait(&self) {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in others.iter().map(|other| &other.0).chain(&self.home) {
            // What fails was reported by the call that caused it, or the device is lost. Either way the work is done.
            let _ = stream.synchronize();
        }
    }

    /// Lets a stream of the device's own wait for all work that uses the memory.
    pub(super) fn hold(&self, stream: &Stream) -> Result<()> {
        self.pending().iter().try_for_each(|event| event.hold(stream)).context("let a stream wait for another")
    }
}

/// Events behind all work that the streams have been given. A stream that can't record one is waited for.
pub(super) fn events_behind<'a>(streams: impl Iterator<Item = &'a Arc<OwnStream>>) -> Vec<Event> {
    let behind = |stream: &Arc<OwnStream>| {
        let event = Event::behind(stream.stream()).ok();
        if event.is_none() {
            // What fails here, too, is a lost device, which uses no memory any more.
            let _ = driver::finish(stream.stream(), "run what the stream was given");
        }
        event
    };
    streams.filter_map(behind).collect()
}

/// Device memory of an image that users hold.
#[derive(Debug)]
pub(crate) struct ImageMemory {
    gpu: Arc<Gpu>,
    /// None once it is given back.
    block: Option<Block>,
    pub(super) uses: Uses,
}

impl ImageMemory {
    /// `bytes` bytes, used first by `stream`.
    pub(super) fn new(stream: &Arc<OwnStream>, bytes: usize) -> Result<Self> {
        let gpu = Arc::clone(&stream.gpu);
        // Until the events below are dropped.
        let _entered = stream.gpu.enter()?;
        let (block, pending) = gpu.block(bytes)?;
        let memory = Self { gpu, block: Some(block), uses: Uses::new(Some(Arc::clone(stream))) };
        let held = pending.iter().try_for_each(|event| event.hold(stream.stream()));
        if held.is_err() {
            // The memory goes back to the pool behind this stream alone. What fails here, too, is a lost device.
            for event in &pending {
                let _ = event.synchronize();
            }
        }
        held.context("let a stream wait for another")?;
        Ok(memory)
    }

    /// As [`new`](Self::new), of memory that nothing uses any more: other streams may use it, too.
    pub(super) fn ready(stream: &Arc<OwnStream>, bytes: usize) -> Result<Self> {
        let gpu = Arc::clone(&stream.gpu);
        let block = Some(gpu.ready_block(bytes)?);
        Ok(Self { gpu, block, uses: Uses::new(Some(Arc::clone(stream))) })
    }

    pub(super) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// All of it, at least as many bytes as were asked for.
    pub(super) fn area(&self) -> Area {
        self.block.as_ref().expect("it is given back last").area()
    }
}

impl Drop for ImageMemory {
    fn drop(&mut self) {
        let _entered = self.gpu.enter();
        if let Some(block) = self.block.take() {
            self.gpu.give_back(block, self.uses.pending());
        }
    }
}
