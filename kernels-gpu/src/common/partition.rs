//! How work is partitioned: the rows of the image among the blocks of a grid, and short rows among the lanes of a warp.

use cuda_std::prelude::*;

use crate::abi::params::Params;

/// Part `index` of `count` parts of `rows` rows: its first row and its number of rows.
///
/// Each part begins at a multiple of `STEP` rows and has a multiple of `STEP` rows. So the last part may end below the
/// last row. The sizes differ by at most `STEP`, because the device waits for the part with the most rows.
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

/// This block's part of the rows from `first_row` on: its first row and its number of rows.
///
/// The number is not positive where the block has no rows. See [`partition`].
#[inline(always)]
#[must_use]
pub fn block_rows<const STEP: u32>(params: &Params) -> (i32, i32) {
    let rows = (params.height - params.first_row) as u32;
    let (begin, most) = partition::<STEP>(rows, thread::block_idx_y(), thread::grid_dim_y().max(1));
    let first = params.first_row + begin as i32;
    (first, (most as i32).min(params.height - first))
}

/// The work of one lane when a warp processes rows of `units` units. A unit is a vector or a granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LanePart {
    /// Rows that the warp takes at a time.
    pub(crate) rows: u32,
    /// The lane's row among them. A lane without work has row `rows`.
    pub(crate) row: u32,
    /// The lane's first unit of the row. In rows of more than 32 units it has every 32nd from there on.
    pub(crate) unit: u32,
}

/// Partitions rows of `units` units among the lanes of a warp.
#[inline(always)]
pub(crate) const fn partition_lanes(units: u32, lane: u32) -> LanePart {
    if units > 32 {
        LanePart { rows: 1, row: 0, unit: lane }
    } else {
        LanePart { rows: 32 / units, row: lane / units, unit: lane % units }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_hold_every_unit_once() {
        for units in 1..=100 {
            let LanePart { rows, .. } = partition_lanes(units, 0);
            let mut seen = [0; 100];
            for lane in 0..32 {
                let part = partition_lanes(units, lane);
                let mut unit = part.unit;
                while part.row < rows && unit < units {
                    seen[(part.row * units + unit) as usize] += 1;
                    unit += 32;
                }
            }
            assert!(seen[..(rows * units) as usize].iter().all(|&count| count == 1), "{units} units: {seen:?}");
        }
    }

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
