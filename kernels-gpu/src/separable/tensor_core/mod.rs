//! Separable masks in the tensor cores: `f32` split in two, both passes in registers.
//!
//! `T[y, x] = sum over l of row[l] * I[y, x - origin_x + l]`,
//! `O[y, x] = sum over k of column[k] * T[y - origin_y + k, x]`, as products of small matrices.
//!
//! For large masks the multiply-adds of two passes take longer than the memory traffic. Tensor cores have many times
//! the rate of the FP32 units, but take only short numbers.
//!
//! # Splitting
//! The first 11 significant bits of a number are its `tf32`, with the range of an `f32`. A second word holds two
//! `bf16`: the residual and the full value, each rounded to 8 bits. For a coefficient `m` and a pixel `p`
//! ```text
//! m p  ~  high(m) high(p)  +  [all(m), residual(m)] . [residual(p), all(p)]
//! ```
//! So one product of `tf32` matrices and one of `bf16` pairs, of the same shape and the same time, replace a product of
//! `f32`. There is no common scale: each pixel is split on its own.
//!
//! # Row pass
//! The left operand is a Toeplitz matrix of coefficients: 16 rows, each with the mask's row one column further right.
//! The right operand is pixels, 8 columns of 8 rows. So 16 outputs take `ceil((K + 15) / 8)` products.
//!
//! # Channels
//! Interleaved channels stay interleaved in shared memory. With two and four channels a warp computes two or four of
//! them [`together`]. A lane loads these channels of a pixel as a vector, and stores those of a result as one. Each
//! channel is a tile of the column pass.
//!
//! With three channels a warp computes one channel. Its lanes step by three values from pixel to pixel. The results of
//! a warp are three values apart in a row, so its stores would not be coalesced. Instead the block collects the results
//! of a step in shared memory. It stores them as whole rows in the next step.
//!
//! # Column pass
//! The accumulators of the row pass, 16 columns of 8 rows, lie in the lanes as the left operand of the column pass
//! needs them. Only the order of the rows differs, and the coefficients are permuted instead. So no lane exchanges
//! data. The pass adds the filtered rows to the sums of all groups of 8 outputs whose windows they touch: [`blocks`]
//! groups. Unfinished sums stay in registers.
//!
//! # Thread mapping and tiling
//! A warp owns 16 or 32 columns ([`warp_columns`]) and walks down a strip in steps of 32 or 16 [`rows`]. It filters 32,
//! 16 or 8 rows at a time ([`subtiles`]). A warp that computes four channels filters twice in a step. The block copies
//! rows to shared memory ([`cuda_std::cp_async`]): two steps ahead with one channel, one step ahead with several. A
//! step has one barrier.
//!
//! # Design constraints
//! - *Shared-memory bandwidth.* The coefficients lie in shared memory as the lanes take them, 16 bytes a lane. Each
//!   load is used four times: for 32 rows, for two tiles of 16 rows, or for four channels of 8 rows.
//! - *Registers.* A lane has 4 sums for each tile and each group of 8 unfinished outputs, up to 128. So a
//!   multiprocessor has 8 to 16 [`warps`].
//! - *Truncation.* The tensor cores take the first 11 bits of a pixel anyway, so splitting it is three instructions.
//! - *Edge.* If the border is zero, the copies fill it in: blocks at the edge are as fast as others.
//!
//! # Order and rounding
//! Within a step the tensor cores add everything, from the left and from above. The sums of the steps are added in
//! `f32`. [`error_constant`] bounds the error. The order within a tensor core is not documented: bits differ between
//! generations of devices, and with the place of an output in its 16 columns and 8 to 32 rows. They do not depend on
//! the partition, the number of blocks or the run, if launches begin a multiple of [`STRIP_STEP`] rows apart.
//!
//! # NaN, infinity, overflow
//! A zero of the Toeplitz matrix times infinity is NaN, in outputs whose window does not hold the infinity. So where a
//! warp has a sum that is not finite, `nonfinite_fallback` computes its outputs again, in `f32`. NaN and infinity then
//! reach only the outputs that they must. The fallback is up to a hundred times as slow. The test covers all rows and
//! channels that the warp filters at a time, including rows below the last row of the launch. A NaN selects the
//! fallback for all of them, which may change their last bits.
//!
//! The host uses the kernel only for coefficients far from the ends of the range: [`EXPONENTS`].
//!
//! # Cost
//! 256 outputs take `2 (blocks + 1)` products of either kind in the row pass, and `2 blocks` in the column pass. A
//! tensor core of compute capability 9.0 takes 6.8 cycles for one.
//!
//! H100, 2026-11-21, 8192 x 8192, one channel: 263 µs up to 65 x 65, 464 µs up to 129 x 129; memory alone takes 178 µs.

mod error;
mod layout;
mod nonfinite_fallback;
mod passes;
mod split;
mod store;

use cuda_std::cp_async::{commit_group, wait_group};
use cuda_std::prelude::*;

pub use self::error::error_constant;
use self::layout::{TABLES, elements, is_staged, lead, odd, pitch, staged_values, stages, vectors};
pub use self::layout::{blocks, columns, rows, shared_bytes, subtiles, tiles, together, warp_columns, warps};
use self::nonfinite_fallback::filter;
use self::passes::{are_finite, black_box_f32, filter_columns, filter_rows};
use self::split::{Operand, bf16_pairs, tf32_parts};
use self::store::{Results, Staged};
use super::block_tile;
use crate::abi::kernel::Convergent;
use crate::abi::params::Params;
use crate::common::async_rows::{Partition, RowCopies, STEP_ROWS, VECTOR, counts_fit_in_word, interior_vectors};
use crate::common::partition::block_rows;
use crate::registry::{
    Accuracy, Arithmetic, FactorPlaces, Grid, Ineligible, MaskClass, MaskForm, MaskMemory, Occupancy, RowPartition,
    Spec, f32_result,
};

/// Threads of the largest blocks. [`warps`] has those of each kernel.
pub const BLOCK: (u32, u32) = (32 * warps(1, 9), 1);
/// Blocks that the registers of a multiprocessor hold at a time, on compute capability 9.0.
pub const BLOCKS_PER_SM: u32 = 1;
/// Blocks of a launch for each resident block of the device.
pub const WAVES: u32 = 1;
/// The range of the binary exponents of nonzero coefficients. Below `2^-114`, `bf16` loses bits of the residual.
pub const EXPONENTS: (i32, i32) = (-100, 100);
/// Strips begin a multiple of this many rows apart. It is a multiple of [`rows`] for every kernel.
pub const STRIP_STEP: u32 = 32;

/// The convergent instructions of the source, for masks of up to this many [`blocks`].
#[must_use]
pub const fn convergent(channels: u32, blocks: u32) -> Convergent {
    let tiles = tiles(channels, blocks) * subtiles(channels, blocks);
    // Each product is done with the tf32 parts and with the bf16 pairs. The 16 outputs of a tile need one block more in
    // the row pass.
    let (row_pass, column_pass) = (2 * tiles * (blocks + 1), 2 * tiles * blocks);
    Convergent {
        // One after which the tables are complete, one in each step. One before the last stores of collected results.
        barriers: if is_staged(channels) { 3 } else { 2 },
        warp_barriers: 0,
        matrix_products: row_pass + column_pass,
        // `pin_register`: the partition of the copies, the offset in the table, the offset in the pixels.
        shuffles: 3,
        // `are_finite`.
        votes: 1,
    }
}

/// Rows of a matrix product.
const SUBTILE: u32 = 8;

/// The accumulators of a lane: 16 columns of 8 rows in a warp.
type Sums = [f32; 4];

/// Filtered pixels as operands: 16 columns of 8 rows in a warp.
type Filtered = [Operand; 4];

/// The kernel for images of `C` interleaved channels, and masks of up to `BLOCKS` [`blocks`].
///
/// `PENDING` is `BLOCKS - 1`. `TOGETHER`, `TILES`, `SUBTILES`, `COLUMNS` and `ROWS` are [`together`], [`tiles`],
/// [`subtiles`], [`warp_columns`] and [`rows`]. `THREADS` is 32 times [`warps`].
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, and do not overlap.
/// - `image`, `result` and each row of `result` begin at multiples of 16 bytes.
/// - `mask` holds the `mask_width` coefficients of the row, then the `mask_height` of the column.
/// - [`blocks`] of the mask is at most `BLOCKS`.
/// - The block is one row of `THREADS`, the dynamic shared memory at least [`shared_bytes`].
#[inline(always)]
pub unsafe fn tensor_core<
    const C: u32,
    const BLOCKS: usize,
    const PENDING: usize,
    const TOGETHER: usize,
    const TILES: usize,
    const SUBTILES: usize,
    const COLUMNS: u32,
    const ROWS: u32,
    const THREADS: u32,
>(
    image: Global<f32>,
    result: GlobalMut<f32>,
    mask: Global<f32>,
    params: Params,
) {
    const {
        let blocks = BLOCKS as u32;
        assert!(BLOCKS == PENDING + 1 && PENDING.is_multiple_of(SUBTILES) && THREADS == 32 * warps(C, blocks));
        assert!(TILES as u32 == tiles(C, blocks) && SUBTILES as u32 == subtiles(C, blocks));
        assert!(
            TOGETHER as u32 == together(C, blocks) && COLUMNS == warp_columns(C, blocks) && ROWS == rows(C, blocks)
        );
        assert!(counts_fit_in_word(C, vectors(C, blocks), THREADS));
        // The warps of a block have all channels of whole pixels. A step whose results are collected is one pass.
        assert!((warps(C, blocks) * TOGETHER as u32).is_multiple_of(C));
        assert!(!is_staged(C) || ROWS == SUBTILES as u32 * SUBTILE);
    };
    let blocks = BLOCKS as u32;
    // The rows that a warp filters at a time, and whether it does so twice in a step.
    let rows_at_once = const { SUBTILES as u32 * SUBTILE };
    let repeats = const { ROWS > SUBTILES as u32 * SUBTILE };
    let (pitch, vectors, elements) = (pitch(C, blocks), vectors(C, blocks), elements(blocks));
    let stages = const { stages(C) };
    let (lead, odd) = (lead(C, params.origin_x), if C == 1 { odd(params.origin_x) } else { 0 });
    let first_column = (thread::block_idx_x() * columns(C, blocks)) as i32;
    let left = (first_column - params.origin_x) * C as i32 - lead as i32;
    let (first, rows) = block_rows::<STRIP_STEP>(&params);
    if rows <= 0 {
        return;
    }
    let thread = thread::thread_idx_x();

    let pixels = Shared::<f32>::dynamic();
    let tables = pixels.offset(stages * ROWS * pitch);
    let border_table = tables.offset(TABLES * 4 * elements);
    let staged = border_table.offset(VECTOR * vectors);
    // SAFETY: all threads are here: only whole blocks have returned.
    let partition = RowCopies::<C, THREADS>::partition(unsafe { pin_register(thread) });
    let mut copies = RowCopies::<C, THREADS> {
        image,
        params,
        interior: interior_vectors::<C>(left, vectors, &params),
        left,
        y: first - params.origin_y,
        to: pixels.offset(partition.row * pitch + partition.vector * VECTOR),
        vectors,
        pitch,
        table: border_table.cast(),
    };
    // SAFETY: the border table has an element for each value of the vectors, as in `shared_bytes`; it is read after the
    // next barrier.
    unsafe { copies.fill_table(thread) };
    let tables = tables.cast::<F32x4>();
    let mut i = thread;
    while i < elements {
        thread::no_unroll();
        let first = i as i32 - 7;
        let coefficient = |from: i32, count: i32, k: i32| {
            // SAFETY: 0 <= k < count, and `mask` holds the `count` coefficients from `from` on.
            if k >= 0 && k < count { unsafe { mask.load((from + k) as isize) } } else { 0.0 }
        };
        let of_row = if C == 1 { [0, -8, 1, -7] } else { [0, -8, 4, -4] };
        let of_row = of_row.map(|k| coefficient(0, params.mask_width, first - odd as i32 + k));
        let of_column = [0, 1].map(|k| coefficient(params.mask_width, params.mask_height, first + k));
        let of_column = [of_column[0], of_column[1], 0.0, 0.0];
        let (first, second) = (tf32_parts(of_column), bf16_pairs(of_column));
        // SAFETY: i < elements, the length of each of the three tables; element i is this thread's alone.
        unsafe {
            tables.store(i, F32x4(tf32_parts(of_row)));
            tables.store(elements + i, F32x4(bf16_pairs(of_row)));
            tables.store(2 * elements + i, F32x4([first[0], first[1], second[0], second[1]]));
        }
        i += THREADS;
    }

    let (warp, lane) = (thread / 32, thread % 32);
    let (g, t) = (lane / 4, lane % 4);
    // The lane's first pixel of each 8. With one channel it reads this one and the next, with several channels this one
    // and the fourth after it.
    let pixel = if C == 1 { 2 * t } else { t };
    // SAFETY: all threads are here: only whole blocks have returned.
    let row_table = tables.offset(unsafe { pin_register(7 + pixel - g) });
    let column_table = row_table.offset(2 * elements + 2 * t - pixel);
    let (column, channel) = place::<C, TOGETHER, COLUMNS>(warp);
    // SAFETY: all threads are here: only whole blocks have returned.
    let own = pixels.offset(unsafe { pin_register(g * pitch + (column + pixel) * C + channel + lead - odd) });
    let counts = copies.partition_counts(partition);

    // After the barrier the tables are complete.
    // SAFETY: all threads are here: only whole blocks have returned.
    unsafe { thread::sync_threads() };
    // SAFETY: the branch is uniform, the border table complete; no thread uses the buffers yet.
    unsafe {
        let mut i = 0;
        // black_box keeps LLVM from unrolling the loop.
        while i < thread::black_box(stages - 1) {
            thread::no_unroll();
            copy_step::<C, THREADS, ROWS>(&mut copies, i * ROWS * pitch, partition, counts);
            i += 1;
        }
    }
    let staged =
        Staged::<C, BLOCKS, THREADS> { values: staged, result, params, first: (first_column * C as i32, first), rows };
    let mut pending = [[[0.0; 4]; TILES]; PENDING];
    // The first output row that this step finishes, relative to the strip. The first steps only begin sums.
    let mut done = -((SUBTILE as usize * PENDING) as i32);
    let (mut write, mut read) = ((stages - 1) * ROWS * pitch, 0);
    loop {
        thread::no_unroll();
        // After the barrier this step's rows have arrived, and the buffer of the step before is free.
        if stages == 3 {
            wait_group::<1>();
        } else {
            wait_group::<0>();
        }
        // SAFETY: all threads are here: the loop depends on the block alone.
        unsafe { thread::sync_threads() };
        if done + (((stages - 1) * ROWS) as i32) < rows {
            // SAFETY: the branch is uniform; the buffer is free since the barrier.
            unsafe { copy_step::<C, THREADS, ROWS>(&mut copies, write, partition, counts) };
        } else {
            commit_group();
        }
        // The buffer for the results of this step, if they are collected. Then `read` is 0 in every other step.
        let fill = if read == 0 { 0 } else { staged_values(C, blocks) };
        if is_staged(C) && done >= ROWS as i32 {
            let ready = staged_values(C, blocks) - fill;
            // SAFETY: all threads are here. The step before has put the values there, and the barrier has passed.
            unsafe { staged.store(ready, done - ROWS as i32) };
        }
        let mut pass = 0;
        // black_box keeps LLVM from unrolling the loop, if it has two iterations.
        let end = if repeats { thread::black_box(ROWS) } else { ROWS };
        while pass < end {
            if repeats {
                thread::no_unroll();
            }
            let done = done + pass as i32;
            let from = own.offset(read + pass * pitch);
            // SAFETY: all lanes are here. The rows arrived and the tables were written before the barrier. Rows `done`
            // to `rows - 1` of the strip belong to this warp alone, in its columns and its channels. The step before
            // has stored what was in buffer `fill`.
            unsafe {
                let filtered = filter_rows::<C, BLOCKS, TOGETHER, TILES, SUBTILES>(from, pitch, row_table, elements);
                let zero = (params.width >> 31) as u32;
                filter_columns(&filtered, column_table, zero, &mut pending, |finished: &[[Sums; TILES]; SUBTILES]| {
                    let most = rows - done;
                    // Rematerialized in each step, so that no register holds it.
                    let warp = thread::black_box(thread::thread_idx_x()) / 32;
                    let (column, channel) = place::<C, TOGETHER, COLUMNS>(warp);
                    let (x, y) = (first_column + column as i32, first + done);
                    // black_box_f32: also rematerialized.
                    let params = Params { scale: black_box_f32(params.scale), ..params };
                    let (scale, offset) = params.exact_finish();
                    // The second pass of a step may begin below the last row.
                    if done < 0 || repeats && most <= 0 {
                        return;
                    }
                    if !are_finite(finished) {
                        let end = channel + TOGETHER as u32;
                        let mut channel = channel;
                        while channel < end {
                            if TOGETHER > 1 {
                                thread::no_unroll();
                            }
                            let corner = (x, y, channel);
                            filter::<C, COLUMNS, SUBTILES>((image, mask), &params, corner, |lane, row, sum| {
                                let value = fma(sum, scale, offset);
                                if is_staged(C) {
                                    staged.put_value(fill, (column + lane, channel), row, value);
                                } else if x + (lane as i32) < params.width && (row as i32) < most {
                                    // SAFETY: the value lies in the result. The column is this lane's alone.
                                    let v = (x + lane as i32) * C as i32 + channel as i32;
                                    result.offset(params.dst_index(v, y + row as i32)).store(0, value);
                                }
                            });
                            channel += 1;
                        }
                    } else if is_staged(C) {
                        staged.put(fill, finished, (column, channel), (scale, offset));
                    } else {
                        let results = Results::<C, TOGETHER> { result, params, x, y, channel, scale, offset };
                        let is_clipped = x + COLUMNS as i32 > params.width || most < rows_at_once as i32;
                        if is_clipped {
                            results.store_clipped(finished, most);
                        } else {
                            results.store(finished);
                        }
                    }
                });
            }
            pass += rows_at_once;
        }
        done += ROWS as i32;
        if done >= rows {
            if is_staged(C) {
                // SAFETY: all threads are here: the loop depends on the block alone. After the barrier the values of
                // this step are there.
                unsafe {
                    thread::sync_threads();
                    staged.store(fill, done - ROWS as i32);
                }
            }
            return;
        }
        write = read;
        read = if read == (stages - 1) * ROWS * pitch { 0 } else { read + ROWS * pitch };
    }
}

/// The first column and the first channel of a warp. Warps with the same columns and other channels follow each other.
#[inline(always)]
fn place<const C: u32, const TOGETHER: usize, const COLUMNS: u32>(warp: u32) -> (u32, u32) {
    let warps = const { C / TOGETHER as u32 };
    (warp / warps * COLUMNS, warp % warps * TOGETHER as u32)
}

/// Begins the copies of a step's rows and commits them as one group.
///
/// # Safety
/// As for [`RowCopies::copy_partitioned`].
#[inline(always)]
unsafe fn copy_step<const C: u32, const THREADS: u32, const ROWS: u32>(
    copies: &mut RowCopies<C, THREADS>,
    at: u32,
    partition: Partition,
    counts: u32,
) {
    let mut row = 0;
    while row < ROWS {
        // SAFETY: the conditions are those of `copy_step`, for STEP_ROWS of the rows.
        unsafe { copies.copy_partitioned(at + row * copies.pitch, partition, counts) };
        row += STEP_ROWS as u32;
    }
    commit_group();
}

/// The number, shuffled with itself. Otherwise the assembler recomputes it from the thread's index at each use.
///
/// # Safety
/// All 32 lanes of the warp execute this call together.
#[inline(always)]
unsafe fn pin_register(number: u32) -> u32 {
    // SAFETY: all lanes are here, as required.
    unsafe { warp::shuffle_xor(number, 0) }
}

crate::registry::instances! {
    SeparableTensorCore;
    sm_80 "separable_tensor_core_{T}_c{C}_blocks_{BLOCKS}" for T in [f32], C in [1], BLOCKS in [5, 7, 9, 13, 17];
    sm_80 "separable_tensor_core_{T}_c{C}_blocks_{BLOCKS}" for T in [f32], C in [2, 3, 4], BLOCKS in [5, 9, 13, 17];
        |image, result, mask, params| {
            tensor_core::<
                C,
                { BLOCKS as usize },
                { BLOCKS as usize - 1 },
                { together(C, BLOCKS) as usize },
                { tiles(C, BLOCKS) as usize },
                { subtiles(C, BLOCKS) as usize },
                { warp_columns(C, BLOCKS) },
                { rows(C, BLOCKS) },
                { 32 * warps(C, BLOCKS) },
            >(image, result.cast(), mask, params)
        }
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "separable_tensor_core",
    summary: "separable masks in the tensor cores, each number split into two",
    reason: "a separable mask: rows, then columns, in the tensor cores, within an error bound",
    accuracy: Accuracy::Bounded {
        error_constant: |entry, _| error_constant(entry.channels, entry.class()),
        arithmetic: Arithmetic::SplitTf32,
    },
    mask_memory: MaskMemory::Global,
    mask_form: MaskForm::Factors(FactorPlaces::side_by_side),
    mask_class: Some(MaskClass {
        contains: |class, (width, height), origin_x| blocks(width, height, origin_x) <= class,
        example: |class| (2, 8 * class - 7),
        masks: "masks of up to 129 columns and rows; one column less with some anchors",
    }),
    results: f32_result,
    border_is_pixel: |_| false,
    requirement: |request| match request.factor_exponents {
        Some((least, most)) if least < EXPONENTS.0 || most > EXPONENTS.1 => Err(Ineligible::Range {
            property: "binary exponents of the coefficients of the row and column factors",
            required: (EXPONENTS.0 as f32, EXPONENTS.1 as f32),
            found: (least as f32, most as f32),
        }),
        Some(_) | None => Ok(()),
    },
    uses_fp32_units: false,
    grid: Grid::Partition(RowPartition {
        least_rows: |entry, mask_height| rows(entry.channels, entry.class()) + block_tile::padded_halo(mask_height),
        block_row_alignment: STRIP_STEP,
        launch_row_alignment: STRIP_STEP,
        occupancy: |_, _| Occupancy { blocks_per_sm: BLOCKS_PER_SM, waves: WAVES },
    }),
    block: |entry| (32 * warps(entry.channels, entry.class()), 1),
    outputs: |entry, _| (entry.channels * columns(entry.channels, entry.class()), rows(entry.channels, entry.class())),
    pixels_together: 1,
    shared_bytes: |entry, _| shared_bytes(entry.channels, entry.class()),
    // One resident block is enough. So ptxas may give each thread its part of all 65,536 registers.
    launch_bounds: |entry| Some((32 * warps(entry.channels, entry.class()), 1)),
    convergent: |entry| convergent(entry.channels, entry.class()),
};
