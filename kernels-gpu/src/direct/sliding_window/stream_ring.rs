//! Rows of bytes in a ring in shared memory: the next ones are under way while one is added up.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! The walk of [`stream`](crate::direct::sliding_window::stream) with its sums in registers that move up by themselves, for images and results of `u8` in any
//! number of interleaved channels. Two things differ.
//!
//! # The ring
//! Warps that start together stay together: all of them reach the next row's loads at the same time, and then all wait. Loading
//! rows ahead into registers takes so many of them that fewer warps fit. So the block copies rows into shared memory, [`DEPTH`]` - 1`
//! rows before their use and without registers ([`cuda_std::cp_async`]), and a thread reads its window from there, in some 30 cycles.
//!
//! # Bytes
//! Bytes stay bytes in the ring, and become floats in the thread: a permutation of bytes makes `2^23 + byte`, and `2^23` is
//! subtracted ([`cuda_std::bytes`]). Both run in other units than a conversion would, which is four times as slow.
//!
//! # Thread mapping
//! A thread owns [`COLUMNS`] neighbouring *values* of a row (a pixel has one for each channel) and walks down a strip of rows; its
//! window takes every `CHANNELS`-th value. A block is one warp. The grid's rows share out the image's, as with [`strip`](crate::direct::sliding_window::strip).
//!
//! # Tiling
//! ```text
//!    LEFT values    COLUMNS of each thread            the rest of the last window
//!  ├──────────────┼──────┼──────┼──────┼ … ┼──────┼──────────────┤   one row of the ring, a multiple of 16 bytes
//! ```
//!
//! # The edge
//! A block whose columns all lie in the image asks nothing. Otherwise each piece of 16 bytes is asked for: one outside is filled up
//! with zeros by the copy itself where the border is zero; any other one is put together value by value, through a table of which
//! value stands for which.
//!
//! # What it costs
//! | | for each value of the result |
//! | --- | --- |
//! | products | `K * K` |
//! | bytes of device memory | 2, and `(K - 1) / rows of a strip` that two strips read |
//! | instructions beside the products | two for each of the `(COLUMNS + (K - 1) * CHANNELS) / COLUMNS` values of a window to become floats; coefficients past the 60 that uniform registers hold; copies, stores and loop, about 30 for `COLUMNS` |
//!
//! On an H100 (8192 x 8192 pixels, `u8` to `u8`, zero border), as scheduled by [`schedule`]; the floor is the longer of 2
//! bytes a value at the 2.94 TB/s of a copy and `K * K` products a value in the FP32 units:
//!
//! | | 3 x 3 | 5 x 5 | 7 x 7 | 9 x 9 |
//! | --- | --- | --- | --- | --- |
//! | one channel, µs | 66 | 106 | 170 | 274 |
//! | of the floor | 69 % | 50 % | 62 % | 63 % |
//! | three channels, µs | 192 | 284 | 489 | 733 |
//! | of the floor | 71 % | 56 % | 64 % | 71 % |
//!
//! [`constant_mask`](crate::teaching::constant_mask) takes 1070 µs for one channel and 7 x 7. Four channels and larger masks are not measured.

use cuda_std::bytes::{byte_to_f32, pack_sat_u8x4};
use cuda_std::cp_async::{commit_group, cp_async_16_if, cp_async_16_zfill, wait_group};
use cuda_std::prelude::*;

use crate::abi::border;
use crate::abi::kernel::Convergent;
use crate::abi::params::{OutputPtr, Params};
use crate::abi::pixel::Pixel as _;
use crate::common::partition::block_rows;
use crate::direct::sliding_window::strip::{Needed, Sums};
use crate::teaching::constant_mask::MASK;

pub use crate::direct::sliding_window::strip::BLOCK;

/// Values of a row that a thread computes.
pub const COLUMNS: usize = 8;
/// Rows of the ring.
pub const DEPTH: u32 = 4;
/// The oldest compute capability that has the copies.
pub const COMPUTE_CAPABILITY: (u32, u32) = (8, 0);

/// Bytes of one copy.
const PIECE: usize = 16;
/// Bytes that one access of a thread reads or writes.
const STEP: usize = COLUMNS;
/// The most values of a window.
const MOST: usize = COLUMNS + 10 * 4;
/// The most words of 4 bytes that a thread reads for them.
const MOST_WORDS: usize = 16;
/// The most bytes of a row of the ring for each thread.
const MOST_BYTES: usize = COLUMNS + 4;

/// The blocks that a multiprocessor holds at a time, by its registers, on compute capability 9.0, and how many times as many a
/// launch has. Measured for one and three channels up to 9 x 9: blocks of 32 to 256 threads, 1 to 4 waves.
#[must_use]
pub const fn schedule(channels: u32, size: u32) -> (u32, u32) {
    let resident = match (channels, size) {
        (1, ..=3) => 28,
        (1, ..=5) | (_, ..=3) => 20,
        (1, ..=7) | (_, ..=5) => 16,
        (1, ..=11) | (_, ..=9) => 12,
        _ => 8,
    };
    (resident, 4)
}

/// The dynamic shared memory that a launch needs, in bytes: the ring, and a table of one `i32` for each value of a row of it.
#[must_use]
pub const fn shared_bytes(channels: u32, size: u32) -> u64 {
    let layout = Layout::new(channels as usize, size as usize);
    let pitch = BLOCK.0 as u64 * COLUMNS as u64 + layout.more as u64;
    pitch * (DEPTH as u64 + size_of::<i32>() as u64)
}

/// Where a row of the ring has what.
#[derive(Clone, Copy)]
struct Layout {
    /// Values by which a window begins further left than its output, with the anchor in the middle.
    origin: usize,
    /// The same, in whole pieces.
    left: usize,
    /// Values of a thread's window.
    window: usize,
    /// Where a thread begins to read, from its place in the ring's row on.
    first: usize,
    /// Values that it reads before its window.
    skip: usize,
    /// Accesses to read a window.
    steps: usize,
    /// Values of a row of the ring beside those of the threads.
    more: usize,
}

impl Layout {
    const fn new(channels: usize, size: usize) -> Self {
        let origin = (size - 1) / 2 * channels;
        let left = origin.next_multiple_of(PIECE);
        let window = COLUMNS + (size - 1) * channels;
        let first = (left - origin) / STEP * STEP;
        let skip = left - origin - first;
        let steps = (skip + window).div_ceil(STEP);
        let more = (first + steps * STEP - COLUMNS).next_multiple_of(PIECE);
        Self { origin, left, window, first, skip, steps, more }
    }
}

/// What the kernel has of each convergent instruction: a barrier behind which the table of columns is whole, and one
/// for each row,
/// in the loop of rows that ask what is needed and in the loop of those that need not.
pub const CONVERGENT: Convergent = Convergent::barriers(1 + 2);

/// The kernel for `CHANNELS` interleaved channels and a mask of `K` x `K`.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels of bytes at their pitches, begin at a multiple of 16 bytes and do not
///   overlap.
/// - The block is one row of at least 32 threads, the dynamic shared memory at least [`shared_bytes`] where there are 32, the mask
///   `K` x `K` with an odd `K` of at most 15, the border's value a whole number from 0 to 255 where it stands for pixels.
/// - [`struct@MASK`] holds the `K` x `K` coefficients.
#[inline(always)]
pub unsafe fn stream_ring<const CHANNELS: usize, const K: usize>(image: Global<u8>, result: OutputPtr, params: Params) {
    let layout = Walk::<CHANNELS, K>::LAYOUT;
    let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    let columns = threads * COLUMNS as u32;
    let values = params.width * CHANNELS as i32;
    let block_v = (thread::block_idx_x() * columns) as i32;
    let v = block_v + (thread * COLUMNS as u32) as i32;
    let middle = params.origin_x == (K as i32 - 1) / 2;
    let aside = if middle { 0 } else { layout.origin as i32 - params.origin_x * CHANNELS as i32 };
    let left = block_v - layout.left as i32 + aside;

    let (first, rows) = block_rows::<1>(&params);
    let more = params.mask_height - 1;
    let top = first - params.origin_y;
    if rows <= 0 {
        return;
    }

    let pitch = columns + layout.more as u32;
    let ring = Shared::<u8>::dynamic();
    let aligned = middle && params.src_pitch % PIECE as i32 == 0;
    let edge = !aligned || left < 0 || left + pitch as i32 > values;
    let table = ring.offset(pitch * DEPTH).cast::<i32>();
    if edge || top < 0 || top + rows + more + DEPTH as i32 > params.height {
        let mut i = thread;
        while i < pitch {
            thread::no_unroll();
            // A multiple of the channels is added, so that the quotient is rounded down.
            let v = (left + i as i32 + (CHANNELS << 16) as i32) as u32;
            let x = border::map(params.border, (v / CHANNELS as u32) as i32 - (1 << 16), params.width);
            let v = if x >= 0 { x * CHANNELS as i32 + (v % CHANNELS as u32) as i32 } else { x };
            // SAFETY: the table has `pitch` elements; each is one thread's.
            unsafe { table.store(i, v) };
            i += threads;
        }
    }
    let (scale, offset) = params.exact_finish();
    let mut walk = Walk::<CHANNELS, K> {
        filler: Filler {
            image,
            params,
            plain: if edge { 0 } else { params.height as u32 },
            aligned,
            left,
            from: image.offset(params.src_index(left + (thread as usize * PIECE) as i32, top)),
            y: top,
            pitch,
            table,
        },
        ring,
        at: 0,
        last: pitch * (DEPTH - 1),
        sums: [[0.0; COLUMNS]; K],
        row: result.offset(params.dst_index(v, first)),
        inside: (values - v).clamp(0, COLUMNS as i32),
        whole: params.dst_pitch % STEP as i32 == 0 && v + COLUMNS as i32 <= values,
        scale,
        offset,
    };
    // The table is whole before it is read.
    // SAFETY: all threads are here: what is returned before depends on the block alone.
    unsafe { thread::sync_threads() };
    let mut at = 0;
    while at < walk.last {
        thread::no_unroll();
        // SAFETY: `at` is the start of one of the ring's rows, which nobody has read or written.
        unsafe { walk.filler.next(ring.offset(at + thread * PIECE as u32)) };
        at += pitch;
    }
    // Rows with all of their sums, and with the row that is copied meanwhile in the image.
    let plain = if edge { 0 } else { rows.min(params.height - top - (DEPTH as i32 - 1)) };
    let mut r = 0;
    let mut upto = if plain > more { more } else { rows + more };
    loop {
        while r < upto {
            thread::no_unroll();
            // SAFETY: all threads of the block are here, with rows of the strip left; the caller's promise for the mask and the result.
            unsafe { walk.add(Needed::at(r, rows), false) };
            if r >= more {
                // SAFETY: `rows` rows are written, `first` and those below it, which lie in the result and are this block's.
                unsafe { walk.finish() };
            }
            r += 1;
        }
        while r < plain {
            thread::no_unroll();
            // SAFETY: as above; the block has no edge, and the row to be copied, 3 below row `r` of the walk, lies in the image.
            unsafe {
                walk.add(Needed::ALL, true);
                walk.finish();
            }
            r += 1;
        }
        if r >= rows + more {
            return;
        }
        upto = rows + more;
    }
}

/// Fills rows of the ring, one after the other.
struct Filler<const CHANNELS: usize, const K: usize> {
    image: Global<u8>,
    params: Params,
    /// Rows of the image, or 0 where a piece can lie outside or not at a multiple of 16 bytes.
    plain: u32,
    /// Whether all pieces begin at a multiple of 16 bytes.
    aligned: bool,
    /// Value of the image's row with which the ring's begins.
    left: i32,
    /// The thread's first piece in the next row.
    from: Global<u8>,
    /// The next row; it may lie outside.
    y: i32,
    /// Values of a row of the ring.
    pitch: u32,
    /// For each of them the value of the image's row that stands for it, or [`border::OUTSIDE`]: where not all lies in the image.
    table: Shared<i32>,
}

impl<const CHANNELS: usize, const K: usize> Filler<CHANNELS, K> {
    /// Fills the row in which the thread's first piece goes to `to`, where all of it lies in the image.
    ///
    /// # Safety
    /// All threads of the block call it, with rows that none of them reads before it was waited for. The next row is in the
    /// image, and its pieces are, aligned.
    #[inline(always)]
    unsafe fn next_inside(&mut self, to: Shared<u8>) {
        let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
        for i in 0..COLUMNS.div_ceil(PIECE) as u32 + 1 {
            let step = i * threads * PIECE as u32;
            let whole = (i as usize + 1) * PIECE <= COLUMNS;
            let which = whole || thread * (PIECE as u32) + step < self.pitch;
            // SAFETY: the caller's promise; a row of the ring is a multiple of pieces.
            unsafe { cp_async_16_if(which, to.offset(step), self.from.offset(step as isize)) };
        }
        self.step();
    }

    /// The same for any row.
    ///
    /// # Safety
    /// As for [`next_inside`](Self::next_inside), but the row may lie anywhere; the table is filled where `plain` is 0 or it is outside.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn next(&mut self, to: Shared<u8>) {
        if (self.y as u32) < self.plain {
            // SAFETY: the caller's promise, and the row lies in the image.
            unsafe { self.next_inside(to) };
            return;
        }
        let (thread, threads, piece) = (thread::thread_idx_x(), thread::block_dim_x(), PIECE as u32);
        let params = &self.params;
        let y = border::map(params.border, self.y, params.height);
        let values = if y >= 0 { params.width * CHANNELS as i32 } else { 0 };
        let zeros = params.border == border::BorderMode::Constant.code() && params.border_value == 0.0;
        let row = self.image.offset(params.src_index(0, y));
        // Loops and branches here are the same for all threads, or the coefficients would not stay in uniform registers.
        if self.aligned && zeros {
            let mut step = 0;
            while step < self.pitch {
                thread::no_unroll();
                let first = self.left + (thread * piece + step) as i32;
                let there = if first >= 0 { (values - first).clamp(0, piece as i32) } else { 0 };
                let from = if there > 0 { row.offset(first as isize) } else { self.image };
                let which = thread * piece + step < self.pitch;
                // SAFETY: of the source `there` bytes lie in the row; the caller's promise for the destination.
                unsafe { cp_async_16_zfill(which, to.offset(step), from, there as u32) };
                step += threads * piece;
            }
        } else {
            // All values are asked for before one is waited for. Words and plain indices, or LLVM would put the array into local memory.
            let each = COLUMNS + Walk::<CHANNELS, K>::LAYOUT.more.div_ceil(BLOCK.0 as usize);
            let to = to.offset(0u32.wrapping_sub(thread * (piece - 1)));
            let mut found = [u32::from(u8::from_f32(params.border_value)); MOST_BYTES];
            for i in 0..each {
                let at = thread + i as u32 * threads;
                if at < self.pitch && values > 0 {
                    // SAFETY: the table has `pitch` elements, and was filled before the last barrier.
                    let v = unsafe { self.table.load(at) };
                    if v >= 0 {
                        // SAFETY: the row exists, and the table has values in it.
                        found[i] = u32::from(unsafe { row.load(v as isize) });
                    }
                }
            }
            for i in 0..each {
                if thread + i as u32 * threads < self.pitch {
                    // SAFETY: value `thread + i * threads` of the row, which is this thread's to write.
                    unsafe { to.store(i as u32 * threads, found[i] as u8) };
                }
            }
        }
        self.step();
    }

    /// Ends a row.
    #[inline(always)]
    fn step(&mut self) {
        commit_group();
        self.y += 1;
        self.from = self.from.offset(self.params.src_pitch as isize);
    }
}

/// A thread's way down its strip.
struct Walk<const CHANNELS: usize, const K: usize> {
    filler: Filler<CHANNELS, K>,
    ring: Shared<u8>,
    /// Where the ring's next row begins, and where the one before.
    at: u32,
    last: u32,
    sums: Sums<K, COLUMNS>,
    /// The thread's first value in the next row of the result.
    row: OutputPtr,
    /// How many of the thread's values lie in the result.
    inside: i32,
    /// Whether all do, and are aligned for one access.
    whole: bool,
    scale: f32,
    offset: f32,
}

impl<const CHANNELS: usize, const K: usize> Walk<CHANNELS, K> {
    const LAYOUT: Layout = {
        let layout = Layout::new(CHANNELS, K);
        assert!(layout.window <= MOST && layout.steps * STEP <= 4 * MOST_WORDS);
        assert!(COLUMNS + layout.more.div_ceil(BLOCK.0 as usize) <= MOST_BYTES);
        layout
    };

    /// Waits for the next row, lets one further below be copied, and reads the thread's window.
    ///
    /// # Safety
    /// All threads of the block call it. If `inside`, what [`Filler::next_inside`] asks for.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn next(&mut self, inside: bool) -> [f32; MOST] {
        wait_group::<{ DEPTH - 2 }>();
        // All copies of the row are done, and nobody reads any more from the row before, which is filled next.
        // SAFETY: all threads are here: the function requires it.
        unsafe { thread::sync_threads() };
        let thread = thread::thread_idx_x();
        let to = self.ring.offset(self.last + thread * PIECE as u32);
        // SAFETY: the caller's promise; the row `last` is read again only after it was waited for.
        unsafe {
            if inside {
                self.filler.next_inside(to);
            } else {
                self.filler.next(to);
            }
        }
        let window = self.ring.offset(self.at + thread * COLUMNS as u32 + Self::LAYOUT.first as u32).cast::<F32x2>();
        let mut words = [0; MOST_WORDS];
        for i in 0..Self::LAYOUT.steps {
            // SAFETY: the row ends after the last thread's window; the place is a multiple of `STEP`, 8, and the row was written
            // before the barrier.
            let F32x2(pair) = unsafe { window.load(i as u32) };
            words[2 * i] = pair[0].to_bits();
            words[2 * i + 1] = pair[1].to_bits();
        }
        let mut pixels = [0.0; MOST];
        for i in 0..Self::LAYOUT.window {
            let at = Self::LAYOUT.skip + i;
            pixels[i] = byte_to_f32(words[at / 4], at % 4);
        }
        self.last = self.at;
        self.at += self.filler.pitch;
        if self.at == DEPTH * self.filler.pitch {
            self.at = 0;
        }
        pixels
    }

    /// Adds the next row to the sums, and moves each one up by one.
    ///
    /// # Safety
    /// As for [`next`](Self::next), and the mask is `K` x `K`.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn add(&mut self, needed: Needed, inside: bool) {
        // SAFETY: the caller's promise.
        let pixels = unsafe { self.next(inside) };
        for a in 0..K {
            let k = K - 1 - a;
            if needed.has(k) {
                let mut sum = if a + 1 < K { self.sums[a + 1] } else { [0.0; COLUMNS] };
                for l in 0..K {
                    // SAFETY: the mask is K x K.
                    let coefficient = unsafe { MASK.load(k * K + l) };
                    for c in 0..COLUMNS {
                        sum[c] = fma(pixels[l * CHANNELS + c], coefficient, sum[c]);
                    }
                }
                self.sums[a] = sum;
            }
        }
    }

    /// Writes the first of the sums.
    ///
    /// # Safety
    /// The next row lies in the result, and its values here are this thread's.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn finish(&mut self) {
        let mut finished = [0.0; COLUMNS];
        for c in 0..COLUMNS {
            finished[c] = fma(self.sums[0][c], self.scale, self.offset);
        }
        if self.whole {
            let low = pack_sat_u8x4([finished[0], finished[1], finished[2], finished[3]]);
            let high = pack_sat_u8x4([finished[4], finished[5], finished[6], finished[7]]);
            // SAFETY: the caller's promise; the row begins at a multiple of 8 bytes, and so does this thread's part.
            unsafe { self.row.cast::<F32x2>().store(0, F32x2([f32::from_bits(low), f32::from_bits(high)])) };
        } else {
            for c in 0..COLUMNS {
                if (c as i32) < self.inside {
                    // SAFETY: the caller's promise, for a value inside of the image.
                    unsafe { self.row.store(c as isize, u8::from_f32(finished[c])) };
                }
            }
        }
        self.row = self.row.offset(self.filler.params.dst_pitch as isize);
    }
}
