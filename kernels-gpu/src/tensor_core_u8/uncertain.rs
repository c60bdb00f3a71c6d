//! The lists of the bytes that fixed point leaves uncertain.

use cuda_std::prelude::*;

use super::separable::{GROUP, place_of_row};
use super::{Layout, MMA_N, SLABS, list_capacity, list_start, this_thread, warp_columns};
use crate::common::warp_sum::sum_of_lanes;

/// A bit for each result of a lane: whether it is uncertain. The last result is the lowest bit.
///
/// One channel, or interleaved channels: a word has 16 columns. Planar channels: a word has 8 columns of two channels.
/// With separable masks a word has 16 columns of one channel.
pub(super) type UncertainBits = [u32; 4];

/// A list of uncertain results for each warp, and its length, which may exceed the list's capacity.
#[derive(Clone, Copy)]
pub(super) struct UncertainList {
    /// See [`ListEntry`].
    pub(super) entries: Shared<u16>,
    /// The lengths.
    pub(super) counts: Shared<u32>,
}

impl UncertainList {
    /// Where a lane may keep words of flags, 32 words apart, until [`push`](Self::push): two words with one channel,
    /// four with more.
    #[inline(always)]
    pub(super) fn flags(&self, planar: u32, warp: u32, lane: u32) -> Shared<u32> {
        self.entries.offset(list_start(planar, warp)).cast::<u32>().offset(lane)
    }

    /// Appends a lane's uncertain results to its warp's list, and stores their number.
    ///
    /// One channel has few of them: rounds in which each lane appends one, at a place found by a vote, are faster.
    /// Planar channels have two or three times as many: a prefix sum over the lanes is faster. (Measured.)
    ///
    /// # Safety
    /// - All lanes of the warp call it.
    /// - No other warp uses the list and the count before the next barrier.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(super) unsafe fn push(&self, planar: u32, uncertain: UncertainBits) {
        let (warp, lane) = (this_thread() / 32, this_thread() % 32);
        let store = |place: u32, word: u32, bit: u32| {
            if place < list_capacity(planar) {
                let place = list_start(planar, warp) + place;
                // SAFETY: place < capacity, so it lies in this warp's list; it is this lane's alone.
                unsafe { self.entries.store(place, ListEntry { lane, word, bit }.pack()) };
            }
        };
        let mut sum = 0;
        if planar == 1 {
            let [mut first, mut second, ..] = uncertain;
            // Each round takes one result of each lane that has any.
            // SAFETY: all lanes are here: all lanes of the warp call this function.
            let mut lanes = unsafe { warp::ballot(first | second != 0) };
            while lanes != 0 {
                thread::no_unroll();
                if first | second != 0 {
                    let place = sum + (lanes & ((1 << lane) - 1)).count_ones();
                    let of = u32::from(first == 0);
                    let word = if first == 0 { &mut second } else { &mut first };
                    let bit = word.leading_zeros();
                    *word &= !(1 << (31 - bit));
                    store(place, of, bit);
                }
                sum += lanes.count_ones();
                // SAFETY: all lanes are here: `lanes` is equal in all of them.
                lanes = unsafe { warp::ballot(first | second != 0) };
            }
        } else {
            // The prefix sum: the results of this lane and of all lanes before it.
            let own: u32 = uncertain.iter().map(|word| word.count_ones()).sum();
            sum = own;
            // SAFETY: all lanes are here: all lanes of the warp call this function.
            let any = unsafe { warp::ballot(own != 0) } != 0;
            if any {
                // SAFETY: all lanes are here: `any` is equal in all of them.
                sum = unsafe { sum_of_lanes(own, lane) };
            }
            let mut place = sum - own;
            for of in 0..uncertain.len() {
                let mut word = uncertain[of];
                while word != 0 {
                    thread::no_unroll();
                    let bit = word.leading_zeros();
                    word &= !(1 << (31 - bit));
                    store(place, of as u32, bit);
                    place += 1;
                }
            }
        }
        if lane == 31 {
            // SAFETY: the count is this warp's. The last lane's sum is the sum of the warp.
            unsafe { self.counts.store(warp, sum) };
        }
    }
}

/// An uncertain result: a lane and its bit of [`UncertainBits`], counted from the highest one of a word.
pub(super) struct ListEntry {
    lane: u32,
    word: u32,
    bit: u32,
}

impl ListEntry {
    #[inline(always)]
    fn pack(&self) -> u16 {
        (self.lane << 7 | self.word << 5 | self.bit) as u16
    }

    #[inline(always)]
    pub(super) fn unpack(packed: u16) -> Self {
        let packed = u32::from(packed);
        Self { lane: packed >> 7, word: packed >> 5 & 3, bit: packed & 31 }
    }

    /// The row and the value of the block where the entry of this warp's list lies.
    ///
    /// The order of the bits is that in which sums become bytes. From slow to fast it is: two channels or two N tiles,
    /// 4 slabs, 2 halves, 2 columns. With separable masks it is: 4 groups of rows, 2 N tiles, 2 halves, 2 columns.
    #[inline(always)]
    pub(super) fn place(&self, layout: &Layout, warp: u32) -> (u32, u32) {
        let planar = layout.planar;
        let column = warp * warp_columns(planar) + self.lane % 4 * 2 + (self.bit & 1);
        if layout.separable {
            let row = self.bit / 8 * GROUP + place_of_row(self.lane / 4) + (self.bit & 2);
            let column = column + self.bit / 4 % 2 * MMA_N;
            return if planar == 1 { (row, column + self.word * GROUP) } else { (row, column * planar + self.word) };
        }
        let row = SLABS * (self.lane / 4 + (self.bit & 2) * 4) + self.bit / 4 % SLABS;
        if planar == 1 {
            return (row, column + self.word * 2 * MMA_N + self.bit / 16 * MMA_N);
        }
        (row, (column + self.word / 2 * MMA_N) * planar + self.word % 2 * 2 + self.bit / 16)
    }
}
