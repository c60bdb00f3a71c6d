//! The shared memory of one block, with a record of who wrote and read each byte since the last barrier.

use crate::OutOfMemory;

/// Who touched a byte, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touch {
    /// The barrier interval, counted through all blocks that used this memory; 0 is never.
    pub(crate) epoch: u32,
    /// The thread in its block, or [`SEVERAL`].
    pub(crate) thread: u16,
    /// The line of the kernel.
    pub(crate) site: u16,
}

/// In a record of reads: more than one thread.
pub(crate) const SEVERAL: u16 = u16::MAX;

/// What is known of one byte.
#[derive(Clone, Copy, Debug, Default)]
struct Byte {
    value: u8,
    write: Touch,
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

/// The memory. It is kept from block to block: what an earlier block wrote counts as unwritten, by its epoch.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    bytes: Vec<Byte>,
    /// The current barrier interval.
    epoch: u32,
    /// The interval in which the current block began.
    begin: u32,
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
        self.begin = self.epoch;
        Ok(())
    }

    /// A barrier of the whole block was passed.
    pub(crate) fn next_interval(&mut self) {
        self.epoch = self.epoch.checked_add(1).unwrap_or_else(|| {
            // After four thousand million barriers: forget what cannot matter any more.
            self.bytes.fill(Byte::default());
            self.begin = 1;
            1
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Reads bytes that lie inside.
    pub(crate) fn load(&mut self, address: usize, to: &mut [u8], thread: u16, site: u16) -> Result<(), Trouble> {
        let (epoch, begin) = (self.epoch, self.begin);
        let mut result = Ok(());
        let length = to.len();
        for (byte, to) in self.bytes[address..address + length].iter_mut().zip(to) {
            // What nothing wrote reads as NaN, so that it shows in the result, too.
            *to = if byte.write.epoch < begin { u8::MAX } else { byte.value };
            if byte.write.epoch < begin {
                result = result.and(Err(Trouble::Unwritten));
            } else if byte.write.epoch == epoch && byte.write.thread != thread {
                result = result.and(Err(Trouble::Race { before: byte.write, wrote: true }));
            }
            if byte.read.epoch != epoch {
                byte.read = Touch { epoch, thread, site };
            } else if byte.read.thread != thread {
                byte.read.thread = SEVERAL;
            }
        }
        result
    }

    /// Writes bytes that lie inside.
    pub(crate) fn store(&mut self, address: usize, from: &[u8], thread: u16, site: u16) -> Result<(), Trouble> {
        let epoch = self.epoch;
        let mut result = Ok(());
        for (byte, from) in self.bytes[address..address + from.len()].iter_mut().zip(from) {
            if byte.write.epoch == epoch && byte.write.thread != thread {
                result = result.and(Err(Trouble::Race { before: byte.write, wrote: true }));
            } else if byte.read.epoch == epoch && byte.read.thread != thread {
                result = result.and(Err(Trouble::Race { before: byte.read, wrote: false }));
            }
            byte.value = *from;
            byte.write = Touch { epoch, thread, site };
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads, 16 bytes.
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
        assert!(matches!(race, Trouble::Race { before: Touch { thread: 0, site: 7, .. }, wrote: true }));
        shared.next_interval();
        shared.load(0, &mut seen, 1, 8).unwrap();
        assert_eq!(seen, [1, 2]);
        let race = shared.store(1, &[3], 0, 9).unwrap_err();
        assert!(matches!(race, Trouble::Race { before: Touch { thread: 1, .. }, wrote: false }));
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
}
