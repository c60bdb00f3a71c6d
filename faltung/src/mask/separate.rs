//! Separable masks: rank 1.

use super::Mask;

impl Mask {
    /// A tolerance of [`separated`](Self::separated) that accepts the rounding errors of a separable mask: 2^-20, about
    /// a millionth.
    ///
    /// Rounding to `f32` moves a number by at most 2^-24 of itself. It moves the coefficients of the mask, and those of
    /// column and row. Together these errors are less than 2^-21 of the largest coefficient.
    pub const SEPARABLE: f32 = 1.0 / (1 << 20) as f32;

    /// Column and row whose outer product this mask is, if there are such: `M[k, l] = column[k] * row[l]`, each
    /// coefficient to within `tolerance` times the largest one's magnitude. A filter with such a mask can be computed
    /// in two passes, one along each axis, with `height + width` multiply-adds a pixel in the place of `height *
    /// width`, and with other roundings.
    ///
    /// The row is the mask's own row with the largest coefficient, the column is scaled to it. Of the masks by formula,
    /// [`gaussian`](Self::gaussian), [`average`](Self::average), [`sobel`](Self::sobel), [`scharr`](Self::scharr),
    /// [`prewitt`](Self::prewitt) and [`identity`](Self::identity) are such, [`motion`](Self::motion) and
    /// [`gabor`](Self::gabor) along an axis, too, and every mask of one row or one column. A mask with NaN or infinite
    /// coefficients is none, and zeros alone are not either.
    ///
    /// ```
    /// use faltung::{Axis, Mask};
    ///
    /// let (column, row) = Mask::sobel(Axis::X).separated(Mask::SEPARABLE).unwrap();
    /// assert_eq!((column, row), (vec![0.5, 1.0, 0.5], vec![2.0, 0.0, -2.0]));
    /// assert!(Mask::laplacian().separated(Mask::SEPARABLE).is_none());
    /// ```
    #[must_use]
    pub fn separated(&self, tolerance: f32) -> Option<(Vec<f32>, Vec<f32>)> {
        if self.coefficients.iter().any(|coefficient| !coefficient.is_finite()) {
            return None;
        }
        // Both are divided by the largest coefficient at most, so nothing can overflow.
        let magnitude = |place: &usize| self.coefficients[*place].abs();
        let largest = (0..self.coefficients.len()).rev().max_by(|a, b| magnitude(a).total_cmp(&magnitude(b)))?;
        let pivot = f64::from(self.coefficients[largest]);
        if pivot == 0.0 {
            return None;
        }
        let (first, place) = (largest / self.width * self.width, largest % self.width);
        let row = self.coefficients[first..][..self.width].to_vec();
        let column: Vec<f32> = self
            .coefficients
            .chunks_exact(self.width)
            .map(|values| (f64::from(values[place]) / pivot) as f32)
            .collect();
        let most = f64::from(tolerance) * pivot.abs();
        self.is_outer_product(&column, &row, |_| most).then_some((column, row))
    }

    /// Whether this mask is the outer product of `column` and `row`, each coefficient to within what is `tolerated` for
    /// it.
    pub(crate) fn is_outer_product(&self, column: &[f32], row: &[f32], tolerated: impl Fn(f64) -> f64) -> bool {
        self.coefficients.chunks_exact(self.width).zip(column).all(|(values, &of_column)| {
            values.iter().zip(row).all(|(&value, &of_row)| {
                // Exact in f64: two numbers of 24 digits.
                let (value, product) = (f64::from(value), f64::from(of_column) * f64::from(of_row));
                (value - product).abs() <= tolerated(value)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Axis, Gabor, Mask};

    /// The largest difference to the outer product, over the largest coefficient.
    fn error(mask: &Mask, (column, row): &(Vec<f32>, Vec<f32>)) -> f64 {
        assert_eq!((column.len(), row.len()), (mask.height(), mask.width()));
        let largest = mask.coefficients().iter().fold(0.0_f64, |most, &value| most.max(f64::from(value).abs()));
        let places = (0..mask.height()).flat_map(|k| (0..mask.width()).map(move |l| (k, l)));
        let difference = |(k, l)| (f64::from(mask.at(k, l)) - f64::from(column[k]) * f64::from(row[l])).abs();
        places.map(difference).fold(0.0, f64::max) / largest
    }

    #[test]
    fn outer_products_are_found() {
        let masks = [
            Mask::identity(),
            Mask::gaussian(0.4, None).unwrap(),
            Mask::gaussian(2.5, None).unwrap(),
            Mask::gaussian(30.0, Some(40)).unwrap(),
            Mask::average(5, 3).unwrap(),
            Mask::average(1, 8).unwrap(),
            Mask::sobel(Axis::X),
            Mask::sobel(Axis::Y),
            Mask::scharr(Axis::X),
            Mask::prewitt(Axis::Y),
            Mask::motion(9.0, 0.0).unwrap(),
            Mask::motion(6.5, 90.0).unwrap(),
            Mask::gabor(&Gabor::new(8.0, 90.0)).unwrap(),
            Mask::gaussian(3.0, None).unwrap().rotated_180(),
            // Values whose products, not divided, would overflow or vanish.
            Mask::new(2, 2, vec![3e38, -1e38, 3e36, -1e36]).unwrap(),
            Mask::new(2, 2, vec![3e-38, -1e-38, 1.5e-38, -0.5e-38]).unwrap(),
        ];
        for mask in masks {
            let parts = mask.separated(Mask::SEPARABLE).expect("an outer product");
            assert!(error(&mask, &parts) <= f64::from(Mask::SEPARABLE), "{}", error(&mask, &parts));
        }
    }

    #[test]
    fn a_random_outer_product_is_found_and_a_changed_one_is_not() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (width, height) = (random.usize(2..9), random.usize(2..9));
            let mut values = |count| (0..count).map(|_| random.f64() * 2.0 - 1.0).collect::<Vec<_>>();
            let (column, row) = (values(height), values(width));
            let product = |i: usize| (column[i / width] * row[i % width]) as f32;
            let mut coefficients: Vec<f32> = (0..width * height).map(product).collect();
            let mask = Mask::new(width, height, coefficients.clone()).unwrap();
            let parts = mask.separated(Mask::SEPARABLE).unwrap_or_else(|| panic!("seed {seed}"));
            assert!(error(&mask, &parts) <= f64::from(Mask::SEPARABLE), "seed {seed}");
            // One coefficient, by eight times the tolerance.
            let largest = coefficients.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
            let place = random.usize(..coefficients.len());
            coefficients[place] += largest * 8.0 * Mask::SEPARABLE;
            let changed = Mask::new(width, height, coefficients).unwrap();
            let off = changed.separated(Mask::SEPARABLE).map(|parts| error(&changed, &parts));
            // Where the changed one alone decides its row or column, the mask is an outer product still.
            assert!(off.is_none_or(|off| off <= f64::from(Mask::SEPARABLE)), "seed {seed}: {off:?}");
        }
    }

    #[test]
    fn others_are_not() {
        let mut changed = vec![1.0_f32 / 9.0; 9];
        changed[7] *= 1.0 + 8.0 * Mask::SEPARABLE;
        let masks = [
            Mask::laplacian(),
            Mask::emboss(),
            Mask::sharpen(1.0).unwrap(),
            Mask::disk(3.0).unwrap(),
            Mask::laplacian_of_gaussian(1.0).unwrap(),
            Mask::motion(9.0, 45.0).unwrap(),
            Mask::gabor(&Gabor::new(8.0, 30.0)).unwrap(),
            Mask::new(2, 2, vec![1.0, 0.0, 0.0, 1.0]).unwrap(),
            Mask::new(2, 2, vec![1.0, 1.0, 1.0, f32::NAN]).unwrap(),
            Mask::new(2, 1, vec![1.0, f32::INFINITY]).unwrap(),
            Mask::new(3, 2, vec![0.0; 6]).unwrap(),
            Mask::new(3, 3, changed.clone()).unwrap(),
        ];
        for mask in masks {
            assert_eq!(mask.separated(Mask::SEPARABLE), None, "{mask:?}");
        }
        assert!(Mask::new(3, 3, changed).unwrap().separated(1e-4).is_some());
    }
}
