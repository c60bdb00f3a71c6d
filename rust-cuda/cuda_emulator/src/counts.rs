//! The counts of a profiler, computed from the addresses. [`warp`](crate::warp) groups accesses by warp instruction.
//!
//! | count | rule |
//! | --- | --- |
//! | global sectors | the different 32-byte sectors that a warp instruction accesses |
//! | shared wavefronts | the most different 4-byte words in one of the 32 banks; see below |
//! | bank conflicts | the wavefronts beyond those that the size of the access needs |
//! | atomics on shared memory | the most lanes that access one of the 32 banks |
//! | constant replays | the different addresses of a warp's constant read beyond the first |
//!
//! A shared access of 8 bytes is served for half of the warp at a time, one of 16 bytes for a quarter. An asynchronous
//! copy counts as a global load and a shared store. One with zero fill counts as accesses of single bytes.

use std::fmt;
use std::ops::AddAssign;

/// Accesses of one kind to one memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The number of accesses by threads.
    pub threads: u64,
    /// The number of warp instructions.
    pub instructions: u64,
    /// The number of sectors (global), wavefronts (shared), or different addresses (constant).
    pub transactions: u64,
    /// The number of transactions that the bytes need at least.
    pub ideal: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.threads += other.threads;
        self.instructions += other.instructions;
        self.transactions += other.transactions;
        self.ideal += other.ideal;
    }
}

impl Traffic {
    /// `ideal / transactions`. 1 is perfectly coalesced, or without conflicts.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        if self.transactions == 0 { 1.0 } else { self.ideal as f64 / self.transactions as f64 }
    }
}

/// The counts of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Loads from global memory.
    pub global_loads: Traffic,
    /// Stores to global memory.
    pub global_stores: Traffic,
    /// Loads from shared memory.
    pub shared_loads: Traffic,
    /// Stores to shared memory.
    pub shared_stores: Traffic,
    /// Loads from constant memory.
    pub constant_loads: Traffic,
    /// Atomic accesses to global memory.
    pub global_atomics: Traffic,
    /// Atomic accesses to shared memory. Lanes that access one word count one after the other.
    pub shared_atomics: Traffic,
    /// Barriers, counted once for each warp.
    pub barriers: u64,
    /// The number of threads of the launch.
    pub threads: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.global_loads += other.global_loads;
        self.global_stores += other.global_stores;
        self.shared_loads += other.shared_loads;
        self.shared_stores += other.shared_stores;
        self.constant_loads += other.constant_loads;
        self.global_atomics += other.global_atomics;
        self.shared_atomics += other.shared_atomics;
        self.barriers += other.barriers;
        self.threads += other.threads;
    }
}

impl Counts {
    /// The shared wavefronts beyond those that the size of the accesses needs.
    #[must_use]
    pub fn bank_conflicts(&self) -> u64 {
        (self.shared_loads.transactions - self.shared_loads.ideal)
            + (self.shared_stores.transactions - self.shared_stores.ideal)
    }
}

/// One line for each kind of access that occurred, then the barriers.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            ("global loads", "sectors", self.global_loads),
            ("global stores", "sectors", self.global_stores),
            ("shared loads", "wavefronts", self.shared_loads),
            ("shared stores", "wavefronts", self.shared_stores),
            ("constant loads", "addresses", self.constant_loads),
            ("global atomics", "sectors", self.global_atomics),
            ("shared atomics", "wavefronts", self.shared_atomics),
        ];
        for (kind, unit, traffic) in kinds.into_iter().filter(|(_, _, traffic)| traffic.instructions > 0) {
            let Traffic { threads, instructions, transactions, ideal } = traffic;
            writeln!(
                f,
                "{kind:<14}  {threads} by threads, {instructions} by warps: {transactions} {unit}, {ideal} at best"
            )?;
        }
        write!(f, "{:<14}  {} by warps, {} threads", "barriers", self.barriers, self.threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_counts() {
        let traffic =
            |threads, instructions, transactions, ideal| Traffic { threads, instructions, transactions, ideal };
        let counts = Counts {
            global_loads: traffic(36, 8, 9, 8),
            shared_stores: traffic(32, 1, 2, 1),
            barriers: 3,
            threads: 32,
            ..Counts::default()
        };
        assert_eq!(
            counts.to_string(),
            "global loads    36 by threads, 8 by warps: 9 sectors, 8 at best\n\
             shared stores   32 by threads, 1 by warps: 2 wavefronts, 1 at best\n\
             barriers        3 by warps, 32 threads"
        );
    }
}
