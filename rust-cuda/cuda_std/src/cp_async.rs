//! Copies from global to shared memory that need no register and wait for nothing: PTX `cp.async`, from compute capability 8.0 on.
//!
//! A thread's copies are collected in groups by [`commit_group`] and waited for by [`wait_group`]; the other threads of the block see them after
//! the next barrier. On the host a copy is done at once.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

#[cfg(not(target_arch = "nvptx64"))]
use crate::F32x4;
use crate::{Global, Scalar, Shared};

/// Copies 16 bytes from global to shared memory, where `which`.
///
/// # Safety
/// Where `which`: the 16 bytes of the source may be loaded, those of the destination stored, both are aligned to 16 bytes, and no
/// thread reads or writes the destination before the copy was waited for.
#[inline(always)]
#[track_caller]
pub unsafe fn cp_async_16_if<T: Scalar>(which: bool, to: Shared<T>, from: Global<T>) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promise.
        unsafe {
            asm!(
                "{{ .reg .b64 at; .reg .pred p; setp.ne.u32 p, {which}, 0; cvta.to.global.u64 at, {from};",
                "@p cp.async.cg.shared.global [{to}], [at], 16; }}",
                to = in(reg32) to.address(), from = in(reg64) from.pointer(), which = in(reg32) u32::from(which),
                options(nostack, preserves_flags),
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    if which {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<F32x4>().store(0, from.cast::<F32x4>().load(0)) };
    }
}

/// The same of the first `bytes` bytes, up to 16; zeros take the place of the others, which are not read.
///
/// # Safety
/// As for [`cp_async_16_if`], but of the source only `bytes` bytes need be such that they may be loaded.
#[inline(always)]
#[track_caller]
pub unsafe fn cp_async_16_zfill<T: Scalar>(which: bool, to: Shared<T>, from: Global<T>, bytes: u32) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promise.
        unsafe {
            asm!(
                "{{ .reg .b64 at; .reg .pred p; setp.ne.u32 p, {which}, 0; cvta.to.global.u64 at, {from};",
                "@p cp.async.cg.shared.global [{to}], [at], 16, {bytes}; }}",
                to = in(reg32) to.address(), from = in(reg64) from.pointer(), which = in(reg32) u32::from(which),
                bytes = in(reg32) bytes, options(nostack, preserves_flags),
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    if which {
        let (to, from) = (to.cast::<u8>(), from.cast::<u8>());
        for i in 0..16 {
            // SAFETY: the caller's promise.
            unsafe { to.store(i, if i < bytes { from.load(i as isize) } else { 0 }) };
        }
    }
}

/// Copies one element of 4 bytes from global to shared memory.
///
/// # Safety
/// The source may be loaded, the destination stored, both are aligned to 4 bytes, and no thread reads or writes the destination before the
/// copy was waited for.
#[inline(always)]
#[track_caller]
pub unsafe fn cp_async_4<T: Scalar>(to: Shared<T>, from: Global<T>) {
    const { assert!(size_of::<T>() == 4) };
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promise.
        unsafe {
            asm!(
                "{{ .reg .b64 at; cvta.to.global.u64 at, {from}; cp.async.ca.shared.global [{to}], [at], 4; }}",
                to = in(reg32) to.address(), from = in(reg64) from.pointer(), options(nostack, preserves_flags),
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        // SAFETY: the caller's promise.
        unsafe { to.store(0, from.load(0)) };
    }
}

/// Ends a group of copies.
#[inline(always)]
pub fn commit_group() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: it reads and writes no memory.
        unsafe { asm!("cp.async.commit_group;", options(nostack, preserves_flags)) };
    }
}

/// Waits until at most the last `GROUPS` groups of this thread's copies are under way.
#[inline(always)]
pub fn wait_group<const GROUPS: u32>() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the copies that are waited for were made with a promise of their own.
        unsafe { asm!("cp.async.wait_group {groups};", groups = const GROUPS, options(nostack, preserves_flags)) };
    }
}
