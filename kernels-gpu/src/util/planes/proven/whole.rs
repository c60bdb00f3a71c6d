//! The types of integers that results may have.

use cuda_std::bytes::{byte_perm, byte_to_f32, deinterleave_3, deinterleave_4, half_to_f32};

use crate::util::planes::words::{MAX_WORDS, Packed};

/// A type of integers: `u8` or `u16`.
pub trait Whole: Packed {
    /// The largest value.
    const MOST: f32;
    /// The type's values in a word.
    const OF_WORD: u32;

    /// The selector of [`byte_perm`] for the values of two words from value `skip` of the first one on.
    fn selector(skip: u32) -> u32;

    /// Value `i` of a word.
    fn value(word: u32, i: usize) -> f32;

    /// The exponent of the power of two by which [`factor`](Self::factor) multiplies.
    const FACTOR_EXPONENT: i32;

    /// Value `i` of a word, times `2^FACTOR_EXPONENT`.
    ///
    /// This is one instruction, [`value`](Self::value) is two. An integer `n < 2^24`, read as the bits of an `f32`, is
    /// `n * 2^-149`. The selector also moves the value up: `u8` by two bytes, `u16` by one.
    fn factor(word: u32, i: usize) -> f32;

    /// Four interleaved pixels as four values of each channel.
    fn deinterleave<const C: u32>(words: &[u32; MAX_WORDS]) -> [[u32; 2]; 4];

    /// Four values of a channel from value `skip` of eight on. `skip` is below 4.
    fn shift(first: [u32; 2], second: [u32; 2], skip: u32) -> [u32; 2];
}

impl Whole for u8 {
    const MOST: f32 = 255.0;
    const OF_WORD: u32 = 4;

    #[inline(always)]
    fn selector(skip: u32) -> u32 {
        0x3210 + 0x1111 * skip
    }

    #[inline(always)]
    fn value(word: u32, i: usize) -> f32 {
        byte_to_f32(word, i)
    }

    const FACTOR_EXPONENT: i32 = 16 - 149;

    #[inline(always)]
    fn factor(word: u32, i: usize) -> f32 {
        f32::from_bits(byte_perm(word, 0, 0x4044 | (i as u32) << 8))
    }

    #[inline(always)]
    fn deinterleave<const C: u32>(words: &[u32; MAX_WORDS]) -> [[u32; 2]; 4] {
        let [a, b, c, d, ..] = *words;
        let channels = match C {
            1 => [a, 0, 0, 0],
            2 => [byte_perm(a, b, 0x6420), byte_perm(a, b, 0x7531), 0, 0],
            3 => {
                let [a, b, c] = deinterleave_3([a, b, c]);
                [a, b, c, 0]
            }
            _ => deinterleave_4([a, b, c, d]),
        };
        channels.map(|word| [word, 0])
    }

    #[inline(always)]
    fn shift([first, _]: [u32; 2], [second, _]: [u32; 2], skip: u32) -> [u32; 2] {
        [byte_perm(first, second, Self::selector(skip)), 0]
    }
}

impl Whole for u16 {
    const MOST: f32 = 65_535.0;
    const OF_WORD: u32 = 2;

    #[inline(always)]
    fn selector(skip: u32) -> u32 {
        0x3210 + 0x2222 * skip
    }

    #[inline(always)]
    fn value(word: u32, i: usize) -> f32 {
        half_to_f32(word, i)
    }

    const FACTOR_EXPONENT: i32 = 8 - 149;

    #[inline(always)]
    fn factor(word: u32, i: usize) -> f32 {
        f32::from_bits(byte_perm(word, 0, 0x4104 | (0x0220 * i as u32)))
    }

    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    fn deinterleave<const C: u32>(words: &[u32; MAX_WORDS]) -> [[u32; 2]; 4] {
        let channels = C as usize;
        let mut planes = [[0; 2]; 4];
        for channel in 0..channels {
            for pair in 0..2 {
                let (first, second) = (2 * pair * channels + channel, (2 * pair + 1) * channels + channel);
                let low = if first.is_multiple_of(2) { 0x10 } else { 0x32 };
                let high = if second.is_multiple_of(2) { 0x5400 } else { 0x7600 };
                planes[channel][pair] = byte_perm(words[first / 2], words[second / 2], high | low);
            }
        }
        planes
    }

    #[inline(always)]
    fn shift(first: [u32; 2], second: [u32; 2], skip: u32) -> [u32; 2] {
        let [a, b, c] = if skip < 2 { [first[0], first[1], second[0]] } else { [first[1], second[0], second[1]] };
        [(a, b), (b, c)].map(|(low, high)| byte_perm(low, high, Self::selector(skip % 2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Value `i` of four pixels of `C` channels is `10 * pixel + channel`.
    fn check<T: Whole, const C: u32>(from: fn(u32) -> T) {
        let mut words = [0; MAX_WORDS];
        let bits = 32 / T::OF_WORD;
        for i in 0..4 * C {
            let value = from(10 * (i / C) + i % C).to_f32() as u32;
            words[(i / T::OF_WORD) as usize] |= value << (bits * (i % T::OF_WORD));
        }
        for (channel, plane) in T::deinterleave::<C>(&words).into_iter().take(C as usize).enumerate() {
            for pixel in 0..4 {
                let per = T::OF_WORD as usize;
                let found = T::value(plane[pixel / per], pixel % per);
                assert_eq!(found, (10 * pixel + channel) as f32, "pixel {pixel}, channel {channel} of {C}");
            }
        }
    }

    #[test]
    fn pixels_become_planes() {
        let (byte, half) = (|value: u32| value as u8, |value: u32| value as u16);
        check::<u8, 1>(byte);
        check::<u8, 2>(byte);
        check::<u8, 3>(byte);
        check::<u8, 4>(byte);
        check::<u16, 1>(half);
        check::<u16, 2>(half);
        check::<u16, 3>(half);
        check::<u16, 4>(half);
    }

    /// The factor times a power of two is the value.
    #[test]
    fn factors_are_values() {
        fn check<T: Whole>(words: impl Iterator<Item = u32>) {
            for (word, i) in words.flat_map(|word| (0..T::OF_WORD as usize).map(move |i| (word, i))) {
                let value = f64::from(T::factor(word, i)) * f64::powi(2.0, -T::FACTOR_EXPONENT);
                assert_eq!(value, f64::from(T::value(word, i)), "value {i} of {word:x}");
            }
        }
        check::<u8>((0..=255_u8).map(|byte| u32::from_le_bytes([byte, !byte, byte ^ 0x55, byte.rotate_left(3)])));
        check::<u16>((0..65_536).map(|half| half << 16 | (half ^ 0x5a5a)));
    }

    #[test]
    fn shifts_skip_values() {
        fn check<T: Whole>(first: [u32; 2], second: [u32; 2]) {
            let per = T::OF_WORD as usize;
            for skip in 0..4 {
                let words = T::shift(first, second, skip);
                for i in 0..4 {
                    assert_eq!(T::value(words[i / per], i % per), (skip as usize + i) as f32, "{i} after {skip}");
                }
            }
        }
        check::<u8>([0x03_02_01_00, 0], [0x07_06_05_04, 0]);
        check::<u16>([0x0001_0000, 0x0003_0002], [0x0005_0004, 0x0007_0006]);
    }

    #[test]
    fn selectors_skip_values() {
        let bytes = [0, 1, 2, 3].map(|skip| byte_perm(0x33_22_11_00, 0x77_66_55_44, u8::selector(skip)));
        assert_eq!(bytes, [0x33_22_11_00, 0x44_33_22_11, 0x55_44_33_22, 0x66_55_44_33]);
        let halves = [0, 1].map(|skip| byte_perm(0x1111_0000, 0x3333_2222, u16::selector(skip)));
        assert_eq!(halves, [0x1111_0000, 0x2222_1111]);
    }
}
