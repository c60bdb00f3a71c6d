//! Where a convolution is computed: the CPU, a CUDA device, or the emulator of one.

pub(crate) mod cpu;
mod emulator;
pub(crate) mod gpu;
pub mod lab;
mod page_locked;
mod strips;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use self::gpu::{Gpu, GpuConvolution};
use cuda_emulator::Counts;

use self::emulator::EmulatorConvolution;
pub use self::gpu::{GpuInfo, devices};
pub use self::page_locked::PageLocked;
use crate::compare::Bound;
use crate::image::{bytes_of, bytes_of_mut};
use crate::plan::{Plan, VariantChoice};
use crate::{Error, Filter, Image, Layout, Pixel, Problem, Result, View, ViewMut};

/// The device that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first CUDA device if there is a driver and a device, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU's kernels on the CPU, every access checked; slow.
    Emulator,
    /// The CUDA device with this number, or an error.
    Cuda(usize),
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Emulator => f.write_str("emulator"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || Error::Parse {
            what: "device",
            required: "auto, cpu, emulator or cuda:NUMBER".into(),
            found: text.into(),
        };
        Ok(match text {
            "auto" => Self::Auto,
            "cpu" => Self::Cpu,
            "emulator" => Self::Emulator,
            "cuda" => Self::Cuda(0),
            _ => Self::Cuda(text.strip_prefix("cuda:").ok_or_else(unknown)?.parse().map_err(|_| unknown())?),
        })
    }
}

/// The two rates that bound every direct convolution on a device, as measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Bytes read plus bytes written per second, copying within the device's memory.
    pub copy_bytes_per_s: f64,
    /// Floating-point operations per second, two for each fused multiply-add.
    pub flop_per_s: f64,
}

/// A device, ready to compute.
#[derive(Debug)]
pub struct Device {
    kind: Kind,
    /// Why `auto` took this device; None if it was asked for by name.
    reason: Option<String>,
    /// The most bytes of device memory that a problem's images may take.
    memory_limit: Option<usize>,
}

/// What a device is.
#[derive(Debug)]
enum Kind {
    Cpu,
    Emulator {
        /// Of the order in which a block's threads run.
        seed: u64,
    },
    Cuda(Box<Gpu>),
}

impl Device {
    /// The device that was chosen.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if a CUDA device was asked for and there is none, or [`Error::Driver`] if it can't be opened; the
    /// driver's own words say why.
    pub fn select(choice: DeviceChoice) -> Result<Self> {
        match choice {
            DeviceChoice::Auto => Ok(Self::auto()),
            DeviceChoice::Cpu => Ok(Self::cpu()),
            DeviceChoice::Emulator => Ok(Self::emulator(1)),
            DeviceChoice::Cuda(number) => Self::cuda(number),
        }
    }

    /// The first CUDA device if there is one that can be used, else the CPU. [`reason`](Self::reason) says why.
    #[must_use]
    pub fn auto() -> Self {
        match Self::cuda(0) {
            Ok(device) => Self { reason: Some("the first CUDA device".to_owned()), ..device },
            Err(error) => Self { reason: Some(error.to_string()), ..Self::cpu() },
        }
    }

    /// The CPU.
    #[must_use]
    pub fn cpu() -> Self {
        Self { kind: Kind::Cpu, reason: None, memory_limit: None }
    }

    /// The emulator: the GPU's kernels on the CPU, every access checked, the threads of a block in an order made from `seed`.
    #[must_use]
    pub fn emulator(seed: u64) -> Self {
        Self { kind: Kind::Emulator { seed }, reason: None, memory_limit: None }
    }

    /// The CUDA device with this number.
    ///
    /// # Errors
    /// [`Error::NoDevice`], [`Error::Driver`].
    pub fn cuda(number: usize) -> Result<Self> {
        Ok(Self { kind: Kind::Cuda(Box::new(Gpu::open(number)?)), reason: None, memory_limit: None })
    }

    /// The device with at most `bytes` of its memory for the images of a problem, where others use it, too. Larger problems are
    /// computed in strips. The CPU, which has no memory of its own, ignores it.
    #[must_use]
    pub fn with_memory_limit(self, bytes: usize) -> Self {
        Self { memory_limit: Some(bytes), ..self }
    }

    /// Why [`auto`](Self::auto) took this device: one line for people. None if it was asked for by name.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// What the CUDA device is; None for the others.
    #[must_use]
    pub fn gpu(&self) -> Option<&GpuInfo> {
        match &self.kind {
            Kind::Cpu | Kind::Emulator { .. } => None,
            Kind::Cuda(gpu) => Some(gpu.info()),
        }
    }

    /// `"cuda"`, `"cpu"` or `"emulator"`, as reports name the backend.
    #[must_use]
    pub fn backend(&self) -> &'static str {
        match &self.kind {
            Kind::Cpu => "cpu",
            Kind::Emulator { .. } => "emulator",
            Kind::Cuda(_) => "cuda",
        }
    }

    /// What this device is: one line for people, such as "NVIDIA H100 80GB HBM3 (cuda:0)".
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::Cpu => cpu::describe(),
            Kind::Emulator { seed } => format!("the emulator of a GPU, with an H100's limits and thread order {seed}"),
            Kind::Cuda(gpu) => format!("{} (cuda:{})", gpu.info().name, gpu.info().number),
        }
    }

    /// A problem made ready to run: kernel chosen and compiled, buffers allocated. It may run any number of times.
    ///
    /// Where the device's memory does not hold the images they are computed in strips; [`Convolution::note`] says so.
    ///
    /// # Errors
    /// [`Error::Refused`] if the variant can't compute the problem, [`Error::NeedsGpu`] if a GPU's variant is asked of
    /// the CPU, [`Error::DeviceMemory`] if not even a strip fits, [`Error::Driver`].
    pub fn convolution(&self, problem: &Problem, variant: VariantChoice) -> Result<Convolution<'_>> {
        let limit = self.memory_limit;
        let ready = match &self.kind {
            Kind::Cpu => {
                if let Some(variant) = variant.named() {
                    return Err(Error::NeedsGpu { variant: variant.name() });
                }
                Ready::on_cpu()
            }
            Kind::Emulator { seed } => {
                Ready::Emulator(Box::new(EmulatorConvolution::new(*seed, problem, variant, limit)?))
            }
            Kind::Cuda(gpu) => Ready::Cuda(Box::new(GpuConvolution::new(gpu, problem, variant, limit)?)),
        };
        let strips = match &ready {
            Ready::Cpu { .. } => 1,
            Ready::Emulator(ready) => ready.strips().len(),
            Ready::Cuda(ready) => ready.strips().len(),
        };
        let note =
            (strips > 1).then(|| format!("in {strips} strips: the device's memory does not hold the images whole"));
        Ok(Convolution { problem: problem.clone(), ready, note })
    }

    /// Which variant would compute `problem`, and why: one line for people. Nothing is compiled or allocated.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NeedsGpu`].
    pub fn choice(&self, problem: &Problem, variant: VariantChoice) -> Result<(&'static str, String)> {
        let limits = match &self.kind {
            Kind::Cpu => {
                return match variant.named() {
                    None => Ok((cpu::VARIANT, cpu::reason())),
                    Some(variant) => Err(Error::NeedsGpu { variant: variant.name() }),
                };
            }
            Kind::Emulator { .. } => emulator::LIMITS,
            Kind::Cuda(gpu) => gpu.info().limits(),
        };
        let plan = Plan::new(problem, limits, variant)?;
        Ok((plan.entry.variant.name(), plan.reason))
    }

    /// The same, but on the CPU if the device's memory does not hold even a strip of the images, and no variant of the GPU was
    /// asked for by name. [`Convolution::note`] says so.
    ///
    /// # Errors
    /// Those of [`convolution`](Self::convolution).
    pub fn convolution_or_cpu(&self, problem: &Problem, variant: VariantChoice) -> Result<Convolution<'_>> {
        match self.convolution(problem, variant) {
            Err(error @ Error::DeviceMemory { .. }) if variant.named().is_none() => {
                let ready = Ready::on_cpu();
                Ok(Convolution { problem: problem.clone(), ready, note: Some(format!("on the CPU: {error}")) })
            }
            other => other,
        }
    }

    /// Filters an image: each channel alone, computed in `f32`, then converted to the output's type. What the device's memory
    /// can't hold is computed in strips, or on the CPU.
    ///
    /// The variant is [`VariantChoice::Auto`]'s. Where the same bits on every device are asked for, of large planes of `f32` and separable
    /// masks too, take [`convolution_or_cpu`](Self::convolution_or_cpu) with [`VariantChoice::Exact`].
    ///
    /// # Errors
    /// Those of [`Problem::new`], [`Problem::with_layout`] and [`convolution`](Self::convolution).
    pub fn apply<T: Pixel, U: Pixel>(&self, filter: &Filter, image: &Image<T>) -> Result<Image<U>> {
        let layout = Layout::of::<T, U>(image.channels());
        let problem = Problem::new(image.width(), image.height(), filter)?.with_layout(layout)?;
        self.convolution_or_cpu(&problem, VariantChoice::Auto)?.run(image)
    }

    /// Room for `length` values, zeros at first, where the device reads and writes them by itself; the CPU and the emulator, which work in
    /// the host's memory, get ordinary memory. See [`PageLocked`].
    ///
    /// # Errors
    /// [`Error::HostMemory`]; [`Error::Driver`] if the system does not give away so much.
    pub fn page_locked<T: Pixel>(&self, length: usize) -> Result<PageLocked<'_, T>> {
        match &self.kind {
            // The driver locks no empty memory.
            Kind::Cuda(gpu) if length > 0 => {
                let bytes = length.checked_mul(size_of::<T>()).ok_or_else(|| Error::TooLarge {
                    what: "the number of values".into(),
                    most: usize::MAX / size_of::<T>(),
                    found: length.to_string(),
                })?;
                Ok(PageLocked::locked(gpu.page_locked(bytes)?))
            }
            _ => Ok(PageLocked::ordinary(crate::memory::zeros(length, "for values")?)),
        }
    }

    /// Measures the rates that bound a convolution on this device; takes part of a second.
    ///
    /// # Errors
    /// [`Error::Driver`], [`Error::DeviceMemory`]; [`Error::NoTime`] for the emulator.
    pub fn rates(&self) -> Result<Rates> {
        match &self.kind {
            Kind::Cpu => Ok(cpu::rates()),
            Kind::Emulator { .. } => Err(Error::NoTime),
            Kind::Cuda(gpu) => gpu.rates(),
        }
    }
}

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
enum Ready<'device> {
    Cpu {
        /// What was uploaded to stay.
        resident: Option<cpu::Resident>,
        planes: cpu::Planes,
    },
    Emulator(Box<EmulatorConvolution>),
    Cuda(Box<GpuConvolution<'device>>),
}

impl Ready<'_> {
    fn on_cpu() -> Self {
        Self::Cpu { resident: None, planes: cpu::Planes::default() }
    }
}

impl Convolution<'_> {
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

    /// What the variant promises of the results: the same bits on every device, or how near to the exact ones they are.
    #[must_use]
    pub fn bound(&self) -> Bound {
        self.plan().map_or_else(|| Bound::direct(&self.problem), |plan| plan.bound(&self.problem))
    }

    /// What is not as it was asked for: that the image is computed in strips, or on the CPU, and why. One line for people.
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
    /// [`Error::OtherSize`] if the image has another size, [`Error::OtherLayout`] if it has other channels or one of the types
    /// is another, [`Error::Driver`], [`Error::HostMemory`] if there is too little memory for the result.
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
            Ready::Cuda(ready) => ready.run(bytes_of(source), bytes_of_mut(result)),
        }
    }

    /// Puts an image on the device, for [`execute`](Self::execute), and fills the result there with
    /// [`POISON`](crate::compare::POISON).
    ///
    /// # Errors
    /// As for [`run_values`](Self::run_values); [`Error::DeviceMemory`] if it would take strips.
    pub fn upload<T: Pixel>(&mut self, source: &[T]) -> Result<()> {
        let layout = self.problem.layout();
        self.check_layout(Layout { input: T::TYPE, ..layout })?;
        self.check("source", source.len())?;
        match &mut self.ready {
            Ready::Cpu { resident, .. } => {
                *resident = Some(cpu::Resident::new(&self.problem, source));
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
fn nothing_uploaded(problem: &Problem) -> Error {
    length(problem, "uploaded image", 0)
}
