//! Images whose type of values is known when the program runs.

use std::any::Any;

use crate::{Error, Image, Pixel, PixelType, Result};

/// Evaluates an expression with the image of an [`AnyImage`], whatever its type.
#[doc(hidden)]
#[macro_export]
macro_rules! each_type {
    ($any:expr, $image:ident => $body:expr) => {
        match $any {
            $crate::AnyImage::U8($image) => $body,
            $crate::AnyImage::U16($image) => $body,
            $crate::AnyImage::F32($image) => $body,
        }
    };
}

/// Evaluates an expression with the type of a [`PixelType`]'s values.
#[doc(hidden)]
#[macro_export]
macro_rules! for_pixel_type {
    ($kind:expr, $type:ident => $body:expr) => {
        match $kind {
            $crate::PixelType::U8 => {
                type $type = u8;
                $body
            }
            $crate::PixelType::U16 => {
                type $type = u16;
                $body
            }
            $crate::PixelType::F32 => {
                type $type = f32;
                $body
            }
        }
    };
}

/// An image of any [`Pixel`] type, such as a file gives.
///
/// [`Image`] converts into it, and it converts back into an image of its own type.
///
/// ```
/// use faltung::{AnyImage, Image};
///
/// let image = Image::new(2, 1, 1, vec![7_u8, 9])?;
/// let any = AnyImage::from(image.clone());
/// assert_eq!(any.pixel_type().name(), "u8");
/// assert!(Image::<f32>::try_from(any.clone()).is_err());
/// assert_eq!(Image::<u8>::try_from(any)?, image);
/// # Ok::<(), faltung::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum AnyImage {
    /// 8 bits.
    U8(Image<u8>),
    /// 16 bits.
    U16(Image<u16>),
    /// Floating point.
    F32(Image<f32>),
}

/// The same image, if `T` is `U`.
fn same_type<T: Pixel, U: Pixel>(image: Image<T>) -> Result<Image<U>> {
    let image: Box<dyn Any> = Box::new(image);
    image.downcast().map(|image| *image).map_err(|_| Error::OtherPixelType { required: U::TYPE, found: T::TYPE })
}

impl<T: Pixel> From<Image<T>> for AnyImage {
    /// Without a copy.
    fn from(image: Image<T>) -> Self {
        match T::TYPE {
            PixelType::U8 => same_type(image).map(Self::U8),
            PixelType::U16 => same_type(image).map(Self::U16),
            PixelType::F32 => same_type(image).map(Self::F32),
        }
        .expect("each type has a tag of its own")
    }
}

/// Without a copy. [`Error::OtherPixelType`] if the image is of another type.
impl<T: Pixel> TryFrom<AnyImage> for Image<T> {
    type Error = Error;

    fn try_from(image: AnyImage) -> Result<Self> {
        each_type!(image, image => same_type(image))
    }
}

impl AnyImage {
    /// Columns.
    #[must_use]
    pub fn width(&self) -> usize {
        each_type!(self, image => image.width())
    }

    /// Rows.
    #[must_use]
    pub fn height(&self) -> usize {
        each_type!(self, image => image.height())
    }

    /// Values of a pixel.
    #[must_use]
    pub fn channels(&self) -> usize {
        each_type!(self, image => image.channels())
    }

    /// The type of the values.
    #[must_use]
    pub fn pixel_type(&self) -> PixelType {
        fn of<T: Pixel>(_: &Image<T>) -> PixelType {
            T::TYPE
        }
        each_type!(self, image => of(image))
    }

    /// An image of this size and type, all 0.
    ///
    /// # Errors
    /// Those of [`Image::zeros`].
    pub fn zeros(width: usize, height: usize, channels: usize, pixel_type: PixelType) -> Result<Self> {
        for_pixel_type!(pixel_type, T => Image::<T>::zeros(width, height, channels).map(Self::from))
    }

    /// The values as f32, which holds all types exactly.
    #[must_use]
    pub fn to_f32(&self) -> Image<f32> {
        each_type!(self, image => image.map(Pixel::to_f32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<T: Pixel>() {
        let image = Image::<T>::zeros(3, 2, 4).unwrap();
        let address = image.values().as_ptr();
        let any = AnyImage::from(image);
        assert_eq!((any.width(), any.height(), any.channels(), any.pixel_type()), (3, 2, 4, T::TYPE));
        assert_eq!(AnyImage::zeros(3, 2, 4, T::TYPE).unwrap(), any);
        assert_eq!(any.to_f32(), Image::zeros(3, 2, 4).unwrap());
        assert_eq!(Image::<T>::try_from(any).unwrap().values().as_ptr(), address);
    }

    #[test]
    fn images_keep_their_memory() {
        there_and_back::<u8>();
        there_and_back::<u16>();
        there_and_back::<f32>();
    }

    #[test]
    fn another_type_is_refused() {
        let any = AnyImage::zeros(1, 1, 1, PixelType::U16).unwrap();
        let error = Image::<u8>::try_from(any).unwrap_err();
        assert_eq!(error.to_string(), "an image of u8 values is required, this one is of u16");
    }
}
