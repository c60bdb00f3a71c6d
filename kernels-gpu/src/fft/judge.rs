//! Sums of a pair of tiles, and which of them hold.

use cuda_std::prelude::*;

use super::layout::Header;

/// What turns transformed numbers of a tile into sums, and accepts them or not; see [`error`](super::error).
#[derive(Clone, Copy)]
pub(super) struct TileJudge {
    /// What was subtracted from the pixels.
    mean: f32,
    /// The sum of the coefficients.
    coefficients: f32,
    /// 1 divided by the scale of the pixels.
    inverse: f32,
    /// The least magnitude of a sum that holds.
    least: f32,
}

impl TileJudge {
    /// The sum of a transformed number: the real part for the first tile, the imaginary one for the second.
    #[inline(always)]
    pub(super) fn sum(&self, transformed: f32) -> f32 {
        fma(self.mean, self.coefficients, transformed * self.inverse)
    }

    /// Whether a sum holds. A NaN does not.
    #[inline(always)]
    pub(super) fn accepts(&self, sum: f32) -> bool {
        sum.abs() >= self.least
    }
}

/// The judges of both tiles.
#[derive(Clone, Copy)]
pub(super) struct Judge {
    tiles: [TileJudge; 2],
}

impl Judge {
    /// - `squares` is the sum of the squares of `scale * (pixel - mean)`, over the pixels of both tiles.
    /// - `any` is false for a tile where all of these differences are 0.
    /// - `mean` and `least` are the mean and the least magnitude of each tile's pixels.
    /// - `inverse` is 1 divided by each tile's scale, or 0 for a tile without `any`.
    #[inline(always)]
    pub(super) fn new(
        header: &Header,
        (squares, any): (f32, [bool; 2]),
        (mean, least): ([f32; 2], [f32; 2]),
        inverse: [f32; 2],
    ) -> Self {
        // A NaN is not in the range, either.
        let is_finite = squares <= header.most_squares;
        let of_pair = fma(header.transform, sqrt(squares), header.underflow);
        let tiles = [0, 1].map(|tile| {
            const U: f32 = 1.0 / (1 << 24) as f32;
            // The product may underflow, so the least normal number is added.
            let of_tile = if inverse[tile] == 1.0 { of_pair } else { fma(of_pair, inverse[tile], f32::MIN_POSITIVE) };
            let transform = if any[tile] { of_tile } else { 0.0 };
            let error = fma(U, (mean[tile] * header.sum).abs(), transform);
            let needed = header.least * error;
            let is_certain = header.magnitudes * least[tile] >= needed;
            let least = match (is_finite, is_certain) {
                // No sum is accepted, because a comparison with NaN is false.
                (false, _) => f32::NAN,
                (true, true) => 0.0,
                (true, false) => needed,
            };
            TileJudge { mean: mean[tile], coefficients: header.sum, inverse: inverse[tile], least }
        });
        Self { tiles }
    }

    /// That of one tile, field by field. An array indexed at run time would lie in local memory.
    #[inline(always)]
    pub(super) fn of(&self, second: bool) -> TileJudge {
        let of = |number: fn(&TileJudge) -> f32| {
            let [of_first, of_second] = [number(&self.tiles[0]), number(&self.tiles[1])];
            if second { of_second } else { of_first }
        };
        TileJudge {
            mean: of(|tile| tile.mean),
            coefficients: self.tiles[0].coefficients,
            inverse: of(|tile| tile.inverse),
            least: of(|tile| tile.least),
        }
    }
}
