//! The errors of a device.

use std::fmt;

use cuda_emulator::LaunchError;
use cuda_std::launch::ArgumentError;

/// The reason why a call of a [`Device`](crate::Device) failed.
///
/// Its `Debug` text is the message as well, so that `unwrap` and a `main` that returns it show the message.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument of a launch is wrong.
    #[error("{kernel}: {error}")]
    Argument {
        /// The kernel.
        kernel: &'static str,
        /// The reason.
        error: ArgumentError,
    },
    /// An array is on another device than the one that uses it.
    #[error("{what}: {name} is an array of another device; upload it to the device of the call")]
    ForeignArray {
        /// The kernel or the function.
        what: &'static str,
        /// The argument or the array.
        name: String,
    },
    /// The device refuses the shape of a launch.
    #[error("{kernel}: {error}")]
    Launch {
        /// The kernel.
        kernel: &'static str,
        /// The reason.
        error: LaunchError,
    },
    /// A block has more threads than the kernel is compiled for.
    #[error("{kernel}: the block has {found} threads, but the kernel is compiled for at most {most}: {reason}")]
    Bounds {
        /// The kernel.
        kernel: &'static str,
        /// The number of threads of the block.
        found: u64,
        /// The limit.
        most: u64,
        /// Where the limit comes from.
        reason: &'static str,
    },
    /// Values for an array are more or fewer than its elements.
    #[error("{name} has {required} elements, but {found} values are given")]
    Length {
        /// The array.
        name: String,
        /// The number of elements of the array.
        required: usize,
        /// The number of values.
        found: usize,
    },
    /// No kernel wrote some elements of an array from [`Device::output`](crate::Device::output).
    #[error(
        "{name}: {count} elements were never written, the first one is element {first}; allocate {name} with `zeros` \
         if kernels may leave elements unwritten"
    )]
    Unwritten {
        /// The array.
        name: String,
        /// The number of elements.
        count: usize,
        /// The index of the first one.
        first: usize,
    },
    /// The emulator found defects of the kernel.
    #[error("{0}")]
    Emulator(#[source] cuda_emulator::Error),
    /// The host has too little memory for an array of the emulator.
    #[error("{name}: {error}")]
    HostMemory {
        /// The array.
        name: String,
        /// The reason.
        error: cuda_emulator::OutOfMemory,
    },
    /// The PTX of the kernel's crate is not loaded.
    #[error(
        "{kernel}: the PTX of the crate {crate_name} is not loaded; call \
         `device.load(cuda_launch::ptx!(\"{crate_name}\"))` before the launch"
    )]
    NotLoaded {
        /// The kernel.
        kernel: &'static str,
        /// The crate of the kernel.
        crate_name: String,
    },
    /// The PTX that has the kernels of the module lacks the kernel.
    #[error(
        "{kernel}: the PTX of {module} has no entry of this name; it was built from other sources, or without the \
         feature or the module that the kernel is in"
    )]
    NoEntry {
        /// The kernel.
        kernel: &'static str,
        /// The module with which the PTX was loaded: the crate of the kernel, or a module of it.
        module: &'static str,
    },
    /// The PTX lacks the constant array.
    #[error("the PTX of {module} has no constant array {symbol} of {bytes} bytes")]
    NoConstant {
        /// The module with which the PTX was loaded.
        module: &'static str,
        /// The array.
        symbol: &'static str,
        /// Its size.
        bytes: usize,
    },
    /// The GPU has too little memory for an array.
    #[cfg(feature = "cuda")]
    #[error("could not allocate {needed} bytes for {name}: {free} of {total} bytes of the GPU's memory are free")]
    DeviceMemory {
        /// The array.
        name: String,
        /// Its size in bytes.
        needed: usize,
        /// The free memory in bytes.
        free: usize,
        /// All memory of the GPU in bytes.
        total: usize,
    },
    /// There is no CUDA driver.
    #[cfg(feature = "cuda")]
    #[error("no GPU: {0}")]
    NoDriver(#[from] cuda_driver::LoadError),
    /// The driver reported an error.
    #[cfg(feature = "cuda")]
    #[error("could not {action}: {text} (CUDA error {status})")]
    Driver {
        /// What was being done.
        action: String,
        /// The status that the driver returned.
        status: u32,
        /// The driver's description of the status.
        text: String,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
