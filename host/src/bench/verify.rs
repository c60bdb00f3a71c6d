//! Whether an answer may be timed: the whole frame against the f64 oracle, and bit by bit against the CPU's answer.

use crate::compare::{self, Bound};
use crate::oracle::Oracle;
use crate::{Image, Problem};

/// What a variant's answer is held against; made once for all variants of a cell.
#[derive(Debug)]
pub struct Expected<'a> {
    problem: &'a Problem,
    oracle: Oracle,
    cpu: Option<Vec<f32>>,
}

/// An answer that is right: how far it is from the exact one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The largest distance of a value from the oracle's.
    pub max_abs_error: f64,
    /// The largest distance as a part of what the accuracy contract allows at that pixel; at most 1.
    pub error_over_bound: f64,
    /// Whether all bits are those of the CPU's answer; None if there is none to compare with.
    pub bits_equal_cpu: Option<bool>,
}

/// An answer that is wrong, and so is never timed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Wrong {
    /// A number of values that is not the image's.
    #[error("the answer has {found} values, {required} were required")]
    Length {
        /// Pixels of the image.
        required: usize,
        /// Values of the answer.
        found: usize,
    },
    /// Values off the oracle by more than the contract allows, NaN where a number should be among them.
    #[error(
        "{count} of {pixels} pixels differ from the exact answer by more than the bound allows, the worst, by {ratio:.3e} \
         times the bound, in column {}, row {}: {found:e}", .place.0, .place.1
    )]
    Values {
        /// Pixels that are wrong.
        count: usize,
        /// Pixels of the image.
        pixels: usize,
        /// The worst one's column and row.
        place: (usize, usize),
        /// The worst one's value.
        found: f32,
        /// Its distance from the exact value, as a multiple of the bound.
        ratio: f64,
    },
    /// Bits that differ from the CPU's, though every direct variant promises the same.
    #[error(
        "{count} of {pixels} pixels have other bits than on the CPU, the first in column {}, row {}: {found:e} instead of \
         {required:e}", .place.0, .place.1
    )]
    Bits {
        /// Pixels with other bits.
        count: usize,
        /// Pixels of the image.
        pixels: usize,
        /// The first one's column and row.
        place: (usize, usize),
        /// The CPU's value there.
        required: f32,
        /// The answer's value.
        found: f32,
    },
}

impl<'a> Expected<'a> {
    /// Computes the oracle's answer, in f64, over the whole frame.
    ///
    /// # Panics
    /// If the image has not the problem's size.
    #[must_use]
    pub fn new(problem: &'a Problem, image: &Image) -> Self {
        Self { problem, oracle: Oracle::new(problem, image.values()), cpu: None }
    }

    /// Sets the CPU's answer, once it is known to be right itself.
    pub fn set_cpu(&mut self, answer: Vec<f32>) {
        self.cpu = Some(answer);
    }

    /// Judges an answer. Where nothing was written stands poison, which is within no bound.
    ///
    /// # Errors
    /// What is wrong with it. Bits that differ from the CPU's are wrong, too: so far every variant is a direct one, and those
    /// promise the same bits.
    pub fn verify(&self, answer: &[f32]) -> Result<Verdict, Wrong> {
        let pixels = self.problem.width() * self.problem.height();
        let column_and_row = |index: usize| (index % self.problem.width(), index / self.problem.width());
        if answer.len() != pixels {
            return Err(Wrong::Length { required: pixels, found: answer.len() });
        }
        let comparison = compare::with_oracle(&self.oracle, self.problem, answer, Bound::direct(self.problem));
        if comparison.failures > 0 {
            let place = comparison.worst;
            let found = answer[place.1 * self.problem.width() + place.0];
            let (count, ratio) = (comparison.failures, comparison.error_over_bound);
            return Err(Wrong::Values { count, pixels, place, found, ratio });
        }
        let bits_equal_cpu = match self.cpu.as_deref().map(|cpu| compare::same_bits(cpu, answer)) {
            None => None,
            Some(Ok(())) => Some(true),
            Some(Err(difference)) => {
                let (place, count) = (column_and_row(difference.index), difference.count);
                return Err(Wrong::Bits { count, pixels, place, required: difference.a, found: difference.b });
            }
        };
        let (max_abs_error, error_over_bound) = (comparison.max_abs_error, comparison.error_over_bound);
        Ok(Verdict { max_abs_error, error_over_bound, bits_equal_cpu })
    }
}
