//! The mask in constant memory: half of the naive kernel's loads are gone.
//!
//! All threads of a warp need the same coefficient at the same time. Constant memory has a cache of its own that hands
//! one value to a whole warp in one step, so a coefficient costs neither a trip through L1 nor an address per thread.
//! This is the constant-caching kernel of the "Programming Massively Parallel Processors" course.
//!
//! Formula, thread mapping and borders are those of [`naive`](crate::teaching::naive); the one line that differs is
//! where a coefficient comes from.

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
    /// The mask in window order, row by row: 64 KiB, all the constant memory that a module has. The host sets
    /// the part that is used before a launch.
    pub static MASK: [f32; 16_384];
}

/// A mask in constant memory: up to 16,384 coefficients.
impl Coefficients for MASK {
    #[inline(always)]
    #[track_caller]
    unsafe fn coefficient(self, index: usize) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { self.load(index) }
    }
}

/// The kernel for values of type `P` in `C` interleaved channels.
///
/// # Safety
/// As for [`naive`], with the coefficients in [`struct@MASK`].
#[inline(always)]
pub unsafe fn constant_mask<P: Pixel, const C: u32>(image: Global<P>, result: OutputPtr, params: Params) {
    // SAFETY: the caller's promise.
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
    outputs: |_| BLOCK,
    shared_bytes: |_, _| 0,
    launch_bounds: no_launch_bounds,
    convergent: |_| Convergent::NONE,
};
