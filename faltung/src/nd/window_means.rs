//! Means of windows of rows and columns, each rounded once: those of OpenCV's `blur`.
//!
//! ```text
//! rows of the input --running sums along the columns--> a row of sums --sums of windows along the row--> results
//! ```
//! Sums are of `f64`, or of `i32` for integers of up to 16 bits. Along the columns:
//!
//! - **Integers** have running sums, which are exact: the row that enters the window is added, and the row that leaves it
//!   is subtracted.
//! - **Floating-point numbers** have sums of the window alone. So no value leaves a rounding error behind, and NaN
//!   reaches only the results whose windows have it. For each block of as many rows as the window has, there are sums
//!   from each row to the block's last one. A result adds one of these to a sum of the rows that follow.
//!
//! Along the row, sums of `i32` of more than [`FEW`] columns are differences of the sums from the line's start on: one
//! addition and one subtraction for any width. These wrap around, and so do the differences, which are then exact.
//!
//! Blocks of rows depend on the sizes alone. So results do not depend on the number of threads.

use std::marker::PhantomData;
use std::num::Wrapping;
use std::ops::{Add, Sub};

use super::axis::before;
use super::border::PaddedRange;
use super::byte_axes::rows_without_gaps;
use super::convert::Value;
use super::kernel::{SLACK, window_sums};
use super::narrow::{EXACT, Values};
use super::{Element, Input, Layout, Lines, Output, run_jobs};
use crate::cpu::simd::{Level, Simd, Work};
use crate::{BorderMode, Error, Result};

/// The fewest rows of a block. The first sums of a block take a step for each row of the window.
const ROWS: usize = 128;

/// The fewest values of a row of a block: its sums are in a cache.
const VALUES: usize = 2048;

/// The most pixels of a window whose sums are multiplied by the inverse of their number.
const LARGEST_INVERTED: usize = 1 << 17;

/// The most sums of rows that a block keeps: 128 MiB of `f64`. Larger windows are summed anew for each row.
const KEPT: usize = 1 << 24;

/// Up to so many columns, a vector of sums takes one addition a column. That is faster than one after another.
const FEW: usize = 9;

/// The mean of a window of `sizes` rows and columns at each pixel of an image. It is rounded once: integers half to
/// even.
///
/// The first axis of the arrays is the rows, the second one the columns. Others are the values of a pixel. `lines` has
/// the origin and the border along the rows' axis and along the columns' axis.
///
/// # Errors
/// - [`Error::Number`] if the output has another shape or type; the type is none of `u8`, `u16`, `i16`, `i32`, `f32` and
///   `f64`; a row has gaps or is not aligned; the axes of `lines` are not 0 and 1; a size is 0 or its origin out of range.
/// - [`Error::HostMemory`] for a window so large that the lines under it don't fit memory.
/// - [`Error::Cancelled`]. Some results are then unwritten.
///
/// # Panics
/// If input and output are the same array.
pub fn window_means(input: Input<'_>, output: Output<'_>, sizes: [usize; 2], lines: &[Lines; 2]) -> Result<()> {
    let means = WindowMeans::new(&input, &output, sizes, lines)?;
    means.run(Level::chosen()?)
}

/// Rows, columns and values of a pixel.
fn dense_rows(first: usize, layout: &Layout) -> Result<(usize, usize, usize)> {
    let size = layout.element.size();
    let is_aligned = first.is_multiple_of(size) && layout.strides.first().is_some_and(|row| row % size as isize == 0);
    rows_without_gaps(layout).filter(|_| is_aligned || layout.elements() == 0).ok_or_else(|| Error::Number {
        what: "the rows of an array",
        required: "aligned and without gaps",
        found: format!("of shape {:?} and strides {:?}", layout.shape, layout.strides),
    })
}

pub(super) struct WindowMeans<'a> {
    input: &'a Input<'a>,
    output: &'a Output<'a>,
    /// Rows and columns of the window.
    sizes: [usize; 2],
    /// Rows and columns of the window before the result's pixel.
    before: [usize; 2],
    lines: &'a [Lines; 2],
    height: usize,
    width: usize,
    /// Values of a pixel.
    step: usize,
}

impl<'a> WindowMeans<'a> {
    /// # Errors
    /// As for [`window_means`].
    pub(super) fn new(
        input: &'a Input<'a>,
        output: &'a Output<'a>,
        sizes: [usize; 2],
        lines: &'a [Lines; 2],
    ) -> Result<Self> {
        output.layout.check_shape(&input.layout)?;
        let (required, found) = (input.layout.element, output.layout.element);
        if found != required {
            let found = format!("{found:?} for an input of {required:?}");
            return Err(Error::Number { what: "the type of the result", required: "that of the input", found });
        }
        for (axis, (lines, size)) in lines.iter().zip(sizes).enumerate() {
            lines.check_on_cpu(size, &input.layout)?;
            if lines.axis != axis {
                let found = format!("{} for those of axis {axis}", lines.axis);
                return Err(Error::Number { what: "the axis", required: "0, then 1", found });
            }
        }
        let (height, width, step) = dense_rows(input.first.addr(), &input.layout)?;
        dense_rows(output.first.addr(), &output.layout)?;
        let is_same = input.layout.elements() > 0 && std::ptr::eq(input.first, output.first);
        assert!(!is_same, "input and output are the same array");
        let before = [0, 1].map(|axis| before(sizes[axis], lines[axis].origin));
        Ok(Self { input, output, sizes, before, lines, height, width, step })
    }

    /// # Errors
    /// [`Error::Number`] for other types than those of [`window_means`]; [`Error::Cancelled`].
    pub(super) fn run(&self, level: Level) -> Result<()> {
        if self.height * self.width * self.step == 0 {
            return Ok(());
        }
        match self.output.layout.element {
            Element::U8 => self.run_as::<u8>(level),
            Element::U16 => self.run_as::<u16>(level),
            Element::I16 => self.run_as::<i16>(level),
            Element::I32 => self.run_with::<i32, f64>(level, None),
            Element::F32 => self.run_with::<f32, f64>(level, None),
            Element::F64 => self.run_with::<f64, f64>(level, None),
            other => {
                let required = "u8, u16, i16, i32, f32 or f64";
                Err(Error::Number { what: "the type of the elements", required, found: format!("{other:?}") })
            }
        }
    }

    /// Integers of up to 16 bits.
    fn run_as<T: Value>(&self, level: Level) -> Result<()> {
        let area = self.sizes[0].saturating_mul(self.sizes[1]);
        let are_whole = |most: f64| {
            self.lines.iter().all(|lines| {
                let outside = (lines.border == BorderMode::Constant).then_some(lines.value);
                Values::new(self.input.layout.element, outside).is_some_and(|values| values.are_whole(most))
            })
        };
        let inverse = (area <= LARGEST_INVERTED && are_whole(EXACT)).then_some(1.0 / area as f64);
        match inverse {
            Some(_) if are_whole(f64::from(i32::MAX) / area as f64) => {
                self.run_with::<T, Wrapping<i32>>(level, inverse)
            }
            _ => self.run_with::<T, f64>(level, inverse),
        }
    }

    /// With sums of type `A`. `inverse` is that of the window's area, if it may take the place of a division.
    fn run_with<T: Value, A: Sum>(&self, level: Level, inverse: Option<f64>) -> Result<()> {
        let [tall, wide] = self.sizes;
        let rows = ROWS.max(2 * tall).next_multiple_of(tall).min(self.height);
        let columns = (VALUES / self.step).max(2 * wide).min(self.width);
        let (bands, strips) = (self.height.div_ceil(rows), self.width.div_ceil(columns));
        let work = self.height.saturating_mul(self.width * self.step).saturating_mul(8);
        let padded = (columns + wide - 1) * self.step;
        let columns_by = match tall.checked_mul(padded) {
            _ if self.output.layout.element.is_integer() => ColumnsBy::Running,
            Some(values) if values <= KEPT => ColumnsBy::Blocks,
            _ => ColumnsBy::Rows,
        };
        let scratch = || {
            let rows = if columns_by == ColumnsBy::Blocks { vec![A::ZERO; tall * padded] } else { Vec::new() };
            Ok(([(); 3].map(|()| vec![A::ZERO; padded + SLACK]), rows))
        };
        run_jobs(bands * strips, work, scratch, |(scratch, kept), number| {
            let (top, left) = (number / strips * rows, number % strips * columns);
            let (bottom, right) = (self.height.min(top + rows), self.width.min(left + columns));
            let of = PhantomData::<T>;
            level.run(Block { means: self, inverse, top, bottom, left, right, columns_by, scratch, kept, of });
        })
    }

    /// The values of a row at a position along the first axis; None outside.
    #[inline(always)]
    fn row_at<T>(&self, at: isize) -> Option<&[T]> {
        // SAFETY: `new` has checked that rows have no gaps and are aligned.
        unsafe { self.input.row(at, self.lines[0].border, self.width * self.step) }
    }
}

/// A type of sums.
trait Sum: Copy + Send + Sync + Add<Output = Self> + Sub<Output = Self> {
    const ZERO: Self;

    fn from_f64(value: f64) -> Self;
    fn of<T: Value>(value: T) -> Self;
    fn to_f64(self) -> f64;

    /// Sums of `size` values that are `step` places apart. They may change `from`.
    ///
    /// # Safety
    /// As for [`window_sums`].
    unsafe fn sum_windows<S: Simd>(simd: S, from: *mut Self, size: usize, step: usize, to: *mut Self, count: usize);
}

impl Sum for f64 {
    const ZERO: Self = 0.0;

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn of<T: Value>(value: T) -> Self {
        value.widen()
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    unsafe fn sum_windows<S: Simd>(simd: S, from: *mut Self, size: usize, step: usize, to: *mut Self, count: usize) {
        // SAFETY: as this function requires.
        unsafe { window_sums(simd, from, size, step, to, count) };
    }
}

impl Sum for Wrapping<i32> {
    const ZERO: Self = Self(0);

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        Self(value as i32)
    }
    #[inline(always)]
    fn of<T: Value>(value: T) -> Self {
        Self(value.whole())
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.0.into()
    }
    #[inline(always)]
    unsafe fn sum_windows<S: Simd>(_: S, from: *mut Self, size: usize, step: usize, to: *mut Self, count: usize) {
        // SAFETY: `from` has these values, as this function requires, and `to` has room. They do not overlap.
        let (values, sums) = unsafe {
            let values = std::slice::from_raw_parts_mut(from, count + (size - 1) * step);
            (values, std::slice::from_raw_parts_mut(to, count))
        };
        if size <= FEW {
            sums.copy_from_slice(&values[..count]);
            for place in 1..size {
                for (sum, value) in sums.iter_mut().zip(&values[place * step..]) {
                    *sum += *value;
                }
            }
            return;
        }
        for channel in 0..step {
            // In a register: a sum that is read from memory waits for the store before it.
            let mut sum = Self::ZERO;
            for value in values[channel..].iter_mut().step_by(step) {
                sum += *value;
                *value = sum;
            }
        }
        let last = &values[(size - 1) * step..];
        let (first, rest) = sums.split_at_mut(step);
        first.copy_from_slice(&last[..step]);
        for ((sum, last), before) in rest.iter_mut().zip(&last[step..]).zip(&*values) {
            *sum = *last - *before;
        }
    }
}

/// How the sums along the columns are computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ColumnsBy {
    /// From those of the row before.
    Running,
    /// From sums of rows of a block.
    Blocks,
    /// From all rows of the window.
    Rows,
}

/// Columns `left..right` of rows `top..bottom`.
struct Block<'a, T, A> {
    means: &'a WindowMeans<'a>,
    inverse: Option<f64>,
    top: usize,
    bottom: usize,
    left: usize,
    right: usize,
    columns_by: ColumnsBy,
    /// Running sums, or sums of the rows that follow a block; sums along the columns; sums of windows.
    scratch: &'a mut [Vec<A>; 3],
    /// Sums from each row of a block to its last one.
    kept: &'a mut [A],
    of: PhantomData<T>,
}

impl<T: Value, A: Sum> Work for Block<'_, T, A> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { means, inverse, top, bottom, left, right, columns_by, scratch: [sums, line, results], kept, .. } =
            self;
        let &WindowMeans { sizes: [tall, wide], before, lines, step, .. } = means;
        let (area, count) = (tall as f64 * wide as f64, (right - left) * step);
        let start = left as isize - before[1] as isize;
        let range = PaddedRange::new(lines[1].border, start, right - left + wide - 1, means.width);
        let columns = Columns { range, step, outside: A::from_f64(lines[1].value) };
        let (outside, padded) = (A::from_f64(lines[0].value), count + (wide - 1) * step);
        let (sums, line) = (&mut sums[..padded], &mut line[..padded + SLACK]);
        let add = |sums: &mut [A], at: isize| match means.row_at::<T>(at) {
            Some(row) => columns.update(sums, row, |sum, value| sum + value),
            None => sums.iter_mut().for_each(|sum| *sum = *sum + outside),
        };
        for y in top..bottom {
            let first = y as isize - before[0] as isize;
            let last = first + tall as isize - 1;
            match columns_by {
                ColumnsBy::Running if y > top => {
                    match (means.row_at::<T>(first - 1), means.row_at::<T>(last)) {
                        (Some(old), Some(new)) => columns.replace(sums, old, new),
                        (Some(old), None) => columns.update(sums, old, |sum, value| sum + (outside - value)),
                        (None, Some(new)) => columns.update(sums, new, |sum, value| sum + (value - outside)),
                        (None, None) => {}
                    }
                    line[..padded].copy_from_slice(sums);
                }
                ColumnsBy::Running | ColumnsBy::Rows => {
                    sums.fill(A::ZERO);
                    (first..=last).for_each(|at| add(sums, at));
                    line[..padded].copy_from_slice(sums);
                }
                ColumnsBy::Blocks => {
                    let place = (y - top) % tall;
                    if place > 0 {
                        add(sums, last);
                    } else {
                        sums.fill(A::ZERO);
                        for place in (0..tall).rev() {
                            let (these, after) = kept[place * padded..].split_at_mut(padded);
                            match after.get(..padded).filter(|_| place + 1 < tall) {
                                Some(after) => these.copy_from_slice(after),
                                None => these.fill(A::ZERO),
                            }
                            add(these, first + place as isize);
                        }
                    }
                    for ((to, a), b) in line.iter_mut().zip(&kept[place * padded..][..padded]).zip(&*sums) {
                        *to = *a + *b;
                    }
                }
            }
            // SAFETY: both have SLACK values more than these.
            unsafe { A::sum_windows(simd, line.as_mut_ptr(), wide, step, results.as_mut_ptr(), count) };
            // SAFETY: the output has this type, and these results are of this job alone.
            let to: &mut [T] = unsafe {
                let row = means.output.first.offset(y as isize * means.output.layout.strides[0]);
                std::slice::from_raw_parts_mut(row.cast::<T>().add(left * step), count)
            };
            let sums = to.iter_mut().zip(&results[..count]);
            if let Some(inverse) = inverse {
                sums.for_each(|(to, sum)| *to = T::from_last_bits(rounded_mean(sum.to_f64(), inverse)));
            } else if columns_by == ColumnsBy::Running {
                sums.for_each(|(to, sum)| *to = T::convert((sum.to_f64() / area).round_ties_even()));
            } else {
                sums.for_each(|(to, sum)| *to = T::convert(sum.to_f64() / area));
            }
        }
    }
}

/// The last bits of the mean of up to [`LARGEST_INVERTED`] integers of a magnitude below 2^24, rounded half to even.
/// `inverse` is the rounded inverse of their number.
///
/// A division takes several times as long. The product is off by at most 2^-28. A mean that is no half of an integer is
/// at least 2^-18 away from all of these.
#[inline(always)]
pub(super) fn rounded_mean(sum: f64, inverse: f64) -> u16 {
    // To add these rounds to multiples of 2^-26 and to integers. The first one gives halves of integers back.
    const TO_FRACTIONS: f64 = 1.5 * (1_u64 << 26) as f64;
    const TO_INTEGERS: f64 = 1.5 * (1_u64 << 52) as f64;
    let mean = sum * inverse + TO_FRACTIONS - TO_FRACTIONS;
    (mean + TO_INTEGERS).to_bits() as u16
}

/// The columns of a block with its border.
struct Columns<A> {
    range: PaddedRange,
    /// Values of a pixel.
    step: usize,
    /// The value outside of the image.
    outside: A,
}

impl<A: Sum> Columns<A> {
    /// The values of the columns within the image.
    #[inline(always)]
    fn inside<'a, T>(&self, row: &'a [T]) -> &'a [T] {
        &row[self.range.first * self.step..][..self.range.inside * self.step]
    }

    /// `sums = f(sums, row)`.
    #[inline(always)]
    fn update<T: Value>(&self, sums: &mut [A], row: &[T], f: impl Fn(A, A) -> A) {
        let (before, rest) = sums.split_at_mut(self.range.before.len() * self.step);
        let (inside, after) = rest.split_at_mut(self.range.inside * self.step);
        for (sum, value) in inside.iter_mut().zip(self.inside(row)) {
            *sum = f(*sum, A::of(*value));
        }
        for (places, sums) in [(&self.range.before, before), (&self.range.after, after)] {
            for (sums, place) in sums.chunks_exact_mut(self.step).zip(places) {
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = f(*sum, place.map_or(self.outside, |column| A::of(row[column * self.step + i])));
                }
            }
        }
    }

    /// `sums += new - old`.
    #[inline(always)]
    fn replace<T: Value>(&self, sums: &mut [A], old: &[T], new: &[T]) {
        let (before, rest) = sums.split_at_mut(self.range.before.len() * self.step);
        let (inside, after) = rest.split_at_mut(self.range.inside * self.step);
        for ((sum, old), new) in inside.iter_mut().zip(self.inside(old)).zip(self.inside(new)) {
            *sum = *sum + (A::of(*new) - A::of(*old));
        }
        for (places, sums) in [(&self.range.before, before), (&self.range.after, after)] {
            for (sums, column) in sums.chunks_exact_mut(self.step).zip(places) {
                // Outside of the image both rows have the same value.
                let Some(column) = column else { continue };
                for (i, sum) in sums.iter_mut().enumerate() {
                    let at = column * self.step + i;
                    *sum = *sum + (A::of(new[at]) - A::of(old[at]));
                }
            }
        }
    }
}
