//! Uncertain integer results of an image of bytes, computed again in the order of the contract.
//!
//! A result is one chain of dependent multiply-adds, so several results are computed at once. With AVX2 and AVX-512
//! VBMI each is a lane of a vector: 16 bytes of each of 8 or 16 windows are loaded and transposed. Other CPUs use
//! [`CHAINS`] scalar chains.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use std::ops::Range;

use kernels_gpu::abi::border::{OUTSIDE, map};

use super::finish::{FinishRow, Results};
use super::line::{LineMap, image_rows};
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

    /// The sums of up to [`AT_ONCE`] windows. Each slice begins with the first pixel of a window. Pixels of a row are
    /// `step` bytes apart, rows are `stride` bytes apart.
    ///
    /// # Panics
    /// If there is no window, or a slice has less than [`SPARE`] bytes after its last pixel.
    pub(super) fn of<'w>(
        &self,
        stride: usize,
        step: usize,
        windows: impl ExactSizeIterator<Item = &'w [u8]>,
    ) -> [f32; AT_ONCE] {
        let needed = (self.height - 1) * stride + (self.width - 1) * step + 1 + SPARE;
        let (mut begins, count) = ([std::ptr::null(); AT_ONCE], windows.len());
        for (begin, pixels) in begins.iter_mut().zip(windows) {
            *begin = pixels[..needed].as_ptr();
        }
        let (used, unused) = begins.split_at_mut(count);
        unused.fill(used[0]);
        let windows = Windows { begins, count, stride, step, coefficients: &self.coefficients, width: self.width };
        let mut sums = [0.0; AT_ONCE];
        // SAFETY: all bytes of each window and SPARE more are there, as the index above has checked.
        unsafe { windows.add_to(self.level, &mut sums) };
        sums
    }
}

/// The image and the filter of results that are computed again.
pub(super) struct Recompute<'a> {
    /// The problem. The border's value is a byte.
    problem: &'a Problem,
    /// The image.
    image: &'a [u8],
    sums: OrderedSums,
    /// Whether to end early.
    cancel: &'a Cancel,
}

impl<'a> Recompute<'a> {
    /// For results of `image`.
    pub(super) fn new(problem: &'a Problem, image: &'a [u8], level: Level, cancel: &'a Cancel) -> Self {
        Self { problem, image, sums: OrderedSums::new(level, problem.window()), cancel }
    }

    /// Computes some results of a block again: row and column of each in the block, whose first output is value `left`
    /// of row `top`.
    ///
    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub(super) fn block(
        &self,
        (top, left): (usize, usize),
        again: &[(usize, usize)],
        results: &mut Results<'_>,
    ) -> Result<()> {
        let places: Vec<_> = again.iter().map(|&(row, column)| (top + row, left + column)).collect();
        let (pixel, last_step) = (results.pixel(), self.problem.last_step());
        let mut bytes = [0; AT_ONCE * size_of::<f32>()];
        let bytes = &mut bytes[..AT_ONCE * pixel.bytes()];
        self.sums(&places, |numbers, sums| {
            let uncertain = &mut Uncertain::none();
            self.sums.level.run(FinishRow { sums, unit: 1.0, last_step, uncertain, pixel, to: &mut *bytes });
            for (&number, value) in numbers.iter().zip(bytes.chunks_exact(pixel.bytes())) {
                let (row, column) = again[number];
                results.part(row, column..column + 1).copy_from_slice(value);
            }
        })
    }

    /// Calls `set` with the index of each place and its result before rounding to an integer. A place is a row and an
    /// interleaved column of the result. The sums have the bits of the ordered sums.
    ///
    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub(super) fn values(&self, places: &[(usize, usize)], mut set: impl FnMut(usize, f32)) -> Result<()> {
        self.sums(places, |numbers, sums| {
            for (&number, &sum) in numbers.iter().zip(sums) {
                set(number, self.problem.finish(sum));
            }
        })
    }

    /// Calls `set` with the indices of up to [`AT_ONCE`] places and their sums, until all have been there.
    fn sums(&self, places: &[(usize, usize)], mut set: impl FnMut(&[usize], &[f32; AT_ONCE])) -> Result<()> {
        let mut parts: [Vec<usize>; Part::COUNT] = Default::default();
        let is_small = self.problem.window().coefficients().len() <= SMALL;
        let (rows, columns) = self.inside();
        parts[Part::Inside as usize].reserve(places.len());
        for (number, place) in places.iter().enumerate() {
            let part = if rows.contains(&place.0) && columns.contains(&place.1) {
                Part::Inside
            } else if is_small {
                // One copy for each window.
                Part::Left
            } else {
                Self::part(place, &rows, &columns)
            };
            parts[part as usize].push(number);
        }
        let mut copy = Vec::new();
        for (part, numbers) in parts.iter().enumerate() {
            for numbers in numbers.chunks(AT_ONCE) {
                self.cancel.check()?;
                let places = numbers.iter().map(|&number| places[number]);
                let sums = if part == Part::Inside as usize {
                    self.sums_inside(places)
                } else if is_small {
                    self.sums_of_copies(&mut copy, places)
                } else {
                    self.sums_of_copy(&mut copy, places)
                };
                set(numbers, &sums);
            }
        }
        Ok(())
    }

    /// The sums of up to [`AT_ONCE`] places whose windows lie in the image. They are read in place.
    fn sums_inside(&self, places: impl ExactSizeIterator<Item = (usize, usize)>) -> [f32; AT_ONCE] {
        let (row, step) = (self.problem.row_values(), self.problem.format().channels);
        let (above, before) = self.problem.origin();
        self.sums.of(row, step, places.map(|(y, x)| &self.image[(y - above) * row + x - before * step..]))
    }

    /// The sums of up to [`AT_ONCE`] places, from a copy of the pixels under all of their windows. It has the border.
    fn sums_of_copy(
        &self,
        copy: &mut Vec<u8>,
        places: impl ExactSizeIterator<Item = (usize, usize)> + Clone,
    ) -> [f32; AT_ONCE] {
        let (mut top, mut bottom, mut left, mut right) = (usize::MAX, 0, usize::MAX, 0);
        for (y, x) in places.clone() {
            (top, bottom, left, right) = (top.min(y), bottom.max(y), left.min(x), right.max(x));
        }
        let (problem, span) = (self.problem, right + 1 - left);
        let step = problem.format().channels;
        let pitch = span + (problem.window().width() - 1) * step;
        let (map, rows) = (LineMap::new(problem, left, span), image_rows(problem, top, bottom + 1 - top));
        copy.resize(rows.len() * pitch + SPARE, 0);
        for (line, &row) in copy.chunks_exact_mut(pitch).zip(&rows) {
            map.fill_bytes(problem, self.image, row, line);
        }
        self.sums.of(pitch, step, places.map(|(y, x)| &copy[(y - top) * pitch + x - left..]))
    }

    /// The same for small windows, from a copy of each.
    fn sums_of_copies(
        &self,
        copy: &mut Vec<u8>,
        places: impl ExactSizeIterator<Item = (usize, usize)> + Clone,
    ) -> [f32; AT_ONCE] {
        let (problem, window) = (self.problem, self.problem.window());
        let (code, outside) = (problem.border().mode().code(), problem.border().value() as u8);
        let (above, before) = problem.origin();
        let (channels, width, area) = (problem.format().channels, problem.width() as i32, window.coefficients().len());
        copy.resize(places.len() * area + SPARE, 0);
        for ((y, x), copy) in places.clone().zip(copy.chunks_exact_mut(area)) {
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
        self.sums.of(window.width(), 1, (0..places.len()).map(|number| &copy[number * area..]))
    }

    /// Rows and columns of the places whose windows lie in the image, with [`SPARE`] bytes after the last row of each.
    fn inside(&self) -> (Range<usize>, Range<usize>) {
        let (problem, step) = (self.problem, self.problem.format().channels);
        let (above, before) = (problem.origin().0, problem.origin().1 * step);
        let (window, row) = (problem.window(), problem.row_values());
        let span = (window.width() - 1) * step;
        // Rows that end SPARE bytes before the image does.
        let readable = self.image.len().saturating_sub(SPARE) / row;
        let end = |count: usize, size: usize, before: usize| (count + before + 1).saturating_sub(size);
        (above..end(readable, window.height(), above), before..end(row, span + 1, before))
    }

    /// Where a window lies that is not [inside](Self::inside).
    fn part((y, x): &(usize, usize), rows: &Range<usize>, columns: &Range<usize>) -> Part {
        if *x < columns.start {
            Part::Left
        } else if *x >= columns.end {
            Part::Right
        } else if *y < rows.start {
            Part::Top
        } else {
            Part::Bottom
        }
    }
}

/// Whether results are computed in the lanes of vectors.
pub(super) fn has_lanes(level: Level) -> bool {
    matches!(level, Level::Avx2 | Level::Avx512) && level.is_available()
}

/// Where a window lies: inside the image, or over an edge. Windows over the same edge have few pixels under them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Inside,
    Left,
    Right,
    Top,
    Bottom,
}

impl Part {
    const COUNT: usize = 5;
}

/// Up to [`AT_ONCE`] windows.
struct Windows<'a> {
    /// The first pixel of each window. Unused entries repeat the first one.
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
