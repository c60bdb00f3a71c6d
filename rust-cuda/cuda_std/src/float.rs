//! Arithmetic that must round as written.

/// `a * b + c` with one rounding: PTX `fma.rn.f32`, the same bits as [`f32::mul_add`] on a CPU.
///
/// rustc never fuses a product and a sum by itself, so what is written as `fma` is fused and nothing else is.
/// Denormal numbers are kept.
#[inline(always)]
#[must_use]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        core::f32::math::mul_add(a, b, c)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        a.mul_add(b, c)
    }
}
