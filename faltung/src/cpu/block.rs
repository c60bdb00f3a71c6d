//! A block of the result of an `f32` image by the direct method. Most columns are read in place. Those near the left
//! and right border are computed from copies with the border written out.
//!
//! ```text
//!             | padded |        read in place        | padded |
//! ```
//! Above and below the image nothing is copied. A panel takes a list of source rows, and the border maps each of them
//! to a row of the image, or to a row of the border's value. Left and right, each *different* source row is copied
//! once. A large mask on a small image has few different rows.

use std::ops::Range;

use super::finish::Results;
use super::line::{self, LineMap, Values};
use super::panel::{self, Hints, LINE, Panel};
use super::simd::Level;
use super::tile::{ROWS, Window};
use super::uncertain::Uncertain;
use crate::parallel::Cancel;
use crate::{Problem, Result};
use kernels_gpu::abi::border::OUTSIDE;

/// The most values of the source rows of a band of tiles: 256 KiB. These rows and the prefetched ones then stay in a
/// second-level cache of 512 KiB, a small one for a server.
const BAND: usize = (256 << 10) / size_of::<f32>();

/// What all blocks of a problem have in common.
pub(super) struct Blocks<'a> {
    /// The problem.
    pub(super) problem: &'a Problem,
    /// Its window.
    pub(super) window: &'a Window,
    /// The image.
    pub(super) source: &'a [f32],
    /// A row of the image of nothing but the border's value.
    pub(super) outside: &'a [f32],
    /// The instructions.
    pub(super) level: Level,
    /// Whether to use non-temporal stores and prefetches.
    pub(super) streaming: bool,
    /// Whether to end early.
    pub(super) cancel: &'a Cancel,
}

/// Memory that a thread uses again for each block.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    padded: Vec<f32>,
    rows: Vec<i32>,
}

impl Blocks<'_> {
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
        let image_rows = line::image_rows(self.problem, top, results.height());
        let inner = self.inner(left, width, results);
        for columns in [0..inner.start, inner.end..width] {
            if !columns.is_empty() {
                self.padded(scratch, &image_rows, left, columns, results)?;
            }
        }
        if !inner.is_empty() {
            self.in_place(&image_rows, left, inner, results)?;
        }
        Ok(())
    }

    /// The values from the beginning of a window to its output.
    fn values_before(&self) -> usize {
        self.problem.origin().1 * self.problem.format().channels
    }

    /// The columns of the block that are read in place: whole tiles whose windows lie in the image, sideways. They
    /// begin with a cache line of the result if that holds for all rows at once.
    fn inner(&self, left: usize, width: usize, results: &Results<'_>) -> Range<usize> {
        let tile = panel::tile_width(self.level);
        let (origin, image) = (self.values_before(), self.problem.row_values());
        let bytes = results.pixel().bytes();
        let (per_line, past_line) = (LINE / bytes, results.bytes_past(LINE) / bytes);
        let to_line = if image.is_multiple_of(per_line) { (per_line - past_line) % per_line } else { 0 };

        let needed = origin.saturating_sub(left).saturating_sub(to_line);
        let start = (to_line + needed.next_multiple_of(tile)).min(width);
        // The window of value x ends with value x - origin + beyond, which may be the last one of the image's row.
        let end = (image + origin).saturating_sub(self.window.beyond() + left).min(width);
        start..start + end.saturating_sub(start) / tile * tile
    }

    /// Computes columns of the block from the image itself.
    fn in_place(
        &self,
        image_rows: &[i32],
        left: usize,
        columns: Range<usize>,
        results: &mut Results<'_>,
    ) -> Result<()> {
        let tile = panel::tile_width(self.level);
        let step = (BAND / (self.window.height() + ROWS) / tile * tile).max(4 * tile);
        let mut rows: Vec<&[f32]> = Vec::with_capacity(image_rows.len());
        for start in columns.clone().step_by(step) {
            self.cancel.check()?;
            let width = step.min(columns.end - start);
            let from = left + start - self.values_before();
            let needed = panel::source_width(self.level, self.window, width);
            rows.clear();
            rows.extend(image_rows.iter().map(|&row| match row {
                OUTSIDE => &self.outside[..needed],
                row => &self.source[row as usize * self.problem.row_values() + from..][..needed],
            }));
            let hints = Hints { prefetch: self.streaming, non_temporal: self.streaming };
            let panel = Panel { window: self.window, rows: &rows, columns: 0..width, hints, cancel: self.cancel };
            panel.compute(self.level, results, (0, start), &mut Uncertain::none())?;
        }
        Ok(())
    }

    /// Computes columns of the block from a copy of the image's rows with their borders.
    fn padded(
        &self,
        scratch: &mut Scratch,
        image_rows: &[i32],
        left: usize,
        columns: Range<usize>,
        results: &mut Results<'_>,
    ) -> Result<()> {
        let width = columns.len();
        let needed = panel::source_width(self.level, self.window, width);
        let map = LineMap::new(self.problem, left + columns.start, width);

        let Scratch { padded, rows: different } = scratch;
        different.clear();
        different.extend_from_slice(image_rows);
        different.sort_unstable();
        different.dedup();
        if padded.len() < different.len() * needed {
            padded.resize(different.len() * needed, 0.0);
        }
        for (to, &row) in padded.chunks_exact_mut(needed).zip(&*different) {
            map.fill(self.level, self.problem, Values::F32(self.source), row, to);
        }

        let rows: Vec<&[f32]> = image_rows
            .iter()
            .map(|row| {
                let index = different.binary_search(row).unwrap_or_else(|_| unreachable!("all rows are in it"));
                &padded[index * needed..][..needed]
            })
            .collect();
        let (hints, cancel) = (Hints::default(), self.cancel);
        let panel = Panel { window: self.window, rows: &rows, columns: 0..width, hints, cancel };
        panel.compute(self.level, results, (0, columns.start), &mut Uncertain::none())
    }
}
