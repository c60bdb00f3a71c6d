//! Separable masks in one pass over the image, through a ring of filtered rows. Shared memory limits the mask's rows.
//!
//! `T[y, x] = sum over l of row[l] * I[y, x - origin_x + l]`,
//! `O[y, x] = sum over k of column[k] * T[y - origin_y + k, x]`
//!
//! [`block_tile`](crate::separable::block_tile) is faster for masks of up to 129 rows, but needs compute capability
//! 8.0. It keeps unfinished sums in registers. This kernel keeps the filtered rows `T` in shared memory.
//!
//! # Thread mapping
//! A block of 8 warps owns 256 columns and a strip of rows ([`partition`](crate::common::partition)). It walks down the
//! strip, 8 rows a step:
//! 1. Each warp filters one row of pixels, 8 neighbouring columns a thread, and stores it in the ring.
//! 2. After a barrier each thread sums one column for the 8 rows of outputs whose windows end with the new rows.
//!
//! # Tiling
//! ```text
//!   group    0   1   2   …  m-1   m        the outputs of a step need m + 1 groups of 8 filtered rows
//!          ┌───┬───┬───┬─────┬───┬───┐     the ring has m + 2: while some threads read, others already write
//!          └───┴───┴───┴─────┴───┴───┘     the next group, so one barrier a step is enough
//! ```
//! The column's coefficients are shifted by `skip`, so that the windows of the first row of outputs begin with a group.
//! Then a step of 8 coefficients needs 16 rows, of which the next step needs 8, and the ring wraps only between groups.
//!
//! Alignment and edges are those of [`register_tile`](crate::direct::register_tile).
//!
//! # Cost
//! `mask_width + mask_height` products for each output. The strip above also filters the first `mask_height - 1` rows
//! of a strip. A step of 64 products takes 2 loads of coefficients, 2 of pixels or 8 of filtered values, and 8 moves.
//!
//! H200, 2026-11-21, 8192 x 8192: 225 µs with 8 x 8, 3157 µs with 127 x 127.

use cuda_std::prelude::*;

use super::error_bound::error_constant;
use crate::abi::border;
use crate::abi::kernel::Convergent;
use crate::abi::params::Params;
use crate::common::border_table;
use crate::common::partition::block_rows;
use crate::common::row_reader::RowReader;
use crate::direct::register_tile::{COLUMNS, STEP, columns_used, padded};
use crate::registry::{
    Accuracy, Arithmetic, FactorPlaces, Grid, MaskForm, MaskMemory, Occupancy, RowPartition, Spec, f32_result,
    no_launch_bounds, no_requirement,
};
use crate::teaching::constant_mask::MASK;

/// Threads of a block in x and y.
pub const BLOCK: (u32, u32) = (32, 8);
/// Outputs of a block in x. In y the grid partitions the rows.
pub const OUTPUT_COLUMNS: u32 = COMPUTED - 4;
/// The convergent instructions of the source: a barrier after which the ring is cleared, and one in each step.
pub const CONVERGENT: Convergent = Convergent::barriers(2);
/// Blocks that the registers of a multiprocessor hold at a time, on compute capability 9.0. Shared memory may hold
/// fewer.
pub const BLOCKS_PER_SM: u32 = 4;
/// Blocks of a launch for each resident block of the device.
pub const WAVES: u32 = 4;

/// The dynamic shared memory of a block, in bytes: coefficients of row and column, border table, ring.
#[must_use]
pub const fn shared_bytes(mask_width: u32, mask_height: u32) -> u64 {
    let coefficients = padded(mask_width) as u64 + padded(mask_height + ROWS) as u64;
    let ring = (groups(mask_height) as u64 + 2) * (ROWS * COMPUTED) as u64;
    (coefficients + columns_used(mask_width) as u64 + ring) * size_of::<f32>() as u64
}

/// Rows of a step.
pub(crate) const ROWS: u32 = BLOCK.1;

/// Columns that a block computes, stored or not: one for each thread.
const COMPUTED: u32 = BLOCK.0 * BLOCK.1;

const _: () = assert!(COMPUTED == BLOCK.0 * COLUMNS as u32 && ROWS as usize == STEP);

/// The zeros before the column's coefficients.
#[inline(always)]
const fn skip(mask_height: u32) -> u32 {
    (mask_height - 1).wrapping_neg() % ROWS
}

/// The number of groups before the one in which a window ends: `m`.
#[inline(always)]
const fn groups(mask_height: u32) -> u32 {
    (skip(mask_height) + mask_height - 1) / ROWS
}

/// The kernel.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, and do not overlap.
/// - `image` and `result` begin at multiples of 16 bytes.
/// - [`struct@MASK`] holds the `mask_width` coefficients of the row, then the `mask_height` of the column.
/// - The block is [`BLOCK`], the dynamic shared memory at least [`shared_bytes`].
#[inline(always)]
pub unsafe fn ring(image: Global<f32>, result: GlobalMut<f32>, params: Params) {
    let (tx, ty) = (thread::thread_idx_x(), thread::thread_idx_y());
    let (mask_width, mask_height) = (params.mask_width as u32, params.mask_height as u32);
    let first_column = (thread::block_idx_x() * OUTPUT_COLUMNS) as i32;
    // Pixels are read in vectors: their first column is a multiple of 4.
    let left = (first_column - params.origin_x) & !3;
    let (first, rows) = block_rows::<1>(&params);
    let top = first - params.origin_y;
    let edge = params.src_pitch & 3 != 0 || !params.contains::<1>(left, 0, columns_used(mask_width) as i32, 1);

    let row = Shared::<f32>::dynamic();
    let column = row.offset(padded(mask_width));
    let table = column.offset(padded(mask_height + ROWS)).cast::<i32>();
    let ring = table.offset(columns_used(mask_width)).cast::<f32>();
    // SAFETY: the four parts follow each other as in `shared_bytes`; they are read after the barrier.
    unsafe { fill(row, column, table, ring, left, &params) };
    // SAFETY: all threads are here: no thread has returned, and no branch is around the barrier.
    unsafe { thread::sync_threads() };

    // The column that this thread sums, and whether the block stores it.
    let own = ty * BLOCK.0 + tx;
    let x = left + params.origin_x + own as i32;
    let stores = x >= first_column && x < params.width.min(first_column + OUTPUT_COLUMNS as i32);
    let ring_groups = groups(mask_height) + 2;
    let mut slot = 0;
    // The first of the 8 new rows of the ring, relative to the strip's first row of pixels.
    let mut new = 0;
    while new < rows + mask_height as i32 - 1 {
        thread::no_unroll();
        let y = top + new + ty as i32;
        let inside = !edge && (y as u32) < params.height as u32;
        let mapped = if inside { y } else { border::map(params.border, y, params.height) };
        let x_of_pixels = if inside { left + (tx * COLUMNS as u32) as i32 } else { 0 };
        let source = RowReader {
            pixels: image.offset(params.src_index(x_of_pixels, mapped)),
            table: table.offset(tx * COLUMNS as u32),
            edge: !inside,
            exists: mapped >= 0,
            border_value: params.border_value,
        };
        // SAFETY: `source` reads through the table wherever a column or the row may lie outside; the table and the
        // coefficients are complete since the barrier. The 8 columns of the warp's row are this thread's alone.
        unsafe {
            let filtered = filter(&source, row, mask_width);
            let to = ring.offset((slot * ROWS + ty) * COMPUTED + tx * COLUMNS as u32).cast::<F32x4>();
            to.store(0, F32x4([filtered[0], filtered[1], filtered[2], filtered[3]]));
            to.store(1, F32x4([filtered[4], filtered[5], filtered[6], filtered[7]]));
        }
        // SAFETY: all threads are here: the loop depends on the block alone.
        unsafe { thread::sync_threads() };

        let output = new - (mask_height as i32 - 1);
        if output + ROWS as i32 > 0 {
            // SAFETY: all groups that the windows need were filtered before the barrier, or cleared by `fill`.
            let sums = unsafe { sum_column(ring.offset(own), column, slot, mask_height) };
            for (o, &sum) in sums.iter().enumerate() {
                let o = output + o as i32;
                if stores && o >= 0 && o < rows {
                    // SAFETY: x and the row lie in the result. Only this thread stores them.
                    unsafe { result.store(params.dst_index(x, first + o), params.finish(sum)) };
                }
            }
        }
        slot = if slot + 1 == ring_groups { 0 } else { slot + 1 };
        new += ROWS as i32;
    }
}

/// Fills the coefficients and the border table, and clears the ring. The first steps read groups that are not yet
/// filled.
///
/// # Safety
/// - The four parts have the lengths that [`shared_bytes`] gives them, and do not overlap.
/// - [`struct@MASK`] holds the row and the column.
/// - All threads of the block call this, and no thread reads the parts before the next barrier.
#[inline(always)]
unsafe fn fill(
    row: Shared<f32>,
    column: Shared<f32>,
    table: Shared<i32>,
    ring: Shared<f32>,
    left: i32,
    params: &Params,
) {
    let (mask_width, mask_height) = (params.mask_width as u32, params.mask_height as u32);
    let skip = skip(mask_height);
    let each = |length: u32, store: &dyn Fn(u32)| {
        let mut i = thread::thread_idx_y() * BLOCK.0 + thread::thread_idx_x();
        while i < length {
            thread::no_unroll();
            store(i);
            i += COMPUTED;
        }
    };
    each(padded(mask_width), &|i| {
        // SAFETY: i < padded(mask_width), the row's length; MASK is read below mask_width.
        unsafe { row.store(i, if i < mask_width { MASK.load(i as usize) } else { 0.0 }) };
    });
    each(padded(mask_height + ROWS), &|i| {
        let k = i.wrapping_sub(skip);
        // SAFETY: i < padded(mask_height + ROWS), the column's length; MASK is read below mask_width + mask_height.
        unsafe { column.store(i, if k < mask_height { MASK.load((mask_width + k) as usize) } else { 0.0 }) };
    });
    each(columns_used(mask_width), &|i| {
        // SAFETY: i is below the table's length.
        unsafe { table.store(i, border_table::map_value::<1>(params, left + i as i32)) };
    });
    each((groups(mask_height) + 2) * ROWS * COMPUTED, &|i| {
        // SAFETY: i is below the ring's length.
        unsafe { ring.store(i, 0.0) };
    });
}

/// The coefficients of a step.
///
/// # Safety
/// - `coefficients` has [`STEP`] filled elements, and is aligned to 16 bytes.
#[inline(always)]
unsafe fn load_step(coefficients: Shared<f32>) -> [f32; STEP] {
    let vectors = coefficients.cast::<F32x4>();
    // SAFETY: the two vectors are the STEP elements.
    let (F32x4([a, b, c, d]), F32x4([e, f, g, h])) = unsafe { (vectors.load(0), vectors.load(1)) };
    [a, b, c, d, e, f, g, h]
}

/// Filters eight neighbouring columns of a row of pixels.
///
/// # Safety
/// - `row` holds the padded row of coefficients.
/// - `source` may read the columns from 0 to `padded(mask_width) + STEP - 1`.
#[inline(always)]
unsafe fn filter(source: &RowReader, row: Shared<f32>, mask_width: u32) -> [f32; COLUMNS] {
    let mut sums = [0.0; COLUMNS];
    // SAFETY: columns 0 to STEP - 1.
    let mut window = [unsafe { source.read(0) }, [0.0; COLUMNS]];
    let mut first = 0;
    while first < mask_width {
        thread::no_unroll();
        // SAFETY: first < mask_width, so the columns end before padded(mask_width) + STEP; the row is padded.
        let coefficients = unsafe {
            window[1] = source.read(first + STEP as u32);
            load_step(row.offset(first))
        };
        add(&mut sums, &window, &coefficients, 0, thread::black_box(mask_width - first));
        window[0] = window[1];
        first += STEP as u32;
    }
    sums
}

/// The sums of one column for eight rows of outputs. The newest group of the ring is in `slot`.
///
/// # Safety
/// - `ring` begins with the thread's column, and its `groups + 2` groups are filled.
/// - `column` holds the shifted and padded coefficients of the column.
#[inline(always)]
unsafe fn sum_column(ring: Shared<f32>, column: Shared<f32>, slot: u32, mask_height: u32) -> [f32; COLUMNS] {
    let (skip, groups) = (skip(mask_height), groups(mask_height));
    let read = |slot: u32| -> [f32; COLUMNS] {
        // SAFETY: slot < groups + 2, and i < ROWS.
        core::array::from_fn(|i| unsafe { ring.load((slot * ROWS + i as u32) * COMPUTED) })
    };
    let mut sums = [0.0; COLUMNS];
    // The oldest group that the windows need lies `groups` slots back in a ring of `groups + 2` slots.
    let mut slot = if slot >= groups { slot - groups } else { slot + 2 };
    let mut window = [read(slot), [0.0; COLUMNS]];
    let mut from = skip;
    for group in 0..groups {
        thread::no_unroll();
        slot = if slot == groups + 1 { 0 } else { slot + 1 };
        window[1] = read(slot);
        // SAFETY: group < groups, so the step lies in the padded column.
        let coefficients = unsafe { load_step(column.offset(group * ROWS)) };
        add(&mut sums, &window, &coefficients, thread::black_box(from), STEP as u32);
        window[0] = window[1];
        from = 0;
    }
    // One coefficient is left: the shift makes the last group begin with it.
    // SAFETY: the padded column has groups + 1 steps at least.
    let coefficients = unsafe { load_step(column.offset(groups * ROWS)) };
    // If there is no other group, it is the only coefficient, and nothing was shifted.
    for (sum, &value) in sums.iter_mut().zip(&window[0]) {
        *sum = fma(value, coefficients[0], *sum);
    }
    sums
}

/// Adds coefficients `from` to `to - 1` of a step to eight neighbouring sums, in this order.
#[inline(always)]
fn add(sums: &mut [f32; COLUMNS], window: &[[f32; COLUMNS]; 2], coefficients: &[f32; STEP], from: u32, to: u32) {
    let mut one = |l: usize| {
        for (c, sum) in sums.iter_mut().enumerate() {
            *sum = fma(window[(l + c) / COLUMNS][(l + c) % COLUMNS], coefficients[l], *sum);
        }
    };
    if from == 0 && to >= STEP as u32 {
        for l in 0..STEP {
            one(l);
        }
        return;
    }
    for l in 0..STEP {
        if l as u32 >= from && (l as u32) < to {
            one(l);
        }
    }
}

crate::registry::instances! {
    SeparableRing;
    sm_70 "separable_ring_{T}_c{C}" for T in [f32], C in [1];
        |image, result, _mask, params| ring(image, result.cast(), params)
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "separable_ring",
    summary: "separable masks: rows, then columns, through a ring in shared memory",
    reason: "a separable mask: rows, then columns, within an error bound",
    accuracy: Accuracy::Bounded {
        error_constant: |_, (width, height)| error_constant(width, height),
        arithmetic: Arithmetic::F32,
    },
    mask_memory: MaskMemory::Constant,
    mask_form: MaskForm::Factors(FactorPlaces::side_by_side),
    mask_class: None,
    results: f32_result,
    border_is_pixel: |_| false,
    requirement: no_requirement,
    uses_fp32_units: true,
    grid: Grid::Partition(RowPartition {
        // A block reads no more rows of its neighbour than of its own.
        least_rows: |_, mask_height| BLOCK.1.max(mask_height),
        block_row_alignment: 1,
        launch_row_alignment: 1,
        occupancy: |_, _| Occupancy { blocks_per_sm: BLOCKS_PER_SM, waves: WAVES },
    }),
    block: |_| BLOCK,
    outputs: |_, _| (OUTPUT_COLUMNS, BLOCK.1),
    pixels_together: 1,
    shared_bytes: |_, (width, height)| shared_bytes(width, height),
    launch_bounds: no_launch_bounds,
    convergent: |_| CONVERGENT,
};
