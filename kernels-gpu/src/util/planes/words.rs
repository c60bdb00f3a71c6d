//! Neighbouring pixels as words: packing, unpacking, and accesses in the widest vectors.

use cuda_std::bytes::{byte_to_f32, pack_sat_u8x4};
use cuda_std::prelude::*;

use super::PIXELS;
use crate::abi::pixel::Pixel;

/// The most words of [`PIXELS`] pixels: four channels of `f32`.
pub const MAX_WORDS: usize = 16;

/// A pixel type whose values are packed into words in memory order.
pub trait Packed: Pixel {
    /// Value `i` of these words.
    fn unpack(words: &[u32; MAX_WORDS], i: usize) -> f32;
    /// Word `i` of these values, converted as [`Pixel::from_f32`] does.
    fn pack(values: &[f32; MAX_WORDS], i: usize) -> u32;
}

impl Packed for u8 {
    #[inline(always)]
    fn unpack(words: &[u32; MAX_WORDS], i: usize) -> f32 {
        byte_to_f32(words[i / 4], i % 4)
    }
    #[inline(always)]
    fn pack(values: &[f32; MAX_WORDS], i: usize) -> u32 {
        pack_sat_u8x4([values[4 * i], values[4 * i + 1], values[4 * i + 2], values[4 * i + 3]])
    }
}

impl Packed for u16 {
    #[inline(always)]
    fn unpack(words: &[u32; MAX_WORDS], i: usize) -> f32 {
        f32::from((words[i / 2] >> (16 * (i % 2))) as u16)
    }
    #[inline(always)]
    fn pack(values: &[f32; MAX_WORDS], i: usize) -> u32 {
        u32::from(Self::from_f32(values[2 * i])) | u32::from(Self::from_f32(values[2 * i + 1])) << 16
    }
}

impl Packed for f32 {
    #[inline(always)]
    fn unpack(words: &[u32; MAX_WORDS], i: usize) -> f32 {
        Self::from_bits(words[i])
    }
    #[inline(always)]
    fn pack(values: &[f32; MAX_WORDS], i: usize) -> u32 {
        values[i].to_bits()
    }
}

/// The number of words of [`PIXELS`] pixels of `C` channels.
#[must_use]
pub const fn words_of<T, const C: u32>() -> usize {
    PIXELS as usize * C as usize * size_of::<T>() / 4
}

/// Loads `count` words in the widest vectors whose size divides theirs.
///
/// # Safety
/// - The conditions of [`Global::load`] hold for `count` words.
/// - `from` is aligned to 16 bytes if `count` is a multiple of 4, to 8 if it is a multiple of 2, and to 4 otherwise.
#[inline(always)]
#[track_caller]
#[allow(clippy::needless_range_loop)]
pub unsafe fn load_words(from: Global<u32>, count: usize) -> [u32; MAX_WORDS] {
    let mut words = [0; MAX_WORDS];
    if count.is_multiple_of(4) {
        for i in 0..count / 4 {
            // SAFETY: words 4 i to 4 i + 3 of the `count` words, aligned to 16 bytes.
            let F32x4([a, b, c, d]) = unsafe { from.cast::<F32x4>().load(i as isize) };
            words[4 * i] = a.to_bits();
            words[4 * i + 1] = b.to_bits();
            words[4 * i + 2] = c.to_bits();
            words[4 * i + 3] = d.to_bits();
        }
    } else if count.is_multiple_of(2) {
        for i in 0..count / 2 {
            // SAFETY: words 2 i and 2 i + 1 of the `count` words, aligned to 8 bytes.
            let F32x2([a, b]) = unsafe { from.cast::<F32x2>().load(i as isize) };
            words[2 * i] = a.to_bits();
            words[2 * i + 1] = b.to_bits();
        }
    } else {
        for i in 0..count {
            // SAFETY: i < count.
            words[i] = unsafe { from.load(i as isize) };
        }
    }
    words
}

/// Packs values into `count` words, and stores these in the widest vectors whose size divides theirs.
///
/// # Safety
/// - The conditions of [`GlobalMut::store`] hold for `count` words.
/// - `to` is aligned as [`load_words`] requires.
#[inline(always)]
#[track_caller]
pub unsafe fn store_words<T: Packed>(to: GlobalMut<T>, values: &[f32; MAX_WORDS], count: usize) {
    let word = |i: usize| f32::from_bits(T::pack(values, i));
    if count.is_multiple_of(4) {
        for i in 0..count / 4 {
            let vector = F32x4([word(4 * i), word(4 * i + 1), word(4 * i + 2), word(4 * i + 3)]);
            // SAFETY: words 4 i to 4 i + 3 of the `count` words, aligned to 16 bytes.
            unsafe { to.cast().store(i as isize, vector) };
        }
    } else if count.is_multiple_of(2) {
        for i in 0..count / 2 {
            // SAFETY: words 2 i and 2 i + 1 of the `count` words, aligned to 8 bytes.
            unsafe { to.cast().store(i as isize, F32x2([word(2 * i), word(2 * i + 1)])) };
        }
    } else {
        for i in 0..count {
            // SAFETY: i < count.
            unsafe { to.cast().store(i as isize, T::pack(values, i)) };
        }
    }
}
