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

/// Results at once.
const AT_ONCE: usize = 32;
/// The places of the results that are computed at once: the row, and the value in it. Unused entries repeat a place.
type Places = [(usize, usize); AT_ONCE];

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
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only the vectors of x86-64 load them"))]
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
        // Those whose windows lie in the image are computed together, as their rows need not be looked for.
        let (inside, beside): (Vec<usize>, Vec<usize>) = (0..places.len()).partition(|&i| self.is_inside(places[i]));
        let mut windows = Windows::default();
        for (numbers, inside) in [(inside, true), (beside, false)] {
            for numbers in numbers.chunks(AT_ONCE) {
                let mut group = [places[numbers[0]]; AT_ONCE];
                for (place, &number) in group.iter_mut().zip(numbers) {
                    *place = places[number];
                }
                let values = self.group(&mut windows, &group, numbers.len(), inside);
                for (&number, value) in numbers.iter().zip(values) {
                    set(number, self.problem.finish(value));
                }
            }
        }
    }

    /// The sums of the first `count` places. `inside` says of all of them whether their windows lie in the image.
    fn group(&self, windows: &mut Windows, places: &Places, count: usize, inside: bool) -> [f32; AT_ONCE] {
        if inside {
            let (row, step) = (self.problem.row_values(), self.problem.format().channels);
            let (above, before) = self.problem.origin();
            for (begin, &place) in windows.begins.iter_mut().zip(places) {
                assert!(self.is_inside(place), "the window of {place:?} is not in the image");
                *begin = (place.0 - above) * row + place.1 - before * step;
            }
        } else {
            for (columns, &(_, x)) in windows.columns.iter_mut().zip(places).take(count) {
                self.map_columns(columns, x);
            }
        }
        #[cfg(target_arch = "x86_64")]
        if self.level.has_byte_instructions() {
            // SAFETY: the CPU has the instructions; `is_inside` is asserted above where the places are `inside`, and
            // `begins` is set.
            return unsafe { avx512::sums(self, windows, places, count, inside) };
        }
        #[cfg(target_arch = "x86_64")]
        if has_lanes(self.level) {
            // SAFETY: both levels have the instructions of AVX2; the rest is as above.
            return unsafe { avx2::sums(self, windows, places, count, inside) };
        }
        self.level.run(Chains { recompute: self, windows, places, count, inside })
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

    /// For each place the bytes from the first pixel of row `k` of its window on, and [`SPARE`] more. They are the
    /// image's where the windows are `inside`, else copies.
    ///
    /// # Safety
    /// `inside` only if [`is_inside`](Self::is_inside) holds of all places, and `windows` has where their windows
    /// begin.
    #[inline(always)]
    unsafe fn window_rows<'w>(
        &'w self,
        windows: &'w mut Windows,
        places: &Places,
        count: usize,
        inside: bool,
        k: usize,
    ) -> [&'w [u8]; AT_ONCE] {
        let mut rows = [&[][..]; AT_ONCE];
        let (problem, step) = (self.problem, self.problem.format().channels);
        let span = (problem.window().width() - 1) * step + 1;
        if inside {
            let down = k * problem.row_values();
            for (row, &begin) in rows.iter_mut().zip(&windows.begins).take(count) {
                // SAFETY: `is_inside` holds of the place, so its window's rows lie in the image with SPARE bytes more.
                *row = unsafe { self.image.get_unchecked(begin + down..begin + down + span + SPARE) };
            }
        } else {
            let copies = windows.rows.iter_mut().zip(&windows.columns);
            for ((row, (copy, columns)), &(y, x)) in rows.iter_mut().zip(copies).zip(places).take(count) {
                self.copy_row(copy, columns, self.row(y, k), x);
                *row = copy;
            }
        }
        // The rest is computed and not used.
        let (used, rest) = rows.split_at_mut(count);
        rest.fill(used[0]);
        rows
    }

    /// The row of the image under row `k` of the window of output row `y`, or [`OUTSIDE`].
    fn row(&self, y: usize, k: usize) -> i32 {
        let row = (y + k) as i32 - self.problem.origin().0 as i32;
        map(self.problem.border().mode().code(), row, self.problem.height() as i32)
    }

    /// The columns of the image under the windows of value `x`, or [`OUTSIDE`].
    fn map_columns(&self, columns: &mut Vec<i32>, x: usize) {
        let (problem, code) = (self.problem, self.problem.border().mode().code());
        let first = (x / problem.format().channels) as i32 - problem.origin().1 as i32;
        columns.clear();
        columns.extend((first..first + problem.window().width() as i32).map(|c| map(code, c, problem.width() as i32)));
    }

    /// Copies the values under a row of the window of value `x`, which are in these columns of row `row` of the image,
    /// and [`SPARE`] bytes more.
    fn copy_row(&self, copy: &mut Vec<u8>, columns: &[i32], row: i32, x: usize) {
        let (problem, step) = (self.problem, self.problem.format().channels);
        let outside = problem.border().value() as u8;
        copy.resize((columns.len() - 1) * step + 1 + SPARE, 0);
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

/// The windows of the results that are computed at once: copies of one row of each, or their places in the image.
#[derive(Default)]
struct Windows {
    rows: [Vec<u8>; AT_ONCE],
    /// The columns under each, if they do not lie in the image.
    columns: [Vec<i32>; AT_ONCE],
    /// Where the windows begin in the image, if they lie in it.
    begins: [usize; AT_ONCE],
}

/// Results with scalar instructions.
struct Chains<'a, 'b> {
    recompute: &'a Recompute<'a>,
    windows: &'b mut Windows,
    places: &'b Places,
    count: usize,
    inside: bool,
}

impl Work for Chains<'_, '_> {
    type Output = [f32; AT_ONCE];

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, _: S) -> [f32; AT_ONCE] {
        let Self { recompute, windows, places, count, inside } = self;
        let (window, step) = (recompute.problem.window(), recompute.problem.format().channels);
        let mut sums = [0.0_f32; AT_ONCE];
        for (k, coefficients) in window.coefficients().chunks_exact(window.width()).enumerate() {
            // SAFETY: only `group` makes this, and it has asserted `is_inside` of all places and set `begins`.
            let rows = unsafe { recompute.window_rows(windows, places, count, inside, k) };
            for (sums, rows) in
                sums.chunks_exact_mut(CHAINS).zip(rows.chunks_exact(CHAINS)).take(count.div_ceil(CHAINS))
            {
                ordered_steps(coefficients, rows, step, sums);
            }
        }
        sums
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
