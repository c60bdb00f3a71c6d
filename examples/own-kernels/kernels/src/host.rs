//! Launches the kernels on any device: a GPU or the emulator.

use cuda_launch::{Buffer, Device, Error, Launch};
use cuda_std::half::Bf16;

use crate::bf16::{self, ProductBf16};
use crate::debugging::Divide;
use crate::histogram::{BINS, Histogram};
use crate::matrix::{self, ProductTensor, ProductTiled};
use crate::median::Median3x3;
use crate::reduce::{self, SumBlocks};
use crate::reverse::{self, ReverseBlocks};
use crate::saxpy::Saxpy;
use crate::scan::{self, AddSums, ScanBlocks};

/// `a x + y`.
pub fn saxpy(device: &Device, a: f32, x: &[f32], y: &[f32]) -> Result<Vec<f32>, Error> {
    let length = x.len() as u32;
    let x = device.upload("x", x)?;
    let mut y = device.upload("y", y)?;
    let launch = Launch::cover(x.len(), 256);
    // SAFETY: the kernel needs `length` elements of x and y, which its `lengths` check.
    unsafe { device.launch(&launch, &Saxpy { a, x: &x, y: &mut y, length })? };
    device.download(&y)
}

/// The values, each group of 256 reversed.
pub fn reversed(device: &Device, values: &[f32]) -> Result<Vec<f32>, Error> {
    let launch = Launch::cover(values.len(), reverse::THREADS);
    let length = values.len() as u32;
    let mut values = device.upload("values", values)?;
    // SAFETY: the launch has a block of `THREADS` threads for each group. `lengths` check the array.
    unsafe { device.launch(&launch, &ReverseBlocks { values: &mut values, length })? };
    device.download(&values)
}

/// The 3 x 3 median of an image.
pub fn median(device: &Device, image: &[u8], width: u32, height: u32) -> Result<Vec<u8>, Error> {
    let mut result = device.output("result", image.len())?;
    let image = device.upload("image", image)?;
    let launch = Launch::cover_2d((width as usize, height as usize), (32, 8));
    // SAFETY: `lengths` check the arrays. A size of 0 is a grid of 0 blocks, which is refused.
    unsafe { device.launch(&launch, &Median3x3 { image: &image, result: &mut result, width, height })? };
    device.download(&result)
}

/// The sum modulo 2^32: up to 64 blocks, then one for their sums.
pub fn sum(device: &Device, values: &[u32]) -> Result<u32, Error> {
    let mut values = device.upload("values", values)?;
    loop {
        let blocks = values.len().div_ceil(4 * reduce::THREADS as usize).clamp(1, 64);
        let mut sums = device.output("sums", blocks)?;
        let launch =
            Launch::flat((blocks as u32, 1), (reduce::THREADS, 1), 0).with_shared::<u32>(reduce::WARPS as usize);
        let length = values.len() as u32;
        // SAFETY: there is a sum for each block, and the launch is that of the kernel. `lengths` check the rest.
        unsafe { device.launch(&launch, &SumBlocks { values: &values, sums: &mut sums, length })? };
        if blocks == 1 {
            return Ok(device.download(&sums)?[0]);
        }
        values = sums;
    }
}

/// The inclusive prefix sums modulo 2^32.
pub fn prefix_sums(device: &Device, values: &[u32]) -> Result<Vec<u32>, Error> {
    let values = device.upload("values", values)?;
    device.download(&scanned(device, &values)?)
}

fn scanned(device: &Device, values: &Buffer<u32>) -> Result<Buffer<u32>, Error> {
    let (count, length) = (values.len(), values.len() as u32);
    let launch = Launch::cover(count, scan::THREADS);
    let shared = launch.with_shared::<u32>(2 * scan::THREADS as usize);
    let mut result = device.zeros("result", count)?;
    let mut sums = device.output("sums", launch.blocks() as usize)?;
    // SAFETY: the launch is that of the kernel. `lengths` check the arrays.
    unsafe { device.launch(&shared, &ScanBlocks { values, result: &mut result, sums: &mut sums, length })? };
    if launch.blocks() > 1 {
        let sums = scanned(device, &sums)?;
        // SAFETY: as above.
        unsafe { device.launch(&launch, &AddSums { result: &mut result, sums: &sums, length })? };
    }
    Ok(result)
}

/// The number of bytes of each value.
pub fn histogram(device: &Device, bytes: &[u8]) -> Result<Vec<u32>, Error> {
    let blocks = bytes.len().div_ceil(16 * BINS as usize).clamp(1, 256);
    let launch = Launch::flat((blocks as u32, 1), (BINS, 1), 0).with_shared::<u32>(BINS as usize);
    let length = bytes.len() as u32;
    let bytes = device.upload("bytes", bytes)?;
    let mut bins = device.zeros("bins", BINS as usize)?;
    // SAFETY: the bins are 0, and the launch is that of the kernel. `lengths` check the arrays.
    unsafe { device.launch(&launch, &Histogram { bytes: &bytes, bins: &mut bins, length })? };
    device.download(&bins)
}

/// A matrix of `rows * columns` elements, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// The number of rows.
    pub rows: u32,
    /// The number of columns.
    pub columns: u32,
    /// The elements.
    pub elements: Vec<f32>,
}

/// The product of two matrices, in the tensor cores or not.
///
/// # Panics
/// If `a` has not as many columns as `b` has rows.
pub fn product(device: &Device, a: &Matrix, b: &Matrix, tensor_cores: bool) -> Result<Matrix, Error> {
    assert_eq!(a.columns, b.rows, "the columns of a are the rows of b");
    let (rows, columns, inner) = (a.rows, b.columns, a.columns);
    let mut c = device.output("c", rows as usize * columns as usize)?;
    let a = device.upload("a", &a.elements)?;
    let b = device.upload("b", &b.elements)?;
    let outputs = (columns as usize, rows as usize);
    if tensor_cores {
        let grid = (columns.div_ceil(8), rows.div_ceil(16 * matrix::WARPS));
        let call = ProductTensor { a: &a, b: &b, c: &mut c, rows, columns, inner };
        // SAFETY: the launch is that of the kernel. `lengths` check the arrays.
        unsafe { device.launch(&Launch::flat(grid, (32, matrix::WARPS), 0), &call)? };
    } else {
        let tiles = 2 * matrix::TILE as usize * matrix::TILE as usize;
        let launch = Launch::cover_2d(outputs, (matrix::TILE, matrix::TILE)).with_shared::<f32>(tiles);
        let call = ProductTiled { a: &a, b: &b, c: &mut c, rows, columns, inner };
        // SAFETY: as above.
        unsafe { device.launch(&launch, &call)? };
    }
    Ok(Matrix { rows, columns, elements: device.download(&c)? })
}

/// The product of two matrices whose elements are rounded to bfloat16, with sums in `f32`.
///
/// # Panics
/// If `a` has not as many columns as `b` has rows.
pub fn product_bf16(device: &Device, a: &Matrix, b: &Matrix) -> Result<Matrix, Error> {
    assert_eq!(a.columns, b.rows, "the columns of a are the rows of b");
    let (rows, columns, inner) = (a.rows, b.columns, a.columns);
    let rounded = |matrix: &Matrix| matrix.elements.iter().copied().map(Bf16::from_f32).collect::<Vec<_>>();
    let mut c = device.output("c", rows as usize * columns as usize)?;
    let (a, b) = (device.upload("a", &rounded(a))?, device.upload("b", &rounded(b))?);
    let grid = (columns.div_ceil(bf16::TILE), rows.div_ceil(bf16::TILE));
    let launch = Launch::flat(grid, (32, 4), 0).with_shared::<Bf16>(bf16::SHARED);
    // SAFETY: the launch is that of the kernel. `lengths` check the arrays.
    unsafe { device.launch(&launch, &ProductBf16 { a: &a, b: &b, c: &mut c, rows, columns, inner })? };
    Ok(Matrix { rows, columns, elements: device.download(&c)? })
}

/// The quotients, and what the kernel printed on the emulator.
pub fn divide(device: &Device, values: &[f32], divisor: f32) -> Result<(Vec<f32>, Option<String>), Error> {
    let length = values.len() as u32;
    let launch = Launch::cover(values.len(), 256);
    let mut values = device.upload("values", values)?;
    let call = Divide { values: &mut values, divisor, length };
    // SAFETY: the kernel needs `length` elements, which its `lengths` check.
    let printed = device.printed(|| unsafe { device.launch(&launch, &call) })?;
    Ok((device.download(&values)?, printed))
}
