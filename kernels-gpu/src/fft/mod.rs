//! Kernels for large dense masks that multiply Fourier transforms of tiles.

mod complex;
mod direct;
pub mod error;
mod failures;
mod judge;
pub mod layout;
mod load;
pub mod passes;
mod place;
mod results;
mod spectral;
pub mod tile;
mod transform;
mod window;

use cuda_std::prelude::*;

/// The sum of a number over the lanes of a warp.
///
/// # Safety
/// - All lanes of the warp call this together.
#[inline(always)]
unsafe fn warp_sum(value: f32) -> f32 {
    let mut sum = value;
    for step in 0..5 {
        // SAFETY: all lanes are here.
        sum += unsafe { warp::shuffle_xor(sum, 16 >> step) };
    }
    sum
}
