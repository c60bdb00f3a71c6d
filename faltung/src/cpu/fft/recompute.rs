//! The sums that are not accepted, computed again in order; and windows whose sums need no computation.

use super::load::Input;
use crate::Mask;
use crate::cpu::simd::{Level, Simd, Work};

/// Ordered sums that are computed at a time: one multiply-add of each is in flight.
const CHAINS: usize = 8;

/// How many times as long a multiply-add takes here as in a register tile.
pub(super) const TIMES_DIRECT: f64 = 8.0;

/// Computes the ordered sums of outputs `(x, y)` of a tile.
pub(super) fn ordered_sums(
    level: Level,
    window: &Mask,
    input: &Input,
    places: &[(usize, usize)],
    mut give: impl FnMut(usize, f32),
) {
    for (i, places) in places.chunks(CHAINS).enumerate() {
        let chains: [_; CHAINS] = std::array::from_fn(|chain| places[chain.min(places.len() - 1)]);
        let sums = level.run(Chains { window, input, chains });
        sums.into_iter().take(places.len()).enumerate().for_each(|(j, sum)| give(i * CHAINS + j, sum));
    }
}

struct Chains<'a> {
    window: &'a Mask,
    input: &'a Input,
    chains: [(usize, usize); CHAINS],
}

impl Work for Chains<'_> {
    type Output = [f32; CHAINS];

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, _: S) -> [f32; CHAINS] {
        let mut sums = [0.0_f32; CHAINS];
        let width = self.window.width();
        for (k, coefficients) in self.window.coefficients().chunks_exact(width).enumerate() {
            let rows = self.chains.map(|(x, y)| &self.input.row(y + k)[x..][..width]);
            for l in 0..width {
                for (sum, row) in sums.iter_mut().zip(rows) {
                    *sum = coefficients[l].mul_add(row[l], *sum);
                }
            }
        }
        sums
    }
}

/// How many pixels of a kind are under each window: sums over all pixels above and to the left.
#[derive(Debug, Default)]
pub(super) struct Counts {
    sums: Vec<u32>,
    stride: usize,
}

impl Counts {
    /// Counts the pixels of a tile that `is_counted` says.
    pub(super) fn count(&mut self, input: &Input, is_counted: impl Fn(f32) -> bool) {
        self.stride = input.columns + 1;
        self.sums.clear();
        self.sums.resize(self.stride * (input.rows + 1), 0);
        for y in 0..input.rows {
            let (above, row) = self.sums[y * self.stride..].split_at_mut(self.stride);
            let mut count = 0;
            for ((to, above), &value) in row[1..].iter_mut().zip(&above[1..]).zip(input.row(y)) {
                count += u32::from(is_counted(value));
                *to = above + count;
            }
        }
    }

    /// Whether there is none under the window of output `(x, y)`.
    pub(super) fn is_none(&self, window: &Mask, x: usize, y: usize) -> bool {
        let at = |x: usize, y: usize| self.sums[y * self.stride + x];
        let (right, below) = (x + window.width(), y + window.height());
        // Grouped so that no difference is negative.
        at(right, below) - at(right, y) == at(x, below) - at(x, y)
    }
}
