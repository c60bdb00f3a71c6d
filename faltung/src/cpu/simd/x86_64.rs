//! AVX2 and AVX-512.

use std::arch::asm;
use std::arch::x86_64::*;

use super::{Dot, Level, Simd, Work};

/// # Safety
/// The CPU has AVX-512 F, BW, DQ and VL, and what [`avx2`] requires.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi1,popcnt")]
#[inline(never)]
pub(super) unsafe fn avx512<W: Work>(work: W) -> W::Output {
    work.run::<_, { Level::Avx512.vectors() }>(Avx512(()))
}

/// # Safety
/// The CPU has AVX2, FMA, BMI1 and POPCNT.
#[target_feature(enable = "avx2,fma,bmi1,popcnt")]
#[inline(never)]
pub(super) unsafe fn avx2<W: Work>(work: W) -> W::Output {
    work.run::<_, { Level::Avx2.vectors() }>(Avx2(()))
}

/// One instance. The operations of the first lines differ in the names of the instructions only.
macro_rules! instance {
    ($name:ident, $run:ident, $vector:ty, $splat:ident, $fma:ident, $load:ident, $store:ident, $stream:ident,
     $add:ident, $sub:ident, $doubles:ty, $splat_f64:ident, $add_f64:ident, $sub_f64:ident, $mul_f64:ident,
     $load_f64:ident, $store_f64:ident, $shorts:ty, $splat_u16:ident, $add_u16:ident, $mul_u16:ident,
     $load_u16:ident, $store_u16:ident, $and_u16:ident, $sub_u16:ident, $mulhi_u16:ident, $shift_u16:ident, $keep:ident,
     { $($own:tt)* }) => {
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
            #[inline(always)]
            fn outlined<W: Work>(self, work: W) -> W::Output {
                // SAFETY: `self` proves that the CPU has the instructions.
                unsafe { $run(work) }
            }
            #[inline(always)]
            fn keep(self, vector: $vector) -> $vector {
                // SAFETY: as in `splat`.
                unsafe { $keep(vector) }
            }
            #[inline(always)]
            fn add(self, a: $vector, b: $vector) -> $vector {
                // SAFETY: as in `splat`.
                unsafe { $add(a, b) }
            }
            #[inline(always)]
            fn sub(self, a: $vector, b: $vector) -> $vector {
                // SAFETY: as in `splat`.
                unsafe { $sub(a, b) }
            }

            type Doubles = $doubles;

            #[inline(always)]
            fn splat_f64(self, value: f64) -> $doubles {
                // SAFETY: as in `splat`.
                unsafe { $splat_f64(value) }
            }
            #[inline(always)]
            fn add_f64(self, a: $doubles, b: $doubles) -> $doubles {
                // SAFETY: as in `splat`.
                unsafe { $add_f64(a, b) }
            }
            #[inline(always)]
            fn sub_f64(self, a: $doubles, b: $doubles) -> $doubles {
                // SAFETY: as in `splat`.
                unsafe { $sub_f64(a, b) }
            }
            #[inline(always)]
            fn mul_f64(self, a: $doubles, b: $doubles) -> $doubles {
                // SAFETY: as in `splat`.
                unsafe { $mul_f64(a, b) }
            }
            #[inline(always)]
            unsafe fn load_f64(self, from: *const f64) -> $doubles {
                // SAFETY: as in `splat`; the caller promises the memory.
                unsafe { $load_f64(from) }
            }
            #[inline(always)]
            unsafe fn store_f64(self, to: *mut f64, vector: $doubles) {
                // SAFETY: as in `splat`; the caller promises the memory.
                unsafe { $store_f64(to, vector) }
            }

            type Shorts = $shorts;

            #[inline(always)]
            fn splat_shorts(self, value: u16) -> $shorts {
                // SAFETY: as in `splat`.
                unsafe { $splat_u16(value.cast_signed()) }
            }
            #[inline(always)]
            fn add_shorts(self, a: $shorts, b: $shorts) -> $shorts {
                // SAFETY: as in `splat`.
                unsafe { $add_u16(a, b) }
            }
            #[inline(always)]
            fn mul_shorts(self, a: $shorts, b: $shorts) -> $shorts {
                // SAFETY: as in `splat`.
                unsafe { $mul_u16(a, b) }
            }
            #[inline(always)]
            unsafe fn load_shorts(self, from: *const u16) -> $shorts {
                // SAFETY: as in `splat`; the caller promises the memory.
                unsafe { $load_u16(from.cast()) }
            }
            #[inline(always)]
            unsafe fn store_shorts(self, to: *mut u16, vector: $shorts) {
                // SAFETY: as in `splat`; the caller promises the memory.
                unsafe { $store_u16(to.cast(), vector) }
            }
            #[inline(always)]
            fn and_shorts(self, a: $shorts, b: $shorts) -> $shorts {
                // SAFETY: as in `splat`.
                unsafe { $and_u16(a, b) }
            }
            #[inline(always)]
            fn sub_shorts(self, a: $shorts, b: $shorts) -> $shorts {
                // SAFETY: as in `splat`.
                unsafe { $sub_u16(a, b) }
            }
            #[inline(always)]
            fn mul_high_shorts(self, a: $shorts, b: &$shorts) -> $shorts {
                // SAFETY: as in `splat`; `b` is a reference.
                unsafe { $mulhi_u16(a, std::ptr::read_volatile(b)) }
            }
            #[inline(always)]
            fn shift_right_shorts(self, a: $shorts, count: u32) -> $shorts {
                // SAFETY: as in `splat`.
                unsafe { $shift_u16(a, _mm_cvtsi32_si128(count.cast_signed())) }
            }
            $($own)*
        }
    };
}
instance! { Avx512, avx512, __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_storeu_ps,
    _mm512_stream_ps, _mm512_add_ps, _mm512_sub_ps, __m512d, _mm512_set1_pd, _mm512_add_pd, _mm512_sub_pd,
    _mm512_mul_pd, _mm512_loadu_pd, _mm512_storeu_pd, __m512i, _mm512_set1_epi16, _mm512_add_epi16,
    _mm512_mullo_epi16, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_and_si512, _mm512_sub_epi16, _mm512_mulhi_epu16,
    _mm512_srl_epi16, keep_512, {
    #[inline(always)]
    fn splat_pairs(self, value: u32) -> __m512i {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe { _mm512_set1_epi32(value.cast_signed()) }
    }
    #[inline(always)]
    fn dot_pairs<D: Dot>(self, _: D, sums: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves that the CPU has the instructions, and a value of `D` that it has VNNI.
        unsafe { if D::VNNI { dot_512(sums, a, b) } else { _mm512_add_epi32(sums, _mm512_madd_epi16(a, b)) } }
    }
    #[inline(always)]
    fn join_pairs(self, even: __m512i, odd: __m512i, shift: u32) -> __m512i {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe {
            let low = _mm512_srlv_epi32(even, _mm512_set1_epi32(shift.cast_signed()));
            let high = _mm512_sllv_epi32(odd, _mm512_set1_epi32((16 - shift).cast_signed()));
            _mm512_mask_blend_epi16(0xaaaa_aaaa, low, high)
        }
    }
    #[inline(always)]
    fn low_bytes_below(self, a: __m512i, limit: u16) -> u32 {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe {
            let low = _mm512_and_si512(a, _mm512_set1_epi16(255));
            _mm512_cmplt_epu16_mask(low, _mm512_set1_epi16(limit.cast_signed()))
        }
    }
    #[inline(always)]
    unsafe fn load_u8_shorts(self, from: *const u8) -> __m512i {
        // SAFETY: `self` proves that the CPU has the instructions; the caller promises the memory.
        unsafe { _mm512_cvtepu8_epi16(_mm256_loadu_si256(from.cast())) }
    }
    #[inline(always)]
    unsafe fn store_shorts_u8(self, to: *mut u8, vector: __m512i) {
        // SAFETY: as in `load_u8_shorts`.
        unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtepi16_epi8(vector)) }
    }
    #[inline(always)]
    unsafe fn load_wide(self, from: *const f32) -> __m512d {
        // SAFETY: `self` proves that the CPU has the instructions; the caller promises the memory.
        unsafe { _mm512_cvtps_pd(_mm256_loadu_ps(from)) }
    }
    #[inline(always)]
    unsafe fn load_u8(self, from: *const u8) -> __m512 {
        // SAFETY: `self` proves that the CPU has the instructions; the caller promises the memory.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()))) }
    }
    #[inline(always)]
    unsafe fn load_u16(self, from: *const u16) -> __m512 {
        // SAFETY: as in `load_u8`.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()))) }
    }
    #[inline(always)]
    unsafe fn store_u8<const N: usize>(self, to: *mut u8, vectors: &[__m512; N]) {
        // SAFETY: as in `load_u8`.
        unsafe {
            // Loops, as a closure is not compiled with the instructions of its function.
            let mut whole = [_mm512_setzero_si512(); N];
            for (whole, &vector) in whole.iter_mut().zip(vectors) {
                *whole = whole_512(vector, 255.0);
            }
            if let [a, b, c, d] = whole[..] {
                // Within each 128 bits: four values of a, of b, of c, of d.
                let bytes = _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
                let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
                _mm512_storeu_si512(to.cast(), _mm512_permutexvar_epi32(order, bytes));
                return;
            }
            for (i, whole) in whole.into_iter().enumerate() {
                let positive = _mm512_max_epi32(whole, _mm512_setzero_si512());
                _mm_storeu_si128(to.cast::<__m128i>().add(i), _mm512_cvtepi32_epi8(positive));
            }
        }
    }
    #[inline(always)]
    unsafe fn store_u16<const N: usize>(self, to: *mut u16, vectors: &[__m512; N]) {
        for (i, &vector) in vectors.iter().enumerate() {
            // SAFETY: as in `load_u8`.
            unsafe {
                let positive = _mm512_max_epi32(whole_512(vector, 65_535.0), _mm512_setzero_si512());
                _mm256_storeu_si256(to.cast::<__m256i>().add(i), _mm512_cvtepi32_epi16(positive));
            }
        }
    }
    #[inline(always)]
    fn far_from_whole(self, vector: __m512, limit: f32) -> u16 {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe {
            // What rounding to the nearest whole number, half to even, leaves.
            let rest = _mm512_reduce_ps::<0>(vector);
            _mm512_cmp_ps_mask::<_CMP_GT_OQ>(_mm512_abs_ps(rest), _mm512_set1_ps(limit))
        }
    }
    #[inline(always)]
    fn any_far_from_whole<const N: usize>(self, vectors: &[__m512; N], limit: f32) -> bool {
        /// `_mm512_range_ps`: the larger one of both magnitudes, with the sign 0.
        const LARGER_MAGNITUDE: i32 = 0b10_11;
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe {
            let mut most = _mm512_setzero_ps();
            for &vector in vectors {
                most = _mm512_range_ps::<LARGER_MAGNITUDE>(most, _mm512_reduce_ps::<0>(vector));
            }
            _mm512_cmp_ps_mask::<_CMP_GT_OQ>(most, _mm512_set1_ps(limit)) != 0
        }
    }
    #[inline(always)]
    fn differ_without_fractions(self, a: __m512, b: __m512) -> u16 {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe { _mm512_cmpneq_epi32_mask(_mm512_cvttps_epi32(a), _mm512_cvttps_epi32(b)) }
    }
    #[inline(always)]
    fn below(self, vector: __m512, limit: f32) -> u16 {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(vector, _mm512_set1_ps(limit)) }
    }
}}
instance! { Avx2, avx2, __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_stream_ps,
    _mm256_add_ps, _mm256_sub_ps, __m256d, _mm256_set1_pd, _mm256_add_pd, _mm256_sub_pd, _mm256_mul_pd,
    _mm256_loadu_pd, _mm256_storeu_pd, __m256i, _mm256_set1_epi16, _mm256_add_epi16,
    _mm256_mullo_epi16, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_and_si256, _mm256_sub_epi16, _mm256_mulhi_epu16,
    _mm256_srl_epi16, keep_256, {
    #[inline(always)]
    fn splat_pairs(self, value: u32) -> __m256i {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe { _mm256_set1_epi32(value.cast_signed()) }
    }
    #[inline(always)]
    fn dot_pairs<D: Dot>(self, _: D, sums: __m256i, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe { _mm256_add_epi32(sums, _mm256_madd_epi16(a, b)) }
    }
    #[inline(always)]
    fn join_pairs(self, even: __m256i, odd: __m256i, shift: u32) -> __m256i {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe {
            let low = _mm256_srlv_epi32(even, _mm256_set1_epi32(shift.cast_signed()));
            let high = _mm256_sllv_epi32(odd, _mm256_set1_epi32((16 - shift).cast_signed()));
            _mm256_blend_epi16::<0xaa>(low, high)
        }
    }
    #[inline(always)]
    fn low_bytes_below(self, a: __m256i, limit: u16) -> u32 {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe {
            let low = _mm256_and_si256(a, _mm256_set1_epi16(255));
            let below = _mm256_cmpgt_epi16(_mm256_set1_epi16(limit.cast_signed()), low);
            let bytes = _mm_packs_epi16(_mm256_castsi256_si128(below), _mm256_extracti128_si256::<1>(below));
            _mm_movemask_epi8(bytes).cast_unsigned()
        }
    }
    #[inline(always)]
    unsafe fn load_u8_shorts(self, from: *const u8) -> __m256i {
        // SAFETY: `self` proves that the CPU has the instructions; the caller promises the memory.
        unsafe { _mm256_cvtepu8_epi16(_mm_loadu_si128(from.cast())) }
    }
    #[inline(always)]
    unsafe fn store_shorts_u8(self, to: *mut u8, vector: __m256i) {
        // SAFETY: as in `load_u8_shorts`.
        unsafe {
            let bytes = _mm_packus_epi16(_mm256_castsi256_si128(vector), _mm256_extracti128_si256::<1>(vector));
            _mm_storeu_si128(to.cast(), bytes);
        }
    }
    #[inline(always)]
    unsafe fn load_wide(self, from: *const f32) -> __m256d {
        // SAFETY: `self` proves that the CPU has the instructions; the caller promises the memory.
        unsafe { _mm256_cvtps_pd(_mm_loadu_ps(from)) }
    }
    #[inline(always)]
    unsafe fn load_u8(self, from: *const u8) -> __m256 {
        // SAFETY: `self` proves that the CPU has the instructions; the caller promises the memory.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()))) }
    }
    #[inline(always)]
    unsafe fn load_u16(self, from: *const u16) -> __m256 {
        // SAFETY: as in `load_u8`.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()))) }
    }
    #[inline(always)]
    unsafe fn store_u8<const N: usize>(self, to: *mut u8, vectors: &[__m256; N]) {
        // SAFETY: as in `load_u8`.
        unsafe {
            let mut words = [_mm_setzero_si128(); N];
            for (words, &vector) in words.iter_mut().zip(vectors) {
                *words = words_256(vector, 255.0);
            }
            for (i, words) in words.chunks(2).enumerate() {
                let to = to.add(16 * i).cast();
                match *words {
                    [a, b] => _mm_storeu_si128(to, _mm_packus_epi16(a, b)),
                    [a] => _mm_storel_epi64(to, _mm_packus_epi16(a, a)),
                    _ => unreachable!("one or two"),
                }
            }
        }
    }
    #[inline(always)]
    unsafe fn store_u16<const N: usize>(self, to: *mut u16, vectors: &[__m256; N]) {
        for (i, &vector) in vectors.iter().enumerate() {
            // SAFETY: as in `load_u8`.
            unsafe { _mm_storeu_si128(to.cast::<__m128i>().add(i), words_256(vector, 65_535.0)) };
        }
    }
    #[inline(always)]
    fn far_from_whole(self, vector: __m256, limit: f32) -> u16 {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe {
            let rest = _mm256_sub_ps(vector, _mm256_round_ps::<_MM_FROUND_TO_NEAREST_INT>(vector));
            let size = _mm256_andnot_ps(_mm256_set1_ps(-0.0), rest);
            let far = _mm256_cmp_ps::<_CMP_GT_OQ>(size, _mm256_set1_ps(limit));
            _mm256_movemask_ps(far) as u16
        }
    }
    #[inline(always)]
    fn any_far_from_whole<const N: usize>(self, vectors: &[__m256; N], limit: f32) -> bool {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe {
            let mut most = _mm256_setzero_ps();
            for &vector in vectors {
                let rest = _mm256_sub_ps(vector, _mm256_round_ps::<_MM_FROUND_TO_NEAREST_INT>(vector));
                // `max` returns its second operand if the first is NaN.
                most = _mm256_max_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0), rest), most);
            }
            _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(most, _mm256_set1_ps(limit))) != 0
        }
    }
    #[inline(always)]
    fn differ_without_fractions(self, a: __m256, b: __m256) -> u16 {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe {
            let same = _mm256_cmpeq_epi32(_mm256_cvttps_epi32(a), _mm256_cvttps_epi32(b));
            !_mm256_movemask_ps(_mm256_castsi256_ps(same)) as u16 & 255
        }
    }
    #[inline(always)]
    fn below(self, vector: __m256, limit: f32) -> u16 {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(vector, _mm256_set1_ps(limit))) as u16 }
    }
}}

/// [`Simd::dot_pairs`] in one instruction. LLVM makes two of `_mm512_dpwssd_epi32`, as for CPUs where it is slow.
///
/// # Safety
/// The CPU has AVX-512 VNNI.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn dot_512(mut sums: __m512i, a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: the CPU has the instruction, as this function requires. It reads and writes registers alone.
    unsafe {
        asm!("vpdpwssd {0}, {1}, {2}", inout(zmm_reg) sums, in(zmm_reg) a, in(zmm_reg) b,
             options(pure, nomem, nostack, preserves_flags));
    }
    sums
}

/// [`Simd::keep`].
#[target_feature(enable = "avx512f")]
#[inline]
fn keep_512(mut vector: __m512) -> __m512 {
    // SAFETY: nothing but a comment.
    unsafe { asm!("/* {0} */", inout(zmm_reg) vector, options(nomem, nostack, preserves_flags)) };
    vector
}

/// [`Simd::keep`].
#[target_feature(enable = "avx")]
#[inline]
fn keep_256(mut vector: __m256) -> __m256 {
    // SAFETY: nothing but a comment.
    unsafe { asm!("/* {0} */", inout(ymm_reg) vector, options(nomem, nostack, preserves_flags)) };
    vector
}

/// The lanes rounded half to even, at most `most`. NaN becomes a negative number.
#[inline(always)]
fn whole_512(vector: __m512, most: f32) -> __m512i {
    // `min` returns its second operand if either is NaN; the conversion makes `i32::MIN` of that.
    // SAFETY: only the instances of AVX-512 call this.
    unsafe { _mm512_cvtps_epi32(_mm512_min_ps(_mm512_set1_ps(most), vector)) }
}

/// The lanes rounded half to even, within `0..=most`. NaN becomes 0.
#[inline(always)]
fn words_256(vector: __m256, most: f32) -> __m128i {
    // `min` returns its second operand if either is NaN; the conversion makes `i32::MIN` of that, and the pack 0.
    // SAFETY: only the instances of AVX2 call this.
    unsafe {
        let whole = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_set1_ps(most), vector));
        _mm_packus_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256::<1>(whole))
    }
}
