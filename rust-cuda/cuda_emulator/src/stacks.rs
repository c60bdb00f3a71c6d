//! The stacks of fibers. They are kept from one launch to the next, because to map and unmap a stack takes longer than
//! most threads run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use corosensei::stack::{DefaultStack, Stack, StackPointer};

use crate::host_memory::has_room;

/// The size of a stack, if the program sets none. The system provides each page at the first access, and kernels
/// access few.
pub(crate) const STACK_BYTES: usize = 128 * 1024;

/// The most stacks that are kept. They take 256 MiB of the address space, and 4,096 of the 65,530 mappings that Linux
/// allows.
const MOST: usize = 2048;

/// The stacks that no fiber uses, by their size.
static IDLE: Mutex<BTreeMap<usize, Vec<FiberStack>>> = Mutex::new(BTreeMap::new());

/// The distances from the end of a page to the first byte of a stack repeat after this many.
const PAGE_BYTES: usize = 4096;
/// The difference of the distances of two stacks: an odd number of cache lines.
const STEP: usize = 9 * 64;

/// A stack that begins within a page. If all began at the end of one, the lines that fibers use would fall into a few
/// sets of the cache and evict each other.
pub(crate) struct FiberStack {
    mapping: DefaultStack,
    /// The bytes between the end of the mapping and the first byte of the stack.
    unused: usize,
}

impl FiberStack {
    fn new(bytes: usize) -> std::io::Result<Self> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let unused = MADE.fetch_add(STEP, Ordering::Relaxed) % PAGE_BYTES;
        Ok(Self { mapping: DefaultStack::new(bytes.saturating_add(PAGE_BYTES))?, unused })
    }
}

// SAFETY: the mapping has a guard page at its end, which is this stack's, too. Without the unused bytes, fewer than
// `PAGE_BYTES`, at least the bytes that were asked for are left. `unused` is a multiple of a stack's alignment.
unsafe impl Stack for FiberStack {
    fn base(&self) -> StackPointer {
        let base = self.mapping.base().get() - self.unused;
        StackPointer::new(base).expect("an address within a mapping")
    }

    fn limit(&self) -> StackPointer {
        self.mapping.limit()
    }

    #[cfg(windows)]
    fn teb_fields(&self) -> corosensei::stack::StackTebFields {
        self.mapping.teb_fields()
    }

    #[cfg(windows)]
    fn update_teb_fields(&mut self, stack_limit: usize, guaranteed_stack_bytes: usize) {
        self.mapping.update_teb_fields(stack_limit, guaranteed_stack_bytes);
    }
}

/// A stack of this size.
///
/// # Errors
/// The system's error if it can't map a new stack. `OutOfMemory` if little memory would be left.
pub(crate) fn take(bytes: usize) -> std::io::Result<FiberStack> {
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&bytes).and_then(Vec::pop);
    match idle {
        Some(stack) => Ok(stack),
        None if has_room(bytes) => FiberStack::new(bytes),
        None => Err(std::io::ErrorKind::OutOfMemory.into()),
    }
}

/// Keeps stacks of this size. It unmaps those above [`MOST`], or all if the host has too little memory for their list.
pub(crate) fn give_back(bytes: usize, mut stacks: Vec<FiberStack>) {
    let mut all = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let kept: usize = all.values().map(Vec::len).sum();
    let wanted = stacks.len().min(MOST.saturating_sub(kept));
    let idle = all.entry(bytes).or_default();
    if idle.try_reserve(wanted).is_ok() {
        idle.extend(stacks.drain(..wanted));
    }
    // Other threads need not wait while the rest is unmapped.
    drop(all);
    drop(stacks);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_stacks_are_kept_than_allowed() {
        for bytes in [STACK_BYTES, 2 * STACK_BYTES] {
            let stacks: Vec<_> = (0..MOST + 5).map(|_| take(bytes).unwrap()).collect();
            give_back(bytes, stacks);
            // Other tests take and give back, too.
            assert!(IDLE.lock().unwrap().values().map(Vec::len).sum::<usize>() <= MOST);
        }
    }
}
