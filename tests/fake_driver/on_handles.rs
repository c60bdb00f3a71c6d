//! The tests of the library's handles with this driver. Work begins only when a thread waits for it. So work that
//! nothing orders runs in another order than that of the calls.

use faltung::Device;
use libtest_mimic::{Failed, Trial};

use crate::Test;
use crate::fake::PAGEABLE_LATE;
use crate::handles::{self, context, foreign};
use crate::library::cleanly;

pub(crate) const TESTS: &[Test] = &[
    ("handles_planted", handles::planted),
    ("handles_planted_context", || alone("", || context::planted(0))),
    ("handles_first_and_last_of_a_device", || alone("", || context::open_and_close(0))),
    ("handles_of_two_devices", || alone("devices=2", two_devices)),
];

/// The tests of one device.
pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    let tests = handles::OF_ALL.into_iter().chain(handles::OF_CUDA).flatten();
    tests.map(|&(name, test)| Trial::test(format!("handles_{name}"), move || on_device(name, test)))
}

fn on_device(name: &str, test: fn(&Device) -> handles::Checked) -> Result<(), Failed> {
    // The context is kept whatever the kernels compute, and there the images are large.
    let more = if name.contains("context") { "kernels=skip;memory=100000000;" } else { "" };
    cleanly(&format!("{more}{PAGEABLE_LATE}"), |fake| {
        handles::run(test, Device::cuda(0)?)?;
        fake.report().no_waiting_frees()
    })
}

/// Runs what opens devices by itself.
fn alone(more: &str, test: impl FnOnce() -> handles::Checked) -> Result<(), Failed> {
    cleanly(&format!("{more};{PAGEABLE_LATE}"), |fake| {
        test()?;
        fake.report().no_waiting_frees()
    })
}

/// This driver has one context for both.
fn two_devices() -> handles::Checked {
    let device = |number| Device::cuda(number).map_err(|error| error.to_string());
    foreign::refuse_each_other(&device(0)?, &device(1)?)
}
