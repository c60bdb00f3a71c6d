//! The sums in `f32` of the pixels that fixed point leaves uncertain.

use cuda_std::bytes::byte_to_f32;
use cuda_std::prelude::*;

use super::mma::ListEntry;
use super::store::result_offset;
use super::{BLOCK, Layout, ROWS, SLABS, WARPS, block_values, list_capacity, list_start, planar_channels, this_thread};
use crate::abi::params::{Params, padded_mask_width};
use crate::abi::pixel::Pixel as _;
use crate::common::mask_row::add_row;

/// Adds a row of a window that begins `skip` bytes after the word `pixels`.
///
/// It reads pixels in words and coefficients in vectors. Single bytes of 32 scattered pixels would have bank conflicts.
///
/// # Safety
/// - `pixels` holds the words of the window, and one word more.
/// - `coefficients` holds a row of the mask, padded to a multiple of 4, and is aligned to 16 bytes.
#[inline(always)]
unsafe fn add_words<const CHANNELS: u32, const SIDE: u32>(
    sum: f32,
    pixels: Shared<u8>,
    skip: u32,
    coefficients: Shared<f32>,
) -> f32 {
    const MAX_WORDS: usize = 9;
    let stride = const { CHANNELS / planar_channels(CHANNELS, SIDE) };
    let span = (SIDE - 1) * stride + 1;
    let mut words = [0; MAX_WORDS];
    for i in 0..span.div_ceil(4) + 1 {
        // SAFETY: the window's words and one more.
        words[i as usize] = unsafe { pixels.cast::<u32>().load(i) };
    }
    let mut sum = sum;
    let mut vector = F32x4::default();
    for l in 0..SIDE {
        if l % 4 == 0 {
            // SAFETY: l < SIDE, and the row is padded to whole vectors.
            vector = unsafe { coefficients.cast::<F32x4>().load(l / 4) };
        }
        let at = l * stride;
        let i = (at / 4) as usize;
        let word = (u64::from(words[i + 1]) << 32 | u64::from(words[i])) >> (8 * skip);
        sum = fma(vector.0[l as usize % 4], byte_to_f32(word as u32, at as usize % 4), sum);
    }
    sum
}

/// The sums in order, for uncertain pixels.
pub(super) struct Recompute {
    pub(super) layout: Layout,
    /// Rows of the mask.
    pub(super) rows: u32,
    pub(super) mask_width: u32,
    /// Bytes of a slab.
    pub(super) slab: u32,
    pub(super) coefficients: Shared<f32>,
    pub(super) list: Shared<u8>,
    pub(super) counts: Shared<u32>,
    pub(super) results: Shared<u8>,
    pub(super) params: Params,
}

impl Recompute {
    /// Computes the listed pixels and stores them among the results. If a list overflowed, it computes all pixels.
    ///
    /// # Safety
    /// - All threads of the block call it.
    /// - `stage` holds the rows of the step. The lists, their counts and the coefficients are filled.
    /// - A barrier has passed since.
    #[inline(always)]
    pub(super) unsafe fn run<const CHANNELS: u32, const SIDE: u32>(&self, stage: Shared<u8>) {
        let planar = const { planar_channels(CHANNELS, SIDE) };
        let mut ends = [0; WARPS as usize];
        let (mut total, mut all) = (0, false);
        for (warp, end) in ends.iter_mut().enumerate() {
            // SAFETY: warp < WARPS, and each warp has a count.
            let count = unsafe { self.counts.load(warp as u32) };
            all |= count > list_capacity(planar);
            total += count;
            *end = total;
        }
        if total == 0 {
            return;
        }
        if all {
            total = ROWS * block_values(planar);
        }
        let mut i = this_thread();
        while i < total {
            thread::no_unroll();
            let (mut row, mut value) = (i / block_values(planar), i % block_values(planar));
            if !all {
                let mut warp = 0;
                let mut before = 0;
                for &end in &ends[..WARPS as usize - 1] {
                    if i >= end {
                        warp += 1;
                        before = end;
                    }
                }
                // SAFETY: i - before is below the warp's count, which is at most the list's capacity.
                let entry = unsafe { self.list.cast::<u16>().load(list_start(planar, warp) + i - before) };
                (row, value) = ListEntry::unpack(entry).place(planar, warp);
            }
            let pixels = stage.offset(value % planar * self.layout.run);
            // The word in which the window begins, and the byte of it.
            let first = self.layout.phase + value / planar;
            let (pixels, skip) = (pixels.offset(self.layout.first + first / 4 * 4), first % 4);
            let mut coefficients = self.coefficients;
            let mut sum = 0.0;
            // black_box keeps LLVM from unrolling the loop, which pays for small masks only.
            let rows = if SIDE > 9 { thread::black_box(self.rows) } else { self.rows };
            let mut k = 0;
            while k < rows {
                thread::no_unroll();
                let (slab, slot) = ((row + k) % SLABS, (row + k) / SLABS);
                let pixels = pixels.offset(slab * self.slab + slot * self.layout.pitch);
                if SIDE > 0 {
                    // SAFETY: row row + k of the stage holds the window; row k of the coefficients is padded.
                    sum = unsafe { add_words::<CHANNELS, SIDE>(sum, pixels, skip, coefficients) };
                } else {
                    sum = add_row(sum, self.mask_width, |l, sum| {
                        // SAFETY: l < mask_width; row row + k of the stage holds the window.
                        let (pixel, coefficient) =
                            unsafe { (pixels.load(skip + l as u32), coefficients.load(l as u32)) };
                        fma(coefficient, pixel.to_f32(), sum)
                    });
                }
                coefficients = coefficients.offset(padded_mask_width(self.mask_width));
                k += 1;
            }
            let byte = u8::from_f32(self.params.finish(sum));
            // SAFETY: a value is in one list once, so it is this thread's alone.
            unsafe { self.results.store(result_offset(planar, row, value), byte) };
            i += BLOCK.0;
        }
        // SAFETY: all threads are here: the function requires it, and `total` is equal in all of them.
        unsafe { thread::sync_threads() };
    }
}
