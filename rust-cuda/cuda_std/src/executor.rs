//! Kernels on the host: a type that acts as the GPU implements [`Executor`], and [`enter`] runs a kernel on it.
//!
//! [`Executor`] is what one GPU thread sees of the machine: special registers, the barrier, warp operations, loads,
//! stores, atomic operations and asynchronous copies. Each access names the line of the kernel, so that an executor can
//! report it.
//!
//! ```
//! use cuda_std::executor::{Access, Collective, Executor, Register, Space, enter};
//! use cuda_std::prelude::*;
//! use std::panic::Location;
//!
//! /// Executes a grid of one thread without shared memory.
//! struct Alone;
//! impl Executor for Alone {
//!     fn register(&self, register: Register) -> u32 {
//!         u32::from(register.is_dimension())
//!     }
//!     fn barrier(&self, _: &'static Location<'static>) {}
//!     fn collective(&self, _: u32, _: Collective, value: u64, _: &'static Location<'static>) -> u32 {
//!         value as u32
//!     }
//!     fn load(&self, access: Access, bytes: &mut [u8]) {
//!         assert_eq!(access.space, Space::Global);
//!         // SAFETY: the kernel below accesses only `data`, which is live.
//!         unsafe { (access.address as *const u8).copy_to(bytes.as_mut_ptr(), bytes.len()) }
//!     }
//!     fn store(&self, access: Access, bytes: &[u8]) {
//!         // SAFETY: the kernel below accesses only `data`, which is live.
//!         unsafe { (access.address as *mut u8).copy_from(bytes.as_ptr(), bytes.len()) }
//!     }
//! }
//!
//! /// Doubles element 0.
//! ///
//! /// # Safety
//! /// - `data` holds one element, and no other thread accesses it.
//! #[kernel]
//! pub unsafe fn double(data: GlobalMut<f32>) {
//!     // SAFETY: element 0 exists, and no other thread accesses it.
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

use crate::atomic::{AtomicScalar, Ordering, Scope};
use crate::constant::ConstantMemory;
use crate::{Global, Scalar, Shared};

/// The special registers of a thread.
#[allow(missing_docs)] // `thread` describes each of them
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
    /// Whether this is a size (`blockDim`, `gridDim`) and not a position. A size is at least 1.
    #[must_use]
    pub fn is_dimension(self) -> bool {
        use Register::{BlockDimX, BlockDimY, BlockDimZ, GridDimX, GridDimY, GridDimZ};
        matches!(self, BlockDimX | BlockDimY | BlockDimZ | GridDimX | GridDimY | GridDimZ)
    }
}

/// The memory that an access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Global memory. Addresses are those of the kernel's pointers.
    Global,
    /// The block's shared memory. Addresses count from the start of the dynamic part. [`Executor::shared_array`] gives
    /// those of the others.
    Shared,
    /// An array in constant memory. Addresses count from its start.
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
    /// The memory.
    pub space: Space,
    /// The address of the first byte, counted as [`Space`] says.
    pub address: u64,
    /// The number of bytes, which is also the alignment that the device requires.
    pub size: u32,
    /// The line of the kernel.
    pub location: &'static Location<'static>,
}

/// The kind of an atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicKind {
    /// It reads.
    Load,
    /// It writes.
    Store,
    /// It reads, and may write.
    Update,
}

/// The declaration of a shared array of a fixed length; see [`shared_array!`](crate::shared_array!).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedDeclaration {
    /// A number that no other declaration has.
    pub number: u64,
    /// The size of the array in bytes.
    pub bytes: u32,
    /// The size of an element in bytes.
    pub element: u32,
    /// The line of the declaration.
    pub location: &'static Location<'static>,
}

/// One atomic operation of one thread; see [`crate::atomic`].
#[derive(Clone, Copy, Debug)]
pub struct AtomicAccess {
    /// The element: 4 or 8 bytes of global or shared memory.
    pub access: Access,
    /// What it does.
    pub kind: AtomicKind,
    /// Which other accesses it orders.
    pub order: Ordering,
    /// The threads for which it is atomic.
    pub scope: Scope,
}

/// One asynchronous copy of one thread from global to shared memory; see [`crate::cp_async`].
#[derive(Clone, Copy, Debug)]
pub struct AsyncCopy {
    /// The address of the destination's first byte, counted from the start of the block's dynamic shared memory.
    pub to: u64,
    /// The address of the source's first byte in global memory.
    pub from: u64,
    /// The number of bytes that are written, 4 or 16. The device requires both addresses to be aligned to it.
    pub size: u32,
    /// The number of bytes that are read if zeros fill the rest. None if all `size` bytes are read.
    pub zero_fill_from: Option<u32>,
    /// The line of the kernel.
    pub location: &'static Location<'static>,
}

/// How [`Collective::Reduce`] combines values.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    Add,
    MinSigned,
    MaxSigned,
    MinUnsigned,
    MaxUnsigned,
    And,
    Or,
    Xor,
}

impl Reduction {
    /// The combination of two values. Sums wrap.
    #[must_use]
    pub fn combine(self, a: u32, b: u32) -> u32 {
        match self {
            Self::Add => a.wrapping_add(b),
            Self::MinSigned => (a as i32).min(b as i32) as u32,
            Self::MaxSigned => (a as i32).max(b as i32) as u32,
            Self::MinUnsigned => a.min(b),
            Self::MaxUnsigned => a.max(b),
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
        }
    }
}

/// An operation of the lanes of a warp; see [`crate::warp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Waits for the warp and orders its memory accesses. The answer is 0.
    Sync,
    /// Waits for the warp and does not order memory accesses. The answer is 0.
    Gather,
    /// Answers the value of the lane that is this much higher, or the lane's own if there is none.
    ShuffleDown(u32),
    /// Answers the value of the lane whose number is this lane's XOR these bits.
    ShuffleXor(u32),
    /// Answers the value of the lane with this number modulo 32.
    Shuffle(u32),
    /// Answers the value of the lane that is this much lower, or the lane's own if there is none.
    ShuffleUp(u32),
    /// Answers one bit per lane, set where the lane's value is the same.
    Match,
    /// Answers the values of all lanes, combined.
    Reduce(Reduction),
    /// Answers one bit per lane, set where its value is not 0.
    Ballot,
}

/// A thread's step in a loop whose iterations a warp executes together; see [`crate::warp::lockstep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lockstep {
    /// The thread is before the loop.
    Begin,
    /// The thread starts the next iteration.
    Next,
    /// The thread is past the loop.
    End,
}

/// The number of words that a lane passes to [`Executor::gather`]: its fragments of `A` and `B` of a matrix product.
pub const GATHERED: usize = 6;

/// The machine as one thread of a kernel sees it.
pub trait Executor {
    /// The value of a special register.
    fn register(&self, register: Register) -> u32;
    /// Waits until all threads of the block have called it.
    fn barrier(&self, location: &'static Location<'static>);
    /// Waits until all threads of the block have called it. Returns the number of threads for which `predicate` holds.
    ///
    /// The default implementation is for a block of one thread.
    fn barrier_count(&self, predicate: bool, location: &'static Location<'static>) -> u32 {
        self.barrier(location);
        u32::from(predicate)
    }
    /// The address in shared memory of the array of a declaration, a multiple of 16. It is the same in all calls of the
    /// threads of a block. The arrays do not overlap, and the dynamic shared memory comes before them.
    ///
    /// The default implementation panics.
    fn shared_array(&self, _declaration: SharedDeclaration) -> u32 {
        panic!("this executor has no shared arrays of a fixed length")
    }
    /// Reports an index of a shared array that has fewer elements. The default implementation panics.
    fn index_out_of_bounds(&self, index: u32, length: usize, _location: &'static Location<'static>) {
        panic!("element {index} of a shared array of {length} elements")
    }
    /// A number that grows with each call. The default implementation returns 0.
    fn clock(&self) -> u64 {
        0
    }
    /// Waits until the lanes of `mask` have called it with the same mask and operation. Returns the answer for this
    /// lane.
    fn collective(&self, mask: u32, operation: Collective, value: u64, location: &'static Location<'static>) -> u32;
    /// Waits until all lanes of the warp have called it. Returns the values of each lane.
    ///
    /// The default implementation shuffles each value of each lane.
    fn gather(&self, values: [u32; GATHERED], location: &'static Location<'static>) -> [[u32; GATHERED]; 32] {
        let mut all = [[0; GATHERED]; 32];
        for (lane, of_lane) in all.iter_mut().enumerate() {
            for (to, value) in of_lane.iter_mut().zip(values) {
                *to = self.collective(u32::MAX, Collective::Shuffle(lane as u32), value.into(), location);
            }
        }
        all
    }
    /// Fills `bytes` from memory.
    fn load(&self, access: Access, bytes: &mut [u8]);
    /// Writes `bytes` to memory.
    fn store(&self, access: Access, bytes: &[u8]);
    /// Executes an atomic operation and returns the element's old bits, the high ones 0.
    ///
    /// `update` returns the new bits for the old ones, or None if the operation writes nothing. For a store it is
    /// called with 0. The default implementation loads and stores, which is atomic if nothing runs in parallel.
    fn atomic(&self, operation: AtomicAccess, update: &mut dyn FnMut(u64) -> Option<u64>) -> u64 {
        let AtomicAccess { access, kind, .. } = operation;
        let (mut bytes, size) = ([0; 8], access.size as usize);
        if kind != AtomicKind::Store {
            self.load(access, &mut bytes[..size]);
        }
        let old = u64::from_le_bytes(bytes);
        if let Some(new) = update(old) {
            self.store(access, &new.to_le_bytes()[..size]);
        }
        old
    }
    /// Orders the accesses of this thread before it before those after it, for the threads of a scope.
    ///
    /// The default implementation does nothing.
    fn fence(&self, _order: Ordering, _scope: Scope) {}
    /// Issues an asynchronous copy.
    ///
    /// The default implementation copies at once.
    fn cp_async(&self, copy: AsyncCopy) {
        let AsyncCopy { to, from, size, zero_fill_from, location } = copy;
        let (mut bytes, size_in_bytes) = ([0; 16], size as usize);
        match zero_fill_from {
            None => {
                let access = Access { space: Space::Global, address: from, size, location };
                self.load(access, &mut bytes[..size_in_bytes]);
            }
            Some(count) => {
                for (address, byte) in (from..).zip(&mut bytes[..count.min(size) as usize]) {
                    let access = Access { space: Space::Global, address, size: 1, location };
                    self.load(access, std::slice::from_mut(byte));
                }
            }
        }
        self.store(Access { space: Space::Shared, address: to, size, location }, &bytes[..size_in_bytes]);
    }
    /// Ends a group of this thread's copies. The default implementation does nothing.
    fn commit_group(&self) {}
    /// Waits until at most the `pending` most recent groups of this thread are pending.
    ///
    /// The default implementation does nothing.
    fn wait_group(&self, _pending: u32) {}
    /// Prints text of [`gpu_println!`](crate::gpu_println). The default implementation writes to standard output.
    fn print(&self, text: &str) {
        print!("{text}");
    }
    /// Ends the thread after a failed [`gpu_assert!`](crate::gpu_assert). The default implementation panics.
    fn assertion_failed(&self, message: &str, location: &'static Location<'static>) -> ! {
        panic!("{location}: assertion `{message}` failed")
    }
    /// Notes a step of the thread in a loop. No thread waits. The default implementation does nothing.
    fn lockstep(&self, _step: Lockstep, _location: &'static Location<'static>) {}
}

thread_local! {
    /// The executor of the kernel that this host thread runs.
    static CURRENT: Cell<Option<&'static dyn Executor>> = const { Cell::new(None) };
}

/// Calls `kernel` with `executor` as the executor of this host thread.
///
/// Calls may nest. The outer executor is restored when `kernel` returns or panics.
pub fn enter(executor: &dyn Executor, kernel: impl FnOnce()) {
    /// Restores the outer executor, also if the kernel panics.
    struct Restore(Option<&'static dyn Executor>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    // SAFETY: CURRENT alone holds the extended lifetime. The functions of this module use it for one call each, and
    // Restore removes it before the borrow of `executor` ends.
    let executor: &'static dyn Executor = unsafe { std::mem::transmute(executor) };
    let _restore = Restore(CURRENT.replace(Some(executor)));
    kernel();
}

/// The executor of this host thread.
///
/// # Panics
/// If this host thread runs no kernel: a device function was called outside of [`enter`].
#[track_caller]
pub(crate) fn current() -> &'static dyn Executor {
    CURRENT.get().unwrap_or_else(|| {
        panic!("a device function was called outside of a kernel; cuda_std::executor::enter runs one")
    })
}

/// Tells the executor of this host thread about a step in a loop.
///
/// There may be none: a loop also ends when its thread is unwound after the launch was given up.
pub(crate) fn lockstep(step: Lockstep, location: &'static Location<'static>) {
    if let Some(executor) = CURRENT.get() {
        executor.lockstep(step, location);
    }
}

/// The access to a `T` at the caller's line.
#[track_caller]
fn access<T>(space: Space, address: u64) -> Access {
    Access { space, address, size: size_of::<T>() as u32, location: Location::caller() }
}

/// A load through the current executor.
#[track_caller]
fn load<T: Scalar>(space: Space, address: u64) -> T {
    let access = access::<T>(space, address);
    let mut value = T::default();
    // SAFETY: Scalar is sealed; its types have no padding, and every bit pattern is a value.
    let bytes = unsafe { std::slice::from_raw_parts_mut((&raw mut value).cast::<u8>(), size_of::<T>()) };
    current().load(access, bytes);
    value
}

/// A store through the current executor.
#[track_caller]
fn store<T: Scalar>(space: Space, address: u64, value: T) {
    let access = access::<T>(space, address);
    // SAFETY: Scalar is sealed; its types have no padding, so all bytes are initialised.
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

/// The address of a shared array of a fixed length.
#[doc(hidden)]
#[must_use]
#[track_caller]
pub fn shared_array(number: u64, bytes: u32, element: u32) -> u32 {
    current().shared_array(SharedDeclaration { number, bytes, element, location: Location::caller() })
}

/// Executes an atomic operation through the current executor. Returns the old value.
#[track_caller]
pub(crate) fn atomic<T: AtomicScalar>(
    kind: AtomicKind,
    space: Space,
    address: u64,
    order: Ordering,
    scope: Scope,
    mut update: impl FnMut(T) -> Option<T>,
) -> T {
    match (kind, order) {
        (AtomicKind::Load, Ordering::Release | Ordering::AcqRel) => panic!("an atomic load can't release"),
        (AtomicKind::Store, Ordering::Acquire | Ordering::AcqRel) => panic!("an atomic store can't acquire"),
        _ => {}
    }
    let access = access::<T>(space, address);
    let mut update = |old| update(T::of_bits(old)).map(T::bits);
    T::of_bits(current().atomic(AtomicAccess { access, kind, order, scope }, &mut update))
}

#[track_caller]
pub(crate) fn load_constant<C: ConstantMemory>(index: usize) -> C::Element {
    let size = size_of::<C::Element>();
    load(Space::Constant { symbol: C::SYMBOL, bytes: C::LENGTH * size }, (index * size) as u64)
}

/// Issues an asynchronous copy through the current executor.
#[track_caller]
pub(crate) fn cp_async<T: Scalar>(to: Shared<T>, from: Global<T>, size: u32, zero_fill_from: Option<u32>) {
    let from = from.pointer().expose_provenance() as u64;
    let location = Location::caller();
    current().cp_async(AsyncCopy { to: to.address().into(), from, size, zero_fill_from, location });
}
