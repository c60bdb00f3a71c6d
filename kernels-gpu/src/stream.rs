//! A thread walks down a strip of columns with all of its sums in registers: a product costs one instruction and
//! nothing else.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! From shared memory each product takes a load, which is four times as slow as the product itself. Here a thread reads
//! a row of its window once, `C + K - 1` pixels for `C` outputs, and adds it to the sums of all `K` rows of outputs
//! that it reaches: `C * K * K` products out of some `(C + K) / 4` loads.
//!
//! # The free shift
//! With each row the sums move up by one: the sum that had `K - 1` rows gets its last one and is written, the others
//! step into its place, and one begins at 0. Nothing is moved for that, because a multiply-add names its destination:
//! ```text
//! sums[0] = x * W[K-1] + sums[1]         finished: written
//! sums[1] = x * W[K-2] + sums[2]
//!   …
//! sums[K-1] = x * W[0] + 0
//! ```
//! So the loop over the rows stays rolled, and its code fits the instruction cache. Each sum gets the rows of its
//! window from top to bottom and each row from left to right: the order of every direct kernel, and the same bits.
//!
//! # Thread mapping and tiling
//! [`staged`]: `C` columns and a strip of rows a thread. Images and results are of one `f32` a pixel; [`stream_values`](crate::stream_values)
//! has the others.
//!
//! # What it costs
//! | | for each output |
//! | --- | --- |
//! | products | `K * K` |
//! | bytes of device memory | 8, and `4 (K - 1) / rows of a strip` that two strips read |
//! | instructions beside the products | coefficients past the 60 that uniform registers hold, one instruction for two of them, for `C` outputs; copies to and from shared memory, store and loop, about 45 for `C` |
//!
//! On an H100 (8192 x 8192, one channel, zero border), with the schedule of [`SCHEDULES`]; the floor is the longer of 8
//! bytes a pixel at the 2.98 TB/s of a copy and `K * K` products a pixel at 62.5 TFLOP/s:
//!
//! | | 3 x 3 | 5 x 5 | 7 x 7 | 9 x 9 | 11 x 11 | 13 x 13 | 15 x 15 | 17 x 17 | 21 x 21 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | µs | 208 | 210 | 217 | 247 | 337 | 448 | 603 | 768 | 1199 |
//! | of the floor | 87 % | 86 % | 83 % | 73 % | 77 % | 81 % | 80 % | 81 % | 79 % |
//!
//! The coefficients are read from constant memory by constant addresses into uniform registers, which a multiply-add
//! takes as its second factor at full rate. The sums and pixels take `C (K + 1) + K` registers.
//!
//! What bounds `C` and `K` is the instruction cache: a loop of up to some 2000 instructions (32 KB) runs at 90 % of the FP32 units,
//! one of 2700 at 80 %, one of 3600 at 73 %. So from 17 x 17 on a thread has 4 columns, and from 27 x 27 on
//! [`register_tile`](crate::register_tile) is faster, whose loops are rolled.

use cuda_std::prelude::*;

use crate::constant_mask::MASK;
use crate::params::Params;
use crate::staged::{self, AddWindow, Window};
use crate::strip::{self, Needed, Schedule, Sums};

pub use crate::strip::BLOCK;

/// The sizes of masks that there are kernels for, and how each walks: the faster of 4 and 8 columns, and the fastest of 1, 2 and 4
/// waves, on an H100 (8192 x 8192).
pub const SCHEDULES: [(u32, Schedule); 21] = {
    const fn schedule(columns: usize, resident: u32, waves: u32) -> Schedule {
        Schedule { columns, ahead: 1, resident, waves }
    }
    [
        (3, schedule(8, 28, 4)),
        (4, schedule(8, 28, 4)),
        (5, schedule(4, 32, 2)),
        (6, schedule(8, 20, 2)),
        (7, schedule(8, 16, 1)),
        (8, schedule(8, 16, 1)),
        (9, schedule(8, 16, 1)),
        (10, schedule(8, 12, 1)),
        (11, schedule(8, 12, 1)),
        (12, schedule(8, 12, 1)),
        (13, schedule(8, 12, 1)),
        (14, schedule(8, 12, 1)),
        (15, schedule(8, 8, 1)),
        (16, schedule(4, 16, 1)),
        (17, schedule(4, 16, 1)),
        (18, schedule(4, 16, 1)),
        (19, schedule(4, 16, 1)),
        (20, schedule(4, 12, 2)),
        (21, schedule(4, 12, 2)),
        (23, schedule(4, 12, 2)),
        (25, schedule(4, 12, 2)),
    ]
};

/// How the kernel for masks of `size` x `size` walks.
///
/// # Panics
/// If there is none: while compiling, because only the list of entries asks.
#[must_use]
pub const fn schedule(size: u32) -> Schedule {
    strip::schedule(&SCHEDULES, size)
}

/// The kernel for a mask of `K` x `K`, `C` columns a thread.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, begin at a multiple of 16 bytes and do not
///   overlap.
/// - The block is [`BLOCK`], the dynamic shared memory at least [`staged::shared_bytes`] for `C` columns a thread, the mask
///   `K` x `K` with `K` at most 31.
/// - [`struct@MASK`] holds the `K` x `K` coefficients.
#[inline(always)]
pub unsafe fn stream<const K: usize, const C: usize>(image: Global<f32>, result: GlobalMut<f32>, params: Params) {
    // SAFETY: the caller's promise.
    unsafe { staged::walk::<Products, K, C>(image, result, params) }
}

/// Adds a row of pixels, multiplied with each row of the mask that is needed.
struct Products;

impl<const K: usize, const C: usize> AddWindow<K, C> for Products {
    #[inline(always)]
    unsafe fn add(sums: &mut Sums<K, C>, window: &Window<K, C>, needed: Needed) {
        // Rows of the mask that are asked for together.
        let group = if K < 7 { K } else { K.div_ceil(4) };
        for begin in 0..K.div_ceil(group) {
            let (begin, end) = (begin * group, K.min(begin * group + group));
            if group < K && !needed.has_any(K - end, end - begin) {
                continue;
            }
            for a in 0..K {
                if a < begin || a >= end {
                    continue;
                }
                let k = K - 1 - a;
                let mut sum = if a + 1 < K { sums[a + 1] } else { [0.0; C] };
                for l in 0..K {
                    // SAFETY: the mask is K x K.
                    let coefficient = unsafe { MASK.load(k * K + l) };
                    for (c, sum) in sum.iter_mut().enumerate() {
                        *sum = fma(window.at(l + c), coefficient, *sum);
                    }
                }
                sums[a] = sum;
            }
        }
    }
}
