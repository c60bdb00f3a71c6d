//! How a block partitions the columns, and the layout of shared memory.

use super::SUBTILE;
use crate::common::async_rows::VECTOR;

/// Buffers for the pixels of a step. With several channels the results need shared memory, too.
pub(super) const fn stages(channels: u32) -> u32 {
    if channels == 1 { 3 } else { 2 }
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

/// Tiles of 16 columns of a warp: two where 4 [`subtiles`] would not divide the groups of pending sums.
#[must_use]
pub const fn tiles(blocks: u32) -> u32 {
    if (blocks - 1).is_multiple_of(4) { 1 } else { 2 }
}

/// Groups of 8 rows in a step.
#[must_use]
pub const fn subtiles(blocks: u32) -> u32 {
    4 / tiles(blocks)
}

/// Warps of a block: as many as registers allow, and equally many for each channel.
#[must_use]
pub const fn warps(channels: u32, blocks: u32) -> u32 {
    if blocks <= 9 && tiles(blocks) == 1 && channels != 3 { 16 } else { 12 }
}

/// Rows of a step.
#[must_use]
pub const fn rows(blocks: u32) -> u32 {
    SUBTILE * subtiles(blocks)
}

/// Output columns of a block, in pixels.
#[must_use]
pub const fn columns(channels: u32, blocks: u32) -> u32 {
    16 * tiles(blocks) * warps(channels, blocks) / channels
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
/// The lanes of a warp read 8 rows at once. With one channel, the pairs of 4 rows fill all banks. With three channels, no
/// two lanes share a bank. With two and four channels there are conflicts of two and of four lanes.
pub(super) const fn pitch(channels: u32, blocks: u32) -> u32 {
    let vectors = vectors(channels, blocks);
    if channels > 2 {
        return VECTOR * (vectors | 1);
    }
    (VECTOR * vectors).saturating_sub(8).next_multiple_of(32) + 8
}

/// Elements of each table of coefficients.
pub(super) const fn elements(blocks: u32) -> u32 {
    SUBTILE * (blocks + 2)
}

/// Tables of coefficients: `tf32` parts of the row, `bf16` pairs of the row, both of the column.
pub(super) const TABLES: u32 = 3;

/// Values from one row of collected results to the next. With three channels the stores of a warp have no bank conflict.
pub(super) const fn staged_pitch(channels: u32, blocks: u32) -> u32 {
    channels * columns(channels, blocks) + 4
}

/// Values of the results of a step in shared memory. With one channel there are none.
pub(super) const fn staged_values(channels: u32, blocks: u32) -> u32 {
    if channels > 1 { rows(blocks) * staged_pitch(channels, blocks) } else { 0 }
}

/// The dynamic shared memory of a block, in bytes, for masks of up to this many [`blocks`].
///
/// It holds pixels, the tables of coefficients, the border table, and the results of two steps of several channels.
#[must_use]
pub const fn shared_bytes(channels: u32, blocks: u32) -> u64 {
    let pixels = stages(channels) * rows(blocks) * pitch(channels, blocks);
    let tables = TABLES * 4 * elements(blocks) + VECTOR * vectors(channels, blocks);
    4 * (pixels + tables + 2 * staged_values(channels, blocks)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest bank conflict of a warp: the most different words of one bank.
    fn conflict(word: impl Fn(u32, u32) -> u32) -> usize {
        let words: [u32; 32] = core::array::from_fn(|lane| word(lane as u32 / 4, lane as u32 % 4));
        let is_first = |lane: &usize| !words[..*lane].contains(&words[*lane]);
        let of_bank = |bank| (0..32).filter(is_first).filter(|&lane| words[lane] % 32 == bank).count();
        (0..32).map(of_bank).max().unwrap()
    }

    /// The comments say which conflicts there are.
    #[test]
    fn bank_conflicts_are_as_stated() {
        for blocks in [5, 7, 9, 13, 17] {
            let pixels = [2, 3, 4].map(|c| conflict(|g, t| g * pitch(c, blocks) + t * c));
            assert_eq!(pixels, [2, 1, 4], "{blocks}");
            let results = [2, 3, 4].map(|c| conflict(|g, t| g * c + 2 * t * staged_pitch(c, blocks)));
            assert_eq!(results, [2, 1, 4], "{blocks}");
            // A pair has two words: a warp reads 64 words in two passes, 4 rows at a time.
            let pairs = conflict(|g, t| if g < 4 { g * pitch(1, blocks) + 2 * t } else { 0 });
            assert_eq!(pairs, 1, "{blocks}");
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
