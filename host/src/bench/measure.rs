//! One variant on one problem: verified, then timed.

use std::time::{Duration, Instant};

use super::cache::Evictor;
use super::clocks::{Clocks, Reading, Sensor};
use super::drift::Drift;
use super::stats::Summary;
use super::verify::{Deviation, Expected, Wrong};
use crate::resident::{self, AnyResident};
use faltung::{AnyImage, Device, Error, ErrorBound, Image, Pixel, Prepared, Problem, Result, VariantChoice, each_type};

/// What can be measured: a problem that is prepared on a device, or a mock in a test.
pub trait Executor {
    /// The accuracy class and the error bound of the results.
    fn bound(&self) -> ErrorBound;

    /// Computes from host memory to host memory, and waits.
    ///
    /// # Errors
    /// As for [`Prepared::apply_view`].
    fn run(&mut self, source: &AnyImage, result: &mut AnyImage) -> Result<()>;

    /// Uploads the source, and poisons the result on the device.
    ///
    /// # Errors
    /// As for [`Device::upload`].
    fn upload(&mut self, source: &AnyImage) -> Result<()>;

    /// Computes `times` times on the device's data, and returns the time of all.
    ///
    /// # Errors
    /// As for [`Prepared::run_into`].
    fn execute(&mut self, times: usize) -> Result<Duration>;

    /// Downloads the result.
    ///
    /// # Errors
    /// As for [`faltung::DeviceImage::download`].
    fn download(&mut self, result: &mut AnyImage) -> Result<()>;

    /// Times single runs from host memory to host memory: upload, kernel and download. `result` keeps the last result.
    ///
    /// # Errors
    /// As for [`run`](Self::run); [`Cause::Clock`].
    fn end_to_end(&mut self, source: &AnyImage, result: &mut AnyImage, sampling: Sampling) -> Result<Measured, Cause> {
        sample_alone(sampling, || Ok(()), || self.run(source, result))
    }
}

/// A problem that is prepared on a device.
pub struct OnDevice<'device> {
    device: &'device Device,
    prepared: Prepared,
    resident: Option<Box<dyn AnyResident>>,
    /// Whether [`end_to_end`](Executor::end_to_end) uses page-locked memory.
    page_locked: bool,
    /// Whether the caches are evicted before each timed run.
    cold: bool,
    /// None before the upload, and with warm caches.
    evictor: Option<Evictor>,
}

impl<'device> OnDevice<'device> {
    /// Prepares a problem.
    ///
    /// # Errors
    /// As for [`Device::prepare`].
    pub fn new(device: &'device Device, problem: &Problem, choice: VariantChoice) -> Result<Self> {
        let prepared = device.prepare(problem, choice)?;
        Ok(Self { device, prepared, resident: None, page_locked: false, cold: false, evictor: None })
    }

    /// The same, with page-locked memory or without.
    pub(super) fn page_locked(self, page_locked: bool) -> Self {
        Self { page_locked, ..self }
    }

    /// The same, with cold caches or warm ones.
    pub(super) fn cold(self, cold: bool) -> Self {
        Self { cold, ..self }
    }

    /// The plan with its kernels.
    pub(super) fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    fn timed<T: Pixel, U: Pixel>(
        &mut self,
        source: &Image<T>,
        result: &mut Image<U>,
        sampling: Sampling,
    ) -> Result<Measured, Cause> {
        let mut from = self.device.page_locked::<T>(source.values().len())?;
        let mut to = self.device.page_locked::<U>(result.values().len())?;
        from.copy_from_slice(source.values());
        to.copy_from_slice(result.values());
        let evict = evict(&mut self.evictor);
        let measured = sample_alone(sampling, evict, || self.prepared.apply_values(&from, &mut to));
        result.values_mut().copy_from_slice(&to);
        measured
    }
}

/// What comes before a run from host memory: the caches are evicted if they are to be cold.
fn evict(evictor: &mut Option<Evictor>) -> impl FnMut() -> Result<()> {
    || evictor.as_mut().map_or(Ok(()), Evictor::evict_all)
}

/// Computes from host memory to host memory.
fn apply(prepared: &Prepared, source: &AnyImage, result: &mut AnyImage) -> Result<()> {
    each_type!(source, source => each_type!(result, result => prepared.apply_view(source.view(), result.view_mut())))
}

impl Executor for OnDevice<'_> {
    fn bound(&self) -> ErrorBound {
        self.prepared.bound()
    }

    fn run(&mut self, source: &AnyImage, result: &mut AnyImage) -> Result<()> {
        apply(&self.prepared, source, result)
    }

    fn upload(&mut self, source: &AnyImage) -> Result<()> {
        self.resident = None;
        self.resident = Some(resident::any(self.device, &self.prepared, source)?);
        // Not in `new`, whose time is a part of the first call.
        self.evictor = if self.cold { Some(Evictor::new(self.device)?) } else { None };
        Ok(())
    }

    fn execute(&mut self, times: usize) -> Result<Duration> {
        let resident = self.resident.as_deref_mut().expect("an image is uploaded before it is computed");
        match &mut self.evictor {
            Some(evictor) => resident.execute_after(times, &mut |stream| evictor.evict(stream)),
            None => resident.execute(times),
        }
    }

    fn download(&mut self, result: &mut AnyImage) -> Result<()> {
        *result = self.resident.as_deref().expect("an image is uploaded before it is computed").download()?;
        Ok(())
    }

    fn end_to_end(&mut self, source: &AnyImage, result: &mut AnyImage, sampling: Sampling) -> Result<Measured, Cause> {
        if !self.page_locked {
            return sample_alone(sampling, evict(&mut self.evictor), || apply(&self.prepared, source, result));
        }
        each_type!(source, source => each_type!(result, result => self.timed(source, result, sampling)))
    }
}

/// How samples are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The warm-up before the first batch that counts. An idle device runs at a lower clock.
    pub warm_up: Duration,
    /// The least time of a batch of runs. It hides the resolution of the clock and the cost of a launch.
    pub batch: Duration,
    /// The least time of all batches.
    pub min_time: Duration,
}

/// The fewest batches of a measurement, unless they take very long.
const BATCHES: usize = 7;
/// The fewest batches of a measurement that takes very long.
const BATCHES_IF_SLOW: usize = 3;
/// What "very long" is.
const SLOW: Duration = Duration::from_secs(4);
/// The most batches. More would not change the median.
const MOST_BATCHES: usize = 2000;
/// The most runs of a batch, whatever the clock says.
const MOST_RUNS: usize = 10_000;

/// A measured time per run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Over the batches, in microseconds.
    pub us: Summary,
    /// Runs of each batch.
    pub runs: usize,
    /// The time of each batch, in their order.
    pub batches: Vec<Duration>,
}

impl Measured {
    /// Summarises the times of batches; None if they are no times.
    pub(super) fn new(batches: Vec<Duration>, runs: usize) -> Option<Self> {
        let us: Vec<f64> = batches.iter().map(|batch| batch.as_secs_f64() / runs as f64 * 1e6).collect();
        let us = Summary::of(&us).filter(|summary| summary.median > 0.0)?;
        Some(Self { us, runs, batches })
    }

    /// Whether the times rose or fell while they were taken.
    #[must_use]
    pub fn drift(&self) -> Option<Drift> {
        Drift::of(&self.batches.iter().map(Duration::as_secs_f64).collect::<Vec<_>>())
    }
}

/// The times of a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// On data that is on the device.
    pub kernel: Measured,
    /// From host memory to host memory.
    pub end_to_end: Measured,
    /// From preparing the problem to the first result, in microseconds.
    pub first_call_us: f64,
    /// The GPU's clocks while the kernel was timed; None where nobody reads them.
    pub clocks: Option<Clocks>,
}

/// Why a variant was not timed.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// Its result is wrong.
    #[error("wrong answer: {0}")]
    Wrong(#[from] Wrong),
    /// It did not run.
    #[error(transparent)]
    Failed(#[from] Error),
    /// The clock stands still or runs backwards.
    #[error("the clock gave no usable times")]
    Clock,
}

/// Verifies a variant and times it.
///
/// `open` prepares it, and the first call includes that. `result` holds the last result. Four results are verified over
/// the whole frame:
/// - the result of the first call;
/// - a result on the device, which [`Executor::upload`] has poisoned before;
/// - the last result of the timed runs on the device;
/// - the last result of the timed runs from end to end.
///
/// `sensor` reads the clocks while the kernel is timed.
///
/// # Errors
/// [`Cause::Wrong`] before the timing if the result is wrong, and after it if a later result is. Else the failure.
pub fn measure<E: Executor>(
    open: impl FnOnce() -> Result<E>,
    source: &AnyImage,
    result: &mut AnyImage,
    expected: &Expected<'_>,
    sampling: Sampling,
    sensor: Option<&Sensor>,
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

    let look = sensor.map(|sensor| || sensor.read());
    let (kernel, readings) = sample_watched(sampling, look, |runs| executor.execute(runs))?;
    let clocks = readings.map(|[before, after]| {
        let sm_mhz_max = sensor.and_then(Sensor::sm_mhz_max);
        Clocks { before, after, sm_mhz_max }
    });
    poison(result);
    executor.download(result)?;
    expected.verify(result, executor.bound())?;

    poison(result);
    let end_to_end = executor.end_to_end(source, result, sampling)?;
    expected.verify(result, executor.bound())?;
    Ok((deviation, Times { kernel, end_to_end, first_call_us: first_call.as_secs_f64() * 1e6, clocks }))
}

/// Verifies a variant without timing it, for a device whose times mean nothing.
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

/// Fills a result with [`POISON`], so that unwritten values are found. Integers get a value that is right for few
/// outputs.
pub(crate) fn poison(result: &mut AnyImage) {
    each_type!(result, image => resident::poison(image.values_mut()));
}

/// Times single runs. The time of `before`, which comes before each, does not count.
fn sample_alone(
    sampling: Sampling,
    mut before: impl FnMut() -> Result<()>,
    mut run: impl FnMut() -> Result<()>,
) -> Result<Measured, Cause> {
    sample(Sampling { warm_up: Duration::ZERO, batch: Duration::ZERO, ..sampling }, |_| {
        before()?;
        let start = Instant::now();
        run()?;
        Ok(start.elapsed())
    })
}

/// Times `run`, which gets a number of runs and returns the time of all.
///
/// It finds the size of a batch first. That warms up caches, clocks and threads. Then it takes batches.
fn sample(sampling: Sampling, run: impl FnMut(usize) -> Result<Duration>) -> Result<Measured, Cause> {
    Ok(sample_watched(sampling, None::<fn() -> Reading>, run)?.0)
}

/// The same, with a look at the device after the warm-up and another after the last batch. Then the device was busy
/// until now. The device idles during the first look, so a batch that does not count follows.
fn sample_watched<R>(
    sampling: Sampling,
    look: Option<impl Fn() -> R>,
    mut run: impl FnMut(usize) -> Result<Duration>,
) -> Result<(Measured, Option<[R; 2]>), Cause> {
    let (mut runs, start) = (1, Instant::now());
    loop {
        let time = run(runs)?;
        if time >= sampling.batch || runs == MOST_RUNS {
            if start.elapsed() >= sampling.warm_up {
                break;
            }
            continue;
        }
        // A fifth more than this estimate. The first runs are slow, so a batch grows at most eightfold at a time.
        let wanted = 1.2 * runs as f64 * sampling.batch.as_secs_f64() / time.as_secs_f64().max(1e-9);
        runs = (wanted.ceil() as usize).clamp(2 * runs, 8 * runs).min(MOST_RUNS);
    }
    let before = look.as_ref().map(|look| look());
    if before.is_some() {
        run(runs)?;
    }
    let start = Instant::now();
    let mut batches = Vec::new();
    while batches.len() < MOST_BATCHES {
        batches.push(run(runs)?);
        let (count, spent) = (batches.len(), start.elapsed());
        let enough = count >= BATCHES && spent >= sampling.min_time;
        let slow = count >= BATCHES_IF_SLOW && spent >= SLOW.max(sampling.min_time);
        if enough || slow {
            break;
        }
    }
    let after = look.as_ref().map(|look| look());
    let measured = Measured::new(batches, runs).ok_or(Cause::Clock)?;
    Ok((measured, before.zip(after).map(|(before, after)| [before, after])))
}

#[cfg(test)]
mod tests;
