//! The third pass: rows of frequencies to rows of results, each with a proof.

use cuda_std::prelude::*;

use super::layout::{COEFFICIENTS, LONG, POINTS, place};
use super::ordered::Ordered;
use super::tiles::{Facts, Pair, of_pair};
use super::{EXCHANGE, ROWS, SharedParts, THREADS, WARPS, fill_twiddles};
use crate::abi::kernel::Convergent;
use crate::abi::params::Params;
use crate::fft::complex::Complex;
use crate::fft::failures::{self, Failures, count};
use crate::fft::judge::Judge;
use crate::fft::layout::Header;
use crate::fft::transform::{POINTS as ELEMENTS, reversed, transform_32};

/// The convergent instructions of the source.
pub(super) const CONVERGENT: Convergent = Convergent {
    // Factors; two for each piece of the mask.
    barriers: 3,
    warp_barriers: 1,
    ..Convergent::NONE
}
.and(failures::CONVERGENT);

/// With more failures than this in a block it computes all results in order. That takes as long as some 70 windows of
/// each warp.
const MOST_FAILURES: u32 = WARPS * 64;

/// The kernel: block (x, y) computes the results of rows `8 y` to `8 y + 7` of pair `x`.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels of `C` channels at their pitches, and do not overlap.
/// - `scratch` holds what the second pass made of the pairs, with the same `mask` and `params`.
/// - The shape of the launch is that of [`shapes`](super::shapes).
#[inline(always)]
#[allow(clippy::needless_range_loop)]
pub(super) unsafe fn back<const C: u32>(
    scratch: GlobalMut<f32>,
    image: Global<f32>,
    result: GlobalMut<f32>,
    mask: Global<f32>,
    params: Params,
) {
    let parts = SharedParts::new(EXCHANGE);
    let thread = thread::thread_idx_x();
    let (warp, lane) = (thread / 32, thread % 32);
    let number = thread::block_idx_x();
    let pair = Pair::new(&params, number, C);
    let first = thread::block_idx_y() * ROWS;
    if first as i32 >= pair.wanted_rows {
        return;
    }
    let row = first + warp;
    let is_wanted = (row as i32) < pair.wanted_rows;
    let scratch = of_pair(scratch, number);
    let mut v = [Complex::ZERO; ELEMENTS];
    // SAFETY: the second pass has stored the wanted rows. All threads of the block are here.
    let facts = unsafe {
        if is_wanted {
            let points = scratch.cast::<F32x2>().offset(place(row, lane));
            for p in 0..LONG {
                v[p as usize] = points.load(place(0, LONG * p)).into();
            }
        }
        fill_twiddles::<THREADS>(&parts, mask, thread);
        thread::sync_threads();
        Facts::load(scratch, POINTS)
    };

    let exchange = parts.exchange.offset(warp * POINTS);
    transform_32::<true>(&mut v);
    // SAFETY: the factors are there, since the barrier. The 1024 places are the warp's own, and each is written by one
    // lane before the warp's barrier and read by one after it. The mask begins with its header.
    let header = unsafe {
        for t in 0..LONG {
            let z = v[reversed(t as usize)];
            let factor = Complex::from(parts.twiddles.load(t * LONG + lane)).conjugate();
            let z = if t == 0 { z } else { z.times(factor) };
            exchange.store(t * LONG + (lane ^ t), z.into());
        }
        warp::sync_warp();
        for q in 0..LONG {
            v[q as usize] = exchange.load(lane * LONG + (q ^ lane)).into();
        }
        Header::load(mask)
    };
    transform_32::<true>(&mut v);

    let any = [facts.any > 0.0; 2];
    let judge = Judge::new(&header, (facts.squares, any), (facts.mean, facts.least), [1.0; 2]);
    let (factor, summand) = params.exact_finish();
    // A bit for each result that fails.
    let mut failing = [0_u32; 2];
    for j in 0..ELEMENTS {
        let column = (lane + LONG * j as u32) as i32;
        let Complex { re, im } = v[reversed(j)];
        for tile in 0..2 {
            let judge = judge.of(tile == 1);
            let sum = judge.sum(if tile == 0 { re } else { im });
            if is_wanted && column < pair.wanted_columns[tile] {
                if judge.accepts(sum) {
                    let x = pair.x + column + tile as i32 * pair.distance;
                    let index = params.dst_index(x * C as i32 + pair.channel as i32, pair.y + row as i32);
                    // SAFETY: the result lies in the image. The warp has the row for itself, and the lane the column.
                    unsafe { result.store(index, fma(sum, factor, summand)) };
                } else {
                    failing[tile] |= 1 << j;
                }
            }
        }
    }
    // SAFETY: all threads of the block are here. Nobody else uses the sums in this pass.
    let (number, before) = unsafe { count::<WARPS>(parts.sums, failing[0].count_ones() + failing[1].count_ones()) };
    if number == 0 {
        return;
    }
    let coefficients = mask.offset(COEFFICIENTS as isize);
    if number > MOST_FAILURES {
        let ordered = Ordered::<C> { image, result, coefficients, params, pair, first: first as i32 };
        // SAFETY: all threads of the block take this branch, and none uses the exchange any more.
        unsafe { ordered.rows(parts.exchange.cast(), thread) };
        return;
    }
    let mut failures = Failures::<WARPS>::new(parts.exchange.cast(), before);
    // SAFETY: all lanes of the warp are here. No thread uses the exchange any more.
    unsafe {
        // 32 groups of columns of 2 tiles.
        failures.add(2 * ELEMENTS as u32, |group| {
            let (j, is_second) = (group / 2, group % 2 != 0);
            let bits = if is_second { failing[1] } else { failing[0] };
            let column = LONG * j + lane + if is_second { pair.distance as u32 } else { 0 };
            (bits >> j & 1 != 0, column | warp << 16)
        });
    }
    // SAFETY: all threads of the block are here. All failures are results in the image.
    unsafe {
        failures.compute::<C>(number, (image, result, coefficients), &params, |failure| {
            (pair.x + (failure % 65536) as i32, pair.y + first as i32 + (failure / 65536) as i32, pair.channel)
        });
    }
}
