//! How a block of threads shares out the columns, and where everything lies in shared memory.

use super::SUBTILE;
use crate::common::async_rows::PIECE;

/// Buffers for the pixels of a step each.
pub(super) const STAGES: u32 = 3;

/// Blocks of 8 rows or columns that the windows of 8 neighbouring outputs touch, for windows that begin `origin_x` columns before an
/// output's pixel. The row pass has 16 outputs at a time, whose windows touch one more.
#[must_use]
pub const fn blocks(mask_width: u32, mask_height: u32, origin_x: i32) -> u32 {
    let width = mask_width + odd(origin_x);
    (if width > mask_height { width } else { mask_height } + SUBTILE - 1).div_ceil(SUBTILE)
}

/// Tiles of 16 columns of a warp. Two where 4 [`subtiles`] would not divide the groups of sums that are kept.
#[must_use]
pub const fn tiles(blocks: u32) -> u32 {
    if (blocks - 1).is_multiple_of(4) { 1 } else { 2 }
}

/// Blocks of 8 rows of a step.
#[must_use]
pub const fn subtiles(blocks: u32) -> u32 {
    4 / tiles(blocks)
}

/// Warps of a block: as many as there are registers for.
#[must_use]
pub const fn warps(blocks: u32) -> u32 {
    if blocks <= 9 && tiles(blocks) == 1 { 16 } else { 12 }
}

/// Rows of a step.
#[must_use]
pub const fn rows(blocks: u32) -> u32 {
    SUBTILE * subtiles(blocks)
}

/// Columns of a block of threads.
#[must_use]
pub const fn columns(blocks: u32) -> u32 {
    16 * tiles(blocks) * warps(blocks)
}

/// How many columns the pixels that a block reads begin before its first window: they begin at a multiple of 4.
pub(super) const fn lead(origin_x: i32) -> u32 {
    origin_x.wrapping_neg() as u32 % PIECE
}

/// Pixels are taken two at a time, from an even number on: whether the window begins one further.
pub(super) const fn odd(origin_x: i32) -> u32 {
    lead(origin_x) % 2
}

/// Pieces of a row of pixels: those under the windows of all columns, the last ones of whole blocks, two columns later.
pub(super) const fn pieces(blocks: u32) -> u32 {
    (columns(blocks) - 16 + SUBTILE * (blocks + 1) + 2).div_ceil(PIECE)
}

/// Pixels from one row to the next: 4 rows meet all banks, two at a time.
pub(super) const fn pitch(blocks: u32) -> u32 {
    let columns = pieces(blocks) * PIECE;
    columns.saturating_sub(8).next_multiple_of(32) + 8
}

/// Elements of each of the [`TABLES`] of coefficients.
pub(super) const fn elements(blocks: u32) -> u32 {
    SUBTILE * (blocks + 2)
}

/// Tables of coefficients: of the row the first digits and the rest, and of the column.
pub(super) const TABLES: u32 = 3;

/// The dynamic shared memory that a launch needs, in bytes, for masks of so many [`blocks`]: pixels, the tables of coefficients, and the table of columns.
#[must_use]
pub const fn shared_bytes(blocks: u32) -> u64 {
    let words = STAGES * rows(blocks) * pitch(blocks) + TABLES * 4 * elements(blocks) + PIECE * pieces(blocks);
    4 * words as u64
}
