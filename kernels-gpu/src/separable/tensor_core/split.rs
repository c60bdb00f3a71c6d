//! Numbers split for the tensor cores, and their products.

use cuda_std::bf16;
use cuda_std::mma::{mma_m16n8k8_tf32, mma_m16n8k16_bf16};

/// A coefficient as its first 11 significant bits, rounded, and the residual.
#[derive(Clone, Copy)]
struct Split {
    high: f32,
    low: f32,
}

impl Split {
    /// `value == high + low`.
    #[inline(always)]
    fn of(value: f32) -> Self {
        let high = f32::from_bits(value.to_bits().wrapping_add(0x1000) & !0x1fff);
        Self { high, low: value - high }
    }
}

/// A pixel, or a filtered pixel, as an operand of matrix products.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    /// The full value. The tensor cores use only its first 11 significant bits.
    value: f32,
    /// `bf16` of the residual (low half) and of the full value (high half).
    pair: u32,
}

impl Operand {
    /// The split of `value`. The `tf32` part is truncated: rounding it would take one instruction more.
    #[inline(always)]
    pub(super) fn of(value: f32) -> Self {
        let low = value - f32::from_bits(value.to_bits() & !0x1fff);
        Self { value, pair: bf16::pack(low, value) }
    }
}

/// The high parts of coefficients, in the order of [`mma_m16n8k8_tf32`].
#[inline(always)]
pub(super) fn tf32_parts(values: [f32; 4]) -> [f32; 4] {
    values.map(|value| Split::of(value).high)
}

/// Each coefficient and its residual as `bf16`: the factors of a pixel's `pair`.
#[inline(always)]
pub(super) fn bf16_pairs(values: [f32; 4]) -> [f32; 4] {
    values.map(|value| f32::from_bits(bf16::pack(value, Split::of(value).low)))
}

/// Adds the products of 16 rows of coefficients with pixels, as [`bf16_pairs`].
///
/// # Safety
/// All 32 lanes of the warp execute this call together.
#[inline(always)]
pub(super) unsafe fn add_bf16(pairs: [f32; 4], pixels: [Operand; 2], sums: [f32; 4]) -> [f32; 4] {
    // SAFETY: all lanes of the warp are here.
    unsafe { mma_m16n8k16_bf16(pairs.map(f32::to_bits), pixels.map(|pixel| pixel.pair), sums) }
}

/// Adds the products of 16 rows of coefficients with pixels, as [`tf32_parts`].
///
/// # Safety
/// All 32 lanes of the warp execute this call together.
#[inline(always)]
pub(super) unsafe fn add_tf32(high: [f32; 4], pixels: [Operand; 2], sums: [f32; 4]) -> [f32; 4] {
    // SAFETY: all lanes of the warp are here.
    unsafe { mma_m16n8k8_tf32(high, pixels.map(|pixel| pixel.value), sums) }
}

/// Adds the products of 16 columns of filtered pixels with coefficients, as [`bf16_pairs`].
///
/// # Safety
/// All 32 lanes of the warp execute this call together.
#[inline(always)]
pub(super) unsafe fn add_bf16_columns(filtered: &[Operand; 4], pairs: [f32; 2], sums: [f32; 4]) -> [f32; 4] {
    let [a, b, c, d] = filtered.map(|operand| operand.pair);
    // SAFETY: all lanes of the warp are here.
    unsafe { mma_m16n8k16_bf16([a, c, b, d], pairs.map(f32::to_bits), sums) }
}

/// Adds the products of 16 columns of filtered pixels with coefficients, as [`tf32_parts`].
///
/// # Safety
/// All 32 lanes of the warp execute this call together.
#[inline(always)]
pub(super) unsafe fn add_tf32_columns(filtered: &[Operand; 4], high: [f32; 2], sums: [f32; 4]) -> [f32; 4] {
    let [a, b, c, d] = filtered.map(|operand| operand.value);
    // SAFETY: all lanes of the warp are here.
    unsafe { mma_m16n8k8_tf32([a, c, b, d], high, sums) }
}
