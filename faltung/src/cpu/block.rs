//! A block of the result: which of its columns can be read in place, and which need the border written out.
//!
//! ```text
//!             | padded |        read in place        | padded |
//! ```
//! Above and below the image nothing needs to be copied: a panel gets its source rows one by one, and the border's row
//! map says which row of the image each is (or a row of the border's value). Left and right, the source rows of a block
//! are copied with their border, once for each *different* row: of a small image under a large mask there are few.

use std::ops::Range;

use super::panel::{self, Hints, LINE, Panel};
use super::simd::Level;
use super::tile::{ROWS, Window};
use crate::Problem;
use kernels_gpu::abi::border::{OUTSIDE, map};

/// The source rows of a band of tiles should stay in the second-level cache, with room for what is prefetched: half of
/// the 512 KiB that the smaller ones of today have, in values.
const BAND: usize = (256 << 10) / size_of::<f32>();

/// What all blocks of a problem have in common.
pub(super) struct Blocks<'a> {
    /// The problem.
    pub(super) problem: &'a Problem,
    /// Its window.
    pub(super) window: &'a Window,
    /// The image.
    pub(super) source: &'a [f32],
    /// `width` times the border's value.
    pub(super) outside: &'a [f32],
    /// The instructions.
    pub(super) level: Level,
    /// Image and result are larger than the caches.
    pub(super) large: bool,
}

/// Memory that a thread uses again for each block.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    padded: Vec<f32>,
    columns: Vec<i32>,
    rows: Vec<i32>,
}

impl Blocks<'_> {
    /// Computes the block whose first output is in row `top`, column `left`. It has as many rows as `results`, which
    /// are as long as it is wide.
    pub(super) fn compute(&self, scratch: &mut Scratch, top: usize, left: usize, results: &mut [&mut [f32]]) {
        let width = results.first().map_or(0, |row| row.len());
        let image_rows = self.image_rows(top, results.len());
        let inner = self.inner(left, width, results);
        for columns in [0..inner.start, inner.end..width] {
            if !columns.is_empty() {
                self.padded(scratch, &image_rows, left, columns, results);
            }
        }
        if !inner.is_empty() {
            self.in_place(&image_rows, left, inner, results);
        }
    }

    /// Which row of the image each source row is, or [`OUTSIDE`].
    fn image_rows(&self, top: usize, count: usize) -> Vec<i32> {
        let (code, height) = (self.problem.border().mode().code(), self.problem.height() as i32);
        let first = top as i32 - self.problem.origin().0 as i32;
        (0..count + self.window.height() - 1).map(|s| map(code, first + s as i32, height)).collect()
    }

    /// The columns of the block that are read in place: whole tiles whose windows lie in the image, sideways. They
    /// begin with a cache line of the result if that holds for all rows at once.
    fn inner(&self, left: usize, width: usize, results: &[&mut [f32]]) -> Range<usize> {
        let tile = panel::tile_width(self.level);
        let (origin, image) = (self.problem.origin().1, self.problem.width());
        let per_line = LINE / size_of::<f32>();
        let past_line = results.first().map_or(0, |row| row.as_ptr().addr() % LINE / size_of::<f32>());
        let to_line = if image.is_multiple_of(per_line) { (per_line - past_line) % per_line } else { 0 };

        let needed = origin.saturating_sub(left).saturating_sub(to_line);
        let start = (to_line + needed.next_multiple_of(tile)).min(width);
        // The window of column x ends before column x - origin + window width, which may be the image's width.
        let end = (image + origin + 1).saturating_sub(self.window.width() + left).min(width);
        start..start + end.saturating_sub(start) / tile * tile
    }

    /// Computes columns of the block from the image itself.
    fn in_place(&self, image_rows: &[i32], left: usize, columns: Range<usize>, results: &mut [&mut [f32]]) {
        let tile = panel::tile_width(self.level);
        let step = (BAND / (self.window.height() + ROWS) / tile * tile).max(4 * tile);
        let mut rows: Vec<&[f32]> = Vec::with_capacity(image_rows.len());
        for start in columns.clone().step_by(step) {
            let width = step.min(columns.end - start);
            let from = left + start - self.problem.origin().1;
            let needed = panel::source_width(self.level, self.window, width);
            rows.clear();
            rows.extend(image_rows.iter().map(|&row| match row {
                OUTSIDE => &self.outside[..needed],
                row => &self.source[row as usize * self.problem.width() + from..][..needed],
            }));
            let hints = Hints { prefetch: self.large, stream: self.large };
            Panel { window: self.window, rows: &rows, width, hints }.compute(self.level, results, start);
        }
    }

    /// Computes columns of the block from a copy of the image's rows with their borders.
    fn padded(
        &self,
        scratch: &mut Scratch,
        image_rows: &[i32],
        left: usize,
        columns: Range<usize>,
        results: &mut [&mut [f32]],
    ) {
        let width = columns.len();
        let needed = panel::source_width(self.level, self.window, width);
        let first = (left + columns.start) as isize - self.problem.origin().1 as isize;

        let Scratch { padded, columns: map, rows: different } = scratch;
        different.clear();
        different.extend_from_slice(image_rows);
        different.sort_unstable();
        different.dedup();
        if padded.len() < different.len() * needed {
            padded.resize(different.len() * needed, 0.0);
        }
        let inside = self.map_columns(map, first, width + self.window.width() - 1);
        for (to, &row) in padded.chunks_exact_mut(needed).zip(&*different) {
            self.pad(to, row, first, map, inside.clone());
        }

        let rows: Vec<&[f32]> = image_rows
            .iter()
            .map(|row| {
                let index = different.binary_search(row).unwrap_or_else(|_| unreachable!("all rows are in it"));
                &padded[index * needed..][..needed]
            })
            .collect();
        let hints = Hints::default();
        Panel { window: self.window, rows: &rows, width, hints }.compute(self.level, results, columns.start);
    }

    /// Which column of the image, or [`OUTSIDE`], each of `count` columns from `first` on is; and the range of them
    /// that lies in the image.
    fn map_columns(&self, columns: &mut Vec<i32>, first: isize, count: usize) -> Range<usize> {
        let (code, width) = (self.problem.border().mode().code(), self.problem.width());
        columns.clear();
        columns.extend((0..count).map(|i| map(code, (first + i as isize) as i32, width as i32)));
        let start = usize::try_from(-first).unwrap_or(0).min(count);
        let end = usize::try_from(width as isize - first).unwrap_or(0).min(count);
        start..end.max(start)
    }

    /// Writes row `row` of the image with its borders, from column `first` on. What is in `to` beyond the mapped
    /// columns belongs to no output and becomes 0.
    fn pad(&self, to: &mut [f32], row: i32, first: isize, columns: &[i32], inside: Range<usize>) {
        let value = self.problem.border().value();
        let (to, beyond) = to.split_at_mut(columns.len());
        beyond.fill(0.0);
        if row == OUTSIDE {
            to.fill(value);
            return;
        }
        let width = self.problem.width();
        let from = &self.source[row as usize * width..][..width];
        for range in [0..inside.start, inside.end..columns.len()] {
            for (to, &column) in to[range.clone()].iter_mut().zip(&columns[range]) {
                *to = if column == OUTSIDE { value } else { from[column as usize] };
            }
        }
        if !inside.is_empty() {
            let start = (first + inside.start as isize) as usize;
            to[inside.clone()].copy_from_slice(&from[start..][..inside.len()]);
        }
    }
}
