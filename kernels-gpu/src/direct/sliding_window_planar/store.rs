//! Results of a warp, stored as whole lines.
//!
//! A thread has pixels of one channel. With several channels, its own values lie between those of other threads. So the
//! warp exchanges its results through shared memory: lane `i` stores values `i`, `i + 32`, `i + 64`, … of the warp's
//! part of a row.
//! ```text
//!   first group            second group                        results of a row, three channels; a group has C pixels
//!   r g b r g b … r g b    r g b r g b … r g b    r g
//!   ├────── values 0 to 31, one for each lane ──────┤
//! ```
//! The first and the last group may belong to two warps. Each stores its own channels of it.

use cuda_std::prelude::*;

use crate::abi::kernel::Convergent;
use crate::abi::params::{OutputPtr, Params};
use crate::abi::pixel::PixelType;
use crate::common::vector::StoreVector;
use crate::direct::sliding_window_planar::rows::{C, WARP, groups};

/// The most values of a row that a thread stores.
const MAX_STORES: usize = 9;

/// Values of a group of pixels.
const fn group_values(channels: u32) -> u32 {
    C as u32 * channels
}

/// Values between two groups in shared memory, which spread the groups over the banks. With three channels, 32 values
/// are no whole groups, so a gap would cost each lane several addresses. Without one, three lanes share a bank.
const fn gap(channels: u32) -> u32 {
    if channels == 3 { 0 } else { channels }
}

/// The values of shared memory through which a warp exchanges results of `channels` channels.
pub(super) const fn exchange_values(channels: u32) -> u32 {
    if channels == 1 { 0 } else { groups(channels) * (group_values(channels) + gap(channels)) }
}

/// The convergent instructions of [`ResultWriter::store`].
pub(super) const fn convergent(channels: u32) -> Convergent {
    Convergent { warp_barriers: (channels > 1) as u32, ..Convergent::NONE }
}

/// Writes the rows of a thread, in the type that the parameters name.
pub(super) struct ResultWriter<const CHANNELS: u32> {
    /// The first value that the thread stores in the next row.
    row: OutputPtr,
    /// Bytes from one row to the next.
    pitch: isize,
    /// The result is `scale * sum + offset`.
    finish: (f32, f32),
    /// A bit for each of the thread's values in a row, set if it is stored.
    stored: u32,
    /// Whether the thread stores vectors: one channel, all `C` pixels in the row, rows that begin at whole vectors.
    vectorized: bool,
    kind: u32,
    /// The place of the thread's first result in the exchange.
    from: Shared<f32>,
    /// The place of the first value that the thread stores.
    to: Shared<f32>,
}

impl<const CHANNELS: u32> ResultWriter<CHANNELS> {
    /// Values of a row that the thread stores.
    const STORES: usize = if CHANNELS == 1 { C } else { (groups(CHANNELS) * group_values(CHANNELS) / WARP) as usize };
    /// From one of the thread's values to the next.
    const STEP: usize = if CHANNELS == 1 { 1 } else { WARP as usize };
    /// The same in the exchange.
    const PLACES: u32 = WARP + WARP / group_values(CHANNELS) * gap(CHANNELS);

    /// For lane `lane` of the warp whose first lane is number `first_lane` of the grid. Its first row is `first`.
    /// `exchange` has [`exchange_values`] values.
    #[inline(always)]
    pub(super) fn new(
        result: OutputPtr,
        params: &Params,
        (lane, first_lane): (u32, u32),
        first: i32,
        exchange: Shared<f32>,
    ) -> Self {
        const { assert!(Self::STORES <= MAX_STORES && C == 8) };
        let bytes: isize = match params.result_kind {
            U8 => 1,
            U16 => 2,
            _ => 4,
        };
        let first_group = first_lane / CHANNELS;
        let start = first_group as i32 * C as i32;
        let mut stored = 0;
        let value = if CHANNELS == 1 { start + lane as i32 * C as i32 } else { start * CHANNELS as i32 + lane as i32 };
        for i in 0..Self::STORES {
            let is_stored = if CHANNELS == 1 {
                value + (i as i32) < params.width
            } else {
                let value = lane + i as u32 * WARP;
                // The lane that has the result. It may be one of another warp.
                let owner = (first_group + value / group_values(CHANNELS)) * CHANNELS + value % CHANNELS;
                owner.wrapping_sub(first_lane) < WARP && start + ((value / CHANNELS) as i32) < params.width
            };
            stored |= u32::from(is_stored) << i;
        }
        let (group, channel) = ((first_lane + lane) / CHANNELS - first_group, (first_lane + lane) % CHANNELS);
        Self {
            row: result.offset(params.dst_index(value, first) * bytes),
            pitch: params.dst_pitch as isize * bytes,
            finish: params.exact_finish(),
            stored,
            vectorized: CHANNELS == 1 && value + C as i32 <= params.width && params.dst_pitch & 7 == 0,
            kind: params.result_kind,
            from: exchange.offset(group * (group_values(CHANNELS) + gap(CHANNELS)) + channel),
            to: exchange.offset(lane + lane / group_values(CHANNELS) * gap(CHANNELS)),
        }
    }

    /// Stores the next row, together with the other lanes of the warp.
    ///
    /// # Safety
    /// - The row lies in the result, and no other warp accesses the warp's values of it.
    /// - All lanes of the warp are here. A barrier was passed since the last call.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(super) unsafe fn store(&mut self, sums: &[f32; C]) {
        let mut values = [0.0; MAX_STORES];
        for c in 0..C {
            values[c] = fma(sums[c], self.finish.0, self.finish.1);
        }
        if CHANNELS > 1 {
            // SAFETY: as this function requires.
            values = unsafe { self.exchange(&values) };
        }
        // The branch is uniform.
        // SAFETY: as this function requires; `result_kind` names the type of the result's values.
        unsafe {
            match self.kind {
                U8 => self.store_as::<u8>(&values),
                U16 => self.store_as::<u16>(&values),
                _ => self.store_as::<f32>(&values),
            }
        }
        self.row = self.row.offset(self.pitch);
    }

    /// Gives the values that the thread stores for those that it has.
    ///
    /// # Safety
    /// As for [`store`](Self::store).
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn exchange(&self, values: &[f32; MAX_STORES]) -> [f32; MAX_STORES] {
        for c in 0..C {
            // SAFETY: the place is that of the thread's result. All lanes have read the last row's before the barrier.
            unsafe { self.from.store(c as u32 * CHANNELS, values[c]) };
        }
        // SAFETY: all lanes are here.
        unsafe { warp::sync_warp() };
        let mut exchanged = [0.0; MAX_STORES];
        for i in 0..Self::STORES {
            if self.stored >> i & 1 != 0 {
                // SAFETY: a lane of this warp has stored to the place.
                exchanged[i] = unsafe { self.to.load(i as u32 * Self::PLACES) };
            }
        }
        exchanged
    }

    /// # Safety
    /// As for [`store`](Self::store), and the result is of type `R`.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn store_as<R: StoreVector>(&self, values: &[f32; MAX_STORES]) {
        let row = self.row.cast::<R>();
        if self.vectorized {
            let count = R::VECTOR_VALUES;
            for i in 0..C / count {
                let vector = core::array::from_fn(|j| if j < count { values[i * count + j] } else { 0.0 });
                // SAFETY: `vectorized` says that the vector lies in the row and is aligned.
                unsafe { R::store_vector(row, (i * count) as isize, vector, count) };
            }
            return;
        }
        for i in 0..Self::STORES {
            if self.stored >> i & 1 != 0 {
                // SAFETY: the value lies in the row.
                unsafe { row.store((i * Self::STEP) as isize, R::from_f32(values[i])) };
            }
        }
    }
}

const U8: u32 = PixelType::U8.code();
const U16: u32 = PixelType::U16.code();
