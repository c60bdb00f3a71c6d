//! Bytes in the integer tensor cores, with the bits of the ordered sum in `f32`.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! A tensor core multiplies bytes with bytes and adds exactly, 32 products in the time of two multiply-adds. It knows neither `f32`
//! nor an order. Here it computes an answer that is *nearly* right, together with a proof of how near; the few pixels for which that
//! does not settle the byte are computed again, the ordinary way.
//!
//! # Near, and how near
//! The host writes `scale * W` in fixed point, `Q * 2^-shift` with whole numbers `Q` of two signed bytes each. For a window of bytes
//! `T = sum of Q * I` is exact in 32 bits. Of `T * 2^-shift + offset` and the value that the contract names the difference is at most a
//! `radius` that the host knows (`host::plan::FixedPoint` derives it): what was cut off `W`, times 255, and what `f32` rounds in
//! so many steps. So with `y = (T + bias) * 2^-shift`, where `bias` holds the offset, the half for rounding and the radius:
//! - the byte is `y`, cut off and saturated, where `y` is more than `2 * radius` above a whole number;
//! - otherwise the two might round to different bytes, or the value is just between two. Such a pixel is *uncertain*.
//!
//! Of a Gaussian of 7 x 7 some 1 % are. A radius of 0 leaves only exact halves; sums of whole numbers have no uncertain pixel at all.
//!
//! # The product
//! `multiply_add` ([`cuda_std::matrix`]) takes 16 rows of 32 bytes of the image, as they lie there, and a matrix of 32 x 8 with a row of the
//! mask in each column, one further down from column to column (a Toeplitz matrix): 8 columns of outputs in 16 rows, for one row of the
//! mask and one of its two bytes. With several channels the mask's row takes every `CHANNELS`-th place, and nothing else changes. A row that
//! spans more than 32 bytes takes several *chunks*.
//!
//! # Thread mapping
//! A block of [`WARPS`] warps owns [`COLUMNS`] values of a row, walks down a strip, and computes [`ROWS`] rows a step. A warp has 32 columns, 16
//! at a time: 2 x 4 products of 16 rows x 8 columns. The 4 lie between each other: product `s` has the rows `4 m + s`. So the rows
//! `4 m + t` of the image serve product `s` with row `t - s` of the mask, all 4 from registers:
//! ```text
//!   t          0   1   2   3   4   5 …      rows 4 m + t of the image, read once
//!   s = 0      0   1   2   3   4   5        row of the mask
//!   s = 1          0   1   2   3   4
//!   s = 2              0   1   2   3
//!   s = 3                  0   1   2
//! ```
//! The mask's rows come ready-made for each lane from shared memory, one new row for each `t`; the last four stay in registers.
//!
//! # Shared memory
//! Two stages of `ROWS + mask_height - 1` rows of the image, one being copied while one is used; the step's results, in which uncertain
//! pixels are replaced before they are written in pieces of 16 bytes; the list of those; the mask, as coefficients and as matrices. Row `r`
//! lies in plane `r % 4`, so that the 8 rows that a warp reads at once are neighbours, an odd number of 16 bytes apart: no bank conflict.

use cuda_std::bytes::saturated_pair;
use cuda_std::copy::{commit, copy_16_if, copy_some_of_16_if, wait};
use cuda_std::matrix::multiply_add;
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
/// The blocks that a multiprocessor holds at a time by its registers, and how many times as many a launch has.
pub const SCHEDULE: (u32, u32) = (4, 1);
/// The largest radius, in units of the result, that the kernel is used with. Twice as many pixels are uncertain.
pub const MOST_RADIUS: f32 = 0.05;

/// Bytes of a copy and of a piece of the result.
const PIECE: u32 = 16;
/// Products of 16 rows whose rows lie between each other; rows of the image lie in as many planes.
const PLANES: u32 = 4;
/// Products side by side.
const ACROSS: usize = 2;
/// Bytes of a row of the image in one product.
const CHUNK: u32 = 32;
/// Words of a row of the mask in one chunk, for the whole warp.
const WORDS: u32 = 4 * 32;
/// Bytes from one row of a plane of results to the next.
const RESULT_PITCH: u32 = COLUMNS + PIECE;
/// Uncertain pixels of a warp and a step that the list holds.
const MOST_UNCERTAIN: u32 = 256;

/// What the host passes beside the coefficients: indices of words.
pub mod header {
    /// The number of the bits of [`super::FixedPoint`](super)'s fraction.
    pub const SHIFT: u32 = 0;
    /// What is added to each sum.
    pub const BIAS: u32 = 1;
    /// A fraction below this, shifted up to 32 bits, is uncertain.
    pub const UNCERTAIN: u32 = 2;
    /// Words of the header.
    pub const WORDS: u32 = 4;
}

/// Where a row of the image in shared memory has what.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Bytes by which it begins further left than the block's first output: a multiple of [`PIECE`].
    pub left: i32,
    /// The word in which the window of the block's first output begins: its byte.
    pub first: u32,
    /// The byte of that word.
    pub phase: u32,
    /// Chunks of a row of the mask.
    pub chunks: u32,
    /// Bytes of the row.
    pub pitch: u32,
}

impl Layout {
    /// For windows that begin `origin_x` pixels left of their outputs.
    #[inline(always)]
    #[must_use]
    pub const fn new(channels: u32, mask_width: u32, origin_x: i32) -> Self {
        let before = origin_x * channels as i32;
        let skip = (before.wrapping_neg() & (PIECE as i32 - 1)) as u32;
        Self::with_skip(channels, mask_width, before, skip)
    }

    /// The largest, for any origin.
    const fn largest(channels: u32, mask_width: u32) -> Self {
        Self::with_skip(channels, mask_width, 0, PIECE - 1)
    }

    #[inline(always)]
    const fn with_skip(channels: u32, mask_width: u32, before: i32, skip: u32) -> Self {
        let phase = skip % 4;
        let chunks = (phase + 8 + (mask_width - 1) * channels).div_ceil(CHUNK);
        // An odd number of pieces.
        let pitch = ((skip - phase + COLUMNS - 8 + CHUNK * chunks).div_ceil(PIECE) | 1) * PIECE;
        Self { left: before + skip as i32, first: skip - phase, phase, chunks, pitch }
    }

    /// Which column of the mask stands in row `k` (0 to 31) and column `n` (0 to 7) of the matrix of a chunk, if one does.
    #[must_use]
    pub const fn column_at(&self, channels: u32, mask_width: u32, chunk: u32, k: u32, n: u32) -> Option<u32> {
        let (place, from) = (chunk * CHUNK + k, self.phase + n);
        if place < from || !(place - from).is_multiple_of(channels) || (place - from) / channels >= mask_width {
            return None;
        }
        Some((place - from) / channels)
    }

    /// Words of all matrices, for a mask of so many rows.
    #[must_use]
    pub const fn matrix_words(&self, mask_height: u32) -> u32 {
        self.chunks * mask_height * WORDS
    }
}

/// Row of a plane and column of the matrix, in which a lane has the word `word` (0 to 3) of a row of the mask: its first row `k`, column
/// `n`, and which of the two bytes of the coefficients.
#[must_use]
pub const fn matrix_place(lane: u32, word: u32) -> (u32, u32, u32) {
    (word % 2 * 16 + lane % 4 * 4, lane / 4, word / 2)
}

/// The coefficients of a mask in shared memory, in words: a multiple of 4.
#[inline(always)]
#[must_use]
pub const fn coefficient_words(mask_width: u32, mask_height: u32) -> u32 {
    (mask_width * mask_height).next_multiple_of(4)
}

/// Rows of a plane of the image in one stage.
#[inline(always)]
const fn plane_rows(mask_height: u32) -> u32 {
    (ROWS + mask_height - 1).div_ceil(PLANES)
}

/// The dynamic shared memory that a launch needs, in bytes.
#[must_use]
pub const fn shared_bytes(channels: u32, mask_width: u32, mask_height: u32) -> u64 {
    let layout = Layout::largest(channels, mask_width);
    let stage = PLANES as u64 * plane_rows(mask_height) as u64 * layout.pitch as u64;
    let mask = mask_width as u64 * mask_height as u64 + 3 + layout.chunks as u64 * mask_height as u64 * WORDS as u64;
    let result = ROWS as u64 * RESULT_PITCH as u64;
    2 * stage + result + WARPS as u64 * (2 * MOST_UNCERTAIN as u64 + 4) + 4 * mask + 4 * layout.pitch as u64
}

/// The kernel for `CHANNELS` interleaved channels.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels of bytes at their pitches, begin at a multiple of 16 bytes and do not
///   overlap.
/// - The block is [`BLOCK`], the dynamic shared memory at least [`shared_bytes`], the border's value a whole number from 0 to 255 where it
///   stands for pixels.
/// - `mask` holds the words of the [`header`], the coefficients, and the matrices for this origin, each at a multiple of 16 bytes.
#[inline(always)]
pub unsafe fn tensor<const CHANNELS: u32>(image: Global<u8>, result: Untyped, mask: Global<f32>, params: Params) {
    let (columns, rows) = (params.mask_width as u32, params.mask_height as u32);
    let layout = Layout::new(CHANNELS, columns, params.origin_x);
    let thread = thread::thread_idx_x();
    let values = params.width * CHANNELS as i32;
    let block_v = (thread::block_idx_x() * COLUMNS) as i32;

    let strips = thread::grid_dim_y().max(1) as i32;
    let own = (params.height - params.first_row + strips - 1) / strips;
    let own = (own + ROWS as i32 - 1) & !(ROWS as i32 - 1);
    let first = params.first_row + thread::block_idx_y() as i32 * own;
    let end = params.height.min(first + own);
    if first >= end {
        return;
    }

    let plane = plane_rows(rows) * layout.pitch;
    let stages = Shared::<u8>::dynamic();
    let results = stages.offset(2 * PLANES * plane);
    let list = results.offset(ROWS * RESULT_PITCH);
    let counts = list.offset(WARPS * 2 * MOST_UNCERTAIN).cast::<u32>();
    let coefficients = counts.offset(WARPS).cast::<f32>();
    let matrices = coefficients.offset(coefficient_words(columns, rows));
    let matrix_words = layout.matrix_words(rows);
    let table = matrices.offset(matrix_words).cast::<i32>();

    let left = block_v - layout.left;
    let aligned = params.src_pitch % PIECE as i32 == 0;
    let edge = !aligned || left < 0 || left + layout.pitch as i32 > values;
    if edge {
        let mut i = thread;
        while i < layout.pitch {
            thread::no_unroll();
            // A multiple of the channels is added, so that the quotient is rounded down.
            let v = (left + i as i32 + (CHANNELS << 24) as i32) as u32;
            let x = border::map(params.border, (v / CHANNELS) as i32 - (1 << 24), params.width);
            let v = if x >= 0 { x * CHANNELS as i32 + (v % CHANNELS) as i32 } else { x };
            // SAFETY: the table has `pitch` elements; each is one thread's.
            unsafe { table.store(i, v) };
            i += BLOCK.0;
        }
    }
    // Coefficients and matrices lie behind each other there and here.
    let quads = (coefficient_words(columns, rows) + matrix_words) / 4;
    let mut i = thread;
    while i < quads {
        thread::no_unroll();
        // SAFETY: the caller's promise for the mask, and there is room for as much.
        unsafe {
            let from = mask.offset(header::WORDS as isize).cast::<F32x4>();
            coefficients.cast::<F32x4>().store(i, from.load(i as isize));
        }
        i += BLOCK.0;
    }
    // SAFETY: the header is there.
    let word = |index: u32| unsafe { mask.load(index as isize) }.to_bits();
    let (shift, bias, uncertain) = (word(header::SHIFT), word(header::BIAS) as i32, word(header::UNCERTAIN));

    let pieces = layout.pitch / PIECE;
    let filler = Filler::<CHANNELS> {
        image,
        params,
        edge,
        aligned,
        left,
        rows: ROWS + rows - 1,
        plane,
        pitch: layout.pitch,
        // The layout's pitch is a piece at least.
        first: thread / pieces.max(1),
        piece: thread % pieces.max(1),
        step: BLOCK.0 / pieces.max(1),
        table,
    };
    let products = Products { layout, rows, plane, matrices, shift, bias, uncertain, results, list, counts };
    // The table is whole before it is read.
    thread::sync_threads();
    let mut y = first;
    let mut stage = 0;
    // SAFETY: nobody reads or writes the stages.
    unsafe { filler.fill(stages, y - params.origin_y) };
    while y < end {
        thread::no_unroll();
        wait::<0>();
        // The stage is there, nobody reads any more from the other one, and the results of the step before are written.
        thread::sync_threads();
        let pixels = stages.offset(stage);
        stage = PLANES * plane - stage;
        if y + (ROWS as i32) < end {
            // SAFETY: see above.
            unsafe { filler.fill(stages.offset(stage), y + ROWS as i32 - params.origin_y) };
        }
        // SAFETY: the stage was filled, the mask copied; all threads are here.
        unsafe { products.compute(pixels, values - block_v) };
        thread::sync_threads();
        let again = Again { layout, plane, coefficients, list, counts, results, params };
        // SAFETY: the lists were written before the barrier; all threads are here.
        unsafe { again.run::<CHANNELS>(pixels) };
        // SAFETY: results are written, all of them before a barrier; rows `y` to `end` and the columns are this block's.
        unsafe { write(results, result, block_v, values, y, end, params.dst_pitch, params) };
        y += ROWS as i32;
    }
}

/// The thread's number, of which the compiler knows nothing: what is computed from it in a step would be kept from step to step otherwise,
/// in registers that the sums need.
#[inline(always)]
fn this_thread() -> u32 {
    thread::opaque(thread::thread_idx_x())
}

/// Writes the results of a step, as far as they lie in the image.
///
/// # Safety
/// `results` holds them; `result` rows of `values` values.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn write(
    results: Shared<u8>,
    result: Untyped,
    block_v: i32,
    values: i32,
    y: i32,
    end: i32,
    pitch: i32,
    params: Params,
) {
    const PIECES: u32 = COLUMNS / PIECE;
    let thread = this_thread();
    let (piece, row) = (thread % PIECES, thread / PIECES);
    let v = block_v + (piece * PIECE) as i32;
    let whole = pitch % PIECE as i32 == 0 && v + PIECE as i32 <= values;
    for i in 0..ROWS / (BLOCK.0 / PIECES) {
        let row = row + i * (BLOCK.0 / PIECES);
        let from = results.offset(result_place(row, piece * PIECE));
        let to = result.offset(params.dst_index(v, y + row as i32));
        if y + row as i32 >= end {
            return;
        }
        if whole {
            // SAFETY: the caller's promise; both are multiples of 16 bytes.
            unsafe { to.cast::<F32x4>().store(0, from.cast::<F32x4>().load(0)) };
        } else {
            let mut at = 0;
            while at < PIECE as i32 && v + at < values {
                thread::no_unroll();
                // SAFETY: the caller's promise, for a value inside of the image.
                unsafe { to.store(at as isize, from.load(at as u32)) };
                at += 1;
            }
        }
    }
}

/// Where the result in `row` and `column` of a step lies.
#[inline(always)]
const fn result_place(row: u32, column: u32) -> u32 {
    (row % PLANES * (ROWS / PLANES) + row / PLANES) * RESULT_PITCH + column
}

/// Fills stages.
struct Filler<const CHANNELS: u32> {
    image: Global<u8>,
    params: Params,
    /// Whether a row goes beyond the image, or pieces do not begin at a multiple of 16 bytes.
    edge: bool,
    /// Whether they do.
    aligned: bool,
    /// Value of the image's row with which one here begins.
    left: i32,
    rows: u32,
    plane: u32,
    pitch: u32,
    /// The thread's first row, its piece of each, and how many rows further its next one is.
    first: u32,
    piece: u32,
    step: u32,
    /// For each value of a row the value of the image's row that stands for it, or [`border::OUTSIDE`]: at the edge.
    table: Shared<i32>,
}

impl<const CHANNELS: u32> Filler<CHANNELS> {
    /// Fills a stage from row `top` of the image on, and ends a group of copies.
    ///
    /// # Safety
    /// Nobody reads or writes the stage before the copies were waited for and a barrier was passed. At the edge the table is filled.
    #[inline(always)]
    unsafe fn fill(&self, stage: Shared<u8>, top: i32) {
        let at = thread::opaque(self.piece * PIECE) as i32;
        let mut row = thread::opaque(self.first);
        let inside = !self.edge && top >= 0 && top + self.rows as i32 <= self.params.height;
        while row < self.rows && self.first < self.step {
            thread::no_unroll();
            let at = thread::opaque(at as u32) as i32;
            let to = stage.offset(row % PLANES * self.plane + row / PLANES * self.pitch + at as u32);
            let y = top + row as i32;
            if inside {
                let from = self.image.offset(self.params.src_index(self.left + at, y));
                // SAFETY: row and piece lie in the image, aligned.
                unsafe { copy_16_if(true, to, from) };
            } else {
                // SAFETY: the caller's promise.
                unsafe { self.fill_edge(to, self.left + at, at as u32, y) };
            }
            row += self.step;
        }
        commit();
    }

    /// Fills a piece that may lie outside: with what begins at value `first` of row `y`, `at` in the table.
    ///
    /// # Safety
    /// As for [`fill`](Self::fill).
    #[inline(always)]
    unsafe fn fill_edge(&self, to: Shared<u8>, first: i32, at: u32, y: i32) {
        let params = &self.params;
        let y = border::map(params.border, y, params.height);
        let values = if y >= 0 { params.width * CHANNELS as i32 } else { 0 };
        let zeros = params.border == border::BorderMode::Constant.code() && params.border_value == 0.0;
        let row = self.image.offset(params.src_index(0, y));
        if self.aligned && (zeros || y >= 0 && !self.edge) {
            let there = if first >= 0 { (values - first).clamp(0, PIECE as i32) } else { 0 };
            let from = if there > 0 { row.offset(first as isize) } else { self.image };
            // SAFETY: of the source `there` bytes lie in the row.
            unsafe { copy_some_of_16_if(true, to, from, there as u32) };
            return;
        }
        let outside = u32::from(u8::from_f32(params.border_value));
        for word in 0..4 {
            let mut bytes = 0;
            for i in 0..4 {
                let mut byte = outside;
                if values > 0 {
                    // Without an edge all values of the row are inside. SAFETY: the table has a value in the row, or `OUTSIDE`.
                    let v = if self.edge { unsafe { self.table.load(at + 4 * word + i) } } else { 0 };
                    if v >= 0 {
                        // SAFETY: the row exists.
                        byte = u32::from(unsafe { row.load(v as isize) });
                    }
                }
                bytes |= byte << (8 * i);
            }
            // SAFETY: the piece is this thread's to write.
            unsafe { to.cast::<u32>().store(word, bytes) };
        }
    }
}

/// The tensor cores' part.
struct Products {
    layout: Layout,
    /// Of the mask.
    rows: u32,
    plane: u32,
    matrices: Shared<f32>,
    shift: u32,
    bias: i32,
    uncertain: u32,
    results: Shared<u8>,
    list: Shared<u8>,
    counts: Shared<u32>,
}

impl Products {
    /// A step: all results, and the lists of the uncertain ones. Warps whose columns are all beyond `inside` have none.
    ///
    /// # Safety
    /// All threads of the block call it. `pixels` is a stage that was filled before the last barrier, the matrices are in place, and nobody
    /// reads the results and the lists.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn compute(&self, pixels: Shared<u8>, inside: i32) {
        let (warp, lane) = (this_thread() / 32, this_thread() % 32);
        let (group, member) = (lane / 4, lane % 4);
        let list = self.list.cast::<u16>().offset(warp * MOST_UNCERTAIN);
        let mut count = 0;
        let mut column = warp * 32;
        while column < warp * 32 + 32 && (column as i32) < inside {
            thread::no_unroll();
            // SAFETY: the caller's promise.
            let sums = unsafe { self.sums(pixels, group * self.layout.pitch + 4 * member + column, lane) };
            let mut doubtful = 0_u32;
            for s in 0..PLANES as usize {
                for across in 0..ACROSS {
                    let [low, high] = sums[s][across];
                    for half in 0..2 {
                        let mut bytes = [0; 2];
                        for i in 0..2 {
                            let at = 2 * half + i;
                            let sum = high[at].wrapping_mul(256).wrapping_add(low[at]);
                            if (sum as u32) << (32 - self.shift) < self.uncertain {
                                doubtful |= 1 << (s * 8 + across * 4 + at);
                            }
                            bytes[i] = sum >> self.shift;
                        }
                        let row = 4 * (group + 8 * half as u32) + s as u32;
                        let place = result_place(row, column + 8 * across as u32 + 2 * member);
                        let pair = saturated_pair(bytes[0], bytes[1]) as u16;
                        // SAFETY: the two values are this thread's.
                        unsafe { self.results.offset(place).cast::<u16>().store(0, pair) };
                    }
                }
            }
            // Each round puts one uncertain pixel of each lane that has one onto the list.
            let mut lanes = warp::ballot(doubtful != 0);
            while lanes != 0 {
                thread::no_unroll();
                let place = count + (lanes & ((1 << lane) - 1)).count_ones();
                if doubtful != 0 {
                    let which = doubtful.trailing_zeros();
                    doubtful &= doubtful - 1;
                    let row = 4 * (group + (which & 2) * 4) + which / 8;
                    let column = column + (which & 4) * 2 + 2 * member + (which & 1);
                    if place < MOST_UNCERTAIN {
                        // SAFETY: the place is in this warp's list, and this thread's alone.
                        unsafe { list.store(place, (row * COLUMNS + column) as u16) };
                    }
                }
                count += lanes.count_ones();
                lanes = warp::ballot(doubtful != 0);
            }
            column += 16;
        }
        if lane == 0 {
            // SAFETY: one number a warp.
            unsafe { self.counts.store(warp, count) };
        }
    }

    /// The sums of 64 rows and 16 columns; `from` is the thread's first word in the first row of a stage.
    ///
    /// # Safety
    /// As for [`compute`](Self::compute).
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn sums(&self, pixels: Shared<u8>, from: u32, lane: u32) -> [[[[i32; 4]; 2]; ACROSS]; PLANES as usize] {
        let mut sums = [[[[self.bias; 4], [0; 4]]; ACROSS]; PLANES as usize];
        let mut matrices = self.matrices.cast::<F32x4>().offset(lane);
        let mut chunk = 0;
        while chunk < self.layout.chunks {
            thread::no_unroll();
            let mut at = pixels.offset(self.layout.first + from + chunk * CHUNK).cast::<u32>();
            // The mask's row `t - s` for each s, the one for `t` in place `t % 4`.
            let mut window = [[0; 4]; PLANES as usize];
            let mut row = 0;
            while row < self.rows + PLANES - 1 {
                thread::no_unroll();
                for u in 0..PLANES as usize {
                    let t = row + u as u32;
                    if t < self.rows {
                        // SAFETY: the matrices have 32 such parts for each row of the mask and chunk.
                        window[u] = unsafe { matrices.load(0) }.0.map(f32::to_bits);
                        matrices = matrices.offset(32);
                    }
                    if t >= self.rows + PLANES - 1 {
                        break;
                    }
                    let mut a = [[0; 4]; ACROSS];
                    for across in 0..ACROSS {
                        for i in 0..4 {
                            let row = u as u32 * self.plane + (i as u32 % 2) * 8 * self.layout.pitch;
                            // SAFETY: rows 4 m + t with m up to 15 are in the stage, and the chunk's bytes are in the row.
                            a[across][i] = unsafe { at.offset(row / 4).load(across as u32 * 2 + i as u32 / 2 * 4) };
                        }
                    }
                    for s in 0..PLANES as usize {
                        if t >= s as u32 && t - (s as u32) < self.rows {
                            let [low0, low1, high0, high1] = window[(u + 4 - s) % 4];
                            for across in 0..ACROSS {
                                let [low, high] = &mut sums[s][across];
                                *low = multiply_add(a[across], [low0, low1], *low);
                                *high = multiply_add(a[across], [high0, high1], *high);
                            }
                        }
                    }
                }
                at = at.offset(self.layout.pitch / 4);
                row += PLANES;
            }
            chunk += 1;
        }
        sums
    }
}

/// The ordinary way, for uncertain pixels.
struct Again {
    layout: Layout,
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
    /// All threads of the block call it. `pixels` is the stage of the step; the lists were written before the last barrier.
    #[inline(always)]
    unsafe fn run<const CHANNELS: u32>(&self, pixels: Shared<u8>) {
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
            let first = self.layout.first + self.layout.phase + column;
            let (columns, rows) = (self.params.mask_width as u32, self.params.mask_height as u32);
            let mut sum = 0.0;
            let mut k = 0;
            while k < rows {
                thread::no_unroll();
                let at = (row + k) % PLANES * self.plane + (row + k) / PLANES * self.layout.pitch + first;
                sum = add_row(sum, columns, |l, sum| {
                    // SAFETY: the window lies in the stage, its coefficients in the mask.
                    let (pixel, coefficient) = unsafe {
                        let coefficient = self.coefficients.load(k * columns + l as u32);
                        (pixels.load(at + l as u32 * CHANNELS), coefficient)
                    };
                    fma(coefficient, pixel.to_f32(), sum)
                });
                k += 1;
            }
            let value = u8::from_f32(self.params.finish(sum));
            // SAFETY: a pixel is in one list once, so it is this thread's.
            unsafe { self.results.store(result_place(row, column), value) };
            i += BLOCK.0;
        }
        thread::sync_threads();
    }
}
