//! The operations of a warp with a mask of lanes, as CUDA's `…_sync` functions have it.
//!
//! Bit i of a mask is lane i. The lanes of the mask take part. All of them pass the same mask, and each is in it.
//!
//! ```
//! use cuda_std::prelude::*;
//! use cuda_std::warp::masked;
//!
//! /// The lanes whose value is positive add up their values.
//! ///
//! /// # Safety
//! /// - `values` and `sums` hold one element for each thread. The number of threads of a block is a multiple of 32.
//! #[kernel]
//! pub unsafe fn sums_of_positives(values: Global<i32>, sums: GlobalMut<i32>) {
//!     let i = thread::index_1d() as isize;
//!     // SAFETY: the element exists.
//!     let value = unsafe { values.load(i) };
//!     // SAFETY: all lanes are here.
//!     let positive = unsafe { warp::ballot(value > 0) };
//!     if value > 0 {
//!         // SAFETY: the lanes of the mask are those in this branch. No other thread has this i.
//!         unsafe { sums.store(i, masked::reduce_add(positive, value)) };
//!     }
//! }
//! ```

#[cfg(not(target_arch = "nvptx64"))]
use crate::executor::{self, Collective, Reduction};

#[cfg(target_arch = "nvptx64")]
pub(super) mod intrinsics {
    // Intrinsics and not inline assembly: LLVM knows that they are convergent and moves them across no branch.
    #[allow(improper_ctypes)]
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
        pub(super) fn shuffle(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
        pub(super) fn shuffle_up(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
        pub(super) fn shuffle_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
        pub(super) fn shuffle_xor(mask: u32, value: u32, bits: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.vote.ballot.sync"]
        pub(super) fn ballot(mask: u32, predicate: bool) -> u32;
        #[link_name = "llvm.nvvm.vote.all.sync"]
        pub(super) fn all(mask: u32, predicate: bool) -> bool;
        #[link_name = "llvm.nvvm.vote.any.sync"]
        pub(super) fn any(mask: u32, predicate: bool) -> bool;
        #[link_name = "llvm.nvvm.match.any.sync.i32"]
        pub(super) fn match_any(mask: u32, value: u32) -> u32;
        #[link_name = "llvm.nvvm.match.any.sync.i64"]
        pub(super) fn match_any_64(mask: u32, value: u64) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.add"]
        pub(super) fn reduce_add(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.umin"]
        pub(super) fn reduce_min_unsigned(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.umax"]
        pub(super) fn reduce_max_unsigned(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.min"]
        pub(super) fn reduce_min_signed(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.max"]
        pub(super) fn reduce_max_signed(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.and"]
        pub(super) fn reduce_and(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.or"]
        pub(super) fn reduce_or(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.xor"]
        pub(super) fn reduce_xor(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.bar.warp.sync"]
        pub(super) fn sync_warp(mask: u32);
        #[link_name = "llvm.nvvm.activemask"]
        pub(in crate::warp) fn active_mask() -> u32;
    }

    /// The clamp operand of `shfl` for segments of a whole warp: the highest lane. Of `shfl.up` it is the lowest one,
    /// 0.
    pub(super) const CLAMP: u32 = 31;
}

/// A value of 32 or 64 bits that lanes exchange: `u32`, `i32`, `f32`, `u64`, `i64`, `f64`.
pub trait ShuffleValue: Copy {
    /// The value that an exchange of 32-bit words makes of this one. A 64-bit value takes two exchanges.
    #[doc(hidden)]
    fn exchanged(self, exchange: impl Fn(u32) -> u32) -> Self;
    /// The value's bits, the high ones 0.
    #[doc(hidden)]
    fn bits(self) -> u64;
}

/// An integer of which lanes compute sums, minima and maxima: `u32`, `i32`.
pub trait ReduceInteger: ShuffleValue {
    /// Whether it is `i32`.
    #[doc(hidden)]
    const SIGNED: bool;
}

impl ReduceInteger for u32 {
    const SIGNED: bool = false;
}
impl ReduceInteger for i32 {
    const SIGNED: bool = true;
}

macro_rules! shuffle_values {
    ($($type:ty, $bits:ident, $to:expr, $of:expr;)*) => {$(
        impl ShuffleValue for $type {
            #[inline(always)]
            fn exchanged(self, exchange: impl Fn(u32) -> u32) -> Self {
                shuffle_values!(@$bits exchange, $to(self), $of)
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                $to(self).into()
            }
        }
    )*};
    (@u32 $exchange:ident, $value:expr, $of:expr) => {
        $of($exchange($value))
    };
    (@u64 $exchange:ident, $value:expr, $of:expr) => {{
        let value: u64 = $value;
        $of(u64::from($exchange(value as u32)) | u64::from($exchange((value >> 32) as u32)) << 32)
    }};
}

shuffle_values! {
    u32, u32, |value: u32| value, |bits: u32| bits;
    i32, u32, |value: i32| value as u32, |bits: u32| bits as i32;
    f32, u32, f32::to_bits, f32::from_bits;
    u64, u64, |value: u64| value, |bits: u64| bits;
    i64, u64, |value: i64| value as u64, |bits: u64| bits as i64;
    f64, u64, f64::to_bits, f64::from_bits;
}

/// One operation: the intrinsic on the device, the executor's answer on the host.
macro_rules! collective {
    ($mask:ident, $operation:expr, $value:expr, $device:expr) => {{
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: the lanes of the mask are converged here, as the function requires.
            unsafe { $device }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            executor::current().collective($mask, $operation, $value, core::panic::Location::caller())
        }
    }};
}

/// The four shuffles.
macro_rules! shuffles {
    ($($(#[$doc:meta])* $name:ident($argument:ident), $operation:ident, $clamp:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// - The lanes of `mask` execute this call together, with the same mask. This lane is one of them.
        #[inline(always)]
        #[track_caller]
        #[must_use]
        pub unsafe fn $name<T: ShuffleValue>(mask: u32, value: T, $argument: u32) -> T {
            #[cfg(not(target_arch = "nvptx64"))]
            let location = core::panic::Location::caller();
            value.exchanged(|word| {
                #[cfg(target_arch = "nvptx64")]
                {
                    // SAFETY: the lanes of the mask are converged here, as the function requires.
                    unsafe { intrinsics::$name(mask, word, $argument, $clamp) }
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    executor::current().collective(mask, Collective::$operation($argument), word.into(), location)
                }
            })
        }
    )*};
}

shuffles! {
    /// The `value` of lane `lane` modulo 32, which is in the mask.
    shuffle(lane), Shuffle, intrinsics::CLAMP;
    /// The `value` of the lane that is `delta` lower, or this lane's own where there is none. Other lanes that are not
    /// in the mask have no value. `delta` is 0 to 31.
    shuffle_up(delta), ShuffleUp, 0;
    /// The `value` of the lane that is `delta` higher, or this lane's own where there is none. Other lanes that are not
    /// in the mask have no value. `delta` is 0 to 31.
    shuffle_down(delta), ShuffleDown, intrinsics::CLAMP;
    /// The `value` of the lane whose number is this lane's XOR `bits`, which is 0 to 31. That lane is in the mask.
    shuffle_xor(bits), ShuffleXor, intrinsics::CLAMP;
}

/// One bit per lane of the mask, set where `predicate` holds.
///
/// # Safety
/// - The lanes of `mask` execute this call together, with the same mask. This lane is one of them.
#[inline(always)]
#[track_caller]
#[must_use]
pub unsafe fn ballot(mask: u32, predicate: bool) -> u32 {
    collective!(mask, Collective::Ballot, u64::from(predicate), intrinsics::ballot(mask, predicate))
}

/// Whether `predicate` holds in all lanes of the mask.
///
/// # Safety
/// - The lanes of `mask` execute this call together, with the same mask. This lane is one of them.
#[inline(always)]
#[track_caller]
#[must_use]
pub unsafe fn all(mask: u32, predicate: bool) -> bool {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the lanes of the mask are converged here, as the function requires.
        unsafe { intrinsics::all(mask, predicate) }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        // SAFETY: the conditions are the same.
        unsafe { ballot(mask, predicate) == mask }
    }
}

/// Whether `predicate` holds in a lane of the mask.
///
/// # Safety
/// - The lanes of `mask` execute this call together, with the same mask. This lane is one of them.
#[inline(always)]
#[track_caller]
#[must_use]
pub unsafe fn any(mask: u32, predicate: bool) -> bool {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the lanes of the mask are converged here, as the function requires.
        unsafe { intrinsics::any(mask, predicate) }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        // SAFETY: the conditions are the same.
        unsafe { ballot(mask, predicate) != 0 }
    }
}

/// One bit per lane of the mask, set where `value` has the same bits as in this lane: PTX `match.any.sync`.
///
/// # Safety
/// - The lanes of `mask` execute this call together, with the same mask. This lane is one of them.
#[inline(always)]
#[track_caller]
#[must_use]
pub unsafe fn match_any<T: ShuffleValue>(mask: u32, value: T) -> u32 {
    collective!(
        mask,
        Collective::Match,
        value.bits(),
        if size_of::<T>() == 8 {
            intrinsics::match_any_64(mask, value.bits())
        } else {
            intrinsics::match_any(mask, value.bits() as u32)
        }
    )
}

/// The mask if `value` has the same bits in all of its lanes, otherwise 0. It is computed from `match.any.sync`.
///
/// # Safety
/// - The lanes of `mask` execute this call together, with the same mask. This lane is one of them.
#[inline(always)]
#[track_caller]
#[must_use]
pub unsafe fn match_all<T: ShuffleValue>(mask: u32, value: T) -> u32 {
    // SAFETY: the conditions are the same.
    if unsafe { match_any(mask, value) } == mask { mask } else { 0 }
}

/// A reduction of `u32` and `i32`.
macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident, $signed:ident, $unsigned:ident, $of_signed:ident, $of_unsigned:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// - The lanes of `mask` execute this call together, with the same mask. This lane is one of them.
        #[inline(always)]
        #[track_caller]
        #[must_use]
        pub unsafe fn $name<T: ReduceInteger>(mask: u32, value: T) -> T {
            #[cfg(target_arch = "nvptx64")]
            require_arch!(concat!("warp::", stringify!($name)), "sm_80", "Sm80");
            #[cfg(not(target_arch = "nvptx64"))]
            let location = core::panic::Location::caller();
            value.exchanged(|word| {
                #[cfg(target_arch = "nvptx64")]
                {
                    // SAFETY: the lanes of the mask are converged here, as the function requires.
                    unsafe {
                        if T::SIGNED { intrinsics::$signed(word, mask) } else { intrinsics::$unsigned(word, mask) }
                    }
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    let reduction = if T::SIGNED { Reduction::$of_signed } else { Reduction::$of_unsigned };
                    executor::current().collective(mask, Collective::Reduce(reduction), word.into(), location)
                }
            })
        }
    )*};
}

reductions! {
    /// The sum of the values of the mask's lanes; it wraps. PTX `redux.sync.add`, from compute capability 8.0 on.
    reduce_add, reduce_add, reduce_add, Add, Add;
    /// The least value of the mask's lanes: `redux.sync.min`, from compute capability 8.0 on.
    reduce_min, reduce_min_signed, reduce_min_unsigned, MinSigned, MinUnsigned;
    /// The greatest value of the mask's lanes: `redux.sync.max`, from compute capability 8.0 on.
    reduce_max, reduce_max_signed, reduce_max_unsigned, MaxSigned, MaxUnsigned;
}

/// A reduction of the bits of `u32`.
macro_rules! reductions_of_bits {
    ($($(#[$doc:meta])* $name:ident, $of:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// - The lanes of `mask` execute this call together, with the same mask. This lane is one of them.
        #[inline(always)]
        #[track_caller]
        #[must_use]
        pub unsafe fn $name(mask: u32, value: u32) -> u32 {
            #[cfg(target_arch = "nvptx64")]
            require_arch!(concat!("warp::", stringify!($name)), "sm_80", "Sm80");
            collective!(mask, Collective::Reduce(Reduction::$of), value.into(), intrinsics::$name(value, mask))
        }
    )*};
}

reductions_of_bits! {
    /// The bits that are set in all lanes of the mask: `redux.sync.and`, from compute capability 8.0 on.
    reduce_and, And;
    /// The bits that are set in a lane of the mask: `redux.sync.or`, from compute capability 8.0 on.
    reduce_or, Or;
    /// The bits that are set in an odd number of the mask's lanes: `redux.sync.xor`, from compute capability 8.0 on.
    reduce_xor, Xor;
}

/// Waits for the lanes of the mask. A lane sees what the others wrote to memory before.
///
/// # Safety
/// - The lanes of `mask` execute this call together, with the same mask. This lane is one of them.
#[inline(always)]
#[track_caller]
pub unsafe fn sync_warp(mask: u32) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the lanes of the mask are converged here, as the function requires.
        unsafe { intrinsics::sync_warp(mask) }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        executor::current().collective(mask, Collective::Sync, 0, core::panic::Location::caller());
    }
}
