//! Numbers of 16 bits: [`F16`] is CUDA's `__half`, [`Bf16`] is `__nv_bfloat16`; [`F16x2`] and [`Bf16x2`] hold two.
//!
//! | | exponent | significant bits | largest number | builds for |
//! | --- | --- | --- | --- | --- |
//! | [`F16`] | 5 bits | 11 | 65504 | every architecture |
//! | [`Bf16`] | 8 bits, as `f32` | 8 | 3.39e38 | `sm_80` or newer |
//!
//! They are [`Scalar`](crate::Scalar): arrays in global and shared memory hold them. Every operation rounds once, to
//! the nearest number; ties round to even. Subnormal numbers are kept. So results are bit-exact in the emulator, except
//! for the bits of a NaN. Nothing is fused but [`fma`](F16::fma).
//!
//! Two numbers in one word take the same instructions as one, so the `x2` types are twice as fast. Sums of many terms
//! belong into `f32`, or into the tensor cores: see [`mma`](crate::mma).
//!
//! ```
//! use cuda_std::half::{Bf16, F16, F16x2};
//!
//! let x = F16::from_f32(0.1);
//! assert_eq!((x.to_bits(), x.to_f32()), (0x2e66, 0.099975586));
//! // 2049 has 12 significant bits. The tie rounds to even.
//! assert_eq!(F16::from_f32(2049.0).to_f32(), 2048.0);
//! assert_eq!(F16::from_f32(1e6).to_f32(), f32::INFINITY);
//! assert_eq!(Bf16::from_f32(3.0).fma(Bf16::from_f32(0.5), Bf16::from_f32(1.0)).to_f32(), 2.5);
//! let pair = F16x2::new(x, F16::from_f32(2.0)) * F16x2::splat(F16::from_f32(4.0));
//! assert_eq!([pair.low().to_f32(), pair.high().to_f32()], [0.39990234, 8.0]);
//! ```

use core::ops::{Add, Mul, Neg, Sub};

#[cfg(target_arch = "nvptx64")]
mod device;
#[cfg(not(target_arch = "nvptx64"))]
mod host;

#[cfg(target_arch = "nvptx64")]
use device as arithmetic;
#[cfg(not(target_arch = "nvptx64"))]
use host as arithmetic;

/// The operators of a type that wraps bits.
macro_rules! operators {
    ($type:ident, $format:ident, $signs:literal, $($trait:ident $method:ident $function:ident;)*) => {
        $(impl $trait for $type {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self(arithmetic::$format::$function(self.0, other.0))
            }
        })*
        impl Neg for $type {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                Self(self.0 ^ $signs)
            }
        }
    };
}

/// A type of one number, and one of two.
macro_rules! half {
    ($(#[$doc:meta])* $one:ident, $(#[$doc_of_two:meta])* $two:ident, $format:ident;) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $one(u16);

        impl $one {
            /// The number with these bits.
            #[inline(always)]
            #[must_use]
            pub const fn from_bits(bits: u16) -> Self {
                Self(bits)
            }

            /// The bits.
            #[inline(always)]
            #[must_use]
            pub const fn to_bits(self) -> u16 {
                self.0
            }

            /// The nearest number; ties round to even. A value that is too large becomes infinite.
            #[inline(always)]
            #[must_use]
            pub fn from_f32(value: f32) -> Self {
                Self(arithmetic::$format::from_f32(value))
            }

            /// The same number.
            #[inline(always)]
            #[must_use]
            pub fn to_f32(self) -> f32 {
                arithmetic::$format::to_f32(self.0)
            }

            /// `self * factor + summand`, rounded once.
            #[inline(always)]
            #[must_use]
            pub fn fma(self, factor: Self, summand: Self) -> Self {
                Self(arithmetic::$format::fma(self.0, factor.0, summand.0))
            }
        }

        operators! { $one, $format, 0x8000, Add add add; Sub sub sub; Mul mul mul; }

        impl PartialEq for $one {
            #[inline(always)]
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $one {
            #[inline(always)]
            fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }

        impl core::fmt::Debug for $one {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Debug::fmt(&self.to_f32(), f)
            }
        }

        $(#[$doc_of_two])*
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $two(u32);

        impl $two {
            /// The word of two numbers.
            #[inline(always)]
            #[must_use]
            pub const fn new(low: $one, high: $one) -> Self {
                Self(low.0 as u32 | (high.0 as u32) << 16)
            }

            /// The word with one number twice.
            #[inline(always)]
            #[must_use]
            pub const fn splat(both: $one) -> Self {
                Self::new(both, both)
            }

            /// The nearest numbers; ties round to even. A value that is too large becomes infinite.
            #[inline(always)]
            #[must_use]
            pub fn from_f32(low: f32, high: f32) -> Self {
                Self(arithmetic::$format::pair_from_f32(low, high))
            }

            /// The word with these bits.
            #[inline(always)]
            #[must_use]
            pub const fn from_bits(bits: u32) -> Self {
                Self(bits)
            }

            /// The bits: an operand of [`mma`](crate::mma).
            #[inline(always)]
            #[must_use]
            pub const fn to_bits(self) -> u32 {
                self.0
            }

            /// The lower number.
            #[inline(always)]
            #[must_use]
            pub const fn low(self) -> $one {
                $one(self.0 as u16)
            }

            /// The upper number.
            #[inline(always)]
            #[must_use]
            pub const fn high(self) -> $one {
                $one((self.0 >> 16) as u16)
            }

            /// `self * factor + summand` of both numbers, each rounded once.
            #[inline(always)]
            #[must_use]
            pub fn fma(self, factor: Self, summand: Self) -> Self {
                Self(arithmetic::$format::fma_pair(self.0, factor.0, summand.0))
            }
        }

        operators! { $two, $format, 0x8000_8000, Add add add_pair; Sub sub sub_pair; Mul mul mul_pair; }

        impl PartialEq for $two {
            #[inline(always)]
            fn eq(&self, other: &Self) -> bool {
                self.low() == other.low() && self.high() == other.high()
            }
        }

        impl core::fmt::Debug for $two {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_tuple(stringify!($two)).field(&self.low()).field(&self.high()).finish()
            }
        }
    };
}

half! {
    /// IEEE 754 binary16: CUDA's `__half`.
    F16,
    /// Two [`F16`] in a word: CUDA's `__half2`.
    F16x2,
    f16;
}

half! {
    /// bfloat16, the upper half of an `f32`: CUDA's `__nv_bfloat16`. It needs a build for `sm_80` or newer.
    Bf16,
    /// Two [`Bf16`] in a word: CUDA's `__nv_bfloat162`. It needs a build for `sm_80` or newer.
    Bf16x2,
    bf16;
}
