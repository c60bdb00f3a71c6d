//! Sums over the lanes of a warp.

use cuda_std::prelude::*;

/// The sum of `value` in this lane and in all lanes before it.
///
/// # Safety
/// All lanes of the warp call it, each with its number.
#[inline(always)]
pub(crate) unsafe fn sum_of_lanes(value: u32, lane: u32) -> u32 {
    let mut sum = value;
    for i in 0..5 {
        let distance = 1 << i;
        // SAFETY: all lanes are here.
        let before = unsafe { warp::shuffle(sum, lane.wrapping_sub(distance) % 32) };
        sum += if lane >= distance { before } else { 0 };
    }
    sum
}
