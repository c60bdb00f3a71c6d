//! Three filters on a sequence of frames, from four threads, on each device of this machine.
//!
//! The filters ask for [`Accuracy::Exact`]: every device must return the same bits. The program fails if one does not.

use std::error::Error;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use faltung::{Accuracy, Axis, Border, Device, DeviceImage, Filter, Image, Pipeline};

const THREADS: usize = 4;

/// Blurs, sharpens, then takes the derivative in x. A derivative of 0 becomes the grey value 128.
fn filters() -> [Filter; 3] {
    let filters = [Filter::gaussian(1.5), Filter::sharpen(0.5), Filter::sobel(Axis::X).scale(0.25).offset(128.0)];
    filters.map(|filter| filter.border(Border::Mirror).accuracy(Accuracy::Exact))
}

/// Filters frames one after the other. The images between two filters stay on the device.
fn filter(device: &Device, pipeline: &Pipeline, frames: &[Image<u8>]) -> faltung::Result<Vec<Image<u8>>> {
    let stream = device.stream()?;
    let mut results = Vec::new();
    for frame in frames {
        let source = device.upload(frame, &stream)?;
        let result: DeviceImage<u8> = pipeline.run(&source, &stream)?; // enqueued
        results.push(result.download(&stream)?); // waits
    }
    Ok(results)
}

/// Filters frames from four threads, which share the device and the pipeline.
fn filter_from_threads(device: &Device, pipeline: &Pipeline, frames: &[Image<u8>]) -> faltung::Result<Vec<Image<u8>>> {
    thread::scope(|scope| {
        let parts = frames.chunks(frames.len().div_ceil(THREADS));
        let threads: Vec<_> = parts.map(|part| scope.spawn(|| filter(device, pipeline, part))).collect();
        let mut results = Vec::new();
        for thread in threads {
            results.extend(thread.join().expect("no thread panics")?);
        }
        Ok(results)
    })
}

/// Filters `count` frames on a device, prints the speed, and compares the results with those of the CPU.
fn run(device: &Device, width: usize, height: usize, count: usize) -> Result<(), Box<dyn Error>> {
    let frame = |number| Image::from_fn(width, height, |x, y| ((x + 3 * number) ^ (y + number)) as u8);
    let frames = (0..count).map(frame).collect::<Result<Vec<_>, _>>()?;

    let pipeline = device.pipeline(&filters())?;
    pipeline.prepare::<u8, u8>(width, height, 1)?; // chooses and loads the kernels
    let start = Instant::now();
    let results = filter_from_threads(device, &pipeline, &frames)?;
    let speed = count as f64 / start.elapsed().as_secs_f64();
    println!("{speed:8.1} frames/s of {width} x {height}: {}", device.describe());

    // On the CPU one filter at a time, from host memory to host memory.
    let (cpu, [blur, sharpen, sobel]) = (Device::cpu(), filters());
    for (number, (frame, result)) in frames.iter().zip(&results).enumerate() {
        let blurred: Image<f32> = cpu.apply(&blur, frame)?;
        let sharpened: Image<f32> = cpu.apply(&sharpen, &blurred)?;
        let expected: Image<u8> = cpu.apply(&sobel, &sharpened)?;
        if *result != expected {
            return Err(format!("frame {number} differs from the CPU's result").into());
        }
    }
    Ok(())
}

fn run_everywhere() -> Result<(), Box<dyn Error>> {
    run(&Device::cpu(), 1920, 1080, 64)?;
    run(&Device::emulator(1), 96, 64, 8)?;
    let gpus = faltung::devices().inspect_err(|error| println!("{error}")).unwrap_or_default();
    gpus.iter().try_for_each(|gpu| run(&Device::cuda(gpu.number)?, 1920, 1080, 256))
}

fn main() -> ExitCode {
    let result = run_everywhere();
    if let Err(error) = &result {
        eprintln!("error: {error}");
    }
    if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
