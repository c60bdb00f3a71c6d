//! Results of a pair of tiles by the direct sum, where the transforms prove nothing.

use cuda_std::prelude::*;

use super::load::Pair;
use super::place::Place;
use super::tile::{PITCH, SharedParts, THREADS};
use crate::abi::params::Params;

/// Columns of a thread's tile: an odd number, so that the threads of a warp read pixels from different banks.
const COLUMNS: usize = 5;
/// Rows of a thread's tile.
const ROWS: usize = 4;
/// Columns of the mask in a step.
const STEP: usize = 4;

/// Bytes of the coefficients in shared memory. Each row is padded to whole steps.
pub(super) const fn coefficient_bytes((width, height): (u32, u32)) -> u64 {
    4 * width.next_multiple_of(STEP as u32) as u64 * height as u64
}

/// What the direct sums of a pair of tiles need.
pub(super) struct Direct<const C: u32> {
    pub(super) place: Place<C>,
    pub(super) pair: Pair<C>,
    pub(super) params: Params,
    /// The mask in window order.
    pub(super) coefficients: Global<f32>,
    pub(super) result: GlobalMut<f32>,
}

impl<const C: u32> Direct<C> {
    /// Computes all results of both tiles in the order of the direct kernels.
    ///
    /// # Safety
    /// - All threads of the block call this, and no thread uses the exchange any more.
    /// - The tables of columns and rows are still there.
    #[inline(always)]
    pub(super) unsafe fn tiles(&self, parts: &SharedParts) {
        let Place { valid, wanted_columns, wanted_rows, .. } = self.place;
        let thread = thread::thread_idx_x();
        let (mask_width, mask_height) = (self.params.mask_width as u32, self.params.mask_height as u32);
        let pitch = mask_width.next_multiple_of(STEP as u32);
        // SAFETY: each warp loads its own rows; `coefficient_bytes` is room for the mask. All threads are at the
        // barrier.
        unsafe {
            self.pair.load(&self.params, parts.exchange, (thread / 32, thread % 32));
            let mut k = thread / 32;
            while k < mask_height {
                thread::no_unroll();
                let mut l = thread % 32;
                while l < mask_width {
                    thread::no_unroll();
                    let coefficient = self.coefficients.load((k * mask_width + l) as isize);
                    parts.coefficients.store(k * pitch + l, coefficient);
                    l += 32;
                }
                k += THREADS / 32;
            }
            thread::sync_threads();
        }
        let across = valid.0.div_ceil(COLUMNS as u32);
        let tasks = across * valid.1.div_ceil(ROWS as u32);
        let mut task = thread;
        while task < tasks {
            thread::no_unroll();
            // `max` shows the compiler that it does not divide by 0.
            let first = (task % across.max(1) * COLUMNS as u32, task / across.max(1) * ROWS as u32);
            // The last tasks begin earlier, so that they end in the tile. They store only results of no other task.
            let start = (first.0.min(valid.0 - COLUMNS as u32), first.1.min(valid.1 - ROWS as u32));
            // SAFETY: pixels and coefficients are there, and the windows of all these results lie in the tile.
            let sums = unsafe { self.sums(parts, start, pitch) };
            for (o, sums) in sums.iter().enumerate() {
                let row = start.1 + o as u32;
                for (c, &sums) in sums.iter().enumerate() {
                    let column = start.0 + c as u32;
                    for tile in 0..2 {
                        let is_mine = column >= first.0 && row >= first.1;
                        if is_mine && (column as i32) < wanted_columns[tile] && (row as i32) < wanted_rows {
                            let index = self.place.index(&self.params, tile == 1, (column, row));
                            // SAFETY: the result is wanted, so it lies in the image; one thread has it.
                            unsafe { self.result.store(index, self.params.finish(sums[tile])) };
                        }
                    }
                }
            }
            task += THREADS;
        }
    }

    /// The sums of `COLUMNS` x `ROWS` results of both tiles, in order.
    ///
    /// # Safety
    /// - The exchange holds the pixels of the pair, and the coefficients have rows of `pitch` values.
    /// - The windows of all results lie in the tile.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn sums(&self, parts: &SharedParts, start: (u32, u32), pitch: u32) -> [[[f32; 2]; COLUMNS]; ROWS] {
        let (mask_width, mask_height) = (self.params.mask_width as u32, self.params.mask_height as u32);
        let mut sums = [[[0.0_f32; 2]; COLUMNS]; ROWS];
        let mut pixels = [[0.0_f32; 2]; COLUMNS + STEP - 1];
        let mut row = parts.exchange.offset(start.1 * PITCH + start.0);
        let mut p = 0;
        while p < mask_height + ROWS as u32 - 1 {
            thread::no_unroll();
            let load = |column: u32| {
                // SAFETY: the column lies under the windows of the results.
                let F32x2(pair) = unsafe { row.load(column) };
                pair
            };
            for i in 0..COLUMNS - 1 {
                pixels[i] = load(i as u32);
            }
            let mut l = 0;
            while l + STEP as u32 <= mask_width {
                thread::no_unroll();
                for i in 0..STEP {
                    pixels[COLUMNS - 1 + i] = load(l + (COLUMNS - 1 + i) as u32);
                }
                for o in 0..ROWS {
                    let k = p.wrapping_sub(o as u32);
                    if k < mask_height {
                        // SAFETY: the mask has row k and columns l to l + 3; rows begin at multiples of 16 bytes.
                        let F32x4(coefficients) =
                            unsafe { parts.coefficients.cast::<F32x4>().load((k * pitch + l) / STEP as u32) };
                        for i in 0..STEP {
                            for c in 0..COLUMNS {
                                for tile in 0..2 {
                                    sums[o][c][tile] = fma(pixels[i + c][tile], coefficients[i], sums[o][c][tile]);
                                }
                            }
                        }
                    }
                }
                for i in 0..COLUMNS - 1 {
                    pixels[i] = pixels[i + STEP];
                }
                l += STEP as u32;
            }
            while l < mask_width {
                thread::no_unroll();
                pixels[COLUMNS - 1] = load(l + COLUMNS as u32 - 1);
                for o in 0..ROWS {
                    let k = p.wrapping_sub(o as u32);
                    if k < mask_height {
                        // SAFETY: (k, l) is a coefficient.
                        let coefficient = unsafe { parts.coefficients.load(k * pitch + l) };
                        for c in 0..COLUMNS {
                            for tile in 0..2 {
                                sums[o][c][tile] = fma(pixels[c][tile], coefficient, sums[o][c][tile]);
                            }
                        }
                    }
                }
                for i in 0..COLUMNS - 1 {
                    pixels[i] = pixels[i + 1];
                }
                l += 1;
            }
            row = row.offset(PITCH);
            p += 1;
        }
        sums
    }
}
