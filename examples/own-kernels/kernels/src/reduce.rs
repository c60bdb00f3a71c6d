//! Sums: within a thread, then within a warp by shuffles, then within a block through shared memory.

use cuda_std::prelude::*;

/// The threads of a block.
pub const THREADS: u32 = 256;
/// The warps of a block, and the elements of its shared memory.
pub const WARPS: u32 = THREADS / 32;

/// The sum of `value` over the lanes of the warp, in lane 0.
///
/// # Safety
/// - All 32 lanes of the warp execute this call together.
#[inline(always)]
#[track_caller]
unsafe fn sum_of_warp(mut value: u32) -> u32 {
    let mut delta = 16;
    while delta > 0 {
        // SAFETY: all lanes are here, as required above.
        value = value.wrapping_add(unsafe { warp::shuffle_down(value, delta) });
        delta /= 2;
    }
    value
}

/// Writes the sum of the values of each block to `sums`, modulo 2^32. The blocks share the values.
///
/// # Safety
/// - `values` holds `length` elements, and `sums` one for each block.
/// - A block has [`THREADS`] threads and [`WARPS`] elements of shared memory.
#[kernel(lengths(values = length), launch_bounds(256))]
pub unsafe fn sum_blocks(values: Global<u32>, sums: GlobalMut<u32>, length: u32) {
    let (tx, step) = (thread::thread_idx_x(), thread::grid_dim_x() * THREADS);
    let mut sum = 0_u32;
    let mut i = thread::index_1d();
    while i < length {
        // SAFETY: i < length, checked above.
        sum = sum.wrapping_add(unsafe { values.load(i as isize) });
        i += step;
    }
    // SAFETY: all threads of the block are here: none has returned.
    sum = unsafe { sum_of_warp(sum) };
    let of_warps = Shared::<u32>::dynamic();
    if tx % 32 == 0 {
        // SAFETY: the number of the warp is below WARPS, and no other thread has it.
        unsafe { of_warps.store(tx / 32, sum) };
    }
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };
    if tx < 32 {
        // SAFETY: tx is below WARPS, and the element was written before the barrier.
        let of_warp = if tx < WARPS { unsafe { of_warps.load(tx) } } else { 0 };
        // SAFETY: the first warp is here as a whole.
        let total = unsafe { sum_of_warp(of_warp) };
        if tx == 0 {
            // SAFETY: there is an element for each block.
            unsafe { sums.store(thread::block_idx_x() as isize, total) };
        }
    }
}
