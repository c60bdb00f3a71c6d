//! Global memory: the host allocates it, and every thread of the grid can access it.

use crate::Scalar;
use crate::vector::F32x4;

/// An array in global memory that a kernel reads. As a kernel parameter it is one 64-bit generic pointer.
///
/// Indices count elements and may be negative, as with pointers. Address arithmetic wraps: a handle or an index may lie
/// outside of the array as long as nothing is accessed there.
#[repr(transparent)]
pub struct Global<T>(*const T);

/// An array in global memory that a kernel reads and writes. As a kernel parameter it is one 64-bit generic pointer.
///
/// Indices and address arithmetic are those of [`Global`].
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

// SAFETY: a handle is an address. Every access through it is unsafe and requires that threads do not race.
unsafe impl<T> Send for Global<T> {}
// SAFETY: a handle is an address. Every access through it is unsafe and requires that threads do not race.
unsafe impl<T> Sync for Global<T> {}
// SAFETY: a handle is an address. Every access through it is unsafe and requires that threads do not race.
unsafe impl<T> Send for GlobalMut<T> {}
// SAFETY: a handle is an address. Every access through it is unsafe and requires that threads do not race.
unsafe impl<T> Sync for GlobalMut<T> {}

impl<T: Scalar> Global<T> {
    /// The handle of the array that begins at `pointer`.
    #[inline(always)]
    #[must_use]
    pub fn new(pointer: *const T) -> Self {
        Self(pointer)
    }

    /// The handle of the elements from `elements` on. Any offset is allowed, because nothing is accessed.
    #[inline(always)]
    #[must_use]
    pub fn offset(self, elements: isize) -> Self {
        Self(self.0.wrapping_offset(elements))
    }

    /// The same memory as elements of another type, such as vectors.
    #[inline(always)]
    #[must_use]
    pub fn cast<U: Scalar>(self) -> Global<U> {
        Global(self.0.cast())
    }

    /// The generic address of the first element.
    #[inline(always)]
    pub(crate) fn pointer(self) -> *const T {
        self.0
    }

    /// Reads element `index`.
    ///
    /// # Safety
    /// - The element lies inside the allocation and was written before.
    /// - Its address is aligned for `T`.
    /// - No other thread writes it without a barrier between.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub unsafe fn load(self, index: isize) -> T {
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: the element at `index` is live, initialised, aligned and free of races, as required above.
            unsafe { T::load_global(self.0.wrapping_offset(index)) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            crate::executor::load_global(self.0.wrapping_offset(index))
        }
    }

    /// Prefetches the cache line of element `index` into the L2 cache.
    ///
    /// This is a hint: no instruction waits for it. On the host it does nothing.
    ///
    /// # Safety
    /// - The element lies inside the allocation.
    #[inline(always)]
    pub unsafe fn prefetch(self, index: isize) {
        #[cfg(target_arch = "nvptx64")]
        {
            let address = self.0.wrapping_offset(index);
            // SAFETY: the address lies inside an allocation, and a prefetch changes no memory that a program sees.
            unsafe {
                core::arch::asm!(
                    "{{ .reg .b64 at; cvta.to.global.u64 at, {address}; prefetch.global.L2 [at]; }}",
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
    /// The generic address of element `index`. It wraps, because nothing is accessed.
    #[inline(always)]
    pub(crate) fn address_of(self, index: isize) -> u64 {
        self.0.wrapping_offset(index).expose_provenance() as u64
    }

    /// The handle of the array that begins at `pointer`.
    #[inline(always)]
    #[must_use]
    pub fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// The handle of the elements from `elements` on. Any offset is allowed, because nothing is accessed.
    #[inline(always)]
    #[must_use]
    pub fn offset(self, elements: isize) -> Self {
        Self(self.0.wrapping_offset(elements))
    }

    /// The same memory as elements of another type, such as vectors.
    #[inline(always)]
    #[must_use]
    pub fn cast<U: Scalar>(self) -> GlobalMut<U> {
        GlobalMut(self.0.cast())
    }

    /// Reads element `index`.
    ///
    /// # Safety
    /// The conditions of [`Global::load`].
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub unsafe fn load(self, index: isize) -> T {
        // SAFETY: the conditions are the same, and the address is, too.
        unsafe { Global(self.0.cast_const()).load(index) }
    }

    /// Writes element `index`.
    ///
    /// # Safety
    /// - The element lies inside the allocation.
    /// - Its address is aligned for `T`.
    /// - No other thread reads or writes it without a barrier between.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store(self, index: isize, value: T) {
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: the element at `index` is live, aligned and free of races, as required above.
            unsafe { T::store_global(self.0.wrapping_offset(index), value) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            crate::executor::store_global(self.0.wrapping_offset(index), value);
        }
    }
}

impl GlobalMut<F32x4> {
    /// Reads element `index` if `predicate` holds, and returns zeros otherwise: one predicated instruction.
    ///
    /// The assembler moves instructions across a predicated load, but not across a branch around [`load`](Self::load).
    ///
    /// # Safety
    /// If `predicate` holds, the conditions of [`load`](Self::load).
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub unsafe fn load_if(self, index: isize, predicate: bool) -> F32x4 {
        #[cfg(target_arch = "nvptx64")]
        {
            let (a, b, c, d): (f32, f32, f32, f32);
            // SAFETY: the load is executed only if the predicate holds; then the element may be read.
            unsafe {
                core::arch::asm!(
                    "{{",
                    ".reg .pred wanted;",
                    ".reg .b64 at;",
                    "setp.ne.u32 wanted, {predicate}, 0;",
                    "cvta.to.global.u64 at, {address};",
                    "mov.f32 {a}, 0f00000000;",
                    "mov.f32 {b}, 0f00000000;",
                    "mov.f32 {c}, 0f00000000;",
                    "mov.f32 {d}, 0f00000000;",
                    "@wanted ld.global.v4.f32 {{{a}, {b}, {c}, {d}}}, [at];",
                    "}}",
                    predicate = in(reg32) u32::from(predicate),
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
            // SAFETY: the predicate holds, so the element may be read.
            if predicate { unsafe { self.load(index) } } else { F32x4::default() }
        }
    }

    /// Writes element `index` if `predicate` holds: one predicated instruction; see [`load_if`](Self::load_if).
    ///
    /// # Safety
    /// If `predicate` holds, the conditions of [`store`](Self::store).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store_if(self, index: isize, predicate: bool, value: F32x4) {
        #[cfg(target_arch = "nvptx64")]
        {
            let F32x4([a, b, c, d]) = value;
            // SAFETY: the store is executed only if the predicate holds; then the element may be written.
            unsafe {
                core::arch::asm!(
                    "{{",
                    ".reg .pred wanted;",
                    ".reg .b64 at;",
                    "setp.ne.u32 wanted, {predicate}, 0;",
                    "cvta.to.global.u64 at, {address};",
                    "@wanted st.global.v4.f32 [at], {{{a}, {b}, {c}, {d}}};",
                    "}}",
                    predicate = in(reg32) u32::from(predicate),
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
        if predicate {
            // SAFETY: the predicate holds, so the element may be written.
            unsafe { self.store(index, value) }
        }
    }
}
