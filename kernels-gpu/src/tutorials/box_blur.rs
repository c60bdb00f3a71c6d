//! ROCm's tutorial on stencils: a blur of 8-bit pixels, all products of a mask of equal coefficients.
//!
//! `R[y, x] = round(255 * sum over i, j of M[j, i] * I[y + j - mask_height / 2, x + i - mask_width / 2] / 255)`
//!
//! Positions outside of the image are skipped: the sum has fewer terms there and is not made up for it, so that edges get
//! darker. Sums in f32 as there, each pixel divided by 255; the result is rounded half to even, where the tutorial's
//! conversion cuts off.
//!
//! # Thread mapping
//! One thread a pixel, blocks of 16 x 16: a warp is two rows of 16 pixels.
//!
//! # In place, or not
//! The tutorial reads and writes the *same* image. A thread then reads pixels that others have already replaced, which
//! ones depends on the order in which blocks happen to run: a race, and a different picture on each device.
//! [`box_blur`] writes to a second image. `box_blur_in_place` is the tutorial's way, for the emulator alone, which finds the race; it
//! is not compiled for the GPU.
//!
//! # What it costs
//! 200 x 200 = 40,000 products a pixel, each with two loads, a division and four comparisons; and yet all coefficients are the
//! same. [`box_separable`](super::box_separable) takes 400 loads a pixel for the same sum, [`box_running`](super::box_running)
//! from 5 on.

use cuda_std::prelude::*;

use crate::abi::pixel::Pixel;

super::listed! {
    "tutorial_box_blur";
    box_blur: 3 pointers, u32 u32 u32 u32;
}

/// Threads of a block in x and y, as in the tutorial.
pub const BLOCK: (u32, u32) = (16, 16);

/// The blurred pixel in column `x`, row `y`, both inside.
///
/// # Safety
/// As for [`box_blur`].
#[inline(always)]
#[track_caller]
unsafe fn blurred(image: Global<u8>, mask: Global<f32>, x: u32, y: u32, size: (u32, u32), mask_size: (u32, u32)) -> u8 {
    let (width, height) = (size.0 as i32, size.1 as i32);
    let (left, top) = (x as i32 - mask_size.0 as i32 / 2, y as i32 - mask_size.1 as i32 / 2);
    let mut sum = 0.0;
    for i in warp::lockstep(0..mask_size.0 as i32) {
        for j in warp::lockstep(0..mask_size.1 as i32) {
            let (image_x, image_y) = (left + i, top + j);
            if image_x < 0 || image_x >= width || image_y < 0 || image_y >= height {
                continue;
            }
            let of_image = image_y as isize * width as isize + image_x as isize;
            let of_mask = j as isize * mask_size.0 as isize + i as isize;
            // SAFETY: the position lies in the image, as was just asked, (j, i) in the mask.
            unsafe { sum += f32::from(image.load(of_image)) / 255.0 * mask.load(of_mask) };
        }
    }
    u8::from_f32(sum * 255.0)
}

/// The tutorial's kernel, with a second image for the result.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels, `mask` `mask_width * mask_height` coefficients; `result` overlaps
///   neither.
/// - The sides are below 2^30. The grid is two-dimensional.
#[kernel]
pub unsafe fn box_blur(
    image: Global<u8>,
    result: GlobalMut<u8>,
    mask: Global<f32>,
    width: u32,
    height: u32,
    mask_width: u32,
    mask_height: u32,
) {
    let (x, y) = thread::index_2d();
    if x >= width || y >= height {
        return;
    }
    // SAFETY: the caller's promise; no other thread has this pixel of the result.
    unsafe {
        let pixel = blurred(image, mask, x, y, (width, height), (mask_width, mask_height));
        result.store(y as isize * width as isize + x as isize, pixel);
    }
}

/// The tutorial's kernel as it stands there, on one image, which `read` and `image` both are. It is wrong.
///
/// # Safety
/// It has a race, so it is never sound on a device; the emulator reports it.
#[cfg(not(target_arch = "nvptx64"))]
pub unsafe fn box_blur_in_place(
    read: Global<u8>,
    image: GlobalMut<u8>,
    mask: Global<f32>,
    width: u32,
    height: u32,
    mask_width: u32,
    mask_height: u32,
) {
    let (x, y) = thread::index_2d();
    if x >= width || y >= height {
        return;
    }
    // SAFETY: none: this is the defect that is shown.
    unsafe {
        let pixel = blurred(read, mask, x, y, (width, height), (mask_width, mask_height));
        image.store(y as isize * width as isize + x as isize, pixel);
    }
}
