//! Shared memory: on-chip memory of one block.

use core::marker::PhantomData;

use crate::Scalar;

// One array of unknown length for the whole module, as CUDA's `extern __shared__`. Each launch sets its length.
#[cfg(target_arch = "nvptx64")]
core::arch::global_asm!(".extern .shared .align 16 .b8 cuda_std_dynamic_shared[];");

/// An array of `T` in the block's dynamic shared memory (`extern __shared__ T array[]`).
///
/// The launch sets the size in bytes. Several arrays, also of several types, share the memory by
/// [`dynamic_at`](Self::dynamic_at). The start is aligned to 16 bytes. [`shared_array!`](crate::shared_array!) declares
/// an array of a fixed length.
///
/// # Reading and writing
/// The other threads of the block see a write after the next [`sync_threads`](crate::thread::sync_threads). An access
/// to what another thread writes, without a barrier between, is a race.
pub struct Shared<T> {
    /// A byte address in the shared window. On the host, the offset from the start of the dynamic shared memory.
    address: u32,
    element: PhantomData<*mut T>,
}

impl<T> Clone for Shared<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<T> {}

impl<T: Scalar> Shared<T> {
    /// The block's dynamic shared memory, from its start.
    #[inline(always)]
    #[must_use]
    pub fn dynamic() -> Self {
        #[cfg(target_arch = "nvptx64")]
        let address = {
            let address: u32;
            // SAFETY: the instruction takes the address of the symbol declared above and accesses no memory.
            unsafe {
                core::arch::asm!(
                    "mov.u32 {address}, cuda_std_dynamic_shared;",
                    address = out(reg32) address,
                    options(nostack, nomem, pure, preserves_flags),
                );
            }
            address
        };
        #[cfg(not(target_arch = "nvptx64"))]
        let address = 0;
        Self { address, element: PhantomData }
    }

    /// The dynamic shared memory from byte `bytes` on, a multiple of the alignment of `T`: one of several arrays.
    #[inline(always)]
    #[must_use]
    pub fn dynamic_at(bytes: u32) -> Self {
        Shared::<u8>::dynamic().offset(bytes).cast()
    }

    /// The array at an address of the shared window.
    #[inline(always)]
    pub(crate) fn at_address(address: u32) -> Self {
        Self { address, element: PhantomData }
    }

    /// The part of the array from element `elements` on. The address wraps, because nothing is accessed.
    #[inline(always)]
    #[must_use]
    pub fn offset(self, elements: u32) -> Self {
        Self { address: self.at(elements), element: PhantomData }
    }

    /// The same memory as elements of another type.
    #[inline(always)]
    #[must_use]
    pub fn cast<U: Scalar>(self) -> Shared<U> {
        Shared { address: self.address, element: PhantomData }
    }

    /// The address of the first element in the shared window.
    #[inline(always)]
    pub(crate) fn address(self) -> u32 {
        self.address
    }

    /// Reads element `index`.
    ///
    /// # Safety
    /// - The element lies in the dynamic shared memory of the launch.
    /// - Its address is aligned for `T`.
    /// - It was written by this thread, or by another one before the last barrier.
    /// - No asynchronous copy to it is pending.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub unsafe fn load(self, index: u32) -> T {
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: the element is inside, aligned and initialised, as required above.
            unsafe { T::load_shared(self.at(index)) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            crate::executor::load_shared(self.at(index))
        }
    }

    /// Writes element `index`.
    ///
    /// # Safety
    /// - The element lies in the dynamic shared memory of the launch.
    /// - Its address is aligned for `T`.
    /// - No other thread reads or writes it between the barriers around this write.
    /// - No asynchronous copy to it is pending.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store(self, index: u32, value: T) {
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: the element is inside, aligned and free of races, as required above.
            unsafe { T::store_shared(self.at(index), value) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            crate::executor::store_shared(self.at(index), value);
        }
    }

    /// The byte address of element `index`. It wraps, because nothing is accessed.
    #[inline(always)]
    fn at(self, index: u32) -> u32 {
        self.address.wrapping_add(index.wrapping_mul(size_of::<T>() as u32))
    }
}
