//! Which device is asked for, and how fast one is.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// The device that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceChoice {
    /// The first CUDA device if the library can use it, else the CPU.
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

impl Rates {
    /// The higher of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            copy_bytes_per_s: self.copy_bytes_per_s.max(other.copy_bytes_per_s),
            flop_per_s: self.flop_per_s.max(other.flop_per_s),
        }
    }
}
