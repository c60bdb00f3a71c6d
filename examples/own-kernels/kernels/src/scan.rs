//! Inclusive prefix sums: `result[i] = values[0] + … + values[i]`, modulo 2^32.
//!
//! Each block scans its part in shared memory. The host scans the sums of the blocks by the same kernel, and adds to
//! each block the sum of those before it.

use cuda_std::prelude::*;

/// The threads of a block, and the elements that it scans. Its shared memory has twice as many elements.
pub const THREADS: u32 = 256;

/// The prefix sums within each block, and the sum of each block.
///
/// # Safety
/// - `values` and `result` hold `length` elements each, and `sums` one for each block.
/// - A block has [`THREADS`] threads and `2 * THREADS` elements of shared memory.
#[kernel(lengths(values = length, result = length, sums = length.div_ceil(THREADS as usize)), launch_bounds(256))]
pub unsafe fn scan_blocks(values: Global<u32>, result: GlobalMut<u32>, sums: GlobalMut<u32>, length: u32) {
    let (tx, i) = (thread::thread_idx_x(), thread::index_1d());
    // Two halves that swap their roles: each step reads one and writes the other.
    let (mut from, mut to) = (Shared::<u32>::dynamic(), Shared::<u32>::dynamic().offset(THREADS));
    // SAFETY: i < length where the value is read. tx < THREADS, and no other thread has this tx.
    unsafe { from.store(tx, if i < length { values.load(i as isize) } else { 0 }) };
    let mut distance = 1;
    while distance < THREADS {
        // SAFETY: all threads of the block are here: the bounds of the loop are equal in all.
        unsafe { thread::sync_threads() };
        // SAFETY: tx and tx - distance are below THREADS, and were written before the barrier.
        let before = if tx >= distance { unsafe { from.load(tx - distance) } } else { 0 };
        // SAFETY: as above, and no other thread writes element tx of the other half.
        unsafe { to.store(tx, from.load(tx).wrapping_add(before)) };
        (from, to) = (to, from);
        distance *= 2;
    }
    // SAFETY: this thread wrote element tx.
    let sum = unsafe { from.load(tx) };
    if i < length {
        // SAFETY: i < length, and no other thread has this i.
        unsafe { result.store(i as isize, sum) };
    }
    if tx == THREADS - 1 {
        // SAFETY: there is an element for each block.
        unsafe { sums.store(thread::block_idx_x() as isize, sum) };
    }
}

/// Adds to each block but the first the scanned sum of the blocks before it.
///
/// # Safety
/// - `result` holds `length` elements, and `sums` one for each block.
/// - A block has [`THREADS`] threads.
#[kernel(lengths(result = length, sums = length.div_ceil(THREADS as usize)), launch_bounds(256))]
pub unsafe fn add_sums(result: GlobalMut<u32>, sums: Global<u32>, length: u32) {
    let (i, block) = (thread::index_1d(), thread::block_idx_x());
    if i < length && block > 0 {
        // SAFETY: i < length, no other thread has this i, and there is a sum for each block.
        unsafe {
            let before = sums.load(block as isize - 1);
            result.store(i as isize, result.load(i as isize).wrapping_add(before));
        }
    }
}
