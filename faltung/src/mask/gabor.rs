//! Gabor's filters.

use std::f64::consts::PI;

use super::Mask;
use super::generators::{Sampled, direction, finite, positive};
use crate::Result;

/// The parameters of [`Mask::gabor`]: `exp(-(u^2 + aspect^2 v^2) / (2 sigma^2)) cos(2 pi u / wavelength + phase)`,
/// where u runs along `angle` and v across. The Gaussian alone would sum to 1. The mask ends at 3 standard deviations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gabor {
    /// Pixels from crest to crest.
    pub wavelength: f64,
    /// The direction in which the wave runs, across its stripes: degrees, counter-clockwise from "to the right".
    pub angle: f64,
    /// The Gaussian's standard deviation along the wave in pixels; by default 0.56 wavelengths, a bandwidth of one
    /// octave.
    pub sigma: Option<f64>,
    /// The Gaussian's standard deviation along the wave over the one across: below 1, the stripes are long.
    pub aspect: f64,
    /// Where on the wave the middle lies, in degrees: 0 finds bright lines, 90 edges.
    pub phase: f64,
}

impl Gabor {
    /// sigma over wavelength for a bandwidth b of one octave: `sqrt(ln 2 / 2) / pi * (2^b + 1) / (2^b - 1)` (Petkov and
    /// Kruizinga, 1997).
    const SIGMA_OF_WAVELENGTH: f64 = 0.56;

    /// A filter for bright lines, with the usual sigma of 0.56 wavelengths and an aspect of 0.5.
    #[must_use]
    pub fn new(wavelength: f64, angle: f64) -> Self {
        Self { wavelength, angle, sigma: None, aspect: 0.5, phase: 0.0 }
    }
}

impl Mask {
    /// Gabor's filter: a wave under a Gaussian, which answers to stripes of one width and direction. See [`Gabor`].
    ///
    /// ```
    /// use faltung::{Gabor, Mask};
    /// let mask = Mask::gabor(&Gabor { sigma: Some(2.0), ..Gabor::new(8.0, 45.0) })?;
    /// assert!(mask.at(mask.height() / 2, mask.width() / 2) > 0.0);
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Number`](crate::Error::Number) if wavelength, sigma or aspect is not above 0, an angle is not finite, or
    /// the wavelength is so small that a coefficient is not finite; [`Error::TooLarge`](crate::Error::TooLarge) above 2^26 coefficients.
    pub fn gabor(gabor: &Gabor) -> Result<Self> {
        let wavelength = positive("the wavelength", gabor.wavelength)?;
        let sigma = positive("sigma", gabor.sigma.unwrap_or(Gabor::SIGMA_OF_WAVELENGTH * wavelength))?;
        let aspect = positive("the aspect", gabor.aspect)?;
        let (cos, sin) = direction(finite("the angle", gabor.angle)?);
        let (cos, sin) = (cos, -sin);
        let phase = finite("the phase", gabor.phase)?.to_radians();
        let turn = |x: f64, y: f64| (x * cos + y * sin, y * cos - x * sin);
        let envelope = |u: f64, v: f64| (-0.5 * ((u / sigma).powi(2) + (v * aspect / sigma).powi(2))).exp();
        let reach = |along: f64, across: f64| {
            (3.0 * sigma * along.abs()).max(3.0 * sigma / aspect * across.abs()).max(1.0).ceil() as usize
        };
        let (radius_x, radius_y) = (reach(cos, sin), reach(sin, cos));
        let area = Sampled::new(radius_x, radius_y, |x, y| {
            let (u, v) = turn(x, y);
            envelope(u, v)
        })?
        .sum();
        let wave = Sampled::new(radius_x, radius_y, |x, y| {
            let (u, v) = turn(x, y);
            envelope(u, v) * (2.0 * PI * u / wavelength + phase).cos()
        })?;
        // The Gaussian is finite for each sigma. So the wave is to blame.
        wave.divided_by(area, "the wavelength", wavelength)
    }
}
