//! Masks by formula. Everything is computed in f64 and rounded to f32 once, at the end.
//!
//! Masks with a direction (derivatives, emboss) are written for the default operation, *convolution*: with it, the
//! derivative in x is positive where values grow to the right, the one in y where they grow downwards, as for
//! `scipy.ndimage.sobel` and `cv2.Sobel`. A correlation with the same mask has the opposite sign; for it, take
//! [`Mask::rotated_180`].

use std::f64::consts::PI;

use super::Mask;
use crate::{Error, Result};

/// The direction of a derivative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// Along the rows, from left to right: finds vertical edges.
    X,
    /// Along the columns, downwards: finds horizontal edges.
    Y,
}

/// Coefficients that a generated mask has at most: 256 MiB of f32.
const MOST_COEFFICIENTS: usize = 1 << 26;

/// A mask in f64 whose middle coefficient belongs to the point (0, 0), x to the right, y downwards.
pub(super) struct Sampled {
    width: usize,
    height: usize,
    values: Vec<f64>,
}

impl Sampled {
    pub(super) fn new(radius_x: usize, radius_y: usize, value: impl Fn(f64, f64) -> f64) -> Result<Self> {
        let side = |radius: usize| radius.saturating_mul(2).saturating_add(1);
        let (width, height) = (side(radius_x), side(radius_y));
        check_count(width, height)?;
        let mut values = Vec::with_capacity(width * height);
        for row in 0..height {
            let y = row as f64 - radius_y as f64;
            values.extend((0..width).map(|column| value(column as f64 - radius_x as f64, y)));
        }
        Ok(Self { width, height, values })
    }

    /// A Gaussian that is 1 in the middle. Without a radius it ends at 4 sigma.
    fn gaussian(sigma: f64, radius: Option<usize>) -> Result<Self> {
        positive("sigma", sigma)?;
        let radius = radius.unwrap_or_else(|| four_sigma(sigma));
        let gauss = |x: f64| (-0.5 * (x / sigma).powi(2)).exp();
        Self::new(radius, radius, |x, y| gauss(x) * gauss(y))
    }

    pub(super) fn sum(&self) -> f64 {
        self.values.iter().sum()
    }

    /// The mask, each coefficient divided by `divisor`. `what` is the parameter to blame if one is not finite.
    pub(super) fn divided_by(self, divisor: f64, what: &'static str, parameter: f64) -> Result<Mask> {
        let coefficients: Vec<f32> = self.values.iter().map(|value| (value / divisor) as f32).collect();
        if coefficients.iter().any(|coefficient| !coefficient.is_finite()) {
            let required = "such that every coefficient is finite";
            return Err(Error::Number { what, required, found: text(parameter) });
        }
        Mask::new(self.width, self.height, coefficients)
    }
}

/// Refuses a mask of too many coefficients.
fn check_count(width: usize, height: usize) -> Result<()> {
    if width.checked_mul(height).is_none_or(|count| count > MOST_COEFFICIENTS) {
        let what = "the number of coefficients of a generated mask".into();
        // A side that was computed from a large number ends at the greatest `usize`.
        let is_beyond = width.max(height) == usize::MAX;
        let found = if is_beyond { "10^19 or more".to_owned() } else { format!("{width} x {height}") };
        return Err(Error::TooLarge { what, most: MOST_COEFFICIENTS, found });
    }
    Ok(())
}

/// A number for people: very large and very small ones have an exponent in place of hundreds of zeros.
fn text(value: f64) -> String {
    let text = format!("{value:?}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

pub(super) fn positive(what: &'static str, value: f64) -> Result<f64> {
    if value > 0.0 && value.is_finite() {
        return Ok(value);
    }
    let required = if value > 0.0 { "finite" } else { "a number above 0" };
    Err(Error::Number { what, required, found: text(value) })
}

pub(super) fn finite(what: &'static str, value: f64) -> Result<f64> {
    if value.is_finite() {
        return Ok(value);
    }
    Err(Error::Number { what, required: "a finite number", found: text(value) })
}

/// `4 sigma`, rounded to the nearest: where SciPy's filters end.
fn four_sigma(sigma: f64) -> usize {
    // `as` saturates; a radius too large is refused with the size of the mask.
    (4.0 * sigma + 0.5) as usize
}

/// Cosine and sine of an angle in degrees, exact for multiples of 90.
pub(super) fn direction(degrees: f64) -> (f64, f64) {
    match degrees.rem_euclid(360.0) {
        0.0 => (1.0, 0.0),
        90.0 => (0.0, 1.0),
        180.0 => (-1.0, 0.0),
        270.0 => (0.0, -1.0),
        other => (other.to_radians().cos(), other.to_radians().sin()),
    }
}

impl Mask {
    fn three_by_three(coefficients: [f32; 9]) -> Self {
        Self { width: 3, height: 3, coefficients: coefficients.into() }
    }

    /// A derivative: `smooth` across, a central difference along `axis`, positive under convolution where values grow.
    fn derivative(axis: Axis, [outer, middle]: [f32; 2]) -> Self {
        let (o, m) = (outer, middle);
        Self::three_by_three(match axis {
            Axis::X => [o, 0.0, -o, m, 0.0, -m, o, 0.0, -o],
            Axis::Y => [o, m, o, 0.0, 0.0, 0.0, -o, -m, -o],
        })
    }

    /// One coefficient, 1: the image comes back.
    ///
    /// ```
    /// assert_eq!(faltung::Mask::identity().coefficients(), [1.0]);
    /// ```
    #[must_use]
    pub fn identity() -> Self {
        Self { width: 1, height: 1, coefficients: vec![1.0] }
    }

    /// The mean of `width` x `height` pixels: every coefficient is `1 / (width * height)`. OpenCV's `blur`, SciPy's
    /// `uniform_filter`.
    ///
    /// ```
    /// let mask = faltung::Mask::average(3, 1)?;
    /// assert_eq!(mask.coefficients(), [1.0 / 3.0; 3]);
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::EmptyMask`] for a side of 0, [`Error::TooLarge`] above 2^26 coefficients.
    pub fn average(width: usize, height: usize) -> Result<Self> {
        check_count(width, height)?;
        let count = width * height;
        Self::new(width, height, vec![(1.0 / count as f64) as f32; count])
    }

    /// A Gaussian blur: `exp(-(x^2 + y^2) / (2 sigma^2))`, divided by the sum. Without a radius it ends where SciPy's
    /// `gaussian_filter` ends, at `4 sigma` rounded to the nearest; the mask has `2 radius + 1` rows and columns.
    ///
    /// ```
    /// let mask = faltung::Mask::gaussian(1.5, None)?;
    /// assert_eq!((mask.width(), mask.height()), (13, 13));
    /// assert!((mask.sum() - 1.0).abs() < 1e-6);
    /// assert_eq!(faltung::Mask::gaussian(1.5, Some(2))?.width(), 5);
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Number`] if sigma is not above 0, [`Error::TooLarge`] above 2^26 coefficients.
    pub fn gaussian(sigma: f64, radius: Option<usize>) -> Result<Self> {
        let sampled = Sampled::gaussian(sigma, radius)?;
        let sum = sampled.sum();
        sampled.divided_by(sum, "sigma", sigma)
    }

    /// Sobel's derivative: `1 2 1` across, a central difference along the axis; not normalised, so a slope of 1 a pixel
    /// gives 8. Positive under convolution where values grow along the axis, as for OpenCV's `Sobel`.
    ///
    /// ```
    /// use faltung::{Axis, Mask};
    /// assert_eq!(Mask::sobel(Axis::X).coefficients(), [1.0, 0.0, -1.0, 2.0, 0.0, -2.0, 1.0, 0.0, -1.0]);
    /// ```
    #[must_use]
    pub fn sobel(axis: Axis) -> Self {
        Self::derivative(axis, [1.0, 2.0])
    }

    /// Scharr's derivative: `3 10 3` across, more even in all directions than Sobel's; a slope of 1 a pixel gives 32.
    /// Signs as for [`sobel`](Self::sobel). OpenCV's `Scharr`.
    ///
    /// ```
    /// use faltung::{Axis, Mask};
    /// assert_eq!(Mask::scharr(Axis::Y).coefficients(), [3.0, 10.0, 3.0, 0.0, 0.0, 0.0, -3.0, -10.0, -3.0]);
    /// ```
    #[must_use]
    pub fn scharr(axis: Axis) -> Self {
        Self::derivative(axis, [3.0, 10.0])
    }

    /// Prewitt's derivative: `1 1 1` across; a slope of 1 a pixel gives 6. Signs as for [`sobel`](Self::sobel). SciPy's
    /// `prewitt`.
    ///
    /// ```
    /// use faltung::{Axis, Mask};
    /// assert_eq!(Mask::prewitt(Axis::X).coefficients(), [1.0, 0.0, -1.0, 1.0, 0.0, -1.0, 1.0, 0.0, -1.0]);
    /// ```
    #[must_use]
    pub fn prewitt(axis: Axis) -> Self {
        Self::derivative(axis, [1.0, 1.0])
    }

    /// The sum of both second differences: -4 in the middle, 1 at its four neighbours. SciPy's `laplace`, OpenCV's
    /// `Laplacian`. Negative on bright spots.
    ///
    /// ```
    /// assert_eq!(faltung::Mask::laplacian().sum(), 0.0);
    /// ```
    #[must_use]
    pub fn laplacian() -> Self {
        Self::three_by_three([0.0, 1.0, 0.0, 1.0, -4.0, 1.0, 0.0, 1.0, 0.0])
    }

    /// The Laplacian of a Gaussian (Marr and Hildreth, 1980): `(q - 1) exp(-q) / (pi sigma^4)` with
    /// `q = (x^2 + y^2) / (2 sigma^2)`, out to `4 sigma`; the mean is then subtracted, so that flat areas give 0.
    /// Negative on bright spots, as SciPy's `gaussian_laplace`.
    ///
    /// ```
    /// let mask = faltung::Mask::laplacian_of_gaussian(2.0)?;
    /// assert_eq!(mask.width(), 17);
    /// assert!(mask.at(8, 8) < 0.0 && mask.sum().abs() < 1e-6);
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Number`] if sigma is not above 0, or so small that a coefficient is not finite; [`Error::TooLarge`]
    /// above 2^26 coefficients.
    pub fn laplacian_of_gaussian(sigma: f64) -> Result<Self> {
        positive("sigma", sigma)?;
        let radius = four_sigma(sigma).max(1);
        let factor = 1.0 / (PI * sigma.powi(4));
        let mut sampled = Sampled::new(radius, radius, |x, y| {
            let q = 0.5 * ((x / sigma).powi(2) + (y / sigma).powi(2));
            factor * (q - 1.0) * (-q).exp()
        })?;
        let mean = sampled.sum() / sampled.values.len() as f64;
        sampled.values.iter_mut().for_each(|value| *value -= mean);
        sampled.divided_by(1.0, "sigma", sigma)
    }

    /// Sharpening: the image minus `amount` times its [`laplacian`](Self::laplacian). The sum is 1; 0 changes nothing.
    ///
    /// ```
    /// let mask = faltung::Mask::sharpen(1.0)?;
    /// assert_eq!(mask.coefficients(), [0.0, -1.0, 0.0, -1.0, 5.0, -1.0, 0.0, -1.0, 0.0]);
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Number`] if the amount is not finite, or so large that a coefficient is not.
    pub fn sharpen(amount: f64) -> Result<Self> {
        finite("the amount of sharpening", amount)?;
        let sampled = Sampled::new(1, 1, |x, y| match x.abs() + y.abs() {
            0.0 => 1.0 + 4.0 * amount,
            1.0 => -amount,
            _ => 0.0,
        })?;
        sampled.divided_by(1.0, "the amount of sharpening", amount)
    }

    /// Unsharp masking: the image plus `amount` times its difference from a Gaussian blur, which is
    /// `(1 + amount) * identity - amount * gaussian`. The blur and its default radius are those of
    /// [`gaussian`](Self::gaussian). The sum is 1. An amount of 0 changes nothing, -1 is the blur itself.
    ///
    /// ```
    /// let mask = faltung::Mask::unsharp(1.5, 0.8, None)?;
    /// assert_eq!((mask.width(), mask.height()), (13, 13));
    /// assert!((mask.sum() - 1.0).abs() < 1e-6);
    /// assert!(mask.at(6, 6) > 1.0 && mask.at(6, 5) < 0.0);
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Number`] if sigma is not above 0, or if the amount is not finite or so large that a coefficient is not;
    /// [`Error::TooLarge`] above 2^26 coefficients.
    pub fn unsharp(sigma: f64, amount: f64, radius: Option<usize>) -> Result<Self> {
        finite("the amount of sharpening", amount)?;
        let mut sampled = Sampled::gaussian(sigma, radius)?;
        let sum = sampled.sum();
        let middle = sampled.values.len() / 2;
        for (place, value) in sampled.values.iter_mut().enumerate() {
            let identity = if place == middle { 1.0 } else { 0.0 };
            // The difference first: `1 + amount` would lose the 1 of a large amount.
            *value = identity + amount * (identity - *value / sum);
        }
        sampled.divided_by(1.0, "the amount of sharpening", amount)
    }

    /// A relief, lit from the upper left under convolution: the image plus a derivative along the diagonal. The sum is
    /// 1.
    ///
    /// ```
    /// assert_eq!(faltung::Mask::emboss().coefficients(), [2.0, 1.0, 0.0, 1.0, 1.0, -1.0, 0.0, -1.0, -2.0]);
    /// ```
    #[must_use]
    pub fn emboss() -> Self {
        Self::three_by_three([2.0, 1.0, 0.0, 1.0, 1.0, -1.0, 0.0, -1.0, -2.0])
    }

    /// The blur of a camera that moved `length` pixels along a line. The angle is in degrees, counter-clockwise from
    /// "to the right". A coefficient is `1 - d`, at least 0, where d is the distance from the line segment of
    /// length `length - 1` through the middle; all are divided by their sum. Close to MATLAB's `fspecial("motion")`.
    ///
    /// ```
    /// assert_eq!(faltung::Mask::motion(3.0, 0.0)?, faltung::Mask::average(3, 1)?);
    /// assert_eq!(faltung::Mask::motion(5.0, 90.0)?, faltung::Mask::average(1, 5)?);
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Number`] if the length is below 1 or the angle not finite, [`Error::TooLarge`] above 2^26 coefficients.
    pub fn motion(length: f64, degrees: f64) -> Result<Self> {
        if !(length >= 1.0 && length.is_finite()) {
            let required = "at least 1 pixel";
            return Err(Error::Number { what: "the length of the motion", required, found: text(length) });
        }
        let half = (length - 1.0) / 2.0;
        // Rows count downwards, angles upwards.
        let (cos, sin) = direction(finite("the angle of the motion", degrees)?);
        let (cos, sin) = (cos, -sin);
        // Beyond one pixel from the segment all is 0: the last column with a coefficient lies before half |cos| + 1.
        let radius = |extent: f64| ((half * extent.abs() + 1.0).ceil() - 1.0) as usize;
        let sampled = Sampled::new(radius(cos), radius(sin), |x, y| {
            let along = (x * cos + y * sin).clamp(-half, half);
            let distance = (x - along * cos).hypot(y - along * sin);
            (1.0 - distance).max(0.0)
        })?;
        let sum = sampled.sum();
        sampled.divided_by(sum, "the length of the motion", length)
    }

    /// The blur of a lens out of focus: each coefficient is the part of its pixel that a circle of this radius around
    /// the middle covers, exactly, divided by the circle's area. MATLAB's `fspecial("disk")`.
    ///
    /// ```
    /// let mask = faltung::Mask::disk(0.5)?; // fits into one pixel
    /// assert_eq!(mask.coefficients(), [1.0]);
    /// assert_eq!(faltung::Mask::disk(3.0)?.width(), 7);
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Number`] if the radius is not above 0, [`Error::TooLarge`] above 2^26 coefficients.
    pub fn disk(radius: f64) -> Result<Self> {
        positive("the radius of the disk", radius)?;
        // The areas below would underflow for a small radius.
        if radius <= 0.5 {
            return Ok(Self::identity());
        }
        let cells = (radius - 0.5).ceil().max(0.0) as usize;
        let sampled = Sampled::new(cells, cells, |x, y| {
            let corner = |x: f64, y: f64| quarter_disk(radius, x, y);
            let (left, right, top, bottom) = (x - 0.5, x + 0.5, y - 0.5, y + 0.5);
            // Rounding can leave a little below 0 where the circle does not reach.
            (corner(right, bottom) - corner(left, bottom) - corner(right, top) + corner(left, top)).max(0.0)
        })?;
        let sum = sampled.sum();
        sampled.divided_by(sum, "the radius of the disk", radius)
    }
}

/// The area that the rectangle between (0, 0) and (x, y) shares with the circle of this radius around (0, 0); negative
/// if one of x and y is, so that rectangles elsewhere are sums and differences of four.
fn quarter_disk(radius: f64, x: f64, y: f64) -> f64 {
    let (u, v) = (x.abs().min(radius), y.abs().min(radius));
    let area = if u.hypot(v) <= radius {
        u * v
    } else {
        // Up to `flat` the rectangle's edge is below the circle; from there on the circle is the edge.
        let flat = ((radius - v) * (radius + v)).sqrt();
        let under_circle = |t: f64| {
            0.5 * (t * ((radius - t) * (radius + t)).max(0.0).sqrt() + radius * radius * (t / radius).min(1.0).asin())
        };
        flat * v + under_circle(u) - under_circle(flat)
    };
    area * x.signum() * y.signum()
}

#[cfg(test)]
mod tests;
