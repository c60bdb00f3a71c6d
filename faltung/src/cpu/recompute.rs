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

/// The most pixels of a window of which a copy of its own takes less time than one copy for all along an edge.
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
    /// If there is no window, or there are less than [`SPARE`] bytes after the last pixel of a window.
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
        assert!((1..=AT_ONCE).contains(&count));
        assert!(last + (self.height - 1) * stride + (self.width - 1) * step + 1 + SPARE <= pixels.len());
        let windows = Windows { begins, count, stride, step, coefficients: &self.coefficients, width: self.width };
        let mut sums = [0.0; AT_ONCE];
        // SAFETY: all bytes of each window and SPARE more are there, as asserted. An unused entry is the first of them.
        unsafe { windows.add_to(self.level, &mut sums) };
        sums
    }
}

/// Uncertain results of a block. They wait until [`AT_ONCE`] of them can be computed together.
pub(super) struct Recompute<'a> {
    /// The problem. The border's value is a byte.
    problem: &'a Problem,
    image: &'a [u8],
    level: Level,
    /// Whether to end early.
    cancel: &'a Cancel,
    /// The block's first output: row and value of the row.
    first: (usize, usize),
    /// Made for the first results.
    sums: OnceCell<OrderedSums>,
    /// Rows and values of a row whose windows lie in the image, with [`SPARE`] bytes after the last row of each.
    inside: (Range<usize>, Range<usize>),
    /// Results whose windows lie in the image.
    waiting: Vec<Waiting>,
    /// The others.
    at_edges: Vec<Place>,
}

/// A result of a block: row and column.
type Place = (usize, usize);

/// A result whose window lies in the image.
#[derive(Clone, Copy)]
struct Waiting {
    /// The index of the window's first pixel.
    start: usize,
    place: Place,
}

impl<'a> Recompute<'a> {
    /// For the results of a block of `source` whose first output is value `first.1` of row `first.0`. Only images of
    /// bytes have uncertain results.
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
            inside: inside(problem, image),
            waiting: Vec::new(),
            at_edges: Vec::new(),
        }
    }

    /// Notes that some results of a row are to be computed again.
    #[inline]
    pub(super) fn push(&mut self, row: usize, columns: impl IntoIterator<Item = usize>) {
        let (y, (above, before)) = (self.first.0 + row, self.problem.origin());
        let (rows, inside) = self.inside.clone();
        if !rows.contains(&y) {
            return self.at_edges.extend(columns.into_iter().map(|column| (row, column)));
        }
        let start = (y - above) * self.problem.row_values();
        let before = before * self.problem.format().channels;
        for column in columns {
            let x = self.first.1 + column;
            if inside.contains(&x) {
                self.waiting.push(Waiting { start: start + x - before, place: (row, column) });
            } else {
                self.at_edges.push((row, column));
            }
        }
    }

    /// Whether no result waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.at_edges.is_empty()
    }

    /// Computes results, [`AT_ONCE`] at a time, as long as there are so many.
    ///
    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub(super) fn compute_batches(&mut self, results: &mut Results<'_>) -> Result<()> {
        let whole = self.waiting.len() / AT_ONCE * AT_ONCE;
        if whole == 0 {
            return Ok(());
        }
        self.compute_waiting(whole, results)
    }

    /// Computes all results that still wait.
    ///
    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub(super) fn compute_rest(&mut self, results: &mut Results<'_>) -> Result<()> {
        self.compute_waiting(self.waiting.len(), results)?;
        if self.at_edges.is_empty() {
            return Ok(());
        }
        let mut copy = Vec::new();
        if self.problem.window().coefficients().len() <= SMALL {
            for places in self.at_edges.chunks(AT_ONCE) {
                self.cancel.check()?;
                let sums = self.sums_of_copies(&mut copy, places);
                self.put(&sums, places.iter().copied(), results);
            }
        } else {
            // Windows over the same edge have few pixels under them.
            let mut edges: [Vec<Place>; 4] = Default::default();
            for &place in &self.at_edges {
                edges[self.edge(place)].push(place);
            }
            for places in edges.iter().flat_map(|places| places.chunks(AT_ONCE)) {
                self.cancel.check()?;
                let sums = self.sums_of_copy(&mut copy, places);
                self.put(&sums, places.iter().copied(), results);
            }
        }
        self.at_edges.clear();
        Ok(())
    }

    fn sums(&self) -> &OrderedSums {
        self.sums.get_or_init(|| OrderedSums::new(self.level, self.problem.window()))
    }

    /// Computes the first `count` results whose windows lie in the image. They are read in place.
    fn compute_waiting(&mut self, count: usize, results: &mut Results<'_>) -> Result<()> {
        let apart = (self.problem.row_values(), self.problem.format().channels);
        for waiting in self.waiting[..count].chunks(AT_ONCE) {
            self.cancel.check()?;
            let sums = self.sums().of(self.image, apart, waiting.iter().map(|waiting| waiting.start));
            self.put(&sums, waiting.iter().map(|waiting| waiting.place), results);
        }
        self.waiting.drain(..count);
        Ok(())
    }

    /// Finishes sums, and writes them.
    fn put(&self, sums: &[f32; AT_ONCE], places: impl Iterator<Item = Place>, results: &mut Results<'_>) {
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
        for (&(row, column), copy) in places.iter().zip(copy.chunks_exact_mut(area)) {
            let (y, x) = (self.first.0 + row, self.first.1 + column);
            let (first, channel) = ((x / channels) as i32 - before as i32, x % channels);
            for (line, k) in copy.chunks_exact_mut(window.width()).zip(0..) {
                let row = map(code, y as i32 - above as i32 + k, problem.height() as i32);
                if row == OUTSIDE {
                    line.fill(outside);
                    continue;
                }
                let row = &self.image[row as usize * problem.row_values()..][..problem.row_values()];
                for (to, l) in line.iter_mut().zip(0..) {
                    *to = match map(code, first + l, width) {
                        OUTSIDE => outside,
                        column => row[column as usize * channels + channel],
                    };
                }
            }
        }
        self.sums().of(copy, (window.width(), 1), (0..places.len()).map(|number| number * area))
    }

    /// The edge that a window lies over: left, right, top or bottom.
    fn edge(&self, (row, column): Place) -> usize {
        let (y, x) = (self.first.0 + row, self.first.1 + column);
        let (rows, columns) = &self.inside;
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

/// Rows and values of a row whose windows lie in the image, with [`SPARE`] bytes after the last row of each.
fn inside(problem: &Problem, image: &[u8]) -> (Range<usize>, Range<usize>) {
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
    /// Each row of each window is valid for reads up to its last pixel and of [`SPARE`] bytes more.
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
