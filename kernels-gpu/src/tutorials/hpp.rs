//! The course "Programming Massively Parallel Processors": a 5 x 5 mask in constant memory on RGB pictures, in tiles.
//!
//! `P[y, x, c] = sum over k, l of M[k, l] * N[y - 2 + k, x - 2 + l, c]`, with zeros outside. Pictures are interleaved.
//! From one row to the next there are `pitch` elements: `3 * width`, or more if rows are padded to DRAM bursts.
//!
//! | kernel | block | outputs of a block | loads | threads that compute |
//! | --- | --- | --- | --- | --- |
//! | [`hpp_constant`] | 32 x 8 | 32 x 8 | 25 a value, from global memory | all |
//! | [`hpp_tile`] | 16 x 16 | 12 x 12 | one a thread and channel, to shared memory | 144 of 256 |
//! | [`hpp_tile_busy`] | 32 x 8 | 32 x 8 | 1.69 a value, to shared memory | all |
//!
//! # Thread mapping and tiling of the course's kernel
//! ```text
//!     BLOCK_WIDTH = 16 threads, one for each pixel of the input tile
//!     ┌────────────────┐
//!     │ ..┌────────┐.. │   the 12 x 12 = O_TILE_WIDTH² threads with tx, ty < 12 compute one output
//!     │ ..│ output │.. │   each, from the 5 x 5 inputs that begin at (ty, tx); the other 112 have
//!     │ ..└────────┘.. │   loaded a pixel and wait: 44 % of the block
//!     └────────────────┘
//! ```
//! The waiting threads are not free. A warp is two rows of 16 threads. It executes all 25 products with 24 of its 32
//! lanes. Two of the eight warps (rows 12 to 15) only hold their registers.
//!
//! # The alternative
//! [`hpp_tile_busy`] has one thread for each *output*, and the threads step over the input tile to fill it. It takes
//! all three channels at once. A row of the tile is 36 pixels: 108 neighbouring floats, read in whole sectors. One
//! barrier serves three sums. In the course's kernel a warp reads every third float, three times, with two barriers
//! each time.

use cuda_std::prelude::*;

use crate::abi::kernel::Convergent;

super::listed! {
    "tutorial_hpp";
    hpp_constant: 2 pointers, u32 u32 u32;
    // Two for each channel.
    hpp_tile: 2 pointers, u32 u32 u32 => Convergent::barriers(2 * CHANNELS);
    hpp_tile_busy: 2 pointers, u32 u32 u32 => Convergent::barriers(1);
}

/// Rows and columns of the mask.
pub const MASK_WIDTH: u32 = 5;
/// Rows and columns of outputs of a block of [`hpp_tile`].
pub const O_TILE_WIDTH: u32 = 12;
/// Rows and columns of threads of a block of [`hpp_tile`], and of its input tile.
pub const BLOCK_WIDTH: u32 = O_TILE_WIDTH + MASK_WIDTH - 1;
/// Red, green and blue.
pub const CHANNELS: u32 = 3;
/// Threads of a block of [`hpp_constant`] and [`hpp_tile_busy`] in x and y: as many as in [`hpp_tile`].
pub const BUSY_BLOCK: (u32, u32) = (32, 8);
/// Dynamic shared memory of [`hpp_tile`], in bytes.
pub const TILE_BYTES: u32 = BLOCK_WIDTH * BLOCK_WIDTH * 4;
/// The tile of [`hpp_tile_busy`]: floats of a row, and rows.
const BUSY_TILE: (u32, u32) = ((BUSY_BLOCK.0 + MASK_WIDTH - 1) * CHANNELS, BUSY_BLOCK.1 + MASK_WIDTH - 1);
/// Dynamic shared memory of [`hpp_tile_busy`], in bytes.
pub const BUSY_TILE_BYTES: u32 = BUSY_TILE.0 * BUSY_TILE.1 * 4;

/// The halo of the mask on each side.
const RADIUS: i32 = MASK_WIDTH as i32 / 2;

cuda_std::constant! {
    /// The mask in window order, row by row.
    pub static HPP_MASK: [f32; 25];
}

/// A picture in global memory.
#[derive(Clone, Copy)]
struct Picture {
    values: Global<f32>,
    width: i32,
    height: i32,
    pitch: u32,
}

impl Picture {
    /// The value in row `y` and column `column`, or 0 outside. A column is a float: a pixel has three.
    ///
    /// # Safety
    /// - `values` holds `height` rows of `3 * width` floats, `pitch` floats apart.
    #[inline(always)]
    #[track_caller]
    unsafe fn or_zero(self, y: i32, column: i32) -> f32 {
        if y < 0 || y >= self.height || column < 0 || column >= self.width * CHANNELS as i32 {
            return 0.0;
        }
        // SAFETY: row and column lie in the picture (tested above).
        unsafe { self.values.load(y as isize * self.pitch as isize + column as isize) }
    }
}

/// The sum over a window. `value(k, l)` is the picture's value under coefficient (k, l).
///
/// # Safety
/// The host has set [`struct@HPP_MASK`].
#[inline(always)]
unsafe fn sum(value: impl Fn(u32, u32) -> f32) -> f32 {
    let mut sum = 0.0;
    for k in warp::lockstep(0..MASK_WIDTH) {
        for l in warp::lockstep(0..MASK_WIDTH) {
            // SAFETY: the index is below 25, and the host has set all 25.
            sum = unsafe { fma(HPP_MASK.load((k * MASK_WIDTH + l) as usize), value(k, l), sum) };
        }
    }
    sum
}

/// The mask in constant memory, the picture in global memory.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` RGB pixels, `pitch` elements apart, and do not overlap.
/// - The sides are below 2^28.
/// - The host has set [`struct@HPP_MASK`].
/// - The grid is two-dimensional.
#[kernel]
pub unsafe fn hpp_constant(image: Global<f32>, result: GlobalMut<f32>, width: u32, height: u32, pitch: u32) {
    let (x, y) = thread::index_2d();
    if x >= width || y >= height {
        return;
    }
    let picture = Picture { values: image, width: width as i32, height: height as i32, pitch };
    for c in warp::lockstep(0..CHANNELS) {
        // SAFETY: the picture has `height` rows at this pitch, and HPP_MASK is set.
        let sum = unsafe {
            sum(|k, l| {
                let column = (x as i32 - RADIUS + l as i32) * CHANNELS as i32 + c as i32;
                picture.or_zero(y as i32 - RADIUS + k as i32, column)
            })
        };
        // SAFETY: (x, y) lies in the result, and no other thread has it.
        unsafe { result.store(y as isize * pitch as isize + (x * CHANNELS + c) as isize, sum) };
    }
}

/// The course's kernel: as many threads as the input tile has pixels.
///
/// # Safety
/// - The conditions of [`hpp_constant`].
/// - The block is [`BLOCK_WIDTH`] x [`BLOCK_WIDTH`], the dynamic shared memory [`TILE_BYTES`].
#[kernel]
pub unsafe fn hpp_tile(image: Global<f32>, result: GlobalMut<f32>, width: u32, height: u32, pitch: u32) {
    let (tx, ty) = (thread::thread_idx_x(), thread::thread_idx_y());
    let col_o = thread::block_idx_x() * O_TILE_WIDTH + tx;
    let row_o = thread::block_idx_y() * O_TILE_WIDTH + ty;
    let (col_i, row_i) = (col_o as i32 - RADIUS, row_o as i32 - RADIUS);
    let picture = Picture { values: image, width: width as i32, height: height as i32, pitch };
    let tile = Shared::<f32>::dynamic();
    for c in 0..CHANNELS {
        // SAFETY: tx and ty are below BLOCK_WIDTH; the element is this thread's alone.
        unsafe {
            let value = picture.or_zero(row_i, col_i * CHANNELS as i32 + c as i32);
            tile.store(ty * BLOCK_WIDTH + tx, value);
        }
        // SAFETY: all threads are here: the loop over channels is the same for all of them.
        unsafe { thread::sync_threads() };
        if tx < O_TILE_WIDTH && ty < O_TILE_WIDTH && col_o < width && row_o < height {
            // SAFETY: tx, ty < O_TILE_WIDTH, so the window lies in the tile, filled before the barrier. The output lies
            // in the result and is this thread's alone.
            unsafe {
                let sum = sum(|k, l| tile.load((ty + k) * BLOCK_WIDTH + tx + l));
                result.store(row_o as isize * pitch as isize + (col_o * CHANNELS + c) as isize, sum);
            }
        }
        // After the barrier no thread reads the tile any more.
        // SAFETY: all threads are here: the loop over channels is the same for all of them.
        unsafe { thread::sync_threads() };
    }
}

/// One thread for each output. All threads fill the tile.
///
/// # Safety
/// - The conditions of [`hpp_constant`].
/// - The block is [`BUSY_BLOCK`], the dynamic shared memory [`BUSY_TILE_BYTES`].
#[kernel]
pub unsafe fn hpp_tile_busy(image: Global<f32>, result: GlobalMut<f32>, width: u32, height: u32, pitch: u32) {
    let (tx, ty) = (thread::thread_idx_x(), thread::thread_idx_y());
    let (left, top) = (thread::block_idx_x() * BUSY_BLOCK.0, thread::block_idx_y() * BUSY_BLOCK.1);
    let picture = Picture { values: image, width: width as i32, height: height as i32, pitch };
    let tile = Shared::<f32>::dynamic();
    let (mut row, mut rows) = (ty, warp::Steps::begin());
    while row < BUSY_TILE.1 {
        rows.next();
        let (mut column, mut columns) = (tx, warp::Steps::begin());
        while column < BUSY_TILE.0 {
            columns.next();
            let from = (left as i32 - RADIUS) * CHANNELS as i32 + column as i32;
            // SAFETY: row and column lie in the tile (tested above); the element is this thread's alone.
            unsafe {
                let value = picture.or_zero(top as i32 - RADIUS + row as i32, from);
                tile.store(row * BUSY_TILE.0 + column, value);
            }
            column += BUSY_BLOCK.0;
        }
        row += BUSY_BLOCK.1;
    }
    drop(rows);
    // SAFETY: all threads are here: threads without an output return below.
    unsafe { thread::sync_threads() };
    let (x, y) = (left + tx, top + ty);
    if x >= width || y >= height {
        return;
    }
    for c in 0..CHANNELS {
        // The words of a warp are three apart, in 32 different banks.
        // SAFETY: the window lies in the tile, filled before the barrier. (x, y) lies in the result (tested above) and
        // is this thread's alone.
        unsafe {
            let sum = sum(|k, l| tile.load((ty + k) * BUSY_TILE.0 + (tx + l) * CHANNELS + c));
            result.store(y as isize * pitch as isize + (x * CHANNELS + c) as isize, sum);
        }
    }
}
