//! The passes over a mask, and where their coefficients lie.

use crate::direct::sliding_window::passes::{CACHE_LINE, Pass};

/// The passes over a mask of `side` x `side`: a divisor of the four schedulers of a multiprocessor, so that all warps
/// of a scheduler have the same pass, and its constant cache the coefficients of one pass.
#[must_use]
pub const fn passes(side: u32) -> u32 {
    match side {
        ..=15 => 1,
        16..=21 => 2,
        _ => 4,
    }
}

/// Rows of the mask in a pass. The last passes may have one row less.
#[must_use]
pub const fn rows_per_pass(side: u32) -> u32 {
    side.div_ceil(passes(side))
}

/// The coefficients of a pass of up to `height` rows, rounded up to an odd number of cache lines.
pub(super) const fn pass_pitch(side: u32, height: u32) -> u32 {
    let coefficients = side * height;
    assert!(coefficients * size_of::<f32>() as u32 <= 1000, "a pass must fit the first-level constant cache");
    // An odd number of lines: LLVM would make an `or` of an addition to a multiple of a large power of two, and ptxas
    // takes no `or` as a part of an address.
    let lines = coefficients.div_ceil(CACHE_LINE);
    (lines + (lines + 1) % 2) * CACHE_LINE
}

/// The index of the first coefficient of row `row` of a mask of `side` x `side`. Row `side` begins after all of them.
#[must_use]
pub const fn mask_row(side: u32, row: u32) -> u32 {
    let height = rows_per_pass(side);
    if height == side {
        return row * side;
    }
    let (pass, row) = Pass::of_row(height as usize, side as usize, row as usize);
    pass as u32 * pass_pitch(side, height) + row as u32 * side
}
