//! `--device` of `host filter`: one device, or several CUDA devices.

use std::str::FromStr;

use faltung::{Device, DeviceChoice};

use super::super::select;

/// The value of `--device`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeviceArg {
    One(DeviceChoice),
    /// CUDA devices of these numbers, two or more.
    SomeCuda(Vec<usize>),
    /// All CUDA devices of this machine.
    AllCuda,
}

impl FromStr for DeviceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "auto, cpu, emulator, cuda:NUMBER, cuda:all or several such as cuda:0,cuda:1";
        let unknown = || format!("{expected} was expected, not \"{text}\"");
        if text == "cuda:all" {
            return Ok(Self::AllCuda);
        }
        if !text.contains(',') {
            return text.parse().map(Self::One).map_err(|_| unknown());
        }
        let mut numbers = Vec::new();
        for part in text.split(',') {
            let Ok(DeviceChoice::Cuda(number)) = part.parse() else { return Err(unknown()) };
            if numbers.contains(&number) {
                return Err(format!("cuda:{number} is named twice"));
            }
            numbers.push(number);
        }
        Ok(Self::SomeCuda(numbers))
    }
}

impl DeviceArg {
    /// Whether the program chooses.
    pub(super) fn is_auto(&self) -> bool {
        *self == Self::One(DeviceChoice::Auto)
    }

    /// The devices, opened; at least one.
    pub(super) fn open(&self) -> anyhow::Result<Vec<Device>> {
        match self {
            Self::One(choice) => Ok(vec![select(*choice)?]),
            Self::SomeCuda(numbers) => numbers.iter().map(|&number| select(DeviceChoice::Cuda(number))).collect(),
            Self::AllCuda => Device::all_cuda()
                .map_err(|error| super::super::NoDevice { choice: DeviceChoice::Cuda(0), error }.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_parsed() {
        let parse = |text: &str| text.parse::<DeviceArg>();
        assert_eq!(parse("auto"), Ok(DeviceArg::One(DeviceChoice::Auto)));
        assert_eq!(parse("cuda:3"), Ok(DeviceArg::One(DeviceChoice::Cuda(3))));
        assert_eq!(parse("cuda:all"), Ok(DeviceArg::AllCuda));
        assert_eq!(parse("cuda:2,cuda:0"), Ok(DeviceArg::SomeCuda(vec![2, 0])));
        for text in ["cuda:0,", ",cuda:0", "cuda:0,cpu", "cuda:0,1", "cuda:all,cuda:0", "cuda:0, cuda:1", "", "gpu"] {
            assert!(parse(text).unwrap_err().contains("was expected"), "{text}");
        }
        assert_eq!(parse("cuda:1,cuda:0,cuda:1"), Err("cuda:1 is named twice".into()));
    }
}
