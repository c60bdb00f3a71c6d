//! The passes over a mask, and where their coefficients lie.

use crate::direct::sliding_window::passes::{CACHE_LINE, Pass};

/// The number of passes over a mask of `side` x `side`.
///
/// The number divides 4, the schedulers of a multiprocessor. So all warps of a scheduler have the same pass, and its
/// constant cache holds the coefficients of that pass.
///
/// # Panics
/// If `side` is above 21: no kernel has a larger mask.
#[must_use]
pub const fn passes(side: u32) -> u32 {
    match side {
        ..=15 => 1,
        16..=21 => 2,
        _ => panic!("no kernel of this variant is above 21 x 21"),
    }
}

/// Rows of the mask in a pass. The last pass may have one row less.
#[must_use]
pub const fn rows_per_pass(side: u32) -> u32 {
    side.div_ceil(passes(side))
}

/// The distance between the first coefficients of two passes of up to `height` rows: an odd number of cache lines.
pub(super) const fn pass_pitch(side: u32, height: u32) -> u32 {
    let coefficients = side * height;
    assert!(coefficients * size_of::<f32>() as u32 <= 1000, "a pass must fit the first-level constant cache");
    // If the pitch is a multiple of a large power of two, LLVM turns `base + offset` into `base | offset`, and ptxas
    // cannot fold that into an address. So the number of lines is odd.
    let lines = coefficients.div_ceil(CACHE_LINE);
    (lines + (lines + 1) % 2) * CACHE_LINE
}

/// The index of the first coefficient of row `row` of a mask of `side` x `side`.
///
/// `row == side` gives an index past the last coefficient.
#[must_use]
pub const fn mask_row(side: u32, row: u32) -> u32 {
    let height = rows_per_pass(side);
    if height == side {
        return row * side;
    }
    let (pass, row) = Pass::of_row(height as usize, side as usize, row as usize);
    pass as u32 * pass_pitch(side, height) + row as u32 * side
}
