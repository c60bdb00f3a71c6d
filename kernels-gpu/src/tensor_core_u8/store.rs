//! The copies of results from shared memory to the image.

use cuda_std::prelude::*;

use super::{ROWS, SLABS, block_values, result_pitch, this_thread};
use crate::abi::params::OutputPtr;
use crate::common::async_rows::VECTOR_BYTES;

/// The offset of the result in `row` and value `column` of a step.
#[inline(always)]
pub(super) const fn result_offset(planar: u32, row: u32, column: u32) -> u32 {
    (row % SLABS * (ROWS / SLABS) + row / SLABS) * result_pitch(planar) + column
}

/// Copies the first `rows` rows of a step's results, and the first `values` values of each, to `result`.
///
/// A warp has every fourth row, and writes vectors of 16 bytes in 4 or 8 rows at a time.
///
/// # Safety
/// - `results` holds the results of a step, and a barrier has passed since they were written.
/// - `rows` rows of `values` values, `pitch` values apart, lie in the image from `result` on. No other block writes
///   them.
/// - `result` is aligned to 16 bytes if `pitch` is a multiple of 16.
#[inline(always)]
pub(super) unsafe fn write(planar: u32, results: Shared<u8>, result: OutputPtr, values: i32, rows: i32, pitch: i32) {
    // `across`: vectors of a row that a warp writes at a time. `group`: their bytes. `down`: rows that the block's
    // warps write at a time.
    let across = if planar == 1 { 8 } else { 4 };
    let down = SLABS * (32 / across);
    let group = across * VECTOR_BYTES;
    let (warp, lane) = (this_thread() / 32, this_thread() % 32);
    // Eight lanes read vectors of two rows at a time. The rows are 4 rows of a slab apart, so there is no bank
    // conflict.
    let slot = if across == 4 { lane / 4 % 2 * 4 + lane / 8 } else { lane / across };
    let (mut row, column) = (warp + slot * SLABS, lane % across * VECTOR_BYTES);
    let mut from = results.offset(result_offset(planar, row, column));
    let mut to = result.offset((row as i64 * pitch as i64) as isize + column as isize);
    let next_rows = (pitch as i64 * down as i64) as isize;
    if pitch % VECTOR_BYTES as i32 == 0 && (column + block_values(planar) - group + VECTOR_BYTES) as i32 <= values {
        for pass in 0..ROWS / down {
            for at in 0..block_values(planar) / group {
                if ((row + pass * down) as i32) < rows {
                    let from = from.offset(result_offset(planar, pass * down, at * group));
                    // SAFETY: the row and the lane's vectors lie in the result; both addresses are multiples of 16.
                    unsafe { to.offset((at * group) as isize).cast::<F32x4>().store(0, from.cast::<F32x4>().load(0)) };
                }
            }
            to = to.offset(next_rows);
        }
        return;
    }
    while row < ROWS && (row as i32) < rows {
        thread::no_unroll();
        let mut at = 0;
        while at < block_values(planar) && ((column + at) as i32) < values {
            thread::no_unroll();
            // SAFETY: row < rows and column + at < values.
            unsafe { to.store(at as isize, from.load(at)) };
            // The next value of the vector, or the first one of the next vector.
            at += if at % VECTOR_BYTES == VECTOR_BYTES - 1 { group - VECTOR_BYTES + 1 } else { 1 };
        }
        (from, to) = (from.offset(result_offset(planar, down, 0)), to.offset(next_rows));
        row += down;
    }
}
