//! The chunks of a run, and the memory of those under way.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::{BoxError, Failure, Stage};
use crate::memory::{self, Reservation};

/// The chunks that are still to be done, in order.
pub(super) struct Queue<'a> {
    chunks: &'a [usize],
    /// The most bytes under way.
    budget: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// How many have begun.
    begun: usize,
    under_way: usize,
    bytes_under_way: u64,
    stopped: bool,
    done: usize,
    failed: Vec<Failure>,
}

/// A chunk that has begun, with the memory that was reserved for it.
pub(super) struct Begun<'a> {
    pub(super) chunk: usize,
    bytes: u64,
    room: Option<Reservation>,
    queue: &'a Queue<'a>,
}

impl Begun<'_> {
    /// Does some work with the memory of this chunk.
    pub(super) fn under_its_memory<R>(&self, work: impl FnOnce() -> R) -> R {
        match &self.room {
            Some(room) => room.during(work),
            None => work(),
        }
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        // Before others are told that there is room.
        self.room = None;
        let mut state = self.queue.lock();
        state.under_way -= 1;
        state.bytes_under_way -= self.bytes;
        if std::thread::panicking() {
            state.stopped = true;
        }
        drop(state);
        self.queue.changed.notify_all();
    }
}

impl<'a> Queue<'a> {
    pub(super) fn new(chunks: &'a [usize], budget: u64) -> Self {
        Self { chunks, budget, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Each change below is complete before the lock is released.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the next chunk once there is memory for it, or nothing to wait for; None if there is none left. `bytes`
    /// says what a chunk takes.
    pub(super) fn begin(&self, bytes: impl Fn(usize) -> u64) -> Option<Begun<'_>> {
        let mut state = self.lock();
        loop {
            let chunk = *self.chunks.get(state.begun).filter(|_| !state.stopped)?;
            let bytes = bytes(chunk);
            let is_within = state.bytes_under_way.saturating_add(bytes) <= self.budget;
            let room = match is_within.then(|| memory::try_reserve(bytes)).flatten() {
                // It may take less than it seems.
                None if state.under_way == 0 => Some(memory::claim(bytes)),
                room => room,
            };
            if room.is_some() {
                state.begun += 1;
                state.under_way += 1;
                state.bytes_under_way += bytes;
                return Some(Begun { chunk, bytes, room, queue: self });
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets no other chunk begin.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Takes the result of a chunk.
    pub(super) fn end(&self, begun: Begun<'_>, result: Result<(), (Stage, BoxError)>) {
        let mut state = self.lock();
        match result {
            Ok(()) => state.done += 1,
            Err((stage, error)) => state.failed.push(Failure { chunk: begun.chunk, stage, error }),
        }
        drop(state);
        drop(begun);
    }

    /// How many chunks were done, which ones failed, and which ones were not begun.
    pub(super) fn into_results(self) -> (usize, Vec<Failure>, Vec<usize>) {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (state.done, state.failed, self.chunks[state.begun..].to_vec())
    }
}
