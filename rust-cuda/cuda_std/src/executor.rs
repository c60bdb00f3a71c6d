//! The host's half: whoever plays the GPU implements [`Executor`], and kernels run inside [`enter`].
//!
//! A GPU thread's view of the machine is small: a dozen registers, a barrier, a few exchanges within the warp, loads and stores. [`Executor`] is just
//! that view. Each access comes with the line of the kernel that made it, so that an executor can report it.
//!
//! ```
//! use cuda_std::executor::{Access, Collective, Executor, Register, Space, enter};
//! use cuda_std::prelude::*;
//! use std::panic::Location;
//!
//! /// A grid of one thread, without shared memory.
//! struct Alone;
//! impl Executor for Alone {
//!     fn register(&self, register: Register) -> u32 {
//!         u32::from(register.is_dimension())
//!     }
//!     fn barrier(&self, _: &'static Location<'static>) {}
//!     fn collective(&self, _: Collective, value: u32, _: &'static Location<'static>) -> u32 {
//!         value
//!     }
//!     fn load(&self, access: Access, bytes: &mut [u8]) {
//!         assert_eq!(access.space, Space::Global);
//!         // SAFETY: the kernel below accesses only `data`.
//!         unsafe { (access.address as *const u8).copy_to(bytes.as_mut_ptr(), bytes.len()) }
//!     }
//!     fn store(&self, access: Access, bytes: &[u8]) {
//!         // SAFETY: as above.
//!         unsafe { (access.address as *mut u8).copy_from(bytes.as_ptr(), bytes.len()) }
//!     }
//! }
//!
//! /// Doubles element 0.
//! ///
//! /// # Safety
//! /// `data` holds an element.
//! #[kernel]
//! pub unsafe fn double(data: GlobalMut<f32>) {
//!     // SAFETY: the caller's promise.
//!     unsafe { data.store(0, 2.0 * data.load(0)) };
//! }
//!
//! let mut data = [21.0_f32];
//! let handle = GlobalMut::new(data.as_mut_ptr());
//! // SAFETY: `data` holds one element.
//! enter(&Alone, || unsafe { double(handle) });
//! assert_eq!(data, [42.0]);
//! ```

use std::cell::Cell;
use std::panic::Location;

use crate::Scalar;
use crate::constant::ConstantMemory;

/// The special registers of a thread.
#[allow(missing_docs)] // each is described where `thread` reads it
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    ThreadIdxX,
    ThreadIdxY,
    ThreadIdxZ,
    BlockIdxX,
    BlockIdxY,
    BlockIdxZ,
    BlockDimX,
    BlockDimY,
    BlockDimZ,
    GridDimX,
    GridDimY,
    GridDimZ,
}

impl Register {
    /// Whether this is a size (`blockDim`, `gridDim`, at least 1) rather than a position.
    #[must_use]
    pub fn is_dimension(self) -> bool {
        use Register::{BlockDimX, BlockDimY, BlockDimZ, GridDimX, GridDimY, GridDimZ};
        matches!(self, BlockDimX | BlockDimY | BlockDimZ | GridDimX | GridDimY | GridDimZ)
    }
}

/// The memory that an access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Global memory; addresses are those of the host's own memory.
    Global,
    /// The block's dynamic shared memory; addresses count from its start.
    Shared,
    /// A constant array; addresses count from its start.
    Constant {
        /// The array's symbol.
        symbol: &'static str,
        /// The array's length in bytes.
        bytes: usize,
    },
}

/// One load or store of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Which memory.
    pub space: Space,
    /// The first byte's address, counted as [`Space`] says.
    pub address: u64,
    /// How many bytes; also the alignment that the device asks for.
    pub size: u32,
    /// The line of the kernel.
    pub location: &'static Location<'static>,
}

/// What the threads of a warp do together; see [`crate::warp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Wait for the warp; what its threads did in memory before comes before what they do after. The answer is 0.
    Sync,
    /// Wait for the warp; says nothing of memory. The answer is 0.
    Gather,
    /// Get the value of the lane that is this much higher, or the own one if there is none.
    ShuffleDown(u32),
    /// Get the value of the lane whose number differs in these bits.
    ShuffleXor(u32),
    /// Get the value of this lane.
    Shuffle(u32),
    /// Get a bit for each lane, set where its value is not 0.
    Ballot,
}

/// Where a thread is in a loop whose iterations a warp makes together; see [`crate::warp::lockstep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lockstep {
    /// Before the loop.
    Begin,
    /// At the beginning of the next iteration.
    Next,
    /// Behind the loop.
    End,
}

/// How many values a lane gives to [`Executor::gather`]: a thread's part of the two factors of a product of matrices.
pub const GATHERED: usize = 6;

/// What a kernel sees of the machine it runs on, seen by one thread.
pub trait Executor {
    /// The value of a special register.
    fn register(&self, register: Register) -> u32;
    /// Returns when all threads of the block have called it.
    fn barrier(&self, location: &'static Location<'static>);
    /// Returns when all threads of the warp have called it with the same operation: what this one gets for its `value`.
    fn collective(&self, operation: Collective, value: u32, location: &'static Location<'static>) -> u32;
    /// Returns when all threads of the warp have called it: what each lane gave. Who has nothing faster asks lane after lane.
    fn gather(&self, values: [u32; GATHERED], location: &'static Location<'static>) -> [[u32; GATHERED]; 32] {
        let mut all = [[0; GATHERED]; 32];
        for (lane, of_lane) in all.iter_mut().enumerate() {
            for (to, value) in of_lane.iter_mut().zip(values) {
                *to = self.collective(Collective::Shuffle(lane as u32), value, location);
            }
        }
        all
    }
    /// Fills `bytes` from memory.
    fn load(&self, access: Access, bytes: &mut [u8]);
    /// Writes `bytes` to memory.
    fn store(&self, access: Access, bytes: &[u8]);
    /// Notes where the thread is in a loop. Nobody waits; who does not care need not listen.
    fn lockstep(&self, _step: Lockstep, _location: &'static Location<'static>) {}
}

thread_local! {
    /// The executor of the kernel that this thread is in.
    static CURRENT: Cell<Option<&'static dyn Executor>> = const { Cell::new(None) };
}

/// Calls `kernel` with `executor` as the GPU of all that this thread does inside. Calls may nest; the outer executor comes
/// back after.
pub fn enter(executor: &dyn Executor, kernel: impl FnOnce()) {
    /// Puts the outer executor back, also when the kernel panics.
    struct Restore(Option<&'static dyn Executor>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    // SAFETY: the longer lifetime exists only in CURRENT, only `current` reads it, for the length of one call each, and
    // Restore takes it out before the borrow of `executor` ends.
    let executor: &'static dyn Executor = unsafe { std::mem::transmute(executor) };
    let _restore = Restore(CURRENT.replace(Some(executor)));
    kernel();
}

/// The executor of this thread.
///
/// # Panics
/// If no kernel is running on this thread: a device function was called as if it were an ordinary one.
#[track_caller]
pub(crate) fn current() -> &'static dyn Executor {
    CURRENT.get().unwrap_or_else(|| {
        panic!("a device function was called outside of a kernel; cuda_std::executor::enter runs one")
    })
}

/// Tells the executor of this thread, if there is one: a loop may also end because its thread is given up.
pub(crate) fn lockstep(step: Lockstep, location: &'static Location<'static>) {
    if let Some(executor) = CURRENT.get() {
        executor.lockstep(step, location);
    }
}

/// An access of a `T`.
#[track_caller]
fn access<T>(space: Space, address: u64) -> Access {
    Access { space, address, size: size_of::<T>() as u32, location: Location::caller() }
}

/// A load through the current executor.
#[track_caller]
fn load<T: Scalar>(space: Space, address: u64) -> T {
    let access = access::<T>(space, address);
    let mut value = T::default();
    // SAFETY: Scalar is sealed: its types are plain bytes without padding, valid for every bit pattern.
    let bytes = unsafe { std::slice::from_raw_parts_mut((&raw mut value).cast::<u8>(), size_of::<T>()) };
    current().load(access, bytes);
    value
}

/// A store through the current executor.
#[track_caller]
fn store<T: Scalar>(space: Space, address: u64, value: T) {
    let access = access::<T>(space, address);
    // SAFETY: as in `load`.
    let bytes = unsafe { std::slice::from_raw_parts((&raw const value).cast::<u8>(), size_of::<T>()) };
    current().store(access, bytes);
}

#[track_caller]
pub(crate) fn load_global<T: Scalar>(address: *const T) -> T {
    load(Space::Global, address.expose_provenance() as u64)
}

#[track_caller]
pub(crate) fn store_global<T: Scalar>(address: *mut T, value: T) {
    store(Space::Global, address.expose_provenance() as u64, value);
}

#[track_caller]
pub(crate) fn load_shared<T: Scalar>(address: u32) -> T {
    load(Space::Shared, u64::from(address))
}

#[track_caller]
pub(crate) fn store_shared<T: Scalar>(address: u32, value: T) {
    store(Space::Shared, u64::from(address), value);
}

#[track_caller]
pub(crate) fn load_constant<C: ConstantMemory>(index: usize) -> C::Element {
    let size = size_of::<C::Element>();
    load(Space::Constant { symbol: C::SYMBOL, bytes: C::LENGTH * size }, (index * size) as u64)
}
