//! The sums in `f32`, of the pixels that fixed point left uncertain.

use cuda_std::bytes::byte_to_f32;
use cuda_std::prelude::*;

use super::mma::Item;
use super::store::result_place;
use super::{
    BLOCK, Layout, PLANES, ROWS, WARPS, apart, coefficient_pitch, columns, list_of, most_uncertain, this_thread,
};
use crate::abi::params::Params;
use crate::abi::pixel::Pixel as _;
use crate::common::mask_row::add_row;

/// Adds a row of a window that begins `skip` bytes after the word `pixels`. Pixels are read in words and coefficients
/// in fours: bytes one by one, for 32 pixels of which none is the other's neighbour, meet in the same banks again and
/// again.
///
/// # Safety
/// The stage has a word more than the window, the row of coefficients is padded to a multiple of 4.
#[inline(always)]
unsafe fn add_words<const CHANNELS: u32, const SIZE: u32>(
    sum: f32,
    pixels: Shared<u8>,
    skip: u32,
    coefficients: Shared<f32>,
) -> f32 {
    const MOST_WORDS: usize = 9;
    let stride = const { CHANNELS / apart(CHANNELS, SIZE) };
    let span = (SIZE - 1) * stride + 1;
    let mut words = [0; MOST_WORDS];
    for i in 0..span.div_ceil(4) + 1 {
        // SAFETY: the caller's promise.
        words[i as usize] = unsafe { pixels.cast::<u32>().load(i) };
    }
    let mut sum = sum;
    let mut four = F32x4::default();
    for l in 0..SIZE {
        if l % 4 == 0 {
            // SAFETY: the caller's promise.
            four = unsafe { coefficients.cast::<F32x4>().load(l / 4) };
        }
        let at = l * stride;
        let i = (at / 4) as usize;
        let word = (u64::from(words[i + 1]) << 32 | u64::from(words[i])) >> (8 * skip);
        sum = fma(four.0[l as usize % 4], byte_to_f32(word as u32, at as usize % 4), sum);
    }
    sum
}

/// The ordinary way, for uncertain pixels.
pub(super) struct Again {
    pub(super) layout: Layout,
    pub(super) rows: u32,
    pub(super) mask_width: u32,
    pub(super) plane: u32,
    pub(super) coefficients: Shared<f32>,
    pub(super) list: Shared<u8>,
    pub(super) counts: Shared<u32>,
    pub(super) results: Shared<u8>,
    pub(super) params: Params,
}

impl Again {
    /// Computes the listed pixels, or all where a list was too short, and puts them among the results.
    ///
    /// # Safety
    /// All threads of the block call it. `pixels` are those of the step; the lists were written before the last
    /// barrier.
    #[inline(always)]
    pub(super) unsafe fn run<const CHANNELS: u32, const SIZE: u32>(&self, pixels: Shared<u8>) {
        let apart = const { apart(CHANNELS, SIZE) };
        let mut ends = [0; WARPS as usize];
        let (mut total, mut all) = (0, false);
        for (warp, end) in ends.iter_mut().enumerate() {
            // SAFETY: one number a warp.
            let count = unsafe { self.counts.load(warp as u32) };
            all |= count > most_uncertain(apart);
            total += count;
            *end = total;
        }
        if total == 0 {
            return;
        }
        if all {
            total = ROWS * columns(apart);
        }
        let mut i = this_thread();
        while i < total {
            thread::no_unroll();
            let (mut row, mut value) = (i / columns(apart), i % columns(apart));
            if !all {
                let mut warp = 0;
                let mut before = 0;
                for &end in &ends[..WARPS as usize - 1] {
                    if i >= end {
                        warp += 1;
                        before = end;
                    }
                }
                // SAFETY: entry `i - before` of the warp's list.
                let item = unsafe { self.list.cast::<u16>().load(list_of(apart, warp) + i - before) };
                (row, value) = Item::unpack(item).place(apart, warp);
            }
            let pixels = pixels.offset(value % apart * self.layout.run);
            // The word in which the window begins, and the byte of it.
            let first = self.layout.phase + value / apart;
            let (pixels, skip) = (pixels.offset(self.layout.first + first / 4 * 4), first % 4);
            let mut coefficients = self.coefficients;
            let mut sum = 0.0;
            // Opaque, or the loop would be unrolled where it is known: worth its code for small masks only.
            let rows = if SIZE > 9 { thread::black_box(self.rows) } else { self.rows };
            let mut k = 0;
            while k < rows {
                thread::no_unroll();
                let (plane, slot) = ((row + k) % PLANES, (row + k) / PLANES);
                let pixels = pixels.offset(plane * self.plane + slot * self.layout.pitch);
                if SIZE > 0 {
                    // SAFETY: the window lies in the stage, its coefficients in the mask.
                    sum = unsafe { add_words::<CHANNELS, SIZE>(sum, pixels, skip, coefficients) };
                } else {
                    sum = add_row(sum, self.mask_width, |l, sum| {
                        // SAFETY: as above.
                        let (pixel, coefficient) =
                            unsafe { (pixels.load(skip + l as u32), coefficients.load(l as u32)) };
                        fma(coefficient, pixel.to_f32(), sum)
                    });
                }
                coefficients = coefficients.offset(coefficient_pitch(self.mask_width));
                k += 1;
            }
            let byte = u8::from_f32(self.params.finish(sum));
            // SAFETY: a value is in one list once, so it is this thread's.
            unsafe { self.results.store(result_place(apart, row, value), byte) };
            i += BLOCK.0;
        }
        // SAFETY: all threads are here: the function requires it, and `total` is equal in all of them.
        unsafe { thread::sync_threads() };
    }
}
