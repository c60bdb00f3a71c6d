//! A sliding window: a thread walks down a strip of rows with all partial sums in registers.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`, for each channel
//!
//! # The idea
//! From shared memory each product takes a load, which is four times as slow as the product. Here a thread loads a
//! window of `C + K - 1` pixels of a row once, and multiplies it with all `K` rows of the mask: `C * K * K` products
//! out of `(C + K) / 4` vector loads. It adds them to the partial sums of `K` output rows.
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
//! [`walk`] is the walk down a strip. It takes its windows from one of three sources:
//!
//! | source | images | how a row reaches a thread |
//! | --- | --- | --- |
//! | [`double_buffered`] | `f32`, 1 channel | loaded 2 rows ahead into registers, passed through shared memory |
//! | [`global_rows`] | `f32`, 3 and 4 channels; `u16` | loaded at use, prefetched into L2 |
//! | [`cp_async_ring`] | `u8`, masks of 3 x 3 | copied 3 rows ahead to shared memory by `cp.async` |
//!
//! [`passes`] walks a strip several times for masks from 21 x 21 on.
//!
//! # What it costs
//! | | for each value of the result |
//! | --- | --- |
//! | products | `K * K` |
//! | device memory | one value read and one written; `(K - 1) / n` values read for the halo |
//! | device memory of each further pass | two values read and one written |
//! | other instructions, for `C` values | 75; one for two coefficients beyond the 60 in uniform registers |
//!
//! Sums and window take `C (H + 1) + K` registers, with `H` rows of the mask in a pass.
//!
//! H100, 2026-11: 9 x 9 on 8192 x 8192 `f32` in 224 µs, 80 % of the roofline.

use crate::abi::kernel::{Convergent, OLDEST};
use crate::abi::pixel::PixelType;

pub mod cp_async_ring;
pub mod double_buffered;
mod fragments;
pub mod global_rows;
mod passes;
mod schedule;
mod walk;

pub use self::passes::{mask_row, rows_per_pass};
pub use self::schedule::{Schedule, schedule};

/// Threads of a block: one warp.
pub const BLOCK: (u32, u32) = (32, 1);

/// The fewest rows of a strip. A shorter one loads more rows for its neighbours than for itself.
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
    /// The source for images of `channels` interleaved channels of `pixel`.
    #[must_use]
    pub const fn of(pixel: PixelType, channels: u32) -> Self {
        match (pixel, channels) {
            (PixelType::F32, 1) => Self::DoubleBuffered,
            (PixelType::F32 | PixelType::U16, _) => Self::GlobalRows,
            (PixelType::U8, _) => Self::CpAsyncRing,
        }
    }
}

/// The values of a row that a block computes, and the fewest rows that its strip should have.
#[must_use]
pub const fn outputs(pixel: PixelType, channels: u32, side: u32) -> (u32, u32) {
    (BLOCK.0 * schedule(pixel, channels, side).columns_per_thread, MIN_STRIP_ROWS)
}

/// The dynamic shared memory of a block in bytes.
#[must_use]
pub const fn shared_bytes(pixel: PixelType, channels: u32, side: u32) -> u64 {
    let columns = schedule(pixel, channels, side).columns_per_thread;
    match Source::of(pixel, channels) {
        Source::DoubleBuffered => double_buffered::shared_bytes(columns),
        Source::GlobalRows => global_rows::shared_bytes(columns, channels, side),
        Source::CpAsyncRing => cp_async_ring::shared_bytes(),
    }
}

/// The launch bounds that the PTX declares: threads of a block, and blocks of a multiprocessor.
///
/// `None` where the assembler takes few enough registers without.
#[must_use]
pub const fn launch_bounds(pixel: PixelType, channels: u32, side: u32) -> Option<(u32, u32)> {
    let blocks_per_sm = schedule(pixel, channels, side).blocks_per_sm;
    match (Source::of(pixel, channels), pixel, side) {
        (Source::GlobalRows, PixelType::U16, 3) => Some((BLOCK.0, 32)),
        (Source::DoubleBuffered, ..) | (Source::GlobalRows, _, 5) => Some((BLOCK.0, blocks_per_sm)),
        _ => None,
    }
}

/// The convergent instructions of the source code.
#[must_use]
pub const fn convergent(pixel: PixelType, channels: u32) -> Convergent {
    match Source::of(pixel, channels) {
        Source::DoubleBuffered => double_buffered::CONVERGENT,
        Source::GlobalRows => global_rows::CONVERGENT,
        Source::CpAsyncRing => cp_async_ring::CONVERGENT,
    }
}

/// The types of results for images of `pixel`.
#[must_use]
pub const fn results(pixel: PixelType) -> &'static [PixelType] {
    match pixel {
        PixelType::F32 => &[PixelType::F32],
        PixelType::U16 => &[PixelType::U16, PixelType::F32],
        PixelType::U8 => &[PixelType::U8],
    }
}

/// The oldest compute capability, major and minor, that has the instructions.
#[must_use]
pub const fn compute_capability(pixel: PixelType) -> (u32, u32) {
    match pixel {
        PixelType::F32 | PixelType::U16 => OLDEST,
        PixelType::U8 => cp_async_ring::COMPUTE_CAPABILITY,
    }
}

/// Whether the kernel keeps the border's value as a pixel, so that it must be one.
#[must_use]
pub const fn border_is_pixel(pixel: PixelType) -> bool {
    matches!(pixel, PixelType::U8)
}
