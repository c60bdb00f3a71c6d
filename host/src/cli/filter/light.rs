//! sRGB's transfer function (IEC 61966-2-1), between the values of a file and linear light, both on the scale of the
//! file's type.
//!
//! Below 0 it continues as an odd function, and above the greatest value by its formula. So it has an inverse
//! everywhere, also for results of a mask beyond the range.

use faltung::{Image, PixelType, white};
use rayon::prelude::*;

/// The linear light of a value from 0 to 1.
fn decoded(value: f64) -> f64 {
    let size = value.abs();
    let light = if size <= 0.04045 { size / 12.92 } else { ((size + 0.055) / 1.055).powf(2.4) };
    light.copysign(value)
}

/// The value, from 0 to 1, of linear light.
fn encoded(light: f64) -> f64 {
    let size = light.abs();
    let value = if size <= 0.003_130_8 { size * 12.92 } else { 1.055 * size.powf(1.0 / 2.4) - 0.055 };
    value.copysign(light)
}

/// One value of a picture of this type, in linear light.
pub(super) fn decode(value: f32, pixel: PixelType) -> f32 {
    let most = f64::from(white(pixel));
    (decoded(f64::from(value) / most) * most) as f32
}

/// The inverse of [`decode`], not rounded.
pub(super) fn encode(light: f32, pixel: PixelType) -> f32 {
    let most = f64::from(white(pixel));
    (encoded(f64::from(light) / most) * most) as f32
}

/// The first `coloured` channels, which hold values of this type, in linear light.
pub(super) fn decode_image(image: &mut Image<f32>, coloured: usize, pixel: PixelType) {
    let table: Vec<f32> = match pixel {
        PixelType::F32 => Vec::new(),
        // Whole numbers, all of which f32 holds.
        _ => (0..=white(pixel) as u32).map(|value| decode(value as f32, pixel)).collect(),
    };
    each(image, coloured, |value| match table.as_slice() {
        [] => decode(value, pixel),
        table => table[value as usize],
    });
}

/// The inverse of [`decode_image`], not rounded.
pub(super) fn encode_image(image: &mut Image<f32>, coloured: usize, pixel: PixelType) {
    each(image, coloured, |value| encode(value, pixel));
}

fn each(image: &mut Image<f32>, coloured: usize, convert: impl Fn(f32) -> f32 + Sync) {
    let channels = image.channels();
    image.values_mut().par_chunks_exact_mut(channels).for_each(|pixel| {
        pixel.iter_mut().take(coloured).for_each(|value| *value = convert(*value));
    });
}

/// Whether a colour profile is of a space whose transfer function is sRGB's, by its name: sRGB or Display P3.
pub(super) fn has_transfer_of_srgb(profile: &[u8]) -> bool {
    // Names are ASCII or UTF-16.
    let has = |name: &str| {
        let wide: Vec<u8> = name.encode_utf16().flat_map(u16::to_be_bytes).collect();
        [name.as_bytes(), &wide].iter().any(|name| profile.windows(name.len()).any(|part| part == *name))
    };
    has("sRGB") || has("Display P3")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back() {
        for pixel in [PixelType::U8, PixelType::U16] {
            let values: Vec<f32> = (0..=white(pixel) as u32).map(|value| value as f32).collect();
            let original = Image::new(values.len(), 1, 1, values).unwrap();
            let mut image = original.clone();
            decode_image(&mut image, 1, pixel);
            assert!(image.values().windows(2).all(|pair| pair[0] < pair[1]));
            encode_image(&mut image, 1, pixel);
            assert_eq!(image.map(f32::round), original);
        }
    }

    /// Points of the standard's curve, and its continuation.
    #[test]
    fn known_values() {
        for (value, light) in
            [(0.0, 0.0), (0.04045, 0.003_130_8), (0.5, 0.214_041), (1.0, 1.0), (-0.5, -0.214_041), (1.5, 2.537_156)]
        {
            assert!((f64::from(decode(value, PixelType::F32)) - light).abs() < 2e-6, "{value}");
            assert!((encoded(light) - f64::from(value)).abs() < 2e-6, "{light}");
        }
        assert_eq!(decode(255.0, PixelType::U8), 255.0);
    }

    #[test]
    fn profiles_are_told_apart_by_name() {
        assert!(has_transfer_of_srgb(b"....desc sRGB IEC61966-2.1"));
        assert!(has_transfer_of_srgb(b"\0D\0i\0s\0p\0l\0a\0y\0 \0P\x003"));
        assert!(!has_transfer_of_srgb(b"Adobe RGB (1998)"));
    }
}
