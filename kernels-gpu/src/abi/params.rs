//! The launch parameters, passed by value. Host and device share the layout.

use cuda_std::prelude::*;

use crate::abi::border;
use crate::abi::pixel::{Pixel, PixelType};

/// The largest number of values in a row (pixels times channels), and of rows, of an image or a mask: 2^30 - 1.
///
/// Positions up to one mask away from the image then fit an `i32`. The number of pixels has no limit of its own:
/// offsets have 64 bits.
pub const MAX_SIDE: usize = (1 << 30) - 1;

/// The launch parameters of every convolution kernel.
///
/// Sizes are in pixels. Pitches are in values: a pixel has one value for each channel. The host validates all
/// parameters before a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Params {
    /// Columns of the image and of the result.
    pub width: i32,
    /// Rows of the image and of the result.
    pub height: i32,
    /// Values from one row of the source to the next: at least `width` times the channels.
    pub src_pitch: i32,
    /// Values from one row of the result to the next: at least `width` times the channels.
    pub dst_pitch: i32,
    /// Columns of the mask.
    pub mask_width: i32,
    /// Rows of the mask.
    pub mask_height: i32,
    /// The window of output pixel (x, y) begins in column `x - origin_x`.
    pub origin_x: i32,
    /// The window of output pixel (x, y) begins in row `y - origin_y`.
    pub origin_y: i32,
    /// The first output row of this launch.
    ///
    /// A grid has at most 65,535 rows of blocks, so a tall image takes several launches.
    pub first_row: i32,
    /// The [code](border::BorderMode::code) of the border mode.
    pub border: u32,
    /// The value outside of the image under [`BorderMode::Constant`](border::BorderMode::Constant).
    pub border_value: f32,
    /// The factor in `result = scale * sum + offset`.
    pub scale: f32,
    /// The summand in `result = scale * sum + offset`.
    pub offset: f32,
    /// The [code](crate::abi::pixel::PixelType::code) of the result's pixel type.
    pub result_kind: u32,
}

// The host and the PTX are built at different times. This fixes the layout for both.
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Params>() == 56 && align_of::<Params>() == 4);
    assert!(offset_of!(Params, width) == 0 && offset_of!(Params, height) == 4);
    assert!(offset_of!(Params, src_pitch) == 8 && offset_of!(Params, dst_pitch) == 12);
    assert!(offset_of!(Params, mask_width) == 16 && offset_of!(Params, mask_height) == 20);
    assert!(offset_of!(Params, origin_x) == 24 && offset_of!(Params, origin_y) == 28);
    assert!(offset_of!(Params, first_row) == 32 && offset_of!(Params, border) == 36);
    assert!(offset_of!(Params, border_value) == 40 && offset_of!(Params, scale) == 44);
    assert!(offset_of!(Params, offset) == 48 && offset_of!(Params, result_kind) == 52);
};

impl Params {
    /// Whether `values` x `rows` values lie in an image of `C` interleaved channels.
    ///
    /// `left` and `top` are the value and the row of the first one.
    #[inline(always)]
    #[must_use]
    pub fn contains<const C: u32>(&self, left: i32, top: i32, values: i32, rows: i32) -> bool {
        left >= 0 && top >= 0 && left <= self.row_values::<C>() - values && top <= self.height - rows
    }

    /// The number of values in a row.
    #[inline(always)]
    #[must_use]
    pub fn row_values<const C: u32>(&self) -> i32 {
        self.width * C as i32
    }

    /// The index of value `v` of the source's row `y`, counted from the start of the image.
    #[inline(always)]
    #[must_use]
    pub fn src_index(&self, v: i32, y: i32) -> isize {
        // An image may have more than 2^31 values.
        (y as i64 * self.src_pitch as i64 + v as i64) as isize
    }

    /// The index of value `v` of the result's row `y`.
    #[inline(always)]
    #[must_use]
    pub fn dst_index(&self, v: i32, y: i32) -> isize {
        (y as i64 * self.dst_pitch as i64 + v as i64) as isize
    }

    /// Whether the border is the constant 0. The sign of the zero does not count.
    #[inline(always)]
    #[must_use]
    pub const fn border_is_zero(&self) -> bool {
        self.border == border::BorderMode::Constant.code() && self.border_value == 0.0
    }

    /// The output value of a finished sum.
    #[inline(always)]
    #[must_use]
    pub fn finish(&self, sum: f32) -> f32 {
        // Without scale and offset the sum keeps its bits, also the sign of a zero.
        if self.scale == 1.0 && self.offset == 0.0 { sum } else { fma(sum, self.scale, self.offset) }
    }

    /// The scale and the offset with which one multiply-add gives the result of [`finish`](Self::finish), without a
    /// branch.
    #[inline(always)]
    #[must_use]
    pub fn exact_finish(&self) -> (f32, f32) {
        // `1 * sum + -0.0` keeps the sign of a zero sum, `1 * sum + 0.0` does not.
        let identity = self.scale == 1.0 && self.offset == 0.0;
        (self.scale, if identity { -0.0 } else { self.offset })
    }

    /// Writes the output of a finished sum to value `v` of the result's row `y`, in the result's type.
    ///
    /// # Safety
    /// - `result` holds `height` rows of the type that `result_kind` names, `dst_pitch` values apart.
    /// - value `v` of row `y` lies in the result.
    /// - no other thread reads or writes that value.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store(&self, result: OutputPtr, v: i32, y: i32, sum: f32) {
        const U8: u32 = PixelType::U8.code();
        const U16: u32 = PixelType::U16.code();
        let (index, value) = (self.dst_index(v, y), self.finish(sum));
        // The branch is uniform: one kernel serves three types of results.
        // SAFETY: (v, y) lies in the result, so `index` does; `result_kind` is the type of its values.
        unsafe {
            match self.result_kind {
                U8 => result.cast::<u8>().store(index, u8::from_f32(value)),
                U16 => result.cast::<u16>().store(index, u16::from_f32(value)),
                _ => result.cast::<f32>().store(index, value),
            }
        }
    }
}

/// Coefficients from one row of a mask to the next, where kernels read a row in vectors of 16 bytes. Rows are filled up
/// with zeros.
#[inline(always)]
#[must_use]
pub const fn padded_mask_width(mask_width: u32) -> u32 {
    mask_width.next_multiple_of(4)
}

/// The address of the result. [`Params::result_kind`] names the type of its values.
pub type OutputPtr = GlobalMut<u8>;

#[cfg(test)]
impl Params {
    /// The parameters of an image of one channel and a mask of 1 x 1, with a zero border.
    pub(crate) const fn of_image(width: i32, height: i32) -> Self {
        Self {
            width,
            height,
            src_pitch: width,
            dst_pitch: width,
            mask_width: 1,
            mask_height: 1,
            origin_x: 0,
            origin_y: 0,
            first_row: 0,
            border: 0,
            border_value: 0.0,
            scale: 1.0,
            offset: 0.0,
            result_kind: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `finish` and `exact_finish` agree, also in the sign of a zero.
    #[test]
    fn exact_finish_gives_the_bits_of_finish() {
        for (scale, offset) in [(1.0, 0.0), (1.0, -0.0), (2.0, 0.0), (1.0, 3.0), (-0.5, 1.0)] {
            let params = Params { scale, offset, ..Params::of_image(1, 1) };
            let (factor, summand) = params.exact_finish();
            for sum in [0.0, -0.0, 1.5, -7.25, f32::INFINITY] {
                assert_eq!(fma(sum, factor, summand).to_bits(), params.finish(sum).to_bits(), "{scale} {sum} {offset}");
            }
        }
    }

    #[test]
    fn a_border_of_another_mode_or_value_is_not_zero() {
        let zero = Params::of_image(3, 2);
        assert!(zero.border_is_zero());
        assert!(!Params { border_value: 1.0, ..zero }.border_is_zero());
        assert!(!Params { border: border::BorderMode::Clamp.code(), ..zero }.border_is_zero());
        assert!(!Params { border_value: f32::NAN, ..zero }.border_is_zero());
    }

    /// Offsets beyond 2^31 values, in both directions.
    #[test]
    fn offsets_have_64_bits() {
        let pitch = (1 << 30) - 1;
        let params = Params { src_pitch: pitch, dst_pitch: pitch - 7, ..Params::of_image(pitch, 40) };
        assert_eq!(params.src_index(5, 39), 39 * ((1_isize << 30) - 1) + 5);
        assert_eq!(params.dst_index(-5, 39), 39 * ((1_isize << 30) - 8) - 5);
        assert_eq!(params.src_index(0, -3), -3 * ((1_isize << 30) - 1));
    }
}
