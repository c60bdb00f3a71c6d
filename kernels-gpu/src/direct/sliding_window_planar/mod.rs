//! A sliding window over interleaved channels: each thread has one channel.
//!
//! The formula, the order of the products and the walk are those of
//! [`sliding_window`](crate::direct::sliding_window). There a window of 8 interleaved values of three channels takes
//! `8 + 3 (K - 1)` registers. Here 8 values take `8 + K - 1`, because shared memory has a plane for each channel.
//!
//! # Thread mapping
//! A thread owns 8 neighbouring pixels of one channel. Neighbouring lanes have the channels of the same 8 pixels, then
//! those of the next 8. A block computes 256 values of a row. With several channels the lanes of a warp exchange their
//! results first, and then store consecutive values.
//!
//! # Tiling
//! Row `r` is a row of the strip's input. In iteration `r` the threads of a block
//! - load their windows of row `r` from the planes of one buffer in shared memory,
//! - convert the values of row `r + 1` from registers to `f32`, and store them to the planes of the other buffer,
//! - load the values of row `r + 2` from global memory to registers. Neighbouring threads load neighbouring values.
//!
//! One barrier for each row is enough.
//!
//! # Passes
//! Masks of 17 x 17 and 21 x 21 take two warps. Both have the same pixels, and each has other rows of the mask. The
//! first warp hands its partial sums over to the second one through shared memory. So the rows of the image are loaded
//! once, and no partial sum leaves the multiprocessor:
//! ```text
//! iteration r       warp 0: mask rows 0 to H - 1, completes its part of output row r - H + 1
//! iteration r + 1   warp 1: mask rows H to K - 1, continues that row; completes output row r + 1 - (K - 1)
//! ```
//! The four schedulers of a multiprocessor have one constant cache each. The warps of a scheduler all have the same
//! pass, so the cache holds its coefficients.
//!
//! # Border
//! A table in shared memory has the index, in the image's row, of each value that a thread loads. Every block reads its
//! table, so all borders, widths, pitches and anchors take the same path. Each block first fills the buffers with the
//! border's value. Under a constant border no thread stores to columns outside of the image.
//!
//! # What it costs
//! | | for each value of the result |
//! | --- | --- |
//! | products | `K * K` |
//! | device memory | one value read and one written; `(K - 1) / n` values read for the halo of strips of `n` rows |
//! | second-level cache | 1.1 to 1.5 values read, 0.06 to 0.14 sectors written |

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

/// The neighbouring pixels, in one channel, that a thread computes.
pub const PIXELS_PER_THREAD: u32 = 8;

/// The fewest rows of a strip.
const MIN_STRIP_ROWS: u32 = 8;

/// Threads of a block for masks of `side` x `side`: a warp for each pass.
#[must_use]
pub const fn threads(side: u32) -> u32 {
    rows::WARP * passes(side)
}

/// The blocks that a multiprocessor should hold at a time: as many as the registers of compute capability 9.0 allow.
///
/// `u16` has fewer at 9 x 9: with 16 warps, the kernel for one channel spills on compute capability 12.0.
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
