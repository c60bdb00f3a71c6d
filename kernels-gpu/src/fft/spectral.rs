//! A pair of tiles in shared memory: transform, product by the spectrum of the mask, inverse transform.

use cuda_std::prelude::*;

use super::complex::Complex;
use super::layout::{GROUP, LONG, SHORT, SPECTRUM, STORED_GROUPS};
use super::tile::{PITCH, SharedParts, THREADS, WARPS, this_thread, twiddle};
use super::transform::{POINTS, reversed, transform_4, transform_32};
use super::warp_sum;
use crate::abi::kernel::Convergent;

/// The convergent instructions of [`transform`] for images of `channels` channels.
pub(super) const fn convergent(channels: u32) -> Convergent {
    Convergent {
        barriers: 6,
        warp_barriers: 2,
        // The sum of the squares.
        shuffles: 5,
        votes: if channels == 1 { 1 } else { 2 },
        ..Convergent::NONE
    }
}

/// What [`transform`] subtracts from the pixels of each tile, and by what it multiplies them then.
#[derive(Clone, Copy)]
pub(super) struct Normalization {
    pub(super) mean: [f32; 2],
    /// Powers of two. With one channel both are 1.
    pub(super) scale: [f32; 2],
}

/// Transforms the pair of tiles, multiplies by the spectrum and transforms back.
///
/// The calling thread gets the points of its row; result `j` is element `reversed(j)`. All threads have done their last
/// reads of the exchange when this returns. Each warp leaves the sum of its squares, and which tiles have numbers other
/// than 0, as bits.
///
/// # Safety
/// - All threads of the block call this. The exchange holds the pixels, and the factors are there.
/// - `mask` is as [`layout`](super::layout) describes.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
pub(super) unsafe fn transform<const C: u32>(
    parts: &SharedParts,
    mask: Global<f32>,
    Normalization { mean, scale }: Normalization,
) -> [Complex; POINTS] {
    let exchange = parts.exchange;
    let mut v = [Complex::ZERO; POINTS];
    // The column frequency of a thread, and which of 4 x 4 points.
    let of_columns = |thread: u32| (thread / 16, thread % 16, thread % 16 / SHORT);
    let thread = thread::thread_idx_x();
    let (row, t) = (thread / SHORT, thread % SHORT);
    let mean = Complex { re: mean[0], im: mean[1] };
    // Exact: a power of two.
    let shift = [-(mean.re * scale[0]), -(mean.im * scale[1])];
    // SAFETY: all threads of the block are here. All places are below 128 * 132. Each is written by one thread between
    // two barriers, and read by one; see the comments where a barrier of the warp is enough.
    unsafe {
        let (mut squares, mut bits) = (0.0_f32, [0; 2]);
        for j in 0..POINTS {
            let pixels = Complex::from(exchange.load(row * PITCH + t + SHORT * j as u32));
            let z = if C == 1 {
                pixels - mean
            } else {
                Complex { re: fma(pixels.re, scale[0], shift[0]), im: fma(pixels.im, scale[1], shift[1]) }
            };
            squares = fma(z.re, z.re, fma(z.im, z.im, squares));
            bits[0] |= z.re.to_bits();
            bits[1] |= z.im.to_bits();
            v[j] = z;
        }
        let squares = warp_sum(squares);
        // Without the sign bit, because -0 is 0.
        let tiles = if C == 1 {
            if warp::ballot((bits[0] | bits[1]) << 1 != 0) != 0 { 0b11 } else { 0 }
        } else {
            let any = bits.map(|bits| warp::ballot(bits << 1 != 0) != 0);
            u32::from(any[0]) | u32::from(any[1]) << 1
        };
        if thread.is_multiple_of(32) {
            parts.squares.store(thread / 32, F32x2([squares, f32::from_bits(tiles)]));
        }
        transform_32::<false>(&mut v);
        thread::sync_threads();
        let thread = this_thread(parts);
        let t = thread % SHORT;
        for q in 0..POINTS {
            let z = v[reversed(q)];
            let z = if q == 0 { z } else { z.times(twiddle(parts, q as u32, t)) };
            exchange.store(q as u32 * THREADS + thread, z.into());
        }
        thread::sync_threads();

        let (k, point, _) = of_columns(this_thread(parts));
        for i in 0..POINTS {
            v[i] = exchange.load(k * THREADS + 16 * i as u32 + point).into();
        }
        transform_32::<false>(&mut v);
        // The 512 numbers of a column frequency are read and written by half a warp.
        warp::sync_warp();
        let (k, point, s) = of_columns(this_thread(parts));
        for q in 0..POINTS {
            let z = v[reversed(q)];
            let z = if q == 0 { z } else { z.times(twiddle(parts, q as u32, s)) };
            exchange.store(place(k * LONG + q as u32, point), z.into());
        }
        let thread = this_thread(parts);
        let [first, second] = groups(thread);
        // The loads are under way while the warp waits for others.
        let spectrum = load_spectrum(mask, first);
        thread::sync_threads();

        multiply(exchange, &spectrum, first);
        let spectrum = if second < STORED_GROUPS {
            load_spectrum(mask, second)
        } else {
            mirrored(&spectrum, first.is_multiple_of(LONG))
        };
        multiply(exchange, &spectrum, second);
        thread::sync_threads();

        let (k, point, s) = of_columns(this_thread(parts));
        for q in 0..POINTS {
            let z = Complex::from(exchange.load(place(k * LONG + q as u32, point)));
            v[q] = if q == 0 { z } else { z.times(twiddle(parts, q as u32, s).conjugate()) };
        }
        transform_32::<true>(&mut v);
        // As above.
        warp::sync_warp();
        let (k, point, _) = of_columns(this_thread(parts));
        for i in 0..POINTS {
            exchange.store(k * THREADS + 16 * i as u32 + point, v[reversed(i)].into());
        }
        thread::sync_threads();

        let thread = this_thread(parts);
        let t = thread % SHORT;
        for q in 0..POINTS {
            let z = Complex::from(exchange.load(q as u32 * THREADS + thread));
            v[q] = if q == 0 { z } else { z.times(twiddle(parts, q as u32, t).conjugate()) };
        }
        transform_32::<true>(&mut v);
        thread::sync_threads();
    }
    v
}

/// The place of point `point` of a group of 16.
#[inline(always)]
fn place(group: u32, point: u32) -> u32 {
    group * 16 + (point ^ (group % 16))
}

/// The two groups that a thread multiplies.
///
/// A group has row frequencies `q` and column frequencies `k` modulo 32. Columns `k` and `32 - k` belong to one warp: a
/// thread has group `(q, k)` and its negative. The last warp has columns 0 and 16, which are their own negatives.
#[inline(always)]
fn groups(thread: u32) -> [u32; 2] {
    let (warp, q) = (thread / 32, thread % 32);
    if warp == WARPS - 1 {
        [q, LONG / 2 * LONG + q]
    } else {
        [(warp + 1) * LONG + q, (LONG - 1 - warp) * LONG + (LONG - q) % LONG]
    }
}

/// The spectrum of the mask at the points of a group.
///
/// # Safety
/// - `mask` is as [`layout`](super::layout) describes, and `group` below [`STORED_GROUPS`].
#[inline(always)]
unsafe fn load_spectrum(mask: Global<f32>, group: u32) -> [Complex; GROUP as usize] {
    let spectrum = mask.offset(SPECTRUM as isize).cast::<F32x4>().offset(group as isize);
    let mut points = [Complex::ZERO; GROUP as usize];
    for vector in 0..GROUP / 2 {
        // SAFETY: a stored group has GROUP / 2 vectors, STORED_GROUPS apart.
        let F32x4([re, im, next_re, next_im]) = unsafe { spectrum.load((vector * STORED_GROUPS) as isize) };
        points[2 * vector as usize] = Complex { re, im };
        points[2 * vector as usize + 1] = Complex { re: next_re, im: next_im };
    }
    points
}

/// The spectrum at the points of the negative of a group. The mask is real, so these are the conjugates.
///
/// Modulo 128 the negative of `q + 32 s` is `(32 - q) + 32 (3 - s)`, and `32 (4 - s)` for `q = 0`. The same holds for
/// columns, whose `k` is never 0 here.
#[inline(always)]
fn mirrored(points: &[Complex; GROUP as usize], q_is_0: bool) -> [Complex; GROUP as usize] {
    core::array::from_fn(|point| {
        let (s, t) = (point / 4, 3 - point % 4);
        let Complex { re, im } = if q_is_0 { points[(4 - s) % 4 * 4 + t] } else { points[(3 - s) * 4 + t] };
        Complex { re, im: -im }
    })
}

/// The 4 x 4 points of a group: transform, product by the spectrum of the mask, inverse transform.
///
/// # Safety
/// - The exchange holds the group, which is the calling thread's alone until the next barrier.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
unsafe fn multiply(exchange: Shared<F32x2>, spectrum: &[Complex; GROUP as usize], group: u32) {
    let mut w = [Complex::ZERO; GROUP as usize];
    for point in 0..w.len() {
        // SAFETY: the place is the thread's own.
        w[point] = unsafe { exchange.load(place(group, point as u32)) }.into();
    }
    for s in 0..4 {
        transform_4::<false>(&mut w, 4 * s, 1);
    }
    for t in 0..4 {
        transform_4::<false>(&mut w, t, 4);
    }
    for point in 0..w.len() {
        w[point] = w[point].times(spectrum[point]);
    }
    for t in 0..4 {
        transform_4::<true>(&mut w, t, 4);
    }
    for s in 0..4 {
        transform_4::<true>(&mut w, 4 * s, 1);
    }
    for point in 0..w.len() {
        // SAFETY: the place is the thread's own.
        unsafe { exchange.store(place(group, point as u32), w[point].into()) };
    }
}
