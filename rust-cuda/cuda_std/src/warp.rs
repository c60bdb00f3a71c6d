//! Operations of the 32 lanes of a warp, without shared memory and without a barrier of the block.
//!
//! | here | CUDA C++ | lanes that are not there |
//! | --- | --- | --- |
//! | [`lane_id`] | `threadIdx.x % warpSize` in a one-dimensional block | |
//! | [`sync_warp`] | `__syncwarp()` | |
//! | [`shuffle`] | `__shfl_sync` | the lane's number is taken modulo 32 |
//! | [`shuffle_up`], [`shuffle_down`] | `__shfl_up_sync`, `__shfl_down_sync` | the lane gets its own value |
//! | [`shuffle_xor`] | `__shfl_xor_sync` | |
//! | [`ballot`], [`all`], [`any`] | `__ballot_sync`, `__all_sync`, `__any_sync` | |
//! | [`match_any`], [`match_all`] | `__match_any_sync`, `__match_all_sync` | |
//! | [`reduce_add`], [`reduce_min`] … | `__reduce_add_sync`, `__reduce_min_sync` …, from sm_80 on | |
//! | [`active_mask`] | `__activemask()` | |
//! | [`lanes_lt`], [`lanes_le`] … | `%lanemask_lt`, `%lanemask_le` … in PTX | |
//! | [`masked`] | the same with a mask of lanes | |
//!
//! # Convergence
//! These operations name all 32 lanes; those of [`masked`] name the lanes of a mask. PTX leaves the result undefined if
//! a lane is missing, and the device may hang. Therefore the functions are unsafe. The emulator reports a missing lane.
//!
//! [`lockstep`] and [`Steps`] serve the emulator's counts. On a device they do nothing.

#[cfg(not(target_arch = "nvptx64"))]
use std::panic::Location;

#[cfg(not(target_arch = "nvptx64"))]
use crate::executor::{self, Lockstep};

pub mod masked;

pub use masked::{ReduceInteger, ShuffleValue};

/// Threads of a warp.
pub const WARP_SIZE: u32 = 32;

/// All lanes.
pub const ALL_LANES: u32 = u32::MAX;

/// This thread's lane in its warp, 0 to 31.
#[inline(always)]
#[must_use]
pub fn lane_id() -> u32 {
    crate::thread::thread_rank() % WARP_SIZE
}

/// One bit for each lower lane.
#[inline(always)]
#[must_use]
pub fn lanes_lt() -> u32 {
    (1 << lane_id()) - 1
}

/// One bit for this lane and each lower one.
#[inline(always)]
#[must_use]
pub fn lanes_le() -> u32 {
    lanes_lt() | lanes_eq()
}

/// The bit of this lane.
#[inline(always)]
#[must_use]
pub fn lanes_eq() -> u32 {
    1 << lane_id()
}

/// One bit for this lane and each higher one.
#[inline(always)]
#[must_use]
pub fn lanes_ge() -> u32 {
    !lanes_lt()
}

/// One bit for each higher lane.
#[inline(always)]
#[must_use]
pub fn lanes_gt() -> u32 {
    !lanes_le()
}

/// One bit for each lane that executes this call together with this one: `__activemask()`.
///
/// A device decides which lanes are together, so the result may change from run to run. In the emulator each lane runs
/// alone: the result is its own bit.
///
/// It needs a build for `sm_75` or newer: for `sm_70` LLVM writes PTX 6.0, which lacks the instruction.
#[inline(always)]
#[must_use]
pub fn active_mask() -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        require_arch!("warp::active_mask", "sm_75", "Sm75");
        // SAFETY: the read has no precondition.
        unsafe { masked::intrinsics::active_mask() }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        lanes_eq()
    }
}

/// The functions of [`masked`] for all lanes.
macro_rules! whole_warp {
    ($(
        $(#[$doc:meta])*
        $name:ident $(<$type:ident: $bound:ident>)? ($($argument:ident: $of:ty),*) $(-> $result:ty)?;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// - All 32 lanes of the warp execute this call together. No lane has returned.
        /// - Every branch around the call depends on values that are equal in all lanes.
        /// - The number of threads of the block is a multiple of 32.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name $(<$type: $bound>)? ($($argument: $of),*) $(-> $result)? {
            // SAFETY: all 32 lanes are here, as the function requires.
            unsafe { masked::$name(ALL_LANES $(, $argument)*) }
        }
    )*};
}

whole_warp! {
    /// The `value` of lane `lane` modulo 32.
    #[must_use]
    shuffle<T: ShuffleValue>(value: T, lane: u32) -> T;
    /// The `value` of the lane that is `delta` lower, or this lane's own where there is none.
    #[must_use]
    shuffle_up<T: ShuffleValue>(value: T, delta: u32) -> T;
    /// The `value` of the lane that is `delta` higher, or this lane's own where there is none.
    #[must_use]
    shuffle_down<T: ShuffleValue>(value: T, delta: u32) -> T;
    /// The `value` of the lane whose number is this lane's XOR `bits`, which is 0 to 31.
    #[must_use]
    shuffle_xor<T: ShuffleValue>(value: T, bits: u32) -> T;
    /// One bit per lane, set where `predicate` holds.
    #[must_use]
    ballot(predicate: bool) -> u32;
    /// Whether `predicate` holds in all lanes.
    #[must_use]
    all(predicate: bool) -> bool;
    /// Whether `predicate` holds in a lane.
    #[must_use]
    any(predicate: bool) -> bool;
    /// One bit per lane, set where `value` has the same bits as in this lane.
    #[must_use]
    match_any<T: ShuffleValue>(value: T) -> u32;
    /// All lanes if `value` has the same bits in each of them, otherwise 0.
    #[must_use]
    match_all<T: ShuffleValue>(value: T) -> u32;
    /// The sum of the values of all lanes; it wraps. PTX `redux.sync.add`, from compute capability 8.0 on.
    #[must_use]
    reduce_add<T: ReduceInteger>(value: T) -> T;
    /// The least value of all lanes: `redux.sync.min`, from compute capability 8.0 on.
    #[must_use]
    reduce_min<T: ReduceInteger>(value: T) -> T;
    /// The greatest value of all lanes: `redux.sync.max`, from compute capability 8.0 on.
    #[must_use]
    reduce_max<T: ReduceInteger>(value: T) -> T;
    /// The bits that are set in all lanes: `redux.sync.and`, from compute capability 8.0 on.
    #[must_use]
    reduce_and(value: u32) -> u32;
    /// The bits that are set in a lane: `redux.sync.or`, from compute capability 8.0 on.
    #[must_use]
    reduce_or(value: u32) -> u32;
    /// The bits that are set in an odd number of lanes: `redux.sync.xor`, from compute capability 8.0 on.
    #[must_use]
    reduce_xor(value: u32) -> u32;
    /// Waits for all lanes of the warp. A lane sees what the others wrote to memory before.
    sync_warp();
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
