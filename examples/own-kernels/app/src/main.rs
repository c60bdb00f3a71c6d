//! Runs every kernel on a GPU, or on the emulator where there is none, and compares the results with plain
//! computations.

use cuda_launch::{Device, Error, Launch};
use kernels::histogram::{BINS, Histogram};
use kernels::host::{self, Matrix};

/// The GPU with the kernels' PTX, or the emulator.
fn open() -> Result<Device, Error> {
    match Device::cuda(0) {
        Ok(gpu) => {
            gpu.load(cuda_launch::ptx!("kernels"))?;
            println!("on GPU 0");
            Ok(gpu)
        }
        Err(error) => {
            println!("on the emulator ({error})");
            Ok(Device::emulator())
        }
    }
}

/// Prints whether a kernel's result is right.
fn report(name: &str, is_right: bool) -> Result<(), String> {
    println!("{name:>16}: {}", if is_right { "right" } else { "WRONG" });
    if is_right { Ok(()) } else { Err(format!("{name} is wrong")) }
}

fn run(device: &Device) -> Result<(), Box<dyn std::error::Error>> {
    let count = 100_003_u32;
    let floats: Vec<f32> = (0..count).map(|i| i as f32).collect();
    let found = host::saxpy(device, 2.0, &floats, &floats)?;
    report("saxpy", found.iter().zip(&floats).all(|(found, x)| *found == 3.0 * x))?;

    let (width, height) = (127, 65);
    let image: Vec<u8> = (0..width * height).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let found = host::median(device, &image, width, height)?;
    let median = |i: usize| {
        let (x, y) = (i as i32 % width as i32, i as i32 / width as i32);
        let near = |at: i32, size: u32| at.clamp(0, size as i32 - 1) as u32;
        let pixel = |k: i32| image[(near(y + k / 3 - 1, height) * width + near(x + k % 3 - 1, width)) as usize];
        let mut window: Vec<u8> = (0..9).map(pixel).collect();
        window.sort_unstable();
        window[4]
    };
    report("median_3x3", (0..image.len()).all(|i| found[i] == median(i)))?;

    let values: Vec<u32> = (0..count).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let sum = values.iter().copied().fold(0, u32::wrapping_add);
    report("sum_blocks", host::sum(device, &values)? == sum)?;
    let found = host::prefix_sums(device, &values)?;
    let step = |i: usize| found[i].wrapping_sub(if i > 0 { found[i - 1] } else { 0 });
    report("scan_blocks", (0..values.len()).all(|i| step(i) == values[i]))?;

    let bytes: Vec<u8> = values.iter().map(|value| (value >> 24) as u8).collect();
    let found = host::histogram(device, &bytes)?;
    report(
        "histogram",
        (0..256).all(|bin| bytes.iter().filter(|byte| **byte as usize == bin).count() as u32 == found[bin]),
    )?;

    // Integers whose products and sums are exact, also with the 10 bits of TF32.
    let matrix = |rows: u32, columns: u32| {
        let elements = (0..rows * columns).map(|i| (i * 7 % 31) as f32 - 15.0).collect();
        Matrix { rows, columns, elements }
    };
    let (a, b) = (matrix(130, 70), matrix(70, 90));
    let element = |i: usize| -> f32 {
        let (row, column) = (i / 90, i % 90);
        (0..70).map(|k| a.elements[row * 70 + k] * b.elements[k * 90 + column]).sum()
    };
    for (name, tensor_cores) in [("product_tiled", false), ("product_tensor", true)] {
        let found = host::product(device, &a, &b, tensor_cores)?;
        report(name, (0..found.elements.len()).all(|i| found.elements[i] == element(i)))?;
    }
    let found = host::product_bf16(device, &a, &b)?;
    report("product_bf16", (0..found.elements.len()).all(|i| found.elements[i] == element(i)))?;
    time(device)
}

/// The time of one kernel, on a GPU for more data.
fn time(device: &Device) -> Result<(), Box<dyn std::error::Error>> {
    let count = if device.is_emulator() { 1 << 20 } else { 1 << 28 };
    let bytes = device.upload("bytes", &vec![17_u8; count])?;
    let mut bins = device.zeros("bins", BINS as usize)?;
    let launch = Launch::flat((1056, 1), (BINS, 1), 0).with_shared::<u32>(BINS as usize);
    let mut times = Vec::new();
    for _ in 0..3 {
        let call = Histogram { bytes: &bytes, bins: &mut bins, length: count as u32 };
        // SAFETY: the bins were set, and the launch is that of the kernel. `lengths` check the arrays.
        times.push(device.time(|| unsafe { device.launch(&launch, &call) })?);
    }
    // All bytes in one bin: the most that atomic additions to one element can cost.
    report("counts", device.download(&bins)?[17] == 3 * count as u32)?;
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    println!("histogram of {count} equal bytes: {least:.3} ms, the least of {} runs", times.len());
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run(&open()?)
}
