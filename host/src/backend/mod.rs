//! Where a convolution is computed: the CPU, a CUDA device, or the emulator of one.

pub(crate) mod cpu;
mod emulator;
pub(crate) mod gpu;
pub mod lab;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use self::gpu::{Gpu, GpuConvolution};
use cuda_emulator::Counts;

use self::emulator::EmulatorConvolution;
pub use self::gpu::{GpuInfo, devices};
use crate::compare::POISON;
use crate::plan::{Plan, VariantChoice};
use crate::{Error, Filter, Image, Pixel, Problem, Result};

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
        Self { kind: Kind::Cpu, reason: None }
    }

    /// The emulator: the GPU's kernels on the CPU, every access checked, the threads of a block in an order made from `seed`.
    #[must_use]
    pub fn emulator(seed: u64) -> Self {
        Self { kind: Kind::Emulator { seed }, reason: None }
    }

    /// The CUDA device with this number.
    ///
    /// # Errors
    /// [`Error::NoDevice`], [`Error::Driver`].
    pub fn cuda(number: usize) -> Result<Self> {
        Ok(Self { kind: Kind::Cuda(Box::new(Gpu::open(number)?)), reason: None })
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
    /// # Errors
    /// [`Error::Refused`] if the variant can't compute the problem, [`Error::NeedsGpu`] if a GPU's variant is asked of
    /// the CPU, [`Error::DeviceMemory`], [`Error::Driver`].
    pub fn convolution(&self, problem: &Problem, variant: VariantChoice) -> Result<Convolution<'_>> {
        let ready = match &self.kind {
            Kind::Cpu => {
                if let VariantChoice::Exactly(variant) = variant {
                    return Err(Error::NeedsGpu { variant: variant.name() });
                }
                Ready::Cpu { source: Vec::new(), result: Vec::new() }
            }
            Kind::Emulator { seed } => Ready::Emulator(Box::new(EmulatorConvolution::new(*seed, problem, variant)?)),
            Kind::Cuda(gpu) => Ready::Cuda(Box::new(GpuConvolution::new(gpu, problem, variant)?)),
        };
        Ok(Convolution { problem: problem.clone(), ready })
    }

    /// Filters an image: each channel alone, computed in `f32`, then converted to the output's type.
    ///
    /// # Errors
    /// Those of [`Problem::new`] and [`convolution`](Self::convolution).
    pub fn apply<T: Pixel, U: Pixel>(&self, filter: &Filter, image: &Image<T>) -> Result<Image<U>> {
        let problem = Problem::new(image.width(), image.height(), filter)?;
        self.convolution(&problem, VariantChoice::Auto)?.run(image)
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
}

/// What a device has made ready.
#[derive(Debug)]
enum Ready<'device> {
    /// The buffers are for the single steps; empty until then.
    Cpu {
        source: Vec<f32>,
        result: Vec<f32>,
    },
    Emulator(Box<EmulatorConvolution>),
    Cuda(Box<GpuConvolution<'device>>),
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
        match &self.ready {
            Ready::Cpu { .. } => cpu::VARIANT,
            Ready::Emulator(ready) => ready.plan().entry.variant.name(),
            Ready::Cuda(ready) => ready.plan().entry.variant.name(),
        }
    }

    /// Why this variant: one line for people.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.ready {
            Ready::Cpu { .. } => cpu::reason(),
            Ready::Emulator(ready) => ready.plan().reason.clone(),
            Ready::Cuda(ready) => ready.plan().reason.clone(),
        }
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

    /// Filters an image of the problem's size: each channel alone, computed in `f32`, then converted.
    ///
    /// # Errors
    /// [`Error::OtherSize`] if the image has another size, [`Error::Driver`].
    pub fn run<T: Pixel, U: Pixel>(&mut self, image: &Image<T>) -> Result<Image<U>> {
        let (planned, found) = ((self.problem.width(), self.problem.height()), (image.width(), image.height()));
        if planned != found {
            return Err(Error::OtherSize { planned, found });
        }
        let planes = (0..image.channels())
            .map(|channel| {
                let source = image.channel(channel).map(T::to_f32);
                let mut result = vec![0.0_f32; source.values().len()];
                self.run_plane(source.values(), &mut result)?;
                Ok(Image::new(image.width(), image.height(), 1, result)?.map(U::from_f32))
            })
            .collect::<Result<Vec<_>>>()?;
        Image::from_channels(&planes)
    }

    /// Filters one channel: `width * height` values in, as many out, rows without gaps.
    ///
    /// # Errors
    /// [`Error::Length`] if a slice has another length; [`Error::Driver`].
    pub fn run_plane(&mut self, source: &[f32], result: &mut [f32]) -> Result<()> {
        self.check("source", source)?;
        self.check("result", result)?;
        match &mut self.ready {
            Ready::Cpu { .. } => {
                cpu::convolve(&self.problem, source, result);
                Ok(())
            }
            Ready::Emulator(ready) => ready.run(source, result),
            Ready::Cuda(ready) => ready.run(source, result),
        }
    }

    /// Puts an image on the device, for [`execute`](Self::execute), and fills the result there with [`POISON`].
    ///
    /// # Errors
    /// As for [`run_plane`](Self::run_plane).
    pub fn upload(&mut self, source: &[f32]) -> Result<()> {
        self.check("source", source)?;
        match &mut self.ready {
            Ready::Cpu { source: resident, result } => {
                resident.clear();
                resident.extend_from_slice(source);
                result.clear();
                result.resize(source.len(), POISON);
                Ok(())
            }
            Ready::Emulator(ready) => {
                ready.upload(source);
                Ok(())
            }
            Ready::Cuda(ready) => {
                ready.upload(source)?;
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
        match &mut self.ready {
            Ready::Cpu { source, result } => {
                let (width, height) = (self.problem.width(), self.problem.height());
                if source.is_empty() {
                    let (channels, required, found) = (1, width * height, 0);
                    return Err(Error::Length { what: "uploaded image", width, height, channels, required, found });
                }
                let start = Instant::now();
                for _ in 0..times {
                    cpu::convolve(&self.problem, source, result);
                }
                Ok(start.elapsed())
            }
            Ready::Emulator(ready) => {
                let start = Instant::now();
                for _ in 0..times {
                    ready.execute()?;
                }
                Ok(start.elapsed())
            }
            Ready::Cuda(ready) => ready.timed(times),
        }
    }

    /// Copies the result from the device.
    ///
    /// # Errors
    /// As for [`run_plane`](Self::run_plane).
    pub fn download(&mut self, result: &mut [f32]) -> Result<()> {
        self.check("result", result)?;
        match &mut self.ready {
            Ready::Cpu { result: resident, .. } => {
                if resident.len() == result.len() {
                    result.copy_from_slice(resident);
                } else {
                    result.fill(POISON);
                }
                Ok(())
            }
            Ready::Emulator(ready) => {
                result.copy_from_slice(&ready.download());
                Ok(())
            }
            Ready::Cuda(ready) => ready.download(result),
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

    /// The length of a plane of the problem.
    fn check(&self, what: &'static str, values: &[f32]) -> Result<()> {
        let (width, height) = (self.problem.width(), self.problem.height());
        let (required, found) = (width * height, values.len());
        if required != found {
            return Err(Error::Length { what, width, height, channels: 1, required, found });
        }
        Ok(())
    }
}
