//! A line: the values of one row under the windows of some outputs, with the border written out, as `f32` or bytes. It
//! has the interleaved values of all channels, or those of one.

use std::ops::Range;

use kernels_gpu::abi::border::{OUTSIDE, map};

use super::simd::{Level, Simd, Work};
use crate::image::values_of;
use crate::{PixelType, Problem};

/// The values of an image.
#[derive(Clone, Copy)]
pub(super) enum Values<'a> {
    F32(&'a [f32]),
    U8(&'a [u8]),
    U16(&'a [u16]),
}

impl<'a> Values<'a> {
    /// `bytes` as values of the problem's input type.
    pub(super) fn of(problem: &Problem, bytes: &'a [u8]) -> Self {
        match problem.format().input {
            PixelType::F32 => Self::F32(values_of(bytes)),
            PixelType::U8 => Self::U8(values_of(bytes)),
            PixelType::U16 => Self::U16(values_of(bytes)),
        }
    }
}

/// The source rows under the windows of output rows `top..top + count`, from top to bottom: for each its row in the
/// image, or [`OUTSIDE`].
pub(super) fn image_rows(problem: &Problem, top: usize, count: usize) -> Vec<i32> {
    let (code, height) = (problem.border().mode().code(), problem.height() as i32);
    let first = top as i32 - problem.origin().0 as i32;
    (0..count + problem.window().height() - 1).map(|s| map(code, first + s as i32, height)).collect()
}

/// For each value of a line, its place in a row of the image.
pub(super) struct LineMap {
    /// The values of the line that lie in the image.
    inside: Range<usize>,
    /// The place in the row of the first of these, less `channel`.
    first: usize,
    /// The distance in the row from one value of the line to the next.
    step: usize,
    /// The one channel that the line has; 0 if it has all.
    channel: usize,
    /// The values before and after these: their places in the row, or [`OUTSIDE`].
    before: Vec<i32>,
    after: Vec<i32>,
}

impl LineMap {
    /// The line of all channels that the windows of `width` values need, from value `left` of a row on.
    pub(super) fn new(problem: &Problem, left: usize, width: usize) -> Self {
        let channels = problem.format().channels;
        let first = left as isize - (problem.origin().1 * channels) as isize;
        let count = width + (problem.window().width() - 1) * channels;
        let column = |at: isize| (at.div_euclid(channels as isize), at.rem_euclid(channels as isize));
        Self::with(problem, (first, count, problem.row_values()), (1, 0), column)
    }

    /// The line of one channel that the windows of `width` pixels need, from pixel `left` of a row on.
    pub(super) fn of_channel(problem: &Problem, left: usize, width: usize, channel: usize) -> Self {
        let first = left as isize - problem.origin().1 as isize;
        let count = width + problem.window().width() - 1;
        let column = |at: isize| (at, channel as isize);
        Self::with(problem, (first, count, problem.width()), (problem.format().channels, channel), column)
    }

    /// A line of `count` values. The first one is number `first` of the `row` values that a row of the image has for
    /// such lines. `column` gives the column and the channel of a number.
    fn with(
        problem: &Problem,
        (first, count, row): (isize, usize, usize),
        (step, channel): (usize, usize),
        column: impl Fn(isize) -> (isize, isize),
    ) -> Self {
        let start = usize::try_from(-first).unwrap_or(0).min(count);
        let end = usize::try_from(row as isize - first).unwrap_or(0).clamp(start, count);
        let (code, pixels, channels) =
            (problem.border().mode().code(), problem.width() as i32, problem.format().channels as i32);
        let place = |i: usize| {
            let (column, channel) = column(first + i as isize);
            match map(code, column as i32, pixels) {
                OUTSIDE => OUTSIDE,
                // A row has at most MAX_SIDE values, which fit an i32.
                pixel => pixel * channels + channel as i32,
            }
        };
        Self {
            inside: start..end,
            first: (first + start as isize) as usize * step,
            step,
            channel,
            before: (0..start).map(place).collect(),
            after: (end..count).map(place).collect(),
        }
    }

    /// Writes the line of row `row` of the image, or of [`OUTSIDE`]. `line` may be longer: the rest stays.
    ///
    /// # Panics
    /// If `line` is shorter than the line, or the CPU does not have `level`.
    pub(super) fn fill(&self, level: Level, problem: &Problem, image: Values<'_>, row: i32, line: &mut [f32]) {
        let (outside, step, channel) = (problem.border().value(), self.step, self.channel);
        match image {
            Values::F32(values) => self.write(problem, values, row, line, outside, |from, to| match step {
                1 => to.copy_from_slice(from),
                _ => level.run(Gather { from, step, channel, to }),
            }),
            Values::U8(values) => self.write(problem, values, row, line, outside, |from, to| match step {
                1 => level.run(Convert { from, to }),
                _ => level.run(Gather { from, step, channel, to }),
            }),
            Values::U16(values) => self.write(problem, values, row, line, outside, |from, to| match step {
                1 => level.run(Convert { from, to }),
                _ => level.run(Gather { from, step, channel, to }),
            }),
        }
    }

    /// As [`fill`](Self::fill), as bytes. The border's value is a byte.
    pub(super) fn fill_bytes(&self, problem: &Problem, image: &[u8], row: i32, line: &mut [u8]) {
        let (outside, step, channel) = (problem.border().value() as u8, self.step, self.channel);
        self.write(problem, image, row, line, outside, |from, to| match step {
            1 => to.copy_from_slice(from),
            _ => to.iter_mut().zip(from.chunks_exact(step)).for_each(|(to, pixel)| *to = pixel[channel]),
        });
    }

    /// Writes the line with values of type `U`; `copy` writes those of the image, which are `step` apart.
    fn write<T: Copy + Into<U>, U: Copy>(
        &self,
        problem: &Problem,
        image: &[T],
        row: i32,
        line: &mut [U],
        outside: U,
        copy: impl Fn(&[T], &mut [U]),
    ) {
        if row == OUTSIDE {
            line[..self.inside.end + self.after.len()].fill(outside);
            return;
        }
        let row = &image[row as usize * problem.row_values()..][..problem.row_values()];
        let pad = |line: &mut [U], places: &[i32]| {
            for (to, &place) in line.iter_mut().zip(places) {
                *to = if place == OUTSIDE { outside } else { row[place as usize].into() };
            }
        };
        pad(line, &self.before);
        pad(&mut line[self.inside.end..], &self.after);
        copy(&row[self.first..][..self.inside.len() * self.step], &mut line[self.inside.clone()]);
    }
}

/// An integer type of images.
trait Input: Copy + Into<f32> {
    /// [`Simd::LANES`] values as `f32`.
    ///
    /// # Safety
    /// `from` is valid for reads of as many values.
    unsafe fn load<S: Simd>(simd: S, from: *const Self) -> S::Vector;
}

impl Input for u8 {
    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const u8) -> S::Vector {
        // SAFETY: `from` holds LANES values, as this function requires.
        unsafe { simd.load_u8(from) }
    }
}

impl Input for u16 {
    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const u16) -> S::Vector {
        // SAFETY: `from` holds LANES values, as this function requires.
        unsafe { simd.load_u16(from) }
    }
}

/// Contiguous integers to `f32`.
struct Convert<'a, T> {
    from: &'a [T],
    to: &'a mut [f32],
}

impl<T: Input> Work for Convert<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { from, to } = self;
        let whole = from.len().min(to.len()) / S::LANES * S::LANES;
        for x in (0..whole).step_by(S::LANES) {
            // SAFETY: x + LANES <= whole, which is at most the length of both.
            unsafe { simd.store(to.as_mut_ptr().add(x), T::load(simd, from.as_ptr().add(x))) };
        }
        for (to, &from) in to.iter_mut().zip(from).skip(whole) {
            *to = from.into();
        }
    }
}

/// One channel of interleaved pixels of `step` values to `f32`.
struct Gather<'a, T> {
    from: &'a [T],
    step: usize,
    channel: usize,
    to: &'a mut [f32],
}

impl<T: Copy + Into<f32>> Work for Gather<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, _: S) {
        let Self { from, step, channel, to } = self;
        for (to, pixel) in to.iter_mut().zip(from.chunks_exact(step)) {
            *to = pixel[channel].into();
        }
    }
}
