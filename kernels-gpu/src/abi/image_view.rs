//! Reads of an image at any position. Outside of the image the [border map](crate::abi::border) gives the value.

use cuda_std::prelude::*;

use crate::abi::border;
use crate::abi::params::Params;
use crate::abi::pixel::Pixel;

/// An image of `C` interleaved channels and the border around it.
///
/// The view is made once, with a promise about the image's memory. Its reads are safe at any position.
#[derive(Clone, Copy)]
pub struct ImageView<'a, P, const C: u32> {
    pixels: Global<P>,
    params: &'a Params,
}

impl<'a, P: Pixel, const C: u32> ImageView<'a, P, C> {
    /// The view of the source image that `params` describe.
    ///
    /// # Safety
    /// While the view is in use:
    /// - `pixels` holds `params.height` rows, and row `y` begins `y * params.src_pitch` values after the first.
    /// - Each row holds `params.width * C` initialized values.
    /// - `params.width * C` and `params.height` are from 1 to [`MAX_SIDE`](crate::abi::params::MAX_SIDE).
    /// - No thread writes the image.
    #[inline(always)]
    #[must_use]
    pub unsafe fn new(pixels: Global<P>, params: &'a Params) -> Self {
        Self { pixels, params }
    }

    /// Row `y`, or the row that the border puts there.
    #[inline(always)]
    #[must_use]
    pub fn row(&self, y: i32) -> Row<'a, P, C> {
        let y = border::map(self.params.border, y, self.params.height);
        // For OUTSIDE the pointer is computed and never read.
        Row { pixels: self.pixels.offset(self.params.src_index(0, y)), exists: y >= 0, params: self.params }
    }
}

/// A row of an [`ImageView`], or a row of border values.
#[derive(Clone, Copy)]
pub struct Row<'a, P, const C: u32> {
    pixels: Global<P>,
    exists: bool,
    params: &'a Params,
}

impl<P: Pixel, const C: u32> Row<'_, P, C> {
    /// One channel of the pixel in column `x`, or of the pixel that the border puts there.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub fn value(&self, x: i32, channel: Channel<C>) -> f32 {
        let params = self.params;
        // Most columns of a block at the edge lie in the image. One comparison settles them.
        let x = if (x as u32) < params.width as u32 { x } else { border::map(params.border, x, params.width) };
        if x < 0 || !self.exists {
            return params.border_value;
        }
        // SAFETY: `ImageView::new` promised the row, 0 <= x < width, and a `Channel` is below C.
        unsafe { self.pixels.load((x * C as i32 + channel.0 as i32) as isize).to_f32() }
    }
}

/// The number of a channel, below `C`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel<const C: u32>(u32);

impl<const C: u32> Channel<C> {
    /// The first channel.
    pub const FIRST: Self = Self(0);

    /// The channel to which value `v` of a row belongs.
    #[inline(always)]
    #[must_use]
    pub const fn of_value(v: u32) -> Self {
        Self(v % C)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_belongs_to_the_channel_of_its_remainder() {
        assert_eq!(Channel::<3>::of_value(0), Channel::FIRST);
        assert_eq!(Channel::<3>::of_value(7), Channel(1));
        assert_eq!(Channel::<1>::of_value(7), Channel::FIRST);
    }
}
