//! Pictures, and the masks that each of them is filtered with: for `bench` and the tutorials.

mod grey;

use std::fmt;
use std::num::IntErrorKind;
use std::str::FromStr;
use std::sync::Arc;

pub use self::grey::grey;

use self::grey::converted;
use faltung::{AnyImage, Error, Image, Mask, PixelType, Result};

/// The seed of everything random.
pub const SEED: u64 = 20_260;

/// The photograph whose crop the tutorial filters. It is part of the program, which so can be moved.
pub(crate) const COFFEE: &[u8] = include_bytes!("../../data/coffee.png");
/// First column and row of the crop.
const CROP: (usize, usize) = (200, 150);
/// Columns and rows of the crop.
const CROP_SIDE: usize = 200;

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
        // The oracle's sums of absolute products, and everybody's patience, end before this.
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

/// A picture to measure with.
#[derive(Clone, Debug)]
pub enum Picture {
    /// The 200 x 200 crop of the coffee picture that the Numba tutorial filters.
    Coffee,
    /// Uniformly random values in 0 to 1.
    Random(ImageSize),
    /// The user's own.
    Given {
        /// What to call it.
        name: String,
        /// The picture.
        image: Arc<AnyImage>,
    },
}

impl Picture {
    /// Columns and rows.
    #[must_use]
    pub fn size(&self) -> ImageSize {
        match self {
            Self::Coffee => ImageSize { width: CROP_SIDE, height: CROP_SIDE },
            Self::Random(size) => *size,
            Self::Given { image, .. } => ImageSize { width: image.width(), height: image.height() },
        }
    }

    /// What it shows: one or two words for reports.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Coffee => "coffee crop",
            Self::Random(_) => "random",
            Self::Given { name, .. } => name,
        }
    }

    /// The values, in this type and number of channels.
    pub(super) fn image(&self, seed: u64, kind: PixelType, channels: usize) -> Result<AnyImage> {
        match self {
            // As the tutorial has it.
            Self::Coffee if (kind, channels) == (PixelType::F32, 1) => coffee().map(Into::into),
            Self::Coffee => converted(&crop()?.into(), kind, channels),
            Self::Random(ImageSize { width, height }) => {
                // Random, never zeros: moving zeros takes less power, and a card at its limit then runs faster.
                let mut random = fastrand::Rng::with_seed(seed);
                let mut pixels = AnyImage::zeros(*width, *height, channels, kind)?;
                match &mut pixels {
                    AnyImage::U8(image) => random.fill(image.values_mut()),
                    AnyImage::U16(image) => image.values_mut().fill_with(|| random.u16(..)),
                    AnyImage::F32(image) => image.values_mut().fill_with(|| random.f32()),
                }
                Ok(pixels)
            }
            Self::Given { image, .. } => converted(image, kind, channels),
        }
    }
}

/// The part of the photograph that the tutorial takes.
fn crop() -> Result<Image<u8>> {
    let format = image::ImageFormat::Png;
    let photograph =
        image::load_from_memory_with_format(COFFEE, format).expect("the picture in the program is a PNG").into_rgb8();
    let (width, height) = (photograph.width() as usize, photograph.height() as usize);
    Image::new(width, height, 3, photograph.into_raw())?.crop(CROP.0, CROP.1, CROP_SIDE, CROP_SIDE)
}

/// The crop as the tutorial prepares it: `skimage.color.rgb2gray`, computed in f64, once more divided by 255.
pub(crate) fn coffee() -> Result<Image> {
    let crop = crop()?;
    Image::from_fn(CROP_SIDE, CROP_SIDE, |x, y| {
        let [red, green, blue] = [0, 1, 2].map(|channel| f64::from(crop.row(y)[3 * x + channel]) / 255.0);
        (0.2125 * red + 0.7154 * green + 0.0721 * blue) as f32 / 255.0
    })
}

/// A random mask whose coefficients sum to 1, as the tutorial's; or, if it is to be separable, a column of such times a
/// row of such.
pub(crate) fn mask(size: MaskSize, seed: u64, separable: bool) -> Result<Mask> {
    // Not the image's numbers: a mask that repeats in the image would be a special case.
    let mut random = fastrand::Rng::with_seed(!seed);
    // Above 0, so that the sum of a mask of one coefficient is not 0.
    let mut values = |count: usize| -> Vec<f32> { (0..count).map(|_| 1.0 - random.f32()).collect() };
    let coefficients = if separable {
        let (column, row) = (values(size.height), values(size.width));
        column.iter().flat_map(|of_column| row.iter().map(move |of_row| of_column * of_row)).collect()
    } else {
        values(size.width * size.height)
    };
    Mask::new(size.width, size.height, coefficients)?.normalized()
}

/// A picture, and the masks that it is filtered with, one after the other.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The picture.
    pub picture: Picture,
    /// The sizes of the masks.
    pub masks: Vec<MaskSize>,
}

/// The masks of a random picture, unless others are asked for: one bound by memory, one between, one bound by
/// arithmetic.
const MASKS: [MaskSize; 3] = [MaskSize::square(3), MaskSize::square(7), MaskSize::square(13)];

/// What to measure, from what was asked for. None is what is measured by default: the tutorial's crop with its mask of
/// 13 x 13, and 4096 x 4096 random values with masks of 3 x 3, 7 x 7 and 13 x 13; `quick` has 512 x 512 with the first
/// two in the place of those.
#[must_use]
pub fn subjects(pictures: Option<Vec<Picture>>, masks: Option<Vec<MaskSize>>, quick: bool) -> Vec<Subject> {
    let random = ImageSize { width: if quick { 512 } else { 4096 }, height: if quick { 512 } else { 4096 } };
    let pictures = pictures.unwrap_or_else(|| vec![Picture::Coffee, Picture::Random(random)]);
    let usual = |picture: &Picture| match picture {
        Picture::Coffee => vec![MaskSize::square(13)],
        _ if quick => MASKS[..2].to_vec(),
        _ => MASKS.to_vec(),
    };
    let with_masks = |picture| Subject { masks: masks.clone().unwrap_or_else(|| usual(&picture)), picture };
    pictures.into_iter().map(with_masks).collect()
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

    #[test]
    fn an_image_has_its_width_first_and_a_mask_its_height() {
        assert_eq!("5x3".parse::<ImageSize>().unwrap(), ImageSize { width: 5, height: 3 });
        assert_eq!("5x3".parse::<MaskSize>().unwrap(), MaskSize { width: 3, height: 5 });
    }

    #[test]
    fn the_crop_is_in_the_program() {
        let image = Picture::Coffee.image(SEED, PixelType::F32, 1).unwrap().to_f32();
        assert_eq!((image.width(), image.height()), (200, 200));
        // Of the tutorial's own array.
        assert_eq!(image.row(0)[..3], [0.926_762_f32, 0.922_840_4, 0.919_737_3].map(|value| value / 255.0));
        let (least, most) = image.values().iter().fold((1.0_f32, 0.0_f32), |(a, b), &v| (a.min(v), b.max(v)));
        assert_eq!((least, most), (1.108_804_3e-6, 1.0 / 255.0));
    }

    #[test]
    fn random_data_repeats_and_is_not_flat() {
        let picture = Picture::Random("33x7".parse().unwrap());
        for (kind, channels) in [(PixelType::F32, 1), (PixelType::U8, 3), (PixelType::U16, 4)] {
            let image = |seed| picture.image(seed, kind, channels).unwrap();
            assert_eq!(image(1), image(1));
            assert_ne!(image(1), image(2));
            assert_eq!((image(1).channels(), image(1).pixel_type()), (channels, kind));
        }
        let one = picture.image(1, PixelType::F32, 1).unwrap().to_f32();
        assert!(one.values().iter().all(|value| (0.0..1.0).contains(value)));
        let one = mask("1x1".parse().unwrap(), SEED, false).unwrap();
        assert_eq!(one.coefficients(), [1.0]);
        let separable =
            |yes| mask("7x5".parse().unwrap(), SEED, yes).unwrap().separated(faltung::Mask::SEPARABLE).is_some();
        assert!(separable(true) && !separable(false));
    }

    #[test]
    fn what_is_asked_for_replaces_the_defaults() {
        let cells = |subjects: &[Subject]| subjects.iter().map(|subject| subject.masks.len()).sum::<usize>();
        assert_eq!(cells(&subjects(None, None, false)), 4);
        assert_eq!(cells(&subjects(None, None, true)), 3);
        let masks = vec![MaskSize::square(5), MaskSize::square(9)];
        assert_eq!(cells(&subjects(None, Some(masks), false)), 4);
        let size = Picture::Random("64".parse().unwrap());
        assert_eq!(cells(&subjects(Some(vec![size]), None, false)), 3);
    }
}
