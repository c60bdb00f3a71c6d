//! A problem made ready on a device: run whole, or step by step.

use std::time::{Duration, Instant};

use cuda_emulator::Counts;

use super::cpu;
use super::cuda::GpuConvolution;
use super::emulated::EmulatorConvolution;
use crate::image::{bytes_of, bytes_of_mut};
use crate::plan::Plan;
use crate::{Error, ErrorBound, Image, Layout, Pixel, Problem, Result, View, ViewMut};

/// A problem, ready to run on a device.
///
/// [`run`](Self::run) filters an image. The steps of it can also be taken one by one, on data that stays on the device:
/// [`upload`](Self::upload), [`execute`](Self::execute), [`download`](Self::download).
#[derive(Debug)]
pub struct Convolution<'device> {
    problem: Problem,
    ready: Ready<'device>,
    note: Option<String>,
}

/// What a device has made ready.
#[derive(Debug)]
pub(super) enum Ready<'device> {
    Cpu {
        /// What was uploaded to stay.
        resident: Option<cpu::Resident>,
        planes: cpu::Planes,
    },
    Emulator(Box<EmulatorConvolution>),
    Cuda(Box<GpuConvolution<'device>>),
}

impl Ready<'_> {
    pub(super) fn on_cpu() -> Self {
        Self::Cpu { resident: None, planes: cpu::Planes::default() }
    }
}

impl<'device> Convolution<'device> {
    pub(super) fn new(problem: &Problem, ready: Ready<'device>, note: Option<String>) -> Self {
        Self { problem: problem.clone(), ready, note }
    }

    /// The problem.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The name of the variant that computes.
    #[must_use]
    pub fn variant(&self) -> &'static str {
        self.plan().map_or(cpu::VARIANT, |plan| plan.entry.variant.name())
    }

    /// Why this variant: one line for people.
    #[must_use]
    pub fn reason(&self) -> String {
        self.plan().map_or_else(cpu::reason, |plan| plan.reason.clone())
    }

    /// The accuracy class that the results keep, and the bound of their errors.
    #[must_use]
    pub fn bound(&self) -> ErrorBound {
        self.plan().map_or_else(|| ErrorBound::direct(&self.problem), |plan| plan.bound(&self.problem))
    }

    /// What is not as it was asked for: that the image is computed in strips, or on the CPU, and why. After a run also
    /// what the driver or the system refused, so that the results take longer. One line for people.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// The plan for the GPU or its emulator; None on the CPU.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        match &self.ready {
            Ready::Cpu { .. } => None,
            Ready::Emulator(ready) => Some(ready.plan()),
            Ready::Cuda(ready) => Some(ready.plan()),
        }
    }

    /// Filters an image of the problem's size and layout.
    ///
    /// # Errors
    /// [`Error::OtherSize`] if the image has another size, [`Error::OtherLayout`] if it has other channels or one of
    /// the types is another, [`Error::Driver`], [`Error::HostMemory`] if there is too little memory for the result.
    pub fn run<T: Pixel, U: Pixel>(&mut self, image: &Image<T>) -> Result<Image<U>> {
        let values = crate::memory::zeros(image.values().len(), "for the result")?;
        let mut result = Image::new(image.width(), image.height(), image.channels(), values)?;
        self.run_view(image.view(), result.view_mut())?;
        Ok(result)
    }

    /// Filters an image in somebody else's memory to another place there, with gaps between rows or without.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn run_view<T: Pixel, U: Pixel>(&mut self, image: View<'_, T>, mut result: ViewMut<'_, U>) -> Result<()> {
        let planned = (self.problem.width(), self.problem.height());
        for (found, channels) in [
            ((image.width(), image.height()), image.channels()),
            ((result.width(), result.height()), result.channels()),
        ] {
            if planned != found {
                return Err(Error::OtherSize { planned, found });
            }
            self.check_layout(Layout::of::<T, U>(channels))?;
        }
        // Copied if there are gaps: that takes a part of what the convolution takes.
        let dense;
        let source = match image.as_dense() {
            Some(source) => source,
            None => {
                dense = dense_copy(image)?;
                &dense
            }
        };
        if let Some(result) = result.as_dense_mut() {
            return self.run_values(source, result);
        }
        let mut values = crate::memory::zeros(self.problem.values(), "for the result")?;
        self.run_values(source, &mut values)?;
        result.set(&values);
        Ok(())
    }

    /// Filters values without gaps, row by row, channels together: as many in as out.
    ///
    /// # Errors
    /// [`Error::Length`] if a slice has another length, [`Error::OtherLayout`]; [`Error::Driver`].
    pub fn run_values<T: Pixel, U: Pixel>(&mut self, source: &[T], result: &mut [U]) -> Result<()> {
        self.check_layout(Layout::of::<T, U>(self.problem.layout().channels))?;
        self.check("source", source.len())?;
        self.check("result", result.len())?;
        match &mut self.ready {
            Ready::Cpu { planes, .. } => cpu::convolve_values(&self.problem, source, result, planes),
            Ready::Emulator(ready) => ready.run(bytes_of(source), bytes_of_mut(result)),
            Ready::Cuda(ready) => {
                ready.run(bytes_of(source), bytes_of_mut(result))?;
                if let Some(more) = ready.take_note() {
                    self.note = Some(self.note.take().map_or(more.clone(), |note| format!("{note}; {more}")));
                }
                Ok(())
            }
        }
    }

    /// Puts an image on the device, for [`execute`](Self::execute), and fills the result there with
    /// [`POISON`](crate::POISON).
    ///
    /// # Errors
    /// As for [`run_values`](Self::run_values); [`Error::DeviceMemory`] if it would take strips.
    pub fn upload<T: Pixel>(&mut self, source: &[T]) -> Result<()> {
        let layout = self.problem.layout();
        self.check_layout(Layout { input: T::TYPE, ..layout })?;
        self.check("source", source.len())?;
        match &mut self.ready {
            Ready::Cpu { resident, .. } => {
                *resident = Some(cpu::Resident::new(&self.problem, source)?);
                Ok(())
            }
            Ready::Emulator(ready) => ready.upload(bytes_of(source)),
            Ready::Cuda(ready) => {
                ready.upload(bytes_of(source))?;
                ready.poison()
            }
        }
    }

    /// Computes `times` times on what was uploaded and returns the time of all, as the device's own clock has it. (The
    /// emulator's is that of the emulation: it says nothing about a GPU.)
    ///
    /// # Errors
    /// [`Error::Length`] if nothing was uploaded to the CPU, [`Error::Driver`], [`Error::Emulator`].
    pub fn execute(&mut self, times: usize) -> Result<Duration> {
        let start = Instant::now();
        match &mut self.ready {
            Ready::Cpu { resident, planes } => {
                let resident = resident.as_mut().ok_or_else(|| nothing_uploaded(&self.problem))?;
                for _ in 0..times {
                    resident.execute(&self.problem, planes)?;
                }
            }
            Ready::Emulator(ready) => {
                for _ in 0..times {
                    ready.execute()?;
                }
            }
            Ready::Cuda(ready) => return ready.timed(times),
        }
        Ok(start.elapsed())
    }

    /// Copies the result from the device.
    ///
    /// # Errors
    /// As for [`run_values`](Self::run_values); [`Error::Length`] if nothing was uploaded.
    pub fn download<U: Pixel>(&mut self, result: &mut [U]) -> Result<()> {
        self.check_layout(Layout { output: U::TYPE, ..self.problem.layout() })?;
        self.check("result", result.len())?;
        match &mut self.ready {
            Ready::Cpu { resident, .. } => {
                let resident = resident.as_ref().and_then(cpu::Resident::result);
                result.copy_from_slice(resident.ok_or_else(|| nothing_uploaded(&self.problem))?);
                Ok(())
            }
            Ready::Emulator(ready) => ready.download(bytes_of_mut(result)),
            Ready::Cuda(ready) => ready.download(bytes_of_mut(result)),
        }
    }

    /// What a profiler would count for one run on what was uploaded, computed by the emulator from the addresses of all
    /// accesses; None on other devices.
    ///
    /// # Errors
    /// [`Error::Emulator`] if the kernel did something wrong.
    pub fn counts(&mut self) -> Result<Option<Counts>> {
        match &mut self.ready {
            Ready::Emulator(ready) => ready.counts().map(Some),
            Ready::Cpu { .. } | Ready::Cuda(_) => Ok(None),
        }
    }

    fn check_layout(&self, found: Layout) -> Result<()> {
        let planned = self.problem.layout();
        if planned == found { Ok(()) } else { Err(Error::OtherLayout { planned, found }) }
    }

    /// The number of values of the problem's images.
    fn check(&self, what: &'static str, found: usize) -> Result<()> {
        let required = self.problem.values();
        if required == found { Ok(()) } else { Err(length(&self.problem, what, found)) }
    }
}

/// A copy without gaps.
fn dense_copy<T: Pixel>(image: View<'_, T>) -> Result<Vec<T>> {
    let row = image.width() * image.channels();
    let mut values = crate::memory::zeros(row * image.height(), "for a copy of the image without gaps")?;
    for (y, to) in values.chunks_exact_mut(row).enumerate() {
        to.copy_from_slice(image.row(y));
    }
    Ok(values)
}

/// The error for `found` values where the problem's images have more or fewer.
fn length(problem: &Problem, what: &'static str, found: usize) -> Error {
    let (width, height, channels) = (problem.width(), problem.height(), problem.layout().channels);
    Error::Length { what, width, height, channels, required: problem.values(), found }
}

/// The error for a step on an image that is not there.
pub(super) fn nothing_uploaded(problem: &Problem) -> Error {
    length(problem, "uploaded image", 0)
}
