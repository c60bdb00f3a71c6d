//! The tutorials' kernels on the emulator, and on a GPU if there is one, compared with exact answers and answers in
//! f64. Also the defects of the original kernels, and the program `host tutorial`.
//!
//! These tests have their own harness, as those of `devices`. Without a GPU its tests are ignored, with the driver's
//! reason. HOST_TEST_GPU=require makes a missing device a failure. HOST_TEST_SEED sets the seed.

#[path = "tutorials/arrays.rs"]
mod arrays;
#[path = "tutorials/blurs.rs"]
mod blurs;
#[path = "tutorials/data.rs"]
mod data;
#[path = "tutorials/defects.rs"]
mod defects;
#[path = "tutorials/images.rs"]
mod images;
mod places;
#[path = "tutorials/program.rs"]
mod program;
mod seed;

use std::process::ExitCode;

use faltung::{Device, DeviceChoice};
use libtest_mimic::{Arguments, Failed, Trial};

/// A test of kernels on a device, with a seed.
type OnDevice = fn(&Device, u64) -> Result<(), Failed>;
/// A test that needs no device of its own.
type Alone = fn() -> Result<(), Failed>;

const ON_DEVICES: [(&str, OnDevice); 10] = [
    ("pointwise", arrays::pointwise),
    ("brightness", arrays::brightness),
    ("means", arrays::means),
    ("sums", arrays::sums),
    ("sums_of_integers", arrays::sums_of_integers),
    ("numba", images::numba),
    ("hpp", images::hpp),
    ("blurs", blurs::blurs),
    ("blurs_of_large_boxes", blurs::large_boxes),
    ("scipy", blurs::scipy),
];

const ALONE: [(&str, Alone); 15] = [
    ("planted::the_in_place_blur_races", defects::in_place),
    ("planted::the_notebooks_means_differ_at_the_right_end", defects::notebooks_ends),
    ("planted::the_notebooks_tree_loses_elements", defects::notebooks_tree),
    ("planted::a_tile_without_its_second_barrier_races", defects::missing_barrier),
    ("planted::wrong_answers_are_found", data::wrong_answers_are_found),
    ("refused::short_arrays", defects::short_arrays),
    ("refused::sizes_beyond_the_limits", defects::sizes),
    ("refused::arrays_of_another_launcher", defects::other_launcher),
    ("refused::an_output_that_nothing_wrote", defects::unwritten),
    ("program::every_tutorial_on_the_cpu", program::on_the_cpu),
    ("program::a_tutorial_on_the_emulator", program::on_the_emulator),
    ("program::pictures_that_exist", program::pictures_that_exist),
    ("program::devices_share_a_folder", program::devices_share_a_folder),
    ("program::what_is_wrong_is_said", program::errors),
    ("program::scipy_on_the_cpu", blurs::scipy_on_the_cpu),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let seed = seed::from_environment().unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed} (HOST_TEST_SEED sets another)");
    let no_gpu = Device::cuda(0).err().map(|error| error.to_string());
    let required = std::env::var("HOST_TEST_GPU").is_ok_and(|value| value == "require");
    if let Some(reason) = &no_gpu {
        println!("the tests on cuda:0 {}: {reason}", if required { "will fail" } else { "are ignored" });
    }
    let mut trials = Vec::new();
    for (name, test) in ON_DEVICES {
        for (device, label, ignored) in [
            (DeviceChoice::Emulator, "emulator", false),
            (DeviceChoice::Cuda(0), "cuda0", no_gpu.is_some() && !required),
        ] {
            let run = move || {
                // The order of threads is part of what is random.
                let device = match device {
                    DeviceChoice::Emulator => Device::emulator(seed),
                    other => Device::select(other)?,
                };
                test(&device, seed).map_err(|failed| with_seed(&failed, seed))
            };
            trials.push(Trial::test(format!("{label}::{name}"), run).with_ignored_flag(ignored));
        }
    }
    trials.extend(ALONE.map(|(name, test)| Trial::test(name, test)));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn with_seed(failed: &Failed, seed: u64) -> Failed {
    format!("seed {seed}: {}", failed.message().unwrap_or("no message")).into()
}
