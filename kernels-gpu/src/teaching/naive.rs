//! One thread computes one pixel, with image and mask in global memory: the kernel that every tutorial begins with.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! # Thread mapping
//! Thread (v, y) of the grid computes the output value v of row y: neighbouring threads of a warp read neighbouring
//! values, so each load of a warp is one line. Blocks are 32 x 8: a warp is one row of 32 values.
//!
//! With one channel a value is a pixel, and v its column. Several channels are interleaved, `r g b r g b …`, and each is
//! filtered alone: value v belongs to column v / C and channel v mod C, and its window takes every C-th value of a row. So
//! a row of RGB pixels is for the kernel a row of three times as many values, and the loads of a warp stay in one line.
//!
//! # Against Numba's tutorial
//! | Numba | here |
//! | --- | --- |
//! | `i, j = cuda.grid(2)` | `let (v, y) = thread::index_2d()`, v the column |
//! | `if i >= rows or j >= cols: return` | the same |
//! | `i - k + delta_rows`, the mask walked backwards | the host turned the mask, the window is walked forwards |
//! | `if 0 <= i_k < rows and 0 <= j_l < cols` for every product | asked once per thread: [`Params::contains`] |
//! | `s += mask[k, l] * image[i_k, j_l]` | `sum = fma(…)`: one rounding, not two |
//!
//! # What it costs
//! Each product takes two loads, one of the mask (the same address in a whole warp) and one of the image, both from L1. The
//! loads are the limit, not the arithmetic, at any size of the mask; the next two files take them away one by one.

use cuda_std::prelude::*;

use crate::abi::kernel::Convergent;
use crate::abi::params::{OutputPtr, Params};
use crate::abi::pixel::Pixel;
use crate::common::mask_row::add_row;
use crate::registry::{
    Accuracy, Grid, MaskForm, MaskMemory, Spec, any_result, dense_rows, no_launch_bounds, no_requirement,
};

/// Threads of a block in x and y; each computes one pixel.
pub const BLOCK: (u32, u32) = (32, 8);

/// Whether the windows of all threads of this block lie in the image.
///
/// Asked for the block and not for the thread, the answer is the same in all threads of a warp. The compiler sees that, and
/// keeps the loops' counters and the coefficients in the registers that a warp has in common.
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

/// Where a kernel reads coefficient `index` of the mask, in window order, row by row.
pub trait Coefficients: Copy {
    /// Coefficient `index`.
    ///
    /// # Safety
    /// `index` is below the number of coefficients.
    unsafe fn coefficient(self, index: usize) -> f32;
}

/// A mask in global memory: of any size.
impl Coefficients for Global<f32> {
    #[inline(always)]
    #[track_caller]
    unsafe fn coefficient(self, index: usize) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { self.load(index as isize) }
    }
}

/// The kernel, for values of type `P` in `C` interleaved channels, and a mask wherever `mask` finds it.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, and do not overlap; `result` is of the type
///   that `params` say.
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
        // Every window of the block lies in the image: nothing to ask.
        let mut pixels = image.offset(params.src_index(v as i32 - params.origin_x * C as i32, top));
        let mut first = 0;
        for _ in 0..rows {
            sum = add_row(sum, columns as u32, |l, sum| {
                // SAFETY: the row of the window lies in the image, and its coefficients in the mask.
                unsafe { fma(mask.coefficient(first + l), pixels.load((l * C as usize) as isize).to_f32(), sum) }
            });
            pixels = pixels.offset(params.src_pitch as isize);
            first += columns as usize;
        }
    } else {
        let (left, channel) = ((v / C) as i32 - params.origin_x, v % C);
        let mut index = 0;
        for k in warp::lockstep(0..rows) {
            let pixels = params.row_or_border(image, top + k);
            for l in warp::lockstep(0..columns) {
                // SAFETY: the image is as the caller promised; k and l lie in the mask.
                sum = unsafe {
                    let pixel = params.value_or_border::<P, C>(pixels, left + l, channel);
                    fma(mask.coefficient(index), pixel, sum)
                };
                index += 1;
            }
        }
    }

    // SAFETY: (v, row) lies in the result, and no other thread has it.
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
    outputs: |_| BLOCK,
    shared_bytes: |_, _| 0,
    launch_bounds: no_launch_bounds,
    convergent: |_| Convergent::NONE,
};
