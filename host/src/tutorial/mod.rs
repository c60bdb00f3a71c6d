//! Reproduces four well-known tutorials: their results, checked, with times or counts.
//!
//! [`run`] takes a [`Tutorial`] and a device and gives a [`Transcript`]: tables, notes, checks and pictures as data.
//! `docs/tutorials` explains the kernels. [`launch`] runs them on a CUDA device and on the emulator. On the CPU plain
//! Rust computes the same.
//!
//! ```no_run
//! use faltung::Device;
//! use host::tutorial::{TutorialOptions, Tutorial, run};
//!
//! let report = run(Tutorial::Numba, &Device::auto(), TutorialOptions::default(), &mut |part| print!("{part}"))?;
//! assert!(report.all_right());
//! # Ok::<(), host::Error>(())
//! ```

mod cupy;
mod hpp;
mod judge;
pub mod launch;
mod numba;
mod photograph;
mod report;
mod rocm;
mod session;
mod timing;

use std::fmt;
use std::str::FromStr;

pub use self::report::{Check, Part, Table, Transcript};
pub use self::timing::MeanTime;

use self::session::Session;
use faltung::{Device, Error, Result};

/// A tutorial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tutorial {
    /// "An introduction to CUDA in Python, part 3": a convolution in Numba.
    Numba,
    /// "Programming Massively Parallel Processors": convolution with constant memory and tiles.
    Hpp,
    /// A notebook on raw kernels in CuPy.
    Cupy,
    /// ROCm's HIP tutorial on stencils.
    Rocm,
}

impl Tutorial {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Numba, Self::Hpp, Self::Cupy, Self::Rocm];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Numba => "numba",
            Self::Hpp => "hpp",
            Self::Cupy => "cupy",
            Self::Rocm => "rocm",
        }
    }

    /// The title and the address, in one line.
    #[must_use]
    pub const fn source(self) -> &'static str {
        match self {
            Self::Numba => {
                "An introduction to CUDA in Python, part 3 (Numba): \
                 https://www.vincent-lunot.com/post/an-introduction-to-cuda-in-python-part-3/"
            }
            Self::Hpp => {
                "Programming Massively Parallel Processors: convolution, constant memory, tiles \
                 (D. Kirk, W. Hwu; chapter 7 of the 4th edition, and the course's exercise)"
            }
            Self::Cupy => {
                "CUDA Kernel, a notebook on raw kernels in CuPy: \
                 https://github.com/ptim0626/work-experience-data-analysis-gpu, day3/notebooks/kernel_anatomy.ipynb"
            }
            Self::Rocm => {
                "Stencil operations: image convolution (HIP, ROCm): \
                 https://rocm.docs.amd.com/projects/HIP/en/develop/tutorial/programming-patterns/stencil_operations.html"
            }
        }
    }

    /// The pictures that it makes, by their file names. Of a smaller picture, which the emulator has time for, the name
    /// is another.
    #[must_use]
    pub const fn pictures(self) -> &'static [&'static str] {
        match self {
            Self::Numba => &["numba-mask.npy", "numba-before.png", "numba-after.png"],
            Self::Hpp => &["hpp-before.png", "hpp-after.png"],
            Self::Cupy => &[],
            Self::Rocm => &["rocm-before.png", "rocm-after.png", "rocm-edges.png"],
        }
    }
}

impl fmt::Display for Tutorial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Tutorial {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|tutorial| tutorial.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::Parse { what: "tutorial", required: names, found: text.into() }
        })
    }
}

/// The options of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TutorialOptions {
    /// Shorter timings, and no large sizes.
    pub quick: bool,
    /// The seed of masks and arrays.
    pub seed: u64,
}

impl Default for TutorialOptions {
    fn default() -> Self {
        Self { quick: false, seed: crate::samples::SEED }
    }
}

/// Runs a tutorial. `show` gets each part of the transcript as soon as it is complete.
///
/// Each result is checked before it is timed or shown. A wrong one is a failed [`Check`] and has no figures.
///
/// # Errors
/// [`Error::Driver`], [`Error::DeviceMemory`], [`Error::Emulator`].
pub fn run(
    tutorial: Tutorial,
    device: &Device,
    options: TutorialOptions,
    show: &mut dyn FnMut(&Part),
) -> Result<Transcript> {
    let mut session = Session::new(device, options, show);
    match tutorial {
        Tutorial::Numba => numba::run(&mut session)?,
        Tutorial::Hpp => hpp::run(&mut session)?,
        Tutorial::Cupy => cupy::run(&mut session)?,
        Tutorial::Rocm => rocm::run(&mut session)?,
    }
    Ok(session.finish(tutorial))
}
