//! What a block computes: two tiles of results.

use core::ops::Range;

use cuda_std::prelude::*;

use super::layout::{SHORT, SIDE};
use super::load::Pair;
use super::tile::{SharedParts, valid};
use crate::abi::params::Params;

/// The two tiles of a block. Each has the results of one channel.
///
/// The tiles of a row of tiles are counted channel by channel, then column by column. A block has two that follow each
/// other. So with one channel its tiles lie side by side. With two or four channels they lie at the same place. With
/// three channels each third block has the last channel of a place and the first one of the next place.
#[derive(Clone, Copy)]
pub(super) struct Place<const C: u32> {
    /// Column of the first result of each tile.
    pub(super) x: [i32; 2],
    /// Row of the first result of both.
    pub(super) y: i32,
    /// The channel of each tile.
    pub(super) channel: [u32; 2],
    /// Columns and rows of results of one tile.
    pub(super) valid: (u32, u32),
    /// Columns of each tile, and rows of both, whose results lie in the image. A second tile may have none.
    pub(super) wanted_columns: [i32; 2],
    pub(super) wanted_rows: i32,
}

/// How many blocks later [`Place::prefetch_later`] looks: as many as run at a time on an H100, one on each
/// multiprocessor.
const LATER: u32 = 132;
/// Values of a line of the L2 cache.
const LINE: i32 = 32;
/// Values from one prefetch of a thread to the next: the threads of a row take turns.
const STEP: i32 = SHORT as i32 * LINE;

impl<const C: u32> Place<C> {
    /// That of the calling block.
    #[inline(always)]
    pub(super) fn of_block(params: &Params) -> Self {
        let block = (thread::black_box(thread::block_idx_x()), thread::black_box(thread::block_idx_y()));
        Self::of(params, block, thread::grid_dim_y())
    }

    /// Prefetches the pixels of a later block into the L2 cache, which then has them when that block begins.
    ///
    /// A block loads all its pixels before it computes, and no other block of its multiprocessor hides their latency.
    ///
    /// # Safety
    /// - The image is as `params` say.
    #[inline(always)]
    pub(super) unsafe fn prefetch_later(params: &Params, image: Global<f32>, thread: u32) {
        let (columns, rows) = (thread::grid_dim_x(), thread::grid_dim_y());
        let later = thread::block_idx_y() * columns + thread::block_idx_x() + LATER;
        if later / columns >= rows {
            return;
        }
        let (y, Range { start: mut value, end }) =
            Self::of(params, (later % columns, later / columns), rows).lines(params, thread);
        while value < end {
            thread::no_unroll();
            // SAFETY: row and value lie in the image.
            unsafe { image.prefetch(params.src_index(value, y)) };
            value += STEP;
        }
    }

    /// The row of the image in which a thread prefetches, and its values there: each [`STEP`]th of a range.
    #[inline(always)]
    fn lines(&self, params: &Params, thread: u32) -> (i32, Range<i32>) {
        let y = self.y - params.origin_y + (thread / SHORT) as i32;
        let [left, of_second] = self.x.map(|x| x - params.origin_x);
        let first = (left * C as i32).max(0) / LINE * LINE + (thread % SHORT) as i32 * LINE;
        let end = (of_second + SIDE as i32).min(params.width) * C as i32;
        (y, if y >= 0 && y < params.height { first..end } else { 0..0 })
    }

    /// The place of the block in this column and row of a grid of `rows` rows.
    ///
    /// The last row of tiles of the launch comes first, then the others from the top. Blocks at the upper and lower
    /// edge of the image take longest: they map the border, and the results in the corners are the hardest to prove. So
    /// none of them runs at the end of the launch, when other multiprocessors have nothing left to do.
    #[inline(always)]
    fn of(params: &Params, (column, row): (u32, u32), rows: u32) -> Self {
        let valid = valid((params.mask_width as u32, params.mask_height as u32));
        let first = column * 2;
        let x = [first, first + 1].map(|tile| (tile / C * valid.0) as i32);
        let row = if row == 0 { rows - 1 } else { row - 1 };
        let y = (row * valid.1) as i32 + params.first_row;
        Self {
            x,
            y,
            channel: [first % C, (first + 1) % C],
            valid,
            wanted_columns: x.map(|x| (valid.0 as i32).min(params.width - x)),
            wanted_rows: (valid.1 as i32).min(params.height - y),
        }
    }

    /// The pixels under the windows of the results.
    #[inline(always)]
    pub(super) fn pair(&self, params: &Params, image: Global<f32>, parts: &SharedParts) -> Pair<C> {
        let (mut left, top) = (self.x.map(|x| x - params.origin_x), self.y - params.origin_y);
        let edge = !params.contains::<1>(left[0], top, left[1] - left[0] + SIDE as i32, SIDE as i32);
        // What lies further to the right or below serves no result.
        let mut last = self.wanted_columns.map(|wanted| wanted + params.mask_width - 2);
        let mut channel = self.channel;
        if self.wanted_columns[1] <= 0 {
            // No result needs the second tile. The last pixel of the first one stands for all of it.
            (left[1], last[1], channel[1]) = (left[0] + last[0], 0, channel[0]);
        }
        let last_row = self.wanted_rows + params.mask_height - 2;
        Pair { image, left, top, channel, last, last_row, table: parts.table, rows: parts.rows, edge }
    }

    /// Where result (`column`, `row`) of a tile lies.
    #[inline(always)]
    pub(super) fn index(&self, params: &Params, is_second: bool, (column, row): (u32, u32)) -> isize {
        let (x, y, channel) = self.position(is_second, (column, row));
        params.dst_index(x * C as i32 + channel as i32, y)
    }

    /// The columns of a tile whose results lie in the image.
    #[inline(always)]
    pub(super) fn wanted(&self, is_second: bool) -> i32 {
        let [of_first, of_second] = self.wanted_columns;
        if is_second { of_second } else { of_first }
    }

    /// Its column, row and channel in the image.
    #[inline(always)]
    pub(super) fn position(&self, is_second: bool, (column, row): (u32, u32)) -> (i32, i32, u32) {
        let (x, channel) = if is_second { (self.x[1], self.channel[1]) } else { (self.x[0], self.channel[0]) };
        (x + column as i32, self.y + row as i32, channel)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::HashSet;

    use super::super::tile::THREADS;
    use super::*;

    /// All blocks of images of some sizes: what they prefetch lies in the image, and it is all that they load.
    fn check<const C: u32>() {
        for (width, height, first_row) in [(1, 1, 0), (31, 300, 0), (200, 129, 0), (1000, 700, 232)] {
            for (mask_width, mask_height, origin_x, origin_y) in [(13, 13, 6, 6), (1, 64, 0, 63), (50, 3, 49, 0)] {
                let of_image = Params::of_image(width, height);
                let params = Params { mask_width, mask_height, origin_x, origin_y, first_row, ..of_image };
                let (columns, rows) = valid((mask_width as u32, mask_height as u32));
                let tiles = (width as u32).div_ceil(columns) * C;
                let grid = (tiles.div_ceil(2), ((height - first_row) as u32).div_ceil(rows));
                let mut first_rows = HashSet::new();
                for block in (0..grid.1).flat_map(|y| (0..grid.0).map(move |x| (x, y))) {
                    let place = Place::<C>::of(&params, block, grid.1);
                    first_rows.insert(place.y);
                    let mut lines = HashSet::new();
                    for thread in 0..THREADS {
                        let (y, values) = place.lines(&params, thread);
                        for value in values.step_by(STEP as usize) {
                            assert!((0..height).contains(&y) && (0..width * C as i32).contains(&value));
                            lines.insert((y, value / LINE));
                        }
                    }
                    for (tile, x) in place.x.into_iter().enumerate().filter(|(_, x)| *x < width) {
                        for y in (place.y - origin_y..).take(SIDE as usize).filter(|y| (0..height).contains(y)) {
                            for x in (x - origin_x..).take(SIDE as usize).filter(|x| (0..width).contains(x)) {
                                let value = x * C as i32 + place.channel[tile] as i32;
                                assert!(lines.contains(&(y, value / LINE)), "{C} channels, {block:?}: {x}, {y}");
                            }
                        }
                    }
                }
                assert_eq!(first_rows.len(), grid.1 as usize);
            }
        }
    }

    #[test]
    fn blocks_prefetch_the_pixels_that_they_load() {
        check::<1>();
        check::<2>();
        check::<3>();
        check::<4>();
    }
}
