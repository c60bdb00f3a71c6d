//! The speed of the emulator, printed: `cargo test --test speed -- --nocapture`.

use std::time::Instant;

use cuda_launch::Device;
use kernels::host;

#[test]
fn threads_and_pixels_a_second() {
    let device = Device::emulator();
    let count = 1 << 20;

    let bytes: Vec<u8> = (0..count).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let start = Instant::now();
    let bins = host::histogram(&device, &bytes).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(bins.iter().sum::<u32>(), count);
    println!("histogram of one megapixel: {seconds:.2} s");

    let floats = vec![1.0; count as usize];
    let start = Instant::now();
    let found = host::saxpy(&device, 2.0, &floats, &floats).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    assert!(found.iter().all(|&value| value == 3.0));
    println!("saxpy: {:.1} million threads a second", f64::from(count) / seconds / 1e6);
}
