//! The CuPy notebook's moving mean: of each element and its `radius` neighbours to both sides.
//!
//! `output[i] = (sum of input[mirror(j)], j from i - radius to i + radius) / (2 radius + 1)`, summed from left to right. The
//! ends are mirrored at the last element, which stands once (`d c b | a b c d | c b a`), as often as the radius asks for.
//!
//! The notebook's two kernels treat the right end in two ways: the plain one adds zeros there, the one with shared memory
//! adds zeros for positions that a thread of the last block stands for, and mirrors those beyond the block. The left end breaks
//! in both where the radius exceeds the array. Here all kernels mirror both ends, and give the same bits.
//!
//! # Thread mapping
//! Thread i of a one-dimensional grid computes element i. Blocks of any size.
//!
//! # Tiling of the second
//! A block needs `blockDim + 2 radius` elements and loads each once, thread t the t-th, the (t + blockDim)-th and so on. A wide
//! window is walked in pieces of `piece` offsets, each with a tile of `blockDim + piece - 1` elements, so that any radius
//! fits into any shared memory; the notebook's takes radii up to the block's size.
//!
//! # What to do
//! [`mean_filter_1d_vectors`] has four neighbouring elements a thread. Their windows overlap: together they need 2 radius + 4 values, which
//! come from shared memory four at a time. Each sum is still its own, from left to right.
//!
//! # What it costs
//! The floor is 8 bytes an element: at 3 TB/s, 376 elements a nanosecond. Both kernels load 2 radius + 1 values
//! an element, from the first-level cache or from shared memory, which are one memory with one port: 32 words a clock
//! and multiprocessor. At radius 8 that is 17 loads, on 132 multiprocessors at 1.7 GHz at most 420 elements a nanosecond
//! for either. So the bound of 17x that the notebook states, the number of loads saved, is not what to expect: what
//! global memory delivers is the same for both, since the cache already keeps what neighbours share. With four elements a
//! thread it is 5 loads of 16 bytes for four elements at radius 8: 5 words an element instead of 17.

use cuda_std::prelude::*;

use crate::abi::kernel::Convergent;

use crate::abi::border::{self, BorderMode};

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

/// Elements of a thread of [`mean_filter_1d_vectors`].
pub const EACH: u32 = 4;

/// Vectors that a thread of [`mean_filter_1d_vectors`] reads: those with the 2 radius + 4 values of its four windows.
const fn vectors(radius: u32) -> u32 {
    (2 * radius + EACH).div_ceil(EACH)
}

/// Dynamic shared memory of [`mean_filter_1d_vectors`], in bytes.
#[must_use]
pub const fn vector_bytes(block: u32, radius: u32) -> u64 {
    (block as u64 + vectors(radius) as u64 - 1) * 16
}

/// The position in `0..size` that position `i` is mirrored to.
#[inline(always)]
fn mirror(i: i32, size: u32) -> isize {
    border::map(BorderMode::Mirror.code(), i, size as i32) as isize
}

/// The quotient of a finished sum.
#[inline(always)]
fn mean(sum: f32, radius: u32) -> f32 {
    sum / (2 * radius + 1) as f32
}

/// Each thread loads all that it needs.
///
/// # Safety
/// - `input` and `output` hold `size` elements each and do not overlap. `size` and `radius` are below 2^29.
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
            // SAFETY: the window lies in the input.
            sum += unsafe { window.load(j as isize) };
        }
    } else {
        let first = i as i32 - radius as i32;
        for j in 0..2 * radius as i32 + 1 {
            // SAFETY: the mirror's image lies in the input.
            sum += unsafe { input.load(mirror(first + j, size)) };
        }
    }
    // SAFETY: i lies in the output, and no other thread has it.
    unsafe { output.store(i as isize, mean(sum, radius)) };
}

/// A block loads what it needs once.
///
/// # Safety
/// As for [`mean_filter_1d_naive`]. `piece` is at least 1, the dynamic shared memory [`shared_bytes`].
#[kernel]
pub unsafe fn mean_filter_1d_shared(input: Global<f32>, output: GlobalMut<f32>, size: u32, radius: u32, piece: u32) {
    let (block, tx) = (thread::block_dim_x(), thread::thread_idx_x());
    let i = thread::index_1d();
    let tile = Shared::<f32>::dynamic();
    let window = 2 * radius + 1;
    let first = (thread::block_idx_x() * block) as i32 - radius as i32;
    let mut sum = 0.0;
    let mut done = 0;
    // All threads of a block take part in all barriers, those without an element, too.
    while done < window {
        let now = if window - done < piece { window - done } else { piece };
        let mut at = tx;
        while at < block + now - 1 {
            // SAFETY: the mirror's image lies in the input, which is not empty where there is a block; `at` in the tile.
            unsafe { tile.store(at, input.load(mirror(first + (done + at) as i32, size))) };
            at += block;
        }
        // SAFETY: all threads are here: `done` and the window are equal in all of them.
        unsafe { thread::sync_threads() };
        for j in 0..now {
            // SAFETY: tx + j is below block + now - 1, filled before the barrier.
            sum += unsafe { tile.load(tx + j) };
        }
        done += now;
        if done < window {
            // Nobody overwrites what another still sums up.
            // SAFETY: all threads are here: `done` and the window are equal in all of them.
            unsafe { thread::sync_threads() };
        }
    }
    if i < size {
        // SAFETY: i lies in the output, and no other thread has it.
        unsafe { output.store(i as isize, mean(sum, radius)) };
    }
}

/// A thread has four neighbouring elements, and reads what their windows share once.
///
/// # Safety
/// As for [`mean_filter_1d_naive`], with a thread for four elements. `output` is aligned to 16 bytes, the dynamic shared memory
/// [`vector_bytes`].
#[kernel]
pub unsafe fn mean_filter_1d_vectors(input: Global<f32>, output: GlobalMut<f32>, size: u32, radius: u32) {
    let (block, tx) = (thread::block_dim_x(), thread::thread_idx_x());
    let tile = Shared::<f32>::dynamic();
    let vectors = vectors(radius);
    let first = (thread::block_idx_x() * block * EACH) as i32 - radius as i32;
    let mut at = tx;
    while at < (block + vectors - 1) * EACH {
        // SAFETY: the mirror's image lies in the input, which is not empty where there is a block; `at` in the tile.
        unsafe { tile.store(at, input.load(mirror(first + at as i32, size))) };
        at += block;
    }
    // SAFETY: all threads are here: no thread has returned, and no branch is around the barrier.
    unsafe { thread::sync_threads() };

    let windows = tile.cast::<F32x4>().offset(tx);
    let mut sums = [0.0_f32; EACH as usize];
    for vector in 0..vectors {
        // SAFETY: the vector lies in the tile, which was filled before the barrier.
        let values = unsafe { windows.load(vector) }.0;
        let offset = vector * EACH;
        // In the middle all values belong to all four windows, and nothing is asked of each.
        let of_all = vector > 0 && offset + EACH - 1 <= 2 * radius;
        for i in 0..EACH {
            for j in 0..EACH {
                if of_all || (j <= offset + i && offset + i <= j + 2 * radius) {
                    sums[j as usize] += values[i as usize];
                }
            }
        }
    }

    let i = thread::index_1d() * EACH;
    if i + EACH <= size {
        let means = [mean(sums[0], radius), mean(sums[1], radius), mean(sums[2], radius), mean(sums[3], radius)];
        // SAFETY: the four elements lie in the output, aligned as four, and no other thread has them.
        unsafe { output.cast::<F32x4>().store((i / EACH) as isize, F32x4(means)) };
        return;
    }
    for j in 0..EACH {
        if i + j < size {
            // SAFETY: the element lies in the output, and no other thread has it.
            unsafe { output.store((i + j) as isize, mean(sums[j as usize], radius)) };
        }
    }
}
