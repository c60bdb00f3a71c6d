//! The results of a pair of tiles: from shared memory into the result, as far as they hold.

use cuda_std::prelude::*;

use super::complex::Complex;
use super::judge::Judge;
use super::layout::SIDE;
use super::load::{PIXELS, pixel_of_lane};
use super::place::Place;
use super::tile::{PITCH, ROWS_OF_WARP};
use crate::abi::params::Params;

/// The results of a pair of tiles.
#[derive(Clone, Copy)]
pub(super) struct Results<const C: u32> {
    /// The transformed sums of both, in rows of [`PITCH`] pairs.
    pub(super) sums: Shared<F32x2>,
    pub(super) judge: Judge,
    pub(super) place: Place<C>,
    pub(super) result: GlobalMut<f32>,
    /// The calling thread's.
    pub(super) lane: u32,
}

/// With this many columns of results the last group of columns of a row alone needs a test.
const WHOLE_COLUMNS: u32 = 96;
/// Groups of 32 columns of both tiles.
const GROUPS_OF_ROW: u32 = 2 * SIDE / 32;
/// Parts of a warp's rows: each lane has a result of each.
pub(super) const PARTS_OF_WARP: u32 = ROWS_OF_WARP * GROUPS_OF_ROW;

/// Whether a result with a number lies in the second tile, and its column and row there.
#[inline(always)]
pub(super) fn position(number: u32) -> (bool, (u32, u32)) {
    (!(number / SIDE).is_multiple_of(2), (number % SIDE, number / SIDE / 2))
}

impl<const C: u32> Results<C> {
    /// Whether the first [`WHOLE_COLUMNS`] columns of both tiles are results of the image.
    #[inline(always)]
    pub(super) fn are_whole(&self) -> bool {
        self.place.wanted_columns[0].min(self.place.wanted_columns[1]) >= WHOLE_COLUMNS as i32
    }

    /// Stores the results of a warp's rows that hold, times a factor, plus a summand. Whether all of the calling thread
    /// hold.
    ///
    /// # Safety
    /// - All lanes of the warp call this, with its first row. The sums of its rows are in shared memory.
    /// - The result is as `params` say, and no other block stores in these places.
    /// - `WHOLE` only if [`are_whole`](Self::are_whole).
    #[inline(always)]
    pub(super) unsafe fn store<const WHOLE: bool>(
        &self,
        first_row: u32,
        params: &Params,
        (factor, summand): (f32, f32),
    ) -> bool {
        // As the pixels were loaded. With several channels all results of a lane are of one tile.
        let [(is_second, column), (other, _)] = [0, 1].map(|i| pixel_of_lane::<C>(i, self.lane));
        let tiles = [is_second, other];
        let judges = tiles.map(|second| self.judge.of(second));
        let [of_first, of_second] = self.place.wanted_columns;
        let wanted = tiles.map(|second| if second { of_second } else { of_first } - column as i32);
        let mut to = tiles.map(|second| self.result.offset(self.place.index(params, second, (column, first_row))));
        let mut all_hold = true;
        let mut q = 0;
        while q < thread::black_box(ROWS_OF_WARP) {
            thread::no_unroll();
            let row = first_row + q;
            if row as i32 >= self.place.wanted_rows {
                break;
            }
            // SAFETY: the row is one of the warp's.
            let numbers = unsafe { self.numbers(row) };
            for (i, &number) in numbers.iter().enumerate() {
                let (judge, to) = (judges[i % 2], to[i % 2]);
                let [(_, from), (_, last)] = [0, 31].map(|lane| pixel_of_lane::<C>(i as u32, lane));
                let is_wanted = (WHOLE && last < WHOLE_COLUMNS) || (from as i32) < wanted[i % 2];
                let sum = judge.sum(number);
                let holds = judge.accepts(sum);
                // No other branches.
                if is_wanted & holds {
                    // SAFETY: the column lies in the result, and no other thread stores there.
                    unsafe { to.store((from * C) as isize, fma(sum, factor, summand)) };
                }
                all_hold &= !is_wanted | holds;
            }
            to = to.map(|to| to.offset(params.dst_pitch as isize));
            q += 1;
        }
        all_hold
    }

    /// The lane's numbers of a row.
    ///
    /// # Safety
    /// - The row is below 128, and its sums are in shared memory.
    #[inline(always)]
    unsafe fn numbers(&self, row: u32) -> [f32; PIXELS] {
        let row = self.sums.offset(row * PITCH);
        let mut numbers = [0.0; PIXELS];
        for i in 0..PIXELS {
            if C != 1 {
                // SAFETY: a row has 256 numbers. The lane has one of each 32.
                numbers[i] = unsafe { row.cast::<f32>().load(i as u32 * 32 + self.lane) };
            } else if i % 2 == 0 {
                // SAFETY: a row has 128 pairs.
                let F32x2(pair) = unsafe { row.load(i as u32 / 2 * 32 + self.lane) };
                [numbers[i], numbers[i + 1]] = pair;
            }
        }
        numbers
    }

    /// How many results of the calling lane fail in a warp's rows.
    ///
    /// # Safety
    /// - The sums of these rows are in shared memory.
    #[inline(always)]
    pub(super) unsafe fn failures(&self, first_row: u32) -> u32 {
        let (mut failures, mut part) = (0, 0);
        while part < thread::black_box(PARTS_OF_WARP) {
            thread::no_unroll();
            // SAFETY: as this function requires.
            failures += u32::from(unsafe { self.fails(first_row, part) }.0);
            part += 1;
        }
        failures
    }

    /// Whether the lane's result of a part fails, and the number of that result; see [`position`].
    ///
    /// # Safety
    /// - The sums of these rows are in shared memory, and `part` is below [`PARTS_OF_WARP`].
    #[inline(always)]
    pub(super) unsafe fn fails(&self, first_row: u32, part: u32) -> (bool, u32) {
        let (row, group) = (first_row + part / GROUPS_OF_ROW, part % GROUPS_OF_ROW);
        let (column, is_second) = (group / 2 * 32 + self.lane, group % 2 != 0);
        // SAFETY: row and column are below 128.
        let transformed = Complex::from(unsafe { self.sums.load(row * PITCH + column) });
        let transformed = if is_second { transformed.im } else { transformed.re };
        let [of_first, of_second] = self.place.wanted_columns;
        let wanted = if is_second { of_second } else { of_first };
        let judge = self.judge.of(is_second);
        let is_wanted = (column as i32) < wanted && (row as i32) < self.place.wanted_rows;
        (is_wanted && !judge.accepts(judge.sum(transformed)), (row * 2 + u32::from(is_second)) * SIDE + column)
    }
}
