//! Runs GPU kernels on the CPU: the same source, block by block, with true barriers, every access checked.
//!
//! A kernel written with [`cuda_std`] and compiled for the host asks its *executor* for everything that a GPU would give it. This
//! crate is such an executor. The threads of a block are fibers, which really interleave at barriers and warp
//! collectives; blocks run in parallel; the order of a block's threads is shuffled, by a seed that is printed with every
//! defect, so that a kernel that only works in one order is seen.
//!
//! # What is found
//! * accesses out of the bounds of global, shared and constant memory, and misaligned ones;
//! * reads of memory that nothing wrote;
//! * races: two threads of a block on one byte of shared memory between two barriers, at least one of them writing (for two
//!   threads of one warp, `sync_warp` is a barrier, too); two blocks, or two threads of a block between two barriers, on one
//!   element of global memory;
//! * elements of an output that two threads write;
//! * barriers and warp collectives that some threads miss;
//! * launches beyond what the device allows.
//!
//! Each with kernel, block, thread, what was accessed, the line of the source, and for races the access before.
//!
//! ```
//! use cuda_emulator::{Emulator, Launch, Memory, Role};
//! use cuda_std::prelude::*;
//!
//! /// Adds one to `length` elements.
//! ///
//! /// # Safety
//! /// `from` and `to` hold `length` elements each.
//! #[kernel]
//! pub unsafe fn add_one(from: Global<f32>, to: GlobalMut<f32>, length: u32) {
//!     let i = thread::index_1d();
//!     if i < length {
//!         // SAFETY: i is below the length.
//!         unsafe { to.store(i as isize, from.load(i as isize) + 1.0) };
//!     }
//! }
//!
//! let mut memory = Memory::new();
//! let from = memory.upload("from", &[1.0_f32, 2.0, 3.0]);
//! let to = memory.allocate::<f32>("to", 3, Role::Output);
//! let (x, y) = (from.global(), to.global_mut());
//! let launch = Launch::flat((1, 1), (32, 1), 0);
//!
//! // SAFETY: the emulator checks every access.
//! Emulator::new().launch("add_one", &launch, &mut memory, || unsafe { add_one(x, y, 3) })?;
//! assert_eq!(memory.download(&to), [2.0, 3.0, 4.0]);
//!
//! // One element too many. SAFETY: as above.
//! let error = Emulator::new().launch("add_one", &launch, &mut memory, || unsafe { add_one(x, y, 4) }).unwrap_err();
//! assert!(error.to_string().contains("0 bytes after the end of from (12 bytes)"));
//! # Ok::<(), cuda_emulator::Error>(())
//! ```
//!
//! # Limits
//! Time means nothing here. Memory is sequentially consistent: a missing fence between blocks is only seen as the race that it is
//! part of. Warp collectives are for whole warps. Of these only `sync_warp` orders memory, and here only shared memory: accesses
//! of global memory are ordered by barriers of the block alone. A race that needs a certain order of *blocks* to change the
//! result is still reported, because what is compared is who touched what, not what came out.

mod block;
mod check;
mod counts;
mod defect;
mod found;
mod launch;
mod memory;
mod record;
mod shared;
mod sites;
mod warp;

use std::fmt;

use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

pub use counts::{Counts, Traffic};
pub use defect::{Before, Defect, Defects, Kind};
pub use launch::{Launch, LaunchError, Limits, Place};
pub use memory::{Buffer, Memory, Role};

/// What a launch can come to.
///
/// Its `Debug` is the report, too, so that a `main` that returns it, or an `unwrap`, shows something to read.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device would refuse the launch.
    #[error("{kernel}: {error}")]
    Launch {
        /// The kernel.
        kernel: String,
        /// Why.
        error: LaunchError,
    },
    /// The kernel did something wrong.
    #[error("{0}")]
    Defects(Defects),
    /// This machine has not enough memory for the emulation.
    #[error("{kernel}: {short}")]
    Memory {
        /// The kernel.
        kernel: String,
        /// What there is too little of.
        short: OutOfMemory,
    },
}

/// Memory of the host that could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not enough memory: {bytes} bytes are needed for {what}")]
pub struct OutOfMemory {
    /// Bytes that are needed.
    pub bytes: u64,
    /// What for.
    pub what: &'static str,
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How kernels are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulator {
    limits: Limits,
    seed: u64,
    counting: bool,
}

impl Default for Emulator {
    fn default() -> Self {
        Self::new()
    }
}

impl Emulator {
    /// The limits of an H100, a fixed seed, no counting.
    #[must_use]
    pub fn new() -> Self {
        Self { limits: Limits::H100, seed: 1, counting: false }
    }

    /// With the limits of another device.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// With another order of threads.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Counting what a profiler would count; see [`Counts`]. Slower, and the order of threads is then the natural one.
    #[must_use]
    pub fn counting(self, counting: bool) -> Self {
        Self { counting, ..self }
    }

    /// Runs `kernel` once for each thread of the launch. `name` is for reports.
    ///
    /// The counts are zero but for the threads and barriers unless [`counting`](Self::counting).
    ///
    /// # Errors
    /// [`Error::Launch`] if the device would refuse, [`Error::Defects`] if the kernel did something wrong, [`Error::Memory`] if
    /// there is too little for the stacks of its threads. What it wrote until then stays written.
    pub fn launch(
        &self,
        name: &str,
        launch: &Launch,
        memory: &mut Memory,
        kernel: impl Fn() + Sync,
    ) -> Result<Counts, Error> {
        let refused = |error| Error::Launch { kernel: name.to_owned(), error };
        launch.check(&self.limits).map_err(refused)?;
        let threads = launch.threads() * launch.blocks();
        if threads > record::MOST {
            let error =
                LaunchError::TooLarge { what: "the number of threads of the grid", found: threads, most: record::MOST };
            return Err(refused(error));
        }
        let found = found::Found::new(name);
        let counts = {
            let allocations = memory.allocations();
            let common = block::Common {
                launch,
                memory,
                allocations: &allocations,
                found: &found,
                seed: self.seed,
                counting: self.counting,
            };
            // A few pieces per thread of the host: each piece makes its stacks and shared memory once.
            let pieces = (rayon::current_num_threads() as u64 * 8).min(launch.blocks());
            let kernel: &(dyn Fn() + Sync) = &kernel;
            (0..pieces)
                .into_par_iter()
                .map(|piece| {
                    let runner = block::Runner::new(common);
                    for block in (piece..launch.blocks()).step_by(pieces as usize) {
                        runner.run(block, kernel);
                    }
                    runner.counts()
                })
                .reduce(Counts::default, |mut sum, counts| {
                    sum += counts;
                    sum
                })
        };
        memory.end_launch();
        if let Some(short) = found.short() {
            return Err(Error::Memory { kernel: name.to_owned(), short });
        }
        let defects = found.into_defects();
        if defects.is_empty() { Ok(counts) } else { Err(Error::Defects(Defects { defects, seed: self.seed })) }
    }
}
