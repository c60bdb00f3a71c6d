//! One thread computes one pixel, with image and mask in global memory: the first kernel of every tutorial.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! # Thread mapping
//! Thread (v, y) of the grid computes output value v of row y. A block is 32 x 8 threads, so a warp computes 32
//! neighbouring values of a row. Neighbouring threads read neighbouring values: the loads of a warp coalesce.
//!
//! # Channels
//! With one channel a value is a pixel, and v is its column. Several channels are interleaved, `r g b r g b …`, and
//! each is filtered on its own. Value v belongs to column v / C and channel v mod C, and its window takes every C-th
//! value of a row. So the kernel sees an RGB row as a row of three times as many values, and the loads still coalesce.
//!
//! # Compared with Numba's tutorial
//! | Numba | this kernel |
//! | --- | --- |
//! | `i, j = cuda.grid(2)` | `let (v, y) = thread::index_2d()`, v being the column |
//! | `if i >= rows or j >= cols: return` | the same |
//! | `i - k + delta_rows`: the mask is walked backwards | the host rotates the mask, the window is walked forwards |
//! | `if 0 <= i_k < rows and 0 <= j_l < cols` for every product | one test for a block: [`Params::contains`] |
//! | `s += mask[k, l] * image[i_k, j_l]` | `sum = fma(…)`: one rounding instead of two |
//!
//! # Cost
//! A product takes two loads from L1: a coefficient, at the same address for the whole warp, and a pixel. The loads are
//! the limit for any mask, not the arithmetic. The next two files remove them one by one.

use cuda_std::prelude::*;

use crate::abi::image_view::{Channel, ImageView};
use crate::abi::kernel::Convergent;
use crate::abi::params::{OutputPtr, Params};
use crate::abi::pixel::Pixel;
use crate::common::mask_row::add_row;
use crate::registry::{
    Accuracy, Grid, MaskForm, MaskMemory, Spec, any_result, dense_rows, no_launch_bounds, no_requirement,
};

/// Threads of a block in x and y. Each computes one value.
pub const BLOCK: (u32, u32) = (32, 8);

/// A source of coefficients, in window order, row by row.
pub trait Coefficients: Copy {
    /// Coefficient `index`.
    ///
    /// # Safety
    /// `index` is below the number of coefficients that the host has set.
    unsafe fn coefficient(self, index: usize) -> f32;
}

/// A mask of any size in global memory.
impl Coefficients for Global<f32> {
    #[inline(always)]
    #[track_caller]
    unsafe fn coefficient(self, index: usize) -> f32 {
        // SAFETY: index < number of coefficients, so it lies in the allocation.
        unsafe { self.load(index as isize) }
    }
}

/// Whether the windows of all threads of this block lie in the image.
///
/// The answer is the same for all threads of a warp, and the compiler sees that. So loop counters and coefficients stay
/// in uniform registers.
#[inline(always)]
fn block_is_inside<const C: u32>(params: &Params) -> bool {
    let (width, height) = (thread::block_dim_x() as i32, thread::block_dim_y() as i32);
    let v = thread::block_idx_x() as i32 * width;
    let y = thread::block_idx_y() as i32 * height + params.first_row;
    params.contains::<C>(
        v - params.origin_x * C as i32,
        y - params.origin_y,
        width + (params.mask_width - 1) * C as i32,
        height + params.mask_height - 1,
    )
}

/// The kernel for values of type `P` in `C` interleaved channels, with its coefficients from `mask`.
///
/// # Safety
/// - `image` holds `height` rows of `width` pixels of `C` values, `src_pitch` values apart.
/// - `result` holds as many, `dst_pitch` values apart, of the type that `params` name. It does not overlap `image`.
/// - `mask` holds `mask_width * mask_height` coefficients.
/// - The grid is two-dimensional.
#[inline(always)]
pub unsafe fn naive<P: Pixel, const C: u32>(
    image: Global<P>,
    result: OutputPtr,
    mask: impl Coefficients,
    params: Params,
) {
    let (v, y) = thread::index_2d();
    let row = y as i32 + params.first_row;
    if v as i32 >= params.row_values::<C>() || row >= params.height {
        return;
    }
    let top = row - params.origin_y;
    let (columns, rows) = (params.mask_width, params.mask_height);

    let mut sum = 0.0;
    if block_is_inside::<C>(&params) {
        let mut pixels = image.offset(params.src_index(v as i32 - params.origin_x * C as i32, top));
        let mut first = 0;
        for _ in 0..rows {
            sum = add_row(sum, columns as u32, |l, sum| {
                // SAFETY: l < columns, the window lies in the image, and first + l < mask_width * mask_height.
                unsafe { fma(mask.coefficient(first + l), pixels.load((l * C as usize) as isize).to_f32(), sum) }
            });
            pixels = pixels.offset(params.src_pitch as isize);
            first += columns as usize;
        }
    } else {
        // SAFETY: the image has the size and the pitch of `params`, and the kernel does not write it.
        let view = unsafe { ImageView::<P, C>::new(image, &params) };
        let (left, channel) = ((v / C) as i32 - params.origin_x, Channel::of_value(v));
        let mut index = 0;
        for k in warp::lockstep(0..rows) {
            let pixels = view.row(top + k);
            for l in warp::lockstep(0..columns) {
                let pixel = pixels.value(left + l, channel);
                // SAFETY: index = k * columns + l < mask_width * mask_height.
                sum = fma(unsafe { mask.coefficient(index) }, pixel, sum);
                index += 1;
            }
        }
    }

    // SAFETY: v and row lie in the result (tested above), and no other thread has the same v and y.
    unsafe { params.store(result, v as i32, row, sum) };
}

crate::registry::instances! {
    Naive;
    sm_70 "naive_{T}_c{C}" for T in [u8, u16, f32], C in [1, 2, 3, 4];
        |image, result, mask, params| naive::<T, C>(image, result, mask, params)
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "naive",
    summary: "one thread, one output; image and mask in global memory",
    reason: "needs neither constant nor shared memory",
    accuracy: Accuracy::Exact,
    mask_memory: MaskMemory::Global,
    mask_form: MaskForm::Rows(dense_rows),
    mask_class: None,
    results: any_result,
    border_is_pixel: |_| false,
    requirement: no_requirement,
    uses_fp32_units: true,
    grid: Grid::Tiles,
    block: |_| BLOCK,
    outputs: |_, _| BLOCK,
    pixels_together: 1,
    shared_bytes: |_, _| 0,
    launch_bounds: no_launch_bounds,
    convergent: |_| Convergent::NONE,
};
