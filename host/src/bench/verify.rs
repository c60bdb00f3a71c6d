//! Verifies a result before it is timed: the whole frame against the f64 oracle, and bit by bit against the CPU's exact
//! result.

use crate::compare;
use crate::oracle::Oracle;
use faltung::{Accuracy, AnyImage, ErrorBound, Image, PixelType, Problem};

/// The expected result, computed once for all variants of a cell.
#[derive(Debug)]
pub struct Expected<'a> {
    problem: &'a Problem,
    /// One for each channel.
    oracles: Vec<Oracle>,
    /// The result of the CPU's exact method.
    exact: Option<Image>,
}

/// How far a right result is from the exact one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deviation {
    /// The largest absolute error.
    pub max_abs_error: f64,
    /// The largest error as a part of the bound at its pixel; at most 1.
    pub error_over_bound: f64,
    /// The bound, with its accuracy class.
    pub bound: ErrorBound,
    /// Whether the result is bit-exact with that of the CPU's exact method; None without such a result.
    pub bits_equal_cpu: Option<bool>,
}

/// Why a result is wrong. A wrong result is never timed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Wrong {
    /// The result has more or fewer values than the image.
    #[error("the answer has {found} values, {required} were required")]
    Length {
        /// Values of the image.
        required: usize,
        /// Values of the answer.
        found: usize,
    },
    /// Values exceed the error bound. NaN in the place of a number does, too.
    #[error(
        "{count} of {values} values differ from the exact answer by more than the bound allows, the worst, \
         by {ratio:.3e} \
         times the bound, in column {}, row {}, channel {}: {found:e}", .place.0, .place.1, .place.2
    )]
    Values {
        /// Values that are wrong.
        count: usize,
        /// Values of the image.
        values: usize,
        /// The worst one's column, row and channel.
        place: (usize, usize, usize),
        /// The worst one's value.
        found: f32,
        /// Its distance from the exact value, as a multiple of the bound.
        ratio: f64,
    },
    /// An exact variant, or a result of integers, is not bit-exact with the CPU's exact result.
    #[error(
        "{count} of {values} values are not bit-exact with the CPU's, the first in column {}, row {}, channel {}: \
         {found:e} instead of \
         {required:e}", .place.0, .place.1, .place.2
    )]
    Bits {
        /// Values that are not bit-exact.
        count: usize,
        /// Values of the image.
        values: usize,
        /// The first one's column, row and channel.
        place: (usize, usize, usize),
        /// The CPU's value there.
        required: f32,
        /// The answer's value.
        found: f32,
    },
}

impl<'a> Expected<'a> {
    /// Computes the oracle's result for each channel, in f64, over the whole frame.
    ///
    /// # Panics
    /// If the image has not the problem's size.
    #[must_use]
    pub fn new(problem: &'a Problem, image: &AnyImage) -> Self {
        let image = image.to_f32();
        let oracle = |channel| Oracle::new(problem, image.channel(channel).values());
        Self { problem, oracles: (0..image.channels()).map(oracle).collect(), exact: None }
    }

    /// Sets the result of the CPU's exact method, which must be verified.
    pub fn set_exact(&mut self, answer: &AnyImage) {
        self.exact = Some(answer.to_f32());
    }

    /// Verifies the result of a variant with this bound. Poison, which marks unwritten values, exceeds any bound.
    ///
    /// # Errors
    /// [`Wrong`]. An exact variant that is not bit-exact with the CPU's exact result is wrong, too. So is a result of
    /// integers from a variant of any class, unless the class Normwise was asked for.
    pub fn verify(&self, answer: &AnyImage, bound: ErrorBound) -> Result<Deviation, Wrong> {
        let (values, channels, width) = (self.problem.values(), self.oracles.len(), self.problem.width());
        let answer = answer.to_f32();
        if answer.values().len() != values {
            return Err(Wrong::Length { required: values, found: answer.values().len() });
        }
        let (mut max_abs_error, mut error_over_bound) = (0.0_f64, 0.0_f64);
        for (channel, oracle) in self.oracles.iter().enumerate() {
            let plane = answer.channel(channel);
            let comparison = compare::with_oracle(oracle, self.problem, plane.values(), bound);
            if comparison.failures > 0 {
                let (x, y) = comparison.worst;
                let (count, ratio, found) = (comparison.failures, comparison.error_over_bound, plane.row(y)[x]);
                return Err(Wrong::Values { count, values, place: (x, y, channel), found, ratio });
            }
            max_abs_error = max_abs_error.max(comparison.max_abs_error);
            error_over_bound = error_over_bound.max(comparison.error_over_bound);
        }
        let is_integer = self.problem.format().output != PixelType::F32;
        let needs_exact_bits =
            bound.class() == Accuracy::Exact || is_integer && self.problem.accuracy() != Accuracy::Normwise;
        let bits_equal_cpu = match &self.exact {
            None => None,
            Some(exact) => match compare::bit_exact(exact.values(), answer.values()) {
                Ok(()) => Some(true),
                Err(_) if !needs_exact_bits => Some(false),
                Err(difference) => {
                    let pixel = difference.index / channels;
                    let place = (pixel % width, pixel / width, difference.index % channels);
                    let (count, required, found) = (difference.count, difference.a, difference.b);
                    return Err(Wrong::Bits { count, values, place, required, found });
                }
            },
        };
        Ok(Deviation { max_abs_error, error_over_bound, bound, bits_equal_cpu })
    }
}
