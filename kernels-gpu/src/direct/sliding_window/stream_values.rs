//! The walk of [`stream`](crate::direct::sliding_window::stream) for other values than one `f32` a pixel: `f32` in 3 and 4 interleaved channels, and `u16`.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`, for each channel
//!
//! The channels are filtered alone but walked together: a row is a row of values, and the window of each takes every third or fourth one.
//! So a pixel of several channels costs no more for each of them than one of a single channel, but for the wider window.
//!
//! # Thread mapping and tiling
//! [`strip`]: `C` values of a row and a strip of rows a thread. Results have the image's type; of `u16`, `f32`, too.
//!
//! # What it costs
//! | | for each value of the result |
//! | --- | --- |
//! | products | `K * K` |
//! | bytes of device memory | 8 for `f32`, 4 for `u16`, and what two strips read |
//! | instructions beside the products | as in [`stream`](crate::direct::sliding_window::stream); with `u16` one for each of the `C + (K - 1) * CHANNELS` values of a window in each row, and rounding |
//!
//! On an H100 (zero border, one channel 8192 x 8192 pixels, three 8192 x 4096; 2.98 TB/s and 62.1 TFLOP/s), µs and of the floor:
//!
//! | | 3 x 3 | 5 x 5 | 7 x 7 | 9 x 9 | 11 x 11 |
//! | --- | --- | --- | --- | --- | --- |
//! | `f32`, three channels | 309, 88 % | 304, 89 % | 347, 78 % | 422, 64 % | 585, 67 % |
//! | `u16`, one channel | 107, 84 % | 136, 66 % | 194, 55 % | 285, 61 % | 390, 67 % |
//! | `u16`, three channels | 159, 85 % | 209, 65 % | 310, 51 % | 479, 55 % | 704, 56 % |

use cuda_std::prelude::*;

use crate::abi::params::{OutputPtr, Params};
use crate::abi::pixel::PixelType;
use crate::common::vector::Vector;
use crate::direct::sliding_window::strip::{self, AddRow, Needed, Schedule, Sums, Values, walk};
use crate::teaching::constant_mask::MASK;

/// The sizes of masks that there are kernels for, and how each walks: for `f32` in 3 and 4 channels, the fastest of 4 and 8 values a thread, rows read at use, a row ahead, or brought into L2 4 rows ahead,
/// and of 1 to 12 waves, on an H100 (8192 x 4096 pixels of 3 channels, 8192 x 3072 of 4).
pub const F32_SCHEDULES: [(u32, Schedule); 5] = [
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
        _ => strip::schedule(&F32_SCHEDULES, size),
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
pub unsafe fn stream_values<P: Vector, const K: usize, const C: usize, const CHANNELS: usize, const AHEAD: usize>(
    image: Global<P>,
    result: OutputPtr,
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
