//! The way of the results out of shared memory.

use cuda_std::bytes::unzipped;
use cuda_std::prelude::*;

use super::{BLOCK, COLUMNS, PAIR_PITCH, PIECE, PLANES, RESULT_PITCH, ROWS, SPARSE_PLANES, this_thread};
use crate::params::Untyped;

/// Where the result in `row` and `column` of a step lies. Behind a sparse product a row lies byte by byte with the one 8 below it.
#[inline(always)]
pub(super) const fn result_place(sparse: bool, row: u32, column: u32) -> u32 {
    if sparse {
        return (row % SPARSE_PLANES * 4 + row / 16) * PAIR_PITCH + 2 * column + row / SPARSE_PLANES % 2;
    }
    (row % PLANES * (ROWS / PLANES) + row / PLANES) * RESULT_PITCH + column
}

/// Writes the results of a step to `result`, as far as they lie in its `rows` rows of `values` values.
///
/// # Safety
/// `results` holds them.
#[inline(always)]
pub(super) unsafe fn write(results: Shared<u8>, result: Untyped, values: i32, rows: i32, pitch: i32) {
    const PIECES: u32 = COLUMNS / PIECE;
    const STEP: u32 = BLOCK.0 / PIECES;
    let thread = this_thread();
    let v = thread % PIECES * PIECE;
    let mut row = thread / PIECES;
    let mut to = result.offset((row as i64 * pitch as i64) as isize + v as isize);
    if pitch % PIECE as i32 == 0 && v as i32 + PIECE as i32 <= values {
        let from = results.offset(result_place(false, row, v));
        for turn in 0..ROWS / STEP {
            if ((row + turn * STEP) as i32) < rows {
                // SAFETY: the caller's promise; both are multiples of 16 bytes.
                unsafe {
                    to.cast::<F32x4>()
                        .store(0, from.offset(result_place(false, turn * STEP, 0)).cast::<F32x4>().load(0))
                };
            }
            to = to.offset((pitch as i64 * STEP as i64) as isize);
        }
        return;
    }
    while row < ROWS && (row as i32) < rows {
        thread::no_unroll();
        let mut at = 0;
        while at < PIECE && ((v + at) as i32) < values {
            thread::no_unroll();
            // SAFETY: the caller's promise, for a value inside of the image.
            unsafe { to.store(at as isize, results.load(result_place(false, row, v + at))) };
            at += 1;
        }
        to = to.offset((pitch as i64 * STEP as i64) as isize);
        row += STEP;
    }
}

/// The same where two rows of results lie byte by byte.
///
/// # Safety
/// As for [`write`].
#[inline(always)]
pub(super) unsafe fn write_pairs(results: Shared<u8>, result: Untyped, values: i32, rows: i32, pitch: i32) {
    const PIECES: u32 = COLUMNS / PIECE;
    const STEP: u32 = BLOCK.0 / PIECES;
    let thread = this_thread();
    let (v, pair) = (thread % PIECES * PIECE, thread / PIECES);
    let whole = pitch % PIECE as i32 == 0 && v as i32 + PIECE as i32 <= values;
    for turn in 0..ROWS / 2 / STEP {
        let row = pair % 4 * 16 + pair / 4 + turn * (STEP / 4);
        let to = result.offset((row as i64 * pitch as i64) as isize + v as isize);
        let below = to.offset((pitch as i64 * i64::from(SPARSE_PLANES)) as isize);
        let from = results.offset(result_place(true, row, v));
        if whole {
            let from = from.cast::<F32x4>();
            // SAFETY: the caller's promise.
            let [a, b] = [0, 1].map(|i| unsafe { from.load(i) }.0.map(f32::to_bits));
            let pairs = [unzipped(a[0], a[1]), unzipped(a[2], a[3]), unzipped(b[0], b[1]), unzipped(b[2], b[3])];
            for (i, to) in [to, below].into_iter().enumerate() {
                if ((row + i as u32 * SPARSE_PLANES) as i32) < rows {
                    // SAFETY: the caller's promise; a multiple of 16 bytes.
                    unsafe { to.cast::<F32x4>().store(0, F32x4(pairs.map(|pair| f32::from_bits(pair[i])))) };
                }
            }
            continue;
        }
        let mut at = 0;
        while at < PIECE && ((v + at) as i32) < values {
            thread::no_unroll();
            for (i, to) in [to, below].into_iter().enumerate() {
                if ((row + i as u32 * SPARSE_PLANES) as i32) < rows {
                    // SAFETY: the caller's promise, for a value inside of the image.
                    unsafe { to.store(at as isize, from.load(2 * at + i as u32)) };
                }
            }
            at += 1;
        }
    }
}
