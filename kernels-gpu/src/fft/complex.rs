//! Complex numbers of `f32`, with the rounding errors that [`error`](super::error) counts.

use core::ops::{Add, Sub};

use cuda_std::prelude::*;

/// A complex number in registers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Complex {
    pub(super) re: f32,
    pub(super) im: f32,
}

impl Complex {
    pub(super) const ZERO: Self = Self { re: 0.0, im: 0.0 };

    /// The product, with a relative error of at most `2 u`: two products and two fused multiply-adds.
    #[inline(always)]
    pub(super) fn times(self, factor: Self) -> Self {
        Self { re: fma(self.re, factor.re, -(self.im * factor.im)), im: fma(self.re, factor.im, self.im * factor.re) }
    }

    /// The complex conjugate.
    #[inline(always)]
    pub(super) fn conjugate(self) -> Self {
        Self { re: self.re, im: -self.im }
    }

    /// The product with `i`, or with `-i` if `NEGATIVE`. It is exact.
    #[inline(always)]
    pub(super) fn times_i<const NEGATIVE: bool>(self) -> Self {
        if NEGATIVE { Self { re: self.im, im: -self.re } } else { Self { re: -self.im, im: self.re } }
    }
}

impl Add for Complex {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Complex {
    type Output = Self;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }
}

impl From<F32x2> for Complex {
    #[inline(always)]
    fn from(F32x2([re, im]): F32x2) -> Self {
        Self { re, im }
    }
}

impl From<Complex> for F32x2 {
    #[inline(always)]
    fn from(value: Complex) -> Self {
        Self([value.re, value.im])
    }
}
