//! Masks of rank 1 in one pass: each row is filtered by the mask's row, and what comes out added up by its column.
//!
//! `W[k, l] = column[k] * row[l]`, so `O[y, x] = sum over k of column[k] * T[y - origin_y + k, x]` with
//! `T[y, x] = sum over l of row[l] * I[y, x - origin_x + l]`
//!
//! Gaussian, box and Sobel masks are such. `2 K` products for an output instead of `K * K`, and `T` never
//! leaves the registers: the thread that filtered a row of its columns adds it to its `K` sums, with the free shift of
//! [`stream`](crate::stream).
//!
//! # Order and rounding
//! `T` is an `f32`, the sum of its row from left to right; the columns' sum goes from top to bottom; each step is one
//! fused multiply-add from 0. This is another order than the direct kernels', so the bits differ; [`error_constant`]
//! says by how much the result may.
//!
//! # Thread mapping and tiling
//! [`strip`]: `C` columns and a strip of rows a thread.
//!
//! # What it costs
//! For each output `2 K` products and 8 bytes of device memory. On an H200 (8192 x 8192, one channel, zero border),
//! with the schedules of [`SCHEDULES`]; the floor is 8 bytes a pixel at the 4.18 TB/s of a copy:
//!
//! | | 3 x 3 | 5 x 5 | 7 x 7 | 9 x 9 | 11 x 11 | 13 x 13 | 15 x 15 | 21 x 21 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | µs | 146 | 151 | 166 | 180 | 196 | 219 | 245 | 352 |
//! | of the floor | 88 % | 85 % | 77 % | 71 % | 66 % | 59 % | 52 % | 37 % |
//!
//! At 31 x 31 it takes 563 µs: the registers for the sums leave too few warps.
//! [`separable_tile`](crate::separable_tile) is faster at every size, and needs compute capability 8.0.

use cuda_std::prelude::*;

use crate::constant_mask::MASK;
use crate::params::{Params, Untyped};
use crate::strip::{self, AddRow, Needed, Schedule, Sums, Values, walk};

pub use crate::strip::BLOCK;

/// How far a column times a row may be from the mask's coefficient, in units of `2^-24` of that coefficient, for the
/// kernels for separable masks to take its place.
///
/// An outer product that was computed in `f64` and rounded is off by 1, its row as it stands by 1 more, the column, a
/// quotient of two rounded ones, by 3; a mask divided by its sum after it was rounded by 1 more. 16 is `2^-20`.
pub const MASK_ERROR: u32 = 16;

/// The constant `c` of the error bound of the kernels for separable masks: with `u = 2^-24` and `gamma(n) = n u / (1 -
/// n u)`, `|O - exact| <= gamma(c) * sum over k, l of |M[k, l] I|`, `exact` being the sum with the mask `M` itself.
///
/// A sum of n fused multiply-adds from 0 is off by at most `gamma(n)` times the sum of the absolute products. So with
/// `r` the row of w coefficients and `c` the column of h:
/// ```text
/// |T - sum_l r_l I|           <= gamma(w) sum_l |r_l I|                            the rows
/// |O - sum_k c_k T|           <= gamma(h) sum_k |c_k T|                            the columns, so together
/// |O - sum_kl c_k r_l I|      <= (gamma(w) + gamma(h) + gamma(w) gamma(h)) A       A = sum_kl |c_k r_l I|
///                             <= gamma(w + h) A
/// |M_kl - c_k r_l|            <= m u |M_kl|        m = MASK_ERROR, which the host makes sure of, so A <= (1 + m u) B
/// |O - sum_kl M_kl I|         <= (gamma(w + h) (1 + m u) + m u) B                  B = sum_kl |M_kl I|
///                             <= gamma(w + h + m) B
/// ```
/// (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd edition, lemma 3.3 for the sums of gammas.) Below the
/// normal numbers each step may lose `2^-150` more, those of the rows multiplied with the column.
#[must_use]
pub const fn error_constant(mask_width: u32, mask_height: u32) -> u64 {
    mask_width as u64 + mask_height as u64 + MASK_ERROR as u64
}

/// The sizes of masks that there are kernels for, and how each walks. The fastest of 4 and 8 columns, of reading at use
/// or a row ahead, and of 1/2 to 12 waves, on an H200 (8192 x 8192); 17 and 19 have their neighbours' way.
pub const SCHEDULES: [(u32, Schedule); 10] = {
    const fn schedule(columns: usize, ahead: usize, resident: u32, waves: u32) -> Schedule {
        Schedule { columns, ahead, resident, waves }
    }
    [
        (3, schedule(8, 1, 24, 1)),
        (5, schedule(8, 0, 24, 1)),
        (7, schedule(8, 0, 20, 1)),
        (9, schedule(4, 0, 28, 1)),
        (11, schedule(4, 0, 24, 1)),
        (13, schedule(4, 0, 20, 1)),
        (15, schedule(8, 0, 12, 1)),
        (17, schedule(4, 0, 16, 1)),
        (19, schedule(4, 0, 16, 1)),
        (21, schedule(4, 0, 12, 2)),
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
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, begin at a multiple of 16 bytes and do not overlap.
/// - The block is one row of threads, the dynamic shared memory at least [`strip::shared_bytes`] for `C` columns a
///   thread, the mask `K` x `K` with `K` at most 31.
/// - [`struct@MASK`] holds the `K` coefficients of the mask's row and the `K` of its column after them, both in window
///   order.
#[inline(always)]
pub unsafe fn separable<const K: usize, const C: usize, const AHEAD: usize>(
    image: Global<f32>,
    result: Untyped,
    params: Params,
) {
    // SAFETY: the caller's promise.
    unsafe { walk::<f32, Filtered, K, C, 1, AHEAD>(image, result, params) }
}

/// Filters a row of pixels, and adds it, multiplied with each coefficient of the column that is needed.
struct Filtered;

impl<const K: usize, const C: usize> AddRow<K, C> for Filtered {
    #[inline(always)]
    unsafe fn add(sums: &mut Sums<K, C>, values: &Values, needed: Needed) {
        let mut filtered = [0.0; C];
        for l in 0..K {
            // SAFETY: the first K coefficients are the row's.
            let coefficient = unsafe { MASK.load(l) };
            for (c, sum) in filtered.iter_mut().enumerate() {
                *sum = fma(values.at(l + c), coefficient, *sum);
            }
        }
        for a in 0..K {
            let k = K - 1 - a;
            if needed.has(k) {
                // SAFETY: the next K are the column's.
                let coefficient = unsafe { MASK.load(K + k) };
                for c in 0..C {
                    sums[a][c] = fma(filtered[c], coefficient, if a + 1 < K { sums[a + 1][c] } else { 0.0 });
                }
            }
        }
    }
}
