//! How the kernel for each type of pixel, number of channels and size of mask walks, and how many blocks fill a device.
//!
//! Measured on an H100, 8192 x 8192 values and more: the fastest of 4 and 8 columns a thread, 0 and 4 rows of prefetch,
//! and 1 to 12 waves.

use crate::abi::pixel::PixelType;
use crate::direct::sliding_window::{Source, cp_async_ring, double_buffered};

/// How a kernel walks, and how its launches fill a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Values of a row that a thread owns, a multiple of 4.
    pub columns_per_thread: u32,
    /// Rows between the prefetch of a row and its use. 0: it is loaded at use, without a prefetch.
    pub prefetch_distance: u32,
    /// Blocks that a multiprocessor holds at a time: what its registers allow on compute capability 9.0.
    pub blocks_per_sm: u32,
    /// Blocks of a launch for each block that the device holds at a time. More waves keep the device busy while the
    /// last blocks end. Each strip loads `K - 1` rows more than it stores.
    pub waves: u32,
}

/// A schedule by its four numbers, in the order of the fields.
const fn schedule_of(columns_per_thread: u32, prefetch_distance: u32, blocks_per_sm: u32, waves: u32) -> Schedule {
    Schedule { columns_per_thread, prefetch_distance, blocks_per_sm, waves }
}

/// The schedule for images of `channels` interleaved channels of `pixel` and masks of `side` x `side`.
///
/// # Panics
/// If there is no such kernel: at compile time, because only the list of entries asks.
#[must_use]
pub const fn schedule(pixel: PixelType, channels: u32, side: u32) -> Schedule {
    match Source::of(pixel, channels, side) {
        Source::DoubleBuffered => double_buffered(side),
        Source::GlobalRows => global_rows(pixel, channels, side),
        Source::CpAsyncRing => {
            let blocks_per_sm = if channels == 1 { 28 } else { 20 };
            schedule_of(cp_async_ring::COLUMNS, cp_async_ring::PREFETCH_DISTANCE, blocks_per_sm, 4)
        }
    }
}

const fn double_buffered(side: u32) -> Schedule {
    // A loop beyond the instruction cache is slow: from 16 x 16 on a thread has 4 columns, from 21 x 21 on the mask has
    // passes.
    let (columns, blocks_per_sm, waves) = match side {
        3..=5 => (4, 32, 1),
        6 => (4, 28, 1),
        7..=9 => (8, 16, 1),
        10..=13 => (8, 12, 1),
        14..=15 => (8, 8, 1),
        16..=18 => (4, 16, 1),
        19..=20 => (4, 12, 2),
        21 | 23 | 29 | 31 => (8, 12, 1),
        25 | 27 => (8, 12, 2),
        _ => panic!("no kernel for this size"),
    };
    schedule_of(columns, double_buffered::PREFETCH_DISTANCE, blocks_per_sm, waves)
}

const fn global_rows(pixel: PixelType, channels: u32, side: u32) -> Schedule {
    match (pixel, channels, side) {
        (PixelType::F32, _, 3) => schedule_of(8, 0, 28, 2),
        (PixelType::F32, _, 5) => schedule_of(8, 0, 20, 2),
        (PixelType::F32, _, 7) => schedule_of(4, 4, 24, 4),
        (PixelType::U16, 1, 3) => schedule_of(8, 4, 32, 8),
        (PixelType::U16, 1, 5 | 7) => schedule_of(4, 4, 32, 4),
        (_, _, 3) => schedule_of(8, 4, 28, 12),
        (_, _, 5) => schedule_of(8, 4, 20, 4),
        (_, _, 7) => schedule_of(8, 4, 16, 4),
        (_, _, 9) => schedule_of(8, 4, 12, 4),
        (_, _, 11) => schedule_of(4, 4, 16, 8),
        _ => panic!("no kernel for this size"),
    }
}
