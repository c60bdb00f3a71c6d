//! Separable masks in one pass over the image, 16 rows at a time: rows in shared memory, column sums in registers.
//!
//! `T[y, x] = sum over l of row[l] * I[y, x - origin_x + l]`,
//! `O[y, x] = sum over k of column[k] * T[y - origin_y + k, x]`
//!
//! This file has the kernel for one channel. Images of several channels take [`interleaved`].
//!
//! # Thread mapping
//! A block owns one column for each thread, and a strip of rows ([`partition`](crate::common::partition)).
//!
//! # Tiling
//! The block walks down its strip in steps of 16 rows. Three groups of rows are under way at the same time, so one
//! barrier a step is enough:
//! ```text
//!   step s + 2   16 rows of pixels are copied to shared memory, asynchronously
//!   step s + 1   row pass: each thread filters 16 neighbouring columns of one of 16 rows, into shared memory
//!   step s       column pass: each thread adds 16 filtered rows of its column to all outputs that need them
//! ```
//! In either pass 16 values and 16 coefficients serve 256 products. Sums that are not finished move up by 16 places:
//! the step computes them there, so the move costs nothing.
//!
//! # Design constraints
//! - *Wide blocks.* A wide block shares more of its halo. One block of 512 threads fills a multiprocessor.
//! - *Instruction cache.* The loop of a step must fit in 32 KiB of code. So for large masks the row pass is a loop, and
//!   the column pass takes 8 rows at a time ([`group`]).
//! - *Coefficients in uniform registers*, two per load: they lie at offsets that the kernel knows ([`column_offset`],
//!   [`row_offset`]).
//! - *Warps in step.* The barrier of each step keeps the warps at the same code, so they share the instruction cache.
//! - *No slow block.* All blocks start together, so the slowest one sets the time. A block at the edge copies its
//!   interior vectors like any other block. Only its border vectors take a slower path.
//! - *Registers.* A thread has a sum for each row of the mask. The launch bounds tell the assembler how many registers
//!   it may use ([`threads`]).
//!
//! # Cost
//! `mask_width + mask_height` products for each output, and [`padded_halo`] extra rows in each strip. A step with 21 x
//! 21 has 690 multiply-adds in about 880 instructions, for 16 outputs of each thread.
//!
//! H100, 2026-11-21, 8192 x 8192: 204 µs with 21 x 21, 88 % of the roofline.

mod passes;

use cuda_std::cp_async::wait_group;
use cuda_std::prelude::*;

pub(super) use self::passes::add;
use self::passes::filter;
use crate::abi::kernel::Convergent;
use crate::abi::params::Params;
use crate::common::async_rows::{RowCopies, STEP_ROWS, VECTOR, interior_vectors};
use crate::common::column_store::ColumnStore;
use crate::common::partition::block_rows;
use crate::registry::{
    Accuracy, Arithmetic, Entry, FactorPlaces, FactorPowers, Grid, MaskClass, MaskForm, MaskMemory, Occupancy,
    RowPartition, Spec, f32_result, no_requirement,
};
use crate::separable::interleaved;

pub use crate::separable::error_bound::error_constant;

/// Threads of most blocks. [`threads`] has those of each kernel.
pub const BLOCK: (u32, u32) = (512, 1);
/// Rows of a step. A block computes one column for each thread.
pub const OUTPUT_ROWS: u32 = STEP_ROWS as u32;
/// The convergent instructions of the source: a barrier in each step.
pub const CONVERGENT: Convergent = Convergent::barriers(1);
/// Blocks that the registers of a multiprocessor hold at a time, on compute capability 9.0.
pub const BLOCKS_PER_SM: u32 = 1;
/// Blocks of a launch for each resident block of the device.
pub const WAVES: u32 = 1;

/// The dynamic shared memory of a block of `columns` threads, in bytes.
///
/// It holds pixels and filtered rows, two steps of each, and the border table.
#[must_use]
pub const fn shared_bytes(columns: u32, mask_width: u32) -> u64 {
    let pitch = pitch(columns, mask_width) as u64;
    ((pitch + filtered_pitch(columns) as u64) * 2 * STEP_ROWS as u64 + pitch) * size_of::<f32>() as u64
}

/// `mask_height - 1`, rounded up to whole steps of 16 rows.
#[must_use]
pub const fn padded_halo(mask_height: u32) -> u32 {
    mask_height.saturating_sub(1).next_multiple_of(STEP_ROWS as u32)
}

/// Threads of a block: as many as registers allow. `side` is 0 where the mask is not a square with its own kernel.
#[must_use]
pub const fn threads(side: u32, padded_halo: u32) -> u32 {
    match (side, padded_halo) {
        (127, _) | (0, 80..) => 256,
        (0, 64) => 384,
        _ => BLOCK.0,
    }
}

/// Outputs of a column whose sums form a group. As many filtered rows are added to a group at a time.
#[must_use]
pub const fn group(side: u32, padded_halo: u32) -> usize {
    if side == 127 || side == 0 && padded_halo >= 48 { 8 } else { STEP_ROWS }
}

/// The groups of unfinished sums: the padded halo in groups.
#[must_use]
pub const fn groups(side: u32, padded_halo: u32) -> usize {
    let rows = if side > 0 { self::padded_halo(side) } else { padded_halo };
    rows as usize / group(side, padded_halo)
}

/// The offset of the column's first coefficient in constant memory. The kernel does not read what lies before it.
#[must_use]
pub const fn column_offset(mask_height: u32) -> u32 {
    padded_halo(mask_height) + 1 - mask_height
}

/// The offset of the row's first coefficient in constant memory.
///
/// The pixels of a window begin at a multiple of 4 columns, up to three before the window. A kernel for squares of one
/// side assumes the anchor in the middle.
#[must_use]
pub const fn row_offset(mask_height: u32, origin_x: i32) -> u32 {
    padded_halo(mask_height) + STEP_ROWS as u32 + lead(origin_x)
}

/// Whether a step begins its copies after the row pass.
///
/// Where arithmetic is the limit, the warps then do not all request their copies at the same time. Where memory is the
/// limit, the copies must begin early.
const fn copies_late(side: u32) -> bool {
    side >= 63
}

/// Columns from the first pixel that a block reads to its first window.
const fn lead(origin_x: i32) -> u32 {
    origin_x.wrapping_neg() as u32 % VECTOR
}

/// Vectors of a row of pixels, for `columns` outputs.
const fn vectors(columns: u32, mask_width: u32, lead: u32) -> u32 {
    (columns + lead + mask_width - 1).div_ceil(VECTOR)
}

/// Pixels from one row to the next in shared memory.
///
/// It is an odd number of vectors, so that 8 threads in 8 rows access all banks.
const fn pitch(columns: u32, mask_width: u32) -> u32 {
    (vectors(columns, mask_width, VECTOR - 1) | 1) * VECTOR
}

/// Values from one filtered row to the next in shared memory: an odd number of vectors.
const fn filtered_pitch(columns: u32) -> u32 {
    ((columns / VECTOR) | 1) * VECTOR
}

/// The kernel for masks of `K` x `K`, or, if `K` is 0, of any width and a [`padded_halo`] of `GROUPS * GROUP`.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, and do not overlap.
/// - `image` and `result` begin at multiples of 16 bytes.
/// - [`struct@MASK`](crate::teaching::constant_mask::MASK) holds the column at [`column_offset`] and the row at
///   [`row_offset`].
/// - The block is one row of `THREADS`, a multiple of 32 and at most 512.
/// - The dynamic shared memory is at least [`shared_bytes`].
#[inline(always)]
pub unsafe fn block_tile<const K: u32, const GROUPS: usize, const GROUP: usize, const THREADS: u32>(
    image: Global<f32>,
    result: GlobalMut<f32>,
    params: Params,
) {
    let thread = thread::thread_idx_x();
    let (mask_width, mask_height) = if K > 0 { (K, K) } else { (params.mask_width as u32, params.mask_height as u32) };
    let lead = lead(if K > 0 { (K as i32 - 1) / 2 } else { params.origin_x });
    let halo = (GROUPS * GROUP) as u32;
    let skip = halo + 1 - mask_height;
    let first_column = (thread::block_idx_x() * THREADS) as i32;
    let left = first_column - params.origin_x - lead as i32;
    let (first, rows) = block_rows::<1>(&params);
    if rows <= 0 {
        return;
    }

    let (pitch, filtered_pitch) = (pitch(THREADS, mask_width), filtered_pitch(THREADS));
    let pixels = Shared::<f32>::dynamic();
    let filtered = pixels.offset(2 * STEP_ROWS as u32 * pitch);
    let y = first - params.origin_y - skip as i32;
    let vectors = vectors(THREADS, mask_width, lead);
    let mut copies = RowCopies::<1, THREADS> {
        image,
        params,
        interior: interior_vectors::<1>(left, vectors, &params),
        left,
        y,
        to: pixels.offset(thread / 32 * pitch),
        vectors,
        pitch,
        table: filtered.offset(2 * STEP_ROWS as u32 * filtered_pitch).cast(),
    };
    // SAFETY: the table has `pitch` elements, no fewer than the vectors have pixels; it is read after the next barrier.
    unsafe { copies.fill_table(thread) };

    // In the row pass 16 consecutive threads have 16 rows, and each thread 16 columns.
    let (row, column) = (thread % STEP_ROWS as u32, thread / STEP_ROWS as u32 * STEP_ROWS as u32);
    let (source, to) = (pixels.offset(row * pitch + column), filtered.offset(row * filtered_pitch + column));
    let x = first_column + thread as i32;
    // SAFETY: an active thread's column lies in the result, and its rows from `first` on belong to this block alone.
    let mut store = unsafe { ColumnStore::new(result, &params, (x, first), x < params.width) };
    let mut sums = [[0.0; GROUP]; GROUPS];
    // The first rows of the buffers that this step writes and reads.
    let (mut write, mut read) = (0, STEP_ROWS as u32);
    // The first output row that this step finishes, relative to the strip. The first steps only fill the buffers, the
    // next ones begin the sums.
    let begin = -(halo as i32);
    let mut done = begin - 2 * STEP_ROWS as i32;
    loop {
        thread::no_unroll();
        // After the barrier all copies have arrived, the table is complete, and the buffers to write are free.
        wait_group::<0>();
        // SAFETY: all threads are here: the loop depends on the block alone.
        unsafe { thread::sync_threads() };
        let copies_remain = done + 2 * (STEP_ROWS as i32) < rows;
        if copies_remain && !copies_late(K) {
            // SAFETY: the branch is uniform; the buffer is free and the table complete since the barrier.
            unsafe { copies.copy_by_warps(write * pitch) };
        }
        if done >= begin - STEP_ROWS as i32 && done + (STEP_ROWS as i32) < rows {
            // SAFETY: the pixels arrived before the barrier; the 16 filtered values are this thread's alone.
            unsafe {
                let first = halo as usize + STEP_ROWS;
                let sums = filter(source.offset(read * pitch), first, lead, mask_width, K > 0 && K < 32);
                let to = to.offset(read * filtered_pitch).cast::<F32x4>();
                for i in 0..STEP_ROWS / 4 {
                    to.store(i as u32, F32x4([sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]]));
                }
            }
        }
        if copies_remain && copies_late(K) {
            // SAFETY: the branch is uniform; the buffer is free and the table complete since the barrier.
            unsafe { copies.copy_by_warps(write * pitch) };
        }
        if done >= begin {
            let from = filtered.offset(write * filtered_pitch + thread);
            let mut r = 0;
            // black_box keeps LLVM from unrolling the loop.
            while r < if GROUP < STEP_ROWS { thread::black_box(STEP_ROWS as u32) } else { STEP_ROWS as u32 } {
                if GROUP < STEP_ROWS {
                    thread::no_unroll();
                }
                // SAFETY: the 16 rows were filtered in the step before.
                let values: [f32; GROUP] =
                    core::array::from_fn(|i| unsafe { from.load((r + i as u32) * filtered_pitch) });
                // SAFETY: MASK holds the column at `column_offset`, which puts `skip` elements before it.
                let finished = unsafe { add(&sums[0], &values, GROUPS, GROUPS, skip) };
                for g in 1..GROUPS {
                    // SAFETY: MASK holds the column at `column_offset`, which puts `skip` elements before it.
                    sums[g - 1] = unsafe { add(&sums[g], &values, GROUPS - g, GROUPS, skip) };
                }
                // SAFETY: MASK holds the column at `column_offset`, which puts `skip` elements before it.
                sums[GROUPS - 1] = unsafe { add(&[0.0; GROUP], &values, 0, GROUPS, skip) };
                let done = done + r as i32;
                if done >= 0 {
                    // SAFETY: rows `done` to `rows - 1` of the strip lie in the result.
                    unsafe { store.store(&finished, rows - done) };
                }
                r += GROUP as u32;
            }
        }
        (write, read) = (read, write);
        done += STEP_ROWS as i32;
        if done >= rows {
            return;
        }
    }
}

crate::registry::instances! {
    SeparableBlockTile;
    sm_80 "separable_block_tile_{T}_c{C}_{K}x{K}" for
        T in [f32], C in [1], K in [5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 63, 127];
        |image, result, _mask, params| {
            block_tile::<K, { groups(K, 0) }, { group(K, 0) }, { threads(K, 0) }>(image, result.cast(), params)
        }
    sm_80 "separable_block_tile_{T}_c{C}_halo_{HALO}" for
        T in [f32], C in [1], HALO in [16, 32, 48, 64, 80, 96, 112, 128];
        |image, result, _mask, params| {
            block_tile::<0, { groups(0, HALO) }, { group(0, HALO) }, { threads(0, HALO) }>(
                image, result.cast(), params,
            )
        }
    sm_80 "separable_block_tile_{T}_c{C}_halo_{HALO}" for T in [f32], C in [2, 3, 4], HALO in [16];
        |image, result, _mask, params| {
            interleaved::interleaved::<T, C, { interleaved::groups(HALO) }, false>(image, result, params)
        }
}

/// Threads of a block of an entry, and values of a row that it computes.
fn threads_of(entry: &Entry) -> u32 {
    if entry.is_plane() { threads(entry.side(), entry.class()) } else { interleaved::THREADS }
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "separable_block_tile",
    summary: "separable masks: rows, then columns, 16 rows of a block at a time",
    reason: "a separable mask: rows, then columns, within an error bound",
    accuracy: Accuracy::Bounded {
        error_constant: |_, (width, height)| error_constant(width, height),
        arithmetic: Arithmetic::F32,
    },
    mask_memory: MaskMemory::Constant,
    mask_form: MaskForm::Factors(|entry, mask, origin_x| {
        if !entry.is_plane() {
            return interleaved::places(entry, mask, origin_x);
        }
        let (_, height) = mask;
        let origin_x = if entry.side() > 0 { (entry.side() as i32 - 1) / 2 } else { origin_x };
        FactorPlaces { row: row_offset(height, origin_x), column: column_offset(height), powers: FactorPowers::NONE }
    }),
    mask_class: Some(MaskClass {
        contains: |class, (_, height), _| padded_halo(height) == class,
        example: |class| (3, class),
        masks: "masks of 2 to 129 rows; several channels 2 to 17",
    }),
    results: f32_result,
    border_is_pixel: |_| false,
    requirement: no_requirement,
    uses_fp32_units: true,
    grid: Grid::Partition(RowPartition {
        least_rows: |_, mask_height| OUTPUT_ROWS + padded_halo(mask_height),
        block_row_alignment: 1,
        launch_row_alignment: 1,
        occupancy: |entry, _| Occupancy {
            blocks_per_sm: BLOCKS_PER_SM,
            waves: if entry.is_plane() { WAVES } else { interleaved::waves(entry.channels) },
        },
    }),
    block: |entry| (threads_of(entry), 1),
    outputs: |entry, _| (threads_of(entry), OUTPUT_ROWS),
    pixels_together: 1,
    shared_bytes: |entry, mask| {
        if entry.is_plane() {
            shared_bytes(threads_of(entry), mask.0)
        } else {
            interleaved::shared_bytes(entry.class(), (entry.channels, entry.pixel.bytes() as u32), mask, false)
        }
    },
    // One resident block is enough. So ptxas may give each thread its part of all 65,536 registers.
    launch_bounds: |entry| Some((threads_of(entry), 1)),
    convergent: |_| CONVERGENT,
};
