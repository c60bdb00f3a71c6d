//! Filters by formula.

use crate::{Axis, Filter, Mask};

/// Filters by formula: convolutions with the [`Mask`] of the same name.
///
/// None of these calls fails. A parameter that the mask refuses is an error of the first call that needs the mask:
/// [`Problem::new`](crate::Problem::new), [`Device::apply`](crate::Device::apply), [`Filter::mask`].
///
/// ```
/// use faltung::{Border, Device, Filter, Image};
///
/// let image = Image::from_fn(64, 48, |x, y| (x * y % 251) as u8)?;
/// let blurred: Image<u8> = Device::cpu().apply(&Filter::gaussian(3.0).border(Border::Mirror), &image)?;
///
/// let error = Device::cpu().apply::<u8, u8>(&Filter::gaussian(f64::NAN), &image).unwrap_err();
/// assert_eq!(error.to_string(), "sigma must be a number above 0, not NaN");
/// # Ok::<(), faltung::Error>(())
/// ```
impl Filter {
    /// A Gaussian blur with this standard deviation, out to 4 sigma: [`Mask::gaussian`].
    #[must_use]
    pub fn gaussian(sigma: f64) -> Self {
        Self::from_formula(Mask::gaussian(sigma, None))
    }

    /// The mean of `width` x `height` pixels: [`Mask::average`].
    ///
    /// A window of even size has no middle. It then holds one pixel more on the left of the output pixel, or above it.
    /// This is the window of OpenCV's `blur` and SciPy's `uniform_filter`. The anchor is set accordingly, for a
    /// convolution. A correlation with this filter has the additional pixel on the right, or below.
    ///
    /// ```
    /// use faltung::{Device, Filter, Image};
    ///
    /// let image = Image::new(4, 1, 1, vec![0.0, 2.0, 4.0, 6.0])?;
    /// let means: Image = Device::cpu().apply(&Filter::average(2, 1), &image)?;
    /// assert_eq!(means.values(), [0.0, 1.0, 3.0, 5.0]);
    /// # Ok::<(), faltung::Error>(())
    /// ```
    #[must_use]
    pub fn average(width: usize, height: usize) -> Self {
        // A convolution walks backwards from the anchor.
        let middle = |side: usize| side.saturating_sub(1) / 2;
        Self::from_formula(Mask::average(width, height)).anchor(middle(height), middle(width))
    }

    /// Sobel's derivative, positive where values grow along the axis: [`Mask::sobel`].
    #[must_use]
    pub fn sobel(axis: Axis) -> Self {
        Self::new(Mask::sobel(axis))
    }

    /// The sum of both second differences: [`Mask::laplacian`].
    #[must_use]
    pub fn laplacian() -> Self {
        Self::new(Mask::laplacian())
    }

    /// The image minus `amount` times its Laplacian: [`Mask::sharpen`].
    #[must_use]
    pub fn sharpen(amount: f64) -> Self {
        Self::from_formula(Mask::sharpen(amount))
    }

    /// The image plus `amount` times its difference from a Gaussian blur: [`Mask::unsharp`].
    #[must_use]
    pub fn unsharp(sigma: f64, amount: f64) -> Self {
        Self::from_formula(Mask::unsharp(sigma, amount, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Accuracy, Border, Device, Error, Image, Operation, Problem};

    #[test]
    fn formulas_give_the_masks_of_their_name() {
        let pairs = [
            (Filter::gaussian(1.5), Mask::gaussian(1.5, None)),
            (Filter::average(5, 3).anchor(1, 2), Mask::average(5, 3)),
            (Filter::sobel(Axis::Y), Ok(Mask::sobel(Axis::Y))),
            (Filter::laplacian(), Ok(Mask::laplacian())),
            (Filter::sharpen(0.5), Mask::sharpen(0.5)),
            (Filter::unsharp(2.0, 0.7), Mask::unsharp(2.0, 0.7, None)),
        ];
        for (filter, mask) in pairs {
            assert_eq!(filter.mask().unwrap(), &mask.unwrap());
            assert_eq!(Problem::new(9, 9, &filter).unwrap().operation(), Operation::Convolve);
        }
    }

    #[test]
    fn a_filter_gives_back_what_was_set() {
        let filter = Filter::laplacian();
        assert_eq!((filter.get_operation(), filter.get_border()), (Operation::Convolve, Border::ZERO));
        assert_eq!((filter.get_anchor(), filter.get_accuracy()), (None, Accuracy::Bounded));
        assert_eq!((filter.get_scale(), filter.get_offset()), (1.0, 0.0));
        let filter = filter.operation(Operation::Correlate).border(Border::Wrap).anchor(1, 2);
        let filter = filter.scale(0.5).offset(3.0).accuracy(Accuracy::Exact);
        assert_eq!((filter.get_operation(), filter.get_border()), (Operation::Correlate, Border::Wrap));
        assert_eq!((filter.get_anchor(), filter.get_accuracy()), (Some((1, 2)), Accuracy::Exact));
        assert_eq!((filter.get_scale(), filter.get_offset()), (0.5, 3.0));
    }

    #[test]
    fn a_refused_parameter_is_an_error_of_the_first_call() {
        let pairs = [
            (Filter::gaussian(f64::NAN), Mask::gaussian(f64::NAN, None)),
            (Filter::gaussian(1e9), Mask::gaussian(1e9, None)),
            (Filter::average(0, 3), Mask::average(0, 3)),
            (Filter::average(usize::MAX, 2), Mask::average(usize::MAX, 2)),
            (Filter::sharpen(f64::INFINITY), Mask::sharpen(f64::INFINITY)),
            (Filter::unsharp(-1.0, 1.0), Mask::unsharp(-1.0, 1.0, None)),
            (Filter::unsharp(1.0, 1e300), Mask::unsharp(1.0, 1e300, None)),
        ];
        let image = Image::new(1, 1, 1, vec![1.0]).unwrap();
        for (filter, mask) in pairs {
            let filter = filter.scale(2.0).offset(1.0);
            let error = mask.unwrap_err();
            assert_eq!(filter.mask().unwrap_err(), error);
            assert_eq!(Problem::new(4, 4, &filter).unwrap_err(), error);
            assert_eq!(Device::cpu().apply::<f32, f32>(&filter, &image).unwrap_err(), error);
            assert_eq!(filter.clone(), filter);
        }
        let error = Problem::new(0, 4, &Filter::gaussian(-1.0)).unwrap_err();
        assert!(matches!(error, Error::EmptyImage { .. }));
    }

    /// SciPy 1.17: `uniform_filter([[0, 1, 4, 9], [16, 25, 36, 49]], size=2, mode="constant") * 4`.
    #[test]
    fn an_even_average_has_scipys_window() {
        let image = Image::new(4, 2, 1, vec![0.0, 1.0, 4.0, 9.0, 16.0, 25.0, 36.0, 49.0]).unwrap();
        let means: Image = Device::cpu().apply(&Filter::average(2, 2).scale(4.0), &image).unwrap();
        assert_eq!(means.values(), [0.0, 1.0, 5.0, 13.0, 16.0, 42.0, 66.0, 98.0]);
    }
}
