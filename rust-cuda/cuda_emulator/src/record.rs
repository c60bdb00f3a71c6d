//! The last accesses to an element of global memory, in 64 bits, so that one atomic holds them.
//!
//! An element has two records: the last write, and the reads. An element of an array with atomic accesses has two more:
//! the atomic writes, and the atomic reads. Blocks run on several host threads and update the records at the same time.
//! Two rules ensure that of two conflicting accesses at least one sees the other:
//!
//! - A record is updated in one atomic step (`swap` or `fetch_update`), so that no update is lost.
//! - An access first updates its own record and then reads the other records. All of these steps are `SeqCst`.
//!
//! ```text
//! bits 62-63  who: nobody, one thread, several threads of one block, threads of several blocks
//! bit  61     whether one of the accesses was atomic in the scope of its block only
//! bits 24-60  the thread's number in the grid, or the block's
//! bits 12-23  the number of the block's barriers before the access, modulo 4,096
//! bits  0-11  the line of the kernel
//! ```

use crate::sites::Site;

/// Who accessed an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Nobody in this launch.
    Nobody,
    /// The thread with this number in the grid.
    Thread(u64),
    /// Several threads of the block with this number.
    Block(u64),
    /// Threads of several blocks.
    Blocks,
}

/// A record of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) who: Who,
    /// Whether one of the accesses was atomic in the scope of its block only.
    pub(crate) in_block: bool,
    /// The number of the block's barriers before the access, modulo 4,096.
    pub(crate) epoch: u16,
    pub(crate) site: Site,
}

/// The most threads or blocks that a record can distinguish: 2^37 - 1.
pub(crate) const MOST: u64 = (1 << 37) - 1;

impl Record {
    pub(crate) const NOBODY: u64 = 0;

    #[inline]
    pub(crate) fn pack(self) -> u64 {
        let (kind, id) = match self.who {
            Who::Nobody => return Self::NOBODY,
            Who::Thread(thread) => (1, thread),
            Who::Block(block) => (2, block),
            Who::Blocks => (3, 0),
        };
        debug_assert!(id <= MOST && self.epoch < 4096 && self.site < 4096);
        kind << 62 | u64::from(self.in_block) << 61 | id << 24 | u64::from(self.epoch) << 12 | u64::from(self.site)
    }

    #[inline]
    pub(crate) fn unpack(bits: u64) -> Self {
        let id = bits >> 24 & MOST;
        let who = match bits >> 62 {
            0 => Who::Nobody,
            1 => Who::Thread(id),
            2 => Who::Block(id),
            _ => Who::Blocks,
        };
        let in_block = bits >> 61 & 1 == 1;
        Self { who, in_block, epoch: (bits >> 12 & 0xfff) as u16, site: (bits & 0xfff) as Site }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip() {
        let nobody = Record { who: Who::Nobody, in_block: false, epoch: 0, site: 0 };
        assert_eq!(Record::unpack(nobody.pack()), nobody);
        for who in [Who::Thread(0), Who::Thread(MOST), Who::Block(77), Who::Blocks] {
            for in_block in [false, true] {
                let record = Record { who, in_block, epoch: 4095, site: 4094 };
                assert_eq!(Record::unpack(record.pack()), record);
            }
        }
    }
}
