//! Pixels, `f32` or bytes, as the factors of a row pass.

use cuda_std::bytes::byte_perm;
use cuda_std::prelude::*;

use crate::abi::pixel::Pixel;
use crate::registry::FactorPowers;

/// The power of two by which the row factor of an image of bytes is multiplied.
///
/// A word that holds a byte `n` is the `f32` `n * 2^-149`, as its exponent and its sign are zero. So the row pass
/// multiplies words as they are. The power keeps the products far from underflow. The column factor takes it back, so
/// all sums have the bits of unscaled ones.
const ROW_POWER: i32 = 120;

/// A pixel type that the row pass multiplies.
pub trait Source: Pixel {
    /// The powers of two by which the factors of a mask are multiplied.
    const POWERS: FactorPowers;

    /// Four values of these words, in the unit that [`POWERS`](Self::POWERS) takes back. Of words that are too many
    /// only the first ones count.
    fn factors(words: [u32; 4]) -> [f32; 4];
}

impl Source for f32 {
    const POWERS: FactorPowers = FactorPowers { row: 0, column: 0 };

    #[inline(always)]
    fn factors(words: [u32; 4]) -> [f32; 4] {
        [0, 1, 2, 3].map(|i: usize| Self::from_bits(words[i]))
    }
}

impl Source for u8 {
    const POWERS: FactorPowers = FactorPowers { row: ROW_POWER, column: 149 - ROW_POWER };

    #[inline(always)]
    fn factors([word, ..]: [u32; 4]) -> [f32; 4] {
        [0, 1, 2, 3].map(|i| byte_as_factor(word, i))
    }
}

/// Byte `i` of `word`, times `2^-149`.
#[inline(always)]
pub(super) fn byte_as_factor(word: u32, i: u32) -> f32 {
    f32::from_bits(byte_perm(word, 0, 0x4440 | i))
}

/// The words of a row of pixels from any value on, four values at a time.
pub(super) struct Quads<T> {
    /// The vector after `next`.
    from: Shared<F32x4>,
    current: [u32; 4],
    next: [u32; 4],
    /// Selects a word from two, so that the first value comes first.
    selector: u32,
    element: core::marker::PhantomData<T>,
}

/// The words of a vector.
///
/// # Safety
/// The conditions of [`Shared::load`] hold for element `index`.
#[inline(always)]
unsafe fn vector(from: Shared<F32x4>, index: u32) -> [u32; 4] {
    // SAFETY: as this function requires.
    unsafe { from.load(index) }.0.map(f32::to_bits)
}

impl<T: Source> Quads<T> {
    /// The values from byte `skip` after `pixels` on. `skip` is below 4, and 0 for `f32`.
    ///
    /// # Safety
    /// - `pixels` is aligned to 16 bytes.
    /// - The first vector lies in shared memory and is initialised.
    #[inline(always)]
    pub(super) unsafe fn begin(pixels: Shared<u8>, skip: u32) -> Self {
        let from = pixels.cast::<F32x4>();
        let mut quads = Self {
            from,
            current: [0; 4],
            next: [0; 4],
            selector: 0x3210 + 0x1111 * skip,
            element: core::marker::PhantomData,
        };
        if size_of::<T>() < 4 {
            // SAFETY: as this function requires.
            quads.next = unsafe { vector(from, 0) };
            quads.from = from.offset(1);
        }
        quads
    }

    /// The next four values. `index` counts the calls; it is known when the kernel is compiled.
    ///
    /// # Safety
    /// The vector that holds the values, and the one after it for types smaller than 4 bytes, lie in shared memory and
    /// are initialised.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(super) unsafe fn next(&mut self, index: usize) -> [f32; 4] {
        let bytes = size_of::<T>();
        let first = index * bytes % 4;
        if first == 0 {
            self.current = self.next;
            // SAFETY: as this function requires.
            self.next = unsafe { vector(self.from, 0) };
            self.from = self.from.offset(1);
        }
        if bytes == 4 {
            return T::factors(self.next);
        }
        let mut words = [0; 4];
        for i in 0..bytes {
            let at = first + i;
            let after = if at == 3 { self.next[0] } else { self.current[(at + 1) % 4] };
            words[i] = byte_perm(self.current[at], after, self.selector);
        }
        T::factors(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The unit of an integer image's values is exact, and both powers together take it back.
    #[test]
    fn words_are_factors() {
        let unit = f64::powi(2.0, -149);
        let words = u8::factors([0x8040_ff01, 0, 0, 0]).map(|value| f64::from(value) / unit);
        assert_eq!(words, [1.0, 255.0, 64.0, 128.0]);
        assert_eq!(u8::POWERS.row + u8::POWERS.column, 149);
    }
}
