//! Where a sum came out as no number: the same in `f32`, in the order of [`separable`](crate::separable::error_bound).

use cuda_std::prelude::*;

use super::SUBTILE;
use crate::abi::params::Params;

/// Computes `COLUMNS` columns of 8 rows for each of `SUBTILES`, from column `x` and row `y` on, of which at most `most` rows and the columns of the image are written.
///
/// # Safety
/// As for [`separable_tensor`](super::separable_tensor); all lanes of the warp call it, and the outputs are this warp's.
#[inline(always)]
pub(super) unsafe fn slow<const COLUMNS: u32, const SUBTILES: usize>(
    image: Global<f32>,
    result: GlobalMut<f32>,
    mask: Global<f32>,
    params: &Params,
    (x, y): (i32, i32),
    most: i32,
) {
    let lane = thread::thread_idx_x() % 32;
    let x = x + lane as i32;
    let mut sums = [[0.0_f32; SUBTILE as usize]; SUBTILES];
    let sums = sums.as_flattened_mut();
    let mut p = 0;
    while p < sums.len() as i32 - 1 + params.mask_height {
        thread::no_unroll();
        let row = params.row_or_border(image, y - params.origin_y + p);
        let mut filtered = 0.0;
        let mut l = 0;
        while l < params.mask_width {
            thread::no_unroll();
            // SAFETY: the row is of `row_or_border`, the mask has the coefficient.
            filtered = unsafe {
                let pixel = params.value_or_border::<f32, 1>(row, x - params.origin_x + l, 0);
                fma(pixel, mask.load(l as isize), filtered)
            };
            l += 1;
        }
        for (o, sum) in sums.iter_mut().enumerate() {
            let k = p - o as i32;
            if k >= 0 && k < params.mask_height {
                // SAFETY: the mask has the coefficient.
                *sum = fma(filtered, unsafe { mask.load((params.mask_width + k) as isize) }, *sum);
            }
        }
        p += 1;
    }
    let (scale, offset) = params.exact_finish();
    let mut to = result.offset(params.dst_index(x, y));
    for (i, &sum) in sums.iter().enumerate() {
        if lane < COLUMNS && x < params.width && (i as i32) < most {
            // SAFETY: the pixel is this thread's.
            unsafe { to.store(0, fma(sum, scale, offset)) };
        }
        to = to.offset(params.dst_pitch as isize);
    }
}
