//! Where a pair of tiles lies, and what is known about its pixels.

use cuda_std::prelude::*;

use super::SharedParts;
use super::layout::{FACTS, FACTS_OF_ROW, LARGEST_MASK, PAIR, POINTS};
use crate::abi::kernel::Convergent;
use crate::abi::params::Params;
use crate::fft::warp_sum;

/// Columns and rows of results of one tile, for a mask.
#[must_use]
pub const fn valid((mask_width, mask_height): (u32, u32)) -> (u32, u32) {
    (valid_of(mask_width), valid_of(mask_height))
}

/// The same for one axis. The size of the mask is checked before a launch. Here the limit spares a panic.
const fn valid_of(side: u32) -> u32 {
    if side > LARGEST_MASK { POINTS + 1 - LARGEST_MASK } else { POINTS + 1 - side }
}

/// Pairs of tiles side by side, for an image of this width and a mask.
#[inline(always)]
#[must_use]
pub const fn pairs_across(width: u32, mask: (u32, u32)) -> u32 {
    width.div_ceil(2 * valid(mask).0)
}

/// A pair of tiles of a launch. Both have the same channel.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) channel: u32,
    /// The first result of the first tile.
    pub(super) x: i32,
    pub(super) y: i32,
    /// Columns from the first tile to the second.
    pub(super) distance: i32,
    /// Columns of each tile whose results lie in the image, and rows of both.
    pub(super) wanted_columns: [i32; 2],
    pub(super) wanted_rows: i32,
    /// Columns of each tile, and rows of both, that such a result needs. All others count as zeros.
    pub(super) needed_columns: [i32; 2],
    pub(super) needed_rows: i32,
}

impl Pair {
    /// The pair with this number, of an image with so many channels. Pairs of one place follow each other.
    #[inline(always)]
    pub(super) fn new(params: &Params, number: u32, channels: u32) -> Self {
        // `max` shows the compiler that it does not divide by 0.
        let (place, channel) = (number / channels.max(1), number % channels.max(1));
        let mask = (params.mask_width as u32, params.mask_height as u32);
        let valid = valid(mask);
        let across = pairs_across(params.width as u32, mask).max(1);
        let x = (place % across * 2 * valid.0) as i32;
        let y = (place / across * valid.1) as i32 + params.first_row;
        let distance = valid.0 as i32;
        let wanted_columns = [0, distance].map(|left| (params.width - x - left).clamp(0, distance));
        let wanted_rows = (params.height - y).clamp(0, valid.1 as i32);
        let needed = |wanted: i32, side: i32| if wanted > 0 { wanted + side - 1 } else { 0 };
        Self {
            channel,
            x,
            y,
            distance,
            wanted_columns,
            wanted_rows,
            needed_columns: wanted_columns.map(|wanted| needed(wanted, params.mask_width)),
            needed_rows: needed(wanted_rows, params.mask_height),
        }
    }

    /// The image's position under the first pixel of the first tile.
    #[inline(always)]
    pub(super) fn corner(&self, params: &Params) -> (i32, i32) {
        (self.x - params.origin_x, self.y - params.origin_y)
    }
}

/// Where the scratch memory of a pair begins.
#[inline(always)]
pub(super) fn of_pair(scratch: GlobalMut<f32>, pair: u32) -> GlobalMut<f32> {
    scratch.offset(pair as isize * PAIR as isize)
}

/// What is known about the pixels of a row, or of all rows of a pair.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    /// The sum of the squares of all pixels minus what was subtracted.
    pub(super) squares: f32,
    /// 0 if all these differences are 0.
    pub(super) any: f32,
    /// The least magnitude of a pixel, for each tile.
    pub(super) least: [f32; 2],
    /// What was subtracted from the pixels of each tile.
    pub(super) mean: [f32; 2],
}

impl Facts {
    pub(super) const NONE: Self = Self { squares: 0.0, any: 0.0, least: [f32::INFINITY; 2], mean: [0.0; 2] };

    /// Stores the facts of a row. Those of all rows lie after those of the last row.
    ///
    /// # Safety
    /// - `scratch` is the memory of a pair, `row` is at most 1024, and no other thread stores the facts of the row.
    #[inline(always)]
    pub(super) unsafe fn store(&self, scratch: GlobalMut<f32>, row: u32) {
        let vectors = scratch.offset(FACTS).cast::<F32x4>();
        let index = (row * FACTS_OF_ROW / 4) as isize;
        // SAFETY: as this function requires; a row has two vectors.
        unsafe {
            vectors.store(index, F32x4([self.squares, self.any, self.least[0], self.least[1]]));
            vectors.store(index + 1, F32x4([self.mean[0], self.mean[1], 0.0, 0.0]));
        }
    }

    /// Those of a row.
    ///
    /// # Safety
    /// - `scratch` is the memory of a pair, and the facts of the row are there.
    #[inline(always)]
    pub(super) unsafe fn load(scratch: GlobalMut<f32>, row: u32) -> Self {
        let vectors = scratch.offset(FACTS).cast::<F32x4>();
        let index = (row * FACTS_OF_ROW / 4) as isize;
        // SAFETY: as this function requires; a row has two vectors.
        let (F32x4([squares, any, first, second]), F32x4([mean, other, ..])) =
            unsafe { (vectors.load(index), vectors.load(index + 1)) };
        Self { squares, any, least: [first, second], mean: [mean, other] }
    }

    /// The facts of all lanes of a warp together. The lanes have the same mean.
    ///
    /// # Safety
    /// - All lanes of the warp call this together.
    #[inline(always)]
    pub(super) unsafe fn of_warp(mut self) -> Self {
        // SAFETY: all lanes are here.
        unsafe {
            self.squares = warp_sum(self.squares);
            self.any = if warp::ballot(self.any > 0.0) != 0 { 1.0 } else { 0.0 };
            for step in 0..5 {
                for tile in 0..2 {
                    self.least[tile] = self.least[tile].min(warp::shuffle_xor(self.least[tile], 16 >> step));
                }
            }
        }
        self
    }

    /// Both facts together. All rows of a pair have the same mean.
    #[inline(always)]
    pub(super) fn and(&self, other: &Self) -> Self {
        Self {
            squares: self.squares + other.squares,
            any: self.any.max(other.any),
            least: [self.least[0].min(other.least[0]), self.least[1].min(other.least[1])],
            mean: self.mean,
        }
    }
}

/// The convergent instructions of [`facts_of_block`]: the squares, and two least magnitudes.
pub(super) const FACTS_OF_BLOCK: Convergent =
    Convergent { barriers: 1, shuffles: 5 * (1 + 2), votes: 1, ..Convergent::NONE };

/// The facts of the first `rows` rows of a pair, for a block of `THREADS` threads.
///
/// # Safety
/// - All threads of the block call this. `scratch` is the memory of a pair, with the facts of these rows.
#[inline(always)]
pub(super) unsafe fn facts_of_block<const THREADS: u32>(
    parts: &SharedParts,
    scratch: GlobalMut<f32>,
    rows: u32,
    thread: u32,
) -> Facts {
    let (warp, lane) = (thread / 32, thread % 32);
    // SAFETY: the facts of all rows are there; each warp has its own place in shared memory.
    unsafe {
        let mut facts = Facts { mean: Facts::load(scratch, 0).mean, ..Facts::NONE };
        let mut row = thread;
        while row < rows {
            thread::no_unroll();
            facts = facts.and(&Facts::load(scratch, row));
            row += THREADS;
        }
        facts = facts.of_warp();
        if lane == 0 {
            parts.facts.store(warp, F32x4([facts.squares, facts.any, facts.least[0], facts.least[1]]));
        }
        thread::sync_threads();
        let mut all = Facts { mean: facts.mean, ..Facts::NONE };
        for warp in 0..THREADS / 32 {
            let F32x4([squares, any, first, second]) = parts.facts.load(warp);
            all = all.and(&Facts { squares, any, least: [first, second], mean: facts.mean });
        }
        all
    }
}
