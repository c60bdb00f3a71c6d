//! Interleaved channels become planar in shared memory.

use cuda_std::bytes::{deinterleave_3, deinterleave_4};
use cuda_std::prelude::*;

use super::{GRANULE, Layout, ROWS, SLABS, this_thread};
use crate::common::partition::{LanePart, partition_lanes};

/// The words of a granule.
type Granule = [[u32; 2]; 4];

/// Granules that a lane holds at a time. For masks of known side they lie in several rows, otherwise in one row.
///
/// If 64 rows fit in 227 KiB of shared memory, a lane has at most 3 granules of a row.
const BATCH: usize = 7;

/// The `sync_warp`s of [`Deinterleaver::run`]: one before the loop over batches, and one in each of its iterations.
///
/// The loop is unrolled for masks of known side.
pub(super) const fn warp_barriers(layout: &Layout, side: u32) -> u32 {
    if side == 0 {
        return 2;
    }
    let granules = if layout.run > GRANULE { layout.run / GRANULE } else { 1 };
    let passes = (ROWS + layout.rows(side) - 1).div_ceil(SLABS * partition_lanes(granules, 0).rows);
    1 + passes.div_ceil(BATCH as u32)
}

/// Deinterleaves the rows that a warp has copied, in place.
pub(super) struct Deinterleaver<const CHANNELS: u32, const SIDE: u32> {
    pub(super) layout: Layout,
    /// Rows of a stage.
    pub(super) rows: u32,
    /// Bytes of a slab.
    pub(super) slab: u32,
}

impl<const CHANNELS: u32, const SIDE: u32> Deinterleaver<CHANNELS, SIDE> {
    /// Deinterleaves the rows of `stage`.
    ///
    /// # Safety
    /// - All threads of the block call it.
    /// - Each warp has copied the rows of its slab, and has waited for the copies.
    /// - No other warp reads or writes the slab until a barrier has passed.
    #[inline(always)]
    pub(super) unsafe fn run(&self, stage: Shared<u8>) {
        let (warp, lane) = (this_thread() / 32, this_thread() % 32);
        let granules = (self.layout.run / GRANULE).max(1);
        let LanePart { rows: rows_at_once, row: slot, unit: granule } = partition_lanes(granules, lane);
        // With 10 granules of three channels, the 16 lanes that read at a time access different banks.
        let granule = (granule + 4 * slot) % granules;
        let mut to = stage.offset(warp * self.slab + slot * self.layout.pitch + granule * GRANULE);
        let mut row = warp + SLABS * slot;
        // Makes the copies of each lane visible to all lanes of the warp.
        // SAFETY: all threads of the block call this function.
        unsafe { warp::sync_warp() };
        let passes = self.rows.div_ceil(SLABS * rows_at_once);
        let (batch, across) = if SIDE > 0 { (passes.min(BATCH as u32), 1) } else { (1, granules.div_ceil(32)) };
        let mut pass = 0;
        while pass < passes {
            let mut loaded = [Granule::default(); BATCH];
            // The place of granule `i` of the batch: the bytes down and to the right, and whether it exists.
            let place = |i: u32| {
                let (down, right) = (if batch > 1 { i } else { 0 }, if batch > 1 { 0 } else { 32 * i });
                let is_full = batch > 1 && SLABS * rows_at_once * (pass + down + 1) <= self.rows;
                let exists = i < batch.max(across)
                    && slot < rows_at_once
                    && (is_full || row + SLABS * rows_at_once * down < self.rows)
                    && granule + right < granules;
                (down * rows_at_once * self.layout.pitch, right, exists)
            };
            for (i, loaded) in loaded.iter_mut().enumerate() {
                let (down, right, exists) = place(i as u32);
                if exists {
                    let channels = CHANNELS * GRANULE * right + (CHANNELS - 1) * GRANULE * granule;
                    // SAFETY: this warp copied the granule, and the copy is visible since `sync_warp`.
                    *loaded = unsafe { Self::load(to.offset(self.layout.lead + down + channels)) };
                }
            }
            // SAFETY: all lanes are here: `pass` and `passes` are equal in all threads.
            unsafe { warp::sync_warp() };
            for (i, &loaded) in loaded.iter().enumerate() {
                let (down, right, exists) = place(i as u32);
                if exists {
                    // SAFETY: the row lies in the warp's slab, and all lanes have read it before `sync_warp`.
                    unsafe { self.store(to.offset(down + right * GRANULE), loaded) };
                }
            }
            to = to.offset(batch * rows_at_once * self.layout.pitch);
            row += batch * SLABS * rows_at_once;
            pass += batch;
        }
    }

    /// Loads a granule of interleaved pixels.
    ///
    /// # Safety
    /// - The granule is initialized.
    /// - `from` is aligned to 8 bytes, with four channels to 16.
    #[inline(always)]
    unsafe fn load(from: Shared<u8>) -> Granule {
        if CHANNELS == 3 {
            // SAFETY: the granule has 24 bytes.
            let [a, b, c] = [0, 1, 2].map(|i| unsafe { from.cast::<F32x2>().load(i) }.0.map(f32::to_bits));
            return [a, b, c, [0; 2]];
        }
        // SAFETY: the granule has 32 bytes.
        let [[a, b, c, d], [e, f, g, h]] = [0, 1].map(|i| unsafe { from.cast::<F32x4>().load(i) }.0.map(f32::to_bits));
        [[a, b], [c, d], [e, f], [g, h]]
    }

    /// Stores a granule in planar form. `to` is its place in the plane of the first channel.
    ///
    /// # Safety
    /// - The granule's place in each plane lies in the slab, aligned to 8 bytes.
    /// - No other lane reads or writes these places.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn store(&self, to: Shared<u8>, [a, b, c, d]: Granule) {
        let mut channels = [[0; 2]; 4];
        if CHANNELS == 3 {
            let (low, high) = (deinterleave_3([a[0], a[1], b[0]]), deinterleave_3([b[1], c[0], c[1]]));
            for i in 0..3 {
                channels[i] = [low[i], high[i]];
            }
        } else {
            let (low, high) = (deinterleave_4([a[0], a[1], b[0], b[1]]), deinterleave_4([c[0], c[1], d[0], d[1]]));
            for i in 0..4 {
                channels[i] = [low[i], high[i]];
            }
        }
        for i in 0..CHANNELS as usize {
            let words = F32x2(channels[i].map(f32::from_bits));
            // SAFETY: the granule's place in the plane of channel i.
            unsafe { to.offset(i as u32 * self.layout.run).cast::<F32x2>().store(0, words) };
        }
    }
}
