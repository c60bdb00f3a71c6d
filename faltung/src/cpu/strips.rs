//! Images of bytes, block by block. A block is computed in strips of columns. The lines that a strip keeps fit in the
//! second-level cache, unless the mask is very tall or very wide.

use std::ops::Range;

use super::finish::Results;
use super::line::{LineMap, Values, image_rows};
use super::recompute::Recompute;
use super::simd::Level;
use crate::parallel::Cancel;
use crate::{Problem, Result};

/// Bytes of the lines that a strip keeps: half of a second-level cache of 512 KiB.
const STRIP_BYTES: usize = 256 << 10;

/// A strip's columns are a multiple of this, but for the last strip of a block.
const COLUMN_MULTIPLE: usize = 64;

/// A separable mask in a form for images of bytes.
pub(super) trait ByteMask: Sized {
    /// Memory that a thread uses again for each block.
    type Scratch: Default;

    /// Bytes of the lines that a strip keeps, for each of its columns.
    fn line_bytes_per_column(&self) -> usize;

    /// How many values more a line has than the strip has columns, for pixels of so many channels.
    fn beyond(&self, channels: usize) -> usize;

    /// Computes a strip. Uncertain results are pushed to `recompute`.
    ///
    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    fn compute(
        strip: &Strip<'_, Self>,
        scratch: &mut Self::Scratch,
        results: &mut Results<'_>,
        recompute: &mut Recompute<'_>,
    ) -> Result<()>;
}

/// What all blocks of a problem have in common.
pub(super) struct ByteBlocks<'a, M> {
    pub(super) problem: &'a Problem,
    pub(super) mask: &'a M,
    pub(super) image: &'a [u8],
    pub(super) level: Level,
    /// Whether to end early.
    pub(super) cancel: &'a Cancel,
}

impl<M: ByteMask> ByteBlocks<'_, M> {
    /// Computes the block whose first output is value `left` of row `top`.
    ///
    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub(super) fn compute(
        &self,
        scratch: &mut M::Scratch,
        top: usize,
        left: usize,
        results: &mut Results<'_>,
    ) -> Result<()> {
        let width = results.width();
        let image_rows = &image_rows(self.problem, top, results.height());
        let beyond = self.mask.beyond(self.problem.format().channels);
        let most_columns = (STRIP_BYTES / self.mask.line_bytes_per_column()).max(beyond).max(4 * COLUMN_MULTIPLE);
        // Strips of about equal width.
        let columns = width.div_ceil(width.div_ceil(most_columns)).next_multiple_of(COLUMN_MULTIPLE);
        let source = Values::U8(self.image);
        let mut recompute = Recompute::new(self.problem, source, self.level, self.cancel, (top, left));
        for start in (0..width).step_by(columns) {
            let width = columns.min(width - start);
            let map = &LineMap::new(self.problem, left + start, width);
            let strip = Strip { blocks: self, map, image_rows, start, width, line_length: width + beyond };
            M::compute(&strip, scratch, results, &mut recompute)?;
        }
        recompute.compute_rest(results)
    }
}

/// Some columns of a block.
pub(super) struct Strip<'a, M> {
    pub(super) blocks: &'a ByteBlocks<'a, M>,
    map: &'a LineMap,
    /// For each row under the windows of the block, its row in the image.
    image_rows: &'a [i32],
    /// The strip's first column in the block.
    pub(super) start: usize,
    /// Its columns.
    pub(super) width: usize,
    /// The values of a line: those under the windows of a row of the strip.
    pub(super) line_length: usize,
}

impl<M> Strip<'_, M> {
    /// The strip's columns in the rows of the block.
    pub(super) fn columns(&self) -> Range<usize> {
        self.start..self.start + self.width
    }

    /// Rows under the windows of the block.
    pub(super) fn rows(&self) -> usize {
        self.image_rows.len()
    }

    /// Writes the line of row `row` of those under the windows, with the border.
    pub(super) fn fill(&self, row: usize, line: &mut [u8]) {
        self.map.fill_bytes(self.blocks.problem, self.blocks.image, self.image_rows[row], line);
    }
}

/// Where the lines of a ring buffer begin, which are `pitch` values apart. Line `s` has the place `s % lines`.
pub(super) struct RingStarts {
    /// The start of each place, in order, twice. So `lines` of them from any place on are one slice.
    starts: Vec<usize>,
}

impl RingStarts {
    pub(super) fn new(lines: usize, pitch: usize) -> Self {
        Self { starts: (0..2 * lines).map(|line| line % lines * pitch).collect() }
    }

    /// Where lines `first`, `first + 1`, .. begin, each line of the ring once.
    pub(super) fn from(&self, first: usize) -> &[usize] {
        let lines = self.starts.len() / 2;
        &self.starts[first % lines..][..lines]
    }
}

/// Whether `needed` values follow each of some starts in so many values.
#[inline]
pub(super) fn have_room(starts: &[usize], needed: usize, length: usize) -> bool {
    starts.iter().all(|start| start.checked_add(needed).is_some_and(|end| end <= length))
}
