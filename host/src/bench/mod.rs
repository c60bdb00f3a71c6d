//! Benchmarks that are tests: every answer is verified over the whole frame before it is timed.
//!
//! [`run`] takes [`Settings`] and gives a [`Report`], which [`report`] writes as text, JSON, CSV, Markdown and HTML.
//! How it is measured, and what that leaves out, stands in METHODOLOGY.md.
//!
//! ```
//! use std::time::Duration;
//!
//! use host::bench::{self, Picture, SEED, Settings, Wanted};
//! use faltung::{Accuracy, Border, DeviceChoice, PixelType};
//!
//! let pictures = vec![Picture::Random("64x48".parse()?)];
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
//!     border: Border::Mirror,
//!     min_time: Duration::ZERO,
//!     seed: SEED,
//! };
//! let report = bench::run(&settings, &mut |_| {})?;
//! let row = report.verified().next().expect("the CPU computes everything");
//! assert!(row.verdict.error_over_bound <= 1.0);
//! println!("{}", bench::report::json(&report));
//! # Ok::<(), faltung::Error>(())
//! ```

pub mod measure;
pub mod report;
pub mod roofline;
mod run;
pub mod stats;
mod system;
pub mod verify;

use std::fmt;
use std::time::Duration;

pub use self::report::{Cell, Failure, NotEligible, Report, Timed, Verified};
pub use self::run::run;
pub use self::system::{Build, Machine};
pub use crate::wanted::Wanted;
pub use crate::workload::{ImageSize, MaskSize, Picture, SEED, Subject, grey, subjects};

use faltung::{Accuracy, Border, DeviceChoice, PixelType};

/// What to measure, and how long.
#[derive(Clone, Debug)]
pub struct Settings {
    /// On what. The CPU is measured beside a GPU, for comparison; on the emulator answers are verified, not timed.
    pub device: DeviceChoice,
    /// Pictures and masks.
    pub subjects: Vec<Subject>,
    /// The GPU's variants; the CPU has one way of its own.
    pub variants: Vec<Wanted>,
    /// The type of the values of images.
    pub pixel: PixelType,
    /// The type of the values of results.
    pub output: PixelType,
    /// Their interleaved channels.
    pub channels: usize,
    /// Whether the masks are a column times a row each.
    pub separable: bool,
    /// The accuracy that is asked for. Variants that are less accurate are not measured.
    pub accuracy: Accuracy,
    /// Whether the way from end to end on the GPU begins and ends in page-locked memory, not in ordinary one.
    pub page_locked: bool,
    /// What lies outside of the images.
    pub border: Border,
    /// The least time to measure each figure for.
    pub min_time: Duration,
    /// The seed of the random values.
    pub seed: u64,
}

/// What happens during a run, for whoever shows it.
#[derive(Debug)]
pub enum Event<'a> {
    /// Something that takes a while begins.
    Step(fmt::Arguments<'a>),
    /// The machine is known and its rates are measured.
    Machine(&'a Machine),
    /// A variant gave a wrong answer, or failed; the rest goes on.
    Failure(&'a Failure),
    /// A cell is done.
    Cell(&'a Cell),
}
