//! Numbers in two parts, and their products.

use cuda_std::bf16;
use cuda_std::mma::{mma_m16n8k8_tf32, mma_m16n8k16_bf16};

/// A coefficient as its first 11 digits, rounded, and what is left.
#[derive(Clone, Copy)]
struct Parts {
    high: f32,
    low: f32,
}

impl Parts {
    /// `value == high + low`.
    #[inline(always)]
    fn of(value: f32) -> Self {
        let high = f32::from_bits(value.to_bits().wrapping_add(0x1000) & !0x1fff);
        Self { high, low: value - high }
    }
}

/// A pixel, or a sum of pixels, as a factor of products.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    /// All of it, of which the tensor cores take the first 11 digits.
    high: f32,
    /// What is left, and all of it, in 8 digits each.
    pair: u32,
}

impl Factor {
    /// The first digits are not rounded, which would take one instruction more.
    #[inline(always)]
    pub(super) fn of(value: f32) -> Self {
        let low = value - f32::from_bits(value.to_bits() & !0x1fff);
        Self { high: value, pair: bf16::pack(low, value) }
    }
}

/// The first digits of coefficients as factors, in the order of [`mma_m16n8k8_tf32`].
#[inline(always)]
pub(super) fn high(values: [f32; 4]) -> [f32; 4] {
    values.map(|value| Parts::of(value).high)
}

/// All of coefficients and what is left of them, in 8 digits each: what pixels' [`Factor::pair`] are multiplied with.
#[inline(always)]
pub(super) fn pairs(values: [f32; 4]) -> [f32; 4] {
    values.map(|value| f32::from_bits(bf16::pack(value, Parts::of(value).low)))
}

/// Adds the products of 16 rows of coefficients' [`pairs`] with pixels.
///
/// # Safety
/// All 32 lanes of the warp execute this call together.
#[inline(always)]
pub(super) unsafe fn add_low(pairs: [f32; 4], pixels: [Factor; 2], sums: [f32; 4]) -> [f32; 4] {
    // SAFETY: all lanes are here, as required above; the block is whole warps.
    unsafe { mma_m16n8k16_bf16(pairs.map(f32::to_bits), pixels.map(|pixel| pixel.pair), sums) }
}

/// The same of the first digits.
///
/// # Safety
/// All 32 lanes of the warp execute this call together.
#[inline(always)]
pub(super) unsafe fn add_high(high: [f32; 4], pixels: [Factor; 2], sums: [f32; 4]) -> [f32; 4] {
    // SAFETY: all lanes are here, as required above; the block is whole warps.
    unsafe { mma_m16n8k8_tf32(high, pixels.map(|pixel| pixel.high), sums) }
}

/// Adds the products of 16 columns of filtered pixels with coefficients' [`pairs`].
///
/// # Safety
/// All 32 lanes of the warp execute this call together.
#[inline(always)]
pub(super) unsafe fn add_low_columns(filtered: &[Factor; 4], pairs: [f32; 2], sums: [f32; 4]) -> [f32; 4] {
    let [a, b, c, d] = filtered.map(|factor| factor.pair);
    // SAFETY: all lanes are here, as required above; the block is whole warps.
    unsafe { mma_m16n8k16_bf16([a, c, b, d], pairs.map(f32::to_bits), sums) }
}

/// Adds those of the first digits.
///
/// # Safety
/// All 32 lanes of the warp execute this call together.
#[inline(always)]
pub(super) unsafe fn add_high_columns(filtered: &[Factor; 4], high: [f32; 2], sums: [f32; 4]) -> [f32; 4] {
    let [a, b, c, d] = filtered.map(|factor| factor.high);
    // SAFETY: all lanes are here, as required above; the block is whole warps.
    unsafe { mma_m16n8k8_tf32([a, c, b, d], high, sums) }
}
