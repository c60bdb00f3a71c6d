//! Conversions between `f32` and bytes packed in words, in fewer instructions than one conversion each.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

/// Selects four bytes of `a` and `b`: PTX `prmt`, `__byte_perm` in CUDA C++.
///
/// Each hexadecimal digit of `selector` names one byte of the result, from the lowest on: 0 to 3 is a byte of `a`, 4 to
/// 7 one of `b`. A digit of 8 to f names the byte of that digit minus 8, and gives its highest bit eight times: 00 or
/// ff.
///
/// ```
/// assert_eq!(cuda_std::bytes::byte_perm(0x33_22_11_00, 0x77_66_55_44, 0x7250), 0x77_22_55_00);
/// assert_eq!(cuda_std::bytes::byte_perm(0x80_7f_11_00, 0x80_66_55_44, 0xba3f), 0xff_00_80_ff);
/// ```
#[inline(always)]
#[must_use]
pub fn byte_perm(a: u32, b: u32, selector: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let word: u32;
        // SAFETY: the instruction computes with registers and accesses no memory.
        unsafe {
            asm!(
                "prmt.b32 {word}, {a}, {b}, {selector};",
                word = out(reg32) word, a = in(reg32) a, b = in(reg32) b, selector = in(reg32) selector,
                options(nostack, nomem, pure, preserves_flags),
            );
        }
        word
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
        u32::from_le_bytes([0, 4, 8, 12].map(|digit| {
            let byte = bytes[(selector >> digit & 7) as usize];
            if selector >> digit & 8 == 0 { byte } else { (byte as i8 >> 7) as u8 }
        }))
    }
}

/// The nearest integer, saturated to a byte: PTX `cvt.rni.u8.f32`.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn byte(value: f32) -> u32 {
    let byte: u32;
    // SAFETY: the instruction computes with registers and accesses no memory.
    unsafe {
        asm!(
            "cvt.rni.u8.f32 {byte}, {value};",
            byte = out(reg32) byte, value = in(reg32) value,
            options(nostack, nomem, pure, preserves_flags),
        );
    }
    byte
}

/// Byte `i` of `word` as a float; byte 0 is the lowest.
///
/// On the device `prmt` builds the float `2^23 + byte`, from which `2^23` is subtracted. Both steps are exact.
///
/// ```
/// assert_eq!([0, 1, 2, 3].map(|i| cuda_std::bytes::byte_to_f32(0xff_80_01_00, i)), [0.0, 1.0, 128.0, 255.0]);
/// ```
#[inline(always)]
#[must_use]
pub fn byte_to_f32(word: u32, i: usize) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        // From the highest byte on: 0x4b, 0 and 0 of the constant, which is the float 2^23, then the byte.
        let float: f32;
        let selector: u32 = 0x7540 | i as u32;
        // SAFETY: the instruction computes with registers and accesses no memory.
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

/// Half `i` of `word` as a float; half 0 is the low one.
///
/// On the device `prmt` builds the float `2^23 + half`, from which `2^23` is subtracted. Both steps are exact.
///
/// ```
/// assert_eq!([0, 1].map(|i| cuda_std::bytes::half_to_f32(0xffff_0102, i)), [258.0, 65_535.0]);
/// ```
#[inline(always)]
#[must_use]
pub fn half_to_f32(word: u32, i: usize) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        // From the highest byte on: 0x4b and 0 of the constant, which is the float 2^23, then the half.
        let float: f32;
        let selector: u32 = 0x7410 | (0x0022 * i as u32);
        // SAFETY: the instruction computes with registers and accesses no memory.
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
        f32::from((word >> (16 * i)) as u16)
    }
}

/// Packs four values into the bytes of a word, the first one lowest.
///
/// Each value is rounded to the nearest integer, ties to even, and saturated. NaN becomes 0.
///
/// ```
/// assert_eq!(cuda_std::bytes::pack_sat_u8x4([0.5, 1.5, -3.0, 1e9]).to_le_bytes(), [0, 2, 0, 255]);
/// ```
#[inline(always)]
#[must_use]
pub fn pack_sat_u8x4(values: [f32; 4]) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let [a, b, c, d] = values;
        byte_perm(byte_perm(byte(a), byte(b), 0x0040), byte_perm(byte(c), byte(d), 0x0040), 0x5410)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        u32::from_le_bytes(values.map(|value| crate::round_to_u16(value).min(255) as u8))
    }
}

/// Packs two integers, saturated, into the two lowest bytes of a word: PTX `cvt.pack.sat.u8.s32.b32`.
///
/// `low` is the lowest byte. The lower half of `above` becomes the upper half of the result. It needs compute
/// capability 7.2.
///
/// ```
/// assert_eq!(cuda_std::bytes::pack_sat_u8x2(-7, 300, 0x44_33_22_11).to_le_bytes(), [0, 255, 0x11, 0x22]);
/// ```
#[inline(always)]
#[must_use]
pub fn pack_sat_u8x2(low: i32, high: i32, above: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let pair: u32;
        // SAFETY: the instruction computes with registers and accesses no memory.
        unsafe {
            asm!(
                "cvt.pack.sat.u8.s32.b32 {pair}, {high}, {low}, {above};",
                pair = out(reg32) pair, high = in(reg32) high, low = in(reg32) low, above = in(reg32) above,
                options(nostack, nomem, pure, preserves_flags),
            );
        }
        pair
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        above << 16 | (low.clamp(0, 255) | high.clamp(0, 255) << 8) as u32
    }
}

/// Shifts `bits` left by one and sets the lowest bit if `value >= limit`. `limit` must not be 0.
///
/// On the device these are two additions; the second one takes the carry of the first.
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
        // SAFETY: the instruction computes with registers and accesses no memory.
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

/// Deinterleaves four pixels of three channels: one word per channel, the first pixel lowest.
///
/// ```
/// let pixels = [0x21_13_12_11, 0x32_31_23_22, 0x43_42_41_33];
/// assert_eq!(cuda_std::bytes::deinterleave_3(pixels), [0x41_31_21_11, 0x42_32_22_12, 0x43_33_23_13]);
/// ```
#[inline(always)]
#[must_use]
pub fn deinterleave_3([a, b, c]: [u32; 3]) -> [u32; 3] {
    [(0x0630, 0x5210), (0x0741, 0x6210), (0x0052, 0x7410)]
        .map(|(from_ab, with_c)| byte_perm(byte_perm(a, b, from_ab), c, with_c))
}

/// Deinterleaves four pixels of four channels: one word per channel, the first pixel lowest.
///
/// ```
/// let pixels = [0x14_13_12_11, 0x24_23_22_21, 0x34_33_32_31, 0x44_43_42_41];
/// let channels = [0x41_31_21_11, 0x42_32_22_12, 0x43_33_23_13, 0x44_34_24_14];
/// assert_eq!(cuda_std::bytes::deinterleave_4(pixels), channels);
/// ```
#[inline(always)]
#[must_use]
pub fn deinterleave_4([a, b, c, d]: [u32; 4]) -> [u32; 4] {
    let [first, second] = [0x5140, 0x7362].map(|two| (byte_perm(a, b, two), byte_perm(c, d, two)));
    let [low, high] = [0x5410, 0x7632];
    [
        byte_perm(first.0, first.1, low),
        byte_perm(first.0, first.1, high),
        byte_perm(second.0, second.1, low),
        byte_perm(second.0, second.1, high),
    ]
}
