//! Ordered sums of uncertain values.

use cuda_std::bytes::byte_perm;
use cuda_std::prelude::*;

use super::layout::{GROUP, SharedParts, WARPS};
use super::list::{List, ListEntry};
use super::{ProvenParams, Whole};
use crate::abi::params::padded_mask_width;

/// Groups of columns that an iteration of the inner loop adds.
const STEP: usize = 4;

/// Values that a thread computes at a time. They share the coefficients.
const VALUES: usize = 2;

/// The window of a value.
#[derive(Clone, Copy)]
struct Window<const FACTORS: bool> {
    /// The word with the next group's first pixel.
    next: Shared<u32>,
    /// Selects the pixels of a word from two.
    selector: u32,
    /// The products so far.
    sum: f32,
}

impl<const FACTORS: bool> Window<FACTORS> {
    /// Adds the products of `groups` groups of columns, with pixels as [factors](Whole::factor) if `FACTORS`.
    ///
    /// # Safety
    /// The words of the columns and one more lie in the windows, and are filled.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn add<T: Whole>(&mut self, coefficients: &[F32x4; STEP], groups: usize) {
        let of_group = const { (GROUP / T::OF_WORD) as usize };
        let mut words = [0; 2 * STEP + 1];
        for i in 0..groups * of_group + 1 {
            // SAFETY: as this function requires.
            words[i] = unsafe { self.next.load(i as u32) };
        }
        self.next = self.next.offset((groups * of_group) as u32);
        for word in 0..groups * of_group {
            let values = byte_perm(words[word], words[word + 1], self.selector);
            for i in 0..T::OF_WORD as usize {
                let value = if FACTORS { T::factor(values, i) } else { T::value(values, i) };
                let column = word * T::OF_WORD as usize + i;
                self.sum = fma(coefficients[column / 4].0[column % 4], value, self.sum);
            }
        }
    }
}

/// Computes the values of the list in order and stores them among the results.
///
/// # Safety
/// - All threads of the block call this, each with its lane's `list` and its warp.
/// - The list and the windows are filled, and a barrier has passed since.
/// - The mask is as [`proven`](super::proven) requires, and `FACTORS` says whether it is for pixels as factors.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
pub(super) unsafe fn recompute<T: Whole, const C: u32, const FACTORS: bool>(
    mask: Global<f32>,
    parts: &SharedParts,
    params: &ProvenParams,
    list: &List,
    warp: u32,
) {
    let convolution = &params.convolution;
    let groups = padded_mask_width(convolution.mask_width as u32) / GROUP;
    let mut rank = warp * VALUES as u32;
    while let Some(first) = list.computed(rank) {
        thread::no_unroll();
        let second = list.computed(rank + 1);
        rank += WARPS * VALUES as u32;
        // In place of a second value that is not there, the first one is computed twice.
        let values = [first, second.unwrap_or(first)];
        let mut windows = values.map(|index| {
            // SAFETY: the list has this value.
            let (row, column, channel) = ListEntry::unpack::<C>(unsafe { parts.list.load(index) }).place::<C>();
            let word = channel * parts.plane_words + row * parts.row_words + column / T::OF_WORD;
            let selector = T::selector(column % T::OF_WORD);
            Window::<FACTORS> { next: parts.windows.offset(word), selector, sum: 0.0 }
        });
        let to_next_row = parts.row_words - groups * (GROUP / T::OF_WORD);
        let mut from = mask.cast::<F32x4>();
        let mut k = 0;
        while k < convolution.mask_height {
            thread::no_unroll();
            let mut left = groups;
            while left >= STEP as u32 {
                thread::no_unroll();
                // SAFETY: the columns belong to row k of the mask and of the windows.
                unsafe {
                    let coefficients = [0, 1, 2, 3].map(|i| from.load(i));
                    for window in &mut windows {
                        window.add::<T>(&coefficients, STEP);
                    }
                }
                from = from.offset(STEP as isize);
                left -= STEP as u32;
            }
            while left > 0 {
                thread::no_unroll();
                // SAFETY: as above; rows are multiples of four columns.
                unsafe {
                    let coefficients = [from.load(0); STEP];
                    for window in &mut windows {
                        window.add::<T>(&coefficients, 1);
                    }
                }
                from = from.offset(1);
                left -= 1;
            }
            for window in &mut windows {
                window.next = window.next.offset(to_next_row);
            }
            k += 1;
        }
        for i in 0..VALUES {
            let sum = windows[i].sum * if FACTORS { params.unit } else { 1.0 };
            // SAFETY: the list has this value, and has it once, so its result is this thread's alone.
            unsafe {
                let place = ListEntry::unpack::<C>(parts.list.load(values[i])).index::<C>();
                parts.results.cast::<T>().store(place, T::from_f32(convolution.finish(sum)));
            }
        }
    }
}
