//! Arithmetic with a fixed rounding.

/// `a * b + c` with one rounding: PTX `fma.rn.f32`, bit-exact with [`f32::mul_add`] on a CPU.
///
/// rustc does not fuse a product and a sum by itself. Subnormal numbers are kept.
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

/// The square root, rounded to nearest: PTX `sqrt.rn.f32`, bit-exact with [`f32::sqrt`] on a CPU.
#[inline(always)]
#[must_use]
pub fn sqrt(value: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        core::f32::math::sqrt(value)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        value.sqrt()
    }
}

/// The nearest integer, saturated to 0 to 65,535: PTX `cvt.rni.u16.f32`. Ties round to even, and NaN becomes 0.
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
        // SAFETY: the instruction computes with registers and accesses no memory.
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
        // NaN is not greater than 0 and becomes 0.
        let value = if value > 0.0 { value } else { 0.0 };
        let value = if value < 65_535.0 { value } else { 65_535.0 };
        // From 2^23 on every f32 is an integer: the sum is rounded to one, and its lowest bits are the result.
        // `round_ties_even` would be a function call on baseline x86-64.
        ((value + 8_388_608.0).to_bits() & 0xffff) as u16
    }
}
