//! The way of the results out of shared memory.

use cuda_std::prelude::*;

use super::{PIECE, PLANES, ROWS, columns, result_pitch, this_thread};
use crate::abi::params::OutputPtr;

/// Where the result in `row` and value `column` of a step lies.
#[inline(always)]
pub(super) const fn result_place(apart: u32, row: u32, column: u32) -> u32 {
    (row % PLANES * (ROWS / PLANES) + row / PLANES) * result_pitch(apart) + column
}

/// Writes the results of a step to `result`, as far as they lie in its `rows` rows of `values` values. A warp has every fourth row, and
/// writes pieces of 16 bytes in 4 or 8 of them at a time.
///
/// # Safety
/// `results` holds them.
#[inline(always)]
pub(super) unsafe fn write(apart: u32, results: Shared<u8>, result: OutputPtr, values: i32, rows: i32, pitch: i32) {
    // Pieces side by side and rows that a warp writes at a time, and how far apart these rows and the next ones are.
    let across = if apart == 1 { 8 } else { 4 };
    let down = PLANES * (32 / across);
    let group = across * PIECE;
    let (warp, lane) = (this_thread() / 32, this_thread() % 32);
    // The two rows of which 8 lanes read pieces at a time are 4 of a plane apart: no bank conflict.
    let slot = if across == 4 { lane / 4 % 2 * 4 + lane / 8 } else { lane / across };
    let (mut row, column) = (warp + slot * PLANES, lane % across * PIECE);
    let mut from = results.offset(result_place(apart, row, column));
    let mut to = result.offset((row as i64 * pitch as i64) as isize + column as isize);
    let further = (pitch as i64 * down as i64) as isize;
    if pitch % PIECE as i32 == 0 && (column + columns(apart) - group + PIECE) as i32 <= values {
        for turn in 0..ROWS / down {
            for at in 0..columns(apart) / group {
                if ((row + turn * down) as i32) < rows {
                    let from = from.offset(result_place(apart, turn * down, at * group));
                    // SAFETY: the caller's promise; both are multiples of 16 bytes.
                    unsafe { to.offset((at * group) as isize).cast::<F32x4>().store(0, from.cast::<F32x4>().load(0)) };
                }
            }
            to = to.offset(further);
        }
        return;
    }
    while row < ROWS && (row as i32) < rows {
        thread::no_unroll();
        let mut at = 0;
        while at < columns(apart) && ((column + at) as i32) < values {
            thread::no_unroll();
            // SAFETY: the caller's promise, for a value inside of the image.
            unsafe { to.store(at as isize, from.load(at)) };
            // The next one of this piece, or the first one of the next.
            at += if at % PIECE == PIECE - 1 { group - PIECE + 1 } else { 1 };
        }
        (from, to) = (from.offset(result_place(apart, down, 0)), to.offset(further));
        row += down;
    }
}
