//! The CuPy notebook's sum of an array, and how one would do it today.
//!
//! # The notebook's two passes
//! [`sum_reduction`]: a block of threads loads an element each into shared memory, then halves the number of sums by a tree,
//! with a barrier at each level; thread 0 writes the block's sum. [`final_sum`]: one thread adds up the blocks' sums. The
//! notebook's tree loses elements unless the block is a power of two; this one starts at the next power of two and asks
//! whether there is a partner, so any block will do.
//!
//! # By warp shuffles
//! [`sum_shuffle`]: as many blocks as the device holds at a time, each thread walks over the array in steps of the grid and adds
//! up in a register; then 5 exchanges within the warp, one word of shared memory a warp, one barrier, 5 more exchanges. The
//! blocks' sums go through the same kernel, in one block.
//!
//! # What it costs
//! The floor is 4 bytes an element. The tree has an element a thread: for a block of 256 it has 9 barriers, and after the third
//! level seven of eight warps do nothing but wait at them. Then [`final_sum`] adds up n / 256 numbers with one thread, one after
//! the other: 39,063 for 10^7 elements, while the rest of the device waits. By shuffles there is one barrier a block, the number of
//! blocks is that which the device holds, and the second pass adds up some thousand numbers with 256 threads. The emulator
//! counts for 10^6 elements 281,304 barriers of warps in the tree and 64 by shuffles (8 blocks).
//!
//! # Rounding
//! An element passes through as many additions as lie between it and the result: levels of the tree + blocks for the first way,
//! n / threads + 20 for the second. Each is off by at most 2^-24 of its result, so the error is at most that
//! many times 2^-24 of the sum of magnitudes, to first order; see [`tree_depth`] and [`shuffle_depth`]. The same number of
//! blocks gives the same bits, in any order of execution.

use cuda_std::prelude::*;

use crate::abi::kernel::Convergent;

super::listed! {
    "tutorial_reduce";
    sum_reduction: 2 pointers, u32 => Convergent::barriers(2);
    final_sum: 2 pointers, u32;
    sum_shuffle: 2 pointers, u32 => Convergent { shuffles: 2 * EXCHANGES, ..Convergent::barriers(1) };
}

/// Threads of a block of [`sum_shuffle`], a multiple of 32; the notebook's kernel takes any number, its own is also 256.
pub const BLOCK: u32 = 256;

/// The most additions that an element passes through in [`sum_reduction`] with this block, then [`final_sum`].
#[must_use]
pub const fn tree_depth(length: u64, block: u32) -> u64 {
    let levels = block.next_power_of_two().trailing_zeros() as u64;
    levels + length.div_ceil(block as u64)
}

/// The most additions that an element passes through in [`sum_shuffle`] with `blocks` blocks of [`BLOCK`], then with one.
#[must_use]
pub const fn shuffle_depth(length: u64, blocks: u32) -> u64 {
    let threads = blocks as u64 * BLOCK as u64;
    // A thread's chain, and two times five exchanges; then the same for the blocks' sums.
    length.div_ceil(threads) + 10 + (blocks as u64).div_ceil(BLOCK as u64) + 10
}

/// The sum of each block's elements: `output[b] = sum of input[b * blockDim ..]`. `output` gets one element a block.
///
/// # Safety
/// - `input` holds `size` elements, `output` one for each block. They do not overlap.
/// - The dynamic shared memory is 4 bytes a thread. The grid is one-dimensional.
#[kernel]
pub unsafe fn sum_reduction(input: Global<f32>, output: GlobalMut<f32>, size: u32) {
    let (block, tx) = (thread::block_dim_x(), thread::thread_idx_x());
    let i = thread::index_1d();
    let sums = Shared::<f32>::dynamic();
    // SAFETY: i lies in the input; tx is the thread's own place.
    unsafe { sums.store(tx, if i < size { input.load(i as isize) } else { 0.0 }) };
    // SAFETY: all threads are here: no thread has returned, and no branch is around the barrier.
    unsafe { thread::sync_threads() };
    // Half of the next power of two.
    let mut stride = if block > 1 { 1 << (31 - (block - 1).leading_zeros()) } else { 0 };
    while stride > 0 {
        if tx < stride && tx + stride < block {
            // SAFETY: both lie in the block's memory, and the partner is no thread that writes at this level.
            unsafe { sums.store(tx, sums.load(tx) + sums.load(tx + stride)) };
        }
        // SAFETY: all threads are here: the loop over strides depends on the size of the block alone.
        unsafe { thread::sync_threads() };
        stride /= 2;
    }
    if tx == 0 {
        // SAFETY: the output has an element for this block.
        unsafe { output.store(thread::block_idx_x() as isize, sums.load(0)) };
    }
}

/// `total[0]` = the sum of `count` partial sums, by one thread.
///
/// # Safety
/// `partial_sums` holds `count` elements, `total` one.
#[kernel]
pub unsafe fn final_sum(partial_sums: Global<f32>, total: GlobalMut<f32>, count: u32) {
    if thread::thread_idx_x() == 0 && thread::block_idx_x() == 0 {
        let mut sum = 0.0;
        for i in 0..count {
            // SAFETY: i is below the count.
            sum += unsafe { partial_sums.load(i as isize) };
        }
        // SAFETY: the caller's promise.
        unsafe { total.store(0, sum) };
    }
}

/// Exchanges of [`sum_of_warp`]: each halves the distance.
const EXCHANGES: u32 = warp::WARP_SIZE.ilog2();

/// The sum over a warp, in all of its lanes.
///
/// # Safety
/// - All 32 lanes of the warp execute this call together.
/// - The number of threads of the block is a multiple of 32.
#[inline(always)]
unsafe fn sum_of_warp(value: f32) -> f32 {
    let mut sum = value;
    let mut bits = warp::WARP_SIZE / 2;
    while bits > 0 {
        // SAFETY: all lanes are here, as required above, and the loop over distances is the same for all of them.
        sum += unsafe { warp::shuffle_xor(sum, bits) };
        bits /= 2;
    }
    sum
}

/// The sum of the elements that each block comes by, stepping over the input by the grid. `output` gets one element a block.
///
/// # Safety
/// - `input` holds `size` elements, below 2^31; `output` one for each block. They do not overlap.
/// - The block's threads are a multiple of 32; dynamic shared memory is 4 bytes a warp. The grid is one-dimensional.
#[kernel]
pub unsafe fn sum_shuffle(input: Global<f32>, output: GlobalMut<f32>, size: u32) {
    let (block, tx) = (thread::block_dim_x(), thread::thread_idx_x());
    let step = thread::grid_dim_x() * block;
    let mut sum = 0.0;
    let mut i = thread::index_1d();
    while i < size {
        // SAFETY: i lies in the input.
        sum += unsafe { input.load(i as isize) };
        i += step;
    }
    let sums = Shared::<f32>::dynamic();
    let (warp, lane) = (tx / warp::WARP_SIZE, warp::lane_id());
    // SAFETY: all threads of the block are here, and they are a multiple of 32.
    let sum = unsafe { sum_of_warp(sum) };
    if lane == 0 {
        // SAFETY: a place for each warp.
        unsafe { sums.store(warp, sum) };
    }
    // SAFETY: all threads are here: no thread has returned, and no branch is around the barrier.
    unsafe { thread::sync_threads() };
    // The first warp as a whole; a block has at most 32 warps.
    if warp == 0 {
        // SAFETY: the places of the block's warps were filled before the barrier.
        let sum = if lane < block / warp::WARP_SIZE { unsafe { sums.load(lane) } } else { 0.0 };
        // SAFETY: all lanes of warp 0 are here.
        let sum = unsafe { sum_of_warp(sum) };
        if lane == 0 {
            // SAFETY: the output has an element for this block.
            unsafe { output.store(thread::block_idx_x() as isize, sum) };
        }
    }
}
