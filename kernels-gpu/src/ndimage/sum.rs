//! The type of the sums.

use cuda_std::prelude::*;

use super::element::Value;

/// A type of sums.
pub trait Sum: Scalar {
    /// 0.
    const ZERO: Self;

    /// An element.
    fn of<T: Value>(stored: T::Stored) -> Self;
    /// The nearest number.
    fn from_f64(value: f64) -> Self;
    /// The number in `f64`.
    fn to_f64(self) -> f64;
    /// `sum + weight * value`. For `f64` the product is rounded before it is added; for `f32` it is not.
    fn weigh(weight: Self, value: Self, sum: Self) -> Self;
    /// `self + other`.
    fn plus(self, other: Self) -> Self;
    /// `self - other`.
    fn minus(self, other: Self) -> Self;
    /// The number with another sign if the highest bit of `sign` is set. The other bits of `sign` must be 0.
    fn flipped(self, sign: u64) -> Self;

    /// The weight in word `index`. A weight of `f32` is the word's lower half.
    ///
    /// # Safety
    /// - The word lies in the dynamic shared memory of the launch.
    /// - It was written before the last barrier.
    unsafe fn weight(words: Shared<u64>, index: u32) -> Self;
}

impl Sum for f64 {
    const ZERO: Self = 0.0;

    #[inline(always)]
    fn of<T: Value>(stored: T::Stored) -> Self {
        T::widen(stored)
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn weigh(weight: Self, value: Self, sum: Self) -> Self {
        sum + weight * value
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self - other
    }
    #[inline(always)]
    fn flipped(self, sign: u64) -> Self {
        Self::from_bits(self.to_bits() ^ sign)
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn weight(words: Shared<u64>, index: u32) -> Self {
        // SAFETY: the word is there, as this function requires.
        unsafe { words.cast::<f64>().load(index) }
    }
}

impl Sum for f32 {
    const ZERO: Self = 0.0;

    #[inline(always)]
    fn of<T: Value>(stored: T::Stored) -> Self {
        T::widen(stored) as f32
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self as f64
    }
    #[inline(always)]
    fn weigh(weight: Self, value: Self, sum: Self) -> Self {
        fma(weight, value, sum)
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self - other
    }
    #[inline(always)]
    fn flipped(self, sign: u64) -> Self {
        Self::from_bits(self.to_bits() ^ (sign >> 32) as u32)
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn weight(words: Shared<u64>, index: u32) -> Self {
        // SAFETY: the word is there, as this function requires.
        unsafe { words.cast::<f32>().load(2 * index) }
    }
}
