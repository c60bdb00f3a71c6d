//! Constant memory: up to 64 KiB per module, written by the host before a launch and read by all threads.
//!
//! If all threads of a warp read the same address, a read is as fast as one of a register. Reads of different addresses
//! are served one after the other.

use crate::Scalar;

/// An array in constant memory. [`constant!`](crate::constant!) declares one.
///
/// # Safety
/// An implementer guarantees:
/// - [`SYMBOL`](Self::SYMBOL) names a `.const` variable of the module that the kernel is in.
/// - The variable holds [`LENGTH`](Self::LENGTH) elements and is aligned for an element.
/// - `address` returns the address of that variable in the constant window.
/// - No other type names the same variable.
pub unsafe trait ConstantMemory: Copy {
    /// The type of an element.
    type Element: Scalar;
    /// The number of elements.
    const LENGTH: usize;
    /// The symbol by which the host finds the array in a loaded module.
    const SYMBOL: &'static str;

    /// The array's address in the constant window.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    fn address() -> u64;

    /// Reads element `index`.
    ///
    /// # Safety
    /// - `index` is below [`LENGTH`](Self::LENGTH).
    /// - The host wrote the element before the launch.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    unsafe fn load(self, index: usize) -> Self::Element {
        #[cfg(target_arch = "nvptx64")]
        {
            let bytes = index as u64 * size_of::<Self::Element>() as u64;
            // SAFETY: `index` is below LENGTH, and the trait's implementer guarantees as many elements at `address`.
            unsafe { Self::Element::load_constant(Self::address() + bytes) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            crate::executor::load_constant::<Self>(index)
        }
    }
}

/// Declares an array in constant memory, as `__constant__` does in CUDA C++.
///
/// The name becomes a unit value whose [`load`](crate::constant::ConstantMemory::load) reads an element. It is also the
/// PTX symbol that the host writes to. A module has at most 65,536 bytes of constant memory.
///
/// ```
/// cuda_std::constant! {
///     /// The coefficients of the filter.
///     pub static WEIGHTS: [f32; 1024];
/// }
/// use cuda_std::prelude::*;
/// assert_eq!((WEIGHTS::SYMBOL, WEIGHTS::LENGTH), ("WEIGHTS", 1024));
/// ```
///
/// The length is a constant expression:
///
/// ```
/// # use cuda_std::prelude::*;
/// const RADIUS: usize = 3;
/// cuda_std::constant! { static ROW: [f32; 2 * RADIUS + 1]; }
/// assert_eq!(ROW::LENGTH, 7);
/// ```
#[macro_export]
macro_rules! constant {
    ($(#[$doc:meta])* $visibility:vis static $name:ident: [$element:ty; $length:expr];) => {
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

        // SAFETY: the `.const` variable declared above has this name and this length, and 16 bytes are an alignment for
        // every element. Two variables of one name do not assemble.
        unsafe impl $crate::constant::ConstantMemory for $name {
            type Element = $element;
            const LENGTH: usize = $length;
            const SYMBOL: &'static str = stringify!($name);

            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            fn address() -> u64 {
                let address: u64;
                // SAFETY: the instruction takes the address of the variable declared above and accesses no memory.
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
