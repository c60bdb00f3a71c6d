//! What a block has in shared memory.

use cuda_std::prelude::*;

use super::{BLOCK, Whole};
use crate::abi::params::Params;

/// Columns and rows of the pixels that a block converts.
pub const TILE: (u32, u32) = (64, 32);

/// Neighbouring pixels that a thread converts at a time: see [`PIXELS`](crate::util::planes::PIXELS).
pub(super) const GROUP: u32 = crate::util::planes::PIXELS;

/// Groups of a row of the tile.
pub(super) const GROUPS_OF_ROW: u32 = TILE.0 / GROUP;

/// Groups that a thread converts.
pub(super) const GROUPS_OF_THREAD: u32 = GROUPS_OF_ROW * TILE.1 / BLOCK.0;

const _: () = assert!(GROUPS_OF_THREAD * BLOCK.0 == GROUPS_OF_ROW * TILE.1);

/// Bits of a group in the word of a thread's uncertain values: one for each value, four channels at most.
pub(super) const GROUP_BITS: u32 = 4 * GROUP;

const _: () = assert!(GROUP_BITS * GROUPS_OF_THREAD == u32::BITS);

/// Warps of a block.
pub(super) const WARPS: u32 = BLOCK.0 / 32;

/// Columns of the mask in device memory: rows are filled up with zeros, so that each begins at a multiple of 16 bytes.
#[must_use]
pub const fn padded_mask_width(mask_width: u32) -> u32 {
    mask_width.next_multiple_of(GROUP)
}

/// Groups of a row of the windows of a tile.
///
/// A window begins up to three pixels after the first group. One word more than the window is read.
const fn window_groups(mask_width: u32) -> u32 {
    GROUPS_OF_ROW + padded_mask_width(mask_width) / GROUP + 1
}

/// Bytes of the results of a tile.
const fn result_bytes(value_bytes: u32, channels: u32) -> u32 {
    TILE.0 * TILE.1 * channels * value_bytes
}

/// Bytes of the list: it has room for all values of a tile, in two bytes each.
const fn list_bytes(channels: u32) -> u32 {
    TILE.0 * TILE.1 * channels * 2
}

/// The dynamic shared memory of a block in bytes, for values of `value_bytes` bytes.
#[must_use]
pub const fn shared_bytes(value_bytes: usize, channels: u32, (width, height): (u32, u32)) -> u64 {
    let row = (window_groups(width) * GROUP) as u64 * value_bytes as u64;
    let windows = row * (TILE.1 + height - 1) as u64 * channels as u64;
    let value_bytes = value_bytes as u32;
    (result_bytes(value_bytes, channels) + list_bytes(channels) + 4 * WARPS) as u64 + windows
}

/// The parts of a block's shared memory.
#[derive(Clone, Copy)]
pub(super) struct SharedParts {
    /// The results of the tile, row by row, channels interleaved.
    pub(super) results: Shared<u32>,
    /// The uncertain values: see [`ListEntry`].
    pub(super) list: Shared<u16>,
    /// The number of uncertain values of each warp.
    pub(super) counts: Shared<u32>,
    /// The pixels under the windows of the tile: planes of the channels, each row by row.
    pub(super) windows: Shared<u32>,
    /// Words from one row of the windows to the next.
    pub(super) row_words: u32,
    /// Words from one channel of the windows to the next.
    pub(super) plane_words: u32,
    /// Groups of a row of the windows.
    pub(super) groups: u32,
}

impl SharedParts {
    #[inline(always)]
    pub(super) fn new<T: Whole, const C: u32>(params: &Params) -> Self {
        let bytes = size_of::<T>() as u32;
        let groups = window_groups(params.mask_width as u32);
        let row_words = groups * bytes;
        let results = Shared::<u8>::dynamic();
        let list = results.offset(const { result_bytes(size_of::<T>() as u32, C) });
        let counts = list.offset(const { list_bytes(C) });
        let windows = counts.offset(4 * WARPS);
        Self {
            results: results.cast(),
            list: list.cast(),
            counts: counts.cast(),
            windows: windows.cast(),
            row_words,
            plane_words: row_words * (TILE.1 + params.mask_height as u32 - 1),
            groups,
        }
    }
}

/// The place of a value in a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListEntry {
    /// The group, counted row by row.
    pub(super) group: u32,
    /// The value in the group: pixel by pixel, channels interleaved.
    pub(super) value: u32,
}

impl ListEntry {
    #[inline(always)]
    pub(super) fn pack(self) -> u16 {
        ((self.group * GROUP_BITS) | self.value) as u16
    }

    #[inline(always)]
    pub(super) fn unpack(packed: u16) -> Self {
        let packed = u32::from(packed);
        Self { group: packed / GROUP_BITS, value: packed % GROUP_BITS }
    }

    /// Row, column and channel in the tile.
    #[inline(always)]
    pub(super) fn place<const C: u32>(self) -> (u32, u32, u32) {
        let column = self.group % GROUPS_OF_ROW * GROUP + self.value / C;
        (self.group / GROUPS_OF_ROW, column, self.value % C)
    }

    /// The index among the tile's results.
    #[inline(always)]
    pub(super) fn index<const C: u32>(self) -> u32 {
        self.group * GROUP * C + self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each value has an entry of its own, which is the value's place.
    #[test]
    fn entries_are_places() {
        fn check<const C: u32>() {
            let mut index = 0;
            for (row, column) in (0..TILE.1).flat_map(|row| (0..TILE.0).map(move |column| (row, column))) {
                for channel in 0..C {
                    let group = row * GROUPS_OF_ROW + column / GROUP;
                    let entry = ListEntry { group, value: column % GROUP * C + channel };
                    assert_eq!(ListEntry::unpack(entry.pack()), entry);
                    assert_eq!((entry.place::<C>(), entry.index::<C>()), ((row, column, channel), index));
                    index += 1;
                }
            }
        }
        check::<1>();
        check::<2>();
        check::<3>();
        check::<4>();
    }

    /// The last window of a tile, wherever the first one begins in its group, and the word after it.
    #[test]
    fn windows_lie_in_shared_memory() {
        for mask_width in 1..200 {
            let (columns, groups) = (padded_mask_width(mask_width), window_groups(mask_width));
            for lead in 0..GROUP {
                let last = lead + TILE.0 - 1;
                // Of u8 a word is a group, of u16 it is half a group.
                assert!(last / 4 + columns / 4 < groups, "{mask_width} columns, {lead} before");
                assert!(last / 2 + columns / 2 < 2 * groups, "{mask_width} columns, {lead} before");
            }
        }
    }
}
