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
        let (code, length) = (mode.code(), length as i32);
        let begin = outputs.start as i64 - window.origin as i64;
        let count = outputs.len() + window.side - 1;
        // Positions stay within one mask of the image, which fits an i32 (see `MAX_SIDE`).
        let positions = (begin..begin + count as i64).map(|position| map(code, position as i32, length));
        let missing = positions.clone().take_while(|&position| position == OUTSIDE).count();
        let mut source: Vec<Range<usize>> = Vec::new();
        for position in positions.filter(|&position| position != OUTSIDE).map(|position| position as usize) {
            match source.last_mut() {
                Some(range) if range.end == position => range.end += 1,
                _ => source.push(position..position + 1),
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
