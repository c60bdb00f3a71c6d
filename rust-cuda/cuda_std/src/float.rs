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

/// The nearest whole number, a half to the even one, saturated to 0 to 65,535; NaN becomes 0: PTX `cvt.rni.u16.f32`.
///
/// ```
/// use cuda_std::round_to_u16;
///
/// assert_eq!([0.5, 1.5, 2.5, -3.0, 1e9, f32::NAN].map(round_to_u16), [0, 2, 2, 0, 65_535, 0]);
/// ```
#[inline(always)]
#[must_use]
pub fn round_to_u16(value: f32) -> u16 {
    #[cfg(target_arch = "nvptx64")]
    {
        let rounded: u16;
        // SAFETY: arithmetic on registers.
        unsafe {
            core::arch::asm!(
                "cvt.rni.u16.f32 {rounded}, {value};",
                rounded = out(reg16) rounded, value = in(reg32) value,
                options(nostack, nomem, pure, preserves_flags),
            );
        }
        rounded
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        // NaN is not greater than 0, and becomes it.
        let value = if value > 0.0 { value } else { 0.0 };
        let value = if value < 65_535.0 { value } else { 65_535.0 };
        // Of 2^23 and more only whole numbers are f32s: the sum is rounded to one, and its last bits are it. Without an instruction for
        // rounding, which the oldest x86-64 lacks, a function would be called for each value.
        ((value + 8_388_608.0).to_bits() & 0xffff) as u16
    }
}
