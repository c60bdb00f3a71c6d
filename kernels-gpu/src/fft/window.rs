//! The sum of one window, for results that the transforms do not prove.

use cuda_std::prelude::*;

use super::warp_sum;
use crate::abi::border;
use crate::abi::kernel::Convergent;
use crate::abi::params::Params;

/// Rows whose pixels a lane loads at a time, so that their latencies overlap.
const ROWS: usize = 8;

/// The convergent instructions of [`window_sum`].
pub(super) const WINDOW_SUM: Convergent = Convergent { shuffles: ROWS as u32 + 5, ..Convergent::NONE };

/// Each lane adds the products of its columns of the mask, with a sum for each of 8 rows. Then it adds the 8 sums, and
/// the lanes add theirs.
///
/// # Safety
/// - All lanes of the warp call this with the same output.
/// - `image` is as `params` say, for `C` channels, from the channel of the output on. Nobody writes it.
/// - `coefficients` holds the mask in window order.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
pub(super) unsafe fn window_sum<const C: u32>(
    image: Global<f32>,
    coefficients: Global<f32>,
    params: &Params,
    (x, y): (i32, i32),
    lane: u32,
) -> f32 {
    let (left, top) = (x - params.origin_x, y - params.origin_y);
    let mut sums = [0.0; ROWS];
    let mut first = 0;
    while first < params.mask_width {
        thread::no_unroll();
        let l = first + lane as i32;
        let column = border::map(params.border, left + l, params.width);
        // Lane i maps row i of 32.
        let mut row_of_lane = 0;
        let mut k = 0;
        while k < params.mask_height {
            thread::no_unroll();
            if k % 32 == 0 {
                row_of_lane = border::map(params.border, top + k + lane as i32, params.height);
            }
            for i in 0..ROWS {
                let k = k + i as i32;
                // SAFETY: all lanes are here.
                let row = unsafe { warp::shuffle(row_of_lane, k as u32 % 32) };
                if l < params.mask_width && k < params.mask_height {
                    // SAFETY: the border map gave row and column, so they lie in the image. (k, l) is a coefficient.
                    sums[i] = unsafe {
                        let is_outside = row < 0 || column < 0;
                        let index = params.src_index(column * C as i32, row);
                        let pixel = if is_outside { params.border_value } else { image.load(index) };
                        fma(pixel, coefficients.load((k * params.mask_width + l) as isize), sums[i])
                    };
                }
            }
            k += ROWS as i32;
        }
        first += 32;
    }
    // SAFETY: all lanes are here.
    unsafe { warp_sum(sums.iter().sum()) }
}
