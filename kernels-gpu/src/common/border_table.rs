//! The border of a block's columns, computed once and kept in shared memory.
//!
//! The table has one `i32` for each value of a row that the block reads. It is the index, in the image's row, of the
//! value that stands there, or [`OUTSIDE`](border::OUTSIDE). All rows of the block use the same table, so a kernel maps
//! each column once, not once for each row.

use cuda_std::prelude::*;

use crate::abi::border;
use crate::abi::params::Params;

/// The distance, in pixels, by which [`map_value`] accepts positions to the left of the image.
const LEFTMOST: i32 = 1 << 16;

/// The index of the value that stands for value `v` in a row of `CHANNELS` interleaved channels, or
/// [`OUTSIDE`](border::OUTSIDE).
///
/// `v` may lie to the right of the row, or up to 65,536 pixels to its left.
#[inline(always)]
#[must_use]
pub(crate) fn map_value<const CHANNELS: u32>(params: &Params, v: i32) -> i32 {
    if CHANNELS == 1 {
        return border::map(params.border, v, params.width);
    }
    const { assert!(CHANNELS <= 4, "LEFTMOST * CHANNELS plus a row of values must fit in an i32") };
    // The added multiple of the channels makes the dividend positive, so the quotient rounds down.
    let v = (v + LEFTMOST * CHANNELS as i32) as u32;
    let x = border::map(params.border, (v / CHANNELS) as i32 - LEFTMOST, params.width);
    if x >= 0 { x * CHANNELS as i32 + (v % CHANNELS) as i32 } else { x }
}

/// Fills `table` for the `length` values of a row that begin with value `left`.
///
/// `thread` is the calling thread's rank among the `threads` threads of the block.
///
/// # Safety
/// - Every thread of the block calls this with its own `thread`, below `threads`.
/// - `table` has `length` elements.
/// - No thread reads the table before the next barrier.
#[inline(always)]
pub(crate) unsafe fn fill<const CHANNELS: u32>(
    table: Shared<i32>,
    params: &Params,
    left: i32,
    length: u32,
    (thread, threads): (u32, u32),
) {
    // SAFETY: as this function requires.
    unsafe { fill_with(table, length, (thread, threads), |i| map_value::<CHANNELS>(params, left + i as i32)) };
}

/// Fills `table` for `length` columns of one channel, from column `left` on. Its elements are the indices of values in
/// a row, counted from the first value of the channel, or [`OUTSIDE`](border::OUTSIDE).
///
/// `thread` is the calling thread's rank among the `threads` threads of the block.
///
/// # Safety
/// Those of [`fill`].
#[inline(always)]
pub(crate) unsafe fn fill_columns<const CHANNELS: u32>(
    table: Shared<i32>,
    params: &Params,
    left: i32,
    length: u32,
    (thread, threads): (u32, u32),
) {
    let index = |i: u32| {
        let x = border::map(params.border, left + i as i32, params.width);
        if x < 0 { x } else { x * CHANNELS as i32 }
    };
    // SAFETY: as this function requires.
    unsafe { fill_with(table, length, (thread, threads), index) };
}

/// Fills `table` with `element(i)` for each `i` below `length`.
///
/// # Safety
/// Those of [`fill`].
#[inline(always)]
unsafe fn fill_with(table: Shared<i32>, length: u32, (thread, threads): (u32, u32), element: impl Fn(u32) -> i32) {
    let mut i = thread;
    while i < length {
        thread::no_unroll();
        // SAFETY: i < length, and `i % threads` is this thread's alone.
        unsafe { table.store(i, element(i)) };
        i += threads;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The map of values agrees with the map of columns, channel by channel.
    fn check<const CHANNELS: u32>() {
        for mode in border::BorderMode::ALL {
            for width in [1, 2, 7] {
                let params = Params { border: mode.code(), ..Params::of_image(width, 1) };
                for x in -20..30 {
                    let expected = border::map(mode.code(), x, width);
                    for channel in 0..CHANNELS as i32 {
                        let found = map_value::<CHANNELS>(&params, x * CHANNELS as i32 + channel);
                        let value = if expected >= 0 { expected * CHANNELS as i32 + channel } else { border::OUTSIDE };
                        assert_eq!(found, value, "{mode:?}, {width} x {CHANNELS}: column {x}, channel {channel}");
                    }
                }
            }
        }
    }

    #[test]
    fn values_map_like_their_columns() {
        check::<1>();
        check::<2>();
        check::<3>();
        check::<4>();
    }

    #[test]
    fn values_map_as_far_as_promised() {
        let params = Params { border: border::BorderMode::Clamp.code(), ..Params::of_image(5, 1) };
        assert_eq!(map_value::<3>(&params, -3 * LEFTMOST + 1), 1);
        assert_eq!(map_value::<4>(&params, 4 * ((1 << 28) - 1) - 4 * LEFTMOST + 2), 18);
    }
}
