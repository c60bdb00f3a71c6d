//! The photograph that the tutorials filter, as each of them wants it.

use crate::workload::COFFEE;
use faltung::{Image, Result};

/// The coffee picture: 600 x 400 pixels, RGB, 8 bits.
pub(super) fn rgb() -> Result<Image<u8>> {
    let picture = image::load_from_memory_with_format(COFFEE, image::ImageFormat::Png)
        .expect("the picture in the program is a PNG")
        .into_rgb8();
    Image::new(picture.width() as usize, picture.height() as usize, 3, picture.into_raw())
}

/// It in grey: the luminance of scikit-image's `rgb2gray`, rounded half to even.
pub(super) fn grey() -> Result<Image<u8>> {
    let picture = rgb()?;
    let values = picture.values().chunks_exact(3).map(luminance).collect();
    Image::new(picture.width(), picture.height(), 1, values)
}

fn luminance(pixel: &[u8]) -> u8 {
    let [red, green, blue] = [0, 1, 2].map(|channel| f64::from(pixel[channel]));
    (0.2125 * red + 0.7154 * green + 0.0721 * blue).round_ties_even() as u8
}

/// The mean of each `factor` x `factor` pixels, rounded; what is left over at the right and the lower edge is left out.
pub(super) fn smaller(image: &Image<u8>, factor: usize) -> Result<Image<u8>> {
    let area = (factor * factor) as u32;
    Image::from_fn(image.width() / factor, image.height() / factor, |x, y| {
        let rows = (0..factor).map(|k| &image.row(y * factor + k)[x * factor..][..factor]);
        let sum: u32 = rows.flatten().map(|&pixel| u32::from(pixel)).sum();
        ((sum + area / 2) / area) as u8
    })
}

/// A picture repeated `times` times to the right and downwards.
pub(super) fn repeated(image: &Image<f32>, times: usize) -> Result<Image<f32>> {
    let rows = (0..image.height() * times).map(|y| image.row(y % image.height()));
    let values = rows.flat_map(|row| (0..times).flat_map(move |_| row.iter().copied())).collect();
    Image::new(image.width() * times, image.height() * times, image.channels(), values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_in_the_program() {
        let (rgb, grey) = (rgb().unwrap(), grey().unwrap());
        assert_eq!((rgb.width(), rgb.height(), rgb.channels()), (600, 400, 3));
        assert_eq!((grey.width(), grey.height(), grey.channels()), (600, 400, 1));
        assert_eq!(luminance(&[255, 255, 255]), 255);
        assert_eq!(luminance(&[10, 20, 30]), 19); // 2.125 + 14.308 + 2.163 = 18.596
    }

    #[test]
    fn smaller_and_larger() {
        let image = Image::from_fn(5, 4, |x, y| (10 * y + x) as u8).unwrap();
        // (0 + 1 + 10 + 11) / 4 = 5.5, and the fifth column is left out.
        assert_eq!(smaller(&image, 2).unwrap().values(), [6, 8, 26, 28]);
        let image = Image::new(2, 1, 1, vec![1.0, 2.0]).unwrap();
        assert_eq!(repeated(&image, 2).unwrap().values(), [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
    }
}
