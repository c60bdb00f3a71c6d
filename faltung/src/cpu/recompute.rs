//! Uncertain integer results of an image of bytes, computed again in the order of the contract.
//!
//! A result is one chain of dependent multiply-adds, so several results are computed at once. With AVX2 and AVX-512
//! VBMI each is a lane of a vector: the bytes of 8 or 16 windows are loaded and transposed. Other CPUs use [`CHAINS`]
//! scalar chains.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use kernels_gpu::abi::border::{OUTSIDE, map};

use super::finish::Results;
use super::simd::{Level, Simd, Work};
use crate::Problem;

/// Scalar chains at once. A step of a chain waits some four cycles for the one before, and two steps begin in a cycle.
const CHAINS: usize = 8;

/// Results at once: four vectors of AVX-512.
const AT_ONCE: usize = 64;

/// Bytes that must be readable after the last pixel of a window's row: 64 are loaded at once.
const SPARE: usize = 64;

/// The image and the filter of results that are computed again.
pub(super) struct Recompute<'a> {
    /// The problem. The border's value is a byte.
    problem: &'a Problem,
    /// The image.
    image: &'a [u8],
    /// The instructions.
    level: Level,
    /// The window's coefficients, each row zero-padded to a multiple of four. A padding product is +0. It changes no
    /// sum.
    coefficients: Vec<f32>,
}

impl<'a> Recompute<'a> {
    /// For results of `image`.
    pub(super) fn new(problem: &'a Problem, image: &'a [u8], level: Level) -> Self {
        let width = problem.window().width();
        let mut coefficients = Vec::with_capacity(problem.window().height() * width.next_multiple_of(4));
        for row in problem.window().coefficients().chunks_exact(width) {
            coefficients.extend_from_slice(row);
            coefficients.resize(coefficients.len().next_multiple_of(4), 0.0);
        }
        Self { problem, image, level, coefficients }
    }

    /// Computes some results of a block again: row and column of each in the block, whose first output is value `left`
    /// of row `top`.
    pub(super) fn block(&self, (top, left): (usize, usize), again: &[(usize, usize)], results: &mut Results<'_>) {
        let places: Vec<_> = again.iter().map(|&(row, column)| (top + row, left + column)).collect();
        self.values(&places, |number, value| {
            let (row, column) = again[number];
            results.set(row, column, value);
        });
    }

    /// Calls `set` with the index of each place and its result before rounding to an integer. A place is a row and an
    /// interleaved column of the result. The sums have the bits of the ordered sums.
    pub(super) fn values(&self, places: &[(usize, usize)], mut set: impl FnMut(usize, f32)) {
        // Windows that lie in the image are read in place.
        let (inside, beside): (Vec<usize>, Vec<usize>) = (0..places.len()).partition(|&i| self.is_inside(places[i]));
        let mut copies = Copies::default();
        for (numbers, inside) in [(inside, true), (beside, false)] {
            for numbers in numbers.chunks(AT_ONCE) {
                let places = numbers.iter().map(|&number| places[number]);
                let sums = if inside { self.sums_inside(places) } else { self.sums_of_copies(&mut copies, places) };
                for (&number, sum) in numbers.iter().zip(sums) {
                    set(number, self.problem.finish(sum));
                }
            }
        }
    }

    /// The sums of up to [`AT_ONCE`] places whose windows lie in the image.
    fn sums_inside(&self, places: impl ExactSizeIterator<Item = (usize, usize)>) -> [f32; AT_ONCE] {
        let (row, step) = (self.problem.row_values(), self.problem.format().channels);
        let (above, before) = self.problem.origin();
        let mut sums = [0.0; AT_ONCE];
        let windows = WindowRows::new(
            self,
            &self.coefficients,
            row,
            places.map(|(y, x)| {
                assert!(self.is_inside((y, x)), "the window of {:?} is not in the image", (y, x));
                self.image[(y - above) * row + x - before * step..].as_ptr()
            }),
        );
        // SAFETY: each window lies in the image, with SPARE bytes after its last row, as asserted.
        unsafe { windows.add_to(self.level, &mut sums) };
        sums
    }

    /// The sums of up to [`AT_ONCE`] places, from copies of the rows of their windows.
    fn sums_of_copies(
        &self,
        Copies { rows, columns }: &mut Copies,
        places: impl ExactSizeIterator<Item = (usize, usize)> + Clone,
    ) -> [f32; AT_ONCE] {
        let (width, step) = (self.problem.window().width(), self.problem.format().channels);
        let length = (width - 1) * step + 1 + SPARE;
        rows.resize(AT_ONCE * length, 0);
        columns.clear();
        for (_, x) in places.clone() {
            self.push_columns(columns, x);
        }
        let mut sums = [0.0; AT_ONCE];
        for (k, coefficients) in self.coefficients.chunks_exact(width.next_multiple_of(4)).enumerate() {
            let copies = rows.chunks_exact_mut(length).zip(columns.chunks_exact(width));
            for ((copy, columns), (y, x)) in copies.zip(places.clone()) {
                self.copy_row(copy, columns, self.row(y, k), x);
            }
            let begins = rows.chunks_exact(length).map(<[u8]>::as_ptr).take(places.len());
            let windows = WindowRows::new(self, coefficients, 0, begins);
            // SAFETY: the rows are one, and each copy has SPARE bytes after its pixels.
            unsafe { windows.add_to(self.level, &mut sums) };
        }
        sums
    }

    /// Whether the window of a place lies in the image, with [`SPARE`] bytes after its last row.
    fn is_inside(&self, (y, x): (usize, usize)) -> bool {
        let (problem, step) = (self.problem, self.problem.format().channels);
        let (above, before) = (problem.origin().0, problem.origin().1 * step);
        let (bottom, span) = (y + problem.window().height(), (problem.window().width() - 1) * step + 1);
        y >= above
            && bottom <= problem.height() + above
            && x >= before
            && x - before + span <= problem.row_values()
            && (bottom - above - 1) * problem.row_values() + x - before + span + SPARE <= self.image.len()
    }

    /// The row of the image under row `k` of the window of output row `y`, or [`OUTSIDE`].
    fn row(&self, y: usize, k: usize) -> i32 {
        let row = (y + k) as i32 - self.problem.origin().0 as i32;
        map(self.problem.border().mode().code(), row, self.problem.height() as i32)
    }

    /// Appends the columns of the image under the window of value `x`, or [`OUTSIDE`].
    fn push_columns(&self, columns: &mut Vec<i32>, x: usize) {
        let (problem, code) = (self.problem, self.problem.border().mode().code());
        let first = (x / problem.format().channels) as i32 - problem.origin().1 as i32;
        columns.extend((first..first + problem.window().width() as i32).map(|c| map(code, c, problem.width() as i32)));
    }

    /// Copies the values under a row of the window of value `x`, which are in these columns of row `row` of the image.
    fn copy_row(&self, copy: &mut [u8], columns: &[i32], row: i32, x: usize) {
        let (problem, step) = (self.problem, self.problem.format().channels);
        let outside = problem.border().value() as u8;
        if row == OUTSIDE {
            copy.fill(outside);
            return;
        }
        let row = &self.image[row as usize * problem.row_values()..][..problem.row_values()];
        let channel = x % step;
        // Those inside follow one another.
        let width = columns.len() as i32;
        let first = (x / step) as i32 - problem.origin().1 as i32;
        let inside = (-first).clamp(0, width) as usize..(problem.width() as i32 - first).clamp(0, width) as usize;
        if !inside.is_empty() {
            let (from, span) = (columns[inside.start] as usize * step + channel, (inside.len() - 1) * step + 1);
            copy[inside.start * step..][..span].copy_from_slice(&row[from..][..span]);
        }
        for l in (0..inside.start).chain(inside.end..columns.len()) {
            copy[l * step] = if columns[l] == OUTSIDE { outside } else { row[columns[l] as usize * step + channel] };
        }
    }
}

/// Whether results are computed in the lanes of vectors.
pub(super) fn has_lanes(level: Level) -> bool {
    matches!(level, Level::Avx2 | Level::Avx512) && level.is_available()
}

/// Rows of the windows that are computed at once, copied with the border.
#[derive(Default)]
struct Copies {
    rows: Vec<u8>,
    /// The columns of the image under each window, or [`OUTSIDE`].
    columns: Vec<i32>,
}

/// Rows of up to [`AT_ONCE`] windows.
struct WindowRows<'a> {
    /// The first pixel of each window. Unused entries repeat the first one.
    begins: [*const u8; AT_ONCE],
    /// Windows.
    count: usize,
    /// Bytes from a row of a window to the next.
    stride: usize,
    /// Bytes from a pixel of a row to the next.
    step: usize,
    /// The coefficients of the rows. Each row is zero-padded to [`pitch`](Self::pitch) values.
    coefficients: &'a [f32],
    /// The coefficients of a row.
    width: usize,
}

impl<'a> WindowRows<'a> {
    /// Rows of windows of `recompute`, with these coefficients.
    fn new(
        recompute: &Recompute<'_>,
        coefficients: &'a [f32],
        stride: usize,
        windows: impl ExactSizeIterator<Item = *const u8>,
    ) -> Self {
        let (width, step) = (recompute.problem.window().width(), recompute.problem.format().channels);
        let (mut begins, count) = ([std::ptr::null(); AT_ONCE], windows.len());
        for (to, begin) in begins.iter_mut().zip(windows) {
            *to = begin;
        }
        let (used, rest) = begins.split_at_mut(count);
        rest.fill(used[0]);
        Self { begins, count, stride, step, coefficients, width }
    }

    /// Coefficients from a row to the next.
    fn pitch(&self) -> usize {
        self.width.next_multiple_of(4)
    }

    /// Adds the products of the rows to the sum of each window, in order.
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
