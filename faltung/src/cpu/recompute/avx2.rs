//! Uncertain results in the lanes of vectors of AVX2: a chain in each lane.

use std::arch::x86_64::*;

use super::{AT_ONCE, Places, Recompute, Windows};

/// Results in a vector, and coefficients at once.
const LANES: usize = 8;
const VECTORS: usize = AT_ONCE / LANES;

/// [`Recompute::group`].
///
/// # Safety
/// - The CPU has AVX2 and FMA.
/// - As for [`Recompute::window_rows`].
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn sums(
    recompute: &Recompute<'_>,
    windows: &mut Windows,
    places: &Places,
    count: usize,
    inside: bool,
) -> [f32; AT_ONCE] {
    let (window, step) = (recompute.problem.window(), recompute.problem.format().channels);
    // Byte `i * step` of 32 as byte i, from the first and from the second 16 bytes. The first bit makes a 0.
    let mut order = [[0x80_u8; 16]; 2];
    for i in 0..LANES {
        order[i * step / 16][i] = (i * step % 16) as u8;
    }
    // SAFETY: each is 16 bytes.
    let order = unsafe { [_mm_loadu_si128(order[0].as_ptr().cast()), _mm_loadu_si128(order[1].as_ptr().cast())] };
    let vectors = count.div_ceil(LANES);
    let mut sums = [_mm256_setzero_ps(); VECTORS];
    for (k, coefficients) in recompute.coefficients.chunks_exact(window.width().next_multiple_of(4)).enumerate() {
        // SAFETY: this function requires of places and windows what `window_rows` does.
        let rows = unsafe { recompute.window_rows(windows, places, count, inside, k) };
        for (group, coefficients) in coefficients.chunks(LANES).enumerate() {
            for (sum, rows) in sums.iter_mut().zip(rows.chunks_exact(LANES)).take(vectors) {
                // SAFETY: each row has 64 bytes from its last coefficient's pixel on.
                let bytes = unsafe { transposed(rows, group * LANES * step, step, order) };
                for (pair, coefficients) in bytes.into_iter().zip(coefficients.chunks_exact(2)) {
                    let pixels = [pair, _mm_srli_si128::<8>(pair)];
                    for (pixels, &coefficient) in pixels.into_iter().zip(coefficients) {
                        let pixels = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(pixels));
                        *sum = _mm256_fmadd_ps(_mm256_set1_ps(coefficient), pixels, *sum);
                    }
                }
            }
        }
    }
    let mut lanes = [0.0_f32; AT_ONCE];
    for (lanes, &sum) in lanes.chunks_exact_mut(LANES).zip(&sums) {
        // SAFETY: `lanes` is eight values.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sum) };
    }
    lanes
}

/// The bytes `first`, `first + step` and so on of eight rows: byte c of vector i is byte 2 i of row c, byte 8 + c
/// is byte 2 i + 1.
///
/// # Safety
/// There are eight rows, of at least `first + 32` bytes; as for [`sums`].
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn transposed(rows: &[&[u8]], first: usize, step: usize, order: [__m128i; 2]) -> [__m128i; 4] {
    let mut parts = [_mm_setzero_si128(); LANES];
    for (part, row) in parts.iter_mut().zip(rows) {
        // SAFETY: the row has 32 bytes from `first` on.
        *part = unsafe {
            let from = row.as_ptr().add(first);
            if step == 1 {
                _mm_loadl_epi64(from.cast())
            } else {
                let (low, high) = (_mm_loadu_si128(from.cast()), _mm_loadu_si128(from.add(16).cast()));
                _mm_or_si128(_mm_shuffle_epi8(low, order[0]), _mm_shuffle_epi8(high, order[1]))
            }
        };
    }
    let [a, b, c, d, e, f, g, h] = parts;
    let (ab, cd) = (_mm_unpacklo_epi8(a, b), _mm_unpacklo_epi8(c, d));
    let (ef, gh) = (_mm_unpacklo_epi8(e, f), _mm_unpacklo_epi8(g, h));
    let (low, low_high) = (_mm_unpacklo_epi16(ab, cd), _mm_unpackhi_epi16(ab, cd));
    let (high, high_high) = (_mm_unpacklo_epi16(ef, gh), _mm_unpackhi_epi16(ef, gh));
    [
        _mm_unpacklo_epi32(low, high),
        _mm_unpackhi_epi32(low, high),
        _mm_unpacklo_epi32(low_high, high_high),
        _mm_unpackhi_epi32(low_high, high_high),
    ]
}
