//! The structs that a [`Lab`](super::Lab) launches, made from the list.

use cuda_emulator::Counts;
use kernels_gpu::tutorials::{box_blur, box_running, box_separable, hpp, mean_1d, numba, pointwise, reduce};

use super::list::tutorial_kernels;
use super::{Array, Shape};
use crate::cuda::LaunchOnDevice;
use crate::{Error, Result};

/// Whole numbers that a kernel gets are below this: 2^29. Sums and products of a few of them then stay in range.
const MOST: usize = 1 << 29;

/// The emulator's `launch`, for a kernel that is given to it.
pub type EmulatorLaunch<'a> = dyn FnMut(&(dyn Fn() + Sync)) -> std::result::Result<Counts, cuda_emulator::Error> + 'a;

/// A kernel with its arguments. Implemented by the structs of this module, and by them alone.
pub trait Call: LaunchOnDevice {
    /// The kernel's symbol.
    fn symbol(&self) -> &'static str;

    /// The launch that these arguments make.
    fn shape(&self) -> Shape;

    /// Checks lengths and limits.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::TooLarge`], [`Error::Number`].
    fn check(&self) -> Result<()>;

    /// Shows the number of each array's lab to `visit`.
    #[doc(hidden)]
    fn arrays(&self, visit: &dyn Fn(u64));

    /// Gives the kernel as a function of the host to the emulator's `launch`.
    #[doc(hidden)]
    #[allow(clippy::missing_errors_doc)]
    fn emulate(&self, launch: &mut EmulatorLaunch<'_>) -> std::result::Result<Counts, cuda_emulator::Error>;
}

/// The type of a field.
macro_rules! field {
    (read $type:ty) => { &'a Array<'d, $type> };
    (write $type:ty) => { &'a mut Array<'d, $type> };
    (value $type:ty) => { $type };
    (host $type:ty) => { $type };
}

/// A value as `usize`, for lengths and shapes.
macro_rules! bind {
    ($self:ident, value, $name:ident) => {
        let $name = $self.$name as usize;
    };
    ($self:ident, host, $name:ident) => {
        let $name = $self.$name as usize;
    };
    ($self:ident, $array:ident, $name:ident) => {};
}

/// Checks a value.
macro_rules! check_value {
    ($self:ident, value u32, $name:ident) => {
        whole(stringify!($name), $self.$name)?;
    };
    ($self:ident, host u32, $name:ident) => {
        whole(stringify!($name), $self.$name)?;
    };
    ($self:ident, $kind:ident $type:tt, $name:ident) => {};
}

/// Adds a value to a text.
macro_rules! show {
    ($self:ident, $text:ident, value, $name:ident) => {
        $text += &format!(" {} = {}", stringify!($name), $self.$name);
    };
    ($self:ident, $text:ident, host, $name:ident) => {
        $text += &format!(" {} = {}", stringify!($name), $self.$name);
    };
    ($self:ident, $text:ident, $array:ident, $name:ident) => {};
}

/// Visits the arrays.
macro_rules! visit {
    ($self:ident, $visit:ident, read, $name:ident) => {
        $visit($self.$name.lab);
    };
    ($self:ident, $visit:ident, write, $name:ident) => {
        $visit($self.$name.lab);
    };
    ($self:ident, $visit:ident, $value:ident, $name:ident) => {};
}

/// What the emulated kernel gets.
macro_rules! handle {
    ($self:ident, read, $name:ident) => {
        let $name = $self.$name.emulated().global();
    };
    ($self:ident, write, $name:ident) => {
        let $name = $self.$name.emulated().global_mut();
    };
    ($self:ident, value, $name:ident) => {
        let $name = $self.$name;
    };
    ($self:ident, host, $name:ident) => {};
}

/// Calls the kernel with all arguments but those of the host: moves them one by one behind the semicolon.
macro_rules! call {
    ($kernel:path; [$($done:ident)*]) => { $kernel($($done),*) };
    ($kernel:path; [$($done:ident)*] host $name:ident $($rest:tt)*) => { call!($kernel; [$($done)*] $($rest)*) };
    ($kernel:path; [$($done:ident)*] $kind:ident $name:ident $($rest:tt)*) => {
        call!($kernel; [$($done)* $name] $($rest)*)
    };
}

macro_rules! define {
    ($($struct:ident = $file:ident::$kernel:ident(
        $($name:ident: $kind:ident $type:tt $([$length:expr])?,)*
    ) on $shape:expr, requires [$($condition:expr, $words:literal);*];)*) => {$(
        #[doc = concat!(
            "[`", stringify!($kernel), "`](kernels_gpu::tutorials::", stringify!($file), "::", stringify!($kernel),
            ") with its arguments."
        )]
        #[derive(Debug)]
        #[allow(missing_docs)] // the kernel's documentation says what each is
        pub struct $struct<'a, 'd> {
            $(pub $name: field!($kind $type),)*
        }

        #[allow(unused_variables)] // not every value takes part in every length
        impl Call for $struct<'_, '_> {
            fn symbol(&self) -> &'static str {
                stringify!($kernel)
            }

            fn shape(&self) -> Shape {
                $(bind!(self, $kind, $name);)*
                $shape
            }

            fn check(&self) -> Result<()> {
                $(bind!(self, $kind, $name);)*
                // The values first, because they bound the lengths, which then can't overflow.
                $(check_value!(self, $kind $type, $name);)*
                let values = || {
                    let mut text = String::new();
                    $(show!(self, text, $kind, $name);)*
                    text.trim_start().to_owned()
                };
                $(if !($condition) {
                    return Err(Error::Number { what: stringify!($kernel), required: $words, found: values() });
                })*
                $($(long_enough(stringify!($name), $length, self.$name.len())?;)?)*
                Ok(())
            }

            fn arrays(&self, visit: &dyn Fn(u64)) {
                $(visit!(self, visit, $kind, $name);)*
            }

            fn emulate(&self, launch: &mut EmulatorLaunch<'_>) -> std::result::Result<Counts, cuda_emulator::Error> {
                $(handle!(self, $kind, $name);)*
                launch(&move || {
                    // SAFETY: the emulator checks every access; none reaches memory of this program.
                    unsafe { call!($file::$kernel; [] $($kind $name)*) }
                })
            }
        }
    )*};
}

tutorial_kernels!(define);

/// Checks a whole number.
fn whole(what: &str, found: u32) -> Result<()> {
    if (found as usize) < MOST {
        return Ok(());
    }
    Err(Error::TooLarge { what: what.to_owned(), most: MOST - 1, found: found.to_string() })
}

/// Checks the length of an array.
fn long_enough(what: &'static str, required: usize, found: usize) -> Result<()> {
    if found >= required {
        return Ok(());
    }
    Err(Error::Length { what, width: required, height: 1, channels: 1, required, found })
}
