//! Elements of any real type to `f64`, and `f64` to elements as a C program converts on x86-64.

use cuda_std::prelude::*;

/// A type of elements.
pub trait Value: Copy + 'static {
    /// The type that is loaded. It has the same bits.
    type Stored: Scalar;
    /// The name, as Rust has it.
    const NAME: &'static str;

    /// The number in `f64`, rounded to the nearest one.
    fn widen(stored: Self::Stored) -> f64;
}

macro_rules! values {
    ($($type:ident in $stored:ident;)*) => {$(
        impl Value for $type {
            type Stored = $stored;
            const NAME: &'static str = stringify!($type);

            #[inline(always)]
            fn widen(stored: $stored) -> f64 {
                stored as $type as f64
            }
        }
    )*};
}
values! {
    i8 in u8; u8 in u8; i16 in u16; u16 in u16; i32 in u32; u32 in u32; i64 in u64; u64 in u64; f32 in f32; f64 in f64;
}

/// How a result is stored. Integer types of up to 16 bits differ in nothing: a result keeps its lowest bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ResultKind {
    /// An integer of 8 bits, or a truth value.
    Bits8 = 0,
    /// An integer of 16 bits.
    Bits16 = 1,
    /// `i32`.
    I32 = 2,
    /// `u32`.
    U32 = 3,
    /// `i64`.
    I64 = 4,
    /// `u64`.
    U64 = 5,
    /// `f32`.
    F32 = 6,
    /// `f64`.
    F64 = 7,
    /// `u64`, by the magnitude of a negative number: it differs from [`U64`](Self::U64) below -2^63 and for NaN.
    U64ByMagnitude = 8,
}

impl ResultKind {
    /// The number that stands for the kind in the launch parameters.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The bytes of a result.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Bits8 => 1,
            Self::Bits16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::U64ByMagnitude => 8,
        }
    }
}

/// Without the fraction; `i32::MIN` for what has no place in an `i32`, as the instruction `cvttsd2si` has it.
#[inline(always)]
fn truncated_i32(value: f64) -> i32 {
    if value > -2_147_483_649.0 && value < 2_147_483_648.0 {
        // SAFETY: within the range, as was just tested, and so no NaN.
        unsafe { value.to_int_unchecked() }
    } else {
        i32::MIN
    }
}

/// 2^63.
const LIMIT: f64 = 9_223_372_036_854_775_808.0;

/// As [`truncated_i32`], for 64 bits.
#[inline(always)]
fn truncated_i64(value: f64) -> i64 {
    if (-LIMIT..LIMIT).contains(&value) {
        // SAFETY: within the range, as was just tested, and so no NaN.
        unsafe { value.to_int_unchecked() }
    } else {
        i64::MIN
    }
}

/// As a C program converts to 64 bits without a sign.
#[inline(always)]
fn truncated_u64(value: f64) -> u64 {
    if value >= LIMIT { truncated_i64(value - LIMIT) as u64 ^ (1 << 63) } else { truncated_i64(value) as u64 }
}

/// Stores a result of the [kind](ResultKind) with this code: without the fraction and modulo 2^bits for integers. An
/// unknown code counts as [`ResultKind::F64`].
///
/// # Safety
/// - There is room for the result at `to`, which is aligned for it.
/// - No other thread accesses it.
#[inline(always)]
#[track_caller]
pub unsafe fn store(to: GlobalMut<u8>, kind: u32, value: f64) {
    const BITS8: u32 = ResultKind::Bits8.code();
    const BITS16: u32 = ResultKind::Bits16.code();
    const I32: u32 = ResultKind::I32.code();
    const U32: u32 = ResultKind::U32.code();
    const I64: u32 = ResultKind::I64.code();
    const U64: u32 = ResultKind::U64.code();
    const F32: u32 = ResultKind::F32.code();
    const U64_BY_MAGNITUDE: u32 = ResultKind::U64ByMagnitude.code();
    // SAFETY: room, alignment and no other thread, as this function requires.
    unsafe {
        match kind {
            BITS8 => to.store(0, truncated_i32(value) as u8),
            BITS16 => to.cast::<u16>().store(0, truncated_i32(value) as u16),
            I32 => to.cast::<u32>().store(0, truncated_i32(value) as u32),
            U32 => to.cast::<u32>().store(0, truncated_i64(value) as u32),
            I64 => to.cast::<u64>().store(0, truncated_i64(value) as u64),
            U64 => to.cast::<u64>().store(0, truncated_u64(value)),
            U64_BY_MAGNITUDE if value > -1.0 => to.cast::<u64>().store(0, truncated_u64(value)),
            U64_BY_MAGNITUDE => to.cast::<u64>().store(0, truncated_u64(-value).wrapping_neg()),
            F32 => to.cast::<f32>().store(0, value as f32),
            _ => to.cast::<f64>().store(0, value),
        }
    }
}
