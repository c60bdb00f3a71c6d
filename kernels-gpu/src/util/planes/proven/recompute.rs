//! Ordered sums of uncertain values.

use cuda_std::bytes::byte_perm;
use cuda_std::prelude::*;

use super::layout::{GROUP, ListEntry, SharedParts, padded_mask_width};
use super::{BLOCK, Whole};
use crate::abi::params::Params;

/// Columns of the mask in an iteration of the inner loop.
const STEP: u32 = 4 * GROUP;

/// A position in a row of a window.
struct Position {
    /// The word after `current`.
    next: Shared<u32>,
    /// The word with the first value that is not yet used.
    current: u32,
    /// Selects the values from two words.
    selector: u32,
}

impl Position {
    /// Adds the products of four columns.
    ///
    /// # Safety
    /// - The words of the four columns and one more lie in the windows, and are filled.
    /// - `coefficients` holds four coefficients, aligned to 16 bytes.
    #[inline(always)]
    unsafe fn add_group<T: Whole>(&mut self, coefficients: Global<F32x4>, sum: f32) -> f32 {
        // SAFETY: as this function requires.
        let F32x4(coefficients) = unsafe { coefficients.load(0) };
        let mut sum = sum;
        for word in 0..GROUP / T::OF_WORD {
            // SAFETY: as this function requires.
            let next = unsafe { self.next.load(word) };
            let values = byte_perm(self.current, next, self.selector);
            self.current = next;
            for i in 0..T::OF_WORD as usize {
                sum = fma(coefficients[word as usize * T::OF_WORD as usize + i], T::value(values, i), sum);
            }
        }
        self.next = self.next.offset(GROUP / T::OF_WORD);
        sum
    }
}

/// Computes the values of the list in order and stores them among the results.
///
/// # Safety
/// - All threads of the block call this, with their own `thread`.
/// - The list has `total` entries, the windows are filled, and a barrier has passed since.
/// - The mask is as [`proven`](super::proven) requires.
#[inline(always)]
pub(super) unsafe fn recompute<T: Whole, const C: u32>(
    mask: Global<f32>,
    parts: &SharedParts,
    params: &Params,
    lead: u32,
    total: u32,
    thread: u32,
) {
    let columns = padded_mask_width(params.mask_width as u32);
    let mut i = thread;
    while i < total {
        thread::no_unroll();
        // SAFETY: i < total.
        let entry = ListEntry::unpack(unsafe { parts.list.load(i) });
        let (row, column, channel) = entry.place::<C>();
        let first = lead + column;
        let selector = T::selector(first % T::OF_WORD);
        let mut window = parts.windows.offset(channel * parts.plane_words + row * parts.row_words + first / T::OF_WORD);
        let mut coefficients = mask.cast::<F32x4>();
        let mut sum = 0.0;
        let mut k = 0;
        while k < params.mask_height {
            thread::no_unroll();
            // SAFETY: the window begins in this word.
            let mut position = Position { next: window.offset(1), current: unsafe { window.load(0) }, selector };
            let mut l = 0;
            while l + STEP <= columns {
                thread::no_unroll();
                for group in 0..STEP / GROUP {
                    // SAFETY: the columns belong to row k of the window, and of the mask.
                    sum = unsafe { position.add_group::<T>(coefficients.offset(group as isize), sum) };
                }
                coefficients = coefficients.offset((STEP / GROUP) as isize);
                l += STEP;
            }
            while l < columns {
                thread::no_unroll();
                // SAFETY: as above; rows are multiples of four columns.
                sum = unsafe { position.add_group::<T>(coefficients, sum) };
                coefficients = coefficients.offset(1);
                l += GROUP;
            }
            window = window.offset(parts.row_words);
            k += 1;
        }
        // SAFETY: a value is in the list once, so its result is this thread's alone.
        unsafe { parts.results.cast::<T>().store(entry.index::<C>(), T::from_f32(params.finish(sum))) };
        i += BLOCK.0;
    }
}
