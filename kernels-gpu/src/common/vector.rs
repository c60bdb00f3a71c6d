//! Vector loads and stores of neighbouring values of a row, for each type of pixel.

use cuda_std::bytes::{byte_to_f32, pack_sat_u8x4};
use cuda_std::prelude::*;

use crate::abi::pixel::Pixel;

/// The most values of one vector.
pub const MAX_VECTOR_VALUES: usize = 8;

/// A type of values that is stored in vectors.
pub trait StoreVector: Pixel {
    /// Values of the widest vector, a multiple of 4 and at most [`MAX_VECTOR_VALUES`].
    const VECTOR_VALUES: usize;
    /// Whether a kernel for images of this type can also write `f32`.
    const WRITES_F32: bool;

    /// Stores the first `count` values from `index` on. `count` is 4 or [`VECTOR_VALUES`](Self::VECTOR_VALUES).
    ///
    /// # Safety
    /// - The conditions of [`GlobalMut::store`] hold for `count` values.
    /// - `row + index` is aligned to the size of `count` values.
    unsafe fn store_vector(row: GlobalMut<Self>, index: isize, values: [f32; MAX_VECTOR_VALUES], count: usize);
}

/// A type of values that is loaded in vectors, or one by one with the border's value where there is no pixel.
pub trait LoadVector: StoreVector {
    /// The bits of a value.
    fn to_raw(self) -> u32;

    /// Bits that stand for the border's value.
    fn raw_border(border_value: f32) -> u32;

    /// The value of bits from [`to_raw`](Self::to_raw) or [`raw_border`](Self::raw_border).
    fn from_raw(raw: u32, border_value: f32) -> f32;

    /// The value of bits from [`to_raw`](Self::to_raw).
    fn from_raw_pixel(raw: u32) -> f32;

    /// Loads `count` values from `index` on. `count` is 4 or [`VECTOR_VALUES`](StoreVector::VECTOR_VALUES).
    ///
    /// # Safety
    /// - The conditions of [`Global::load`] hold for `count` values.
    /// - `row + index` is aligned to the size of `count` values.
    unsafe fn load_vector(row: Global<Self>, index: isize, count: usize) -> [f32; MAX_VECTOR_VALUES];
}

impl StoreVector for f32 {
    const VECTOR_VALUES: usize = 4;
    const WRITES_F32: bool = false;

    #[inline(always)]
    #[track_caller]
    unsafe fn store_vector(row: GlobalMut<Self>, index: isize, values: [f32; MAX_VECTOR_VALUES], _count: usize) {
        let [a, b, c, d, ..] = values;
        // SAFETY: the 4 values may be stored and are aligned to 16 bytes, as this function requires.
        unsafe { row.offset(index).cast::<F32x4>().store(0, F32x4([a, b, c, d])) };
    }
}

impl LoadVector for f32 {
    #[inline(always)]
    fn to_raw(self) -> u32 {
        self.to_bits()
    }

    #[inline(always)]
    fn raw_border(border_value: f32) -> u32 {
        border_value.to_bits()
    }

    #[inline(always)]
    fn from_raw(raw: u32, _border_value: f32) -> f32 {
        f32::from_bits(raw)
    }

    #[inline(always)]
    fn from_raw_pixel(raw: u32) -> f32 {
        f32::from_bits(raw)
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn load_vector(row: Global<Self>, index: isize, _count: usize) -> [f32; MAX_VECTOR_VALUES] {
        // SAFETY: the 4 values may be loaded and are aligned to 16 bytes, as this function requires.
        let F32x4([a, b, c, d]) = unsafe { row.offset(index).cast::<F32x4>().load(0) };
        [a, b, c, d, 0.0, 0.0, 0.0, 0.0]
    }
}

impl StoreVector for u16 {
    const VECTOR_VALUES: usize = 8;
    const WRITES_F32: bool = true;

    #[inline(always)]
    #[track_caller]
    unsafe fn store_vector(row: GlobalMut<Self>, index: isize, values: [f32; MAX_VECTOR_VALUES], count: usize) {
        let row = row.offset(index);
        let bits = |value: f32| u32::from(Self::from_f32(value));
        let word = |i: usize| f32::from_bits(bits(values[2 * i]) | bits(values[2 * i + 1]) << 16);
        // SAFETY: the 8 or 4 values may be stored and are aligned to 16 or 8 bytes, as this function requires.
        unsafe {
            if count == Self::VECTOR_VALUES {
                row.cast::<F32x4>().store(0, F32x4([word(0), word(1), word(2), word(3)]));
            } else {
                row.cast::<F32x2>().store(0, F32x2([word(0), word(1)]));
            }
        }
    }
}

impl LoadVector for u16 {
    #[inline(always)]
    fn to_raw(self) -> u32 {
        self.into()
    }

    #[inline(always)]
    fn raw_border(_border_value: f32) -> u32 {
        // No pixel has these bits. The border's value need not be a whole number.
        u32::MAX
    }

    #[inline(always)]
    fn from_raw(raw: u32, border_value: f32) -> f32 {
        if raw == u32::MAX { border_value } else { Self::from_raw_pixel(raw) }
    }

    #[inline(always)]
    fn from_raw_pixel(raw: u32) -> f32 {
        f32::from(raw as u16)
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn load_vector(row: Global<Self>, index: isize, count: usize) -> [f32; MAX_VECTOR_VALUES] {
        let row = row.offset(index);
        let mut words = [0.0; MAX_VECTOR_VALUES / 2];
        // SAFETY: the 8 or 4 values may be loaded and are aligned to 16 or 8 bytes, as this function requires.
        unsafe {
            if count == Self::VECTOR_VALUES {
                words = row.cast::<F32x4>().load(0).0;
            } else {
                let F32x2([low, high]) = row.cast::<F32x2>().load(0);
                words[0] = low;
                words[1] = high;
            }
        }
        core::array::from_fn(|i| f32::from((words[i / 2].to_bits() >> (16 * (i % 2))) as u16))
    }
}

impl StoreVector for u8 {
    const VECTOR_VALUES: usize = 8;
    const WRITES_F32: bool = false;

    #[inline(always)]
    #[track_caller]
    unsafe fn store_vector(row: GlobalMut<Self>, index: isize, values: [f32; MAX_VECTOR_VALUES], count: usize) {
        let row = row.offset(index);
        let [a, b, c, d, e, f, g, h] = values;
        // SAFETY: the 8 or 4 values may be stored and are aligned to their size, as this function requires.
        unsafe {
            if count == Self::VECTOR_VALUES {
                let words = [pack_sat_u8x4([a, b, c, d]), pack_sat_u8x4([e, f, g, h])];
                row.cast::<F32x2>().store(0, F32x2(words.map(f32::from_bits)));
            } else {
                row.cast::<f32>().store(0, f32::from_bits(pack_sat_u8x4([a, b, c, d])));
            }
        }
    }
}

impl LoadVector for u8 {
    #[inline(always)]
    fn to_raw(self) -> u32 {
        self.into()
    }

    #[inline(always)]
    fn raw_border(_border_value: f32) -> u32 {
        // No pixel has these bits. The border's value need not be a whole number.
        u32::MAX
    }

    #[inline(always)]
    fn from_raw(raw: u32, border_value: f32) -> f32 {
        if raw == u32::MAX { border_value } else { Self::from_raw_pixel(raw) }
    }

    #[inline(always)]
    fn from_raw_pixel(raw: u32) -> f32 {
        f32::from(raw as u8)
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn load_vector(row: Global<Self>, index: isize, count: usize) -> [f32; MAX_VECTOR_VALUES] {
        let row = row.offset(index);
        // SAFETY: the 8 or 4 values may be loaded and are aligned to their size, as this function requires.
        let words = unsafe {
            if count == Self::VECTOR_VALUES { row.cast::<F32x2>().load(0).0 } else { [row.cast::<f32>().load(0), 0.0] }
        };
        core::array::from_fn(|i| byte_to_f32(words[i / 4].to_bits(), i % 4))
    }
}
