//! The types of atomic elements.

use crate::Scalar;

#[cfg(target_arch = "nvptx64")]
use super::{
    AtomicMemory, Ordering, Scope,
    device::{by_order_and_scope, compare_exchange, fence_before, in_memory, load, store, update},
};

/// Declares device functions of a trait: an address, values, order and scope.
macro_rules! device_functions {
    ($($name:ident($($value:ident),*) $(-> $result:ty)?;)*) => {$(
        /// # Safety
        /// - The address is one of `M`, inside an array, and aligned for `Self`. The element is initialised.
        #[cfg(target_arch = "nvptx64")]
        #[doc(hidden)]
        unsafe fn $name<M: AtomicMemory>(address: u64, $($value: Self,)* order: Ordering, scope: Scope) $(-> $result)?;
    )*};
}

/// A type with atomic operations: `u32`, `i32`, `u64`, `i64`, `f32`, `f64`.
pub trait AtomicScalar: Scalar {
    /// The value's bits, the high ones 0.
    #[doc(hidden)]
    fn bits(self) -> u64;
    /// The value with these bits.
    #[doc(hidden)]
    fn of_bits(bits: u64) -> Self;
    /// The value of which the addition is the subtraction of this one.
    #[doc(hidden)]
    fn negated(self) -> Self;
    /// The sum as `atom.add` in shared or in global memory computes it.
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    fn sum(self, other: Self, shared: bool) -> Self;

    device_functions! {
        device_load() -> Self;
        device_store(value);
        device_swap(value) -> Self;
        device_compare_exchange(current, new) -> Self;
        device_add(value) -> Self;
    }
}

/// An integer with atomic operations: `u32`, `i32`, `u64`, `i64`.
pub trait AtomicInteger: AtomicScalar + Ord {
    device_functions! {
        device_min(value) -> Self;
        device_max(value) -> Self;
        device_and(value) -> Self;
        device_or(value) -> Self;
        device_xor(value) -> Self;
    }
}

/// Implements a device function of one value as an `atom` instruction.
macro_rules! update_functions {
    ($class:ident: $($name:ident = $operation:expr;)*) => {$(
        #[cfg(target_arch = "nvptx64")]
        #[inline(always)]
        unsafe fn $name<M: AtomicMemory>(address: u64, value: Self, order: Ordering, scope: Scope) -> Self {
            let old: Self;
            fence_before(order, scope);
            // SAFETY: the address is valid and aligned, as the trait requires.
            unsafe { update!(old, value, address, order, scope, M, $class, $operation) }
            old
        }
    )*};
}

/// Implements [`AtomicScalar`]: the type's suffix and that of its bits, its register class, and the functions for the
/// host.
macro_rules! scalars {
    ($($type:ty, $suffix:literal, $bits:literal, $class:ident {$($host:item)*})*) => {$(
        impl AtomicScalar for $type {
            $($host)*

            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn device_load<M: AtomicMemory>(address: u64, order: Ordering, scope: Scope) -> Self {
                let value: Self;
                fence_before(order, scope);
                // SAFETY: the address is valid and aligned, as the trait requires.
                unsafe { load!(value, address, order, scope, M, $class, $bits) }
                value
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn device_store<M: AtomicMemory>(address: u64, value: Self, order: Ordering, scope: Scope) {
                fence_before(order, scope);
                // SAFETY: the address is valid and aligned, as the trait requires.
                unsafe { store!(value, address, order, scope, M, $class, $bits) }
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn device_compare_exchange<M: AtomicMemory>(
                address: u64,
                current: Self,
                new: Self,
                order: Ordering,
                scope: Scope,
            ) -> Self {
                let old: Self;
                fence_before(order, scope);
                // SAFETY: the address is valid and aligned, as the trait requires.
                unsafe { compare_exchange!(old, current, new, address, order, scope, M, $class, $bits) }
                old
            }
            update_functions! { $class:
                device_swap = concat!("exch.", $bits);
                device_add = concat!("add.", $suffix);
            }
        }
    )*};
}

/// Implements both traits for integers: the type, its unsigned type, its suffix, and those of additions and bits.
macro_rules! integers {
    ($($type:ident, $unsigned:ident, $suffix:literal, $sum:literal, $bits:literal, $class:ident;)*) => {$(
        scalars! { $type, $sum, $bits, $class {
            #[inline(always)]
            fn bits(self) -> u64 {
                u64::from(self as $unsigned)
            }
            #[inline(always)]
            fn of_bits(bits: u64) -> Self {
                bits as Self
            }
            #[inline(always)]
            fn negated(self) -> Self {
                self.wrapping_neg()
            }
            #[cfg(not(target_arch = "nvptx64"))]
            fn sum(self, other: Self, _shared: bool) -> Self {
                self.wrapping_add(other)
            }
        } }
        impl AtomicInteger for $type {
            update_functions! { $class:
                device_min = concat!("min.", $suffix);
                device_max = concat!("max.", $suffix);
                device_and = concat!("and.", $bits);
                device_or = concat!("or.", $bits);
                device_xor = concat!("xor.", $bits);
            }
        }
    )*};
}

integers! {
    u32, u32, "u32", "u32", "b32", reg32;
    i32, u32, "s32", "u32", "b32", reg32;
    u64, u64, "u64", "u64", "b64", reg64;
    i64, u64, "s64", "u64", "b64", reg64;
}

/// Zero of the same sign for a subnormal number.
#[cfg(not(target_arch = "nvptx64"))]
fn flushed(value: f32) -> f32 {
    if value.is_subnormal() { 0.0_f32.copysign(value) } else { value }
}

scalars! {
    f32, "f32", "b32", reg32 {
        #[inline(always)]
        fn bits(self) -> u64 {
            self.to_bits().into()
        }
        #[inline(always)]
        fn of_bits(bits: u64) -> Self {
            Self::from_bits(bits as u32)
        }
        #[inline(always)]
        fn negated(self) -> Self {
            -self
        }
        #[cfg(not(target_arch = "nvptx64"))]
        fn sum(self, other: Self, shared: bool) -> Self {
            if shared { self + other } else { flushed(flushed(self) + flushed(other)) }
        }
    }
    f64, "f64", "b64", reg64 {
        #[inline(always)]
        fn bits(self) -> u64 {
            self.to_bits()
        }
        #[inline(always)]
        fn of_bits(bits: u64) -> Self {
            Self::from_bits(bits)
        }
        #[inline(always)]
        fn negated(self) -> Self {
            -self
        }
        #[cfg(not(target_arch = "nvptx64"))]
        fn sum(self, other: Self, _shared: bool) -> Self {
            self + other
        }
    }
}
