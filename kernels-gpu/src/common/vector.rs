//! The types of values of which neighbours are read and written in one access, for [`strip`](crate::direct::sliding_window::strip).

use cuda_std::prelude::*;

use crate::abi::pixel::Pixel;

/// The most values of one access.
pub const MOST_LANES: usize = 8;

/// A type of values of which neighbours are read and written in one access.
pub trait Vector: Pixel {
    /// Values of 16 bytes, at most [`MOST_LANES`].
    const LANES: usize;
    /// Whether results may be of another type than the image.
    const CONVERTS: bool;

    /// The bits of a value.
    fn to_raw(self) -> u32;

    /// Bits that stand for the border's value.
    fn outside(border_value: f32) -> u32;

    /// The value of bits that one of the two has made.
    fn of_raw(raw: u32, border_value: f32) -> f32;

    /// The first `lanes` values from `index` on, 4 or [`LANES`](Self::LANES) of them.
    ///
    /// # Safety
    /// As for [`Global::load`], for that many values that begin at a multiple of their size.
    unsafe fn load_vector(row: Global<Self>, index: isize, lanes: usize) -> [f32; MOST_LANES];

    /// Writes the first `lanes` values from `index` on.
    ///
    /// # Safety
    /// As for [`GlobalMut::store`], for that many values that begin at a multiple of their size.
    unsafe fn store_vector(row: GlobalMut<Self>, index: isize, values: [f32; MOST_LANES], lanes: usize);
}

impl Vector for f32 {
    const LANES: usize = 4;
    const CONVERTS: bool = false;

    #[inline(always)]
    fn to_raw(self) -> u32 {
        self.to_bits()
    }

    #[inline(always)]
    fn outside(border_value: f32) -> u32 {
        border_value.to_bits()
    }

    #[inline(always)]
    fn of_raw(raw: u32, _border_value: f32) -> f32 {
        f32::from_bits(raw)
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn load_vector(row: Global<Self>, index: isize, _lanes: usize) -> [f32; MOST_LANES] {
        // SAFETY: the caller's promise.
        let F32x4([a, b, c, d]) = unsafe { row.offset(index).cast::<F32x4>().load(0) };
        [a, b, c, d, 0.0, 0.0, 0.0, 0.0]
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn store_vector(row: GlobalMut<Self>, index: isize, values: [f32; MOST_LANES], _lanes: usize) {
        let [a, b, c, d, ..] = values;
        // SAFETY: the caller's promise.
        unsafe { row.offset(index).cast::<F32x4>().store(0, F32x4([a, b, c, d])) };
    }
}

impl Vector for u16 {
    const LANES: usize = 8;
    const CONVERTS: bool = true;

    #[inline(always)]
    fn to_raw(self) -> u32 {
        self.into()
    }

    #[inline(always)]
    fn outside(_border_value: f32) -> u32 {
        // No value of 16 bits: the border's need not be one.
        u32::MAX
    }

    #[inline(always)]
    fn of_raw(raw: u32, border_value: f32) -> f32 {
        if raw == u32::MAX { border_value } else { f32::from(raw as u16) }
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn load_vector(row: Global<Self>, index: isize, lanes: usize) -> [f32; MOST_LANES] {
        let row = row.offset(index);
        let mut words = [0.0; MOST_LANES / 2];
        // SAFETY: the caller's promise.
        unsafe {
            if lanes == Self::LANES {
                words = row.cast::<F32x4>().load(0).0;
            } else {
                let F32x2([low, high]) = row.cast::<F32x2>().load(0);
                words[0] = low;
                words[1] = high;
            }
        }
        core::array::from_fn(|i| f32::from((words[i / 2].to_bits() >> (16 * (i % 2))) as u16))
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn store_vector(row: GlobalMut<Self>, index: isize, values: [f32; MOST_LANES], lanes: usize) {
        let row = row.offset(index);
        let bits = |value: f32| u32::from(Self::from_f32(value));
        let word = |i: usize| f32::from_bits(bits(values[2 * i]) | bits(values[2 * i + 1]) << 16);
        // SAFETY: the caller's promise.
        unsafe {
            if lanes == Self::LANES {
                row.cast::<F32x4>().store(0, F32x4([word(0), word(1), word(2), word(3)]));
            } else {
                row.cast::<F32x2>().store(0, F32x2([word(0), word(1)]));
            }
        }
    }
}
