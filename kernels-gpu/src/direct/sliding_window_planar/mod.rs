//! A sliding window over interleaved channels: each thread has one channel.
//!
//! The formula, the order of the products and the walk are those of
//! [`sliding_window`](crate::direct::sliding_window). There a window of `C` values of three channels takes
//! `C + 3 (K - 1)` registers. Here it takes `C + K - 1`, because shared memory has a plane for each channel.
//!
//! # Thread mapping
//! A thread owns 8 neighbouring pixels of one channel. Neighbouring lanes have the channels of the same 8 pixels, then
//! those of the next 8. So images of any width fill the grid. A warp exchanges its results, and stores whole lines.
//!
//! # Tiling
//! In the step of row `r` the threads of a block
//! - load their windows of row `r` from the planes of one buffer in shared memory,
//! - convert the values of row `r + 1`, which they have held in registers for a whole step, to `f32`, and store them to
//!   the planes of the other buffer,
//! - request the values of row `r + 2`. Neighbouring threads load neighbouring values.
//!
//! One barrier a row is enough.
//!
//! # Passes
//! From 17 x 17 on a block has 2 or 4 warps with the same pixels and different rows of the mask. Each warp adds its
//! rows of the mask to the sums that the warp before it has completed in the step before. They pass through shared
//! memory. So the rows of the image are loaded once, and no partial sum leaves the multiprocessor:
//! ```text
//! step r       warp 0: rows 0 to H - 1 of the mask            completes output row r - H + 1
//! step r + 1   warp 1: rows H to 2 H - 1, begins that row     completes output row r - 2 H + 2
//!   …
//! ```
//! The four schedulers of a multiprocessor have one constant cache each. The warps of a scheduler all have the same
//! pass, so the cache holds its coefficients.
//!
//! # Border
//! A table in shared memory says which value of the image's row each thread loads. All blocks read it, so a block at
//! the border is as fast as any other, and so are all widths, pitches and anchors. Under a constant border the places
//! of columns outside hold the border's value from the beginning, and no thread stores there.
//!
//! # What it costs
//! | | for each value of the result |
//! | --- | --- |
//! | products | `K * K` |
//! | device memory | one value read and one written; `(K - 1) / n` values read for the halo of strips of `n` rows |
//! | second-level cache | 1.1 to 1.5 values read, 0.25 to 0.5 sectors written |

use crate::abi::pixel::PixelType;
use crate::registry::{
    Accuracy, Entry, Grid, MaskForm, MaskMemory, Occupancy, RowPartition, Spec, any_result, no_requirement,
};

mod kernel;
mod mask;
mod rows;
mod store;

pub use self::kernel::{convergent, shared_bytes, sliding_window_planar};
pub use self::mask::{mask_row, passes, rows_per_pass};

/// Neighbouring pixels of a thread.
pub const PIXELS_PER_THREAD: u32 = 8;

/// The fewest rows of a strip.
const MIN_STRIP_ROWS: u32 = 8;

/// Threads of a block for masks of `side` x `side`: a warp for each pass.
#[must_use]
pub const fn threads(side: u32) -> u32 {
    rows::WARP * passes(side)
}

/// Blocks that a multiprocessor holds at a time: what the registers of compute capability 9.0 allow.
///
/// With 16 warps, the kernel for one channel of `u16` and 9 x 9 would spill on compute capability 12.0.
const fn blocks_per_sm(entry: &Entry) -> u32 {
    let warps = match (entry.pixel, entry.side()) {
        (PixelType::F32, ..=9) => 16,
        (_, 14..=15) => 8,
        _ => 12,
    };
    warps / passes(entry.side())
}

crate::registry::instances! {
    SlidingWindowPlanar;
    sm_70 "sliding_window_planar_{T}_c{C}_{K}x{K}" for T in [f32], C in [2, 3, 4], K in [9, 11, 13, 15, 17, 21];
    sm_70 "sliding_window_planar_{T}_c{C}_{K}x{K}" for T in [u16], C in [1, 2, 3, 4], K in [9, 11, 13, 15, 17];
    sm_70 "sliding_window_planar_{T}_c{C}_{K}x{K}" for T in [u16], C in [2, 3, 4], K in [21];
        |image, result, _mask, params| {
            sliding_window_planar::<
                T, { K as usize }, { rows_per_pass(K) as usize }, { passes(K) as usize }, C, { threads(K) },
            >(image, result, params)
        }
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "sliding_window_planar",
    summary: "sliding_window for interleaved channels: a thread has one channel, rows are planar in shared memory",
    reason: "sums in registers, each pixel read about once, no padding between the values of a channel",
    accuracy: Accuracy::Exact,
    mask_memory: MaskMemory::Constant,
    mask_form: MaskForm::Rows(mask_row),
    mask_class: None,
    results: any_result,
    border_is_pixel: |_| false,
    requirement: no_requirement,
    uses_fp32_units: true,
    grid: Grid::Partition(RowPartition {
        least_rows: |_, _| MIN_STRIP_ROWS,
        block_row_alignment: 1,
        launch_row_alignment: 1,
        occupancy: |entry, _| Occupancy { blocks_per_sm: blocks_per_sm(entry), waves: 1 },
    }),
    block: |entry| (threads(entry.side()), 1),
    outputs: |_, _| (rows::WARP * PIXELS_PER_THREAD, MIN_STRIP_ROWS),
    pixels_together: PIXELS_PER_THREAD,
    shared_bytes: |entry, _| shared_bytes(entry.side(), entry.channels, passes(entry.side())),
    launch_bounds: |entry| Some((threads(entry.side()), blocks_per_sm(entry))),
    convergent: |entry| convergent(entry.channels, passes(entry.side())),
};
