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
//! [`strip`]: `C` values of a row and a strip of rows a thread. Results have the image's type; of `u16`, `f32`, too.
//!
//! # What it costs
//! | | for each output |
//! | --- | --- |
//! | products | `K * K` |
//! | bytes of device memory | 8, and `4 (K - 1) / rows of a strip` that two strips read |
//! | instructions beside the products | coefficients past the 60 that uniform registers hold, one instruction for two of them, for `C` outputs; loads, store and loop, about 30 for `C` |
//!
//! On an H200 (8192 x 8192, one channel, zero border), with the schedule of [`SCHEDULES`]; the floor is the longer of 8
//! bytes a pixel at the 4.18 TB/s of a copy and `K * K` products a pixel in the FP32 units:
//!
//! | | 3 x 3 | 5 x 5 | 7 x 7 | 9 x 9 | 11 x 11 | 13 x 13 | 15 x 15 | 17 x 17 | 21 x 21 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | µs | 148 | 155 | 184 | 251 | 364 | 495 | 666 | 832 | 1414 |
//! | of the floor | 87 % | 83 % | 70 % | 69 % | 71 % | 73 % | 72 % | 74 % | 67 % |
//!
//! At 31 x 31 the sums no longer fit the registers well: 5228 µs, where [`register_tile`](crate::register_tile) takes
//! 3487.
//!
//! Images in 3 and 4 channels and images of `u16` have the same walk; a window takes every third or fourth value. On an H100 (zero
//! border, one channel 8192 x 8192 pixels, three 8192 x 4096; 2.98 TB/s and 62.1 TFLOP/s), µs and of the floor:
//!
//! | | 3 x 3 | 5 x 5 | 7 x 7 | 9 x 9 | 11 x 11 |
//! | --- | --- | --- | --- | --- | --- |
//! | `f32`, three channels | 309, 88 % | 304, 89 % | 347, 78 % | 422, 64 % | 585, 67 % |
//! | `u16`, one channel | 107, 84 % | 136, 66 % | 194, 55 % | 285, 61 % | 390, 67 % |
//! | `u16`, three channels | 159, 85 % | 209, 65 % | 310, 51 % | 479, 55 % | 704, 56 % |
//!
//! With `u16` a window of `C + (K - 1) * CHANNELS` values is converted in each row, an instruction each, and `C` sums are rounded.
//!
//! The coefficients are read from constant memory by constant addresses into uniform registers, which a multiply-add
//! takes as its second factor at full rate. The sums and pixels take `C (K + 1) + K` registers.

use cuda_std::prelude::*;

use crate::constant_mask::MASK;
use crate::params::{Params, Untyped};
use crate::pixel::PixelType;
use crate::strip::{self, AddRow, Needed, Schedule, Sums, Values, Vector, walk};

pub use crate::strip::BLOCK;

/// The sizes of masks that there are kernels for, and how each walks. The fastest of 4 and 8 columns, of reading at
/// use, a row ahead, or with 3 or 4 rows ahead in L2, of blocks of 32 to 256 threads and of 1/2 to 12 waves, on an H200
/// (8192 x 8192).
pub const SCHEDULES: [(u32, Schedule); 9] = {
    const fn schedule(columns: usize, ahead: usize, resident: u32, waves: u32) -> Schedule {
        Schedule { columns, ahead, resident, waves }
    }
    [
        (3, schedule(8, 0, 32, 4)),
        (5, schedule(8, 0, 24, 1)),
        (7, schedule(4, 4, 32, 4)),
        (9, schedule(4, 4, 24, 4)),
        (11, schedule(4, 1, 16, 4)),
        (13, schedule(4, 0, 20, 4)),
        (15, schedule(4, 0, 16, 1)),
        (17, schedule(4, 0, 16, 1)),
        (21, schedule(8, 0, 8, 1)),
    ]
};

/// The same for `f32` in 3 and 4 channels, of 4 and 8 values a thread, rows read at use, a row ahead, or brought into L2 4 rows ahead,
/// and of 1 to 12 waves, on an H100 (8192 x 4096 pixels of 3 channels, 8192 x 3072 of 4).
pub const CHANNELS_SCHEDULES: [(u32, Schedule); 5] = [
    (3, Schedule { columns: 8, ahead: 0, resident: 28, waves: 2 }),
    (5, Schedule { columns: 8, ahead: 0, resident: 20, waves: 2 }),
    (7, Schedule { columns: 4, ahead: 4, resident: 24, waves: 4 }),
    (9, Schedule { columns: 4, ahead: 4, resident: 20, waves: 8 }),
    (11, Schedule { columns: 4, ahead: 4, resident: 16, waves: 4 }),
];

/// For `u16` in one channel (8192 x 8192), …
pub const U16_SCHEDULES: [(u32, Schedule); 5] = [
    (3, Schedule { columns: 8, ahead: 4, resident: 32, waves: 8 }),
    (5, Schedule { columns: 4, ahead: 4, resident: 32, waves: 4 }),
    (7, Schedule { columns: 4, ahead: 4, resident: 32, waves: 4 }),
    (9, Schedule { columns: 4, ahead: 4, resident: 24, waves: 4 }),
    (11, Schedule { columns: 4, ahead: 4, resident: 20, waves: 4 }),
];

/// … and in 3 and 4.
pub const U16_CHANNELS_SCHEDULES: [(u32, Schedule); 5] = [
    (3, Schedule { columns: 8, ahead: 4, resident: 28, waves: 12 }),
    (5, Schedule { columns: 8, ahead: 4, resident: 20, waves: 4 }),
    (7, Schedule { columns: 8, ahead: 4, resident: 16, waves: 4 }),
    (9, Schedule { columns: 8, ahead: 4, resident: 12, waves: 4 }),
    (11, Schedule { columns: 4, ahead: 4, resident: 16, waves: 8 }),
];

/// How the kernel for images of `channels` channels of `pixel` and masks of `size` x `size` walks.
///
/// # Panics
/// If there is none: while compiling, because only the list of entries asks.
#[must_use]
pub const fn schedule(pixel: PixelType, channels: u32, size: u32) -> Schedule {
    match (pixel, channels) {
        (PixelType::U16, 1) => strip::schedule(&U16_SCHEDULES, size),
        (PixelType::U16, _) => strip::schedule(&U16_CHANNELS_SCHEDULES, size),
        (_, 1) => strip::schedule(&SCHEDULES, size),
        _ => strip::schedule(&CHANNELS_SCHEDULES, size),
    }
}

/// The kernel for a mask of `K` x `K`, `C` values of a row a thread and `CHANNELS` of them a pixel.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels of `CHANNELS` values at their pitches, begin at a multiple of 16 bytes
///   and do not overlap. The result is of type `P`, or, where that [converts](Vector::CONVERTS), of `f32`.
/// - The block is one row of threads, the dynamic shared memory at least [`strip::shared_bytes`] for `C` values a
///   thread, the mask `K` x `K` with `K` at most 31.
/// - [`struct@MASK`] holds the `K` x `K` coefficients.
#[inline(always)]
pub unsafe fn stream<P: Vector, const K: usize, const C: usize, const CHANNELS: usize, const AHEAD: usize>(
    image: Global<P>,
    result: Untyped,
    params: Params,
) {
    // SAFETY: the caller's promise.
    unsafe { walk::<P, Products<CHANNELS>, K, C, CHANNELS, AHEAD>(image, result, params) }
}

/// Adds a row of values, multiplied with each row of the mask that is needed. The window takes every `CHANNELS`-th one.
struct Products<const CHANNELS: usize>;

impl<const K: usize, const C: usize, const CHANNELS: usize> AddRow<K, C> for Products<CHANNELS> {
    #[inline(always)]
    unsafe fn add(sums: &mut Sums<K, C>, values: &Values, needed: Needed) {
        for a in 0..K {
            let k = K - 1 - a;
            if needed.has(k) {
                let mut sum = if a + 1 < K { sums[a + 1] } else { [0.0; C] };
                for l in 0..K {
                    // SAFETY: the mask is K x K.
                    let coefficient = unsafe { MASK.load(k * K + l) };
                    for (c, sum) in sum.iter_mut().enumerate() {
                        *sum = fma(values.at(l * CHANNELS + c), coefficient, *sum);
                    }
                }
                sums[a] = sum;
            }
        }
    }
}
