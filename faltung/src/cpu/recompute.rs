//! Uncertain integer results of an image of bytes, computed again in the order of the contract.
//!
//! A result is one chain of dependent multiply-adds, so several results are computed at once. With AVX2 and AVX-512
//! VBMI each is a lane of a vector: 16 bytes of each of 8 or 16 windows are loaded and transposed. Other CPUs use
//! [`CHAINS`] scalar chains.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use std::cell::OnceCell;
use std::ops::Range;

use kernels_gpu::abi::border::{OUTSIDE, map};

use super::finish::{FinishRow, Results};
use super::line::{LineMap, Values, image_rows};
use super::simd::{Level, Simd, Work};
use super::uncertain::Uncertain;
use crate::parallel::Cancel;
use crate::{Mask, Problem, Result};

/// Scalar chains at once. A step of a chain waits some four cycles for the one before, and two steps begin in a cycle.
const CHAINS: usize = 8;

/// Results at once: four vectors of AVX-512.
pub(super) const AT_ONCE: usize = 64;

/// Up to so many coefficients, a copy for each window takes less time than one for [`AT_ONCE`] windows.
const SMALL: usize = 256;

/// Bytes that must be readable after the last pixel of a window's row: 64 are loaded at once.
pub(super) const SPARE: usize = 64;

/// The ordered sums of windows of bytes.
#[derive(Debug)]
pub(super) struct OrderedSums {
    level: Level,
    /// The coefficients, each row zero-padded to a multiple of four. A padding product is +0. It changes no sum.
    coefficients: Vec<f32>,
    width: usize,
    height: usize,
}

impl OrderedSums {
    /// For the windows of a mask.
    pub(super) fn new(level: Level, window: &Mask) -> Self {
        let (width, height) = (window.width(), window.height());
        let mut coefficients = Vec::with_capacity(height * width.next_multiple_of(4));
        for row in window.coefficients().chunks_exact(width) {
            coefficients.extend_from_slice(row);
            coefficients.resize(coefficients.len().next_multiple_of(4), 0.0);
        }
        Self { level, coefficients, width, height }
    }

    /// The sums of up to [`AT_ONCE`] windows of an image or a part of one. `starts` has the index of the first pixel of
    /// each window. Pixels of a row are `step` bytes apart, rows are `stride` bytes apart.
    ///
    /// # Panics
    /// If there is no window, or more than [`AT_ONCE`], or fewer than [`SPARE`] bytes after the last pixel of one.
    pub(super) fn of(
        &self,
        pixels: &[u8],
        (stride, step): (usize, usize),
        starts: impl ExactSizeIterator<Item = usize>,
    ) -> [f32; AT_ONCE] {
        let (mut begins, count, mut last) = ([pixels.as_ptr(); AT_ONCE], starts.len(), 0);
        for (begin, start) in begins.iter_mut().zip(starts) {
            last = last.max(start);
            *begin = begin.wrapping_add(start);
        }
        assert!((1..=AT_ONCE).contains(&count), "{count} windows");
        let needed = (self.height - 1) * stride + (self.width - 1) * step + 1 + SPARE;
        let last_start = pixels.len().checked_sub(needed);
        assert!(last_start.is_some_and(|most| last <= most), "a window from {last} on in {} pixels", pixels.len());
        let windows = Windows { begins, count, stride, step, coefficients: &self.coefficients, width: self.width };
        let mut sums = [0.0; AT_ONCE];
        // SAFETY: all bytes of each window and SPARE more are there, as asserted. Unused entries point to `pixels[0]`.
        // No start is smaller, so a window fits there, too.
        unsafe { windows.add_to(self.level, &mut sums) };
        sums
    }
}

/// Uncertain results of a block. Those whose windows can be read in place are computed [`AT_ONCE`] at a time. The
/// others are computed at the end, from copies of the pixels. A column is the index of an interleaved value.
pub(super) struct Recompute<'a> {
    /// The problem. The border's value is a byte.
    problem: &'a Problem,
    image: &'a [u8],
    level: Level,
    /// Whether to end early.
    cancel: &'a Cancel,
    /// Row and column of the block's first result.
    first: (usize, usize),
    /// Made for the first results.
    sums: OnceCell<OrderedSums>,
    /// The rows and the columns of results whose windows can be read in place: they lie in the image, with [`SPARE`]
    /// bytes after them.
    in_place: (Range<usize>, Range<usize>),
    /// Results whose windows can be read in place.
    waiting: Vec<Waiting>,
    /// The others.
    by_copy: Vec<Place>,
}

/// Row and column of a result in its block.
type Place = (usize, usize);

/// A result whose window can be read in place.
struct Waiting {
    /// The index of the window's first pixel.
    start: usize,
    place: Place,
}

impl<'a> Recompute<'a> {
    /// For the results of a block, whose first result has row and column `first`. Only images of bytes have uncertain
    /// results.
    pub(super) fn new(
        problem: &'a Problem,
        source: Values<'a>,
        level: Level,
        cancel: &'a Cancel,
        first: (usize, usize),
    ) -> Self {
        let image = if let Values::U8(image) = source { image } else { &[] };
        Self {
            problem,
            image,
            level,
            cancel,
            first,
            sums: OnceCell::new(),
            in_place: in_place(problem, image),
            waiting: Vec::new(),
            by_copy: Vec::new(),
        }
    }

    /// Notes that some results of a row are to be computed again.
    #[inline]
    pub(super) fn push(&mut self, row: usize, columns: impl IntoIterator<Item = usize>) {
        debug_assert!(!self.image.is_empty(), "only images of bytes have uncertain results");
        let (y, (above, pixels_before)) = (self.first.0 + row, self.problem.origin());
        let (rows, in_place) = self.in_place.clone();
        if !rows.contains(&y) {
            return self.by_copy.extend(columns.into_iter().map(|column| (row, column)));
        }
        let start = (y - above) * self.problem.row_values();
        let before = pixels_before * self.problem.format().channels;
        for column in columns {
            let x = self.first.1 + column;
            if in_place.contains(&x) {
                self.waiting.push(Waiting { start: start + x - before, place: (row, column) });
            } else {
                self.by_copy.push((row, column));
            }
        }
    }

    /// Whether no result waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.by_copy.is_empty()
    }

    /// Computes results whose windows can be read in place, [`AT_ONCE`] at a time, as long as there are so many.
    ///
    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub(super) fn compute_batches(&mut self, results: &mut Results<'_>) -> Result<()> {
        match self.waiting.len() / AT_ONCE * AT_ONCE {
            0 => Ok(()),
            count => self.compute_waiting(count, results),
        }
    }

    /// Computes all results that still wait.
    ///
    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub(super) fn compute_rest(&mut self, results: &mut Results<'_>) -> Result<()> {
        self.compute_waiting(self.waiting.len(), results)?;
        if self.by_copy.is_empty() {
            return Ok(());
        }
        let mut copy = Vec::new();
        if self.problem.window().coefficients().len() <= SMALL {
            for places in self.by_copy.chunks(AT_ONCE) {
                self.cancel.check()?;
                let sums = self.sums_of_copies(&mut copy, places);
                self.write(&sums, places.iter().copied(), results);
            }
        } else {
            // Windows over one edge are close together, so a copy of the pixels under all of them is small.
            let mut edges: [Vec<Place>; 4] = Default::default();
            for &place in &self.by_copy {
                edges[self.edge(place)].push(place);
            }
            for places in edges.iter().flat_map(|places| places.chunks(AT_ONCE)) {
                self.cancel.check()?;
                let sums = self.sums_of_copy(&mut copy, places);
                self.write(&sums, places.iter().copied(), results);
            }
        }
        self.by_copy.clear();
        Ok(())
    }

    fn sums(&self) -> &OrderedSums {
        self.sums.get_or_init(|| OrderedSums::new(self.level, self.problem.window()))
    }

    /// Computes the first `count` results whose windows can be read in place.
    fn compute_waiting(&mut self, count: usize, results: &mut Results<'_>) -> Result<()> {
        let strides = (self.problem.row_values(), self.problem.format().channels);
        for waiting in self.waiting[..count].chunks(AT_ONCE) {
            self.cancel.check()?;
            let sums = self.sums().of(self.image, strides, waiting.iter().map(|waiting| waiting.start));
            self.write(&sums, waiting.iter().map(|waiting| waiting.place), results);
        }
        self.waiting.drain(..count);
        Ok(())
    }

    /// Finishes sums, and writes them.
    fn write(&self, sums: &[f32; AT_ONCE], places: impl Iterator<Item = Place>, results: &mut Results<'_>) {
        let (pixel, last_step) = (results.pixel(), self.problem.last_step());
        let mut bytes = [0; AT_ONCE * size_of::<f32>()];
        let bytes = &mut bytes[..AT_ONCE * pixel.bytes()];
        let uncertain = &mut Uncertain::none();
        self.level.run(FinishRow { sums, unit: 1.0, last_step, uncertain, pixel, to: &mut *bytes });
        results.scatter(places, bytes);
    }

    /// The sums of up to [`AT_ONCE`] places, from a copy of the pixels under all of their windows. It has the border.
    fn sums_of_copy(&self, copy: &mut Vec<u8>, places: &[Place]) -> [f32; AT_ONCE] {
        let (mut top, mut bottom, mut left, mut right) = (usize::MAX, 0, usize::MAX, 0);
        for &(row, column) in places {
            (top, bottom, left, right) = (top.min(row), bottom.max(row), left.min(column), right.max(column));
        }
        let (problem, span) = (self.problem, right + 1 - left);
        let step = problem.format().channels;
        let pitch = span + (problem.window().width() - 1) * step;
        let map = LineMap::new(problem, self.first.1 + left, span);
        let rows = image_rows(problem, self.first.0 + top, bottom + 1 - top);
        copy.resize(rows.len() * pitch + SPARE, 0);
        for (line, &row) in copy.chunks_exact_mut(pitch).zip(&rows) {
            map.fill_bytes(problem, self.image, row, line);
        }
        self.sums().of(copy, (pitch, step), places.iter().map(|&(row, column)| (row - top) * pitch + column - left))
    }

    /// The same for small windows, from a copy of each.
    fn sums_of_copies(&self, copy: &mut Vec<u8>, places: &[Place]) -> [f32; AT_ONCE] {
        let (problem, window) = (self.problem, self.problem.window());
        let (code, outside) = (problem.border().mode().code(), problem.border().value() as u8);
        let (above, before) = problem.origin();
        let (channels, width, area) = (problem.format().channels, problem.width() as i32, window.coefficients().len());
        copy.resize(places.len() * area + SPARE, 0);
        for (&(row, column), of_window) in places.iter().zip(copy.chunks_exact_mut(area)) {
            let (y, x) = (self.first.0 + row, self.first.1 + column);
            let (left, channel) = ((x / channels) as i32 - before as i32, x % channels);
            for (line, k) in of_window.chunks_exact_mut(window.width()).zip(0..) {
                let image_row = map(code, y as i32 - above as i32 + k, problem.height() as i32);
                if image_row == OUTSIDE {
                    line.fill(outside);
                    continue;
                }
                let values = &self.image[image_row as usize * problem.row_values()..][..problem.row_values()];
                for (to, l) in line.iter_mut().zip(0..) {
                    *to = match map(code, left + l, width) {
                        OUTSIDE => outside,
                        pixel => values[pixel as usize * channels + channel],
                    };
                }
            }
        }
        self.sums().of(copy, (window.width(), 1), (0..places.len()).map(|number| number * area))
    }

    /// The edge at which a window can't be read in place: left, right, top or bottom.
    fn edge(&self, (row, column): Place) -> usize {
        let (y, x) = (self.first.0 + row, self.first.1 + column);
        let (rows, columns) = &self.in_place;
        if x < columns.start {
            0
        } else if x >= columns.end {
            1
        } else if y < rows.start {
            2
        } else {
            3
        }
    }
}

/// The rows and the columns of results whose windows lie in the image, with [`SPARE`] bytes after the last row of each.
fn in_place(problem: &Problem, image: &[u8]) -> (Range<usize>, Range<usize>) {
    let step = problem.format().channels;
    let (above, before) = (problem.origin().0, problem.origin().1 * step);
    let (window, row) = (problem.window(), problem.row_values());
    let span = (window.width() - 1) * step;
    // Rows that end SPARE bytes before the image does.
    let readable = image.len().saturating_sub(SPARE) / row;
    let end = |count: usize, size: usize, before: usize| (count + before + 1).saturating_sub(size);
    (above..end(readable, window.height(), above), before..end(row, span + 1, before))
}

/// Whether results are computed in the lanes of vectors.
pub(super) fn has_lanes(level: Level) -> bool {
    matches!(level, Level::Avx2 | Level::Avx512) && level.is_available()
}

/// Up to [`AT_ONCE`] windows.
struct Windows<'a> {
    /// The first pixel of each window. Unused entries point to pixels, too.
    begins: [*const u8; AT_ONCE],
    /// Windows.
    count: usize,
    /// Bytes from a row of a window to the next.
    stride: usize,
    /// Bytes from a pixel of a row to the next.
    step: usize,
    /// The coefficients. Each row is zero-padded to [`pitch`](Self::pitch) values.
    coefficients: &'a [f32],
    /// The coefficients of a row.
    width: usize,
}

impl Windows<'_> {
    /// Coefficients from a row to the next.
    fn pitch(&self) -> usize {
        self.width.next_multiple_of(4)
    }

    /// Adds the products of each window to its sum, in order.
    ///
    /// # Safety
    /// At each of the [`AT_ONCE`] entries of `begins` there is a window. Each of its rows is valid for reads up to its
    /// last pixel and of [`SPARE`] bytes more.
    unsafe fn add_to(&self, level: Level, sums: &mut [f32; AT_ONCE]) {
        #[cfg(target_arch = "x86_64")]
        if level.has_byte_instructions() {
            // SAFETY: the CPU has the instructions; the memory is there, as this function requires.
            return unsafe { avx512::add(self, sums) };
        }
        #[cfg(target_arch = "x86_64")]
        if has_lanes(level) {
            // SAFETY: both levels have the instructions of AVX2; the memory is there, as this function requires.
            return unsafe { avx2::add(self, sums) };
        }
        let span = (self.width - 1) * self.step + 1;
        for (k, coefficients) in self.coefficients.chunks_exact(self.pitch()).enumerate() {
            // SAFETY: the row's pixels are there, as this function requires.
            let rows = self.begins.map(|begin| unsafe { std::slice::from_raw_parts(begin.add(k * self.stride), span) });
            level.run(Chains {
                coefficients: &coefficients[..self.width],
                step: self.step,
                rows: &rows[..self.count],
                sums,
            });
        }
    }
}

/// A row of some windows, with scalar instructions.
struct Chains<'a> {
    coefficients: &'a [f32],
    step: usize,
    rows: &'a [&'a [u8]],
    sums: &'a mut [f32],
}

impl Work for Chains<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, _: S) {
        let Self { coefficients, step, rows, sums } = self;
        for (sums, rows) in sums.chunks_mut(CHAINS).zip(rows.chunks(CHAINS)) {
            ordered_steps(coefficients, rows, step, sums);
        }
    }
}

/// Adds one row of a window to several ordered sums: one fused multiply-add a coefficient, from left to right. `rows`
/// are the pixels from the first coefficient's on, `step` values apart.
#[inline(always)]
pub(super) fn ordered_steps<T: Copy + Into<f32>>(coefficients: &[f32], rows: &[&[T]], step: usize, sums: &mut [f32]) {
    for (l, &coefficient) in coefficients.iter().enumerate() {
        for (sum, row) in sums.iter_mut().zip(rows) {
            *sum = coefficient.mul_add(row[l * step].into(), *sum);
        }
    }
}
