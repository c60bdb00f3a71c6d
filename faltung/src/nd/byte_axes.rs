//! Two filters of bytes, one along the rows and one along the columns, in one pass over memory.
//!
//! ```text
//! rows of the input --along the column--> one row, border written out --along the row--> row of the output
//! ```
//! The row between both filters has the numbers that SciPy's first filter would write as bytes. It stays in a cache.
//!
//! - **Means** are running sums of 16 bits along the column. Along the row they are sums of 2, 4, 8, .. values.
//! - **Whole weights** need the last 8 bits of each sum alone, so all sums are of 8 bits.
//! - **Weights of a Gaussian kind** have sums of `f32`: [`byte_sums`](super::byte_sums).

use kernels_gpu::abi::border::BorderMode;

use super::axes::{Along, AxisFilter};
use super::axis::before;
use super::border::PaddedRange;
use super::byte_sums::{self, ByteSums, RecomputeQueue};
use super::kernel::SLACK;
use super::whole::{Correlated, Means};
use super::{Element, Input, Layout, Output, run_jobs};
use crate::Result;
use crate::cpu::simd::{Level, Simd, Work};
use crate::parallel::threads;

/// The most weights of a filter: each of them is one pass over a row in the first-level cache.
const MOST_WEIGHTS: usize = 16;

/// The most values of a border that is longer than its row. The sums of 4 such rows stay in the second-level cache.
const LARGEST_BORDER: usize = 1 << 15;

/// Bytes of the longest row that takes less time in two passes.
const SHORT_ROW: usize = 8;

/// Bytes along an axis.
enum Pass {
    Mean(Means),
    /// The place of each weight that is not 0, and its last 8 bits.
    Weights(Vec<(usize, u8)>),
    Proven(Box<ByteSums>),
}

/// A pass and what it reads outside of the array.
struct AxisPass {
    pass: Pass,
    size: usize,
    /// Positions before the one of the result.
    before: usize,
    border: BorderMode,
    outside: u8,
}

impl AxisPass {
    fn new(filter: &AxisFilter<'_>, from: Element, to: Element) -> Option<Self> {
        let AxisFilter { along, lines } = filter;
        let outside = if lines.border == BorderMode::Constant { lines.value } else { 0.0 };
        let pass = match *along {
            // The mean of signed bytes would need sums with a sign.
            Along::Mean(size) if to == Element::U8 => Pass::Mean(Means::new(size, from, to, outside)?),
            Along::Weights(weights) => match Correlated::new(weights, from, to, Some(outside)) {
                Some(correlated) if weights.len() <= MOST_WEIGHTS => {
                    Pass::Weights(correlated.weights().iter().map(|&(place, weight)| (place, weight as u8)).collect())
                }
                None if (from, to) == (Element::U8, Element::U8) => {
                    Pass::Proven(Box::new(ByteSums::new(weights, outside)?))
                }
                _ => return None,
            },
            Along::Mean(_) => return None,
        };
        let size = along.size();
        let before = before(size, lines.origin);
        Some(Self { pass, size, before, border: lines.border, outside: outside as i64 as u8 })
    }
}

/// Both filters of a two-dimensional array of pixels.
pub(super) struct ByteAxes {
    column: AxisPass,
    row: AxisPass,
    height: usize,
    width: usize,
    /// Bytes of a pixel.
    step: usize,
}

/// Height, width, and elements of a pixel of an array whose rows have no gaps.
pub(super) fn rows_without_gaps(layout: &Layout) -> Option<(usize, usize, usize)> {
    let (&[height, width], rest) = layout.shape.split_first_chunk()?;
    let mut stride = layout.element.size() as isize;
    for (&length, &found) in layout.shape.iter().zip(&layout.strides).skip(1).rev() {
        if length != 1 && found != stride {
            return None;
        }
        stride *= length as isize;
    }
    Some((height, width, rest.iter().product()))
}

impl ByteAxes {
    /// None unless both arrays are of bytes in rows without gaps, no [short](SHORT_ROW) ones, the filters are those of
    /// the first two axes, and the results are those of one filter after the other.
    pub(super) fn new(input: &Input<'_>, output: &Output<'_>, filters: &[AxisFilter<'_>]) -> Option<Self> {
        let [first, second] = filters else { return None };
        let (from, to) = (input.layout.element, output.layout.element);
        let are_bytes = from.size() == 1 && matches!(to, Element::U8 | Element::I8);
        if !are_bytes || std::ptr::eq(input.first, output.first) {
            return None;
        }
        let (height, width, step) = rows_without_gaps(&input.layout)?;
        rows_without_gaps(&output.layout)?;
        if width * step <= SHORT_ROW {
            return None;
        }
        let first_pass = AxisPass::new(first, from, to)?;
        let second_pass = AxisPass::new(second, to, to)?;
        if std::mem::discriminant(&first_pass.pass) != std::mem::discriminant(&second_pass.pass) {
            return None;
        }
        let (length, border) = (width * step, (second.along.size() - 1) * step);
        let are_rows_for_sums = length >= byte_sums::MIN_ROW_BYTES && border <= length.max(LARGEST_BORDER);
        if matches!(first_pass.pass, Pass::Proven(_)) && !are_rows_for_sums {
            return None;
        }
        let (column, row) = match (first.lines.axis, second.lines.axis) {
            (0, 1) => (first_pass, second_pass),
            // Sums of sums have no order. But the second filter meets its border's value where the first one has left
            // a sum of such values.
            (1, 0) if is_linear(&first_pass) && is_linear(&second_pass) => (second_pass, first_pass),
            _ => return None,
        };
        Some(Self { column, row, height, width, step })
    }

    /// As if all results of such weights were certain.
    #[cfg(test)]
    pub(super) fn trust_all(&mut self) {
        for axis in [&mut self.column, &mut self.row] {
            if let Pass::Proven(sums) = &mut axis.pass {
                sums.trust_all();
            }
        }
    }

    /// Filters.
    ///
    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub(super) fn run(&self, level: Level, input: &Input<'_>, output: &Output<'_>) -> Result<()> {
        let length = self.width * self.step;
        let work = self.height.saturating_mul(length).saturating_mul(self.steps());
        let part = self.height.div_ceil(4 * threads());
        let rows = match self.column.pass {
            _ if work < super::SERIAL => self.height,
            Pass::Proven(_) => part.next_multiple_of(byte_sums::ROWS),
            // Each block reads `size - 1` rows more than it has.
            Pass::Mean(_) | Pass::Weights(_) => part.max(3 * self.column.size),
        };
        let columns = PaddedRange::new(self.row.border, -(self.row.before as isize), self.padded(), self.width);
        let outside = vec![self.column.outside; length];
        let scratch = || Ok(Scratch::new(self));
        run_jobs(self.height.div_ceil(rows), work, scratch, |scratch, number| {
            let (top, bottom) = (number * rows, self.height.min((number + 1) * rows));
            level.run(Band { axes: self, input, output, columns: &columns, outside: &outside, top, bottom, scratch });
        })
    }

    /// About how many additions a result takes.
    fn steps(&self) -> usize {
        match self.row.pass {
            Pass::Mean(_) | Pass::Weights(_) => 2,
            Pass::Proven(_) => self.column.size + self.row.size,
        }
    }

    /// Pixels of a row with its border.
    fn padded(&self) -> usize {
        self.width + self.row.size - 1
    }
}

fn is_linear(pass: &AxisPass) -> bool {
    matches!(pass.pass, Pass::Weights(_)) && (pass.border != BorderMode::Constant || pass.outside == 0)
}

/// Memory that a thread uses again for each block. What the passes do not use is empty.
#[derive(Default)]
struct Scratch {
    /// The running sum of each column.
    sums: Vec<u16>,
    /// The row between the filters: bytes, or values of 16 bits for means.
    bytes: Vec<u8>,
    shorts: Vec<u16>,
    /// Sums along the row.
    row_sums: Vec<u16>,
    /// The rows between filters with sums of `f32`.
    floats: Vec<f32>,
    queue: RecomputeQueue,
}

impl Scratch {
    fn new(axes: &ByteAxes) -> Self {
        let length = axes.width * axes.step;
        let padded = axes.padded() * axes.step + SLACK;
        match axes.row.pass {
            Pass::Mean(_) => Self {
                sums: vec![0; length],
                shorts: vec![0; padded],
                row_sums: vec![0; length + SLACK],
                ..Self::default()
            },
            Pass::Weights(_) => Self { bytes: vec![0; padded], ..Self::default() },
            Pass::Proven(_) => Self { floats: vec![0.0; byte_sums::ROWS * padded], ..Self::default() },
        }
    }
}

/// A block of rows of the output.
struct Band<'a> {
    axes: &'a ByteAxes,
    input: &'a Input<'a>,
    output: &'a Output<'a>,
    /// The columns of a row with its border.
    columns: &'a PaddedRange,
    /// A row outside of the array.
    outside: &'a [u8],
    top: usize,
    bottom: usize,
    scratch: &'a mut Scratch,
}

impl Work for Band<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { axes: &ByteAxes { ref column, ref row, step, .. }, top, bottom, columns, .. } = self;
        let Scratch { sums, bytes, shorts, row_sums, floats, queue } = &mut *self.scratch;
        let (length, first) = (self.outside.len(), row.before * step);
        let rows = Rows { input: self.input, axis: column, outside: self.outside };
        let to = |y: usize| {
            // SAFETY: row y of the output is `length` bytes without gaps, and only this job writes it.
            unsafe {
                let start = self.output.first.offset(y as isize * self.output.layout.strides[0]);
                std::slice::from_raw_parts_mut(start, length)
            }
        };
        match (&column.pass, &row.pass) {
            (Pass::Mean(of_column), Pass::Mean(of_row)) => {
                rows.start(sums, top);
                for y in top..bottom {
                    let (new, old) = (rows.row(y, column.size - 1), rows.row(y, 0));
                    means_of_columns(simd, of_column, sums, new, old, &mut shorts[first..][..length]);
                    pad(shorts, columns, step, length, row.outside.into());
                    means_of_row(simd, of_row, shorts, row_sums, step, to(y));
                }
            }
            (Pass::Weights(of_column), Pass::Weights(of_row)) => {
                for y in top..bottom {
                    let taps = of_column.iter().map(|&(place, weight)| (rows.row(y, place), weight));
                    weigh(taps, &mut bytes[first..][..length]);
                    pad(bytes, columns, step, length, row.outside);
                    let taps = of_row.iter().map(|&(place, weight)| (&bytes[place * step..][..length], weight));
                    weigh(taps, to(y));
                }
            }
            (Pass::Proven(of_column), Pass::Proven(of_row)) => {
                let pitch = floats.len() / byte_sums::ROWS;
                let mut input_rows = Vec::with_capacity(column.size + byte_sums::ROWS - 1);
                for y in (top..bottom).step_by(byte_sums::ROWS) {
                    input_rows.clear();
                    input_rows.extend((0..column.size + byte_sums::ROWS - 1).map(|place| rows.row(y, place)));
                    of_column.along_columns::<S, V>(simd, &input_rows, &mut floats[first..], pitch, queue);
                    for (y, floats) in (y..bottom).zip(floats.chunks_exact_mut(pitch)) {
                        pad(floats, columns, step, length, row.outside.into());
                        of_row.along_row::<S, V>(simd, floats, step, to(y), queue);
                    }
                }
            }
            _ => unreachable!("`new` takes filters of one kind"),
        }
    }
}

/// The rows of the input and the filter along its columns.
struct Rows<'a> {
    input: &'a Input<'a>,
    axis: &'a AxisPass,
    outside: &'a [u8],
}

impl Rows<'_> {
    /// Row `place` of those under the window of row `y`.
    #[inline(always)]
    fn row(&self, y: usize, place: usize) -> &[u8] {
        let at = (y + place) as isize - self.axis.before as isize;
        // SAFETY: `new` has checked that rows have no gaps.
        unsafe { self.input.row(at, self.axis.border, self.outside.len()) }.unwrap_or(self.outside)
    }

    /// The sums of the window of row `top` without its last row.
    #[inline(always)]
    fn start(&self, sums: &mut [u16], top: usize) {
        sums.fill(0);
        for place in 0..self.axis.size - 1 {
            for (sum, &value) in sums.iter_mut().zip(self.row(top, place)) {
                *sum += u16::from(value);
            }
        }
    }
}

/// The means along the columns. `sums` are those of the windows without their last row, `new`; they become those of the
/// next row's windows, which lack row `old`.
#[inline(always)]
fn means_of_columns<S: Simd>(simd: S, means: &Means, sums: &mut [u16], new: &[u8], old: &[u8], to: &mut [u16]) {
    let count = to.len();
    assert!(sums.len() == count && new.len() == count && old.len() == count);
    let factors = means.factors(simd);
    let whole = count / (2 * S::LANES) * (2 * S::LANES);
    for i in (0..whole).step_by(2 * S::LANES) {
        // SAFETY: all slices have a vector from i on, as `whole` says.
        unsafe {
            let sum = simd.add_shorts(simd.load_shorts(sums.as_ptr().add(i)), simd.load_u8_shorts(new.as_ptr().add(i)));
            simd.store_shorts(to.as_mut_ptr().add(i), means.means(simd, &factors, sum));
            let rest = simd.sub_shorts(sum, simd.load_u8_shorts(old.as_ptr().add(i)));
            simd.store_shorts(sums.as_mut_ptr().add(i), rest);
        }
    }
    for i in whole..count {
        let sum = sums[i].wrapping_add(new[i].into());
        to[i] = means.mean(sum);
        sums[i] = sum.wrapping_sub(old[i].into());
    }
}

/// `to[i] = sum of weight * from[i]` over the taps, of which the last 8 bits are kept.
#[inline(always)]
fn weigh<'a>(taps: impl Iterator<Item = (&'a [u8], u8)>, to: &mut [u8]) {
    let mut is_first = true;
    for (from, weight) in taps {
        // A constant weight needs no product.
        match (is_first, weight) {
            (true, 1) => to.copy_from_slice(from),
            (true, _) => add(to, from, |_, value| weight.wrapping_mul(value)),
            (false, 1) => add(to, from, |sum, value| sum.wrapping_add(value)),
            (false, 2) => add(to, from, |sum, value| sum.wrapping_add(value.wrapping_mul(2))),
            (false, 255) => add(to, from, |sum, value| sum.wrapping_sub(value)),
            (false, _) => add(to, from, |sum, value| sum.wrapping_add(weight.wrapping_mul(value))),
        }
        is_first = false;
    }
    if is_first {
        to.fill(0);
    }
}

#[inline(always)]
fn add(to: &mut [u8], from: &[u8], sum: impl Fn(u8, u8) -> u8) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = sum(*to, from);
    }
}

/// Writes the border of a row of `length` values.
#[inline(always)]
fn pad<T: Copy>(row: &mut [T], columns: &PaddedRange, step: usize, length: usize, outside: T) {
    let first = columns.before.len() * step;
    let after = first + length;
    for (places, start) in [(&columns.before, 0), (&columns.after, after)] {
        for (i, &column) in places.iter().enumerate() {
            let to = start + i * step;
            match column {
                Some(column) => row.copy_within(first + column * step..first + (column + 1) * step, to),
                None => row[to..to + step].fill(outside),
            }
        }
    }
}

/// The means along a row. `row` has its border, and SLACK values more; `sums` has SLACK values more than `to`.
#[inline(always)]
fn means_of_row<S: Simd>(simd: S, means: &Means, row: &mut [u16], sums: &mut [u16], step: usize, to: &mut [u8]) {
    let (count, size) = (to.len(), means.size());
    assert!(row.len() >= count + (size - 1) * step + SLACK && sums.len() >= count + SLACK);
    macro_rules! few {
        ($($size:literal),*) => {
            match size {
                // SAFETY: the slices have the values of all windows and SLACK values more, as asserted.
                $($size => unsafe { sums_of_few::<S, $size>(simd, row, step, sums, means, to) },)*
                // SAFETY: as above.
                _ => unsafe {
                    means.along_memory(simd, row.as_mut_ptr(), sums.as_mut_ptr(), step, count);
                    narrow(simd, sums, to);
                },
            }
        };
    }
    few!(2, 3, 4, 5, 6, 7, 8, 9)
}

/// The means of a constant number of values.
///
/// # Safety
/// `row` has the values of all windows and SLACK values more.
#[inline(always)]
unsafe fn sums_of_few<S: Simd, const SIZE: usize>(
    simd: S,
    row: &[u16],
    step: usize,
    sums: &mut [u16],
    means: &Means,
    to: &mut [u8],
) {
    let (lanes, factors) = (2 * S::LANES, means.factors(simd));
    for start in (0..to.len()).step_by(lanes) {
        // SAFETY: less than SLACK values after the last window; `sums` has room for a vector.
        unsafe {
            let mut sum = simd.load_shorts(row.as_ptr().add(start));
            for i in 1..SIZE {
                sum = simd.add_shorts(sum, simd.load_shorts(row.as_ptr().add(start + i * step)));
            }
            let mean = means.means(simd, &factors, sum);
            if start + lanes <= to.len() {
                simd.store_shorts_u8(to.as_mut_ptr().add(start), mean);
            } else {
                simd.store_shorts(sums.as_mut_ptr(), mean);
                for (to, &mean) in to[start..].iter_mut().zip(sums.iter()) {
                    *to = mean as u8;
                }
            }
        }
    }
}

/// Writes values of at most 255 as bytes. `from` is at least as long as `to`.
#[inline(always)]
fn narrow<S: Simd>(simd: S, from: &[u16], to: &mut [u8]) {
    assert!(from.len() >= to.len());
    let whole = to.len() / (2 * S::LANES) * (2 * S::LANES);
    for i in (0..whole).step_by(2 * S::LANES) {
        // SAFETY: both have a vector from i on.
        unsafe { simd.store_shorts_u8(to.as_mut_ptr().add(i), simd.load_shorts(from.as_ptr().add(i))) };
    }
    for (to, &from) in to.iter_mut().zip(from).skip(whole) {
        *to = from as u8;
    }
}
