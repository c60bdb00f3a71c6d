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
    /// The expression of a length can't be computed for these arguments.
    Overflow {
        /// The name of the array.
        name: &'static str,
        /// The expression.
        expression: &'static str,
        /// The operation that has no result, such as `0 - 1`.
        operation: String,
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
            Self::Overflow { name, expression, operation } => {
                write!(f, "the least length of {name} is `{expression}`, but {operation}")
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

/// For the code that `#[kernel]` makes: arithmetic whose overflow is an error in every profile. The error names the
/// operation.
#[doc(hidden)]
pub trait Checked: Copy + Display {
    /// The result of an operation: one of `+ - * / %`.
    fn checked(self, operator: char, other: Self) -> Result<Self, String>;
}

/// Implements [`Checked`] for integers.
macro_rules! checked_integers {
    ($($type:ty)*) => {$(
        impl Checked for $type {
            fn checked(self, operator: char, other: Self) -> Result<Self, String> {
                let result = match operator {
                    '+' => self.checked_add(other),
                    '-' => self.checked_sub(other),
                    '*' => self.checked_mul(other),
                    '/' => self.checked_div(other),
                    _ => self.checked_rem(other),
                };
                result.ok_or_else(|| format!("{self} {operator} {other} has no result in {}", stringify!($type)))
            }
        }
    )*};
}
checked_integers! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize }

/// Implements [`Checked`] for floats, which have a result for every operation.
macro_rules! checked_floats {
    ($($type:ty)*) => {$(
        impl Checked for $type {
            fn checked(self, operator: char, other: Self) -> Result<Self, String> {
                Ok(match operator {
                    '+' => self + other,
                    '-' => self - other,
                    '*' => self * other,
                    '/' => self / other,
                    _ => self % other,
                })
            }
        }
    )*};
}
checked_floats! { f32 f64 }

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
        assert_eq!((7_usize.checked('%', 4), 3.0_f32.checked('/', 2.0)), (Ok(3), Ok(1.5)));
        assert_eq!(0_usize.checked('-', 1).unwrap_err(), "0 - 1 has no result in usize");
        assert_eq!(i32::MIN.checked('/', -1).unwrap_err(), "-2147483648 / -1 has no result in i32");
        let error = size("n", -7_i32).unwrap_err();
        assert_eq!(error.to_string(), "n is -7, but a length depends on it: it must be 0 or more");
    }
}
