//! What a block computes: two tiles of results.

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

impl<const C: u32> Place<C> {
    /// That of the calling block.
    #[inline(always)]
    pub(super) fn of_block(params: &Params) -> Self {
        Self::of(params, (thread::black_box(thread::block_idx_x()), thread::black_box(thread::block_idx_y())))
    }

    /// Requests the pixels of a later block for the second-level cache, which then has them when that block begins.
    ///
    /// A block loads all its pixels before it computes, and no other block fits beside it. So it waits for them.
    #[inline(always)]
    pub(super) fn prefetch_later(params: &Params, image: Global<f32>, thread: u32) {
        let blocks = thread::grid_dim_x();
        let later = thread::block_idx_y() * blocks + thread::block_idx_x() + LATER;
        if later / blocks >= thread::grid_dim_y() {
            return;
        }
        let place = Self::of(params, (later % blocks, later / blocks));
        let [left, of_second] = place.x.map(|x| x - params.origin_x);
        let y = place.y - params.origin_y + (thread / SHORT) as i32;
        if y < 0 || y >= params.height {
            return;
        }
        /// Values of a line of the cache.
        const LINE: i32 = 32;
        let end = (of_second + SIDE as i32).min(params.width) * C as i32;
        let mut value = left * C as i32 + (thread % SHORT) as i32 * LINE;
        while value < end {
            thread::no_unroll();
            if value >= 0 {
                // SAFETY: row and value lie in the image.
                unsafe { image.prefetch(params.src_index(value, y)) };
            }
            value += SHORT as i32 * LINE;
        }
    }

    /// That of the block with this column and row of the grid.
    ///
    /// The last row of tiles comes first, then the others from the top. Blocks at the upper and lower edge of the image
    /// take longest: they meet the border, and the results in the corners are the hardest to prove. So none of them
    /// runs at the end of the launch, when other multiprocessors have nothing left to do.
    #[inline(always)]
    fn of(params: &Params, (column, row): (u32, u32)) -> Self {
        let valid = valid((params.mask_width as u32, params.mask_height as u32));
        let first = column * 2;
        let x = [first, first + 1].map(|tile| (tile / C * valid.0) as i32);
        let row = if row == 0 { thread::grid_dim_y() - 1 } else { row - 1 };
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

    /// Its column, row and channel in the image.
    #[inline(always)]
    pub(super) fn position(&self, is_second: bool, (column, row): (u32, u32)) -> (i32, i32, u32) {
        let (x, channel) = if is_second { (self.x[1], self.channel[1]) } else { (self.x[0], self.channel[0]) };
        (x + column as i32, self.y + row as i32, channel)
    }
}
