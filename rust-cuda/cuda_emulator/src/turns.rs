//! The order of blocks: they start in the order of their numbers, and atomic accesses make them wait for each other.
//!
//! Blocks run in parallel. From its first atomic access to global memory on, a block runs after all blocks with lower
//! numbers have ended. So the results of atomic operations depend on no host thread.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The blocks of a launch that have started and ended.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The next block to start.
    next: AtomicU64,
    ended: Mutex<Ended>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Ended {
    /// All blocks below this one have ended.
    below: u64,
    /// The others that have ended.
    others: BTreeSet<u64>,
}

/// A block that has started. It ends when this value is dropped, also by a panic: others wait for it.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    block: u64,
}

impl Turns {
    /// Starts the next of `blocks` blocks, if there is one.
    ///
    /// Blocks start in order, so the first one that has not ended is running and waits for no other.
    pub(crate) fn start(&self, blocks: u64) -> Option<Turn<'_>> {
        let block = self.next.fetch_add(1, Ordering::Relaxed);
        (block < blocks).then(|| Turn { turns: self, block })
    }

    /// Waits until all blocks with lower numbers have ended.
    pub(crate) fn wait_for_earlier(&self, block: u64) {
        let mut ended = self.lock();
        while ended.below < block {
            ended = self.changed.wait(ended).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    pub(crate) fn block(&self) -> u64 {
        self.block
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut ended = self.turns.lock();
        ended.others.insert(self.block);
        while ended.others.first() == Some(&ended.below) {
            ended.others.pop_first();
            ended.below += 1;
        }
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_waits_for_all_before_it() {
        let turns = Turns::default();
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(turn) = turns.start(100) {
                        turns.wait_for_earlier(turn.block());
                        order.lock().unwrap().push(turn.block());
                    }
                });
            }
        });
        assert!(order.into_inner().unwrap().into_iter().eq(0..100));
        assert_eq!(turns.lock().below, 100);
    }
}
