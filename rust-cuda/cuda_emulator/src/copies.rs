//! The asynchronous copies of one thread, from issue to completion.
//!
//! A copy reads its source when it is issued. Its bytes arrive in shared memory when the thread waits for its group.
//! Until then the destination is in flight: [`Shared`](crate::shared::Shared) reports every access to it.

use std::collections::VecDeque;

use crate::sites::Site;

/// One copy that is in flight.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    /// The destination's first byte in shared memory.
    pub(crate) to: u32,
    /// Bytes of the destination, at most 16.
    pub(crate) size: u32,
    pub(crate) bytes: [u8; 16],
    /// None if no byte is read, or if the source is not valid.
    pub(crate) source: Option<Source>,
    /// The line that issued the copy.
    pub(crate) site: Site,
}

/// The source of a copy, as it was at issue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) address: u64,
    pub(crate) size: u32,
    /// A hash of the records of the last writes; see
    /// [`Allocation::last_writes`](crate::allocation::Allocation::last_writes).
    pub(crate) last_writes: u64,
}

/// The copies of one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    /// In flight, in the order of issue, each with the number of its group.
    in_flight: VecDeque<(u64, Copy)>,
    /// The groups that were committed, and so the number of the open one.
    committed: u64,
}

impl Copies {
    /// Adds a copy to the open group.
    pub(crate) fn issue(&mut self, copy: Copy) {
        self.in_flight.push_back((self.committed, copy));
    }

    /// Ends the open group.
    pub(crate) fn commit_group(&mut self) {
        self.committed += 1;
    }

    /// The oldest copy that is complete after a wait for all but the last `pending` groups.
    pub(crate) fn complete(&mut self, pending: u32) -> Option<Copy> {
        let &(group, _) = self.in_flight.front()?;
        let complete = group + u64::from(pending) < self.committed;
        if complete { self.in_flight.pop_front().map(|(_, copy)| copy) } else { None }
    }

    /// Removes all copies, whether they are in a group or not.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = Copy> + '_ {
        self.committed = 0;
        self.in_flight.drain(..).map(|(_, copy)| copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(to: u32) -> Copy {
        Copy { to, size: 4, bytes: [0; 16], source: None, site: 0 }
    }

    /// Destinations of the copies that a wait completes.
    fn completed(copies: &mut Copies, pending: u32) -> Vec<u32> {
        std::iter::from_fn(|| copies.complete(pending)).map(|copy| copy.to).collect()
    }

    #[test]
    fn a_wait_completes_all_but_the_last_groups() {
        let mut copies = Copies::default();
        for group in 0..4 {
            copies.issue(copy(group));
            copies.issue(copy(10 + group));
            copies.commit_group();
        }
        assert_eq!(completed(&mut copies, 4), [0; 0]);
        assert_eq!(completed(&mut copies, 3), [0, 10]);
        assert_eq!(completed(&mut copies, 1), [1, 11, 2, 12]);
        assert_eq!(completed(&mut copies, 0), [3, 13]);
    }

    #[test]
    fn an_open_group_is_not_waited_for_and_an_empty_one_counts() {
        let mut copies = Copies::default();
        copies.issue(copy(0));
        assert_eq!(completed(&mut copies, 0), [0; 0]);
        copies.commit_group();
        copies.commit_group();
        assert_eq!(completed(&mut copies, 1), [0]);
        copies.issue(copy(1));
        assert_eq!(copies.abandon().count(), 1);
        copies.commit_group();
        assert_eq!(completed(&mut copies, 0), [0; 0]);
    }
}
