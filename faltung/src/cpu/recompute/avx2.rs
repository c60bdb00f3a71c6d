//! Ordered sums of windows in the lanes of vectors of AVX2: a chain in each lane.

use std::arch::x86_64::*;

use super::{AT_ONCE, Windows};

/// Windows of a vector, and coefficients at once.
const LANES: usize = 8;
/// Vectors at once, as a step of a chain waits for the one before.
const VECTORS: usize = 4;

/// [`Windows::add_to`].
///
/// # Safety
/// - The CPU has AVX2 and FMA.
/// - As for [`Windows::add_to`].
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn add(windows: &Windows<'_>, sums: &mut [f32; AT_ONCE]) {
    let groups = windows.begins.as_chunks::<{ LANES * VECTORS }>().0.iter();
    let sums = sums.as_chunks_mut::<{ LANES * VECTORS }>().0;
    for (begins, sums) in groups.zip(sums).take(windows.count.div_ceil(LANES * VECTORS)) {
        // SAFETY: this function requires what `add_vectors` does.
        unsafe { add_vectors(windows, begins, sums) };
    }
}

/// [`add`] for the windows that begin at `begins`.
///
/// # Safety
/// As for [`add`].
#[target_feature(enable = "avx2,fma")]
unsafe fn add_vectors(windows: &Windows<'_>, begins: &[*const u8; LANES * VECTORS], sums: &mut [f32; LANES * VECTORS]) {
    let &Windows { stride, step, coefficients, .. } = windows;
    // Byte `i * step` of 32 as byte i, from the first and from the second 16 bytes. The first bit makes a 0.
    let mut order = [[0x80_u8; 16]; 2];
    for i in 0..LANES {
        order[i * step / 16][i] = (i * step % 16) as u8;
    }
    // SAFETY: each is 16 bytes.
    let order = unsafe { [_mm_loadu_si128(order[0].as_ptr().cast()), _mm_loadu_si128(order[1].as_ptr().cast())] };
    let mut chains = [_mm256_setzero_ps(); VECTORS];
    for (chain, sums) in chains.iter_mut().zip(sums.chunks_exact(LANES)) {
        // SAFETY: `sums` is eight values.
        *chain = unsafe { _mm256_loadu_ps(sums.as_ptr()) };
    }
    for (k, coefficients) in coefficients.chunks_exact(windows.pitch()).enumerate() {
        for (group, coefficients) in coefficients.chunks(LANES).enumerate() {
            let first = k * stride + group * LANES * step;
            for (chain, begins) in chains.iter_mut().zip(begins.chunks_exact(LANES)) {
                // SAFETY: each row of a window has SPARE bytes after its last pixel.
                let bytes = unsafe { transposed(begins, first, step, order) };
                for (pair, coefficients) in bytes.into_iter().zip(coefficients.chunks_exact(2)) {
                    let pixels = [pair, _mm_srli_si128::<8>(pair)];
                    for (pixels, &coefficient) in pixels.into_iter().zip(coefficients) {
                        let pixels = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(pixels));
                        *chain = _mm256_fmadd_ps(_mm256_set1_ps(coefficient), pixels, *chain);
                    }
                }
            }
        }
    }
    for (sums, &chain) in sums.chunks_exact_mut(LANES).zip(&chains) {
        // SAFETY: `sums` is eight values.
        unsafe { _mm256_storeu_ps(sums.as_mut_ptr(), chain) };
    }
}

/// The bytes `first`, `first + step` and so on of eight rows: byte c of vector i is byte 2 i of row c, byte 8 + c
/// is byte 2 i + 1.
///
/// # Safety
/// There are eight rows, of at least `first + 32` bytes; as for [`add`].
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn transposed(begins: &[*const u8], first: usize, step: usize, order: [__m128i; 2]) -> [__m128i; 4] {
    let mut parts = [_mm_setzero_si128(); LANES];
    for (part, begin) in parts.iter_mut().zip(begins) {
        // SAFETY: the row has 32 bytes from `first` on.
        *part = unsafe {
            let from = begin.add(first);
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
