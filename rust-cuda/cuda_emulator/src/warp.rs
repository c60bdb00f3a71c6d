//! Groups the accesses of threads into warp instructions and computes the traffic of each.
//!
//! Threads run one after the other, so accesses are grouped afterwards: the n-th execution of a line by each thread of
//! a warp makes one warp instruction. Counting starts again
//!
//! - at each barrier,
//! - at each warp collective,
//! - in each iteration of a loop that is marked with [`lockstep`](cuda_std::warp::lockstep) or
//!   [`Steps`](cuda_std::warp::Steps).
//!
//! Hardware does the same: diverged lanes reconverge at the end of an `if` and of an iteration. There is one condition:
//! a loop must be marked if a lane may skip an access that it makes in a later iteration. Otherwise the lane's first
//! access is grouped with the first ones of the others, which belong to an earlier iteration.
//!
//! A device may keep lanes diverged for longer than necessary. The counts do not show that.

use std::collections::HashMap;

use cuda_std::executor::Lockstep;

use crate::counts::{Counts, Traffic};
use crate::sites::Site;

/// The count that an access belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    GlobalLoad,
    GlobalStore,
    SharedLoad,
    SharedStore,
    ConstantLoad,
    GlobalAtomic,
    SharedAtomic,
}

/// One warp instruction: the address of each lane.
#[derive(Clone, Debug)]
struct Row {
    class: Class,
    size: u32,
    lanes: u32,
    addresses: [u64; 32],
}

/// The accesses of one warp since the last flush.
#[derive(Debug)]
pub(crate) struct Warp {
    /// Where accesses were made: outside of marked loops, or in an iteration of one.
    places: Vec<Place>,
    /// The index of each place by its name.
    named: HashMap<u64, usize>,
    /// The place where the current lane is.
    here: usize,
    /// The turn of a lane. Executions of a line count from 0 in each turn.
    turn: u64,
    lane: usize,
    /// The marked loops around each lane, from the outermost on.
    loops: [Vec<Loop>; 32],
}

/// The accesses at one place.
#[derive(Debug, Default)]
struct Place {
    lines: Vec<Line>,
    /// The line that was executed last. The next one often follows it.
    last: usize,
}

/// A line of the kernel at one place: an access, or the start of a marked loop.
#[derive(Debug)]
struct Line {
    site: Site,
    turn: u64,
    /// The number of executions by the current lane in its turn.
    times: usize,
    /// Row n holds the n-th execution of each lane.
    rows: Vec<Row>,
}

/// A marked loop around a lane.
#[derive(Clone, Copy, Debug)]
struct Loop {
    /// The name of the place around the loop.
    around: u64,
    /// The loop's name, from its line and the number of its earlier starts there.
    name: u64,
    /// The number of iterations that have started.
    iterations: u64,
}

/// The name of the place outside of all marked loops.
const OUTSIDE: u64 = 0;

/// A name for a place within `around`: a 64-bit hash, by the finaliser of splitmix64.
fn name(around: u64, kind: u64, number: u64) -> u64 {
    [kind, number].into_iter().fold(around, |hash, part| {
        let mut bits = (hash ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    })
}

impl Place {
    /// The line with this number, and the number of earlier executions by the current lane in this turn.
    fn execute(&mut self, site: Site, turn: u64) -> (&mut Line, usize) {
        let count = self.lines.len();
        let mut order = (0..count).map(|step| (self.last + step) % count);
        let found = order.find(|&line| self.lines[line].site == site);
        self.last = found.unwrap_or_else(|| {
            self.lines.push(Line { site, turn, times: 0, rows: Vec::new() });
            count
        });
        let line = &mut self.lines[self.last];
        if line.turn != turn {
            (line.turn, line.times) = (turn, 0);
        }
        line.times += 1;
        let before = line.times - 1;
        (line, before)
    }
}

impl Default for Warp {
    fn default() -> Self {
        let mut warp = Self {
            places: Vec::new(),
            named: HashMap::new(),
            here: 0,
            turn: 0,
            lane: 0,
            loops: std::array::from_fn(|_| Vec::new()),
        };
        warp.go(OUTSIDE);
        warp
    }
}

impl Warp {
    /// Starts a block: no lane is in a loop. The block before may have been given up inside of one.
    pub(crate) fn begin_block(&mut self) {
        self.loops.iter_mut().for_each(Vec::clear);
    }

    /// Starts a turn of a lane: the next accesses are its own.
    pub(crate) fn begin_lane(&mut self, lane: u32) {
        self.lane = lane as usize;
        self.turn += 1;
        self.go(self.loops[self.lane].last().map_or(OUTSIDE, |inside| name(inside.name, 1, inside.iterations)));
    }

    /// Moves the current lane to the place with this name.
    fn go(&mut self, name: u64) {
        let places = &mut self.places;
        self.here = *self.named.entry(name).or_insert_with(|| {
            places.push(Place::default());
            places.len() - 1
        });
    }

    /// The current lane starts a marked loop, or starts an iteration of the innermost one, or leaves it.
    pub(crate) fn step(&mut self, step: Lockstep, site: Site) {
        let loops = &mut self.loops[self.lane];
        let to = match (step, loops.last_mut()) {
            (Lockstep::Begin, outer) => {
                let around = outer.map_or(OUTSIDE, |outer| name(outer.name, 1, outer.iterations));
                let (_, times) = self.places[self.here].execute(site, self.turn);
                let new = name(name(around, 2, site.into()), 3, times as u64);
                loops.push(Loop { around, name: new, iterations: 0 });
                name(new, 1, 0)
            }
            (Lockstep::Next, Some(inside)) => {
                inside.iterations += 1;
                name(inside.name, 1, inside.iterations)
            }
            (Lockstep::End, Some(&mut Loop { around, .. })) => {
                loops.pop();
                around
            }
            // The thread was given up.
            (Lockstep::Next | Lockstep::End, None) => OUTSIDE,
        };
        self.go(to);
    }

    /// Notes an access of the current lane.
    pub(crate) fn note(&mut self, class: Class, site: Site, address: u64, size: u32) {
        let (line, time) = self.places[self.here].execute(site, self.turn);
        // The lanes before may have executed the line less often.
        line.rows.resize_with(line.rows.len().max(time + 1), || Row { class, size, lanes: 0, addresses: [0; 32] });
        let row = &mut line.rows[time];
        row.lanes |= 1 << self.lane;
        row.addresses[self.lane] = address;
    }

    /// Adds the noted accesses to the counts and forgets them.
    pub(crate) fn flush(&mut self, counts: &mut Counts) {
        for place in &mut self.places {
            for row in place.lines.iter_mut().flat_map(|line| line.rows.drain(..)) {
                let traffic = row.traffic();
                match row.class {
                    Class::GlobalLoad => counts.global_loads += traffic,
                    Class::GlobalStore => counts.global_stores += traffic,
                    Class::SharedLoad => counts.shared_loads += traffic,
                    Class::SharedStore => counts.shared_stores += traffic,
                    Class::ConstantLoad => counts.constant_loads += traffic,
                    Class::GlobalAtomic => counts.global_atomics += traffic,
                    Class::SharedAtomic => counts.shared_atomics += traffic,
                }
            }
        }
        if self.places.len() > 1 {
            // The iterations are over. The place outside of all loops keeps its lines for reuse.
            self.places.truncate(1);
            self.named.clear();
            self.named.insert(OUTSIDE, 0);
            self.here = 0;
        }
    }
}

impl Row {
    /// The addresses of the active lanes.
    fn active(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        (0..32).filter(|lane| self.lanes >> lane & 1 == 1).map(|lane| (lane, self.addresses[lane]))
    }

    fn traffic(&self) -> Traffic {
        let threads = u64::from(self.lanes.count_ones());
        let (transactions, ideal) = match self.class {
            Class::GlobalLoad | Class::GlobalStore | Class::GlobalAtomic => self.sectors(),
            Class::SharedLoad | Class::SharedStore => self.wavefronts(different),
            Class::SharedAtomic => self.wavefronts(|words| words.count() as u64),
            Class::ConstantLoad => (different(self.active().map(|(_, address)| address)), 1),
        };
        Traffic { threads, instructions: 1, transactions, ideal }
    }

    /// The number of 32-byte sectors, and the number that the different bytes fill at least.
    fn sectors(&self) -> (u64, u64) {
        let size = u64::from(self.size);
        let sectors = different(self.active().map(|(_, address)| address / 32));
        let bytes = different(self.active().map(|(_, address)| address)) * size;
        (sectors, bytes.div_ceil(32))
    }

    /// The number of wavefronts, and the number that the size of the access needs. `passes_of` is the number of
    /// wavefronts for the words that are accessed in one bank.
    fn wavefronts(&self, passes_of: impl Fn(std::vec::IntoIter<u64>) -> u64) -> (u64, u64) {
        let words = (self.size / 4).max(1) as usize;
        // An access of 4 bytes is served for the whole warp, of 8 bytes for half of it, of 16 bytes for a quarter.
        let group = 32 / words;
        let (mut passes, mut ideal) = (0, 0);
        for first in (0..32).step_by(group) {
            let mut banks: [Vec<u64>; 32] = Default::default();
            let members = self.active().filter(|(lane, _)| (first..first + group).contains(lane));
            for word in members.flat_map(|(_, address)| (0..words as u64).map(move |word| address / 4 + word)) {
                banks[(word % 32) as usize].push(word);
            }
            let most = banks.into_iter().map(|bank| passes_of(bank.into_iter())).max().unwrap_or(0);
            passes += most;
            ideal += u64::from(most > 0);
        }
        (passes, ideal)
    }
}

/// The number of different values.
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
        let loads_and_stores = [
            counts.global_loads,
            counts.global_stores,
            counts.shared_loads,
            counts.shared_stores,
            counts.constant_loads,
        ];
        (loads_and_stores.into_iter().chain([counts.global_atomics, counts.shared_atomics]))
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
    fn atomics_on_one_word_follow_each_other() {
        let passes = |address: fn(u64) -> u64| one(Class::SharedAtomic, 4, 0..32, address).transactions;
        assert_eq!(passes(|lane| 4 * lane), 1);
        assert_eq!(passes(|_| 64), 32);
        assert_eq!(passes(|lane| lane / 2 * 4), 2);
    }

    /// Eight iterations i. Lane l skips the first l of them and loads element 8 i + l in the others. Then all lanes
    /// store one element.
    fn skipping(marked: bool) -> Counts {
        let mut warp = Warp::default();
        warp.begin_block();
        let step = |warp: &mut Warp, step| {
            if marked {
                warp.step(step, 9);
            }
        };
        for lane in 0..8 {
            warp.begin_lane(lane);
            step(&mut warp, Lockstep::Begin);
            for i in 0..8 {
                step(&mut warp, Lockstep::Next);
                if i >= lane {
                    // In iteration i lanes 0 to i load neighbours: one sector.
                    warp.note(Class::GlobalLoad, 1, u64::from(32 * i + 4 * lane), 4);
                }
            }
            step(&mut warp, Lockstep::End);
            warp.note(Class::GlobalStore, 2, 4096, 4);
        }
        let mut counts = Counts::default();
        warp.flush(&mut counts);
        counts
    }

    #[test]
    fn lanes_that_skip_an_iteration_come_together_again_in_a_marked_loop() {
        let marked = skipping(true);
        assert_eq!((marked.global_loads.instructions, marked.global_loads.transactions), (8, 8));
        assert_eq!((marked.global_stores.instructions, marked.global_stores.threads), (1, 8));
        // Without the mark, the n-th load of lane l is of iteration n + l: 8 + 7 + … + 1 sectors in 8 instructions.
        let not = skipping(false);
        assert_eq!((not.global_loads.instructions, not.global_loads.transactions), (8, 36));
        assert_eq!(not.global_stores.instructions, 1);
    }

    #[test]
    fn marked_loops_begin_again_and_end_early() {
        let mut warp = Warp::default();
        for lane in 0..4 {
            warp.begin_lane(lane);
            // A loop that starts twice. Lane 0 leaves it after one iteration, the others after two.
            for _ in 0..2 {
                warp.step(Lockstep::Begin, 5);
                for _ in 0..=lane.min(1) {
                    warp.step(Lockstep::Next, 5);
                    warp.note(Class::GlobalLoad, 1, 0, 4);
                }
                warp.step(Lockstep::End, 5);
            }
            warp.note(Class::GlobalStore, 2, 0, 4);
        }
        let mut counts = Counts::default();
        warp.flush(&mut counts);
        // Two times two iterations, the second ones without lane 0.
        assert_eq!((counts.global_loads.instructions, counts.global_loads.threads), (4, 2 * (4 + 3)));
        assert_eq!((counts.global_stores.instructions, counts.global_stores.threads), (1, 4));
    }

    #[test]
    fn lines_and_repeats_are_instructions_of_their_own() {
        let mut warp = Warp::default();
        for lane in 0..32 {
            warp.begin_lane(lane);
            for step in 0..3 {
                warp.note(Class::ConstantLoad, 1, 4 * step, 4);
                // Only some lanes take this branch.
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
