//! Applies the EXIF orientation of a picture.

use image::metadata::Orientation;

use super::AnyImage;
use super::metadata::swaps_sides;
use crate::Result;
use faltung::{Image, Pixel, each_type, memory};

/// The values in their upright order.
pub(super) fn apply(pixels: AnyImage, orientation: Orientation) -> Result<AnyImage> {
    if orientation == Orientation::NoTransforms {
        return Ok(pixels);
    }
    Ok(each_type!(pixels, image => turned(&image, orientation)?.into()))
}

fn turned<T: Pixel>(image: &Image<T>, orientation: Orientation) -> Result<Image<T>> {
    use Orientation::{
        FlipHorizontal, FlipVertical, NoTransforms, Rotate90, Rotate90FlipH, Rotate180, Rotate270, Rotate270FlipH,
    };
    let (width, height, channels) = (image.width(), image.height(), image.channels());
    let (columns, rows) = if swaps_sides(orientation) { (height, width) } else { (width, height) };
    let mut values = memory::zeros(image.values().len(), "to turn a picture")?;
    let mut pixels = values.chunks_exact_mut(channels);
    for row in 0..rows {
        for column in 0..columns {
            let (x, y) = match orientation {
                NoTransforms => (column, row),
                FlipHorizontal => (width - 1 - column, row),
                Rotate180 => (width - 1 - column, height - 1 - row),
                FlipVertical => (column, height - 1 - row),
                Rotate90FlipH => (row, column),
                Rotate90 => (row, height - 1 - column),
                Rotate270FlipH => (width - 1 - row, height - 1 - column),
                Rotate270 => (width - 1 - row, column),
            };
            let from = (y * width + x) * channels;
            if let Some(pixel) = pixels.next() {
                pixel.copy_from_slice(&image.values()[from..from + channels]);
            }
        }
    }
    Ok(Image::new(columns, rows, channels, values)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The eight orientations as EXIF draws them.
    #[test]
    fn all_orientations() {
        // ab      As EXIF numbers them: which stored value stands where in the picture as it is seen.
        // cd
        // ef
        let stored = Image::new(2, 3, 1, b"abcdef".to_vec()).unwrap();
        let seen: [(u8, usize, &[u8]); 8] = [
            (1, 2, b"abcdef"),
            (2, 2, b"badcfe"),
            (3, 2, b"fedcba"),
            (4, 2, b"efcdab"),
            (5, 3, b"acebdf"),
            (6, 3, b"ecafdb"),
            (7, 3, b"fdbeca"),
            (8, 3, b"bdface"),
        ];
        for (number, width, values) in seen {
            let orientation = Orientation::from_exif(number).unwrap();
            let turned = turned(&stored, orientation).unwrap();
            assert_eq!((turned.width(), turned.values()), (width, values), "{number}");
            // The same by crate `image`.
            let mut other =
                image::DynamicImage::ImageLuma8(image::ImageBuffer::from_raw(2, 3, b"abcdef".to_vec()).unwrap());
            other.apply_orientation(orientation);
            assert_eq!(other.as_bytes(), values, "{number}");
        }
    }
}
