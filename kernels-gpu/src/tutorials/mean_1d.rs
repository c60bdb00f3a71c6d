//! The CuPy notebook's moving mean: of each element and its `radius` neighbours to both sides.
//!
//! `output[i] = (sum of input[mirror(j)], j from i - radius to i + radius) / (2 radius + 1)`, summed from left to right. The
//! ends are mirrored at the last element, which stands once (`d c b | a b c d | c b a`), as often as the radius asks for.
//!
//! The notebook's two kernels treat the right end in two ways: the plain one adds zeros there, the one with shared memory
//! adds zeros for positions that a thread of the last block stands for, and mirrors those beyond the block. The left end breaks
//! in both where the radius exceeds the array. Here both kernels mirror both ends, and give the same bits.
//!
//! # Thread mapping
//! Thread i of a one-dimensional grid computes element i. Blocks of any size.
//!
//! # Tiling of the second
//! A block needs `blockDim + 2 radius` elements and loads each once, thread t the t-th, the (t + blockDim)-th and so on. A wide
//! window is walked in pieces of `piece` offsets, each with a tile of `blockDim + piece - 1` elements, so that any radius
//! fits into any shared memory; the notebook's takes radii up to the block's size.
//!
//! # What it costs
//! The floor is 8 bytes an element: at 3 TB/s, 376 elements a nanosecond. Both kernels load 2 radius + 1 values
//! an element, from the first-level cache or from shared memory, which are one memory with one port: 32 words a clock
//! and multiprocessor. At radius 8 that is 17 loads, on 132 multiprocessors at 1.7 GHz at most 420 elements a nanosecond
//! for either. So the bound of 17x that the notebook states, the number of loads saved, is not what to expect: what
//! global memory delivers is the same for both, since the cache already keeps what neighbours share.

use cuda_std::prelude::*;

use crate::border::{self, BorderMode};

super::listed! {
    "tutorial_mean_1d";
    mean_filter_1d_naive: 2 pointers, u32 u32;
    mean_filter_1d_shared: 2 pointers, u32 u32 u32;
}

/// Dynamic shared memory of [`mean_filter_1d_shared`], in bytes.
#[must_use]
pub const fn shared_bytes(block: u32, piece: u32) -> u64 {
    (block as u64 + piece as u64 - 1) * 4
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
        thread::sync_threads();
        for j in 0..now {
            // SAFETY: tx + j is below block + now - 1, filled before the barrier.
            sum += unsafe { tile.load(tx + j) };
        }
        done += now;
        if done < window {
            // Nobody overwrites what another still sums up.
            thread::sync_threads();
        }
    }
    if i < size {
        // SAFETY: i lies in the output, and no other thread has it.
        unsafe { output.store(i as isize, mean(sum, radius)) };
    }
}
