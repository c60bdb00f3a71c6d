//! Arrays in the memory of a device.

use cuda_std::Scalar;
use cuda_std::launch::{Array, ArrayMut};

use crate::emulated::EmulatedArray;

/// A typed array in the memory of a [`Device`](crate::Device).
///
/// The memory is freed when the value is dropped.
#[derive(Debug)]
pub struct Buffer<T: Scalar> {
    pub(crate) name: String,
    pub(crate) device: u64,
    pub(crate) address: u64,
    pub(crate) length: usize,
    pub(crate) storage: Storage<T>,
}

/// The memory of a buffer.
#[derive(Debug)]
pub(crate) enum Storage<T: Scalar> {
    Emulated(EmulatedArray<T>),
    #[cfg(feature = "cuda")]
    Cuda(crate::cuda::Memory),
}

impl<T: Scalar> Buffer<T> {
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The name that reports show.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

// SAFETY: a device allocates `length` elements at `address`, aligned to 256 bytes, and frees them when the value is
// dropped.
unsafe impl<T: Scalar> Array<T> for Buffer<T> {
    fn address(&self) -> u64 {
        self.address
    }

    fn len(&self) -> usize {
        self.length
    }

    fn device(&self) -> u64 {
        self.device
    }
}

// SAFETY: no other buffer has these elements.
unsafe impl<T: Scalar> ArrayMut<T> for Buffer<T> {}
