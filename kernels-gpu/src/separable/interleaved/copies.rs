//! Asynchronous copies of image rows to shared memory, 4 bytes at a time.
//!
//! A vector of 16 bytes would have to begin at a multiple of 16 bytes in the image. The first window of a block begins
//! anywhere. With words of 4 bytes it begins in the first word.
//!
//! | word | how it arrives |
//! | --- | --- |
//! | in the interior | one copy of 4 bytes |
//! | across or beyond the edge, or not aligned | value by value, through a [`border_table`] |
//! | in a row outside, with a constant border | value by value |

use cuda_std::cp_async::{commit_group, cp_async_4};
use cuda_std::prelude::*;

use super::layout::THREADS;
use crate::abi::border;
use crate::abi::params::Params;
use crate::abi::pixel::Pixel;
use crate::common::async_rows::STEP_ROWS;
use crate::common::border_table;

/// Bytes of a word.
const WORD: u32 = 4;

/// Values of a word.
const fn word_values<T>() -> u32 {
    WORD / size_of::<T>() as u32
}

/// The copies of one step of rows after the other, by a block of [`THREADS`].
pub(super) struct WordCopies<T, const C: u32> {
    image: Global<T>,
    params: Params,
    /// The value of a row with which the words begin. It may lie outside.
    left: i32,
    /// The next row. It may lie outside.
    y: i32,
    /// The words that are copied of each row.
    words: u32,
    /// The words in the interior: the first, and the one past the last.
    interior: (u32, u32),
    /// Bytes from one row to the next in shared memory.
    pitch: u32,
    /// The values of the border: see [`border_table`].
    table: Shared<i32>,
}

/// Bytes from the word in which a row's first window begins to that window. `window` is its first value.
#[inline(always)]
pub(super) fn lead<T>(window: i32) -> u32 {
    (window as u32).wrapping_mul(size_of::<T>() as u32) % WORD
}

impl<T: Pixel, const C: u32> WordCopies<T, C> {
    /// The copies of `values` values of each row from value `window` on, and of those before it in the same word. The
    /// first row is `y`.
    #[inline(always)]
    pub(super) fn new(
        (image, params): (Global<T>, Params),
        (window, y): (i32, i32),
        values: u32,
        (pitch, table): (u32, Shared<i32>),
    ) -> Self {
        let before = lead::<T>(window) / size_of::<T>() as u32;
        let left = window - before as i32;
        let words = (values + before).div_ceil(word_values::<T>());
        let is_aligned = (params.src_pitch as u32 * size_of::<T>() as u32).is_multiple_of(WORD);
        let end = ((params.row_values::<C>() - left).max(0) as u32 / word_values::<T>()).min(words);
        let end = if is_aligned { end } else { 0 };
        let begin = (left.min(0).unsigned_abs() / word_values::<T>()).min(end);
        Self { image, params, left, y, words, interior: (begin, end), pitch, table }
    }

    /// Fills the border table, where a row has words that are not in the interior.
    ///
    /// # Safety
    /// - All threads of the block call this, each with its rank.
    /// - The table has an element for each value of the words.
    /// - No thread reads the table before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn fill_table(&self, thread: u32) {
        if self.interior != (0, self.words) {
            let length = self.words * word_values::<T>();
            // SAFETY: all threads call this, `thread` is below `THREADS`, and the table has this length.
            unsafe { border_table::fill::<C>(self.table, &self.params, self.left, length, (thread, THREADS)) };
        }
    }

    /// Begins the copies of the next [`STEP_ROWS`] rows, a warp per row, and commits them as one group.
    ///
    /// # Safety
    /// - All threads of the block call this. `to` is the place of the first row.
    /// - The border table is filled, and a barrier has passed since.
    /// - No thread reads or writes the rows at `to` until the copies have been waited for and a barrier has passed.
    #[inline(always)]
    pub(super) unsafe fn copy(&mut self, to: Shared<u8>) {
        let params = &self.params;
        let (warps, warp, lane) = (THREADS / 32, thread::thread_idx_x() / 32, thread::thread_idx_x() % 32);
        let rows = STEP_ROWS as u32;
        let is_inside = self.y >= 0 && self.y + rows as i32 <= params.height;
        let is_interior = self.interior == (0, self.words);
        let mut row = warp;
        // black_box keeps LLVM from unrolling the loops.
        while row < thread::black_box(rows) {
            thread::no_unroll();
            let mut y = self.y + row as i32;
            if !is_inside {
                y = border::map(params.border, y, params.height);
            }
            let to = to.offset(row * self.pitch);
            if y >= 0 {
                let first = self.left + (lane * word_values::<T>()) as i32;
                let from = self.image.offset(params.src_index(first, y)).cast::<u32>();
                let to = to.offset(lane * WORD).cast::<u32>();
                let blocks = const { THREADS * size_of::<T>() as u32 / WORD / 32 };
                if is_interior && blocks * 32 <= self.words {
                    for block in 0..blocks {
                        // SAFETY: words of a row of the image; the destination is this lane's alone.
                        unsafe { cp_async_4(to.offset(block * 32), from.offset((block * 32) as isize)) };
                    }
                    let mut at = blocks * 32;
                    while at + lane < self.words {
                        thread::no_unroll();
                        // SAFETY: the word is one of the row; the destination is this lane's alone.
                        unsafe { cp_async_4(to.offset(at), from.offset(at as isize)) };
                        at += 32;
                    }
                } else {
                    let mut at = 0;
                    while at < self.words {
                        thread::no_unroll();
                        if at + lane >= self.interior.0 && at + lane < self.interior.1 {
                            // SAFETY: an interior word of a row of the image; the destination is this lane's alone.
                            unsafe { cp_async_4(to.offset(at), from.offset(at as isize)) };
                        }
                        at += 32;
                    }
                }
            }
            let (begin, end) = if y >= 0 { self.interior } else { (0, 0) };
            let mut i = lane;
            while i < self.words - (end - begin) {
                thread::no_unroll();
                let word = if i < begin { i } else { i + end - begin };
                // SAFETY: `y` is a row of the image or OUTSIDE; the destination is this lane's alone.
                unsafe { self.copy_values(to.offset(word * WORD), y, word) };
                i += 32;
            }
            row += warps;
        }
        commit_group();
        self.y += rows as i32;
    }

    /// Writes the values of a word of row `y`.
    ///
    /// # Safety
    /// - `y` is a row of the image or [`border::OUTSIDE`], and `word` is below `words`.
    /// - `to` has room for the word, and no other thread reads or writes there.
    /// - The border table is filled where `y` is a row of the image.
    #[inline(always)]
    unsafe fn copy_values(&self, to: Shared<u8>, y: i32, word: u32) {
        let outside = T::from_f32(self.params.border_value);
        let row = self.image.offset(self.params.src_index(0, y));
        let count = const { word_values::<T>() };
        let mut values = [outside; 4];
        for i in 0..count {
            // SAFETY: the table has an entry for the value: one of the image's row or OUTSIDE.
            let v = if y >= 0 { unsafe { self.table.load(word * count + i) } } else { y };
            if v >= 0 {
                // SAFETY: v >= 0 only if row `y` exists and has value v.
                values[i as usize] = unsafe { row.load(v as isize) };
            }
        }
        for i in 0..count {
            // SAFETY: `to` has room for the values of the word, which are this thread's.
            unsafe { to.cast::<T>().store(i, values[i as usize]) };
        }
    }
}
