//! Images in memory.

use std::fmt;

use bytemuck::{Pod, TransparentWrapper, Zeroable};

use crate::debug::First;
use crate::{Error, Result, View, ViewMut, memory};

pub use kernels_gpu::abi::pixel::{Pixel, PixelType};

/// A [`Pixel`] for `bytemuck`.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct PodPixel<T>(T);

// SAFETY: `Pixel` is sealed. All bits zero are a value of each of its types: u8, u16 and f32.
unsafe impl<T: Pixel> Zeroable for PodPixel<T> {}
// SAFETY: those types have no padding, and each bit pattern is a value.
unsafe impl<T: Pixel> Pod for PodPixel<T> {}
// SAFETY: the struct is `repr(transparent)` and has one field of this type.
unsafe impl<T: Pixel> TransparentWrapper<T> for PodPixel<T> {}

/// Values as their bytes.
pub(crate) fn bytes_of<T: Pixel>(values: &[T]) -> &[u8] {
    bytemuck::cast_slice(PodPixel::wrap_slice(values))
}

/// Values as their bytes, to be written.
pub(crate) fn bytes_of_mut<T: Pixel>(values: &mut [T]) -> &mut [u8] {
    bytemuck::cast_slice_mut(PodPixel::wrap_slice_mut(values))
}

/// Bytes as values.
///
/// # Panics
/// If the number of bytes is no multiple of a value's, or the first byte is not aligned for a value.
pub(crate) fn values_of<T: Pixel>(bytes: &[u8]) -> &[T] {
    PodPixel::peel_slice(bytemuck::cast_slice(bytes))
}

/// Bytes as values, to be written.
///
/// # Panics
/// As for [`values_of`].
pub(crate) fn values_of_mut<T: Pixel>(bytes: &mut [u8]) -> &mut [T] {
    PodPixel::peel_slice_mut(bytemuck::cast_slice_mut(bytes))
}

/// Refuses a side of an image or a mask that the kernels can't count.
pub(crate) fn check_side(what: &str, side: usize) -> Result<()> {
    let most = kernels_gpu::abi::params::MAX_SIDE;
    if side > most {
        return Err(Error::TooLarge { what: what.into(), most, found: side.to_string() });
    }
    Ok(())
}

/// An image: `height` rows of `width` pixels of `channels` interleaved values, row by row, without gaps.
///
/// ```
/// use faltung::Image;
///
/// let image = Image::from_fn(4, 3, |x, y| (10 * y + x) as f32)?;
/// assert_eq!(image.row(2), [20.0, 21.0, 22.0, 23.0]);
/// # Ok::<(), faltung::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Image<T = f32> {
    width: usize,
    height: usize,
    channels: usize,
    values: Vec<T>,
}

impl<T: fmt::Debug> fmt::Debug for Image<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, height, channels, values } = self;
        let mut image = f.debug_struct("Image");
        image.field("width", width).field("height", height).field("channels", channels);
        image.field("values", &First(values)).finish()
    }
}

impl<T: Pixel> Image<T> {
    /// An image of `width * height * channels` values, the first row first, from the left, channels together.
    ///
    /// # Errors
    /// [`Error::EmptyImage`] if a size is 0, [`Error::TooLarge`] if a side is above 2^30 - 1 or the sizes' product
    /// overflows, [`Error::Length`] if there are more or fewer values.
    pub fn new(width: usize, height: usize, channels: usize, values: Vec<T>) -> Result<Self> {
        let required = Self::checked_len(width, height, channels)?;
        if values.len() != required {
            let found = values.len();
            return Err(Error::Length { what: "image", width, height, channels, required, found });
        }
        Ok(Self { width, height, channels, values })
    }

    /// An image of this size, all 0.
    ///
    /// # Errors
    /// As for [`new`](Self::new); [`Error::HostMemory`].
    pub fn zeros(width: usize, height: usize, channels: usize) -> Result<Self> {
        let length = Self::checked_len(width, height, channels)?;
        Self::new(width, height, channels, memory::zeros(length, "for an image")?)
    }

    /// The number of values of an image of this size.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn checked_len(width: usize, height: usize, channels: usize) -> Result<usize> {
        if width == 0 || height == 0 || channels == 0 {
            return Err(Error::EmptyImage { width, height, channels });
        }
        check_side("image width", width)?;
        check_side("image height", height)?;
        let most = isize::MAX as usize / size_of::<f64>();
        width
            .checked_mul(height)
            .and_then(|pixels| pixels.checked_mul(channels))
            .filter(|&values| values <= most)
            .ok_or_else(|| Error::TooLarge {
                what: "the number of values of an image".into(),
                most,
                found: format!("{width} x {height} x {channels}"),
            })
    }

    /// An image of one channel, value by value; `value` gets column and row.
    ///
    /// # Errors
    /// As for [`new`](Self::new), and [`Error::HostMemory`].
    pub fn from_fn(width: usize, height: usize, mut value: impl FnMut(usize, usize) -> T) -> Result<Self> {
        let mut values = memory::with_capacity(Self::checked_len(width, height, 1)?, "for an image")?;
        for y in 0..height {
            values.extend((0..width).map(|x| value(x, y)));
        }
        Self::new(width, height, 1, values)
    }

    /// Columns.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// Values of a pixel.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// All values, row by row.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The values, taken out.
    #[must_use]
    pub fn into_values(self) -> Vec<T> {
        self.values
    }

    /// The values of row `y`.
    ///
    /// # Panics
    /// If there is no row `y`.
    #[must_use]
    pub fn row(&self, y: usize) -> &[T] {
        assert!(y < self.height, "row {y} of {}", self.height);
        let length = self.width * self.channels;
        &self.values[y * length..][..length]
    }

    /// The values of row `y`, to be written.
    ///
    /// ```
    /// use faltung::Image;
    ///
    /// let mut image = Image::<u8>::zeros(3, 2, 1)?;
    /// image.row_mut(1).fill(7);
    /// assert_eq!(image.values(), [0, 0, 0, 7, 7, 7]);
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Panics
    /// If there is no row `y`.
    #[must_use]
    pub fn row_mut(&mut self, y: usize) -> &mut [T] {
        assert!(y < self.height, "row {y} of {}", self.height);
        let length = self.width * self.channels;
        &mut self.values[y * length..][..length]
    }

    /// The image, lent.
    #[must_use]
    pub fn view(&self) -> View<'_, T> {
        View::dense(self)
    }

    /// The image, lent to be written.
    #[must_use]
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::dense(self)
    }

    /// All values, to be written, row by row.
    #[must_use]
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// The image with every value converted.
    #[must_use]
    pub fn map<U: Pixel>(&self, convert: impl Fn(T) -> U) -> Image<U> {
        Image {
            width: self.width,
            height: self.height,
            channels: self.channels,
            values: self.values.iter().map(|&value| convert(value)).collect(),
        }
    }

    /// One channel, as an image of its own.
    ///
    /// # Panics
    /// If there is no such channel.
    #[must_use]
    pub fn channel(&self, channel: usize) -> Image<T> {
        assert!(channel < self.channels, "channel {channel} of {}", self.channels);
        let values = self.values.iter().skip(channel).step_by(self.channels).copied().collect();
        Image { width: self.width, height: self.height, channels: 1, values }
    }

    /// The part of the image from column `x` and row `y` on.
    ///
    /// # Errors
    /// [`Error::EmptyImage`] for a size of 0, [`Error::TooLarge`] if it does not lie in the image,
    /// [`Error::HostMemory`].
    pub fn crop(&self, x: usize, y: usize, width: usize, height: usize) -> Result<Self> {
        Self::checked_len(width, height, self.channels)?;
        let ends = [("right", x.checked_add(width), self.width), ("lower", y.checked_add(height), self.height)];
        for (edge, end, most) in ends {
            if end.is_none_or(|end| end > most) {
                let found = end.map_or_else(|| "past any number".to_owned(), |end| end.to_string());
                return Err(Error::TooLarge { what: format!("the {edge} edge of the part to crop"), most, found });
            }
        }
        let mut values = memory::with_capacity(width * height * self.channels, "for a part of an image")?;
        for row in y..y + height {
            values.extend_from_slice(&self.row(row)[x * self.channels..(x + width) * self.channels]);
        }
        Self::new(width, height, self.channels, values)
    }

    /// The image whose channels are the given one-channel images, in their order.
    ///
    /// # Errors
    /// [`Error::EmptyImage`] if there is none, [`Error::ChannelCount`] if one has several channels, [`Error::Channels`]
    /// if their sizes differ, [`Error::TooLarge`] if there are too many values, [`Error::HostMemory`].
    pub fn from_channels(planes: &[Image<T>]) -> Result<Self> {
        let Some(first) = planes.first() else {
            return Err(Error::EmptyImage { width: 0, height: 0, channels: 0 });
        };
        if let Some(other) = planes.iter().find(|plane| plane.channels != 1) {
            return Err(Error::ChannelCount { required: "1 in each image".into(), found: other.channels });
        }
        let size = |plane: &Image<T>| (plane.width, plane.height);
        if let Some(other) = planes.iter().find(|plane| size(plane) != size(first)) {
            return Err(Error::Channels { first: size(first), other: size(other) });
        }
        let length = Self::checked_len(first.width, first.height, planes.len())?;
        let mut values = memory::zeros(length, "to join channels")?;
        for (channel, plane) in planes.iter().enumerate() {
            for (value, &from) in values.iter_mut().skip(channel).step_by(planes.len()).zip(&plane.values) {
                *value = from;
            }
        }
        Self::new(first.width, first.height, planes.len(), values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_round_half_to_even_and_saturate() {
        let cases = [(0.5, 0), (1.5, 2), (2.5, 2), (254.5, 254), (255.5, 255), (-3.0, 0), (1e9, 255)];
        for (value, expected) in cases {
            assert_eq!(u8::from_f32(value), expected, "{value}");
        }
        assert_eq!(u8::from_f32(f32::NAN), 0);
        assert_eq!(u16::from_f32(65_534.5), 65_534);
        assert_eq!(u16::from_f32(f32::INFINITY), 65_535);
    }

    #[test]
    fn channels_split_and_join() {
        let image = Image::new(2, 2, 3, (0_u8..12).collect()).unwrap();
        let planes: Vec<_> = (0..3).map(|channel| image.channel(channel)).collect();
        assert_eq!(planes[1].values(), [1, 4, 7, 10]);
        assert_eq!(Image::from_channels(&planes).unwrap(), image);
    }

    #[test]
    fn sizes_are_checked() {
        assert!(matches!(Image::<u8>::new(0, 3, 1, vec![]), Err(Error::EmptyImage { .. })));
        assert!(matches!(Image::new(2, 2, 1, vec![0_u8; 5]), Err(Error::Length { required: 4, found: 5, .. })));
        assert!(matches!(Image::<u8>::checked_len(1 << 30, 1, 1), Err(Error::TooLarge { .. })));
        assert!(matches!(Image::<u8>::checked_len((1 << 30) - 1, (1 << 30) - 1, 4), Err(Error::TooLarge { .. })));
        let image = Image::from_fn(3, 3, |x, y| (x + y) as f32).unwrap();
        assert!(matches!(image.crop(1, 1, 3, 1), Err(Error::TooLarge { .. })));
        assert!(matches!(image.crop(1, usize::MAX, 1, 1), Err(Error::TooLarge { .. })));
        assert_eq!(image.crop(1, 2, 2, 1).unwrap().values(), [3.0, 4.0]);
    }
}
