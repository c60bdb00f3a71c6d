//! GPU architectures.

use std::fmt;

/// An NVIDIA GPU architecture, `-Ctarget-cpu` of rustc.
///
/// PTX for an older architecture runs on every newer GPU: the driver compiles it for the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Arch {
    /// Volta: V100.
    #[default]
    Sm70,
    /// Volta: Jetson Xavier.
    Sm72,
    /// Turing: T4, RTX 20.
    Sm75,
    /// Ampere: A100.
    Sm80,
    /// Ampere: RTX 30, A10.
    Sm86,
    /// Ampere: Jetson Orin.
    Sm87,
    /// Ada: RTX 40, L4, L40.
    Sm89,
    /// Hopper: H100, H200.
    Sm90,
    /// Blackwell: B100, B200.
    Sm100,
    /// Blackwell: B300.
    Sm103,
    /// Blackwell: RTX 50.
    Sm120,
    /// Blackwell: DGX Spark.
    Sm121,
}

impl Arch {
    /// The name in rustc, ptxas and PTX: `sm_70`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sm70 => "sm_70",
            Self::Sm72 => "sm_72",
            Self::Sm75 => "sm_75",
            Self::Sm80 => "sm_80",
            Self::Sm86 => "sm_86",
            Self::Sm87 => "sm_87",
            Self::Sm89 => "sm_89",
            Self::Sm90 => "sm_90",
            Self::Sm100 => "sm_100",
            Self::Sm103 => "sm_103",
            Self::Sm120 => "sm_120",
            Self::Sm121 => "sm_121",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
