//! Ordered sums of windows in the lanes of vectors of AVX2: a chain in each lane.

use std::arch::x86_64::*;

use super::{AT_ONCE, Windows};

/// Windows of a vector.
const LANES: usize = 8;
/// Vectors at once, as a step of a chain waits for the one before.
const VECTORS: usize = 4;
/// Coefficients at once: the bytes of 128 bits.
const TAPS: usize = 16;

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
    // Byte `i * step` of 64 as byte i, from each 16 bytes. The first bit makes a 0.
    let mut order = [[0x80_u8; 16]; 4];
    for i in 0..TAPS {
        order[i * step / 16][i] = (i * step % 16) as u8;
    }
    let mut chains = [_mm256_setzero_ps(); VECTORS];
    for (chain, sums) in chains.iter_mut().zip(sums.chunks_exact(LANES)) {
        // SAFETY: `sums` is eight values.
        *chain = unsafe { _mm256_loadu_ps(sums.as_ptr()) };
    }
    let byte = _mm256_set1_epi32(255);
    for (k, coefficients) in coefficients.chunks_exact(windows.pitch()).enumerate() {
        for (group, coefficients) in coefficients.chunks(TAPS).enumerate() {
            let first = k * stride + group * TAPS * step;
            let mut bytes = [[_mm256_setzero_si256(); 4]; VECTORS];
            for (bytes, begins) in bytes.iter_mut().zip(begins.chunks_exact(LANES)) {
                // SAFETY: each row of a window has SPARE bytes after its last pixel.
                *bytes = unsafe { transposed(begins, first, step, &order) };
            }
            let words = coefficients.as_chunks::<4>().0;
            // A constant number, so that the loop is unrolled.
            for i in 0..TAPS / 4 {
                if i == words.len() {
                    break;
                }
                macro_rules! add {
                    ($number:literal) => {
                        let coefficient = _mm256_set1_ps(words[i][$number]);
                        for v in 0..VECTORS {
                            let pixels = _mm256_and_si256(_mm256_srli_epi32::<{ 8 * $number }>(bytes[v][i]), byte);
                            chains[v] = _mm256_fmadd_ps(coefficient, _mm256_cvtepi32_ps(pixels), chains[v]);
                        }
                    };
                }
                add!(0);
                add!(1);
                add!(2);
                add!(3);
            }
        }
    }
    for (sums, &chain) in sums.chunks_exact_mut(LANES).zip(&chains) {
        // SAFETY: `sums` is eight values.
        unsafe { _mm256_storeu_ps(sums.as_mut_ptr(), chain) };
    }
}

/// The bytes `first`, `first + step` and so on of eight rows: byte i % 4 of lane c of vector i / 4 is byte i of row c.
///
/// # Safety
/// There are eight rows, of at least `first + 64` bytes; as for [`add`].
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn transposed(begins: &[*const u8], first: usize, step: usize, order: &[[u8; 16]; 4]) -> [__m256i; 4] {
    // Row g in the low 128 bits of vector g, row 4 + g in the high ones.
    let mut halves = [_mm256_setzero_si256(); 4];
    for (g, half) in halves.iter_mut().enumerate() {
        // SAFETY: 4 + g < 8, and the rows have 64 bytes from `first` on. Only so many are read.
        let [low, high] = [g, 4 + g].map(|row| unsafe { begins.get_unchecked(row).add(first) });
        // SAFETY: as above.
        *half = unsafe {
            if step == 1 {
                _mm256_inserti128_si256::<1>(
                    _mm256_castsi128_si256(_mm_loadu_si128(low.cast())),
                    _mm_loadu_si128(high.cast()),
                )
            } else {
                let mut picked = _mm256_setzero_si256();
                for (part, order) in order.iter().enumerate().take(step) {
                    let order = _mm256_broadcastsi128_si256(_mm_loadu_si128(order.as_ptr().cast()));
                    let bytes = _mm256_inserti128_si256::<1>(
                        _mm256_castsi128_si256(_mm_loadu_si128(low.add(16 * part).cast())),
                        _mm_loadu_si128(high.add(16 * part).cast()),
                    );
                    picked = _mm256_or_si256(picked, _mm256_shuffle_epi8(bytes, order));
                }
                picked
            }
        };
    }
    let [a, b, c, d] = halves;
    let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
    let (ab_high, cd_high) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab, cd),
        _mm256_unpackhi_epi64(ab, cd),
        _mm256_unpacklo_epi64(ab_high, cd_high),
        _mm256_unpackhi_epi64(ab_high, cd_high),
    ]
}
