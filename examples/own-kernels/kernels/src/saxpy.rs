//! The first kernel: one thread computes one element.

use cuda_std::prelude::*;

/// `y = a x + y` for `length` elements. The grid may have more threads.
///
/// # Safety
/// - `x` and `y` hold `length` elements each.
#[kernel(lengths(x = length, y = length))]
pub unsafe fn saxpy(a: f32, x: Global<f32>, y: GlobalMut<f32>, length: u32) {
    let i = thread::index_1d(); // blockIdx.x * blockDim.x + threadIdx.x
    if i < length {
        let i = i as isize;
        // SAFETY: i < length, checked above, and no other thread has this i.
        unsafe { y.store(i, fma(a, x.load(i), y.load(i))) };
    }
}
