//! NEON. Neither stores past the caches nor prefetches: nobody has measured them here on an Arm CPU.

use std::arch::aarch64::{float32x4_t, vdupq_n_f32, vfmaq_f32, vld1q_f32, vst1q_f32};

use super::{Level, Simd, Work};

/// # Safety
/// The CPU has NEON.
#[target_feature(enable = "neon")]
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
}
