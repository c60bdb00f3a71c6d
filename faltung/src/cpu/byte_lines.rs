//! The lines of an image of bytes under a strip, with the border written out: one plane for each channel.

use super::line::LineMap;
use crate::Problem;

/// The lines in the slots of a ring.
pub(super) struct ByteLines<'a> {
    problem: &'a Problem,
    image: &'a [u8],
    maps: Vec<LineMap>,
    bytes: &'a mut Vec<u8>,
    /// Bytes from one plane to the next. A line is one plane for each channel.
    plane: usize,
    /// The channel of the strip's first value.
    first_channel: usize,
}

impl<'a> ByteLines<'a> {
    /// `slots` lines for a strip of `width` values from value `left` of a row on. From each value on a line has at
    /// least `beyond` bytes of the same channel.
    pub(super) fn new(
        problem: &'a Problem,
        image: &'a [u8],
        bytes: &'a mut Vec<u8>,
        slots: usize,
        (left, width): (usize, usize),
        beyond: usize,
    ) -> Self {
        let channels = problem.format().channels;
        let first = left / channels;
        let pixels = (left + width).div_ceil(channels) - first;
        let maps = (0..channels).map(|channel| LineMap::of_channel(problem, first, pixels, channel)).collect();
        let plane = pixels + beyond.max(problem.window().width());
        let needed = slots * channels * plane;
        if bytes.len() < needed {
            bytes.resize(needed, 0);
        }
        Self { problem, image, maps, bytes, plane, first_channel: left % channels }
    }

    /// Writes row `row` of the image, or of [`OUTSIDE`](kernels_gpu::abi::border::OUTSIDE), to a slot.
    pub(super) fn fill(&mut self, row: i32, slot: usize) {
        let line = self.maps.len() * self.plane;
        let planes = self.bytes[slot * line..][..line].chunks_exact_mut(self.plane);
        for (map, plane) in self.maps.iter().zip(planes) {
            map.fill_bytes(self.problem, self.image, row, plane);
        }
    }

    /// The line in a slot.
    pub(super) fn line(&self, slot: usize) -> &[u8] {
        let line = self.maps.len() * self.plane;
        &self.bytes[slot * line..][..line]
    }

    /// Where in a line the window of value `x` of the strip begins.
    #[inline(always)]
    pub(super) fn place(&self, x: usize) -> usize {
        let (x, channels) = (self.first_channel + x, self.maps.len());
        x % channels * self.plane + x / channels
    }
}
