//! What a block has in shared memory, and where constant memory has the factors.

use cuda_std::prelude::*;

use crate::abi::params::padded_mask_width;
use crate::common::async_rows::STEP_ROWS;
use crate::separable::block_tile::padded_halo;

/// Rows of a step.
pub(in crate::separable) const ROWS: u32 = STEP_ROWS as u32;

/// Threads of a block, and values of a row that it computes.
pub const THREADS: u32 = 512;

/// Groups of unfinished sums of a column. Each has the sums of 16 outputs.
#[must_use]
pub const fn groups(padded_halo: u32) -> usize {
    padded_halo as usize / STEP_ROWS
}

/// The index of the column's first coefficient in constant memory. The kernel does not read what lies before it.
#[must_use]
pub const fn column_offset(mask_height: u32) -> u32 {
    padded_halo(mask_height) + 1 - mask_height
}

/// The index of the row's first coefficient in constant memory.
#[must_use]
pub const fn row_offset(padded_halo: u32) -> u32 {
    padded_halo + ROWS
}

/// The index of the two numbers in constant memory that say which values are certain.
#[must_use]
pub(in crate::separable) const fn certain_offset(padded_halo: u32) -> u32 {
    padded_halo + 1
}

/// The index of the coefficients of the ordered sums in constant memory, with rows of [`padded_mask_width`].
#[must_use]
pub(in crate::separable) const fn ordered_offset((mask_width, mask_height): (u32, u32)) -> u32 {
    (row_offset(padded_halo(mask_height)) + mask_width).next_multiple_of(4)
}

/// Groups of 16 rows of pixels in shared memory.
///
/// Without a proof one is copied while the row pass reads the other. With a proof the rows under the windows of the
/// results of the last step are there, too.
pub(super) const fn stages(padded_halo: u32, is_proven: bool) -> u32 {
    if is_proven { padded_halo / ROWS + 4 } else { 2 }
}

/// Bytes from one row of pixels to the next: an odd number of vectors of 16 bytes, so that 8 threads in 8 rows access
/// all banks.
///
/// A thread reads whole steps of coefficients, and two vectors more.
pub(super) const fn pitch(channels: u32, value_bytes: u32, mask_width: u32) -> u32 {
    let values = THREADS + mask_width.next_multiple_of(ROWS) * channels;
    (((values * value_bytes).div_ceil(16) + 2) | 1) * 16
}

/// Values from one filtered row to the next: an odd number of vectors.
pub(super) const FILTERED_PITCH: u32 = ((THREADS / 4) | 1) * 4;

/// Lists of uncertain values: one is filled while the other is computed again.
pub(super) const LISTS: u32 = 2;

/// The numbers of values in the lists: one is counted, one read, and one cleared.
pub(super) const COUNTS: u32 = 3;

/// The parts of a block's shared memory, as byte offsets.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    /// Two groups of 16 filtered rows.
    pub(super) filtered: u32,
    /// The [`stages`] of pixels.
    pub(super) pixels: u32,
    /// The mask of the ordered sums.
    pub(super) ordered: u32,
    /// Two lists of uncertain values, each with room for all values of a step.
    pub(super) lists: u32,
    /// The numbers of values in the lists.
    pub(super) counts: u32,
    /// The border table.
    pub(super) table: u32,
    /// Bytes in all.
    pub(super) end: u32,
}

impl Parts {
    /// Those of a block.
    #[inline(always)]
    pub(super) const fn new(
        padded_halo: u32,
        (channels, value_bytes): (u32, u32),
        (mask_width, mask_height): (u32, u32),
        is_proven: bool,
    ) -> Self {
        let pitch = pitch(channels, value_bytes, mask_width);
        let filtered = 0;
        let pixels = filtered + 2 * ROWS * FILTERED_PITCH * size_of::<f32>() as u32;
        let ordered = pixels + stages(padded_halo, is_proven) * ROWS * pitch;
        let proven = is_proven as u32;
        let lists = ordered + proven * padded_mask_width(mask_width) * mask_height * size_of::<f32>() as u32;
        let counts = lists + proven * LISTS * ROWS * THREADS * size_of::<u16>() as u32;
        let table = counts + proven * 4 * size_of::<u32>() as u32;
        Self { filtered, pixels, ordered, lists, counts, table, end: table + pitch / value_bytes * 4 }
    }
}

/// A value of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListEntry {
    /// The value in the block's row.
    pub(super) column: u32,
    /// The row of the step.
    pub(super) row: u32,
}

impl ListEntry {
    #[inline(always)]
    pub(super) fn pack(self) -> u16 {
        ((self.column * ROWS) | self.row) as u16
    }

    #[inline(always)]
    pub(super) fn unpack(packed: u16) -> Self {
        let packed = u32::from(packed);
        Self { column: packed / ROWS, row: packed % ROWS }
    }
}

/// The part of the dynamic shared memory from byte `bytes` on.
#[inline(always)]
pub(super) fn part<T: Scalar>(bytes: u32) -> Shared<T> {
    Shared::dynamic_at(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_places() {
        for (row, column) in (0..ROWS).flat_map(|row| (0..THREADS).map(move |column| (row, column))) {
            let entry = ListEntry { column, row };
            assert_eq!(ListEntry::unpack(entry.pack()), entry);
        }
    }

    /// Every part begins at a multiple of 16 bytes, and numbers in constant memory do not overlap.
    #[test]
    fn parts_are_aligned() {
        for (width, height) in [(1, 2), (3, 3), (31, 17), (30, 18), (63, 32), (129, 33)] {
            let halo = padded_halo(height);
            for (channels, bytes) in [(1, 1), (3, 1), (4, 2), (3, 4)] {
                let parts = Parts::new(halo, (channels, bytes), (width, height), bytes == 1);
                for at in [parts.pixels, parts.ordered, parts.lists, parts.counts, parts.table] {
                    assert!(at.is_multiple_of(16), "{width} x {height}");
                }
            }
            assert!(column_offset(height) + height <= certain_offset(halo));
            assert!(certain_offset(halo) + 2 <= row_offset(halo));
            assert!(row_offset(halo) + width <= ordered_offset((width, height)));
        }
    }
}
