//! Stores the proven results of a pair of tiles: from shared memory to the image.

use cuda_std::prelude::*;

use super::judge::Judge;
use super::layout::SIDE;
use super::load::{PIXELS, pixel_of_lane};
use super::place::Place;
use super::tile::{PITCH, ROWS_OF_WARP};
use crate::abi::params::Params;

/// The results of a pair of tiles, as the calling thread sees them.
#[derive(Clone, Copy)]
pub(super) struct Results<const C: u32> {
    /// The transformed sums of both tiles, in rows of [`PITCH`] pairs.
    pub(super) sums: Shared<F32x2>,
    pub(super) judge: Judge,
    pub(super) place: Place<C>,
    pub(super) result: GlobalMut<f32>,
    pub(super) lane: u32,
}

/// If both tiles have this many columns of results, only the last 32 columns of their rows need a test of bounds.
const WIDE: u32 = 96;
/// Groups of 32 results of one tile in a row.
const GROUPS_OF_ROW: u32 = 2 * SIDE / 32;
/// Groups of 32 results of one tile in a warp's rows. Each lane has one result of each group.
pub(super) const GROUPS_OF_WARP: u32 = ROWS_OF_WARP * GROUPS_OF_ROW;

/// The place of a result from its number in the list of failures: whether it lies in the second tile, column and row.
#[inline(always)]
pub(super) fn place_in_tile(number: u32) -> (bool, (u32, u32)) {
    (!(number / SIDE).is_multiple_of(2), (number % SIDE, number / SIDE / 2))
}

impl<const C: u32> Results<C> {
    /// Whether both tiles have [`WIDE`] columns of results in the image.
    #[inline(always)]
    pub(super) fn have_wide_rows(&self) -> bool {
        self.place.wanted(false).min(self.place.wanted(true)) >= WIDE as i32
    }

    /// Stores the proven results of a warp's rows, each as `fma(sum, factor, summand)`. Returns whether all results of
    /// the calling thread are proven.
    ///
    /// # Safety
    /// - The sums of the warp's rows are in shared memory. `first_row` is its first row.
    /// - The result is as `params` say, and no other warp stores in these places.
    /// - `IS_WIDE` only if [`have_wide_rows`](Self::have_wide_rows).
    #[inline(always)]
    pub(super) unsafe fn store<const IS_WIDE: bool>(
        &self,
        first_row: u32,
        params: &Params,
        (factor, summand): (f32, f32),
    ) -> bool {
        // In the order in which the pixels were loaded. With several channels a lane has results of one tile.
        let [(is_second, column), (other, _)] = [0, 1].map(|i| pixel_of_lane::<C>(i, self.lane));
        let tiles = [is_second, other];
        let judges = tiles.map(|is_second| self.judge.of(is_second));
        let wanted = tiles.map(|is_second| self.place.wanted(is_second) - column as i32);
        let mut to =
            tiles.map(|is_second| self.result.offset(self.place.index(params, is_second, (column, first_row))));
        let mut are_proven = true;
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
                let is_wanted = (IS_WIDE && last < WIDE) || (from as i32) < wanted[i % 2];
                let sum = judge.sum(number);
                let is_proven = judge.accepts(sum);
                // The only branch: a predicated store.
                if is_wanted & is_proven {
                    // SAFETY: the column lies in the result, and no other thread stores there.
                    unsafe { to.store((from * C) as isize, fma(sum, factor, summand)) };
                }
                are_proven &= !is_wanted | is_proven;
            }
            to = to.map(|to| to.offset(params.dst_pitch as isize));
            q += 1;
        }
        are_proven
    }

    /// The lane's transformed sums of a row, in the order of [`pixel_of_lane`].
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

    /// How many results of the calling thread are not proven.
    ///
    /// # Safety
    /// - The sums of the warp's rows are in shared memory. `first_row` is its first row.
    #[inline(always)]
    pub(super) unsafe fn failures(&self, first_row: u32) -> u32 {
        let (mut failures, mut group) = (0, 0);
        while group < thread::black_box(GROUPS_OF_WARP) {
            thread::no_unroll();
            // SAFETY: as this function requires.
            failures += u32::from(unsafe { self.fails(first_row, group) }.0);
            group += 1;
        }
        failures
    }

    /// Whether the lane's result of a group is wanted and not proven, and its number; see [`place_in_tile`].
    ///
    /// # Safety
    /// - The sums of the warp's rows are in shared memory, and `group` is below [`GROUPS_OF_WARP`].
    #[inline(always)]
    pub(super) unsafe fn fails(&self, first_row: u32, group: u32) -> (bool, u32) {
        let (row, group) = (first_row + group / GROUPS_OF_ROW, group % GROUPS_OF_ROW);
        let (column, is_second) = (group / 2 * 32 + self.lane, group % 2 != 0);
        // SAFETY: row and column are below 128.
        let F32x2([first, second]) = unsafe { self.sums.load(row * PITCH + column) };
        let judge = self.judge.of(is_second);
        let sum = judge.sum(if is_second { second } else { first });
        let is_wanted = (column as i32) < self.place.wanted(is_second) && (row as i32) < self.place.wanted_rows;
        (is_wanted && !judge.accepts(sum), (row * 2 + u32::from(is_second)) * SIDE + column)
    }
}
