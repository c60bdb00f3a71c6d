//! How a block partitions the columns, and the layout of shared memory.

use super::SUBTILE;
use crate::common::async_rows::VECTOR;

/// Buffers of pixels, one step each.
pub(super) const STAGES: u32 = 3;

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

/// Warps of a block: as many as registers allow.
#[must_use]
pub const fn warps(blocks: u32) -> u32 {
    if blocks <= 9 && tiles(blocks) == 1 { 16 } else { 12 }
}

/// Rows of a step.
#[must_use]
pub const fn rows(blocks: u32) -> u32 {
    SUBTILE * subtiles(blocks)
}

/// Output columns of a block.
#[must_use]
pub const fn columns(blocks: u32) -> u32 {
    16 * tiles(blocks) * warps(blocks)
}

/// Columns from the first pixel that a block reads, at a multiple of 4, to its first window.
pub(super) const fn lead(origin_x: i32) -> u32 {
    origin_x.wrapping_neg() as u32 % VECTOR
}

/// Whether a window begins in the second pixel of a pair. Lanes read pixels in pairs.
pub(super) const fn odd(origin_x: i32) -> u32 {
    lead(origin_x) % 2
}

/// Vectors of a row of pixels: those under the windows of all columns, padded to whole blocks, and two columns.
pub(super) const fn vectors(blocks: u32) -> u32 {
    (columns(blocks) - 16 + SUBTILE * (blocks + 1) + 2).div_ceil(VECTOR)
}

/// Pixels from one row to the next in shared memory: pairs from 4 rows access all banks.
pub(super) const fn pitch(blocks: u32) -> u32 {
    let columns = vectors(blocks) * VECTOR;
    columns.saturating_sub(8).next_multiple_of(32) + 8
}

/// Elements of each table of coefficients.
pub(super) const fn elements(blocks: u32) -> u32 {
    SUBTILE * (blocks + 2)
}

/// Tables of coefficients: `tf32` parts of the row, `bf16` pairs of the row, both of the column.
pub(super) const TABLES: u32 = 3;

/// The dynamic shared memory of a block, in bytes, for masks of up to this many [`blocks`].
///
/// It holds pixels, the tables of coefficients, and the border table.
#[must_use]
pub const fn shared_bytes(blocks: u32) -> u64 {
    let words = STAGES * rows(blocks) * pitch(blocks) + TABLES * 4 * elements(blocks) + VECTOR * vectors(blocks);
    4 * words as u64
}
