//! The clocks of a GPU while it is measured, and why they are lower than they could be.
//!
//! NVML tells them. `nvml-wrapper` opens its library at run time. So the program also starts without NVML, and then the
//! clocks are unknown.

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use serde::Serialize;

use super::stats::MATTERS;
use faltung::GpuInfo;

/// What NVML says at one moment. None is what it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// The clock of the multiprocessors.
    pub sm_mhz: Option<u32>,
    /// The clock of the device memory.
    pub memory_mhz: Option<u32>,
    /// The temperature of the GPU.
    pub celsius: Option<u32>,
    /// The power of the card, on many cards an average over a second.
    pub watts: Option<f64>,
    /// What holds the clocks down.
    pub reasons: Option<ThrottleReasons>,
}

/// The clocks while the kernel of a row was timed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clocks {
    /// After the warm-up, before the first batch that counts.
    pub before: Reading,
    /// After the last batch.
    pub after: Reading,
    /// The highest clock that the multiprocessors can have.
    pub sm_mhz_max: Option<u32>,
}

/// All reasons, and their names in reports.
const REASONS: [(ThrottleReasons, &str); 9] = [
    (ThrottleReasons::SW_POWER_CAP, "power"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "power brake"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "temperature"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "temperature, by hardware"),
    (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
    (ThrottleReasons::SYNC_BOOST, "sync boost"),
    (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "application clocks"),
    (ThrottleReasons::DISPLAY_CLOCK_SETTING, "display clocks"),
    (ThrottleReasons::GPU_IDLE, "idle"),
];

impl Clocks {
    /// The lower clock of the multiprocessors.
    #[must_use]
    pub fn sm_mhz_lowest(&self) -> Option<u32> {
        [self.before.sm_mhz, self.after.sm_mhz].into_iter().flatten().min()
    }

    /// The reasons of both readings, by name. Empty: nothing held the clocks down. None: NVML did not say.
    #[must_use]
    pub fn reasons(&self) -> Option<Vec<&'static str>> {
        let readings = [self.before.reasons, self.after.reasons].into_iter().flatten();
        let all = readings.reduce(|all, more| all | more)?;
        Some(REASONS.into_iter().filter(|(reason, _)| all.contains(*reason)).map(|(_, name)| name).collect())
    }

    /// What the reader must know: the clock was at least 5 % below the highest one, and NVML names a reason.
    ///
    /// A GPU that idles lowers its clock too. That is no reason here: it does not idle in a batch.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let mut reasons = self.reasons()?;
        reasons.retain(|reason| *reason != "idle");
        if reasons.is_empty() {
            return None;
        }
        let clock = match (self.sm_mhz_lowest(), self.sm_mhz_max) {
            (Some(lowest), Some(most)) if f64::from(lowest) > (1.0 - MATTERS) * f64::from(most) => return None,
            (Some(lowest), Some(most)) => format!("; SM clock {lowest} of {most} MHz"),
            (Some(lowest), None) => format!("; SM clock {lowest} MHz"),
            (None, _) => String::new(),
        };
        Some(format!("throttled: {}{clock}", reasons.join(", ")))
    }
}

/// The clocks as fields of a row of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Recorded {
    sm_mhz_lowest: Option<u32>,
    sm_mhz_max: Option<u32>,
    /// What held the clocks down, in either reading: "power", "temperature" and others. Empty: nothing.
    throttle_reasons: Option<Vec<&'static str>>,
    sm_mhz_before: Option<u32>,
    sm_mhz_after: Option<u32>,
    memory_mhz_before: Option<u32>,
    memory_mhz_after: Option<u32>,
    celsius_before: Option<u32>,
    celsius_after: Option<u32>,
    watts_before: Option<f64>,
    watts_after: Option<f64>,
}

impl From<&Clocks> for Recorded {
    fn from(clocks: &Clocks) -> Self {
        let Clocks { before, after, sm_mhz_max } = *clocks;
        Self {
            sm_mhz_lowest: clocks.sm_mhz_lowest(),
            sm_mhz_max,
            throttle_reasons: clocks.reasons(),
            sm_mhz_before: before.sm_mhz,
            sm_mhz_after: after.sm_mhz,
            memory_mhz_before: before.memory_mhz,
            memory_mhz_after: after.memory_mhz,
            celsius_before: before.celsius,
            celsius_after: after.celsius,
            watts_before: before.watts,
            watts_after: after.watts,
        }
    }
}

/// NVML, and the GPU that it is asked about.
#[derive(Debug)]
pub struct Sensor {
    nvml: Nvml,
    /// The number of a GPU in NVML is not that of the CUDA driver.
    pci_address: String,
}

impl Sensor {
    /// Opens NVML. None without its library, or where it does not know the GPU.
    pub(super) fn open(gpu: &GpuInfo) -> Option<Self> {
        let sensor = Self { nvml: Nvml::init().ok()?, pci_address: gpu.pci_address.clone()? };
        sensor.nvml.device_by_pci_bus_id(sensor.pci_address.as_str()).ok()?;
        Some(sensor)
    }

    /// The state of the GPU now.
    pub(super) fn read(&self) -> Reading {
        let Ok(device) = self.nvml.device_by_pci_bus_id(self.pci_address.as_str()) else { return Reading::default() };
        Reading {
            sm_mhz: device.clock_info(Clock::SM).ok(),
            memory_mhz: device.clock_info(Clock::Memory).ok(),
            celsius: device.temperature(TemperatureSensor::Gpu).ok(),
            watts: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
            reasons: device.current_throttle_reasons().ok(),
        }
    }

    /// The highest clock of the multiprocessors.
    pub(super) fn sm_mhz_max(&self) -> Option<u32> {
        self.nvml.device_by_pci_bus_id(self.pci_address.as_str()).ok()?.max_clock_info(Clock::SM).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks(before: (u32, ThrottleReasons), after: (u32, ThrottleReasons)) -> Clocks {
        let reading =
            |(sm_mhz, reasons)| Reading { sm_mhz: Some(sm_mhz), reasons: Some(reasons), ..Reading::default() };
        Clocks { before: reading(before), after: reading(after), sm_mhz_max: Some(1980) }
    }

    #[test]
    fn a_throttle_is_told_with_its_reasons() {
        let none = ThrottleReasons::empty();
        let hot = ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_THERMAL_SLOWDOWN;
        let throttled = clocks((1980, none), (1410, hot));
        let told = "throttled: power, temperature, by hardware; SM clock 1410 of 1980 MHz";
        assert_eq!(throttled.note().as_deref(), Some(told));
        // It was over before the last batch ended.
        assert_eq!(clocks((1410, hot), (1980, none)).note().as_deref(), Some(told));
        let recorded = Recorded::from(&throttled);
        let clocks = (recorded.sm_mhz_lowest, recorded.sm_mhz_before, recorded.sm_mhz_after);
        assert_eq!(clocks, (Some(1410), Some(1980), Some(1410)));
        assert_eq!(recorded.throttle_reasons, Some(vec!["power", "temperature, by hardware"]));
    }

    /// What does not change the meaning of a row is in the record, and is not told.
    #[test]
    fn what_does_not_matter_is_not_told() {
        let (none, power) = (ThrottleReasons::empty(), ThrottleReasons::SW_POWER_CAP);
        let little = clocks((1980, none), (1900, power));
        assert_eq!((little.note(), little.reasons()), (None, Some(vec!["power"])));
        // A clock between two batches, and no reason.
        assert_eq!(clocks((345, ThrottleReasons::GPU_IDLE), (1980, none)).note(), None);
        assert_eq!(clocks((1200, none), (1200, none)).note(), None);
        assert_eq!((Clocks::default().note(), Clocks::default().reasons()), (None, None));
    }

    #[test]
    fn a_reason_without_a_clock_is_told() {
        let mut throttled = clocks((1980, ThrottleReasons::HW_SLOWDOWN), (1980, ThrottleReasons::empty()));
        throttled.sm_mhz_max = None;
        assert_eq!(throttled.note().as_deref(), Some("throttled: hardware slowdown; SM clock 1980 MHz"));
        (throttled.before.sm_mhz, throttled.after.sm_mhz) = (None, None);
        assert_eq!(throttled.note().as_deref(), Some("throttled: hardware slowdown"));
    }
}
