//! A copy by a kernel: from page-locked memory of the host, which the device reads through its own addresses, to its own memory.
//!
//! For a small image that is sooner over than a copy that the driver starts: a kernel that follows a kernel waits one microsecond for it, one that
//! follows a copy several (`docs/measurements/2026-11-21-h100-small.md`). One thread copies 16 bytes, and a warp 512 that lie together.

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

/// Copies `quads` times 16 bytes. The grid's threads, [`BLOCK`] in each block, are at least as many.
///
/// # Safety
/// `from` holds that many and `to` has room for them, they do not overlap and begin at multiples of 16 bytes.
#[kernel]
pub unsafe fn copy_quads(from: Global<f32>, to: GlobalMut<f32>, quads: u32) {
    let i = thread::index_1d();
    if i < quads {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<F32x4>().store(i as isize, from.cast::<F32x4>().load(i as isize)) };
    }
}
