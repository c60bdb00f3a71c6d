//! A sliding window: a thread walks down a strip of rows with all partial sums in registers.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`, for each channel
//!
//! # The idea
//! A product of a pixel from shared memory needs a load, which takes four times as long as the product. Here a thread
//! loads a window of `C + K - 1` pixels of a row once and multiplies it with all `K` rows of the mask: about
//! `(C + K) / 4` vector loads serve `C * K * K` products. It adds them to the partial sums of `K` output rows.
//!
//! # The free shift
//! After each row the sums move up by one. Nothing is copied, because a multiply-add names its destination:
//! ```text
//! sums[0]     = window * W[K-1] + sums[1]         complete: stored
//! sums[1]     = window * W[K-2] + sums[2]
//!   …
//! sums[K-1]   = window * W[0]   + 0
//! ```
//! So the loop over the rows stays rolled and fits the instruction cache. Each output adds its products from top to
//! bottom and from left to right, the order of every direct kernel: the results are bit-exact.
//!
//! # Thread mapping and tiling
//! A thread owns `C` neighbouring values of a row. A block is one warp, so that a multiprocessor holds as many blocks
//! as its registers allow. The rows of the grid partition the rows of the image: each block has one strip, and the host
//! chooses as many strips as fill the device. A strip of `n` rows loads `n + K - 1` rows.
//!
//! # The sources of rows
//! `walk` is the walk down a strip. It takes its windows from one of three sources:
//!
//! | source | images | how a row reaches a thread |
//! | --- | --- | --- |
//! | [`double_buffered`] | `f32`, 1 channel | loaded 2 rows ahead into registers, passed through shared memory |
//! | [`global_rows`] | `f32`, 3 and 4 channels; `u16`; `u8`, masks from 5 x 5 on | loaded at use, prefetched into L2 |
//! | [`cp_async_ring`] | `u8`, masks of 3 x 3 | copied 3 rows ahead to shared memory by `cp.async` |
//!
//! `passes` walks a strip several times for masks from 21 x 21 on.
//!
//! # What it costs
//! | | for each value of the result |
//! | --- | --- |
//! | products | `K * K` |
//! | device memory | one value read and one written; `(K - 1) / n` values read for the halo |
//! | device memory of each further pass | two values read and one written |
//! | other instructions, for `C` values | 75, and a load for every two coefficients beyond 60 in uniform registers |
//!
//! Sums and window take `C (H + 1) + K` registers, with `H` rows of the mask in a pass.
//!
//! H100, 2026-11: 9 x 9 on 8192 x 8192 `f32` in 224 µs, 80 % of the roofline.

use crate::abi::pixel::{Pixel, PixelType};
use crate::registry::{Accuracy, Entry, Grid, MaskForm, MaskMemory, Occupancy, RowPartition, Spec, no_requirement};

pub mod cp_async_ring;
pub mod double_buffered;
mod fragments;
pub mod global_rows;
pub(in crate::direct) mod passes;
mod schedule;
pub(in crate::direct) mod walk;

pub use self::passes::{mask_row, rows_per_pass};
pub use self::schedule::{Schedule, schedule};

/// Threads of a block: one warp.
pub const BLOCK: (u32, u32) = (32, 1);

/// The fewest rows of a strip. With masks of up to 9 x 9 it loads no more rows of halo than rows of its own.
pub const MIN_STRIP_ROWS: u32 = 8;

/// Where the rows of an image come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// [`double_buffered`].
    DoubleBuffered,
    /// [`global_rows`].
    GlobalRows,
    /// [`cp_async_ring`].
    CpAsyncRing,
}

impl Source {
    /// The source for images of `channels` interleaved channels of `pixel`, and masks of `side` x `side`.
    #[must_use]
    pub const fn of(pixel: PixelType, channels: u32, side: u32) -> Self {
        match (pixel, channels, side) {
            (PixelType::F32, 1, _) => Self::DoubleBuffered,
            (PixelType::U8, _, cp_async_ring::SIDE) => Self::CpAsyncRing,
            (PixelType::F32 | PixelType::U16 | PixelType::U8, ..) => Self::GlobalRows,
        }
    }
}

crate::registry::instances! {
    SlidingWindow;
    sm_70 "sliding_window_{T}_c{C}_{K}x{K}" for
        T in [f32], C in [1],
        K in [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 23, 25, 27, 29, 31];
        |image, result, _mask, params| {
            const COLUMNS: usize = schedule(PixelType::F32, C, K).columns_per_thread as usize;
            double_buffered::sliding_window::<{ K as usize }, { rows_per_pass(K) as usize }, COLUMNS>(
                image, result.cast(), params,
            )
        }
    sm_80 "sliding_window_{T}_c{C}_{K}x{K}" for T in [u8], C in [1, 3, 4], K in [3];
        |image, result, _mask, params| cp_async_ring::sliding_window::<C>(image, result, params)
    sm_70 "sliding_window_{T}_c{C}_{K}x{K}" for T in [f32], C in [3, 4], K in [3, 5, 7];
    sm_70 "sliding_window_{T}_c{C}_{K}x{K}" for T in [u16], C in [1, 3, 4], K in [3, 5, 7];
    sm_70 "sliding_window_{T}_c{C}_{K}x{K}" for T in [u8], C in [1, 3, 4], K in [5, 7, 9, 11];
        |image, result, _mask, params| {
            const WALK: Schedule = schedule(<T as Pixel>::TYPE, C, K);
            global_rows::sliding_window::<
                T, { K as usize }, { WALK.columns_per_thread as usize }, C, { WALK.prefetch_distance },
            >(image, result, params)
        }
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "sliding_window",
    summary: "a thread walks down a strip of rows with its sums in registers",
    reason: "sums in registers, each pixel read about once",
    accuracy: Accuracy::Exact,
    mask_memory: MaskMemory::Constant,
    mask_form: MaskForm::Rows(mask_row),
    mask_class: None,
    results: |pixel| match pixel {
        PixelType::F32 => &[PixelType::F32],
        PixelType::U16 => &[PixelType::U16, PixelType::F32],
        PixelType::U8 => &[PixelType::U8],
    },
    // The ring of the 3 x 3 kernels holds the border's value as a byte. The other `u8` kernels inherit the restriction.
    border_is_pixel: |pixel| matches!(pixel, PixelType::U8),
    requirement: no_requirement,
    uses_fp32_units: true,
    grid: Grid::Partition(RowPartition {
        least_rows: |_, _| MIN_STRIP_ROWS,
        block_row_alignment: 1,
        launch_row_alignment: 1,
        occupancy: |entry, _| {
            let Schedule { blocks_per_sm, waves, .. } = of_entry(entry);
            Occupancy { blocks_per_sm, waves }
        },
    }),
    block: |_| BLOCK,
    outputs: |entry, _| (BLOCK.0 * of_entry(entry).columns_per_thread, MIN_STRIP_ROWS),
    pixels_together: 1,
    shared_bytes: |entry, _| match Source::of(entry.pixel, entry.channels, entry.side()) {
        Source::DoubleBuffered => double_buffered::shared_bytes(of_entry(entry).columns_per_thread),
        Source::GlobalRows => {
            global_rows::shared_bytes(of_entry(entry).columns_per_thread, entry.channels, entry.side())
        }
        Source::CpAsyncRing => cp_async_ring::shared_bytes(),
    },
    launch_bounds: |entry| {
        let blocks_per_sm = of_entry(entry).blocks_per_sm;
        match (Source::of(entry.pixel, entry.channels, entry.side()), entry.pixel, entry.channels, entry.side()) {
            // Without bounds ptxas takes 72 registers, which leave 28 blocks.
            (Source::GlobalRows, PixelType::U16, _, 3) => Some((BLOCK.0, 32)),
            // Without bounds ptxas takes 56 registers, which is 1 % faster than the 64 that the bounds allow.
            (Source::GlobalRows, PixelType::U16, 1, 5) => None,
            (Source::DoubleBuffered, ..) | (Source::GlobalRows, _, _, 5) => Some((BLOCK.0, blocks_per_sm)),
            (Source::GlobalRows | Source::CpAsyncRing, ..) => None,
        }
    },
    convergent: |entry| match Source::of(entry.pixel, entry.channels, entry.side()) {
        Source::DoubleBuffered => double_buffered::CONVERGENT,
        Source::GlobalRows => global_rows::CONVERGENT,
        Source::CpAsyncRing => cp_async_ring::CONVERGENT,
    },
};

/// The schedule of an entry.
const fn of_entry(entry: &Entry) -> Schedule {
    schedule(entry.pixel, entry.channels, entry.side())
}
