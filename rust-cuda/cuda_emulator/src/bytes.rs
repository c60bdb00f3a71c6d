//! Values as bytes.

use cuda_std::Scalar;

/// The bytes of values.
#[must_use]
pub fn bytes_of<T: Scalar>(values: &[T]) -> &[u8] {
    // SAFETY: Scalar is sealed; its types have no padding, so all bytes are initialised.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The bytes of values, to be written.
#[must_use]
pub fn bytes_of_mut<T: Scalar>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: Scalar is sealed; its types have no padding, and every bit pattern is a value.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}
