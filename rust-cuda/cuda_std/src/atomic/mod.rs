//! Atomic operations on global and shared memory, and fences.
//!
//! [`GlobalMut::atomic`] and [`Shared::atomic`] name an element of an array. The methods of [`Atomic`] are those of
//! [`core::sync::atomic`], and each takes an [`Ordering`]:
//!
//! ```
//! use cuda_std::atomic::{Ordering, Scope};
//! use cuda_std::prelude::*;
//!
//! /// Counts the threads of the grid in element 0, and those of each block in the block's element of `blocks`.
//! ///
//! /// # Safety
//! /// - `count` holds one element, `blocks` one for each block. All are 0.
//! #[kernel]
//! pub unsafe fn count(count: GlobalMut<u32>, blocks: GlobalMut<u32>) {
//!     // CUDA's atomicAdd: relaxed, for the whole device.
//!     // SAFETY: element 0 exists.
//!     unsafe { count.atomic_add(0, 1) };
//!     let mine = blocks.atomic(thread::block_idx_x() as isize).scope(Scope::Block);
//!     // SAFETY: the block's element exists.
//!     unsafe { mine.fetch_add(1, Ordering::Relaxed) };
//! }
//! ```
//!
//! The handles have CUDA's functions as well: `atomic_add` is `atomicAdd`, and so on. They are relaxed. On global
//! memory their scope is the device.
//!
//! | operation | here | CUDA C++ | PTX | types |
//! | --- | --- | --- | --- | --- |
//! | addition | `fetch_add`, `atomic_add` | `atomicAdd` | `atom.add` | all |
//! | subtraction | `fetch_sub`, `atomic_sub` | `atomicSub` | `atom.add` of the negated value | all |
//! | minimum, maximum | `fetch_min`, `fetch_max` … | `atomicMin`, `atomicMax` | `atom.min`, `atom.max` | integers |
//! | bits | `fetch_and`, `fetch_or`, `fetch_xor` … | `atomicAnd` … | `atom.and`, `atom.or`, `atom.xor` | integers |
//! | exchange | `swap`, `atomic_exch` | `atomicExch` | `atom.exch` | all |
//! | compare and swap | `compare_exchange`, `atomic_cas` | `atomicCAS` | `atom.cas` | all, by their bits |
//! | load, store | `load`, `store` | `cuda::atomic_ref` | `ld.relaxed`, `ld.acquire`, `st.release` … | all |
//! | fence | [`fence`] | `__threadfence()` … | `fence.acq_rel`, `fence.sc` | |
//!
//! The types are `u32`, `i32`, `u64`, `i64`, `f32` and `f64`. PTX has no minimum and no maximum of floats before
//! compute capability 10.
//!
//! # Orders
//! PTX has [`Ordering::Relaxed`], `Acquire`, `Release` and `AcqRel`. `SeqCst` is a `fence.sc` before the operation,
//! which then acquires and releases. A load can't release and a store can't acquire. The emulator reports a
//! panic there; on the device a load acquires and a store releases instead.
//!
//! # Scopes
//! A [`Scope`] names the threads among which an operation is atomic. Threads of two blocks that use [`Scope::Block`] on
//! one element race.
//!
//! # Floats
//! `atom.add.f32` in global memory flushes subnormal arguments and results to zero; in shared memory it keeps them. The
//! emulator does the same. The order of additions decides the last bits of a sum. On a device it changes from run to
//! run. In the emulator it depends on the seed alone.

#[cfg(target_arch = "nvptx64")]
mod device;
mod element;

use core::marker::PhantomData;

pub use core::sync::atomic::Ordering;

pub use element::{AtomicInteger, AtomicScalar};

#[cfg(not(target_arch = "nvptx64"))]
use crate::executor::{self, AtomicKind, Space};
use crate::{GlobalMut, Shared};

/// The threads among which an operation is atomic, or which a fence orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The threads of the block: PTX `.cta`.
    Block,
    /// The threads of all grids on the device: PTX `.gpu`.
    Device,
    /// All threads of the system, on other devices and the host as well: PTX `.sys`.
    System,
}

mod sealed {
    pub trait Memory {
        const SHARED: bool;
    }
}

/// A memory with atomic operations: [`InGlobal`] or [`InShared`].
pub trait AtomicMemory: sealed::Memory {}

/// Global memory.
#[derive(Debug)]
pub enum InGlobal {}
/// Shared memory.
#[derive(Debug)]
pub enum InShared {}

impl sealed::Memory for InGlobal {
    const SHARED: bool = false;
}
impl sealed::Memory for InShared {
    const SHARED: bool = true;
}
impl AtomicMemory for InGlobal {}
impl AtomicMemory for InShared {}

/// An element of an array, with a scope, for atomic operations.
#[derive(Debug)]
#[must_use]
pub struct Atomic<T, M> {
    /// A generic address of global memory, or an address in the shared window.
    address: u64,
    scope: Scope,
    element: PhantomData<(*mut T, M)>,
}

impl<T, M> Clone for Atomic<T, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, M> Copy for Atomic<T, M> {}

/// One operation: the device's function, or the executor's answer with the new value as a function of the old one.
macro_rules! operation {
    ($self:ident, $order:ident, $device:ident($($value:ident),*), $kind:ident, |$old:ident| $new:expr) => {{
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: the element is live, aligned and initialised, as the function requires.
            unsafe { T::$device::<M>($self.address, $($value,)* $order, $self.scope) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            let space = if M::SHARED { Space::Shared } else { Space::Global };
            executor::atomic(AtomicKind::$kind, space, $self.address, $order, $self.scope, |$old: T| $new)
        }
    }};
}

impl<T: AtomicScalar, M: AtomicMemory> Atomic<T, M> {
    /// The same element, with another scope. The default is the device for global memory and the block for shared
    /// memory.
    #[inline(always)]
    pub fn scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// Reads the element.
    ///
    /// # Safety
    /// - The element lies inside its array, was written before, and is aligned for `T`.
    /// - No other thread writes it non-atomically, or atomically in a scope without this thread, without a barrier
    ///   between.
    /// - `order` is `Relaxed`, `Acquire` or `SeqCst`.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub unsafe fn load(self, order: Ordering) -> T {
        operation!(self, order, device_load(), Load, |_old| None)
    }

    /// Writes the element.
    ///
    /// # Safety
    /// - The element lies inside its array and is aligned for `T`.
    /// - No other thread accesses it non-atomically, or atomically in a scope without this thread, without a barrier
    ///   between.
    /// - `order` is `Relaxed`, `Release` or `SeqCst`.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store(self, value: T, order: Ordering) {
        operation!(self, order, device_store(value), Store, |_old| Some(value));
    }

    /// Writes the element and returns its old value.
    ///
    /// # Safety
    /// - The element lies inside its array, was written before, and is aligned for `T`.
    /// - No other thread accesses it non-atomically, or atomically in a scope without this thread, without a barrier
    ///   between.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn swap(self, value: T, order: Ordering) -> T {
        operation!(self, order, device_swap(value), Update, |_old| Some(value))
    }

    /// Writes `new` if the element has the bits of `current`. `Ok` and `Err` hold the old value.
    ///
    /// `order` applies to success and failure.
    ///
    /// # Safety
    /// The conditions of [`swap`](Self::swap).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn compare_exchange(self, current: T, new: T, order: Ordering) -> Result<T, T> {
        let old = operation!(self, order, device_compare_exchange(current, new), Update, |old| {
            (old.bits() == current.bits()).then_some(new)
        });
        if old.bits() == current.bits() { Ok(old) } else { Err(old) }
    }

    /// Adds `value` and returns the old value. Integers wrap; floats are rounded to nearest.
    ///
    /// # Safety
    /// The conditions of [`swap`](Self::swap).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn fetch_add(self, value: T, order: Ordering) -> T {
        operation!(self, order, device_add(value), Update, |old| Some(old.sum(value, M::SHARED)))
    }

    /// Subtracts `value` and returns the old value. Integers wrap; floats are rounded to nearest.
    ///
    /// # Safety
    /// The conditions of [`swap`](Self::swap).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn fetch_sub(self, value: T, order: Ordering) -> T {
        // SAFETY: the conditions are the same.
        unsafe { self.fetch_add(value.negated(), order) }
    }
}

impl<T: AtomicInteger, M: AtomicMemory> Atomic<T, M> {
    /// Writes the lesser of the element and `value`, and returns the old value.
    ///
    /// # Safety
    /// The conditions of [`swap`](Self::swap).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn fetch_min(self, value: T, order: Ordering) -> T {
        operation!(self, order, device_min(value), Update, |old| Some(old.min(value)))
    }

    /// Writes the greater of the element and `value`, and returns the old value.
    ///
    /// # Safety
    /// The conditions of [`swap`](Self::swap).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn fetch_max(self, value: T, order: Ordering) -> T {
        operation!(self, order, device_max(value), Update, |old| Some(old.max(value)))
    }

    /// Clears the bits that `value` has not, and returns the old value.
    ///
    /// # Safety
    /// The conditions of [`swap`](Self::swap).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn fetch_and(self, value: T, order: Ordering) -> T {
        operation!(self, order, device_and(value), Update, |old| Some(T::of_bits(old.bits() & value.bits())))
    }

    /// Sets the bits of `value`, and returns the old value.
    ///
    /// # Safety
    /// The conditions of [`swap`](Self::swap).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn fetch_or(self, value: T, order: Ordering) -> T {
        operation!(self, order, device_or(value), Update, |old| Some(T::of_bits(old.bits() | value.bits())))
    }

    /// Flips the bits of `value`, and returns the old value.
    ///
    /// # Safety
    /// The conditions of [`swap`](Self::swap).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn fetch_xor(self, value: T, order: Ordering) -> T {
        operation!(self, order, device_xor(value), Update, |old| Some(T::of_bits(old.bits() ^ value.bits())))
    }
}

impl<T: AtomicScalar> GlobalMut<T> {
    /// Element `index` for atomic operations, in the scope of the device.
    #[inline(always)]
    pub fn atomic(self, index: isize) -> Atomic<T, InGlobal> {
        let address = self.address_of(index);
        Atomic { address, scope: Scope::Device, element: PhantomData }
    }
}

impl<T: AtomicScalar> Shared<T> {
    /// Element `index` for atomic operations, in the scope of the block.
    #[inline(always)]
    pub fn atomic(self, index: u32) -> Atomic<T, InShared> {
        Atomic { address: self.offset(index).address().into(), scope: Scope::Block, element: PhantomData }
    }
}

/// CUDA's functions as methods of a handle.
macro_rules! cuda_functions {
    ($handle:ident, $index:ty) => {
        cuda_functions! { $handle, $index, AtomicScalar:
            /// Adds `value` to element `index`, and returns the old value: `atomicAdd`. The order is relaxed.
            atomic_add => fetch_add;
            /// Subtracts `value` from element `index`, and returns the old value: `atomicSub`. The order is relaxed.
            atomic_sub => fetch_sub;
            /// Writes element `index`, and returns the old value: `atomicExch`. The order is relaxed.
            atomic_exch => swap;
        }
        cuda_functions! { $handle, $index, AtomicInteger:
            /// Writes the lesser of element `index` and `value`, and returns the old value: `atomicMin`. The order is
            /// relaxed.
            atomic_min => fetch_min;
            /// Writes the greater of element `index` and `value`, and returns the old value: `atomicMax`. The order is
            /// relaxed.
            atomic_max => fetch_max;
            /// Clears the bits of element `index` that `value` has not, and returns the old value: `atomicAnd`. The
            /// order is relaxed.
            atomic_and => fetch_and;
            /// Sets the bits of `value` in element `index`, and returns the old value: `atomicOr`. The order is
            /// relaxed.
            atomic_or => fetch_or;
            /// Flips the bits of `value` in element `index`, and returns the old value: `atomicXor`. The order is
            /// relaxed.
            atomic_xor => fetch_xor;
        }
        impl<T: AtomicScalar> $handle<T> {
            /// Writes `new` to element `index` if it has the bits of `current`. Returns the old value: `atomicCAS`. The
            /// order is relaxed.
            ///
            /// # Safety
            /// The conditions of [`Atomic::swap`].
            #[inline(always)]
            #[track_caller]
            pub unsafe fn atomic_cas(self, index: $index, current: T, new: T) -> T {
                // SAFETY: the conditions are the same.
                let result = unsafe { self.atomic(index).compare_exchange(current, new, Ordering::Relaxed) };
                match result {
                    Ok(old) | Err(old) => old,
                }
            }
        }
    };
    ($handle:ident, $index:ty, $bound:ident: $($(#[$doc:meta])* $name:ident => $method:ident;)*) => {
        impl<T: $bound> $handle<T> {$(
            $(#[$doc])*
            ///
            /// # Safety
            /// The conditions of [`Atomic::swap`].
            #[inline(always)]
            #[track_caller]
            pub unsafe fn $name(self, index: $index, value: T) -> T {
                // SAFETY: the conditions are the same.
                unsafe { self.atomic(index).$method(value, Ordering::Relaxed) }
            }
        )*}
    };
}

cuda_functions! { GlobalMut, isize }
cuda_functions! { Shared, u32 }

/// Orders the memory accesses of this thread before the fence before those after it, for the threads of `scope`.
///
/// Together with atomic operations a fence makes writes visible to other blocks:
///
/// 1. A thread writes data, calls `fence`, and then writes a flag atomically.
/// 2. Another thread reads the flag atomically, calls `fence`, and then reads the data.
///
/// `AcqRel`, `Acquire` and `Release` are PTX `fence.acq_rel`; `SeqCst` is `fence.sc`. `Relaxed` does nothing.
#[inline(always)]
pub fn fence(order: Ordering, scope: Scope) {
    #[cfg(target_arch = "nvptx64")]
    {
        device::fence(order, scope);
    }
    #[cfg(not(target_arch = "nvptx64"))]
    if order != Ordering::Relaxed {
        executor::current().fence(order, scope);
    }
}
