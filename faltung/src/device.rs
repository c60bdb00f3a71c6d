//! A device: what it is, and what it makes ready.

use super::convolution::{Convolution, Ready};
use super::cuda::{Gpu, GpuConvolution, GpuInfo};
use super::emulated::{self, EmulatorConvolution};
use super::page_locked::PageLocked;
use super::{DeviceChoice, Rates, cpu};
use crate::plan::{Plan, VariantChoice};
use crate::{Error, Filter, Image, Layout, Pixel, Problem, Result};

/// A device, ready to compute.
///
/// All work on a CUDA device may fail with [`Error::DeviceLost`], and then fails with it until the process ends. Other
/// errors leave the device as it was.
#[derive(Debug)]
pub struct Device {
    pub(super) kind: Kind,
    /// Why `auto` took this device; None if it was asked for by name.
    reason: Option<String>,
    /// The most bytes of device memory that a problem's images may take.
    memory_limit: Option<usize>,
}

/// What a device is.
#[derive(Debug)]
pub(super) enum Kind {
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
    /// [`Error::NoDevice`] if a CUDA device was asked for and there is none, or [`Error::Driver`] if it can't be
    /// opened; the driver's own words say why.
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

    /// The emulator: the GPU's kernels on the CPU, every access checked, the threads of a block in an order made from
    /// `seed`.
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

    /// The device with at most `bytes` of its memory for the images of a problem, where others use it, too. Larger
    /// problems are computed in strips. The CPU, which has no memory of its own, ignores it.
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
    /// [`Error::Refused`] if the variant can't compute the problem, [`Error::Accuracy`] if it is less accurate than the
    /// problem demands, [`Error::NeedsGpu`] if a GPU's variant is asked of the CPU, [`Error::DeviceMemory`] if not even
    /// a strip fits, [`Error::Driver`].
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
        Ok(Convolution::new(problem, ready, note))
    }

    /// Which variant would compute `problem`, and why: one line for people. Nothing is compiled or allocated.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Accuracy`], [`Error::NeedsGpu`].
    pub fn choice(&self, problem: &Problem, variant: VariantChoice) -> Result<(&'static str, String)> {
        let limits = match &self.kind {
            Kind::Cpu => {
                return match variant.named() {
                    None => Ok((cpu::VARIANT, cpu::reason())),
                    Some(variant) => Err(Error::NeedsGpu { variant: variant.name() }),
                };
            }
            Kind::Emulator { .. } => emulated::LIMITS,
            Kind::Cuda(gpu) => gpu.info().limits(),
        };
        let plan = Plan::new(problem, limits, variant)?;
        Ok((plan.entry.variant.name(), plan.reason))
    }

    /// The same, but on the CPU if the device's memory does not hold even a strip of the images, and no variant of the
    /// GPU was asked for by name. [`Convolution::note`] says so.
    ///
    /// # Errors
    /// Those of [`convolution`](Self::convolution).
    pub fn convolution_or_cpu(&self, problem: &Problem, variant: VariantChoice) -> Result<Convolution<'_>> {
        match self.convolution(problem, variant) {
            Err(error @ Error::DeviceMemory { .. }) if variant.named().is_none() => {
                Ok(Convolution::new(problem, Ready::on_cpu(), Some(format!("on the CPU: {error}"))))
            }
            other => other,
        }
    }

    /// Filters an image: each channel alone, computed in `f32`, then converted to the output's type. What the device's
    /// memory can't hold is computed in strips, or on the CPU.
    ///
    /// The variant is [`VariantChoice::Auto`]'s. The filter's [`accuracy`](Filter::accuracy) limits which one that may
    /// be.
    ///
    /// # Errors
    /// Those of [`Problem::new`], [`Problem::with_layout`] and [`convolution`](Self::convolution).
    pub fn apply<T: Pixel, U: Pixel>(&self, filter: &Filter, image: &Image<T>) -> Result<Image<U>> {
        let layout = Layout::of::<T, U>(image.channels());
        let problem = Problem::new(image.width(), image.height(), filter)?.with_layout(layout)?;
        self.convolution_or_cpu(&problem, VariantChoice::Auto)?.run(image)
    }

    /// Room for `length` values, zeros at first, where the device reads and writes them by itself; the CPU and the
    /// emulator, which work in the host's memory, get ordinary memory. See [`PageLocked`].
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
