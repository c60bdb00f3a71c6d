//! The uncertain values of a tile, in the order in which lanes compute them.

use cuda_std::prelude::*;

use super::layout::{GROUP, group_bits, groups_of_row};
use crate::common::warp_sum::sum_of_lanes;

/// The place of a value in a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListEntry {
    /// The group, counted row by row.
    pub(super) group: u32,
    /// The value in the group: pixel by pixel, channels interleaved.
    pub(super) value: u32,
}

impl ListEntry {
    #[inline(always)]
    pub(super) fn pack<const C: u32>(self) -> u16 {
        ((self.group * group_bits(C)) | self.value) as u16
    }

    #[inline(always)]
    pub(super) fn unpack<const C: u32>(packed: u16) -> Self {
        let packed = u32::from(packed);
        Self { group: packed / group_bits(C), value: packed % group_bits(C) }
    }

    /// Row, column and channel in the tile.
    #[inline(always)]
    pub(super) fn place<const C: u32>(self) -> (u32, u32, u32) {
        let columns = const { groups_of_row(C) };
        let column = self.group % columns * GROUP + self.value / C;
        (self.group / columns, column, self.value % C)
    }

    /// The index among the tile's results.
    #[inline(always)]
    pub(super) fn index<const C: u32>(self) -> u32 {
        self.group * GROUP * C + self.value
    }
}

/// Where a lane's uncertain values are in the list, and which values it computes.
///
/// The list has the values lane by lane. Each lane computes a 32nd of it, whose values are its own or those of its
/// neighbours.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    /// The values of the lanes before this one.
    before: u32,
    /// The values that this lane computes.
    first: u32,
    end: u32,
}

impl List {
    /// The list of a tile, of which the lane has `of_lane` values in all warps.
    ///
    /// # Safety
    /// All lanes of the warp call this.
    #[inline(always)]
    pub(super) unsafe fn new(of_lane: u32, lane: u32) -> Self {
        // SAFETY: all lanes are here.
        let sum = unsafe { sum_of_lanes(of_lane, lane) };
        // SAFETY: as above.
        let total = unsafe { warp::shuffle(sum, 31) };
        Self { before: sum - of_lane, first: lane * total / 32, end: (lane + 1) * total / 32 }
    }

    /// The index of value `rank` of this lane.
    #[inline(always)]
    pub(super) fn index(&self, rank: u32) -> u32 {
        self.before + rank
    }

    /// The index of value `rank` of those that this lane computes. None if there are fewer.
    #[inline(always)]
    pub(super) fn computed(&self, rank: u32) -> Option<u32> {
        (rank < self.end - self.first).then_some(self.first + rank)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::super::layout::{GroupPlace, tile};
    use super::*;

    /// Each value has an entry of its own, which is the value's place.
    #[test]
    fn entries_are_places() {
        fn check<const C: u32>() {
            let mut index = 0;
            let (columns, rows) = tile(C);
            for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                for channel in 0..C {
                    let place = GroupPlace { row, column: column / GROUP };
                    let entry = ListEntry { group: place.number::<C>(), value: column % GROUP * C + channel };
                    assert_eq!(ListEntry::unpack::<C>(entry.pack::<C>()), entry);
                    assert_eq!((entry.place::<C>(), entry.index::<C>()), ((row, column, channel), index));
                    index += 1;
                }
            }
        }
        check::<1>();
        check::<2>();
        check::<3>();
        check::<4>();
    }
}
