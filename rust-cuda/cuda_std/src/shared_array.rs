//! Shared arrays whose length is known when the kernel is compiled.

use core::fmt;

use crate::atomic::{Atomic, AtomicScalar, InShared};
use crate::{Scalar, Shared};

/// An array of `N` elements in the block's shared memory. [`shared_array!`](crate::shared_array!) declares one.
///
/// Its methods are some of those of [`Shared`]; [`as_shared`](Self::as_shared) has all. The emulator checks the index.
pub struct SharedArray<T, const N: usize>(Shared<T>);

impl<T, const N: usize> Clone for SharedArray<T, N> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const N: usize> Copy for SharedArray<T, N> {}

impl<T, const N: usize> fmt::Debug for SharedArray<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedArray").field("length", &N).finish_non_exhaustive()
    }
}

impl<T: Scalar, const N: usize> SharedArray<T, N> {
    /// The array at an address of the shared window.
    ///
    /// # Safety
    /// - `N` elements from the address on belong to this array alone.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub unsafe fn at(address: u32) -> Self {
        Self(Shared::at_address(address))
    }

    /// The number of elements.
    #[inline(always)]
    #[must_use]
    pub fn len(self) -> usize {
        N
    }

    /// Whether it has no elements.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(self) -> bool {
        N == 0
    }

    /// The array as a handle without a length, for functions that take one. The emulator checks accesses to it as a
    /// whole.
    #[inline(always)]
    #[must_use]
    pub fn as_shared(self) -> Shared<T> {
        self.0
    }

    /// Reads element `index`.
    ///
    /// # Safety
    /// - `index` is below `N`.
    /// - The element was written by this thread, or by another one before the last barrier.
    /// - No asynchronous copy to it is pending.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub unsafe fn load(self, index: u32) -> T {
        if !self.holds(index) {
            return T::default();
        }
        // SAFETY: the element is inside and initialised, as required above.
        unsafe { self.0.load(index) }
    }

    /// Writes element `index`.
    ///
    /// # Safety
    /// - `index` is below `N`.
    /// - No other thread reads or writes the element between the barriers around this write.
    /// - No asynchronous copy to it is pending.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store(self, index: u32, value: T) {
        if self.holds(index) {
            // SAFETY: the element is inside and free of races, as required above.
            unsafe { self.0.store(index, value) };
        }
    }

    /// Whether the array has an element. On the host the executor reports an index that is too large. The device does
    /// not check it.
    #[inline(always)]
    #[track_caller]
    fn holds(self, index: u32) -> bool {
        #[cfg(target_arch = "nvptx64")]
        {
            let _ = index;
            true
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            let holds = (index as usize) < N;
            if !holds {
                crate::executor::current().index_out_of_bounds(index, N, core::panic::Location::caller());
            }
            holds
        }
    }
}

impl<T: AtomicScalar, const N: usize> SharedArray<T, N> {
    /// Element `index` for atomic operations, in the scope of the block. `index` is below `N`.
    #[inline(always)]
    #[track_caller]
    pub fn atomic(self, index: u32) -> Atomic<T, InShared> {
        self.0.atomic(if self.holds(index) { index } else { 0 })
    }

    /// Adds `value` to element `index`, and returns the old value: `atomicAdd`. The order is relaxed.
    ///
    /// # Safety
    /// - `index` is below `N`. The conditions of [`Atomic::swap`] hold.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn atomic_add(self, index: u32, value: T) -> T {
        // SAFETY: the conditions are the same.
        unsafe { self.atomic(index).fetch_add(value, crate::atomic::Ordering::Relaxed) }
    }
}

/// A number for a place in a source: FNV-1a of its name.
#[doc(hidden)]
#[must_use]
pub const fn place_number(name: &str) -> u64 {
    let (bytes, mut hash, mut i) = (name.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

/// Declares an array in shared memory, as `__shared__ float tile[256];` does in CUDA C++. The value is a
/// [`SharedArray`].
///
/// All threads of the block share the array, and each place in the source has one of its own, also if its function is
/// inlined several times. The start is aligned to 16 bytes. A block has at most 48 KiB of such arrays; dynamic shared
/// memory ([`Shared::dynamic`]) may be larger. The type and the length are known outside of the function: they can't be
/// generic parameters, nor types and constants that the function declares.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Reverses the elements of each block of 256 threads.
/// ///
/// /// # Safety
/// /// - `values` holds one element for each thread.
/// #[kernel]
/// pub unsafe fn reverse(values: GlobalMut<f32>) {
///     let tile = shared_array![f32; 256];
///     let (i, tx) = (thread::index_1d() as isize, thread::thread_idx_x());
///     // SAFETY: tx is below 256. A barrier lies between the write and the read of another thread.
///     unsafe {
///         tile.store(tx, values.load(i));
///         thread::sync_threads();
///         values.store(i, tile.load(255 - tx));
///     }
/// }
/// ```
///
/// A macro that makes several kernels passes a name, because all of its arrays are at one place in the source:
/// `shared_array![f32; 256; $name]`. Without it `cuda_builder` reports that two variables have one name.
#[macro_export]
macro_rules! shared_array {
    ($element:ty; $length:expr $(; $name:tt)?) => {{
        #[allow(unused_imports)]
        mod array {
            use super::*;

            const LENGTH: usize = $length;
            const BYTES: usize = LENGTH * ::core::mem::size_of::<$element>();
            const NUMBER: u64 = $crate::place_number(concat!(
                module_path!(), ":", line!(), ":", column!() $(, ":", stringify!($name))?
            ));
            const _: () = assert!(BYTES <= 49_152, "a block has at most 48 KiB of shared arrays");

            #[cfg(target_arch = "nvptx64")]
            ::core::arch::global_asm!(
                ".shared .align 16 .b8 cuda_std_shared_{number}[{bytes}];",
                number = const NUMBER,
                bytes = const BYTES,
            );

            #[inline(always)]
            pub(super) fn array() -> $crate::SharedArray<$element, LENGTH> {
                #[cfg(target_arch = "nvptx64")]
                let address = {
                    let address: u32;
                    // SAFETY: the instruction takes the address of the variable declared above and accesses no memory.
                    unsafe {
                        ::core::arch::asm!(
                            "mov.u32 {address}, cuda_std_shared_{number};",
                            address = out(reg32) address,
                            number = const NUMBER,
                            options(nostack, nomem, pure, preserves_flags),
                        );
                    }
                    address
                };
                #[cfg(not(target_arch = "nvptx64"))]
                let address = $crate::executor::shared_array(
                    NUMBER,
                    BYTES as u32,
                    ::core::mem::size_of::<$element>() as u32,
                );
                // SAFETY: the variable has this length, and nothing else uses its name.
                unsafe { $crate::SharedArray::at(address) }
            }
        }
        array::array()
    }};
}
