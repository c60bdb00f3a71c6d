//! The shared memory of one block, with a record of the last accesses to each byte.
//!
//! A barrier orders the accesses of all threads of the block, `sync_warp` those of one warp. One clock counts both.
//! Each warp keeps the time of its last barrier or `sync_warp`, and each record holds that time. An earlier access by
//! another thread conflicts unless it is older than
//!
//! - the warp's time, if both threads are of this warp,
//! - the block's last barrier, otherwise.
//!
//! Two atomic accesses do not conflict: atomic and other accesses have separate records.
//!
//! An asynchronous copy marks its destination as in flight from issue to completion. An access to a byte in flight is
//! reported.
//!
//! A word of four bytes has one record until a thread of the block accesses a part of it. Then the word is split: each
//! of its bytes has a record. An access to several words splits all of them if one is split.

use cuda_std::executor::AtomicKind;

use crate::OutOfMemory;

/// Threads of a warp.
const WARP: u16 = 32;

/// Bytes of a word. Accesses of more bytes consist of whole words.
const WORD: usize = 4;

/// One thread of the block, or several threads of one warp, or several of more than one warp.
///
/// It is a thread's number, or [`Who::SEVERAL`] and the number of the warp's first thread, or [`Who::BLOCK`]. A block
/// has at most 1024 threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Who(u16);

impl Who {
    /// The bit that distinguishes a warp from its first thread.
    const SEVERAL: u16 = 1 << 15;
    /// Several threads of more than one warp. No thread is in its warp.
    const BLOCK: Self = Self(u16::MAX);

    /// The thread, if it is a single one.
    pub(crate) fn thread(self) -> Option<u16> {
        (self.0 & Self::SEVERAL == 0).then_some(self.0)
    }

    /// All threads of the warp of a thread.
    fn warp_of(thread: Self) -> Self {
        Self(Self::SEVERAL | (thread.0 / WARP * WARP))
    }

    /// Whether both are of the same warp.
    fn in_warp_of(self, other: Self) -> bool {
        (self.0 ^ other.0) & !Self::SEVERAL < WARP
    }
}

/// An access to a byte: who and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touch {
    /// The time of the last barrier or `sync_warp` before the access; 0 for no access. The clock runs on from block to
    /// block.
    time: u32,
    /// A record of reads may name several threads.
    pub(crate) who: Who,
    /// The line of the kernel.
    pub(crate) site: u16,
}

/// The asynchronous copy that is in flight to a byte, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// The thread that issued the copy, plus 1; 0 is none.
    issuer: u16,
    /// The line that issued it.
    pub(crate) site: u16,
}

impl InFlight {
    fn issued(thread: u16, site: u16) -> Self {
        Self { issuer: thread + 1, site }
    }

    /// The thread that issued the copy; None if no copy is in flight.
    pub(crate) fn issuer(self) -> Option<u16> {
        self.issuer.checked_sub(1)
    }
}

/// The accesses to one byte, or to a word that is not split. [`Atomics`] has the atomic ones.
#[derive(Clone, Copy, Debug, Default)]
struct Byte {
    in_flight: InFlight,
    /// The last write. Without a race, all earlier writes are ordered before it.
    write: Touch,
    /// The reads since the last barrier. If all are of one warp, those since its last `sync_warp`.
    read: Touch,
}

/// The atomic accesses to a word.
#[derive(Clone, Copy, Debug, Default)]
struct Atomics {
    /// The writes since the last barrier. If all are of one warp, those since its last `sync_warp`. As for the reads of
    /// a [`Byte`], none of these is ordered before another.
    write: Touch,
    read: Touch,
}

/// What is wrong with an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A read of a byte that this block has not written.
    Unwritten,
    /// A conflict with this earlier access.
    Race { before: Touch, wrote: bool, atomic: bool },
    /// An access to a byte to which this asynchronous copy is in flight.
    InFlight(InFlight),
}

/// The memory. Blocks reuse it: what an earlier block wrote counts as unwritten, because its time is too old.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The value of each byte. All bytes are those of whole words.
    values: Vec<u8>,
    /// The record of each word, or of its first byte if it is split. Few words are split, so most accesses need only
    /// these. Without the other records between them, more of them fit in a cache line.
    firsts: Vec<Byte>,
    /// The records of the other bytes of each word, if it is split.
    others: Vec<[Byte; WORD - 1]>,
    /// For each word whether it is split.
    split: Vec<bool>,
    /// The atomic accesses to each word. Empty until the first one.
    atomics: Vec<Atomics>,
    /// The number of barriers of all blocks and `sync_warp`s of all warps.
    clock: u32,
    /// The time at which the current block began.
    begin: u32,
    /// The time of its last barrier.
    barrier: u32,
    /// The time of each warp's last `sync_warp`, which may be older than the barrier. Missing entries are 0.
    syncs: Vec<u32>,
    /// The threads whose accesses since the last barrier are ordered before the running thread by releases and
    /// acquires.
    ordered: Vec<u16>,
}

impl Shared {
    /// Prepares the memory for the next block, which has `bytes` bytes.
    pub(crate) fn begin_block(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        self.grow(bytes)?;
        let words = bytes.div_ceil(WORD);
        self.firsts.truncate(words);
        self.others.truncate(words);
        self.split.truncate(words);
        self.values.truncate(words * WORD);
        // All records are too old to matter, and no copy is in flight: those of the last block were abandoned.
        self.split.fill(false);
        self.next_interval();
        self.begin = self.barrier;
        Ok(())
    }

    /// Makes the memory at least this large.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let words = bytes.div_ceil(WORD).max(self.firsts.len());
        let more = words - self.firsts.len();
        let reserved = self.firsts.try_reserve_exact(more).and_then(|()| self.others.try_reserve_exact(more));
        let reserved = reserved.and_then(|()| self.split.try_reserve_exact(more));
        let reserved = reserved.and_then(|()| self.values.try_reserve_exact(more * WORD));
        reserved.map_err(|_| {
            // The records of its bytes, its entry of `split`, and its value.
            let of_word = WORD * size_of::<Byte>() + 1 + WORD;
            OutOfMemory { bytes: (words * of_word) as u64, what: "the record of a block's shared memory" }
        })?;
        self.firsts.resize(words, Byte::default());
        self.others.resize(words, [Byte::default(); WORD - 1]);
        self.split.resize(words, false);
        self.values.resize(words * WORD, 0);
        if !self.atomics.is_empty() {
            self.atomics.resize(words, Atomics::default());
        }
        Ok(())
    }

    /// Sets the threads whose accesses since the last barrier are ordered before the running thread.
    pub(crate) fn set_ordered(&mut self, threads: &[u16]) {
        self.ordered.clear();
        self.ordered.extend_from_slice(threads);
    }

    /// Notes a barrier of the block.
    pub(crate) fn next_interval(&mut self) {
        if self.clock > u32::MAX / 2 {
            self.rewind();
        }
        self.clock += 1;
        self.barrier = self.clock;
        self.ordered.clear();
    }

    /// Notes a `sync_warp` of a warp.
    pub(crate) fn sync_warp(&mut self, warp: usize) {
        // After 2^31 of these without a barrier the clock stops until the next barrier. Then accesses that `sync_warp`
        // orders are reported as races.
        self.clock = self.clock.saturating_add(1);
        if warp >= self.syncs.len() {
            self.syncs.resize(warp + 1, 0);
        }
        self.syncs[warp] = self.clock;
    }

    /// Resets the clock at a barrier after 2^31 steps. Only what the block has written still matters.
    #[cold]
    fn rewind(&mut self) {
        for byte in self.firsts.iter_mut().chain(self.others.as_flattened_mut()) {
            byte.write.time = u32::from(byte.write.time >= self.begin);
            byte.read = Touch::default();
        }
        for atomics in &mut self.atomics {
            atomics.write.time = u32::from(atomics.write.time >= self.begin);
            atomics.read = Touch::default();
        }
        self.syncs.clear();
        (self.clock, self.begin) = (1, 1);
    }

    /// The record of an access of a thread now.
    fn touch(&self, thread: u16, site: u16) -> Touch {
        let sync = self.syncs.get(usize::from(thread / WARP)).copied().unwrap_or(0);
        Touch { time: sync.max(self.barrier), who: Who(thread), site }
    }

    /// The size of the parts of an access that have one record each: a word, or a byte if one of the words is split.
    /// The word of a smaller access is split here.
    ///
    /// The address is a multiple of the size, or of a word.
    #[inline]
    fn part(&mut self, address: usize, size: usize) -> usize {
        debug_assert!(size < WORD || (address.is_multiple_of(WORD) && size.is_multiple_of(WORD)));
        let words = address / WORD..(address + size).div_ceil(WORD);
        if size >= WORD && !self.split[words.clone()].contains(&true) {
            return WORD;
        }
        for word in words {
            if !std::mem::replace(&mut self.split[word], true) {
                self.others[word].fill(self.firsts[word]);
            }
        }
        1
    }

    /// Reads bytes that lie inside.
    #[inline]
    pub(crate) fn load(&mut self, address: usize, to: &mut [u8], thread: u16, site: u16) -> Result<(), Trouble> {
        match self.part(address, to.len()) {
            WORD => self.load_parts::<WORD>(address, to, thread, site),
            _ => self.load_parts::<1>(address, to, thread, site),
        }
    }

    /// [`load`](Self::load) with a record for each `PART` bytes.
    #[inline]
    fn load_parts<const PART: usize>(
        &mut self,
        address: usize,
        to: &mut [u8],
        thread: u16,
        site: u16,
    ) -> Result<(), Trouble> {
        let (begin, now) = (self.begin, self.touch(thread, site));
        let Self { firsts, others, atomics, values, ordered, barrier, .. } = self;
        let order = Order { barrier: *barrier, threads: ordered };
        let mut result = Ok(());
        for (at, to) in (address..).step_by(PART).zip(to.as_chunks_mut::<PART>().0) {
            let atomic = atomics.get(at / WORD).copied().unwrap_or_default();
            let byte = record(firsts, others, at);
            if byte.in_flight.issuer().is_some() {
                to.fill(u8::MAX);
                result = result.and(Err(Trouble::InFlight(byte.in_flight)));
                continue;
            }
            if byte.write.time.max(atomic.write.time) < begin {
                // Bytes that nothing wrote read as NaN, so that the result shows them.
                to.fill(u8::MAX);
                result = result.and(Err(Trouble::Unwritten));
            } else {
                to.copy_from_slice(&values[at..at + PART]);
                result = result.and(byte.before_read(now, order)).and(atomic.before_read(now, order));
            }
            byte.read.add(now, order);
        }
        result
    }

    /// Writes bytes that lie inside.
    #[inline]
    pub(crate) fn store(&mut self, address: usize, from: &[u8], thread: u16, site: u16) -> Result<(), Trouble> {
        let to = &mut self.values[address..address + from.len()];
        match (to.as_mut_array::<WORD>(), from.as_array::<WORD>()) {
            // The length is a constant here, so this is one move and no call of `memcpy`.
            (Some(to), Some(from)) => *to = *from,
            _ => self.values[address..address + from.len()].copy_from_slice(from),
        }
        self.write(address, from.len(), thread, site, |byte, now| byte.write = now)
    }

    /// Looks for conflicts of a write to bytes that lie inside, and notes it in each record.
    #[inline]
    fn write(
        &mut self,
        address: usize,
        size: usize,
        thread: u16,
        site: u16,
        note: impl Fn(&mut Byte, Touch),
    ) -> Result<(), Trouble> {
        let now = self.touch(thread, site);
        let part = self.part(address, size);
        let Self { firsts, others, atomics, ordered, barrier, .. } = self;
        let order = Order { barrier: *barrier, threads: ordered };
        let mut result = Ok(());
        for at in (address..address + size).step_by(part) {
            let atomic = atomics.get(at / WORD).copied().unwrap_or_default();
            let byte = record(firsts, others, at);
            result = result.and(byte.before_write(now, order)).and(atomic.before_write(now, order));
            note(byte, now);
        }
        result
    }

    /// Executes an atomic operation on 4 or 8 bytes that lie inside. Returns the old value, the high bits 0.
    pub(crate) fn update(
        &mut self,
        address: usize,
        size: usize,
        kind: AtomicKind,
        function: &mut dyn FnMut(u64) -> Option<u64>,
        (thread, site): (u16, u16),
    ) -> (u64, Result<(), Trouble>) {
        let (begin, now) = (self.begin, self.touch(thread, site));
        self.atomics.resize(self.split.len(), Atomics::default());
        let (mut old, mut result) = ([0; 8], Ok(()));
        let part = self.part(address, size);
        let Self { firsts, others, atomics, values, ordered, barrier, .. } = self;
        let order = Order { barrier: *barrier, threads: ordered };
        for (at, old) in (address..).step_by(part).zip(old[..size].chunks_exact_mut(part)) {
            let (byte, atomic) = (record(firsts, others, at), &atomics[at / WORD]);
            let unwritten = byte.write.time.max(atomic.write.time) < begin;
            if unwritten {
                old.fill(u8::MAX);
            } else {
                old.copy_from_slice(&values[at..at + part]);
            }
            if unwritten && kind != AtomicKind::Store && byte.in_flight.issuer().is_none() {
                result = result.and(Err(Trouble::Unwritten));
            }
            let conflict = match kind {
                AtomicKind::Load => byte.before_read(now, order),
                _ => byte.before_write(now, order),
            };
            result = result.and(conflict);
        }
        for atomic in &mut atomics[address / WORD..(address + size) / WORD] {
            match kind {
                AtomicKind::Load => atomic.read.add(now, order),
                _ => atomic.write.add(now, order),
            }
        }
        let old = u64::from_le_bytes(old);
        if let Some(new) = function(old) {
            values[address..address + size].copy_from_slice(&new.to_le_bytes()[..size]);
        }
        (old, result)
    }

    /// Issues an asynchronous copy to bytes that lie inside: until it is complete, they are in flight.
    pub(crate) fn issue(&mut self, address: usize, size: usize, thread: u16, site: u16) -> Result<(), Trouble> {
        self.write(address, size, thread, site, |byte, _| byte.in_flight = InFlight::issued(thread, site))
    }

    /// Completes an asynchronous copy: its thread, which waited for it, has written the bytes now.
    ///
    /// There is no conflict left to find: `issue` has compared the bytes with the touches before it, and every access
    /// since then was reported.
    pub(crate) fn complete(&mut self, address: usize, from: &[u8], thread: u16, site: u16) {
        let now = self.touch(thread, site);
        self.values[address..address + from.len()].copy_from_slice(from);
        let part = self.part(address, from.len());
        for at in (address..address + from.len()).step_by(part) {
            let byte = record(&mut self.firsts, &mut self.others, at);
            (byte.write, byte.in_flight) = (now, InFlight::default());
        }
    }

    /// Forgets an asynchronous copy that its block never waited for.
    pub(crate) fn abandon(&mut self, address: usize, size: usize) {
        for at in address..address + size {
            record(&mut self.firsts, &mut self.others, at).in_flight = InFlight::default();
        }
    }
}

/// The record of a byte, among those of [`Shared`].
#[inline]
fn record<'a>(firsts: &'a mut [Byte], others: &'a mut [[Byte; WORD - 1]], at: usize) -> &'a mut Byte {
    match at % WORD {
        0 => &mut firsts[at / WORD],
        byte => &mut others[at / WORD][byte - 1],
    }
}

impl Byte {
    /// What is wrong with a read now.
    fn before_read(&self, now: Touch, order: Order<'_>) -> Result<(), Trouble> {
        if self.in_flight.issuer().is_some() {
            return Err(Trouble::InFlight(self.in_flight));
        }
        self.write.race(now, order, true, false)
    }

    /// What is wrong with a write now.
    fn before_write(&self, now: Touch, order: Order<'_>) -> Result<(), Trouble> {
        self.before_read(now, order).and(self.read.race(now, order, false, false))
    }
}

impl Atomics {
    /// What is wrong with a read now that is not atomic.
    fn before_read(&self, now: Touch, order: Order<'_>) -> Result<(), Trouble> {
        self.write.race(now, order, true, true)
    }

    /// What is wrong with a write now that is not atomic.
    fn before_write(&self, now: Touch, order: Order<'_>) -> Result<(), Trouble> {
        self.before_read(now, order).and(self.read.race(now, order, false, true))
    }
}

impl Touch {
    /// Adds an access that conflicts with none of the record's.
    #[inline]
    fn add(&mut self, now: Self, order: Order<'_>) {
        if self.time < order.barrier || order.has(self.who) {
            *self = now;
        } else if !self.who.in_warp_of(now.who) {
            self.who = Who::BLOCK;
        } else if self.time < now.time {
            // The old accesses may be forgotten. Later accesses of this warp are ordered after them. Accesses of other
            // warps before the next barrier conflict with the new one as well.
            *self = now;
        } else if self.who != now.who {
            self.who = Who::warp_of(now.who);
        }
    }

    /// An error if this earlier access conflicts with one now.
    fn race(self, now: Self, order: Order<'_>, wrote: bool, atomic: bool) -> Result<(), Trouble> {
        if conflict(self, now, order) { Err(Trouble::Race { before: self, wrote, atomic }) } else { Ok(()) }
    }
}

/// What is ordered before the running thread: all before a barrier, and the accesses of some threads.
#[derive(Clone, Copy)]
struct Order<'a> {
    /// The time of the last barrier.
    barrier: u32,
    /// The threads whose accesses since then are ordered before the running thread by releases and acquires, sorted.
    threads: &'a [u16],
}

impl Order<'_> {
    fn has(self, who: Who) -> bool {
        who.thread().is_some_and(|thread| self.threads.binary_search(&thread).is_ok())
    }
}

/// Whether an earlier access is another thread's and not ordered before this one.
fn conflict(before: Touch, now: Touch, order: Order<'_>) -> bool {
    before.time >= order.barrier
        && before.who != now.who
        && (before.time >= now.time || !before.who.in_warp_of(now.who))
        && !order.has(before.who)
}

#[cfg(test)]
mod tests;
