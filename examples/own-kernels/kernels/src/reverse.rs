//! Reverses the values of each block: a shared array of a fixed length.

use cuda_std::prelude::*;

/// The threads of a block.
pub const THREADS: u32 = 256;

/// Reverses each group of [`THREADS`] values. The last group may have fewer.
///
/// # Safety
/// - `values` holds `length` elements.
/// - A block has [`THREADS`] threads, and the grid one block for each group.
#[kernel(lengths(values = length), launch_bounds(256))]
pub unsafe fn reverse_blocks(values: GlobalMut<f32>, length: u32) {
    let tile = shared_array![f32; THREADS as usize];
    let (tx, i) = (thread::thread_idx_x(), thread::index_1d());
    if i < length {
        // SAFETY: i < length and tx < THREADS, and no other thread has this i or this tx.
        unsafe { tile.store(tx, values.load(i as isize)) };
    }
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };
    if i < length {
        let of_group = (length - (i - tx)).min(THREADS);
        // SAFETY: the element of the tile was written before the barrier: its thread is one of the group.
        unsafe { values.store(i as isize, tile.load(of_group - 1 - tx)) };
    }
}
