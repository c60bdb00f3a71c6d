//! Events: marks in the work of a stream. As `cust`'s, but a stream can wait for one that is kept.

use std::thread::ThreadId;
use std::time::Duration;

use cust::stream::Stream;
use cust::sys::{CUevent, CUstream};

use super::driver;
use super::status::{Failure, checked};

unsafe extern "C" {
    fn cuEventCreate(event: *mut CUevent, flags: u32) -> u32;
    fn cuEventDestroy_v2(event: CUevent) -> u32;
    fn cuEventRecord(event: CUevent, stream: CUstream) -> u32;
    fn cuEventSynchronize(event: CUevent) -> u32;
    fn cuEventQuery(event: CUevent) -> u32;
    fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) -> u32;
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: u32) -> u32;
}

/// An event in a stream's work. It completes when all work before it is done.
#[derive(Debug)]
pub(super) struct Event(CUevent);

// SAFETY: the driver's functions on events may be called from any thread.
unsafe impl Send for Event {}
// SAFETY: the driver's functions on events may be called from several threads at once.
unsafe impl Sync for Event {}

impl Event {
    /// An event that is not recorded: it is complete.
    pub(super) fn new() -> Result<Self, Failure> {
        /// `CU_EVENT_DISABLE_TIMING`: cheaper to record.
        const DISABLE_TIMING: u32 = 2;
        Self::with_flags(DISABLE_TIMING)
    }

    /// An event that keeps the time of its completion.
    pub(super) fn with_time() -> Result<Self, Failure> {
        Self::with_flags(0)
    }

    fn with_flags(flags: u32) -> Result<Self, Failure> {
        let mut event = std::ptr::null_mut();
        // SAFETY: the driver writes one handle.
        checked(unsafe { cuEventCreate(&raw mut event, flags) })?;
        Ok(Self(event))
    }

    /// An event behind all work that `stream` has been given.
    pub(super) fn behind(stream: &Stream) -> Result<Self, Failure> {
        let event = Self::new()?;
        event.record(stream)?;
        Ok(event)
    }

    /// Puts the event behind all work that `stream` has been given.
    pub(super) fn record(&self, stream: &Stream) -> Result<(), Failure> {
        // SAFETY: both handles are open.
        checked(unsafe { cuEventRecord(self.0, stream.as_inner()) })
    }

    /// Waits until it completes.
    pub(super) fn synchronize(&self) -> Result<(), Failure> {
        // SAFETY: the handle is open.
        checked(unsafe { cuEventSynchronize(self.0) })
    }

    /// Whether it is complete.
    pub(super) fn is_complete(&self) -> Result<bool, Failure> {
        /// `CUDA_ERROR_NOT_READY`.
        const NOT_READY: u32 = 600;
        // SAFETY: the handle is open.
        match checked(unsafe { cuEventQuery(self.0) }) {
            Err(Failure(NOT_READY)) => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Lets all work that `stream` is given from now on wait for this. The event may be dropped before it completes.
    pub(super) fn hold(&self, stream: &Stream) -> Result<(), Failure> {
        // SAFETY: both handles are open.
        checked(unsafe { cuStreamWaitEvent(stream.as_inner(), self.0, 0) })
    }

    /// The time from `start` to this, both made [`with_time`](Self::with_time).
    pub(super) fn since(&self, start: &Self) -> Result<Duration, Failure> {
        let mut milliseconds = 0.0;
        // SAFETY: both handles are open; the driver writes one number.
        checked(unsafe { cuEventElapsedTime(&raw mut milliseconds, start.0, self.0) })?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}

/// Events behind the last work of streams of somebody else, which may destroy a stream at any time.
///
/// The legacy default stream is always open. So its event is recorded once, when the events are needed. It
/// completes later than necessary if the stream was given other work meanwhile.
#[derive(Debug, Default)]
pub(super) struct ForeignEvents {
    events: Vec<(ForeignStream, Event)>,
    /// Whether the legacy default stream was given work.
    uses_default_stream: bool,
}

/// What tells one stream of somebody else from another: the handle, and the thread, which has a default stream of its
/// own. A new stream may have the handle of one that was destroyed. Its event then completes later than both.
type ForeignStream = (usize, ThreadId);

/// So many events of foreign streams are kept before the complete ones are dropped.
const MANY_EVENTS: usize = 16;

impl ForeignEvents {
    /// Notes that a stream was given work. A stream other than the legacy default stream gets an event behind it.
    pub(super) fn note(&mut self, stream: &Stream) -> Result<(), Failure> {
        /// The legacy default stream: the null handle, and `CU_STREAM_LEGACY`.
        const LEGACY: [usize; 2] = [0, 1];
        let handle = stream.as_inner().addr();
        if LEGACY.contains(&handle) {
            self.uses_default_stream = true;
            return Ok(());
        }
        let key = (handle, std::thread::current().id());
        if let Some((_, event)) = self.events.iter().find(|(known, _)| *known == key) {
            return event.record(stream);
        }
        if self.events.len() >= MANY_EVENTS {
            self.events.retain(|(_, event)| !event.is_complete().is_ok_and(|is_complete| is_complete));
        }
        self.events.push((key, Event::behind(stream)?));
        Ok(())
    }

    /// Events behind all the work.
    pub(super) fn into_pending(self) -> Pending {
        let mut events: Vec<_> = self.events.into_iter().map(|(_, event)| event).collect();
        let mut is_incomplete = false;
        if self.uses_default_stream {
            let stream = driver::default_stream();
            // An attempt to record would end the capture of a blocking stream.
            let event = if driver::is_captured(&stream) { None } else { Event::behind(&stream).ok() };
            is_incomplete = event.is_none();
            events.extend(event);
        }
        Pending { events, is_incomplete }
    }
}

/// What must complete before memory is used again.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) events: Vec<Event>,
    /// Whether the legacy default stream has work without an event: it takes none while a blocking stream is captured.
    pub(super) is_incomplete: bool,
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the handle is the event's own. An incomplete one is freed when it completes, as the driver API's
        // documentation says. A failure means that the context is gone, and the event with it.
        let _ = checked(unsafe { cuEventDestroy_v2(self.0) });
    }
}
