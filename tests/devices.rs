//! Every variant on every device, over the cases of `host::check`: the CPU, the emulator, and the GPU if there is one.
//!
//! These tests have their own harness, because the machine decides what can be tested. Without a CUDA device its tests
//! are reported as ignored, with the driver's reason, and never as passed.
//!
//! - `HOST_TEST_GPU=require` makes a missing device a failure.
//! - `HOST_TEST_SWEEP=full` runs every case. The default is the quick sweep: each entry, border and tile boundary once,
//!   and on the emulator a third of that for the variants that take longest.
//! - `HOST_TEST_SEED=N` sets the seed of all random data. The first lines of the output show the seeds.

#[path = "devices/bytes.rs"]
mod bytes;
#[path = "handles/mod.rs"]
mod handles;
#[path = "devices/normwise.rs"]
mod normwise;
#[path = "devices/planted.rs"]
mod planted;
mod seed;
#[path = "devices/strips.rs"]
mod strips;
#[path = "devices/transfers.rs"]
mod transfers;

use std::process::ExitCode;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use faltung::plan::VariantChoice;
use faltung::{
    Accuracy, Border, Device, DeviceChoice, Error, ErrorBound, Filter, Image, Mask, Operation, PixelFormat, PixelType,
    Problem, View, ViewMut,
};
use host::check::{Case, Checker, Content, SEED, Verdict, cases};
use kernels_gpu::registry::Variant;
use libtest_mimic::{Arguments, Failed, Trial};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use self::bytes::{at_the_right_edge, halves, interleaved_channels, recomputed, rounding};
use self::normwise::normwise_integers;
use self::planted::{planted_order, planted_shift, planted_unwritten_output, planted_wrong_pixel};
use self::strips::{strips, strips_of_each, strips_of_values};
use self::transfers::{huge, page_locked, repeated_in_bands, repeated_small_images, rows_with_gaps};

/// Tests beside which no other one may run. One counts the device's free memory. During a capture the driver fails
/// `cuCtxSynchronize` of any thread, which many tests call, and ends the capture. Work in the legacy default stream
/// also ends the capture of a blocking stream.
const ALONE: [&str; 4] = [
    "for_device_images",
    "array_filters_beside_a_capture",
    "array_filters_in_a_graph",
    "foreign_streams_beside_a_capture",
];

/// The number of cases of one test. A failure names a region of the sweep, and the report stays short.
const GROUP: usize = 50;

/// In the quick sweep the emulator runs the variants that take longest on one case of so many.
const ONE_OF: usize = 3;

/// Consecutive cases of the sweep, with the exact answers. The first device that needs an answer computes it for all.
struct Group {
    /// The number of the first case.
    first: usize,
    cases: Vec<(Case, OnceLock<Checker>)>,
    quick: bool,
}

impl Group {
    fn new(first: usize, cases: &[Case], quick: bool) -> Self {
        Self { first, cases: cases.iter().map(|case| (case.clone(), OnceLock::new())).collect(), quick }
    }

    /// Runs all variants of a device on the cases, and collects what is wrong.
    fn run(&self, device: DeviceChoice) -> Result<(), Failed> {
        let device = Device::select(device)?;
        let is_emulated = device.backend() == "emulator";
        let mut wrong = Vec::new();
        for (number, (case, checker)) in (self.first..).zip(&self.cases) {
            let is_thinned = is_emulated && self.quick && number % ONE_OF != 0;
            let checker = checker.get_or_init(|| Checker::new(case.clone()).expect("each case is a problem"));
            // The CPU's results of f32 are the same in the classes Bounded and Normwise.
            let is_other = |accuracy| accuracy != Accuracy::Normwise || case.format.output != PixelType::F32;
            let is_wanted = |&(variant, accuracy): &(_, _)| {
                is_other(accuracy)
                    && case.concerns(variant)
                    && !(is_emulated && takes_long(case, variant))
                    && !(is_thinned && takes_longest(variant))
            };
            for (variant, accuracy) in variants(&device).into_iter().filter(is_wanted) {
                if let Verdict::Wrong(report) = checker.check(&device, variant, accuracy)? {
                    wrong.push(report);
                }
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let shown = wrong.iter().take(10).map(String::as_str).collect::<Vec<_>>().join("\n");
        Err(format!("{} answers to {} cases are wrong, among them\n{shown}", wrong.len(), self.cases.len()).into())
    }
}

/// Whether the emulator takes long for a variant that computes all products. It has cases with fewer of them.
fn takes_long(case: &Case, choice: VariantChoice) -> bool {
    let most = match choice.named() {
        Some(Variant::Naive | Variant::ConstantMask | Variant::SharedTile | Variant::SharedTileAsync) => 4_000_000,
        Some(Variant::RegisterTile | Variant::SlidingWindow | Variant::SlidingWindowPlanar) => 16_000_000,
        // These variants recompute in order what they can't prove.
        Some(Variant::FftTile | Variant::FftPasses) if case.content != Content::Light => 1_000_000,
        _ => return false,
    };
    case.image.0 * case.image.1 * case.mask.0 * case.mask.1 * case.format.channels > most
}

/// Whether a variant takes most of the emulator's time.
fn takes_longest(choice: VariantChoice) -> bool {
    match choice.named() {
        // These have the most threads and barriers for a result.
        Some(Variant::FftTile | Variant::FftPasses | Variant::SeparableTensorCore) => true,
        // These have a load for each product.
        Some(Variant::Naive | Variant::ConstantMask | Variant::SharedTile) => true,
        // These have many barriers, too.
        Some(Variant::SeparableRing | Variant::SeparableBlockTile | Variant::TensorCoreU8) => true,
        _ => false,
    }
}

/// What a device computes with. On the CPU the accuracy class decides about the method.
fn variants(device: &Device) -> Vec<(VariantChoice, Accuracy)> {
    match device.backend() {
        "cpu" => Accuracy::ALL.map(|accuracy| (VariantChoice::Auto, accuracy)).into(),
        _ => Variant::ALL.map(|variant| (VariantChoice::Named(variant), Accuracy::default())).into(),
    }
}

/// A test of one device.
type Test = (&'static str, fn(DeviceChoice) -> Result<(), Failed>);

/// The tests of this file for every device.
const OF_ALL: [Test; 3] = [
    ("repeated_small_images", repeated_small_images),
    ("page_locked_memory", page_locked),
    ("rows_with_gaps", rows_with_gaps),
];

/// The tests of this file for devices that run the kernels.
const OF_KERNELS: [Test; 9] = [
    ("normwise_integers", normwise_integers),
    ("strips", strips),
    ("strips_of_each_variant", strips_of_each),
    ("strips_of_values", strips_of_values),
    ("rounding", rounding),
    ("halves", halves),
    ("uncertain_bytes_at_the_right_edge", at_the_right_edge),
    ("recomputed_bytes", recomputed),
    ("interleaved_channels", interleaved_channels),
];

/// All tests of a device. `seed` is that of the random problems.
fn trials_of(device: DeviceChoice, device_name: &str, groups: &[Arc<Group>], seed: u64) -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut add = |name: String, alone: bool, test: Box<dyn FnOnce() -> Result<(), Failed> + Send>| {
        trials.push(Trial::test(format!("{device_name}::{name}"), move || on(device, alone, test)));
    };
    add("problems_at_random".to_owned(), false, Box::new(move || at_random(device, seed)));
    for group in groups.iter().map(Arc::clone) {
        add(format!("cases_{:04}", group.first), false, Box::new(move || group.run(device)));
    }
    let of_kernels: &[Test] = if device == DeviceChoice::Cpu { &[] } else { &OF_KERNELS };
    for &(name, test) in OF_ALL.iter().chain(of_kernels) {
        add(name.to_owned(), false, Box::new(move || test(device)));
    }
    let of_cuda: &[_] = if device == DeviceChoice::Cuda(0) { &handles::OF_CUDA } else { &[] };
    for &(name, test) in handles::OF_ALL.iter().chain(of_cuda).copied().flatten() {
        let run = move || handles::run(test, Device::select(device)?);
        add(name.to_owned(), ALONE.contains(&name), Box::new(run));
    }
    trials
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let seed = seed::from_environment().unwrap_or(SEED);
    let quick = match std::env::var("HOST_TEST_SWEEP").as_deref() {
        Err(_) | Ok("quick") => true,
        Ok("full") => false,
        Ok(other) => {
            eprintln!("HOST_TEST_SWEEP: quick or full was expected, not {other:?}");
            return ExitCode::from(2);
        }
    };
    let cases = cases(quick, seed);
    println!("{} cases of seed {seed} (HOST_TEST_SEED sets another, HOST_TEST_SWEEP=full runs all)", cases.len());
    let groups = cases.chunks(GROUP).zip((0..).step_by(GROUP));
    let groups: Vec<Arc<Group>> = groups.map(|(cases, first)| Arc::new(Group::new(first, cases, quick))).collect();
    let no_gpu = Device::cuda(0).err().map(|error| error.to_string());
    let required = std::env::var("HOST_TEST_GPU").is_ok_and(|value| value == "require");
    if let Some(reason) = &no_gpu {
        println!("the tests on cuda:0 {}: {reason}", if required { "will fail" } else { "are ignored" });
    }

    let shuffled = seed::from_environment().unwrap_or_else(|| fastrand::u64(..));
    println!("seed {shuffled} of the problems at random (HOST_TEST_SEED sets it, too)");
    let is_gpu_ignored = no_gpu.is_some() && !required;
    let mut trials = Vec::new();
    for (device, device_name, ignored) in [
        (DeviceChoice::Cpu, "cpu", false),
        (DeviceChoice::Emulator, "emulator", false),
        (DeviceChoice::Cuda(0), "cuda0", is_gpu_ignored),
    ] {
        let of_device = trials_of(device, device_name, &groups, shuffled);
        trials.extend(of_device.into_iter().map(|trial| trial.with_ignored_flag(ignored)));
    }
    // Large images need a GPU. The emulator would record the writer of each value, and the CPU's offsets are those of
    // slices.
    let of_a_gpu: [(_, fn() -> _); 4] = [
        ("cuda0::more_than_2_to_the_31_values", huge),
        ("cuda0::repeated_large_images", repeated_in_bands),
        ("cuda0::the_current_context_is_kept_by_the_first_handle_and_the_last", || {
            Ok(handles::context::open_and_close(0)?)
        }),
        ("cuda0::planted_context", || Ok(handles::context::planted(0)?)),
    ];
    for (name, test) in of_a_gpu {
        let run = move || on(DeviceChoice::Cuda(0), false, test);
        trials.push(Trial::test(name, run).with_ignored_flag(is_gpu_ignored));
    }
    trials.push(Trial::test("planted::wrong_pixel", planted_wrong_pixel));
    trials.push(Trial::test("planted::unwritten_output", planted_unwritten_output));
    trials.push(Trial::test("planted::shifted_by_one", planted_shift));
    trials.push(Trial::test("planted::another_order", planted_order));
    trials.push(Trial::test("planted::handles", handles::planted));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Runs a test. On a CUDA device those that are `alone` run beside no other one.
fn on(device: DeviceChoice, alone: bool, test: impl FnOnce() -> Result<(), Failed>) -> Result<(), Failed> {
    static ALONE: RwLock<()> = RwLock::new(());
    let _guards = match device {
        DeviceChoice::Cuda(_) if alone => (Some(ALONE.write().unwrap_or_else(PoisonError::into_inner)), None),
        DeviceChoice::Cuda(_) => (None, Some(ALONE.read().unwrap_or_else(PoisonError::into_inner))),
        _ => (None, None),
    };
    test()
}

/// Random problems. A failing problem is reduced to the smallest one that fails.
fn at_random(device: DeviceChoice, seed: u64) -> Result<(), Failed> {
    let border = prop_oneof![
        Just(Border::Clamp),
        Just(Border::Reflect),
        Just(Border::Mirror),
        Just(Border::Wrap),
        (-2.0..2.0_f32).prop_map(Border::Constant),
    ];
    let kind = || proptest::sample::select(&PixelType::ALL[..]);
    let format =
        (1..=4_usize, kind(), kind()).prop_map(|(channels, input, output)| PixelFormat { channels, input, output });
    let sizes = ((1..90_usize, 1..70_usize), (1..24_usize, 1..24_usize));
    let problem = (sizes, border, any::<bool>(), any::<bool>(), 0..u64::MAX).prop_flat_map(
        |((image, mask), border, turned, special, seed)| {
            let anchor = proptest::option::of((0..mask.1, 0..mask.0));
            (anchor, -3.0..3.0_f32, Just((image, mask, border, turned, special, seed)))
        },
    );
    let problem =
        (problem, format).prop_map(|((anchor, scale, (image, mask, border, turned, special, seed)), format)| Case {
            format,
            separable: seed.is_multiple_of(3),
            image,
            mask,
            border,
            operation: if turned { Operation::Convolve } else { Operation::Correlate },
            anchor,
            scale: if scale < 0.0 { (scale, 0.5) } else { (1.0, 0.0) },
            content: if special { Content::Special } else { Content::Random },
            seed,
        });
    let device = Device::select(device)?;
    let cases = if device.backend() == "emulator" { 60 } else { 500 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let bytes: Vec<u8> = std::iter::repeat_n(seed.to_le_bytes(), 4).flatten().collect();
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let variants = variants(&device);
    let result = runner.run(&problem, |case| {
        let fail = |text: String| TestCaseError::fail(text);
        let checker = Checker::new(case).map_err(|error| fail(error.to_string()))?;
        for &(variant, accuracy) in &variants {
            match checker.check(&device, variant, accuracy) {
                Ok(Verdict::Wrong(report)) => return Err(fail(report)),
                Err(error) => return Err(fail(error.to_string())),
                Ok(Verdict::Right(_) | Verdict::NotEligible(_)) => {}
            }
        }
        Ok(())
    });
    result.map_err(|error| format!("seed {seed}: {error}").into())
}
