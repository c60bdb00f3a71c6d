//! A kernel that looks for defects in its input.

use cuda_std::prelude::*;
use cuda_std::{gpu_assert, gpu_println};

/// Divides `length` elements by `divisor`. It prints each element that is not finite, and stops at a divisor of 0.
///
/// # Safety
/// - `values` holds `length` elements.
#[kernel(lengths(values = length))]
pub unsafe fn divide(values: GlobalMut<f32>, divisor: f32, length: u32) {
    gpu_assert!(divisor != 0.0, "the divisor is 0");
    let i = thread::index_1d();
    if i < length {
        // SAFETY: i < length, checked above, and no other thread has this i.
        let quotient = unsafe { values.load(i as isize) } / divisor;
        if !quotient.is_finite() {
            gpu_println!("element {i} becomes {quotient}, bits {:08x}", quotient.to_bits());
        }
        // SAFETY: as above.
        unsafe { values.store(i as isize, quotient) };
    }
}
