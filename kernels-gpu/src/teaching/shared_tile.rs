//! A block loads the pixels it needs once, into shared memory, and computes from there.
//!
//! Neighbouring outputs need nearly the same pixels: a 32 x 16 block with a 9 x 9 mask reads 41,472 pixels, of which 960 are
//! different. Here a block copies those 960, its *tile*, from global to shared memory, waits for all of its
//! threads, and sums out of the tile.
//!
//! # Thread mapping
//! A block of 32 x 16 threads computes 32 x 16 output values, thread (tx, ty) value tx of row ty; a value is a pixel, or
//! one channel of it, as in [`naive`](crate::teaching::naive).
//!
//! # Tiling
//! ```text
//!            32 + C (mask_width - 1)
//!       ┌──────────────────────────────┐  tile (0, 0) is value `left` of row `top`:
//!       │ halo                         │  the first one of the window of the block's first output
//!       │    ┌────────────────────┐    │
//!       │    │ the values under   │    │  16 + mask_height - 1
//!       │    │ the 32 x 16 outputs│    │
//!       │    └────────────────────┘    │
//!       └──────────────────────────────┘
//! ```
//! The course's kernel has as many threads as the tile has pixels; those of the halo load one pixel and idle for the rest. Here
//! every thread computes, and the threads step over the tile to fill it: 32 x 16 at a time. The price is a loop in
//! the filling; what it buys is no idle thread in the sums, which are most of the time from 5 x 5 on, and
//! any size of the mask whose tile fits into shared memory.
//!
//! A warp is one row of 32 threads and reads 32 neighbouring words of the tile: never a bank conflict.
//!
//! # What it costs
//! One shared load per product. 128 bytes a clock from shared memory against 128 products a clock in the FP32 units: the loads
//! take four times as long as the arithmetic, so a quarter of the FP32 peak is what this scheme can give. To go
//! further a value that was loaded must serve several products, from registers.

use cuda_std::prelude::*;

use crate::abi::kernel::Convergent;
use crate::abi::params::{OutputPtr, Params};
use crate::abi::pixel::Pixel;
use crate::common::mask_row::add_row;
use crate::registry::{
    Accuracy, Grid, MaskForm, MaskMemory, Spec, any_result, dense_rows, no_launch_bounds, no_requirement,
};
use crate::teaching::constant_mask::MASK;

/// Threads of a block in x and y; each computes one value.
pub const BLOCK: (u32, u32) = (32, 16);

/// The tile of a block, in values: its outputs and the mask's reach around them, over `channels` interleaved channels.
#[inline(always)]
#[must_use]
pub const fn tile_size(mask_width: u32, mask_height: u32, channels: u32) -> (u32, u32) {
    (BLOCK.0 + (mask_width - 1) * channels, BLOCK.1 + mask_height - 1)
}

/// The dynamic shared memory that a launch needs, in bytes. Values are `f32` there, whatever the image holds.
#[must_use]
pub const fn shared_bytes(mask_width: u32, mask_height: u32, channels: u32) -> u64 {
    let width = BLOCK.0 as u64 + (mask_width as u64 - 1) * channels as u64;
    let height = BLOCK.1 as u64 + mask_height as u64 - 1;
    width * height * size_of::<f32>() as u64
}

/// What the kernel has of each convergent instruction: one barrier, behind which the tile is whole.
pub const CONVERGENT: Convergent = Convergent::barriers(1);

/// The kernel for values of type `P` in `C` interleaved channels, for a mask of `K` x `K`, or of any size where `K` is 0.
///
/// With `K` known the sums of a row are unrolled.
///
/// # Safety
/// - As for [`naive`](crate::teaching::naive::naive), with the coefficients in [`struct@MASK`].
/// - The block is [`BLOCK`], the dynamic shared memory at least [`shared_bytes`].
/// - Where `K` is not 0, the mask is `K` x `K`.
#[inline(always)]
pub unsafe fn shared_tile<P: Pixel, const C: u32, const K: u32>(image: Global<P>, result: OutputPtr, params: Params) {
    let (columns, rows) = if K > 0 { (K, K) } else { (params.mask_width as u32, params.mask_height as u32) };
    let (tx, ty) = (thread::thread_idx_x(), thread::thread_idx_y());
    let block =
        Corner { v: thread::block_idx_x() * BLOCK.0, y: (thread::block_idx_y() * BLOCK.1) as i32 + params.first_row };

    let tile = Shared::<f32>::dynamic();
    let (tile_width, tile_height) = tile_size(columns, rows, C);
    // SAFETY: image and shared memory are as the caller promised.
    unsafe { fill::<P, C>(tile, tile_width, tile_height, image, block, &params) };
    // SAFETY: all threads are here: no thread has returned, and no branch is around the barrier.
    unsafe { thread::sync_threads() };

    let (v, y) = ((block.v + tx) as i32, block.y + ty as i32);
    if v >= params.row_values::<C>() || y >= params.height {
        return;
    }
    // Small masks are unrolled whole. From 9 x 9 on only their rows are: on an H100 that takes 0 to 3 % more time per run, and
    // half of the time that the driver needs to compile it (13 x 13: 36 ms instead of 85 ms).
    let unrolled = K > 0 && K < 9;
    let rows = if unrolled { K } else { params.mask_height as u32 };
    let mut sum = 0.0;
    let mut row = tile.offset(ty * tile_width + tx);
    let mut first = 0;
    for _ in 0..rows {
        if !unrolled {
            thread::no_unroll();
        }
        let product = |l: usize, sum: f32| {
            // SAFETY: the window of a thread lies in the tile, which was filled before the barrier; its coefficients in the mask.
            unsafe { fma(MASK.load(first + l), row.load(l as u32 * C), sum) }
        };
        if K > 0 {
            for l in 0..K as usize {
                sum = product(l, sum);
            }
        } else {
            sum = add_row(sum, columns, product);
        }
        row = row.offset(tile_width);
        first += columns as usize;
    }
    // SAFETY: (v, y) lies in the result, and no other thread has it.
    unsafe { params.store(result, v, y, sum) };
}

/// A block's first output: value `v` of row `y`.
#[derive(Clone, Copy)]
struct Corner {
    v: u32,
    y: i32,
}

/// Copies the values under the windows of a block into the tile, with the border's where there are none.
///
/// # Safety
/// `image` is as `params` say, and the tile fits the dynamic shared memory.
#[inline(always)]
unsafe fn fill<P: Pixel, const C: u32>(
    tile: Shared<f32>,
    tile_width: u32,
    tile_height: u32,
    image: Global<P>,
    block: Corner,
    params: &Params,
) {
    let (tx, ty) = (thread::thread_idx_x(), thread::thread_idx_y());
    let (left, top) = (block.v as i32 - params.origin_x * C as i32, block.y - params.origin_y);
    // All threads of the block take the same way: only blocks at the edge pay for the border.
    if !params.contains::<C>(left, top, tile_width as i32, tile_height as i32) {
        let (mut row, mut rows) = (ty, warp::Steps::begin());
        while row < tile_height {
            rows.next();
            let pixels = params.row_or_border(image, top + row as i32);
            let (mut column, mut columns) = (tx, warp::Steps::begin());
            while column < tile_width {
                columns.next();
                let v = block.v + column;
                let (x, channel) = ((v / C) as i32 - params.origin_x, v % C);
                // SAFETY: the border's map keeps the load in the image, and (row, column) lies in the tile.
                unsafe {
                    let value = params.value_or_border::<P, C>(pixels, x, channel);
                    tile.store(row * tile_width + column, value);
                }
                column += BLOCK.0;
            }
            row += BLOCK.1;
        }
        return;
    }
    // Counted in steps of the block, so that for a mask of known size both loops are unrolled.
    let corner = image.offset(params.src_index(left + tx as i32, top + ty as i32));
    for down in 0..tile_height.div_ceil(BLOCK.1) {
        let row = ty + down * BLOCK.1;
        if row >= tile_height {
            break;
        }
        let pixels = corner.offset(params.src_index(0, (down * BLOCK.1) as i32));
        for across in 0..tile_width.div_ceil(BLOCK.0) {
            let column = tx + across * BLOCK.0;
            if column >= tile_width {
                break;
            }
            // SAFETY: the whole tile lies in the image, and (row, column) in the tile.
            unsafe {
                tile.store(row * tile_width + column, pixels.load((across * BLOCK.0) as isize).to_f32());
            }
        }
    }
}

crate::registry::instances! {
    SharedTile;
    sm_70 "shared_tile_{T}_c{C}" for T in [u8, u16, f32], C in [1, 2, 3, 4];
        |image, result, _mask, params| shared_tile::<T, C, 0>(image, result, params)
    sm_70 "shared_tile_{T}_c{C}_{K}x{K}" for T in [f32], C in [1], K in [3, 5, 7, 9, 11, 13, 15];
        |image, result, _mask, params| shared_tile::<T, C, K>(image, result, params)
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "shared_tile",
    summary: "a block shares its pixels in shared memory; the mask in constant memory",
    reason: "fewest loads per product of the kernels without sums of several outputs in registers",
    accuracy: Accuracy::Exact,
    mask_memory: MaskMemory::Constant,
    mask_form: MaskForm::Rows(dense_rows),
    mask_class: None,
    results: any_result,
    border_is_pixel: |_| false,
    requirement: no_requirement,
    uses_fp32_units: true,
    grid: Grid::Tiles,
    block: |_| BLOCK,
    outputs: |_| BLOCK,
    shared_bytes: |entry, (width, height)| shared_bytes(width, height, entry.channels),
    launch_bounds: no_launch_bounds,
    convergent: |_| CONVERGENT,
};
