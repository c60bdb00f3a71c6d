//! A slot and a trampoline for each symbol of the table.
//!
//! # Soundness
//!
//! A slot is an atomic pointer that always holds the address of a function which may be called with the arguments of
//! the driver function of that name: first a fallback (see [`crate::fallback`]), later perhaps the driver's own. The
//! loader stores with `Release`; the trampolines load with acquire semantics (every load on x86-64, `ldar` on AArch64).
//! A thread that jumps to a driver's function therefore sees what opening the library wrote. A call that races with
//! [`crate::load`] takes either function, and both are valid. The driver's library is never closed, so no slot can
//! dangle.

use std::sync::atomic::AtomicPtr;

/// A symbol's name and the slot behind its trampoline.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) slot: &'static AtomicPtr<()>,
}

/// The body of a trampoline: a jump to the function in `$slot`.
///
/// It must not change a register that may hold an argument. `.hidden` keeps the name inside the binary; see "Limits" in
/// the crate's documentation.
#[cfg(target_arch = "x86_64")]
macro_rules! jump_through {
    ($name:ident, $slot:path) => {
        std::arch::naked_asm!(
            concat!(".hidden ", stringify!($name)),
            "jmp qword ptr [rip + {slot}]",
            slot = sym $slot,
        )
    };
}

/// The same on AArch64, whose ABI reserves `x16` for code between a call and its target.
#[cfg(not(target_arch = "x86_64"))]
macro_rules! jump_through {
    ($name:ident, $slot:path) => {
        std::arch::naked_asm!(
            concat!(".hidden ", stringify!($name)),
            "adrp x16, {slot}",
            "add x16, x16, :lo12:{slot}",
            "ldar x16, [x16]",
            "br x16",
            slot = sym $slot,
        )
    };
}

/// The address that a slot holds at first.
macro_rules! fallback_address {
    () => {
        crate::fallback::not_initialized as *const () as *mut ()
    };
    ($fallback:ident) => {
        crate::fallback::$fallback as *const () as *mut ()
    };
}

macro_rules! define {
    ($($name:ident $(= $fallback:ident)?,)*) => {
        /// The slots, in a module so that a slot and its trampoline can have the same name.
        mod slots {
            use super::AtomicPtr;
            $(
                #[allow(non_upper_case_globals, reason = "named after the driver's function")]
                pub(super) static $name: AtomicPtr<()> =
                    AtomicPtr::new(fallback_address!($($fallback)?));
            )*
        }

        mod trampolines {
            $(
                /// Jumps to the driver's function of this name, or to its fallback.
                ///
                /// # Safety
                ///
                /// - The caller declares the function with the driver's signature: the one here is a placeholder.
                #[unsafe(naked)]
                #[unsafe(no_mangle)]
                unsafe extern "C" fn $name() {
                    jump_through!($name, super::slots::$name)
                }
            )*
        }

        /// The names of all driver functions that this crate defines, in alphabetical order.
        ///
        /// ```
        /// assert!(cuda_driver::SYMBOLS.contains(&"cuInit"));
        /// ```
        pub const SYMBOLS: &[&str] = &[$(stringify!($name)),*];

        /// All slots, for the loader.
        pub(crate) static ENTRIES: &[Entry] = &[
            $(Entry { name: stringify!($name), slot: &slots::$name }),*
        ];
    };
}

for_each_symbol!(define);
