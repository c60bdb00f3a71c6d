//! A thread computes a tile of outputs from registers, for masks of all sizes that fit in shared memory. It takes the
//! masks for which [`sliding_window`](crate::direct::sliding_window) has no kernel.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! # Thread mapping
//! A thread computes [`COLUMNS`] x [`ROWS`] neighbouring outputs. A warp computes a row of 32 such tiles, a block has
//! one row of tiles for each of its warps.
//!
//! # Tiling
//! The thread walks over all rows of pixels that its tile needs, and along each row in steps of [`STEP`] columns. A
//! step has `COLUMNS + STEP` neighbouring pixels in registers. For each row of outputs it multiplies them with `STEP`
//! coefficients, from the row of the mask that this row of pixels needs:
//! ```text
//!   row of pixels r  ── row r - 0 of the mask ──> outputs of row 0
//!                    ── row r - 1 of the mask ──> outputs of row 1
//!                       …                          (where the mask has row r - o)
//! ```
//! So `STEP` pixels and `ROWS * STEP` coefficients serve `COLUMNS * ROWS * STEP` products. Each output receives the
//! rows of its window from top to bottom, and each row from left to right: the order of every direct kernel.
//!
//! The mask lies in shared memory by steps: `STEP` columns of every row, then the next `STEP` columns. Zeros fill the
//! last step, and no product uses them. One load of 16 bytes reads four coefficients. All threads of a warp read the
//! same address (a broadcast).
//!
//! # Alignment
//! Pixels are read in vectors of four. The window of an output, which is the pixels under the mask, begins `origin_x`
//! columns to its left. So a block starts up to three columns early, at a column whose window is aligned. It computes
//! 256 columns and stores 252. Blocks at the edge read pixel by pixel, through a `border_table`.
//!
//! # Loops
//! At the first and the last `ROWS - 1` rows of pixels some rows of outputs need no row of the mask. These loops test
//! which. The loop between them has no test. All loops prefetch the pixels of the next step. Blocks at the edge have a
//! loop of their own: a test before each load would make every block wait for it.
//!
//! # Cost
//! A full step has 512 products, 16 loads of coefficients, 2 loads of pixels and 17 moves. The remainder of the mask's
//! width modulo `STEP` is done in steps of 4, 2 and 1.
//!
//! H100, 2026-11-21, 8192 x 8192: 3140 µs with 32 x 32, 70 % of the roofline.

use cuda_std::prelude::*;

use crate::abi::kernel::Convergent;
use crate::abi::params::Params;
use crate::common::border_table;
use crate::common::contributing_rows::MaskRowBits;
use crate::common::row_reader::{READ, RowReader};
use crate::registry::{
    Accuracy, Grid, MaskForm, MaskMemory, Spec, dense_rows, f32_result, no_launch_bounds, no_requirement,
};

/// Threads of a block in x and y.
pub const BLOCK: (u32, u32) = (32, 4);
/// Outputs of a block in x and y.
pub const OUTPUTS: (u32, u32) = (COMPUTED - 4, BLOCK.1 * ROWS as u32);
/// The convergent instructions of the source: one barrier, after which coefficients and table are complete.
pub const CONVERGENT: Convergent = Convergent::barriers(1);

/// The dynamic shared memory of a block, in bytes: the coefficients and the border table.
#[must_use]
pub const fn shared_bytes(mask_width: u32, mask_height: u32) -> u64 {
    let coefficients = padded(mask_width) as u64 * mask_height as u64;
    (coefficients + columns_read(mask_width) as u64) * size_of::<f32>() as u64
}

/// Columns of a thread's tile.
pub const COLUMNS: usize = READ;
/// Rows of a thread's tile.
pub const ROWS: usize = 8;
/// Columns of the mask in a step.
pub const STEP: usize = 8;

/// Columns that a block computes, stored or not.
const COMPUTED: u32 = BLOCK.0 * COLUMNS as u32;

/// The length of a row of coefficients, padded to whole steps.
#[inline(always)]
pub(crate) const fn padded(mask_width: u32) -> u32 {
    mask_width.next_multiple_of(STEP as u32)
}

/// Columns that the threads of a block use. The last thread's last step ends there.
#[inline(always)]
pub(crate) const fn columns_used(mask_width: u32) -> u32 {
    COMPUTED + padded(mask_width)
}

/// Columns that the threads of a block read: they prefetch one step, used or not.
#[inline(always)]
const fn columns_read(mask_width: u32) -> u32 {
    columns_used(mask_width) + STEP as u32
}

/// The kernel.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, and do not overlap.
/// - `image` and `result` begin at multiples of 16 bytes.
/// - `mask` holds `mask_width * mask_height` coefficients.
/// - The block is [`BLOCK`], the dynamic shared memory at least [`shared_bytes`].
#[inline(always)]
pub unsafe fn register_tile(image: Global<f32>, result: GlobalMut<f32>, mask: Global<f32>, params: Params) {
    let (tx, ty) = (thread::thread_idx_x(), thread::thread_idx_y());
    let (mask_width, mask_height) = (params.mask_width as u32, params.mask_height as u32);
    let pitch = padded(mask_width);
    let first_column = (thread::block_idx_x() * OUTPUTS.0) as i32;
    let block_y = (thread::block_idx_y() * OUTPUTS.1) as i32 + params.first_row;
    // Pixels are read in vectors: their first column is a multiple of 4.
    let left = (first_column - params.origin_x) & !3;
    let block_x = left + params.origin_x;
    let top = block_y - params.origin_y;

    let edge = params.src_pitch & 3 != 0
        || !params.contains::<1>(left, top, columns_read(mask_width) as i32, (OUTPUTS.1 + mask_height - 1) as i32);
    let coefficients = Shared::<f32>::dynamic();
    let table = coefficients.offset(pitch * mask_height).cast::<i32>();
    // SAFETY: the coefficients come first in the shared memory of `shared_bytes`; the mask has its size in `params`.
    unsafe { fill(coefficients, mask, mask_width, mask_height) };
    if edge {
        let (length, thread) = (columns_read(mask_width), ty * BLOCK.0 + tx);
        // SAFETY: all threads of the block take this branch; the table has `length` elements, read after the barrier.
        unsafe { border_table::fill::<1>(table, &params, left, length, (thread, BLOCK.0 * BLOCK.1)) };
    }
    // SAFETY: all threads are here: no thread has returned, and no branch is around the barrier.
    unsafe { thread::sync_threads() };

    let (column, row) = (tx * COLUMNS as u32, ty * ROWS as u32);
    let (x, y) = (block_x + column as i32, block_y + row as i32);
    if x >= params.width || y >= params.height {
        return;
    }
    let mut sums = [[0.0; COLUMNS]; ROWS];
    let mut source = RowReader {
        pixels: image.offset(params.src_index(left + column as i32, top + row as i32)),
        table: table.offset(column),
        edge,
        exists: true,
        border_value: params.border_value,
    };
    let (mut r, all) = (0, mask_height as i32);
    let end = all + ROWS as i32 - 1;
    let mask_size = (mask_width, mask_height);
    // At the edge one loop sums the whole tile.
    while edge && r < end {
        thread::no_unroll();
        source.move_to(image, &params, y - params.origin_y + r);
        // Bit `o` is set if row `o` of the outputs needs row `r - o` of the mask, and the mask has that row.
        // SAFETY: `source` is at row r of the tile; the coefficients and the table were filled before the barrier.
        unsafe { add_row::<true>(&mut sums, &source, coefficients, mask_size, r, MaskRowBits::at(r, all)) };
        r += 1;
    }
    // In the interior the rows with tests come before and after the rows without.
    let mut upto = end.min(ROWS as i32 - 1);
    loop {
        while r < upto {
            thread::no_unroll();
            // SAFETY: `source` is at row r of the tile; the coefficients were filled before the barrier.
            unsafe { add_row::<false>(&mut sums, &source, coefficients, mask_size, r, MaskRowBits::at(r, all)) };
            source.pixels = source.pixels.offset(params.src_pitch as isize);
            r += 1;
        }
        while r < all {
            thread::no_unroll();
            // SAFETY: as above; ROWS - 1 <= r < all, so the mask has row r - o for each row o of outputs.
            unsafe { add_row::<false>(&mut sums, &source, coefficients, mask_size, r, MaskRowBits::ALL) };
            source.pixels = source.pixels.offset(params.src_pitch as isize);
            r += 1;
        }
        if r >= end {
            break;
        }
        upto = end;
    }

    for (o, sums) in sums.iter().enumerate() {
        let y = y + o as i32;
        if y >= params.height {
            return;
        }
        for (c, &sum) in sums.iter().enumerate() {
            let x = x + c as i32;
            if x >= first_column && x < params.width.min(first_column + OUTPUTS.0 as i32) {
                // SAFETY: (x, y) lies in the result. Only the block that owns the column stores it.
                unsafe { result.store(params.dst_index(x, y), params.finish(sum)) };
            }
        }
    }
}

/// The index of element (k, l) of the mask in shared memory: the coefficients of a step are contiguous, row after row.
#[inline(always)]
pub(crate) fn coefficient_index(k: u32, l: u32, mask_height: u32) -> u32 {
    (l / STEP as u32 * mask_height + k) * STEP as u32 + l % STEP as u32
}

/// Copies the mask to shared memory and pads each row with zeros.
///
/// # Safety
/// - `coefficients` has room for `mask_height` padded rows.
/// - `mask` holds `mask_width * mask_height` coefficients.
/// - All threads of the block call this, and no thread reads the coefficients before the next barrier.
#[inline(always)]
unsafe fn fill(coefficients: Shared<f32>, mask: Global<f32>, mask_width: u32, mask_height: u32) {
    let pitch = padded(mask_width);
    let mut k = thread::thread_idx_y();
    while k < mask_height {
        thread::no_unroll();
        let mut l = thread::thread_idx_x();
        while l < pitch {
            thread::no_unroll();
            // SAFETY: k < mask_height and l < pitch; the mask is read only where l < mask_width.
            unsafe {
                let value = if l < mask_width { mask.load((k * mask_width + l) as isize) } else { 0.0 };
                coefficients.store(coefficient_index(k, l, mask_height), value);
            }
            l += BLOCK.0;
        }
        k += BLOCK.1;
    }
}

/// The pixels of a step and those of the next.
type Pixels = [f32; COLUMNS + 2 * STEP];

/// The pixels shifted left by `BY` columns. (A copy within the array would put it into local memory.)
#[inline(always)]
fn shifted<const BY: usize>(pixels: &Pixels) -> Pixels {
    core::array::from_fn(|i| if i + BY < pixels.len() { pixels[i + BY] } else { 0.0 })
}

/// Replaces the pixels from the `AT`-th one on. (A slice copy or an iterator is up to 5 % slower.)
#[allow(clippy::manual_memcpy)]
#[inline(always)]
fn set<const AT: usize>(pixels: &mut Pixels, values: [f32; COLUMNS]) {
    for i in 0..COLUMNS {
        pixels[AT + i] = values[i];
    }
}

/// Adds row `r` of the tile's pixels to each row of outputs that needs it.
///
/// # Safety
/// - `source` is at row `r`. If `EDGE`, [`RowReader::read_edge`] may read it, otherwise [`RowReader::read_interior`].
/// - `coefficients` holds the padded mask.
/// - The mask has row `r - o` for each row `o` of outputs that is `needed`.
#[inline(always)]
pub(crate) unsafe fn add_row<const EDGE: bool>(
    sums: &mut [[f32; COLUMNS]; ROWS],
    source: &RowReader,
    coefficients: Shared<f32>,
    (mask_width, mask_height): (u32, u32),
    r: i32,
    needed: MaskRowBits,
) {
    const STEP_: u32 = STEP as u32;
    // SAFETY: no call below ends after column `mask_width + 2 * STEP` of the thread, the last prefetched one.
    let read = |first| unsafe { if EDGE { source.read_edge(first) } else { source.read_interior(first) } };
    let mut pixels: Pixels = [0.0; COLUMNS + 2 * STEP];
    set::<0>(&mut pixels, read(0));
    set::<STEP>(&mut pixels, read(STEP_));
    let mut chunk = coefficients;
    let mut first = 0;
    while first + STEP_ <= mask_width {
        thread::no_unroll();
        set::<{ 2 * STEP }>(&mut pixels, read(first + 2 * STEP_));
        // SAFETY: the mask has columns `first` to `first + STEP - 1`, with which `chunk` begins.
        unsafe { add_step(sums, &pixels, chunk, STEP_, r, needed) };
        pixels = shifted::<STEP>(&pixels);
        chunk = chunk.offset(STEP_ * mask_height);
        first += STEP_;
    }
    let left = thread::black_box(mask_width - first);
    // SAFETY: the mask has `left` more columns, and the bits of `left` are taken one after the other.
    unsafe {
        if left & 4 != 0 {
            add_step(sums, &pixels, chunk, 4, r, needed);
            pixels = shifted::<4>(&pixels);
            chunk = chunk.offset(4);
        }
        if left & 2 != 0 {
            add_step(sums, &pixels, chunk, 2, r, needed);
            pixels = shifted::<2>(&pixels);
            chunk = chunk.offset(2);
        }
        if left & 1 != 0 {
            add_step(sums, &pixels, chunk, 1, r, needed);
        }
    }
}

/// Adds the products with `width` columns of the mask. `chunk` begins with their coefficients in row 0.
///
/// # Safety
/// - The mask has row `r - o` for each row `o` of outputs that is `needed`.
/// - `chunk` has `width` columns. If they are more than 2, it is aligned to 16 bytes.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
unsafe fn add_step(
    sums: &mut [[f32; COLUMNS]; ROWS],
    pixels: &Pixels,
    chunk: Shared<f32>,
    width: u32,
    r: i32,
    needed: MaskRowBits,
) {
    for (o, sums) in sums.iter_mut().enumerate() {
        if !needed.has(o) {
            continue;
        }
        let row = chunk.offset((r - o as i32) as u32 * STEP as u32);
        let mut coefficients = [0.0; STEP];
        // SAFETY: the mask has row r - o, and the row has `width` coefficients, padded to whole vectors.
        unsafe {
            if width > 2 {
                for i in 0..STEP / 4 {
                    if 4 * i < width as usize {
                        let vector = row.cast::<F32x4>().load(i as u32).0;
                        for j in 0..4 {
                            coefficients[4 * i + j] = vector[j];
                        }
                    }
                }
            } else {
                for l in 0..2 {
                    if (l as u32) < width {
                        coefficients[l] = row.load(l as u32);
                    }
                }
            }
        }
        for l in 0..STEP {
            if l as u32 >= width {
                continue;
            }
            for (c, sum) in sums.iter_mut().enumerate() {
                *sum = fma(pixels[l + c], coefficients[l], *sum);
            }
        }
    }
}

crate::registry::instances! {
    RegisterTile;
    sm_70 "register_tile_{T}_c{C}" for T in [f32], C in [1];
        |image, result, mask, params| register_tile(image, result.cast(), mask, params)
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "register_tile",
    summary: "a thread computes 8 x 8 outputs in registers; the mask in shared memory",
    reason: "8 x 8 sums of a thread in registers",
    accuracy: Accuracy::Exact,
    mask_memory: MaskMemory::Global,
    mask_form: MaskForm::Rows(dense_rows),
    mask_class: None,
    results: f32_result,
    border_is_pixel: |_| false,
    requirement: no_requirement,
    uses_fp32_units: true,
    grid: Grid::Tiles,
    block: |_| BLOCK,
    outputs: |_, _| OUTPUTS,
    pixels_together: 1,
    shared_bytes: |_, (width, height)| shared_bytes(width, height),
    launch_bounds: no_launch_bounds,
    convergent: |_| CONVERGENT,
};
