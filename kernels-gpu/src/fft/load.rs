//! A pair of tiles: from the image into shared memory.

use cuda_std::prelude::*;

use super::layout::SIDE;
use super::tile::{PITCH, ROWS_OF_WARP};
use crate::abi::border;
use crate::abi::params::Params;

/// Where the pixels of a pair of tiles lie.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) image: Global<f32>,
    /// First column of the first tile.
    pub(super) left: i32,
    /// First row of both.
    pub(super) top: i32,
    /// The last column and row, counted from the first, that a result of this pair needs. They stand for all further
    /// ones. So a result does not depend on what lies there.
    pub(super) last: (i32, i32),
    /// Columns from the first tile to the second.
    pub(super) distance: u32,
    /// The border table of the columns of both tiles. It is filled if `edge`.
    pub(super) table: Shared<i32>,
    /// Whether a pixel of the pair lies outside of the image.
    pub(super) edge: bool,
}

/// What a thread knows of the pixels that it has loaded, for each tile.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    pub(super) sum: [f32; 2],
    /// The least magnitude.
    pub(super) least: [f32; 2],
}

impl Facts {
    pub(super) const NONE: Self = Self { sum: [0.0; 2], least: [f32::INFINITY; 2] };

    /// Stores them as vector `index`.
    ///
    /// # Safety
    /// - The place is in shared memory. No other thread uses it until the next barrier.
    #[inline(always)]
    pub(super) unsafe fn store(&self, to: Shared<F32x4>, index: u32) {
        // SAFETY: as this function requires.
        unsafe { to.store(index, F32x4([self.sum[0], self.sum[1], self.least[0], self.least[1]])) };
    }

    /// Loads them.
    ///
    /// # Safety
    /// - They are in vector `index`, and a barrier has passed.
    #[inline(always)]
    pub(super) unsafe fn load(from: Shared<F32x4>, index: u32) -> Self {
        // SAFETY: as this function requires.
        let F32x4([first, second, least, other]) = unsafe { from.load(index) };
        Self { sum: [first, second], least: [least, other] }
    }

    /// The mean of each tile's pixels.
    #[inline(always)]
    pub(super) fn mean(&self) -> [f32; 2] {
        self.sum.map(|sum| sum * (1.0 / (SIDE * SIDE) as f32))
    }

    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    fn add(&mut self, pixels: [f32; 2]) {
        for tile in 0..2 {
            self.sum[tile] += pixels[tile];
            self.least[tile] = self.least[tile].min(pixels[tile].abs());
        }
    }
}

impl Pair {
    /// Fills the table.
    ///
    /// # Safety
    /// - Threads 0 to 255 of the block call this, and no thread reads the table before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn fill_table(&self, params: &Params, thread: u32) {
        if thread < SIDE + self.distance {
            let x = self.left + (thread as i32).min(self.last.0);
            // SAFETY: the table has room for 256 columns, and each thread has one.
            unsafe { self.table.store(thread, border::map(params.border, x, params.width)) };
        }
    }

    /// Loads the rows of the calling warp into `to`, rows of [`PITCH`] pairs of pixels.
    ///
    /// # Safety
    /// - The image is as `params` say. If `edge`, the table is filled and a barrier has passed.
    /// - `to` has room for 128 rows. No other warp calls this with the same `warp`, below 16.
    /// - No thread reads `to` before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn load(&self, params: &Params, to: Shared<F32x2>, (warp, lane): (u32, u32)) -> Facts {
        let mut facts = Facts::NONE;
        let first = warp * ROWS_OF_WARP;
        if !self.edge {
            let pixels = self.image.offset(params.src_index(self.left, self.top + first as i32));
            for q in 0..ROWS_OF_WARP {
                let pixels = pixels.offset(q as isize * params.src_pitch as isize + lane as isize);
                for group in 0..SIDE / 32 {
                    let column = group * 32;
                    // SAFETY: no pixel of the pair lies outside of the image.
                    let pair =
                        unsafe { [pixels.load(column as isize), pixels.load((column + self.distance) as isize)] };
                    facts.add(pair);
                    // SAFETY: the row is the warp's, the column is the lane's, and both are below 128.
                    unsafe { to.store((first + q) * PITCH + column + lane, F32x2(pair)) };
                }
            }
            return facts;
        }
        let mut q = 0;
        // The bound is opaque, so that the loop stays rolled.
        while q < thread::black_box(ROWS_OF_WARP) {
            thread::no_unroll();
            let y = border::map(params.border, self.top + ((first + q) as i32).min(self.last.1), params.height);
            let pixels = self.image.offset(params.src_index(0, y));
            let pixel = |column: u32| {
                // SAFETY: the table has an element for each column of the pair.
                let x = unsafe { self.table.load(column) };
                // SAFETY: the border map gave the position, so it lies in the image.
                if x < 0 || y < 0 { params.border_value } else { unsafe { pixels.load(x as isize) } }
            };
            for group in 0..SIDE / 32 {
                let column = group * 32 + lane;
                let pair = [pixel(column), pixel(column + self.distance)];
                facts.add(pair);
                // SAFETY: as above.
                unsafe { to.store((first + q) * PITCH + column, F32x2(pair)) };
            }
            q += 1;
        }
        facts
    }
}
