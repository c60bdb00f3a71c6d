//! The order between the legacy default stream and other streams, and what nothing orders.

use std::ffi::c_uint;

use crate::code::Code;
use crate::driver::{Failure, Outcome, State};
use crate::stream::{Operation, Stream};
use crate::table::Handle;

/// The flag of a stream that is not ordered with the legacy default stream.
pub(crate) const NON_BLOCKING: c_uint = 1;

/// Which default stream a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultStream {
    /// That of the context.
    Legacy,
    /// That of a thread. It is a blocking stream.
    OfThread(std::thread::ThreadId),
}

impl Stream {
    /// Whether the stream is ordered with the legacy default stream.
    pub(crate) fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    fn is_legacy(&self) -> bool {
        self.default == Some(DefaultStream::Legacy)
    }

    /// Whether the flags order the work of both.
    fn is_ordered_with(&self, other: &Self) -> bool {
        self.context == other.context
            && (self.is_legacy() || other.is_legacy())
            && self.is_blocking()
            && other.is_blocking()
    }
}

impl State {
    /// The work of other streams that must run before new work of a stream, because of the streams' flags.
    pub(crate) fn implicit_order(&self, stream: Handle) -> Outcome<Vec<(Handle, u64)>> {
        let target = self.streams.get(stream)?;
        let others = self.streams.iter().filter(|(handle, other)| *handle != stream && target.is_ordered_with(other));
        Ok(others.filter_map(|(handle, other)| Some((handle, other.last_pending()?))).collect())
    }

    /// The blocking stream of its context that is captured, if `stream` is the legacy default stream.
    pub(crate) fn captured_beside(&self, stream: Handle) -> Outcome<Option<Handle>> {
        let target = self.streams.get(stream)?;
        if !target.is_legacy() {
            return Ok(None);
        }
        let is_captured =
            |other: &Stream| other.context == target.context && other.is_blocking() && other.capture.is_some();
        Ok(self.streams.iter().find(|(_, other)| is_captured(other)).map(|(handle, _)| handle))
    }

    /// Fails if a stream is the legacy default stream and a blocking stream of its context is captured.
    ///
    /// The use would make the default stream depend on the capture. It invalidates the capture.
    pub(crate) fn refuse_legacy_during_capture(&mut self, stream: Handle) -> Outcome {
        let Some(captured) = self.captured_beside(stream)? else { return Ok(()) };
        if let Some(capture) = &mut self.streams.get_mut(captured)?.capture {
            capture.is_invalid = true;
        }
        let text = "use of the legacy default stream while a blocking stream is captured";
        Err(Failure::misuse(Code::STREAM_CAPTURE_IMPLICIT, text))
    }

    /// Reports `operation`, which runs now, if it conflicts with pending work of an earlier call that nothing orders
    /// before it.
    ///
    /// Two work items conflict if they use the same memory and one of them writes it. Nothing orders work in the legacy
    /// default stream and work in a non-blocking stream.
    pub(crate) fn report_unordered(&mut self, handle: Handle, operation: &Operation) {
        let Ok(stream) = self.streams.get(handle) else { return };
        let accesses = operation.work.accesses();
        let concerns = |other: &Stream| {
            other.context == stream.context
                && (stream.is_legacy() && !other.is_blocking() || other.is_legacy() && !stream.is_blocking())
        };
        let others = self.streams.iter().filter(|(_, other)| concerns(other));
        let earlier = others.flat_map(|(_, other)| other.pending_operations()).find(|earlier| {
            let conflicts = earlier.work.accesses().iter().any(|one| accesses.iter().any(|other| one.conflicts(other)));
            earlier.sequence < operation.sequence && conflicts
        });
        let Some(earlier) = earlier else { return };
        let place = |is_legacy: bool| if is_legacy { "the legacy default stream" } else { "a non-blocking stream" };
        let (here, there) = (place(stream.is_legacy()), place(!stream.is_legacy()));
        let (now, before) = (operation.work.name(), earlier.work.name());
        self.counts.report(format!("nothing orders {now} in {here} after {before} in {there}, which uses the memory"));
    }
}
