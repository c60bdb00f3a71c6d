//! Where image, mask and matrices lie in shared memory, and which mask the host passes.

use super::{
    AT_A_TIME, CHUNK, GRANULE, MOST_HELD, PIECE, PLANES, ROWS, TILE, WARPS, WORDS, apart, most_uncertain, of_block,
    result_pitch,
};

/// What the host passes beside the coefficients: indices of words.
pub mod header {
    /// The number of bits of the fraction.
    pub const SHIFT: u32 = 0;
    /// What is added to each sum.
    pub const BIAS: u32 = 1;
    /// A fraction below this, shifted up to 32 bits, is uncertain.
    pub const UNCERTAIN: u32 = 2;
    /// Words of the header; the last four are the sums that the products begin with.
    pub const WORDS: u32 = 8;
}

/// Where a row of the image in shared memory has what. Channels lie apart, each in its columns, or side by side as in the image; then a
/// column is a value.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Channels that lie apart: all, or 1 where they lie side by side.
    pub apart: u32,
    /// Columns from one pixel to the next.
    pub stride: u32,
    /// Columns by which it begins further left than the block's first output.
    pub left: i32,
    /// The word in which the window of the block's first output begins: its byte.
    pub first: u32,
    /// The byte of that word.
    pub phase: u32,
    /// Chunks of a row of the mask.
    pub chunks: u32,
    /// Whether a row of the mask spans half a chunk, so that two make one.
    pub paired: bool,
    /// Columns of a row, of each channel where they lie apart: in whole pieces or granules.
    pub run: u32,
    /// Values by which what is copied begins further left than these columns.
    pub lead: u32,
    /// Bytes that are copied, in whole pieces.
    pub copied: u32,
    /// Bytes from one row to the next.
    pub pitch: u32,
    /// Whether all matrices are in registers.
    pub held: bool,
}

impl Layout {
    /// For masks of `width` columns whose windows begin `origin_x` columns left of their outputs. Where `size`, the side
    /// of the masks for which the kernel is made, is not 0, only `left` depends on the origin, and what is copied begins at a
    /// multiple of a piece where that is the middle.
    #[inline(always)]
    #[must_use]
    pub const fn new(channels: u32, width: u32, origin_x: i32, size: u32) -> Self {
        let middle = if size > 0 { (size as i32 - 1) / 2 } else { origin_x };
        Self::with_middle(channels, width, origin_x, middle, size)
    }

    /// The largest, for any origin.
    pub(super) const fn largest(channels: u32, width: u32, size: u32) -> Self {
        if size > 0 { Self::new(channels, size, 0, size) } else { Self::with_middle(channels, width, 0, 1, 0) }
    }

    #[inline(always)]
    const fn with_middle(channels: u32, width: u32, origin_x: i32, middle: i32, size: u32) -> Self {
        let apart = apart(channels, size);
        let stride = channels / apart;
        let unit = if apart == 1 { PIECE } else { GRANULE };
        let skip = ((middle * stride as i32).wrapping_neg() & (unit as i32 - 1)) as u32;
        let phase = skip % 4;
        let span = phase + TILE + (width - 1) * stride;
        let chunks = span.div_ceil(CHUNK);
        let paired = size > 0 && span <= CHUNK / 2;
        // What the products read of it, and what the windows of uncertain pixels do, word by word with one more.
        let of_products = of_block(apart) - TILE + if paired { CHUNK / 2 } else { CHUNK * chunks };
        let of_windows = (phase + of_block(apart) - 1) / 4 * 4 + 4 * (((width - 1) * stride + 1).div_ceil(4) + 1);
        let read = skip - phase + if of_products > of_windows { of_products } else { of_windows };
        let run = read.next_multiple_of(unit);
        let lead = if apart == 1 { 0 } else { ((middle + skip as i32) * apart as i32) as u32 % PIECE };
        let copied = (lead + run * apart).next_multiple_of(PIECE);
        Self {
            apart,
            stride,
            left: origin_x * stride as i32 + skip as i32,
            first: skip - phase,
            phase,
            chunks,
            paired,
            run,
            lead,
            copied,
            // An odd number of pieces.
            pitch: ((copied / PIECE) | 1) * PIECE,
            held: size > 0 && (paired || chunks * size <= MOST_HELD as u32),
        }
    }

    /// Parts of the mask that matrices are made of: rows in chunks, or pairs of rows, each once with the pair's first
    /// row an even one of the mask, and once an odd one.
    #[inline(always)]
    #[must_use]
    pub const fn parts(&self, mask_height: u32) -> u32 {
        if self.paired { mask_height.div_ceil(2) * 2 } else { self.chunks * self.rows(mask_height) }
    }

    /// The rows of a mask, with those of zeros behind them.
    #[inline(always)]
    pub(super) const fn rows(&self, mask_height: u32) -> u32 {
        if self.held { mask_height } else { padded(mask_height) }
    }

    /// Which row and column of the mask stand in row `k` (0 to 31) and column `n` (0 to 7) of the matrix of a part, if any do.
    #[must_use]
    pub const fn place(&self, mask: (u32, u32), part: u32, k: u32, n: u32) -> Option<(u32, u32)> {
        let (row, place) = if self.paired {
            ((part / 2 * 2 + k / (CHUNK / 2)).wrapping_sub(part % 2), k % (CHUNK / 2))
        } else {
            (part % self.rows(mask.1), part / self.rows(mask.1) * CHUNK + k)
        };
        let from = self.phase + n;
        if row >= mask.1 || place < from || !(place - from).is_multiple_of(self.stride) {
            return None;
        }
        let column = (place - from) / self.stride;
        if column < mask.0 { Some((row, column)) } else { None }
    }

    /// Of the matrix of a part a lane has four words: the row `k` and the column `n` of byte `byte` of word `word`, and
    /// which of the two bytes of the coefficients it is.
    #[must_use]
    pub const fn matrix_place(lane: u32, word: u32, byte: u32) -> (u32, u32, u32) {
        (word % 2 * 16 + lane % 4 * 4 + byte, lane / 4, word / 2)
    }
}

/// Words from one row of coefficients to the next.
#[inline(always)]
#[must_use]
pub const fn coefficient_pitch(mask_width: u32) -> u32 {
    mask_width.next_multiple_of(4)
}

/// The rows of a mask of any size, with those of zeros behind them.
#[inline(always)]
pub(super) const fn padded(mask_height: u32) -> u32 {
    mask_height.next_multiple_of(AT_A_TIME)
}

/// Bytes of a plane of the image's rows.
#[inline(always)]
pub(super) const fn plane_bytes(layout: &Layout, mask_height: u32) -> u32 {
    (ROWS + layout.rows(mask_height) - 1).div_ceil(PLANES) * layout.pitch
}

/// Bytes of the image's rows: the next step's are copied during this one, but for channels that lie apart.
#[inline(always)]
pub(super) const fn image_bytes(layout: &Layout, mask_height: u32) -> u32 {
    PLANES * plane_bytes(layout, mask_height) * if layout.apart == 1 { 2 } else { 1 }
}

/// The dynamic shared memory that a launch needs, in bytes. `size` is the side of the masks for which the kernel is
/// made, 0 for any.
#[must_use]
pub const fn shared_bytes(channels: u32, mask_width: u32, mask_height: u32, size: u32) -> u64 {
    let layout = Layout::largest(channels, mask_width, size);
    let planes = image_bytes(&Layout { pitch: 1, ..layout }, mask_height) as u64;
    let image = planes * layout.pitch as u64;
    let parts = if layout.held { 0 } else { layout.parts(mask_height) as u64 };
    let mask = coefficient_pitch(mask_width) as u64 * mask_height as u64 + parts * WORDS as u64;
    let results = ROWS as u64 * result_pitch(layout.apart) as u64;
    let lists = WARPS as u64 * (2 * most_uncertain(layout.apart) as u64 + 4);
    image + results + lists + 4 * mask + 4 * layout.pitch as u64
}

// Each warp fills and writes a plane, a turn of products goes down a row of every plane, and four words of flags wait where a list will be.
const _: () = assert!(WARPS == PLANES && AT_A_TIME == PLANES);
const _: () = assert!(4 * 32 * 4 <= 2 * most_uncertain(3) && most_uncertain(3) <= most_uncertain(4));
