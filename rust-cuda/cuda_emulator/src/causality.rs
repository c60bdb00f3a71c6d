//! The order that releases and acquires make between threads.
//!
//! A thread *knows* the accesses that are ordered before its next one: its own, and some of other threads. Accesses
//! that it knows do not race with its next one. Knowledge spreads in three ways:
//!
//! - An atomic write that releases stores the thread's knowledge at the element. An atomic read of the element that
//!   acquires adds this knowledge to that of its thread.
//! - A fence before a relaxed write makes the write release what the thread knew at the fence. A fence after a relaxed
//!   read makes the read acquire.
//! - A barrier joins the knowledge of all threads of the block, and `sync_warp` that of the warp.
//!
//! An atomic update of an element keeps the knowledge that earlier writes have stored there. A plain atomic store
//! replaces it.
//!
//! A `fence.sc` orders more: also a fence of one thread, a barrier, and then the write by another thread. The same
//! holds for a read, a barrier, and then the fence of another thread. The reason is the single order of all `fence.sc`.
//! If the second fence came first in it, the read would come before the write that it reads from.
//!
//! # Precision
//! - Knowledge of a thread holds until its next barrier. Accesses that it makes after the release and before the
//!   barrier count as released, too.
//! - A record of accesses by several blocks counts as known if the thread knows an access of every other block.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, TryReserveError};
use std::sync::{Arc, Mutex, PoisonError};

use cuda_std::atomic::{Ordering, Scope};
use cuda_std::executor::{AtomicAccess, AtomicKind, Space};

use crate::block::Runner;
use crate::host_memory::filled;
use crate::record::{Record, Who};

/// Accesses of other threads, by block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known(HashMap<u64, Part>);

/// The known accesses of a block: all before a barrier, and those of some threads between it and the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    /// The number of the barrier.
    epoch: u64,
    /// The threads, sorted.
    threads: Vec<u16>,
}

impl Known {
    fn add(&mut self, block: u64, part: &Part) {
        let mine = self.0.entry(block).or_insert_with(|| Part { epoch: part.epoch, threads: Vec::new() });
        if part.epoch > mine.epoch {
            mine.clone_from(part);
        } else if part.epoch == mine.epoch {
            for thread in &part.threads {
                if let Err(place) = mine.threads.binary_search(thread) {
                    mine.threads.insert(place, *thread);
                }
            }
        }
    }
}

/// Adds `other` to `mine`. If both are the same, or one of them is empty, nothing is copied.
fn join(mine: &mut Arc<Known>, other: &Arc<Known>) {
    if mine.0.is_empty() {
        *mine = Arc::clone(other);
    } else if !Arc::ptr_eq(mine, other) && !other.0.is_empty() {
        let mine = Arc::make_mut(mine);
        other.0.iter().for_each(|(block, part)| mine.add(*block, part));
    }
}

/// What a fence or an element passes on: to the threads of one block, and to all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Released {
    in_block: Arc<Known>,
    everywhere: Arc<Known>,
}

/// What an element passes on.
#[derive(Debug, Default)]
struct Element {
    released: Released,
    /// The block to which `in_block` belongs.
    block: u64,
    /// What it passes on from one `fence.sc` to another one.
    sequential: Released,
}

/// What the elements of one memory pass on, by address.
#[derive(Debug, Default)]
pub(crate) struct Elements(HashMap<u64, Element>);

/// The knowledge of one thread.
#[derive(Clone, Debug, Default)]
struct Thread {
    known: Arc<Known>,
    /// What it knew at its last fence.
    fenced: Released,
    /// What it has read and not acquired yet.
    read: Released,
    /// What was known at a `fence.sc`: at the last one of this thread, and at those of other threads that a barrier
    /// orders before.
    sequential_fenced: Released,
    /// What the next `fence.sc` of this thread acquires: the reads of this thread, and those of other threads that a
    /// barrier orders before.
    sequential_read: Released,
}

impl Released {
    fn join(&mut self, other: &Self) {
        join(&mut self.in_block, &other.in_block);
        join(&mut self.everywhere, &other.everywhere);
    }
}

/// The knowledge of the threads of a block.
#[derive(Debug)]
pub(crate) struct Causality {
    threads: RefCell<Box<[Thread]>>,
    shared: RefCell<Elements>,
    /// Whether a thread of the block has passed a fence, or released or acquired anything.
    is_used: Cell<bool>,
}

impl Causality {
    /// The size of the state of a thread that knows nothing yet.
    pub(crate) const BYTES_PER_THREAD: usize = size_of::<Thread>();

    pub(crate) fn new(threads: usize) -> Result<Self, TryReserveError> {
        let nothing = Thread::default();
        let threads = RefCell::new(filled(threads, || nothing.clone())?);
        Ok(Self { threads, shared: RefCell::default(), is_used: Cell::new(false) })
    }

    pub(crate) fn begin_block(&self) {
        if self.is_used.replace(false) {
            self.threads.borrow_mut().fill(Thread::default());
            self.shared.take();
        }
    }

    /// Lets threads know each other's accesses so far, at a `sync_warp` of some lanes.
    ///
    /// A `sync_warp` of a whole warp does not need this: [`Shared`](crate::shared::Shared) notes its time.
    pub(crate) fn meet(&self, together: impl Iterator<Item = usize> + Clone, block: u64, epoch: u64) {
        self.is_used.set(true);
        let part = Part { epoch, threads: together.clone().map(|thread| thread as u16).collect() };
        for thread in together.clone() {
            Arc::make_mut(&mut self.threads.borrow_mut()[thread].known).add(block, &part);
        }
        self.join(together);
    }

    /// Joins the knowledge of threads at a barrier or a `sync_warp`.
    pub(crate) fn join(&self, together: impl Iterator<Item = usize> + Clone) {
        if !self.is_used.get() {
            return;
        }
        let threads = &mut self.threads.borrow_mut();
        let mut all = Thread::default();
        for thread in together.clone().map(|thread| &threads[thread]) {
            join(&mut all.known, &thread.known);
            all.sequential_fenced.join(&thread.sequential_fenced);
            all.sequential_read.join(&thread.sequential_read);
        }
        for thread in together {
            let Thread { known, sequential_fenced, sequential_read, .. } = all.clone();
            let thread = &mut threads[thread];
            (thread.known, thread.sequential_fenced, thread.sequential_read) =
                (known, sequential_fenced, sequential_read);
        }
    }
}

impl Runner<'_> {
    /// Orders the accesses of the running thread before a fence before those after it.
    pub(crate) fn execute_fence(&self, order: Ordering, scope: Scope) {
        self.causality.is_used.set(true);
        let snapshot = self.released();
        let mut threads = self.causality.threads.borrow_mut();
        let thread = &mut threads[self.thread.get() as usize];
        let mut fence = |fenced: &mut Released, read: &Released| {
            fenced.in_block = Arc::clone(&snapshot);
            join(&mut thread.known, &read.in_block);
            if scope != Scope::Block {
                fenced.everywhere = Arc::clone(&snapshot);
                join(&mut thread.known, &read.everywhere);
            }
        };
        fence(&mut thread.fenced, &thread.read);
        if order == Ordering::SeqCst {
            fence(&mut thread.sequential_fenced, &thread.sequential_read);
        }
        drop(threads);
        self.orders_changed();
    }

    /// Executes the release and the acquire of an atomic operation. `wrote` says whether it wrote.
    pub(crate) fn execute_order(&self, operation: &AtomicAccess, wrote: bool) {
        let releases = wrote && matches!(operation.order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst);
        let acquires = operation.kind != AtomicKind::Store
            && matches!(operation.order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst);
        if releases || acquires {
            self.causality.is_used.set(true);
        }
        let address = operation.access.address;
        if operation.access.space == Space::Shared {
            let elements = &mut self.causality.shared.borrow_mut();
            self.order_by(elements, address, operation, (wrote, releases, acquires));
        } else {
            let mut elements = self.common.elements.lock().unwrap_or_else(PoisonError::into_inner);
            self.order_by(&mut elements, address, operation, (wrote, releases, acquires));
        }
        if acquires {
            self.orders_changed();
        }
    }

    fn order_by(
        &self,
        elements: &mut Elements,
        address: u64,
        operation: &AtomicAccess,
        (wrote, releases, acquires): (bool, bool, bool),
    ) {
        if elements.0.is_empty() && !self.causality.is_used.get() {
            return;
        }
        let snapshot = if releases { self.released() } else { Arc::default() };
        let thread = &mut self.causality.threads.borrow_mut()[self.thread.get() as usize];
        let element = elements.0.entry(address).or_default();
        if element.block != self.block.get() {
            (element.block, element.released.in_block) = (self.block.get(), Arc::default());
            element.sequential.in_block = Arc::default();
        }
        let is_wide = operation.scope != Scope::Block;
        let seen = |released: &Released| Released {
            in_block: Arc::clone(&released.in_block),
            everywhere: if is_wide { Arc::clone(&released.everywhere) } else { Arc::default() },
        };
        let (found, sequential) = (seen(&element.released), seen(&element.sequential));
        if wrote {
            if operation.kind == AtomicKind::Store {
                (element.released, element.sequential) = Default::default();
            }
            join(&mut element.released.in_block, &snapshot);
            element.released.join(&seen(&thread.fenced));
            if is_wide {
                join(&mut element.released.everywhere, &snapshot);
            }
            element.sequential.join(&seen(&thread.sequential_fenced));
        }
        if operation.kind == AtomicKind::Store {
            return;
        }
        thread.sequential_read.join(&sequential);
        if acquires {
            join(&mut thread.known, &found.in_block);
            join(&mut thread.known, &found.everywhere);
        } else {
            thread.read.join(&found);
        }
    }

    /// What the running thread passes on by a release now.
    fn released(&self) -> Arc<Known> {
        let thread = self.thread.get();
        let mut known = Arc::clone(&self.causality.threads.borrow()[thread as usize].known);
        let own = Part { epoch: self.barriers.get(), threads: vec![thread as u16] };
        Arc::make_mut(&mut known).add(self.block.get(), &own);
        known
    }

    /// Whether an earlier access to global memory is ordered before the running thread by releases and acquires.
    #[inline]
    pub(crate) fn knows(&self, before: Record) -> bool {
        if !self.causality.is_used.get() {
            return false;
        }
        let threads = &self.causality.threads.borrow();
        let known = &threads[self.thread.get() as usize].known;
        let launch = self.common.launch;
        let covers = |block: u64, thread: Option<u16>| {
            known.0.get(&block).is_some_and(|part| {
                // A record holds 12 bits of the number of barriers.
                match part.epoch.wrapping_sub(before.epoch.into()) % 4096 {
                    0 => thread.map_or(part.threads.len() as u64 == launch.threads(), |thread| {
                        part.threads.binary_search(&thread).is_ok()
                    }),
                    distance => distance < 2048,
                }
            })
        };
        match before.who {
            Who::Nobody => false,
            Who::Thread(thread) => covers(thread / launch.threads(), Some((thread % launch.threads()) as u16)),
            Who::Block(block) => covers(block, None),
            Who::Blocks => {
                let own = u64::from(known.0.contains_key(&self.block.get()));
                known.0.len() as u64 - own == launch.blocks() - 1
            }
        }
    }

    /// Tells shared memory which threads of the block are ordered before the running one since the last barrier.
    #[inline]
    pub(crate) fn orders_changed(&self) {
        if !self.causality.is_used.get() {
            return;
        }
        let threads = &self.causality.threads.borrow();
        let part = threads[self.thread.get() as usize].known.0.get(&self.block.get());
        let ordered = part.filter(|part| part.epoch == self.barriers.get()).map_or(&[][..], |part| &part.threads);
        self.shared.borrow_mut().set_ordered(ordered);
    }
}

/// The elements of global memory, which all blocks share.
pub(crate) type GlobalElements = Mutex<Elements>;
