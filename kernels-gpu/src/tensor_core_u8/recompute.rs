//! The sums in `f32` of the pixels that fixed point leaves uncertain.

use cuda_std::bytes::byte_perm;
use cuda_std::prelude::*;

use super::store::result_offset;
use super::uncertain::{ListEntry, UncertainList};
use super::{
    BLOCK, Layout, ROWS, SLABS, WARPS, block_values, header, list_capacity, list_start, planar_channels, this_thread,
};
use crate::abi::params::{Params, padded_mask_width};
use crate::abi::pixel::Pixel as _;
use crate::common::mask_row::add_row;
use crate::util::planes::proven::Whole;

/// The largest number of pixels that a thread computes at a time. They share the coefficients.
const MAX_TOGETHER: usize = 2;

/// The number of pixels that a thread computes at a time.
///
/// If a step has fewer uncertain pixels than the block has threads, one pixel a thread takes the shortest time.
const fn together(channels: u32, side: u32, separable: bool) -> usize {
    let most = if planar_channels(channels, side) == 1 { 21 } else { 15 };
    if side <= most || separable { 1 } else { MAX_TOGETHER }
}

/// The window of an uncertain pixel.
#[derive(Clone, Copy)]
struct Window {
    /// The row of the results, and the value of the block in it.
    row: u32,
    value: u32,
    /// The offset of the word in which the window begins, in the first row of a stage.
    offset: u32,
    /// The byte of that word with which it begins.
    skip: u32,
    /// The products so far.
    sum: f32,
}

impl Window {
    /// Adds a row of the window, whose first word is `pixels`, for a mask of `SIDE` columns.
    ///
    /// It reads pixels in words. Single bytes of 32 scattered pixels would have bank conflicts.
    ///
    /// # Safety
    /// `pixels` holds the words of the window, and one word more.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn add_words<const CHANNELS: u32, const SIDE: u32>(
        &mut self,
        pixels: Shared<u32>,
        coefficients: &[F32x4; MAX_VECTORS],
    ) {
        let stride = const { (CHANNELS / planar_channels(CHANNELS, SIDE)) as usize };
        let count = ((SIDE as usize - 1) * stride + 1).div_ceil(4);
        let mut words = [0; MAX_VECTORS + 1];
        for i in 0..count + 1 {
            // SAFETY: the window's words and one more.
            words[i] = unsafe { pixels.load(i as u32) };
        }
        for i in 0..count {
            words[i] = byte_perm(words[i], words[i + 1], u8::selector(self.skip));
        }
        for column in 0..SIDE as usize {
            let byte = column * stride;
            self.sum = fma(coefficients[column / 4].0[column % 4], u8::factor(words[byte / 4], byte % 4), self.sum);
        }
    }

    /// Adds a row of the window, for a mask of any width and planar channels.
    ///
    /// # Safety
    /// - `pixels` holds the words of the window, and one word more.
    /// - `coefficients` holds a row of the mask, padded to a multiple of 4, and is aligned to 16 bytes.
    #[inline(always)]
    unsafe fn add_groups(&mut self, pixels: Shared<u32>, coefficients: Shared<F32x4>, columns: u32) {
        let groups = columns.div_ceil(4);
        let mut group = 0;
        while group + STEP <= groups {
            thread::no_unroll();
            // SAFETY: the groups belong to the row.
            unsafe { self.add_step::<STEP>(pixels.offset(group), coefficients.offset(group)) };
            group += STEP;
        }
        while group < groups {
            thread::no_unroll();
            // SAFETY: as above.
            unsafe { self.add_step::<1>(pixels.offset(group), coefficients.offset(group)) };
            group += 1;
        }
    }

    /// Adds `GROUPS` groups of four columns. All loads come first, so that they are in flight together.
    ///
    /// # Safety
    /// As for [`add_groups`](Self::add_groups), from the first of these groups on.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn add_step<const GROUPS: u32>(&mut self, pixels: Shared<u32>, coefficients: Shared<F32x4>) {
        let mut words = [0; STEP as usize + 1];
        let mut vectors = [F32x4::default(); STEP as usize];
        for i in 0..GROUPS + 1 {
            // SAFETY: the words of the columns and one more.
            words[i as usize] = unsafe { pixels.load(i) };
        }
        for i in 0..GROUPS {
            // SAFETY: the row is padded to whole vectors.
            vectors[i as usize] = unsafe { coefficients.load(i) };
        }
        for group in 0..GROUPS as usize {
            let bytes = byte_perm(words[group], words[group + 1], u8::selector(self.skip));
            for i in 0..4 {
                self.sum = fma(vectors[group].0[i], u8::factor(bytes, i), self.sum);
            }
        }
    }
}

/// Groups of four columns that a step adds, for masks of any width.
const STEP: u32 = 4;

/// The most vectors of coefficients in a row of a mask with a kernel of its own.
const MAX_VECTORS: usize = 9;

/// The sums in order, for uncertain pixels.
pub(super) struct Recompute {
    pub(super) layout: Layout,
    /// Rows of the mask.
    pub(super) rows: u32,
    pub(super) mask_width: u32,
    /// Bytes of a slab.
    pub(super) slab: u32,
    /// The mask as the kernel takes it, and its coefficients.
    pub(super) mask: Global<f32>,
    pub(super) coefficients: Shared<f32>,
    pub(super) lists: UncertainList,
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
    #[allow(clippy::needless_range_loop)]
    pub(super) unsafe fn run<const CHANNELS: u32, const SIDE: u32, const SEPARABLE: bool>(&self, stage: Shared<u8>) {
        let planar = const { planar_channels(CHANNELS, SIDE) };
        let mut ends = [0; WARPS as usize];
        let (mut total, mut all) = (0, false);
        for (warp, end) in ends.iter_mut().enumerate() {
            // SAFETY: warp < WARPS, and each warp has a count.
            let count = unsafe { self.lists.counts.load(warp as u32) };
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
        let place = |i: u32| {
            if all {
                return (i / block_values(planar), i % block_values(planar));
            }
            let (mut warp, mut before) = (0, 0);
            for &end in &ends[..WARPS as usize - 1] {
                if i >= end {
                    warp += 1;
                    before = end;
                }
            }
            // SAFETY: i - before is below the warp's count, which is at most the list's capacity.
            let entry = unsafe { self.lists.entries.load(list_start(planar, warp) + i - before) };
            ListEntry::unpack(entry).place(&self.layout, warp)
        };
        let window = |(row, value): (u32, u32)| {
            let begin = self.layout.phase + value / planar;
            let offset = value % planar * self.layout.run + self.layout.first + begin / 4 * 4;
            Window { row, value, offset, skip: begin % 4, sum: 0.0 }
        };
        // A register for the unit would be one too many for the matrix products.
        // SAFETY: the mask has a header.
        let unit = unsafe { self.mask.load(header::UNIT as isize) };
        let mut first = this_thread() * const { together(CHANNELS, SIDE, SEPARABLE) } as u32;
        while first < total {
            thread::no_unroll();
            // In place of a pixel that is not there, the first one is computed twice.
            let mut windows = [0, 1].map(|i| window(place(if first + i < total { first + i } else { first })));
            // SAFETY: as this function requires.
            unsafe {
                if unit == 0.0 {
                    self.sums::<CHANNELS, SIDE, SEPARABLE, false>(stage, &mut windows);
                } else {
                    self.sums::<CHANNELS, SIDE, SEPARABLE, true>(stage, &mut windows);
                }
            }
            for i in 0..const { together(CHANNELS, SIDE, SEPARABLE) } {
                let window = windows[i];
                if first + (i as u32) < total {
                    let sum = window.sum * if unit == 0.0 { 1.0 } else { unit };
                    let byte = u8::from_f32(self.params.finish(sum));
                    // SAFETY: a value is in one list once, so it is this thread's alone.
                    unsafe { self.results.store(result_offset(planar, window.row, window.value), byte) };
                }
            }
            first += BLOCK.0 * const { together(CHANNELS, SIDE, SEPARABLE) } as u32;
        }
        // SAFETY: all threads are here: the function requires it, and `total` is equal in all of them.
        unsafe { thread::sync_threads() };
    }

    /// The offset of the word in which row `k` of a window begins.
    #[inline(always)]
    fn row_of(&self, window: &Window, k: u32) -> u32 {
        let row = window.row + k;
        window.offset + row % SLABS * self.slab + row / SLABS * self.layout.pitch
    }

    /// Adds all rows of the first [`together`] windows, with pixels as factors if `FACTORS`.
    ///
    /// # Safety
    /// - The stage holds the windows. The coefficients are filled, for pixels as factors if `FACTORS`.
    /// - A barrier has passed since.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn sums<const CHANNELS: u32, const SIDE: u32, const SEPARABLE: bool, const FACTORS: bool>(
        &self,
        stage: Shared<u8>,
        windows: &mut [Window; MAX_TOGETHER],
    ) {
        let columns = padded_mask_width(self.mask_width);
        let mut coefficients = self.coefficients;
        // black_box keeps LLVM from unrolling the loop, which pays for small masks only.
        let rows = if SIDE > 9 || !FACTORS { thread::black_box(self.rows) } else { self.rows };
        let mut k = 0;
        while k < rows {
            thread::no_unroll();
            let mut vectors = [F32x4::default(); MAX_VECTORS];
            if SIDE > 0 && FACTORS {
                for i in 0..SIDE.div_ceil(4) {
                    // SAFETY: the row is padded to whole vectors.
                    vectors[i as usize] = unsafe { coefficients.cast::<F32x4>().load(i) };
                }
            }
            for i in 0..const { together(CHANNELS, SIDE, SEPARABLE) } {
                let window = &mut windows[i];
                let pixels = stage.offset(self.row_of(window, k));
                // SAFETY: row + k of the stage holds the window; row k of the coefficients is padded.
                unsafe {
                    if !FACTORS {
                        let (skip, stride) = (window.skip, self.layout.stride);
                        window.sum = add_row(window.sum, self.mask_width, |l, sum| {
                            let pixel = pixels.load(skip + l as u32 * stride);
                            fma(coefficients.load(l as u32), pixel.to_f32(), sum)
                        });
                    } else if SIDE > 0 {
                        window.add_words::<CHANNELS, SIDE>(pixels.cast(), &vectors);
                    } else {
                        window.add_groups(pixels.cast(), coefficients.cast(), self.mask_width);
                    }
                }
            }
            coefficients = coefficients.offset(columns);
            k += 1;
        }
    }
}
