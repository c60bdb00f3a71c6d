//! The positions of an image that some outputs are computed from, for one axis.

use std::ops::Range;

use kernels_gpu::abi::border::{BorderMode, OUTSIDE, map};

/// The window of a mask on one axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AxisWindow {
    /// The number of coefficients.
    pub(crate) side: usize,
    /// The window of output `i` begins at position `i - origin`.
    pub(crate) origin: usize,
}

/// The positions under the windows of neighbouring outputs, in their order.
///
/// Where the border repeats positions of the image (clamped, reflected, wrapped), those stand here in their places.
/// Under a constant border the positions end where the image ends. So the outputs of an image that is made of these
/// positions have the windows that they have in the whole image, with the same border mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gathered {
    /// The positions, as ranges of neighbouring ones.
    pub(crate) source: Vec<Range<usize>>,
    /// The number of positions.
    pub(crate) length: usize,
    /// Which of the positions the first output is.
    pub(crate) first: usize,
}

impl Gathered {
    /// What `outputs` need of an axis with `length` positions. There is at least one output.
    pub(crate) fn new(mode: BorderMode, length: usize, window: AxisWindow, outputs: &Range<usize>) -> Self {
        let begin = outputs.start as i64 - window.origin as i64;
        let end = begin + (outputs.len() + window.side - 1) as i64;
        // The positions in the image are one range, of up to 2^30 positions. Those outside are less than a mask away,
        // which fits an i32 (see `MAX_SIDE`).
        let inside = begin.max(0) as usize..end.min(length as i64) as usize;
        let (code, axis) = (mode.code(), length as i32);
        let outside = |positions: Range<i64>| positions.map(move |position| map(code, position as i32, axis));
        let (before, after) = (outside(begin..0), outside(length as i64..end));
        let missing = before.clone().take_while(|&position| position == OUTSIDE).count();
        let one = |position: i32| (position != OUTSIDE).then(|| position as usize..position as usize + 1);
        let mut source: Vec<Range<usize>> = Vec::new();
        for next in before.filter_map(one).chain([inside]).chain(after.filter_map(one)) {
            match source.last_mut() {
                Some(range) if range.end == next.start => range.end = next.end,
                _ => source.push(next),
            }
        }
        let length = source.iter().map(Range::len).sum();
        // Positions are missing only where the windows of the first outputs reach out of the image, before those
        // outputs.
        Self { source, length, first: window.origin - missing }
    }

    /// The positions without repetition: ranges in ascending order that neither overlap nor touch.
    pub(crate) fn distinct(&self) -> Vec<Range<usize>> {
        let mut ranges = self.source.clone();
        ranges.sort_by_key(|range| range.start);
        let mut distinct: Vec<Range<usize>> = Vec::new();
        for range in ranges {
            match distinct.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => distinct.push(range),
            }
        }
        distinct
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the map of the border, position by position.
    #[test]
    fn ranges_are_the_positions_under_the_windows() {
        let modes =
            [BorderMode::Constant, BorderMode::Clamp, BorderMode::Reflect, BorderMode::Mirror, BorderMode::Wrap];
        for (mode, length, side) in modes
            .into_iter()
            .flat_map(|mode| (1..7_usize).flat_map(move |length| (1..12_usize).map(move |side| (mode, length, side))))
        {
            for (origin, start, end) in (0..side).flat_map(|origin| {
                (0..length).flat_map(move |start| (start + 1..=length).map(move |end| (origin, start, end)))
            }) {
                let gathered = Gathered::new(mode, length, AxisWindow { side, origin }, &(start..end));
                let positions: Vec<i32> = (start..end + side - 1)
                    .map(|position| map(mode.code(), position as i32 - origin as i32, length as i32))
                    .collect();
                let found: Vec<i32> =
                    gathered.source.iter().cloned().flatten().map(|position| position as i32).collect();
                let expected: Vec<i32> = positions.iter().copied().filter(|&position| position != OUTSIDE).collect();
                let case = format!("{mode:?}, {start}..{end} of {length}, {origin} of {side}");
                assert_eq!(found, expected, "{case}");
                assert_eq!(gathered.length, expected.len(), "{case}");
                assert_eq!(found[gathered.first], start as i32, "{case}");
                let touch = |pair: &[Range<usize>]| pair[0].end == pair[1].start;
                assert!(!gathered.source.windows(2).any(touch), "{case}: {:?}", gathered.source);
            }
        }
    }
}
