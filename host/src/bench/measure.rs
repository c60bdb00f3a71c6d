//! One variant on one problem: verified, then timed.

use std::time::{Duration, Instant};

use super::stats::Summary;
use super::verify::{Deviation, Expected, Wrong};
use crate::files::each_type;
use crate::resident::{self, AnyResident};
use faltung::{AnyImage, Device, Error, ErrorBound, Image, Pixel, Prepared, Problem, Result, VariantChoice};

/// What can be measured: a problem made ready on a device, or a stand-in for one in a test.
pub trait Executor {
    /// The accuracy class and the error bound that it keeps.
    fn bound(&self) -> ErrorBound;

    /// From host memory to host memory, in one go.
    ///
    /// # Errors
    /// As for [`Prepared::apply_view`].
    fn run(&mut self, source: &AnyImage, result: &mut AnyImage) -> Result<()>;

    /// Makes the source resident, and poisons the resident result.
    ///
    /// # Errors
    /// As for [`Device::upload`].
    fn upload(&mut self, source: &AnyImage) -> Result<()>;

    /// Computes `times` times on resident data, and returns the time of all.
    ///
    /// # Errors
    /// As for [`Prepared::run_into`].
    fn execute(&mut self, times: usize) -> Result<Duration>;

    /// Fetches the resident result.
    ///
    /// # Errors
    /// As for [`faltung::DeviceImage::download`].
    fn download(&mut self, result: &mut AnyImage) -> Result<()>;

    /// Times runs from host memory to host memory, one by one: each is a whole way there and back. The last one's
    /// result is left in `result`.
    ///
    /// # Errors
    /// As for [`run`](Self::run); [`Cause::Clock`].
    fn end_to_end(&mut self, source: &AnyImage, result: &mut AnyImage, sampling: Sampling) -> Result<Measured, Cause> {
        sample_alone(sampling, || self.run(source, result))
    }
}

/// A problem made ready on a device.
pub struct OnDevice<'device> {
    device: &'device Device,
    prepared: Prepared,
    resident: Option<Box<dyn AnyResident>>,
    /// Whether [`end_to_end`](Executor::end_to_end) is from and to page-locked memory.
    page_locked: bool,
}

impl<'device> OnDevice<'device> {
    /// Makes a problem ready.
    ///
    /// # Errors
    /// As for [`Device::prepare`].
    pub fn new(device: &'device Device, problem: &Problem, choice: VariantChoice) -> Result<Self> {
        Ok(Self { device, prepared: device.prepare(problem, choice)?, resident: None, page_locked: false })
    }

    /// The same, from and to page-locked memory.
    pub(super) fn page_locked(self) -> Self {
        Self { page_locked: true, ..self }
    }

    /// What computes.
    pub(super) fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    fn timed<T: Pixel, U: Pixel>(
        &self,
        source: &Image<T>,
        result: &mut Image<U>,
        sampling: Sampling,
    ) -> Result<Measured, Cause> {
        let mut from = self.device.page_locked::<T>(source.values().len())?;
        let mut to = self.device.page_locked::<U>(result.values().len())?;
        from.copy_from_slice(source.values());
        to.copy_from_slice(result.values());
        let measured = sample_alone(sampling, || self.prepared.apply_values(&from, &mut to));
        result.values_mut().copy_from_slice(&to);
        measured
    }

    fn resident(&mut self) -> &mut dyn AnyResident {
        self.resident.as_deref_mut().expect("an image is uploaded before it is computed")
    }
}

impl Executor for OnDevice<'_> {
    fn bound(&self) -> ErrorBound {
        self.prepared.bound()
    }

    fn run(&mut self, source: &AnyImage, result: &mut AnyImage) -> Result<()> {
        let prepared = &self.prepared;
        each_type!(source, source => each_type!(result, result => prepared.apply_view(source.view(), result.view_mut())))
    }

    fn upload(&mut self, source: &AnyImage) -> Result<()> {
        self.resident = None;
        self.resident = Some(resident::any(self.device, &self.prepared, source)?);
        Ok(())
    }

    fn execute(&mut self, times: usize) -> Result<Duration> {
        self.resident().execute(times)
    }

    fn download(&mut self, result: &mut AnyImage) -> Result<()> {
        *result = self.resident().download()?;
        Ok(())
    }

    fn end_to_end(&mut self, source: &AnyImage, result: &mut AnyImage, sampling: Sampling) -> Result<Measured, Cause> {
        if !self.page_locked {
            return sample_alone(sampling, || self.run(source, result));
        }
        each_type!(source, source => each_type!(result, result => self.timed(source, result, sampling)))
    }
}

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Before the first batch that counts, batches go on for this long: a device that has idled clocks lower.
    pub warm_up: Duration,
    /// Runs are grouped in batches that take at least this long, so that the clock's steps and a launch's cost vanish.
    pub batch: Duration,
    /// Batches go on until this has passed.
    pub min_time: Duration,
}

/// The fewest batches of a measurement, unless they take very long.
const BATCHES: usize = 7;
/// The fewest batches of a measurement that takes very long.
const BATCHES_IF_SLOW: usize = 3;
/// What "very long" is.
const SLOW: Duration = Duration::from_secs(4);
/// The most batches: more change the median no more.
const MOST_BATCHES: usize = 2000;
/// The most runs of a batch, whatever the clock says.
const MOST_RUNS: usize = 10_000;

/// A measured time per run, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Over the batches.
    pub us: Summary,
    /// Runs of each batch.
    pub runs: usize,
}

/// All times that are measured of a variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// On resident data.
    pub kernel: Measured,
    /// From host memory to host memory.
    pub end_to_end: Measured,
    /// From the decision to compute to the first result, in microseconds.
    pub first_call_us: f64,
}

/// Why a variant was not timed.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// Its answer is wrong.
    #[error("wrong answer: {0}")]
    Wrong(#[from] Wrong),
    /// It did not run.
    #[error(transparent)]
    Failed(#[from] Error),
    /// A clock that stands still or runs backwards.
    #[error("the clock gave no usable times")]
    Clock,
}

/// Verifies a variant and times it.
///
/// `open` makes it ready; the first call is timed from there. `result` is left holding the answer. Four answers are
/// verified, each over the whole frame: the first call's; one on resident data, where [`Executor::upload`] has poisoned
/// what was there before; and those that the last timed runs have left, on resident data and from end to end.
///
/// # Errors
/// [`Cause::Wrong`] before anything is timed, or after it if the answer did not stay right; else what failed.
pub fn measure<E: Executor>(
    open: impl FnOnce() -> Result<E>,
    source: &AnyImage,
    result: &mut AnyImage,
    expected: &Expected<'_>,
    sampling: Sampling,
) -> Result<(Deviation, Times), Cause> {
    poison(result);
    let start = Instant::now();
    let mut executor = open()?;
    executor.run(source, result)?;
    let first_call = start.elapsed();
    expected.verify(result, executor.bound())?;

    executor.upload(source)?;
    executor.execute(1)?;
    poison(result);
    executor.download(result)?;
    let deviation = expected.verify(result, executor.bound())?;

    let kernel = sample(sampling, |runs| executor.execute(runs))?;
    poison(result);
    executor.download(result)?;
    expected.verify(result, executor.bound())?;

    poison(result);
    let end_to_end = executor.end_to_end(source, result, sampling)?;
    expected.verify(result, executor.bound())?;
    Ok((deviation, Times { kernel, end_to_end, first_call_us: first_call.as_secs_f64() * 1e6 }))
}

/// Verifies a variant only, for a device whose times mean nothing.
///
/// # Errors
/// As for [`measure`].
pub fn verify<E: Executor>(
    open: impl FnOnce() -> Result<E>,
    source: &AnyImage,
    result: &mut AnyImage,
    expected: &Expected<'_>,
) -> Result<Deviation, Cause> {
    poison(result);
    let mut executor = open()?;
    executor.run(source, result)?;
    Ok(expected.verify(result, executor.bound())?)
}

/// Fills a result, so that what nothing writes is seen: with [`POISON`], or with a value that is the right one for few
/// outputs where the type has no NaN.
pub(crate) fn poison(result: &mut AnyImage) {
    each_type!(result, image => resident::poison(image.values_mut()));
}

/// Times `run` one by one.
fn sample_alone(sampling: Sampling, mut run: impl FnMut() -> Result<()>) -> Result<Measured, Cause> {
    sample(Sampling { warm_up: Duration::ZERO, batch: Duration::ZERO, ..sampling }, |runs| {
        let start = Instant::now();
        for _ in 0..runs {
            run()?;
        }
        Ok(start.elapsed())
    })
}

/// Times `run`, which gets a number of runs and returns the time of all.
///
/// Finds the size of a batch first, which also warms up caches, clocks and threads; then takes batches.
fn sample(sampling: Sampling, mut run: impl FnMut(usize) -> Result<Duration>) -> Result<Measured, Cause> {
    let (mut runs, start) = (1, Instant::now());
    loop {
        let time = run(runs)?;
        if time >= sampling.batch || runs == MOST_RUNS {
            if start.elapsed() >= sampling.warm_up {
                break;
            }
            continue;
        }
        // A fifth more than needed by this estimate. The first runs are slow, so grow at most eightfold at a time.
        let wanted = 1.2 * runs as f64 * sampling.batch.as_secs_f64() / time.as_secs_f64().max(1e-9);
        runs = (wanted.ceil() as usize).clamp(2 * runs, 8 * runs).min(MOST_RUNS);
    }
    let start = Instant::now();
    let mut samples = Vec::new();
    while samples.len() < MOST_BATCHES {
        samples.push(run(runs)?.as_secs_f64() / runs as f64 * 1e6);
        let (count, spent) = (samples.len(), start.elapsed());
        let enough = count >= BATCHES && spent >= sampling.min_time;
        let slow = count >= BATCHES_IF_SLOW && spent >= SLOW.max(sampling.min_time);
        if enough || slow {
            break;
        }
    }
    let us = Summary::of(&samples).filter(|summary| summary.median > 0.0).ok_or(Cause::Clock)?;
    Ok(Measured { us, runs })
}

#[cfg(test)]
mod tests;
