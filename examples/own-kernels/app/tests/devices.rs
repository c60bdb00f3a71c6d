//! The kernels on the emulator and, where there is one, on a GPU: each test has one body for both.
//!
//! Without a GPU its tests are ignored, and the first line of the output has the reason. With `CUDA_TEST_GPU=require`
//! they fail.

use cuda_launch::{Device, Error};
use kernels::host::{self, Matrix};

/// More elements than a block has threads, and no multiple of their number.
const COUNT: u32 = 70_001;

/// Numbers that look random, the same in each run.
fn numbers() -> impl Iterator<Item = u32> {
    (0..COUNT).map(|i| i.wrapping_mul(2_654_435_761))
}

fn saxpy(device: &Device) -> Result<(), Error> {
    let x: Vec<f32> = (0..COUNT).map(|i| i as f32).collect();
    let y: Vec<f32> = (0..COUNT).map(|i| 0.5 - i as f32).collect();
    let found = host::saxpy(device, 2.0, &x, &y)?;
    assert!(found.iter().zip(&x).all(|(&found, x)| found == x + 0.5));
    Ok(())
}

fn prefix_sums(device: &Device) -> Result<(), Error> {
    let values: Vec<u32> = numbers().collect();
    let found = host::prefix_sums(device, &values)?;
    let mut sum = 0_u32;
    for (i, &value) in values.iter().enumerate() {
        sum = sum.wrapping_add(value);
        assert_eq!(found[i], sum, "prefix sum {i}");
    }
    assert_eq!(host::sum(device, &values)?, sum);
    Ok(())
}

fn histogram(device: &Device) -> Result<(), Error> {
    let bytes: Vec<u8> = numbers().map(|number| (number >> 24) as u8).collect();
    let mut expected = [0; 256];
    bytes.iter().for_each(|&byte| expected[usize::from(byte)] += 1);
    assert_eq!(host::histogram(device, &bytes)?, expected);
    Ok(())
}

/// The products and sums of these integers are exact, also with the 10 bits of TF32.
fn matrix_product(device: &Device) -> Result<(), Error> {
    let matrix = |rows: u32, columns: u32| {
        let elements = numbers().take((rows * columns) as usize).map(|number| (number >> 27) as f32 - 15.0);
        Matrix { rows, columns, elements: elements.collect() }
    };
    let (a, b) = (matrix(17, 33), matrix(33, 9));
    let element = |i: usize| (0..33).map(|k| a.elements[i / 9 * 33 + k] * b.elements[k * 9 + i % 9]).sum();
    let expected: Vec<f32> = (0..17 * 9).map(element).collect();
    for tensor_cores in [false, true] {
        let found = host::product(device, &a, &b, tensor_cores)?;
        assert_eq!(found.elements, expected, "tensor cores: {tensor_cores}");
    }
    assert_eq!(host::product_bf16(device, &a, &b)?.elements, expected, "bf16");
    Ok(())
}

/// On a GPU the driver writes the text to standard output.
fn printed_text(device: &Device) -> Result<(), Error> {
    let (found, printed) = host::divide(device, &[3.0, f32::MAX], 0.5)?;
    assert_eq!(found, [6.0, f32::INFINITY]);
    assert_eq!(printed, device.is_emulator().then(|| "element 1 becomes inf, bits 7f800000\n".to_owned()));
    Ok(())
}

cuda_launch::device_tests! { ptx: ["kernels"], tests: [saxpy, prefix_sums, histogram, matrix_product, printed_text] }
