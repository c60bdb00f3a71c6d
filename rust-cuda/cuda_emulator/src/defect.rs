//! What a kernel did wrong.

use std::fmt;
use std::panic::Location;

use crate::launch::Place;

/// An access in the past: who and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// The thread; None if it is no longer known which of several.
    pub place: Option<Place>,
    /// Whether it wrote.
    pub wrote: bool,
    /// The line of the kernel.
    pub location: Option<&'static Location<'static>>,
}

/// The kind of a defect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// An access outside of any allocation, shared array or constant array.
    OutOfBounds {
        /// What is nearest, and how far from it, in words.
        nearest: String,
    },
    /// A read of memory that nothing wrote.
    Uninitialised,
    /// An address that is no multiple of the access's size.
    Misaligned,
    /// Two threads of a block on the same byte between two barriers, at least one of them writing; or two blocks. In shared
    /// memory, threads of one warp are kept apart by `sync_warp`, too.
    Race {
        /// The other access.
        before: Before,
    },
    /// An element of an output that two threads write.
    WrittenTwice {
        /// The first write.
        before: Before,
    },
    /// Some threads of the block wait at a barrier, or of the warp at a collective, that others never reach.
    BarrierMissed {
        /// A thread that is not there …
        other: Place,
        /// … and where it waits instead; None if it has ended.
        waits_at: Option<&'static Location<'static>>,
    },
    /// A panic of the kernel; on a device it stops the grid.
    Panic {
        /// Its message.
        message: String,
    },
}

/// Something a kernel did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// The kernel's name, as given to the launch.
    pub kernel: String,
    /// The thread.
    pub place: Place,
    /// What was being done, such as `read of 4 bytes at result[17]`.
    pub action: String,
    /// What is wrong with it.
    pub kind: Kind,
    /// The line of the kernel.
    pub location: Option<&'static Location<'static>>,
    /// How often the same happened at this line; only the first is described.
    pub times: u64,
}

impl fmt::Display for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.wrote { "written" } else { "read" })?;
        match &self.place {
            Some(place) => write!(f, " by {place}")?,
            None => f.write_str(" by several threads")?,
        }
        match self.location {
            Some(location) => write!(f, " at {}:{}", location.file(), location.line()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.kernel, self.place, self.action)?;
        match &self.kind {
            Kind::OutOfBounds { nearest } => write!(f, ", out of bounds: {nearest}")?,
            Kind::Uninitialised => f.write_str(", which nothing wrote")?,
            Kind::Misaligned => f.write_str(", misaligned: the address must be a multiple of the size")?,
            Kind::Race { before } => write!(f, ", a race: {before}, with no barrier between")?,
            Kind::WrittenTwice { before } => write!(f, ", written twice: {before}")?,
            Kind::BarrierMissed { other, waits_at: None } => write!(f, ", which {other} never reaches: it has ended")?,
            Kind::BarrierMissed { other, waits_at: Some(place) } => {
                write!(f, ", which {other} never reaches: it waits at {}:{}", place.file(), place.line())?;
            }
            Kind::Panic { message } => write!(f, ", a panic: {message}")?,
        }
        if let Some(location) = self.location {
            write!(f, "\n    at {}:{}:{}", location.file(), location.line(), location.column())?;
        }
        match self.times {
            0 | 1 => Ok(()),
            times => write!(f, " (and {} more times)", times - 1),
        }
    }
}

/// The defects of a launch, the first of each kind and line described, the others counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}\n(threads in the order of seed {seed})", listed(.defects))]
pub struct Defects {
    /// At least one.
    pub defects: Vec<Defect>,
    /// The seed of the order of threads in this launch.
    pub seed: u64,
}

/// One defect a paragraph.
fn listed(defects: &[Defect]) -> String {
    defects.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
