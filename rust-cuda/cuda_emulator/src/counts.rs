//! What a profiler would count, computed from the addresses. [`warp`](crate::warp) puts the accesses of threads together.
//!
//! | count | rule |
//! | --- | --- |
//! | global sectors | the different 32-byte pieces of memory that a warp instruction touches |
//! | shared wavefronts | the most different words that fall into one of 32 banks of 4 bytes; a 16-byte access is made by a quarter of the warp at a time, an 8-byte access by half of it |
//! | bank conflicts | the wavefronts beyond those that the size of the access asks for |
//! | constant replays | the different addresses of a warp's constant read beyond the first |

use std::fmt;
use std::ops::AddAssign;

/// Accesses of one kind to one memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Accesses of single threads.
    pub threads: u64,
    /// Warp instructions.
    pub instructions: u64,
    /// Sectors (global), wavefronts (shared), or different addresses (constant).
    pub transactions: u64,
    /// The transactions that the bytes alone would take.
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
    /// The share of the transactions that the bytes alone would take: 1 is perfectly coalesced, or free of conflicts.
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
    /// Barriers, once for each warp.
    pub barriers: u64,
    /// Threads of the launch.
    pub threads: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.global_loads += other.global_loads;
        self.global_stores += other.global_stores;
        self.shared_loads += other.shared_loads;
        self.shared_stores += other.shared_stores;
        self.constant_loads += other.constant_loads;
        self.barriers += other.barriers;
        self.threads += other.threads;
    }
}

impl Counts {
    /// Shared wavefronts beyond those that the accesses' size asks for.
    #[must_use]
    pub fn bank_conflicts(&self) -> u64 {
        (self.shared_loads.transactions - self.shared_loads.ideal)
            + (self.shared_stores.transactions - self.shared_stores.ideal)
    }
}

/// A line for each kind of access that there was, then the barriers.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            ("global loads", "sectors", self.global_loads),
            ("global stores", "sectors", self.global_stores),
            ("shared loads", "wavefronts", self.shared_loads),
            ("shared stores", "wavefronts", self.shared_stores),
            ("constant loads", "addresses", self.constant_loads),
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
    fn counts_can_be_read() {
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
