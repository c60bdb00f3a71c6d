//! Numba's "CUDA in Python, part 3": a convolution, one thread a pixel, mask and image in global memory.
//!
//! `R[i, j] = sum over k, l of M[k, l] * I[i - k + mask_rows / 2, j - l + mask_columns / 2]`, with zeros outside.
//!
//! # Thread mapping
//! In [`numba_convolve`], as in the tutorial, the *first* number of `cuda.grid(2)` is the row. That number runs along
//! x. So the 32 threads of a warp compute 32 pixels of one *column*. Each load of a warp touches 32 rows, in 32 sectors
//! of 32 bytes, and uses 4 bytes of each. [`numba_convolve_by_columns`] exchanges the two numbers. A warp then computes
//! 32 neighbours of a row: 128 bytes, in 4 or 5 sectors. One line differs.
//!
//! # Cost
//! A product takes two loads and four comparisons. For the tutorial's 200 x 200 pixels and 13 x 13 mask, the emulator
//! counts 14.6 sectors a load with rows along x, and 2.7 with columns. That includes one sector for each load of the
//! mask. The next steps are those of this crate's [`naive`](crate::teaching::naive) (one test of the border for a
//! block), [`constant_mask`](crate::teaching::constant_mask) and [`shared_tile`](crate::teaching::shared_tile).
//!
//! # Rounding
//! `fma` in f32. In Numba `s` begins as the integer 0, and adding a float32 makes it a float64. So the tutorial's
//! kernel adds in double precision, product by product.

use cuda_std::prelude::*;

super::listed! {
    "tutorial_numba";
    numba_convolve: 3 pointers, u32 u32 u32 u32;
    numba_convolve_by_columns: 3 pointers, u32 u32 u32 u32;
}

/// Threads of a block in x and y, as in the tutorial.
pub const BLOCK: (u32, u32) = (32, 32);

/// The tutorial's kernel: x runs along the rows' numbers.
///
/// # Safety
/// - `result` and `image` hold `rows * columns` elements, `mask` holds `mask_rows * mask_columns`.
/// - `result` overlaps neither `image` nor `mask`.
/// - The sides are below 2^30. The grid is two-dimensional.
#[kernel]
pub unsafe fn numba_convolve(
    result: GlobalMut<f32>,
    mask: Global<f32>,
    image: Global<f32>,
    rows: u32,
    columns: u32,
    mask_rows: u32,
    mask_columns: u32,
) {
    let (i, j) = thread::index_2d();
    // SAFETY: the arrays are as promised above; the grid gives each pixel to one thread.
    unsafe { pixel(result, mask, image, (i, j), (rows, columns), (mask_rows, mask_columns)) };
}

/// The same with x along the columns.
///
/// # Safety
/// The conditions of [`numba_convolve`].
#[kernel]
pub unsafe fn numba_convolve_by_columns(
    result: GlobalMut<f32>,
    mask: Global<f32>,
    image: Global<f32>,
    rows: u32,
    columns: u32,
    mask_rows: u32,
    mask_columns: u32,
) {
    let (j, i) = thread::index_2d();
    // SAFETY: the arrays are as promised above; the grid gives each pixel to one thread.
    unsafe { pixel(result, mask, image, (i, j), (rows, columns), (mask_rows, mask_columns)) };
}

/// Computes the pixel in row `at.0`, column `at.1`.
///
/// # Safety
/// - The conditions of [`numba_convolve`].
/// - No other thread has this pixel.
#[inline(always)]
unsafe fn pixel(
    result: GlobalMut<f32>,
    mask: Global<f32>,
    image: Global<f32>,
    at: (u32, u32),
    size: (u32, u32),
    mask_size: (u32, u32),
) {
    if at.0 >= size.0 || at.1 >= size.1 {
        return;
    }
    let (i, j) = (at.0 as i32, at.1 as i32);
    let (rows, columns) = (size.0 as i32, size.1 as i32);
    let (mask_rows, mask_columns) = (mask_size.0 as i32, mask_size.1 as i32);
    let (delta_rows, delta_columns) = (mask_rows / 2, mask_columns / 2);
    let mut s = 0.0;
    for k in warp::lockstep(0..mask_rows) {
        for l in warp::lockstep(0..mask_columns) {
            let (i_k, j_l) = (i - k + delta_rows, j - l + delta_columns);
            if i_k >= 0 && i_k < rows && j_l >= 0 && j_l < columns {
                let of_mask = k as isize * mask_columns as isize + l as isize;
                let of_image = i_k as isize * columns as isize + j_l as isize;
                // SAFETY: (k, l) lies in the mask, and (i_k, j_l) in the image (tested above).
                s = unsafe { fma(mask.load(of_mask), image.load(of_image), s) };
            }
        }
    }
    // SAFETY: (i, j) lies in the result (tested above), and is this thread's alone.
    unsafe { result.store(i as isize * columns as isize + j as isize, s) };
}
