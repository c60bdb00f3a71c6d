//! Tests with one body that run on the emulator and, where there is one, on a GPU.
//!
//! std's test harness can't ignore a test at run time, and a test that did not run must not pass. So these tests have a
//! harness of their own. The file `tests/devices.rs` of a program whose `build.rs` makes the PTX:
//!
//! ```ignore
//! fn saxpy(device: &Device) -> Result<(), cuda_launch::Error> {
//!     assert_eq!(kernels::host::saxpy(device, 2.0, &[1.0], &[3.0])?, [5.0]);
//!     Ok(())
//! }
//!
//! cuda_launch::device_tests! { ptx: ["kernels"], tests: [saxpy] }
//! ```
//!
//! `Cargo.toml` has the feature `testing` of this crate in `[dev-dependencies]`, and
//!
//! ```toml
//! [[test]]
//! name = "devices"
//! harness = false
//! ```
//!
//! `cargo test` runs `emulator::saxpy` and `cuda0::saxpy`. Without a GPU the latter is ignored, and standard error has
//! the reason. With the environment variable [`GPU_VARIABLE`] set to `require` it fails.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::{Device, Ptx};

/// With the value `require`, a missing GPU is a failure.
pub const GPU_VARIABLE: &str = "CUDA_TEST_GPU";

/// A test: its name, and its body, which returns what is wrong.
pub type Test = (&'static str, fn(&Device) -> Result<(), String>);

/// Runs the tests on the emulator and on the first GPU, which loads the PTX. [`device_tests!`](crate::device_tests)
/// calls it with the arguments of the command line.
#[must_use]
pub fn run(ptx: &'static [Ptx], tests: &[Test]) -> ExitCode {
    let arguments = Arguments::from_args();
    let no_gpu = Device::cuda(0).err().map(|error| error.to_string());
    let required = std::env::var(GPU_VARIABLE).is_ok_and(|value| value == "require");
    if let Some(reason) = &no_gpu {
        let consequence = if required { "will fail" } else { "are ignored" };
        // Programs read the list of tests from standard output.
        eprintln!("the tests on cuda0 {consequence}: {reason}");
    }
    let ignored = no_gpu.is_some() && !required;
    libtest_mimic::run(&arguments, trials(ptx, tests, ignored)).exit_code()
}

/// Each test on each device. Those on the GPU may be ignored.
fn trials(ptx: &'static [Ptx], tests: &[Test], ignored: bool) -> Vec<Trial> {
    let emulated = tests.iter().map(|&(name, test)| {
        Trial::test(format!("emulator::{name}"), move || test(&Device::emulator()).map_err(Failed::from))
    });
    let on_gpu = tests.iter().map(|&(name, test)| {
        Trial::test(format!("cuda0::{name}"), move || on_gpu(ptx, test)).with_ignored_flag(ignored)
    });
    emulated.chain(on_gpu).collect()
}

/// Runs a test on the first GPU. Without one it fails.
fn on_gpu(ptx: &[Ptx], test: fn(&Device) -> Result<(), String>) -> Result<(), Failed> {
    let device = Device::cuda(0).map_err(|error| error.to_string())?;
    ptx.iter().try_for_each(|ptx| device.load(ptx.clone())).map_err(|error| error.to_string())?;
    Ok(test(&device)?)
}

/// The `main` of a file of tests that run on each device; see [`testing`](crate::testing).
///
/// `ptx` has the names of crates of kernels, as for [`ptx!`](crate::ptx). `tests` has functions that take a
/// [`&Device`](crate::Device) and return a `Result<(), E>`, of which `E` is `Display`.
#[macro_export]
macro_rules! device_tests {
    (ptx: [$($ptx:literal),* $(,)?], tests: [$($test:ident),* $(,)?] $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            $crate::testing::run(
                const { &[$($crate::ptx!($ptx)),*] },
                &[$((
                    stringify!($test),
                    |device| $test(device).map_err(|error| ::std::string::ToString::to_string(&error)),
                )),*],
            )
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_is_on_each_device_and_those_of_the_gpu_may_be_ignored() {
        let named: [Test; 2] = [("one", |_| Ok(())), ("two", |_| Ok(()))];
        for ignored in [false, true] {
            let trials = trials(&[], &named, ignored);
            let found: Vec<_> = trials.iter().map(|trial| (trial.name(), trial.has_ignored_flag())).collect();
            let gpu = [("cuda0::one", ignored), ("cuda0::two", ignored)];
            assert_eq!(found, [[("emulator::one", false), ("emulator::two", false)], gpu].concat());
        }
    }

    #[test]
    fn a_test_on_a_gpu_has_a_gpu_or_fails() {
        let result = on_gpu(&[], |device| if device.is_emulator() { Err("emulated".to_owned()) } else { Ok(()) });
        let no_gpu = Device::cuda(0).err().map(|error| error.to_string());
        assert_eq!(result.err().map(|failed| failed.message().unwrap_or_default().to_owned()), no_gpu);
        let wrong = on_gpu(&[], |_| Err("wrong".to_owned())).unwrap_err();
        assert_eq!(wrong.message(), Some(no_gpu.as_deref().unwrap_or("wrong")));
    }
}
