//! What bench and tutorials compute on: a photograph, masks of random coefficients, and sizes as the command line has
//! them.

use std::fmt;
use std::num::IntErrorKind;
use std::str::FromStr;

use faltung::{Error, Image, Mask, Result};

/// The seed of everything random.
pub const SEED: u64 = 20_260;

/// The photograph. It is part of the program, so the program needs no file beside it.
const COFFEE: &[u8] = include_bytes!("../data/coffee.png");
/// First column and row of the crop that the Numba tutorial filters.
const CROP: (usize, usize) = (200, 150);
/// Columns and rows of the crop.
pub(crate) const CROP_SIDE: usize = 200;

/// The size of an image, from `N` or `WIDTHxHEIGHT`.
///
/// ```
/// use host::bench::ImageSize;
///
/// assert_eq!("640x480".parse::<ImageSize>()?, ImageSize { width: 640, height: 480 });
/// assert_eq!("512".parse::<ImageSize>()?, ImageSize { width: 512, height: 512 });
/// # Ok::<(), host::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSize {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl FromStr for ImageSize {
    type Err = Error;

    /// # Errors
    /// [`Error::Parse`], [`Error::EmptyImage`], [`Error::TooLarge`].
    fn from_str(text: &str) -> Result<Self> {
        let (width, height) = sides(text, "image size", "a side such as 512, or WIDTHxHEIGHT such as 640x480")?;
        Image::<f32>::checked_len(width, height, 1)?;
        Ok(Self { width, height })
    }
}

impl fmt::Display for ImageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.width, self.height)
    }
}

/// The size of a mask, from `K` or `HEIGHTxWIDTH`: rows first, as matrices are written.
///
/// ```
/// use host::bench::MaskSize;
///
/// assert_eq!("3x5".parse::<MaskSize>()?, MaskSize { height: 3, width: 5 });
/// # Ok::<(), host::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskSize {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl MaskSize {
    /// `side` rows and columns.
    #[must_use]
    pub const fn square(side: usize) -> Self {
        Self { height: side, width: side }
    }
}

impl FromStr for MaskSize {
    type Err = Error;

    /// # Errors
    /// [`Error::Parse`], [`Error::EmptyMask`], [`Error::TooLarge`].
    fn from_str(text: &str) -> Result<Self> {
        let (height, width) = sides(text, "mask size", "a side such as 7, or HEIGHTxWIDTH such as 3x5")?;
        if width == 0 || height == 0 {
            return Err(Error::EmptyMask { width, height });
        }
        // The oracle's error is known for smaller masks alone, and a larger one would take very long.
        let (most, found) = (1 << 24, width.checked_mul(height));
        if found.is_none_or(|found| found > most) {
            return Err(Error::TooLarge {
                what: "the number of coefficients of a mask".into(),
                most,
                found: text.into(),
            });
        }
        Ok(Self { height, width })
    }
}

impl fmt::Display for MaskSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.width == self.height {
            write!(f, "{} x {}", self.height, self.width)
        } else {
            write!(f, "{} rows x {} columns", self.height, self.width)
        }
    }
}

/// Two sides from `N` or `AxB`.
fn sides(text: &str, what: &'static str, required: &str) -> Result<(usize, usize)> {
    let side = |digits: &str| {
        // `parse` would take a sign.
        let error = || Error::Parse { what, required: required.into(), found: text.into() };
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(error());
        }
        digits.parse::<usize>().map_err(|reason| match reason.kind() {
            IntErrorKind::PosOverflow => {
                Error::TooLarge { what: what.into(), most: kernels_gpu::abi::params::MAX_SIDE, found: digits.into() }
            }
            _ => error(),
        })
    };
    match text.split_once(['x', 'X']) {
        Some((first, second)) => Ok((side(first)?, side(second)?)),
        None => side(text).map(|side| (side, side)),
    }
}

/// The photograph: 600 x 400 pixels, RGB, 8 bits.
pub(crate) fn coffee() -> Result<Image<u8>> {
    let photograph = image::load_from_memory_with_format(COFFEE, image::ImageFormat::Png)
        .expect("the picture in the program is a PNG")
        .into_rgb8();
    Image::new(photograph.width() as usize, photograph.height() as usize, 3, photograph.into_raw())
}

/// The part of the photograph that the Numba tutorial takes.
pub(crate) fn crop() -> Result<Image<u8>> {
    coffee()?.crop(CROP.0, CROP.1, CROP_SIDE, CROP_SIDE)
}

/// The crop as the tutorial prepares it: `skimage.color.rgb2gray`, computed in f64, once more divided by 255.
pub(crate) fn grey_crop() -> Result<Image> {
    let crop = crop()?;
    Image::from_fn(CROP_SIDE, CROP_SIDE, |x, y| {
        let [red, green, blue] = [0, 1, 2].map(|channel| f64::from(crop.row(y)[3 * x + channel]) / 255.0);
        (0.2125 * red + 0.7154 * green + 0.0721 * blue) as f32 / 255.0
    })
}

/// A mask whose coefficients sum to 1: random, as that of the tutorial, or a Gaussian if `separable`. Along an axis of
/// odd size a Gaussian has the coefficients of OpenCV's `getGaussianKernel(size, 0)`.
pub(crate) fn mask(size: MaskSize, seed: u64, separable: bool) -> Result<Mask> {
    let coefficients = if separable {
        let (column, row) = (gaussian(size.height), gaussian(size.width));
        column.iter().flat_map(|of_column| row.iter().map(move |of_row| (of_column * of_row) as f32)).collect()
    } else {
        // The numbers differ from those of the image: an image that contains the mask would be a special case.
        let mut random = fastrand::Rng::with_seed(!seed);
        // Numbers are above 0, so that the sum of a mask of one coefficient is not 0.
        (0..size.width * size.height).map(|_| 1.0 - random.f32()).collect()
    };
    Mask::new(size.width, size.height, coefficients)?.normalized()
}

/// A Gaussian along a line, whose coefficients sum to 1. Those of 3, 5, 7 and 9 are OpenCV's fixed ones. The others
/// have its standard deviation for their number.
fn gaussian(count: usize) -> Vec<f64> {
    let numbers: Vec<f64> = match count {
        3 => vec![1.0, 2.0, 1.0],
        5 => vec![1.0, 4.0, 6.0, 4.0, 1.0],
        7 => vec![2.0, 7.0, 14.0, 18.0, 14.0, 7.0, 2.0],
        9 => vec![4.0, 13.0, 30.0, 51.0, 60.0, 51.0, 30.0, 13.0, 4.0],
        _ => {
            let middle = (count - 1) as f64 / 2.0;
            let deviation = 0.3 * (middle - 1.0) + 0.8;
            (0..count).map(|i| (-0.5 * ((i as f64 - middle) / deviation).powi(2)).exp()).collect()
        }
    };
    let sum: f64 = numbers.iter().sum();
    numbers.iter().map(|number| number / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_are_none() {
        for text in ["", "x", "0", "0x3", "3x", "x3", "-3", "+3", "3.5", "nan", "3x3x3", "99999999999", "1e3", " 3"] {
            assert!(text.parse::<ImageSize>().is_err(), "image {text:?}");
            assert!(text.parse::<MaskSize>().is_err(), "mask {text:?}");
        }
        let error = "99999999999999999999999".parse::<ImageSize>().unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        assert!(matches!("0x3".parse::<MaskSize>(), Err(Error::EmptyMask { width: 3, height: 0 })));
    }

    /// The numbers are those of OpenCV 5.0.
    #[test]
    fn separable_masks_are_the_gaussians_of_opencv() {
        assert_eq!(gaussian(1), [1.0]);
        assert_eq!(gaussian(3), [0.25, 0.5, 0.25]);
        assert_eq!(gaussian(7)[..4], [0.03125, 0.109375, 0.21875, 0.28125]);
        assert_eq!(gaussian(9)[..5], [4.0, 13.0, 30.0, 51.0, 60.0].map(|number| number / 256.0));
        let expected = [0.00881223, 0.02714358, 0.06511406, 0.12164907, 0.17699836, 0.20056541];
        assert!(gaussian(11).iter().zip(expected).all(|(value, expected)| (value - expected).abs() < 1e-8));
        for count in 1..40 {
            let line = gaussian(count);
            assert!(line.len() == count && line.iter().eq(line.iter().rev()), "{count}: {line:?}");
        }
        let mask = mask("3x5".parse().unwrap(), SEED, true).unwrap();
        assert_eq!((mask.height(), mask.width()), (3, 5));
        assert_eq!(mask.coefficients()[..5], [1.0, 4.0, 6.0, 4.0, 1.0].map(|number| number / 64.0));
    }

    #[test]
    fn an_image_has_its_width_first_and_a_mask_its_height() {
        assert_eq!("5x3".parse::<ImageSize>().unwrap(), ImageSize { width: 5, height: 3 });
        assert_eq!("5x3".parse::<MaskSize>().unwrap(), MaskSize { width: 3, height: 5 });
    }
}
