//! The CuPy notebook's first kernels: one element a thread, nothing shared.
//!
//! | kernel | formula |
//! | --- | --- |
//! | [`add_constant`] | `output[i] = input[i] + constant` |
//! | [`normalise_and_clip`] | `output[i] = clip(input[i] / scale, min, max)`, 0 where the scale is 0 |
//! | [`adjust_brightness_2d`] | `output[y, x] = clip(image[y, x] + brightness, 0, 255)` |
//!
//! # Thread mapping
//! Thread i of a one-dimensional grid has element i. Thread (x, y) of a two-dimensional grid has the pixel in column x
//! of row y. Threads of the last block without an element return at once.
//!
//! # Cost
//! 8 bytes an element, 4 read and 4 written, and nearly no arithmetic. So the roofline is the time of a copy. At 1,000
//! elements the launch takes longer.

use cuda_std::prelude::*;

super::listed! {
    "tutorial_pointwise";
    add_constant: 2 pointers, f32 u32;
    normalise_and_clip: 2 pointers, f32 f32 f32 u32;
    adjust_brightness_2d: 2 pointers, f32 u32 u32;
}

/// Adds `constant` to `size` elements.
///
/// # Safety
/// - `input` and `output` hold `size` elements each, and do not overlap.
/// - The grid is one-dimensional.
#[kernel]
pub unsafe fn add_constant(input: Global<f32>, output: GlobalMut<f32>, constant: f32, size: u32) {
    let i = thread::index_1d();
    if i < size {
        // SAFETY: i < size, and no other thread has i.
        unsafe { output.store(i as isize, input.load(i as isize) + constant) };
    }
}

/// `value`, limited to `min` and `max`. NaN stays NaN.
///
/// A device function is an ordinary function: what a kernel calls is compiled for the GPU. It is `inline(always)`,
/// because the PTX of this crate holds only kernels.
#[inline(always)]
#[must_use]
pub fn clip_value(value: f32, min: f32, max: f32) -> f32 {
    if value <= min {
        return min;
    }
    if value >= max {
        return max;
    }
    value
}

/// `numerator / denominator`, or 0 where the denominator is 0.
#[inline(always)]
#[must_use]
pub fn safe_divide(numerator: f32, denominator: f32) -> f32 {
    if denominator == 0.0 { 0.0 } else { numerator / denominator }
}

/// Divides by `scale` and clips.
///
/// # Safety
/// The conditions of [`add_constant`].
#[kernel]
pub unsafe fn normalise_and_clip(
    input: Global<f32>,
    output: GlobalMut<f32>,
    min: f32,
    max: f32,
    scale: f32,
    size: u32,
) {
    let i = thread::index_1d();
    if i < size {
        // SAFETY: i < size, and no other thread has i.
        unsafe { output.store(i as isize, clip_value(safe_divide(input.load(i as isize), scale), min, max)) };
    }
}

/// Makes an image brighter or darker, within 0 to 255.
///
/// # Safety
/// - `image` and `output` hold `height` rows of `width` pixels, and do not overlap.
/// - The grid is two-dimensional.
#[kernel]
pub unsafe fn adjust_brightness_2d(
    image: Global<f32>,
    output: GlobalMut<f32>,
    brightness: f32,
    width: u32,
    height: u32,
) {
    let (x, y) = thread::index_2d();
    if x < width && y < height {
        let i = y as isize * width as isize + x as isize;
        // SAFETY: x < width and y < height, and no other thread has (x, y).
        unsafe { output.store(i, clip_value(image.load(i) + brightness, 0.0, 255.0)) };
    }
}
