//! What is measured: pictures, and the masks that each of them is filtered with.

use std::sync::Arc;

use super::grey::converted;
use crate::samples::{self, CROP_SIDE, ImageSize, MaskSize};
use faltung::{AnyImage, PixelType, Result};

/// A picture to measure with.
#[derive(Clone, Debug)]
pub enum BenchImage {
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

impl BenchImage {
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
            Self::Coffee if (kind, channels) == (PixelType::F32, 1) => samples::grey_crop().map(Into::into),
            Self::Coffee => converted(&samples::crop()?.into(), kind, channels),
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

/// A picture, and the masks that it is filtered with, one after the other.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The picture.
    pub picture: BenchImage,
    /// The sizes of the masks.
    pub masks: Vec<MaskSize>,
}

/// The masks of a random picture, unless others are asked for: one bound by memory, one between, one bound by
/// arithmetic.
const MASKS: [MaskSize; 3] = [MaskSize::square(3), MaskSize::square(7), MaskSize::square(13)];

/// The pictures and masks to measure. None means the default.
///
/// By default these are the tutorial's crop with its mask of 13 x 13, and 4096 x 4096 random values with masks of 3 x
/// 3, 7 x 7 and 13 x 13. If `quick`, the random values are 512 x 512, with masks of 3 x 3 and 7 x 7.
#[must_use]
pub fn subjects(pictures: Option<Vec<BenchImage>>, masks: Option<Vec<MaskSize>>, quick: bool) -> Vec<Subject> {
    let random = ImageSize { width: if quick { 512 } else { 4096 }, height: if quick { 512 } else { 4096 } };
    let pictures = pictures.unwrap_or_else(|| vec![BenchImage::Coffee, BenchImage::Random(random)]);
    let usual = |picture: &BenchImage| match picture {
        BenchImage::Coffee => vec![MaskSize::square(13)],
        _ if quick => MASKS[..2].to_vec(),
        _ => MASKS.to_vec(),
    };
    let with_masks = |picture| Subject { masks: masks.clone().unwrap_or_else(|| usual(&picture)), picture };
    pictures.into_iter().map(with_masks).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{SEED, mask};

    #[test]
    fn the_crop_is_in_the_program() {
        let image = BenchImage::Coffee.image(SEED, PixelType::F32, 1).unwrap().to_f32();
        assert_eq!((image.width(), image.height()), (200, 200));
        // Of the tutorial's own array.
        assert_eq!(image.row(0)[..3], [0.926_762_f32, 0.922_840_4, 0.919_737_3].map(|value| value / 255.0));
        let (least, most) = image.values().iter().fold((1.0_f32, 0.0_f32), |(a, b), &v| (a.min(v), b.max(v)));
        assert_eq!((least, most), (1.108_804_3e-6, 1.0 / 255.0));
    }

    #[test]
    fn random_data_repeats_and_is_not_flat() {
        let picture = BenchImage::Random("33x7".parse().unwrap());
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
        let size = BenchImage::Random("64".parse().unwrap());
        assert_eq!(cells(&subjects(Some(vec![size]), None, false)), 3);
    }
}
