//! A copy by a kernel, from page-locked host memory to device memory.
//!
//! For a small image it is faster than a copy of the driver: the next kernel waits one microsecond for a kernel, and
//! several for a copy (`docs/kernels/small-images.md`).
//!
//! # Thread mapping
//! One thread copies 16 bytes, so a warp copies 512 contiguous bytes.

use cuda_std::prelude::*;

use crate::abi::kernel::{Convergent, Kernel, OLDEST, Parameter};

/// Threads of a block.
pub const BLOCK: u32 = 128;

/// [`copy_quads`] in the list of kernels.
pub const COPY_QUADS: Kernel = Kernel {
    symbol: "copy_quads",
    module: "copy_quads",
    parameters: &[Parameter::POINTER, Parameter::POINTER, Parameter::value::<u32>()],
    compute_capability: OLDEST,
    launch_bounds: None,
    convergent: Convergent::NONE,
};

/// Copies `quads` times 16 bytes, one for each thread.
///
/// # Safety
/// - `from` and `to` hold `16 * quads` bytes each, and do not overlap.
/// - Both begin at multiples of 16 bytes.
/// - The grid is one-dimensional and has at least `quads` threads, [`BLOCK`] in each block.
#[kernel]
pub unsafe fn copy_quads(from: Global<f32>, to: GlobalMut<f32>, quads: u32) {
    let i = thread::index_1d();
    if i < quads {
        // SAFETY: i < quads, both are aligned, and no other thread has i.
        unsafe { to.cast::<F32x4>().store(i as isize, from.cast::<F32x4>().load(i as isize)) };
    }
}
