//! What the 32 threads of a warp do together, without shared memory and without a barrier of the block.
//!
//! All functions are for whole warps: every thread of the warp must call them together, and the block's number of threads must
//! be a multiple of 32. A call that only some threads reach hangs the device, as with
//! [`sync_threads`](crate::thread::sync_threads); the emulator reports it.
//!
//! | here | CUDA C++ |
//! | --- | --- |
//! | [`lane_id`] | `threadIdx.x % warpSize` in one dimension |
//! | [`sync_warp`] | `__syncwarp()` |
//! | [`shuffle`], [`shuffle_down`], [`shuffle_xor`] | `__shfl_sync`, `__shfl_down_sync`, `__shfl_xor_sync` with all lanes |
//! | [`ballot`] | `__ballot_sync` with all lanes |
//!
//! [`lockstep`] and [`Steps`] are for the emulator's counts, and nothing on a device.

#[cfg(not(target_arch = "nvptx64"))]
use std::panic::Location;

#[cfg(not(target_arch = "nvptx64"))]
use crate::executor::{self, Collective, Lockstep};

/// Threads of a warp.
pub const WARP_SIZE: u32 = 32;

#[cfg(target_arch = "nvptx64")]
mod intrinsics {
    // Intrinsics and not inline assembly: LLVM knows that these must not be moved into or out of a branch.
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
    /// The highest lane, as `shfl` wants it for segments of a whole warp.
    pub(super) const CLAMP: u32 = 31;
}

/// A 32-bit value that lanes can exchange: `u32`, `i32`, `f32`.
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

/// This thread's number in its warp, 0 to 31.
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
            // SAFETY: the intrinsic touches no memory of this thread; that all lanes take part is the caller's
            // side, as documented at the top.
            unsafe { intrinsics::$intrinsic($($argument),*) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            executor::current().collective($operation, $value, core::panic::Location::caller())
        }
    }};
}

/// The value of lane `lane` (modulo 32).
#[inline(always)]
#[track_caller]
#[must_use]
pub fn shuffle<T: ShuffleValue>(value: T, lane: u32) -> T {
    T::of_bits(exchange!(
        Collective::Shuffle(lane),
        value.bits(),
        shuffle(intrinsics::ALL, value.bits(), lane, intrinsics::CLAMP)
    ))
}

/// The value of the lane that is `delta` higher; the own value where there is none.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn shuffle_down<T: ShuffleValue>(value: T, delta: u32) -> T {
    T::of_bits(exchange!(
        Collective::ShuffleDown(delta),
        value.bits(),
        shuffle_down(intrinsics::ALL, value.bits(), delta, intrinsics::CLAMP)
    ))
}

/// The value of the lane whose number differs from this one's in the bits of `bits` (0 to 31).
#[inline(always)]
#[track_caller]
#[must_use]
pub fn shuffle_xor<T: ShuffleValue>(value: T, bits: u32) -> T {
    T::of_bits(exchange!(
        Collective::ShuffleXor(bits),
        value.bits(),
        shuffle_xor(intrinsics::ALL, value.bits(), bits, intrinsics::CLAMP)
    ))
}

/// One bit per lane, set where `predicate` holds.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn ballot(predicate: bool) -> u32 {
    exchange!(Collective::Ballot, u32::from(predicate), ballot(intrinsics::ALL, predicate))
}

/// Waits for the threads of the warp; what they wrote to memory before, this thread sees after.
#[inline(always)]
#[track_caller]
pub fn sync_warp() {
    exchange!(Collective::Sync, 0, sync_warp(intrinsics::ALL));
}

/// Tells the emulator that a warp makes the iterations of a loop together.
///
/// Where a loop's body loads under a condition, a lane may skip an iteration that others make; hardware brings the lanes together
/// again at the iteration's end. The emulator runs one lane after the other and can't see where an iteration ends, unless the loop
/// says so. On a device this is the iterator itself.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// The sum of each element and its neighbours; those outside are left out.
/// ///
/// /// # Safety
/// /// Both hold an element for each thread of a block.
/// #[kernel]
/// pub unsafe fn with_neighbours(from: Global<f32>, to: GlobalMut<f32>) {
///     let x = thread::thread_idx_x() as i32;
///     let mut sum = 0.0;
///     for l in warp::lockstep(-1..2) {
///         if x + l >= 0 && x + l < thread::block_dim_x() as i32 {
///             // Counted with the loads of the other lanes for this l. SAFETY: as was just asked.
///             sum += unsafe { from.load((x + l) as isize) };
///         }
///     }
///     // SAFETY: the thread's own.
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

/// [`lockstep`] for a `while`: [`begin`](Self::begin) before the loop, [`next`](Self::next) where its body begins. The loop ends where
/// this is dropped.
#[derive(Debug)]
pub struct Steps {
    #[cfg(not(target_arch = "nvptx64"))]
    location: &'static Location<'static>,
}

impl Steps {
    /// A loop begins.
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

    /// An iteration begins.
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
