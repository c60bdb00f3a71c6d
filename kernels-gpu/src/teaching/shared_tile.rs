//! A block loads the pixels that it needs once, into shared memory, and computes from there.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! Neighbouring outputs need nearly the same pixels. A block of 32 x 16 outputs with a 9 x 9 mask reads 41,472 pixels,
//! of which 960 are different. Here the block copies these 960 pixels, its *tile*, from global to shared memory. After
//! a barrier, all threads sum from the tile.
//!
//! # Thread mapping
//! A block of 32 x 16 threads computes 32 x 16 output values. Thread (tx, ty) computes value tx of row ty. A value is a
//! pixel or one channel of it, as in [`naive`](crate::teaching::naive).
//!
//! # Tiling
//! ```text
//!            32 + C (mask_width - 1)
//!       ┌──────────────────────────────┐  tile (0, 0) is value `left` of row `top`:
//!       │ halo                         │  the first value in the window of the block's first output
//!       │    ┌────────────────────┐    │
//!       │    │ the values under   │    │  16 + mask_height - 1
//!       │    │ the 32 x 16 outputs│    │
//!       │    └────────────────────┘    │
//!       └──────────────────────────────┘
//! ```
//! The course's kernel has one thread for each pixel of the tile. Its halo threads load one pixel and then idle. Here
//! every thread computes, and the block steps over the tile to fill it. So no thread idles in the sums, which take most
//! of the time from 5 x 5 on, and a mask may have any size whose tile fits in shared memory.
//!
//! A warp is one row of 32 threads and reads 32 neighbouring words of the tile, so there are no bank conflicts.
//!
//! # Cost
//! One shared load per product. Shared memory delivers 32 words per clock and multiprocessor, the FP32 units take 128
//! products. So this scheme reaches at most a quarter of the FP32 peak. To go further, a loaded value must serve
//! several products, from registers.

use cuda_std::prelude::*;

use crate::abi::image_view::{Channel, ImageView};
use crate::abi::kernel::Convergent;
use crate::abi::params::{OutputPtr, Params};
use crate::abi::pixel::Pixel;
use crate::common::mask_row::add_row;
use crate::registry::{
    Accuracy, Grid, MaskForm, MaskMemory, Spec, any_result, dense_rows, no_launch_bounds, no_requirement,
};
use crate::teaching::constant_mask::MASK;

/// Threads of a block in x and y. Each computes one value.
pub const BLOCK: (u32, u32) = (32, 16);
/// The convergent instructions of the source: one barrier, after which the tile is complete.
pub const CONVERGENT: Convergent = Convergent::barriers(1);

/// The dynamic shared memory of a block, in bytes: the tile, as `f32` whatever the image's type.
#[must_use]
pub const fn shared_bytes(mask_width: u32, mask_height: u32, channels: u32) -> u64 {
    let width = BLOCK.0 as u64 + (mask_width as u64 - 1) * channels as u64;
    let height = BLOCK.1 as u64 + mask_height as u64 - 1;
    width * height * size_of::<f32>() as u64
}

/// The tile of a block, in values and rows: its outputs and the halo of the mask.
#[inline(always)]
#[must_use]
pub const fn tile_size(mask_width: u32, mask_height: u32, channels: u32) -> (u32, u32) {
    (BLOCK.0 + (mask_width - 1) * channels, BLOCK.1 + mask_height - 1)
}

/// The first output of a block: value `v` of row `y`.
#[derive(Clone, Copy)]
struct Corner {
    v: u32,
    y: i32,
}

/// The kernel for values of type `P` in `C` interleaved channels, and a mask of `K` x `K`, or of any size if `K` is 0.
///
/// # Safety
/// - The conditions of [`naive`](crate::teaching::naive::naive) on `image`, `result` and the grid.
/// - [`struct@MASK`] holds `mask_width * mask_height` coefficients.
/// - The block is [`BLOCK`], the dynamic shared memory at least [`shared_bytes`].
/// - If `K` is not 0, the mask is `K` x `K`.
#[inline(always)]
pub unsafe fn shared_tile<P: Pixel, const C: u32, const K: u32>(image: Global<P>, result: OutputPtr, params: Params) {
    let (columns, rows) = if K > 0 { (K, K) } else { (params.mask_width as u32, params.mask_height as u32) };
    let (tx, ty) = (thread::thread_idx_x(), thread::thread_idx_y());
    let block =
        Corner { v: thread::block_idx_x() * BLOCK.0, y: (thread::block_idx_y() * BLOCK.1) as i32 + params.first_row };

    let tile = Shared::<f32>::dynamic();
    let (tile_width, tile_height) = tile_size(columns, rows, C);
    // SAFETY: the image is as `params` say; `shared_bytes` is the size of this tile.
    unsafe { fill::<P, C>(tile, tile_width, tile_height, image, block, &params) };
    // SAFETY: all threads are here: no thread has returned, and no branch is around the barrier.
    unsafe { thread::sync_threads() };

    let (v, y) = ((block.v + tx) as i32, block.y + ty as i32);
    if v >= params.row_values::<C>() || y >= params.height {
        return;
    }
    // Small masks are unrolled completely, larger ones by rows: 0 to 3 % slower on an H100, in half the compile time.
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
            // SAFETY: l < columns, so the window's value lies in the tile, filled before the barrier, and first + l <
            // mask_width * mask_height.
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
    // SAFETY: v and y lie in the result (tested above), and no other thread has the same v and y.
    unsafe { params.store(result, v, y, sum) };
}

/// Copies the values under the windows of a block to the tile, border included.
///
/// # Safety
/// - `image` is as `params` say.
/// - `tile_width * tile_height` values fit in the dynamic shared memory.
/// - All threads of the block call this, and no thread reads the tile before the next barrier.
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
    // The branch is uniform in the block: only blocks at the edge pay for the border.
    if !params.contains::<C>(left, top, tile_width as i32, tile_height as i32) {
        // SAFETY: the image is as `params` say, and the kernel does not write it.
        let view = unsafe { ImageView::<P, C>::new(image, params) };
        let (mut row, mut rows) = (ty, warp::Steps::begin());
        while row < tile_height {
            rows.next();
            let pixels = view.row(top + row as i32);
            let (mut column, mut columns) = (tx, warp::Steps::begin());
            while column < tile_width {
                columns.next();
                let v = block.v + column;
                let value = pixels.value((v / C) as i32 - params.origin_x, Channel::of_value(v));
                // SAFETY: row < tile_height and column < tile_width; the element is this thread's alone.
                unsafe { tile.store(row * tile_width + column, value) };
                column += BLOCK.0;
            }
            row += BLOCK.1;
        }
        return;
    }
    // The loops count steps of the block, so that they are unrolled for a mask of known size.
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
            // SAFETY: the image contains the whole tile (tested above), and (row, column) lies in the tile.
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
    outputs: |_, _| BLOCK,
    pixels_together: 1,
    shared_bytes: |entry, (width, height)| shared_bytes(width, height, entry.channels),
    launch_bounds: no_launch_bounds,
    convergent: |_| CONVERGENT,
};
