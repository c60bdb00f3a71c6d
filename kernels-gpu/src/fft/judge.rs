//! Sums of a pair of tiles, and which of them hold.

use cuda_std::prelude::*;

use super::complex::Complex;
use super::layout::Header;

/// What turns transformed numbers into sums, and accepts them or not; see [`error`](super::error).
#[derive(Clone, Copy)]
pub(super) struct Judge {
    /// What was subtracted from the pixels of each tile.
    mean: [f32; 2],
    /// The sum of the coefficients.
    coefficients: f32,
    /// The least magnitude of a sum that holds, for each tile.
    least: [f32; 2],
}

impl Judge {
    /// - `squares` is the sum of the squares of all pixels minus the mean of their tile.
    /// - `any` is 0 if all those are 0.
    /// - `mean` and `least` are the mean and the least magnitude of each tile's pixels.
    #[inline(always)]
    pub(super) fn new(header: &Header, (squares, any): (f32, f32), mean: [f32; 2], least: [f32; 2]) -> Self {
        // A NaN is not in the range, either.
        let is_finite = squares <= header.most_squares;
        let transform = if any > 0.0 { fma(header.transform, sqrt(squares), header.underflow) } else { 0.0 };
        // No sum is accepted.
        let mut needed_least = [f32::NAN; 2];
        for tile in 0..2 {
            const U: f32 = 1.0 / (1 << 24) as f32;
            let error = fma(U, (mean[tile] * header.sum).abs(), transform);
            let needed = header.least * error;
            let is_certain = header.magnitudes * least[tile] >= needed;
            if is_finite {
                needed_least[tile] = if is_certain { 0.0 } else { needed };
            }
        }
        Self { mean, coefficients: header.sum, least: needed_least }
    }

    /// The sums of both tiles.
    #[inline(always)]
    pub(super) fn sums(&self, transformed: Complex) -> [f32; 2] {
        let Complex { re, im } = transformed;
        [fma(self.mean[0], self.coefficients, re), fma(self.mean[1], self.coefficients, im)]
    }

    /// Whether a sum of a tile holds. A NaN does not.
    #[inline(always)]
    pub(super) fn accepts(&self, tile: usize, sum: f32) -> bool {
        sum.abs() >= self.least[tile]
    }
}
