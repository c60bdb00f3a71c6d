//! AVX2 and AVX-512.

use std::arch::x86_64::{
    __m256, __m512, _MM_HINT_T1, _mm_prefetch, _mm_sfence, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps,
    _mm256_storeu_ps, _mm256_stream_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_storeu_ps,
    _mm512_stream_ps,
};

use super::{Level, Simd, Work};

/// # Safety
/// The CPU has AVX-512F, BW, DQ and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn avx512<W: Work>(work: W) -> W::Output {
    work.run::<_, { Level::Avx512.vectors() }>(Avx512(()))
}

/// # Safety
/// The CPU has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn avx2<W: Work>(work: W) -> W::Output {
    work.run::<_, { Level::Avx2.vectors() }>(Avx2(()))
}

/// One instance. They differ in the names of the instructions only.
macro_rules! instance {
    ($name:ident, $vector:ty, $splat:ident, $fma:ident, $load:ident, $store:ident, $stream:ident) => {
        /// The level of this name.
        #[derive(Clone, Copy)]
        struct $name(());

        impl Simd for $name {
            type Vector = $vector;
            const LANES: usize = size_of::<$vector>() / size_of::<f32>();

            #[inline(always)]
            fn splat(self, value: f32) -> $vector {
                // SAFETY: `self` proves that the CPU has the instruction.
                unsafe { $splat(value) }
            }
            #[inline(always)]
            fn fma(self, a: $vector, b: $vector, c: $vector) -> $vector {
                // SAFETY: as in `splat`.
                unsafe { $fma(a, b, c) }
            }
            #[inline(always)]
            unsafe fn load(self, from: *const f32) -> $vector {
                // SAFETY: as in `splat`; the caller promises the memory.
                unsafe { $load(from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut f32, vector: $vector) {
                // SAFETY: as in `splat`; the caller promises the memory.
                unsafe { $store(to, vector) }
            }
            #[inline(always)]
            unsafe fn stream(self, to: *mut f32, vector: $vector) {
                // SAFETY: as in `splat`; the caller promises the memory, its alignment and the fence.
                unsafe { $stream(to, vector) }
            }
            #[inline(always)]
            fn fence(self) {
                // SAFETY: SSE, which every x86-64 has.
                unsafe { _mm_sfence() }
            }
            #[inline(always)]
            fn prefetch(self, at: *const f32) {
                // SAFETY: SSE, which every x86-64 has; a hint, which accesses nothing.
                unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
            }
        }
    };
}
instance!(Avx512, __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_stream_ps);
instance!(Avx2, __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_stream_ps);
