//! Global memory: what the host allocates and every thread of the grid can reach.

use crate::Scalar;
use crate::vector::F32x4;

/// An array in global memory that a kernel reads. As a kernel parameter it is one 64-bit pointer.
///
/// Indices are in elements and may be negative, as with pointers.
#[repr(transparent)]
pub struct Global<T>(*const T);

/// An array in global memory that a kernel reads and writes. As a kernel parameter it is one 64-bit pointer.
#[repr(transparent)]
pub struct GlobalMut<T>(*mut T);

impl<T> Clone for Global<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Global<T> {}
impl<T> Clone for GlobalMut<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for GlobalMut<T> {}

// SAFETY: a handle is an address. Using it is unsafe, with the promise that threads don't get in each other's way.
unsafe impl<T> Send for Global<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Global<T> {}
// SAFETY: as above.
unsafe impl<T> Send for GlobalMut<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for GlobalMut<T> {}

impl<T: Scalar> Global<T> {
    /// A handle on the array that begins at `pointer`.
    #[inline(always)]
    #[must_use]
    pub fn new(pointer: *const T) -> Self {
        Self(pointer)
    }

    /// The handle on the elements from `elements` on; nothing is accessed, so any offset will do.
    #[inline(always)]
    #[must_use]
    pub fn offset(self, elements: isize) -> Self {
        Self(self.0.wrapping_offset(elements))
    }

    /// The same memory seen as elements of another type, such as vectors.
    #[inline(always)]
    #[must_use]
    pub fn cast<U: Scalar>(self) -> Global<U> {
        Global(self.0.cast())
    }

    /// The address of the first element.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(crate) fn pointer(self) -> *const T {
        self.0
    }

    /// Element `index`.
    ///
    /// # Safety
    /// The element lies inside the allocation, was written before, is aligned for `T`, and no other thread
    /// writes it unordered.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub unsafe fn load(self, index: isize) -> T {
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: the caller's promise.
            unsafe { T::load_global(self.0.offset(index)) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            crate::executor::load_global(self.0.wrapping_offset(index))
        }
    }

    /// Asks for the line of element `index` to be brought into the L2 cache. A hint: nothing waits for it, and executors of the
    /// host pass over it.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[inline(always)]
    pub unsafe fn prefetch(self, index: isize) {
        #[cfg(target_arch = "nvptx64")]
        {
            let address = self.0.wrapping_offset(index);
            // SAFETY: it changes no memory that a program sees; the address is one that could be loaded from, as the caller promised.
            unsafe {
                core::arch::asm!(
                    "prefetch.global.L2 [{address}];",
                    address = in(reg64) address,
                    options(nostack, preserves_flags, readonly),
                );
            }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        let _ = index;
    }
}

impl<T: Scalar> GlobalMut<T> {
    /// A handle on the array that begins at `pointer`.
    #[inline(always)]
    #[must_use]
    pub fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// The handle on the elements from `elements` on; nothing is accessed, so any offset will do.
    #[inline(always)]
    #[must_use]
    pub fn offset(self, elements: isize) -> Self {
        Self(self.0.wrapping_offset(elements))
    }

    /// The same memory seen as elements of another type, such as vectors.
    #[inline(always)]
    #[must_use]
    pub fn cast<U: Scalar>(self) -> GlobalMut<U> {
        GlobalMut(self.0.cast())
    }

    /// Element `index`.
    ///
    /// # Safety
    /// As for [`Global::load`].
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub unsafe fn load(self, index: isize) -> T {
        // SAFETY: the caller's promise.
        unsafe { Global(self.0.cast_const()).load(index) }
    }

    /// Writes element `index`.
    ///
    /// # Safety
    /// The element lies inside the allocation, is aligned for `T`, and no other thread reads or writes it unordered.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store(self, index: isize, value: T) {
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: the caller's promise.
            unsafe { T::store_global(self.0.offset(index), value) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            crate::executor::store_global(self.0.wrapping_offset(index), value);
        }
    }
}

impl GlobalMut<F32x4> {
    /// Element `index` if the condition holds, otherwise zeros: one predicated instruction. A branch around
    /// [`load`](Self::load) would part the code before it from that behind it, and the assembler moves nothing across.
    ///
    /// # Safety
    /// If the condition holds, as for [`load`](Self::load).
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub unsafe fn load_if(self, index: isize, condition: bool) -> F32x4 {
        #[cfg(target_arch = "nvptx64")]
        {
            let (a, b, c, d): (f32, f32, f32, f32);
            // SAFETY: the caller's promise; without the condition nothing is read.
            unsafe {
                core::arch::asm!(
                    "{{",
                    ".reg .pred wanted;",
                    "setp.ne.u32 wanted, {condition}, 0;",
                    "mov.f32 {a}, 0f00000000;",
                    "mov.f32 {b}, 0f00000000;",
                    "mov.f32 {c}, 0f00000000;",
                    "mov.f32 {d}, 0f00000000;",
                    "@wanted ld.global.v4.f32 {{{a}, {b}, {c}, {d}}}, [{address}];",
                    "}}",
                    condition = in(reg32) u32::from(condition),
                    address = in(reg64) self.0.wrapping_offset(index),
                    a = out(reg32) a,
                    b = out(reg32) b,
                    c = out(reg32) c,
                    d = out(reg32) d,
                    options(nostack, preserves_flags, readonly),
                );
            }
            F32x4([a, b, c, d])
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            // SAFETY: the caller's promise.
            if condition { unsafe { self.load(index) } } else { F32x4::default() }
        }
    }

    /// Writes element `index` if the condition holds: one predicated instruction, see [`load_if`](Self::load_if).
    ///
    /// # Safety
    /// If the condition holds, as for [`store`](Self::store).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store_if(self, index: isize, condition: bool, value: F32x4) {
        #[cfg(target_arch = "nvptx64")]
        {
            let F32x4([a, b, c, d]) = value;
            // SAFETY: the caller's promise; without the condition nothing is written.
            unsafe {
                core::arch::asm!(
                    "{{",
                    ".reg .pred wanted;",
                    "setp.ne.u32 wanted, {condition}, 0;",
                    "@wanted st.global.v4.f32 [{address}], {{{a}, {b}, {c}, {d}}};",
                    "}}",
                    condition = in(reg32) u32::from(condition),
                    address = in(reg64) self.0.wrapping_offset(index),
                    a = in(reg32) a,
                    b = in(reg32) b,
                    c = in(reg32) c,
                    d = in(reg32) d,
                    options(nostack, preserves_flags),
                );
            }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        if condition {
            // SAFETY: the caller's promise.
            unsafe { self.store(index, value) }
        }
    }
}
