//! One mask in the place of two.

use super::Mask;
use super::generators::check_count;
use crate::{Error, Result};

impl Mask {
    /// The mask that filters like `self` first, then `other`: the full convolution of the two masks. It has
    /// `self.height() + other.height() - 1` rows and `self.width() + other.width() - 1` columns. Each coefficient is a
    /// sum in f64, rounded to f32 once. The order of the two masks does not matter, except for roundings of that sum.
    ///
    /// ```
    /// use faltung::{Axis, Mask};
    ///
    /// let triangle = Mask::average(2, 1)?.composed_with(&Mask::average(2, 1)?)?;
    /// assert_eq!(triangle.coefficients(), [0.25, 0.5, 0.25]);
    ///
    /// let smooth = Mask::new(1, 3, vec![1.0, 2.0, 1.0])?;
    /// let derivative = Mask::new(3, 1, vec![1.0, 0.0, -1.0])?;
    /// assert_eq!(smooth.composed_with(&derivative)?, Mask::sobel(Axis::X));
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # When one filter equals two
    /// Filtering once with the composed mask gives the result of filtering twice, up to roundings, if all of this
    /// holds:
    /// - Both filters have the same [`Operation`](crate::Operation). It is also that of the composed filter. To compose
    ///   a convolution with a correlation, pass one mask [`rotated_180`](Self::rotated_180).
    /// - The image between the two filters is `f32`, so that nothing is rounded to integers or clamped.
    /// - The first filter has no offset. The composed filter has the second's offset and the product of both scales.
    /// - The anchor of the composed filter is the sum of both anchors, row by row and column by column.
    /// - The composed mask's window of the output pixel lies inside the image. Nearer to the edges, the second of two
    ///   filters reads outside of the intermediate image, where the border rule continues filtered values. The composed
    ///   filter reads the continued image itself. With [`Border::Wrap`](crate::Border::Wrap) both are the same, so the
    ///   results agree at every pixel.
    ///
    /// The two results are not bit-exact, because the products and sums differ.
    ///
    /// # The anchor
    /// The default anchor of a mask is `(height / 2, width / 2)`. It is right for the composed mask unless both heights
    /// or both widths are even. If both heights are even, the anchor's row must be `(height + 1) / 2`, one more than
    /// the default, where `height` is that of the composed mask. The same holds for widths and the anchor's column, and
    /// for both operations.
    ///
    /// ```
    /// use faltung::{Border, Device, Filter, Image, Mask};
    ///
    /// let pair = Mask::new(2, 1, vec![1.0, 3.0])?;
    /// let image = Image::from_fn(5, 1, |x, _| (x * x) as f32)?;
    /// let (device, filter) = (Device::cpu(), Filter::new(pair.clone()).border(Border::Wrap));
    /// let twice: Image = device.apply(&filter, &device.apply::<f32, f32>(&filter, &image)?)?;
    ///
    /// let composed = pair.composed_with(&pair)?; // 1, 6, 9: the default anchor is column 1
    /// let once: Image = device.apply(&Filter::new(composed).border(Border::Wrap).anchor(0, 2), &image)?;
    /// assert_eq!(once, twice);
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Cost
    /// The composition takes one multiply-add for each pair of coefficients. The composed filter often takes more
    /// multiply-adds a pixel than both filters together: two masks of 5 x 5 take 50, the composed mask takes 81. It
    /// saves the intermediate image.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above 2^26 coefficients. [`Error::Number`] if both masks are finite and a composed
    /// coefficient is beyond f32.
    pub fn composed_with(&self, other: &Self) -> Result<Self> {
        // Sides are at most MAX_SIDE, which `Mask` checks: the sums can't overflow.
        let (width, height) = (self.width + other.width - 1, self.height + other.height - 1);
        check_count("a composed mask", width, height)?;
        let mut sums = vec![0.0_f64; width * height];
        for (row, values) in self.coefficients.chunks_exact(self.width).enumerate() {
            for (column, &value) in values.iter().enumerate() {
                for (other_row, others) in other.coefficients.chunks_exact(other.width).enumerate() {
                    let sums = &mut sums[(row + other_row) * width + column..][..other.width];
                    for (sum, &other) in sums.iter_mut().zip(others) {
                        // Exact but for the addition: f64 holds the product of two f32.
                        *sum += f64::from(value) * f64::from(other);
                    }
                }
            }
        }
        let coefficients: Vec<f32> = sums.iter().map(|&sum| sum as f32).collect();
        let are_finite = |coefficients: &[f32]| coefficients.iter().all(|coefficient| coefficient.is_finite());
        if are_finite(&self.coefficients) && are_finite(&other.coefficients) && !are_finite(&coefficients) {
            let largest = sums.iter().fold(0.0_f64, |largest, sum| largest.max(sum.abs()));
            let what = "the largest coefficient of a composed mask";
            return Err(Error::Number { what, required: "finite in f32", found: format!("{largest:e}") });
        }
        Self::new(width, height, coefficients)
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;
    use crate::{Axis, Border, Device, Filter, Image, Operation};

    const OPERATIONS: [Operation; 2] = [Operation::Convolve, Operation::Correlate];

    fn random_mask(random: &mut Rng, width: usize, height: usize) -> Mask {
        let coefficients = (0..width * height).map(|_| random.f32() * 2.0 - 1.0).collect();
        Mask::new(width, height, coefficients).unwrap()
    }

    /// The anchor that the documentation gives for the composed mask of two filters with default anchors.
    fn documented_anchor(first: &Mask, second: &Mask, composed: &Mask) -> (usize, usize) {
        let of_side = |first: usize, second: usize, composed: usize| {
            if first.is_multiple_of(2) && second.is_multiple_of(2) { composed.div_ceil(2) } else { composed / 2 }
        };
        (of_side(first.height, second.height, composed.height), of_side(first.width, second.width, composed.width))
    }

    /// Once and twice, over the whole image, and the largest difference that roundings explain.
    fn once_and_twice(first: &Filter, second: &Filter, composed: &Filter, image: &Image) -> (Image, Image, f32) {
        let device = Device::cpu();
        let twice = device.apply(second, &device.apply::<f32, f32>(first, image).unwrap()).unwrap();
        let once = device.apply(composed, image).unwrap();
        // Values are at most 1. A sum of n terms has n roundings, each at most u times the sum of magnitudes. A
        // composed coefficient has one rounding of its own, and each coefficient of the second mask meets a rounded
        // sum.
        let magnitude =
            |filter: &Filter| filter.mask().unwrap().coefficients().iter().map(|value| value.abs()).sum::<f32>();
        let count = |filter: &Filter| filter.mask().unwrap().coefficients().len();
        let roundings = count(first) + count(second) + count(composed) + 1;
        let unit = f32::EPSILON / 2.0;
        (once, twice, 1.01 * roundings as f32 * unit * magnitude(first) * magnitude(second))
    }

    #[test]
    fn filtering_once_is_filtering_twice() {
        let mut random = Rng::with_seed(1);
        let sides = [1, 2, 3, 4, 5, 6];
        for case in 0..120 {
            let mut side = || sides[random.usize(..sides.len())];
            let (width, height, other_width, other_height) = (side(), side(), side(), side());
            let first = random_mask(&mut random, width, height);
            let second = random_mask(&mut random, other_width, other_height);
            let composed = first.composed_with(&second).unwrap();
            assert_eq!((composed.width, composed.height), (width + other_width - 1, height + other_height - 1));
            let (image_width, image_height) = (19, 17);
            let image = Image::from_fn(image_width, image_height, |_, _| random.f32() * 2.0 - 1.0).unwrap();
            let anchor = documented_anchor(&first, &second, &composed);
            for (operation, border) in OPERATIONS.into_iter().flat_map(|o| [(o, Border::ZERO), (o, Border::Wrap)]) {
                let filter = |mask: &Mask| Filter::new(mask.clone()).operation(operation).border(border);
                let composed_filter = filter(&composed).anchor(anchor.0, anchor.1);
                let (once, twice, bound) = once_and_twice(&filter(&first), &filter(&second), &composed_filter, &image);
                // How far the window reaches to either side of the output pixel.
                let reaches = |side: usize, anchor: usize| match operation {
                    Operation::Correlate => (anchor, side - 1 - anchor),
                    Operation::Convolve => (side - 1 - anchor, anchor),
                };
                let (above, below) = reaches(composed.height, anchor.0);
                let (left, right) = reaches(composed.width, anchor.1);
                let (rows, columns) = match border {
                    Border::Wrap => (0..image_height, 0..image_width),
                    _ => (above..image_height - below, left..image_width - right),
                };
                for y in rows {
                    for x in columns.clone() {
                        let (once, twice) = (once.row(y)[x], twice.row(y)[x]);
                        assert!(
                            (once - twice).abs() <= bound,
                            "case {case}, {operation:?}, {border:?}, ({x}, {y}): {once} and {twice}, bound {bound}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn anchors_and_scales_combine() {
        let mut random = Rng::with_seed(2);
        let (first, second) = (random_mask(&mut random, 4, 3), random_mask(&mut random, 2, 5));
        let composed = first.composed_with(&second).unwrap();
        let image = Image::from_fn(13, 11, |_, _| random.f32()).unwrap();
        for operation in OPERATIONS {
            let filter = |mask: &Mask| Filter::new(mask.clone()).operation(operation).border(Border::Wrap);
            let (once, twice, bound) = once_and_twice(
                &filter(&first).anchor(0, 3).scale(0.5),
                &filter(&second).anchor(4, 0).scale(2.0).offset(0.25),
                &filter(&composed).anchor(4, 3).scale(1.0).offset(0.25),
                &image,
            );
            // The offset, at most as large as the bound's sums, is rounded with the last addition.
            let bound = bound + f32::EPSILON;
            let differences = once.values().iter().zip(twice.values()).map(|(once, twice)| (once - twice).abs());
            assert!(differences.fold(0.0, f32::max) <= bound, "{operation:?}");
        }
    }

    #[test]
    fn known_products() {
        let ones = Mask::new(3, 3, vec![1.0; 9]).unwrap();
        let pyramid = ones.composed_with(&ones).unwrap();
        let triangle = [1.0, 2.0, 3.0, 2.0, 1.0];
        let expected: Vec<f32> = triangle.iter().flat_map(|a| triangle.map(|b| a * b)).collect();
        assert_eq!(pyramid.coefficients(), expected);

        let row = |coefficients: [f32; 3]| Mask::new(3, 1, coefficients.to_vec()).unwrap();
        let column = |coefficients: [f32; 3]| Mask::new(1, 3, coefficients.to_vec()).unwrap();
        let (smooth, derivative) = ([1.0, 2.0, 1.0], [1.0, 0.0, -1.0]);
        for (axis, smooth, derivative) in
            [(Axis::X, column(smooth), row(derivative)), (Axis::Y, row(smooth), column(derivative))]
        {
            assert_eq!(smooth.composed_with(&derivative).unwrap(), Mask::sobel(axis));
            assert_eq!(derivative.composed_with(&smooth).unwrap(), Mask::sobel(axis));
        }

        let mask = Mask::gaussian(1.0, None).unwrap();
        assert_eq!(Mask::identity().composed_with(&mask).unwrap(), mask);
        // Variances add: a Gaussian twice is a wider Gaussian, but for where the masks end.
        let twice =
            Mask::gaussian(3.0, Some(18)).unwrap().composed_with(&Mask::gaussian(4.0, Some(24)).unwrap()).unwrap();
        let wider = Mask::gaussian(5.0, Some(42)).unwrap();
        let differences = twice.coefficients().iter().zip(wider.coefficients()).map(|(a, b)| (a - b).abs());
        assert!(differences.fold(0.0, f32::max) < 1e-9);
    }

    #[test]
    fn coefficients_and_sizes_beyond_the_limits_are_refused() {
        let long = |width, height| Mask::new(width, height, vec![0.0; width * height]).unwrap();
        let found = long(1 << 14, 1).composed_with(&long(1, 1 << 13));
        assert!(matches!(found, Err(Error::TooLarge { most, .. }) if most == 1 << 26), "{found:?}");

        let large = Mask::new(2, 1, vec![1e30, -1e30]).unwrap();
        let error = large.composed_with(&large).unwrap_err();
        let expected = "the largest coefficient of a composed mask must be finite in f32, not 2.0000000601898653e60";
        assert_eq!(error.to_string(), expected);
        let infinite = Mask::new(2, 1, vec![1.0, f32::INFINITY]).unwrap();
        assert_eq!(infinite.composed_with(&Mask::identity()).unwrap(), infinite);
    }
}
