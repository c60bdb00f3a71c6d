//! Frames of 4096 x 4096 `f32` in page-locked memory: how many a second, in three ways.
//!
//! `cargo run --release -p faltung --example batch`

use std::time::Instant;

use faltung::{Device, DeviceImage, Filter, PageLocked, Prepared, Problem, Result, VariantChoice, View, ViewMut};

const SIDE: usize = 4096;
const FRAMES: usize = 16;

fn view(frame: &PageLocked<f32>) -> Result<View<'_, f32>> {
    View::new(SIDE, SIDE, 1, SIDE, frame)
}

fn view_mut(frame: &mut PageLocked<f32>) -> Result<ViewMut<'_, f32>> {
    ViewMut::new(SIDE, SIDE, 1, SIDE, frame)
}

/// Copies each frame to the device, filters it, copies the result back, and only then begins the next one.
fn in_steps(
    device: &Device,
    prepared: &Prepared,
    frames: &[PageLocked<f32>],
    results: &mut [PageLocked<f32>],
) -> Result<()> {
    let stream = device.stream()?;
    for (frame, result) in frames.iter().zip(results) {
        let source = device.upload_view(view(frame)?, &stream)?;
        let filtered: DeviceImage<f32> = prepared.run(&source, &stream)?;
        filtered.download_into(view_mut(result)?, &stream)?;
    }
    Ok(())
}

/// Filters frame after frame. The copies of one frame overlap with each other, in bands of rows.
fn one_by_one(prepared: &Prepared, frames: &[PageLocked<f32>], results: &mut [PageLocked<f32>]) -> Result<()> {
    for (frame, result) in frames.iter().zip(results) {
        prepared.apply_view(view(frame)?, view_mut(result)?)?;
    }
    Ok(())
}

/// Filters all frames. The copies of one frame overlap with those of others, too.
fn in_a_batch(prepared: &Prepared, frames: &[PageLocked<f32>], results: &mut [PageLocked<f32>]) -> Result<()> {
    let sources = frames.iter().map(view).collect::<Result<Vec<_>>>()?;
    let mut results = results.iter_mut().map(view_mut).collect::<Result<Vec<_>>>()?;
    prepared.run_batch(&sources, &mut results)
}

fn main() -> Result<()> {
    let device = Device::auto();
    let problem = Problem::new(SIDE, SIDE, &Filter::gaussian(1.0))?;
    let prepared = device.prepare(&problem, VariantChoice::Auto)?;
    let locked = || (0..FRAMES).map(|_| device.page_locked(SIDE * SIDE)).collect::<Result<Vec<_>>>();
    let (mut frames, mut results) = (locked()?, locked()?);
    for (number, frame) in frames.iter_mut().enumerate() {
        frame.fill(number as f32);
    }
    println!("{}, {}", device.describe(), prepared.variant());
    // The first round makes streams and memory.
    for round in 0..4 {
        let mut time = |name: &str, run: &mut dyn FnMut(&mut [PageLocked<f32>]) -> Result<()>| -> Result<()> {
            let start = Instant::now();
            run(&mut results)?;
            let rate = FRAMES as f64 / start.elapsed().as_secs_f64();
            println!("round {round}: {rate:7.1} frames/s {name}");
            Ok(())
        };
        time("in steps", &mut |results| in_steps(&device, &prepared, &frames, results))?;
        time("one by one", &mut |results| one_by_one(&prepared, &frames, results))?;
        time("in a batch", &mut |results| in_a_batch(&prepared, &frames, results))?;
    }
    Ok(())
}
