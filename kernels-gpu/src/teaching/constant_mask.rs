//! The mask in constant memory: half of the naive kernel's loads disappear.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! All threads of a warp need the same coefficient at the same time. The constant cache broadcasts one value to a whole
//! warp, so a coefficient costs no load from L1 and no address per thread. This is the constant-caching kernel of the
//! course "Programming Massively Parallel Processors".
//!
//! Thread mapping and borders are those of [`naive`](crate::teaching::naive). Only the source of the coefficients
//! differs.

use cuda_std::prelude::*;

use crate::abi::kernel::Convergent;
use crate::abi::params::{OutputPtr, Params};
use crate::abi::pixel::Pixel;
use crate::registry::{
    Accuracy, Grid, MaskForm, MaskMemory, Spec, any_result, dense_rows, no_launch_bounds, no_requirement,
};
use crate::teaching::naive::{Coefficients, naive};

pub use crate::teaching::naive::BLOCK;

cuda_std::constant! {
    /// The mask in window order, row by row. Its 64 KiB are all the constant memory of a module.
    ///
    /// The host sets the part that a launch uses.
    pub static MASK: [f32; 16_384];
}

/// A mask of up to 16,384 coefficients in constant memory.
impl Coefficients for MASK {
    #[inline(always)]
    #[track_caller]
    unsafe fn coefficient(self, index: usize) -> f32 {
        // SAFETY: index < number of coefficients <= the array's length.
        unsafe { self.load(index) }
    }
}

/// The kernel for values of type `P` in `C` interleaved channels.
///
/// # Safety
/// - The conditions of [`naive`] on `image`, `result` and the grid.
/// - [`struct@MASK`] holds `mask_width * mask_height` coefficients.
#[inline(always)]
pub unsafe fn constant_mask<P: Pixel, const C: u32>(image: Global<P>, result: OutputPtr, params: Params) {
    // SAFETY: the conditions are those of `naive`, with MASK as the coefficients.
    unsafe { naive::<P, C>(image, result, MASK, params) }
}

crate::registry::instances! {
    ConstantMask;
    sm_70 "constant_mask_{T}_c{C}" for T in [u8, u16, f32], C in [1, 2, 3, 4];
        |image, result, _mask, params| constant_mask::<T, C>(image, result, params)
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "constant_mask",
    summary: "one thread, one output; the mask in constant memory",
    reason: "faster than a shared tile for small masks on large images",
    accuracy: Accuracy::Exact,
    mask_memory: MaskMemory::Constant,
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
