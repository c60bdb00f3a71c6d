//! The CuPy notebook's sum of an array, and the same sum by warp shuffles.
//!
//! # The notebook's two passes
//! - [`sum_reduction`]: each thread of a block loads one element to shared memory. A tree halves the number of sums,
//!   with a barrier at each level. Thread 0 writes the block's sum. The notebook's tree loses elements unless the block
//!   is a power of two. This one starts at the next power of two and tests for a partner, so any block will do.
//! - [`final_sum`]: one thread adds the blocks' sums.
//!
//! # By warp shuffles
//! [`sum_shuffle`] has as many blocks as the device holds at a time. Each thread walks over the array in grid strides
//! and adds in a register. Then there are 5 shuffles in the warp, one word of shared memory for each warp, one barrier,
//! and 5 more shuffles. One block of the same kernel adds the blocks' sums.
//!
//! # Cost
//! The roofline is 4 bytes an element. With a block of 256 the tree has 9 barriers, and after the third level seven of
//! eight warps only wait at them. Then [`final_sum`] adds n / 256 numbers with one thread: 39,063 for 10^7 elements,
//! while the rest of the device waits. With shuffles a block has one barrier, and the second pass adds some thousand
//! numbers with 256 threads. For 10^6 elements the emulator counts 281,304 barriers of warps in the tree, and 64 with
//! shuffles (8 blocks).
//!
//! # Rounding
//! An element passes through a chain of additions: levels of the tree plus blocks in the first way, n / threads + 20 in
//! the second. Each addition is off by at most 2^-24 of its result. So, to first order, the error is at most the length
//! of the chain times 2^-24 of the sum of magnitudes. See [`tree_depth`] and [`shuffle_depth`]. The same number of
//! blocks gives the same bits, in any order of execution.

use cuda_std::prelude::*;

use crate::abi::kernel::Convergent;

super::listed! {
    "tutorial_reduce";
    sum_reduction: 2 pointers, u32 => Convergent::barriers(2);
    final_sum: 2 pointers, u32;
    sum_shuffle: 2 pointers, u32 => Convergent { shuffles: 2 * SHUFFLES, ..Convergent::barriers(1) };
}

/// Threads of a block of [`sum_shuffle`], a multiple of 32. The notebook's kernel takes any number, and also uses 256.
pub const BLOCK: u32 = 256;

/// The longest chain of additions of [`sum_reduction`] with this block, then [`final_sum`].
#[must_use]
pub const fn tree_depth(length: u64, block: u32) -> u64 {
    let levels = block.next_power_of_two().trailing_zeros() as u64;
    levels + length.div_ceil(block as u64)
}

/// The longest chain of additions of [`sum_shuffle`] with `blocks` blocks of [`BLOCK`], then with one block.
#[must_use]
pub const fn shuffle_depth(length: u64, blocks: u32) -> u64 {
    let threads = blocks as u64 * BLOCK as u64;
    // A thread's chain and two times five shuffles, then the same for the blocks' sums.
    length.div_ceil(threads) + 10 + (blocks as u64).div_ceil(BLOCK as u64) + 10
}

/// The sum of each block's elements: `output[b] = sum of input[b * blockDim ..]`.
///
/// # Safety
/// - `input` holds `size` elements, `output` holds one for each block. They do not overlap.
/// - The dynamic shared memory is 4 bytes for each thread. The grid is one-dimensional.
#[kernel]
pub unsafe fn sum_reduction(input: Global<f32>, output: GlobalMut<f32>, size: u32) {
    let (block, tx) = (thread::block_dim_x(), thread::thread_idx_x());
    let i = thread::index_1d();
    let sums = Shared::<f32>::dynamic();
    // SAFETY: `input` is read where i < size; element tx is this thread's alone.
    unsafe { sums.store(tx, if i < size { input.load(i as isize) } else { 0.0 }) };
    // SAFETY: all threads are here: no thread has returned, and no branch is around the barrier.
    unsafe { thread::sync_threads() };
    // Half of the next power of two.
    let mut stride = if block > 1 { 1 << (31 - (block - 1).leading_zeros()) } else { 0 };
    while stride > 0 {
        if tx < stride && tx + stride < block {
            // SAFETY: both are below block. The partner is at least `stride`, so its thread does not write at this
            // level.
            unsafe { sums.store(tx, sums.load(tx) + sums.load(tx + stride)) };
        }
        // SAFETY: all threads are here: the loop over strides depends on the size of the block alone.
        unsafe { thread::sync_threads() };
        stride /= 2;
    }
    if tx == 0 {
        // SAFETY: `output` has an element for this block, and only this thread writes it.
        unsafe { output.store(thread::block_idx_x() as isize, sums.load(0)) };
    }
}

/// `total[0]` is the sum of `count` partial sums, by one thread.
///
/// # Safety
/// `partial_sums` holds `count` elements, `total` holds one. They do not overlap.
#[kernel]
pub unsafe fn final_sum(partial_sums: Global<f32>, total: GlobalMut<f32>, count: u32) {
    if thread::thread_idx_x() == 0 && thread::block_idx_x() == 0 {
        let mut sum = 0.0;
        for i in 0..count {
            // SAFETY: i < count.
            sum += unsafe { partial_sums.load(i as isize) };
        }
        // SAFETY: `total` holds one element, and only this thread writes it.
        unsafe { total.store(0, sum) };
    }
}

/// Shuffles of [`sum_of_warp`]: each halves the distance.
const SHUFFLES: u32 = warp::WARP_SIZE.ilog2();

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
        // SAFETY: all lanes are here, as required, and the loop over distances is the same for all of them.
        sum += unsafe { warp::shuffle_xor(sum, bits) };
        bits /= 2;
    }
    sum
}

/// The sum of each block's elements, in grid strides.
///
/// # Safety
/// - `input` holds `size` elements, `output` holds one for each block. They do not overlap.
/// - `size` is below 2^31.
/// - The threads of a block are a multiple of 32. The dynamic shared memory is 4 bytes for each warp.
/// - The grid is one-dimensional.
#[kernel]
pub unsafe fn sum_shuffle(input: Global<f32>, output: GlobalMut<f32>, size: u32) {
    let (block, tx) = (thread::block_dim_x(), thread::thread_idx_x());
    let step = thread::grid_dim_x() * block;
    let mut sum = 0.0;
    let mut i = thread::index_1d();
    while i < size {
        // SAFETY: i < size.
        sum += unsafe { input.load(i as isize) };
        i += step;
    }
    let sums = Shared::<f32>::dynamic();
    let (warp, lane) = (tx / warp::WARP_SIZE, warp::lane_id());
    // SAFETY: all threads of the block are here, and they are a multiple of 32.
    let sum = unsafe { sum_of_warp(sum) };
    if lane == 0 {
        // SAFETY: each warp has an element, and only its lane 0 writes it.
        unsafe { sums.store(warp, sum) };
    }
    // SAFETY: all threads are here: no thread has returned, and no branch is around the barrier.
    unsafe { thread::sync_threads() };
    // A block has at most 32 warps, so one warp adds their sums.
    if warp == 0 {
        // SAFETY: lane < warps of the block, whose sums were stored before the barrier.
        let sum = if lane < block / warp::WARP_SIZE { unsafe { sums.load(lane) } } else { 0.0 };
        // SAFETY: all lanes of warp 0 are here.
        let sum = unsafe { sum_of_warp(sum) };
        if lane == 0 {
            // SAFETY: `output` has an element for this block, and only this thread writes it.
            unsafe { output.store(thread::block_idx_x() as isize, sum) };
        }
    }
}
