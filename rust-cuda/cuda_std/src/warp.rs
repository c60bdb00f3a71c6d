//! Operations of the 32 lanes of a warp, without shared memory and without a barrier of the block.
//!
//! | here | CUDA C++ |
//! | --- | --- |
//! | [`lane_id`] | `threadIdx.x % warpSize` in a one-dimensional block |
//! | [`sync_warp`] | `__syncwarp()` |
//! | [`shuffle`] | `__shfl_sync` |
//! | [`shuffle_down`] | `__shfl_down_sync` |
//! | [`shuffle_xor`] | `__shfl_xor_sync` |
//! | [`ballot`] | `__ballot_sync` |
//!
//! # Convergence
//! These operations name all 32 lanes. PTX leaves the result undefined if a lane is missing, and the device may hang.
//! Therefore the functions are unsafe. The emulator reports a missing lane.
//!
//! [`lockstep`] and [`Steps`] serve the emulator's counts. On a device they do nothing.

#[cfg(not(target_arch = "nvptx64"))]
use std::panic::Location;

#[cfg(not(target_arch = "nvptx64"))]
use crate::executor::{self, Collective, Lockstep};

/// Threads of a warp.
pub const WARP_SIZE: u32 = 32;

#[cfg(target_arch = "nvptx64")]
mod intrinsics {
    // Intrinsics and not inline assembly: LLVM knows that they are convergent and moves them across no branch.
    #[allow(improper_ctypes)]
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
        pub(super) fn shuffle(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
        pub(super) fn shuffle_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
        pub(super) fn shuffle_xor(mask: u32, value: u32, bits: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.vote.ballot.sync"]
        pub(super) fn ballot(mask: u32, predicate: bool) -> u32;
        #[link_name = "llvm.nvvm.bar.warp.sync"]
        pub(super) fn sync_warp(mask: u32);
    }

    /// All 32 lanes.
    pub(super) const ALL: u32 = u32::MAX;
    /// The clamp operand of `shfl` for segments of a whole warp: the highest lane.
    pub(super) const CLAMP: u32 = 31;
}

/// A 32-bit value that lanes exchange: `u32`, `i32`, `f32`.
pub trait ShuffleValue: Copy {
    /// The value's bits.
    #[doc(hidden)]
    fn bits(self) -> u32;
    /// The value with these bits.
    #[doc(hidden)]
    fn of_bits(bits: u32) -> Self;
}

impl ShuffleValue for u32 {
    #[inline(always)]
    fn bits(self) -> u32 {
        self
    }
    #[inline(always)]
    fn of_bits(bits: u32) -> Self {
        bits
    }
}

impl ShuffleValue for i32 {
    #[inline(always)]
    fn bits(self) -> u32 {
        self as u32
    }
    #[inline(always)]
    fn of_bits(bits: u32) -> Self {
        bits as i32
    }
}

impl ShuffleValue for f32 {
    #[inline(always)]
    fn bits(self) -> u32 {
        self.to_bits()
    }
    #[inline(always)]
    fn of_bits(bits: u32) -> Self {
        Self::from_bits(bits)
    }
}

/// This thread's lane in its warp, 0 to 31.
#[inline(always)]
#[must_use]
pub fn lane_id() -> u32 {
    crate::thread::thread_rank() % WARP_SIZE
}

/// One exchange: the intrinsic on the device, the executor's answer on the host.
macro_rules! exchange {
    ($operation:expr, $value:expr, $intrinsic:ident($($argument:expr),*)) => {{
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: all 32 lanes of the warp are converged here, as the function requires.
            unsafe { intrinsics::$intrinsic($($argument),*) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            executor::current().collective($operation, $value, core::panic::Location::caller())
        }
    }};
}

/// The `value` of lane `lane` modulo 32.
///
/// # Safety
/// - All 32 lanes of the warp execute this call together. No lane has returned.
/// - Every branch around the call depends on values that are equal in all lanes.
/// - The number of threads of the block is a multiple of 32.
#[inline(always)]
#[track_caller]
#[must_use]
pub unsafe fn shuffle<T: ShuffleValue>(value: T, lane: u32) -> T {
    T::of_bits(exchange!(
        Collective::Shuffle(lane),
        value.bits(),
        shuffle(intrinsics::ALL, value.bits(), lane, intrinsics::CLAMP)
    ))
}

/// The `value` of the lane that is `delta` higher, or this lane's own where there is none.
///
/// # Safety
/// - All 32 lanes of the warp execute this call together. No lane has returned.
/// - Every branch around the call depends on values that are equal in all lanes.
/// - The number of threads of the block is a multiple of 32.
#[inline(always)]
#[track_caller]
#[must_use]
pub unsafe fn shuffle_down<T: ShuffleValue>(value: T, delta: u32) -> T {
    T::of_bits(exchange!(
        Collective::ShuffleDown(delta),
        value.bits(),
        shuffle_down(intrinsics::ALL, value.bits(), delta, intrinsics::CLAMP)
    ))
}

/// The `value` of the lane whose number is this lane's XOR `bits`, which is 0 to 31.
///
/// # Safety
/// - All 32 lanes of the warp execute this call together. No lane has returned.
/// - Every branch around the call depends on values that are equal in all lanes.
/// - The number of threads of the block is a multiple of 32.
#[inline(always)]
#[track_caller]
#[must_use]
pub unsafe fn shuffle_xor<T: ShuffleValue>(value: T, bits: u32) -> T {
    T::of_bits(exchange!(
        Collective::ShuffleXor(bits),
        value.bits(),
        shuffle_xor(intrinsics::ALL, value.bits(), bits, intrinsics::CLAMP)
    ))
}

/// One bit per lane, set where `predicate` holds.
///
/// # Safety
/// - All 32 lanes of the warp execute this call together. No lane has returned.
/// - Every branch around the call depends on values that are equal in all lanes.
/// - The number of threads of the block is a multiple of 32.
#[inline(always)]
#[track_caller]
#[must_use]
pub unsafe fn ballot(predicate: bool) -> u32 {
    exchange!(Collective::Ballot, u32::from(predicate), ballot(intrinsics::ALL, predicate))
}

/// Waits for all lanes of the warp. A lane sees what the others wrote to memory before.
///
/// # Safety
/// - All 32 lanes of the warp execute this call together. No lane has returned.
/// - Every branch around the call depends on values that are equal in all lanes.
/// - The number of threads of the block is a multiple of 32.
#[inline(always)]
#[track_caller]
pub unsafe fn sync_warp() {
    exchange!(Collective::Sync, 0, sync_warp(intrinsics::ALL));
}

/// Tells the emulator that the lanes of a warp execute the iterations of a loop together.
///
/// A lane may skip a load of one iteration that other lanes make. Hardware reconverges the lanes at the end of the
/// iteration. The emulator runs one lane after the other and sees the end of an iteration only in a loop that is marked
/// with this function. On a device this is the iterator itself.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// The sum of each element and its neighbours inside the array.
/// ///
/// /// # Safety
/// /// - Both arrays hold one element for each thread of the block.
/// /// - The grid is one block.
/// #[kernel]
/// pub unsafe fn with_neighbours(from: Global<f32>, to: GlobalMut<f32>) {
///     let x = thread::thread_idx_x() as i32;
///     let mut sum = 0.0;
///     for l in warp::lockstep(-1..2) {
///         if x + l >= 0 && x + l < thread::block_dim_x() as i32 {
///             // SAFETY: 0 <= x + l < length, checked above.
///             sum += unsafe { from.load((x + l) as isize) };
///         }
///     }
///     // SAFETY: x is below the length, and no other thread has this x.
///     unsafe { to.store(x as isize, sum) };
/// }
/// ```
#[inline(always)]
#[track_caller]
pub fn lockstep<I: IntoIterator>(iterations: I) -> impl Iterator<Item = I::Item> {
    #[cfg(target_arch = "nvptx64")]
    {
        iterations.into_iter()
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let (mut iterations, mut steps) = (iterations.into_iter(), Steps::begin());
        std::iter::from_fn(move || {
            let item = iterations.next();
            if item.is_some() {
                steps.next();
            }
            item
        })
    }
}

/// [`lockstep`] for a `while` loop.
///
/// Call [`begin`](Self::begin) before the loop and [`next`](Self::next) at the start of its body. The loop ends where
/// this value is dropped.
#[derive(Debug)]
pub struct Steps {
    #[cfg(not(target_arch = "nvptx64"))]
    location: &'static Location<'static>,
}

impl Steps {
    /// Marks the start of a loop.
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn begin() -> Self {
        #[cfg(target_arch = "nvptx64")]
        {
            Self {}
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            let location = Location::caller();
            executor::lockstep(Lockstep::Begin, location);
            Self { location }
        }
    }

    /// Marks the start of an iteration.
    #[inline(always)]
    pub fn next(&mut self) {
        #[cfg(not(target_arch = "nvptx64"))]
        executor::lockstep(Lockstep::Next, self.location);
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl Drop for Steps {
    fn drop(&mut self) {
        executor::lockstep(Lockstep::End, self.location);
    }
}
