//! Bytes in the integer tensor cores, with the bits of the ordered sum in `f32`.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! A tensor core multiplies bytes with bytes and adds exactly, at about twenty times the rate of the FP32 units. It
//! knows neither `f32` nor an order. Here it computes an answer that is *nearly* right, together with a proof of how
//! near; the few pixels for which that does not settle the byte are computed again, the ordinary way. So the result is
//! right to the last bit.
//!
//! # Near, and how near
//! The host writes `scale * W` in fixed point, `Q * 2^-shift` with whole numbers `Q` of two signed bytes each. For a
//! window of bytes `T = sum of Q * I` is exact in 32 bits. `T * 2^-shift + offset` differs from the value that the
//! contract names by at most a `radius` that the host knows (`FixedPoint` in the host's plan derives it): what was cut
//! off `W`, times 255, and what `f32` rounds in so many steps. So with `y = (T + bias) * 2^-shift`, where `bias` holds
//! the offset, the half for rounding and the radius:
//! - the byte is `y`, cut off and saturated, where `y` is more than `2 * radius` above a whole number;
//! - otherwise the two might round to different bytes, or the value is just between two. Such a pixel is *uncertain*.
//!
//! Of a random mask of 7 x 7 whose sum is 1 some 0.7 % are, and of sums of whole numbers none.
//!
//! # The product
//! `multiply_add` ([`cuda_std::matrix`]) takes 16 rows of 32 bytes of the image, as they lie there, and a matrix of 32
//! x 8 with a row of the mask in each column, one further down from column to column (a Toeplitz matrix): 8 columns of
//! outputs in 16 rows, for one row of the mask and one of its two bytes. With several channels the mask's row takes
//! every `CHANNELS`-th place, and nothing else changes. Where a row and its shifts span at most 16 bytes, as up to 9 x
//! 9, two rows make one matrix; one that spans more than 32 takes several *chunks*.
//!
//! # Two of three are zeros
//! In three channels two of three bytes of such a matrix are 0: of each four neighbours at most two are not. Tensor cores take a factor
//! of which that is known in half the place ([`multiply_add_sparse`]). So for 7 x 7 and 9 x 9 the roles are changed: the mask is the left
//! factor, two rows of it with both bytes of their coefficients in one, 16 x 64 before the zeros are left out, the image the right one, 64
//! x 8. A product costs a third more than one of the others and does the work of two. Its matrices need a driver for CUDA 12.5.
//!
//! # Thread mapping
//! A block of [`WARPS`] warps owns [`COLUMNS`] values of a row, walks down a strip, and computes [`ROWS`] rows a step.
//! A warp has 32 columns, 8 at a time: 4 products of 16 rows that lie between each other, product `s` having the rows
//! `4 m + s`. So the rows
//! `4 m + t` of the image serve product `s` with row `t - s` of the mask, all 4 from registers:
//! ```text
//!   t          0   1   2   3   4   5 …      rows 4 m + t of the image, read once
//!   s = 0      0   1   2   3   4   5        row of the mask
//!   s = 1          0   1   2   3   4
//!   s = 2              0   1   2   3
//!   s = 3                  0   1   2
//! ```
//! With sparse masks it is 8 products of 8 rows, rows `8 m + s`, and a lane has two rows of one column.
//!
//! Each lane has its parts of all matrices in registers, if there are no more than `MOST_HELD`. Otherwise those of
//! `AT_A_TIME` rows come from shared memory, and serve 16 columns.
//!
//! # Shared memory
//! Two stages of `ROWS + mask_height - 1` rows of the image, one being copied while one is used; the step's results, in
//! which uncertain pixels are replaced before they are written in pieces of 16 bytes; the list of those; the mask, as
//! coefficients and perhaps as matrices. Row `r` lies in plane `r % 4`, or `r % 8` with sparse masks, so that the 8 rows that a warp
//! reads at once are neighbours, an odd number of 16 bytes apart: no bank conflict. Behind sparse products two rows of results lie byte by
//! byte, and are parted when they are written.
//!
//! # What it costs
//! | | for each value of the result |
//! | --- | --- |
//! | products | 2 for each row of the mask and chunk, half of that for two rows in one, for 128 values; at the 1250 TOP/s measured for them 6.9 µs a row of the mask at 8192 x 8192; sparse ones 4.6 µs |
//! | bytes of device memory | 2; of the second-level cache `1 + mask_height / 64` times the image |
//! | instructions of a thread | about 6 to put two sums together, compare, shift and pack them; the uncertain part of `K * K` times 5 |
//!
//! On an H100 (8192 x 8192 pixels, zero border, random masks whose sum is 1); the floor is 2 bytes a value at the 2.98
//! TB/s of a copy:
//!
//! | | 3 x 3 | 5 x 5 | 7 x 7 | 9 x 9 | 11 x 11 | 13 x 13 | 15 x 15 | 21 x 21 | 31 x 31 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | one channel, µs | 61 | 67 | 77 | 88 | 143 | 157 | 206 | 309 | 950 |
//! | of the floor | 74 % | 67 % | 59 % | 51 % | 31 % | 29 % | 22 % | 15 % | 5 % |
//! | three channels, µs | 163 | 222 | 269 | 301 | 760 | | | | |
//! | four channels, µs | 230 | 314 | 385 | 981 | 1045 | | | | |
//!
//! (Four channels, 31 x 31 and 11 x 11 in three are from before whole pieces were copied without questions.) Up to 9 x 9 instructions and
//! the three barriers of a step bound it, in three channels with the products, for large masks the uncertain pixels: at 31 x 31, 961 products for 1.7 % of them. For a mask of any size, without a
//! kernel of its own, it takes 1.4 to 2 times as long.

use cuda_std::bytes::{float_of_byte, saturated_pair, unzipped, with_at_least};
use cuda_std::copy::{commit, copy_16_if, copy_some_of_16_if, wait};
use cuda_std::matrix::{multiply_add, multiply_add_sparse};
use cuda_std::prelude::*;

use crate::border;
use crate::params::{Params, Untyped};
use crate::pixel::Pixel as _;
use crate::window::add_row;

/// Warps of a block.
pub const WARPS: u32 = 4;
/// Threads of a block.
pub const BLOCK: (u32, u32) = (32 * WARPS, 1);
/// Values of a row that a block computes.
pub const COLUMNS: u32 = 32 * WARPS;
/// Rows that a block computes in a step.
pub const ROWS: u32 = 64;
/// The oldest compute capability that has the products and the copies.
pub const COMPUTE_CAPABILITY: (u32, u32) = (8, 0);
/// A number of blocks for each multiprocessor, and how many times as many a launch has. Up to 9 x 9 those are so many that of
/// 8192 x 8192 pixels each gets three steps, measured with 1 to 43 of them; larger masks want fewer in several channels.
#[must_use]
pub const fn schedule(channels: u32, size: u32) -> (u32, u32) {
    (4, if matches!(size, 1..=9) { 6 * channels } else { 8 })
}

/// The blocks that a multiprocessor shall hold at a time, where the assembler has to know: as many as shared memory does, unless
/// they had too few registers then.
#[must_use]
pub const fn resident(channels: u32, size: u32) -> Option<u32> {
    match size {
        1..=9 if !Layout::largest(channels, size, size).held => None,
        1..=5 => Some(6),
        6..=9 => Some(5),
        _ => None,
    }
}

/// The largest part of all pixels that may be uncertain, for the kernel to be used.
pub const MOST_UNCERTAIN_PART: f32 = 0.1;

/// Bytes of a copy and of a piece of the result.
const PIECE: u32 = 16;
/// Products of 16 rows whose rows lie between each other; rows of the image lie in as many planes.
const PLANES: u32 = 4;
/// The same, to count with.
const TILES: usize = PLANES as usize;
/// From this side on masks in several channels are sparse factors where they can be: for 5 x 5 nothing is gained.
const SPARSE_SIDE: u32 = 7;
/// Products of 8 rows with a mask in which every other byte is left out, and planes.
const SPARSE_PLANES: u32 = 8;
/// The same, to count with.
const SPARSE_TILES: usize = SPARSE_PLANES as usize;
/// Columns of a product.
const TILE: u32 = 8;
/// Products side by side, for a mask of any size.
const ACROSS: usize = 2;
/// Bytes of a row of the image in one product.
const CHUNK: u32 = 32;
/// Words of a row of the mask in one chunk, or of a pair of rows, for the whole warp.
const WORDS: u32 = 4 * 32;
/// Bytes from one row of a plane of results to the next.
const RESULT_PITCH: u32 = COLUMNS + PIECE;
/// The same for two rows, byte by byte.
const PAIR_PITCH: u32 = 2 * COLUMNS + PIECE;
/// Uncertain pixels of a warp and a step that the list holds.
const MOST_UNCERTAIN: u32 = 256;
/// Rows of the mask that are in registers at a time, for a mask of any size: zeros make up whole times of it.
const AT_A_TIME: u32 = 4;
/// The most matrices that a thread holds its part of.
const MOST_HELD: usize = 14;

/// What the host passes beside the coefficients: indices of words.
pub mod header {
    /// The number of bits of the fraction.
    pub const SHIFT: u32 = 0;
    /// What is added to each sum.
    pub const BIAS: u32 = 1;
    /// A fraction below this, shifted up to 32 bits, is uncertain.
    pub const UNCERTAIN: u32 = 2;
    /// Words of the header; the last four are what is added, once more, for the products to begin with.
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
    const fn largest(channels: u32, width: u32, size: u32) -> Self {
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
    const fn rows(&self, mask_height: u32) -> u32 {
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
const fn padded(mask_height: u32) -> u32 {
    mask_height.next_multiple_of(AT_A_TIME)
}

/// Rows of one of `planes` planes of the image in one stage.
#[inline(always)]
const fn plane_rows(planes: u32, mask_height: u32) -> u32 {
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

/// The kernel for `CHANNELS` interleaved channels, and a mask of `SIZE` x `SIZE`, or of any size where `SIZE` is 0.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels of bytes at their pitches, begin at a multiple of 16
///   bytes and do not overlap.
/// - The block is [`BLOCK`], the dynamic shared memory at least [`shared_bytes`], the border's value a whole number
///   from 0 to 255 where it stands for pixels.
/// - `mask` holds the words of the [`header`], the coefficients, and the matrices of all parts for this origin, each at
///   a multiple of 16 bytes; behind sparse ones each lane's pattern.
#[inline(always)]
pub unsafe fn tensor<const CHANNELS: u32, const SIZE: u32>(
    image: Global<u8>,
    result: Untyped,
    mask: Global<f32>,
    params: Params,
) {
    let (columns, rows) = if SIZE > 0 { (SIZE, SIZE) } else { (params.mask_width as u32, params.mask_height as u32) };
    let layout = Layout::new(CHANNELS, columns, params.origin_x, SIZE);
    let thread = thread::thread_idx_x();
    let values = params.width * CHANNELS as i32;
    let block_v = (thread::block_idx_x() * COLUMNS) as i32;

    let (first, own) = params.strip::<{ ROWS as i32 }>();
    if own <= 0 {
        return;
    }
    let end = first + own;

    let plane = plane_rows(layout.planes, layout.rows(rows)) * layout.pitch;
    let stages = Shared::<u8>::dynamic();
    let results = stages.offset(2 * layout.planes * plane);
    let list = results.offset(ROWS * RESULT_PITCH);
    let counts = list.offset(WARPS * 2 * MOST_UNCERTAIN).cast::<u32>();
    let coefficients = counts.offset(WARPS).cast::<f32>();
    let matrices = coefficients.offset(coefficient_pitch(columns) * rows);
    let copied = if layout.held { 0 } else { layout.parts(rows) * WORDS };
    let table = matrices.offset(copied).cast::<i32>();

    let left = block_v - layout.left;
    let aligned = params.src_pitch % PIECE as i32 == 0 && layout.left % PIECE as i32 == 0;
    let edge = !aligned || left < 0 || left + layout.bytes as i32 > values;
    if edge {
        let mut i = thread;
        while i < layout.bytes {
            thread::no_unroll();
            // A multiple of the channels is added, so that the quotient is rounded down.
            let v = (left + i as i32 + (CHANNELS << 24) as i32) as u32;
            let x = border::map(params.border, (v / CHANNELS) as i32 - (1 << 24), params.width);
            let v = if x >= 0 { x * CHANNELS as i32 + (v % CHANNELS) as i32 } else { x };
            // SAFETY: the table has `pitch` elements, no fewer than `bytes`; each is one thread's.
            unsafe { table.store(i, v) };
            i += BLOCK.0;
        }
    }
    let filler = Filler::<CHANNELS, SIZE> {
        image,
        params,
        edge,
        aligned,
        left,
        rows: ROWS + layout.rows(rows) - 1,
        planes: layout.planes,
        plane,
        pitch: layout.pitch,
        bytes: layout.bytes,
        table,
    };
    // The table is whole before it is read.
    thread::sync_threads();
    let mut y = first;
    let mut stage = 0;
    // SAFETY: nobody reads or writes the stages.
    unsafe { filler.fill(stages, y - params.origin_y) };

    // Coefficients and matrices lie behind each other there and here.
    let from = mask.offset(header::WORDS as isize).cast::<F32x4>();
    let quads = (coefficient_pitch(columns) * rows + copied) / 4;
    let mut i = thread;
    while i < quads {
        thread::no_unroll();
        // SAFETY: the caller's promise for the mask, and there is room for as much.
        unsafe { coefficients.cast::<F32x4>().store(i, from.load(i as isize)) };
        i += BLOCK.0;
    }
    let mut held = [[0; 4]; MOST_HELD];
    if layout.held {
        for part in 0..layout.parts(rows) {
            let quad = coefficient_pitch(columns) * rows / 4 + part * 32 + thread % 32;
            // SAFETY: the caller's promise for the mask.
            held[part as usize] = unsafe { from.load(quad as isize) }.0.map(f32::to_bits);
        }
    }
    let mut pattern = 0;
    if layout.sparse {
        let word = coefficient_pitch(columns) * rows + layout.parts(rows) * WORDS + thread % 32;
        // SAFETY: the caller's promise for the mask.
        pattern = unsafe { mask.load((header::WORDS + word) as isize) }.to_bits();
    }
    // SAFETY: the header is there.
    let word = |index: u32| unsafe { mask.load(index as isize) }.to_bits();
    let (shift, uncertain) = (word(header::SHIFT), word(header::UNCERTAIN));
    let bias = if SIZE > 0 { [4, 5, 6, 7].map(|i| word(i) as i32) } else { [word(header::BIAS) as i32; 4] };

    let products = Products { layout, rows, plane, matrices, pattern, shift, bias, uncertain, results, list, counts };
    while y < end {
        thread::no_unroll();
        wait::<0>();
        // The stage is there, nobody reads any more from the other one, and the results of the step before are written.
        thread::sync_threads();
        let pixels = stages.offset(stage);
        stage = layout.planes * plane - stage;
        if y + (ROWS as i32) < end {
            // SAFETY: see above.
            unsafe { filler.fill(stages.offset(stage), y + ROWS as i32 - params.origin_y) };
        }
        // SAFETY: the stage was filled, the mask copied; all threads are here.
        unsafe { products.compute(pixels, values - block_v, &held) };
        thread::sync_threads();
        let again = Again { layout, rows, columns, plane, coefficients, list, counts, results, params };
        // SAFETY: the lists were written before the barrier; all threads are here.
        unsafe { again.run::<CHANNELS, SIZE>(pixels) };
        let write = if layout.sparse { write_pairs } else { write };
        // SAFETY: results are written, all of them before a barrier; rows `y` to `end` and the columns are this
        // block's.
        unsafe {
            write(results, result.offset(params.dst_index(block_v, y)), values - block_v, end - y, params.dst_pitch)
        };
        y += ROWS as i32;
    }
}

/// The thread's number, of which the compiler knows nothing: what is computed from it in a step would be kept from step
/// to step otherwise, in registers that the sums need.
#[inline(always)]
fn this_thread() -> u32 {
    thread::opaque(thread::thread_idx_x())
}

/// Writes the results of a step to `result`, as far as they lie in its `rows` rows of `values` values.
///
/// # Safety
/// `results` holds them.
#[inline(always)]
unsafe fn write(results: Shared<u8>, result: Untyped, values: i32, rows: i32, pitch: i32) {
    const PIECES: u32 = COLUMNS / PIECE;
    const STEP: u32 = BLOCK.0 / PIECES;
    let thread = this_thread();
    let v = thread % PIECES * PIECE;
    let mut row = thread / PIECES;
    let mut to = result.offset((row as i64 * pitch as i64) as isize + v as isize);
    if pitch % PIECE as i32 == 0 && v as i32 + PIECE as i32 <= values {
        let from = results.offset(result_place(false, row, v));
        for turn in 0..ROWS / STEP {
            if ((row + turn * STEP) as i32) < rows {
                // SAFETY: the caller's promise; both are multiples of 16 bytes.
                unsafe {
                    to.cast::<F32x4>()
                        .store(0, from.offset(result_place(false, turn * STEP, 0)).cast::<F32x4>().load(0))
                };
            }
            to = to.offset((pitch as i64 * STEP as i64) as isize);
        }
        return;
    }
    while row < ROWS && (row as i32) < rows {
        thread::no_unroll();
        let mut at = 0;
        while at < PIECE && ((v + at) as i32) < values {
            thread::no_unroll();
            // SAFETY: the caller's promise, for a value inside of the image.
            unsafe { to.store(at as isize, results.load(result_place(false, row, v + at))) };
            at += 1;
        }
        to = to.offset((pitch as i64 * STEP as i64) as isize);
        row += STEP;
    }
}

/// The same where two rows of results lie byte by byte.
///
/// # Safety
/// As for [`write`].
#[inline(always)]
unsafe fn write_pairs(results: Shared<u8>, result: Untyped, values: i32, rows: i32, pitch: i32) {
    const PIECES: u32 = COLUMNS / PIECE;
    const STEP: u32 = BLOCK.0 / PIECES;
    let thread = this_thread();
    let (v, pair) = (thread % PIECES * PIECE, thread / PIECES);
    let whole = pitch % PIECE as i32 == 0 && v as i32 + PIECE as i32 <= values;
    for turn in 0..ROWS / 2 / STEP {
        let row = pair % 4 * 16 + pair / 4 + turn * (STEP / 4);
        let to = result.offset((row as i64 * pitch as i64) as isize + v as isize);
        let below = to.offset((pitch as i64 * i64::from(SPARSE_PLANES)) as isize);
        let from = results.offset(result_place(true, row, v));
        if whole {
            let from = from.cast::<F32x4>();
            // SAFETY: the caller's promise.
            let [a, b] = [0, 1].map(|i| unsafe { from.load(i) }.0.map(f32::to_bits));
            let pairs = [unzipped(a[0], a[1]), unzipped(a[2], a[3]), unzipped(b[0], b[1]), unzipped(b[2], b[3])];
            for (i, to) in [to, below].into_iter().enumerate() {
                if ((row + i as u32 * SPARSE_PLANES) as i32) < rows {
                    // SAFETY: the caller's promise; a multiple of 16 bytes.
                    unsafe { to.cast::<F32x4>().store(0, F32x4(pairs.map(|pair| f32::from_bits(pair[i])))) };
                }
            }
            continue;
        }
        let mut at = 0;
        while at < PIECE && ((v + at) as i32) < values {
            thread::no_unroll();
            for (i, to) in [to, below].into_iter().enumerate() {
                if ((row + i as u32 * SPARSE_PLANES) as i32) < rows {
                    // SAFETY: the caller's promise, for a value inside of the image.
                    unsafe { to.store(at as isize, from.load(2 * at + i as u32)) };
                }
            }
            at += 1;
        }
    }
}

/// Where the result in `row` and `column` of a step lies. Behind a sparse product a row lies byte by byte with the one 8 below it.
#[inline(always)]
const fn result_place(sparse: bool, row: u32, column: u32) -> u32 {
    if sparse {
        return (row % SPARSE_PLANES * 4 + row / 16) * PAIR_PITCH + 2 * column + row / SPARSE_PLANES % 2;
    }
    (row % PLANES * (ROWS / PLANES) + row / PLANES) * RESULT_PITCH + column
}

/// Fills stages: each warp a plane, or two.
struct Filler<const CHANNELS: u32, const SIZE: u32> {
    image: Global<u8>,
    params: Params,
    /// Whether a row goes beyond the image, or pieces do not begin at a multiple of 16 bytes.
    edge: bool,
    /// Whether they do.
    aligned: bool,
    /// Value of the image's row with which one here begins.
    left: i32,
    rows: u32,
    planes: u32,
    plane: u32,
    pitch: u32,
    /// Bytes of a row that are filled.
    bytes: u32,
    /// For each value of a row the value of the image's row that stands for it, or [`border::OUTSIDE`]: at the edge.
    table: Shared<i32>,
}

impl<const CHANNELS: u32, const SIZE: u32> Filler<CHANNELS, SIZE> {
    /// Fills a stage from row `top` of the image on, and ends a group of copies.
    ///
    /// # Safety
    /// Nobody reads or writes the stage before the copies were waited for and a barrier was passed. At the edge the
    /// table is filled.
    #[inline(always)]
    unsafe fn fill(&self, stage: Shared<u8>, top: i32) {
        let (warp, lane) = (this_thread() / 32, this_thread() % 32);
        let inside = !self.edge && top >= 0 && top + self.rows as i32 <= self.params.height;
        let pieces = (self.bytes / PIECE).max(1);
        // Rows of the plane that a warp fills at a time; a long row takes several turns.
        let at_a_time = (32 / pieces).max(1);
        let (slot, piece) = if pieces > 32 { (0, lane) } else { (lane / pieces, lane % pieces) };
        let src_pitch = self.params.src_pitch as i64;
        // The number of turns is known, and all but the last need not ask where a plane ends.
        if SIZE > 0 && inside {
            if slot < at_a_time {
                let at = piece * PIECE;
                let to = stage.offset(warp * self.plane + slot * self.pitch + at);
                let row = self.image.offset(self.params.src_index(self.left, top + (self.planes * slot + warp) as i32));
                for plane in 0..self.planes / WARPS {
                    let to = to.offset(plane * WARPS * self.plane);
                    let mut row = row.offset((src_pitch * (plane * WARPS) as i64) as isize + at as isize);
                    for turn in 0..self.rows.div_ceil(self.planes * at_a_time) {
                        let whole = self.planes * at_a_time * (turn + 1) <= self.rows;
                        let which = self.planes * (slot + turn * at_a_time) + plane * WARPS + warp;
                        // SAFETY: row and piece lie in the image, aligned.
                        unsafe {
                            copy_16_if(whole || which < self.rows, to.offset(turn * at_a_time * self.pitch), row)
                        };
                        row = row.offset((src_pitch * (self.planes * at_a_time) as i64) as isize);
                    }
                }
            }
            commit();
            return;
        }
        let mut which = if slot < at_a_time { WARPS * slot + warp } else { self.rows };
        let mut row = self.image.offset(self.params.src_index(self.left, top + which as i32));
        while which < self.rows {
            thread::no_unroll();
            let to = stage.offset(which % self.planes * self.plane + which / self.planes * self.pitch);
            let mut piece = piece;
            while piece < pieces {
                thread::no_unroll();
                let at = piece * PIECE;
                if SIZE == 0 && inside {
                    // SAFETY: row and piece lie in the image, aligned.
                    unsafe { copy_16_if(true, to.offset(at), row.offset(at as isize)) };
                } else {
                    // SAFETY: the caller's promise.
                    unsafe { self.fill_edge(to.offset(at), at, top + which as i32) };
                }
                piece += 32;
            }
            which += WARPS * at_a_time;
            row = row.offset((src_pitch * (WARPS * at_a_time) as i64) as isize);
        }
        commit();
    }

    /// Fills piece `at` of row `y`, which may lie outside.
    ///
    /// # Safety
    /// As for [`fill`](Self::fill).
    #[inline(always)]
    unsafe fn fill_edge(&self, to: Shared<u8>, at: u32, y: i32) {
        let params = &self.params;
        let y = border::map(params.border, y, params.height);
        let values = if y >= 0 { params.width * CHANNELS as i32 } else { 0 };
        let zeros = params.border == border::BorderMode::Constant.code() && params.border_value == 0.0;
        let row = self.image.offset(params.src_index(0, y));
        if self.aligned && (zeros || y >= 0 && !self.edge) {
            let first = self.left + at as i32;
            let there = if first >= 0 { (values - first).clamp(0, PIECE as i32) } else { 0 };
            let from = if there > 0 { row.offset(first as isize) } else { self.image };
            // SAFETY: of the source `there` bytes lie in the row.
            unsafe { copy_some_of_16_if(true, to, from, there as u32) };
            return;
        }
        let outside = u32::from(u8::from_f32(params.border_value));
        let mut word = 0;
        while word < PIECE / 4 {
            thread::no_unroll();
            let mut bytes = 0;
            for i in 0..4 {
                let mut byte = outside;
                if values > 0 {
                    // A row inside of the image without an edge was copied. SAFETY: the table has a value in the row,
                    // or `OUTSIDE`.
                    let v = unsafe { self.table.load(at + 4 * word + i) };
                    if v >= 0 {
                        // SAFETY: the row exists.
                        byte = u32::from(unsafe { row.load(v as isize) });
                    }
                }
                bytes |= byte << (8 * i);
            }
            // SAFETY: the piece is this thread's to write.
            unsafe { to.cast::<u32>().store(word, bytes) };
            word += 1;
        }
    }
}

/// The sums of a product for each tile, of the lower and of the higher bytes of the coefficients.
type Sums = [[[i32; 4]; 2]; TILES];

/// The same of a sparse one: two of the lower and two of the higher bytes.
type SparseSums = [[i32; 4]; SPARSE_TILES];

/// The tensor cores' part.
struct Products {
    layout: Layout,
    /// Of the mask.
    rows: u32,
    plane: u32,
    matrices: Shared<f32>,
    /// Of a sparse matrix.
    pattern: u32,
    shift: u32,
    bias: [i32; 4],
    uncertain: u32,
    results: Shared<u8>,
    list: Shared<u8>,
    counts: Shared<u32>,
}

impl Products {
    /// A step: all results, and the lists of the uncertain ones. Warps whose columns are all beyond `inside` have none.
    ///
    /// # Safety
    /// All threads of the block call it. `pixels` is a stage that was filled before the last barrier, the matrices are
    /// in place, and nobody reads the results and the lists.
    #[inline(always)]
    unsafe fn compute(&self, pixels: Shared<u8>, inside: i32, held: &[[u32; 4]; MOST_HELD]) {
        let (warp, lane) = (this_thread() / 32, this_thread() % 32);
        let (group, member) = (lane / 4, lane % 4);
        let mut from = pixels.offset(group * self.layout.pitch + 4 * member + self.layout.first + warp * 32);
        let mut count = 0;
        let mut column = warp * 32;
        // One bit for each of the last 32 results, the last one lowest.
        let mut certain = 0;
        // Two tiles are looked through at a time: of a pair that is begun inside, both are computed.
        let inside = (inside + 2 * TILE as i32 - 1) & !(2 * TILE as i32 - 1);
        while column < warp * 32 + 32 && (column as i32) < inside {
            thread::no_unroll();
            if self.layout.sparse {
                // SAFETY: the caller's promise.
                let sums = unsafe { self.sums_sparse(from.cast(), held) };
                // SAFETY: the results are this thread's.
                unsafe { self.finish_sparse(&sums, column, group, member, &mut certain) };
                column += TILE;
                from = from.offset(TILE);
            } else if self.layout.held {
                // SAFETY: the caller's promise.
                let sums = unsafe { self.sums_held(from.cast(), held) };
                // SAFETY: the results are this thread's.
                unsafe { self.finish(&sums, column, group, member, &mut certain) };
                column += TILE;
                from = from.offset(TILE);
            } else {
                // SAFETY: the caller's promise.
                let sums = unsafe { self.sums(from, lane) };
                for sums in &sums {
                    // SAFETY: the results are this thread's.
                    unsafe { self.finish(sums, column, group, member, &mut certain) };
                    column += TILE;
                }
                from = from.offset(TILE * ACROSS as u32);
            }
            if column % (2 * TILE) == 0 {
                // With a sparse mask there are no registers to keep what follows from the thread's number.
                let thread = if self.layout.sparse { this_thread() } else { 32 * warp + lane };
                let (warp, lane) = (thread / 32, thread % 32);
                let list = self.list.cast::<u16>().offset(warp * MOST_UNCERTAIN);
                // SAFETY: the list is this warp's.
                count = unsafe { push(self.layout.sparse, list, count, !certain, lane, column - 2 * TILE) };
            }
        }
        if lane == 0 {
            // SAFETY: one number a warp.
            unsafe { self.counts.store(warp, count) };
        }
    }

    /// The results of 64 rows and 8 columns.
    ///
    /// # Safety
    /// Nobody else has this thread's results.
    #[inline(always)]
    unsafe fn finish(&self, sums: &Sums, column: u32, group: u32, member: u32, certain: &mut u32) {
        let to = self.results.offset(result_place(false, 0, column + 2 * member) + group * RESULT_PITCH);
        for (s, [low, high]) in sums.iter().enumerate() {
            for half in 0..2 {
                let at = 2 * half;
                let pair = self.pair([low[at], low[at + 1]], [high[at], high[at + 1]], certain);
                // Row 4 (group + 8 half) + s.
                let place = result_place(false, 32 * half as u32 + s as u32, 0);
                // SAFETY: the two values are this thread's.
                unsafe { to.offset(place).cast::<u16>().store(0, pair) };
            }
        }
    }

    /// The same behind sparse products.
    ///
    /// # Safety
    /// As for [`finish`](Self::finish).
    #[inline(always)]
    unsafe fn finish_sparse(&self, sums: &SparseSums, column: u32, group: u32, member: u32, certain: &mut u32) {
        let to = self.results.offset(result_place(true, 0, column + group) + member * PAIR_PITCH);
        for (s, &[low, low_below, high, high_below]) in sums.iter().enumerate() {
            let pair = self.pair([low, low_below], [high, high_below], certain);
            // Rows 16 member + s and 8 below.
            let place = result_place(true, s as u32, 0);
            // SAFETY: the two values are this thread's.
            unsafe { to.offset(place).cast::<u16>().store(0, pair) };
        }
    }

    /// The bytes of two sums, the first one lower; whether they are certain goes into the lowest bits of `certain`.
    #[inline(always)]
    fn pair(&self, low: [i32; 2], high: [i32; 2], certain: &mut u32) -> u16 {
        let mut bytes = [0; 2];
        for (i, byte) in bytes.iter_mut().enumerate() {
            let sum = high[i].wrapping_mul(256).wrapping_add(low[i]);
            *certain = with_at_least(*certain, (sum as u32) << (32 - self.shift), self.uncertain);
            *byte = sum >> self.shift;
        }
        saturated_pair(bytes[0], bytes[1]) as u16
    }

    /// The sums of 64 rows and 8 columns where the mask is the sparse factor; `from` is the thread's first word in the first row of a
    /// stage.
    ///
    /// # Safety
    /// As for [`compute`](Self::compute).
    #[inline(always)]
    unsafe fn sums_sparse(&self, from: Shared<u32>, held: &[[u32; 4]; MOST_HELD]) -> SparseSums {
        let (pitch, plane) = (self.layout.pitch / 4, self.plane / 4);
        let mut sums = [[self.bias[0], self.bias[1], 0, 0]; SPARSE_TILES];
        let of_image = self.rows + SPARSE_PLANES - 1;
        let parts = self.rows.div_ceil(2);
        for i in 0..of_image.div_ceil(2) {
            // Of two rows the thread's words in either half of the chunk. The last one may be beyond all rows, where the matrices
            // are 0.
            let words = [0, 1, 2, 3].map(|word| {
                let t = if 2 * i + word / 2 < of_image { 2 * i + word / 2 } else { 2 * i };
                let row = t / SPARSE_PLANES * pitch + t % SPARSE_PLANES * plane;
                // SAFETY: rows 8 g + t with g up to 7 are in the stage, and the chunk's bytes are in the row.
                unsafe { from.load(row + word % 2 * 4) }
            });
            for (s, sums) in sums.iter_mut().enumerate() {
                let later = s as u32 / 2;
                if i < later || i - later >= parts {
                    continue;
                }
                let part = 2 * (i - later) + s as u32 % 2;
                *sums = multiply_add_sparse(held[part as usize], self.pattern, words, *sums);
            }
        }
        sums
    }

    /// The sums of 64 rows and 8 columns with all matrices in registers; `from` is the thread's first word in the first
    /// row of a stage.
    ///
    /// # Safety
    /// As for [`compute`](Self::compute).
    #[inline(always)]
    unsafe fn sums_held(&self, from: Shared<u32>, held: &[[u32; 4]; MOST_HELD]) -> Sums {
        let mut sums = [[self.bias, [0; 4]]; TILES];
        // SAFETY: the caller's promise.
        unsafe { self.add(from, held, self.rows, self.layout.paired, &mut sums) };
        sums
    }

    /// The sums of 64 rows and 16 columns, a few rows of the mask at a time in registers.
    ///
    /// # Safety
    /// As for [`compute`](Self::compute).
    #[inline(always)]
    unsafe fn sums(&self, from: Shared<u8>, lane: u32) -> [Sums; ACROSS] {
        let mut sums = [[[self.bias, [0; 4]]; TILES]; ACROSS];
        let mut matrices = self.matrices.cast::<F32x4>().offset(lane);
        // Opaque, or the loops would be unrolled where they are known.
        let (chunks, rows) = (thread::opaque(self.layout.chunks), thread::opaque(padded(self.rows)));
        let mut chunk = 0;
        while chunk < chunks {
            thread::no_unroll();
            let mut at = from.offset(chunk * CHUNK);
            let mut row = 0;
            while row < rows {
                thread::no_unroll();
                let mut held = [[0; 4]; AT_A_TIME as usize];
                for part in &mut held {
                    // SAFETY: the matrices have 32 such parts for each row of the mask and chunk.
                    *part = unsafe { matrices.load(0) }.0.map(f32::to_bits);
                    matrices = matrices.offset(32);
                }
                for (across, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: the caller's promise.
                    unsafe { self.add(at.offset(across as u32 * TILE).cast(), &held, AT_A_TIME, false, sums) };
                }
                at = at.offset(self.layout.pitch);
                row += AT_A_TIME;
            }
            chunk += 1;
        }
        sums
    }

    /// Adds the products with `rows` rows of the mask, or pairs of them, of which `held` has the thread's parts.
    ///
    /// # Safety
    /// As for [`compute`](Self::compute).
    #[inline(always)]
    unsafe fn add(&self, from: Shared<u32>, held: &[[u32; 4]], rows: u32, paired: bool, sums: &mut Sums) {
        let (pitch, plane) = (self.layout.pitch / 4, self.plane / 4);
        // A word of the thread's row of those for `t`, or of the one 8 further down.
        let word = |t: u32, half: u32, further: u32| {
            let row = (t / PLANES + 8 * further) * pitch + t % PLANES * plane;
            // SAFETY: rows 4 m + t with m up to 15 are in the stage, and the chunk's bytes are in the row.
            unsafe { from.load(row + 4 * half) }
        };
        let of_image = rows + PLANES - 1;
        let parts = if paired { rows.div_ceil(2) } else { rows };
        for i in 0..if paired { of_image.div_ceil(2) } else { of_image } {
            let a = if paired {
                // The last one may be beyond all rows, where the matrices are 0.
                let (t, next) = (2 * i, if 2 * i + 1 < of_image { 2 * i + 1 } else { 2 * i });
                [word(t, 0, 0), word(t, 0, 1), word(next, 0, 0), word(next, 0, 1)]
            } else {
                [word(i, 0, 0), word(i, 0, 1), word(i, 1, 0), word(i, 1, 1)]
            };
            for (s, [low, high]) in sums.iter_mut().enumerate() {
                let later = if paired { s as u32 / 2 } else { s as u32 };
                if i < later || i - later >= parts {
                    continue;
                }
                let part = if paired { 2 * (i - later) + s as u32 % 2 } else { i - later };
                let [low0, low1, high0, high1] = held[part as usize];
                *low = multiply_add(a, [low0, low1], *low);
                *high = multiply_add(a, [high0, high1], *high);
            }
        }
    }
}

/// Puts a lane's `doubtful` results of the last 16 columns, from `column` on, onto its warp's list, which has `count`;
/// returns the new number, which may be more than fit.
///
/// # Safety
/// The list is this warp's.
#[inline(always)]
unsafe fn push(sparse: bool, list: Shared<u16>, count: u32, doubtful: u32, lane: u32, column: u32) -> u32 {
    let (mut count, mut doubtful) = (count, doubtful);
    // Each round takes one of each lane that has one.
    let mut lanes = warp::ballot(doubtful != 0);
    while lanes != 0 {
        thread::no_unroll();
        let place = count + (lanes & ((1 << lane) - 1)).count_ones();
        if doubtful != 0 {
            // In the order of `finish`: two tiles of 8 columns, 4 of rows, 2 halves of each, 2 values.
            let which = doubtful.leading_zeros();
            doubtful &= !(1 << (31 - which));
            let (row, column) = if sparse {
                // Two tiles of 8 columns, 8 of rows, 2 values.
                (
                    lane % 4 * 16 + (which & 1) * SPARSE_PLANES + which / 2 % SPARSE_PLANES,
                    column + (which & 16) / 2 + lane / 4,
                )
            } else {
                let row = PLANES * (lane / 4 + (which & 2) * 4) + which / 4 % PLANES;
                (row, column + (which & 16) / 2 + lane % 4 * 2 + (which & 1))
            };
            if place < MOST_UNCERTAIN {
                // SAFETY: the place is in this warp's list, and this thread's alone.
                unsafe { list.store(place, (row * COLUMNS + column) as u16) };
            }
        }
        count += lanes.count_ones();
        lanes = warp::ballot(doubtful != 0);
    }
    count
}

/// Adds a row of a window that begins `skip` bytes after the word `pixels`. Pixels are read in words and coefficients
/// in fours: bytes one by one, for 32 pixels of which none is the other's neighbour, meet in the same banks again and
/// again.
///
/// # Safety
/// The stage has a word more than the window, the row of coefficients is padded to a multiple of 4.
#[inline(always)]
unsafe fn add_words<const CHANNELS: u32, const SIZE: u32>(
    sum: f32,
    pixels: Shared<u8>,
    skip: u32,
    coefficients: Shared<f32>,
) -> f32 {
    const MOST_WORDS: usize = 14;
    let span = (SIZE - 1) * CHANNELS + 1;
    let mut words = [0; MOST_WORDS];
    for i in 0..span.div_ceil(4) + 1 {
        // SAFETY: the caller's promise.
        words[i as usize] = unsafe { pixels.cast::<u32>().load(i) };
    }
    let mut sum = sum;
    let mut four = F32x4::default();
    for l in 0..SIZE {
        if l % 4 == 0 {
            // SAFETY: the caller's promise.
            four = unsafe { coefficients.cast::<F32x4>().load(l / 4) };
        }
        let at = l * CHANNELS;
        let i = (at / 4) as usize;
        let word = (u64::from(words[i + 1]) << 32 | u64::from(words[i])) >> (8 * skip);
        sum = fma(four.0[l as usize % 4], float_of_byte(word as u32, at as usize % 4), sum);
    }
    sum
}

/// The ordinary way, for uncertain pixels.
struct Again {
    layout: Layout,
    rows: u32,
    columns: u32,
    plane: u32,
    coefficients: Shared<f32>,
    list: Shared<u8>,
    counts: Shared<u32>,
    results: Shared<u8>,
    params: Params,
}

impl Again {
    /// Computes the listed pixels, or all where a list was too short, and puts them among the results.
    ///
    /// # Safety
    /// All threads of the block call it. `pixels` is the stage of the step; the lists were written before the last
    /// barrier.
    #[inline(always)]
    unsafe fn run<const CHANNELS: u32, const SIZE: u32>(&self, pixels: Shared<u8>) {
        let mut ends = [0; WARPS as usize];
        let (mut total, mut all) = (0, false);
        for (warp, end) in ends.iter_mut().enumerate() {
            // SAFETY: one number a warp.
            let count = unsafe { self.counts.load(warp as u32) };
            all |= count > MOST_UNCERTAIN;
            total += count;
            *end = total;
        }
        if total == 0 {
            return;
        }
        if all {
            total = ROWS * COLUMNS;
        }
        let mut i = this_thread();
        while i < total {
            thread::no_unroll();
            let mut place = i;
            if !all {
                let mut warp = 0;
                let mut before = 0;
                for &end in &ends[..WARPS as usize - 1] {
                    if i >= end {
                        warp += 1;
                        before = end;
                    }
                }
                // SAFETY: entry `i - before` of the warp's list.
                place = u32::from(unsafe { self.list.cast::<u16>().load(warp * MOST_UNCERTAIN + i - before) });
            }
            let (row, column) = (place / COLUMNS, place % COLUMNS);
            // The word in which the window begins, and the byte of it.
            let first = self.layout.phase + column;
            let (pixels, skip) = (pixels.offset(self.layout.first + first / 4 * 4), first % 4);
            let mut coefficients = self.coefficients;
            let mut sum = 0.0;
            // Opaque, or the loop would be unrolled where it is known: worth its code for small masks only.
            let rows = if SIZE > 9 { thread::opaque(self.rows) } else { self.rows };
            let mut k = 0;
            while k < rows {
                thread::no_unroll();
                let (plane, slot) = ((row + k) % self.layout.planes, (row + k) / self.layout.planes);
                let pixels = pixels.offset(plane * self.plane + slot * self.layout.pitch);
                if SIZE > 0 {
                    // SAFETY: the window lies in the stage, its coefficients in the mask.
                    sum = unsafe { add_words::<CHANNELS, SIZE>(sum, pixels, skip, coefficients) };
                } else {
                    sum = add_row(sum, self.columns, |l, sum| {
                        // SAFETY: as above.
                        let (pixel, coefficient) =
                            unsafe { (pixels.load(skip + l as u32 * CHANNELS), coefficients.load(l as u32)) };
                        fma(coefficient, pixel.to_f32(), sum)
                    });
                }
                coefficients = coefficients.offset(coefficient_pitch(self.columns));
                k += 1;
            }
            let value = u8::from_f32(self.params.finish(sum));
            // SAFETY: a pixel is in one list once, so it is this thread's.
            unsafe { self.results.store(result_place(self.layout.sparse, row, column), value) };
            i += BLOCK.0;
        }
        thread::sync_threads();
    }
}
