//! Atomic operations: the value, the checks, and threads that wait for others in a loop.

use std::sync::atomic::{AtomicU64, Ordering};

use cuda_std::atomic::Scope;
use cuda_std::executor::{Access, AtomicAccess, AtomicKind, Space};

use crate::block::Runner;
use crate::check::{described, elements};
use crate::defect::Kind;
use crate::record::{Record, Who};
use crate::sites;
use crate::warp::Class;

/// The number of operations after which a thread lets others run, if none of them changed the element.
///
/// Most kernels have no such loops, and counting groups the accesses of a thread that is not interrupted.
const SPINS: u32 = 16;

/// A thread's last atomic operation, and the number of operations on this element since one changed it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spin {
    last: Option<AtomicAccess>,
    times: u32,
    /// Whether it was a plain load, which the thread has repeated very often.
    plain: bool,
}

/// The number of loads of one element in sequence after which a thread is taken to wait for a change of it.
///
/// No useful kernel loads an element as often without any other access, and the emulator takes about a second for it.
pub(crate) const MOST_LOADS: u32 = 1 << 24;

/// The same number for the other threads of the block, while such a thread waits and nothing changes.
const LOADS_BESIDE: u32 = 1 << 10;

/// The loads of one element in sequence by the running thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loads {
    /// The address, and whether it is in shared memory.
    element: (u64, bool),
    times: u32,
}

impl Runner<'_> {
    /// Executes an atomic operation. Returns the old value, the high bits 0.
    pub(crate) fn execute_atomic(&self, operation: &AtomicAccess, function: &mut dyn FnMut(u64) -> Option<u64>) -> u64 {
        if operation.order == Ordering::SeqCst {
            self.execute_fence(Ordering::SeqCst, operation.scope);
        }
        let (mut changed, mut wrote) = (false, false);
        let mut function = |old| {
            let new = function(old);
            (changed, wrote) = (new.is_some_and(|new| new != old), new.is_some());
            new
        };
        let old = if operation.access.space == Space::Shared {
            self.atomic_in_shared(operation, &mut function)
        } else {
            self.atomic_in_global(operation, &mut function)
        };
        self.execute_order(operation, wrote);
        self.spin(operation, changed);
        old
    }

    fn atomic_in_shared(&self, operation: &AtomicAccess, function: &mut dyn FnMut(u64) -> Option<u64>) -> u64 {
        let AtomicAccess { access, kind, .. } = *operation;
        self.count(&access, Class::SharedAtomic);
        let Some(at) = self.inside_shared(access.address, access.size, verb(kind), access.location) else {
            return u64::MAX;
        };
        let who = (self.thread.get() as u16, sites::number(access.location));
        let (old, result) = self.shared.borrow_mut().update(at, access.size as usize, kind, function, who);
        self.report_shared(access.address, access.size, verb(kind), access.location, result);
        old
    }

    fn atomic_in_global(&self, operation: &AtomicAccess, function: &mut dyn FnMut(u64) -> Option<u64>) -> u64 {
        let AtomicAccess { access, kind, scope, .. } = *operation;
        self.count(&access, Class::GlobalAtomic);
        self.wait_for_earlier_blocks();
        let Some((allocation, offset)) = self.locate(&access, access.size, verb(kind)) else { return u64::MAX };
        let atomics = match allocation.atomics_to_note() {
            Ok(atomics) => atomics,
            Err(short) => {
                self.give_up(short);
                return u64::MAX;
            }
        };
        let in_block = scope == Scope::Block;
        let me = Record { in_block, ..self.record(access.location) };
        for element in elements(allocation, offset, access.size) {
            // These are the records before this access, because blocks execute atomic accesses one after the other.
            let load = |records: &[AtomicU64]| Record::unpack(records[element].load(Ordering::SeqCst));
            let (atomic_write, atomic_read) = (load(&atomics.writes), load(&atomics.reads));
            // The access is noted before the plain ones are looked up; see `record`.
            let mine = if kind == AtomicKind::Load { &atomics.reads } else { &atomics.writes };
            self.note(&mine[element], me);
            let (write, read) = (load(&allocation.writes), load(&allocation.reads));
            let unwritten = write.who == Who::Nobody
                && atomic_write.who == Who::Nobody
                && allocation.known[element].load(Ordering::Relaxed) == 0;
            let kind = if unwritten && kind != AtomicKind::Store {
                Kind::Uninitialised
            } else if self.conflicts(write) {
                Kind::Race { before: self.before(write, true) }
            } else if kind != AtomicKind::Load && self.conflicts(read) {
                Kind::Race { before: self.before(read, false) }
            } else if self.out_of_scope(atomic_write, in_block) {
                Kind::Scope { before: self.before_atomic(atomic_write, true) }
            } else if kind != AtomicKind::Load && self.out_of_scope(atomic_read, in_block) {
                Kind::Scope { before: self.before_atomic(atomic_read, false) }
            } else {
                continue;
            };
            self.report(described(verb(operation.kind), &access, allocation, offset), kind, Some(access.location));
        }
        allocation.update(offset, access.size, function)
    }

    /// Lets other threads of the block run if this one waits for a change of an element in a loop.
    fn spin(&self, operation: &AtomicAccess, changed: bool) {
        let cell = &self.spins[self.thread.get() as usize];
        let same = |last: AtomicAccess| {
            (last.access.space, last.access.address) == (operation.access.space, operation.access.address)
        };
        let Spin { last, times, plain } = cell.get();
        let times = if changed || plain || !last.is_some_and(same) { 0 } else { times + 1 };
        cell.set(Spin { last: Some(*operation), times, plain: false });
        if changed {
            self.progress.set(true);
        }
        if times >= SPINS {
            cell.set(Spin { last: Some(*operation), times: SPINS, plain: false });
            self.let_others_run();
        }
    }

    /// Counts the loads of one element in sequence. After very many of them other threads of the block run.
    #[inline]
    pub(crate) fn count_loads(&self, access: &Access) {
        let element = (access.address, access.space == Space::Shared);
        let loads = self.loads.get();
        let times = if loads.element == element { loads.times.saturating_add(1) } else { 0 };
        self.loads.set(Loads { element, times });
        if times >= self.most_loads.get() {
            self.wait_for_change(access);
        }
    }

    /// Lets other threads run while the running thread loads the same element again and again.
    #[cold]
    fn wait_for_change(&self, access: &Access) {
        let loads = self.loads.get();
        if access.space == Space::Global {
            self.wait_for_earlier_blocks();
        }
        self.most_loads.set(LOADS_BESIDE);
        let (order, scope, kind) = (cuda_std::atomic::Ordering::Relaxed, Scope::Block, AtomicKind::Load);
        let last = Some(AtomicAccess { access: *access, kind, order, scope });
        self.spins[self.thread.get() as usize].set(Spin { last, times: 0, plain: true });
        self.let_others_run();
        // Other threads have counted their loads meanwhile.
        self.loads.set(loads);
    }

    /// Reports that a thread waits in a loop for a change that does not come.
    pub(crate) fn report_stuck(&self, thread: usize) {
        self.thread.set(thread as u32);
        let Spin { last: Some(AtomicAccess { access, kind, .. }), plain, .. } = self.spins[thread].get() else {
            return;
        };
        let verb = if plain { "read" } else { verb(kind) };
        let action = if access.space == Space::Shared {
            Some(self.shared_action(verb, access.address, access.size))
        } else {
            let located = self.locate(&access, access.size, verb);
            located.map(|(allocation, offset)| described(verb, &access, allocation, offset))
        };
        // An access that is out of bounds was reported when it was made.
        if let Some(action) = action {
            self.report(action, Kind::Stuck, Some(access.location));
            if plain {
                self.common.found.stop();
            }
        }
    }
}

/// The word of reports for an atomic operation.
fn verb(kind: AtomicKind) -> &'static str {
    match kind {
        AtomicKind::Load => "atomic read",
        AtomicKind::Store => "atomic write",
        AtomicKind::Update => "atomic update",
    }
}
