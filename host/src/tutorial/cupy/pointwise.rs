//! The notebook's first kernels: each element on its own.

use kernels_gpu::tutorials::pointwise::{clip_value, safe_divide};

use super::BLOCK;
use crate::tutorial::judge;
use crate::tutorial::launch::{InBlocks, Launcher};
use crate::tutorial::session::Session;
use faltung::Result;
use kernels_gpu::tutorials::pointwise::{AddConstant, AdjustBrightness2d, NormaliseAndClip};

/// Elements of the first two examples.
const COUNT: usize = 1000;
/// Columns and rows of the third.
const SIDE: usize = 512;

/// What the kernels get.
struct Inputs {
    counted: Vec<f32>,
    uniform: Vec<f32>,
    image: Vec<f32>,
}

pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(session.options.seed);
    let inputs = Inputs {
        counted: (0..COUNT).map(|i| i as f32).collect(),
        uniform: (0..COUNT).map(|_| 200.0 * random.f32() - 100.0).collect(),
        image: (0..SIDE * SIDE).map(|_| 200.0 * random.f32()).collect(),
    };
    let blocks = COUNT.div_ceil(BLOCK as usize);
    let of_the_kernel = session.of_the_kernel();
    session.note(format!("{COUNT} elements: {BLOCK} threads a block, {blocks} blocks{of_the_kernel}"));
    let [sums, clipped, brighter] = match session.launcher()? {
        Some(launcher) => on_device(&launcher, &inputs)?,
        None => on_cpu(&inputs),
    };
    judge_all(session, &inputs, &sums, &clipped, &brighter);
    Ok(())
}

/// The three kernels with the notebook's arguments.
fn on_device(launcher: &Launcher, inputs: &Inputs) -> Result<[Vec<f32>; 3]> {
    let size = COUNT as u32;
    let input = launcher.upload("input", &inputs.counted)?;
    let mut output = launcher.allocate("output", COUNT)?;
    launcher.launch(&InBlocks(BLOCK, AddConstant { input: &input, output: &mut output, constant: 10.0, size }))?;
    let sums = launcher.download(&output)?;

    let input = launcher.upload("input", &inputs.uniform)?;
    let mut output = launcher.allocate("output", COUNT)?;
    let (min, max, scale) = (-1.0, 1.0, 50.0);
    let call = NormaliseAndClip { input: &input, output: &mut output, min, max, scale, size };
    launcher.launch(&InBlocks(BLOCK, call))?;
    let clipped = launcher.download(&output)?;

    let image = launcher.upload("image", &inputs.image)?;
    let mut output = launcher.allocate("output", SIDE * SIDE)?;
    let (width, height) = (SIDE as u32, SIDE as u32);
    let call = AdjustBrightness2d { image: &image, output: &mut output, brightness: 50.0, width, height };
    launcher.launch(&InBlocks((16, 16), call))?;
    Ok([sums, clipped, launcher.download(&output)?])
}

/// The same in plain Rust, with the same two functions: they are of the device and of the host.
fn on_cpu(inputs: &Inputs) -> [Vec<f32>; 3] {
    let map = |values: &[f32], of: &dyn Fn(f32) -> f32| values.iter().map(|&value| of(value)).collect();
    [
        map(&inputs.counted, &|value| value + 10.0),
        map(&inputs.uniform, &|value| clip_value(safe_divide(value, 50.0), -1.0, 1.0)),
        map(&inputs.image, &|value| clip_value(value + 50.0, 0.0, 255.0)),
    ]
}

/// Each operation has one rounding: the result is the exact one, rounded once, to the bit.
fn judge_all(session: &mut Session<'_>, inputs: &Inputs, sums: &[f32], clipped: &[f32], brighter: &[f32]) {
    let rounded = |values: &[f32], of: &dyn Fn(f64) -> f64| -> Vec<f32> {
        values.iter().map(|&value| of(f64::from(value)) as f32).collect()
    };
    let mean = |values: &[f32]| values.iter().map(|&value| f64::from(value)).sum::<f64>() / values.len() as f64;
    let range = |values: &[f32]| {
        let (least, most) = values.iter().fold((f32::MAX, f32::MIN), |(a, b), &v| (a.min(v), b.max(v)));
        format!("[{least:.2}, {most:.2}]")
    };
    let exact = rounded(&inputs.counted, &|value| value + 10.0);
    if session.check("add_constant", judge::exact(sums, &exact)) {
        session.note(format!("  first elements: {:?}", &sums[..10]));
    }
    let exact = rounded(&inputs.uniform, &|value| (value / 50.0).clamp(-1.0, 1.0));
    if session.check("normalise_and_clip", judge::exact(clipped, &exact)) {
        session.note(format!("  input range {}, output range {}", range(&inputs.uniform), range(clipped)));
    }
    let exact = rounded(&inputs.image, &|value| (value + 50.0).clamp(0.0, 255.0));
    if session.check(format!("adjust_brightness_2d, {SIDE} x {SIDE}"), judge::exact(brighter, &exact)) {
        let (before, after) = (mean(&inputs.image), mean(brighter));
        session.note(format!("  mean brightness {before:.2} before, {after:.2} after"));
    }
}
