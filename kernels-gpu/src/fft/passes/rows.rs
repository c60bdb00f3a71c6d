//! The first pass: rows of pixels to rows of frequencies.

use cuda_std::prelude::*;

use super::layout::{LONG, POINTS, place};
use super::tiles::{Facts, Pair, of_pair};
use super::{EXCHANGE, ROWS, SharedParts, THREADS, fill_twiddles, sum_of_block};
use crate::abi::border;
use crate::abi::image_view::{Channel, ImageView};
use crate::abi::kernel::Convergent;
use crate::abi::params::Params;
use crate::common::border_table;
use crate::fft::complex::Complex;
use crate::fft::transform::{POINTS as ELEMENTS, reversed, transform_32};

/// The convergent instructions of the source.
pub(super) const CONVERGENT: Convergent = Convergent {
    barriers: 2,
    warp_barriers: 1,
    // Two sums of samples; the facts.
    shuffles: 5 * 2 + 5 * (1 + 2),
    votes: 1,
    ..Convergent::NONE
};

/// The kernel: block (x, y) transforms rows `8 y` to `8 y + 7` of pair `x`.
///
/// # Safety
/// - `image` holds `height` rows of `width` pixels of `C` channels at their pitch.
/// - `scratch` holds the memory of all pairs of the launch.
/// - `mask` is as [`layout`](super::layout) describes, for the mask in `params`. It is aligned to 16 bytes.
/// - The shape of the launch is that of [`shapes`](super::shapes).
#[inline(always)]
#[allow(clippy::needless_range_loop)]
pub(super) unsafe fn rows<const C: u32>(
    image: Global<f32>,
    scratch: GlobalMut<f32>,
    mask: Global<f32>,
    params: Params,
) {
    let parts = SharedParts::new(EXCHANGE);
    let thread = thread::thread_idx_x();
    let (warp, lane) = (thread / 32, thread % 32);
    let number = thread::block_idx_x();
    let pair = Pair::new(&params, number, C);
    let first = thread::block_idx_y() * ROWS;
    if first as i32 >= pair.needed_rows {
        return;
    }
    let row = first + warp;
    let (left, top) = pair.corner(&params);
    let y = top + row as i32;
    let values = (pair.distance + POINTS as i32) * C as i32;
    let edge = !params.contains::<C>(left * C as i32, top + first as i32, values, ROWS as i32)
        || first as i32 + ROWS as i32 > pair.needed_rows;
    // It is done with before the transform exchanges numbers there.
    let table = parts.exchange.cast::<i32>();
    // SAFETY: all threads of the block are here. The factors have their own place.
    unsafe { fill_twiddles::<THREADS>(&parts, mask, thread) };
    if edge {
        // SAFETY: all threads of the block take this branch. The exchange has room for 2048 columns.
        unsafe {
            let columns = (pair.distance + pair.needed_columns[1]).max(pair.needed_columns[0]) as u32;
            border_table::fill_columns::<C>(table, &params, left, columns, (thread, THREADS));
            thread::sync_threads();
        }
    }

    let sample = sample::<C>(&pair, image, &params, thread);
    let image = image.offset(pair.channel as isize);
    let mut v = [Complex::ZERO; ELEMENTS];
    if edge {
        let y = border::map(params.border, y, params.height);
        let pixels = image.offset(params.src_index(0, y));
        for j in 0..ELEMENTS {
            let column = (lane + LONG * j as u32) as i32;
            let mut loaded = [0.0; 2];
            for tile in 0..2 {
                if column < pair.needed_columns[tile] {
                    // SAFETY: the table has this column. The border map gave the position, so it lies in the image.
                    unsafe {
                        let x = table.load((column + tile as i32 * pair.distance) as u32);
                        loaded[tile] = if x < 0 || y < 0 { params.border_value } else { pixels.load(x as isize) };
                    }
                }
            }
            v[j] = Complex { re: loaded[0], im: loaded[1] };
        }
    } else {
        let pixels = image.offset(params.src_index(left * C as i32, y) + (lane * C) as isize);
        for j in 0..ELEMENTS {
            let value = (LONG * j as u32 * C) as isize;
            // SAFETY: no pixel of these rows of the pair lies outside of the image.
            let [re, im] = unsafe { [pixels.load(value), pixels.load(value + pair.distance as isize * C as isize)] };
            v[j] = Complex { re, im };
        }
    }
    // SAFETY: all threads of the block are here.
    let mean = unsafe { mean(&parts, &pair, sample, (warp, lane)) };

    // From here on no thread waits for another warp.
    if row as i32 >= pair.needed_rows {
        return;
    }
    let needed = pair.needed_columns;
    let facts =
        if edge { subtract::<true>(&mut v, mean, needed, lane) } else { subtract::<false>(&mut v, mean, needed, lane) };
    let scratch = of_pair(scratch, number);
    // SAFETY: all lanes of the warp are here. The row is the warp's alone.
    unsafe {
        let facts = facts.of_warp();
        if lane == 0 {
            facts.store(scratch, row);
        }
    }

    let exchange = parts.exchange.offset(warp * POINTS);
    let to = scratch.cast::<F32x2>().offset(place(row, lane));
    transform_32::<false>(&mut v);
    // SAFETY: the factors are there, since the barriers. The 1024 places are the warp's own, and each is written by one
    // lane before the warp's barrier and read by one after it. The pair has memory for the row.
    unsafe {
        for q in 0..LONG {
            let factor = parts.twiddles.load(q * LONG + lane);
            let z = v[reversed(q as usize)];
            let z = if q == 0 { z } else { z.times(factor.into()) };
            exchange.store(q * LONG + (lane ^ q), z.into());
        }
        warp::sync_warp();
        for t in 0..LONG {
            v[t as usize] = exchange.load(lane * LONG + (t ^ lane)).into();
        }
        transform_32::<false>(&mut v);
        for p in 0..LONG {
            to.store(place(0, LONG * p), v[reversed(p as usize)].into());
        }
    }
}

/// Subtracts the mean of each tile from the pixels of a lane, and gathers the facts about them. What is not needed
/// becomes 0. Without `EDGE` all columns are needed.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
fn subtract<const EDGE: bool>(v: &mut [Complex; ELEMENTS], mean: [f32; 2], needed: [i32; 2], lane: u32) -> Facts {
    let (mut facts, mut bits) = (Facts { mean, ..Facts::NONE }, 0);
    for j in 0..ELEMENTS {
        let column = (lane + LONG * j as u32) as i32;
        let (pixels, mut z) = ([v[j].re, v[j].im], [0.0; 2]);
        for tile in 0..2 {
            if !EDGE || column < needed[tile] {
                facts.least[tile] = facts.least[tile].min(pixels[tile].abs());
                z[tile] = pixels[tile] - mean[tile];
            }
            facts.squares = fma(z[tile], z[tile], facts.squares);
            bits |= z[tile].to_bits();
        }
        v[j] = Complex { re: z[0], im: z[1] };
    }
    // Not the signs: -0 is 0.
    facts.any = if bits << 1 != 0 { 1.0 } else { 0.0 };
    facts
}

/// A pixel of each tile: 16 x 16 of them, evenly spread, for the 256 threads of a block.
#[inline(always)]
fn sample<const C: u32>(pair: &Pair, image: Global<f32>, params: &Params, thread: u32) -> [f32; 2] {
    // SAFETY: the image is as `params` say, and the kernel does not write it.
    let view = unsafe { ImageView::<f32, C>::new(image, params) };
    let (left, top) = pair.corner(params);
    let spread = |number: u32, side: i32| (2 * number as i32 + 1) * side / 32;
    let row = view.row(top + spread(thread / 16, pair.needed_rows));
    let mut pixels = [0.0; 2];
    for (tile, pixel) in pixels.iter_mut().enumerate() {
        let columns = pair.needed_columns[tile];
        if columns > 0 {
            let x = left + tile as i32 * pair.distance + spread(thread % 16, columns);
            *pixel = row.value(x, Channel::of_value(pair.channel));
        }
    }
    pixels
}

/// The mean of the samples of each tile, which is near the mean of its pixels. It is 0 where that is no number.
///
/// # Safety
/// - All threads of the block call this.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
unsafe fn mean(parts: &SharedParts, pair: &Pair, sample: [f32; 2], (warp, lane): (u32, u32)) -> [f32; 2] {
    // SAFETY: all threads of the block are here.
    let sums = unsafe { sum_of_block(parts, sample, (warp, lane)) };
    let mut mean = sums.map(|sum| sum * (1.0 / THREADS as f32));
    for tile in 0..2 {
        // A NaN is not in the range, either.
        let is_number = mean[tile].abs() < f32::INFINITY;
        if !is_number || pair.wanted_columns[tile] == 0 {
            mean[tile] = 0.0;
        }
    }
    mean
}
