//! The stores of a warp's finished sums.

use cuda_std::prelude::*;

use super::Sums;
use super::layout::{columns, is_staged, rows, staged_pitch};
use crate::abi::params::Params;

/// The place of a warp's results. They have `TOGETHER` channels, of all `C` channels of the image.
pub(super) struct Results<const C: u32, const TOGETHER: usize> {
    pub(super) result: GlobalMut<f32>,
    pub(super) params: Params,
    /// The first column.
    pub(super) x: i32,
    /// The first row.
    pub(super) y: i32,
    /// The first channel.
    pub(super) channel: u32,
    pub(super) scale: f32,
    pub(super) offset: f32,
}

impl<const C: u32, const TOGETHER: usize> Results<C, TOGETHER> {
    /// Stores `scale * sum + offset` for each sum.
    ///
    /// # Safety
    /// - All rows and columns of the warp lie in the result, whose rows begin at multiples of 16 bytes.
    /// - No other warp stores them.
    #[inline(always)]
    pub(super) unsafe fn store<const TILES: usize, const SUBTILES: usize>(&self, sums: &[[Sums; TILES]; SUBTILES]) {
        self.each(sums, |to, _, _, values| {
            // SAFETY: the pixel lies in the result and is this lane's alone.
            unsafe {
                match *values {
                    [a, b, c, d] => to.cast().store(0, F32x4([a, b, c, d])),
                    [a, b] => to.cast().store(0, F32x2([a, b])),
                    _ => to.store(0, values[0]),
                }
            }
        });
    }

    /// The same, for the first `most` rows and for columns in the result.
    ///
    /// # Safety
    /// - The first `most` rows of the warp lie in the result.
    /// - No other warp stores the rows and columns of this one.
    #[inline(always)]
    pub(super) unsafe fn store_clipped<const TILES: usize, const SUBTILES: usize>(
        &self,
        sums: &[[Sums; TILES]; SUBTILES],
        most: i32,
    ) {
        self.each(sums, |to, column, row, values| {
            if self.x + column < self.params.width && row < most {
                for (channel, &value) in values.iter().enumerate() {
                    // SAFETY: the column and the row lie in the result (tested above), and are this lane's alone.
                    unsafe { to.store(channel as isize, value) };
                }
            }
        });
    }

    /// Calls `store` for each of the lane's pixels: with its place, its column and its row relative to the warp's first
    /// one, and its values.
    #[inline(always)]
    fn each<const TILES: usize, const SUBTILES: usize>(
        &self,
        sums: &[[Sums; TILES]; SUBTILES],
        mut store: impl FnMut(GlobalMut<f32>, i32, i32, &[f32]),
    ) {
        let lane = thread::black_box(thread::thread_idx_x()) % 32;
        let (g, t) = (lane as i32 / 4, lane as i32 % 4);
        let pitch = thread::black_box(self.params.dst_pitch as u32) as i32 as isize;
        let first = (self.x + g) * C as i32 + self.channel as i32;
        let mut row = self.result.offset(self.params.dst_index(first, self.y + 2 * t));
        for (subtile, sums) in sums.iter().enumerate() {
            for odd in 0..2 {
                for (neighbour, sums) in sums.as_chunks::<TOGETHER>().0.iter().enumerate() {
                    for right in 0..2 {
                        let column = 16 * neighbour as i32 + 8 * right;
                        let values = sums.map(|sums| fma(sums[2 * right as usize + odd], self.scale, self.offset));
                        let below = (8 * subtile + odd) as i32;
                        store(row.offset((column * C as i32) as isize), g + column, 2 * t + below, &values);
                    }
                }
                row = row.offset(if odd == 0 { pitch } else { 7 * pitch });
            }
        }
    }
}

/// The results of channels that have several warps, collected in shared memory as they are interleaved in the result.
///
/// There are two buffers, for the results of a step each. `buffer` is the offset of a buffer's first value. A row holds
/// the block's values. Rows are [`staged_pitch`] apart.
#[derive(Clone, Copy)]
pub(super) struct Staged<const C: u32, const BLOCKS: usize, const THREADS: u32> {
    /// Both buffers.
    pub(super) values: Shared<f32>,
    pub(super) result: GlobalMut<f32>,
    pub(super) params: Params,
    /// The first value of the block, and the first row of its strip.
    pub(super) first: (i32, i32),
    /// The rows of the strip.
    pub(super) rows: i32,
}

impl<const C: u32, const BLOCKS: usize, const THREADS: u32> Staged<C, BLOCKS, THREADS> {
    const PITCH: u32 = staged_pitch(C, BLOCKS as u32);

    /// Puts `scale * sum + offset` into a buffer, for each sum of a warp. `column` is the warp's first one, counted
    /// from the block's.
    ///
    /// # Safety
    /// - No other warp has the columns and the channel.
    /// - A barrier has passed since a thread read the buffer. No thread reads it before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn put<const TILES: usize, const SUBTILES: usize>(
        self,
        buffer: u32,
        sums: &[[Sums; TILES]; SUBTILES],
        (column, channel): (u32, u32),
        (scale, offset): (f32, f32),
    ) {
        let lane = thread::black_box(thread::thread_idx_x()) % 32;
        let (g, t) = (lane / 4, lane % 4);
        let to = self.values.offset(buffer + (column + g) * C + channel + 2 * t * Self::PITCH);
        for (subtile, sums) in sums.iter().enumerate() {
            for (tile, sums) in sums.iter().enumerate() {
                for (i, &sum) in sums.iter().enumerate() {
                    let (right, odd) = (i / 2, i % 2);
                    let (column, row) = ((16 * tile + 8 * right) as u32, (8 * subtile + odd) as u32);
                    // SAFETY: the warp's columns and rows are values of the block; this one is the lane's alone.
                    unsafe { to.store(row * Self::PITCH + column * C, fma(sum, scale, offset)) };
                }
            }
        }
    }

    /// Puts one value into a buffer, in a column of the block and a row of the step.
    ///
    /// # Safety
    /// The conditions of [`put`](Self::put). Column and channel are those of the calling lane alone.
    #[inline(always)]
    pub(super) unsafe fn put_value(self, buffer: u32, (column, channel): (u32, u32), row: u32, value: f32) {
        // SAFETY: as this function requires.
        unsafe { self.values.store(buffer + row * Self::PITCH + column * C + channel, value) };
    }

    /// Stores the rows of a buffer that lie in the strip, and of these the values that lie in the result. The first row
    /// is row `done` of the strip.
    ///
    /// # Safety
    /// - All threads of the block call this. A barrier has passed since the buffer was filled. No thread fills it
    ///   before the next barrier.
    /// - The strip lies in the result, and no other block stores the block's values in it.
    #[inline(always)]
    pub(super) unsafe fn store(self, buffer: u32, done: i32) {
        let values = const { C * columns(C, BLOCKS as u32) };
        let rows_at_once = const { if is_staged(C) { THREADS / (C * columns(C, BLOCKS as u32)) } else { 1 } };
        const { assert!(!is_staged(C) || THREADS.is_multiple_of(C * columns(C, BLOCKS as u32))) };
        let thread = thread::black_box(thread::thread_idx_x());
        let (row, value) = (thread / values, thread % values);
        let (v, y) = (self.first.0 + value as i32, self.first.1 + done + row as i32);
        let mut from = self.values.offset(buffer + row * Self::PITCH + value);
        let mut to = self.result.offset(self.params.dst_index(v, y));
        let mut left = if v < self.params.row_values::<C>() { self.rows - done - row as i32 } else { 0 };
        for _ in 0..rows(C, BLOCKS as u32) / rows_at_once {
            if left > 0 {
                // SAFETY: value `v` and the row lie in the result, and are this thread's alone.
                unsafe { to.store(0, from.load(0)) };
            }
            from = from.offset(rows_at_once * Self::PITCH);
            to = to.offset(rows_at_once as isize * self.params.dst_pitch as isize);
            left -= rows_at_once as i32;
        }
    }
}
