//! Stores the results of a warp to consecutive addresses.
//!
//! A thread has pixels of one channel. With several channels, its own values lie between those of other threads. So the
//! lanes exchange their results through shared memory. Then lane `i` stores values `i`, `i + 32`, `i + 64`, … of the
//! warp's part of a row.
//! ```text
//!   first group            second group               results of a row, three channels; a group has 24 values
//!   r g b r g b … r g b    r g b r g b r g b … r g b
//!   ├─── values 0 to 31, one per lane ───┤
//! ```
//! With three channels, neighbouring blocks may share a group. Each stores its own channels of it.

use cuda_std::prelude::*;

use crate::abi::kernel::Convergent;
use crate::abi::params::{OutputPtr, Params};
use crate::abi::pixel::PixelType;
use crate::common::vector::StoreVector;
use crate::direct::sliding_window_planar::rows::{PIXELS, WARP, group_and_channel, groups};

/// The most values of a row that a thread stores.
const MAX_STORES: usize = 9;

/// Values of a group of pixels.
const fn group_values(channels: u32) -> u32 {
    PIXELS as u32 * channels
}

/// The padding between two groups in shared memory, in values. It avoids bank conflicts.
///
/// Three channels have none, and three lanes share a bank. There 32 values are not whole groups, so with padding a lane
/// would need several addresses.
const fn padding(channels: u32) -> u32 {
    if channels == 3 { 0 } else { channels }
}

/// The values of shared memory through which a warp exchanges results of `channels` channels.
pub(super) const fn exchange_values(channels: u32) -> u32 {
    if channels == 1 { 0 } else { groups(channels) * (group_values(channels) + padding(channels)) }
}

/// The convergent instructions of [`ResultWriter::store`].
pub(super) const fn convergent(channels: u32) -> Convergent {
    Convergent { warp_barriers: (channels > 1) as u32, ..Convergent::NONE }
}

/// Writes the results of a thread, row by row, in the type that `result_kind` names.
pub(super) struct ResultWriter<const CHANNELS: u32> {
    /// The address of the first value that the thread stores in the next row.
    row: OutputPtr,
    /// Bytes from one row to the next.
    pitch: isize,
    /// The result is `scale * sum + offset`.
    finish: (f32, f32),
    /// A bit for each of the thread's values in a row, set if it is stored.
    stored: u32,
    /// Whether the thread stores vectors: one channel, all its pixels in the row, rows that begin at whole vectors.
    vectorized: bool,
    /// The code of the result's type.
    kind: u32,
    /// The slot of the exchange to which the thread writes its own first result.
    write_slot: Shared<f32>,
    /// The slot of the exchange from which it reads the first value that it stores to global memory.
    read_slot: Shared<f32>,
}

impl<const CHANNELS: u32> ResultWriter<CHANNELS> {
    /// Values of a row that the thread stores.
    const STORES: usize =
        if CHANNELS == 1 { PIXELS } else { (groups(CHANNELS) * group_values(CHANNELS) / WARP) as usize };
    /// Values of the result from one that the thread stores to the next one.
    const GLOBAL_STRIDE: usize = if CHANNELS == 1 { 1 } else { WARP as usize };
    /// Slots of the exchange from one value that the thread reads to the next one, padding included.
    const EXCHANGE_STRIDE: u32 = WARP + WARP / group_values(CHANNELS) * padding(CHANNELS);

    /// The writer of lane `lane` of a warp, from row `first` on.
    ///
    /// The warp's first lane is lane `first_lane` of the grid.
    /// `exchange` has [`exchange_values`] values.
    #[inline(always)]
    pub(super) fn new(
        result: OutputPtr,
        params: &Params,
        lane: u32,
        first_lane: u32,
        first: i32,
        exchange: Shared<f32>,
    ) -> Self {
        const { assert!(Self::STORES <= MAX_STORES && PIXELS == 8) };
        let bytes: isize = match params.result_kind {
            U8 => 1,
            U16 => 2,
            _ => 4,
        };
        let first_group = first_lane / CHANNELS;
        let first_x = first_group as i32 * PIXELS as i32;
        let mut stored = 0;
        let first_value =
            if CHANNELS == 1 { first_x + lane as i32 * PIXELS as i32 } else { first_x * CHANNELS as i32 + lane as i32 };
        for i in 0..Self::STORES {
            let is_stored = if CHANNELS == 1 {
                first_value + (i as i32) < params.width
            } else {
                let slot = lane + i as u32 * WARP;
                // The lane that has the result. It may belong to another block.
                let owner = (first_group + slot / group_values(CHANNELS)) * CHANNELS + slot % CHANNELS;
                owner.wrapping_sub(first_lane) < WARP && first_x + ((slot / CHANNELS) as i32) < params.width
            };
            stored |= u32::from(is_stored) << i;
        }
        let (group, channel) = group_and_channel::<CHANNELS>(first_lane + lane);
        let group = group - first_group;
        Self {
            row: result.offset(params.dst_index(first_value, first) * bytes),
            pitch: params.dst_pitch as isize * bytes,
            finish: params.exact_finish(),
            stored,
            vectorized: CHANNELS == 1 && first_value + PIXELS as i32 <= params.width && params.dst_pitch & 7 == 0,
            kind: params.result_kind,
            write_slot: exchange.offset(group * (group_values(CHANNELS) + padding(CHANNELS)) + channel),
            read_slot: exchange.offset(lane + lane / group_values(CHANNELS) * padding(CHANNELS)),
        }
    }

    /// Stores the next row, together with the other lanes of the warp.
    ///
    /// # Safety
    /// - The row lies in the result.
    /// - No other warp accesses the warp's values of it.
    /// - All 32 lanes call this together.
    /// - A block barrier lies between two calls.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(super) unsafe fn store(&mut self, sums: &[f32; PIXELS]) {
        let mut values = [0.0; MAX_STORES];
        for i in 0..PIXELS {
            values[i] = fma(sums[i], self.finish.0, self.finish.1);
        }
        if CHANNELS > 1 {
            // SAFETY: `CHANNELS` is a constant, so all 32 lanes call it, once for each call of this function.
            values = unsafe { self.exchange(&values) };
        }
        // The branch is uniform.
        // SAFETY: `kind` is the result's type. `stored` and `vectorized` admit only the warp's values of the row.
        unsafe {
            match self.kind {
                U8 => self.store_as::<u8>(&values),
                U16 => self.store_as::<u16>(&values),
                _ => self.store_as::<f32>(&values),
            }
        }
        self.row = self.row.offset(self.pitch);
    }

    /// Redistributes the warp's results: takes those of the thread's pixels, returns those that it stores.
    ///
    /// # Safety
    /// - All 32 lanes call this together.
    /// - A block barrier lies between two calls.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn exchange(&self, values: &[f32; MAX_STORES]) -> [f32; MAX_STORES] {
        for i in 0..PIXELS {
            // SAFETY: no other lane writes the slot. All lanes have read the last row before the block barrier.
            unsafe { self.write_slot.store(i as u32 * CHANNELS, values[i]) };
        }
        // SAFETY: all 32 lanes call this function together.
        unsafe { warp::sync_warp() };
        let mut exchanged = [0.0; MAX_STORES];
        for i in 0..Self::STORES {
            if self.stored >> i & 1 != 0 {
                // SAFETY: `stored` says that a lane of this warp has written the slot.
                exchanged[i] = unsafe { self.read_slot.load(i as u32 * Self::EXCHANGE_STRIDE) };
            }
        }
        exchanged
    }

    /// Stores the thread's values of the next row in type `R`.
    ///
    /// # Safety
    /// - The result has type `R`.
    /// - The row lies in the result.
    /// - No other warp accesses the warp's values of it.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn store_as<R: StoreVector>(&self, values: &[f32; MAX_STORES]) {
        let row = self.row.cast::<R>();
        if self.vectorized {
            let count = R::VECTOR_VALUES;
            for i in 0..PIXELS / count {
                let vector = core::array::from_fn(|j| if j < count { values[i * count + j] } else { 0.0 });
                // SAFETY: `vectorized` says that the vector lies in the row and is aligned.
                unsafe { R::store_vector(row, (i * count) as isize, vector, count) };
            }
            return;
        }
        for i in 0..Self::STORES {
            if self.stored >> i & 1 != 0 {
                // SAFETY: `stored` says that the value lies in the row and is the warp's.
                unsafe { row.store((i * Self::GLOBAL_STRIDE) as isize, R::from_f32(values[i])) };
            }
        }
    }
}

const U8: u32 = PixelType::U8.code();
const U16: u32 = PixelType::U16.code();
