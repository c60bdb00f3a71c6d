//! Benchmarks that are tests: every answer is verified over the whole frame before it is timed.
//!
//! [`run`] takes [`Settings`] and returns a [`Report`]. [`report`] writes it as text, JSON, CSV, Markdown and HTML.
//! METHODOLOGY.md explains how times are taken and what they leave out.
//!
//! ```
//! use std::time::Duration;
//!
//! use host::bench::{self, BenchImage, SEED, Settings, Wanted};
//! use faltung::{Accuracy, Border, DeviceChoice, PixelType};
//!
//! let pictures = vec![BenchImage::Random("64x48".parse()?)];
//! let settings = Settings {
//!     device: DeviceChoice::Cpu,
//!     subjects: bench::subjects(Some(pictures), Some(vec!["5".parse()?]), true),
//!     variants: vec![Wanted::All],
//!     pixel: PixelType::U8,
//!     output: PixelType::U8,
//!     channels: 3,
//!     separable: false,
//!     accuracy: Accuracy::Bounded,
//!     page_locked: false,
//!     cold: false,
//!     border: Border::Mirror,
//!     min_time: Duration::ZERO,
//!     seed: SEED,
//! };
//! let report = bench::run(&settings, &mut |_| {})?;
//! let row = report.verified().next().expect("the CPU computes everything");
//! assert!(row.deviation.error_over_bound <= 1.0);
//! println!("{}", bench::report::json(&report));
//! # Ok::<(), faltung::Error>(())
//! ```

mod cache;
pub mod clocks;
pub mod compare;
pub mod drift;
mod grey;
pub mod measure;
pub mod report;
pub mod roofline;
mod run;
pub mod stats;
mod system;
pub mod verify;
pub(crate) mod workload;

use std::fmt;
use std::time::Duration;

pub use self::grey::grey;
pub use self::report::{Cell, Failure, NotEligible, Report, Timed, Verified};
pub use self::run::run;
pub use self::system::{Build, Machine};
pub use self::workload::{BenchImage, Subject, subjects};
pub use crate::samples::{ImageSize, MaskSize, SEED};
pub use crate::wanted::Wanted;

use faltung::{Accuracy, Border, DeviceChoice, PixelType};

/// What to measure, and how long.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The device. With a GPU the CPU is measured, too, for comparison. On the emulator results are verified, not
    /// timed.
    pub device: DeviceChoice,
    /// Pictures and masks.
    pub subjects: Vec<Subject>,
    /// The GPU's variants. The CPU chooses its method itself, and its exact method is measured, too.
    pub variants: Vec<Wanted>,
    /// The type of the values of images.
    pub pixel: PixelType,
    /// The type of the values of results.
    pub output: PixelType,
    /// Their interleaved channels.
    pub channels: usize,
    /// Whether the masks are separable (rank 1): Gaussians. The others are random.
    pub separable: bool,
    /// The required accuracy. Less accurate variants are not measured.
    pub accuracy: Accuracy,
    /// Whether end-to-end times on the GPU are from and to page-locked memory, not pageable memory.
    pub page_locked: bool,
    /// Whether the caches are evicted before each timed run.
    pub cold: bool,
    /// The values outside of the images.
    pub border: Border,
    /// The least time of each measurement.
    pub min_time: Duration,
    /// The seed of the random values.
    pub seed: u64,
}

/// The progress of a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// A longer step begins.
    Step(fmt::Arguments<'a>),
    /// The machine is known and its rates are measured.
    Machine(&'a Machine),
    /// A variant returned a wrong result, or failed. The others are measured.
    Failure(&'a Failure),
    /// A cell is done.
    Cell(&'a Cell),
}
