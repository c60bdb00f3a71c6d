//! The stacks of fibers, kept from one launch to the next: to map and to unmap a stack takes longer than most threads
//! run.

use std::sync::{Mutex, PoisonError};

use corosensei::stack::DefaultStack;

/// The size of a stack. The system provides a page when it is touched first, and kernels touch few.
pub(crate) const STACK_BYTES: usize = 128 * 1024;

/// The most stacks that are kept: 256 MiB of the address space, and 4,096 of the 65,530 mappings that Linux allows.
const MOST: usize = 2048;

/// The stacks that no fiber uses.
static IDLE: Mutex<Vec<DefaultStack>> = Mutex::new(Vec::new());

/// A stack.
///
/// # Errors
/// The system's error if it has no memory for a new one.
pub(crate) fn take() -> std::io::Result<DefaultStack> {
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    idle.map_or_else(|| DefaultStack::new(STACK_BYTES), Ok)
}

/// Keeps stacks, or unmaps those that are too many.
pub(crate) fn give_back(stacks: Vec<DefaultStack>) {
    let mut stacks = stacks.into_iter();
    {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = stacks.len().min(MOST.saturating_sub(idle.len()));
        // Without memory for their list they are unmapped, too.
        if idle.try_reserve(wanted).is_ok() {
            idle.extend(stacks.by_ref().take(wanted));
        }
    }
    // Without the lock.
    drop(stacks);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_stacks_are_kept_than_allowed() {
        let stacks: Vec<_> = (0..MOST + 5).map(|_| take().unwrap()).collect();
        give_back(stacks);
        // Other tests take and give back, too.
        assert!(IDLE.lock().unwrap().len() <= MOST);
    }
}
