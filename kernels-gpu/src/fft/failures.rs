//! The results of a block that the transforms do not prove, if they are few: a list of them, which all warps share.
//!
//! Failures lie close together, for example along an edge with a border of zeros. Without the list, one warp would have
//! them all.

use cuda_std::prelude::*;

use super::warp_sum;
use super::window::{WINDOW_SUM, window_sum};
use crate::abi::kernel::Convergent;
use crate::abi::params::Params;

/// The convergent instructions of [`count`], [`Failures::add`] and [`Failures::compute`], each called at one place.
pub(super) const CONVERGENT: Convergent =
    Convergent { barriers: 2, shuffles: 5 + WINDOW_SUM.shuffles, votes: 1, ..Convergent::NONE };

/// The failures of the block, and those of the warps before the calling one. `of_thread` are those of the calling
/// thread, and `counts` has a place for each of `WARPS` warps.
///
/// # Safety
/// - All threads of the block call this. No thread uses the counts before or after it without a barrier between.
#[inline(always)]
pub(super) unsafe fn count<const WARPS: u32>(counts: Shared<F32x2>, of_thread: u32) -> (u32, u32) {
    let (warp, lane) = (thread::thread_idx_x() / 32, thread::thread_idx_x() % 32);
    let (mut all, mut before) = (0.0, 0.0);
    // SAFETY: each warp has a place of its own. The others read it after the barrier.
    unsafe {
        let of_warp = warp_sum(of_thread as f32);
        if lane == 0 {
            counts.store(warp, F32x2([of_warp, 0.0]));
        }
        thread::sync_threads();
        for other in 0..WARPS {
            let F32x2([of_warp, _]) = counts.load(other);
            all += of_warp;
            before += if other < warp { of_warp } else { 0.0 };
        }
    }
    (all as u32, before as u32)
}

/// The list of a block's failures, for a block of `WARPS` warps.
pub(super) struct Failures<const WARPS: u32> {
    /// In shared memory.
    list: Shared<u32>,
    /// The place of the warp's next failure in the list.
    next: u32,
}

impl<const WARPS: u32> Failures<WARPS> {
    /// A list in this place of shared memory. `before` are the failures of the warps before the calling one.
    #[inline(always)]
    pub(super) fn new(list: Shared<u32>, before: u32) -> Self {
        Self { list, next: before }
    }

    /// Adds the results of a warp's lanes that fail. Each lane has one result of each of so many `groups`: `result`
    /// says whether it fails, and its number.
    ///
    /// # Safety
    /// - All lanes of the warp call this together. The warps add as many failures as [`count`] said.
    /// - The list has room for them, and nobody uses its place for something else.
    #[inline(always)]
    pub(super) unsafe fn add(&mut self, groups: u32, result: impl Fn(u32) -> (bool, u32)) {
        let mut group = 0;
        // The compiler does not know the bound, so the loop stays rolled.
        while group < thread::black_box(groups) {
            thread::no_unroll();
            let (fails, failure) = result(group);
            // SAFETY: as this function requires. Each failure has a place of its own.
            unsafe {
                let of_warp = warp::ballot(fails);
                if fails {
                    let earlier = of_warp & ((1 << (thread::thread_idx_x() % 32)) - 1);
                    self.list.store(self.next + earlier.count_ones(), failure);
                }
                self.next += of_warp.count_ones();
            }
            group += 1;
        }
    }

    /// Computes the results of the list, whose length is `number`, each by all lanes of a warp. `position` gives
    /// column, row and channel of a failure in the image.
    ///
    /// # Safety
    /// - All threads of the block call this, after all calls of [`add`](Self::add).
    /// - `image`, `result` and `coefficients` are as [`window_sum`] and `params` say. `image` is that of channel 0.
    /// - The failures lie in the result, and no other block stores there.
    #[inline(always)]
    pub(super) unsafe fn compute<const C: u32>(
        &self,
        number: u32,
        (image, result, coefficients): (Global<f32>, GlobalMut<f32>, Global<f32>),
        params: &Params,
        position: impl Fn(u32) -> (i32, i32, u32),
    ) {
        // SAFETY: all threads of the block are here.
        unsafe { thread::sync_threads() };
        let (warp, lane) = (thread::thread_idx_x() / 32, thread::thread_idx_x() % 32);
        let mut index = warp;
        while index < number {
            thread::no_unroll();
            // SAFETY: the list has `number` failures, and the barrier has passed. All lanes of the warp have the same
            // one, and no other warp has it.
            unsafe {
                let (x, y, channel) = position(self.list.load(index));
                let sum = window_sum::<C>(image.offset(channel as isize), coefficients, params, (x, y), lane);
                if lane == 0 {
                    result.store(params.dst_index(x * C as i32 + channel as i32, y), params.finish(sum));
                }
            }
            index += WARPS;
        }
    }
}
