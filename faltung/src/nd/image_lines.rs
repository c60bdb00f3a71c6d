//! Separable masks of images: along the rows, then along the columns, in one pass over memory.
//!
//! ```text
//! row of the input --convert, write the border out--> padded line --along the row--> filtered lines
//! filtered lines --along the columns--> sums --last step--> row of the output
//! ```
//! A job takes a strip of columns. Its filtered lines stay in the second-level cache. Each result has the same sums in
//! any job, so results do not depend on the number of threads.
//!
//! Sums are of `f64`, or of `f32` if neither type rounds any of them.

use super::axis::{Axis, before};
use super::border::{PaddedRange, position};
use super::convert::{Conversion, Run, load_pixels, store};
use super::kernel::{Planes, Real, SLACK, TILE_ROWS, mirrored_sums, tile_sums, weighted_sums};
use super::line_filter::LineFilter;
use super::scratch::Scratch;
use super::{Input, Lines, Output, run_jobs};
use crate::cpu::simd::{Level, Simd, Work};
use crate::parallel::threads;
use crate::{Result, memory};

/// Values of a filtered line, unless the mask is wide.
const STRIP: usize = 512;

/// The columns of a strip are a multiple of this number. So its values are whole vectors, whatever the channels.
const COLUMNS: usize = 64;

/// Bytes of the filtered lines of a job, unless the mask is tall: half of a second-level cache.
const LINES: usize = 512 << 10;

/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// A separable mask and the images.
pub(super) struct ImageLines<'a, A, C> {
    input: &'a Input<'a>,
    output: &'a Output<'a>,
    /// Along a column, and along a row.
    filters: [LineFilter<A>; 2],
    /// The column for several rows of results at once. None if it has one weight.
    tile: Option<Planes<A>>,
    /// Values from one filtered line to the next: an odd number of cache lines. With a power of two, a column would fall
    /// into a few sets of the cache.
    pitch: usize,
    /// Columns of a strip.
    strip: usize,
    sizes: [usize; 2],
    /// Elements that a result reads before its own place, along both axes.
    before: [usize; 2],
    lines: [Lines; 2],
    last: C,
    rows: Axis,
    columns: Axis,
    channels: Axis,
}

impl<'a, A: Real, C: Conversion<A> + Sync> ImageLines<'a, A, C> {
    /// `weights` are those of the column, and those of the row.
    pub(super) fn new(
        input: &'a Input<'a>,
        output: &'a Output<'a>,
        weights: [&[f64]; 2],
        lines: [Lines; 2],
        last: C,
    ) -> Self {
        let axis = |number| Axis::of(input, output, number);
        let channels = if input.layout.shape.len() == 3 { axis(2) } else { Axis::ONE };
        let [column, row] = weights;
        let strip = (STRIP / channels.length).max(row.len()).next_multiple_of(COLUMNS).min(axis(1).length);
        let line = CACHE_LINE / size_of::<A>();
        let pitch = ((strip * channels.length).div_ceil(line) | 1) * line;
        let weights = weights.map(|weights| weights.iter().map(|&weight| A::from_f64(weight)).collect::<Vec<_>>());
        let tile = (column.len() > 1).then(|| Planes {
            offsets: vec![0],
            weights: weights[0].clone(),
            rows: column.len(),
            columns: 1,
            row_step: pitch,
            column_step: 1,
            partial: usize::MAX,
        });
        Self {
            input,
            output,
            filters: weights.each_ref().map(|weights| LineFilter::of(weights)),
            tile,
            pitch,
            strip,
            sizes: [column.len(), row.len()],
            before: [0, 1].map(|axis| before(weights[axis].len(), lines[axis].origin)),
            lines,
            last,
            rows: axis(0),
            columns: axis(1),
            channels,
        }
    }

    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled), [`Error::HostMemory`](crate::Error::HostMemory).
    pub(super) fn run(&self, level: Level) -> Result<()> {
        let (height, width, channels) = (self.rows.length, self.columns.length, self.channels.length);
        let [tall, wide] = self.sizes;
        let work = (height * width * channels).saturating_mul(tall + wide);
        let (columns, pitch) = (self.strip, self.pitch);
        let strips = width.div_ceil(columns);
        // A job filters the lines above its first result for itself alone.
        let bands = (4 * threads()).div_ceil(strips);
        let rows = height.div_ceil(bands).max(2 * tall).min(height);
        let together = (LINES / (size_of::<A>() * pitch)).saturating_sub(tall).max(tall).max(8).min(rows);
        let scratch = || {
            let length = (together + tall - 1) * pitch + SLACK + CACHE_LINE / size_of::<A>();
            let mut lines: Vec<A> = memory::with_capacity(length, "for the sums")?;
            lines.resize(length, A::ZERO);
            let padded = (columns + wide - 1) * channels + SLACK;
            Ok(Memory { padded: Scratch::new(padded), sums: Scratch::new(TILE_ROWS * pitch + SLACK), lines })
        };
        run_jobs(strips * height.div_ceil(rows), work, scratch, |memory, number| {
            let (top, left) = (number / strips * rows, number % strips * columns);
            let (bottom, right) = (height.min(top + rows), width.min(left + columns));
            let (start, read) = (left as isize - self.before[1] as isize, right - left + wide - 1);
            let range = PaddedRange::new(self.lines[1].border, start, read, width);
            let (count, padded) = ((right - left) * channels, read * channels);
            level.run(Strip { level, image: self, top, bottom, left, count, range, padded, together, memory });
        })
    }
}

/// Scratch memory of a thread.
struct Memory<A> {
    /// What a filtered line reads.
    padded: Scratch<A>,
    lines: Vec<A>,
    /// Rows of sums.
    sums: Scratch<A>,
}

/// A strip of columns of the rows `top..bottom`.
struct Strip<'a, A, C> {
    level: Level,
    image: &'a ImageLines<'a, A, C>,
    top: usize,
    bottom: usize,
    left: usize,
    /// Values of a row: columns times channels.
    count: usize,
    /// The columns that it reads.
    range: PaddedRange,
    /// Values of these in a row.
    padded: usize,
    /// Rows of results that are computed from the filtered lines before these make room for others.
    together: usize,
    memory: &'a mut Memory<A>,
}

impl<A: Real, C: Conversion<A>> Strip<'_, A, C> {
    /// Filters the input's row at a position along the columns.
    ///
    /// # Safety
    /// `to` has room for a line and [`SLACK`] more.
    #[inline(always)]
    unsafe fn filter_row<S: Simd>(&mut self, simd: S, at: isize, to: *mut A) {
        let ImageLines { input, filters, lines, rows, columns, channels, .. } = self.image;
        let padded = self.memory.padded.as_mut_ptr();
        let (element, outside) = (input.layout.element, A::from_f64(lines[1].value));
        // SAFETY: the row is in the input. The memory has room for the columns of the range, and SLACK more.
        unsafe {
            match position(lines[0].border, at, rows.length) {
                Some(row) => {
                    let from = input.first.wrapping_offset(row as isize * rows.from);
                    let of_pixel = Run::adjacent(channels.length, channels.from);
                    load_pixels(self.level, element, from, columns.from, of_pixel, &self.range, outside, padded);
                }
                None => std::slice::from_raw_parts_mut(padded, self.padded).fill(outside),
            }
            sums(simd, &filters[1], padded, channels.length, to, self.count);
        }
    }

    /// Writes the results of a row from their sums.
    ///
    /// # Safety
    /// The sums are there, and the row's places in this strip are this job's.
    #[inline(always)]
    unsafe fn write_row(&self, row: usize, sums: *const A) {
        let Self { level, image, left, count, .. } = *self;
        let &ImageLines { output, last, rows, columns, channels, .. } = image;
        let to = output.first.wrapping_offset(row as isize * rows.to).wrapping_offset(left as isize * columns.to);
        let channels = Run::adjacent(channels.length, channels.to);
        let (of_channels, of_row) = Run::of_pixels(count / channels.count, columns.to, channels);
        // SAFETY: as this function requires.
        unsafe { store(level, output.layout.element, sums, to, of_channels, of_row, last) };
    }
}

/// The sums of a filter: `count` of them, of values that are `step` places apart. The first one begins at `from`.
///
/// # Safety
/// The values that the sums read, and [`SLACK`] more, are there. So is room for the sums and [`SLACK`] more, and no
/// value is there.
#[inline(always)]
unsafe fn sums<S: Simd, A: Real>(
    simd: S,
    filter: &LineFilter<A>,
    from: *const A,
    step: usize,
    to: *mut A,
    count: usize,
) {
    // SAFETY: a group of values is at most SLACK. The rest is as this function requires.
    unsafe {
        match filter {
            LineFilter::Mirrored(mirrored) => {
                let (from, step) = (from.add(mirrored.before.len() * step), step as isize);
                if mirrored.is_odd {
                    mirrored_sums::<_, _, true>(simd, from, step, mirrored, to, count);
                } else {
                    mirrored_sums::<_, _, false>(simd, from, step, mirrored, to, count);
                }
            }
            LineFilter::Taps(taps) => weighted_sums(simd, from, step as isize, taps, usize::MAX, to, count),
            LineFilter::Windows(_) | LineFilter::Running(_) => unreachable!("weights are no means"),
        }
    }
}

impl<A: Real, C: Conversion<A>> Work for Strip<'_, A, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(mut self, simd: S) {
        let Self { image, top, bottom, count, together, .. } = self;
        let &ImageLines { ref filters, ref tile, sizes: [tall, _], before, pitch, .. } = image;
        let skipped = self.memory.lines.as_ptr().align_offset(CACHE_LINE).min(CACHE_LINE / size_of::<A>());
        // SAFETY: the memory is one cache line longer than the lines.
        let lines = unsafe { self.memory.lines.as_mut_ptr().add(skipped) };
        // Lines that are filtered already: the last ones that the results above have read.
        let mut filtered = 0;
        for y in (top..bottom).step_by(together) {
            let results = together.min(bottom - y);
            let needed = results + tall - 1;
            for line in filtered..needed {
                let at = (y + line) as isize - before[0] as isize;
                // SAFETY: the memory has room for so many lines, and SLACK more.
                unsafe { self.filter_row(simd, at, lines.add(line * pitch)) };
            }
            let mut result = 0;
            while result < results {
                let to_sums = self.memory.sums.as_mut_ptr();
                let tile = tile.as_ref().filter(|_| results - result >= TILE_ROWS);
                // SAFETY: the lines from this one on are those that the results read. The memory has room for their
                // sums.
                let computed = unsafe {
                    let from = lines.add(result * pitch);
                    match tile {
                        Some(tile) => {
                            tile_sums::<_, _, V>(simd, from, tile, to_sums, pitch as isize, count);
                            TILE_ROWS
                        }
                        None => {
                            sums(simd, &filters[0], from, pitch, to_sums, count);
                            1
                        }
                    }
                };
                for i in 0..computed {
                    // SAFETY: the places of these results are this job's.
                    unsafe { self.write_row(y + result + i, to_sums.add(i * pitch)) };
                }
                result += computed;
            }
            filtered = tall - 1;
            // SAFETY: these are lines of the memory.
            unsafe { lines.copy_from(lines.add(results * pitch), filtered * pitch) };
        }
    }
}
