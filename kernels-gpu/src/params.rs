//! What a launch passes by value, the same bytes on both sides.

use cuda_std::prelude::*;

use crate::border;
use crate::pixel::Pixel;

/// The largest width or height of an image or a mask: 2^30 - 1. Positions up to one mask away from the image then fit
/// an `i32`. The number of pixels has no such limit: offsets are 64 bits wide.
pub const MAX_SIDE: usize = (1 << 30) - 1;

/// The launch parameters of every convolution kernel.
///
/// Sizes are in pixels, pitches in elements; all are validated by the host before a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Params {
    /// Columns of the image and of the result.
    pub width: i32,
    /// Rows of the image and of the result.
    pub height: i32,
    /// Elements from one row of the source to the next, at least `width`.
    pub src_pitch: i32,
    /// Elements from one row of the result to the next, at least `width`.
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
}

// The host and the PTX are built at different times: the layout is fixed here for both.
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Params>() == 52 && align_of::<Params>() == 4);
    assert!(offset_of!(Params, width) == 0 && offset_of!(Params, height) == 4);
    assert!(offset_of!(Params, src_pitch) == 8 && offset_of!(Params, dst_pitch) == 12);
    assert!(offset_of!(Params, mask_width) == 16 && offset_of!(Params, mask_height) == 20);
    assert!(offset_of!(Params, origin_x) == 24 && offset_of!(Params, origin_y) == 28);
    assert!(offset_of!(Params, first_row) == 32 && offset_of!(Params, border) == 36);
    assert!(offset_of!(Params, border_value) == 40 && offset_of!(Params, scale) == 44);
    assert!(offset_of!(Params, offset) == 48);
};

impl Params {
    /// Whether the `width` x `height` pixels from column `left` and row `top` on all lie in the image.
    #[inline(always)]
    #[must_use]
    pub fn contains(&self, left: i32, top: i32, width: i32, height: i32) -> bool {
        left >= 0 && top >= 0 && left <= self.width - width && top <= self.height - height
    }

    /// The index of the source's element in column `x` and row `y`, counted from the start of the image.
    #[inline(always)]
    #[must_use]
    pub fn src_index(&self, x: i32, y: i32) -> isize {
        // 64 bits: an image may have more than 2^31 pixels.
        (y as i64 * self.src_pitch as i64 + x as i64) as isize
    }

    /// The index of the result's element in column `x` and row `y`.
    #[inline(always)]
    #[must_use]
    pub fn dst_index(&self, x: i32, y: i32) -> isize {
        (y as i64 * self.dst_pitch as i64 + x as i64) as isize
    }

    /// Row `y` of the image, which may lie outside: then the row that stands for it, if any.
    #[inline(always)]
    #[must_use]
    pub fn row_or_border<P: Pixel>(&self, image: Global<P>, y: i32) -> Row<P> {
        let y = border::map(self.border, y, self.height);
        // Of a row that does not exist no pixel is read; its pointer is only made.
        Row { pixels: image.offset(self.src_index(0, y)), exists: y >= 0 }
    }

    /// The pixel in column `x` of a row, which may lie outside: then what the border says.
    ///
    /// # Safety
    /// `row` is of [`row_or_border`](Self::row_or_border), for an image of `height` rows of `width` pixels, `src_pitch`
    /// elements apart.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub unsafe fn pixel_or_border<P: Pixel>(&self, row: Row<P>, x: i32) -> f32 {
        // Most columns of a block at the edge are inside: one comparison for them, the map for the others.
        let x = if (x as u32) < self.width as u32 { x } else { border::map(self.border, x, self.width) };
        if x < 0 || !row.exists {
            return self.border_value;
        }
        // SAFETY: the row exists, and the map returns OUTSIDE (negative, handled above) or a column in it.
        unsafe { row.pixels.load(x as isize).to_f32() }
    }

    /// The output value of a finished sum.
    #[inline(always)]
    #[must_use]
    pub fn finish(&self, sum: f32) -> f32 {
        // Without scale and offset the sum stays as it is, down to the sign of a zero.
        if self.scale == 1.0 && self.offset == 0.0 { sum } else { fma(sum, self.scale, self.offset) }
    }
}

/// A row of the image, as [`Params::row_or_border`] finds it.
#[derive(Clone, Copy)]
pub struct Row<P> {
    pixels: Global<P>,
    exists: bool,
}
