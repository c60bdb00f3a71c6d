//! When is a result right? All tolerances of the project are here.
//!
//! - Direct variants have the same bits as the CPU: [`same_bits`].
//! - Any variant, whatever its order of summation, is within its [`ErrorBound`] of the [`Oracle`]: [`with_oracle`].
//!
//! Tests and benches fill a result with [`POISON`] before it is computed: an output that nobody wrote fails both.

use rayon::prelude::*;
use thiserror::Error;

use crate::oracle::Oracle;
use faltung::{ErrorBound, PixelType, Problem};

pub use faltung::POISON;

/// The unit roundoff of `f32`: a result of one operation is off by at most this part of itself.
const U: f64 = 1.0 / (1 << 24) as f64;
/// Half of the smallest subnormal number: what one operation is off by at most where numbers have no more digits.
const UNDERFLOW: f64 = f64::from_bits((1023 - 150) << 52);
/// From this magnitude on a rounded value is infinite: half a step above `f32::MAX`.
const OVERFLOW: f64 = f32::MAX as f64 * (1.0 + U / 2.0);

/// What a bound says of one result.
trait Judge {
    /// By how much a finite result may miss `exact`.
    fn tolerance(self, problem: &Problem, exact: f64, magnitude: f64) -> f64;
    /// Whether a partial sum or the result may exceed the range of `f32`.
    fn may_overflow(self, problem: &Problem, magnitude: f64) -> bool;
    /// The error of `result`, and in units of the tolerance, where above 1 is wrong.
    fn judge(self, problem: &Problem, exact: f64, magnitude: f64, result: f32) -> (f64, f64);
}

impl Judge for ErrorBound {
    fn tolerance(self, problem: &Problem, exact: f64, magnitude: f64) -> f64 {
        let taps = problem.window().width() as f64 * problem.window().height() as f64;
        let scale = f64::from(problem.scale_and_offset().0).abs();
        let oracle = taps * 2.0_f64.powi(-52);
        // 0 * infinity: an infinite gamma allows nothing where there is nothing to round.
        let gamma = if magnitude == 0.0 { 0.0 } else { (self.gamma() + oracle) * magnitude };
        let sum = scale * (gamma + self.underflows().max(taps) * UNDERFLOW);
        if problem.is_plain() { sum } else { sum + (U + 2.0_f64.powi(-51)) * (exact.abs() + sum) + UNDERFLOW }
    }

    fn may_overflow(self, problem: &Problem, magnitude: f64) -> bool {
        let (scale, offset) = problem.scale_and_offset();
        let sums = magnitude * (1.0 + self.gamma());
        let result = f64::from(scale).abs() * sums + f64::from(offset).abs();
        sums >= OVERFLOW || result >= OVERFLOW
    }

    fn judge(self, problem: &Problem, exact: f64, magnitude: f64, result: f32) -> (f64, f64) {
        let value = f64::from(result);
        if let Some(most) = largest(problem.format().output) {
            // NaN becomes 0. Infinities that may come of an overflow saturate at either end.
            let exact_here = if exact.is_nan() { 0.0 } else { exact.clamp(0.0, most) };
            if exact.is_finite() && self.may_overflow(problem, magnitude) {
                return (0.0, 0.0);
            }
            // Saturated as the exact one is, an error only shrinks; rounding adds a half at most.
            let sum_error = if exact.is_finite() { self.tolerance(problem, exact, magnitude) } else { 0.0 };
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
            return if self.may_overflow(problem, magnitude) { right } else { wrong };
        }
        within((value - exact).abs(), self.tolerance(problem, exact, magnitude))
    }
}

/// The error, and in units of the tolerance.
fn within(error: f64, tolerance: f64) -> (f64, f64) {
    // Asked this way round, and not whether the error is greater, because NaN has to fail.
    if error <= tolerance {
        (error, if error == 0.0 { 0.0 } else { error / tolerance })
    } else {
        // At least a step above 1, whatever the division rounds to.
        (error, (error / tolerance).max(1.0 + f64::EPSILON))
    }
}

/// The largest value of an integer type.
fn largest(kind: PixelType) -> Option<f64> {
    match kind {
        PixelType::U8 => Some(255.0),
        PixelType::U16 => Some(65_535.0),
        PixelType::F32 => None,
    }
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
    let row = |y: usize| {
        let mut found = Comparison { max_abs_error: 0.0, error_over_bound: 0.0, worst: (0, y), failures: 0 };
        for x in 0..width {
            let i = y * width + x;
            let (error, ratio) = bound.judge(problem, oracle.exact[i], oracle.magnitude[i], result[i]);
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

/// Two results that should have the same bits differ.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error("{count} values differ; the first is value {index}: {a:e} ({:#010x}) and {b:e} ({:#010x})", .a.to_bits(), .b.to_bits())]
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

/// Whether two results have the same bits. Any NaN equals any other, but not [`POISON`]; -0 is not +0.
///
/// # Errors
/// The first difference, and how many there are.
///
/// # Panics
/// If the lengths differ.
pub fn same_bits(a: &[f32], b: &[f32]) -> Result<(), BitDifference> {
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
mod tests {
    use super::*;

    use faltung::{Border, Filter, Mask, Operation, PixelFormat};

    /// Right by a half and wrong by more, at the ends of the range, and for what is no number.
    #[test]
    fn integers_are_rounded_and_saturated() {
        let filter = Filter::new(Mask::new(1, 1, vec![1.0]).unwrap());
        let format = PixelFormat { channels: 1, input: PixelType::F32, output: PixelType::U8 };
        let problem = Problem::new(1, 1, &filter).unwrap().with_format(format).unwrap();
        let bound = ErrorBound::direct(&problem);
        let right = |exact: f64, result: f32| bound.judge(&problem, exact, exact.abs(), result).1 <= 1.0;
        for (exact, result) in [(2.5, 2.0), (2.5, 3.0), (254.6, 255.0), (300.0, 255.0), (-7.0, 0.0), (f64::NAN, 0.0)] {
            assert!(right(exact, result), "{exact} as {result}");
        }
        for (exact, result) in
            [(2.4, 3.0), (2.6, 2.0), (300.0, 254.0), (-7.0, 1.0), (f64::NAN, 1.0), (f64::INFINITY, 254.0)]
        {
            assert!(!right(exact, result), "{exact} as {result}");
        }
    }

    const WIDTH: usize = 37;
    const HEIGHT: usize = 23;

    /// An asymmetric filter on an image without symmetry, its oracle and its right result.
    fn right(filter: impl Fn(Filter) -> Filter) -> (Problem, Oracle, Vec<f32>) {
        let mask = Mask::new(4, 3, (0..12).map(|i| ((i * 7 + 3) % 11) as f32 / 7.0 - 0.6).collect()).unwrap();
        let problem = Problem::new(WIDTH, HEIGHT, &filter(Filter::new(mask).border(Border::Mirror))).unwrap();
        let source: Vec<f32> = (0..WIDTH * HEIGHT).map(|i| ((i * 7919 + i * i) % 1009) as f32 / 100.0 - 3.0).collect();
        let mut result = vec![POISON; source.len()];
        faltung::reference(&problem, &source, &mut result);
        (problem.clone(), Oracle::new(&problem, &source), result)
    }

    fn compare(problem: &Problem, oracle: &Oracle, result: &[f32]) -> Comparison {
        with_oracle(oracle, problem, result, ErrorBound::direct(problem))
    }

    #[test]
    fn the_right_result_passes() {
        for (scale, offset) in [(1.0, 0.0), (0.3, 0.0), (-7.0, 128.0), (0.0, 5.0), (1e-42, 0.0)] {
            let (problem, oracle, result) = right(|filter| filter.scale(scale).offset(offset));
            let found = compare(&problem, &oracle, &result);
            assert!(found.passes() && found.error_over_bound <= 1.0, "{scale} {offset} {found:?}");
            assert_eq!(same_bits(&result, &result.clone()), Ok(()));
        }
        let (problem, oracle, result) = right(|filter| filter);
        let found = compare(&problem, &oracle, &result);
        assert!(found.error_over_bound > 0.01, "a bound that loose says nothing: {found:?}");
    }

    /// Every value in another place: rows and columns swapped, or all moved by one.
    #[test]
    fn moved_results_fail() {
        let (problem, oracle, result) = right(|filter| filter);
        let transposed: Vec<f32> = (0..result.len()).map(|i| result[i % HEIGHT * WIDTH + i / HEIGHT]).collect();
        let mut shifted = [result.clone(), result.clone(), result.clone()];
        shifted[0].rotate_right(1);
        shifted[1].rotate_left(1);
        shifted[2].rotate_right(WIDTH);
        for wrong in shifted.iter().chain([&transposed]) {
            let found = compare(&problem, &oracle, wrong);
            assert!(found.failures > result.len() / 2, "{found:?}");
            assert!(same_bits(&result, wrong).is_err());
        }
    }

    /// One pixel, anywhere, by the least that is too much.
    #[test]
    fn one_pixel_beyond_the_bound_fails() {
        for (scale, offset) in [(1.0, 0.0), (0.3, 2.0)] {
            let (problem, oracle, result) = right(|filter| filter.scale(scale).offset(offset));
            let bound = ErrorBound::direct(&problem);
            for i in [0, 1, WIDTH - 1, WIDTH, result.len() / 2, result.len() - 1] {
                let exact = oracle.exact[i];
                let tolerance = bound.tolerance(&problem, exact, oracle.magnitude[i]);
                for sign in [-1.0, 1.0] {
                    // The last value within the bound and the first beyond it.
                    let mut inside = (exact + sign * tolerance) as f32;
                    while (f64::from(inside) - exact).abs() > tolerance {
                        inside = if sign > 0.0 { inside.next_down() } else { inside.next_up() };
                    }
                    let mut beyond = inside;
                    while (f64::from(beyond) - exact).abs() <= tolerance {
                        beyond = if sign > 0.0 { beyond.next_up() } else { beyond.next_down() };
                    }
                    let mut changed = result.clone();
                    changed[i] = inside;
                    assert!(compare(&problem, &oracle, &changed).passes(), "{i} {inside}");
                    changed[i] = beyond;
                    let found = compare(&problem, &oracle, &changed);
                    assert_eq!((found.failures, found.worst), (1, (i % WIDTH, i / WIDTH)), "{beyond}");
                    assert!(found.error_over_bound > 1.0);
                }
            }
        }
    }

    /// Beside an exact 0 the values of `f32` lie so dense that the bound is felt to 7 digits.
    #[test]
    fn the_bound_is_sharp() {
        let (problem, mut oracle, mut result) = right(|filter| filter);
        let tolerance = ErrorBound::direct(&problem).tolerance(&problem, 0.0, 1.0);
        for (value, failures) in [(tolerance * 0.999_999_8, 0), (tolerance * 1.000_000_2, 1)] {
            (oracle.exact[7], oracle.magnitude[7], result[7]) = (0.0, 1.0, -value as f32);
            assert_eq!(compare(&problem, &oracle, &result).failures, failures);
        }
    }

    #[test]
    fn one_bit_is_a_difference() {
        let (_, _, result) = right(|filter| filter);
        for i in [0, result.len() - 1] {
            for bit in [0, 31] {
                let mut changed = result.clone();
                changed[i] = f32::from_bits(changed[i].to_bits() ^ 1 << bit);
                let found = same_bits(&result, &changed).unwrap_err();
                assert_eq!((found.index, found.count, found.b), (i, 1, changed[i]));
            }
        }
        let zeros = same_bits(&[1.0, 0.0, 0.0], &[1.0, -0.0, -0.0]).unwrap_err();
        assert_eq!((zeros.index, zeros.count), (1, 2));
        assert!(zeros.to_string().starts_with("2 values differ; the first is value 1"), "{zeros}");
    }

    #[test]
    fn nan_infinity_and_unwritten_outputs_fail() {
        let (problem, oracle, result) = right(|filter| filter);
        for value in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, POISON] {
            let mut wrong = result.clone();
            wrong[WIDTH + 5] = value;
            let found = compare(&problem, &oracle, &wrong);
            assert_eq!((found.failures, found.worst, found.error_over_bound), (1, (5, 1), f64::INFINITY));
            assert_eq!(same_bits(&result, &wrong).unwrap_err().index, WIDTH + 5);
        }
        let found = compare(&problem, &oracle, &vec![POISON; result.len()]);
        assert_eq!((found.failures, found.worst), (result.len(), (0, 0)));
    }

    #[test]
    fn nan_and_infinity_have_to_be_met() {
        let (problem, mut oracle, mut result) = right(|filter| filter);
        let mut judge = |exact: f64, value: f32| {
            (oracle.exact[7], oracle.magnitude[7], result[7]) = (exact, f64::INFINITY, value);
            compare(&problem, &oracle, &result).passes()
        };
        assert!(judge(f64::NAN, f32::NAN) && judge(f64::NAN, -f32::NAN));
        assert!(!judge(f64::NAN, 1.0) && !judge(f64::NAN, f32::INFINITY) && !judge(f64::NAN, POISON));
        assert!(judge(f64::INFINITY, f32::INFINITY) && judge(f64::NEG_INFINITY, f32::NEG_INFINITY));
        assert!(!judge(f64::INFINITY, f32::NEG_INFINITY) && !judge(f64::INFINITY, f32::MAX));
        assert!(!judge(f64::INFINITY, f32::NAN));
        assert_eq!(same_bits(&[f32::NAN, POISON], &[-f32::NAN, POISON]).unwrap_err().index, 1);
    }

    /// Sums that pass `f32::MAX` on the way, and those that don't.
    #[test]
    fn overflow_is_allowed_where_it_can_happen() {
        let (problem, mut oracle, mut result) = right(|filter| filter);
        let max = f64::from(f32::MAX);
        let mut judge = |exact: f64, magnitude: f64, value: f32| {
            (oracle.exact[7], oracle.magnitude[7], result[7]) = (exact, magnitude, value);
            compare(&problem, &oracle, &result).passes()
        };
        assert!(judge(2.0 * max, 2.0 * max, f32::INFINITY) && judge(1.0, 2.0 * max, f32::NAN));
        assert!(!judge(2.0 * max, 2.0 * max, f32::MAX) && !judge(0.9 * max, 0.9 * max, f32::INFINITY));
        assert!(judge(0.9 * max, 0.9 * max, 0.9 * f32::MAX));
    }

    /// Numbers so small that they have no digits left to lose.
    #[test]
    fn subnormal_sums_pass() {
        let mask = Mask::new(3, 3, vec![0.1; 9]).unwrap();
        let problem = Problem::new(5, 5, &Filter::new(mask)).unwrap();
        let source: Vec<f32> = (0..25).map(|i| f32::from_bits(i * 37 % 29)).collect();
        let mut result = vec![POISON; 25];
        faltung::reference(&problem, &source, &mut result);
        let found = compare(&problem, &Oracle::new(&problem, &source), &result);
        assert!(found.passes(), "{found:?}");
        assert!(found.max_abs_error > 0.0);
    }

    #[test]
    fn gamma_grows_and_ends() {
        assert_eq!(ErrorBound::with_constant(0.0).gamma(), 0.0);
        assert!(ErrorBound::with_constant(9.0).gamma() > 9.0 * U);
        assert_eq!(ErrorBound::with_constant(16_777_216.0).gamma(), f64::INFINITY);
        // No looser than it says: 12 coefficients, a sum of magnitudes of 3.
        let (problem, ..) = right(|filter| filter);
        let tolerance = ErrorBound::direct(&problem).tolerance(&problem, 1.0, 3.0) / U;
        assert!(tolerance > 36.0 && tolerance < 36.000_1, "{tolerance}");
        let (problem, ..) = right(|filter| filter.scale(-2.0).offset(1.0));
        let tolerance = ErrorBound::direct(&problem).tolerance(&problem, 1.0, 3.0) / U;
        assert!(tolerance > 73.0 && tolerance < 73.000_1, "{tolerance}");
    }

    /// The reference, with which all backends agree bit by bit, is within the bound of the independent oracle.
    #[test]
    fn the_reference_is_right() {
        let mut random = fastrand::Rng::with_seed(13);
        let borders =
            [Border::ZERO, Border::Constant(-2.5), Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap];
        for (width, height, mask_width, mask_height) in [(1, 1, 3, 3), (40, 23, 4, 3), (23, 40, 7, 7), (9, 5, 20, 31)] {
            for (border, operation) in
                borders.iter().flat_map(|border| [Operation::Convolve, Operation::Correlate].map(|one| (*border, one)))
            {
                let mut numbers = |count: usize| (0..count).map(|_| random.f32() - 0.4).collect::<Vec<_>>();
                let mask = Mask::new(mask_width, mask_height, numbers(mask_width * mask_height)).unwrap();
                let filter = Filter::new(mask).border(border).operation(operation).scale(0.7);
                let filter = filter.anchor(mask_height / 3, mask_width - 1);
                let problem = Problem::new(width, height, &filter).unwrap();
                let source = numbers(width * height);
                let mut result = vec![POISON; source.len()];
                faltung::reference(&problem, &source, &mut result);
                let found = compare(&problem, &Oracle::new(&problem, &source), &result);
                assert!(
                    found.passes(),
                    "{width} x {height}, {mask_width} x {mask_height}, {border}, {operation:?}: {found:?}"
                );
            }
        }
    }
}
