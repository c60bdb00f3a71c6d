//! What a launch passes by value, the same bytes on both sides.

use cuda_std::prelude::*;

use crate::abi::border;
use crate::abi::pixel::{Pixel, PixelType};

/// The most values of a row (pixels times channels) and the most rows of an image or a mask: 2^30 - 1. Positions up to one
/// mask away from the image then fit an `i32`. The number of pixels has no such limit: offsets are 64 bits wide.
pub const MAX_SIDE: usize = (1 << 30) - 1;

/// The launch parameters of every convolution kernel.
///
/// Sizes are in pixels, pitches in values (a pixel has one for each channel); all are validated by the host before a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Params {
    /// Columns of the image and of the result.
    pub width: i32,
    /// Rows of the image and of the result.
    pub height: i32,
    /// Values from one row of the source to the next, at least `width` times the channels.
    pub src_pitch: i32,
    /// Values from one row of the result to the next, at least as many.
    pub dst_pitch: i32,
    /// Columns of the mask.
    pub mask_width: i32,
    /// Rows of the mask.
    pub mask_height: i32,
    /// The window of output pixel (x, y) begins in column `x - origin_x` …
    pub origin_x: i32,
    /// … and row `y - origin_y`.
    pub origin_y: i32,
    /// The first output row of this launch: a grid has at most 65,535 rows of blocks, a tall image takes several launches.
    pub first_row: i32,
    /// [`BorderMode::code`](border::BorderMode::code).
    pub border: u32,
    /// What lies outside under [`BorderMode::Constant`](border::BorderMode::Constant).
    pub border_value: f32,
    /// The result is `scale * sum + offset`.
    pub scale: f32,
    /// See `scale`.
    pub offset: f32,
    /// [`PixelType::code`](crate::abi::pixel::PixelType::code) of the result.
    pub result_kind: u32,
}

// The host and the PTX are built at different times: the layout is fixed here for both.
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
    /// Whether the `values` x `rows` values from column `left` and row `top` on all lie in an image of `C` interleaved channels.
    #[inline(always)]
    #[must_use]
    pub fn contains<const C: u32>(&self, left: i32, top: i32, values: i32, rows: i32) -> bool {
        left >= 0 && top >= 0 && left <= self.row_values::<C>() - values && top <= self.height - rows
    }

    /// The values of a row.
    #[inline(always)]
    #[must_use]
    pub fn row_values<const C: u32>(&self) -> i32 {
        self.width * C as i32
    }

    /// The index of value `v` of the source's row `y`, counted from the start of the image.
    #[inline(always)]
    #[must_use]
    pub fn src_index(&self, v: i32, y: i32) -> isize {
        // 64 bits: an image may have more than 2^31 values.
        (y as i64 * self.src_pitch as i64 + v as i64) as isize
    }

    /// The index of value `v` of the result's row `y`.
    #[inline(always)]
    #[must_use]
    pub fn dst_index(&self, v: i32, y: i32) -> isize {
        (y as i64 * self.dst_pitch as i64 + v as i64) as isize
    }

    /// Row `y` of the image, which may lie outside: then the row that stands for it, if any.
    #[inline(always)]
    #[must_use]
    pub fn row_or_border<P: Pixel>(&self, image: Global<P>, y: i32) -> Row<P> {
        let y = border::map(self.border, y, self.height);
        // Of a row that does not exist no pixel is read; its pointer is only made.
        Row { pixels: image.offset(self.src_index(0, y)), exists: y >= 0 }
    }

    /// One channel of the pixel in column `x` of a row, which may lie outside: then what the border says.
    ///
    /// # Safety
    /// `row` is of [`row_or_border`](Self::row_or_border), for an image of `height` rows of `width` pixels of `C` values,
    /// `src_pitch` values apart; `channel` is below `C`.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub unsafe fn value_or_border<P: Pixel, const C: u32>(&self, row: Row<P>, x: i32, channel: u32) -> f32 {
        // Most columns of a block at the edge are inside: one comparison for them, the map for the others.
        let x = if (x as u32) < self.width as u32 { x } else { border::map(self.border, x, self.width) };
        if x < 0 || !row.exists {
            return self.border_value;
        }
        // SAFETY: the row exists, and the map returns OUTSIDE (negative, handled above) or a column in it.
        unsafe { row.pixels.load((x * C as i32 + channel as i32) as isize).to_f32() }
    }

    /// The output value of a finished sum.
    #[inline(always)]
    #[must_use]
    pub fn finish(&self, sum: f32) -> f32 {
        // Without scale and offset the sum stays as it is, down to the sign of a zero.
        if self.scale == 1.0 && self.offset == 0.0 { sum } else { fma(sum, self.scale, self.offset) }
    }

    /// Scale and offset for a multiply-add without a question, to the same result as [`finish`](Self::finish).
    #[inline(always)]
    #[must_use]
    pub fn exact_finish(&self) -> (f32, f32) {
        // `1 * sum + -0.0` is the sum down to the sign of a zero, `1 * sum + 0.0` is not.
        let plain = self.scale == 1.0 && self.offset == 0.0;
        (self.scale, if plain { -0.0 } else { self.offset })
    }

    /// Writes value `v` of the result's row `y` from a finished sum, in the result's type.
    ///
    /// # Safety
    /// `result` holds `height` rows of `width` pixels of that type, `dst_pitch` values apart; (v, y) lies in it and is
    /// nobody else's.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store(&self, result: OutputPtr, v: i32, y: i32, sum: f32) {
        const U8: u32 = PixelType::U8.code();
        const U16: u32 = PixelType::U16.code();
        let (index, value) = (self.dst_index(v, y), self.finish(sum));
        // Asked once per value, and answered alike in all threads. One kernel then serves three types of results.
        // SAFETY: the caller's promise.
        unsafe {
            match self.result_kind {
                U8 => result.cast::<u8>().store(index, u8::from_f32(value)),
                U16 => result.cast::<u16>().store(index, u16::from_f32(value)),
                _ => result.cast::<f32>().store(index, value),
            }
        }
    }
}

/// The result, whose type [`Params::result_kind`] says.
pub type OutputPtr = GlobalMut<u8>;

/// A row of the image, as [`Params::row_or_border`] finds it.
#[derive(Clone, Copy)]
pub struct Row<P> {
    pixels: Global<P>,
    exists: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets beyond 2^31 values, in either direction.
    #[test]
    fn offsets_have_64_bits() {
        let pitch = (1 << 30) - 1;
        let params = Params {
            width: pitch,
            height: 40,
            src_pitch: pitch,
            dst_pitch: pitch - 7,
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
        };
        assert_eq!(params.src_index(5, 39), 39 * ((1_isize << 30) - 1) + 5);
        assert_eq!(params.dst_index(-5, 39), 39 * ((1_isize << 30) - 8) - 5);
        assert_eq!(params.src_index(0, -3), -3 * ((1_isize << 30) - 1));
    }
}
