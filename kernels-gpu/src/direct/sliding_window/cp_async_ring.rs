//! Rows of bytes in a ring in shared memory, filled by `cp.async`: for `u8` and masks of 3 x 3.
//!
//! Larger masks of bytes take [`global_rows`](super::global_rows).
//!
//! # Thread mapping
//! A thread owns [`COLUMNS`] neighbouring *values* of a row, a block [`COLUMNS`]` * BLOCK` of them. A pixel has
//! `CHANNELS` values, and the window takes every `CHANNELS`-th one.
//!
//! # The ring
//! Warps that start together load a row at the same time, and then all wait. Prefetching rows into registers costs
//! occupancy. So a block copies each row to shared memory, [`PREFETCH_DISTANCE`] rows before its use. A thread reads
//! its window from there.
//!
//! # Tiling
//! ```text
//!    CHUNK    COLUMNS of each thread                 CHUNK
//!  ├────────┼──────┼──────┼──────┼ … ┼──────┼──────┼────────┤   a row of the ring, PITCH bytes
//!                  ├──────┼──────┼──────┤             what a thread reads: its own, and COLUMNS on either side
//! ```
//! Bytes become floats in the thread: a byte permutation makes `2^23 + byte`, from which `2^23` is subtracted. Both run
//! at four times the rate of a conversion.
//!
//! # Border
//! A block whose row of the ring lies in the image makes no test. Otherwise a zero border is filled by the copy itself.
//! Any other border is stored value by value, through the border table (`common::border_table`).

use cuda_std::bytes::byte_to_f32;
use cuda_std::cp_async::{commit_group, cp_async_16_if, cp_async_16_zfill, wait_group};
use cuda_std::prelude::*;

use crate::abi::border::{self, BorderMode};
use crate::abi::kernel::Convergent;
use crate::abi::params::{OutputPtr, Params};
use crate::abi::pixel::Pixel as _;
use crate::common::border_table;
use crate::common::contributing_rows::MaskRowBits;
use crate::common::partition::block_rows;
use crate::direct::sliding_window::BLOCK;
use crate::direct::sliding_window::passes::Pass;
use crate::direct::sliding_window::walk::{RowSource, RowWriter, Strip, Window, walk};

/// Rows and columns of the mask.
pub const SIDE: u32 = 3;
/// Values of a row that a thread computes.
pub const COLUMNS: u32 = 8;
/// Rows between the copy of a row and its use.
pub const PREFETCH_DISTANCE: u32 = STAGES - 1;

/// A barrier after the border table, and one for each row: in the loop of boundary rows and in that of interior rows.
pub const CONVERGENT: Convergent = Convergent::barriers(1 + 2);

/// Rows of the ring.
const STAGES: u32 = 4;
/// Bytes of one copy.
const CHUNK: u32 = 16;
/// Bytes of a row of the ring.
const PITCH: u32 = BLOCK.0 * COLUMNS + 2 * CHUNK;

// One copy of each thread is enough for a row, and one vector of 8 bytes for the values of a thread.
const _: () = assert!(PITCH <= BLOCK.0 * CHUNK && PITCH.is_multiple_of(BLOCK.0) && COLUMNS == 8);

/// The dynamic shared memory of a block in bytes: the ring and the border table.
#[must_use]
pub const fn shared_bytes() -> u64 {
    PITCH as u64 * (STAGES as u64 + size_of::<i32>() as u64)
}

/// The kernel for `CHANNELS` interleaved channels and a mask of 3 x 3.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels of `CHANNELS` bytes at their pitches.
/// - Both begin at a multiple of 16 bytes and do not overlap.
/// - The block is [`BLOCK`], its dynamic shared memory at least [`shared_bytes`].
/// - The mask is 3 x 3, and [`MASK`](struct@crate::teaching::constant_mask::MASK) holds its coefficients row after row.
/// - Where the border is constant, its value is a whole number from 0 to 255.
/// - The compute capability is at least 8.0.
#[inline(always)]
pub unsafe fn sliding_window<const CHANNELS: u32>(image: Global<u8>, result: OutputPtr, params: Params) {
    const K: usize = SIDE as usize;
    const C: usize = COLUMNS as usize;
    let thread = thread::thread_idx_x();
    let values = params.width * CHANNELS as i32;
    let block_v = (thread::block_idx_x() * BLOCK.0 * COLUMNS) as i32;
    let v = block_v + (thread * COLUMNS) as i32;
    // With a centered anchor a window begins one pixel before its output. Any other anchor shifts the rows of the ring.
    let left = block_v - CHUNK as i32 + (1 - params.origin_x) * CHANNELS as i32;

    let (first, rows) = block_rows::<1>(&params);
    let halo = params.mask_height - 1;
    let top = first - params.origin_y;
    if rows <= 0 {
        return;
    }

    let ring = Shared::<u8>::dynamic();
    let table = ring.offset(PITCH * STAGES).cast::<i32>();
    let aligned = params.origin_x == 1 && params.src_pitch % CHUNK as i32 == 0;
    let edge = !aligned || left < 0 || left + PITCH as i32 > values;
    if edge || top < 0 || top + rows + halo + STAGES as i32 > params.height {
        // SAFETY: the table has PITCH elements. All threads are here: the condition is the same in all of them.
        unsafe { border_table::fill::<CHANNELS>(table, &params, left, PITCH, (thread, BLOCK.0)) };
    }
    let vectorized = params.dst_pitch % COLUMNS as i32 == 0 && v + COLUMNS as i32 <= values;
    let mut source = CpAsyncRing::<CHANNELS> {
        image,
        params,
        ring,
        table,
        interior_height: if edge { 0 } else { params.height as u32 },
        aligned,
        left,
        chunk: image.offset(params.src_index(left + (thread * CHUNK) as i32, top)),
        y: top,
        read: 0,
        write: 0,
    };
    let mut writer = RowWriter::<u8, C>::new(result, &params, (v, first), values, vectorized);
    // SAFETY: all threads are here: only whole blocks have returned.
    unsafe { thread::sync_threads() };
    // The compiler must not know the number of rows, or it would unroll the loop.
    while source.write < thread::black_box(PITCH * PREFETCH_DISTANCE) {
        thread::no_unroll();
        // SAFETY: the table is filled where it is needed, and no thread has read or written this row of the ring.
        unsafe { source.copy_row() };
        source.write += PITCH;
    }
    // Interior row `r` copies row `r + PREFETCH_DISTANCE` of the input, which lies in the image.
    let interior_end = if edge { 0 } else { rows.min(params.height - top - PREFETCH_DISTANCE as i32) };
    let interior_begin = if interior_end > halo { halo } else { rows + halo };
    let strip = Strip { rows, halo, interior_begin, interior_end };
    // SAFETY: rows `first` to `first + rows` of values `v` to `v + COLUMNS` are this thread's alone. The mask is 3 x 3.
    unsafe { walk::<_, _, K, K, C, CHANNELS>(&mut source, &mut writer, strip, Pass::ALL_ROWS) }
}

/// Copies rows to a ring in shared memory.
struct CpAsyncRing<const CHANNELS: u32> {
    image: Global<u8>,
    params: Params,
    ring: Shared<u8>,
    /// The border table of a row of the ring. It is filled if values may lie outside of the image, or chunks are not
    /// aligned.
    table: Shared<i32>,
    /// Rows of the image that are copied without a test of their columns: all, or 0 where some are outside or not
    /// aligned.
    interior_height: u32,
    /// Whether the chunks of a row are aligned.
    aligned: bool,
    /// The index, in a row of the image, of the first value of a row of the ring.
    left: i32,
    /// The thread's chunk of row `y`.
    chunk: Global<u8>,
    /// The row that is copied next. It may lie outside.
    y: i32,
    /// The byte offsets in the ring of the row that is read next (`read`) and of the row that is copied next (`write`).
    read: u32,
    write: u32,
}

impl<const CHANNELS: u32> CpAsyncRing<CHANNELS> {
    /// Issues the copies of row `y`, which is inside.
    ///
    /// # Safety
    /// - `0 <= y < interior_height`.
    /// - All threads of the block call it, and none reads the ring's row `write` before it is waited for.
    #[inline(always)]
    unsafe fn copy_interior_row(&mut self) {
        let to = thread::thread_idx_x() * CHUNK;
        // SAFETY: the chunk lies in the image's row, aligned, and in the ring's row where it is below PITCH.
        unsafe { cp_async_16_if(to < PITCH, self.ring.offset(self.write + to), self.chunk) };
        self.end_row();
    }

    /// Issues the copies of row `y`, which may lie anywhere.
    ///
    /// # Safety
    /// - The table is filled where the row or some of its values are outside or not aligned.
    /// - All threads of the block call it, and none reads the ring's row `write` before it is waited for.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn copy_row(&mut self) {
        if (self.y as u32) < self.interior_height {
            // SAFETY: 0 <= y < interior_height, tested above. `y` is the same in all threads, so all are here.
            unsafe { self.copy_interior_row() };
            return;
        }
        // The branches on row and border are uniform. Otherwise the coefficients would not stay in uniform registers.
        let (params, thread) = (&self.params, thread::thread_idx_x());
        let y = border::map(params.border, self.y, params.height);
        let values = if y >= 0 { params.width * CHANNELS as i32 } else { 0 };
        // The address of a row outside is computed and not used.
        let row = self.image.offset(params.src_index(0, y));
        let to = self.ring.offset(self.write);
        let zeros = params.border == BorderMode::Constant.code() && params.border_value == 0.0;
        if self.aligned && zeros {
            let begin = self.left + (thread * CHUNK) as i32;
            let bytes = if begin >= 0 { (values - begin).clamp(0, CHUNK as i32) } else { 0 };
            let from = if bytes > 0 { row.offset(begin as isize) } else { self.image };
            let is_wanted = thread * CHUNK < PITCH;
            // SAFETY: the first `bytes` bytes of the chunk lie in the image's row, the whole chunk in the ring's.
            unsafe { cp_async_16_zfill(is_wanted, to.offset(thread * CHUNK), from, bytes as u32) };
        } else {
            // All loads are issued before the first value is used. The array has words, or LLVM would put it into local
            // memory.
            const EACH: usize = (PITCH / BLOCK.0) as usize;
            let mut found = [u32::from(u8::from_f32(params.border_value)); EACH];
            for i in 0..EACH {
                if values > 0 {
                    // SAFETY: the table has PITCH elements, which is EACH for each thread.
                    let v = unsafe { self.table.load(thread + i as u32 * BLOCK.0) };
                    if v >= 0 {
                        // SAFETY: row `y` and its value `v` lie in the image.
                        found[i] = u32::from(unsafe { row.load(v as isize) });
                    }
                }
            }
            for i in 0..EACH {
                // SAFETY: the ring's row has PITCH values, and this one is this thread's.
                unsafe { to.store(thread + i as u32 * BLOCK.0, found[i] as u8) };
            }
        }
        self.end_row();
    }

    /// Ends the group of copies of row `y`.
    #[inline(always)]
    fn end_row(&mut self) {
        commit_group();
        self.y += 1;
        self.chunk = self.chunk.offset(self.params.src_pitch as isize);
    }
}

impl<const CHANNELS: u32> RowSource for CpAsyncRing<CHANNELS> {
    type MaskRows = MaskRowBits;

    #[inline(always)]
    unsafe fn load<const INTERIOR: bool>(&mut self, _r: i32) -> Window {
        wait_group::<{ PREFETCH_DISTANCE - 1 }>();
        // After the barrier this row is complete, and no thread still reads the previous row, whose slot is reused
        // next.
        // SAFETY: all threads of the block walk the same rows.
        unsafe { thread::sync_threads() };
        // SAFETY: row `write` is read after its copies were waited for. An interior row copies a row that is inside.
        unsafe {
            if INTERIOR {
                self.copy_interior_row();
            } else {
                self.copy_row();
            }
        }
        /// Vectors of 8 bytes: the thread's own one, and one on either side.
        const VECTORS: usize = 3;
        let first = self.read + thread::thread_idx_x() * COLUMNS + CHUNK - COLUMNS;
        let vectors = self.ring.offset(first).cast::<F32x2>();
        let mut words = [0; 2 * VECTORS];
        for i in 0..VECTORS {
            // SAFETY: the last thread's vectors end in the row, each at a multiple of 8 bytes.
            let F32x2([low, high]) = unsafe { vectors.load(i as u32) };
            words[2 * i] = low.to_bits();
            words[2 * i + 1] = high.to_bits();
        }
        let mut window = Window::ZERO;
        for i in 0..(COLUMNS + 2 * CHANNELS) as usize {
            // The window begins one pixel before the thread's own values.
            let at = (COLUMNS - CHANNELS) as usize + i;
            window.0[i] = byte_to_f32(words[at / 4], at % 4);
        }
        self.write = self.read;
        self.read = if self.read == PITCH * (STAGES - 1) { 0 } else { self.read + PITCH };
        window
    }
}
