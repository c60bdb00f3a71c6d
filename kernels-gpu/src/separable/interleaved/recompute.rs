//! Ordered sums of uncertain bytes, from the pixels in shared memory.

use cuda_std::bytes::byte_perm;
use cuda_std::prelude::*;

use super::layout::{ListEntry, ROWS, THREADS};
use super::source::{Source, byte_as_factor};
use crate::abi::params::{Params, padded_mask_width};
use crate::abi::pixel::Pixel as _;

/// Coefficients of an iteration of the inner loop.
const STEP: u32 = 16;

/// The ordered sums of a list of values.
#[derive(Clone, Copy)]
pub(super) struct Recompute<const C: u32> {
    pub(super) result: GlobalMut<u8>,
    pub(super) params: Params,
    /// All rows of pixels in shared memory. The row after the last one is the first one.
    pub(super) pixels: Shared<u8>,
    /// The number of these rows.
    pub(super) rows: u32,
    /// Bytes from one row to the next.
    pub(super) pitch: u32,
    /// Bytes from a row's start to its first window.
    pub(super) lead: u32,
    /// The coefficients, times the power of two of a row factor.
    pub(super) ordered: Shared<f32>,
}

/// Pixels of a row of a window, four at a time.
struct Position<const C: u32> {
    /// The word after `current`.
    next: Shared<u32>,
    /// The word with the first byte that is not yet used.
    current: u32,
    /// Selects a word from two, so that the first pixel comes first.
    selector: u32,
}

impl<const C: u32> Position<C> {
    /// Adds the products of four columns.
    ///
    /// # Safety
    /// - The words of the four columns and one more lie in shared memory, and are initialised.
    /// - `coefficients` holds four coefficients, aligned to 16 bytes.
    #[inline(always)]
    unsafe fn add_group(&mut self, coefficients: Shared<F32x4>, sum: f32) -> f32 {
        // SAFETY: as this function requires.
        let F32x4(coefficients) = unsafe { coefficients.load(0) };
        let mut words = [0; 4];
        for i in 0..C {
            // SAFETY: as this function requires.
            let next = unsafe { self.next.load(i) };
            words[i as usize] = byte_perm(self.current, next, self.selector);
            self.current = next;
        }
        self.next = self.next.offset(C);
        let mut sum = sum;
        for l in 0..4 {
            let byte = l * C;
            sum = fma(coefficients[l as usize], byte_as_factor(words[(byte / 4) as usize], byte % 4), sum);
        }
        sum
    }
}

impl<const C: u32> Recompute<C> {
    /// Computes the first `total` values of `list` and stores them.
    ///
    /// Row 0 of the step is row `y` of the result, and its windows begin in row `top` of the pixels. Value 0 of the
    /// block is value `v` of the result's row.
    ///
    /// # Safety
    /// - All threads of the block call this, each with its rank.
    /// - The list has `total` values, which lie in the result. The pixels under their windows and the coefficients are
    ///   in shared memory. A barrier has passed since.
    /// - `top` is below twice the number of rows.
    #[inline(always)]
    pub(super) unsafe fn run(self, list: Shared<u16>, total: u32, (v, y): (i32, i32), top: u32, thread: u32) {
        let columns = padded_mask_width(self.params.mask_width as u32);
        let all = self.rows * self.pitch;
        let mut i = thread;
        while i < total {
            thread::no_unroll();
            // SAFETY: i < total.
            let ListEntry { column, row } = ListEntry::unpack(unsafe { list.load(i) });
            let first = self.lead + column;
            let selector = 0x3210 + 0x1111 * (first % 4);
            let mut at = (top + row) * self.pitch;
            if at >= all {
                at -= all;
            }
            let mut coefficients = self.ordered.cast::<F32x4>();
            let mut sum = 0.0;
            let mut k = 0;
            while k < self.params.mask_height {
                thread::no_unroll();
                let words = self.pixels.offset(at + first / 4 * 4).cast::<u32>();
                // SAFETY: the window begins in this word.
                let mut position = Position::<C> { next: words.offset(1), current: unsafe { words.load(0) }, selector };
                let mut l = 0;
                while l + STEP <= columns {
                    thread::no_unroll();
                    for group in 0..STEP / 4 {
                        // SAFETY: the columns belong to row k of the window, and of the mask.
                        sum = unsafe { position.add_group(coefficients.offset(group), sum) };
                    }
                    coefficients = coefficients.offset(STEP / 4);
                    l += STEP;
                }
                while l < columns {
                    thread::no_unroll();
                    // SAFETY: as above; rows are multiples of four columns.
                    sum = unsafe { position.add_group(coefficients, sum) };
                    coefficients = coefficients.offset(1);
                    l += 4;
                }
                at += self.pitch;
                if at >= all {
                    at -= all;
                }
                k += 1;
            }
            // A product with a power of two is exact.
            let sum = sum * const { power_of_two(<u8 as Source>::POWERS.column) };
            let index = self.params.dst_index(v + column as i32, y + row as i32);
            // SAFETY: the value lies in the result, and is in the list once.
            unsafe { self.result.store(index, u8::from_f32(self.params.finish(sum))) };
            i += THREADS;
        }
    }
}

/// `2^exponent` for the exponent of a normal number.
const fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

const _: () = assert!(power_of_two(29) == 536_870_912.0 && ROWS == 16);
