//! Uncertain results in the lanes of vectors of AVX-512: a chain in each lane.

use std::arch::x86_64::*;

use super::{AT_ONCE, Places, Recompute, Windows};

/// More than one, as a step of a chain waits for the one before.
const VECTORS: usize = AT_ONCE / 16;
/// Coefficients at once: the bytes of 128 bits.
const TAPS: usize = 16;

/// [`Recompute::group`].
///
/// # Safety
/// - The CPU has AVX-512 F, BW, VL and VBMI.
/// - As for [`Recompute::window_rows`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,fma")]
pub(super) unsafe fn sums(
    recompute: &Recompute<'_>,
    windows: &mut Windows,
    places: &Places,
    count: usize,
    inside: bool,
) -> [f32; AT_ONCE] {
    let (window, step) = (recompute.problem.window(), recompute.problem.format().channels);
    // Every byte that is `step` from the one before.
    let mut order = [0_u8; 64];
    for (at, byte) in order.iter_mut().enumerate() {
        *byte = (at * step % 64) as u8;
    }
    // SAFETY: `order` is 64 bytes.
    let order = unsafe { _mm512_loadu_si512(order.as_ptr().cast()) };
    let vectors = count.div_ceil(16);
    let (mut sums, byte) = ([_mm512_setzero_ps(); VECTORS], _mm512_set1_epi32(255));
    for (k, coefficients) in recompute.coefficients.chunks_exact(window.width().next_multiple_of(4)).enumerate() {
        // SAFETY: this function requires of places and windows what `window_rows` does.
        let rows = unsafe { recompute.window_rows(windows, places, count, inside, k) };
        for (group, coefficients) in coefficients.chunks(TAPS).enumerate() {
            for (sum, rows) in sums.iter_mut().zip(rows.chunks_exact(16)).take(vectors) {
                // SAFETY: each row has 64 bytes from its last coefficient's pixel on.
                let bytes = unsafe { transposed(rows, group * TAPS * step, step, order) };
                for (&bytes, coefficients) in bytes.iter().zip(coefficients.as_chunks::<4>().0) {
                    let pixels = [
                        _mm512_and_si512(bytes, byte),
                        _mm512_and_si512(_mm512_srli_epi32::<8>(bytes), byte),
                        _mm512_and_si512(_mm512_srli_epi32::<16>(bytes), byte),
                        _mm512_srli_epi32::<24>(bytes),
                    ];
                    for (&pixels, &coefficient) in pixels.iter().zip(coefficients) {
                        *sum = _mm512_fmadd_ps(_mm512_set1_ps(coefficient), _mm512_cvtepi32_ps(pixels), *sum);
                    }
                }
            }
        }
    }
    let mut lanes = [0.0_f32; AT_ONCE];
    for (lanes, &sum) in lanes.chunks_exact_mut(16).zip(&sums) {
        // SAFETY: `lanes` is 16 values.
        unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), sum) };
    }
    lanes
}

/// The bytes `first`, `first + step` and so on of 16 rows: byte i % 4 of lane c of vector i / 4 is byte i of row c.
///
/// # Safety
/// There are 16 rows, of at least `first + 64` bytes; as for [`sums`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
#[inline]
unsafe fn transposed(rows: &[&[u8]], first: usize, step: usize, order: __m512i) -> [__m512i; 4] {
    // Row 4 i + g in 128 bits number i of vector g.
    let mut quarters = [_mm512_setzero_si512(); 4];
    for (g, quarter) in quarters.iter_mut().enumerate() {
        let mut parts = [_mm_setzero_si128(); 4];
        for (i, part) in parts.iter_mut().enumerate() {
            // SAFETY: 4 i + g < 16, and the row has 64 bytes from `first` on.
            *part = unsafe {
                let from = rows.get_unchecked(4 * i + g).as_ptr().add(first);
                if step == 1 {
                    _mm_loadu_si128(from.cast())
                } else {
                    _mm512_castsi512_si128(_mm512_permutexvar_epi8(order, _mm512_loadu_si512(from.cast())))
                }
            };
        }
        let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(parts[0]), parts[1]);
        let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(parts[2]), parts[3]);
        *quarter = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
    }
    let [a, b, c, d] = quarters;
    let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
    let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab, cd),
        _mm512_unpackhi_epi64(ab, cd),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}
