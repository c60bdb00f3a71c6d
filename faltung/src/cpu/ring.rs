//! A block of the result whose source rows become lines of `f32` in a ring buffer that stays in the second-level cache.
//!
//! The direct method uses it for integers, whose pixels need a conversion. The separable method uses it for all types.
//! ```text
//! dense:      image rows --convert, pad--> ring of lines --tiles--> results
//! separable:  image rows --convert, pad--> one line --row of the mask--> ring of filtered lines --column--> results
//! ```
//! Uncertain integer results are computed again, in order, from the image.
//!
//! The ring holds the source rows of one band: [`ROWS`] output rows, and the window's height less 1. Source row s is in
//! slot s modulo their number. A block is cut into strips of columns, so narrow that the ring stays in the cache. The
//! bands of a strip follow one another from top to bottom, so a strip converts and filters each source row once.
//! Neighbouring strips both convert the columns that windows of both cover. Blocks one above the other both convert and
//! filter the source rows that windows of both cover.

use kernels_gpu::abi::border::OUTSIDE;

use super::aligned::Aligned;
use super::byte_lines::ByteLines;
use super::byte_rows::ByteRow;
use super::finish::Results;
use super::line::{LineMap, Values, image_rows};
use super::panel::{self, Hints, Panel};
use super::partial_sums::{Candidate, Decide, Decider, PartialSums};
use super::recompute::Recompute;
use super::row_pass::RowPass;
use super::simd::Level;
use super::tile::{ROWS, Window};
use super::uncertain::{Limits, Uncertain};
use crate::parallel::Cancel;
use crate::{Problem, Result};

/// The values of a ring: 512 KiB, half of the second-level cache of a core of today's servers.
const RING: usize = (512 << 10) / size_of::<f32>();

/// The filtered values under a panel whose uncertain results are decided at once: 16 KiB, half of a first-level cache.
const PANEL: usize = (16 << 10) / size_of::<f32>();

/// What all blocks of a problem have in common.
pub(super) struct Rings<'a> {
    /// The problem.
    pub(super) problem: &'a Problem,
    /// Its window, or the column of a separable one.
    pub(super) window: &'a Window,
    /// The row of a separable window.
    pub(super) row: Option<&'a Row>,
    /// Which results are uncertain. None unless the image is of bytes.
    pub(super) limits: Limits,
    /// What decides most uncertain results.
    pub(super) partial_sums: Option<&'a PartialSums>,
    /// The image.
    pub(super) source: Values<'a>,
    /// The instructions.
    pub(super) level: Level,
    /// Whether to use non-temporal stores.
    pub(super) streaming: bool,
    /// Whether to end early.
    pub(super) cancel: &'a Cancel,
}

/// The row of a separable mask.
#[derive(Debug)]
pub(super) enum Row {
    /// As it is.
    Floats(Vec<f32>),
    /// In fixed point, for bytes.
    Bytes(ByteRow),
}

impl Row {
    /// Coefficient `l`, in the unit of the filtered values. The column's coefficients include that unit.
    pub(super) fn factor(&self, l: usize) -> f64 {
        match self {
            Self::Floats(row) => f64::from(row[l]),
            Self::Bytes(row) => row.coefficient(l) / row.unit(),
        }
    }
}

/// Memory that a thread uses again for each block.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    ring: Aligned<f32>,
    unfiltered: Unfiltered,
    byte_lines: Vec<u8>,
    decider: Decider,
}

/// A row of the image before the row pass: as `f32`, and as bytes.
#[derive(Debug, Default)]
struct Unfiltered {
    line: Vec<f32>,
    bytes: Vec<u8>,
}

impl Rings<'_> {
    /// Computes the block whose first output is value `left` of row `top`.
    ///
    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub(super) fn compute(
        &self,
        scratch: &mut Scratch,
        top: usize,
        left: usize,
        results: &mut Results<'_>,
    ) -> Result<()> {
        let width = results.width();
        let image_rows = image_rows(self.problem, top, results.height());
        let strip = self.strip(width);
        for start in (0..width).step_by(strip) {
            self.strip_of(scratch, &image_rows, (top, left), (start, strip.min(width - start)), results)?;
        }
        Ok(())
    }

    /// The columns of a strip.
    fn strip(&self, width: usize) -> usize {
        let most = RING / (self.window.height() + ROWS);
        let tile = panel::tile_width(self.level);
        // A line extends `line_beyond` values beyond its strip.
        let most = most.saturating_sub(self.line_beyond()).max(self.line_beyond()).max(4 * tile);
        // Strips of about equal width.
        width.div_ceil(width.div_ceil(most)).next_multiple_of(tile)
    }

    /// The values of a line beyond the strip.
    fn line_beyond(&self) -> usize {
        (self.problem.window().width() - 1) * self.problem.format().channels
    }

    /// Computes columns `start..start + width` of the block.
    fn strip_of(
        &self,
        scratch: &mut Scratch,
        image_rows: &[i32],
        (top, left): (usize, usize),
        (start, width): (usize, usize),
        results: &mut Results<'_>,
    ) -> Result<()> {
        let padded = width.next_multiple_of(panel::tile_width(self.level));
        let line = padded + self.line_beyond();
        // An odd number of cache lines: with a power of two, the same column of all rows would be in a few cache sets.
        let per_line = panel::LINE / size_of::<f32>();
        let pitch = (if self.row.is_some() { padded } else { line }.div_ceil(per_line) | 1) * per_line;
        let slots = self.window.height() - 1 + ROWS;
        // A low image has fewer rows than the ring, and a tall window meets each of them several times.
        let (height, low) = (self.problem.height(), self.problem.height() < slots);
        let slot = |s: usize| match image_rows[s] {
            _ if !low => s % slots,
            OUTSIDE => height,
            row => row as usize,
        };
        let map = LineMap::new(self.problem, left + start, width);
        let mut uncertain = Uncertain::new(self.level, self.limits, width);
        let Scratch { ring, unfiltered, byte_lines, decider } = scratch;
        let ring = ring.of_length(slots.min(height + 1) * pitch);
        unfiltered.reserve(line, self.row, (padded, self.problem.format().channels));
        let mut byte_lines = match (self.partial_sums, self.source) {
            (Some(partial_sums), Values::U8(image)) => {
                uncertain.keep_values();
                let slots = slots.min(height + 1);
                let place = (left + start, width);
                Some(ByteLines::new(self.problem, image, byte_lines, slots, place, partial_sums.pitch()))
            }
            _ => None,
        };
        let mut recompute = Recompute::new(self.problem, self.source, self.level, self.cancel, (top, left));
        let mut ready = 0;
        let mut is_there = vec![false; if low { height + 1 } else { 0 }];
        for first in (0..results.height()).step_by(ROWS) {
            let count = ROWS.min(results.height() - first);
            let needed = first + count + self.window.height() - 1;
            for (s, &row) in image_rows.iter().enumerate().take(needed).skip(ready) {
                self.cancel.check()?;
                if low && std::mem::replace(&mut is_there[slot(s)], true) {
                    continue;
                }
                let length = if self.row.is_some() { padded } else { line };
                self.fill(unfiltered, &map, row, &mut ring[slot(s) * pitch..][..length]);
                if let Some(lines) = &mut byte_lines {
                    lines.fill(row, slot(s));
                }
            }
            ready = needed;

            let rows: Vec<&[f32]> = (first..needed).map(|s| &ring[slot(s) * pitch..][..pitch]).collect();
            let hints = Hints { prefetch: false, non_temporal: self.streaming };
            let decide = self.partial_sums.zip(byte_lines.as_ref());
            let byte_rows: Vec<&[u8]> =
                decide.map_or_else(Vec::new, |(_, lines)| (first..needed).map(|s| lines.line(slot(s))).collect());
            let at_once = if decide.is_some() { (PANEL / slots / 64).max(1) * 64 } else { width };
            for from in (0..width).step_by(at_once) {
                let columns = from..width.min(from + at_once);
                let (window, cancel) = (self.window, self.cancel);
                let panel = Panel { window, rows: &rows, columns: columns.clone(), hints, cancel };
                panel.compute(self.level, results, (first, start), &mut uncertain)?;
                let Some((partial_sums, byte_lines)) = decide else {
                    uncertain.places(count, columns, |row, column| recompute.push(first + row, [start + column]));
                    continue;
                };
                decider.candidates.clear();
                uncertain.places(count, columns, |row, column| {
                    let (sum, line_at) = (uncertain.value(row, column), byte_lines.place(column));
                    decider.candidates.push(Candidate { row, column, line_at, sum });
                });
                self.level.run(Decide { partial_sums, filtered: &rows, lines: &byte_rows, decider });
                for (&Candidate { row, column, .. }, &decided) in decider.candidates.iter().zip(&decider.decided) {
                    if decided.is_nan() {
                        recompute.push(first + row, [start + column]);
                    } else {
                        results.set(first + row, start + column, decided);
                    }
                }
            }
            recompute.compute_batches(results)?;
        }
        recompute.compute_rest(results)
    }

    /// Writes the line of row `row` of the image, filtered if the mask is separable, to `to`.
    fn fill(&self, unfiltered: &mut Unfiltered, map: &LineMap, row: i32, to: &mut [f32]) {
        let step = self.problem.format().channels;
        let Unfiltered { line, bytes } = unfiltered;
        match (self.row, self.source) {
            (None, image) => map.fill(self.level, self.problem, image, row, to),
            (Some(Row::Floats(coefficients)), image) => {
                map.fill(self.level, self.problem, image, row, line);
                self.level.run(RowPass { line, coefficients, step, filtered: to });
            }
            (Some(Row::Bytes(coefficients)), Values::U8(image)) => {
                map.fill_bytes(self.problem, image, row, bytes);
                coefficients.filter(bytes, step, to);
            }
            (Some(Row::Bytes(_)), _) => unreachable!("only for images of bytes"),
        }
    }
}

impl Unfiltered {
    /// Makes room for a line of so many values, and for a line of bytes.
    fn reserve(&mut self, line: usize, row: Option<&Row>, (width, step): (usize, usize)) {
        let bytes = if let Some(Row::Bytes(row)) = row { row.line_bytes(width, step) } else { 0 };
        if self.line.len() < line {
            self.line.resize(line, 0.0);
        }
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
    }
}
