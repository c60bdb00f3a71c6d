//! The fallback for a warp whose sums are not all finite. It computes the same outputs in `f32`, in the order of the
//! other separable kernels.

use cuda_std::prelude::*;

use super::SUBTILE;
use crate::abi::image_view::{Channel, ImageView};
use crate::abi::params::Params;

/// Computes `COLUMNS` columns of `SUBTILES` times 8 rows of a channel, from column `x` and row `y` on.
///
/// Each lane calls `store` with its column, each row, and the sum. Columns count from `x`, rows from `y`. Both may lie
/// outside of the result.
///
/// # Safety
/// - `image` and `mask` satisfy the conditions of [`tensor_core`](super::tensor_core).
/// - All lanes of the warp call it. Row `y` lies in the image.
#[inline(always)]
pub(super) unsafe fn filter<const C: u32, const COLUMNS: u32, const SUBTILES: usize>(
    (image, mask): (Global<f32>, Global<f32>),
    params: &Params,
    (x, y, channel): (i32, i32, u32),
    mut store: impl FnMut(u32, u32, f32),
) {
    let lane = thread::thread_idx_x() % 32;
    let x = x + lane as i32;
    // SAFETY: the image has the size and the pitch of `params`, and the kernel does not write it.
    let view = unsafe { ImageView::<f32, C>::new(image, params) };
    let mut sums = [[0.0_f32; SUBTILE as usize]; SUBTILES];
    let mut p = 0;
    while p < (SUBTILES as u32 * SUBTILE) as i32 - 1 + params.mask_height {
        thread::no_unroll();
        let row = view.row(y - params.origin_y + p);
        let mut filtered = 0.0;
        let mut l = 0;
        while l < params.mask_width {
            thread::no_unroll();
            let pixel = row.value(x - params.origin_x + l, Channel::of_value(channel));
            // SAFETY: l < mask_width, a coefficient of the row.
            filtered = fma(pixel, unsafe { mask.load(l as isize) }, filtered);
            l += 1;
        }
        for (o, sum) in sums.as_flattened_mut().iter_mut().enumerate() {
            let k = p - o as i32;
            if k >= 0 && k < params.mask_height {
                // SAFETY: 0 <= k < mask_height, a coefficient of the column.
                *sum = fma(filtered, unsafe { mask.load((params.mask_width + k) as isize) }, *sum);
            }
        }
        p += 1;
    }
    if lane < COLUMNS {
        for (row, &sum) in sums.as_flattened().iter().enumerate() {
            store(lane, row as u32, sum);
        }
    }
}
