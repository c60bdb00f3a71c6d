//! The defects of a kernel.

use std::fmt;
use std::panic::Location;

use crate::launch::Place;

/// An earlier access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// The thread. None if the record names only several threads.
    pub place: Option<Place>,
    /// Whether it was a write.
    pub wrote: bool,
    /// Whether it was atomic.
    pub atomic: bool,
    /// The line of the kernel.
    pub location: Option<&'static Location<'static>>,
}

/// The kind of a defect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// An access outside of any allocation, shared array or constant array.
    OutOfBounds {
        /// The length of the array, or the distance to the nearest one, in words.
        nearest: String,
    },
    /// A read of memory that nothing has written.
    Uninitialised,
    /// An address that is not a multiple of the size of the access.
    Misaligned,
    /// Two accesses to the same memory, at least one of them a write, with no barrier between.
    ///
    /// The two threads are of different blocks, or of one block between two barriers. In shared memory `sync_warp` is a
    /// barrier for the threads of one warp.
    Race {
        /// The earlier access.
        before: Before,
    },
    /// Two atomic accesses by threads of two blocks, of which one is atomic in the scope of its block only.
    Scope {
        /// The earlier access.
        before: Before,
    },
    /// A thread that waits in a loop of atomic accesses or of loads for a change that never comes.
    ///
    /// For example, a block waits for a block that has not started, or two threads wait for each other.
    Stuck,
    /// An access to shared memory to which an asynchronous copy is in flight: the issuing thread has not waited for it.
    InFlight {
        /// The thread that issued the copy.
        issuer: Place,
        /// The line that issued it.
        issued_at: Option<&'static Location<'static>>,
    },
    /// The source of an asynchronous copy was written between the issue and the wait.
    SourceChanged {
        /// A write to the source.
        before: Before,
    },
    /// A second write to an element of an output, by another thread.
    WrittenTwice {
        /// The first write.
        before: Before,
    },
    /// A barrier that some threads of the block never reach, or a collective that some lanes of the warp never reach.
    BarrierMissed {
        /// A thread that never arrives.
        other: Place,
        /// The line at which that thread waits instead. None if it has ended.
        waits_at: Option<&'static Location<'static>>,
    },
    /// A `gpu_assert!` whose condition does not hold. On a device it stops the grid.
    Assertion {
        /// Its message.
        message: String,
    },
    /// A warp collective of more lanes than the warp has threads.
    PartialWarp {
        /// The number of threads of the warp.
        threads: usize,
        /// The number of threads of the block.
        of_block: u64,
    },
    /// A shuffle up or down by more than 31 lanes, or one with an XOR of more than 31. On a device it is a shuffle by
    /// `delta` modulo 32.
    ShuffleDelta {
        /// The number of lanes, or the XOR.
        delta: u32,
    },
    /// A shuffle from a lane that is not in the mask. On a device the value is undefined.
    ///
    /// Shuffles up and down are not reported: the lanes at the edge of a mask often have no use for the value.
    ShuffleSource {
        /// The lane.
        from: u32,
        /// The mask.
        mask: u32,
    },
    /// A panic of the kernel. On a device it stops the grid.
    Panic {
        /// Its message.
        message: String,
        /// Its place: `FILE:LINE:COLUMN`. None if the program has set a panic hook after its first launch.
        at: Option<String>,
    },
}

/// One defect of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// The kernel's name, as passed to the launch.
    pub kernel: String,
    /// The thread.
    pub place: Place,
    /// The access or the wait, such as `read of 4 bytes at result[17]`.
    pub action: String,
    /// The kind of the defect.
    pub kind: Kind,
    /// The line of the kernel.
    pub location: Option<&'static Location<'static>>,
    /// The number of defects of this kind at this line. One of them is described.
    pub times: u64,
}

/// A number of things: "1 byte", "12 bytes".
pub(crate) fn counted(number: impl Into<u64>, thing: &str) -> String {
    let number = number.into();
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{s}")
}

impl fmt::Display for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.atomic { "atomically " } else { "" })?;
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
            Kind::Scope { before } => {
                write!(f, ", a race: {before}, and one of the two accesses is atomic in the scope of its block only")?;
            }
            Kind::Stuck => f.write_str(", again and again: no thread that can run changes it")?,
            Kind::InFlight { issuer, issued_at } => {
                write!(f, ", to which an asynchronous copy is in flight: issued by {issuer}")?;
                if let Some(place) = issued_at {
                    write!(f, " at {}:{}", place.file(), place.line())?;
                }
                f.write_str(", which has not waited for it")?;
            }
            Kind::SourceChanged { before } => write!(f, ", which changed before the copy was waited for: {before}")?,
            Kind::WrittenTwice { before } => write!(f, ", written twice: {before}")?,
            Kind::BarrierMissed { other, waits_at: None } => write!(f, ", which {other} never reaches: it has ended")?,
            Kind::BarrierMissed { other, waits_at: Some(place) } => {
                write!(f, ", which {other} never reaches: it waits at {}:{}", place.file(), place.line())?;
            }
            Kind::Assertion { message } => write!(f, ", assertion `{message}` failed")?,
            Kind::PartialWarp { threads, of_block } => write!(
                f,
                ", but this warp has {}, because the block has {of_block}: use a multiple of 32 threads, \
                 or a function of `warp::masked` with a mask of these lanes",
                counted(*threads as u64, "thread")
            )?,
            Kind::ShuffleDelta { delta } => {
                write!(f, ", whose delta is {delta}: it must be 0 to 31, because the device takes it modulo 32")?
            }
            Kind::ShuffleSource { from, mask } => {
                write!(f, ", from lane {from}, which is not in the mask {mask:#010x}: the value is undefined")?;
            }
            Kind::Panic { message, at } => {
                write!(f, ", a panic: {message}")?;
                if let Some(place) = at {
                    write!(f, "\n    at {place}")?;
                }
            }
        }
        if let Some(location) = self.location {
            write!(f, "\n    at {}:{}:{}", location.file(), location.line(), location.column())?;
        }
        match self.times {
            0 | 1 => Ok(()),
            times => write!(f, " (and {})", counted(times - 1, "more time")),
        }
    }
}

/// The defects of a launch. Those of one kind and line are counted, and one of them is described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}\n(threads in the order of seed {seed})", listed(.defects))]
pub struct Defects {
    /// At least one.
    pub defects: Vec<Defect>,
    /// The seed of the order of threads.
    pub seed: u64,
}

/// The reports of all defects, one after the other.
fn listed(defects: &[Defect]) -> String {
    defects.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
