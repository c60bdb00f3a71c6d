//! Large masks in several *passes* over a strip, each with the rows of the mask that fit the registers and caches.
//!
//! From 21 x 21 on, with 8 columns a thread, the sums overflow the registers, the products the instruction cache, and
//! the coefficients the constant cache. So a block walks the strip several times. Each pass adds up to
//! [`rows_per_pass`] rows of the mask. A later pass begins its sums with what the pass before it has written to the
//! result. So each output still adds its products in the order of the mask.
//!
//! What bounds a pass on an H100 (`docs/kernels/direct.md` has the measurements):
//! - The instruction cache of 32 KB, about 2000 instructions: the FMA rate of a longer loop falls.
//! - The first-level constant cache of 1 KB: the coefficients of a pass lie close together, see [`mask_row`].

use cuda_std::prelude::*;

use crate::abi::params::Params;
use crate::direct::sliding_window::walk::RowSink;

/// Rows of the mask in one pass, for masks up to 31 x 31. With 8 columns a thread, a pass has up to 1800 products, and
/// its coefficients fit 1000 bytes.
#[must_use]
pub const fn rows_per_pass(side: u32) -> u32 {
    match side {
        29 => 6,
        21 | 27 | 31 => 7,
        23 => 8,
        25 => 9,
        _ => side,
    }
}

/// Coefficients in a line of the constant cache.
pub(in crate::direct) const CACHE_LINE: u32 = 16;

/// The coefficients of a pass, rounded up to whole cache lines: the distance between the starts of two passes.
pub(crate) const fn pass_pitch(side: u32) -> u32 {
    let coefficients = rows_per_pass(side) * side;
    assert!(
        rows_per_pass(side) == side || coefficients * size_of::<f32>() as u32 <= 1000,
        "the coefficients of a pass must fit the first-level constant cache"
    );
    coefficients.next_multiple_of(CACHE_LINE)
}

/// The index of the first coefficient of row `row` of a mask of `side` x `side`. Row `side` begins after all of them.
#[must_use]
pub const fn mask_row(side: u32, row: u32) -> u32 {
    if rows_per_pass(side) == side {
        return row * side;
    }
    let (pass, row) = Pass::of_row(rows_per_pass(side) as usize, side as usize, row as usize);
    pass as u32 * pass_pitch(side) + row as u32 * side
}

/// The rows of the mask that one pass adds: `H` of them, or `H - 1`.
///
/// Where the rows of the mask are no multiple of `H`, the last passes have `H - 1` rows. Their first row is the last
/// one of the pass before and is skipped. So all passes run the same code.
#[derive(Clone, Copy)]
pub(crate) struct Pass {
    /// The first row.
    pub(crate) first_row: i32,
    /// Whether the first row is skipped.
    pub(crate) skips_first: bool,
    /// The index of the first coefficient.
    pub(crate) coefficients: u32,
}

impl Pass {
    /// The only pass over a mask whose rows all fit.
    pub(crate) const ALL_ROWS: Self = Self { first_row: 0, skips_first: false, coefficients: 0 };

    /// How many passes over `rows` rows of the mask have `height` rows. The others have one row less.
    const fn full(height: usize, rows: usize) -> usize {
        rows - rows.div_ceil(height) * (height - 1)
    }

    /// Pass number `index` over a mask of `K` rows.
    #[inline(always)]
    pub(crate) fn new<const K: usize, const H: usize>(index: i32, coefficients: u32) -> Self {
        let full = Self::full(H, K) as i32;
        let first_row = index * (H as i32 - 1) + index.min(full - 1);
        Self { first_row, skips_first: index >= full, coefficients }
    }

    /// The pass that has row `row`, and the number of the row in it. Passes over `rows` rows have up to `height` rows.
    pub(in crate::direct) const fn of_row(height: usize, rows: usize, row: usize) -> (usize, usize) {
        let full = Self::full(height, rows);
        if row < full * height {
            (row / height, row % height)
        } else {
            let row = row - full * height;
            (full + row / (height - 1), 1 + row % (height - 1))
        }
    }
}

/// Stores the rows of one pass, and loads what the pass before has stored.
pub(crate) struct PassWriter<const C: usize> {
    pub(crate) result: GlobalMut<f32>,
    pub(crate) params: Params,
    /// The thread's first column.
    pub(crate) x: i32,
    /// The first column that the block stores. The left neighbour stores the columns before it.
    pub(crate) first_x: i32,
    /// The first row of the strip's output, and its number of rows.
    pub(crate) first: i32,
    pub(crate) rows: i32,
    /// Rows of the pass less one.
    pub(crate) halo: i32,
    /// Whether sums begin with what the result holds.
    pub(crate) accumulates: bool,
    /// Scale and offset: those of the result in the last pass, none before.
    pub(crate) finish: (f32, f32),
    /// The row that the next interior row stores.
    pub(crate) next_row: GlobalMut<f32>,
}

impl<const C: usize> PassWriter<C> {
    /// Whether the block stores column `c` of the thread.
    #[inline(always)]
    fn has(&self, c: usize) -> bool {
        let x = self.x + c as i32;
        x >= self.first_x && x < self.params.width
    }

    /// Whether the block stores vector `i` of the thread, where all columns of the block lie in the image and are
    /// aligned.
    #[inline(always)]
    fn has_vector(&self, i: usize) -> bool {
        self.x + 4 * i as i32 >= self.first_x
    }

    /// The thread's columns `rows` rows below `row`. (Unsigned: the upper half of a signed pitch would take a
    /// register.)
    #[inline(always)]
    fn below(&self, row: GlobalMut<f32>, rows: i32) -> GlobalMut<f32> {
        let index = rows as u32 as u64 * self.params.dst_pitch as u32 as u64;
        row.offset(index as isize).offset(self.x as u32 as isize)
    }
}

impl<const C: usize> RowSink<C> for PassWriter<C> {
    #[inline(always)]
    unsafe fn initial<const INTERIOR: bool>(&self, r: i32) -> [f32; C] {
        let wanted = self.accumulates && r < self.rows;
        let mut values = [0.0; C];
        if INTERIOR {
            let row = self.below(self.next_row, self.halo).cast::<F32x4>();
            for i in 0..C / 4 {
                // SAFETY: all columns of the block lie in the result, aligned. The pass before has stored them.
                let vector = unsafe { row.load_if(i as isize, wanted && self.has_vector(i)) }.0;
                values[4 * i..4 * i + 4].copy_from_slice(&vector);
            }
        } else if wanted {
            let row = self.below(self.result, self.first + r);
            // SAFETY: the column lies in the result, and the pass before has stored it.
            values = core::array::from_fn(|c| if self.has(c) { unsafe { row.load(c as isize) } } else { 0.0 });
        }
        values
    }

    #[inline(always)]
    unsafe fn store<const INTERIOR: bool>(&mut self, r: i32, sums: &[f32; C], complete: bool) {
        let finished = |c: usize| fma(sums[c], self.finish.0, self.finish.1);
        if INTERIOR {
            let row = self.next_row.offset(self.x as u32 as isize).cast::<F32x4>();
            for i in 0..C / 4 {
                let vector = F32x4(core::array::from_fn(|j| finished(4 * i + j)));
                // SAFETY: all columns of the block lie in the result, aligned. No other thread accesses these.
                unsafe { row.store_if(i as isize, complete && self.has_vector(i), vector) };
            }
        } else if complete {
            let row = self.below(self.result, self.first + r - self.halo);
            for c in 0..C {
                if self.has(c) {
                    // SAFETY: the column lies in the result, and no other thread accesses it.
                    unsafe { row.store(c as isize, finished(c)) };
                }
            }
        }
    }

    #[inline(always)]
    fn enter_interior(&mut self, r: i32) {
        self.next_row = self.result.offset(self.params.dst_index(0, self.first + r - self.halo));
    }

    #[inline(always)]
    fn end_interior_row(&mut self) {
        self.next_row = self.next_row.offset(self.params.dst_pitch as u32 as isize);
    }
}
