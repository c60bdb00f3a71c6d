//! NEON. Neither stores past the caches nor prefetches: nobody has measured them here on an Arm CPU.

use std::arch::aarch64::*;

use super::{Dot, Level, Simd, Work};

/// # Safety
/// The CPU has NEON.
#[target_feature(enable = "neon")]
#[inline(never)]
pub(super) unsafe fn neon<W: Work>(work: W) -> W::Output {
    work.run::<_, { Level::Neon.vectors() }>(Neon(()))
}

/// [`Level::Neon`].
#[derive(Clone, Copy)]
struct Neon(());

impl Simd for Neon {
    type Vector = float32x4_t;
    const LANES: usize = size_of::<float32x4_t>() / size_of::<f32>();

    #[inline(always)]
    fn splat(self, value: f32) -> float32x4_t {
        // SAFETY: `self` proves that the CPU has the instruction.
        unsafe { vdupq_n_f32(value) }
    }
    #[inline(always)]
    fn fma(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        // The addend comes first here.
        // SAFETY: as in `splat`.
        unsafe { vfmaq_f32(c, a, b) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> float32x4_t {
        // SAFETY: as in `splat`; `from` holds four values, as this function requires.
        unsafe { vld1q_f32(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, vector: float32x4_t) {
        // SAFETY: as in `splat`; `to` has room for four values, as this function requires.
        unsafe { vst1q_f32(to, vector) }
    }
    #[inline(always)]
    fn outlined<W: Work>(self, work: W) -> W::Output {
        // SAFETY: as in `splat`.
        unsafe { neon(work) }
    }
    #[inline(always)]
    fn add(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: as in `splat`.
        unsafe { vaddq_f32(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: as in `splat`.
        unsafe { vsubq_f32(a, b) }
    }

    type Doubles = float64x2_t;

    #[inline(always)]
    fn splat_f64(self, value: f64) -> float64x2_t {
        // SAFETY: as in `splat`.
        unsafe { vdupq_n_f64(value) }
    }
    #[inline(always)]
    fn add_f64(self, a: float64x2_t, b: float64x2_t) -> float64x2_t {
        // SAFETY: as in `splat`.
        unsafe { vaddq_f64(a, b) }
    }
    #[inline(always)]
    fn sub_f64(self, a: float64x2_t, b: float64x2_t) -> float64x2_t {
        // SAFETY: as in `splat`.
        unsafe { vsubq_f64(a, b) }
    }
    #[inline(always)]
    fn mul_f64(self, a: float64x2_t, b: float64x2_t) -> float64x2_t {
        // SAFETY: as in `splat`.
        unsafe { vmulq_f64(a, b) }
    }
    #[inline(always)]
    unsafe fn load_f64(self, from: *const f64) -> float64x2_t {
        // SAFETY: as in `splat`; `from` holds two values, as this function requires.
        unsafe { vld1q_f64(from) }
    }
    #[inline(always)]
    unsafe fn load_wide(self, from: *const f32) -> float64x2_t {
        // SAFETY: `self` proves that the CPU has the instructions; the caller promises the memory.
        unsafe { vcvt_f64_f32(vld1_f32(from)) }
    }
    #[inline(always)]
    unsafe fn store_f64(self, to: *mut f64, vector: float64x2_t) {
        // SAFETY: as in `splat`; `to` has room for two values, as this function requires.
        unsafe { vst1q_f64(to, vector) }
    }

    type Shorts = uint16x8_t;

    #[inline(always)]
    fn splat_shorts(self, value: u16) -> uint16x8_t {
        // SAFETY: as in `splat`.
        unsafe { vdupq_n_u16(value) }
    }
    #[inline(always)]
    fn add_shorts(self, a: uint16x8_t, b: uint16x8_t) -> uint16x8_t {
        // SAFETY: as in `splat`.
        unsafe { vaddq_u16(a, b) }
    }
    #[inline(always)]
    fn mul_shorts(self, a: uint16x8_t, b: uint16x8_t) -> uint16x8_t {
        // SAFETY: as in `splat`.
        unsafe { vmulq_u16(a, b) }
    }
    #[inline(always)]
    unsafe fn load_shorts(self, from: *const u16) -> uint16x8_t {
        // SAFETY: as in `splat`; `from` holds eight values, as this function requires.
        unsafe { vld1q_u16(from) }
    }
    #[inline(always)]
    unsafe fn store_shorts(self, to: *mut u16, vector: uint16x8_t) {
        // SAFETY: as in `splat`; `to` has room for eight values, as this function requires.
        unsafe { vst1q_u16(to, vector) }
    }

    #[inline(always)]
    fn and_shorts(self, a: uint16x8_t, b: uint16x8_t) -> uint16x8_t {
        // SAFETY: as in `splat`.
        unsafe { vandq_u16(a, b) }
    }
    #[inline(always)]
    fn sub_shorts(self, a: uint16x8_t, b: uint16x8_t) -> uint16x8_t {
        // SAFETY: as in `splat`.
        unsafe { vsubq_u16(a, b) }
    }
    #[inline(always)]
    fn mul_high_shorts(self, a: uint16x8_t, &b: &uint16x8_t) -> uint16x8_t {
        // SAFETY: as in `splat`.
        unsafe {
            let (low, high) = (vmull_u16(vget_low_u16(a), vget_low_u16(b)), vmull_high_u16(a, b));
            vcombine_u16(vshrn_n_u32::<16>(low), vshrn_n_u32::<16>(high))
        }
    }
    #[inline(always)]
    fn shift_right_shorts(self, a: uint16x8_t, count: u32) -> uint16x8_t {
        // A shift to the left by a negative number.
        // SAFETY: as in `splat`.
        unsafe { vshlq_u16(a, vdupq_n_s16(-(count as i16))) }
    }
    #[inline(always)]
    fn splat_pairs(self, value: u32) -> uint16x8_t {
        // SAFETY: as in `splat`.
        unsafe { vreinterpretq_u16_u32(vdupq_n_u32(value)) }
    }
    #[inline(always)]
    fn dot_pairs<D: Dot>(self, _: D, sums: uint16x8_t, a: uint16x8_t, b: uint16x8_t) -> uint16x8_t {
        // SAFETY: as in `splat`.
        unsafe {
            let (a, b) = (vreinterpretq_s16_u16(a), vreinterpretq_s16_u16(b));
            let (low, high) = (vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b));
            let sums = vaddq_s32(vreinterpretq_s32_u16(sums), vpaddq_s32(low, high));
            vreinterpretq_u16_s32(sums)
        }
    }
    #[inline(always)]
    fn join_pairs(self, even: uint16x8_t, odd: uint16x8_t, shift: u32) -> uint16x8_t {
        // SAFETY: as in `splat`.
        unsafe {
            // A shift to the left by a negative number.
            let shift = vdupq_n_s32(-(shift as i32));
            let low = vreinterpretq_u16_u32(vshlq_u32(vreinterpretq_u32_u16(even), shift));
            let high = vreinterpretq_u16_u32(vshlq_u32(vreinterpretq_u32_u16(odd), shift));
            vtrn1q_u16(low, high)
        }
    }
    #[inline(always)]
    fn low_bytes_below(self, a: uint16x8_t, limit: u16) -> u32 {
        const BITS: [u16; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
        // SAFETY: as in `splat`; BITS is eight values.
        unsafe {
            let below = vcltq_u16(vandq_u16(a, vdupq_n_u16(255)), vdupq_n_u16(limit));
            vaddvq_u16(vandq_u16(below, vld1q_u16(BITS.as_ptr()))).into()
        }
    }
    #[inline(always)]
    unsafe fn load_u8_shorts(self, from: *const u8) -> uint16x8_t {
        // SAFETY: as in `load`.
        unsafe { vmovl_u8(vld1_u8(from)) }
    }
    #[inline(always)]
    unsafe fn store_shorts_u8(self, to: *mut u8, vector: uint16x8_t) {
        // SAFETY: as in `store`.
        unsafe { vst1_u8(to, vmovn_u16(vector)) }
    }
    #[inline(always)]
    unsafe fn load_u8(self, from: *const u8) -> float32x4_t {
        // SAFETY: as in `load`.
        unsafe {
            let bytes = vcreate_u8(from.cast::<u32>().read_unaligned().into());
            vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))))
        }
    }
    #[inline(always)]
    unsafe fn load_u16(self, from: *const u16) -> float32x4_t {
        // SAFETY: as in `load`.
        unsafe { vcvtq_f32_u32(vmovl_u16(vld1_u16(from))) }
    }
    #[inline(always)]
    unsafe fn store_u8<const N: usize>(self, to: *mut u8, vectors: &[float32x4_t; N]) {
        for (i, &vector) in vectors.iter().enumerate() {
            // SAFETY: as in `store`, of N vectors.
            unsafe {
                let words = words(vector);
                let bytes = vreinterpret_u32_u8(vqmovn_u16(vcombine_u16(words, words)));
                to.cast::<u32>().add(i).write_unaligned(vget_lane_u32::<0>(bytes));
            }
        }
    }
    #[inline(always)]
    unsafe fn store_u16<const N: usize>(self, to: *mut u16, vectors: &[float32x4_t; N]) {
        for (i, &vector) in vectors.iter().enumerate() {
            // SAFETY: as in `store`, of N vectors.
            unsafe { vst1_u16(to.add(4 * i), words(vector)) };
        }
    }
    #[inline(always)]
    fn far_from_whole(self, vector: float32x4_t, limit: f32) -> u16 {
        // SAFETY: as in `splat`.
        unsafe {
            let rest = vsubq_f32(vector, vrndnq_f32(vector));
            bits(vcgtq_f32(vabsq_f32(rest), vdupq_n_f32(limit)))
        }
    }
    #[inline(always)]
    fn differ_without_fractions(self, a: float32x4_t, b: float32x4_t) -> u16 {
        // SAFETY: as in `splat`.
        unsafe { bits(vmvnq_u32(vceqq_s32(vcvtq_s32_f32(a), vcvtq_s32_f32(b)))) }
    }
    #[inline(always)]
    fn below(self, vector: float32x4_t, limit: f32) -> u16 {
        // SAFETY: as in `splat`.
        bits(unsafe { vcltq_f32(vector, vdupq_n_f32(limit)) })
    }
}

/// A bit for each lane that is all ones; the others are 0.
#[inline(always)]
fn bits(lanes: uint32x4_t) -> u16 {
    const BITS: [u32; 4] = [1, 2, 4, 8];
    // SAFETY: NEON is a part of every AArch64; BITS is four values.
    unsafe { vaddvq_u32(vandq_u32(lanes, vld1q_u32(BITS.as_ptr()))) as u16 }
}

/// The lanes rounded half to even, within `0..=65535`. NaN becomes 0.
#[inline(always)]
fn words(vector: float32x4_t) -> uint16x4_t {
    // The conversion saturates, and makes 0 of NaN.
    // SAFETY: NEON is a part of every AArch64.
    unsafe { vqmovun_s32(vcvtnq_s32_f32(vector)) }
}
