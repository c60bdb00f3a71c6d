//! Compares results. All tolerances of the project are here.
//!
//! - Exact variants are bit-exact with the scalar reference: [`bit_exact`].
//! - Any variant, whatever its order of summation, is within its [`ErrorBound`] of the [`Oracle`]: [`with_oracle`].
//!
//! Tests and benches fill a result with [`POISON`] before it is computed. An unwritten output fails both comparisons.

use rayon::prelude::*;
use thiserror::Error;

use crate::oracle::Oracle;
use faltung::{Accuracy, ErrorBound, PixelType, Problem, white};

pub use faltung::POISON;

/// The unit roundoff of `f32`: a result of one operation is off by at most this part of itself.
const U: f64 = 1.0 / (1 << 24) as f64;
/// Half of the smallest subnormal number: what one operation is off by at most where numbers have no more digits.
const UNDERFLOW: f64 = f64::from_bits((1023 - 150) << 52);
/// From this magnitude on a rounded value is infinite: half a step above `f32::MAX`.
const OVERFLOW: f64 = f32::MAX as f64 * (1.0 + U / 2.0);

/// The judgement of one result by a bound.
struct Judge<'a> {
    bound: ErrorBound,
    problem: &'a Problem,
    /// What a sum may be off by, whatever its products: for the class Normwise the bound of the norms, else 0.
    ///
    /// The oracle knows no tiles. It takes the norm of all pixels, which is not less than that of a tile.
    of_norms: f64,
}

impl<'a> Judge<'a> {
    fn new(bound: ErrorBound, problem: &'a Problem, norm_of_pixels: f64) -> Self {
        if bound.class() != Accuracy::Normwise {
            return Self { bound, problem, of_norms: 0.0 };
        }
        let squares = problem.window().coefficients().iter().map(|&coefficient| f64::from(coefficient).powi(2));
        let of_norms = bound.constant() * U * squares.sum::<f64>().sqrt() * norm_of_pixels;
        // A NaN or an infinity leaves other pixels' sums finite. Those are ordered sums.
        let of_norms = if of_norms.is_finite() { of_norms } else { 0.0 };
        let ordered = ErrorBound::direct(problem).with_underflows(bound.underflows());
        Self { bound: ordered, problem, of_norms }
    }

    /// By how much a finite result may miss `exact`.
    fn tolerance(&self, exact: f64, magnitude: f64) -> f64 {
        let &Self { bound, problem, of_norms } = self;
        let taps = problem.window().width() as f64 * problem.window().height() as f64;
        let scale = f64::from(problem.scale_and_offset().0).abs();
        let oracle = taps * 2.0_f64.powi(-52);
        // 0 * infinity: an infinite gamma allows nothing where there is nothing to round.
        let gamma = if magnitude == 0.0 { 0.0 } else { (bound.gamma() + oracle) * magnitude };
        let sum = scale * (gamma.max(of_norms) + bound.underflows().max(taps) * UNDERFLOW);
        if problem.is_plain() { sum } else { sum + (U + 2.0_f64.powi(-51)) * (exact.abs() + sum) + UNDERFLOW }
    }

    /// Whether a partial sum or the result may exceed the range of `f32`.
    fn may_overflow(&self, magnitude: f64) -> bool {
        let (scale, offset) = self.problem.scale_and_offset();
        let sums = magnitude * (1.0 + self.bound.gamma()) + self.of_norms;
        let result = f64::from(scale).abs() * sums + f64::from(offset).abs();
        sums >= OVERFLOW || result >= OVERFLOW
    }

    /// The error of `result`, and in units of the tolerance, where above 1 is wrong.
    fn judge(&self, exact: f64, magnitude: f64, result: f32) -> (f64, f64) {
        let value = f64::from(result);
        if let Some(most) = largest(self.problem.format().output) {
            // NaN becomes 0. Infinities that may come of an overflow saturate at either end.
            let exact_here = if exact.is_nan() { 0.0 } else { exact.clamp(0.0, most) };
            if exact.is_finite() && self.may_overflow(magnitude) {
                return (0.0, 0.0);
            }
            // Saturated as the exact one is, an error only shrinks; rounding adds a half at most.
            let sum_error = if exact.is_finite() { self.tolerance(exact, magnitude) } else { 0.0 };
            return within((value - exact_here).abs(), 0.5 + sum_error);
        }
        let right = (0.0, 0.0);
        let wrong = (f64::INFINITY, f64::INFINITY);
        if result.to_bits() == POISON.to_bits() {
            return wrong;
        }
        if exact.is_nan() {
            return if value.is_nan() { right } else { wrong };
        }
        if exact.is_infinite() {
            return if value == exact { right } else { wrong };
        }
        if !value.is_finite() {
            return if self.may_overflow(magnitude) { right } else { wrong };
        }
        within((value - exact).abs(), self.tolerance(exact, magnitude))
    }
}

/// The error, and in units of the tolerance.
fn within(error: f64, tolerance: f64) -> (f64, f64) {
    // NaN must fail, so this tests for `<=`, not `>`.
    if error <= tolerance {
        (error, if error == 0.0 { 0.0 } else { error / tolerance })
    } else {
        // At least a step above 1, whatever the division rounds to.
        (error, (error / tolerance).max(1.0 + f64::EPSILON))
    }
}

/// The largest value of an integer type.
fn largest(kind: PixelType) -> Option<f64> {
    (kind != PixelType::F32).then(|| white(kind).into())
}

/// What a comparison with the oracle found, over the whole frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The largest |result - exact|; infinite if a result is NaN, infinite or unwritten where it must not be.
    pub max_abs_error: f64,
    /// The largest error in units of what the bound allows that output: at most 1 if all are right.
    pub error_over_bound: f64,
    /// Column and row of that output; of equals, the first.
    pub worst: (usize, usize),
    /// Outputs beyond the bound.
    pub failures: usize,
}

impl Comparison {
    /// Whether every output is within the bound.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.failures == 0
    }
}

/// Compares each value of `result`, `height` rows of `width`, with the oracle's: one channel of the problem's output
/// type, as `f32`, which holds all integers of it.
///
/// # Panics
/// If the oracle's or the result's size is not the problem's.
#[must_use]
pub fn with_oracle(oracle: &Oracle, problem: &Problem, result: &[f32], bound: ErrorBound) -> Comparison {
    let (width, height) = (problem.width(), problem.height());
    for length in [oracle.exact.len(), oracle.magnitude.len(), result.len()] {
        assert_eq!(length, width * height, "values of a {width} x {height} problem");
    }
    let judge = Judge::new(bound, problem, oracle.norm);
    let row = |y: usize| {
        let mut found = Comparison { max_abs_error: 0.0, error_over_bound: 0.0, worst: (0, y), failures: 0 };
        for x in 0..width {
            let i = y * width + x;
            let (error, ratio) = judge.judge(oracle.exact[i], oracle.magnitude[i], result[i]);
            found.failures += usize::from(ratio > 1.0);
            found.max_abs_error = found.max_abs_error.max(error);
            if ratio > found.error_over_bound {
                (found.error_over_bound, found.worst) = (ratio, (x, y));
            }
        }
        found
    };
    let worse = |a: Comparison, b: Comparison| {
        let (first, second) = if a.worst.1 <= b.worst.1 { (a, b) } else { (b, a) };
        let worst = if second.error_over_bound > first.error_over_bound { second } else { first };
        let max_abs_error = a.max_abs_error.max(b.max_abs_error);
        Comparison { max_abs_error, failures: a.failures + b.failures, ..worst }
    };
    (0..height).into_par_iter().map(row).reduce_with(worse).unwrap_or_else(|| unreachable!("no image is empty"))
}

/// Two results that should be bit-exact differ.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error(
    "{count} values differ; the first is value {index}: {a:e} ({:#010x}) and {b:e} ({:#010x})",
    .a.to_bits(), .b.to_bits()
)]
pub struct BitDifference {
    /// The first that differs: row * width + column.
    pub index: usize,
    /// It in one result.
    pub a: f32,
    /// It in the other.
    pub b: f32,
    /// How many differ.
    pub count: usize,
}

/// Whether two results are bit-exact. Any NaN equals any other, but not [`POISON`]; -0 is not +0.
///
/// # Errors
/// The first difference, and how many there are.
///
/// # Panics
/// If the lengths differ.
pub fn bit_exact(a: &[f32], b: &[f32]) -> Result<(), BitDifference> {
    assert_eq!(a.len(), b.len(), "lengths of two results");
    let poisoned = |value: f32| value.to_bits() == POISON.to_bits();
    let same =
        |a: f32, b: f32| !poisoned(a) && !poisoned(b) && (a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan());
    let mut different = a.iter().zip(b).enumerate().filter(|&(_, (&a, &b))| !same(a, b));
    match different.next() {
        None => Ok(()),
        Some((index, (&a, &b))) => Err(BitDifference { index, a, b, count: 1 + different.count() }),
    }
}

#[cfg(test)]
mod tests;
