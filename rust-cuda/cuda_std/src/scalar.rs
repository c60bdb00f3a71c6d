//! The types that a thread moves in one instruction, and the instructions that move them.
//!
//! On the device each memory has its own load and store instruction, so each type brings one body per memory. The
//! bodies are made by one macro from the PTX type suffix and the register class.

use crate::vector::{F32x2, F32x4};

mod sealed {
    pub trait Sealed {}
}

/// A type that one PTX instruction loads or stores: `u8`, `u16`, `u32`, `i32`, `f32`, [`F32x2`], [`F32x4`].
///
/// Sealed: the executor relies on every implementor being plain bytes without padding, for which each
/// bit pattern is a value.
pub trait Scalar: Copy + Default + sealed::Sealed + 'static {
    /// Reads `[address]` in global memory.
    ///
    /// # Safety
    /// `address` points to a live, initialised value in global memory, aligned for `Self`.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn load_global(address: *const Self) -> Self;
    /// Writes `[address]` in global memory.
    ///
    /// # Safety
    /// `address` points to live global memory, aligned for `Self`, that no other thread accesses unordered.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn store_global(address: *mut Self, value: Self);
    /// Reads `[address]` in shared memory, `address` being a 32-bit address of the shared window.
    ///
    /// # Safety
    /// The address lies in the block's shared memory, is aligned for `Self` and initialised.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn load_shared(address: u32) -> Self;
    /// Writes `[address]` in shared memory.
    ///
    /// # Safety
    /// The address lies in the block's shared memory, aligned for `Self`, and no other thread
    /// accesses it before the next barrier.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn store_shared(address: u32, value: Self);
    /// Reads `[address]` in constant memory, `address` being an address of the constant window.
    ///
    /// # Safety
    /// The address lies in a constant symbol of the module, aligned for `Self`.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn load_constant(address: u64) -> Self;
}

/// Implements [`Scalar`] for a type in one register. Global accesses are plain Rust ones: LLVM knows that
/// a kernel's pointer parameters are global and folds constant offsets into the instruction.
macro_rules! single {
    ($($type:ty, $suffix:literal, $class:ident;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Scalar for $type {
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_global(address: *const Self) -> Self {
                // SAFETY: the caller's promise is exactly that of a read.
                unsafe { address.read() }
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn store_global(address: *mut Self, value: Self) {
                // SAFETY: the caller's promise is exactly that of a write.
                unsafe { address.write(value) }
            }
            // Shared loads are `readonly` and not `pure`: they keep their place between barriers and stores.
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_shared(address: u32) -> Self {
                let value: Self;
                // SAFETY: the caller promises a valid address in the shared window.
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
                // SAFETY: the caller promises a valid address in the shared window.
                unsafe {
                    core::arch::asm!(
                        concat!("st.shared.", $suffix, " [{address}], {value};"),
                        value = in($class) value, address = in(reg32) address,
                        options(nostack, preserves_flags),
                    );
                }
            }
            // Not `pure` either: LLVM would hoist every coefficient of a mask out of a loop into registers.
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_constant(address: u64) -> Self {
                let value: Self;
                // SAFETY: the caller promises a valid address in the constant window.
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
    u16, "u16", reg16;
    u32, "u32", reg32;
    i32, "s32", reg32;
    f32, "f32", reg32;
}

/// Implements [`Scalar`] for a vector: one instruction, a list of registers.
macro_rules! vector {
    ($($type:ident, $suffix:literal, $list:literal, [$($lane:ident = $index:literal),*];)*) => {$(
        impl sealed::Sealed for $type {}
        impl Scalar for $type {
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_global(address: *const Self) -> Self {
                let mut value = Self::default();
                // SAFETY: the caller promises an aligned, live address in global memory.
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
                // SAFETY: the caller promises an aligned, live address in global memory.
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
                // SAFETY: the caller promises a valid, aligned address in the shared window.
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
                // SAFETY: the caller promises a valid, aligned address in the shared window.
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
                // SAFETY: the caller promises a valid, aligned address in the constant window.
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
