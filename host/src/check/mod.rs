//! Every variant against the oracle: what `host check` and the tests run, on any device.

mod case;
mod cases;
mod cover;

pub use case::{Case, Content};
pub use cases::{SEED, cases};

use std::sync::OnceLock;

use kernels_gpu::registry::Ineligible;

use crate::compare::{self, Comparison, POISON};
use crate::oracle::Oracle;
use crate::resident;
use faltung::plan::VariantChoice;
use faltung::{Accuracy, AnyImage, Device, Error, ErrorBound, Image, Pixel, Problem, Result, for_pixel_type};

/// A method of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuMethod {
    /// Its name, as [`Prepared::variant`](faltung::Prepared::variant) gives it.
    pub name: &'static str,
    /// The strictest accuracy class of its results of `f32`.
    pub accuracy: Accuracy,
    /// One line for people.
    pub summary: &'static str,
}

/// The methods of the CPU. It takes the fastest one that the accuracy class allows.
pub const CPU_METHODS: [CpuMethod; 3] = [
    CpuMethod { name: "direct", accuracy: Accuracy::Exact, summary: "all products in register tiles, as ordered sums" },
    CpuMethod {
        name: "separable",
        accuracy: Accuracy::Bounded,
        summary: "separable masks: rows, then columns; uncertain integers again in order",
    },
    CpuMethod {
        name: "fft",
        accuracy: Accuracy::Bounded,
        summary: "large masks: products of spectra in f64; uncertain results again in order",
    },
];

/// A case with its data, and the two right answers with which that of a variant is compared.
#[derive(Debug)]
pub struct Checker {
    case: Case,
    problem: Problem,
    image: AnyImage,
    /// Computed when an answer is judged first: variants that can't compute the case need none.
    right: OnceLock<Right>,
}

/// The right answers to a case.
#[derive(Debug)]
struct Right {
    /// One for each channel.
    oracles: Vec<Oracle>,
    reference: Image,
}

/// What a variant's answer turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Within the variant's bound of the oracle, and with the bits of the scalar reference if the variant is exact.
    Right(Comparison),
    /// The variant can't compute this case, by its own words.
    NotEligible(Ineligible),
    /// Something else; in words, with the case.
    Wrong(String),
}

impl Checker {
    /// Makes the problem of a case and its image.
    ///
    /// # Errors
    /// Those of [`Case::make`].
    pub fn new(case: Case) -> Result<Self> {
        let (problem, image) = case.make()?;
        Ok(Self { case, problem, image, right: OnceLock::new() })
    }

    /// The right answers.
    fn right(&self) -> &Right {
        self.right.get_or_init(|| {
            let (problem, floats) = (&self.problem, self.image.to_f32());
            let (mut oracles, mut planes) = (Vec::new(), Vec::new());
            for channel in 0..floats.channels() {
                let plane = floats.channel(channel);
                oracles.push(Oracle::new(problem, plane.values()));
                let mut sums = vec![POISON; plane.values().len()];
                faltung::reference(problem, plane.values(), &mut sums);
                let sums = Image::new(problem.width(), problem.height(), 1, sums).expect("the plane has the same size");
                let output = self.case.format.output;
                planes.push(for_pixel_type!(output, T => sums.map(|sum| T::from_f32(sum).to_f32())));
            }
            let reference = Image::from_channels(&planes).expect("the planes have one size");
            Right { oracles, reference }
        })
    }

    /// The case.
    #[must_use]
    pub fn case(&self) -> &Case {
        &self.case
    }

    /// The problem.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The answer of the scalar reference, as `f32`, which holds all types' values.
    #[must_use]
    pub fn reference(&self) -> &[f32] {
        self.right().reference.values()
    }

    /// Runs a variant on a device, with this accuracy asked for, and judges the answer: poisoned first, the whole frame
    /// compared. Integers of a variant that is not bit-exact come through planes, if they can be proven.
    ///
    /// # Errors
    /// [`Error::Driver`] and the like: the device failed. [`Error::Accuracy`] if the variant is not as accurate. A
    /// wrong answer is no error but a [`Verdict`].
    pub fn check(&self, device: &Device, variant: VariantChoice, accuracy: Accuracy) -> Result<Verdict> {
        let problem = self.problem.clone().with_accuracy(accuracy);
        let can = |choice| device.plan(&problem, choice).is_ok();
        let variant = self.case.through_planes(variant, can).unwrap_or(variant);
        let prepared = match device.prepare(&problem, variant) {
            Ok(prepared) => prepared,
            Err(Error::Refused { reason, .. }) => return Ok(Verdict::NotEligible(reason)),
            Err(error) => return Err(error),
        };
        // On the device, where the result is poisoned before.
        let mut resident = resident::any(device, &prepared, &self.image)?;
        resident.execute(1)?;
        let result = resident.download()?;
        Ok(self.judge(prepared.variant(), result.to_f32().values(), prepared.bound()))
    }

    /// Holds an answer of a variant that keeps `bound` against the oracle, and, if it is exact, against the reference,
    /// bit by bit.
    #[must_use]
    pub fn judge(&self, variant: &str, result: &[f32], bound: ErrorBound) -> Verdict {
        let Right { oracles, reference } = self.right();
        let (width, channels) = (self.problem.width(), oracles.len());
        let place = |index: usize| {
            let (pixel, channel) = (index / channels, index % channels);
            format!("column {}, row {}, channel {channel}", pixel % width, pixel / width)
        };
        if bound.class() == Accuracy::Exact
            && let Err(difference) = compare::bit_exact(reference.values(), result)
        {
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
        let mut all: Option<Comparison> = None;
        for (channel, oracle) in oracles.iter().enumerate() {
            let plane: Vec<f32> = result.iter().skip(channel).step_by(channels).copied().collect();
            let found = compare::with_oracle(oracle, &self.problem, &plane, bound);
            if found.failures > 0 {
                return Verdict::Wrong(format!(
                    "{variant}: {}: {} values are further from the oracle than the bound, the worst ({:.2} times) at \
                     column {}, row {}, channel {channel}",
                    self.case, found.failures, found.error_over_bound, found.worst.0, found.worst.1,
                ));
            }
            all = Some(match all {
                Some(all) if all.error_over_bound >= found.error_over_bound => all,
                _ => found,
            });
        }
        all.map_or_else(|| unreachable!("an image has a channel"), Verdict::Right)
    }
}
