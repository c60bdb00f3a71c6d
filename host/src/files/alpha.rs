//! Conversions of alpha for formats: colours multiplied or divided by alpha, and pictures without alpha.

use faltung::{Image, Pixel, PixelType, each_type, white};

use super::{AnyImage, Format, Picture};
use crate::Result;

/// The picture with its colours divided or multiplied by alpha. None if the format holds it as it is.
pub(super) fn as_held_by(format: Format, picture: &Picture) -> Result<Option<Picture>> {
    let has_alpha = picture.content.has_alpha(picture.pixels.channels());
    if has_alpha && !picture.metadata.premultiplied && format == Format::Exr {
        let mut picture = picture.clone();
        picture.multiply_by_alpha(white(PixelType::F32));
        return Ok(Some(picture));
    }
    if !(has_alpha && picture.metadata.premultiplied && format.has_straight_alpha()) {
        return Ok(None);
    }
    let pixels = each_type!(&picture.pixels, image => divided(image)?.into());
    let mut metadata = picture.metadata.clone();
    metadata.premultiplied = false;
    Ok(Some(Picture { pixels, metadata, content: picture.content }))
}

impl Picture {
    /// Whether it has alpha, and every pixel is opaque.
    #[must_use]
    pub fn has_opaque_alpha(&self) -> bool {
        fn is_opaque<T: Pixel>(image: &Image<T>) -> bool {
            let last = |pixel: &[T]| pixel.last().is_some_and(|alpha| alpha.to_f32() == white(T::TYPE));
            image.values().chunks_exact(image.channels()).all(last)
        }
        self.content.has_alpha(self.pixels.channels()) && each_type!(&self.pixels, image => is_opaque(image))
    }

    /// Multiplies colours of `f32` by alpha, as OpenEXR needs them, unless they are multiplied already. `opaque` is the
    /// alpha of an opaque pixel.
    pub fn multiply_by_alpha(&mut self, opaque: f32) {
        let AnyImage::F32(image) = &mut self.pixels else { return };
        let channels = image.channels();
        if self.metadata.premultiplied || !self.content.has_alpha(channels) {
            return;
        }
        for pixel in image.values_mut().chunks_exact_mut(channels) {
            let (alpha, colours) = pixel.split_last_mut().expect("a pixel has channels");
            let weight = *alpha / opaque;
            // What alpha hides may be NaN.
            colours.iter_mut().for_each(|value| *value = if weight == 0.0 { 0.0 } else { *value * weight });
        }
        self.metadata.premultiplied = true;
    }

    /// The picture without its last channel, which must be alpha.
    ///
    /// # Errors
    /// [`Error::Library`](crate::Error::Library) if there is no memory for it.
    pub fn without_alpha(self) -> Result<Self> {
        fn colours<T: Pixel>(image: &Image<T>) -> Result<AnyImage>
        where
            AnyImage: From<Image<T>>,
        {
            let channels = image.channels();
            let mut result = Image::<T>::zeros(image.width(), image.height(), channels - 1)?;
            let pixels = image.values().chunks_exact(channels);
            for (to, from) in result.values_mut().chunks_exact_mut(channels - 1).zip(pixels) {
                to.copy_from_slice(&from[..channels - 1]);
            }
            Ok(result.into())
        }
        let pixels = each_type!(&self.pixels, image => colours(image)?);
        let mut metadata = self.metadata;
        metadata.premultiplied = false;
        Ok(Self { pixels, metadata, content: self.content })
    }
}

/// Colours divided by alpha. What alpha hides is 0.
fn divided<T: Pixel>(image: &Image<T>) -> Result<Image<T>> {
    let opaque = white(T::TYPE);
    let channels = image.channels();
    let mut result = Image::<T>::zeros(image.width(), image.height(), channels)?;
    let pixels = image.values().chunks_exact(channels);
    for (to, from) in result.values_mut().chunks_exact_mut(channels).zip(pixels) {
        let alpha = from[channels - 1].to_f32();
        for (to, from) in to.iter_mut().zip(&from[..channels - 1]) {
            *to = T::from_f32(if alpha <= 0.0 { 0.0 } else { from.to_f32() * opaque / alpha });
        }
        to[channels - 1] = from[channels - 1];
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::OverwritePolicy;

    #[test]
    fn colours_are_multiplied_in_openexr() {
        let folder = tempfile::tempdir().unwrap();
        let values = vec![0.5, 0.25, 1.0, 0.5, f32::NAN, 1.0, 1.0, 0.0];
        let mut picture = Picture::from(Image::new(2, 1, 4, values).unwrap());
        let multiplied: AnyImage =
            Image::new(2, 1, 4, vec![0.25_f32, 0.125, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0]).unwrap().into();
        for name in ["straight.exr", "multiplied.exr"] {
            let path = folder.path().join(name);
            picture.write(&path, OverwritePolicy::Keep).unwrap();
            assert_eq!(Picture::read(&path).unwrap().pixels, multiplied, "{name}");
            picture.multiply_by_alpha(1.0);
        }
    }

    #[test]
    fn colours_are_divided_where_alpha_is_straight() {
        let folder = tempfile::tempdir().unwrap();
        let values = vec![10_u8, 20, 30, 40, 0, 0, 0, 0, 9, 9, 9, 3, 1, 2, 3, 255];
        let mut picture = Picture::from(Image::new(4, 1, 4, values.clone()).unwrap());
        picture.metadata.premultiplied = true;
        let straight = vec![64_u8, 128, 191, 40, 0, 0, 0, 0, 255, 255, 255, 3, 1, 2, 3, 255];
        for (name, expected) in [("a.tif", &values), ("a.npy", &values), ("a.png", &straight), ("a.webp", &straight)] {
            let path = folder.path().join(name);
            picture.write(&path, OverwritePolicy::Keep).unwrap();
            let found = Picture::read(&path).unwrap();
            assert_eq!(found.pixels, Image::new(4, 1, 4, expected.clone()).unwrap().into(), "{name}");
            assert_eq!(found.metadata.premultiplied, name == "a.tif");
        }
    }
}
