//! `--device` of `host filter`: one device, or all CUDA devices.

use std::str::FromStr;

use faltung::{Device, DeviceChoice};

use super::super::select;

/// The devices that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceArg {
    One(DeviceChoice),
    /// All CUDA devices of this machine.
    AllCuda,
}

impl FromStr for DeviceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "cuda:all" {
            return Ok(Self::AllCuda);
        }
        let known = || format!("auto, cpu, emulator, cuda:NUMBER or cuda:all was expected, not \"{text}\"");
        text.parse().map(Self::One).map_err(|_| known())
    }
}

impl DeviceArg {
    /// Whether the program chooses.
    pub(super) fn is_auto(self) -> bool {
        self == Self::One(DeviceChoice::Auto)
    }

    /// The devices, opened; at least one.
    pub(super) fn open(self) -> anyhow::Result<Vec<Device>> {
        match self {
            Self::One(choice) => Ok(vec![select(choice)?]),
            Self::AllCuda => Device::all_cuda()
                .map_err(|error| super::super::NoDevice { choice: DeviceChoice::Cuda(0), error }.into()),
        }
    }
}
