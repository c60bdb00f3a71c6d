//! The layout of image, mask and matrices in shared memory, and of the mask that the host passes.

use super::separable::{DIGITS, GROUP, place_of_row};
use super::{
    GRANULE, MATRIX_WORDS, MAX_REGISTER_MATRICES, MMA_K, MMA_N, ROWS, SLABS, WARPS, block_columns, list_capacity,
    mask_rows, planar_channels, result_pitch, stages,
};
use crate::abi::params::padded_mask_width;
use crate::common::async_rows::VECTOR_BYTES;

/// The words that the host passes before the coefficients, by index.
pub mod header {
    /// The number of fraction bits.
    pub const SHIFT: u32 = 0;
    /// The summand of each sum.
    pub const BIAS: u32 = 1;
    /// The threshold: a sum is uncertain if its fraction bits, at the top of a word, are below this.
    pub const UNCERTAIN: u32 = 2;
    /// The unit of the ordered sums, or 0. If it is not 0, the coefficients are divided by `unit * 2^FACTOR_EXPONENT`:
    /// see [`Whole::factor`](crate::util::planes::proven::Whole::factor).
    pub const UNIT: u32 = 3;
    /// Words of the header. The last four are the initial accumulators: the bias.
    pub const WORDS: u32 = 8;
}

/// The layout of a row of the image in shared memory.
///
/// Channels are planar, each in columns of its own, or interleaved as in the image. If they are interleaved, a column
/// is a value.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Whether rows are filtered first, then columns.
    pub separable: bool,
    /// The number of channel planes: all channels, or 1 if they are interleaved.
    pub planar: u32,
    /// Columns from one pixel to the next.
    pub stride: u32,
    /// Columns from the beginning of a row to the block's first output.
    pub left: i32,
    /// The byte offset of the word in which the first window begins.
    pub first: u32,
    /// The byte of that word in which the window begins.
    pub phase: u32,
    /// Chunks of 32 bytes that a row of the mask takes.
    pub chunks: u32,
    /// Whether a row of the mask takes half a chunk after these. Two rows share a matrix there.
    pub paired: bool,
    /// Whether a row of the mask takes a quarter of a chunk after these. Four rows share a matrix there.
    pub in_fours: bool,
    /// Columns of a row, for each plane, in whole vectors or granules.
    pub run: u32,
    /// Values from the beginning of the copy to the first column.
    pub lead: u32,
    /// Bytes that are copied, in whole vectors.
    pub copied: u32,
    /// Bytes from one row to the next.
    pub pitch: u32,
    /// Whether a warp holds all matrices in registers.
    pub in_registers: bool,
    /// If not: the rows of the mask whose matrices it holds at a time.
    pub mask_rows: u32,
}

impl Layout {
    /// The layout for masks of `width` columns whose windows begin `origin_x` columns before their output.
    ///
    /// `side` is the side of the masks for which the kernel is compiled, or 0 for any. If it is not 0, only `left`
    /// depends on the origin. Copies then begin at a multiple of a vector if the anchor is in the middle.
    #[inline(always)]
    #[must_use]
    pub const fn new(channels: u32, width: u32, origin_x: i32, side: u32) -> Self {
        let middle = if side > 0 { (side as i32 - 1) / 2 } else { origin_x };
        Self::with_middle(channels, width, origin_x, middle, side, false)
    }

    /// The layout for separable masks of `side` x `side` whose windows begin `origin_x` columns before their output.
    #[inline(always)]
    #[must_use]
    pub const fn separable(channels: u32, side: u32, origin_x: i32) -> Self {
        Self::with_middle(channels, side, origin_x, (side as i32 - 1) / 2, side, true)
    }

    /// The largest layout for any origin.
    pub(super) const fn largest(channels: u32, width: u32, side: u32) -> Self {
        if side > 0 { Self::new(channels, side, 0, side) } else { Self::with_middle(channels, width, 0, 1, 0, false) }
    }

    #[inline(always)]
    const fn with_middle(channels: u32, width: u32, origin_x: i32, middle: i32, side: u32, separable: bool) -> Self {
        let planar = planar_channels(channels, side);
        let stride = channels / planar;
        let unit = if planar == 1 { VECTOR_BYTES } else { GRANULE };
        let skip = ((middle * stride as i32).wrapping_neg() & (unit as i32 - 1)) as u32;
        let phase = skip % 4;
        // Columns of outputs of a product that filters rows.
        let columns = if separable { GROUP } else { MMA_N };
        let span = phase + columns + (width - 1) * stride;
        // Rows of the mask share products where whole ones would be at most three quarters full. If the matrices of all
        // whole products fit in registers, fours do not pay. For masks of any size, more loops would take registers for
        // another block.
        let rest = if side == 0 || separable { 0 } else { span % MMA_K };
        let whole_in_registers = separable || span.div_ceil(MMA_K) * side <= MAX_REGISTER_MATRICES as u32;
        let in_fours =
            !whole_in_registers && (rest > 0 && rest <= MMA_K / 4 || rest > MMA_K / 2 && rest <= MMA_K / 4 * 3);
        let paired = rest > MMA_K / 4 && (rest <= MMA_K / 2 || in_fours);
        let chunks = if paired || in_fours { span / MMA_K } else { span.div_ceil(MMA_K) };
        // `of_products`: bytes that the matrix products read. `of_windows`: bytes that recomputed windows read, in
        // whole words and one word more.
        let of_products = block_columns(planar) - columns
            + MMA_K * chunks
            + if paired { MMA_K / 2 } else { 0 }
            + if in_fours { MMA_K / 4 } else { 0 };
        let of_windows = (phase + block_columns(planar) - 1) / 4 * 4 + 4 * (((width - 1) * stride + 1).div_ceil(4) + 1);
        let read = skip - phase + if of_products > of_windows { of_products } else { of_windows };
        let run = read.next_multiple_of(unit);
        let lead = if planar == 1 { 0 } else { ((middle + skip as i32) * planar as i32) as u32 % VECTOR_BYTES };
        let copied = (lead + run * planar).next_multiple_of(VECTOR_BYTES);
        Self {
            separable,
            planar,
            stride,
            left: origin_x * stride as i32 + skip as i32,
            first: skip - phase,
            phase,
            chunks,
            paired,
            in_fours,
            run,
            lead,
            copied,
            // An odd number of vectors: 8 neighbouring rows lie in different banks.
            pitch: ((copied / VECTOR_BYTES) | 1) * VECTOR_BYTES,
            in_registers: side > 0 && whole_in_registers,
            mask_rows: mask_rows(planar, side),
        }
    }

    /// The number of Toeplitz matrices: one for each row of the mask and chunk, two for each pair, two for each four.
    ///
    /// Of the two, one begins with the first row of the pair or the four, the other with the row above it. The heights
    /// of masks with pairs or fours are odd, so the last row has its place in both.
    ///
    /// Separable masks have a matrix for each digit and chunk: those of the row factor, then those of the column.
    #[inline(always)]
    #[must_use]
    pub const fn matrices(&self, mask_height: u32) -> u32 {
        if self.separable {
            return DIGITS * (self.chunks + self.column_chunks(mask_height));
        }
        self.of_chunks(mask_height)
            + self.of_pairs(mask_height)
            + if self.in_fours { mask_height.div_ceil(4) * 2 } else { 0 }
    }

    /// The number of matrices of pairs.
    #[inline(always)]
    const fn of_pairs(&self, mask_height: u32) -> u32 {
        if self.paired { mask_height.div_ceil(2) * 2 } else { 0 }
    }

    /// The number of matrices of whole chunks.
    #[inline(always)]
    const fn of_chunks(&self, mask_height: u32) -> u32 {
        self.chunks * self.rows(mask_height)
    }

    /// Chunks of 32 rows that a column of a separable mask takes, for 16 rows of outputs.
    #[inline(always)]
    pub(super) const fn column_chunks(&self, mask_height: u32) -> u32 {
        (GROUP + mask_height - 1).div_ceil(MMA_K)
    }

    /// The rows of a mask, padded with rows of zeros if chunks come from shared memory. With separable masks, a step
    /// filters the rows of the image in whole groups.
    #[inline(always)]
    pub(super) const fn rows(&self, mask_height: u32) -> u32 {
        if self.separable {
            return (mask_height - 1).next_multiple_of(GROUP) + 1;
        }
        if self.in_registers || self.chunks == 0 { mask_height } else { mask_height.next_multiple_of(self.mask_rows) }
    }

    /// What a lane holds in byte `byte` of word `word` (0 to 3) of its fragment of a matrix, if any.
    ///
    /// It is the row of the mask, its column, and which byte of the coefficient: 0 for the low one, 1 for the high one.
    /// `mask` is the width and the height of the mask.
    #[must_use]
    pub const fn element(
        &self,
        mask: (u32, u32),
        matrix: u32,
        lane: u32,
        (word, byte): (u32, u32),
    ) -> Option<(u32, u32, u32)> {
        // Words 0 and 1 hold low bytes, 2 and 3 high ones. Each holds 4 of the 16 bytes that four lanes share.
        let (k, digit) = (word % 2 * (MMA_K / 2) + lane % 4 * 4 + byte, word / 2);
        let from = self.phase + lane / 4;
        let (rows, of_chunks, of_pairs) = (self.rows(mask.1), self.of_chunks(mask.1), self.of_pairs(mask.1));
        let (row, place) = if matrix < of_chunks {
            (matrix % rows, matrix / rows * MMA_K + k)
        } else if matrix < of_chunks + of_pairs {
            let pair = matrix - of_chunks;
            ((pair / 2 * 2 + k / (MMA_K / 2)).wrapping_sub(pair % 2), self.chunks * MMA_K + k % (MMA_K / 2))
        } else {
            let four = matrix - of_chunks - of_pairs;
            let place = self.chunks * MMA_K + if self.paired { MMA_K / 2 } else { 0 } + k % (MMA_K / 4);
            ((four / 2 * 4 + k / (MMA_K / 4)).wrapping_sub(four % 2), place)
        };
        if row >= mask.1 || place < from || !(place - from).is_multiple_of(self.stride) {
            return None;
        }
        let column = (place - from) / self.stride;
        if column < mask.0 { Some((row, column, digit)) } else { None }
    }

    /// The same for separable masks: which factor, the index in it, and which byte of the number, 0 for the lowest.
    #[must_use]
    pub const fn factor_element(
        &self,
        (width, height): (u32, u32),
        matrix: u32,
        lane: u32,
        (word, byte): (u32, u32),
    ) -> Option<(Factor, u32, u32)> {
        let (row, k) = (lane / 4 + word % 2 * MMA_N, word / 2 * (MMA_K / 2) + lane % 4 * 4 + byte);
        let of_row = DIGITS * self.chunks;
        let (factor, length, matrix, chunks, first) = if matrix < of_row {
            (Factor::Row, width, matrix, self.chunks, self.phase + row)
        } else {
            (Factor::Column, height, matrix - of_row, self.column_chunks(height), place_of_row(row))
        };
        let (digit, place) = (matrix / chunks, matrix % chunks * MMA_K + k);
        if place < first || place - first >= length { None } else { Some((factor, place - first, digit)) }
    }
}

/// A factor of a separable mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// Along a row.
    Row,
    /// Along a column.
    Column,
}

/// Bytes of a slab of the image's rows.
///
/// With separable masks, lanes read rows of two slabs at a time. Slabs begin an odd multiple of 64 bytes apart. So
/// these rows lie in different banks.
#[inline(always)]
pub(super) const fn slab_bytes(layout: &Layout, mask_height: u32) -> u32 {
    let bytes = (ROWS + layout.rows(mask_height) - 1).div_ceil(SLABS) * layout.pitch;
    if layout.separable { bytes + (64_u32.wrapping_sub(bytes) & 127) } else { bytes }
}

/// Bytes of the image's rows in all stages.
#[inline(always)]
pub(super) const fn image_bytes(layout: &Layout, mask_height: u32, side: u32) -> u32 {
    SLABS * slab_bytes(layout, mask_height) * stages(layout, side)
}

/// The dynamic shared memory of a block, in bytes. `side` is the side of the masks of the kernel, 0 for any.
#[must_use]
pub const fn shared_bytes(channels: u32, mask_width: u32, mask_height: u32, side: u32) -> u64 {
    shared_bytes_of(&Layout::largest(channels, mask_width, side), (mask_width, mask_height), side)
}

/// The same for a layout.
#[must_use]
pub(super) const fn shared_bytes_of(layout: &Layout, (mask_width, mask_height): (u32, u32), side: u32) -> u64 {
    let image = if layout.separable {
        image_bytes(layout, mask_height, side) as u64
    } else {
        // The product may exceed 32 bits.
        image_bytes(&Layout { pitch: 1, ..*layout }, mask_height, side) as u64 * layout.pitch as u64
    };
    let matrices = if layout.in_registers { 0 } else { layout.matrices(mask_height) as u64 };
    let mask = padded_mask_width(mask_width) as u64 * mask_height as u64 + matrices * MATRIX_WORDS as u64;
    let results = ROWS as u64 * result_pitch(layout.planar) as u64;
    let lists = WARPS as u64 * (2 * list_capacity(layout.planar) as u64 + 4);
    image + results + lists + 4 * mask + 4 * layout.pitch as u64
}

// Each warp fills and writes one slab. A pass of products takes as many rows of each slab.
const _: () = assert!(WARPS == SLABS && mask_rows(1, 31) == SLABS && mask_rows(3, 31).is_multiple_of(SLABS));
// Until the list is written, its memory holds four words of flags for each lane.
const _: () = assert!(4 * 32 * 4 <= 2 * list_capacity(3) && list_capacity(3) <= list_capacity(4));
// With one channel and separable masks it is two words.
const _: () = assert!(2 * 32 * 4 <= 2 * list_capacity(1));
