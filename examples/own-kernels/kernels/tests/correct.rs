//! Each kernel in the emulator against a plain computation.

use cuda_launch::{Device, Launch};
use kernels::generic::{MultiplyX1F32, MultiplyX4U32};
use kernels::host::{self, Matrix};

/// Numbers that look random, the same in each run.
fn numbers(count: usize) -> impl Iterator<Item = u32> {
    let mut state = 1_u64;
    (0..count).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    })
}

#[test]
fn saxpy_is_a_x_plus_y() -> Result<(), cuda_launch::Error> {
    let device = Device::emulator();
    let x: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let y: Vec<f32> = (0..1000).map(|i| 0.5 - i as f32).collect();
    let found = host::saxpy(&device, 2.0, &x, &y)?;
    assert!(found.iter().enumerate().all(|(i, &value)| value == i as f32 + 0.5));
    Ok(())
}

#[test]
fn an_array_that_is_too_short_is_refused() {
    let error = host::saxpy(&Device::emulator(), 2.0, &[1.0; 1000], &[1.0; 999]).unwrap_err();
    assert_eq!(error.to_string(), "saxpy: y must have at least 1000 elements, but has 999");
}

#[test]
fn groups_of_256_are_reversed() -> Result<(), cuda_launch::Error> {
    for count in [1, 255, 256, 1000] {
        let values: Vec<f32> = (0..count).map(|i| i as f32).collect();
        let wanted: Vec<f32> = values.chunks(256).flat_map(|group| group.iter().rev().copied()).collect();
        assert_eq!(host::reversed(&Device::emulator(), &values)?, wanted);
    }
    Ok(())
}

#[test]
fn medians_are_those_of_sorted_windows() {
    for (width, height) in [(1, 1), (1, 5), (33, 9), (70, 41)] {
        let image: Vec<u8> = numbers(width * height).map(|number| number as u8).collect();
        let found = host::median(&Device::emulator(), &image, width as u32, height as u32).unwrap();
        for (i, &median) in found.iter().enumerate() {
            let (x, y) = (i % width, i / width);
            let near = |at: usize, offset: usize, size: usize| (at + offset).saturating_sub(1).min(size - 1);
            let pixel = |k: usize| image[near(y, k / 3, height) * width + near(x, k % 3, width)];
            let mut window: Vec<u8> = (0..9).map(pixel).collect();
            window.sort_unstable();
            assert_eq!(median, window[4], "{width} x {height}, pixel ({x}, {y})");
        }
    }
}

#[test]
fn sums_are_complete() {
    for count in [1, 31, 32, 33, 1024, 1025, 70_001] {
        let values: Vec<u32> = numbers(count).collect();
        let expected = values.iter().copied().fold(0, u32::wrapping_add);
        assert_eq!(host::sum(&Device::emulator(), &values).unwrap(), expected, "{count} values");
    }
}

#[test]
fn prefix_sums_are_complete() {
    // One block, two, and so many that their sums are scanned by several blocks.
    for count in [1, 255, 256, 257, 70_001] {
        let values: Vec<u32> = numbers(count).collect();
        let add = |sum: &mut u32, &value: &u32| {
            *sum = sum.wrapping_add(value);
            Some(*sum)
        };
        let expected: Vec<u32> = values.iter().scan(0, add).collect();
        let found = host::prefix_sums(&Device::emulator(), &values).unwrap();
        let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!((found.len(), wrong), (count, None), "the first wrong index of {count}");
    }
}

#[test]
fn histograms_count_each_byte() {
    for count in [1, 255, 4097, 100_003] {
        let bytes: Vec<u8> = numbers(count).map(|number| (number as u8) & (number >> 8) as u8).collect();
        let mut expected = [0; 256];
        bytes.iter().for_each(|&byte| expected[usize::from(byte)] += 1);
        let found = host::histogram(&Device::emulator(), &bytes).unwrap();
        assert!(found == expected, "{count} bytes");
    }
}

#[test]
fn products_are_exact_for_small_integers() {
    for (rows, columns, inner) in [(1, 1, 1), (16, 8, 8), (17, 9, 33), (70, 50, 40)] {
        let matrix = |rows: u32, columns: u32, most: u32| {
            let elements = numbers((rows * columns) as usize).map(|number| (number % most) as f32 - 7.0);
            Matrix { rows, columns, elements: elements.collect() }
        };
        let (a, b) = (matrix(rows, inner, 31), matrix(inner, columns, 17));
        let element = |i: u32| {
            let of = |k: u32| {
                a.elements[(i / columns * inner + k) as usize] * b.elements[(k * columns + i % columns) as usize]
            };
            (0..inner).map(of).sum::<f32>()
        };
        let expected: Vec<f32> = (0..rows * columns).map(element).collect();
        for tensor_cores in [false, true] {
            let found = host::product(&Device::emulator(), &a, &b, tensor_cores).unwrap();
            let what = format!("{rows} x {inner} by {inner} x {columns}, tensor cores: {tensor_cores}");
            assert!(found.elements == expected, "{what}");
        }
        let found = host::product_bf16(&Device::emulator(), &a, &b).unwrap();
        assert!(found.elements == expected, "{rows} x {inner} by {inner} x {columns}, bf16");
    }
}

#[test]
fn what_a_kernel_prints_can_be_compared() -> Result<(), cuda_launch::Error> {
    let (found, printed) = host::divide(&Device::emulator(), &[3.0, f32::MAX, -8.0], 0.5)?;
    assert_eq!(found, [6.0, f32::INFINITY, -16.0]);
    assert_eq!(printed.unwrap(), "element 1 becomes inf, bits 7f800000\n");
    Ok(())
}

#[test]
fn instances_of_a_generic_kernel_multiply() -> Result<(), cuda_launch::Error> {
    let device = Device::emulator();
    let mut floats = device.upload("floats", &[1.0_f32, 2.0, 3.0])?;
    let mut integers = device.upload("integers", &[1_u32, 2, 3, 4, 5])?;
    // SAFETY: the arrays have `length` elements, which `lengths` check, and there are enough threads.
    unsafe {
        device.launch(&Launch::cover(3, 32), &MultiplyX1F32 { values: &mut floats, factor: 0.5, length: 3 })?;
        device.launch(&Launch::cover(2, 32), &MultiplyX4U32 { values: &mut integers, factor: 3, length: 5 })?;
    }
    assert_eq!(device.download(&floats)?, [0.5, 1.0, 1.5]);
    assert_eq!(device.download(&integers)?, [3, 6, 9, 12, 15]);
    Ok(())
}
