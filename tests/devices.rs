//! Every variant on every device, over the cases of `host::check`: the CPU, the emulator, and the GPU if there is one.
//!
//! A harness of its own, because what is tested depends on the machine: without a CUDA device its tests are reported as
//! ignored, with the driver's reason, and never as passed. HOST_TEST_GPU=require makes a missing device a failure.

use std::process::ExitCode;
use std::sync::Arc;

use host::check::{Case, Checker, Content, SEED, Verdict, cases};
use host::compare::Bound;
use host::plan::VariantChoice;
use host::{
    Border, Device, DeviceChoice, Error, Filter, Image, Layout, Mask, Operation, PixelType, Problem, View, ViewMut,
};
use kernels_gpu::entries::Variant;
use libtest_mimic::{Arguments, Failed, Trial};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// How many cases one test runs: small enough to name a region of the sweep, large enough not to flood the report.
const GROUP: usize = 200;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let seed = match std::env::var("HOST_TEST_SEED").map(|text| text.parse()) {
        Err(_) => SEED,
        Ok(Ok(seed)) => seed,
        Ok(Err(error)) => {
            eprintln!("HOST_TEST_SEED: a whole number was expected: {error}");
            return ExitCode::from(2);
        }
    };
    println!("seed {seed} (HOST_TEST_SEED sets another)");
    let groups: Vec<Arc<[Case]>> = cases(false, seed).chunks(GROUP).map(Arc::from).collect();
    let no_gpu = Device::cuda(0).err().map(|error| error.to_string());
    let required = std::env::var("HOST_TEST_GPU").is_ok_and(|value| value == "require");
    if let Some(reason) = &no_gpu {
        println!("the tests on cuda:0 {}: {reason}", if required { "will fail" } else { "are ignored" });
    }

    let shuffled = std::env::var("HOST_TEST_SEED").map_or_else(|_| fastrand::u64(..), |_| seed);
    println!("seed {shuffled} of the problems at random (HOST_TEST_SEED sets it, too)");
    /// A test of one device.
    type Test = (&'static str, fn(DeviceChoice) -> Result<(), Failed>);
    const OF_ALL: [Test; 3] = [
        ("small_images_again_and_again", again_and_again),
        ("page_locked_memory", page_locked),
        ("rows_with_gaps", rows_with_gaps),
    ];
    const OF_KERNELS: [Test; 6] = [
        ("strips", strips),
        ("strips_of_each_variant", strips_of_each),
        ("strips_of_values", strips_of_values),
        ("rounding", rounding),
        ("halves", halves),
        ("uncertain_bytes_at_the_right_edge", at_the_right_edge),
    ];
    let mut trials = Vec::new();
    for (device, device_name, ignored) in [
        (DeviceChoice::Cpu, "cpu", false),
        (DeviceChoice::Emulator, "emulator", false),
        (DeviceChoice::Cuda(0), "cuda0", no_gpu.is_some() && !required),
    ] {
        let trial = Trial::test(format!("{device_name}::problems_at_random"), move || at_random(device, shuffled));
        trials.push(trial.with_ignored_flag(ignored));
        let of_kernels: &[Test] = if device == DeviceChoice::Cpu { &[] } else { &OF_KERNELS };
        for &(name, test) in OF_ALL.iter().chain(of_kernels) {
            let trial = Trial::test(format!("{device_name}::{name}"), move || test(device));
            trials.push(trial.with_ignored_flag(ignored));
        }
    }
    for (number, group) in groups.iter().enumerate() {
        let mut add = |device: DeviceChoice, name: &str, variant: VariantChoice, ignored: bool| {
            let cases = Arc::clone(group);
            let name = format!("{}::{name}::cases_{:04}", device.to_string().replace(':', ""), number * GROUP);
            trials.push(Trial::test(name, move || run(&cases, device, variant)).with_ignored_flag(ignored));
        };
        add(DeviceChoice::Cpu, "direct", VariantChoice::Auto, false);
        for variant in Variant::ALL {
            let choice = VariantChoice::Exactly(variant);
            add(DeviceChoice::Emulator, variant.name(), choice, false);
            add(DeviceChoice::Cuda(0), variant.name(), choice, no_gpu.is_some() && !required);
        }
    }
    // Not on the emulator, which remembers who wrote each value, nor on the CPU, whose offsets are those of slices.
    let of_a_gpu: [(_, fn() -> _); 2] =
        [("cuda0::more_than_2_to_the_31_values", huge), ("cuda0::large_images_again_and_again", in_bands)];
    for (name, test) in of_a_gpu {
        trials.push(Trial::test(name, test).with_ignored_flag(no_gpu.is_some() && !required));
    }
    trials.push(Trial::test("planted::wrong_pixel", planted_wrong_pixel));
    trials.push(Trial::test("planted::unwritten_output", planted_unwritten_output));
    trials.push(Trial::test("planted::shifted_by_one", planted_shift));
    trials.push(Trial::test("planted::another_order", planted_order));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Runs the cases on a device and collects what is wrong.
fn run(cases: &[Case], device: DeviceChoice, variant: VariantChoice) -> Result<(), Failed> {
    let device = Device::select(device)?;
    let mut wrong = Vec::new();
    for case in cases {
        // What can't is passed over before the exact answer is computed.
        let eligible = !matches!(device.choice(&case.make()?.0, variant), Err(Error::Refused { .. }));
        if !eligible || !case.concerns(variant) {
            continue;
        }
        match Checker::new(case.clone())?.check(&device, variant)? {
            Verdict::Wrong(report) => wrong.push(report),
            Verdict::Right(_) | Verdict::NotEligible(_) => {}
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let shown = wrong.iter().take(10).map(String::as_str).collect::<Vec<_>>().join("\n");
    Err(format!("{} of {} cases are wrong, among them\n{shown}", wrong.len(), cases.len()).into())
}

/// Problems at random, made smaller until they are the smallest that are wrong.
fn at_random(device: DeviceChoice, seed: u64) -> Result<(), Failed> {
    let border = prop_oneof![
        Just(Border::Clamp),
        Just(Border::Reflect),
        Just(Border::Mirror),
        Just(Border::Wrap),
        (-2.0..2.0_f32).prop_map(Border::Constant),
    ];
    let kind = || proptest::sample::select(&PixelType::ALL[..]);
    let layout = (1..=4_usize, kind(), kind()).prop_map(|(channels, input, output)| Layout { channels, input, output });
    let sizes = ((1..90_usize, 1..70_usize), (1..24_usize, 1..24_usize));
    let problem = (sizes, border, any::<bool>(), any::<bool>(), 0..u64::MAX).prop_flat_map(
        |((image, mask), border, turned, special, seed)| {
            let anchor = proptest::option::of((0..mask.1, 0..mask.0));
            (anchor, -3.0..3.0_f32, Just((image, mask, border, turned, special, seed)))
        },
    );
    let problem =
        (problem, layout).prop_map(|((anchor, scale, (image, mask, border, turned, special, seed)), layout)| Case {
            layout,
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
    let variants: Vec<_> = match device.backend() {
        "cpu" => vec![VariantChoice::Auto],
        _ => Variant::ALL.map(VariantChoice::Exactly).to_vec(),
    };
    let result = runner.run(&problem, |case| {
        let fail = |text: String| TestCaseError::fail(text);
        let checker = Checker::new(case).map_err(|error| fail(error.to_string()))?;
        for &variant in &variants {
            match checker.check(&device, variant) {
                Ok(Verdict::Wrong(report)) => return Err(fail(report)),
                Err(error) => return Err(fail(error.to_string())),
                Ok(Verdict::Right(_) | Verdict::NotEligible(_)) => {}
            }
        }
        Ok(())
    });
    result.map_err(|error| format!("seed {seed}: {error}").into())
}

/// With too little memory for the whole image the answer is the same, from strips; with too little for a strip, from the CPU.
fn strips(device: DeviceChoice) -> Result<(), Failed> {
    let borders = [Border::ZERO, Border::Constant(7.5), Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap];
    let mut random = fastrand::Rng::with_seed(SEED);
    for (number, &border) in borders.iter().enumerate() {
        let (width, height) = (70 + 13 * number, 90 + 7 * number);
        let mask = (0..35).map(|_| random.f32() - 0.4).collect();
        let filter = Filter::new(Mask::new(5, 7, mask)?).border(border).anchor(number % 7, 1);
        let image = Image::new(width, height, 3, (0..width * height * 3).map(|_| random.u8(..)).collect())?;
        let problem = Problem::new(width, height, &filter)?.with_layout(Layout::of::<u8, u16>(3))?;
        let right: Image<u16> = Device::cpu().convolution(&problem, VariantChoice::Auto)?.run(&image)?;
        // About a third of what the images take, and a strip of a row or two, which pads its rows.
        for limit in [width * height * 3, 9 * (width * 9 + 64)] {
            let limited = Device::select(device)?.with_memory_limit(limit);
            let mut convolution = limited.convolution_or_cpu(&problem, VariantChoice::Auto)?;
            let note = convolution.note().unwrap_or_default();
            if !note.contains(" strips") || convolution.variant() == "direct" {
                return Err(format!("{limit} bytes: no strips, but \"{note}\"").into());
            }
            if convolution.run::<u8, u16>(&image)? != right {
                return Err(format!("{limit} bytes, {border}: other values from strips").into());
            }
            if !matches!(convolution.upload(image.values()), Err(Error::DeviceMemory { .. })) {
                return Err("an image that does not fit was said to stay on the device".into());
            }
        }
        let none = Device::select(device)?.with_memory_limit(100);
        let refused = none.convolution(&problem, VariantChoice::Auto);
        if !matches!(refused, Err(Error::DeviceMemory { needed, free: ..=100, .. }) if needed > 100) {
            return Err(format!("100 bytes were enough: {refused:?}").into());
        }
        let named = none.convolution_or_cpu(&problem, VariantChoice::Exactly(Variant::Naive));
        if !matches!(named, Err(Error::DeviceMemory { .. })) {
            return Err(format!("another variant than the one asked for: {named:?}").into());
        }
        let mut convolution = none.convolution_or_cpu(&problem, VariantChoice::Auto)?;
        if !convolution.note().unwrap_or_default().starts_with("on the CPU: device memory")
            || convolution.run::<u8, u16>(&image)? != right
        {
            return Err("the CPU did not stand in".into());
        }
    }
    Ok(())
}

/// Each variant has the same bits from strips as from the whole image, direct or not.
fn strips_of_each(device: DeviceChoice) -> Result<(), Failed> {
    let (width, height) = (150, 61);
    let mut random = fastrand::Rng::with_seed(SEED);
    let image = Image::new(width, height, 1, (0..width * height).map(|_| random.f32()).collect())?;
    for border in [Border::Constant(7.5), Border::Mirror, Border::Wrap] {
        let filter = Filter::new(Mask::gaussian(1.0, Some(3))?).border(border);
        let problem = Problem::new(width, height, &filter)?;
        for variant in
            Variant::ALL.into_iter().filter(|variant| !matches!(variant, Variant::StreamRing | Variant::Tensor))
        {
            let variant = VariantChoice::Exactly(variant);
            let right: Image = Device::select(device)?.convolution(&problem, variant)?.run(&image)?;
            // A third of what the images take.
            let limited = Device::select(device)?.with_memory_limit(width * height * 8 / 3);
            let mut convolution = limited.convolution(&problem, variant)?;
            if !convolution.note().unwrap_or_default().contains(" strips")
                || convolution.run::<f32, f32>(&image)? != right
            {
                return Err(format!("{variant}, {border}: other values from strips, or none").into());
            }
        }
    }
    Ok(())
}

/// Images of every width up to that of a tile and one more, high enough that some of the sums of each column are just between two bytes,
/// and too few of them for the tensor cores to leave all others to the sums in `f32`, too.
fn at_the_right_edge(device: DeviceChoice) -> Result<(), Failed> {
    let device = Device::select(device)?;
    let cpu = Device::cpu();
    let mut random = fastrand::Rng::with_seed(SEED);
    for (side, channels) in [(3, 1), (5, 1), (7, 1), (9, 1), (6, 1), (11, 1), (3, 3), (9, 3), (5, 4)] {
        // Large coefficients leave few digits behind the point, and so make some per cent of the sums uncertain.
        let largest = 8.0 / (side * side) as f32;
        let mask = (0..side * side).map(|_| (random.f32() - 0.4) * largest).collect();
        let filter = Filter::new(Mask::new(side, side, mask)?);
        for width in 1..=33 {
            let layout = Layout::of::<u8, u8>(channels);
            let problem = Problem::new(width, 250, &filter)?.with_layout(layout)?;
            let image: Vec<u8> = (0..problem.values()).map(|_| random.u8(..)).collect();
            let (mut right, mut found) = (vec![0_u8; image.len()], vec![0_u8; image.len()]);
            cpu.convolution(&problem, VariantChoice::Auto)?.run_values(&image, &mut right)?;
            device.convolution(&problem, VariantChoice::Exactly(Variant::Tensor))?.run_values(&image, &mut found)?;
            if let Some(at) = (0..right.len()).find(|&at| right[at] != found[at]) {
                let (y, v) = (at / (width * channels), at % (width * channels));
                let (right, found) = (right[at], found[at]);
                let what = format!("{side} x {side}, {channels} channels, width {width}, row {y}, value {v}");
                return Err(format!("{what}: {found}, not {right}").into());
            }
        }
    }
    Ok(())
}

/// An image all of whose sums are just between two bytes, so that the tensor cores decide none.
fn halves(device: DeviceChoice) -> Result<(), Failed> {
    let (width, height) = (200, 67);
    let values = (0..width * height).map(|i| [40, 48][i % width % 2] + (i / width) as u8).collect();
    let image = Image::new(width, height, 1, values)?;
    for mask in [
        Mask::new(2, 1, vec![1.0 / 16.0, 15.0 / 16.0])?,
        Mask::new(3, 3, [0.0, 0.0, 0.0, 1.0, 15.0, 0.0, 0.0, 0.0, 0.0].map(|value| value / 16.0).to_vec())?,
    ] {
        let problem = Problem::new(width, height, &Filter::new(mask).border(Border::Wrap))?;
        let problem = problem.with_layout(Layout::of::<u8, u8>(1))?;
        let right: Image<u8> = Device::cpu().convolution(&problem, VariantChoice::Auto)?.run(&image)?;
        let device = Device::select(device)?;
        let mut convolution = device.convolution(&problem, VariantChoice::Exactly(Variant::Tensor))?;
        if convolution.run::<u8, u8>(&image)? != right {
            return Err(format!("{}: not rounded to the even one", convolution.reason()).into());
        }
    }
    Ok(())
}

/// Images of other values than one `f32` through the streams, in strips of the host's: each has rows of its own above the first output
/// and none below the last.
fn strips_of_values(device: DeviceChoice) -> Result<(), Failed> {
    strips_of::<u8>(device, Variant::StreamRing, &[1, 3, 4], (7, 7), |random| random.u8(..))?;
    strips_of::<u8>(device, Variant::StreamRing, &[3, 4, 1], (4, 6), |random| random.u8(..))?;
    strips_of::<u8>(device, Variant::Tensor, &[1, 3, 4], (7, 7), |random| random.u8(..))?;
    strips_of::<u8>(device, Variant::Tensor, &[3, 4, 1], (4, 6), |random| random.u8(..))?;
    strips_of::<u16>(device, Variant::Stream, &[1, 3, 4], (7, 7), |random| random.u16(..))?;
    strips_of::<u16>(device, Variant::Stream, &[3, 4, 1], (6, 5), |random| random.u16(..))?;
    strips_of::<f32>(device, Variant::Stream, &[3, 4], (5, 5), |random| random.f32() - 0.5)
}

/// The same for one type and mask.
fn strips_of<T: host::Pixel>(
    device: DeviceChoice,
    variant: Variant,
    channels: &[usize],
    mask: (usize, usize),
    value: fn(&mut fastrand::Rng) -> T,
) -> Result<(), Failed> {
    let borders = [Border::ZERO, Border::Constant(7.0), Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap];
    let mut random = fastrand::Rng::with_seed(SEED);
    for (number, &border) in borders.iter().enumerate() {
        let (channels, width, height) = (channels[number % channels.len()], 300 + 37 * number, 80 + 7 * number);
        let coefficients = (0..mask.0 * mask.1).map(|_| random.f32() / 20.0).collect();
        let filter =
            Filter::new(Mask::new(mask.0, mask.1, coefficients)?).border(border).anchor(number % mask.1, mask.0 / 2);
        let values = (0..width * height * channels).map(|_| value(&mut random)).collect();
        let image = Image::new(width, height, channels, values)?;
        let problem = Problem::new(width, height, &filter)?.with_layout(Layout::of::<T, T>(channels))?;
        let right: Image<T> = Device::cpu().convolution(&problem, VariantChoice::Auto)?.run(&image)?;
        for limit in [width * height * channels * size_of::<T>(), width * 40 * channels * size_of::<T>()] {
            let limited = Device::select(device)?.with_memory_limit(limit);
            let mut convolution = limited.convolution(&problem, VariantChoice::Exactly(variant))?;
            if !convolution.note().unwrap_or_default().contains(" strips") {
                return Err(format!("{limit} bytes: no strips").into());
            }
            if convolution.run::<T, T>(&image)? != right {
                return Err(format!("{limit} bytes, {border}: other values from strips").into());
            }
        }
    }
    Ok(())
}

/// Halves are rounded to the even number, and what lies outside of the type's range becomes its end, as on paper.
fn rounding(device: DeviceChoice) -> Result<(), Failed> {
    let (width, height) = (520, 20);
    let image = Image::new(width, height, 1, (0..width * height).map(|i| (i * 7 % 65_536) as u16).collect())?;
    // 0.5 of each pixel, moved so that some results are below 0 and some above 65,535, and none.
    for offset in [0.0, 0.25, -9000.0, 50_000.0, f32::MAX] {
        let filter = Filter::new(Mask::new(3, 3, vec![0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0])?).offset(offset);
        let problem = Problem::new(width, height, &filter)?.with_layout(Layout::of::<u16, u16>(1))?;
        let choice = VariantChoice::Exactly(Variant::Stream);
        let found: Image<u16> = Device::select(device)?.convolution(&problem, choice)?.run(&image)?;
        for (&value, &result) in image.values().iter().zip(found.values()) {
            let expected = (f32::from(value) * 0.5 + offset).round_ties_even() as u16;
            if result != expected {
                return Err(format!("{value} * 0.5 + {offset} became {result}, not {expected}").into());
            }
        }
    }
    // Infinity minus infinity: NaN becomes 0.
    let filter = Filter::new(Mask::new(2, 1, vec![f32::INFINITY, f32::NEG_INFINITY])?);
    let problem = Problem::new(width, height, &filter)?.with_layout(Layout::of::<u16, u16>(1))?;
    let found: Image<u16> =
        Device::select(device)?.convolution(&problem, VariantChoice::Exactly(Variant::Stream))?.run(&image)?;
    let right: Image<u16> = Device::cpu().convolution(&problem, VariantChoice::Auto)?.run(&image)?;
    if found != right || !right.values()[1..width].contains(&0) {
        return Err("NaN did not become 0".into());
    }
    Ok(())
}

/// An image of more than 2^31 values, by every variant, held against the CPU at its first rows, its last rows, and where the
/// offsets outgrow 31 bits.
fn huge() -> Result<(), Failed> {
    const BAND: usize = 20;
    let (width, height) = (65_537, 32_903);
    let mut values = vec![0_u8; width * height];
    fastrand::Rng::with_seed(SEED).fill(&mut values);
    let image = Image::new(width, height, 1, values)?;
    let filter = Filter::new(Mask::gaussian(0.8, None)?).border(Border::Mirror).anchor(0, 6);
    let problem = Problem::new(width, height, &filter)?.with_layout(Layout::of::<u8, u8>(1))?;
    let device = Device::cuda(0)?;
    for variant in Variant::ALL {
        let result: Image<u8> = match device.convolution(&problem, VariantChoice::Exactly(variant)) {
            Ok(mut convolution) => convolution.run(&image)?,
            Err(Error::Refused { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        for first in [0, (1 << 31) / width - BAND / 2, height - 2 * BAND] {
            let rows = if first == 0 || first + 2 * BAND == height { 2 * BAND } else { BAND + 16 };
            // A part of the image has borders of its own above and below: only rows whose windows are in it are compared.
            let part = image.crop(0, first, width, rows)?;
            let part_problem = Problem::new(width, rows, &filter)?.with_layout(Layout::of::<u8, u8>(1))?;
            let right: Image<u8> = Device::cpu().convolution(&part_problem, VariantChoice::Auto)?.run(&part)?;
            let top = if first == 0 { 0 } else { 8 };
            let bottom = if first + rows == height { rows } else { rows - 8 };
            if let Some(y) = (top..bottom).find(|&y| result.row(first + y) != right.row(y)) {
                return Err(format!("{}: row {} differs from the CPU's", variant.name(), first + y).into());
            }
        }
    }
    Ok(())
}

/// Images of several MiB through the same convolution: on a GPU they go in bands from the second run on, where image and result lie in
/// page-locked memory, and give what they gave at first, in the results' every bit, by every variant.
fn in_bands() -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut ran = 0;
    for (height, anchor, border) in [
        (9, (4, 4), Border::ZERO),
        (9, (0, 8), Border::Mirror),
        (9, (8, 0), Border::Reflect),
        (9, (4, 4), Border::Clamp),
        (7, (3, 4), Border::Wrap),
        (31, (30, 2), Border::Mirror),
        (31, (15, 15), Border::Constant(3.0)),
    ] {
        let side = if anchor == (15, 15) { 31 } else { 9 };
        let column: Vec<f32> = (0..height).map(|_| random.f32() - 0.4).collect();
        let row: Vec<f32> = (0..side).map(|_| random.f32() - 0.4).collect();
        let mask = column.iter().flat_map(|a| row.iter().map(move |b| a * b)).collect();
        let filter = Filter::new(Mask::new(side, height, mask)?).border(border).anchor(anchor.0, anchor.1);
        ran += in_bands_of::<f32>(&filter, (1203, 1501, 1), |random| random.f32() - 0.5)?;
        ran += in_bands_of::<u16>(&filter, (1203, 701, 3), |random| random.u16(..))?;
        ran += in_bands_of::<u8>(&filter, (2500, 2003, 1), |random| random.u8(..))?;
        ran += in_bands_of::<u8>(&filter, (2048, 900, 3), |random| random.u8(..))?;
    }
    if ran > 100 { Ok(()) } else { Err(format!("only {ran} variants took part").into()) }
}

/// One problem with every variant that can, and the number of those.
fn in_bands_of<T: host::Pixel>(
    filter: &Filter,
    (width, height, channels): (usize, usize, usize),
    value: fn(&mut fastrand::Rng) -> T,
) -> Result<usize, Failed> {
    let device = Device::cuda(0)?;
    let mut random = fastrand::Rng::with_seed(SEED);
    let problem = Problem::new(width, height, filter)?.with_layout(Layout::of::<T, T>(channels))?;
    let mut image = || -> Vec<T> { (0..problem.values()).map(|_| value(&mut random)).collect() };
    let (first, second) = (image(), image());
    let mut ran = 0;
    for variant in Variant::ALL {
        let variant = VariantChoice::Exactly(variant);
        let run_once = |values: &[T]| -> Result<Vec<T>, Error> {
            let mut result = vec![T::default(); values.len()];
            device.convolution(&problem, variant)?.run_values(values, &mut result)?;
            Ok(result)
        };
        let right = match run_once(&first) {
            Ok(result) => [result, run_once(&second)?],
            Err(Error::Refused { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let mut convolution = device.convolution(&problem, variant)?;
        let mut locked = (device.page_locked::<T>(first.len())?, device.page_locked::<T>(first.len())?);
        for round in 0..6 {
            let (image, right) = if round % 2 == 0 { (&first, &right[0]) } else { (&second, &right[1]) };
            let mut found = image.clone();
            if round < 4 {
                convolution.run_values(image, &mut found)?;
            } else {
                locked.0.copy_from_slice(image);
                locked.1.copy_from_slice(image);
                convolution.run_values(&locked.0, &mut locked.1)?;
                found.copy_from_slice(&locked.1);
            }
            if found != *right {
                return Err(
                    format!("{variant}, run {round} of {width} x {height}, {}: other values", T::TYPE.name()).into()
                );
            }
        }
        ran += 1;
    }
    Ok(ran)
}

/// Small images through the same convolutions in turn: on a GPU they go another way from the second run on, and share its memory
/// and, where the kernel is the same, the place of the mask.
fn again_and_again(device: DeviceChoice) -> Result<(), Failed> {
    let device = Device::select(device)?;
    let cpu = Device::cpu();
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut problems = Vec::new();
    for (width, height, side, channels, input) in [
        (200, 37, 13, 1, PixelType::F32),
        (37, 21, 13, 1, PixelType::F32),
        (33, 50, 3, 1, PixelType::F32),
        (33, 50, 2, 1, PixelType::F32),
        (61, 20, 2, 1, PixelType::F32),
        (61, 20, 5, 3, PixelType::U8),
        (64, 20, 5, 3, PixelType::U8),
    ] {
        let mask = (0..side * side).map(|_| random.f32() - 0.4).collect();
        let filter = Filter::new(Mask::new(side, side, mask)?).border(Border::Mirror);
        let layout = Layout { channels, input, output: PixelType::F32 };
        problems.push(Problem::new(width, height, &filter)?.with_layout(layout)?);
    }
    let mut convolutions = Vec::new();
    for problem in &problems {
        convolutions.push(device.convolution(problem, VariantChoice::Exact)?);
    }
    for round in 0..4 {
        for (problem, convolution) in problems.iter().zip(&mut convolutions) {
            let (width, height, channels) = (problem.width(), problem.height(), problem.layout().channels);
            let bytes: Vec<u8> = (0..width * height * channels).map(|_| random.u8(..)).collect();
            let (found, right): (Image, Image) = if problem.layout().input == PixelType::U8 {
                let image = Image::new(width, height, channels, bytes)?;
                (convolution.run(&image)?, cpu.convolution(problem, VariantChoice::Auto)?.run(&image)?)
            } else {
                let image = Image::new(width, height, channels, bytes.into_iter().map(f32::from).collect())?;
                (convolution.run(&image)?, cpu.convolution(problem, VariantChoice::Auto)?.run(&image)?)
            };
            if let Err(difference) = host::compare::same_bits(right.values(), found.values()) {
                return Err(format!("run {round} of {width} x {height}: {difference:?}").into());
            }
        }
    }
    Ok(())
}

/// Images and results in page-locked memory, in parts of it, and beside it: the same values, and the rest of the memory as it was.
fn page_locked(device: DeviceChoice) -> Result<(), Failed> {
    let device = Device::select(device)?;
    // Rows as a GPU has them, rows that it fills up, and an image that is too large for the short way.
    page_locked_of::<f32>(&device, (200, 37, 1), 3, |random| random.f32() - 0.5)?;
    page_locked_of::<u16>(&device, (37, 21, 1), 5, |random| random.u16(..))?;
    page_locked_of::<u8>(&device, (64, 20, 3), 5, |random| random.u8(..))?;
    page_locked_of::<u8>(&device, (61, 20, 3), 2, |random| random.u8(..))?;
    page_locked_of::<f32>(&device, (1024, 1030, 1), 1, |random| random.f32())?;
    if !device.page_locked::<u16>(0)?.is_empty() {
        return Err("values in no memory".into());
    }
    let too_much = device.page_locked::<f32>(usize::MAX / 2).err();
    if !matches!(too_much, Some(Error::TooLarge { .. } | Error::HostMemory { .. })) {
        return Err(format!("more than any machine has: {too_much:?}").into());
    }
    Ok(())
}

/// One problem through more pairs of images and results than a convolution keeps in mind, then through memory that is given back and
/// asked for again.
fn page_locked_of<T: host::Pixel>(
    device: &Device,
    (width, height, channels): (usize, usize, usize),
    side: usize,
    value: fn(&mut fastrand::Rng) -> T,
) -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mask = (0..side * side).map(|_| random.f32() - 0.4).collect();
    let filter = Filter::new(Mask::new(side, side, mask)?).border(Border::Mirror);
    let problem = Problem::new(width, height, &filter)?.with_layout(Layout::of::<T, T>(channels))?;
    let mut convolution = device.convolution(&problem, VariantChoice::Exact)?;
    let cpu = Device::cpu();
    let mut on_cpu = cpu.convolution(&problem, VariantChoice::Auto)?;
    let mut held = Vec::new();
    let (values, rounds) = (problem.values(), if problem.values() > 1 << 20 { 4 } else { 40 });
    for round in 0..rounds {
        // Aligned, and not; alone in its memory, and not.
        let (before, after) = [(0, 0), (1, 3), (64, 0), (32, 5)][round % 4];
        let mut source = device.page_locked::<T>(before + values + after)?;
        let mut result = device.page_locked::<T>(before + values + after)?;
        for _ in 0..if values > 1 << 20 { 1 } else { 2 } {
            source.fill_with(|| value(&mut random));
            result.fill_with(|| value(&mut random));
            let (ordinary, kept) = (source.to_vec(), result.to_vec());
            let (ordinary, inside) = (&ordinary[before..][..values], before..before + values);
            let mut right = vec![T::default(); values];
            on_cpu.run_values(ordinary, &mut right)?;
            let mut found = right.clone();
            match round % 3 {
                0 => convolution.run_values(&source[inside.clone()], &mut result[inside.clone()])?,
                1 => convolution.run_values(ordinary, &mut result[inside.clone()])?,
                _ => {
                    found.fill_with(|| value(&mut random));
                    convolution.run_values(&source[inside.clone()], &mut found)?;
                }
            }
            if round % 3 < 2 {
                found.copy_from_slice(&result[inside.clone()]);
                if result[..before] != kept[..before] || result[inside.end..] != kept[inside.end..] {
                    return Err(format!("run {round} of {width} x {height}: wrote beside its place").into());
                }
            }
            if right != found {
                return Err(format!("run {round} of {width} x {height}, {}: other values", T::TYPE.name()).into());
            }
        }
        if round < rounds / 2 {
            held.push((source, result));
        } else {
            held.clear();
        }
    }
    Ok(())
}

/// Rows with gaps in and out: the same values, and the gaps as they were.
fn rows_with_gaps(device: DeviceChoice) -> Result<(), Failed> {
    let (width, height, channels, pitch) = (37, 21, 3, 150);
    let values: Vec<u16> = (0..height * pitch).map(|i| (i * 7919 % 65_521) as u16).collect();
    let view = View::new(width, height, channels, pitch, &values)?;
    let filter = Filter::new(Mask::gaussian(1.5, None)?).border(Border::Wrap);
    let problem = Problem::new(width, height, &filter)?.with_layout(Layout::of::<u16, f32>(channels))?;
    let dense = Image::new(width, height, channels, view.to_dense())?;
    let right: Image<f32> = Device::cpu().convolution(&problem, VariantChoice::Auto)?.run(&dense)?;
    let device = Device::select(device)?;
    let mut convolution = device.convolution(&problem, VariantChoice::Auto)?;
    let mut result = vec![-1.0_f32; height * 120];
    convolution.run_view(view, ViewMut::new(width, height, channels, 120, &mut result)?)?;
    for (y, row) in result.chunks_exact(120).enumerate() {
        if row[..111] != *right.row(y) || row[111..].iter().any(|&value| value != -1.0) {
            return Err(format!("row {y} differs").into());
        }
    }
    let other = convolution.run::<u16, u16>(&dense);
    if !matches!(other, Err(Error::OtherLayout { .. })) {
        return Err(format!("results of another type than planned: {other:?}").into());
    }
    Ok(())
}

/// Whether a case has room for a defect, and values that all defects change (NaN stays NaN).
fn plain(case: &Case) -> bool {
    case.image.0 > 3 && case.image.1 > 3 && case.content == Content::Random && case.layout == Layout::PLANE
}

/// A right answer with one defect must be told apart, or the tests above prove nothing.
fn planted(defect: impl Fn(&mut Vec<f32>)) -> Result<(), Failed> {
    for case in cases(true, SEED).into_iter().filter(plain).take(40) {
        let checker = Checker::new(case)?;
        let mut result = checker.reference().to_vec();
        let bound = Bound::direct(checker.problem());
        if !matches!(checker.judge("undamaged", &result, bound), Verdict::Right(_)) {
            return Err("the reference itself was refused".into());
        }
        defect(&mut result);
        if !matches!(checker.judge("damaged", &result, bound), Verdict::Wrong(_)) {
            return Err(format!("the defect was not seen: {:?}", checker.case()).into());
        }
    }
    Ok(())
}

fn planted_wrong_pixel() -> Result<(), Failed> {
    planted(|result| {
        let middle = result.len() / 2;
        result[middle] = f32::from_bits(result[middle].to_bits() ^ 1);
    })
}

fn planted_unwritten_output() -> Result<(), Failed> {
    planted(|result| {
        let last = result.len() - 1;
        result[last] = host::compare::POISON; // what `upload` leaves where a kernel writes nothing
    })
}

fn planted_shift() -> Result<(), Failed> {
    planted(|result| result.rotate_right(1))
}

/// The answer of a separable variant is within its bound and has not the direct sum's bits: who claims them is found out. One value
/// further off than the bound allows is found, too.
fn planted_order() -> Result<(), Failed> {
    let device = Device::emulator(1);
    for (variant, mask) in
        [(Variant::Separable, (7, 7)), (Variant::SeparableRing, (8, 9)), (Variant::SeparableTile, (9, 8))]
    {
        let case = cases(true, SEED).into_iter().find(plain).ok_or("no plain case")?;
        let (image, scale, anchor) = ((70, 40), (1.0, 0.0), None);
        let checker = Checker::new(Case { image, mask, scale, anchor, separable: true, ..case })?;
        let mut convolution = device.convolution(checker.problem(), VariantChoice::Exactly(variant))?;
        let image = checker.case().make()?.1.to_f32();
        let mut result = convolution.run::<f32, f32>(&image)?.values().to_vec();
        let (own, direct) = (convolution.bound(), Bound::direct(checker.problem()));
        if own.promises_bits() || !matches!(checker.judge("separable", &result, own), Verdict::Right(_)) {
            return Err(format!("{}: not within its own bound", variant.name()).into());
        }
        if !matches!(checker.judge("separable as direct", &result, direct), Verdict::Wrong(_)) {
            return Err(format!("{}: other bits were not seen", variant.name()).into());
        }
        // The mask's coefficients and the pixels are at most 1: so is their number the most that the absolute products sum to.
        let most = own.gamma() * (mask.0 * mask.1) as f64;
        result[1234] += 2.0 * most as f32;
        if !matches!(checker.judge("beyond the bound", &result, own), Verdict::Wrong(_)) {
            return Err(format!("{}: a value beyond the bound was not seen", variant.name()).into());
        }
    }
    Ok(())
}
