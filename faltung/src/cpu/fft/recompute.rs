//! Rejected sums, computed again in order. And a table that finds windows without a pixel of some kind.
//!
//! Rejected sums are anywhere in a tile, so the pixels of one step are not neighbours. Each lane of a vector computes
//! one window. 8 pixels of each of 8 windows are loaded and transposed, and 8 steps of 8 chains follow.

use super::load::Input;
use crate::cpu::recompute::{AT_ONCE, OrderedSums, SPARE, has_lanes, ordered_steps};
use crate::cpu::simd::{Level, Simd, Work};
use crate::parallel::Cancel;
use crate::{Mask, PixelType, Problem, Result};

/// Ordered sums that are computed at a time: two vectors, so that one does not wait for itself.
const CHAINS: usize = 2 * LANES;
/// Windows that are transposed at a time, and pixels of each.
const LANES: usize = 8;

/// How many times as long a multiply-add takes here as in a register tile. Images of bytes take the vectors of
/// [`OrderedSums`].
pub(super) fn times_direct(level: Level, problem: &Problem) -> f64 {
    if problem.integer_pixels() == Some(PixelType::U8) && has_lanes(level) { 4.0 } else { 8.0 }
}

/// The ordered sums of outputs `(x, y)` of a tile of bytes. `bytes` is memory for the tile.
pub(super) fn sums_of_bytes(
    sums: &OrderedSums,
    input: &Input,
    bytes: &mut Vec<u8>,
    places: &[(usize, usize)],
    cancel: &Cancel,
    mut give: impl FnMut(usize, f32),
) -> Result<()> {
    if places.is_empty() {
        return Ok(());
    }
    bytes.clear();
    bytes.extend(input.values[..input.rows * input.stride].iter().map(|&value| value as u8));
    bytes.resize(bytes.len() + SPARE, 0);
    for (i, places) in places.chunks(AT_ONCE).enumerate() {
        cancel.check()?;
        let starts = places.iter().map(|&(x, y)| y * input.stride + x);
        let sums = sums.of(bytes, (input.stride, 1), starts);
        sums.into_iter().take(places.len()).enumerate().for_each(|(j, sum)| give(i * AT_ONCE + j, sum));
    }
    Ok(())
}

/// Computes the ordered sums of outputs `(x, y)` of a tile.
pub(super) fn ordered_sums(
    level: Level,
    window: &Mask,
    input: &Input,
    places: &[(usize, usize)],
    cancel: &Cancel,
    mut give: impl FnMut(usize, f32),
) -> Result<()> {
    for (i, places) in places.chunks(CHAINS).enumerate() {
        cancel.check()?;
        let chains: [_; CHAINS] = std::array::from_fn(|chain| places[chain.min(places.len() - 1)]);
        let sums = chain_sums(level, window, input, chains);
        sums.into_iter().take(places.len()).enumerate().for_each(|(j, sum)| give(i * CHAINS + j, sum));
    }
    Ok(())
}

fn chain_sums(level: Level, window: &Mask, input: &Input, chains: [(usize, usize); CHAINS]) -> [f32; CHAINS] {
    #[cfg(target_arch = "x86_64")]
    if level != Level::Portable && Level::Avx2.is_available() {
        // SAFETY: `is_available` has found AVX2 and FMA.
        return unsafe { x86_64::chain_sums(window, input, chains) };
    }
    level.run(Chains { window, input, chains })
}

/// One pixel of each window at a time.
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
            ordered_steps(coefficients, &rows, 1, &mut sums);
        }
        sums
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{
        __m256, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_set1_ps, _mm256_setzero_ps,
        _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };

    use super::{CHAINS, Input, LANES, Mask};

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn chain_sums(window: &Mask, input: &Input, chains: [(usize, usize); CHAINS]) -> [f32; CHAINS] {
        let mut sums = [_mm256_setzero_ps(); CHAINS / LANES];
        let (groups, _) = chains.as_chunks::<LANES>();
        for (k, row) in window.coefficients().chunks_exact(window.width()).enumerate() {
            let (blocks, rest) = row.as_chunks::<LANES>();
            for (block, coefficients) in blocks.iter().enumerate() {
                for (sum, group) in sums.iter_mut().zip(groups) {
                    let pixels = pixels(input, group, k, block * LANES);
                    // Unrolled: with a length that is not constant, the transposed vectors would be in memory.
                    for i in 0..LANES {
                        *sum = _mm256_fmadd_ps(_mm256_set1_ps(coefficients[i]), pixels[i], *sum);
                    }
                }
            }
            if !rest.is_empty() {
                for (sum, group) in sums.iter_mut().zip(groups) {
                    // They may be beyond the window; `Input` has room behind the last row.
                    let pixels = pixels(input, group, k, blocks.len() * LANES);
                    for (&coefficient, pixel) in rest.iter().zip(pixels) {
                        *sum = _mm256_fmadd_ps(_mm256_set1_ps(coefficient), pixel, *sum);
                    }
                }
            }
        }
        let mut values = [0.0; CHAINS];
        for (to, sum) in values.chunks_exact_mut(LANES).zip(sums) {
            // SAFETY: the chunk has LANES values.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), sum) };
        }
        values
    }

    /// Pixels `l..l + LANES` of row `k` of each window, a vector for each of them.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn pixels(input: &Input, windows: &[(usize, usize); LANES], k: usize, l: usize) -> [__m256; LANES] {
        transposed(windows.map(|(x, y)| {
            let pixels = &input.values[(y + k) * input.stride + x + l..][..LANES];
            // SAFETY: the slice has LANES values.
            unsafe { _mm256_loadu_ps(pixels.as_ptr()) }
        }))
    }

    /// Value `j` of vector `i` becomes value `i` of vector `j`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn transposed(v: [__m256; LANES]) -> [__m256; LANES] {
        // Pairs of vectors, then fours, within each half of a vector; then the halves.
        let low = |i: usize| _mm256_unpacklo_ps(v[i], v[i + 1]);
        let high = |i: usize| _mm256_unpackhi_ps(v[i], v[i + 1]);
        let fours = |i: usize| {
            [
                _mm256_shuffle_ps::<0x44>(low(i), low(i + 2)),
                _mm256_shuffle_ps::<0xee>(low(i), low(i + 2)),
                _mm256_shuffle_ps::<0x44>(high(i), high(i + 2)),
                _mm256_shuffle_ps::<0xee>(high(i), high(i + 2)),
            ]
        };
        let (a, b) = (fours(0), fours(4));
        std::array::from_fn(|j| match j {
            0..4 => _mm256_permute2f128_ps::<0x20>(a[j], b[j]),
            _ => _mm256_permute2f128_ps::<0x31>(a[j - 4], b[j - 4]),
        })
    }
}

/// Which windows contain a pixel of some kind. The table (a summed-area table) has, for each place, the number of such
/// pixels above and to the left.
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
