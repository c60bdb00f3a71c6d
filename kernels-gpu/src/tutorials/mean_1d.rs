//! The CuPy notebook's moving mean: of each element and its `radius` neighbours on both sides.
//!
//! `output[i] = (sum of input[mirror(j)], j from i - radius to i + radius) / (2 radius + 1)`, summed from left to
//! right. Both ends are mirrored about the last element, which is not repeated (`d c b | a b c d | c b a`), for any
//! radius.
//!
//! The notebook's two kernels treat the right end differently. The first adds zeros there. The one with shared memory
//! adds zeros for positions in the last block, and mirrors those beyond the block. Both fail at the left end if the
//! radius exceeds the array. Here all kernels mirror both ends and give the same bits.
//!
//! # Thread mapping
//! Thread i of a one-dimensional grid computes element i. Blocks have any size.
//!
//! # Tiling of the shared-memory kernel
//! A block needs `blockDim + 2 radius` elements and loads each once: thread t the t-th, the (t + blockDim)-th and so
//! on. A wide window is walked in pieces of `piece` offsets, with a tile of `blockDim + piece - 1` elements for each.
//! So any radius fits in any shared memory. The notebook's kernel takes radii up to the size of the block.
//!
//! # The improved kernel
//! In [`mean_filter_1d_vectors`] a thread computes four neighbouring elements. Their windows overlap: together they
//! need `2 radius + 4` values, which come from shared memory in vectors of four. Each sum still runs from left to
//! right.
//!
//! # Cost
//! The roofline is 8 bytes an element: at 3 TB/s, 376 elements a nanosecond. The first two kernels load `2 radius + 1`
//! values an element, from L1 or from shared memory. Both are one memory with one port, 32 words a clock and
//! multiprocessor. At radius 8 that is 17 loads: on 132 multiprocessors at 1.7 GHz at most 420 elements a nanosecond
//! for either. So the speedup of 17 that the notebook states, the number of saved loads, is not to be expected: the
//! cache already keeps what neighbours share. With four elements a thread, radius 8 takes 5 loads of 16 bytes for four
//! elements: 5 words an element instead of 17.

use cuda_std::prelude::*;

use crate::abi::border::{self, BorderMode};
use crate::abi::kernel::Convergent;

super::listed! {
    "tutorial_mean_1d";
    mean_filter_1d_naive: 2 pointers, u32 u32;
    mean_filter_1d_shared: 2 pointers, u32 u32 u32 => Convergent::barriers(2);
    mean_filter_1d_vectors: 2 pointers, u32 u32 => Convergent::barriers(1);
}

/// Dynamic shared memory of [`mean_filter_1d_shared`], in bytes.
#[must_use]
pub const fn shared_bytes(block: u32, piece: u32) -> u64 {
    (block as u64 + piece as u64 - 1) * 4
}

/// Elements that a thread of [`mean_filter_1d_vectors`] computes.
pub const EACH: u32 = 4;

/// Vectors that a thread of [`mean_filter_1d_vectors`] reads: the `2 radius + 4` values of its four windows.
const fn vectors(radius: u32) -> u32 {
    (2 * radius + EACH).div_ceil(EACH)
}

/// Dynamic shared memory of [`mean_filter_1d_vectors`], in bytes.
#[must_use]
pub const fn vector_bytes(block: u32, radius: u32) -> u64 {
    (block as u64 + vectors(radius) as u64 - 1) * 16
}

/// The position in `0..size` that mirrors position `i`.
#[inline(always)]
fn mirror(i: i32, size: u32) -> isize {
    border::map(BorderMode::Mirror.code(), i, size as i32) as isize
}

/// The mean of a finished sum.
#[inline(always)]
fn mean(sum: f32, radius: u32) -> f32 {
    sum / (2 * radius + 1) as f32
}

/// Each thread loads its whole window.
///
/// # Safety
/// - `input` and `output` hold `size` elements each, and do not overlap.
/// - `size` and `radius` are below 2^29.
/// - The grid is one-dimensional.
#[kernel]
pub unsafe fn mean_filter_1d_naive(input: Global<f32>, output: GlobalMut<f32>, size: u32, radius: u32) {
    let i = thread::index_1d();
    if i >= size {
        return;
    }
    let mut sum = 0.0;
    if i >= radius && i + radius < size {
        let window = input.offset(i as isize - radius as isize);
        for j in 0..2 * radius + 1 {
            // SAFETY: radius <= i < size - radius, so the window lies in the input.
            sum += unsafe { window.load(j as isize) };
        }
    } else {
        let first = i as i32 - radius as i32;
        for j in 0..2 * radius as i32 + 1 {
            // SAFETY: `mirror` returns a position below size.
            sum += unsafe { input.load(mirror(first + j, size)) };
        }
    }
    // SAFETY: i < size, and no other thread has i.
    unsafe { output.store(i as isize, mean(sum, radius)) };
}

/// A block loads its elements once.
///
/// # Safety
/// - The conditions of [`mean_filter_1d_naive`].
/// - `piece` is at least 1, and `size` too.
/// - The dynamic shared memory is [`shared_bytes`].
#[kernel]
pub unsafe fn mean_filter_1d_shared(input: Global<f32>, output: GlobalMut<f32>, size: u32, radius: u32, piece: u32) {
    let (block, tx) = (thread::block_dim_x(), thread::thread_idx_x());
    let i = thread::index_1d();
    let tile = Shared::<f32>::dynamic();
    let window = 2 * radius + 1;
    let first = (thread::block_idx_x() * block) as i32 - radius as i32;
    let mut sum = 0.0;
    let mut done = 0;
    // All threads of the block reach all barriers, also those without an element.
    while done < window {
        let now = if window - done < piece { window - done } else { piece };
        let mut at = tx;
        while at < block + now - 1 {
            // SAFETY: `mirror` returns a position below size; at < block + piece - 1, the tile's length.
            unsafe { tile.store(at, input.load(mirror(first + (done + at) as i32, size))) };
            at += block;
        }
        // SAFETY: all threads are here: `done` and the window are equal in all of them.
        unsafe { thread::sync_threads() };
        for j in 0..now {
            // SAFETY: tx + j < block + now - 1, filled before the barrier.
            sum += unsafe { tile.load(tx + j) };
        }
        done += now;
        if done < window {
            // After the barrier no thread reads the tile any more.
            // SAFETY: all threads are here: `done` and the window are equal in all of them.
            unsafe { thread::sync_threads() };
        }
    }
    if i < size {
        // SAFETY: i < size, and no other thread has i.
        unsafe { output.store(i as isize, mean(sum, radius)) };
    }
}

/// A thread computes four neighbouring elements and reads their common values once.
///
/// # Safety
/// - The conditions of [`mean_filter_1d_naive`], with one thread for four elements. `size` is at least 1.
/// - `output` is aligned to 16 bytes.
/// - The dynamic shared memory is [`vector_bytes`].
#[kernel]
pub unsafe fn mean_filter_1d_vectors(input: Global<f32>, output: GlobalMut<f32>, size: u32, radius: u32) {
    let (block, tx) = (thread::block_dim_x(), thread::thread_idx_x());
    let tile = Shared::<f32>::dynamic();
    let vectors = vectors(radius);
    let first = (thread::block_idx_x() * block * EACH) as i32 - radius as i32;
    let mut at = tx;
    while at < (block + vectors - 1) * EACH {
        // SAFETY: `mirror` returns a position below size; `at` is below the tile's length.
        unsafe { tile.store(at, input.load(mirror(first + at as i32, size))) };
        at += block;
    }
    // SAFETY: all threads are here: no thread has returned, and no branch is around the barrier.
    unsafe { thread::sync_threads() };

    let windows = tile.cast::<F32x4>().offset(tx);
    let mut sums = [0.0_f32; EACH as usize];
    for vector in 0..vectors {
        // SAFETY: tx + vector < block + vectors - 1, the vectors of the tile, filled before the barrier.
        let values = unsafe { windows.load(vector) }.0;
        let offset = vector * EACH;
        // In the middle all values belong to all four windows, and need no tests.
        let in_all = vector > 0 && offset + EACH - 1 <= 2 * radius;
        for i in 0..EACH {
            for j in 0..EACH {
                if in_all || (j <= offset + i && offset + i <= j + 2 * radius) {
                    sums[j as usize] += values[i as usize];
                }
            }
        }
    }

    let i = thread::index_1d() * EACH;
    if i + EACH <= size {
        let means = [mean(sums[0], radius), mean(sums[1], radius), mean(sums[2], radius), mean(sums[3], radius)];
        // SAFETY: i + 4 <= size, i is a multiple of 4, and no other thread has these elements.
        unsafe { output.cast::<F32x4>().store((i / EACH) as isize, F32x4(means)) };
        return;
    }
    for j in 0..EACH {
        if i + j < size {
            // SAFETY: i + j < size, and no other thread has this element.
            unsafe { output.store((i + j) as isize, mean(sums[j as usize], radius)) };
        }
    }
}
