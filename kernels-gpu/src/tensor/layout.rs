//! Where image, mask and matrices lie in shared memory, and which mask the host passes.

use super::{
    AT_A_TIME, CHUNK, COLUMNS, MOST_HELD, MOST_UNCERTAIN, PIECE, PLANES, RESULT_PITCH, ROWS, SPARSE_PLANES,
    SPARSE_SIDE, TILE, WARPS, WORDS,
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

/// Where a row of the image in shared memory has what.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Bytes by which it begins further left than the block's first output.
    pub left: i32,
    /// The word in which the window of the block's first output begins: its byte.
    pub first: u32,
    /// The byte of that word.
    pub phase: u32,
    /// Chunks of a row of the mask.
    pub chunks: u32,
    /// Whether a row of the mask spans half a chunk, so that two make one.
    pub paired: bool,
    /// Whether the mask is the sparse factor, two rows of it in one matrix.
    pub sparse: bool,
    /// Planes that the rows lie in.
    pub planes: u32,
    /// Bytes from one row to the next.
    pub pitch: u32,
    /// Bytes of the row that are read, in whole pieces.
    pub bytes: u32,
    /// Whether all matrices are in registers.
    pub held: bool,
}

impl Layout {
    /// For masks of `width` columns whose windows begin `origin_x` pixels left of their outputs. Where `size`, the side
    /// of the masks for which the kernel is made, is not 0, only `left` depends on the origin, and is a multiple of a
    /// piece where that is the middle.
    #[inline(always)]
    #[must_use]
    pub const fn new(channels: u32, width: u32, origin_x: i32, size: u32) -> Self {
        let before = origin_x * channels as i32;
        let aligned = if size > 0 { ((size - 1) / 2 * channels) as i32 } else { before };
        let skip = (aligned.wrapping_neg() & (PIECE as i32 - 1)) as u32;
        Self::with_skip(channels, width, before, skip, size)
    }

    /// The largest, for any origin.
    pub(super) const fn largest(channels: u32, width: u32, size: u32) -> Self {
        if size > 0 { Self::new(channels, size, 0, size) } else { Self::with_skip(channels, width, 0, PIECE - 1, 0) }
    }

    #[inline(always)]
    const fn with_skip(channels: u32, width: u32, before: i32, skip: u32, size: u32) -> Self {
        let phase = skip % 4;
        let span = phase + TILE + (width - 1) * channels;
        let chunks = span.div_ceil(CHUNK);
        // An odd number of pieces, with two words more than the products read.
        let pitch = ((skip - phase + COLUMNS - TILE + CHUNK * chunks + 8).div_ceil(PIECE) | 1) * PIECE;
        let paired = size > 0 && span <= CHUNK / 2;
        let sparse = size >= SPARSE_SIDE && !paired && channels >= 3 && span <= CHUNK;
        let planes = if sparse { SPARSE_PLANES } else { PLANES };
        // What the products read of it, and what the windows of uncertain pixels do, word by word with one more.
        let of_products = COLUMNS - TILE + if paired { CHUNK / 2 } else { CHUNK * chunks };
        let of_windows = (phase + COLUMNS - 1) / 4 * 4 + 4 * (((width - 1) * channels + 1).div_ceil(4) + 1);
        let read = skip - phase + if of_products > of_windows { of_products } else { of_windows };
        let bytes = if size > 0 { read.next_multiple_of(PIECE) } else { pitch };
        let held = size > 0 && (paired || sparse || chunks * size <= MOST_HELD as u32);
        Self {
            left: before + skip as i32,
            first: skip - phase,
            phase,
            chunks,
            paired,
            sparse,
            planes,
            pitch,
            bytes,
            held,
        }
    }

    /// Parts of the mask that matrices are made of: rows in chunks, or pairs of rows, each once with the pair's first
    /// row an even one of the mask, and once an odd one.
    #[inline(always)]
    #[must_use]
    pub const fn parts(&self, mask_height: u32) -> u32 {
        if self.paired || self.sparse { mask_height.div_ceil(2) * 2 } else { self.chunks * self.rows(mask_height) }
    }

    /// The rows of a mask, with those of zeros behind them.
    #[inline(always)]
    pub(super) const fn rows(&self, mask_height: u32) -> u32 {
        if self.held { mask_height } else { padded(mask_height) }
    }

    /// Which row and column of the mask stand in row `k` (0 to 31, to 63 in a sparse one) and column `n` (0 to 7) of the
    /// matrix of a part, if any do.
    #[must_use]
    pub const fn place(&self, channels: u32, mask: (u32, u32), part: u32, k: u32, n: u32) -> Option<(u32, u32)> {
        let (row, place) = if self.paired || self.sparse {
            let half = if self.paired { CHUNK / 2 } else { CHUNK };
            ((part / 2 * 2 + k / half).wrapping_sub(part % 2), k % half)
        } else {
            (part % self.rows(mask.1), part / self.rows(mask.1) * CHUNK + k)
        };
        let from = self.phase + n;
        if row >= mask.1 || place < from || !(place - from).is_multiple_of(channels) {
            return None;
        }
        let column = (place - from) / channels;
        if column < mask.0 { Some((row, column)) } else { None }
    }

    /// Of the matrix of a part a lane has four words: the row `k` and the column `n` of byte `byte` of word `word`, and
    /// which of the two bytes of the coefficients it is.
    #[must_use]
    pub const fn matrix_place(&self, channels: u32, lane: u32, word: u32, byte: u32) -> (u32, u32, u32) {
        let n = lane / 4;
        if !self.sparse {
            return (word % 2 * 16 + lane % 4 * 4 + byte, n, word / 2);
        }
        let place = word / 2 * 16 + lane % 4 * 4 + byte;
        let four = place / 2;
        let kept = if place.is_multiple_of(2) { self.first_kept(channels, n, four) } else { 3 };
        (4 * four + kept, n, word % 2)
    }

    /// Which bytes of each four a sparse matrix has for column `n`, as a lane gives it to the product.
    #[must_use]
    pub const fn pattern(&self, channels: u32, n: u32) -> u32 {
        let (mut pattern, mut four) = (0, 0);
        while four < CHUNK / 4 {
            pattern |= (self.first_kept(channels, n, four) | 3 << 2) << (4 * four);
            four += 1;
        }
        pattern
    }

    /// Of each four bytes a sparse matrix has two. Every `channels`-th is a place of column `n`: of three at most the first and
    /// the last one of four. So the last one is kept, and the place before it or any other.
    const fn first_kept(&self, channels: u32, n: u32, four: u32) -> u32 {
        let mut first = 0;
        while first < 2 && (4 * four % CHUNK + first) % channels != (self.phase + n) % channels {
            first += 1;
        }
        first
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

/// Rows of one of `planes` planes of the image in one stage.
#[inline(always)]
pub(super) const fn plane_rows(planes: u32, mask_height: u32) -> u32 {
    (ROWS + mask_height - 1).div_ceil(planes)
}

/// Whether the kernel for masks of `size` x `size` in so many channels has sparse products.
#[must_use]
pub const fn is_sparse(channels: u32, size: u32) -> bool {
    Layout::new(channels, size, (size as i32 - 1) / 2, size).sparse
}

/// The dynamic shared memory that a launch needs, in bytes. `size` is the side of the masks for which the kernel is
/// made, 0 for any.
#[must_use]
pub const fn shared_bytes(channels: u32, mask_width: u32, mask_height: u32, size: u32) -> u64 {
    let layout = Layout::largest(channels, mask_width, size);
    let stage = (layout.planes * plane_rows(layout.planes, layout.rows(mask_height))) as u64 * layout.pitch as u64;
    let parts = if layout.held { 0 } else { layout.parts(mask_height) as u64 };
    let mask = coefficient_pitch(mask_width) as u64 * mask_height as u64 + parts * WORDS as u64;
    let result = ROWS as u64 * RESULT_PITCH as u64;
    2 * stage + result + WARPS as u64 * (2 * MOST_UNCERTAIN as u64 + 4) + 4 * mask + 4 * layout.pitch as u64
}
