//! A user's picture as one channel.

use crate::files::Pixels;
use crate::{Image, Pixel, Result};

/// Parts of red, green and blue in the luminance: those of scikit-image's `rgb2gray`, which the tutorial calls (from ITU-R
/// BT.709).
const LUMINANCE: [f32; 3] = [0.2125, 0.7154, 0.0721];

/// A picture in grey. Integers become 0 to 1, floating-point values stay; of colours the luminance is taken as stored,
/// without undoing the gamma; alpha is left out.
///
/// ```
/// use host::Image;
/// use host::bench::grey;
///
/// let red_and_white = Image::new(2, 1, 3, vec![255_u8, 0, 0, 255, 255, 255])?;
/// assert_eq!(grey(&red_and_white.into())?.values(), [0.2125, 1.0]);
/// # Ok::<(), host::Error>(())
/// ```
///
/// # Errors
/// None in practice: the size is that of an image that exists.
pub fn grey(pixels: &Pixels) -> Result<Image> {
    match pixels {
        Pixels::U8(image) => scaled(image, u8::MAX.into()),
        Pixels::U16(image) => scaled(image, u16::MAX.into()),
        Pixels::F32(image) => scaled(image, 1.0),
    }
}

/// The luminance divided by `white`.
fn scaled<T: Pixel>(image: &Image<T>, white: f32) -> Result<Image> {
    let channels = image.channels();
    let value = |pixel: &[T]| {
        if channels < 3 {
            // Grey, perhaps with alpha behind it.
            return pixel[0].to_f32() / white;
        }
        let [red, green, blue] = LUMINANCE;
        (red * pixel[0].to_f32() + green * pixel[1].to_f32() + blue * pixel[2].to_f32()) / white
    };
    let values = image.values().chunks_exact(channels).map(value).collect();
    Image::new(image.width(), image.height(), 1, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_alpha_and_types() {
        let of = |pixels: Pixels| grey(&pixels).unwrap().into_values();
        assert_eq!(of(Image::new(1, 1, 1, vec![51_u8]).unwrap().into()), [0.2]);
        assert_eq!(of(Image::new(1, 1, 2, vec![65_535_u16, 7]).unwrap().into()), [1.0]);
        assert_eq!(of(Image::new(1, 1, 4, vec![0.0_f32, 1.0, 0.0, 9.0]).unwrap().into()), [0.7154]);
        assert_eq!(of(Image::new(1, 1, 1, vec![-3.5_f32]).unwrap().into()), [-3.5]);
    }
}
