//! A generic kernel: one function, and an entry for each type and number.

use core::ops::Mul;

use cuda_std::prelude::*;

/// Multiplies `length` elements by `factor`, `ELEMENTS` by each thread.
///
/// # Safety
/// - `values` holds `length` elements.
#[inline(always)]
#[track_caller]
unsafe fn multiply<T: Scalar + Mul<Output = T>, const ELEMENTS: u32>(values: GlobalMut<T>, factor: T, length: u32) {
    let first = thread::index_1d() * ELEMENTS;
    for i in first..(first + ELEMENTS).min(length) {
        // SAFETY: i < length, and no other thread has this i.
        unsafe { values.store(i as isize, values.load(i as isize) * factor) };
    }
}

/// Makes a kernel of each row.
macro_rules! kernels {
    ({} $(($name:ident, T = $type:ident, E = $elements:literal))*) => {$(
        /// Multiplies `length` elements by `factor`.
        ///
        /// # Safety
        /// - `values` holds `length` elements.
        #[kernel(lengths(values = length))]
        pub unsafe fn $name(values: GlobalMut<$type>, factor: $type, length: u32) {
            // SAFETY: the conditions are the same.
            unsafe { multiply::<$type, $elements>(values, factor, length) };
        }
    )*};
}

// Four kernels: multiply_x1_f32, multiply_x4_f32, multiply_x1_u32 and multiply_x4_u32.
cuda_std::instantiate! { kernels! {} "multiply_x{E}_{T}" for T in [f32, u32], E in [1, 4] }
