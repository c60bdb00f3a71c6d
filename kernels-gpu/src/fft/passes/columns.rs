//! The second pass: columns forward, times the spectrum of the mask, and back.

use cuda_std::prelude::*;

use super::layout::{GROUP, GROUP_POINTS, LONG, POINTS, SPECTRUM};
use super::tiles::{FACTS_OF_BLOCK, Pair, facts_of_block, of_pair};
use super::{SharedParts, fill_twiddles};
use crate::abi::kernel::Convergent;
use crate::abi::params::Params;
use crate::fft::complex::Complex;
use crate::fft::transform::{POINTS as ELEMENTS, reversed, transform_32};

/// The convergent instructions of the source.
pub(super) const CONVERGENT: Convergent =
    Convergent { barriers: 3 + 1, shuffles: FACTS_OF_BLOCK.shuffles, votes: FACTS_OF_BLOCK.votes, ..Convergent::NONE };

/// Threads of a block.
pub(super) const THREADS: u32 = GROUP * LONG;

/// Complex numbers from one thread's numbers to the next one's in shared memory. The [`GROUP`] in addition avoids bank
/// conflicts.
const PITCH: u32 = GROUP * LONG + GROUP;

/// Complex numbers of the exchange.
pub(super) const EXCHANGE: u32 = LONG * PITCH;

/// The kernel: block (x, y) transforms columns `4 x` to `4 x + 3` of pair `y`. The first block of a pair adds up the
/// facts, too.
///
/// # Safety
/// - `scratch` holds what the first pass made of the pairs, with the same `mask` and `params`, and for an image with so
///   many `channels`.
/// - The shape of the launch is that of [`shapes`](super::shapes).
#[inline(always)]
#[allow(clippy::needless_range_loop)]
pub(super) unsafe fn columns(scratch: GlobalMut<f32>, mask: Global<f32>, params: Params, channels: u32) {
    let parts = SharedParts::new(EXCHANGE);
    let thread = thread::thread_idx_x();
    let (column, t) = (thread % GROUP, thread / GROUP);
    let (group, number) = (thread::block_idx_x(), thread::block_idx_y());
    let pair = Pair::new(&params, number, channels);
    let scratch = of_pair(scratch, number);
    if group == 0 {
        // SAFETY: all threads of the block take this branch. The first pass has stored the facts of the needed rows.
        unsafe {
            let facts = facts_of_block::<THREADS>(&parts, scratch, pair.needed_rows as u32, thread);
            if thread == 0 {
                facts.store(scratch, POINTS);
            }
        }
    }
    // Element j of this thread is in row t + 32 j.
    let points = scratch.cast::<F32x2>().offset((group * GROUP_POINTS + t * GROUP + column) as isize);
    let row_exists = |j: u32, rows: i32| ((t + LONG * j) as i32) < rows;
    let spectrum = mask.offset(SPECTRUM as isize).cast::<F32x4>().offset((group * GROUP_POINTS / 2 + thread) as isize);
    let exchange = parts.exchange;
    let mut v = [Complex::ZERO; ELEMENTS];
    // SAFETY: all threads of the block are here. The first pass has stored the needed rows. All places in shared memory
    // are below `EXCHANGE`. Each is written by one thread between two barriers. A thread writes the products where it
    // has read before, and nobody else has.
    unsafe {
        for j in 0..LONG {
            if row_exists(j, pair.needed_rows) {
                v[j as usize] = points.load((LONG * j * GROUP) as isize).into();
            }
        }
        fill_twiddles::<THREADS>(&parts, mask, thread);
        thread::sync_threads();
        transform_32::<false>(&mut v);
        for q in 0..LONG {
            let z = v[reversed(q as usize)];
            let z = if q == 0 { z } else { z.times(parts.twiddles.load(q * LONG + t).into()) };
            exchange.store(q * PITCH + t * GROUP + column, z.into());
        }
        thread::sync_threads();

        let own = exchange.offset(t * PITCH + column);
        for i in 0..LONG {
            v[i as usize] = own.load(i * GROUP).into();
        }
        transform_32::<false>(&mut v);
        let mut products = [Complex::ZERO; ELEMENTS];
        for vector in 0..ELEMENTS / 2 {
            let F32x4([re, im, next_re, next_im]) = spectrum.load((vector as u32 * THREADS) as isize);
            let p = 2 * vector;
            products[p] = v[reversed(p)].times(Complex { re, im });
            products[p + 1] = v[reversed(p + 1)].times(Complex { re: next_re, im: next_im });
        }
        transform_32::<true>(&mut products);
        for i in 0..LONG {
            let z = products[reversed(i as usize)];
            let z = if i == 0 { z } else { z.times(Complex::from(parts.twiddles.load(i * LONG + t)).conjugate()) };
            own.store(i * GROUP, z.into());
        }
        thread::sync_threads();

        for q in 0..LONG {
            v[q as usize] = exchange.load(q * PITCH + t * GROUP + column).into();
        }
        transform_32::<true>(&mut v);
        for j in 0..LONG {
            if row_exists(j, pair.wanted_rows) {
                points.store((LONG * j * GROUP) as isize, v[reversed(j as usize)].into());
            }
        }
    }
}
