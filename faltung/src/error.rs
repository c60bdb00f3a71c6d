//! What can go wrong in the library. Each variant says what was required and what was found.

use kernels_gpu::registry::Ineligible;

use crate::{Accuracy, PixelFormat, PixelType};

/// Bytes for people.
fn size(bytes: u128) -> String {
    match bytes as f64 {
        1.0 => "1 byte".to_owned(),
        bytes if bytes < 1e3 => format!("{bytes} bytes"),
        bytes if bytes < 1e6 => format!("{:.1} kB", bytes / 1e3),
        bytes if bytes < 1e9 => format!("{:.1} MB", bytes / 1e6),
        bytes if bytes < 1e12 => format!("{:.1} GB", bytes / 1e9),
        bytes if bytes < 1e15 => format!("{:.1} TB", bytes / 1e12),
        bytes => format!("{:.1} PB", bytes / 1e15),
    }
}

/// The verb for an amount of memory.
fn are(bytes: u128) -> &'static str {
    if bytes == 1 { "is" } else { "are" }
}

/// The channels in a product of sizes; one goes without saying.
fn by(channels: usize) -> String {
    if channels == 1 { String::new() } else { format!(" x {channels}") }
}

/// A status of the CUDA driver that is no success.
///
/// Displayed as the driver's name of it and its number, `CUDA_ERROR_OUT_OF_MEMORY (2)`. [`text`](Self::text) describes
/// it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} ({})", .0.name, .0.code)]
pub struct DriverError(Box<Status>);

/// Behind a pointer, so that an [`Error`] is small.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Status {
    code: u32,
    name: String,
    text: String,
}

impl DriverError {
    /// For tests of programs that handle it.
    #[doc(hidden)]
    pub fn new(code: u32, name: impl Into<String>, text: impl Into<String>) -> Self {
        Self(Box::new(Status { code, name: name.into(), text: text.into() }))
    }

    /// The `CUresult`, as a number: a driver may know more of them than this library.
    #[must_use]
    pub fn code(&self) -> u32 {
        self.0.code
    }

    /// The driver's name of it, such as `CUDA_ERROR_OUT_OF_MEMORY`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The driver's description of it, such as "out of memory".
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }
}

/// The result of a library call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the library.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file with measured coefficients of the cost model that can't be used.
    #[error("{}: {reason}; `cargo run -p host -- calibrate` measures again", .path.display())]
    Calibration {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An image without pixels.
    #[error(
        "an image needs at least 1 x 1 pixels and 1 channel, this one has {width} x {height} and {channels} channel{}",
        if *.channels == 1 { "" } else { "s" }
    )]
    EmptyImage {
        /// Columns.
        width: usize,
        /// Rows.
        height: usize,
        /// Channels.
        channels: usize,
    },
    /// A mask without coefficients.
    #[error("a mask needs at least 1 x 1 coefficients, this one has {height} rows and {width} columns")]
    EmptyMask {
        /// Columns.
        width: usize,
        /// Rows.
        height: usize,
    },
    /// A buffer whose length does not fit the sizes given with it.
    #[error("{what}: {width} x {height}{} takes {required} values, {found} were given", by(*.channels))]
    Length {
        /// Which buffer.
        what: &'static str,
        /// Columns.
        width: usize,
        /// Rows.
        height: usize,
        /// Channels.
        channels: usize,
        /// Values that the sizes ask for.
        required: usize,
        /// Values found.
        found: usize,
    },
    /// Device memory, or constant memory of a module, that is shorter than a kernel needs.
    #[error("{what}: {required} bytes of device memory are required, {found} were given")]
    DeviceLength {
        /// What the memory holds.
        what: &'static str,
        /// Bytes that the kernel reads or writes.
        required: usize,
        /// Bytes found.
        found: usize,
    },
    /// A side or a number of values beyond what can be computed with.
    #[error("{what} is {found}, at most {most} is possible")]
    TooLarge {
        /// What is too large.
        what: String,
        /// The limit.
        most: usize,
        /// What was found.
        found: String,
    },
    /// More or fewer results than images.
    #[error("a batch of {images} images needs as many results, not {results}")]
    Batch {
        /// The number of images.
        images: usize,
        /// The number of results.
        results: usize,
    },
    /// An image of another size than the one that was made ready, or than the image that it is copied from.
    #[error("an image of {} x {} pixels is required, this one has {} x {}", .planned.0, .planned.1, .found.0, .found.1)]
    OtherSize {
        /// Width and height that are required.
        planned: (usize, usize),
        /// Width and height of the image.
        found: (usize, usize),
    },
    /// Rows that overlap.
    #[error("the pitch must be at least the {row} values of a row, not {pitch}")]
    Pitch {
        /// Values from one row to the next.
        pitch: usize,
        /// Values of a row.
        row: usize,
    },
    /// An image of other values or channels than those that were made ready.
    #[error("images of {planned} are required, not of {found}")]
    OtherFormat {
        /// What is required.
        planned: PixelFormat,
        /// What was found.
        found: PixelFormat,
    },
    /// An anchor outside of the mask.
    #[error(
        "the anchor (row {}, column {}) lies outside of the mask of {} rows and {} columns",
        .anchor.0, .anchor.1, .mask.0, .mask.1
    )]
    Anchor {
        /// Row and column asked for.
        anchor: (usize, usize),
        /// Rows and columns of the mask.
        mask: (usize, usize),
    },
    /// A number that must be finite or in a range is not. So is a value of another kind that must meet a condition.
    #[error("{what} must be {required}, not {found}")]
    Number {
        /// Which number.
        what: &'static str,
        /// What it must be.
        required: &'static str,
        /// What it is.
        found: String,
    },
    /// A text that names nothing, or is no number.
    #[error("{what}: {required} was expected, not \"{found}\"")]
    Parse {
        /// What the text was for.
        what: &'static str,
        /// What could have stood there.
        required: String,
        /// What stood there.
        found: String,
    },
    /// A variant that can't compute the problem was asked for.
    #[error("the variant {variant} can't compute this: {reason}")]
    Refused {
        /// The variant's name.
        variant: &'static str,
        /// Why.
        reason: Ineligible,
    },
    /// A variant was asked for by name that is less accurate than the request demands.
    #[error("the variant {variant} is {kept}, but the accuracy {required} was asked for")]
    Accuracy {
        /// The variant's name.
        variant: &'static str,
        /// The class that the request demands.
        required: Accuracy,
        /// The class that the variant keeps.
        kept: Accuracy,
    },
    /// A GPU's variant was asked of the CPU.
    #[error("the variant {variant} runs on a CUDA device or the emulator; the CPU takes methods of its own (auto)")]
    NeedsGpu {
        /// The variant's name.
        variant: &'static str,
    },
    /// Images that can't be the channels of one image.
    #[error("channels must have one size: {} x {} and {} x {} were given", .first.0, .first.1, .other.0, .other.1)]
    Channels {
        /// Width and height of the first channel.
        first: (usize, usize),
        /// Width and height of the one that differs.
        other: (usize, usize),
    },
    /// An image, a stream or an event of another device than the one that is to compute.
    #[error("the device of {what} must be {required}, not {found}")]
    OtherDevice {
        /// What belongs to the device: the image, the stream.
        what: &'static str,
        /// The device that is to compute.
        required: String,
        /// The device that it belongs to.
        found: String,
    },
    /// An image of other channels than the target of a conversion holds.
    #[error("the number of channels must be {required}, not {found}")]
    ChannelCount {
        /// The numbers of channels that can be converted.
        required: String,
        /// Channels of the image.
        found: usize,
    },
    /// An image of another type than the target of a conversion holds.
    #[error("an image of {} values is required, this one is of {}", .required.name(), .found.name())]
    OtherPixelType {
        /// The type that can be converted.
        required: PixelType,
        /// The type of the image.
        found: PixelType,
    },
    /// An array whose elements don't lie in memory as an image's values do.
    #[error(
        "the strides of the array must be {required:?} elements, and the first of them may be larger, not {found:?}"
    )]
    Strides {
        /// The strides of such an array without gaps between its rows, in elements.
        required: Vec<usize>,
        /// The strides of the array, in elements.
        found: Vec<isize>,
    },
    /// No CUDA driver, or none that can be used.
    #[error("no CUDA device can be used: {reason}")]
    NoDevice {
        /// The driver's or the loader's own words.
        reason: String,
        /// The driver's status, if a call into the driver failed.
        source: Option<DriverError>,
    },
    /// All devices of a run have failed before: CUDA devices or others.
    #[error("no device is left: each one has failed")]
    NoDeviceLeft,
    /// The CUDA driver is older than what is asked of it. The CPU and the emulator can still be used.
    #[error("the CUDA driver is too old: {required} is required, it supports {found}")]
    DriverTooOld {
        /// What is required.
        required: String,
        /// The newest CUDA version that the driver supports.
        found: String,
        /// The driver's status, if it refused something.
        source: Option<DriverError>,
    },
    /// The driver's compiler refused the kernels. The device can still be used, and other kernels may run.
    #[error(
        "the CUDA driver refused to compile the kernels of {kernels} for {device} (driver for CUDA {cuda}): {}",
        .source.text()
    )]
    KernelRefused {
        /// The name of the module.
        kernels: String,
        /// The device's name.
        device: String,
        /// The newest CUDA version that the driver supports.
        cuda: String,
        /// The driver's status.
        source: DriverError,
    },
    /// The system gives no page-locked memory, or not so much. The device can still be used, with ordinary memory.
    #[error("page-locked memory: {bytes} bytes were refused: {}", .source.text())]
    PageLockedMemory {
        /// Bytes asked for.
        bytes: usize,
        /// The driver's status.
        source: DriverError,
    },
    /// A call into the driver failed. The device can still be used.
    #[error("the CUDA driver failed to {action}: {}", .source.text())]
    Driver {
        /// What was being done.
        action: String,
        /// The driver's status.
        source: DriverError,
    },
    /// The caller asked the work to end before it was done.
    #[error("cancelled before it was done")]
    Cancelled,
    /// This process can't use the device any more.
    ///
    /// A kernel broke off, the device failed, or its context is gone. The driver answers every later call on this
    /// device with the same error until the process ends: nothing is gained by trying again. Results that were returned
    /// before are right. What was running is lost, and the device touches no memory of the host any more.
    #[error("the CUDA device is lost: the driver failed to {action}: {}", .source.text())]
    DeviceLost {
        /// What was being done when it showed. An earlier launch or copy may be the cause.
        action: String,
        /// The driver's status.
        source: DriverError,
    },
    /// The emulator found a kernel doing something wrong.
    #[error("the emulator stopped {kernel}: {report}")]
    Emulator {
        /// The kernel.
        kernel: String,
        /// Every defect with block, thread, address and line.
        report: String,
    },
    /// Times were asked of the emulator.
    #[error("the emulator has no times of its own: it counts accesses instead")]
    NoTime,
    /// The device has not enough memory for a problem.
    #[error(
        "device memory: {} {} needed, {} of {} {} free",
        size(*.needed as u128), are(*.needed as u128), size(*.free as u128), size(*.total as u128), are(*.free as u128)
    )]
    DeviceMemory {
        /// Bytes needed.
        needed: usize,
        /// Bytes free.
        free: usize,
        /// Bytes the device has.
        total: usize,
    },
    /// A mask whose rows differ in length.
    #[error("row {row} of the mask has {found} coefficients, row 1 has {required}")]
    RaggedMask {
        /// The first row, from 1 on, that differs.
        row: usize,
        /// Coefficients of the first row.
        required: usize,
        /// Coefficients of that row.
        found: usize,
    },
    /// This machine has not enough memory for what was asked.
    #[error("memory: {} {} needed {what}, {} {} free", size(*.needed), are(*.needed), size(*.free), are(*.free))]
    HostMemory {
        /// What for.
        what: String,
        /// Bytes needed.
        needed: u128,
        /// Bytes free.
        free: u128,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each text has what is required, what was found, and a unit.
    #[test]
    fn texts_are_complete() {
        let check = |error: Error, text: &str| assert_eq!(error.to_string(), text);
        check(
            Error::DeviceLength { what: "the mask", required: 400, found: 36 },
            "the mask: 400 bytes of device memory are required, 36 were given",
        );
        check(
            Error::OtherDevice { what: "the image", required: "cuda:1".into(), found: "cuda:0".into() },
            "the device of the image must be cuda:1, not cuda:0",
        );
        check(Error::Pitch { pitch: 7, row: 12 }, "the pitch must be at least the 12 values of a row, not 7");
        check(
            Error::Strides { required: vec![4, 1], found: vec![1, 5] },
            "the strides of the array must be [4, 1] elements, and the first of them may be larger, not [1, 5]",
        );
        check(
            Error::DeviceMemory { needed: 9_400, free: 100, total: 85_000_000_000 },
            "device memory: 9.4 kB are needed, 100 bytes of 85.0 GB are free",
        );
        check(
            Error::HostMemory { what: "for an image".into(), needed: 1_600_000, free: 999_960 },
            "memory: 1.6 MB are needed for an image, 1000.0 kB are free",
        );
        check(
            Error::HostMemory { what: "for an image".into(), needed: 1, free: 1 },
            "memory: 1 byte is needed for an image, 1 byte is free",
        );
    }
}
