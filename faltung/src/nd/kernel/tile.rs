//! Weighted sums of several rows of results at once, for dense correlations.

use super::{Real, TOGETHER, put, starts};
use crate::cpu::simd::Simd;

/// Weights of two axes, for each plane of the axes before these. None counts as 0.
pub(in crate::nd) struct Planes<A> {
    /// Distance of each plane's first value from that of the result, in places.
    pub(in crate::nd) offsets: Vec<isize>,
    /// The weights: planes, rows, columns.
    pub(in crate::nd) weights: Vec<A>,
    /// Weights along both axes.
    pub(in crate::nd) rows: usize,
    pub(in crate::nd) columns: usize,
    /// Places from one row to the next, and from one column to the next.
    pub(in crate::nd) row_step: usize,
    pub(in crate::nd) column_step: usize,
    /// Rows of values whose products are added before they are added to the sum.
    pub(in crate::nd) partial: usize,
}

/// Rows of results that [`tile_sums`] computes together.
pub(in crate::nd) const TILE_ROWS: usize = 4;

/// As [`weighted_sums`](super::weighted_sums) for [`TILE_ROWS`] rows of results: the rows of values are `row_step`
/// places apart, those of the results `pitch`. Each value that is loaded is weighted for all rows. Each sum has the same
/// order: planes, rows, columns.
///
/// # Safety
/// With `count` values, or `V` vectors if that is more:
/// - From each plane's offset on, `from` is valid for reads of these in all rows.
/// - `to` is valid for reads and writes of these in [`TILE_ROWS`] rows, and none of them is read from `from`.
#[inline(always)]
pub(in crate::nd) unsafe fn tile_sums<S: Simd, A: Real, const V: usize>(
    simd: S,
    from: *const A,
    planes: &Planes<A>,
    to: *mut A,
    pitch: isize,
    count: usize,
) {
    const { assert!(V <= TOGETHER) };
    let lanes = A::lanes::<S>();
    let Planes { rows, columns, row_step, column_step, partial, .. } = *planes;
    for start in starts(count, V * lanes) {
        let mut sums = [[A::splat(simd, A::ZERO); V]; TILE_ROWS];
        // Rows of values since sums were written, and whether none were.
        let (mut added, mut is_first) = (0, true);
        for (&offset, weights) in planes.offsets.iter().zip(planes.weights.chunks_exact(rows * columns)) {
            for row in 0..rows + TILE_ROWS - 1 {
                if added == partial {
                    // SAFETY: as this function requires.
                    unsafe { put_tile(simd, to.add(start), pitch, &sums, is_first) };
                    sums = [[A::splat(simd, A::ZERO); V]; TILE_ROWS];
                    (added, is_first) = (0, false);
                }
                added += 1;
                // SAFETY: a row of values that the results read.
                let values = unsafe { from.offset(offset).add(row * row_step + start) };
                // Result row i reads this row of values with row `row - i` of the weights.
                let weigh = RowOfTile { values, weights, row, columns, column_step };
                let (first, end) = ((row + 1).saturating_sub(rows), TILE_ROWS.min(row + 1));
                // SAFETY: V vectors of a row; the weights have these rows.
                unsafe {
                    match (first, end) {
                        (0, 1) => weigh.add::<_, V, 0, 1>(simd, &mut sums),
                        (0, 2) => weigh.add::<_, V, 0, 2>(simd, &mut sums),
                        (0, 3) => weigh.add::<_, V, 0, 3>(simd, &mut sums),
                        (0, 4) => weigh.add::<_, V, 0, 4>(simd, &mut sums),
                        (1, 3) => weigh.add::<_, V, 1, 3>(simd, &mut sums),
                        (1, 4) => weigh.add::<_, V, 1, 4>(simd, &mut sums),
                        (2, 4) => weigh.add::<_, V, 2, 4>(simd, &mut sums),
                        (3, 4) => weigh.add::<_, V, 3, 4>(simd, &mut sums),
                        _ => unreachable!("weights of one row are not computed in tiles"),
                    }
                }
            }
        }
        // SAFETY: as this function requires.
        unsafe { put_tile(simd, to.add(start), pitch, &sums, is_first) };
    }
}

/// A row of values that several rows of results read.
struct RowOfTile<'a, A> {
    values: *const A,
    /// Rows of `columns` weights.
    weights: &'a [A],
    /// The row of the values: that of the weights for result row 0.
    row: usize,
    columns: usize,
    column_step: usize,
}

impl<A: Real> RowOfTile<'_, A> {
    /// Adds its products to the sums of result rows `FIRST` to `END - 1`.
    ///
    /// # Safety
    /// - The values are valid for reads of as many vectors, from each column on.
    /// - The weights have rows `row + 1 - END` to `row - FIRST`.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "constant bounds keep the sums in registers")]
    unsafe fn add<S: Simd, const V: usize, const FIRST: usize, const END: usize>(
        &self,
        simd: S,
        sums: &mut [[A::Vector<S>; V]; TILE_ROWS],
    ) {
        for column in 0..self.columns {
            for v in 0..V {
                // SAFETY: as this function requires.
                let value = unsafe { A::load(simd, self.values.add(column * self.column_step + v * A::lanes::<S>())) };
                for i in FIRST..END {
                    // SAFETY: as this function requires.
                    let weight = unsafe { *self.weights.get_unchecked((self.row - i) * self.columns + column) };
                    sums[i][v] = A::weigh(simd, A::splat(simd, weight), value, sums[i][v]);
                }
            }
        }
    }
}

/// [`put`] for rows of sums that are `pitch` values apart.
///
/// # Safety
/// `to` is valid for reads and writes of the rows.
#[inline(always)]
unsafe fn put_tile<S: Simd, A: Real, const V: usize>(
    simd: S,
    to: *mut A,
    pitch: isize,
    sums: &[[A::Vector<S>; V]; TILE_ROWS],
    is_first: bool,
) {
    for (i, sums) in sums.iter().enumerate() {
        for (v, &sum) in sums.iter().enumerate() {
            // SAFETY: a vector of a row.
            unsafe { put(simd, to.offset(i as isize * pitch).add(v * A::lanes::<S>()), sum, is_first) };
        }
    }
}
