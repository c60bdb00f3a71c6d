//! Streams: ordered queues of work items, each with a thread that executes them.
//!
//! A work item starts when a thread waits for it, or after the delay of the settings. A program that forgets to wait
//! therefore always finds work that is not done.

use std::collections::VecDeque;
use std::ffi::{c_int, c_uint};
use std::time::Instant;

use crate::code::Code;
use crate::driver::{CONTEXT, Driver, Failure, Outcome, State, WAITS_OR_FREES, put};
use crate::order::{DefaultStream, NON_BLOCKING};
use crate::table::Handle;
use crate::work::Work;

/// A work item in a queue.
pub(crate) struct Operation {
    pub(crate) work: Work,
    /// Its number in the stream, from 1 on.
    number: u64,
    /// Its number among the work items of all streams.
    pub(crate) sequence: u64,
    /// The work items of other streams that it waits for because of the streams' flags.
    after: Vec<(Handle, u64)>,
    /// The time at which it starts if no thread waits for it.
    due: Instant,
    /// The code with which it fails on request.
    fails: Option<Code>,
    /// Whether it uses memory that the test has taken back. Then it is dropped.
    pub(crate) is_forbidden: bool,
}

/// A stream.
pub(crate) struct Stream {
    pub(crate) context: Handle,
    pub(crate) flags: c_uint,
    /// Which default stream it is; None for a stream of the caller.
    pub(crate) default: Option<DefaultStream>,
    priority: c_int,
    queue: VecDeque<Operation>,
    /// The number of the last work item that was enqueued.
    issued: u64,
    /// The number of the last work item that is done.
    done: u64,
    /// The number of the last work item that a thread waits for.
    wanted: u64,
    /// Whether its handle was destroyed. The stream ends with its work.
    is_closed: bool,
    /// The work items of the capture in progress.
    pub(crate) capture: Option<Capture>,
}

/// A capture in progress.
pub(crate) struct Capture {
    pub(crate) works: Vec<Work>,
    thread: std::thread::ThreadId,
    mode: CaptureMode,
    /// Whether an operation invalidated the capture.
    pub(crate) is_invalid: bool,
}

/// Which threads must not make unsafe calls during a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaptureMode {
    /// `CU_STREAM_CAPTURE_MODE_GLOBAL`: all.
    Global,
    /// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: the thread that captures.
    ThreadLocal,
    /// `CU_STREAM_CAPTURE_MODE_RELAXED`: none.
    Relaxed,
}

impl Stream {
    /// Whether its handle is in use.
    pub(crate) fn is_live(&self) -> bool {
        !self.is_closed
    }

    /// Abandons the pending work.
    pub(crate) fn abandon(&mut self) {
        self.queue.clear();
        self.done = self.issued;
    }

    /// The pending work.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Work> {
        self.queue.iter().map(|operation| &operation.work)
    }

    /// The pending work, with its order.
    pub(crate) fn pending_operations(&self) -> impl Iterator<Item = &Operation> {
        self.queue.iter()
    }

    /// The number of the last work item, if it is not done.
    pub(crate) fn last_pending(&self) -> Option<u64> {
        (!self.has_done(self.issued)).then_some(self.issued)
    }

    pub(crate) fn pending_mut(&mut self) -> impl Iterator<Item = &mut Operation> {
        self.queue.iter_mut()
    }

    /// Whether the stream has reached a work item.
    pub(crate) fn has_done(&self, operation: u64) -> bool {
        self.done >= operation
    }
}

impl State {
    /// The stream of a caller's handle. 0 and 1 are the legacy default stream, 2 is the default stream of the thread.
    pub(crate) fn stream_handle(&mut self, handle: Handle) -> Outcome<Handle> {
        if handle > 2 {
            if !self.streams.get(handle)?.is_live() {
                return Err(Failure::misuse(Code::INVALID_HANDLE, format!("the stream {handle:#x} was destroyed")));
            }
            return Ok(handle);
        }
        let context = self.current()?;
        let which =
            if handle < 2 { DefaultStream::Legacy } else { DefaultStream::OfThread(std::thread::current().id()) };
        let is_it = |stream: &Stream| stream.context == context && stream.default == Some(which);
        if let Some((stream, _)) = self.streams.iter().find(|(_, stream)| is_it(stream)) {
            return Ok(stream);
        }
        let stream = self.open_stream(context, 0, 0)?;
        let opened = self.streams.get_mut(stream)?;
        (opened.is_closed, opened.default) = (true, Some(which));
        Ok(stream)
    }

    /// A new stream with its thread.
    fn open_stream(&mut self, context: Handle, flags: c_uint, priority: c_int) -> Outcome<Handle> {
        let stream = Stream {
            context,
            flags,
            default: None,
            priority,
            queue: VecDeque::new(),
            issued: 0,
            done: 0,
            wanted: 0,
            is_closed: false,
            capture: None,
        };
        let handle = self.streams.insert(stream);
        let thread = std::thread::Builder::new().name("fake_cuda stream".into());
        if thread.spawn(move || do_work(handle)).is_err() {
            self.streams.remove(handle)?;
            return Err(Code::OUT_OF_MEMORY.into());
        }
        Ok(handle)
    }

    /// Enqueues work on a stream, or adds it to the graph of its capture. `stream` comes from
    /// [`stream_handle`](Self::stream_handle).
    pub(crate) fn enqueue(&mut self, stream: Handle, work: Work) -> Outcome<u64> {
        self.check(&work)?;
        let spans = work.host_spans(&self.page_locked);
        let was_lent = spans.into_iter().find(|&span| self.lent.was_lent(span));
        let name = work.name();
        let due = Instant::now() + self.settings.delay;
        self.refuse_legacy_during_capture(stream)?;
        let after = self.implicit_order(stream)?;
        let sequence = self.sequence + 1;
        let target = self.streams.get_mut(stream)?;
        if let Some(capture) = &mut target.capture {
            capture.works.push(work);
            return Ok(target.issued);
        }
        target.issued += 1;
        let number = target.issued;
        let fails = self.failing_work.take();
        let is_forbidden = was_lent.is_some();
        target.queue.push_back(Operation { work, number, sequence, after, due, fails, is_forbidden });
        self.sequence = sequence;
        if let Some(span) = was_lent {
            self.counts.report(format!("{name} begins that uses {span}, which a call that has returned had"));
        }
        Ok(number)
    }

    /// Fails if a capture does not allow this call. Then it invalidates the capture.
    pub(crate) fn refuse_during_capture(&mut self, name: &str) -> Outcome {
        let here = std::thread::current().id();
        self.invalidate(name, |_, capture| match capture.mode {
            CaptureMode::Global => true,
            CaptureMode::ThreadLocal => capture.thread == here,
            CaptureMode::Relaxed => false,
        })
    }

    /// Fails if one of these streams is captured: nobody may wait for it. Then it invalidates the capture.
    pub(crate) fn refuse_to_wait(&mut self, name: &str, which: impl Fn(Handle, &Stream) -> bool) -> Outcome {
        let waited: Vec<_> = self.streams.iter().filter(|(handle, stream)| which(*handle, stream)).collect();
        let waited: Vec<Handle> = waited.into_iter().map(|(handle, _)| handle).collect();
        self.invalidate(name, |handle, _| waited.contains(&handle))
    }

    /// Fails if one of these captures is in progress, and invalidates it.
    fn invalidate(&mut self, name: &str, which: impl Fn(Handle, &Capture) -> bool) -> Outcome {
        for (handle, stream) in self.streams.iter_mut() {
            if let Some(capture) = stream.capture.as_mut().filter(|capture| which(handle, capture)) {
                capture.is_invalid = true;
                let text = format!("{name} while a stream is captured");
                return Err(Failure::misuse(Code::STREAM_CAPTURE_UNSUPPORTED, text));
            }
        }
        Ok(())
    }

    /// Begins a capture.
    pub(crate) fn begin_capture(&mut self, stream: Handle, mode: CaptureMode) -> Outcome {
        let stream = self.streams.get_mut(stream)?;
        if stream.capture.is_some() {
            return Err(Failure::misuse(Code::STREAM_CAPTURE_UNMATCHED, "the stream is being captured already"));
        }
        let thread = std::thread::current().id();
        stream.capture = Some(Capture { works: Vec::new(), thread, mode, is_invalid: false });
        Ok(())
    }

    /// Ends a capture.
    pub(crate) fn end_capture(&mut self, stream: Handle) -> Outcome<Capture> {
        let capture = self.streams.get_mut(stream)?.capture.take();
        capture.ok_or_else(|| Failure::misuse(Code::STREAM_CAPTURE_UNMATCHED, "the stream is not being captured"))
    }

    /// Whether a stream is being captured.
    pub(crate) fn is_capturing(&self, stream: Handle) -> Outcome<bool> {
        Ok(self.streams.get(stream)?.capture.is_some())
    }

    /// The number of the last work item of a stream.
    pub(crate) fn issued(&self, stream: Handle) -> Outcome<u64> {
        Ok(self.streams.get(stream)?.issued)
    }
}

impl Driver {
    /// Waits until these streams have done all work that is enqueued now.
    pub(crate) fn drain(&mut self, which: impl Fn(&Stream) -> bool) -> Outcome {
        let given: Vec<(Handle, u64)> = (self.streams.iter())
            .filter(|(_, stream)| which(stream))
            .map(|(handle, stream)| (handle, stream.issued))
            .collect();
        given.into_iter().try_for_each(|(stream, operation)| self.wait_for(stream, operation))
    }

    /// Waits until a stream has reached a work item. An error if the device is lost.
    pub(crate) fn wait_for(&mut self, stream: Handle, operation: u64) -> Outcome {
        loop {
            if let Some(code) = self.lost {
                return Err(code.into());
            }
            // A stream that does not exist any more has done its work.
            let Ok(waited) = self.streams.get_mut(stream) else { return Ok(()) };
            if waited.has_done(operation) {
                return Ok(());
            }
            waited.wanted = waited.wanted.max(operation);
            self.changed();
            self.wait_for_change();
        }
    }
}

/// The thread of a stream. It executes work until the stream is removed, or is closed and has none left.
fn do_work(handle: Handle) {
    let mut driver = Driver::lock();
    while let Ok(stream) = driver.streams.get_mut(handle) {
        let Some(next) = stream.queue.front() else {
            if stream.is_closed && stream.default.is_none() {
                let _ = driver.streams.remove(handle);
                return;
            }
            driver.wait_for_change();
            continue;
        };
        let (due, is_wanted) = (next.due, stream.wanted >= next.number);
        if !is_wanted && Instant::now() < due {
            driver.wait_until(due);
            continue;
        }
        let mut awaited = next.after.clone();
        if let Work::Wait { stream: other, operation } = next.work {
            awaited.push((other, operation));
        }
        if driver.has_pending(&awaited) {
            driver.changed();
            driver.wait_for_change();
            continue;
        }
        let stream = driver.streams.get_mut(handle).expect("found above, under the same lock");
        let operation = stream.queue.pop_front().expect("found above, under the same lock");
        driver.report_unordered(handle, &operation);
        let result = match operation.fails {
            Some(code) => Err(code),
            None if operation.is_forbidden => Ok(()),
            None => driver.perform(&operation.work),
        };
        if let Err(code) = result {
            driver.lose(code);
        }
        if let Work::Record(event) = operation.work {
            driver.reached(event, handle, operation.number);
        }
        if let Ok(stream) = driver.streams.get_mut(handle) {
            stream.done = stream.done.max(operation.number);
        }
        driver.changed();
    }
}

impl State {
    /// Whether one of these work items is not done. All that are not done are wanted from now on.
    fn has_pending(&mut self, operations: &[(Handle, u64)]) -> bool {
        let mut has_pending = false;
        for &(stream, operation) in operations {
            // A stream that does not exist any more has done its work.
            if let Ok(stream) = self.streams.get_mut(stream)
                && !stream.has_done(operation)
            {
                stream.wanted = stream.wanted.max(operation);
                has_pending = true;
            }
        }
        has_pending
    }
}

/// Opens a stream for the caller.
fn create(driver: &mut Driver, stream: *mut Handle, flags: c_uint, priority: c_int) -> Outcome {
    let context = driver.current()?;
    if flags > NON_BLOCKING {
        return Err(Code::INVALID_VALUE.into());
    }
    let made = driver.open_stream(context, flags, priority)?;
    driver.counts.blocking_streams += u64::from(flags & NON_BLOCKING == 0);
    // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
    unsafe { put(stream, made) }
}

driver_functions! {
    /// Creates the stream with its thread.
    fn cuStreamCreate(stream: *mut Handle, flags: c_uint) at CONTEXT, |driver| {
        create(driver, stream, flags, 0)
    }

    /// The priority has no effect.
    fn cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int) at CONTEXT, |driver| {
        create(driver, stream, flags, priority)
    }

    /// Returns at once. The stream ends with its work.
    fn cuStreamDestroy_v2(stream: Handle) at WAITS_OR_FREES, |driver| {
        let stream = driver.stream_handle(stream)?;
        driver.streams.get_mut(stream)?.is_closed = true;
        driver.changed();
        Ok(())
    }

    /// Waits for all work of the stream.
    fn cuStreamSynchronize(stream: Handle) at WAITS_OR_FREES, |driver| {
        let stream = driver.stream_handle(stream)?;
        driver.refuse_during_capture("cuStreamSynchronize")?;
        driver.refuse_to_wait("cuStreamSynchronize", |handle, _| handle == stream)?;
        driver.refuse_legacy_during_capture(stream)?;
        let issued = driver.issued(stream)?;
        driver.wait_for(stream, issued)
    }

    /// Whether the stream has pending work. Does not start it.
    fn cuStreamQuery(stream: Handle) at CONTEXT, |driver| {
        let stream = driver.stream_handle(stream)?;
        driver.refuse_during_capture("cuStreamQuery")?;
        driver.refuse_to_wait("cuStreamQuery", |handle, _| handle == stream)?;
        driver.refuse_legacy_during_capture(stream)?;
        let issued = driver.issued(stream)?;
        if driver.streams.get(stream)?.has_done(issued) { Ok(()) } else { Err(Code::NOT_READY.into()) }
    }

    /// Later work of the stream waits for the event's last record.
    fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) at CONTEXT, |driver| {
        let stream = driver.stream_handle(stream)?;
        match driver.events.get(event)?.recorded {
            Some((other, operation)) => driver.enqueue(stream, Work::Wait { stream: other, operation }).map(|_| ()),
            None => Ok(()),
        }
    }

    /// The flags of the stream's creation.
    fn cuStreamGetFlags(stream: Handle, flags: *mut c_uint) at CONTEXT, |driver| {
        let stream = driver.stream_handle(stream)?;
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(flags, driver.streams.get(stream)?.flags) }
    }

    /// The priority of the stream's creation.
    fn cuStreamGetPriority(stream: Handle, priority: *mut c_int) at CONTEXT, |driver| {
        let stream = driver.stream_handle(stream)?;
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(priority, driver.streams.get(stream)?.priority) }
    }
}
