//! bfloat16, two to a word. It is the upper half of an `f32`: the same exponent and 8 significant bits.

/// Rounds `low` and `high` to bfloat16: PTX `cvt.rn.bf16x2.f32`, from compute capability 8.0 on.
///
/// `low` is the lower half of the word. Ties round to even. A value that is too large becomes infinite.
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
        // SAFETY: the instruction computes with registers and accesses no memory.
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

/// The two values of a word, the lower half first.
#[inline(always)]
#[must_use]
pub const fn unpack(word: u32) -> [f32; 2] {
    [f32::from_bits(word << 16), f32::from_bits(word & 0xffff_0000)]
}

/// The nearest bfloat16; ties round to even.
#[cfg(not(target_arch = "nvptx64"))]
fn of_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return 0x7fff;
    }
    // Adds half of the last place that stays, less one bit if that place is even.
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::{of_f32, pack, unpack};

    #[test]
    fn a_bfloat16_rounds_to_itself() {
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

    /// Just below, at and just above the middle of two neighbours.
    #[test]
    fn ties_round_to_even() {
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
