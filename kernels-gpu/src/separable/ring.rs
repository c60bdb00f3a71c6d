//! Masks of rank 1 of any size in one pass, through a ring of filtered rows in shared memory.
//!
//! What [`separable`](crate::separable::error_bound) computes, in the same order and with the same bits, for the sizes that it has
//! no kernel for. There a thread's sums hold the rows that are still needed, one register a column and a row of the
//! mask; here the filtered rows `T` themselves are held, in shared memory.
//!
//! [`separable_tile`](crate::separable::block_tile) is faster for masks of up to 129 rows, and needs compute capability 8.0.
//!
//! # Thread mapping and tiling
//! A block of 8 warps owns 256 columns and a strip of rows, `ceil(rows / grid_dim_y)` of them, and goes down 8 rows a
//! step:
//! 1. Each warp filters one new row of pixels, 8 neighbouring columns a thread, and puts it into the ring.
//! 2. After a barrier each thread adds up one column for 8 rows of outputs, those whose windows end with the new rows.
//! ```text
//!   group    0   1   2  …  m-1   m        the m + 1 groups of 8 rows that the outputs of this step need, in a ring of
//! m + 2: ┌───┬───┬───┬─────┬───┬───┐    while some threads still read them, others write the next group into the
//! └───┴───┴───┴─────┴───┴───┘    one that is left, so one barrier a step is enough
//! ```
//! The column's coefficients are shifted by `skip`, so that the windows of the first row of outputs begin with a group:
//! then a step of 8 coefficients needs 16 rows, 8 of which are the next step's, and the ring wraps between groups only.
//!
//! Alignment and edges are those of [`register_tile`](crate::direct::register_tile).
//!
//! # What it costs
//! `mask_width + mask_height` products for each output, and the first `mask_height - 1` rows of each strip filtered
//! twice. A step of 64 products takes 2 loads of coefficients and 2 of pixels or 8 of filtered ones, and 8 moves.
//!
//! On an H200 (8192 x 8192, one channel, zero border):
//!
//! | | 3 x 3 | 8 x 8 | 16 x 16 | 31 x 31 | 63 x 63 | 95 x 95 | 127 x 127 |
//! | --- | --- | --- | --- | --- | --- | --- | --- |
//! | µs | 215 | 225 | 300 | 478 | 1065 | 2401 | 3157 |

use cuda_std::prelude::*;

use super::error_bound::error_constant;
use crate::abi::border;
use crate::abi::kernel::Convergent;
use crate::abi::params::Params;
use crate::common::partition::block_rows;
use crate::direct::register_tile::{COLUMNS, STEP, Source, columns_read, filled_up};
use crate::registry::{
    Accuracy, Arithmetic, FactorPlaces, Grid, MaskForm, MaskMemory, Occupancy, Partition, Spec, f32_result,
    no_launch_bounds, no_requirement,
};
use crate::teaching::constant_mask::MASK;

/// Threads of a block.
pub const BLOCK: (u32, u32) = (32, 8);

/// Rows of a step.
pub(crate) const ROWS: u32 = BLOCK.1;

/// Columns that a block computes, stored or not: one a thread.
const COMPUTED: u32 = BLOCK.0 * BLOCK.1;

/// How many times as many blocks as the device holds at a time a launch should have, as measured with the times above.
pub const WAVES: u32 = 4;

/// Blocks that the registers of a multiprocessor hold at a time on compute capability 9.0; shared memory may hold
/// fewer.
pub const RESIDENT: u32 = 4;

/// Outputs of a block in x. In y, the rows of the grid share out the image's.
pub const OUTPUT_COLUMNS: u32 = COMPUTED - 4;

const _: () = assert!(COMPUTED == BLOCK.0 * COLUMNS as u32 && ROWS as usize == STEP);

/// How far the column's coefficients are shifted.
#[inline(always)]
const fn skip(mask_height: u32) -> u32 {
    (mask_height - 1).wrapping_neg() % ROWS
}

/// Whole groups in the window of an output: `m`.
#[inline(always)]
const fn groups(mask_height: u32) -> u32 {
    (skip(mask_height) + mask_height - 1) / ROWS
}

/// The dynamic shared memory that a launch needs, in bytes: the row's and the column's coefficients, the table of
/// columns, the ring.
#[must_use]
pub const fn shared_bytes(mask_width: u32, mask_height: u32) -> u64 {
    let coefficients = filled_up(mask_width) as u64 + filled_up(mask_height + ROWS) as u64;
    let ring = (groups(mask_height) as u64 + 2) * (ROWS * COMPUTED) as u64;
    (coefficients + columns_read(mask_width) as u64 + ring) * size_of::<f32>() as u64
}

/// What the kernel has of each convergent instruction: a barrier behind which the ring is filled with zeros, and one in
/// each step.
pub const CONVERGENT: Convergent = Convergent::barriers(2);

/// The kernel.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, begin at a multiple of 16 bytes and do
///   not overlap.
/// - [`struct@MASK`] holds the `mask_width` coefficients of the mask's row and the `mask_height` of its column after
///   them, both in window order.
/// - The block is [`BLOCK`], the dynamic shared memory at least [`shared_bytes`].
#[inline(always)]
pub unsafe fn separable_ring(image: Global<f32>, result: GlobalMut<f32>, params: Params) {
    let (tx, ty) = (thread::thread_idx_x(), thread::thread_idx_y());
    let (mask_width, mask_height) = (params.mask_width as u32, params.mask_height as u32);
    let first_column = (thread::block_idx_x() * OUTPUT_COLUMNS) as i32;
    // The first column of pixels is a multiple of 4.
    let left = (first_column - params.origin_x) & !3;
    let (first, rows) = block_rows::<1>(&params);
    let top = first - params.origin_y;
    let edge = params.src_pitch & 3 != 0 || !params.contains::<1>(left, 0, columns_read(mask_width) as i32, 1);

    let row = Shared::<f32>::dynamic();
    let column = row.offset(filled_up(mask_width));
    let table = column.offset(filled_up(mask_height + ROWS)).cast::<i32>();
    let ring = table.offset(columns_read(mask_width)).cast::<f32>();
    // SAFETY: shared and constant memory are as the caller promised.
    unsafe { fill(row, column, table, ring, left, &params) };
    // SAFETY: all threads are here: no thread has returned, and no branch is around the barrier.
    unsafe { thread::sync_threads() };

    // The column of the image that this thread adds up, and whether it is one of the block's outputs.
    let own = ty * BLOCK.0 + tx;
    let x = left + params.origin_x + own as i32;
    let stores = x >= first_column && x < params.width.min(first_column + OUTPUT_COLUMNS as i32);
    let ring_groups = groups(mask_height) + 2;
    let mut slot = 0;
    // The first of the 8 rows that come into the ring, counted from the strip's first row of pixels.
    let mut new = 0;
    while new < rows + mask_height as i32 - 1 {
        thread::no_unroll();
        let y = top + new + ty as i32;
        let inside = !edge && (y as u32) < params.height as u32;
        let mapped = if inside { y } else { border::map(params.border, y, params.height) };
        let x_of_pixels = if inside { left + (tx * COLUMNS as u32) as i32 } else { 0 };
        let source = Source {
            pixels: image.offset(params.src_index(x_of_pixels, mapped)),
            columns: table.offset(tx * COLUMNS as u32),
            edge: !inside,
            exists: mapped >= 0,
            border_value: params.border_value,
        };
        // SAFETY: source, coefficients and table are as they should; each thread has its own 8 columns of its warp's
        // row.
        unsafe {
            let filtered = filter(&source, row, mask_width);
            let to = ring.offset((slot * ROWS + ty) * COMPUTED + tx * COLUMNS as u32).cast::<F32x4>();
            to.store(0, F32x4([filtered[0], filtered[1], filtered[2], filtered[3]]));
            to.store(1, F32x4([filtered[4], filtered[5], filtered[6], filtered[7]]));
        }
        // SAFETY: all threads are here: the loop over rows depends on the block alone.
        unsafe { thread::sync_threads() };

        let output = new - (mask_height as i32 - 1);
        if output + ROWS as i32 > 0 {
            // SAFETY: all groups but the newest were filled in before the barrier, or at the start.
            let sums = unsafe { add_column(ring.offset(own), column, slot, mask_height) };
            for (o, &sum) in sums.iter().enumerate() {
                let o = output + o as i32;
                if stores && o >= 0 && o < rows {
                    // SAFETY: the output lies in the result; columns and rows are this thread's alone.
                    unsafe { result.store(params.dst_index(x, first + o), params.finish(sum)) };
                }
            }
        }
        slot = if slot + 1 == ring_groups { 0 } else { slot + 1 };
        new += ROWS as i32;
    }
}

/// Fills in the coefficients and the table, and the ring with zeros: what outputs above the strip would read.
///
/// # Safety
/// As for [`separable_ring`].
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
    each(filled_up(mask_width), &|i| {
        // SAFETY: the array has this length by `shared_bytes`, here and below; the host set the coefficients.
        unsafe { row.store(i, if i < mask_width { MASK.load(i as usize) } else { 0.0 }) };
    });
    each(filled_up(mask_height + ROWS), &|i| {
        let k = i.wrapping_sub(skip);
        // SAFETY: as above.
        unsafe { column.store(i, if k < mask_height { MASK.load((mask_width + k) as usize) } else { 0.0 }) };
    });
    each(columns_read(mask_width), &|i| {
        // SAFETY: as above.
        unsafe { table.store(i, border::map(params.border, left + i as i32, params.width)) };
    });
    each((groups(mask_height) + 2) * ROWS * COMPUTED, &|i| {
        // SAFETY: as above.
        unsafe { ring.store(i, 0.0) };
    });
}

/// Eight coefficients from `coefficients` on, which are aligned to 16 bytes.
///
/// # Safety
/// They are filled in.
#[inline(always)]
unsafe fn eight(coefficients: Shared<f32>) -> [f32; STEP] {
    let quads = coefficients.cast::<F32x4>();
    // SAFETY: the caller's promise.
    let (F32x4([a, b, c, d]), F32x4([e, f, g, h])) = unsafe { (quads.load(0), quads.load(1)) };
    [a, b, c, d, e, f, g, h]
}

/// Filters eight neighbouring columns of a row of pixels.
///
/// # Safety
/// `row` holds the filled-up coefficients, `source` the columns that the block reads.
#[inline(always)]
unsafe fn filter(source: &Source, row: Shared<f32>, mask_width: u32) -> [f32; COLUMNS] {
    let mut sums = [0.0; COLUMNS];
    // SAFETY: `first` is below the mask's width, here and below, so that the columns end with those that the block
    // reads.
    let mut window = [unsafe { source.read(0) }, [0.0; COLUMNS]];
    let mut first = 0;
    while first < mask_width {
        thread::no_unroll();
        // SAFETY: see above; the coefficients are filled up to whole steps.
        let factors = unsafe {
            window[1] = source.read(first + STEP as u32);
            eight(row.offset(first))
        };
        add(&mut sums, &window, &factors, 0, thread::black_box(mask_width - first));
        window[0] = window[1];
        first += STEP as u32;
    }
    sums
}

/// Adds up a column of the ring, whose newest group is in `slot`, for eight rows of outputs.
///
/// # Safety
/// `ring` begins with the thread's column and holds its groups, `column` the shifted coefficients.
#[inline(always)]
unsafe fn add_column(ring: Shared<f32>, column: Shared<f32>, slot: u32, mask_height: u32) -> [f32; COLUMNS] {
    let (skip, groups) = (skip(mask_height), groups(mask_height));
    let read = |slot: u32| -> [f32; COLUMNS] {
        // SAFETY: the slot is one of the ring's.
        core::array::from_fn(|i| unsafe { ring.load((slot * ROWS + i as u32) * COMPUTED) })
    };
    let mut sums = [0.0; COLUMNS];
    // Two slots further on: the oldest group that is needed.
    let mut slot = if slot >= groups { slot - groups } else { slot + 2 };
    let mut window = [read(slot), [0.0; COLUMNS]];
    let mut from = skip;
    for group in 0..groups {
        thread::no_unroll();
        slot = if slot == groups + 1 { 0 } else { slot + 1 };
        window[1] = read(slot);
        // SAFETY: the coefficients are filled up to whole steps.
        let factors = unsafe { eight(column.offset(group * ROWS)) };
        add(&mut sums, &window, &factors, thread::black_box(from), STEP as u32);
        window[0] = window[1];
        from = 0;
    }
    // What is left is one coefficient: the shift makes the last group begin with it.
    // SAFETY: see above.
    let factors = unsafe { eight(column.offset(groups * ROWS)) };
    // Without a whole group before it, it is the only one, and nothing was shifted.
    for (sum, &value) in sums.iter_mut().zip(&window[0]) {
        *sum = fma(value, factors[0], *sum);
    }
    sums
}

/// Adds a step: eight neighbouring sums get the coefficients from number `from` to below `to`, in this order.
#[inline(always)]
fn add(sums: &mut [f32; COLUMNS], window: &[[f32; COLUMNS]; 2], factors: &[f32; STEP], from: u32, to: u32) {
    let mut one = |l: usize| {
        for (c, sum) in sums.iter_mut().enumerate() {
            *sum = fma(window[(l + c) / COLUMNS][(l + c) % COLUMNS], factors[l], *sum);
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
        |image, result, _mask, params| separable_ring(image, result.cast(), params)
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "separable_ring",
    summary: "separable masks of any size: rows, then columns, through a ring in shared memory",
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
    grid: Grid::Partition(Partition {
        // A block reads no more rows of its neighbour than of its own.
        least_rows: |_, mask_height| BLOCK.1.max(mask_height),
        step: 1,
        row_step: 1,
        occupancy: |_, _| Occupancy { blocks_per_sm: RESIDENT, waves: WAVES },
    }),
    block: |_| BLOCK,
    outputs: |_| (OUTPUT_COLUMNS, BLOCK.1),
    shared_bytes: |_, (width, height)| shared_bytes(width, height),
    launch_bounds: no_launch_bounds,
    convergent: |_| CONVERGENT,
};
