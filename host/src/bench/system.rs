//! The machine and the build that are measured.

use super::report::DeviceRates;
use super::roofline::Ceilings;
use faltung::{GpuInfo, Rates};

/// How the program was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// Its version.
    pub version: &'static str,
    /// Cargo's profile. "debug" stands for `dev`, which is optimised in this workspace but has assertions.
    pub profile: &'static str,
    /// The optimisation level, 0 to 3, s or z.
    pub opt_level: &'static str,
    /// Whether overflow checks and assertions are on, which cost time.
    pub assertions: bool,
    /// The target, such as "x86_64-unknown-linux-gnu".
    pub target: &'static str,
    /// The commit, with `-dirty` if the sources were changed since; None outside of a repository.
    pub commit: Option<&'static str>,
}

impl Build {
    /// This program's.
    #[must_use]
    pub fn this() -> Self {
        let commit = env!("HOST_COMMIT");
        Self {
            version: env!("CARGO_PKG_VERSION"),
            profile: env!("HOST_PROFILE"),
            opt_level: env!("HOST_OPT_LEVEL"),
            assertions: cfg!(debug_assertions),
            target: env!("HOST_TARGET"),
            commit: (!commit.is_empty()).then_some(commit),
        }
    }

    /// Why times of this build should not be quoted; None for a release build.
    #[must_use]
    pub fn caution(&self) -> Option<&'static str> {
        match self.opt_level {
            "0" | "1" => {
                Some("hardly optimised, the CPU's times mean little; for figures: cargo run --release -p host -- bench")
            }
            _ if self.assertions => Some(
                "with debug assertions, which slow the CPU down; for figures: cargo run --release -p host -- bench",
            ),
            _ => None,
        }
    }
}

impl std::fmt::Display for Build {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { version, profile, opt_level, target, .. } = self;
        let profile = if *profile == "debug" { "dev" } else { profile };
        let assertions = if self.assertions { ", assertions on" } else { "" };
        let commit = self.commit.unwrap_or("unknown");
        write!(f, "host {version}, profile {profile}, opt-level {opt_level}{assertions}, {target}, commit {commit}")
    }
}

/// The machine, and the rates of its devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The CUDA device, if it is measured, and its rates.
    pub gpu: Option<(GpuInfo, Rates)>,
    /// What is emulated, if the emulator is measured in the place of a GPU.
    pub emulator: Option<String>,
    /// Why no GPU is measured, if `auto` found none.
    pub no_gpu: Option<String>,
    /// The CPU's name.
    pub cpu_name: String,
    /// The CPU in one line: its name, threads and instructions.
    pub cpu: String,
    /// The threads that compute.
    pub cpu_threads: usize,
    /// Its rates.
    pub cpu_rates: Rates,
    /// Bytes of its last-level cache; None where the system does not say.
    pub cpu_cache_bytes: Option<u64>,
    /// How the program was built.
    pub build: Build,
}

impl Machine {
    /// The GPU's rates, or the CPU's without a GPU.
    #[must_use]
    pub fn rates(&self) -> Rates {
        self.gpu.as_ref().map_or(self.cpu_rates, |(_, rates)| *rates)
    }

    /// What bounds the rows of a backend.
    #[must_use]
    pub fn ceilings(&self, backend: &str) -> Ceilings {
        match &self.gpu {
            Some((info, rates)) if backend == "cuda" => Ceilings { rates: *rates, cache_bytes: info.l2_bytes },
            _ => Ceilings { rates: self.cpu_rates, cache_bytes: self.cpu_cache_bytes.unwrap_or(0) },
        }
    }

    /// Keeps the best rates. A single measurement is too low where the machine is busy or its clocks are low.
    pub fn raise_rates(&mut self, now: DeviceRates) {
        if let (Some((_, best)), Some(now)) = (&mut self.gpu, now.gpu) {
            *best = best.max(now);
        }
        self.cpu_rates = self.cpu_rates.max(now.cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_release_build_has_no_caution() {
        let build = |opt_level, assertions| Build { opt_level, assertions, ..Build::this() }.caution();
        assert_eq!(build("3", false), None);
        assert!(build("3", true).is_some_and(|text| text.contains("assertions") && text.contains("--release")));
        assert!(build("1", false).is_some_and(|text| text.contains("hardly optimised")));
    }
}
