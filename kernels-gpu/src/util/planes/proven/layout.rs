//! What a block has in shared memory.

use cuda_std::prelude::*;

use super::{BLOCK, Whole};
use crate::abi::params::{Params, padded_mask_width};

/// Warps of a block.
pub(super) const WARPS: u32 = BLOCK.0 / 32;

/// Banks of shared memory, of four bytes each.
const BANKS: u32 = 32;

/// Neighbouring pixels that a thread converts at a time: see [`PIXELS`](crate::util::planes::PIXELS).
pub(super) const GROUP: u32 = crate::util::planes::PIXELS;

/// Bits of a group in a thread's word of uncertain values: one for each value, rounded up to a power of two.
pub(super) const fn group_bits(channels: u32) -> u32 {
    GROUP * channels.next_power_of_two()
}

/// Groups that a thread converts: those whose bits fit a word, of 32 pixels at the most.
pub(super) const fn groups_of_thread(channels: u32) -> u32 {
    u32::BITS / group_bits(channels)
}

/// Groups of a row of the tile.
pub(super) const fn groups_of_row(channels: u32) -> u32 {
    if channels <= 2 { 32 } else { 16 }
}

/// Columns and rows of the pixels that a block converts.
#[must_use]
pub const fn tile(channels: u32) -> (u32, u32) {
    let groups = groups_of_row(channels);
    (groups * GROUP, groups_of_thread(channels) * BLOCK.0 / groups)
}

/// Groups of a row of the windows of a tile.
///
/// The last window begins in the tile's last group, at any of its pixels. So behind that group it takes as many groups
/// as the mask has.
const fn window_groups(channels: u32, mask_width: u32) -> u32 {
    groups_of_row(channels) + padded_mask_width(mask_width) / GROUP
}

/// Groups from one row of the windows to the next. The number is odd: see [`GroupPlace::of`].
const fn window_pitch(channels: u32, mask_width: u32) -> u32 {
    window_groups(channels, mask_width) | 1
}

/// Groups from one channel of the windows of `rows` rows to the next. It is a multiple of 32. So in all channels the
/// groups of the same pixels are in the same bank.
const fn window_plane(channels: u32, (width, height): (u32, u32), rows: u32) -> u64 {
    // For any mask, also one far too large.
    (window_pitch(channels, width) as u64 * (rows + height - 1) as u64).next_multiple_of(BANKS as u64)
}

/// Bytes of the results of `rows` rows.
const fn result_bytes(value_bytes: u32, channels: u32, rows: u32) -> u32 {
    tile(channels).0 * rows * channels * value_bytes
}

/// Bytes of the list: it has room for all values of `rows` rows, in two bytes each.
const fn list_bytes(channels: u32, rows: u32) -> u32 {
    result_bytes(2, channels, rows)
}

/// The dynamic shared memory of a block in bytes, for values of `value_bytes` bytes and tiles of `rows` rows.
pub(super) const fn shared_bytes(value_bytes: usize, channels: u32, mask: (u32, u32), rows: u32) -> u64 {
    let windows = window_plane(channels, mask, rows) * (GROUP * channels) as u64 * value_bytes as u64;
    let value_bytes = value_bytes as u32;
    (result_bytes(value_bytes, channels, rows) + list_bytes(channels, rows) + 4 * BLOCK.0) as u64 + windows
}

/// The parts of a block's shared memory.
#[derive(Clone, Copy)]
pub(super) struct SharedParts {
    /// The results of the tile, row by row, channels interleaved.
    pub(super) results: Shared<u32>,
    /// The uncertain values: see [`ListEntry`].
    pub(super) list: Shared<u16>,
    /// The number of uncertain values of each thread.
    pub(super) counts: Shared<u32>,
    /// The pixels under the windows of the tile: planes of the channels, each row by row.
    pub(super) windows: Shared<u32>,
    /// Groups of a row of the windows.
    pub(super) row_groups: u32,
    /// Groups from one row of the windows to the next.
    pub(super) pitch: u32,
    /// Words from one row of the windows to the next.
    pub(super) row_words: u32,
    /// Words from one channel of the windows to the next.
    pub(super) plane_words: u32,
}

impl SharedParts {
    #[inline(always)]
    pub(super) fn new<T: Whole, const C: u32>(params: &Params, rows: u32) -> Self {
        let bytes = size_of::<T>() as u32;
        let mask = (params.mask_width as u32, params.mask_height as u32);
        let pitch = window_pitch(C, mask.0);
        let results = Shared::<u8>::dynamic();
        let list = results.offset(result_bytes(bytes, C, rows));
        let counts = list.offset(list_bytes(C, rows));
        let windows = counts.offset(4 * BLOCK.0);
        Self {
            results: results.cast(),
            list: list.cast(),
            counts: counts.cast(),
            windows: windows.cast(),
            row_groups: window_groups(C, mask.0),
            pitch,
            row_words: pitch * bytes,
            plane_words: window_plane(C, mask, rows) as u32 * bytes,
        }
    }
}

/// The place of a group in a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupPlace {
    pub(super) row: u32,
    /// Groups before it in the row.
    pub(super) column: u32,
}

impl GroupPlace {
    /// Group `part` of a thread, with rows of the windows `pitch` groups apart.
    ///
    /// In the windows, the first pixels of all groups of a lane are in the same bank, for pixels of a byte; other lanes
    /// have other banks. To that end a warp takes the groups of a row in an order that the pitch turns. The warp's 32
    /// groups are a row, or the halves of two rows whose banks differ by 16 because the pitch is odd.
    #[inline(always)]
    pub(super) fn of<const C: u32>(thread: u32, part: u32, pitch: u32) -> Self {
        let row = thread / 32 + part * WARPS;
        let turned = thread.wrapping_sub(row * pitch) % BANKS;
        let columns = const { groups_of_row(C) };
        Self { row: row + turned / columns * (BANKS / 2), column: turned % columns }
    }

    /// The number of the group, counted row by row.
    #[inline(always)]
    pub(super) fn number<const C: u32>(self) -> u32 {
        self.row * groups_of_row(C) + self.column
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;

    use super::*;

    /// The threads have all groups of a tile, each once. In each channel those of a lane are in the bank that the
    /// others of the lane are in.
    #[test]
    fn lanes_have_banks() {
        fn check<const C: u32>() {
            let (columns, rows) = tile(C);
            assert_eq!(groups_of_thread(C) * BLOCK.0 * GROUP, columns * rows);
            for mask_width in 1..200 {
                let (pitch, plane) = (window_pitch(C, mask_width), window_plane(C, (mask_width, 5), rows) as u32);
                let mut seen = vec![false; (columns / GROUP * rows) as usize];
                let mut banks = [None; 32];
                for (thread, part) in
                    (0..BLOCK.0).flat_map(|thread| (0..groups_of_thread(C)).map(move |part| (thread, part)))
                {
                    let place = GroupPlace::of::<C>(thread, part, pitch);
                    assert!(place.column < columns / GROUP && place.row < rows);
                    assert!(!std::mem::replace(&mut seen[place.number::<C>() as usize], true));
                    for channel in 0..C {
                        let bank = (channel * plane + place.row * pitch + place.column) % BANKS;
                        assert_eq!(*banks[(thread % 32) as usize].get_or_insert(bank), bank);
                    }
                }
                let mut banks = banks.map(Option::unwrap);
                banks.sort_unstable();
                assert!(banks.iter().zip(0..).all(|(&bank, lane)| bank == lane), "a mask of {mask_width} columns");
            }
        }
        check::<1>();
        check::<2>();
        check::<3>();
        check::<4>();
    }

    /// The last window of a tile, and the word after it.
    #[test]
    fn windows_lie_in_shared_memory() {
        for (channels, mask_width) in (1..=4).flat_map(|channels| (1..200).map(move |width| (channels, width))) {
            let (columns, groups) = (padded_mask_width(mask_width), window_groups(channels, mask_width));
            let last = tile(channels).0 - 1;
            // Of u8 a word is a group, of u16 it is half a group.
            assert!(last / 4 + columns / 4 < groups, "{mask_width} columns");
            assert!(last / 2 + columns / 2 < 2 * groups, "{mask_width} columns");
        }
    }
}
