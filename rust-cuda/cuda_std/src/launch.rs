//! What the host passes to a kernel, for the structs that [`kernel`](crate::kernel) makes. Host only.
//!
//! `#[kernel]` turns `pub unsafe fn saxpy(a: f32, x: Global<f32>, y: GlobalMut<f32>, length: u32)` into a struct
//! `Saxpy { a, x, y, length }`, which implements [`Kernel`]. A parameter [`Global<T>`](crate::Global) becomes a
//! `&dyn Array<T>`, a [`GlobalMut<T>`](crate::GlobalMut) becomes a `&mut dyn ArrayMut<T>`, and every other type stays.
//!
//! The crate `cuda_launch` launches these structs on a GPU or on the emulator.

use core::ffi::c_void;
use core::fmt::Display;

use crate::Scalar;

/// An array in the memory of a device.
///
/// # Safety
/// An implementer guarantees, as long as the value lives:
/// - [`len`](Self::len) elements of `T` begin at [`address`](Self::address) in the memory of the device
///   [`device`](Self::device).
/// - The address is aligned for `T`.
pub unsafe trait Array<T: Scalar> {
    /// The device address of the first element.
    fn address(&self) -> u64;

    /// The number of elements.
    fn len(&self) -> usize;

    /// Whether the array has no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A number that no other device of the process has.
    fn device(&self) -> u64;
}

/// An array that a kernel may write.
///
/// # Safety
/// An implementer guarantees that no other value gives access to these elements while this one is borrowed exclusively.
pub unsafe trait ArrayMut<T: Scalar>: Array<T> {}

/// A kernel with its arguments.
///
/// # Safety
/// An implementer guarantees:
/// - A module that is compiled from this kernel has an entry [`SYMBOL`](Self::SYMBOL) with these
///   [`PARAMETERS`](Self::PARAMETERS).
/// - [`arguments`](Self::arguments) visits one argument for each parameter, in their order.
pub unsafe trait Kernel {
    /// The name of the entry in the PTX: the name of the function.
    const SYMBOL: &'static str;
    /// The path of the Rust module that the kernel is in. It begins with the name of the crate.
    const MODULE: &'static str;
    /// The launch bounds of the kernel: the most threads of a block, and the least blocks of a multiprocessor.
    const LAUNCH_BOUNDS: Option<(u32, u32)>;
    /// The parameters of the kernel.
    const PARAMETERS: &'static [Parameter];

    /// Checks the lengths of the arrays against the `lengths(…)` of the kernel.
    ///
    /// # Errors
    /// [`ArgumentError`] for the first argument that is wrong.
    fn check(&self) -> Result<(), ArgumentError>;

    /// Calls `visit` for each argument, in the order of the parameters.
    fn arguments(&self, visit: &mut dyn FnMut(Argument));

    /// Runs the kernel as one thread of the current [executor](crate::executor).
    ///
    /// # Safety
    /// - `arguments` points to one pointer for each parameter. Each points to a value of the parameter's type. An array
    ///   is passed as its device address, a `u64`.
    /// - The conditions of the kernel hold.
    unsafe fn call(arguments: *const *const c_void);
}

/// The name of the crate that a kernel is in.
#[must_use]
pub fn crate_name<K: Kernel + ?Sized>() -> &'static str {
    K::MODULE.split("::").next().unwrap_or(K::MODULE)
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its size in bytes.
    pub bytes: usize,
    /// The size of an element in bytes, for an array.
    pub element: Option<usize>,
}

/// An argument of a launch.
#[derive(Clone, Copy, Debug)]
pub enum Argument {
    /// An array.
    Array {
        /// The name of the parameter.
        name: &'static str,
        /// The device address of the first element.
        address: u64,
        /// The number of the device that the array is on.
        device: u64,
    },
    /// A value.
    Value {
        /// The name of the parameter.
        name: &'static str,
        /// Points to the value inside the borrowed [`Kernel`].
        value: *const c_void,
    },
}

/// The reason why an argument is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentError {
    /// An array is too short.
    Length {
        /// The name of the parameter.
        name: &'static str,
        /// The number of elements that the kernel requires.
        required: usize,
        /// The number of elements of the array.
        found: usize,
    },
    /// An integer on which a length depends is negative or above the range of `usize`.
    Range {
        /// The name of the parameter.
        name: &'static str,
        /// The value.
        found: String,
    },
}

impl Display for ArgumentError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Length { name, required, found } => {
                write!(f, "{name} must have at least {required} elements, but has {found}")
            }
            Self::Range { name, found } => {
                write!(f, "{name} is {found}, but a length depends on it: it must be 0 or more")
            }
        }
    }
}

impl core::error::Error for ArgumentError {}

/// For the code that `#[kernel]` makes: an integer argument as `usize`.
#[doc(hidden)]
pub fn size<I: TryInto<usize> + Copy + Display>(name: &'static str, value: I) -> Result<usize, ArgumentError> {
    value.try_into().map_err(|_| ArgumentError::Range { name, found: value.to_string() })
}

/// For the code that `#[kernel]` makes: checks a length.
#[doc(hidden)]
pub fn at_least(name: &'static str, required: usize, found: usize) -> Result<(), ArgumentError> {
    if found < required { Err(ArgumentError::Length { name, required, found }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_argument_the_requirement_and_the_value() {
        assert_eq!(at_least("x", 3, 3), Ok(()));
        let error = at_least("x", 4, 3).unwrap_err();
        assert_eq!(error.to_string(), "x must have at least 4 elements, but has 3");
        assert_eq!(size("n", 7_u32), Ok(7));
        let error = size("n", -7_i32).unwrap_err();
        assert_eq!(error.to_string(), "n is -7, but a length depends on it: it must be 0 or more");
    }
}
