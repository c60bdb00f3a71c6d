//! Transforms in `f64`, planned by [`rustfft`] and [`realfft`].
//!
//! Both crates are generic over the type of numbers. So the crate that makes a plan compiles every algorithm that a
//! plan may choose. That was a third of the code of `faltung`. Here it is compiled once, and not with each change of
//! `faltung`, nor a second time for its unit tests.

use std::sync::Arc;

use realfft::RealFftPlanner;
pub use realfft::{ComplexToReal, RealToComplex};
pub use rustfft::Fft;
use rustfft::FftPlanner;
pub use rustfft::num_complex::Complex;

/// The forward and the inverse transform of one length. Neither divides by the length.
pub struct Pair<Forward: ?Sized, Inverse: ?Sized> {
    /// With `exp(-2 pi i j k / n)`.
    pub forward: Arc<Forward>,
    /// With `exp(2 pi i j k / n)`.
    pub inverse: Arc<Inverse>,
}

/// Transforms of `n` complex numbers, in place.
///
/// ```
/// use faltung_fft::{Complex, complex};
///
/// let plan = complex(4);
/// let mut values = [1.0, 2.0, 3.0, 4.0].map(|re| Complex { re, im: 0.0 });
/// plan.forward.process(&mut values);
/// assert_eq!(values[0], Complex { re: 10.0, im: 0.0 });
/// plan.inverse.process(&mut values);
/// assert_eq!(values.map(|value| value.re / 4.0), [1.0, 2.0, 3.0, 4.0]);
/// ```
#[inline(never)]
pub fn complex(n: usize) -> Pair<dyn Fft<f64>, dyn Fft<f64>> {
    let mut planner = FftPlanner::new();
    Pair { forward: planner.plan_fft_forward(n), inverse: planner.plan_fft_inverse(n) }
}

/// Transforms of `n` real numbers to `n / 2 + 1` complex ones, and back.
///
/// ```
/// let plan = faltung_fft::real(4);
/// let (mut values, mut spectrum) = (vec![1.0, 2.0, 3.0, 4.0], plan.forward.make_output_vec());
/// plan.forward.process(&mut values, &mut spectrum)?;
/// assert_eq!((spectrum.len(), spectrum[0].re), (3, 10.0));
/// plan.inverse.process(&mut spectrum, &mut values)?;
/// assert_eq!(values, [4.0, 8.0, 12.0, 16.0]);
/// # Ok::<(), realfft::FftError>(())
/// ```
#[inline(never)]
pub fn real(n: usize) -> Pair<dyn RealToComplex<f64>, dyn ComplexToReal<f64>> {
    let mut planner = RealFftPlanner::new();
    Pair { forward: planner.plan_fft_forward(n), inverse: planner.plan_fft_inverse(n) }
}
