//! The stores of a warp's finished sums.

use cuda_std::prelude::*;

use super::Sums;
use crate::abi::params::Params;

/// The place of a warp's results of a step.
pub(super) struct Results {
    pub(super) result: GlobalMut<f32>,
    pub(super) params: Params,
    /// The first column.
    pub(super) x: i32,
    /// The first row.
    pub(super) y: i32,
    pub(super) scale: f32,
    pub(super) offset: f32,
}

impl Results {
    /// Stores `scale * sum + offset` for each sum.
    ///
    /// # Safety
    /// - All rows and columns of the warp lie in the result.
    /// - No other warp stores them.
    #[inline(always)]
    pub(super) unsafe fn store<const TILES: usize, const SUBTILES: usize>(&self, sums: &[[Sums; TILES]; SUBTILES]) {
        self.each(sums, |to, _, _, value| {
            // SAFETY: the place lies in the result and is this lane's alone.
            unsafe { to.store(0, value) };
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
        self.each(sums, |to, column, row, value| {
            if self.x + column < self.params.width && row < most {
                // SAFETY: the column and the row lie in the result (tested above), and are this lane's alone.
                unsafe { to.store(0, value) };
            }
        });
    }

    /// Calls `store` for each of the lane's results: with its place, its column and its row relative to the warp's
    /// first one, and its value.
    #[inline(always)]
    fn each<const TILES: usize, const SUBTILES: usize>(
        &self,
        sums: &[[Sums; TILES]; SUBTILES],
        mut store: impl FnMut(GlobalMut<f32>, i32, i32, f32),
    ) {
        let lane = thread::black_box(thread::thread_idx_x()) % 32;
        let (g, t) = (lane as i32 / 4, lane as i32 % 4);
        let pitch = thread::black_box(self.params.dst_pitch as u32) as i32 as isize;
        let mut row = self.result.offset(self.params.dst_index(self.x + g, self.y + 2 * t));
        for (subtile, sums) in sums.iter().enumerate() {
            for odd in 0..2 {
                for (tile, sums) in sums.iter().enumerate() {
                    for right in 0..2 {
                        let column = 16 * tile as i32 + 8 * right;
                        let sum = sums[2 * right as usize + odd];
                        let value = fma(sum, self.scale, self.offset);
                        let below = (8 * subtile + odd) as i32;
                        store(row.offset(column as isize), g + column, 2 * t + below, value);
                    }
                }
                row = row.offset(if odd == 0 { pitch } else { 7 * pitch });
            }
        }
    }
}
