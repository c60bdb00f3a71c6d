//! The types of pixels, and how they become the `f32` of the sums and come back.

use cuda_std::Scalar;

/// A type of pixel.
pub trait Pixel: Scalar {
    /// The value as the kernels compute with it.
    fn to_f32(self) -> f32;
    /// The pixel for a result: rounded half to even and saturated where the type has no fractions.
    fn from_f32(value: f32) -> Self;
}

impl Pixel for f32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }
}
