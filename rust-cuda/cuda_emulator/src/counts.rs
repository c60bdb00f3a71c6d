//! What a profiler would count, computed from the addresses.
//!
//! The accesses of a warp's 32 threads are put together as the hardware does it: the n-th execution of one line of the kernel
//! by each thread makes one warp instruction.
//!
//! | count | rule |
//! | --- | --- |
//! | global sectors | the different 32-byte pieces of memory that a warp instruction touches |
//! | shared wavefronts | the most different words that fall into one of 32 banks of 4 bytes; a 16-byte access is made by a quarter of the warp at a time, an 8-byte access by half of it |
//! | bank conflicts | the wavefronts beyond those that the size of the access asks for |
//! | constant replays | the different addresses of a warp's constant read beyond the first |

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

/// Which count an access belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    GlobalLoad,
    GlobalStore,
    SharedLoad,
    SharedStore,
    ConstantLoad,
}

/// One warp instruction: what each lane accesses.
#[derive(Clone, Debug)]
struct Row {
    class: Class,
    size: u32,
    lanes: u32,
    addresses: [u64; 32],
}

/// The accesses of one warp since the last flush.
#[derive(Debug, Default)]
pub(crate) struct Warp {
    /// By line, then by how often the line had been executed before.
    rows: Vec<Vec<Row>>,
    /// Per line, how often the current lane has executed it.
    times: Vec<u32>,
    lane: u32,
}

impl Warp {
    /// The next accesses are of this lane, from the start of a barrier interval on.
    pub(crate) fn begin_lane(&mut self, lane: u32) {
        self.lane = lane;
        self.times.fill(0);
    }

    /// Notes an access of the current lane.
    pub(crate) fn note(&mut self, class: Class, site: u16, address: u64, size: u32) {
        let site = usize::from(site);
        if site >= self.rows.len() {
            self.rows.resize_with(site + 1, Vec::new);
            self.times.resize(site + 1, 0);
        }
        let time = self.times[site] as usize;
        self.times[site] += 1;
        let rows = &mut self.rows[site];
        if time == rows.len() {
            rows.push(Row { class, size, lanes: 0, addresses: [0; 32] });
        }
        let row = &mut rows[time];
        row.lanes |= 1 << self.lane;
        row.addresses[self.lane as usize] = address;
    }

    /// Counts what was noted, and forgets it.
    pub(crate) fn flush(&mut self, counts: &mut Counts) {
        for rows in &mut self.rows {
            for row in rows.drain(..) {
                let traffic = row.traffic();
                match row.class {
                    Class::GlobalLoad => counts.global_loads += traffic,
                    Class::GlobalStore => counts.global_stores += traffic,
                    Class::SharedLoad => counts.shared_loads += traffic,
                    Class::SharedStore => counts.shared_stores += traffic,
                    Class::ConstantLoad => counts.constant_loads += traffic,
                }
            }
        }
    }
}

impl Row {
    /// The addresses of the lanes that take part.
    fn active(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        (0..32).filter(|lane| self.lanes >> lane & 1 == 1).map(|lane| (lane, self.addresses[lane]))
    }

    fn traffic(&self) -> Traffic {
        let threads = u64::from(self.lanes.count_ones());
        let (transactions, ideal) = match self.class {
            Class::GlobalLoad | Class::GlobalStore => self.sectors(),
            Class::SharedLoad | Class::SharedStore => self.wavefronts(),
            Class::ConstantLoad => (different(self.active().map(|(_, address)| address)), 1),
        };
        Traffic { threads, instructions: 1, transactions, ideal }
    }

    /// The 32-byte sectors touched, and how many the different bytes would fill.
    fn sectors(&self) -> (u64, u64) {
        let size = u64::from(self.size);
        let sectors = different(self.active().map(|(_, address)| address / 32));
        let bytes = different(self.active().map(|(_, address)| address)) * size;
        (sectors, bytes.div_ceil(32))
    }

    /// The passes through the 32 banks, and how many the size of the access asks for.
    fn wavefronts(&self) -> (u64, u64) {
        let words = (self.size / 4).max(1) as usize;
        // 4-byte accesses are served for the whole warp, 8-byte for half of it, 16-byte for a quarter at a time.
        let group = 32 / words;
        let (mut passes, mut ideal) = (0, 0);
        for first in (0..32).step_by(group) {
            let mut banks: [Vec<u64>; 32] = Default::default();
            let members = self.active().filter(|(lane, _)| (first..first + group).contains(lane));
            for word in members.flat_map(|(_, address)| (0..words as u64).map(move |word| address / 4 + word)) {
                banks[(word % 32) as usize].push(word);
            }
            let most = banks.into_iter().map(|bank| different(bank.into_iter())).max().unwrap_or(0);
            passes += most;
            ideal += u64::from(most > 0);
        }
        (passes, ideal)
    }
}

/// How many different values there are.
fn different(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    values.dedup();
    values.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The traffic of one warp instruction in which lane `l` accesses `address(l)`.
    fn one(class: Class, size: u32, lanes: std::ops::Range<u32>, address: impl Fn(u64) -> u64) -> Traffic {
        let mut warp = Warp::default();
        for lane in lanes {
            warp.begin_lane(lane);
            warp.note(class, 3, address(u64::from(lane)), size);
        }
        let mut counts = Counts::default();
        warp.flush(&mut counts);
        [counts.global_loads, counts.global_stores, counts.shared_loads, counts.shared_stores, counts.constant_loads]
            .into_iter()
            .max_by_key(|traffic| traffic.instructions)
            .unwrap()
    }

    #[test]
    fn global_sectors() {
        let sectors = |address: fn(u64) -> u64| one(Class::GlobalLoad, 4, 0..32, address);
        assert_eq!(sectors(|lane| 4096 + 4 * lane).transactions, 4);
        assert_eq!(sectors(|lane| 4096 + 4 + 4 * lane).transactions, 5); // not aligned to a sector
        assert_eq!(sectors(|_| 4096).transactions, 1);
        assert_eq!(sectors(|lane| 4096 + 128 * lane).transactions, 32);
        assert_eq!(sectors(|lane| 4096 + 128 * lane).ideal, 4);
        assert_eq!(one(Class::GlobalStore, 16, 0..32, |lane| 16 * lane).transactions, 16);
        assert_eq!(one(Class::GlobalLoad, 4, 0..2, |lane| 4 * lane).transactions, 1);
    }

    #[test]
    fn shared_wavefronts() {
        let passes = |size, address: fn(u64) -> u64| one(Class::SharedLoad, size, 0..32, address);
        assert_eq!(passes(4, |lane| 4 * lane).transactions, 1);
        assert_eq!(passes(4, |_| 64).transactions, 1); // one word for all: a broadcast
        assert_eq!(passes(4, |lane| 8 * lane).transactions, 2);
        assert_eq!(passes(4, |lane| 128 * lane).transactions, 32);
        assert_eq!(passes(4, |lane| 132 * lane).transactions, 1); // a padded column
        assert_eq!((passes(16, |lane| 16 * lane).transactions, passes(16, |lane| 16 * lane).ideal), (4, 4));
        assert_eq!(passes(8, |lane| 8 * lane).transactions, 2);
        assert_eq!(passes(1, |lane| lane).transactions, 1);
    }

    #[test]
    fn lines_and_repeats_are_instructions_of_their_own() {
        let mut warp = Warp::default();
        for lane in 0..32 {
            warp.begin_lane(lane);
            for step in 0..3 {
                warp.note(Class::ConstantLoad, 1, 4 * step, 4);
                // Only some lanes take this way.
                if lane < 8 {
                    warp.note(Class::ConstantLoad, 2, u64::from(lane), 4);
                }
            }
        }
        let mut counts = Counts::default();
        warp.flush(&mut counts);
        let constant = counts.constant_loads;
        assert_eq!((constant.instructions, constant.threads, constant.transactions), (6, 120, 3 + 3 * 8));
    }
}
