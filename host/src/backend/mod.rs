//! Where a convolution is computed: the CPU, or a CUDA device.

pub mod cpu;

use std::fmt;
use std::str::FromStr;

use crate::plan::VariantChoice;
use crate::{Error, Filter, Image, Pixel, Problem, Result};

/// The device that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first CUDA device if there is a driver and a device, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The CUDA device with this number, or an error.
    Cuda(usize),
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown =
            || Error::Parse { what: "device", required: "auto, cpu or cuda:NUMBER".into(), found: text.into() };
        Ok(match text {
            "auto" => Self::Auto,
            "cpu" => Self::Cpu,
            "cuda" => Self::Cuda(0),
            _ => Self::Cuda(text.strip_prefix("cuda:").ok_or_else(unknown)?.parse().map_err(|_| unknown())?),
        })
    }
}

/// A device, ready to compute.
#[derive(Debug)]
pub struct Device {
    /// Why `auto` took this device; None if it was asked for by name.
    reason: Option<String>,
}

impl Device {
    /// The device that was chosen.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if a CUDA device was asked for and there is none; the driver's own words say why.
    pub fn select(choice: DeviceChoice) -> Result<Self> {
        match choice {
            DeviceChoice::Cpu => Ok(Self { reason: None }),
            DeviceChoice::Auto => Ok(Self::auto()),
            DeviceChoice::Cuda(_) => Err(Error::NoDevice { reason: "tmp".into() }),
        }
    }

    /// The first CUDA device if there is one that can be used, else the CPU. [`reason`](Self::reason) says why.
    #[must_use]
    pub fn auto() -> Self {
        Self { reason: Some("tmp".into()) }
    }

    /// Why [`auto`](Self::auto) took this device: one line for people. None if it was asked for by name.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// What this device is: one line for people, such as "CPU, 2 threads, AVX-512" or "NVIDIA H100 80GB HBM3 (cuda:0)".
    #[must_use]
    pub fn describe(&self) -> String {
        String::new()
    }

    /// A problem made ready to run: kernel chosen, buffers allocated, module loaded.
    ///
    /// # Errors
    /// [`Error::Refused`] if the variant can't compute it, [`Error::DeviceMemory`], [`Error::Driver`].
    pub fn convolution(&self, problem: &Problem, variant: VariantChoice) -> Result<Convolution<'_>> {
        let _ = variant;
        Ok(Convolution { problem: problem.clone(), device: self })
    }

    /// Filters an image: each channel alone, computed in `f32`, then converted to the output's type.
    ///
    /// # Errors
    /// Those of [`Problem::new`] and [`convolution`](Self::convolution).
    pub fn apply<T: Pixel, U: Pixel>(&self, filter: &Filter, image: &Image<T>) -> Result<Image<U>> {
        let problem = Problem::new(image.width(), image.height(), filter)?;
        let mut convolution = self.convolution(&problem, VariantChoice::Auto)?;
        convolution.run(image)
    }
}

/// A problem, ready to run on a device.
#[derive(Debug)]
pub struct Convolution<'device> {
    problem: Problem,
    #[allow(dead_code)]
    device: &'device Device,
}

impl Convolution<'_> {
    /// Filters an image of the problem's size: each channel alone, computed in `f32`, then converted.
    ///
    /// # Errors
    /// [`Error::OtherSize`], [`Error::Driver`].
    pub fn run<T: Pixel, U: Pixel>(&mut self, image: &Image<T>) -> Result<Image<U>> {
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

    /// One channel: `width * height` values in, as many out.
    ///
    /// # Errors
    /// [`Error::Length`] if a slice has another length; [`Error::Driver`].
    pub fn run_plane(&mut self, source: &[f32], result: &mut [f32]) -> Result<()> {
        cpu::convolve(&self.problem, source, result);
        Ok(())
    }
}
