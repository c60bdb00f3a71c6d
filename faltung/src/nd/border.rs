//! Which elements of an axis a block of results reads, halo included.

use kernels_gpu::abi::border::BorderMode;
use kernels_gpu::ndimage::position;

/// The position in `0..length` that stands for position `i`, or None where the border's value stands.
///
/// `length` must be from 1 to 2^61, and `i` within 2^61 of 0.
pub fn position(mode: BorderMode, i: isize, length: usize) -> Option<usize> {
    usize::try_from(position::position(mode.code(), i as i64, length as i64)).ok()
}

/// A range of positions with its halo: the elements that stand at `count` positions from `start` on, in order.
pub(super) struct PaddedRange {
    /// Positions before the first one within the axis.
    pub(super) before: Vec<Option<usize>>,
    /// The first position within the axis.
    pub(super) first: usize,
    /// How many positions follow each other within the axis.
    pub(super) inside: usize,
    /// Positions after these.
    pub(super) after: Vec<Option<usize>>,
}

impl PaddedRange {
    pub(super) fn new(mode: BorderMode, start: isize, count: usize, length: usize) -> Self {
        let end = start + count as isize;
        let first = start.clamp(0, length as isize).min(end.max(0));
        let last = end.clamp(first, length as isize);
        let outside = |positions: std::ops::Range<isize>| positions.map(|i| position(mode, i, length)).collect();
        Self {
            before: outside(start..first.min(end).max(start)),
            first: first as usize,
            inside: (last - first) as usize,
            after: outside(last.max(start)..end),
        }
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Option<usize>> {
        let inside = (self.first..self.first + self.inside).map(Some);
        self.before.iter().copied().chain(inside).chain(self.after.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use kernels_gpu::abi::border::{OUTSIDE, map};

    use super::*;

    /// The map agrees with the one of the kernels, and `PaddedRange` with the map, also far outside.
    #[test]
    fn one_map() {
        for mode in BorderMode::ALL {
            for length in [1, 2, 3, 7] {
                for i in -30..30 {
                    let expected = map(mode.code(), i, length as i32);
                    let expected = (expected != OUTSIDE).then_some(expected as usize);
                    assert_eq!(position(mode, i as isize, length), expected, "{mode:?}, {i} of {length}");
                    for count in [0, 1, 2, 5, 40] {
                        let range = PaddedRange::new(mode, i as isize, count, length);
                        let found: Vec<_> = range.iter().collect();
                        let expected: Vec<_> =
                            (0..count).map(|j| position(mode, i as isize + j as isize, length)).collect();
                        assert_eq!(found, expected, "{mode:?}, {count} from {i} of {length}");
                    }
                }
            }
        }
    }
}
