//! Interleaved channels, parted in shared memory.

use cuda_std::bytes::{deinterleave_3, deinterleave_4};
use cuda_std::prelude::*;

use super::{GRANULE, Layout, PLANES, ROWS, shared_out, this_thread};

/// The words of a granule.
type Granule = [[u32; 2]; 4];

/// Granules that a lane has at a time: those of several rows where their number is known, or else of one row. The longest row of which 227
/// KiB of shared memory hold 64 has 3.
const AT_ONCE: usize = 7;

/// The warp's barriers in [`Parter::part`]: one before, and one in each turn of the loop over batches, which is
/// unrolled where the
/// side of the masks is known.
pub(super) const fn warp_barriers(layout: &Layout, size: u32) -> u32 {
    if size == 0 {
        return 2;
    }
    let granules = if layout.run > GRANULE { layout.run / GRANULE } else { 1 };
    let turns = (ROWS + layout.rows(size) - 1).div_ceil(PLANES * shared_out(granules, 0).0);
    1 + turns.div_ceil(AT_ONCE as u32)
}

/// Parts the channels of rows that a warp has copied itself.
pub(super) struct Parter<const CHANNELS: u32, const SIZE: u32> {
    pub(super) layout: Layout,
    pub(super) rows: u32,
    pub(super) plane: u32,
}

impl<const CHANNELS: u32, const SIZE: u32> Parter<CHANNELS, SIZE> {
    /// Parts the rows of `image`, each in its place.
    ///
    /// # Safety
    /// All threads of the block call it. Each warp has copied the rows of its plane, its copies have come, and no other warp reads
    /// or writes them until a barrier was passed.
    #[inline(always)]
    pub(super) unsafe fn part(&self, image: Shared<u8>) {
        let (warp, lane) = (this_thread() / 32, this_thread() % 32);
        let granules = (self.layout.run / GRANULE).max(1);
        let (at_a_time, slot, granule) = shared_out(granules, lane);
        // Where there are 10 of them, in three channels, the 16 lanes that read at a time find no two granules in the same banks.
        let granule = (granule + 4 * slot) % granules;
        let mut row = image.offset(warp * self.plane + slot * self.layout.pitch + granule * GRANULE);
        let mut which = warp + PLANES * slot;
        // Where a warp's copies have come all of its lanes see them. SAFETY: all threads of the block are here.
        unsafe { warp::sync_warp() };
        let turns = self.rows.div_ceil(PLANES * at_a_time);
        let (batch, across) = if SIZE > 0 { (turns.min(AT_ONCE as u32), 1) } else { (1, granules.div_ceil(32)) };
        let mut turn = 0;
        while turn < turns {
            let mut loaded = [Granule::default(); AT_ONCE];
            // By the number of the granule: the rows further down, the granules further to the right, and whether it is there.
            let place = |i: u32| {
                let (down, right) = (if batch > 1 { i } else { 0 }, if batch > 1 { 0 } else { 32 * i });
                let is_whole = batch > 1 && PLANES * at_a_time * (turn + down + 1) <= self.rows;
                let is_there = i < batch.max(across)
                    && slot < at_a_time
                    && (is_whole || which + PLANES * at_a_time * down < self.rows)
                    && granule + right < granules;
                (down * at_a_time * self.layout.pitch, right, is_there)
            };
            for (i, loaded) in loaded.iter_mut().enumerate() {
                let (down, right, is_there) = place(i as u32);
                if is_there {
                    let channels = CHANNELS * GRANULE * right + (CHANNELS - 1) * GRANULE * granule;
                    // SAFETY: the granule was copied by this warp.
                    *loaded = unsafe { Self::load(row.offset(self.layout.lead + down + channels)) };
                }
            }
            // SAFETY: all lanes are here: `turn` and `turns` are equal in all threads.
            unsafe { warp::sync_warp() };
            for (i, &loaded) in loaded.iter().enumerate() {
                let (down, right, is_there) = place(i as u32);
                if is_there {
                    // SAFETY: the row was read.
                    unsafe { self.store(row.offset(down + right * GRANULE), loaded) };
                }
            }
            row = row.offset(batch * at_a_time * self.layout.pitch);
            which += batch * PLANES * at_a_time;
            turn += batch;
        }
    }

    /// # Safety
    /// The granule may be read, and begins at a multiple of 8 bytes, of 16 in four channels.
    #[inline(always)]
    unsafe fn load(from: Shared<u8>) -> Granule {
        if CHANNELS == 3 {
            // SAFETY: the caller's promise.
            let [a, b, c] = [0, 1, 2].map(|i| unsafe { from.cast::<F32x2>().load(i) }.0.map(f32::to_bits));
            return [a, b, c, [0; 2]];
        }
        // SAFETY: the caller's promise.
        let [[a, b, c, d], [e, f, g, h]] = [0, 1].map(|i| unsafe { from.cast::<F32x4>().load(i) }.0.map(f32::to_bits));
        [[a, b], [c, d], [e, f], [g, h]]
    }

    /// Puts a granule to its places, of which `to` is the first channel's.
    ///
    /// # Safety
    /// They may be written.
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
            // SAFETY: the caller's promise.
            unsafe { to.offset(i as u32 * self.layout.run).cast::<F32x2>().store(0, words) };
        }
    }
}
