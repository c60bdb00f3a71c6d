//! Numbers of 16 bits with the range of an `f32`, two to a word: bfloat16, the upper half of an `f32`, 8 digits.

/// `low` and `high`, each rounded to the nearest such number, a half to the even one; `low` in the lower half of the word. What is too large
/// becomes infinite. PTX `cvt.rn.bf16x2.f32`, from compute capability 8.0 on.
///
/// ```
/// use cuda_std::bf16::{pack, unpack};
///
/// assert_eq!(pack(1.0, -2.0), 0xc000_3f80);
/// assert_eq!(unpack(pack(1.0 + 1.0 / 512.0, 1.0 + 1.0 / 128.0)), [1.0, 1.0078125]);
/// ```
#[inline(always)]
#[must_use]
pub fn pack(low: f32, high: f32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let word: u32;
        // SAFETY: arithmetic on registers.
        unsafe {
            core::arch::asm!(
                "cvt.rn.bf16x2.f32 {word}, {high}, {low};",
                word = out(reg32) word, high = in(reg32) high, low = in(reg32) low,
                options(nostack, nomem, pure, preserves_flags),
            );
        }
        word
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        u32::from(of_f32(low)) | u32::from(of_f32(high)) << 16
    }
}

/// The two numbers of a word, the lower half's first.
#[inline(always)]
#[must_use]
pub const fn unpack(word: u32) -> [f32; 2] {
    [f32::from_bits(word << 16), f32::from_bits(word & 0xffff_0000)]
}

/// The nearest number of 16 bits.
#[cfg(not(target_arch = "nvptx64"))]
fn of_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return 0x7fff;
    }
    // Half of what the digits that go are worth, less if the last one that stays is even.
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::{of_f32, pack, unpack};

    #[test]
    fn each_number_is_its_own_nearest() {
        for word in 0..=u16::MAX {
            let [value, zero] = unpack(u32::from(word));
            assert_eq!(zero, 0.0);
            if value.is_nan() {
                assert!(unpack(pack(value, 0.0))[0].is_nan());
            } else {
                assert_eq!(of_f32(value), word, "{value}");
            }
        }
    }

    /// Just below, at and just above the middle of each two neighbours.
    #[test]
    fn middles_go_to_the_even_one() {
        for word in 0..0x7f80_u16 {
            let middle = u32::from(word) << 16 | 0x8000;
            let even = word + (word & 1);
            assert_eq!(of_f32(f32::from_bits(middle)), even);
            assert_eq!(of_f32(-f32::from_bits(middle)), even | 0x8000);
            assert_eq!(of_f32(f32::from_bits(middle - 1)), word);
            assert_eq!(of_f32(f32::from_bits(middle + 1)), word + 1);
        }
        assert_eq!([f32::MAX, f32::INFINITY, -0.0, f32::from_bits(1)].map(of_f32), [0x7f80, 0x7f80, 0x8000, 0]);
    }
}
