//! Two filters with weights of a two-dimensional array in one pass over memory: the results of the first filter are
//! bands of rows that stay in a cache.
//!
//! ```text
//! rows of the input --first filter--> band --second filter--> rows of the output
//! ```
//! If the second filter is the one along the columns, it reads rows beyond those of its results. Neighbouring bands
//! both have these.

use std::ops::Range;

use super::axis::before;
use super::border::PaddedRange;
use super::lines::{Lines, Part, correlate1d_part};
use super::scratch::Scratch;
use super::{Along, AxisFilter, Input, Layout, Output, Sums, run_jobs};
use crate::Result;
use crate::parallel::threads;

/// Bytes of a band, unless the filter is high: half of a second-level cache.
const BAND: usize = 512 << 10;

/// Bytes of the smallest array that is cut into bands. A smaller one stays in the caches.
const LEAST: usize = 1 << 20;

/// A filter with weights along one axis.
type Weights<'a> = (&'a [f64], Lines);

/// Both filters and the arrays.
pub(super) struct Bands<'a> {
    input: &'a Input<'a>,
    output: &'a Output<'a>,
    filters: [Weights<'a>; 2],
    sums: Sums,
    height: usize,
    width: usize,
    /// Rows of results of a band.
    rows: usize,
    /// The most rows that a band needs of the first filter's results.
    most_rows: usize,
}

impl<'a> Bands<'a> {
    /// None unless the array is large, and [`with_rows`](Self::with_rows) takes it.
    pub(super) fn new(
        input: &'a Input<'a>,
        output: &'a Output<'a>,
        filters: &[AxisFilter<'a>],
        sums: Sums,
    ) -> Option<Self> {
        let &[height, width] = &output.layout.shape[..] else { return None };
        let row = width * output.layout.element.size();
        if height * row < LEAST {
            return None;
        }
        let size = filters.iter().find(|filter| filter.lines.axis == 0)?.along.size();
        let rows = (BAND / row).max(3 * size).min(height.div_ceil(threads()));
        Self::with_rows(input, output, filters, sums, rows)
    }

    /// Bands of so many rows. None unless these are two filters with weights, along each axis of an array that is not
    /// filtered in place, and a band needs no other rows than those near its own.
    pub(super) fn with_rows(
        input: &'a Input<'a>,
        output: &'a Output<'a>,
        filters: &[AxisFilter<'a>],
        sums: Sums,
        rows: usize,
    ) -> Option<Self> {
        let (&[height, width], &[first, second]) = (&input.layout.shape[..], filters) else { return None };
        let (Along::Weights(first_weights), Along::Weights(second_weights)) = (first.along, second.along) else {
            return None;
        };
        let axes = (first.lines.axis, second.lines.axis);
        if !matches!(axes, (0, 1) | (1, 0)) || std::ptr::eq(input.first, output.first) {
            return None;
        }
        let size = if axes.0 == 0 { first_weights.len() } else { second_weights.len() };
        let filters = [(first_weights, first.lines), (second_weights, second.lines)];
        let most_rows = rows + size;
        let bands = Self { input, output, filters, sums, height, width, rows, most_rows };
        // With a periodic border the first rows need the last ones.
        let is_near = |number| bands.needed(number).len() <= most_rows;
        (rows > 2 * size && is_near(0) && is_near(height.div_ceil(rows) - 1)).then_some(bands)
    }

    /// Filters.
    ///
    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub(super) fn run(&self) -> Result<()> {
        let taps = self.filters.iter().map(|(weights, _)| weights.len()).sum();
        let work = self.height.saturating_mul(self.width).saturating_mul(taps);
        let bands = self.height.div_ceil(self.rows);
        let bytes = self.most_rows * self.width * self.output.layout.element.size();
        let scratch = || Ok(Scratch::<f64>::new(bytes.div_ceil(size_of::<f64>())));
        run_jobs(bands, work, scratch, |band, number| {
            self.compute(number, band).expect("the filters, the types and the instruction set were checked");
        })
    }

    /// The rows of the results of a band.
    fn results(&self, number: usize) -> Range<usize> {
        number * self.rows..self.height.min((number + 1) * self.rows)
    }

    /// The rows of the first filter's results that a band needs.
    fn needed(&self, number: usize) -> Range<usize> {
        let results = self.results(number);
        let [_, (weights, lines)] = &self.filters;
        if lines.axis == 1 {
            return results;
        }
        let before = before(weights.len(), lines.origin);
        let count = results.len() + weights.len() - 1;
        let read = PaddedRange::new(lines.border, results.start as isize - before as isize, count, self.height);
        let rows = || read.iter().flatten();
        rows().min().unwrap_or(0)..rows().max().map_or(0, |row| row + 1)
    }

    /// Computes the results of a band.
    fn compute(&self, number: usize, band: &mut Scratch<f64>) -> Result<()> {
        let (results, needed) = (self.results(number), self.needed(number));
        let layout = Layout::dense(self.output.layout.element, &[needed.len(), self.width]);
        let band: *mut u8 = band.as_mut_ptr().cast();
        assert!(needed.len() <= self.most_rows);
        let [(first_weights, first), (second_weights, second)] = &self.filters;
        // What a filter computes along its axis: of the columns some rows, of the rows all. `from` is the input's first
        // row.
        let part = |lines: &Lines, rows: &Range<usize>, from: usize| match lines.axis {
            0 => Part::Some { results: rows.clone(), first: from, length: self.height },
            _ => Part::Some { results: 0..self.width, first: 0, length: self.width },
        };
        let rows_of =
            |layout: &Layout, rows: &Range<usize>| Layout { shape: vec![rows.len(), self.width], ..layout.clone() };
        let at = |layout: &Layout, row: usize| row as isize * layout.strides[0];

        let (from, to) = (&self.input.layout, &self.output.layout);
        // Along the columns the first filter reads beyond the band's rows.
        let read = if first.axis == 0 { 0..self.height } else { needed.clone() };
        // SAFETY: `read` are rows of the input. The band has room for the rows `needed`.
        let (input, filtered) = unsafe {
            let start = self.input.first.offset(at(from, read.start));
            (Input::from_raw(start, rows_of(from, &read))?, Output::from_raw(band, layout.clone())?)
        };
        correlate1d_part(input, filtered, first_weights, first, self.sums, part(first, &needed, 0))?;
        // SAFETY: the band's rows are written. Those of the results are rows of the output, and of this band alone.
        let (filtered, output) = unsafe {
            let start = self.output.first.offset(at(to, results.start));
            (Input::from_raw(band, layout)?, Output::from_raw(start, rows_of(to, &results))?)
        };
        correlate1d_part(filtered, output, second_weights, second, self.sums, part(second, &results, needed.start))
    }
}
