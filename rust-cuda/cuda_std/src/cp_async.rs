//! Asynchronous copies from global to shared memory: PTX `cp.async`, from compute capability 8.0 on.
//!
//! A copy needs no register, and the thread does not wait for it. Each thread collects its own copies:
//!
//! 1. [`cp_async_16_if`], [`cp_async_16_zfill`] or [`cp_async_4`] issues a copy.
//! 2. [`commit_group`] ends a group of copies.
//! 3. [`wait_group`] waits for all groups of this thread but the most recent ones.
//!
//! After the wait, the issuing thread may read the destination. The other threads of the block may read it after the
//! next [`sync_threads`](crate::thread::sync_threads), the other lanes of the warp after the next
//! [`sync_warp`](crate::warp::sync_warp).
//!
//! Until the wait, the destination holds neither its old nor its new bytes. The emulator reports every access to it.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

#[cfg(not(target_arch = "nvptx64"))]
use crate::executor;
use crate::{Global, Scalar, Shared};

/// Copies 16 bytes from global to shared memory if `predicate` holds.
///
/// # Safety
/// If `predicate` holds:
/// - The 16 bytes of the source lie inside one allocation and were written before.
/// - The 16 bytes of the destination lie in the dynamic shared memory of the block.
/// - Both addresses are multiples of 16.
/// - No thread accesses the destination between this call and the wait for the copy.
/// - No thread writes the source between this call and the wait for the copy.
/// - A barrier lies between this call and any earlier access of another thread to the destination.
/// - A barrier lies between the wait and any later access of another thread to the destination.
#[inline(always)]
#[track_caller]
pub unsafe fn cp_async_16_if<T: Scalar>(predicate: bool, to: Shared<T>, from: Global<T>) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: if the predicate holds, both ranges of 16 bytes are valid, aligned and free of races, as listed
        // above.
        unsafe {
            asm!(
                "{{ .reg .b64 at; .reg .pred p; setp.ne.u32 p, {predicate}, 0; cvta.to.global.u64 at, {from};",
                "@p cp.async.cg.shared.global [{to}], [at], 16; }}",
                to = in(reg32) to.address(), from = in(reg64) from.pointer(),
                predicate = in(reg32) u32::from(predicate), options(nostack, preserves_flags),
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    if predicate {
        executor::cp_async(to, from, 16, None);
    }
}

/// Copies the first `bytes` bytes of 16 and fills the rest of the destination with zeros, if `predicate` holds.
///
/// The source bytes from `bytes` on are not read.
///
/// # Safety
/// - `bytes` is at most 16.
/// - The conditions of [`cp_async_16_if`] hold, but only the first `bytes` bytes of the source count.
#[inline(always)]
#[track_caller]
pub unsafe fn cp_async_16_zfill<T: Scalar>(predicate: bool, to: Shared<T>, from: Global<T>, bytes: u32) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: if the predicate holds, the 16 bytes of the destination and the first `bytes` bytes of the source are
        // valid, aligned and free of races, as listed above. PTX reads only `bytes` bytes of the source.
        unsafe {
            asm!(
                "{{ .reg .b64 at; .reg .pred p; setp.ne.u32 p, {predicate}, 0; cvta.to.global.u64 at, {from};",
                "@p cp.async.cg.shared.global [{to}], [at], 16, {bytes}; }}",
                to = in(reg32) to.address(), from = in(reg64) from.pointer(),
                predicate = in(reg32) u32::from(predicate), bytes = in(reg32) bytes,
                options(nostack, preserves_flags),
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    if predicate {
        executor::cp_async(to, from, 16, Some(bytes));
    }
}

/// Copies one element of 4 bytes from global to shared memory.
///
/// # Safety
/// The conditions of [`cp_async_16_if`] hold for 4 bytes in the place of 16.
#[inline(always)]
#[track_caller]
pub unsafe fn cp_async_4<T: Scalar>(to: Shared<T>, from: Global<T>) {
    const { assert!(size_of::<T>() == 4) };
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: both ranges of 4 bytes are valid, aligned and free of races, as listed above.
        unsafe {
            asm!(
                "{{ .reg .b64 at; cvta.to.global.u64 at, {from}; cp.async.ca.shared.global [{to}], [at], 4; }}",
                to = in(reg32) to.address(), from = in(reg64) from.pointer(), options(nostack, preserves_flags),
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    executor::cp_async(to, from, 4, None);
}

/// Ends a group of this thread's copies: PTX `cp.async.commit_group`. The group may be empty.
#[inline(always)]
pub fn commit_group() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the instruction accesses no memory.
        unsafe { asm!("cp.async.commit_group;", options(nostack, preserves_flags)) };
    }
    #[cfg(not(target_arch = "nvptx64"))]
    executor::current().commit_group();
}

/// Waits until at most the `PENDING` most recent groups of this thread are pending: PTX `cp.async.wait_group`.
///
/// Copies that are in no group yet are not waited for.
#[inline(always)]
pub fn wait_group<const PENDING: u32>() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: whoever issued a copy has checked its source and its destination up to this wait.
        unsafe { asm!("cp.async.wait_group {pending};", pending = const PENDING, options(nostack, preserves_flags)) };
    }
    #[cfg(not(target_arch = "nvptx64"))]
    executor::current().wait_group(PENDING);
}
