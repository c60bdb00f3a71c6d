//! Pictures in other types and channels than their files hold.

use faltung::{AnyImage, Image, Pixel, PixelType, Result, for_pixel_type, white};

/// Parts of red, green and blue in the luminance: those of scikit-image's `rgb2gray`, which the tutorial calls (from
/// ITU-R BT.709).
const LUMINANCE: [f32; 3] = [0.2125, 0.7154, 0.0721];

/// A picture in grey. Integers become 0 to 1, floating-point values stay. Colours become the luminance of the stored
/// values, without a conversion to linear light. Alpha is left out.
///
/// ```
/// use faltung::Image;
/// use host::bench::grey;
///
/// let red_and_white = Image::new(2, 1, 3, vec![255_u8, 0, 0, 255, 255, 255])?;
/// assert_eq!(grey(&red_and_white.into())?.values(), [0.2125, 1.0]);
/// # Ok::<(), host::Error>(())
/// ```
///
/// # Errors
/// None in practice: the size is that of an image that exists.
pub fn grey(pixels: &AnyImage) -> Result<Image> {
    match pixels {
        AnyImage::U8(image) => scaled(image, u8::MAX.into()),
        AnyImage::U16(image) => scaled(image, u16::MAX.into()),
        AnyImage::F32(image) => scaled(image, 1.0),
    }
}

/// The luminance divided by `white`.
fn scaled<T: Pixel>(image: &Image<T>, white: f32) -> Result<Image> {
    let value = |pixel: &[T]| luminance(pixel) / white;
    let values = image.values().chunks_exact(image.channels()).map(value).collect();
    Image::new(image.width(), image.height(), 1, values)
}

/// The luminance of a pixel of any number of channels.
fn luminance<T: Pixel>(pixel: &[T]) -> f32 {
    match *pixel {
        [red, green, blue, ..] => {
            LUMINANCE[0] * red.to_f32() + LUMINANCE[1] * green.to_f32() + LUMINANCE[2] * blue.to_f32()
        }
        // Grey, perhaps with alpha behind it.
        [grey, ..] => grey.to_f32(),
        [] => 0.0,
    }
}

/// A picture in this type and number of channels: luminance (1), luminance and alpha (2), colours (3), colours and
/// alpha (4). White is 255, 65,535 or 1. A picture without alpha is opaque.
///
/// # Errors
/// Those of [`Image::new`].
pub(super) fn converted(pixels: &AnyImage, kind: PixelType, channels: usize) -> Result<AnyImage> {
    let (from, to) = (white(pixels.pixel_type()), white(kind));
    let image = pixels.to_f32();
    let value = |pixel: &[f32], channel: usize| -> f32 {
        let is_alpha = matches!((channels, channel), (2, 1) | (4, 3));
        match (is_alpha, pixel) {
            (true, &[_, alpha] | &[_, _, _, alpha]) => alpha,
            (true, _) => from,
            (false, &[grey] | &[grey, _]) => grey,
            (false, _) if channels < 3 => luminance(pixel),
            (false, _) => pixel[channel],
        }
    };
    let of_pixel = |pixel| (0..channels).map(move |channel| value(pixel, channel) / from * to);
    let values = image.values().chunks_exact(image.channels()).flat_map(of_pixel).collect();
    let image = Image::new(image.width(), image.height(), channels, values)?;
    Ok(for_pixel_type!(kind, T => image.map(T::from_f32).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_alpha_and_types() {
        let of = |pixels: AnyImage| grey(&pixels).unwrap().into_values();
        assert_eq!(of(Image::new(1, 1, 1, vec![51_u8]).unwrap().into()), [0.2]);
        assert_eq!(of(Image::new(1, 1, 2, vec![65_535_u16, 7]).unwrap().into()), [1.0]);
        assert_eq!(of(Image::new(1, 1, 4, vec![0.0_f32, 1.0, 0.0, 9.0]).unwrap().into()), [0.7154]);
        assert_eq!(of(Image::new(1, 1, 1, vec![-3.5_f32]).unwrap().into()), [-3.5]);
    }

    #[test]
    fn a_picture_becomes_any_other() {
        let red = AnyImage::from(Image::new(1, 1, 3, vec![255_u8, 0, 51]).unwrap());
        let of = |pixels: &AnyImage, kind, channels| converted(pixels, kind, channels).unwrap();
        assert_eq!(of(&red, PixelType::U8, 3), red);
        assert_eq!(of(&red, PixelType::F32, 4).to_f32().values(), [1.0, 0.0, 0.2, 1.0]);
        assert_eq!(of(&red, PixelType::U16, 2).to_f32().values(), [14_871.0, 65_535.0]);
        let grey = AnyImage::from(Image::new(1, 1, 2, vec![0.5_f32, 0.25]).unwrap());
        assert_eq!(of(&grey, PixelType::U8, 4).to_f32().values(), [128.0, 128.0, 128.0, 64.0]);
        assert_eq!(of(&grey, PixelType::F32, 1).to_f32().values(), [0.5]);
    }
}
