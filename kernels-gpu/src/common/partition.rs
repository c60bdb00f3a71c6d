//! How the rows of a grid of blocks divide the rows of an image among themselves.

use cuda_std::prelude::*;

use crate::abi::params::Params;

/// Part `index` of `count` parts of `rows` rows: its first row and its number of rows.
///
/// Each part begins at a multiple of `STEP` rows and has a multiple of `STEP` rows, so the last one may end below the
/// last row. The sizes differ by at most `STEP`: the device waits for the multiprocessor that has the most work.
#[inline(always)]
#[must_use]
pub const fn partition<const STEP: u32>(rows: u32, index: u32, count: u32) -> (u32, u32) {
    let steps = rows.div_ceil(STEP);
    let (each, larger) = (steps / count, steps % count);
    // The first `larger` parts have one step more than the others.
    let begin = index * each + if index < larger { index } else { larger };
    let steps = each + (index < larger) as u32;
    (begin * STEP, steps * STEP)
}

/// The part of the image's rows, from `first_row` on, that belongs to this block: its first row and its number of rows.
///
/// The number is not positive where the block has no row. See [`partition`].
#[inline(always)]
#[must_use]
pub fn block_rows<const STEP: u32>(params: &Params) -> (i32, i32) {
    let rows = (params.height - params.first_row) as u32;
    let (begin, most) = partition::<STEP>(rows, thread::block_idx_y(), thread::grid_dim_y().max(1));
    let first = params.first_row + begin as i32;
    (first, (most as i32).min(params.height - first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const STEP: u32>(rows: u32, count: u32) {
        let mut next = 0;
        let (_, least) = partition::<STEP>(rows, count - 1, count);
        for index in 0..count {
            let (begin, size) = partition::<STEP>(rows, index, count);
            assert!(begin == next && begin.is_multiple_of(STEP), "{rows}/{count}: {index} begins with {begin}");
            assert!(size == least || size == least + STEP, "{rows}/{count}: {index} has {size}, the last {least}");
            assert!(size == 0 || begin < rows, "{rows}/{count}: {index} lies below all rows");
            next += size;
        }
        assert_eq!(next, rows.next_multiple_of(STEP), "{count} parts");
    }

    #[test]
    fn parts_are_even_and_hold_every_row_once() {
        for rows in [1, 7, 31, 32, 33, 200, 8192, 3_000_001] {
            for count in [1, 2, 3, 66, 456, 65_535] {
                check::<1>(rows, count);
                check::<32>(rows, count);
            }
        }
    }
}
