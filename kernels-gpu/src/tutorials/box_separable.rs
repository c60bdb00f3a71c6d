//! ROCm's box blur, rows first: the sum over a box is the sum of its rows' sums.
//!
//! ```text
//! S[y, x] = sum over i of I[y, x + i - mask_width / 2]                  box_sum_rows      8 bits to 32
//! R[y, x] = round(sum over j of S[y + j - mask_height / 2, x] / area)   box_sum_columns   32 bits to 8
//! ```
//! All sums are integers, exact below 2^32. Only the result is rounded, half to even. `area` is the number of
//! coefficients of the mask, also where positions are skipped.
//!
//! # Edges
//! Both kernels take the code of a [`BorderMode`](crate::abi::border::BorderMode). `Constant` skips positions outside,
//! as the tutorial does. `Clamp`, `Wrap` and `Mirror` are the other choices of its best practices.
//!
//! # Thread mapping
//! One thread computes one pixel. A block is 32 x 8 threads, so a warp is a row of 32 pixels. Its loads coalesce in
//! both passes, along the row and down the column.
//!
//! # Cost
//! A pixel takes `mask_width + mask_height` loads instead of `mask_width * mask_height`: 400 instead of 40,000. There
//! are no loads of coefficients and no divisions for them. The sums between the passes take 8 bytes of memory traffic a
//! pixel.

use cuda_std::prelude::*;

use crate::abi::border;

super::listed! {
    "tutorial_box_separable";
    box_sum_rows: 2 pointers, u32 u32 u32 u32;
    box_sum_columns: 2 pointers, u32 u32 u32 u32 u32;
}

/// Threads of a block in x and y.
pub const BLOCK: (u32, u32) = (32, 8);

/// `sum / area` in integers, rounded half to even. `area` is at least 1, and the result fits in 8 bits.
#[inline(always)]
#[must_use]
pub(super) fn divide(sum: u32, area: u32) -> u8 {
    // The comparison shows the compiler that the divisor is not 0.
    let area = if area < 1 { 1 } else { area };
    let (quotient, rest) = (sum / area, sum % area);
    let up = rest > area - rest || (rest == area - rest && quotient % 2 == 1);
    (quotient + up as u32) as u8
}

/// The sums along rows.
///
/// # Safety
/// - `image` and `sums` hold `height` rows of `width` elements, and do not overlap.
/// - `width`, `height` and `mask_width` are below 2^29.
/// - The grid is two-dimensional.
#[kernel]
pub unsafe fn box_sum_rows(
    image: Global<u8>,
    sums: GlobalMut<u32>,
    width: u32,
    height: u32,
    mask_width: u32,
    border: u32,
) {
    let (x, y) = thread::index_2d();
    if x >= width || y >= height {
        return;
    }
    let row = image.offset(y as isize * width as isize);
    let left = x as i32 - mask_width as i32 / 2;
    let mut sum = 0;
    for i in warp::lockstep(0..mask_width as i32) {
        let at = border::map(border, left + i, width as i32);
        if at >= 0 {
            // SAFETY: `border::map` returns OUTSIDE or a position in the row.
            sum += u32::from(unsafe { row.load(at as isize) });
        }
    }
    // SAFETY: (x, y) lies in the sums, and no other thread has it.
    unsafe { sums.store(y as isize * width as isize + x as isize, sum) };
}

/// The sums down columns, divided by `area`.
///
/// # Safety
/// - `sums` and `result` hold `height` rows of `width` elements, and do not overlap.
/// - `width`, `height` and `mask_height` are below 2^29.
/// - `area` is the number of coefficients of the mask, and 255 times that is below 2^32.
/// - The grid is two-dimensional.
#[kernel]
pub unsafe fn box_sum_columns(
    sums: Global<u32>,
    result: GlobalMut<u8>,
    width: u32,
    height: u32,
    mask_height: u32,
    area: u32,
    border: u32,
) {
    let (x, y) = thread::index_2d();
    if x >= width || y >= height {
        return;
    }
    let column = sums.offset(x as isize);
    let top = y as i32 - mask_height as i32 / 2;
    let mut sum = 0;
    for j in warp::lockstep(0..mask_height as i32) {
        let at = border::map(border, top + j, height as i32);
        if at >= 0 {
            // SAFETY: `border::map` returns OUTSIDE or a position in the column.
            sum += unsafe { column.load(at as isize * width as isize) };
        }
    }
    // SAFETY: (x, y) lies in the result, and no other thread has it.
    unsafe { result.store(y as isize * width as isize + x as isize, divide(sum, area)) };
}
