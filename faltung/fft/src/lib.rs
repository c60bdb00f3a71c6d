#![doc = include_str!("../README.md")]

use std::sync::Arc;

use realfft::RealFftPlanner;
pub use realfft::{ComplexToReal, FftError, RealToComplex};
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

/// Transforms of `n` complex numbers, in place. `process` overwrites its input with the result.
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
// Not inlined: otherwise the caller's crate would instantiate the planner.
#[inline(never)]
pub fn complex(n: usize) -> Pair<dyn Fft<f64>, dyn Fft<f64>> {
    let mut planner = FftPlanner::new();
    Pair { forward: planner.plan_fft_forward(n), inverse: planner.plan_fft_inverse(n) }
}

/// Transforms of `n` real numbers to `n / 2 + 1` complex ones, the bins, and back.
///
/// `process` overwrites its input. It returns an [`FftError`] if a slice has the wrong length. `inverse` returns
/// [`FftError::InputValues`] if the imaginary part of the first bin is not 0, and for even `n` also if that of the last
/// bin is not 0. [Example](crate).
// Not inlined: otherwise the caller's crate would instantiate the planner.
#[inline(never)]
pub fn real(n: usize) -> Pair<dyn RealToComplex<f64>, dyn ComplexToReal<f64>> {
    let mut planner = RealFftPlanner::new();
    Pair { forward: planner.plan_fft_forward(n), inverse: planner.plan_fft_inverse(n) }
}
