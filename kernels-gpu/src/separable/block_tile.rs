//! Masks of rank 1 in one pass, 16 rows at a time: rows in shared memory, the sums of their columns in registers.
//!
//! What [`separable`](crate::separable::error_bound) computes, in the same order and with the same bits. There a thread filters the
//! row of its own columns, and reads the pixels beside them again and again; here a block filters 16 rows together, and
//! hands them on.
//!
//! # Thread mapping and tiling
//! A block owns as many columns as it has threads, and a strip of rows, `ceil(rows / grid_dim_y)` of them. It goes down
//! in steps:
//! ```text
//!   step s + 2   16 rows of pixels are copied into shared memory, without registers ([`cuda_std::cp_async`])
//!   step s + 1   each thread filters 16 neighbouring columns of one of 16 rows, and puts them into shared memory
//!   step s       each thread adds the 16 filtered rows of its own column to the sums of all outputs that need them
//! ```
//! All three at the same time, for three different groups of rows, so that one barrier a step is enough. For either
//! pass a thread needs 16 coefficients for 256 products, and 16 values. The sums that are not finished move up by 16,
//! by being computed there: the free shift of [`sliding_window`](crate::direct::sliding_window).
//!
//! # What shapes it
//! - *Wide blocks.* 512 columns took 5 % less time than 256 at 21 x 21, those 5 % less than 128. One block then fills a
//!   multiprocessor.
//! - *Instruction cache.* Multiply-adds with a coefficient in a uniform register run at 65.6 TFLOP/s in a loop of up to
//!   32 KiB of code, at 35 in one of 48. So for large masks the row pass is a loop, and the column pass takes 8 rows at
//!   a time ([`group`]).
//! - *Coefficients in uniform registers*, two a load: they stand at places that the kernel knows ([`column_at`],
//!   [`row_at`]).
//! - *Walking together.* The warps fetch the same code, and seem to do so best at the same time: without the barrier
//!   63 x 63 is 6 % slower, and with half of the warps a pass ahead of the others 31 x 31 is 8 %.
//! - *No block slower than the others.* All blocks begin together, and the slowest one is the kernel's time. So one at
//!   the image's edge copies its whole pieces as any other does, and only the few at its edge in another way.
//! - *Registers.* A thread has a sum for each row of the mask. The PTX says how many threads a block has, so that the
//!   assembler knows how many registers it may take ([`threads`]).
//!
//! # What it costs
//! `mask_width + mask_height` products for each output, and in each strip [`reach`] rows more than it has. A step of 21
//! x 21 is 690 multiply-adds of about 880 instructions, for 16 outputs.
//!
//! On an H100 (8192 x 8192, one channel, zero border); the floor is the longer of 8 bytes a pixel at the 2.98 TB/s of a
//! copy and the products of both passes at 62 TFLOP/s:
//!
//! | | 5 x 5 | 7 x 7 | 9 x 9 | 13 x 13 | 15 x 15 | 17 x 17 | 21 x 21 | 25 x 25 | 31 x 31 | 63 x 63 | 127 x 127 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | µs | 195 | 196 | 196 | 197 | 197 | 198 | 204 | 205 | 215 | 366 | 761 |
//! | of the floor | 92 % | 92 % | 92 % | 92 % | 91 % | 91 % | 88 % | 88 % | 84 % | 75 % | 72 % |
//!
//! | any width, by class of height | 3 x 3 | 8 x 8 | 16 x 16 | 32 x 32 | 48 x 48 | 64 x 64 | 80 x 80 | 95 x 95 | 128 x 128 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | µs | 199 | 200 | 213 | 285 | 376 | 505 | 633 | 672 | 913 |
//! | of the floor | 91 % | 90 % | 85 % | 63 % | 55 % | 55 % | 55 % | 61 % | 61 % |
//!
//! # The edge
//! A piece of 4 pixels that lies in the image is copied as it is; one beyond the edge is filled up with zeros by the
//! copy itself where the border is zero; any other one is put together pixel by pixel, by copies through a table of
//! which column stands for which.

use cuda_std::cp_async::wait_group;
use cuda_std::prelude::*;

use crate::abi::kernel::Convergent;
use crate::abi::params::Params;
use crate::common::async_rows::{Copies, PIECE, RUN, whole};
use crate::common::partition::block_rows;
use crate::teaching::constant_mask::MASK;

/// The oldest compute capability that has the copies.
pub const COMPUTE_CAPABILITY: (u32, u32) = (8, 0);
/// Threads of most blocks.
pub const BLOCK: (u32, u32) = (512, 1);
/// The most blocks that the registers of a multiprocessor hold at a time on compute capability 9.0.
pub const RESIDENT: u32 = 1;
/// How many times as many blocks as the device holds at a time a launch should have: 2 are 1 % faster up to 17 x 17,
/// and slower above.
pub const WAVES: u32 = 1;

/// Rows of a step.
pub const OUTPUT_ROWS: u32 = RUN as u32;

/// How many rows lie between the first and the last one of an output's window, filled up to whole steps.
#[must_use]
pub const fn reach(mask_height: u32) -> u32 {
    mask_height.saturating_sub(1).next_multiple_of(RUN as u32)
}

/// Threads of a block, for masks of `side` x `side` or else of this reach: as many as registers allow.
#[must_use]
pub const fn threads(side: u32, reach: u32) -> u32 {
    match (side, reach) {
        (127, _) | (0, 80..) => 256,
        (0, 64) => 384,
        _ => BLOCK.0,
    }
}

/// Outputs of a column that are summed up in a group, and rows that are added to it at a time.
#[must_use]
pub const fn group(side: u32, reach: u32) -> usize {
    if side == 127 || side == 0 && reach >= 48 { 8 } else { RUN }
}

/// Groups of outputs that a row joins, beside the one that begins with it.
#[must_use]
pub const fn groups(side: u32, reach: u32) -> usize {
    let all = if side > 0 { self::reach(side) } else { reach };
    all as usize / group(side, reach)
}

/// Whether a step's copies begin after its row pass: where the products are what takes the time, the warps then don't
/// all ask for them at once. Where memory is, they must not begin so late.
const fn copies_late(side: u32) -> bool {
    side >= 63
}

/// The place of the column's first coefficient in constant memory. Before it are those that fill the window up, which
/// are not read.
#[must_use]
pub const fn column_at(mask_height: u32) -> u32 {
    reach(mask_height) + 1 - mask_height
}

/// The place of the row's first coefficient: the window begins at a multiple of 4 columns, up to three before it. A
/// kernel for squares of one side knows one place, that for the anchor in the middle.
#[must_use]
pub const fn row_at(mask_height: u32, origin_x: i32) -> u32 {
    reach(mask_height) + RUN as u32 + lead(origin_x)
}

/// How many columns the pixels that a block reads begin before its first window.
const fn lead(origin_x: i32) -> u32 {
    origin_x.wrapping_neg() as u32 % PIECE
}

/// Pieces of a row of pixels for `columns` outputs.
const fn pieces(columns: u32, mask_width: u32, lead: u32) -> u32 {
    (columns + lead + mask_width - 1).div_ceil(PIECE)
}

/// Pixels from one row to the next in shared memory: an odd number of pieces, so that 8 threads in 8 rows meet all
/// banks.
const fn pitch(columns: u32, mask_width: u32) -> u32 {
    (pieces(columns, mask_width, PIECE - 1) | 1) * PIECE
}

/// The same of filtered rows.
const fn filtered_pitch(columns: u32) -> u32 {
    ((columns / PIECE) | 1) * PIECE
}

/// The dynamic shared memory that a launch needs, in bytes: pixels and filtered rows of two steps each, and the table
/// of columns.
#[must_use]
pub const fn shared_bytes(columns: u32, mask_width: u32) -> u64 {
    let pitch = pitch(columns, mask_width) as u64;
    ((pitch + filtered_pitch(columns) as u64) * 2 * RUN as u64 + pitch) * size_of::<f32>() as u64
}

/// What the kernel has of each convergent instruction: a barrier in each step.
pub const CONVERGENT: Convergent = Convergent::barriers(1);

/// The kernel for masks of `K` x `K`, or for 0 of any width and heights with a [`reach`] of `GROUPS * GROUP`; `THREADS`
/// a block.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, begin at a multiple of 16 bytes and do
///   not overlap.
/// - [`struct@MASK`] holds the coefficients of the mask's column and of its row at their places, both in window order.
/// - The block is one row of `THREADS`, a multiple of 32 and at most 512; the dynamic shared memory at least
///   [`shared_bytes`].
#[inline(always)]
pub unsafe fn separable_tile<const K: u32, const GROUPS: usize, const GROUP: usize, const THREADS: u32>(
    image: Global<f32>,
    result: GlobalMut<f32>,
    params: Params,
) {
    let thread = thread::thread_idx_x();
    let (mask_width, mask_height) = if K > 0 { (K, K) } else { (params.mask_width as u32, params.mask_height as u32) };
    let lead = lead(if K > 0 { (K as i32 - 1) / 2 } else { params.origin_x });
    let reach = (GROUPS * GROUP) as u32;
    let skip = reach + 1 - mask_height;
    let first_column = (thread::block_idx_x() * THREADS) as i32;
    let left = first_column - params.origin_x - lead as i32;
    let (first, rows) = block_rows::<1>(&params);
    if rows <= 0 {
        return;
    }

    let (pitch, filtered_pitch) = (pitch(THREADS, mask_width), filtered_pitch(THREADS));
    let pixels = Shared::<f32>::dynamic();
    let filtered = pixels.offset(2 * RUN as u32 * pitch);
    let y = first - params.origin_y - skip as i32;
    let pieces = pieces(THREADS, mask_width, lead);
    let mut copies = Copies::<THREADS> {
        image,
        params,
        whole: whole(left, pieces, &params),
        left,
        y,
        to: pixels.offset(thread / 32 * pitch),
        pieces,
        pitch,
        table: filtered.offset(2 * RUN as u32 * filtered_pitch).cast(),
    };
    // SAFETY: the table has an element for each column that is read; nobody reads it before the next barrier.
    unsafe { copies.fill_table(thread) };

    // In the row pass 16 threads that follow each other have 16 rows.
    let (line, run) = (thread % RUN as u32, thread / RUN as u32 * RUN as u32);
    let (source, put) = (pixels.offset(line * pitch + run), filtered.offset(line * filtered_pitch + run));
    let x = first_column + thread as i32;
    let (scale, offset) = params.exact_finish();
    let mut writer = Writer {
        row: result.offset(params.dst_index(x, first)),
        pitch: params.dst_pitch,
        scale,
        offset,
        inside: x < params.width,
    };
    let mut sums = [[0.0; GROUP]; GROUPS];
    // Of the two buffers, the rows that are written and read next.
    let (mut fill, mut read) = (0, RUN as u32);
    // Rows of outputs above those that are finished in this step; before the first ones the buffers are filled and the
    // sums begun.
    let before = -(reach as i32);
    let mut done = before - 2 * RUN as i32;
    loop {
        thread::no_unroll();
        // All copies have arrived, the table is whole, and nobody reads any more from what is written in this step.
        wait_group::<0>();
        thread::sync_threads();
        let more = done + 2 * (RUN as i32) < rows;
        if more && !copies_late(K) {
            // SAFETY: all threads are here; see above.
            unsafe { copies.next(fill * pitch) };
        }
        if done >= before - RUN as i32 && done + (RUN as i32) < rows {
            // SAFETY: the pixels were copied in the step before; what is written is this thread's.
            unsafe {
                let sums = filter(source.offset(read * pitch), reach as usize + RUN, lead, mask_width, K > 0 && K < 32);
                let put = put.offset(read * filtered_pitch).cast::<F32x4>();
                for i in 0..RUN / 4 {
                    put.store(i as u32, F32x4([sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]]));
                }
            }
        }
        if more && copies_late(K) {
            // SAFETY: as above.
            unsafe { copies.next(fill * pitch) };
        }
        if done >= before {
            let from = filtered.offset(fill * filtered_pitch + thread);
            let mut r = 0;
            // Opaque, or LLVM would unroll the loop.
            while r < if GROUP < RUN { thread::black_box(RUN as u32) } else { RUN as u32 } {
                if GROUP < RUN {
                    thread::no_unroll();
                }
                // SAFETY: the rows were filtered in the step before, here and below; the coefficients are at their
                // places.
                let values: [f32; GROUP] =
                    core::array::from_fn(|i| unsafe { from.load((r + i as u32) * filtered_pitch) });
                // SAFETY: see above.
                let finished = unsafe { add(&sums[0], &values, GROUPS, GROUPS, skip) };
                for g in 1..GROUPS {
                    // SAFETY: see above.
                    sums[g - 1] = unsafe { add(&sums[g], &values, GROUPS - g, GROUPS, skip) };
                }
                // SAFETY: see above.
                sums[GROUPS - 1] = unsafe { add(&[0.0; GROUP], &values, 0, GROUPS, skip) };
                let done = done + r as i32;
                if done >= 0 {
                    // SAFETY: the rows from `done` on to `rows` are the strip's, and their column is this thread's.
                    unsafe { writer.next(&finished, rows - done) };
                }
                r += GROUP as u32;
            }
        }
        (fill, read) = (read, fill);
        done += RUN as i32;
        if done >= rows {
            return;
        }
    }
}

/// Writes one group of rows after the other, of one column.
struct Writer {
    row: GlobalMut<f32>,
    pitch: i32,
    scale: f32,
    offset: f32,
    /// Whether the column is one of the image's.
    inside: bool,
}

impl Writer {
    /// The next rows, at most `most` of them: `scale * sum + offset`.
    ///
    /// # Safety
    /// The rows lie in the result; where the column does, nobody else writes it.
    #[inline(always)]
    unsafe fn next<const GROUP: usize>(&mut self, sums: &[f32; GROUP], most: i32) {
        let mut row = self.row;
        if self.inside && most >= GROUP as i32 {
            for &sum in sums {
                // SAFETY: the caller's promise.
                unsafe { row.store(0, fma(sum, self.scale, self.offset)) };
                row = row.offset(self.pitch as isize);
            }
        } else {
            for (i, &sum) in sums.iter().enumerate() {
                if self.inside && (i as i32) < most {
                    // SAFETY: the caller's promise.
                    unsafe { row.store(0, fma(sum, self.scale, self.offset)) };
                }
                row = row.offset(self.pitch as isize);
            }
            // Something of its own, or LLVM would make one of the last stores of both, whose address is computed again.
            thread::no_unroll();
        }
        self.row = self.row.offset(GROUP as isize * self.pitch as isize);
    }
}

/// The sums of a group of outputs, continued by a group of filtered rows: the `distance`-th one after that with which
/// the group's windows begin. The window's first `skip` rows, less than a step, have no coefficients.
///
/// # Safety
/// The column's coefficients are at their places.
#[inline(always)]
unsafe fn add<const GROUP: usize>(
    sums: &[f32; GROUP],
    values: &[f32; GROUP],
    distance: usize,
    groups: usize,
    skip: u32,
) -> [f32; GROUP] {
    let mut sums = *sums;
    // Value `r` joins output `o` with coefficient `GROUP * distance + r - o`: one for each diagonal, from the first row
    // down for each output.
    for diagonal in 0..2 * GROUP - 1 {
        let k = GROUP * distance + diagonal;
        if k < GROUP - 1 || k - (GROUP - 1) > GROUP * groups {
            continue;
        }
        let k = k - (GROUP - 1);
        if k + 1 >= RUN || k as u32 >= skip {
            // SAFETY: the caller's promise.
            let coefficient = unsafe { MASK.load(k) };
            for (o, sum) in sums.iter_mut().enumerate() {
                let r = diagonal + o;
                if r + 1 >= GROUP && r + 1 < 2 * GROUP {
                    *sum = fma(values[r + 1 - GROUP], coefficient, *sum);
                }
            }
        }
    }
    sums
}

/// The pixels that a run of outputs needs, in two halves of which one is read while the other is added.
type Window = [f32; 2 * RUN];

/// Filters 16 neighbouring columns of a row of pixels, whose window begins `lead` columns after `pixels`. A mask of a
/// fixed width is unrolled.
///
/// # Safety
/// The pixels were written; the row's coefficients are at their places, `factors` being that of one `lead` before the
/// first.
#[inline(always)]
unsafe fn filter(pixels: Shared<f32>, factors: usize, lead: u32, mask_width: u32, fixed: bool) -> [f32; RUN] {
    let mut source = pixels.cast::<F32x4>();
    let mut window = [0.0; 2 * RUN];
    for quad in 0..RUN / 4 {
        // SAFETY: the caller's promise.
        let F32x4(four) = unsafe { source.load(quad as u32) };
        window[4 * quad..4 * quad + 4].copy_from_slice(&four);
    }
    let mut sums = [0.0; RUN];
    let (mut at, mut from, mut left) = (factors, lead, lead + mask_width);
    while left > 0 {
        if !fixed {
            thread::no_unroll();
        }
        source = source.offset(RUN as u32 / 4);
        // SAFETY: the caller's promise; the steps end with the mask.
        unsafe {
            if !fixed && left >= 2 * RUN as u32 {
                // Opaque, or LLVM would copy the steps for when it knows the answer.
                step(&mut sums, &mut window, 0, source, at, thread::black_box(from), RUN as u32);
                source = source.offset(RUN as u32 / 4);
                step(&mut sums, &mut window, RUN, source, at + RUN, 0, RUN as u32);
                left -= 2 * RUN as u32;
                at += 2 * RUN;
                from = 0;
                continue;
            }
            let (first, end) = if fixed { (from, left) } else { (thread::black_box(from), thread::black_box(left)) };
            step(&mut sums, &mut window, 0, source, at, first, end);
        }
        for i in 0..RUN {
            window[i] = window[RUN + i];
        }
        left = left.saturating_sub(RUN as u32);
        at += RUN;
        from = 0;
    }
    sums
}

/// Adds the coefficients from number `from` to below `to` of a step, `half` being where the window begins, and reads on
/// into its other half.
///
/// # Safety
/// As for [`filter`].
#[inline(always)]
unsafe fn step(
    sums: &mut [f32; RUN],
    window: &mut Window,
    half: usize,
    source: Shared<F32x4>,
    at: usize,
    from: u32,
    to: u32,
) {
    for l in 0..RUN {
        // Coefficient `l` and the three after it need this quad.
        if l % 4 == 0 && to >= l as u32 + 2 {
            // SAFETY: the caller's promise.
            let F32x4(four) = unsafe { source.load(l as u32 / 4) };
            for (i, &pixel) in four.iter().enumerate() {
                window[(RUN + half + l + i) % (2 * RUN)] = pixel;
            }
        }
        if (l + 1 >= PIECE as usize || from <= l as u32) && (l as u32) < to {
            // SAFETY: the caller's promise.
            let coefficient = unsafe { MASK.load(at + l) };
            for (o, sum) in sums.iter_mut().enumerate() {
                *sum = fma(window[(half + l + o) % (2 * RUN)], coefficient, *sum);
            }
        }
    }
}
