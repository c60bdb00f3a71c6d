//! The sum along one row of a window, for masks of any width.

use cuda_std::prelude::*;

/// Adds one row of the window: `sum = product(l, sum)` for `l` from 0 to `columns - 1`, in this order.
///
/// The loop takes four columns at a time, so that their loads are in flight together. The `columns % 4` first columns
/// come before the loop.
#[inline(always)]
pub(crate) fn add_row(sum: f32, columns: u32, product: impl Fn(usize, f32) -> f32) -> f32 {
    let remainder = columns & 3;
    let mut sum = sum;
    if remainder > 0 {
        sum = product(0, sum);
    }
    if remainder > 1 {
        sum = product(1, sum);
    }
    if remainder > 2 {
        sum = product(2, sum);
    }
    let mut l = remainder;
    while l < columns {
        // Rows of masks are short: more unrolling adds more branches than it saves.
        thread::no_unroll();
        for i in 0..4 {
            sum = product(l as usize + i, sum);
        }
        l += 4;
    }
    sum
}
