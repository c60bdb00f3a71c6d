//! The types that a kernel may have as parameters.

use crate::half::{Bf16, Bf16x2, F16, F16x2};
use crate::vector::{F32x2, F32x4};

/// A value that the host passes to a kernel: `u8` to `u64`, `usize`, `i8` to `i64`, `isize`, `f32`, `f64`, `bool`,
/// [`F16`], [`Bf16`], [`F16x2`], [`Bf16x2`], [`F32x2`], [`F32x4`], arrays of these, and structures of these.
///
/// Arrays in the memory of the device are not values: a kernel gets them as [`Global`](crate::Global) or
/// [`GlobalMut`](crate::GlobalMut).
///
/// A structure is `Copy` and `#[repr(C)]`, and derives the trait:
///
/// ```
/// use cuda_std::prelude::*;
///
/// #[derive(Clone, Copy, KernelArgument)]
/// #[repr(C)]
/// pub struct Window {
///     pub first: u32,
///     pub length: u32,
/// }
///
/// /// # Safety
/// /// - `values` holds the elements of the window.
/// #[kernel]
/// pub unsafe fn clear(values: GlobalMut<f32>, window: Window) {
///     let i = thread::index_1d();
///     if i < window.length {
///         // SAFETY: the element is one of the window, and no other thread has this i.
///         unsafe { values.store((window.first + i) as isize, 0.0) };
///     }
/// }
/// ```
///
/// Each of these is an error. A structure that is not `Copy`:
///
/// ```compile_fail
/// # use cuda_std::prelude::*;
/// #[derive(Clone, KernelArgument)]
/// #[repr(C)]
/// pub struct Window { pub first: u32 }
/// ```
///
/// One with a field that is no argument:
///
/// ```compile_fail
/// # use cuda_std::prelude::*;
/// #[derive(Clone, Copy, KernelArgument)]
/// #[repr(C)]
/// pub struct Window { pub first: &'static u32 }
/// ```
///
/// A parameter of a type without the trait. Every thread would free the same text:
///
/// ```compile_fail
/// # use cuda_std::prelude::*;
/// /// # Safety
/// /// - None.
/// #[kernel]
/// pub unsafe fn show(text: String) {}
/// ```
///
/// A kernel without a launcher whose parameter is not `Copy`:
///
/// ```compile_fail
/// # use cuda_std::prelude::*;
/// /// # Safety
/// /// - None.
/// #[kernel(no_launcher)]
/// pub unsafe fn show(text: String) {}
/// ```
///
/// A reference, whose accesses an executor can't watch:
///
/// ```compile_fail
/// # use cuda_std::prelude::*;
/// /// # Safety
/// /// - None.
/// #[kernel(no_launcher)]
/// pub unsafe fn show(values: &'static [f32]) {}
/// ```
///
/// # Safety
/// An implementer guarantees:
/// - The type has the same layout on the host and on the GPU: it is `repr(C)`, `repr(transparent)` or a number.
/// - It has no pointers and no references.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be an argument of a kernel",
    label = "no argument of a kernel",
    note = "arrays are passed as `Global<T>` or `GlobalMut<T>`, written with this name",
    note = "a structure of numbers needs `#[derive(Clone, Copy, KernelArgument)]` and `#[repr(C)]`"
)]
pub unsafe trait KernelArgument: Copy + 'static {}

/// Implements [`KernelArgument`] for types of one number.
macro_rules! numbers {
    ($($type:ty)*) => {$(
        // SAFETY: a number, or a `repr(C)` vector of numbers, has the same layout on the host and on the GPU.
        unsafe impl KernelArgument for $type {}
    )*};
}

numbers! { u8 i8 u16 i16 u32 i32 u64 i64 usize isize f32 f64 bool F16 Bf16 F16x2 Bf16x2 F32x2 F32x4 }

// SAFETY: an array has its elements one after the other, and these have the same layout on the host and on the GPU.
unsafe impl<T: KernelArgument, const N: usize> KernelArgument for [T; N] {}

/// For the code that `#[kernel]` makes: the type of a parameter of a kernel with a launcher.
///
/// A type without bytes has no parameter in the PTX.
#[doc(hidden)]
pub const fn assert_argument<T: KernelArgument>() {
    assert!(size_of::<T>() > 0, "an argument of a kernel has at least one byte");
}

/// For the code that `#[kernel]` makes: the type of a parameter of a kernel without a launcher.
#[doc(hidden)]
pub const fn assert_copy<T: Copy + 'static>() {}
