//! Images of the crate `image`.

use std::ops::{Deref, DerefMut};

use ::image::{DynamicImage, ImageBuffer, Pixel as ImagePixel};

use crate::{AnyImage, Error, Image, Pixel, Result, View, ViewMut};

/// Width, height and channels.
fn sizes<P: ImagePixel, C: Deref<Target = [P::Subpixel]>>(buffer: &ImageBuffer<P, C>) -> (usize, usize, usize) {
    // A u32 fits: images of 2^30 pixels a side have no place where usize is smaller.
    (buffer.width() as usize, buffer.height() as usize, usize::from(P::CHANNEL_COUNT))
}

/// Takes the buffer's memory, without a copy. The channels are those of `P`: 1 for `Luma`, 4 for `Rgba`.
///
/// ```
/// use faltung::{Device, Filter, Image};
/// use image::RgbImage;
///
/// let photograph = RgbImage::from_fn(64, 48, |x, y| image::Rgb([x as u8, y as u8, 128]));
/// let blurred: Image<u8> = Device::cpu().apply(&Filter::gaussian(2.0), &Image::try_from(photograph)?)?;
/// let blurred = RgbImage::try_from(blurred)?;
/// # assert_eq!(blurred.dimensions(), (64, 48));
/// # Ok::<(), faltung::Error>(())
/// ```
///
/// # Errors
/// Those of [`Image::new`]: an `ImageBuffer` can be empty or too large.
impl<P> TryFrom<ImageBuffer<P, Vec<P::Subpixel>>> for Image<P::Subpixel>
where
    P: ImagePixel,
    P::Subpixel: Pixel,
{
    type Error = Error;

    fn try_from(buffer: ImageBuffer<P, Vec<P::Subpixel>>) -> Result<Self> {
        let (width, height, channels) = sizes(&buffer);
        let mut values = buffer.into_raw();
        // A buffer may be longer than its image.
        values.truncate(Self::checked_len(width, height, channels)?);
        Self::new(width, height, channels, values)
    }
}

/// Takes the image's memory, without a copy.
///
/// ```
/// use faltung::Image;
/// use image::{GrayImage, RgbImage};
///
/// let image = Image::from_fn(4, 3, |x, y| (10 * y + x) as u8)?;
/// let grey = GrayImage::try_from(image.clone())?;
/// assert_eq!(grey.get_pixel(3, 2).0, [23]);
///
/// let error = RgbImage::try_from(image).unwrap_err();
/// assert_eq!(error.to_string(), "the number of channels must be 3, not 1");
/// # Ok::<(), faltung::Error>(())
/// ```
///
/// # Errors
/// [`Error::ChannelCount`] if `P` has more or fewer channels.
impl<P> TryFrom<Image<P::Subpixel>> for ImageBuffer<P, Vec<P::Subpixel>>
where
    P: ImagePixel,
    P::Subpixel: Pixel,
{
    type Error = Error;

    fn try_from(image: Image<P::Subpixel>) -> Result<Self> {
        let (required, found) = (P::CHANNEL_COUNT, image.channels());
        if usize::from(required) != found {
            return Err(Error::ChannelCount { required: required.to_string(), found });
        }
        // Sides are at most MAX_SIDE, which `Image` checks.
        let (width, height) = (image.width() as u32, image.height() as u32);
        Ok(Self::from_raw(width, height, image.into_values())
            .expect("an image has as many values as its size asks for"))
    }
}

/// Lends the buffer, without a copy, whatever container its values are in.
///
/// ```
/// use faltung::View;
///
/// let grey = image::GrayImage::from_fn(4, 3, |x, y| image::Luma([(10 * y + x) as u8]));
/// assert_eq!(View::try_from(&grey)?.row(2), [20, 21, 22, 23]);
/// # Ok::<(), faltung::Error>(())
/// ```
///
/// # Errors
/// Those of [`Image::new`]: an `ImageBuffer` can be empty or too large.
impl<'a, P, C> TryFrom<&'a ImageBuffer<P, C>> for View<'a, P::Subpixel>
where
    P: ImagePixel,
    P::Subpixel: Pixel,
    C: Deref<Target = [P::Subpixel]>,
{
    type Error = Error;

    fn try_from(buffer: &'a ImageBuffer<P, C>) -> Result<Self> {
        let (width, height, channels) = sizes(buffer);
        View::new(width, height, channels, width * channels, buffer.as_raw())
    }
}

/// Lends the buffer to be written, without a copy, whatever container its values are in.
///
/// ```
/// use faltung::{Device, Filter, PixelFormat, Problem, VariantChoice, View, ViewMut};
/// use image::{ImageBuffer, Luma, RgbImage};
///
/// let source = RgbImage::from_pixel(64, 48, image::Rgb([1, 2, 3]));
/// let mut result = ImageBuffer::<image::Rgb<u16>, _>::new(64, 48);
/// let problem = Problem::new(64, 48, &Filter::average(3, 3).scale(10.0))?.with_format(PixelFormat::of::<u8, u16>(3))?;
/// let device = Device::cpu();
/// let prepared = device.prepare(&problem, VariantChoice::Auto)?;
/// prepared.apply_view(View::try_from(&source)?, ViewMut::try_from(&mut result)?)?;
/// assert_eq!(result.get_pixel(20, 20).0, [10, 20, 30]);
/// # Ok::<(), faltung::Error>(())
/// ```
///
/// # Errors
/// Those of [`Image::new`]: an `ImageBuffer` can be empty or too large.
impl<'a, P, C> TryFrom<&'a mut ImageBuffer<P, C>> for ViewMut<'a, P::Subpixel>
where
    P: ImagePixel,
    P::Subpixel: Pixel,
    C: DerefMut<Target = [P::Subpixel]>,
{
    type Error = Error;

    fn try_from(buffer: &'a mut ImageBuffer<P, C>) -> Result<Self> {
        let (width, height, channels) = sizes(buffer);
        ViewMut::new(width, height, channels, width * channels, buffer)
    }
}

/// Takes the image's memory, without a copy. The type of the values stays.
///
/// ```
/// use faltung::AnyImage;
/// use image::DynamicImage;
///
/// let decoded = DynamicImage::new_rgb16(4, 3);
/// let image = AnyImage::try_from(decoded.clone())?;
/// assert!(matches!(&image, AnyImage::U16(image) if image.channels() == 3));
/// assert_eq!(DynamicImage::try_from(image)?, decoded);
/// # Ok::<(), faltung::Error>(())
/// ```
///
/// # Errors
/// Those of [`Image::new`]: a `DynamicImage` can be empty or too large. [`Error::Parse`] if it is of a colour type that
/// a later version of `image` adds.
impl TryFrom<DynamicImage> for AnyImage {
    type Error = Error;

    fn try_from(image: DynamicImage) -> Result<Self> {
        match image {
            DynamicImage::ImageLuma8(buffer) => Image::try_from(buffer).map(Self::U8),
            DynamicImage::ImageLumaA8(buffer) => Image::try_from(buffer).map(Self::U8),
            DynamicImage::ImageRgb8(buffer) => Image::try_from(buffer).map(Self::U8),
            DynamicImage::ImageRgba8(buffer) => Image::try_from(buffer).map(Self::U8),
            DynamicImage::ImageLuma16(buffer) => Image::try_from(buffer).map(Self::U16),
            DynamicImage::ImageLumaA16(buffer) => Image::try_from(buffer).map(Self::U16),
            DynamicImage::ImageRgb16(buffer) => Image::try_from(buffer).map(Self::U16),
            DynamicImage::ImageRgba16(buffer) => Image::try_from(buffer).map(Self::U16),
            DynamicImage::ImageRgb32F(buffer) => Image::try_from(buffer).map(Self::F32),
            DynamicImage::ImageRgba32F(buffer) => Image::try_from(buffer).map(Self::F32),
            other => Err(Error::Parse {
                what: "the colour type of an image",
                required: "1 to 4 channels of u8, u16 or f32".into(),
                found: format!("{:?}", other.color()),
            }),
        }
    }
}

/// Takes the image's memory, without a copy. Values of another type are not converted. Convert with a method of
/// `DynamicImage` such as `into_rgb8` or `into_rgb32f` first, or keep the type in an [`AnyImage`].
///
/// ```
/// use faltung::Image;
/// use image::DynamicImage;
///
/// let image = Image::<u8>::try_from(DynamicImage::new_rgb8(4, 3))?;
/// assert_eq!(image.channels(), 3);
/// let error = Image::<u8>::try_from(DynamicImage::new_luma16(4, 3)).unwrap_err();
/// assert_eq!(error.to_string(), "an image of u8 values is required, this one is of u16");
/// # Ok::<(), faltung::Error>(())
/// ```
///
/// # Errors
/// [`Error::OtherPixelType`] if the values are not of type `T`; those of `AnyImage::try_from`.
impl<T: Pixel> TryFrom<DynamicImage> for Image<T> {
    type Error = Error;

    fn try_from(image: DynamicImage) -> Result<Self> {
        AnyImage::try_from(image)?.try_into()
    }
}

/// Takes the image's memory, without a copy.
///
/// # Errors
/// [`Error::ChannelCount`] if there are more than 4 channels, or less than 3 of `f32`, which `DynamicImage` lacks.
impl TryFrom<AnyImage> for DynamicImage {
    type Error = Error;

    fn try_from(image: AnyImage) -> Result<Self> {
        let lacks = |required: &str, found| Err(Error::ChannelCount { required: required.into(), found });
        match image {
            AnyImage::U8(image) => match image.channels() {
                1 => image.try_into().map(Self::ImageLuma8),
                2 => image.try_into().map(Self::ImageLumaA8),
                3 => image.try_into().map(Self::ImageRgb8),
                4 => image.try_into().map(Self::ImageRgba8),
                found => lacks("1 to 4", found),
            },
            AnyImage::U16(image) => match image.channels() {
                1 => image.try_into().map(Self::ImageLuma16),
                2 => image.try_into().map(Self::ImageLumaA16),
                3 => image.try_into().map(Self::ImageRgb16),
                4 => image.try_into().map(Self::ImageRgba16),
                found => lacks("1 to 4", found),
            },
            AnyImage::F32(image) => match image.channels() {
                3 => image.try_into().map(Self::ImageRgb32F),
                4 => image.try_into().map(Self::ImageRgba32F),
                found => lacks("3 or 4", found),
            },
        }
    }
}

/// Takes the image's memory, without a copy.
///
/// ```
/// use faltung::Image;
/// use image::DynamicImage;
///
/// let image = Image::from_fn(4, 3, |x, y| (10 * y + x) as u8)?;
/// assert!(matches!(DynamicImage::try_from(image.clone())?, DynamicImage::ImageLuma8(_)));
/// assert!(DynamicImage::try_from(image.map(f32::from)).is_err()); // there is no grey DynamicImage of f32
/// # Ok::<(), faltung::Error>(())
/// ```
///
/// # Errors
/// Those of `DynamicImage::try_from` with an [`AnyImage`].
impl<T: Pixel> TryFrom<Image<T>> for DynamicImage {
    type Error = Error;

    fn try_from(image: Image<T>) -> Result<Self> {
        AnyImage::from(image).try_into()
    }
}

#[cfg(test)]
mod tests {
    use ::image::{Luma, LumaA, Rgb, Rgba};

    use super::*;
    use crate::PixelType;

    fn there_and_back<P>(channels: usize)
    where
        P: ImagePixel,
        P::Subpixel: Pixel,
    {
        let values: Vec<P::Subpixel> = (0..5 * 3 * channels).map(|number| Pixel::from_f32(number as f32)).collect();
        let address = values.as_ptr();
        let mut buffer = ImageBuffer::<P, _>::from_raw(5, 3, values.clone()).unwrap();

        let view = View::try_from(&buffer).unwrap();
        assert_eq!((view.width(), view.height(), view.channels(), view.pitch()), (5, 3, channels, 5 * channels));
        assert_eq!(view.row(0).as_ptr(), buffer.as_raw().as_ptr());
        assert_eq!(view.as_dense().unwrap(), values);
        let first = ViewMut::try_from(&mut buffer).unwrap().row_mut(0).as_ptr();
        assert_eq!(first, buffer.as_raw().as_ptr());

        let buffer = ImageBuffer::<P, _>::from_raw(5, 3, values).unwrap();
        let image = Image::try_from(buffer).unwrap();
        assert_eq!((image.width(), image.height(), image.channels()), (5, 3, channels));
        assert_eq!(image.values().as_ptr(), address);
        let back = ImageBuffer::<P, Vec<P::Subpixel>>::try_from(image).unwrap();
        assert_eq!((back.width(), back.height(), back.as_raw().as_ptr()), (5, 3, address));
    }

    #[test]
    fn buffers_keep_their_memory() {
        there_and_back::<Luma<u8>>(1);
        there_and_back::<LumaA<u8>>(2);
        there_and_back::<Rgb<u8>>(3);
        there_and_back::<Rgba<u8>>(4);
        there_and_back::<Luma<u16>>(1);
        there_and_back::<LumaA<u16>>(2);
        there_and_back::<Rgb<u16>>(3);
        there_and_back::<Rgba<u16>>(4);
        there_and_back::<Luma<f32>>(1);
        there_and_back::<LumaA<f32>>(2);
        there_and_back::<Rgb<f32>>(3);
        there_and_back::<Rgba<f32>>(4);
    }

    #[test]
    fn dynamic_images_keep_their_memory_and_type() {
        let all = [
            (DynamicImage::new_luma8(5, 3), 1, PixelType::U8),
            (DynamicImage::new_luma_a8(5, 3), 2, PixelType::U8),
            (DynamicImage::new_rgb8(5, 3), 3, PixelType::U8),
            (DynamicImage::new_rgba8(5, 3), 4, PixelType::U8),
            (DynamicImage::new_luma16(5, 3), 1, PixelType::U16),
            (DynamicImage::new_luma_a16(5, 3), 2, PixelType::U16),
            (DynamicImage::new_rgb16(5, 3), 3, PixelType::U16),
            (DynamicImage::new_rgba16(5, 3), 4, PixelType::U16),
            (DynamicImage::new_rgb32f(5, 3), 3, PixelType::F32),
            (DynamicImage::new_rgba32f(5, 3), 4, PixelType::F32),
        ];
        for (dynamic, channels, pixel_type) in all {
            let address = dynamic.as_bytes().as_ptr();
            let any = AnyImage::try_from(dynamic.clone()).unwrap();
            assert_eq!((any.width(), any.height(), any.channels(), any.pixel_type()), (5, 3, channels, pixel_type));
            let results = [
                Image::<u8>::try_from(dynamic.clone()).err(),
                Image::<u16>::try_from(dynamic.clone()).err(),
                Image::<f32>::try_from(dynamic.clone()).err(),
            ];
            for (error, required) in results.into_iter().zip([PixelType::U8, PixelType::U16, PixelType::F32]) {
                let expected = Error::OtherPixelType { required, found: pixel_type };
                assert_eq!(error, (required != pixel_type).then_some(expected));
            }
            let back = DynamicImage::try_from(AnyImage::try_from(dynamic).unwrap()).unwrap();
            assert_eq!((back.color().channel_count() as usize, back.as_bytes().as_ptr()), (channels, address));
        }
    }

    #[test]
    fn wrong_channels_are_refused() {
        let refused = |image: AnyImage, required: &str, found| {
            let expected = Error::ChannelCount { required: required.into(), found };
            assert_eq!(DynamicImage::try_from(image).unwrap_err(), expected);
        };
        refused(Image::<u8>::zeros(2, 2, 5).unwrap().into(), "1 to 4", 5);
        refused(Image::<u16>::zeros(2, 2, 7).unwrap().into(), "1 to 4", 7);
        refused(Image::<f32>::zeros(2, 2, 1).unwrap().into(), "3 or 4", 1);
        let error = ::image::RgbaImage::try_from(Image::<u8>::zeros(2, 2, 3).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "the number of channels must be 4, not 3");
    }

    #[test]
    fn empty_and_large_buffers_are_refused() {
        for (width, height) in [(0, 0), (0, 3), (3, 0)] {
            let mut empty = ::image::RgbImage::new(width, height);
            assert!(matches!(View::try_from(&empty), Err(Error::EmptyImage { channels: 3, .. })));
            assert!(matches!(ViewMut::try_from(&mut empty), Err(Error::EmptyImage { channels: 3, .. })));
            assert!(matches!(AnyImage::try_from(DynamicImage::from(empty.clone())), Err(Error::EmptyImage { .. })));
            assert!(matches!(Image::try_from(empty), Err(Error::EmptyImage { channels: 3, .. })));
        }
        let long = ::image::GrayImage::new(1 << 30, 1);
        assert!(matches!(View::try_from(&long), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn containers_may_be_lent_and_longer_than_the_image() {
        let mut values: Vec<u16> = (0..20).collect();
        let lent = ImageBuffer::<Rgb<u16>, &[u16]>::from_raw(3, 2, values.as_slice()).unwrap();
        assert_eq!(View::try_from(&lent).unwrap().as_dense().unwrap(), &values[..18]);
        let mut lent = ImageBuffer::<Rgb<u16>, &mut [u16]>::from_raw(3, 2, values.as_mut_slice()).unwrap();
        ViewMut::try_from(&mut lent).unwrap().row_mut(1).fill(7);
        assert_eq!(values[8..], [8, 7, 7, 7, 7, 7, 7, 7, 7, 7, 18, 19]);

        let address = values.as_ptr();
        let long = ImageBuffer::<Rgb<u16>, _>::from_raw(3, 2, values).unwrap();
        let image = Image::try_from(long).unwrap();
        assert_eq!((image.values().len(), image.values().as_ptr()), (18, address));
    }
}
