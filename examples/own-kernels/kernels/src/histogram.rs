//! A histogram of bytes: each block counts in shared memory by atomic additions, then adds its counts to the result.

use cuda_std::prelude::*;

/// The threads of a block, the bins, and the elements of the shared memory of a block.
pub const BINS: u32 = 256;

/// Adds the number of bytes of each value to `bins`.
///
/// # Safety
/// - `bytes` holds `length` elements and `bins` [`BINS`], which the host sets to 0.
/// - A block has [`BINS`] threads and [`BINS`] elements of shared memory.
#[kernel(lengths(bytes = length, bins = BINS as usize), launch_bounds(256))]
pub unsafe fn histogram(bytes: Global<u8>, bins: GlobalMut<u32>, length: u32) {
    let (tx, step) = (thread::thread_idx_x(), thread::grid_dim_x() * BINS);
    let counts = Shared::<u32>::dynamic();
    // SAFETY: tx < BINS, and no other thread has this tx.
    unsafe { counts.store(tx, 0) };
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };
    let mut i = thread::index_1d();
    while i < length {
        // SAFETY: i < length, checked above. A byte is below BINS. Between the barriers all accesses are atomic.
        unsafe { counts.atomic_add(bytes.load(i as isize).into(), 1) };
        i += step;
    }
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };
    // SAFETY: tx < BINS. Other blocks add to the same element, atomically as well.
    unsafe { bins.atomic_add(tx as isize, counts.load(tx)) };
}
