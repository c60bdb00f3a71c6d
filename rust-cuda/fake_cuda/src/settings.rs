//! The settings: `key=value`, separated by semicolons or line ends.
//!
//! | key | value | default |
//! | --- | --- | --- |
//! | `fail` | a [`Fault`]; may be given more than once | none |
//! | `delay_us` | delay of work that no thread waits for, in microseconds | 20000 |
//! | `memory` | bytes of device memory | 268435456 |
//! | `kernels` | `emulate`, or `skip`: launches complete and do nothing | `emulate` |
//! | `pageable` | `staged`, or `late`: copies from and to pageable memory are asynchronous | `staged` |
//! | `devices` | number of devices | 1 |
//! | `compute` | compute capability | `9.0` |
//! | `unknown` | a device attribute that the driver refuses to tell; may be given more than once | none |
//! | `report` | the file that the report is written to when the process ends | none |

use std::path::PathBuf;
use std::time::Duration;

use crate::faults::Fault;

/// The behaviour of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) faults: Vec<Fault>,
    pub(crate) delay: Duration,
    pub(crate) memory: usize,
    pub(crate) emulates: bool,
    pub(crate) pageable_late: bool,
    pub(crate) devices: i32,
    pub(crate) compute: (u32, u32),
    pub(crate) unknown: Vec<u32>,
    pub(crate) report: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            faults: Vec::new(),
            delay: Duration::from_millis(20),
            memory: 256 << 20,
            emulates: true,
            pageable_late: false,
            devices: 1,
            compute: (9, 0),
            unknown: Vec::new(),
            report: None,
        }
    }
}

impl Settings {
    /// The settings of the variable `FAKE_CUDA`.
    ///
    /// # Panics
    /// If the settings are wrong: a test with other settings than it requests proves nothing.
    pub(crate) fn from_environment() -> Self {
        let text = std::env::var("FAKE_CUDA").unwrap_or_default();
        Self::parse(&text).unwrap_or_else(|error| panic!("FAKE_CUDA: {error}"))
    }

    /// Parses settings. Keys that are missing have their defaults.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut settings = Self::default();
        for item in text.split([';', '\n']).map(str::trim).filter(|item| !item.is_empty()) {
            let (key, value) = item.split_once('=').ok_or_else(|| format!("\"{item}\" is not KEY=VALUE"))?;
            let wrong = |required: &str| format!("{key} is {required}, not \"{value}\"");
            match key {
                "fail" => settings.faults.push(Fault::parse(value)?),
                "delay_us" => {
                    let delay = value.parse().map_err(|_| wrong("a number of microseconds"))?;
                    settings.delay = Duration::from_micros(delay);
                }
                "memory" => settings.memory = value.parse().map_err(|_| wrong("a number of bytes"))?,
                "kernels" => {
                    settings.emulates = choose(value, ["skip", "emulate"]).ok_or_else(|| wrong("emulate or skip"))?
                }
                "pageable" => {
                    settings.pageable_late =
                        choose(value, ["staged", "late"]).ok_or_else(|| wrong("staged or late"))?;
                }
                "devices" => settings.devices = value.parse().map_err(|_| wrong("a number"))?,
                "compute" => {
                    let parts = value.split_once('.').ok_or_else(|| wrong("MAJOR.MINOR"))?;
                    let number = |text: &str| text.parse().map_err(|_| wrong("MAJOR.MINOR"));
                    settings.compute = (number(parts.0)?, number(parts.1)?);
                }
                "unknown" => settings.unknown.push(value.parse().map_err(|_| wrong("a number"))?),
                "report" => settings.report = Some(value.into()),
                _ => return Err(format!("there is no setting \"{key}\"")),
            }
        }
        Ok(settings)
    }
}

/// Whether the value is the second of two allowed values.
fn choose(value: &str, [no, yes]: [&str; 2]) -> Option<bool> {
    if value == yes { Some(true) } else { (value == no).then_some(false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let settings = Settings::parse("delay_us=5; kernels=skip\ncompute=7.5;fail=*:3:2").unwrap();
        assert_eq!(settings.delay, Duration::from_micros(5));
        assert_eq!((settings.emulates, settings.compute, settings.faults.len()), (false, (7, 5), 1));
        for text in ["delay", "delay_us=x", "kernels=maybe", "color=red", "compute=9", "unknown=x", "fail=x"] {
            assert!(Settings::parse(text).is_err(), "{text}");
        }
    }
}
