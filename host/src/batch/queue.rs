//! The queue of a batch: the next task for each thread. Only this file synchronises the threads.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::{MEMORY_PER_BYTE, QueueLimits};
use faltung::memory::{self, Reservation};

/// A task of a worker.
pub(super) enum Task<O> {
    /// Find out how large the job is.
    Weigh(usize),
    /// Read the job's input.
    Read(usize, Reservation),
    /// Write the job's output.
    Write(usize, O, Reservation),
}

/// The jobs of a batch, by number, in the states they pass through.
pub(super) struct Queue<I, O> {
    limits: QueueLimits,
    /// The threads that compute.
    computers: u64,
    state: Mutex<State<I, O>>,
    changed: Condvar,
}

struct State<I, O> {
    /// Bytes of each job that has begun.
    bytes: Vec<u64>,
    /// The first job that has not been weighed.
    next: usize,
    /// A job being weighed; there is one at a time.
    weighing: bool,
    /// A job that is weighed and waits for room.
    waiting: Option<usize>,
    inputs: VecDeque<(usize, I, Reservation)>,
    outputs: VecDeque<(usize, O, Reservation)>,
    /// What computing takes for itself, reserved until the end of the batch: for the largest job so far.
    computing: Vec<Reservation>,
    largest: u64,
    /// Jobs that have begun to be read and are not finished, and their bytes.
    under_way: usize,
    bytes_under_way: u64,
    done: usize,
    failed: usize,
    /// A thread panicked. Nothing else begins.
    stopped: bool,
    /// Nothing else is read or computed. Computed results are written.
    abandoned: bool,
}

impl<I, O> State<I, O> {
    fn all_finished(&self) -> bool {
        let all = self.done + self.failed == self.bytes.len();
        self.stopped || all || (self.abandoned && self.under_way == 0)
    }

    /// Notes that a job that was under way has ended.
    fn ended(&mut self, job: usize) {
        self.under_way -= 1;
        self.bytes_under_way = self.bytes_under_way.saturating_sub(self.bytes[job]);
    }

    /// Reserves the memory of the job that waits, if it may begin: there is room for it, or nothing else is under way.
    fn admit(&mut self, job: usize, limits: QueueLimits, computers: u64) -> Option<Reservation> {
        let bytes = self.bytes[job];
        let is_within = self.bytes_under_way.saturating_add(bytes) <= limits.bytes && self.under_way < limits.jobs;
        let own = bytes.saturating_mul(MEMORY_PER_BYTE);
        // The memory of computing stays reserved for the next jobs of that size.
        let computing = bytes.saturating_sub(self.largest).saturating_mul(MEMORY_PER_BYTE).saturating_mul(computers);
        let reserved = if is_within { memory::try_reserve(own.saturating_add(computing)) } else { None };
        match reserved {
            Some(mut reserved) => {
                if computing > 0 {
                    self.computing.push(reserved.split_off_lasting(own));
                    self.largest = bytes;
                }
                Some(reserved)
            }
            // The job is alone, and may take less than the estimate. If it takes more, it fails with an error of its
            // own.
            None if self.under_way == 0 => Some(memory::claim(own)),
            None => None,
        }
    }

    /// The next task of a worker: first what frees memory.
    fn take(&mut self, limits: QueueLimits, computers: u64) -> Option<Task<O>> {
        if let Some((number, output, room)) = self.outputs.pop_front() {
            return Some(Task::Write(number, output, room));
        }
        if self.abandoned {
            return None;
        }
        let Some(number) = self.waiting else {
            if self.weighing || self.next == self.bytes.len() {
                return None;
            }
            self.weighing = true;
            self.next += 1;
            return Some(Task::Weigh(self.next - 1));
        };
        let room = self.admit(number, limits, computers)?;
        self.waiting = None;
        self.under_way += 1;
        self.bytes_under_way = self.bytes_under_way.saturating_add(self.bytes[number]);
        Some(Task::Read(number, room))
    }
}

impl<I, O> Queue<I, O> {
    /// A queue of so many jobs for a number of threads that compute.
    pub(super) fn new(jobs: usize, limits: QueueLimits, computers: usize) -> Self {
        let state = State {
            bytes: vec![0; jobs],
            next: 0,
            weighing: false,
            waiting: None,
            inputs: VecDeque::new(),
            outputs: VecDeque::new(),
            computing: Vec::new(),
            largest: 0,
            under_way: 0,
            bytes_under_way: 0,
            done: 0,
            failed: 0,
            stopped: false,
            abandoned: false,
        };
        Self { limits, computers: computers as u64, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Each change below is complete before the lock is released, so a panic elsewhere leaves a valid state.
    fn lock(&self) -> MutexGuard<'_, State<I, O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State<I, O>)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until `take` returns a task; None when all jobs are finished.
    fn wait<T>(&self, mut take: impl FnMut(&mut State<I, O>) -> Option<T>) -> Option<T> {
        let mut state = self.lock();
        loop {
            if state.all_finished() {
                return None;
            }
            if let Some(taken) = take(&mut state) {
                return Some(taken);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next task of a worker; None when all jobs are finished.
    pub(super) fn next_task(&self) -> Option<Task<O>> {
        self.wait(|state| state.take(self.limits, self.computers))
    }

    /// The next job to compute; None when all jobs are finished.
    pub(super) fn next_input(&self) -> Option<(usize, I, Reservation)> {
        self.wait(|state| state.inputs.pop_front())
    }

    pub(super) fn weighed(&self, job: usize, bytes: u64) {
        self.change(|state| {
            state.bytes[job] = bytes;
            state.weighing = false;
            state.waiting = Some(job);
        });
    }

    pub(super) fn read(&self, job: usize, input: I, room: Reservation) {
        self.change(|state| {
            if state.abandoned {
                state.ended(job);
            } else {
                state.inputs.push_back((job, input, room));
            }
        });
    }

    pub(super) fn computed(&self, job: usize, output: O, room: Reservation) {
        self.change(|state| state.outputs.push_back((job, output, room)));
    }

    pub(super) fn finished(&self, job: usize, done: bool, room: Reservation) {
        // The memory is free before the other threads are told.
        drop(room);
        self.change(|state| {
            state.ended(job);
            if done {
                state.done += 1;
            } else {
                state.failed += 1;
            }
        });
    }

    /// Lets no other job be read or computed. What is computed is still written.
    pub(super) fn abandon(&self) {
        self.change(|state| {
            state.abandoned = true;
            while let Some((job, _, _)) = state.inputs.pop_front() {
                state.ended(job);
            }
        });
    }

    /// A guard for a thread: if it panics, the others don't wait for it.
    pub(super) fn stop_on_panic(&self) -> impl Drop + '_ {
        struct Stop<'queue, I, O>(&'queue Queue<I, O>);
        impl<I, O> Drop for Stop<'_, I, O> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.change(|state| state.stopped = true);
                }
            }
        }
        Stop(self)
    }

    /// How many jobs were done, and how many failed.
    pub(super) fn into_counts(self) -> (usize, usize) {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (state.done, state.failed)
    }
}
