//! Ordered sums of windows in the lanes of vectors of AVX-512: a chain in each lane.

use std::arch::x86_64::*;

use super::{AT_ONCE, Windows};

/// Windows of a vector.
const LANES: usize = 16;
/// Coefficients at once: the bytes of 128 bits.
const TAPS: usize = 16;

/// [`Windows::add_to`].
///
/// # Safety
/// - The CPU has AVX-512 F, BW, VL and VBMI.
/// - As for [`Windows::add_to`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,fma")]
pub(super) unsafe fn add(windows: &Windows<'_>, sums: &mut [f32; AT_ONCE]) {
    // SAFETY: this function requires what `add_vectors` does.
    unsafe {
        match windows.count.div_ceil(LANES) {
            1 => add_vectors::<1>(windows, sums),
            2 => add_vectors::<2>(windows, sums),
            _ => add_vectors::<{ AT_ONCE / LANES }>(windows, sums),
        }
    }
}

/// [`add`] for the windows of the first `VECTORS` vectors. More than one, as a step of a chain waits for the one
/// before.
///
/// # Safety
/// As for [`add`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,fma")]
unsafe fn add_vectors<const VECTORS: usize>(windows: &Windows<'_>, sums: &mut [f32; AT_ONCE]) {
    let &Windows { ref begins, stride, coefficients, step, .. } = windows;
    // Every byte that is `step` from the one before.
    let mut order = [0_u8; 64];
    for (at, byte) in order.iter_mut().enumerate() {
        *byte = (at * step % 64) as u8;
    }
    // SAFETY: `order` is 64 bytes.
    let order = unsafe { _mm512_loadu_si512(order.as_ptr().cast()) };
    let mut chains = [_mm512_setzero_ps(); VECTORS];
    for (chain, sums) in chains.iter_mut().zip(sums.chunks_exact(LANES)) {
        // SAFETY: `sums` is 16 values.
        *chain = unsafe { _mm512_loadu_ps(sums.as_ptr()) };
    }
    let byte = _mm512_set1_epi32(255);
    for (k, coefficients) in coefficients.chunks_exact(windows.pitch()).enumerate() {
        for (group, coefficients) in coefficients.chunks(TAPS).enumerate() {
            let first = k * stride + group * TAPS * step;
            let mut bytes = [[_mm512_setzero_si512(); 4]; VECTORS];
            for (bytes, begins) in bytes.iter_mut().zip(begins.chunks_exact(LANES)) {
                // SAFETY: each row of a window has SPARE bytes after its last pixel.
                *bytes = unsafe { transposed(begins, first, step, order) };
            }
            let words = coefficients.as_chunks::<4>().0;
            // A constant number, so that all vectors stay in registers.
            for i in 0..TAPS / 4 {
                if i == words.len() {
                    break;
                }
                let [a, b, c, d] = words[i];
                for (chain, bytes) in chains.iter_mut().zip(&bytes) {
                    let pixels = _mm512_cvtepi32_ps(_mm512_and_si512(bytes[i], byte));
                    *chain = _mm512_fmadd_ps(_mm512_set1_ps(a), pixels, *chain);
                }
                for (chain, bytes) in chains.iter_mut().zip(&bytes) {
                    let pixels = _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32::<8>(bytes[i]), byte));
                    *chain = _mm512_fmadd_ps(_mm512_set1_ps(b), pixels, *chain);
                }
                for (chain, bytes) in chains.iter_mut().zip(&bytes) {
                    let pixels = _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32::<16>(bytes[i]), byte));
                    *chain = _mm512_fmadd_ps(_mm512_set1_ps(c), pixels, *chain);
                }
                for (chain, bytes) in chains.iter_mut().zip(&bytes) {
                    let pixels = _mm512_cvtepi32_ps(_mm512_srli_epi32::<24>(bytes[i]));
                    *chain = _mm512_fmadd_ps(_mm512_set1_ps(d), pixels, *chain);
                }
            }
        }
    }
    for (sums, &chain) in sums.chunks_exact_mut(LANES).zip(&chains) {
        // SAFETY: `sums` is 16 values.
        unsafe { _mm512_storeu_ps(sums.as_mut_ptr(), chain) };
    }
}

/// The bytes `first`, `first + step` and so on of 16 rows: byte i % 4 of lane c of vector i / 4 is byte i of row c.
///
/// # Safety
/// There are 16 rows, of at least `first + 64` bytes; as for [`add`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
#[inline]
unsafe fn transposed(begins: &[*const u8], first: usize, step: usize, order: __m512i) -> [__m512i; 4] {
    // Row 4 i + g in 128 bits number i of vector g.
    let mut quarters = [_mm512_setzero_si512(); 4];
    for (g, quarter) in quarters.iter_mut().enumerate() {
        let mut parts = [_mm_setzero_si128(); 4];
        for (i, part) in parts.iter_mut().enumerate() {
            // SAFETY: 4 i + g < 16, and the row has 64 bytes from `first` on.
            *part = unsafe {
                let from = begins.get_unchecked(4 * i + g).add(first);
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
