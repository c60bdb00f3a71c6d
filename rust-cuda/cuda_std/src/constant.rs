//! Constant memory: up to 64 KiB per module that the host sets before a launch and all threads read.
//!
//! A read of one address by all threads of a warp is as fast as a register; that is how a filter's
//! coefficients are read. Reads of different addresses are done one after the other.

use crate::Scalar;

/// An array in constant memory; made by [`constant!`](crate::constant!), not by hand.
pub trait ConstantMemory: Copy {
    /// What it holds.
    type Element: Scalar;
    /// How many elements it holds.
    const LENGTH: usize;
    /// The symbol by which the host finds it in a loaded module.
    const SYMBOL: &'static str;

    /// Its address in the constant window.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    fn address() -> u64;

    /// Element `index`.
    ///
    /// # Safety
    /// `index` is below [`LENGTH`](Self::LENGTH), and the host set the element before the launch.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    unsafe fn load(self, index: usize) -> Self::Element {
        #[cfg(target_arch = "nvptx64")]
        {
            let bytes = index as u64 * size_of::<Self::Element>() as u64;
            // SAFETY: the caller's promise.
            unsafe { Self::Element::load_constant(Self::address() + bytes) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            crate::executor::load_constant::<Self>(index)
        }
    }
}

/// Declares an array in constant memory, as CUDA's `__constant__`.
///
/// The name becomes a unit value whose [`load`](crate::constant::ConstantMemory::load) reads an element, and the PTX
/// symbol that the host writes to. Length and element type are part of the declaration: 65,536 bytes is
/// the most that a module may have.
///
/// ```
/// cuda_std::constant! {
///     /// The coefficients of the filter.
///     pub static WEIGHTS: [f32; 1024];
/// }
/// use cuda_std::prelude::*;
/// assert_eq!((WEIGHTS::SYMBOL, WEIGHTS::LENGTH), ("WEIGHTS", 1024));
/// ```
#[macro_export]
macro_rules! constant {
    ($(#[$doc:meta])* $visibility:vis static $name:ident: [$element:ty; $length:literal];) => {
        $(#[$doc])*
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy, Debug)]
        $visibility struct $name;

        const _: () = assert!(
            $length * ::core::mem::size_of::<$element>() <= 65_536,
            "a module has 64 KiB of constant memory"
        );

        #[cfg(target_arch = "nvptx64")]
        ::core::arch::global_asm!(
            concat!(".visible .const .align 16 .b8 ", stringify!($name), "[{bytes}];"),
            bytes = const $length * ::core::mem::size_of::<$element>(),
        );

        impl $crate::constant::ConstantMemory for $name {
            type Element = $element;
            const LENGTH: usize = $length;
            const SYMBOL: &'static str = stringify!($name);

            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            fn address() -> u64 {
                let address: u64;
                // SAFETY: takes the address of the symbol declared above; touches no memory.
                unsafe {
                    ::core::arch::asm!(
                        concat!("mov.u64 {address}, ", stringify!($name), ";"),
                        address = out(reg64) address,
                        options(nostack, nomem, pure, preserves_flags),
                    );
                }
                address
            }
        }
    };
}
