//! The three treatments of alpha.
//!
//! # Weighted
//! With M the mask, S the sum of its coefficients, c a colour and a its alpha as a part of the greatest (for `f32` as
//! it is):
//!
//! - the weight `A = sum(M * a) / S` is the weighted mean of alpha, and the result's alpha: not below 0, and of
//!   integers not above the greatest;
//! - the colour is `sum(M * c * a) / A`, then scaled and offset; where A is 0 or less, it is 0.
//!
//! S is summed as the device sums. So where all pixels of a window are opaque, A is exactly 1, and the colour is
//! bit-exact with `sum(M * c)`. A constant border is opaque. Negative coefficients need no rule of their own: they make
//! A greater or smaller, and the colour is divided by A before it is limited. A pixel with a = 0 takes no part, even if
//! its colour is NaN.

use faltung::{Image, Pixel, PixelType, white};
use rayon::prelude::*;

/// The treatment of alpha.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alpha {
    /// Colours are weighted by alpha.
    Weighted,
    /// Alpha stays, and colours are filtered without it.
    Keep,
    /// Alpha is filtered like a colour.
    Plain,
}

/// Whether the last channel is the greatest everywhere.
pub(super) fn is_opaque<T: Pixel>(image: &Image<T>) -> bool {
    let opaque = white(T::TYPE);
    image.values().par_chunks_exact(image.channels()).all(|pixel| pixel.last().is_some_and(|a| a.to_f32() == opaque))
}

/// Multiplies colours by their weights.
pub(super) fn weigh(colours: &mut Image<f32>, weights: &Image<f32>) {
    let channels = colours.channels();
    let pixels = colours.values_mut().par_chunks_exact_mut(channels);
    pixels.zip(weights.values().par_iter()).for_each(|(pixel, &weight)| {
        for value in pixel {
            *value = if weight == 0.0 { 0.0 } else { *value * weight };
        }
    });
}

/// Divides sums of weighted colours by the mean weight.
pub(super) fn divide(sums: &mut Image<f32>, means: &Image<f32>) {
    let channels = sums.channels();
    let pixels = sums.values_mut().par_chunks_exact_mut(channels);
    pixels.zip(means.values().par_iter()).for_each(|(pixel, &mean)| {
        for value in pixel {
            *value = if mean <= 0.0 { 0.0 } else { *value / mean };
        }
    });
}

/// The mean weights as the alpha of pictures of this type.
pub(super) fn from_means(means: &mut Image<f32>, pixel: PixelType) {
    let opaque = white(pixel);
    let above = if pixel == PixelType::F32 { f32::INFINITY } else { 1.0 };
    // `clamp` leaves NaN, which then shows in the result.
    means.values_mut().par_iter_mut().for_each(|mean| *mean = mean.clamp(0.0, above) * opaque);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_weight_takes_no_part() {
        let image = |values: &[f32]| Image::new(values.len(), 1, 1, values.to_vec()).unwrap();
        let mut colours = image(&[f32::NAN, f32::INFINITY, 3.0, 5.0]);
        weigh(&mut colours, &image(&[0.0, 0.0, 0.5, 1.0]));
        assert_eq!(colours.values(), [0.0, 0.0, 1.5, 5.0]);
        divide(&mut colours, &image(&[0.0, -1.0, 0.5, 1.0]));
        assert_eq!(colours.values(), [0.0, 0.0, 3.0, 5.0]);
        let mut unknown = image(&[1.0]);
        divide(&mut unknown, &image(&[f32::NAN]));
        assert!(unknown.values()[0].is_nan());
    }

    #[test]
    fn alpha_stays_in_its_range() {
        let means = Image::new(4, 1, 1, vec![-0.5_f32, 0.25, 1.0, 1.5]).unwrap();
        for (pixel, expected) in [(PixelType::U8, [0.0, 63.75, 255.0, 255.0]), (PixelType::F32, [0.0, 0.25, 1.0, 1.5])]
        {
            let mut found = means.clone();
            from_means(&mut found, pixel);
            assert_eq!(found.values(), expected);
        }
    }
}
