//! Shared memory: a few KiB per block, as fast as registers are near.

use core::marker::PhantomData;

use crate::Scalar;

// One array of unknown length for the whole program, as CUDA's `extern __shared__`; each launch says how long it is.
#[cfg(target_arch = "nvptx64")]
core::arch::global_asm!(".extern .shared .align 16 .b8 cuda_std_dynamic_shared[];");

/// An array of `T` in the block's dynamic shared memory (`extern __shared__ T array[]`).
///
/// The launch sets the size in bytes. Several arrays share the memory by [`offset`](Self::offset) and
/// [`cast`](Self::cast), as in CUDA. The start is aligned to 16 bytes.
///
/// # Reading and writing
/// What a thread writes, the others see after [`sync_threads`](crate::thread::sync_threads), and
/// reading what another thread writes without a barrier between is a race.
pub struct Shared<T> {
    /// A byte address in the shared window; on the host, the offset from the start of the block's dynamic memory.
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
            // SAFETY: takes the address of a symbol that this file declares; touches no memory.
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

    /// The part of the array from element `elements` on.
    #[inline(always)]
    #[must_use]
    pub fn offset(self, elements: u32) -> Self {
        Self { address: self.at(elements), element: PhantomData }
    }

    /// The same memory seen as elements of another type.
    #[inline(always)]
    #[must_use]
    pub fn cast<U: Scalar>(self) -> Shared<U> {
        Shared { address: self.address, element: PhantomData }
    }

    /// The address of the first element in the shared window.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(crate) fn address(self) -> u32 {
        self.address
    }

    /// Element `index`.
    ///
    /// # Safety
    /// The element lies in the dynamic shared memory of the launch, is aligned for `T`, was written, and if by
    /// another thread, before the last barrier.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub unsafe fn load(self, index: u32) -> T {
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: the caller's promise.
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
    /// The element lies in the dynamic shared memory of the launch, is aligned for `T`, and no other thread
    /// reads or writes it between the barriers around this write.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store(self, index: u32, value: T) {
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: the caller's promise.
            unsafe { T::store_shared(self.at(index), value) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            crate::executor::store_shared(self.at(index), value);
        }
    }

    /// The byte address of element `index`; wraps as addresses do, because nothing is accessed yet.
    #[inline(always)]
    fn at(self, index: u32) -> u32 {
        self.address.wrapping_add(index.wrapping_mul(size_of::<T>() as u32))
    }
}
