//! ROCm's stencil tutorial: a blur of 8-bit pixels that computes every product, with equal coefficients.
//!
//! `R[y, x] = round(255 * sum over i, j of M[j, i] * I[y + j - mask_height / 2, x + i - mask_width / 2] / 255)`
//!
//! Positions outside of the image are skipped, so edges get darker. As in the tutorial, sums are in f32, and each pixel
//! is divided by 255. The result is rounded half to even, where the tutorial truncates.
//!
//! # Thread mapping
//! One thread computes one pixel. A block is 16 x 16 threads: a warp is two rows of 16 pixels.
//!
//! # In place or not
//! The tutorial reads and writes the *same* image. So a thread may read pixels that other threads have already
//! replaced. Which ones depends on the order of the blocks: it is a race, with a different picture on each device.
//! [`box_blur`] writes to a second image. `box_blur_in_place` is the tutorial's kernel. It is compiled for the emulator
//! only, which reports the race.
//!
//! # Cost
//! With 200 x 200 a pixel takes 40,000 products, each with two loads, a division and four comparisons, although all
//! coefficients are equal. [`box_separable`](super::box_separable) takes 400 loads for the same sum,
//! [`box_running`](super::box_running) takes 5.

use cuda_std::prelude::*;

use crate::abi::pixel::Pixel;

super::listed! {
    "tutorial_box_blur";
    box_blur: 3 pointers, u32 u32 u32 u32;
}

/// Threads of a block in x and y, as in the tutorial.
pub const BLOCK: (u32, u32) = (16, 16);

/// The blurred pixel in column `x` of row `y`.
///
/// # Safety
/// - The conditions of [`box_blur`] on `image` and `mask`.
/// - (x, y) lies in the image.
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
            // SAFETY: the position lies in the image (tested above), and (j, i) in the mask.
            unsafe { sum += f32::from(image.load(of_image)) / 255.0 * mask.load(of_mask) };
        }
    }
    u8::from_f32(sum * 255.0)
}

/// The tutorial's kernel, with a second image for the result.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels.
/// - `mask` holds `mask_width * mask_height` coefficients.
/// - `result` overlaps neither `image` nor `mask`.
/// - All sides are below 2^30. The grid is two-dimensional.
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
    // SAFETY: (x, y) lies in image and result (tested above), and no other thread has it.
    unsafe {
        let pixel = blurred(image, mask, x, y, (width, height), (mask_width, mask_height));
        result.store(y as isize * width as isize + x as isize, pixel);
    }
}

/// The tutorial's kernel as it is: `read` and `image` are the same image. It is wrong.
///
/// # Safety
/// It has a race, so it is never sound on a device. The emulator reports the race.
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
    // SAFETY: none. This is the defect that the tutorial shows.
    unsafe {
        let pixel = blurred(read, mask, x, y, (width, height), (mask_width, mask_height));
        image.store(y as isize * width as isize + x as isize, pixel);
    }
}
