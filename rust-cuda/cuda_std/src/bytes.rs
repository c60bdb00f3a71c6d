//! Bytes that become floats, and floats that become bytes, four to a word and in fewer instructions than a conversion each.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

/// PTX `prmt`: a word of four bytes of `a` (0 to 3) and `b` (4 to 7), each named by a hexadecimal digit of `selector`.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let word: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!(
            "prmt.b32 {word}, {a}, {b}, {selector};",
            word = out(reg32) word, a = in(reg32) a, b = in(reg32) b, selector = in(reg32) selector,
            options(nostack, nomem, pure, preserves_flags),
        );
    }
    word
}

/// PTX `cvt.rni.u8`: the nearest whole number, saturated, in a word.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn byte(value: f32) -> u32 {
    let byte: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!(
            "cvt.rni.u8.f32 {byte}, {value};",
            byte = out(reg32) byte, value = in(reg32) value,
            options(nostack, nomem, pure, preserves_flags),
        );
    }
    byte
}

/// Byte `i` of `word`, the lowest being 0. On the device a permutation of bytes makes `2^23 + byte`, from which `2^23` is subtracted:
/// both exact.
///
/// ```
/// assert_eq!([0, 1, 2, 3].map(|i| cuda_std::bytes::float_of_byte(0xff_80_01_00, i)), [0.0, 1.0, 128.0, 255.0]);
/// ```
#[inline(always)]
#[must_use]
pub fn float_of_byte(word: u32, i: usize) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        // From the highest on: 0x4b, 0, 0 of the constant, which is 2^23 as a float, and the byte.
        let float: f32;
        let selector: u32 = 0x7540 | i as u32;
        // SAFETY: arithmetic on registers.
        unsafe {
            asm!(
                "prmt.b32 {float}, {word}, 0x4B000000, {selector};",
                float = out(reg32) float, word = in(reg32) word, selector = in(reg32) selector,
                options(nostack, nomem, pure, preserves_flags),
            );
        }
        float - 8_388_608.0
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        f32::from((word >> (8 * i)) as u8)
    }
}

/// Four values as the bytes of a word, the first one lowest: the nearest whole number, a half to the even one, saturated; NaN becomes 0.
///
/// ```
/// assert_eq!(cuda_std::bytes::word_of([0.5, 1.5, -3.0, 1e9]).to_le_bytes(), [0, 2, 0, 255]);
/// ```
#[inline(always)]
#[must_use]
pub fn word_of(values: [f32; 4]) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let [a, b, c, d] = values;
        permute(permute(byte(a), byte(b), 0x0040), permute(byte(c), byte(d), 0x0040), 0x5410)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        u32::from_le_bytes(values.map(|value| crate::round_to_u16(value).min(255) as u8))
    }
}

/// Two whole numbers as the two lowest bytes of a word, `low` the lowest; saturated: PTX `cvt.pack.sat.u8.s32`, from compute
/// capability 7.2 on.
///
/// ```
/// assert_eq!(cuda_std::bytes::saturated_pair(-7, 300).to_le_bytes(), [0, 255, 0, 0]);
/// ```
#[inline(always)]
#[must_use]
pub fn saturated_pair(low: i32, high: i32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let pair: u32;
        // SAFETY: arithmetic on registers.
        unsafe {
            asm!(
                "cvt.pack.sat.u8.s32.b32 {pair}, {high}, {low}, 0;",
                pair = out(reg32) pair, high = in(reg32) high, low = in(reg32) low,
                options(nostack, nomem, pure, preserves_flags),
            );
        }
        pair
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        (low.clamp(0, 255) | high.clamp(0, 255) << 8) as u32
    }
}

/// `bits` with one more at its lower end: whether `value` is at least `limit`, which is not 0. Two additions, the second with the
/// first one's carry.
///
/// ```
/// assert_eq!(cuda_std::bytes::with_at_least(0b10, 7, 7), 0b101);
/// assert_eq!(cuda_std::bytes::with_at_least(0b10, 6, 7), 0b100);
/// ```
#[inline(always)]
#[must_use]
pub fn with_at_least(bits: u32, value: u32, limit: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let more: u32;
        // SAFETY: arithmetic on registers.
        unsafe {
            asm!(
                "{{ .reg .u32 sum; add.cc.u32 sum, {value}, {complement}; addc.u32 {more}, {bits}, {bits}; }}",
                more = lateout(reg32) more, bits = in(reg32) bits, value = in(reg32) value,
                complement = in(reg32) limit.wrapping_neg(),
                options(nostack, nomem, pure, preserves_flags),
            );
        }
        more
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        bits << 1 | u32::from(value >= limit)
    }
}

/// Four pairs of bytes, two in each word, as four first and four second ones.
///
/// ```
/// assert_eq!(cuda_std::bytes::unzipped(0x04_03_02_01, 0x08_07_06_05), [0x07_05_03_01, 0x08_06_04_02]);
/// ```
#[inline(always)]
#[must_use]
pub fn unzipped(a: u32, b: u32) -> [u32; 2] {
    #[cfg(target_arch = "nvptx64")]
    {
        [permute(a, b, 0x6420), permute(a, b, 0x7531)]
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let ([a, b, c, d], [e, f, g, h]) = (a.to_le_bytes(), b.to_le_bytes());
        [u32::from_le_bytes([a, c, e, g]), u32::from_le_bytes([b, d, f, h])]
    }
}
