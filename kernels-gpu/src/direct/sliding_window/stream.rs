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
//! [`staged`]: `C` columns and a strip of rows a thread. Images and results are of one `f32` a pixel; [`stream_values`](crate::direct::sliding_window::stream_values)
//! has the others.
//!
//! # Large masks
//! From 21 x 21 on not all rows of the mask are added up at once: their sums would not fit the registers for 8 columns a thread, nor their
//! products the instruction cache, nor their coefficients the first-level constant cache. The strip is walked down in several *passes*, each
//! with as many rows of the mask as fit ([`rows`]); see [`staged`](crate::direct::sliding_window::staged#passes).
//!
//! # What it costs
//! | | for each output |
//! | --- | --- |
//! | products | `K * K` |
//! | bytes of device memory | 8, and `4 (K - 1) / rows of a strip` that two strips read; 12 for each further pass |
//! | instructions beside the products | coefficients past the 60 that uniform registers hold, one instruction for two of them, for `C` outputs; copies to and from shared memory, store and loop, about 75 for `C` |
//!
//! On an H100 (8192 x 8192, one channel, zero border), with the schedule of [`SCHEDULES`]; the floor is the longer of 8
//! bytes a pixel at the 2.98 TB/s of a copy and `K * K` products a pixel at the 62.1 to 62.5 TFLOP/s of the same call:
//!
//! | | 3 x 3 | 5 x 5 | 7 x 7 | 9 x 9 | 11 x 11 | 13 x 13 | 15 x 15 | 17 x 17 | 21 x 21 | 25 x 25 | 31 x 31 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | µs | 203 | 204 | 207 | 224 | 300 | 417 | 534 | 714 | 1122 | 1562 | 2368 |
//! | of the floor | 88 % | 88 % | 87 % | 80 % | 87 % | 88 % | 91 % | 87 % | 85 % | 86 % | 88 % |
//!
//! (25 x 25 is of an earlier version.) 9 x 9 is bounded by memory, by instructions and by the board's power at once, and takes 222 to 226 by what ran before.
//!
//! The coefficients are read from constant memory by constant addresses into uniform registers, which a multiply-add
//! takes as its second factor at full rate. The sums and pixels take `C (H + 1) + K` registers, with `H` rows of the mask in a pass.
//!
//! What bounds `C` and `K`:
//! - the instruction cache. A loop of up to some 2000 instructions (32 KB) runs at 90 % of the FP32 units, one of 2700 at 80 %, one of 3600
//!   at 73 %. So from 16 x 16 on a thread has 4 columns, until passes are faster;
//! - the first-level constant cache, which holds about 1 KB. So the coefficients of a pass lie close together ([`mask_row`]): spread over 1008
//!   bytes in the place of 868 they made 31 x 31 5 % slower;
//! - what is no product: 12 % of all instructions at 31 x 31, half of them loads of coefficients. In 95 % of the cycles one is issued.

use cuda_std::prelude::*;

use crate::abi::params::Params;
use crate::direct::sliding_window::staged::{self, AddWindow, Pass, Reach, Window};
use crate::direct::sliding_window::strip::{self, Schedule, Sums};
use crate::teaching::constant_mask::MASK;

pub use crate::direct::sliding_window::strip::BLOCK;

/// The sizes of masks that there are kernels for, and how each walks: the faster of 4 and 8 columns, and the faster of 1 and 2
/// waves, on an H100 (8192 x 8192). The PTX tells the assembler how many blocks shall be resident.
pub const SCHEDULES: [(u32, Schedule); 24] = {
    const fn schedule(columns: usize, resident: u32, waves: u32) -> Schedule {
        Schedule { columns, ahead: 1, resident, waves }
    }
    [
        (3, schedule(4, 32, 1)),
        (4, schedule(4, 32, 1)),
        (5, schedule(4, 32, 1)),
        (6, schedule(4, 28, 1)),
        (7, schedule(8, 16, 1)),
        (8, schedule(8, 16, 1)),
        (9, schedule(8, 16, 1)),
        (10, schedule(8, 12, 1)),
        (11, schedule(8, 12, 1)),
        (12, schedule(8, 12, 1)),
        (13, schedule(8, 12, 1)),
        (14, schedule(8, 8, 1)),
        (15, schedule(8, 8, 1)),
        (16, schedule(4, 16, 1)),
        (17, schedule(4, 16, 1)),
        (18, schedule(4, 16, 1)),
        (19, schedule(4, 12, 2)),
        (20, schedule(4, 12, 2)),
        (21, schedule(8, 12, 1)),
        (23, schedule(8, 12, 1)),
        (25, schedule(8, 12, 2)),
        (27, schedule(8, 12, 2)),
        (29, schedule(8, 12, 1)),
        (31, schedule(8, 12, 1)),
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

/// Rows of the mask in one pass, for sides up to 31: with 8 columns a thread some 1700 products, so that the loop fits the instruction
/// cache, and less than 1 KB of coefficients.
#[must_use]
pub const fn rows(size: u32) -> u32 {
    match size {
        29 => 6,
        21 | 27 | 31 => 7,
        23 => 8,
        25 => 9,
        _ => size,
    }
}

/// Coefficients of a pass begin at a multiple of this many, which is a line of the constant cache.
const LINE: u32 = 16;

/// From where the coefficients of one pass begin to where those of the next one do. They lie as close together as they can: the cache
/// that a multiply-add's coefficients come from has about 1 KB. (31 x 31 with 7 rows of 36, 1008 bytes: 2535 µs, of 31, 868 bytes: 2412.)
const fn pass(size: u32) -> u32 {
    let all = rows(size) * size;
    assert!(rows(size) == size || all * size_of::<f32>() as u32 <= 1000, "coefficients that don't fit the cache");
    all.next_multiple_of(LINE)
}

/// Where row `row` of a mask of `size` x `size` begins among the coefficients, row `size` behind them all.
#[must_use]
pub const fn mask_row(size: u32, row: u32) -> u32 {
    if rows(size) == size {
        return row * size;
    }
    let (number, of_pass) = Pass::of_row(rows(size) as usize, size as usize, row as usize);
    number as u32 * pass(size) + of_pass as u32 * size
}

/// The kernel for a mask of `K` x `K`, `H` of its rows in a pass, `C` columns a thread.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, begin at a multiple of 16 bytes and do not
///   overlap.
/// - The block is [`BLOCK`], the dynamic shared memory at least [`staged::shared_bytes`] for `C` columns a thread, the mask
///   `K` x `K` with `K` at most 31.
/// - [`struct@MASK`] holds the `K` x `K` coefficients, each row where [`mask_row`] says.
#[inline(always)]
pub unsafe fn stream<const K: usize, const H: usize, const C: usize>(
    image: Global<f32>,
    result: GlobalMut<f32>,
    params: Params,
) {
    // SAFETY: the caller's promise.
    unsafe { staged::walk::<Products, K, H, C>(image, result, params) }
}

/// Adds a row of pixels, multiplied with each row of the mask that is needed.
struct Products;

impl<const K: usize, const H: usize, const C: usize> AddWindow<K, H, C> for Products {
    const PASS: u32 = pass(K as u32);

    #[inline(always)]
    unsafe fn add(sums: &mut Sums<H, C>, window: &Window<K, C>, begin: [f32; C], pass: Pass, reach: Reach<H>) {
        let add_row = |mut sum: [f32; C], k: usize| {
            for l in 0..K {
                // SAFETY: the mask is K x K, and row `first + k` is in it, if it is not left out.
                let coefficient = unsafe { MASK.load(pass.place as usize + k * K + l) };
                for (c, sum) in sum.iter_mut().enumerate() {
                    *sum = fma(window.at(l + c), coefficient, *sum);
                }
            }
            sum
        };
        // Rows of the mask that are asked for together; the first of a pass, which may not be there, alone.
        let group = if H == K && H < 7 { H } else { H.div_ceil(4) };
        let grouped = if H < K { H - 1 } else { H };
        for begin_of in 0..grouped.div_ceil(group) {
            let (from, upto) = (begin_of * group, grouped.min(begin_of * group + group));
            if group < H && !reach.has_any(H - upto, upto - from) {
                continue;
            }
            for a in 0..H {
                if a >= from && a < upto {
                    sums[a] = add_row(if a + 1 < H { sums[a + 1] } else { begin }, H - 1 - a);
                }
            }
        }
        if H < K {
            sums[H - 1] = if reach.has_any(0, 1) && !pass.short { add_row(begin, 0) } else { begin };
        }
    }
}
