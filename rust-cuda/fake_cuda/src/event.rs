//! Events: marks in streams with the time at which they were reached.

use std::ffi::c_uint;
use std::time::Instant;

use crate::code::Code;
use crate::driver::{CONTEXT, Driver, Failure, Outcome, State, WAITS_OR_FREES, put};
use crate::table::Handle;
use crate::work::Work;

/// The flag of an event without timing.
const DISABLE_TIMING: c_uint = 2;

/// An event.
pub(crate) struct Event {
    pub(crate) context: Handle,
    has_time: bool,
    /// The stream and the number of the work item of its last record.
    pub(crate) recorded: Option<(Handle, u64)>,
    /// The time at which the last record was reached.
    reached: Option<Instant>,
}

impl State {
    /// Notes that a stream has reached an event's record.
    pub(crate) fn reached(&mut self, event: Handle, stream: Handle, operation: u64) {
        // It may have been destroyed, or recorded again.
        if let Ok(event) = self.events.get_mut(event)
            && event.recorded == Some((stream, operation))
        {
            event.reached = Some(Instant::now());
        }
    }

    /// Records an event after the work of a stream.
    fn record(&mut self, event: Handle, stream: Handle) -> Outcome {
        let stream = self.stream_handle(stream)?;
        self.events.get(event)?;
        if self.is_capturing(stream)? {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED.into());
        }
        let operation = self.enqueue(stream, Work::Record(event))?;
        let event = self.events.get_mut(event)?;
        (event.recorded, event.reached) = (Some((stream, operation)), None);
        Ok(())
    }

    /// Whether an event's last record is reached. An event that was never recorded counts as reached.
    fn is_reached(&self, event: Handle) -> Outcome<bool> {
        Ok(match self.events.get(event)?.recorded {
            Some((stream, operation)) => self.streams.get(stream).map_or(true, |stream| stream.has_done(operation)),
            None => true,
        })
    }

    /// The time at which an event was reached, for `cuEventElapsedTime`.
    fn time(&self, event: Handle) -> Outcome<Instant> {
        let found = self.events.get(event)?;
        if !found.has_time || found.recorded.is_none() {
            return Err(Failure::misuse(Code::INVALID_HANDLE, "the event has no time, or was never recorded"));
        }
        Ok(found.reached.ok_or(Code::NOT_READY)?)
    }
}

/// Waits for an event.
fn synchronize(driver: &mut Driver, event: Handle) -> Outcome {
    match driver.events.get(event)?.recorded {
        Some((stream, operation)) => driver.wait_for(stream, operation),
        None => Ok(()),
    }
}

driver_functions! {
    /// The event has timing unless the flags disable it.
    fn cuEventCreate(event: *mut Handle, flags: c_uint) at CONTEXT, |driver| {
        let context = driver.current()?;
        let has_time = flags & DISABLE_TIMING == 0;
        let made = driver.events.insert(Event { context, has_time, recorded: None, reached: None });
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(event, made) }
    }

    /// Does not wait.
    fn cuEventDestroy_v2(event: Handle) at WAITS_OR_FREES, |driver| {
        driver.events.remove(event).map(|_| ())
    }

    /// Records the event after all work of the stream.
    fn cuEventRecord(event: Handle, stream: Handle) at CONTEXT, |driver| {
        driver.record(event, stream)
    }

    /// The flags matter for graphs only.
    fn cuEventRecordWithFlags(event: Handle, stream: Handle, _flags: c_uint) at CONTEXT, |driver| {
        driver.record(event, stream)
    }

    /// Does not start pending work.
    fn cuEventQuery(event: Handle) at CONTEXT, |driver| {
        if driver.is_reached(event)? { Ok(()) } else { Err(Code::NOT_READY.into()) }
    }

    /// Waits for the last record, if there is one.
    fn cuEventSynchronize(event: Handle) at WAITS_OR_FREES, |driver| {
        synchronize(driver, event)
    }

    /// The time between two events in milliseconds.
    fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) at CONTEXT, |driver| {
        let (start, end) = (driver.time(start)?, driver.time(end)?);
        let elapsed = end.saturating_duration_since(start).as_secs_f32() * 1e3;
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(milliseconds, elapsed) }
    }
}
