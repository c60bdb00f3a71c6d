//! Convolution of bytes in the integer tensor cores, bit-exact with the ordered sum in `f32`.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! A tensor core multiplies bytes and adds exactly, at about twenty times the rate of the FP32 units. It knows neither
//! `f32` nor the order of a sum. Here it computes an approximation with an error bound. Where the bound does not decide
//! the byte of a pixel, the kernel recomputes that pixel in order. So every result is exact to the last bit.
//!
//! # Approximation and bound
//! The host writes `scale * W` in fixed point: `Q * 2^-shift`, with integers `Q` of two signed bytes each. For a window
//! of bytes, `T = sum of Q * I` is exact in 32 bits. `T * 2^-shift + offset` differs from the ordered sum by at most a
//! `radius`, which the host derives (`FixedPoint` in its plan): the truncation of `W`, times 255, and the roundings of
//! `f32`. Let `y = (T + bias) * 2^-shift`, where `bias` holds the offset, the half for rounding, and the radius:
//! - If `y` is more than `2 * radius` above an integer, the byte is `y`, truncated and saturated.
//! - Otherwise the two sums may round to different bytes. The pixel is *uncertain*.
//!
//! Of a random 7 x 7 mask with sum 1, some 0.7 % of the pixels are uncertain. Sums of integers have none.
//!
//! # Matrix product
//! [`mma_m16n8k32_u8s8`](cuda_std::mma::mma_m16n8k32_u8s8) takes 16 rows of 32 bytes of the image, as they lie there,
//! and a 32 x 8 Toeplitz matrix: each column holds a row of the mask, one place further down from column to column. The
//! product is 8 columns of outputs in 16 rows, for one row of the mask and one byte of its coefficients. A row and its
//! shifts span more or fewer than 32 bytes:
//!
//! | masks | products |
//! | --- | --- |
//! | up to 9 x 9 | *pairs*: 16 bytes of two rows |
//! | 11 x 11, 13 x 13, 21 x 21 | *chunks*: 32 bytes of a row |
//! | 15 x 15 | pairs, and *fours*: 8 bytes of four rows |
//! | 31 x 31 | chunks and fours |
//! | any size | as many chunks as a row needs |
//!
//! # Recomputed pixels
//! A thread computes one or two uncertain pixels from the bytes in shared memory. Bytes are multiplied as [subnormal
//! numbers](crate::util::planes::proven::Whole::factor), so a product takes two instructions. The host divides the
//! coefficients by a power of two that keeps every rounding. If there is none, the byte itself is converted.
//!
//! # Channels
//! With interleaved channels, the row of the mask has zeros between its coefficients and takes more matrices. So from 5
//! x 5 on, channels are *planar* in shared memory. Each warp copies its rows as they are, deinterleaves them in place,
//! and computes each channel like an image of one channel. The bytes of a pixel are joined in registers before the
//! store. In 3 x 3 a row with its zeros spans half a matrix, so channels stay interleaved, and a column is a value.
//!
//! # Thread mapping
//! A block of [`WARPS`] warps owns [`outputs`] values of a row, walks down a strip, and computes [`ROWS`] rows a step.
//! A warp has 32 columns, or 16 of each channel, 8 at a time. Its four M tiles of 16 rows are interleaved: tile `s` has
//! the rows `4 m + s`. So the rows `4 m + t` of the image serve tile `s` with row `t - s` of the mask, all from
//! registers:
//! ```text
//!   t          0   1   2   3   4   5 …      rows 4 m + t of the image, read once
//!   s = 0      0   1   2   3   4   5        row of the mask
//!   s = 1          0   1   2   3   4
//!   s = 2              0   1   2   3
//!   s = 3                  0   1   2
//! ```
//! Each lane holds its fragments of all matrices in registers if there are at most `MAX_REGISTER_MATRICES`. Otherwise
//! those of `mask_rows` rows come from shared memory at a time, and serve 16 columns. Pairs and fours in shared memory
//! have two matrices each: tiles 0 and 2 take one, tiles 1 and 3 the same rows one place further down. Tiles 2 and 3
//! take rows of the image that lie two rows below those of tiles 0 and 1.
//!
//! # Shared memory
//! | part | |
//! | --- | --- |
//! | stages of `ROWS + mask_height - 1` rows | two, one being copied; or one, and more blocks instead |
//! | the results of a step | uncertain ones are replaced before the store |
//! | a list of uncertain results for each warp | its place first holds flags |
//! | the mask | coefficients, and matrices that are not in registers |
//! | the border table | at the edge |
//!
//! Row `r` of a stage lies in *slab* `r % 4`. The 8 rows that a warp reads at once are neighbours in a slab, an odd
//! number of 16 bytes apart, so there are no bank conflicts.
//!
//! # Cost
//! Each chunk of a row of the mask takes 2 products for 128 values, a pair of rows as many, and so does a four. Packing
//! takes about 6 instructions a value. Up to 9 x 9 the instructions, latencies and the three barriers of a step are the
//! limit. With 31 x 31, 1.7 % of the pixels are uncertain and take 961 products each: a fifth of the time.
//!
//! H100, 2026-11-22, 8192 x 8192, one channel: 76 µs with 7 x 7, 59 % of the roofline.

mod deinterleave;
mod layout;
mod load;
mod mma;
mod recompute;
pub mod separable;
mod store;
mod uncertain;

use cuda_std::cp_async::wait_group;
use cuda_std::prelude::*;

use self::deinterleave::Deinterleaver;
pub use self::layout::{Factor, Layout, header, shared_bytes};
use self::layout::{image_bytes, slab_bytes};
use self::load::Loader;
use self::mma::Products;
use self::recompute::Recompute;
use self::separable::SeparableProducts;
use self::store::write;
use self::uncertain::UncertainList;
use crate::abi::kernel::Convergent;
use crate::abi::params::{OutputPtr, Params, padded_mask_width};
use crate::abi::pixel::PixelType;
use crate::common::async_rows::VECTOR_BYTES;
use crate::common::border_table;
use crate::common::partition::block_rows;
use crate::registry::{Accuracy, Grid, Ineligible, MaskForm, MaskMemory, Occupancy, RowPartition, Spec};

/// Warps of a block.
pub const WARPS: u32 = 4;
/// Threads of a block.
pub const BLOCK: (u32, u32) = (32 * WARPS, 1);
/// Rows that a block computes in a step, and the fewest rows that a strip should have.
pub const ROWS: u32 = 64;
/// The largest fraction of uncertain pixels with which the kernel is used.
pub const MAX_UNCERTAIN_FRACTION: f32 = 0.1;

/// The requirement of the kernels here. `expected` is the fraction of pixels that will be uncertain.
fn few_uncertain(expected: f32) -> Result<(), Ineligible> {
    if expected <= MAX_UNCERTAIN_FRACTION {
        return Ok(());
    }
    let property = "fraction of the results that fixed point does not decide";
    Err(Ineligible::Range { property, required: (0.0, MAX_UNCERTAIN_FRACTION), found: (expected, expected) })
}

/// Values of a row that a block computes, for masks of side `side`, or any if it is 0.
#[must_use]
pub const fn outputs(channels: u32, side: u32) -> u32 {
    block_values(planar_channels(channels, side))
}

/// `blocks_per_sm` and `waves` of [`Occupancy`]. At 8192 x 8192 pixels a block then has three steps.
#[must_use]
pub const fn schedule(channels: u32, side: u32) -> (u32, u32) {
    let waves = match side {
        _ if planar_channels(channels, side) > 1 => 12,
        1..=9 => 6 * channels,
        _ => 8,
    };
    (4, waves)
}

/// The launch bounds, if any: threads of a block and blocks of a multiprocessor.
///
/// Shared memory holds this many blocks. Where they would have too few registers, there are no bounds.
#[must_use]
pub const fn launch_bounds(channels: u32, side: u32) -> Option<(u32, u32)> {
    match side {
        1..=5 if planar_channels(channels, side) == 1 => Some((BLOCK.0, 6)),
        1..=9 if channels == 1 => Some((BLOCK.0, 5)),
        31 if channels == 1 => Some((BLOCK.0, 4)),
        7 if channels == 3 => Some((BLOCK.0, 5)),
        9 if channels == 3 => Some((BLOCK.0, 4)),
        _ => None,
    }
}

/// The convergent instructions of the source.
#[must_use]
pub const fn convergent(channels: u32, side: u32) -> Convergent {
    // For masks of any size no matrix is in registers and no loop is unrolled, whatever the width.
    let layout = Layout::new(channels, if side > 0 { side } else { 1 }, 0, side);
    convergent_of(&layout, side, layout.planar * mma::products_per_tile(&layout, side))
}

/// The convergent instructions of a kernel whose source has so many matrix products.
const fn convergent_of(layout: &Layout, side: u32, matrix_products: u32) -> Convergent {
    let is_planar = layout.planar > 1;
    Convergent {
        // After the table. In each step: after the copies, after the results, after recomputed results.
        barriers: 1 + 3,
        // After the flags in the place of the list, and in the deinterleaver.
        warp_barriers: if is_planar { 1 + deinterleave::warp_barriers(layout, side) } else { 0 },
        matrix_products,
        // A prefix sum over the lanes, or votes: one before the rounds and one in each round.
        shuffles: if is_planar { 32_u32.ilog2() } else { 0 },
        votes: if is_planar { 1 } else { 2 },
    }
}

/// Columns of outputs of a matrix product.
const MMA_N: u32 = 8;
/// Bytes of a row of the image in a matrix product.
const MMA_K: u32 = 32;
/// Row `r` of a stage lies in slab `r % SLABS`.
const SLABS: u32 = 4;
/// Tiles of 16 rows that a warp computes together: one for each slab.
const M_TILES: usize = SLABS as usize;
/// Tiles of 8 columns that a warp computes together, if matrices lie in shared memory.
const N_TILES: usize = 2;
/// The most rows of the mask whose matrices are in registers at a time, if matrices lie in shared memory.
const MAX_MASK_ROWS: u32 = 8;
/// Words of a matrix: four for each lane, two for either byte of the coefficients.
const MATRIX_WORDS: u32 = 4 * 32;
/// The most matrices that fit in registers.
const MAX_REGISTER_MATRICES: usize = 14;
/// Pixels of several channels that a lane deinterleaves at a time.
const GRANULE: u32 = 8;

/// The number of channel planes in shared memory: all channels, or 1 if they are interleaved.
///
/// Interleaved channels put zeros between the coefficients of a row. If two rows with their zeros still fit in one
/// matrix, planes would gain nothing.
const fn planar_channels(channels: u32, side: u32) -> u32 {
    if channels == 1 || side > 0 && MMA_N + (side - 1) * channels <= MMA_K / 2 { 1 } else { channels }
}

/// Rows of the mask whose matrices are in registers at a time, if matrices lie in shared memory.
///
/// Eight rows load fewer words of the image for each product. With one channel they would take too many registers for
/// four blocks. With 21 x 21 they are slower, because rows are padded.
const fn mask_rows(planar: u32, side: u32) -> u32 {
    if planar > 1 && side > 21 { MAX_MASK_ROWS } else { SLABS }
}

/// Stages of rows of the image in shared memory.
///
/// With two, the next rows are copied during the products. With one, another block of the multiprocessor computes.
const fn stages(layout: &Layout, side: u32) -> u32 {
    if layout.planar == 1 && (side <= 21 || layout.separable) { 2 } else { 1 }
}

/// Columns that a warp computes.
const fn warp_columns(planar: u32) -> u32 {
    if planar == 1 { 32 } else { 16 }
}

/// Columns that a block computes: pixels if channels are planar, otherwise values.
const fn block_columns(planar: u32) -> u32 {
    WARPS * warp_columns(planar)
}

/// Values of a row that a block computes.
const fn block_values(planar: u32) -> u32 {
    block_columns(planar) * planar
}

/// Entries of the list of a warp. If a step has more, the block recomputes all of its values.
///
/// It is more than [`MAX_UNCERTAIN_FRACTION`] of a warp's values.
const fn list_capacity(planar: u32) -> u32 {
    match planar {
        1 => 240,
        3 => 320,
        _ => 416,
    }
}

/// The first entry of a warp's list.
const fn list_start(planar: u32, warp: u32) -> u32 {
    warp * list_capacity(planar)
}

/// Bytes from one row of a slab of results to the next.
const fn result_pitch(planar: u32) -> u32 {
    block_values(planar) + VECTOR_BYTES
}

/// The kernel for `CHANNELS` interleaved channels, and a mask of `SIDE` x `SIDE`, or of any size if `SIDE` is 0.
///
/// If `SEPARABLE`, it is the one that [`separable`] describes.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels of bytes at their pitches, and do not overlap.
/// - `image`, `result` and `mask` begin at multiples of 16 bytes.
/// - `mask` holds the [`header`], the coefficients, and all matrices for this origin, each at a multiple of 16 bytes.
/// - If the border is constant, its value is an integer from 0 to 255.
/// - If `SIDE` is not 0, the mask is `SIDE` x `SIDE`. If `SEPARABLE`, it is at least 13.
/// - The block is [`BLOCK`], the dynamic shared memory at least [`shared_bytes`].
#[inline(always)]
pub unsafe fn tensor_core_u8<const CHANNELS: u32, const SIDE: u32, const SEPARABLE: bool>(
    image: Global<u8>,
    result: OutputPtr,
    mask: Global<f32>,
    params: Params,
) {
    let (mask_width, rows) =
        if SIDE > 0 { (SIDE, SIDE) } else { (params.mask_width as u32, params.mask_height as u32) };
    let layout = if SEPARABLE {
        Layout::separable(CHANNELS, SIDE, params.origin_x)
    } else {
        Layout::new(CHANNELS, mask_width, params.origin_x, SIDE)
    };
    let planar = const { planar_channels(CHANNELS, SIDE) };
    let thread = thread::thread_idx_x();
    let values = params.width * CHANNELS as i32;
    let block_v = (thread::block_idx_x() * outputs(CHANNELS, SIDE)) as i32;

    let (first, own) = block_rows::<ROWS>(&params);
    if own <= 0 {
        return;
    }
    let end = first + own;

    let slab = slab_bytes(&layout, rows);
    let image_rows = Shared::<u8>::dynamic();
    let results = image_rows.offset(image_bytes(&layout, rows, SIDE));
    let list = results.offset(ROWS * result_pitch(planar));
    let counts = list.offset(WARPS * 2 * list_capacity(planar)).cast::<u32>();
    let lists = UncertainList { entries: list.cast(), counts };
    let coefficients = counts.offset(WARPS).cast::<f32>();
    let matrices = coefficients.offset(padded_mask_width(mask_width) * rows);
    // Words of the matrices that are not in registers.
    let matrix_words = if layout.in_registers { 0 } else { layout.matrices(rows) * MATRIX_WORDS };
    let table = matrices.offset(matrix_words).cast::<i32>();

    let before = layout.left * planar as i32 + layout.lead as i32;
    let left = block_v - before;
    let aligned = (params.src_pitch | before) % VECTOR_BYTES as i32 == 0;
    let edge = !aligned || left < 0 || left + layout.copied as i32 > values;
    if edge {
        // SAFETY: all threads of the block take this branch; the table has `pitch` elements, no fewer than `copied`,
        // and is read after the next barrier.
        unsafe { border_table::fill::<CHANNELS>(table, &params, left, layout.copied, (thread, BLOCK.0)) };
    }
    let loader = Loader::<CHANNELS, SIDE> {
        image,
        params,
        edge,
        aligned,
        left,
        rows: ROWS + layout.rows(rows) - 1,
        slab,
        pitch: layout.pitch,
        bytes: layout.copied,
        table,
    };
    let deinterleaver = Deinterleaver::<CHANNELS, SIDE> { layout, rows: loader.rows, slab };
    // After the barrier the table is complete.
    // SAFETY: all threads are here: only whole blocks have returned.
    unsafe { thread::sync_threads() };
    let mut y = first;
    let mut stage = 0;
    // SAFETY: all threads are here, the table is complete, and no thread uses the stages yet.
    unsafe { loader.fill(image_rows, y - params.origin_y) };

    // The matrices follow the coefficients, in global and in shared memory.
    let from = mask.offset(header::WORDS as isize).cast::<F32x4>();
    let vectors = (padded_mask_width(mask_width) * rows + matrix_words) / 4;
    let mut i = thread;
    while i < vectors {
        thread::no_unroll();
        // SAFETY: the mask holds coefficients and matrices; shared memory has room for both, as in `shared_bytes`.
        unsafe { coefficients.cast::<F32x4>().store(i, from.load(i as isize)) };
        i += BLOCK.0;
    }
    let mut registers = [[0; 4]; MAX_REGISTER_MATRICES];
    if layout.in_registers {
        for matrix in 0..layout.matrices(rows) {
            let vector = padded_mask_width(mask_width) * rows / 4 + matrix * 32 + thread % 32;
            // SAFETY: the mask holds 32 fragments for each matrix, after the coefficients.
            registers[matrix as usize] = unsafe { from.load(vector as isize) }.0.map(f32::to_bits);
        }
    }
    // SAFETY: index < header::WORDS.
    let word = |index: u32| unsafe { mask.load(index as isize) }.to_bits();
    let (shift, uncertain) = (word(header::SHIFT), word(header::UNCERTAIN));
    let bias = if SIDE > 0 { [4, 5, 6, 7].map(|i| word(i) as i32) } else { [word(header::BIAS) as i32; 4] };

    let products = Products::<CHANNELS, SIDE> { layout, rows, matrices, slab, shift, bias, uncertain, results, lists };
    while y < end {
        thread::no_unroll();
        wait_group::<0>();
        let pixels = image_rows.offset(stage);
        if planar > 1 {
            // SAFETY: all threads are here; each warp has waited for the copies of its slab.
            unsafe { deinterleaver.run(pixels) };
        }
        // After the barrier the stage is filled, the other one is free, and the results of the last step are written.
        // SAFETY: all threads are here: the loop depends on the block alone.
        unsafe { thread::sync_threads() };
        let next = y + ROWS as i32;
        if stages(&layout, SIDE) == 2 {
            stage = SLABS * slab - stage;
            if next < end {
                // SAFETY: all threads are here; the stage is free since the barrier.
                unsafe { loader.fill(image_rows.offset(stage), next - params.origin_y) };
            }
        }
        let inside = (values - block_v) / planar as i32;
        // SAFETY: all threads are here; stage and matrices were filled before the barrier.
        unsafe {
            if SEPARABLE {
                SeparableProducts::<CHANNELS, SIDE> { layout, slab, bias, uncertain, results, lists }
                    .compute(pixels, inside, &registers);
            } else {
                products.compute(pixels, inside, &registers);
            }
        }
        // SAFETY: all threads are here: the loop depends on the block alone.
        unsafe { thread::sync_threads() };
        let recompute = Recompute { layout, rows, mask_width, slab, mask, coefficients, lists, results, params };
        // SAFETY: all threads are here; lists and counts were written before the barrier.
        unsafe { recompute.run::<CHANNELS, SIDE, SEPARABLE>(pixels) };
        if stages(&layout, SIDE) == 1 && next < end {
            // SAFETY: all threads are here. `recompute` ends with a barrier if it reads the stage.
            unsafe { loader.fill(pixels, next - params.origin_y) };
        }
        // Without black_box LLVM keeps addresses derived from `column` and `y` in registers that the sums need.
        let column =
            if launch_bounds(CHANNELS, SIDE).is_some() { block_v } else { thread::black_box(block_v as u32) as i32 };
        let to = result.offset(params.dst_index(column, y));
        // SAFETY: all results were written before a barrier. Rows `y` to `end - 1` and the columns belong to this
        // block.
        unsafe { write(planar, results, to, values - block_v, end - y, params.dst_pitch) };
        y = thread::black_box(next as u32) as i32;
    }
}

/// The thread's index. The compiler knows nothing about it.
///
/// Otherwise LLVM keeps values derived from the index across steps, in registers that the sums need.
#[inline(always)]
fn this_thread() -> u32 {
    thread::black_box(thread::thread_idx_x())
}

crate::registry::instances! {
    TensorCoreU8;
    sm_80 "tensor_core_u8_{T}_c{C}" for T in [u8], C in [1, 3, 4];
        |image, result, mask, params| tensor_core_u8::<C, 0, false>(image, result, mask, params)
    sm_80 "tensor_core_u8_{T}_c{C}_{K}x{K}" for T in [u8], C in [1, 3, 4], K in [3, 5, 7, 9, 11];
    sm_80 "tensor_core_u8_{T}_c{C}_{K}x{K}" for T in [u8], C in [1], K in [13, 15, 21, 31];
    sm_80 "tensor_core_u8_{T}_c{C}_{K}x{K}" for T in [u8], C in [3, 4], K in [13, 15, 21, 31];
        |image, result, mask, params| tensor_core_u8::<C, K, false>(image, result, mask, params)
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "tensor_core_u8",
    summary: "bytes in the tensor cores; pixels that fixed point does not decide are recomputed in order",
    reason: "bytes in the tensor cores",
    accuracy: Accuracy::Exact,
    mask_memory: MaskMemory::Global,
    mask_form: MaskForm::FixedPoint,
    mask_class: None,
    results: |_| &[PixelType::U8],
    border_is_pixel: |_| true,
    requirement: |request| few_uncertain(request.uncertain),
    uses_fp32_units: false,
    grid: Grid::Partition(RowPartition {
        least_rows: |_, _| ROWS,
        block_row_alignment: ROWS,
        launch_row_alignment: 1,
        occupancy: |entry, _| {
            let (blocks_per_sm, waves) = schedule(entry.channels, entry.side());
            Occupancy { blocks_per_sm, waves }
        },
    }),
    block: |_| BLOCK,
    outputs: |entry, _| (outputs(entry.channels, entry.side()), ROWS),
    pixels_together: 1,
    shared_bytes: |entry, (width, height)| shared_bytes(entry.channels, width, height, entry.side()),
    launch_bounds: |entry| launch_bounds(entry.channels, entry.side()),
    convergent: |entry| convergent(entry.channels, entry.side()),
};
