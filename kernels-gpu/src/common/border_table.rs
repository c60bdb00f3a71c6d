//! The border of a block's columns, computed once and kept in shared memory.
//!
//! A table has one `i32` for each value of a row that the block reads: the index in the image's row of the value that
//! stands there, or [`OUTSIDE`](border::OUTSIDE). Every row of the block uses the same table, so a kernel maps each column
//! once and not once per row.

use cuda_std::prelude::*;

use crate::abi::border;
use crate::abi::params::Params;

/// The distance by which [`map_value`] accepts positions to the left of the image, in pixels.
const LEFTMOST: i32 = 1 << 16;

/// The index in a row of `CHANNELS` interleaved channels of the value that stands for value `v` of the row, or
/// [`OUTSIDE`](border::OUTSIDE). `v` may lie outside of the row: up to 65,536 pixels to its left.
#[inline(always)]
#[must_use]
pub(crate) fn map_value<const CHANNELS: u32>(params: &Params, v: i32) -> i32 {
    if CHANNELS == 1 {
        return border::map(params.border, v, params.width);
    }
    const { assert!(CHANNELS <= 4, "LEFTMOST * CHANNELS plus a row of values must fit in an i32") };
    // With a multiple of the channels added, the quotient rounds down.
    let v = (v + LEFTMOST * CHANNELS as i32) as u32;
    let x = border::map(params.border, (v / CHANNELS) as i32 - LEFTMOST, params.width);
    if x >= 0 { x * CHANNELS as i32 + (v % CHANNELS) as i32 } else { x }
}

/// Fills `table` for the `length` values of a row from value `left` on, with the `threads` threads of the block, of which
/// this is number `thread`.
///
/// # Safety
/// - Every thread of the block calls this with its own `thread` below `threads`.
/// - `table` has `length` elements, and no thread reads them before the next barrier.
#[inline(always)]
pub(crate) unsafe fn fill<const CHANNELS: u32>(
    table: Shared<i32>,
    params: &Params,
    left: i32,
    length: u32,
    (thread, threads): (u32, u32),
) {
    let mut i = thread;
    while i < length {
        thread::no_unroll();
        // SAFETY: i < length, and `i % threads` is this thread's alone.
        unsafe { table.store(i, map_value::<CHANNELS>(params, left + i as i32)) };
        i += threads;
    }
}
