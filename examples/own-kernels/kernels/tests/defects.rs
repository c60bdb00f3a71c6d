//! Kernels with a defect each, and the report of the emulator that finds it.

use cuda_launch::{Device, Error, Launch};
use cuda_std::prelude::*;

/// The mean of the left and the right neighbour, without a test of the border: reads before and behind the image.
///
/// # Safety
/// - Not to be launched on a GPU.
#[kernel(lengths(image = width * height, result = width * height))]
pub unsafe fn mean_without_border(image: Global<u8>, result: GlobalMut<u8>, width: u32, height: u32) {
    let (x, y) = thread::index_2d();
    if x < width && y < height {
        let i = (y * width + x) as isize;
        // SAFETY: none; the emulator checks every access.
        unsafe { result.store(i, image.load(i - 1).midpoint(image.load(i + 1))) };
    }
}

/// The sum of a block without the barrier between the writes and the reads.
///
/// # Safety
/// - Not to be launched on a GPU.
#[kernel]
pub unsafe fn sum_without_barrier(values: Global<u32>, sum: GlobalMut<u32>) {
    let (tx, tile) = (thread::thread_idx_x(), Shared::<u32>::dynamic());
    // SAFETY: none; the emulator checks every access.
    unsafe { tile.store(tx, values.load(tx as isize)) };
    if tx == 0 {
        // SAFETY: none; the emulator checks every access.
        unsafe { sum.store(0, (0..thread::block_dim_x()).fold(0, |sum, k| tile.load(k).wrapping_add(sum))) };
    }
}

/// A barrier that the threads behind the end never reach.
///
/// # Safety
/// - Not to be launched on a GPU.
#[kernel(lengths(values = length))]
pub unsafe fn reverse_with_early_return(values: GlobalMut<u32>, length: u32) {
    let (tx, tile) = (thread::thread_idx_x(), Shared::<u32>::dynamic());
    if tx >= length {
        return;
    }
    // SAFETY: none; the emulator checks every access.
    unsafe {
        tile.store(tx, values.load(tx as isize));
        thread::sync_threads();
        values.store(tx as isize, tile.load(length - 1 - tx));
    }
}

/// The histogram with a load and a store in place of the atomic addition: counts are lost.
///
/// # Safety
/// - Not to be launched on a GPU.
#[kernel(lengths(bins = 256))]
pub unsafe fn histogram_without_atomics(bytes: Global<u8>, bins: GlobalMut<u32>) {
    // SAFETY: none; the emulator checks every access.
    unsafe {
        let bin = bytes.load(thread::index_1d() as isize) as isize;
        bins.store(bin, bins.load(bin) + 1);
    }
}

/// The product of two tiles without the barrier behind the loop over the tile: the next tile overwrites it.
///
/// # Safety
/// - Not to be launched on a GPU.
#[kernel(lengths(a = 2 * 16, c = 16))]
pub unsafe fn tile_without_second_barrier(a: Global<f32>, c: GlobalMut<f32>) {
    let (tx, tile) = (thread::thread_idx_x(), Shared::<f32>::dynamic());
    let mut sum = 0.0;
    // SAFETY: none; the emulator checks every access.
    unsafe {
        for part in 0..2 {
            tile.store(tx, a.load((part * 16 + tx) as isize));
            thread::sync_threads();
            for k in 0..16 {
                sum += tile.load(k);
            }
        }
        c.store(tx as isize, sum);
    }
}

/// The report of a launch, which must find a defect.
#[track_caller]
fn report(result: Result<(), Error>) -> String {
    match result {
        Err(Error::Emulator(error)) => error.to_string(),
        Err(other) => panic!("another error: {other}"),
        Ok(()) => panic!("the emulator found nothing"),
    }
}

#[test]
fn an_index_out_of_bounds() {
    let device = Device::emulator();
    let image = device.upload("image", &[1_u8; 12]).unwrap();
    let mut result = device.output("result", 12).unwrap();
    let call = MeanWithoutBorder { image: &image, result: &mut result, width: 4, height: 3 };
    // SAFETY: the emulator checks every access.
    let report = report(unsafe { device.launch(&Launch::cover_2d((4, 3), (4, 3)), &call) });
    assert!(report.contains("thread (0, 0, 0) of block (0, 0, 0): read of 1 byte"), "{report}");
    assert!(report.contains("image[-1], out of bounds: image has 12 elements of 1 byte"), "{report}");
    assert!(report.contains("image[12], out of bounds: "), "{report}");
}

#[test]
fn a_missing_barrier() {
    let device = Device::emulator();
    let values = device.upload("values", &[1_u32; 64]).unwrap();
    let mut sum = device.output("sum", 1).unwrap();
    let launch = Launch::cover(64, 64).with_shared::<u32>(64);
    // SAFETY: the emulator checks every access.
    let report = report(unsafe { device.launch(&launch, &SumWithoutBarrier { values: &values, sum: &mut sum }) });
    assert!(report.contains("of shared memory, a race: "), "{report}");
    assert!(report.contains("with no barrier between"), "{report}");
}

#[test]
fn a_barrier_that_some_threads_miss() {
    let device = Device::emulator();
    let mut values = device.upload("values", &[1_u32; 20]).unwrap();
    let launch = Launch::cover(20, 32).with_shared::<u32>(32);
    // SAFETY: the emulator checks every access.
    let report = report(unsafe { device.launch(&launch, &ReverseWithEarlyReturn { values: &mut values, length: 20 }) });
    assert!(report.contains("never reaches: it has ended"), "{report}");
}

#[test]
fn a_lost_atomic() {
    let device = Device::emulator();
    let bytes = device.upload("bytes", &[7_u8; 64]).unwrap();
    let mut bins = device.zeros("bins", 256).unwrap();
    let call = HistogramWithoutAtomics { bytes: &bytes, bins: &mut bins };
    // SAFETY: the emulator checks every access.
    let report = report(unsafe { device.launch(&Launch::cover(64, 32), &call) });
    assert!(report.contains("at bins[7], a race: "), "{report}");
}

#[test]
fn a_tile_that_is_overwritten_too_early() {
    let device = Device::emulator();
    let a = device.upload("a", &[1_f32; 32]).unwrap();
    let mut c = device.output("c", 16).unwrap();
    let launch = Launch::cover(16, 16).with_shared::<f32>(16);
    // SAFETY: the emulator checks every access.
    let report = report(unsafe { device.launch(&launch, &TileWithoutSecondBarrier { a: &a, c: &mut c }) });
    assert!(report.contains("write of 4 bytes") && report.contains("of shared memory, a race: read by"), "{report}");
}

#[test]
fn a_failed_assertion() {
    let device = Device::emulator();
    let report = report(kernels::host::divide(&device, &[1.0; 3], 0.0).map(drop));
    assert!(report.contains("assertion `the divisor is 0` failed"), "{report}");
    assert!(report.contains("debugging.rs:"), "{report}");
}
