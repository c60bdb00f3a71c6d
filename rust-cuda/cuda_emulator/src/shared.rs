//! The shared memory of one block, with a record of who wrote and read each byte since the last barrier.
//!
//! A barrier of the block orders the accesses of all its threads, `sync_warp` those of the threads of one warp. Both are counted
//! by one clock, and each warp keeps the time of the last one that it passed. A record holds that time, so that an earlier touch
//! by another thread is a conflict if its time is not before the warp's (same warp) or the block's (other warps).

use crate::OutOfMemory;

/// Threads of a warp.
const WARP: u16 = 32;

/// One thread of the block, or several: the thread's number, or [`Who::SEVERAL`] and the number of their warp's first thread. A
/// block has at most 1024 threads on any device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Who(u16);

impl Who {
    /// The bit that tells a warp from its first thread.
    const SEVERAL: u16 = 1 << 15;
    /// Several threads, not all of one warp: its warp is nobody's.
    const BLOCK: Self = Self(u16::MAX);

    /// The thread, if it is one.
    pub(crate) fn thread(self) -> Option<u16> {
        (self.0 & Self::SEVERAL == 0).then_some(self.0)
    }

    /// All threads of the warp of a thread.
    fn warp(thread: u16) -> Self {
        Self(Self::SEVERAL | (thread / WARP * WARP))
    }

    /// Whether all are of one warp.
    fn in_warp_of(self, other: Self) -> bool {
        (self.0 ^ other.0) & !Self::SEVERAL < WARP
    }
}

/// Who touched a byte, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touch {
    /// The time of the last barrier or `sync_warp` before, counted through all blocks that used this memory; 0 is never.
    time: u32,
    /// In a record of reads it may be several threads.
    pub(crate) who: Who,
    /// The line of the kernel.
    pub(crate) site: u16,
}

/// What is known of one byte.
#[derive(Clone, Copy, Debug, Default)]
struct Byte {
    value: u8,
    /// The last write. Without a race, all writes before it are ordered before it, and so before what is ordered after it.
    write: Touch,
    /// The reads since the last barrier or, if all are of one warp, since the last `sync_warp` before the last of them.
    read: Touch,
}

/// What is wrong with an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A read of a byte that this block has not written.
    Unwritten,
    /// A conflict with this earlier touch, which wrote or not.
    Race { before: Touch, wrote: bool },
}

/// The memory. It is kept from block to block: what an earlier block wrote counts as unwritten, by its time.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    bytes: Vec<Byte>,
    /// Barriers of all blocks and `sync_warp`s of all warps so far.
    clock: u32,
    /// The time at which the current block began.
    begin: u32,
    /// The time of its last barrier.
    barrier: u32,
    /// The time of each warp's last `sync_warp`, which may be before the barrier; those left out have had none.
    syncs: Vec<u32>,
}

impl Shared {
    /// Makes ready for the next block, which has `bytes` of memory.
    pub(crate) fn begin_block(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let more = bytes.saturating_sub(self.bytes.len());
        self.bytes.try_reserve_exact(more).map_err(|_| {
            let (bytes, what) = (bytes * size_of::<Byte>(), "the record of a block's shared memory");
            OutOfMemory { bytes: bytes as u64, what }
        })?;
        self.bytes.resize(bytes, Byte::default());
        self.next_interval();
        self.begin = self.barrier;
        Ok(())
    }

    /// A barrier of the whole block was passed.
    pub(crate) fn next_interval(&mut self) {
        if self.clock > u32::MAX / 2 {
            self.rewind();
        }
        self.clock += 1;
        self.barrier = self.clock;
    }

    /// All threads of a warp have passed a `sync_warp`.
    pub(crate) fn sync_warp(&mut self, warp: usize) {
        // At its end the clock stands still until the next barrier: then nothing is ordered that was not, and a race may be
        // reported that is none. That takes two thousand million of these without a barrier.
        self.clock = self.clock.saturating_add(1);
        if warp >= self.syncs.len() {
            self.syncs.resize(warp + 1, 0);
        }
        self.syncs[warp] = self.clock;
    }

    /// Sets the clock back at a barrier, after two thousand million: all that still matters is what the block has written.
    #[cold]
    fn rewind(&mut self) {
        for byte in &mut self.bytes {
            byte.write.time = u32::from(byte.write.time >= self.begin);
            byte.read = Touch::default();
        }
        self.syncs.clear();
        (self.clock, self.begin) = (1, 1);
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The touch of a thread, now.
    fn touch(&self, thread: u16, site: u16) -> Touch {
        let sync = self.syncs.get(usize::from(thread / WARP)).copied().unwrap_or(0);
        Touch { time: sync.max(self.barrier), who: Who(thread), site }
    }

    /// Reads bytes that lie inside.
    #[inline]
    pub(crate) fn load(&mut self, address: usize, to: &mut [u8], thread: u16, site: u16) -> Result<(), Trouble> {
        let (barrier, begin, now) = (self.barrier, self.begin, self.touch(thread, site));
        let warp = Who::warp(thread);
        let mut result = Ok(());
        let length = to.len();
        for (byte, to) in self.bytes[address..address + length].iter_mut().zip(to) {
            // What nothing wrote reads as NaN, so that it shows in the result, too.
            *to = if byte.write.time < begin { u8::MAX } else { byte.value };
            if byte.write.time < begin {
                result = result.and(Err(Trouble::Unwritten));
            } else if conflict(byte.write, now, barrier) {
                result = result.and(Err(Trouble::Race { before: byte.write, wrote: true }));
            }
            if byte.read.time < barrier {
                byte.read = now;
            } else if !byte.read.who.in_warp_of(now.who) {
                byte.read.who = Who::BLOCK;
            } else if byte.read.time < now.time {
                // Nothing is lost: what this warp does from here on is ordered after the old reads, and what another warp does
                // before the next barrier conflicts with the new one just as it does with them.
                byte.read = now;
            } else if byte.read.who != now.who {
                byte.read.who = warp;
            }
        }
        result
    }

    /// Writes bytes that lie inside.
    #[inline]
    pub(crate) fn store(&mut self, address: usize, from: &[u8], thread: u16, site: u16) -> Result<(), Trouble> {
        let (barrier, now) = (self.barrier, self.touch(thread, site));
        let mut result = Ok(());
        for (byte, from) in self.bytes[address..address + from.len()].iter_mut().zip(from) {
            if conflict(byte.write, now, barrier) {
                result = result.and(Err(Trouble::Race { before: byte.write, wrote: true }));
            } else if conflict(byte.read, now, barrier) {
                result = result.and(Err(Trouble::Race { before: byte.read, wrote: false }));
            }
            byte.value = *from;
            byte.write = now;
        }
        result
    }
}

/// Whether an earlier touch is another thread's and nothing orders it before that of now. `barrier` is the time of the last one.
fn conflict(before: Touch, now: Touch, barrier: u32) -> bool {
    before.time >= barrier && before.who != now.who && (before.time >= now.time || !before.who.in_warp_of(now.who))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 16 bytes.
    fn block() -> Shared {
        let mut shared = Shared::default();
        shared.begin_block(16).unwrap();
        shared
    }

    #[test]
    fn a_barrier_makes_the_difference() {
        let mut shared = block();
        shared.store(0, &[1, 2], 0, 7).unwrap();
        let mut seen = [0; 2];
        shared.load(0, &mut seen, 0, 8).unwrap();
        let race = shared.load(0, &mut seen, 1, 8).unwrap_err();
        assert!(matches!(race, Trouble::Race { before: Touch { who: Who(0), site: 7, .. }, wrote: true }));
        shared.next_interval();
        shared.load(0, &mut seen, 1, 8).unwrap();
        assert_eq!(seen, [1, 2]);
        let race = shared.store(1, &[3], 0, 9).unwrap_err();
        assert!(matches!(race, Trouble::Race { before: Touch { who: Who(1), .. }, wrote: false }));
    }

    #[test]
    fn neighbouring_bytes_are_no_race() {
        let mut shared = block();
        for thread in 0..16 {
            shared.store(usize::from(thread), &[0], thread, 0).unwrap();
        }
    }

    #[test]
    fn what_another_block_wrote_is_unwritten() {
        let mut shared = block();
        shared.store(0, &[1], 0, 0).unwrap();
        shared.begin_block(16).unwrap();
        assert_eq!(shared.load(0, &mut [0], 0, 0), Err(Trouble::Unwritten));
    }

    /// Threads of two warps. `B` is another lane of the warp of `A`.
    const A: u16 = 0;
    const B: u16 = 31;
    const OTHER: u16 = 32;

    /// A block that has written byte 0 and passed a barrier.
    fn written() -> Shared {
        let mut shared = block();
        shared.store(0, &[1], A, 0).unwrap();
        shared.next_interval();
        shared
    }

    fn read(shared: &mut Shared, thread: u16) -> Result<(), Trouble> {
        shared.load(0, &mut [0], thread, 0)
    }

    fn write(shared: &mut Shared, thread: u16) -> Result<(), Trouble> {
        shared.store(0, &[2], thread, 0)
    }

    /// The thread of a race's earlier touch, None for several, and whether it wrote.
    fn race(result: Result<(), Trouble>) -> (Option<u16>, bool) {
        match result {
            Err(Trouble::Race { before, wrote }) => (before.who.thread(), wrote),
            other => panic!("a race was expected, not {other:?}"),
        }
    }

    #[test]
    fn sync_warp_orders_reads_before_a_write_of_the_warp() {
        let mut shared = written();
        for lane in 0..32 {
            read(&mut shared, lane).unwrap();
        }
        shared.sync_warp(0);
        write(&mut shared, B).unwrap();
    }

    #[test]
    fn without_sync_warp_they_are_a_race() {
        let mut shared = written();
        for lane in 0..32 {
            read(&mut shared, lane).unwrap();
        }
        assert_eq!(race(write(&mut shared, B)), (None, false));
    }

    #[test]
    fn sync_warp_does_not_order_two_warps() {
        let mut shared = written();
        for thread in [A, B, OTHER] {
            read(&mut shared, thread).unwrap();
        }
        shared.sync_warp(0);
        shared.sync_warp(1);
        assert_eq!(race(write(&mut shared, A)), (None, false));

        // Not even if no thread of the first warp reads again.
        let mut shared = written();
        read(&mut shared, A).unwrap();
        shared.sync_warp(0);
        shared.sync_warp(1);
        assert_eq!(race(write(&mut shared, OTHER)), (Some(A), false));
    }

    #[test]
    fn sync_warp_orders_a_write_before_reads_of_the_warp() {
        let mut shared = written();
        write(&mut shared, A).unwrap();
        shared.sync_warp(1);
        assert_eq!(race(read(&mut shared, B)), (Some(A), true));
        shared.sync_warp(0);
        read(&mut shared, B).unwrap();
        assert_eq!(race(read(&mut shared, OTHER)), (Some(A), true));
        shared.next_interval();
        read(&mut shared, OTHER).unwrap();
    }

    #[test]
    fn a_read_after_sync_warp_is_not_ordered_before_a_write() {
        let mut shared = written();
        read(&mut shared, A).unwrap();
        shared.sync_warp(0);
        read(&mut shared, B).unwrap();
        assert_eq!(race(write(&mut shared, A)), (Some(B), false));
    }

    #[test]
    fn a_read_before_sync_warp_is_ordered_though_another_came_after() {
        let mut shared = written();
        read(&mut shared, A).unwrap();
        shared.sync_warp(0);
        read(&mut shared, B).unwrap();
        write(&mut shared, B).unwrap();
    }

    /// Against all touches since the last barrier, each compared with each, up to the first race.
    #[test]
    fn the_record_of_a_byte_loses_no_race_and_invents_none() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut races = 0;
        for _ in 0..20_000 {
            let mut shared = written();
            let mut syncs = [0; 3];
            let mut touches: Vec<(u16, u32, bool)> = Vec::new();
            loop {
                let thread = random.u16(0..3) * WARP + random.u16(0..3);
                let warp = thread / WARP;
                let writes = match random.u32(0..16) {
                    0 => {
                        shared.next_interval();
                        touches.clear();
                        continue;
                    }
                    1..6 => {
                        shared.sync_warp(warp.into());
                        syncs[usize::from(warp)] += 1;
                        continue;
                    }
                    6..8 => true,
                    _ => false,
                };
                let now = syncs[usize::from(warp)];
                let expected = touches.iter().any(|&(before, passed, wrote)| {
                    (wrote || writes) && before != thread && (before / WARP != warp || passed == now)
                });
                let result = if writes { write(&mut shared, thread) } else { read(&mut shared, thread) };
                assert_eq!(result.is_err(), expected, "{result:?} of thread {thread} after {touches:?}");
                if expected {
                    races += 1;
                    break;
                }
                if touches.len() == 64 {
                    break;
                }
                touches.push((thread, now, writes));
            }
        }
        assert!(races > 10_000, "{races}");
    }

    #[test]
    fn the_clock_goes_back() {
        let mut shared = block();
        shared.clock = u32::MAX - 2;
        shared.begin_block(16).unwrap();
        assert!(shared.clock < 8);
        // A block that passes the end of the clock: what is not told apart there is still a race.
        shared.store(0, &[5], A, 0).unwrap();
        shared.clock = u32::MAX - 1;
        shared.sync_warp(0);
        read(&mut shared, B).unwrap();
        shared.sync_warp(0);
        assert_eq!(race(write(&mut shared, A)), (Some(B), false));
        // What it wrote stays written behind the next barrier, the rest is as before.
        shared.next_interval();
        assert!(shared.clock < 8);
        let mut seen = [0; 2];
        assert_eq!(shared.load(0, &mut seen, OTHER, 0), Err(Trouble::Unwritten));
        assert_eq!(seen, [2, u8::MAX]);
        shared.sync_warp(1);
        write(&mut shared, OTHER + 1).unwrap();
        shared.begin_block(16).unwrap();
        assert_eq!(read(&mut shared, A), Err(Trouble::Unwritten));
    }
}
