//! The pixel types and their conversions to and from the `f32` of the sums.

use cuda_std::prelude::*;

/// The type of an image's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum PixelType {
    /// 32-bit floating point.
    F32 = 0,
    /// 8 bits, 0 to 255.
    U8 = 1,
    /// 16 bits, 0 to 65,535.
    U16 = 2,
}

impl PixelType {
    /// All pixel types.
    pub const ALL: [Self; 3] = [Self::U8, Self::U16, Self::F32];

    /// The number that stands for the type in the launch parameters.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The name in reports and in PTX symbols.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::U8 => "u8",
            Self::U16 => "u16",
        }
    }

    /// The size of a value in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::U8 => 1,
            Self::U16 => 2,
        }
    }

    /// Whether the type represents `value` exactly.
    #[must_use]
    pub const fn holds(self, value: f32) -> bool {
        match self {
            Self::F32 => true,
            // A cast saturates and turns NaN into 0. A value that the type lacks comes back changed.
            Self::U8 => value as u8 as f32 == value,
            Self::U16 => value as u16 as f32 == value,
        }
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
}

/// A type of an image's values: `u8`, `u16` or `f32`.
///
/// The trait is sealed. Hosts rely on each type being plain bytes with a tag of its own.
pub trait Pixel: Scalar + PartialEq + core::fmt::Debug + Send + Sync + sealed::Sealed {
    /// The type's tag.
    const TYPE: PixelType;
    /// The value as a term of a sum.
    fn to_f32(self) -> f32;
    /// The value for a result.
    ///
    /// For integers: rounded half to even, saturated, 0 for NaN. For `f32`: unchanged.
    fn from_f32(value: f32) -> Self;
}

impl Pixel for f32 {
    const TYPE: PixelType = PixelType::F32;
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }
}

impl Pixel for u8 {
    const TYPE: PixelType = PixelType::U8;
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from(self)
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        let value = round_to_u16(value);
        if value > 255 { 255 } else { value as u8 }
    }
}

impl Pixel for u16 {
    const TYPE: PixelType = PixelType::U16;
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from(self)
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        round_to_u16(value)
    }
}
