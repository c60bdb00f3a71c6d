//! The types that one PTX instruction loads or stores, and those instructions.
//!
//! PTX has a load and a store instruction for each state space, so each type has one function for each. Macros write
//! them from the PTX type suffix and the register class.

use crate::half::{Bf16, Bf16x2, F16, F16x2};
use crate::vector::{F32x2, F32x4};

mod sealed {
    pub trait Sealed {}
}

/// A type that one PTX instruction loads or stores: `u8`, `i8`, `u16`, `i16`, `u32`, `i32`, `u64`, `i64`, `f32`, `f64`,
/// [`F16`], [`Bf16`], [`F16x2`], [`Bf16x2`], [`F32x2`], [`F32x4`].
///
/// The trait is sealed: executors rely on types without padding for which every bit pattern is a value.
pub trait Scalar: Copy + Default + sealed::Sealed + 'static {
    /// Reads the value at a generic address in global memory.
    ///
    /// # Safety
    /// - `address` points to a live, initialised value in global memory, and is aligned for `Self`.
    /// - No other thread writes it without a barrier between.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn load_global(address: *const Self) -> Self;
    /// Writes to a generic address in global memory.
    ///
    /// # Safety
    /// - `address` points to live global memory and is aligned for `Self`.
    /// - No other thread accesses it without a barrier between.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn store_global(address: *mut Self, value: Self);
    /// Reads the value at a 32-bit address of the shared window.
    ///
    /// # Safety
    /// - The address lies in the block's shared memory and is aligned for `Self`.
    /// - The value is initialised.
    /// - No other thread writes it between the barriers around this read.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn load_shared(address: u32) -> Self;
    /// Writes to a 32-bit address of the shared window.
    ///
    /// # Safety
    /// - The address lies in the block's shared memory and is aligned for `Self`.
    /// - No other thread accesses it between the barriers around this write.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn store_shared(address: u32, value: Self);
    /// Reads the value at an address of the constant window.
    ///
    /// # Safety
    /// - The address lies in a `.const` variable of the module and is aligned for `Self`.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn load_constant(address: u64) -> Self;
}

/// Implements [`Scalar`] for a type in one register.
///
/// Global accesses are plain Rust ones: LLVM infers that kernel parameters point to global memory, and it folds
/// constant offsets into the instruction.
macro_rules! single {
    ($($type:ty, $suffix:literal, $class:ident;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Scalar for $type {
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_global(address: *const Self) -> Self {
                // SAFETY: `address` points to a live, initialised, aligned value without a race.
                unsafe { address.read() }
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn store_global(address: *mut Self, value: Self) {
                // SAFETY: `address` points to live, aligned memory without a race.
                unsafe { address.write(value) }
            }
            // `readonly` and not `pure`: a shared load must stay between the barriers and stores around it.
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_shared(address: u32) -> Self {
                let value: Self;
                // SAFETY: the address lies in the block's shared memory and is aligned.
                unsafe {
                    core::arch::asm!(
                        concat!("ld.shared.", $suffix, " {value}, [{address}];"),
                        value = out($class) value, address = in(reg32) address,
                        options(nostack, readonly, preserves_flags),
                    );
                }
                value
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn store_shared(address: u32, value: Self) {
                // SAFETY: the address lies in the block's shared memory and is aligned.
                unsafe {
                    core::arch::asm!(
                        concat!("st.shared.", $suffix, " [{address}], {value};"),
                        value = in($class) value, address = in(reg32) address,
                        options(nostack, preserves_flags),
                    );
                }
            }
            // Not `pure`: LLVM would hoist every coefficient of a mask out of a loop into registers.
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_constant(address: u64) -> Self {
                let value: Self;
                // SAFETY: the address lies in a `.const` variable and is aligned.
                unsafe {
                    core::arch::asm!(
                        concat!("ld.const.", $suffix, " {value}, [{address}];"),
                        value = out($class) value, address = in(reg64) address,
                        options(nostack, readonly, preserves_flags),
                    );
                }
                value
            }
        }
    )*};
}

single! {
    u8, "u8", reg16;
    i8, "s8", reg16;
    u16, "u16", reg16;
    i16, "s16", reg16;
    u32, "u32", reg32;
    i32, "s32", reg32;
    u64, "u64", reg64;
    i64, "s64", reg64;
    f32, "f32", reg32;
    f64, "f64", reg64;
}

/// Implements [`Scalar`] for a type that wraps the bits of an integer.
macro_rules! wrapped {
    ($($type:ty, $bits:ty;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Scalar for $type {
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_global(address: *const Self) -> Self {
                // SAFETY: the conditions are the same: the types have the same layout.
                Self::from_bits(unsafe { <$bits>::load_global(address.cast()) })
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn store_global(address: *mut Self, value: Self) {
                // SAFETY: the conditions are the same: the types have the same layout.
                unsafe { <$bits>::store_global(address.cast(), value.to_bits()) }
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_shared(address: u32) -> Self {
                // SAFETY: the conditions are the same: the types have the same layout.
                Self::from_bits(unsafe { <$bits>::load_shared(address) })
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn store_shared(address: u32, value: Self) {
                // SAFETY: the conditions are the same: the types have the same layout.
                unsafe { <$bits>::store_shared(address, value.to_bits()) }
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_constant(address: u64) -> Self {
                // SAFETY: the conditions are the same: the types have the same layout.
                Self::from_bits(unsafe { <$bits>::load_constant(address) })
            }
        }
    )*};
}

wrapped! {
    F16, u16;
    Bf16, u16;
    F16x2, u32;
    Bf16x2, u32;
}

/// Implements [`Scalar`] for a vector: one instruction with a list of registers.
macro_rules! vector {
    ($($type:ident, $suffix:literal, $list:literal, [$($lane:ident = $index:literal),*];)*) => {$(
        impl sealed::Sealed for $type {}
        impl Scalar for $type {
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_global(address: *const Self) -> Self {
                let mut value = Self::default();
                // SAFETY: `address` points to live, aligned global memory without a race.
                unsafe {
                    core::arch::asm!(
                        "{{ .reg .b64 at; cvta.to.global.u64 at, {address};",
                        concat!("ld.global.", $suffix, " ", $list, ", [at]; }}"),
                        $($lane = out(reg32) value.0[$index],)* address = in(reg64) address,
                        options(nostack, readonly, preserves_flags),
                    );
                }
                value
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn store_global(address: *mut Self, value: Self) {
                // SAFETY: `address` points to live, aligned global memory without a race.
                unsafe {
                    core::arch::asm!(
                        "{{ .reg .b64 at; cvta.to.global.u64 at, {address};",
                        concat!("st.global.", $suffix, " [at], ", $list, "; }}"),
                        $($lane = in(reg32) value.0[$index],)* address = in(reg64) address,
                        options(nostack, preserves_flags),
                    );
                }
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_shared(address: u32) -> Self {
                let mut value = Self::default();
                // SAFETY: the address lies in the block's shared memory and is aligned.
                unsafe {
                    core::arch::asm!(
                        concat!("ld.shared.", $suffix, " ", $list, ", [{address}];"),
                        $($lane = out(reg32) value.0[$index],)* address = in(reg32) address,
                        options(nostack, readonly, preserves_flags),
                    );
                }
                value
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn store_shared(address: u32, value: Self) {
                // SAFETY: the address lies in the block's shared memory and is aligned.
                unsafe {
                    core::arch::asm!(
                        concat!("st.shared.", $suffix, " [{address}], ", $list, ";"),
                        $($lane = in(reg32) value.0[$index],)* address = in(reg32) address,
                        options(nostack, preserves_flags),
                    );
                }
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_constant(address: u64) -> Self {
                let mut value = Self::default();
                // SAFETY: the address lies in a `.const` variable and is aligned.
                unsafe {
                    core::arch::asm!(
                        concat!("ld.const.", $suffix, " ", $list, ", [{address}];"),
                        $($lane = out(reg32) value.0[$index],)* address = in(reg64) address,
                        options(nostack, readonly, preserves_flags),
                    );
                }
                value
            }
        }
    )*};
}

vector! {
    F32x2, "v2.f32", "{{{a}, {b}}}", [a = 0, b = 1];
    F32x4, "v4.f32", "{{{a}, {b}, {c}, {d}}}", [a = 0, b = 1, c = 2, d = 3];
}
