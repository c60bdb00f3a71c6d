//! How a block partitions the columns, and the layout of shared memory.

use super::SUBTILE;
use crate::common::async_rows::{STEP_ROWS, VECTOR};

/// Buffers for the pixels of a step. With three channels a third one did not change the time.
pub(super) const fn stages(channels: u32) -> u32 {
    if channels == 1 { 3 } else { 2 }
}

/// Channels that a warp computes together. It loads and stores them as vectors, which three values are not.
#[must_use]
pub const fn together(channels: u32, blocks: u32) -> u32 {
    match channels {
        // The sums of four channels would not fit in registers.
        4 if blocks > 9 => 2,
        2 | 4 => channels,
        _ => 1,
    }
}

/// Blocks of 8 rows or columns that the windows of 8 neighbouring outputs touch.
///
/// Windows begin `origin_x` columns before their output. The row pass has 16 outputs at a time, whose windows touch one
/// block more.
#[must_use]
pub const fn blocks(mask_width: u32, mask_height: u32, origin_x: i32) -> u32 {
    let width = mask_width + odd(origin_x);
    (if width > mask_height { width } else { mask_height } + SUBTILE - 1).div_ceil(SUBTILE)
}

/// Tiles of a warp: 16 columns of a channel each.
///
/// There is one for each channel that a warp computes. If that is one channel, there are two neighbours where 4
/// [`subtiles`] would not divide the groups of pending sums.
#[must_use]
pub const fn tiles(channels: u32, blocks: u32) -> u32 {
    match together(channels, blocks) {
        1 if !(blocks - 1).is_multiple_of(4) => 2,
        together => together,
    }
}

/// Groups of 8 rows that a warp filters at a time.
#[must_use]
pub const fn subtiles(channels: u32, blocks: u32) -> u32 {
    4 / tiles(channels, blocks)
}

/// Warps of a block, by the pending sums of a lane. More of them have no registers, or are not faster.
#[must_use]
pub const fn warps(channels: u32, blocks: u32) -> u32 {
    let sums = 4 * tiles(channels, blocks) * (blocks - 1);
    if channels == 3 {
        // A multiple of the channels.
        12
    } else if sums <= 32 {
        16
    } else if channels == 1 {
        12
    } else {
        8
    }
}

/// Rows of a step: those that a warp filters at a time, but at least as many as are copied at a time.
#[must_use]
pub const fn rows(channels: u32, blocks: u32) -> u32 {
    (SUBTILE * subtiles(channels, blocks)).next_multiple_of(STEP_ROWS as u32)
}

/// Columns of a warp, in pixels.
#[must_use]
pub const fn warp_columns(channels: u32, blocks: u32) -> u32 {
    16 * tiles(channels, blocks) / together(channels, blocks)
}

/// Output columns of a block, in pixels.
#[must_use]
pub const fn columns(channels: u32, blocks: u32) -> u32 {
    16 * tiles(channels, blocks) * warps(channels, blocks) / channels
}

/// Values from the first one that a block copies to its first window. The first one is at a multiple of 4 in its row.
pub(super) const fn lead(channels: u32, origin_x: i32) -> u32 {
    (origin_x.wrapping_neg() as u32).wrapping_mul(channels) % VECTOR
}

/// Whether a window begins in the second pixel of a pair. Of one channel, lanes read pixels in pairs.
pub(super) const fn odd(origin_x: i32) -> u32 {
    lead(1, origin_x) % 2
}

/// Vectors of a row of pixels: those under the windows of all columns, padded to whole blocks, and the [`lead`].
pub(super) const fn vectors(channels: u32, blocks: u32) -> u32 {
    let columns = columns(channels, blocks) - 16 + SUBTILE * (blocks + 1);
    (channels * columns + VECTOR - 1).div_ceil(VECTOR)
}

/// Values from one row of pixels to the next in shared memory.
///
/// The lanes of a warp read 8 rows. A request reads 32 words: pairs of 4 rows, or vectors of four of 2 rows. They fill
/// all banks. With three channels, no two lanes share a bank. If a lane reads two of four channels, two lanes share a
/// bank.
pub(super) const fn pitch(channels: u32, blocks: u32) -> u32 {
    let values = VECTOR * vectors(channels, blocks);
    let remainder = match channels {
        3 => return values | VECTOR,
        4 => 16,
        _ => 8,
    };
    values.saturating_sub(remainder).next_multiple_of(32) + remainder
}

/// Elements of each table of coefficients.
pub(super) const fn elements(blocks: u32) -> u32 {
    SUBTILE * (blocks + 2)
}

/// Tables of coefficients: `tf32` parts of the row, `bf16` pairs of the row, both of the column.
pub(super) const TABLES: u32 = 3;

/// Whether the results of a step are collected in shared memory. With three channels a lane has one of them. Its stores
/// would be 12 bytes apart.
pub(super) const fn is_staged(channels: u32) -> bool {
    channels == 3
}

/// Values from one row of collected results to the next. With three channels the stores of a warp have no bank
/// conflict.
pub(super) const fn staged_pitch(channels: u32, blocks: u32) -> u32 {
    channels * columns(channels, blocks) + 4
}

/// Values of the results of a step in shared memory.
pub(super) const fn staged_values(channels: u32, blocks: u32) -> u32 {
    if is_staged(channels) { rows(channels, blocks) * staged_pitch(channels, blocks) } else { 0 }
}

/// The dynamic shared memory of a block, in bytes, for masks of up to this many [`blocks`].
///
/// It holds pixels, the tables of coefficients, the border table, and the results of two steps that are collected.
#[must_use]
pub const fn shared_bytes(channels: u32, blocks: u32) -> u64 {
    let pixels = stages(channels) * rows(channels, blocks) * pitch(channels, blocks);
    let tables = TABLES * 4 * elements(blocks) + VECTOR * vectors(channels, blocks);
    4 * (pixels + tables + 2 * staged_values(channels, blocks)) as u64
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::collections::BTreeSet;

    use super::*;

    /// The most different words of one bank that the vectors of some lanes have. Vector `i` has `words` words from the
    /// word `first(g, t)` of its lane on. A request reads 32 words.
    fn conflict(words: u32, first: impl Fn(u32, u32) -> u32) -> usize {
        let lanes = 32 / words;
        let of_request = |request: u32| {
            let read: BTreeSet<u32> = (request * lanes..(request + 1) * lanes)
                .flat_map(|lane| (0..words).map(move |word| (lane, word)))
                .map(|(lane, word)| first(lane / 4, lane % 4) + word)
                .collect();
            (0..32).map(|bank| read.iter().filter(|&word| word % 32 == bank).count()).max().unwrap()
        };
        (0..words).map(of_request).max().unwrap()
    }

    /// The comments say which conflicts there are.
    #[test]
    fn bank_conflicts_are_as_stated() {
        for blocks in [5, 7, 9, 13, 17] {
            // With one channel a lane reads a pair of pixels, else the channels of a pixel that the warp computes.
            let pixels = [1, 2, 3, 4].map(|c| {
                let words = if c == 1 { 2 } else { together(c, blocks) };
                conflict(words, |g, t| g * pitch(c, blocks) + t * c.max(2))
            });
            assert_eq!(pixels, [1, 1, 1, if blocks > 9 { 2 } else { 1 }], "{blocks}");
            assert_eq!(conflict(1, |g, t| g * 3 + 2 * t * staged_pitch(3, blocks)), 1, "{blocks}");
        }
    }

    /// The vectors hold what the lanes of all warps read, whatever the lead.
    #[test]
    fn rows_hold_all_pixels() {
        for (channels, blocks) in (1..=4).flat_map(|channels| [5, 7, 9, 13, 17].map(|blocks| (channels, blocks))) {
            let last_pixel = columns(channels, blocks) - 16 + SUBTILE * (blocks + 1) - 1;
            let last =
                (0..4).map(|origin| lead(channels, origin) + last_pixel * channels + channels - 1).max().unwrap();
            let values = vectors(channels, blocks) * VECTOR;
            assert!(last < values && values <= pitch(channels, blocks), "{channels} channels, {blocks} blocks");
        }
    }
}
