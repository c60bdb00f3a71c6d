//! Runs GPU kernels on the CPU from the same source, with true barriers, and checks every access to memory.
//!
//! A kernel written with [`cuda_std`] and compiled for the host asks its *executor* for everything that a GPU provides.
//! This crate is such an executor. The threads of a block are fibers, which interleave at barriers and warp
//! collectives. Blocks run in parallel. A seed sets the shuffled order of a block's threads, and reports print it.
//!
//! # What is found
//! - Accesses out of the bounds of global, shared and constant memory, and misaligned ones.
//! - Reads of memory that nothing has written.
//! - Races in shared memory: two threads access one byte between two barriers, and at least one of them writes. For two
//!   threads of one warp, `sync_warp` is a barrier, too.
//! - Races in global memory: two blocks, or two threads of a block between two barriers, access one element, and at
//!   least one of them writes.
//! - Atomic accesses that race with others that are not atomic, or with those of another block in the scope of the
//!   block. Releases, acquires and fences order accesses as in PTX.
//! - Loops of atomic accesses that wait for a change that never comes.
//! - Asynchronous copies: an access to the destination before the issuing thread has waited for the copy, and a write
//!   to the source before the wait.
//! - Elements of an output that two threads write.
//! - Barriers and warp collectives that some threads miss, and shuffles from lanes outside of their mask.
//! - Conditions of `gpu_assert!` that do not hold, and panics.
//! - Launches beyond the limits of the device.
//!
//! A report names the kernel, the block, the thread, the access and the line of the source. For a race it also names
//! the earlier access.
//!
//! ```
//! use cuda_emulator::{Emulator, Launch, Memory, Role};
//! use cuda_std::prelude::*;
//!
//! /// Adds one to `length` elements.
//! ///
//! /// # Safety
//! /// - `from` and `to` hold `length` elements each.
//! #[kernel]
//! pub unsafe fn add_one(from: Global<f32>, to: GlobalMut<f32>, length: u32) {
//!     let i = thread::index_1d();
//!     if i < length {
//!         // SAFETY: i < length, checked above, and no other thread has this i.
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
//! // One element too many. SAFETY: the emulator checks every access.
//! let error = Emulator::new().launch("add_one", &launch, &mut memory, || unsafe { add_one(x, y, 4) }).unwrap_err();
//! assert!(error.to_string().contains("from[3], out of bounds: from has 3 elements of 4 bytes"));
//! # Ok::<(), cuda_emulator::Error>(())
//! ```
//!
//! `gpu_println!` prints to standard output when the launch has ended, or into [`Memory::collect_printed`].
//!
//! A race is found from the records of accesses and not from the results. It is reported in whatever order blocks and
//! threads happen to run.
//!
//! Blocks start in the order of their numbers and run in parallel. From its first atomic access to global memory on, a
//! block runs after all blocks with lower numbers have ended. So the seed alone decides the order of atomic accesses,
//! and the sum of atomic additions of floats.
//!
//! # To repeat a launch
//! The seed decides everything that happens within a block: the same seed gives the same report. It is that of the
//! environment variable [`SEED_VARIABLE`], or 1, or that of [`Emulator::seed`]. Where blocks race with each other, or a
//! launch is given up because of very many defects, the report also depends on the host threads.
//! [`Emulator::in_order`] runs one block after the other: then the seed decides every result and every report.
//!
//! # What is not found
//! - **Results of weak memory ordering.** Accesses are sequentially consistent. A missing release, acquire or fence is
//!   reported as a race of the data that it should have passed on. Two relaxed atomic accesses are seen in order.
//! - **Accesses after a release** and before the next barrier: they count as released.
//! - **Order by warp operations.** `sync_warp` of a whole warp orders shared memory only. Accesses to global memory
//!   that it orders are reported as races. Shuffles, ballots and matrix products order nothing.
//! - **Divergence within a warp** between collectives. Each lane runs alone until it waits. A barrier of the block that
//!   the lanes of a warp reach diverged passes, if all reach it.
//! - **Races between launches.** A launch sees everything that the one before wrote. There are no streams, and host and
//!   device do not overlap.
//! - **Parts of elements in global memory.** Records are per element of the array as it was allocated. A write of one
//!   byte marks the whole element as written.
//! - **Atomic accesses of two sizes to one element.**
//! - **Further races on an element.** A record keeps the last write and a summary of the reads, so the report of a race
//!   may name several threads, and later races on the same element may be missed.
//! - **Asynchronous copies that no thread waits for**, unless a thread of the block accesses the destination.
//! - **Endless loops** without an access to global or shared memory, with barriers in the loop, or with loads of
//!   several elements in turn. The launch does not return. One that loads the same element 16,777,216 times is
//!   reported.
//! - **Registers, occupancy, local memory, code size.** A thread has a stack of 128 KiB, or of
//!   [`Emulator::stack_bytes`]. A kernel that needs more ends the process with a segmentation fault.
//! - **Arithmetic of tensor cores.** A device adds products in an order and with a truncation of its own; see
//!   [`cuda_std::mma`].
//! - **The machine code.** The host's compiler translates the kernel. Errors of the PTX backend, of the assembler and
//!   in inline assembly are not seen.
//! - **Time.** An emulated kernel says nothing about speed.
//!
//! Some limits of the records cause wrong reports. Two threads that write different bytes of one element of global
//! memory are reported as a race. So are two accesses of one block to global memory exactly 4,096 barriers apart. A
//! process distinguishes 4,095 lines of kernels; all further lines share one name.

mod allocation;
mod arrays;
mod atomics;
mod block;
mod bytes;
mod causality;
mod check;
mod copies;
mod counts;
mod defect;
mod found;
mod host_memory;
mod launch;
mod memory;
mod panics;
mod printed;
mod record;
mod shared;
mod sites;
mod stacks;
mod turns;
mod wait;
mod warp;

use std::fmt;

use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

pub use bytes::{bytes_of, bytes_of_mut};
pub use counts::{Counts, Traffic};
pub use defect::{Before, Defect, Defects, Kind};
pub use launch::{Launch, LaunchError, Limits, Place};
pub use memory::{Buffer, Memory, Role};

/// An error of a launch.
///
/// Its `Debug` text is the report as well, so that `unwrap` and a `main` that returns it show the report.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device refuses the launch.
    #[error("{kernel}: {error}")]
    Launch {
        /// The kernel.
        kernel: String,
        /// The reason.
        error: LaunchError,
    },
    /// The kernel has defects.
    #[error("{0}")]
    Defects(Defects),
    /// The host has too little memory for the emulation.
    #[error("{kernel}: {short}")]
    Memory {
        /// The kernel.
        kernel: String,
        /// The allocation that failed.
        short: OutOfMemory,
    },
}

/// An allocation on the host that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not enough memory: {bytes} bytes are needed for {what}")]
pub struct OutOfMemory {
    /// The number of bytes that are needed.
    pub bytes: u64,
    /// Their purpose.
    pub what: &'static str,
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Runs all blocks of a launch on so many host threads. Returns the sum of their counts.
fn run_blocks(common: block::Common<'_>, host_threads: u64, kernel: &(dyn Fn() + Sync)) -> Counts {
    let blocks = common.launch.blocks();
    // A host thread has one runner, so it allocates stacks and shared memory once.
    let run = |_| {
        let runner = match block::Runner::new(common) {
            Ok(runner) => runner,
            Err(short) => {
                common.found.give_up(short);
                return Counts::default();
            }
        };
        while let Some(turn) = common.turns.start(blocks) {
            runner.run(turn.block(), kernel);
        }
        runner.counts()
    };
    let sum = |mut sum: Counts, counts| {
        sum += counts;
        sum
    };
    (0..host_threads.min(blocks)).into_par_iter().map(run).reduce(Counts::default, sum)
}

/// The settings of an emulated device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulator {
    limits: Limits,
    seed: u64,
    counting: bool,
    in_order: bool,
    stack_bytes: usize,
}

/// The environment variable with the seed of every [`Emulator`] for which the program sets none.
pub const SEED_VARIABLE: &str = "CUDA_EMULATOR_SEED";

/// The seed in the text of [`SEED_VARIABLE`], or 1 without one.
fn seed_of(text: Option<&str>) -> u64 {
    let number = |text: &str| {
        text.trim()
            .parse()
            .unwrap_or_else(|_| panic!("{SEED_VARIABLE} must be an integer from 0 to 2^64 - 1, not {text:?}"))
    };
    text.map_or(1, number)
}

impl Default for Emulator {
    fn default() -> Self {
        Self::new()
    }
}

impl Emulator {
    /// An emulator with the limits of an H100, the seed of [`SEED_VARIABLE`] or 1, and no counting.
    ///
    /// # Panics
    /// If the variable is set and no seed.
    #[must_use]
    pub fn new() -> Self {
        let text = std::env::var_os(SEED_VARIABLE).map(|text| text.to_string_lossy().into_owned());
        Self {
            limits: Limits::H100,
            seed: seed_of(text.as_deref()),
            counting: false,
            in_order: false,
            stack_bytes: stacks::STACK_BYTES,
        }
    }

    /// Sets the limits of the device.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The limits of the device.
    #[must_use]
    pub fn device_limits(&self) -> Limits {
        self.limits
    }

    /// Sets the seed of the order of threads. A report names its seed.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Runs the blocks one after the other, in the order of their numbers, instead of in parallel.
    ///
    /// Then the seed alone decides all results and reports, also where blocks race with each other.
    #[must_use]
    pub fn in_order(self, in_order: bool) -> Self {
        Self { in_order, ..self }
    }

    /// Sets the size of the stack of each thread in bytes. It is 128 KiB otherwise.
    ///
    /// All local variables of a kernel and of the functions that it calls must fit. A kernel that needs more ends the
    /// process with a segmentation fault and without a report.
    #[must_use]
    pub fn stack_bytes(self, stack_bytes: usize) -> Self {
        Self { stack_bytes, ..self }
    }

    /// Turns counting on or off; see [`Counts`]. It is slower, and threads run in the order of their numbers.
    #[must_use]
    pub fn counting(self, counting: bool) -> Self {
        Self { counting, ..self }
    }

    /// Runs `kernel` once for each thread of the launch. Reports show `name`.
    ///
    /// Without [`counting`](Self::counting) only the threads and barriers are counted.
    ///
    /// # Errors
    /// - [`Error::Launch`] if the device refuses the launch.
    /// - [`Error::Defects`] if the kernel has defects.
    /// - [`Error::Memory`] if the host has too little memory for the stacks of the threads.
    ///
    /// What the kernel wrote before an error stays written.
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
        panics::set_hook_once();
        let found = found::Found::new(name);
        let printed = printed::Printed::default();
        let counts = {
            let allocations = memory.allocations();
            let turns = turns::Turns::default();
            let arrays = arrays::Arrays::default();
            let elements = causality::GlobalElements::default();
            let common = block::Common {
                launch,
                memory,
                allocations: &allocations,
                found: &found,
                turns: &turns,
                arrays: &arrays,
                elements: &elements,
                printed: &printed,
                seed: self.seed,
                counting: self.counting,
                stack_bytes: self.stack_bytes,
                shared_limit: self.limits.shared_bytes,
            };
            let host_threads = if self.in_order { 1 } else { rayon::current_num_threads() as u64 };
            run_blocks(common, host_threads, &kernel)
        };
        memory.end_launch();
        memory.print(&printed.into_text());
        if let Some(short) = found.short() {
            return Err(Error::Memory { kernel: name.to_owned(), short });
        }
        let defects = found.into_defects();
        if defects.is_empty() { Ok(counts) } else { Err(Error::Defects(Defects { defects, seed: self.seed })) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_the_seed() {
        assert_eq!((seed_of(None), seed_of(Some("7")), seed_of(Some(" 18446744073709551615\n"))), (1, 7, u64::MAX));
        for wrong in ["", "-1", "1.5", "seven", "18446744073709551616"] {
            let message = *std::panic::catch_unwind(|| seed_of(Some(wrong))).unwrap_err().downcast::<String>().unwrap();
            assert!(
                message.starts_with("CUDA_EMULATOR_SEED must be an integer") && message.contains(wrong),
                "{message}"
            );
        }
    }
}
