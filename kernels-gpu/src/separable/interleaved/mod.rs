//! Separable masks for images of `f32` and of bytes with up to four interleaved channels, in one pass over the image.
//!
//! `T[y, v] = sum over l of row[l] * I[y, v + (l - origin_x) * C]`,
//! `O[y, v] = sum over k of column[k] * T[y - origin_y + k, v]`
//!
//! [`block_tile`](crate::separable::block_tile) has entries of this kernel for results of `f32`, and
//! [`proven_bytes`](crate::separable::proven_bytes) those for bytes.
//!
//! `v` counts the values of a row: pixel by pixel, channels interleaved. From coefficient to coefficient the row pass
//! steps by the `C` values of a pixel. The column pass does not know channels.
//!
//! # Thread mapping
//! As in [`block_tile`](crate::separable::block_tile): a block owns one column of values for each thread, and a strip
//! of rows. In the row pass 16 consecutive threads have 16 rows, and each thread 16 neighbouring values.
//!
//! # Tiling
//! The block walks down its strip in steps of 16 rows, with one barrier a step:
//! ```text
//!   step s + 2   16 rows of pixels are copied to shared memory, asynchronously and as they are
//!   step s + 1   row pass: pixels become f32 in registers, filtered rows go to shared memory
//!   step s       column pass: each thread adds 16 filtered rows of its column to all outputs that need them
//!   step s - 1   with bytes as results: ordered sums of those that are uncertain
//! ```
//! The window of a thread in the row pass is a ring of 32 registers. A coefficient reads 16 of them from
//! `l * C % 32` on, so their places are known when the kernel is compiled.
//!
//! # Bytes
//! The row pass multiplies bytes as subnormal numbers: one `prmt` makes a factor of a byte. See `source`.
//!
//! The results have the bits of the ordered sum. The separable sum proves most of them. A thread lists the others, and
//! in the next step the threads of the block share the list. For that the last `mask_height + 63` rows of pixels stay
//! in shared memory. See `proven` and `recompute`.
//!
//! # Cost
//! `mask_width + mask_height` products for each output, `2 + (mask_width + 15) * C / 16` instructions to make factors
//! of bytes, and 12 to prove a byte and to store it. A product of an ordered sum has some 3 instructions.

mod copies;
mod layout;
mod proven;
mod recompute;
mod row_pass;
mod source;

use cuda_std::cp_async::wait_group;
use cuda_std::prelude::*;

use self::copies::WordCopies;
pub(super) use self::layout::ROWS;
use self::layout::{COUNTS, FILTERED_PITCH, Parts, part, stages};
pub use self::layout::{THREADS, column_offset, groups, row_offset};
pub(super) use self::layout::{certain_offset, ordered_offset};
use self::proven::{ByteColumn, Certain, append};
use self::recompute::Recompute;
use self::row_pass::filter;
pub use self::source::Source;
use crate::abi::kernel::Convergent;
use crate::abi::params::{OutputPtr, Params, padded_mask_width};
use crate::abi::pixel::PixelType;
use crate::common::column_store::ColumnStore;
use crate::common::partition::block_rows;
use crate::registry::{Entry, FactorPlaces, FactorPowers, Ineligible, MaskClass, Occupancy, Request, RowPartition};
use crate::separable::block_tile::{add, padded_halo};
use crate::teaching::constant_mask::MASK;

/// The convergent instructions of the source: a barrier in each step.
pub const CONVERGENT: Convergent = Convergent::barriers(1);
/// Blocks that the registers of a multiprocessor hold at a time, on compute capability 9.0.
pub const BLOCKS_PER_SM: u32 = 1;

/// The least and the largest exponent of the factors with which the kernels for bytes are used.
///
/// Then no product and no sum of the row pass is subnormal, or too large.
pub const EXPONENTS: (i32, i32) = (-60, 60);

/// The dynamic shared memory of a block, in bytes.
pub(super) const fn shared_bytes(
    padded_halo: u32,
    (channels, value_bytes): (u32, u32),
    mask: (u32, u32),
    is_proven: bool,
) -> u64 {
    Parts::new(padded_halo, (channels, value_bytes), mask, is_proven).end as u64
}

/// The kernel for images of `C` interleaved channels of `T`, and masks with a [`padded_halo`] of `GROUPS` times 16.
///
/// Results are `f32`, or, if `PROVEN`, bytes with the bits of the ordered sum.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, and do not overlap.
/// - `image` begins at a multiple of 4 bytes.
/// - [`struct@MASK`] holds the column at [`column_offset`] and the row at [`row_offset`], times the powers of `T`.
/// - If `PROVEN`, images are bytes. `MASK` holds the numbers of `Certain` and the coefficients of the ordered sums.
/// - For bytes the exponents of both factors are in [`EXPONENTS`].
/// - The block is one row of [`THREADS`].
/// - The dynamic shared memory is that of [`Entry::shared_bytes`].
#[inline(always)]
pub unsafe fn interleaved<T: Source, const C: u32, const GROUPS: usize, const PROVEN: bool>(
    image: Global<T>,
    result: OutputPtr,
    params: Params,
) {
    let thread = thread::thread_idx_x();
    let (mask_width, mask_height) = (params.mask_width as u32, params.mask_height as u32);
    let halo = GROUPS as u32 * ROWS;
    let skip = halo + 1 - mask_height;
    let row_values = params.row_values::<C>();
    let first_value = (thread::block_idx_x() * THREADS) as i32;
    let (first, rows) = block_rows::<1>(&params);
    if rows <= 0 {
        return;
    }

    let value_bytes = size_of::<T>() as u32;
    let parts = Parts::new(halo, (C, value_bytes), (mask_width, mask_height), PROVEN);
    let pitch = layout::pitch(C, value_bytes, mask_width);
    let pixels = part::<u8>(parts.pixels);
    let filtered = part::<f32>(parts.filtered);
    let window = first_value - params.origin_x * C as i32;
    let lead = copies::lead::<T>(window);
    let outputs = (row_values - first_value).clamp(0, THREADS as i32) as u32;
    let mut copies = WordCopies::<T, C>::new(
        (image, params),
        (window, first - params.origin_y - skip as i32),
        outputs + (mask_width - 1) * C,
        (pitch, part(parts.table)),
    );
    // SAFETY: the table has an element for each value of a row; it is read after the next barrier.
    unsafe { copies.fill_table(thread) };
    // The row pass also reads values behind the last window of a row. They are part of no result.
    let stage_rows = const { ROWS * stages(GROUPS as u32 * ROWS, PROVEN) };
    let mut i = thread;
    while i < stage_rows * pitch / 16 {
        thread::no_unroll();
        // SAFETY: the vector belongs to the stages, and to this thread until the next barrier.
        unsafe { pixels.cast::<F32x4>().store(i, F32x4([0.0; 4])) };
        i += THREADS;
    }
    let ordered = part::<f32>(parts.ordered);
    let counts = part::<u32>(parts.counts);
    let (lists, list_length) = (part::<u16>(parts.lists), ROWS * THREADS);
    if PROVEN {
        let from = layout::ordered_offset((mask_width, mask_height)) as usize;
        let mut i = thread;
        while i < padded_mask_width(mask_width) * mask_height {
            thread::no_unroll();
            // SAFETY: MASK holds the coefficients of the ordered sums there; each has a place in shared memory.
            unsafe { ordered.store(i, MASK.load(from + i as usize)) };
            i += THREADS;
        }
        if thread < COUNTS {
            // SAFETY: there are so many counts, and each thread has its own.
            unsafe { counts.store(thread, 0) };
        }
    }

    // In the row pass 16 consecutive threads have 16 rows, and each thread 16 values.
    let (row, column) = (thread % ROWS, thread / ROWS * ROWS);
    let (source, to) =
        (pixels.offset(row * pitch + column * value_bytes), filtered.offset(row * FILTERED_PITCH + column));
    let v = first_value + thread as i32;
    let is_active = v < row_values;
    // SAFETY: an active thread's column lies in the result, and its rows from `first` on belong to this block alone.
    // Only one of the two stores is used.
    let (mut store, mut bytes) = unsafe {
        let certain = if PROVEN {
            let at = const { certain_offset(GROUPS as u32 * ROWS) } as usize;
            Certain { limit: MASK.load(at), slope: MASK.load(at + 1) }
        } else {
            Certain { limit: 0.0, slope: 0.0 }
        };
        (
            ColumnStore::new(result.cast(), &params, (v, first), is_active),
            ByteColumn::new(result, &params, (v, first), certain, is_active),
        )
    };
    let recompute = Recompute::<C> { result, params, pixels, rows: stage_rows, pitch, lead, ordered };
    let mut sums = [[0.0; STEP]; GROUPS];
    // The halves of the filtered rows that this step reads and writes, and the first rows of the
    // stages that it copies to and filters.
    let (mut read, mut write) = (0, ROWS * FILTERED_PITCH);
    let (mut copied, mut arrived) = (0, 0);
    // The list that this step fills, and its number in the counts.
    let (mut list, mut count) = (0, 0);
    // The first output row that this step finishes, relative to the strip. The first steps only fill the buffers, the
    // next ones begin the sums.
    let begin = -(halo as i32);
    let mut done = begin - 2 * ROWS as i32;
    loop {
        thread::no_unroll();
        // After the barrier all copies have arrived, the table is complete, and the buffers to write are free.
        wait_group::<0>();
        // SAFETY: all threads are here: the loop depends on the block alone.
        unsafe { thread::sync_threads() };
        if done + 2 * (ROWS as i32) < rows {
            // SAFETY: the branch is uniform; the stage is free and the table complete since the barrier.
            unsafe { copies.copy(pixels.offset(copied * pitch)) };
        }
        if done >= begin - ROWS as i32 && done + (ROWS as i32) < rows {
            // SAFETY: the pixels arrived before the barrier; the 16 filtered values are this thread's alone.
            unsafe {
                let first = const { row_offset(GROUPS as u32 * ROWS) } as usize;
                let sums = filter::<T, C>(source.offset(arrived * pitch), lead, first, mask_width);
                let to = to.offset(write).cast::<F32x4>();
                for i in 0..ROWS as usize / 4 {
                    to.store(i as u32, F32x4([sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]]));
                }
            }
        }
        if PROVEN && done > 0 {
            // The list of the step before, and the row in which the windows of its first row begin.
            let (other, before) = (list_length - list, if count == 0 { COUNTS - 1 } else { count - 1 });
            let top = copied + stage_rows - 3 * ROWS - (mask_height - 1);
            // SAFETY: the step before has filled the list, the barrier has passed, and the stages hold its windows.
            unsafe {
                let total = counts.load(before);
                let at = (first_value, first + done - ROWS as i32);
                recompute.run(lists.offset(other), total, at, top, thread);
            }
        }
        if done >= begin && done < rows {
            let from = filtered.offset(read + thread);
            // SAFETY: the 16 rows were filtered in the step before.
            let values: [f32; STEP] = core::array::from_fn(|i| unsafe { from.load(i as u32 * FILTERED_PITCH) });
            // SAFETY: MASK holds the column at `column_offset`, which puts `skip` elements before it.
            let finished = unsafe { add(&sums[0], &values, GROUPS, GROUPS, skip) };
            for g in 1..GROUPS {
                // SAFETY: MASK holds the column at `column_offset`, which puts `skip` elements before it.
                sums[g - 1] = unsafe { add(&sums[g], &values, GROUPS - g, GROUPS, skip) };
            }
            // SAFETY: MASK holds the column at `column_offset`, which puts `skip` elements before it.
            sums[GROUPS - 1] = unsafe { add(&[0.0; STEP], &values, 0, GROUPS, skip) };
            if done >= 0 {
                // SAFETY: rows `done` to `rows - 1` of the strip lie in the result. The list has room for all values
                // of a step, and the counts are as the comment on them says.
                unsafe {
                    if PROVEN {
                        let bits = bytes.store(&finished, rows - done);
                        append(lists.offset(list), counts.offset(count), bits, thread);
                    } else {
                        store.store(&finished, rows - done);
                    }
                }
            }
        }
        if PROVEN {
            let next = if count == COUNTS - 1 { 0 } else { count + 1 };
            if thread == 0 {
                // SAFETY: the steps before have read this count, and the next step adds to it behind a barrier.
                unsafe { counts.store(next, 0) };
            }
            count = next;
            list = list_length - list;
        }
        (read, write) = (write, read);
        arrived = copied;
        copied += ROWS;
        if copied == stage_rows {
            copied = 0;
        }
        done += ROWS as i32;
        // With a proof, one more step computes the last list.
        if done >= rows + if PROVEN { ROWS as i32 } else { 0 } {
            return;
        }
    }
}

/// Rows of a step, as the length of an array.
const STEP: usize = ROWS as usize;

/// The powers of two by which the factors are multiplied.
const fn powers(pixel: PixelType) -> FactorPowers {
    if matches!(pixel, PixelType::U8) { <u8 as Source>::POWERS } else { <f32 as Source>::POWERS }
}

/// Where the factors are in constant memory.
pub(super) fn places(entry: &Entry, (_, height): (u32, u32), _: i32) -> FactorPlaces {
    FactorPlaces { row: row_offset(entry.class()), column: column_offset(height), powers: powers(entry.pixel) }
}

/// Blocks of a launch for each resident block of the device.
///
/// A row of an image has few blocks, so that one wave of them rarely fills the device.
pub(super) const fn waves(channels: u32) -> u32 {
    if channels == 1 { 1 } else { 3 }
}

/// The masks of a class: those with this padded halo.
pub(super) const CLASS: MaskClass = MaskClass {
    contains: |class, (_, height), _| padded_halo(height) == class,
    example: |class| (3, class),
    masks: "masks of 18 to 33 rows; two and three channels 2 to 33",
};

/// The grid: blocks of 16 rows and more.
pub(super) const GRID: RowPartition = RowPartition {
    least_rows: |_, mask_height| ROWS + padded_halo(mask_height),
    block_row_alignment: 1,
    launch_row_alignment: 1,
    occupancy: |entry, _| Occupancy { blocks_per_sm: BLOCKS_PER_SM, waves: waves(entry.channels) },
};

/// Bytes need factors without very small or very large coefficients.
///
/// # Errors
/// [`Ineligible::Range`].
pub(super) fn exponents_fit(request: &Request) -> Result<(), Ineligible> {
    let (least, most) = request.factor_exponents.unwrap_or((0, 0));
    if least >= EXPONENTS.0 && most <= EXPONENTS.1 {
        return Ok(());
    }
    Err(Ineligible::Range {
        property: "the binary exponents of the mask's factors",
        required: (EXPONENTS.0 as f32, EXPONENTS.1 as f32),
        found: (least as f32, most as f32),
    })
}
