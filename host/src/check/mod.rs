//! Every variant against the oracle: what `host check` and the tests run, on any device.

mod cases;

pub use cases::{Case, Content, SEED, cases};

use kernels_gpu::entries::Refusal;

use crate::backend::cpu;
use crate::compare::{self, Bound, Comparison, POISON};
use crate::oracle::Oracle;
use crate::plan::VariantChoice;
use crate::{Device, Error, Image, Problem, Result};

/// A case with its data and the two answers that any variant's is held against.
#[derive(Debug)]
pub struct Checker {
    case: Case,
    problem: Problem,
    image: Image,
    oracle: Oracle,
    reference: Vec<f32>,
}

/// What a variant's answer turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The bits of the scalar reference, and within the bound of the oracle.
    Right(Comparison),
    /// The variant can't compute this case, by its own words.
    NotEligible(Refusal),
    /// Something else; in words, with the case.
    Wrong(String),
}

impl Checker {
    /// Computes the reference and the oracle of a case.
    ///
    /// # Errors
    /// Those of [`Case::make`].
    pub fn new(case: Case) -> Result<Self> {
        let (problem, image) = case.make()?;
        let oracle = Oracle::new(&problem, image.values());
        let mut reference = vec![POISON; image.values().len()];
        cpu::reference(&problem, image.values(), &mut reference);
        Ok(Self { case, problem, image, oracle, reference })
    }

    /// The case.
    #[must_use]
    pub fn case(&self) -> &Case {
        &self.case
    }

    /// The answer of the scalar reference.
    #[must_use]
    pub fn reference(&self) -> &[f32] {
        &self.reference
    }

    /// Runs a variant on a device and judges the answer: poisoned first, the whole frame compared.
    ///
    /// # Errors
    /// [`Error::Driver`] and the like: the device failed. A wrong answer is no error but a [`Verdict`].
    pub fn check(&self, device: &Device, variant: VariantChoice) -> Result<Verdict> {
        let mut convolution = match device.convolution(&self.problem, variant) {
            Ok(convolution) => convolution,
            Err(Error::Refused { reason, .. }) => return Ok(Verdict::NotEligible(reason)),
            Err(error) => return Err(error),
        };
        let mut result = vec![POISON; self.image.values().len()];
        // Step by step, because `upload` poisons the device's result, too.
        convolution.upload(self.image.values())?;
        convolution.execute(1)?;
        convolution.download(&mut result)?;
        Ok(self.judge(convolution.variant(), &result))
    }

    /// Holds an answer against the reference, bit by bit, and against the oracle.
    #[must_use]
    pub fn judge(&self, variant: &str, result: &[f32]) -> Verdict {
        let place =
            |index: usize| format!("column {}, row {}", index % self.problem.width(), index / self.problem.width());
        if let Err(difference) = compare::same_bits(&self.reference, result) {
            return Verdict::Wrong(format!(
                "{variant}: {}: {} of {} values differ from the scalar reference, first at {}: {:e} instead of {:e}",
                self.case,
                difference.count,
                result.len(),
                place(difference.index),
                difference.b,
                difference.a,
            ));
        }
        let comparison = compare::with_oracle(&self.oracle, &self.problem, result, Bound::direct(&self.problem));
        if comparison.failures > 0 {
            return Verdict::Wrong(format!(
                "{variant}: {}: {} values are further from the oracle than the bound, the worst ({:.2} times) at column {}, row {}",
                self.case, comparison.failures, comparison.error_over_bound, comparison.worst.0, comparison.worst.1,
            ));
        }
        Verdict::Right(comparison)
    }
}
