//! All results of a block in the order of the direct kernels, where the transforms prove too little.
//!
//! As in [`register_tile`](crate::direct::register_tile), a thread computes 8 x 8 results. The first half of
//! the block has the rows of the first tile, the second half those of the second one. The mask passes through shared
//! memory in pieces of some rows. Each result receives the rows of its window from top to bottom, and each row from
//! left to right.

use cuda_std::prelude::*;

use super::tiles::Pair;
use super::{EXCHANGE, ROWS, THREADS};
use crate::abi::params::Params;
use crate::common::border_table;
use crate::common::contributing_rows::MaskRowBits;
use crate::common::row_reader::RowReader;
use crate::direct::register_tile::{COLUMNS, ROWS as ROWS_OF_THREAD, STEP, add_row, coefficient_index, padded};

const _: () = assert!(ROWS as usize == ROWS_OF_THREAD);

/// What the ordered sums of a block need.
#[derive(Clone, Copy)]
pub(super) struct Ordered<const C: u32> {
    pub(super) image: Global<f32>,
    pub(super) result: GlobalMut<f32>,
    /// The mask in window order.
    pub(super) coefficients: Global<f32>,
    pub(super) params: Params,
    pub(super) pair: Pair,
    /// The first of the block's rows.
    pub(super) first: i32,
}

impl<const C: u32> Ordered<C> {
    /// Computes all results of the block.
    ///
    /// # Safety
    /// - All threads of the block call this. `memory` has [`EXCHANGE`] complex numbers, which nobody uses any more.
    /// - Image, result and coefficients are as `params` say.
    #[inline(always)]
    pub(super) unsafe fn rows(&self, memory: Shared<f32>, thread: u32) {
        const HALF: u32 = THREADS / 2;
        let Self { params, pair, .. } = self;
        let (mask_width, mask_height) = (params.mask_width as u32, params.mask_height as u32);
        let pitch = padded(mask_width);
        let tile = thread / HALF;
        let (thread_of_tile, x) = (thread % HALF, pair.x + tile as i32 * pair.distance);
        // The columns of a tile that its threads use.
        let columns = HALF * COLUMNS as u32 + pitch + STEP as u32;
        let table = memory.cast::<i32>().offset(tile * columns);
        let piece = memory.offset(2 * columns);
        // `max` shows the compiler that it does not divide by 0.
        let rows_of_piece = (2 * EXCHANGE - 2 * columns) / pitch.max(1);
        // SAFETY: each half fills its own table, and a barrier follows.
        unsafe { border_table::fill_columns::<C>(table, params, x - params.origin_x, columns, (thread_of_tile, HALF)) };

        let column = thread_of_tile * COLUMNS as u32;
        let top = pair.y + self.first - params.origin_y;
        let mut sums = [[0.0; COLUMNS]; ROWS_OF_THREAD];
        let image = self.image.offset(pair.channel as isize);
        let mut source = RowReader {
            pixels: image,
            table: table.offset(column),
            edge: true,
            exists: true,
            border_value: params.border_value,
        };
        let wanted = if tile == 0 { pair.wanted_columns[0] } else { pair.wanted_columns[1] };
        let is_needed = (column as i32) < wanted;
        let mut k = 0;
        while k < mask_height {
            thread::no_unroll();
            let rows = rows_of_piece.min(mask_height - k);
            // SAFETY: the piece has room for the rows. All threads of the block are at both barriers.
            unsafe {
                thread::sync_threads();
                let mut i = thread;
                while i < rows * pitch {
                    thread::no_unroll();
                    let (row, l) = (i / pitch.max(1), i % pitch.max(1));
                    let index = ((k + row) * mask_width + l) as isize;
                    let value = if l < mask_width { self.coefficients.load(index) } else { 0.0 };
                    piece.store(coefficient_index(row, l, rows), value);
                    i += THREADS;
                }
                thread::sync_threads();
            }
            let mut r = 0;
            while is_needed && r < (rows + ROWS - 1) as i32 {
                thread::no_unroll();
                source.move_to(image, params, top + k as i32 + r);
                let needed = MaskRowBits::at(r, rows as i32);
                // SAFETY: the table has all columns of the thread. The piece has row r - o for each needed row o.
                unsafe { add_row::<true>(&mut sums, &source, piece, (mask_width, rows), r, needed) };
                r += 1;
            }
            k += rows;
        }
        for (o, sums) in sums.iter().enumerate() {
            let row = self.first + o as i32;
            for (c, &sum) in sums.iter().enumerate() {
                let column = column as i32 + c as i32;
                if column < wanted && row < pair.wanted_rows {
                    let value = (x + column) * C as i32 + pair.channel as i32;
                    let index = params.dst_index(value, pair.y + row);
                    // SAFETY: the result lies in the image, and one thread has it.
                    unsafe { self.result.store(index, params.finish(sum)) };
                }
            }
        }
    }
}
