//! One block: its threads as fibers, its barriers and its shared memory.

mod executor;

use std::cell::{Cell, RefCell};
use std::collections::TryReserveError;
use std::panic::resume_unwind;

use corosensei::{Coroutine, CoroutineResult, Yielder};
use cuda_std::executor::{Access, Collective, GATHERED, enter};

use crate::OutOfMemory;
use crate::allocation::Allocation;
use crate::arrays::{self, Array, Arrays};
use crate::atomics::{Loads, MOST_LOADS, Spin};
use crate::causality::{Causality, GlobalElements};
use crate::copies::Copies;
use crate::counts::Counts;
use crate::defect::Kind;
use crate::found::Found;
use crate::host_memory::filled;
use crate::launch::Launch;
use crate::memory::Memory;
use crate::panics::{self, Panic};
use crate::printed::Printed;
use crate::shared::Shared;
use crate::sites;
use crate::stacks::{self, FiberStack};
use crate::turns::Turns;
use crate::wait::{Wait, exchange, lanes, same};
use crate::warp::{Class, Warp};

/// Memory that a runner reserves. The runner frees it when the host has no more, because unwinding the fibers needs
/// some.
const SPARE_BYTES: usize = 64 * 1024;

/// A round runs each thread of a block until it waits. After so many rounds without a change of memory, threads that
/// wait for a change are stuck.
const IDLE_ROUNDS: u32 = 1000;

/// How often a thread has called `gather`, and its values of the last even and the last odd call.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    times: usize,
    values: [[u32; GATHERED]; 2],
}

/// The payload that unwinds a thread after a failed assertion, which is reported already.
struct Asserted;

/// A thread never arrives at a warp collective. It is reported already.
struct Missed;

/// One thread of the block.
type Fiber = Coroutine<u32, (), (), FiberStack>;

/// What all blocks of a launch share.
#[derive(Clone, Copy)]
pub(crate) struct Common<'a> {
    pub(crate) launch: &'a Launch,
    pub(crate) memory: &'a Memory,
    pub(crate) allocations: &'a [&'a Allocation],
    pub(crate) found: &'a Found,
    pub(crate) turns: &'a Turns,
    pub(crate) arrays: &'a Arrays,
    pub(crate) elements: &'a GlobalElements,
    pub(crate) printed: &'a Printed,
    pub(crate) seed: u64,
    pub(crate) counting: bool,
    pub(crate) stack_bytes: usize,
    /// The most shared memory of a block in bytes.
    pub(crate) shared_limit: u32,
}

/// The error of too little memory for the state of a block of so many threads.
fn short_of_state(threads: usize) -> OutOfMemory {
    let of_thread = size_of::<(Given, Copies, Spin, Wait, Option<Fiber>)>() + Causality::BYTES_PER_THREAD;
    let bytes = (threads * of_thread + SPARE_BYTES) as u64;
    OutOfMemory { bytes, what: "the state of a block's threads" }
}

/// Runs blocks one after the other on one host thread. It reuses stacks and shared memory from block to block.
///
/// The stacks are kept for the next launch.
pub(crate) struct Runner<'a> {
    pub(crate) common: Common<'a>,
    pub(crate) block: Cell<u64>,
    /// The thread of the block that runs now.
    pub(crate) thread: Cell<u32>,
    /// The number of barriers that this block has passed.
    pub(crate) barriers: Cell<u64>,
    pub(crate) shared: RefCell<Shared>,
    warps: RefCell<Box<[Warp]>>,
    counts: RefCell<Counts>,
    /// Each thread's last two calls of `gather`: a thread may call again before the others have read its values.
    given: RefCell<Box<[Given]>>,
    /// The asynchronous copies of each thread.
    copies: RefCell<Box<[Copies]>>,
    /// The handle that suspends the fiber of each thread.
    yielders: Box<[Cell<*const Yielder<u32, ()>>]>,
    /// What the fiber that was suspended last waits for.
    waits_for: Cell<Wait>,
    /// The atomic operations of each thread that changed nothing.
    pub(crate) spins: Box<[Cell<Spin>]>,
    /// The loads of one element in sequence by the running thread.
    pub(crate) loads: Cell<Loads>,
    /// The number of such loads after which other threads of the block run.
    pub(crate) most_loads: Cell<u32>,
    pub(crate) causality: Causality,
    /// The shared arrays of a fixed length that threads of these blocks have used.
    pub(crate) arrays: RefCell<Vec<Array>>,
    /// How often a thread of the block has read a clock.
    clock: Cell<u64>,
    /// Whether a thread has changed memory or waits at a barrier, since the last round.
    pub(crate) progress: Cell<bool>,
    /// Whether all blocks with lower numbers have ended.
    is_first: Cell<bool>,
    /// Whether an assertion of a thread of the block has failed. Others may then wait for it in vain.
    asserted: Cell<bool>,
    stacks: RefCell<Vec<FiberStack>>,
    spare: Cell<Box<[u8]>>,
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        stacks::give_back(self.common.stack_bytes, self.stacks.take());
    }
}

impl<'a> Runner<'a> {
    /// The state of a block's threads.
    pub(crate) fn new(common: Common<'a>) -> Result<Self, OutOfMemory> {
        let threads = common.launch.threads() as usize;
        Self::try_new(common, threads).map_err(|_| short_of_state(threads))
    }

    fn try_new(common: Common<'a>, threads: usize) -> Result<Self, TryReserveError> {
        let warps = if common.counting { threads.div_ceil(32) } else { 0 };
        Ok(Self {
            common,
            block: Cell::new(0),
            thread: Cell::new(0),
            barriers: Cell::new(0),
            shared: RefCell::default(),
            warps: RefCell::new(filled(warps, Warp::default)?),
            counts: RefCell::default(),
            given: RefCell::new(filled(threads, Given::default)?),
            copies: RefCell::new(filled(threads, Copies::default)?),
            yielders: filled(threads, || Cell::new(std::ptr::null()))?,
            waits_for: Cell::new(Wait::Ended),
            spins: filled(threads, Cell::default)?,
            loads: Cell::default(),
            most_loads: Cell::new(MOST_LOADS),
            causality: Causality::new(threads)?,
            arrays: RefCell::default(),
            clock: Cell::new(0),
            progress: Cell::new(false),
            is_first: Cell::new(false),
            asserted: Cell::new(false),
            stacks: RefCell::default(),
            spare: Cell::new(filled(SPARE_BYTES, || 1)?),
        })
    }

    /// The sum of the counts of all blocks that have run.
    pub(crate) fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Runs a block to its end, or until the launch is given up.
    pub(crate) fn run(&self, block: u64, kernel: &(dyn Fn() + Sync)) {
        if self.common.found.enough() {
            return;
        }
        self.block.set(block);
        self.barriers.set(0);
        self.is_first.set(false);
        self.asserted.set(false);
        self.clock.set(0);
        self.most_loads.set(MOST_LOADS);
        self.causality.begin_block();
        self.spins.iter().for_each(|spin| spin.set(Spin::default()));
        self.warps.borrow_mut().iter_mut().for_each(Warp::begin_block);
        self.given.borrow_mut().fill(Given::default());
        let of_arrays = self.arrays.borrow().iter().map(Array::end).max().unwrap_or(0);
        let bytes = arrays::begin(self.common.launch.shared_bytes) + of_arrays;
        if let Err(short) = self.shared.borrow_mut().begin_block(bytes as usize) {
            return self.give_up(short);
        }
        let mut random = fastrand::Rng::with_seed(self.common.seed ^ block.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let threads = self.yielders.len();
        let Ok(mut order) = filled(threads, || 0) else { return self.give_up(short_of_state(threads)) };
        for (place, thread) in order.iter_mut().zip(0..) {
            *place = thread;
        }
        enter(self, || self.schedule(&mut order, &mut random, kernel));
        let mut shared = self.shared.borrow_mut();
        for copy in self.copies.borrow_mut().iter_mut().flat_map(Copies::abandon) {
            shared.abandon(copy.to as usize, copy.size as usize);
        }
        let mut counts = self.counts.borrow_mut();
        counts.threads += self.yielders.len() as u64;
        for warp in self.warps.borrow_mut().iter_mut() {
            warp.flush(&mut counts);
        }
    }

    /// Runs every thread until it waits or ends, then releases the threads whose wait is over, until all have ended.
    fn schedule(&self, order: &mut [u32], random: &mut fastrand::Rng, kernel: &(dyn Fn() + Sync)) {
        let state =
            filled(order.len(), || None).and_then(|fibers| Ok((fibers, filled(order.len(), || Wait::Ready(0))?)));
        let Ok((mut fibers, mut waits)) = state else { return self.give_up(short_of_state(order.len())) };
        let mut idle_rounds = 0;
        loop {
            self.progress.set(false);
            if !self.common.counting {
                random.shuffle(order);
            }
            for &thread in order.iter() {
                let thread = thread as usize;
                let value = match waits[thread] {
                    Wait::Ready(value) => value,
                    Wait::Spin => 0,
                    _ => continue,
                };
                let mut fiber = match fibers[thread].take() {
                    Some(fiber) => fiber,
                    None => match self.fiber(thread, kernel) {
                        Ok(fiber) => fiber,
                        Err(short) => return self.give_up(short),
                    },
                };
                waits[thread] = self.resume(&mut fiber, thread, value);
                if !matches!(waits[thread], Wait::Spin) {
                    self.progress.set(true);
                }
                if matches!(waits[thread], Wait::Ended) {
                    if fiber.done() {
                        self.stacks.borrow_mut().push(fiber.into_stack());
                    }
                } else {
                    fibers[thread] = Some(fiber);
                }
            }
            if waits.iter().all(|wait| matches!(wait, Wait::Ended)) || self.common.found.enough() {
                return;
            }
            if !self.release(&mut waits) {
                return;
            }
            if self.progress.get() {
                self.most_loads.set(MOST_LOADS);
                idle_rounds = 0;
            } else {
                idle_rounds += 1;
            }
            if let (IDLE_ROUNDS.., Some(thread)) =
                (idle_rounds, waits.iter().position(|wait| matches!(wait, Wait::Spin)))
            {
                return self.report_stuck(thread);
            }
        }
    }

    /// Gives the launch up for lack of memory. Unwinding the waiting fibers needs the spare memory.
    pub(crate) fn give_up(&self, short: OutOfMemory) {
        drop(self.spare.take());
        self.common.found.give_up(short);
    }

    /// A fiber that runs the kernel as a thread.
    fn fiber(&self, thread: usize, kernel: &(dyn Fn() + Sync)) -> Result<Fiber, OutOfMemory> {
        let stack = self.stacks.borrow_mut().pop();
        let stack = stack.map_or_else(|| stacks::take(self.common.stack_bytes), Ok).map_err(|_| {
            // Each host thread runs one block.
            let bytes = self.yielders.len() * self.common.stack_bytes * rayon::current_num_threads();
            let what = "the stacks of the threads of the blocks that run at once";
            OutOfMemory { bytes: bytes as u64, what }
        })?;
        let yielder_of = &self.yielders[thread];
        let body = move |yielder: &Yielder<u32, ()>, _: u32| {
            yielder_of.set(yielder);
            kernel();
        };
        // SAFETY: the fiber borrows `kernel` and `self`. Both outlive it, because `schedule` drops every fiber before
        // it returns.
        Ok(unsafe { Coroutine::with_stack_unchecked(stack, body) })
    }

    /// Runs a fiber until it waits or ends.
    fn resume(&self, fiber: &mut Fiber, thread: usize, value: u32) -> Wait {
        self.thread.set(thread as u32);
        self.loads.set(Loads::default());
        self.orders_changed();
        if self.common.counting {
            self.warps.borrow_mut()[thread / 32].begin_lane(thread as u32 % 32);
        }
        match panics::catch(|| fiber.resume(value)) {
            Ok(CoroutineResult::Yield(())) => self.waits_for.get(),
            Ok(CoroutineResult::Return(())) => Wait::Ended,
            Err(Panic { payload, .. }) if payload.is::<Asserted>() => Wait::Ended,
            Err(Panic { payload, place: at }) => {
                let message = payload
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| payload.downcast_ref::<&str>().map(|&text| text.to_owned()))
                    .unwrap_or_else(|| "of an unknown kind".to_owned());
                self.report("running".to_owned(), Kind::Panic { message, at }, None);
                Wait::Ended
            }
        }
    }

    /// Releases the warps and the block in which all threads wait for the same operation. False if a thread never
    /// arrives.
    fn release(&self, waits: &mut [Wait]) -> bool {
        let Ok(someone) = self.release_warps(waits) else { return false };
        if someone || waits.iter().any(|wait| matches!(wait, Wait::Spin)) {
            self.progress.set(self.progress.get() || someone);
            return true;
        }
        let at = waits.iter().position(|wait| matches!(wait, Wait::Barrier(..))).expect("not all have ended");
        if !waits.iter().all(|wait| same(wait, &waits[at])) {
            self.report_missed(at, waits[at], 0, waits);
            return false;
        }
        self.release_barrier(waits);
        true
    }

    /// Releases the lanes whose warp collective all lanes of the mask have reached. Returns whether there are such
    /// lanes, or an error if one of the mask never arrives.
    fn release_warps(&self, waits: &mut [Wait]) -> Result<bool, Missed> {
        let mut someone = false;
        for (warp, waits) in waits.chunks_mut(32).enumerate() {
            let mut released = false;
            for lane in 0..waits.len() {
                let Wait::Warp(mask, operation, ..) = waits[lane] else { continue };
                let arrived = |other: usize| waits.get(other).is_some_and(|wait| same(wait, &waits[lane]));
                if mask >> lane & 1 == 0 || !lanes(mask).all(arrived) {
                    continue;
                }
                if operation == Collective::Sync {
                    let threads = lanes(mask).map(|lane| warp * 32 + lane);
                    if mask == u32::MAX {
                        self.shared.borrow_mut().sync_warp(warp);
                        self.causality.join(threads);
                    } else {
                        self.causality.meet(threads, self.block.get(), self.barriers.get());
                    }
                }
                exchange(waits, mask);
                self.flush(warp);
                released = true;
            }
            someone |= released;
            let waits_in_warp = |wait: &Wait| matches!(wait, Wait::Warp(..));
            let can_run = |wait: &Wait| matches!(wait, Wait::Ready(_) | Wait::Spin);
            if let (false, false, Some(at)) =
                (released, waits.iter().any(can_run), waits.iter().position(waits_in_warp))
            {
                self.report_missed(warp * 32 + at, waits[at], warp * 32, waits);
                return Err(Missed);
            }
        }
        Ok(someone)
    }

    /// Releases the block from a barrier that all of its threads have reached.
    fn release_barrier(&self, waits: &mut [Wait]) {
        let count = waits.iter().filter(|wait| matches!(wait, Wait::Barrier(true, _))).count();
        waits.fill(Wait::Ready(count as u32));
        self.shared.borrow_mut().next_interval();
        self.causality.join(0..waits.len());
        self.barriers.set(self.barriers.get() + 1);
        for warp in 0..waits.len().div_ceil(32) {
            self.flush(warp);
        }
        self.counts.borrow_mut().barriers += waits.len().div_ceil(32) as u64;
    }

    /// Reports that a thread waits for one that never arrives. `first` is the thread of `waits[0]`.
    fn report_missed(&self, thread: usize, wait: Wait, first: usize, waits: &[Wait]) {
        if self.asserted.get() {
            return;
        }
        self.thread.set(thread as u32);
        let (action, location) = match wait {
            Wait::Barrier(_, location) => ("waiting at a barrier", location),
            Wait::Warp(mask, _, _, location) if mask >> (thread - first) & 1 == 0 => {
                ("waiting at a warp collective whose mask it is not in", location)
            }
            Wait::Warp(mask, _, _, location) if u64::from(mask) >> waits.len() != 0 => {
                let action = format!("waiting at a warp collective of {} lanes", mask.count_ones());
                let kind = Kind::PartialWarp { threads: waits.len(), of_block: self.common.launch.threads() };
                return self.report(action, kind, Some(location));
            }
            Wait::Warp(_, _, _, location) => ("waiting at a warp collective", location),
            Wait::Ready(_) | Wait::Spin | Wait::Ended => unreachable!("it waits"),
        };
        let named = |&other: &usize| match wait {
            Wait::Warp(mask, ..) => mask >> other & 1 == 1,
            _ => true,
        };
        let missing = (0..waits.len()).filter(named).find(|&other| !same(&waits[other], &wait));
        let other = missing.unwrap_or(0);
        let waits_at = match waits[other] {
            Wait::Barrier(_, location) | Wait::Warp(_, _, _, location) => Some(location),
            Wait::Ready(_) | Wait::Spin | Wait::Ended => None,
        };
        let other = self.place_of((first + other) as u32);
        self.report(action.to_owned(), Kind::BarrierMissed { other, waits_at }, Some(location));
    }

    /// Adds the accesses of a warp to the counts, if counting.
    fn flush(&self, warp: usize) {
        if let Some(warp) = self.warps.borrow_mut().get_mut(warp) {
            warp.flush(&mut self.counts.borrow_mut());
        }
    }

    /// Notes an access, if counting.
    #[inline]
    pub(crate) fn count(&self, access: &Access, class: Class) {
        if self.common.counting {
            let site = sites::number(access.location);
            let thread = self.thread.get() as usize;
            self.warps.borrow_mut()[thread / 32].note(class, site, access.address, access.size);
        }
    }

    /// Waits for the end of all blocks with lower numbers; see [`Turns`].
    pub(crate) fn wait_for_earlier_blocks(&self) {
        if !self.is_first.replace(true) {
            self.common.turns.wait_for_earlier(self.block.get());
        }
    }

    /// Lets the other threads of the block run before this one continues.
    pub(crate) fn let_others_run(&self) {
        self.wait(Wait::Spin);
    }

    /// Ends the running thread after a defect that is reported already.
    pub(crate) fn end_thread(&self) -> ! {
        // Other threads may wait for this one in vain, which is no defect of its own.
        self.asserted.set(true);
        // This function calls no panic hook.
        resume_unwind(Box::new(Asserted))
    }

    /// Suspends the running fiber until its wait is over.
    fn wait(&self, wait: Wait) -> u32 {
        let yielder = self.yielders[self.thread.get() as usize].get();
        self.waits_for.set(wait);
        // SAFETY: only the running fiber calls this, and its yielder lives as long as the fiber.
        unsafe { &*yielder }.suspend(())
    }
}
