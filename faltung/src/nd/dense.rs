//! Correlation with weights of as many axes as the array.
//!
//! A job takes a block of results. It converts the elements that the block reads, border included, to a packed block of
//! scratch memory. There each product of a sum lies at the same distance from its result.

mod block;

use kernels_gpu::abi::border::BorderMode;

use super::axis::before;
use super::border::PaddedRange;
use super::convert::LastStep;
use super::kernel::{Planes, Real, SLACK, TILE_ROWS, Tap};
use super::narrow::{Again, Final, Narrow, Order, PARTIAL, Radius, Recheck, Values};
use super::scratch::Scratch;
use super::transformed::{Results, Tiles};
use super::{Input, Output, Sums, run_jobs};
use crate::cpu::simd::Level;
use crate::{Accuracy, Error, Result};
use block::{Block, BlockAxis};

/// Weights, and what stands outside of the array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correlation<'a> {
    /// The weights, the last axis fastest. Those of magnitude 2^-52 or less count as 0, and products with 0 are left
    /// out, as in SciPy: a NaN there does not matter.
    pub weights: &'a [f64],
    /// Weights along each axis.
    pub shape: &'a [usize],
    /// How far the weights are shifted towards the start of each axis, as in [`Lines::origin`](super::Lines::origin).
    pub origins: &'a [isize],
    /// What stands outside of the array.
    pub border: BorderMode,
    /// The value outside, with [`BorderMode::Constant`].
    pub value: f64,
}

impl Correlation<'_> {
    /// Fails unless the weights fit an array of so many axes.
    pub(super) fn check(&self, axes: usize) -> Result<()> {
        let Self { weights, shape, origins, .. } = *self;
        if shape.len() != axes || origins.len() != axes {
            return Err(Error::Number {
                what: "the axes of the weights and of the origins",
                required: "as many as the array has",
                found: format!("{} and {} for {axes}", shape.len(), origins.len()),
            });
        }
        for (&size, &origin) in shape.iter().zip(origins) {
            super::check_size(size, origin)?;
        }
        if Some(weights.len()) != shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size)) {
            let required = "the product of their shape";
            let found = format!("{} of shape {shape:?}", weights.len());
            return Err(Error::Number { what: "the number of weights", required, found });
        }
        Ok(())
    }
}

/// `output[i] = sum over j of weights[j] * input[i + j - shape / 2 - origins]`, where i and j are indices of all axes:
/// `scipy.ndimage.correlate`.
///
/// Input and output have no byte in common.
///
/// # Errors
/// - [`Error::Number`] if the output has another shape, weights or origins do not fit the array, or sums of `f32` are
///   asked for other types.
/// - [`Error::Cancelled`]. Some results are then unwritten.
/// - [`Error::Parse`] if `FALTUNG_CPU` names no instruction set that the CPU has.
///
/// ```
/// use faltung::BorderMode;
/// use faltung::nd::{Correlation, Input, Output, Sums, correlate};
///
/// let (values, mut result) = ([1_u8, 2, 3, 4, 5, 6], [0_i16; 6]);
/// let (input, output) = (Input::new(&values, &[2, 3])?, Output::new(&mut result, &[2, 3])?);
/// // Each element less the one above and to the left of it.
/// let (weights, shape, origins) = (&[-1.0, 0.0, 0.0, 1.0], &[2, 2], &[0, 0]);
/// let correlation = Correlation { weights, shape, origins, border: BorderMode::Clamp, value: 0.0 };
/// correlate(input, output, &correlation, Sums::F64)?;
/// assert_eq!(result, [0, 1, 1, 3, 4, 4]);
/// # Ok::<(), faltung::Error>(())
/// ```
pub fn correlate(input: Input<'_>, output: Output<'_>, correlation: &Correlation<'_>, sums: Sums) -> Result<()> {
    sums.check(input.layout.element, output.layout.element)?;
    output.layout.check_shape(&input.layout)?;
    correlation.check(input.layout.shape.len())?;
    if input.layout.elements() == 0 {
        return Ok(());
    }
    match sums {
        Sums::F32 => run::<f32, _>(input, output, correlation, None, usize::MAX, |_| Final),
        Sums::F64 => {
            let values = values(&input, correlation);
            let narrow = narrow(values, &output, correlation);
            if narrow == Some(Narrow::Exact) {
                return run::<f32, _>(input, output, correlation, None, usize::MAX, |_| Final);
            }
            if let Some(tiles) = Tiles::new(Level::chosen()?, &input, &output, correlation, values, Results::Dropped)? {
                return tiles.run(&input, &output, correlation).map(drop);
            }
            match narrow {
                Some(Narrow::Proven(radius)) => proven(input, output, correlation, radius),
                _ => run::<f64, _>(input, output, correlation, None, usize::MAX, |_| Final),
            }
        }
    }
}

/// As [`correlate`] with sums of `f64`, but for what becomes of the sums. Integers are those of the sums in order.
/// Results of floating point may be those of transformed sums, where `accuracy` allows it. The arguments are checked, and
/// there are elements.
///
/// # Errors
/// As for [`correlate`], but for the checks.
pub(super) fn correlate_rounded(
    input: Input<'_>,
    output: Output<'_>,
    correlation: &Correlation<'_>,
    last: LastStep,
    accuracy: Accuracy,
) -> Result<()> {
    let values = values(&input, correlation);
    if narrow(values, &output, correlation) == Some(Narrow::Exact) {
        return run::<f32, _>(input, output, correlation, Some(last), usize::MAX, |_| Final);
    }
    let results = Results::Rounded(last, accuracy);
    if let Some(tiles) = Tiles::new(Level::chosen()?, &input, &output, correlation, values, results)?
        && tiles.run(&input, &output, correlation)?
    {
        return Ok(());
    }
    run::<f64, _>(input, output, correlation, Some(last), usize::MAX, |_| Final)
}

/// What is known of the values that a correlation reads.
fn values(input: &Input<'_>, correlation: &Correlation<'_>) -> Option<Values> {
    let outside = (correlation.border == BorderMode::Constant).then_some(correlation.value);
    Values::new(input.layout.element, outside)
}

/// What sums of `f32` are good for.
fn narrow(values: Option<Values>, output: &Output<'_>, correlation: &Correlation<'_>) -> Option<Narrow> {
    let weights: Vec<_> = correlation.weights.iter().copied().filter(|weight| !counts_as_0(weight)).collect();
    Narrow::new(values, output.layout.element, &weights, additions(correlation))
}

/// By sums of `f32` that are off by less than the radius.
pub(super) fn proven(
    input: Input<'_>,
    output: Output<'_>,
    correlation: &Correlation<'_>,
    radius: Radius,
) -> Result<()> {
    let again = |taps| Again { order: Order::Taps(taps), radius };
    run::<f32, _>(input, output, correlation, None, PARTIAL, again)
}

/// Whether products with a weight are left out.
pub(super) fn counts_as_0(weight: &f64) -> bool {
    weight.abs() <= f64::EPSILON
}

/// The most additions that a product goes through, in partial sums of [`PARTIAL`] products or rows of about as many.
fn additions(correlation: &Correlation<'_>) -> usize {
    let (shape, products) = (correlation.shape, correlation.weights.len());
    let of_rows = |shape: &[usize]| {
        let [planes @ .., rows, columns] = shape else { return 0 };
        let rows = planes.iter().product::<usize>() * (rows + TILE_ROWS);
        PARTIAL.max(*columns) + rows.div_ceil(rows_of_partial(*columns))
    };
    // The last axis may be that of the channels within a row.
    let outer = shape.split_last().map_or(0, |(_, outer)| of_rows(outer));
    of_rows(shape).max(outer).max(PARTIAL + products.div_ceil(PARTIAL))
}

/// Rows of weights whose products make a partial sum.
fn rows_of_partial(columns: usize) -> usize {
    (PARTIAL / columns.max(1)).max(1)
}

/// Bytes of a packed block: within the second-level cache.
const BLOCK: usize = 384 << 10;

/// The longest axis that is taken as channels. A longer one has rows of its own.
const MOST_CHANNELS: usize = FEW - 1;

/// Results of a row of a block: at least so many, and as many as are so many bytes of the input, which the CPU then
/// fetches ahead well.
const ROW: (usize, usize) = (512, 1024);

/// Sets the axes' blocks, of which the packed ones have `most` places. The last axis is the one of the rows: of `inner`
/// elements of so many `bytes`.
fn set_blocks(axes: &mut [BlockAxis], inner: usize, bytes: usize, most: usize) {
    let Some((row, outer)) = axes.split_last_mut() else { return };
    // Blocks of one length: a short one at the end would take nearly as long.
    let longest = (ROW.0.max(ROW.1 / bytes) / inner).max(if inner > 1 { 4 * row.size } else { 1 });
    row.block = row.length.div_ceil(row.length.div_ceil(longest));
    let places = |row: &BlockAxis, outer: &[BlockAxis]| {
        outer.iter().fold(row.padded().saturating_mul(inner), |places, axis| places.saturating_mul(axis.padded()))
    };
    while places(row, outer) > most && row.block * inner > 64 {
        row.block = row.block.div_ceil(2);
    }
    // Twice as many results along the axis whose border costs most, as long as the block stays small enough.
    loop {
        let cost = |axis: &BlockAxis| (axis.size as f64 - 0.5) / axis.block as f64;
        let mut order: Vec<usize> = (0..outer.len()).filter(|&i| outer[i].block < outer[i].length).collect();
        order.sort_by(|&a, &b| cost(&outer[b]).total_cmp(&cost(&outer[a])));
        let grown = order.into_iter().find(|&i| {
            let old = outer[i].block;
            outer[i].block = (2 * old).min(outer[i].length);
            let fits = places(row, outer) <= most;
            if !fits {
                outer[i].block = old;
            }
            fits
        });
        if grown.is_none() {
            return;
        }
    }
}

/// Results of a row below which another axis is worth more as the axis of the rows.
const FEW: usize = 64;

/// Moves the longest axis of an array of `lengths` to the end, where the last one has few elements. Channels may stay
/// last: an axis of one weight is part of the rows of the one before.
fn make_rows_long(order: &mut Vec<usize>, lengths: &[usize], weights: &[usize]) {
    let mut row = 1;
    for &axis in order.iter().rev() {
        row *= lengths[axis];
        if row >= FEW {
            return;
        }
        if weights[axis] > 1 || lengths[axis] > MOST_CHANNELS {
            break;
        }
    }
    // Of equally long ones the last.
    if let Some(place) = (0..order.len()).max_by_key(|&place| lengths[order[place]]) {
        let longest = order.remove(place);
        order.push(longest);
    }
}

/// Sums of type `A`, in partial sums of so many products. `recheck` makes of the products in `f64` what looks at the
/// sums. Without a last step they are converted as SciPy converts them.
fn run<A: Real, R: Recheck<A>>(
    input: Input<'_>,
    output: Output<'_>,
    correlation: &Correlation<'_>,
    last: Option<LastStep>,
    partial: usize,
    recheck: impl FnOnce(Vec<Tap<f64>>) -> R,
) -> Result<()> {
    let Correlation { weights, shape, origins, border, value } = *correlation;
    let count = input.layout.shape.len();
    let level = Level::chosen()?;

    // The axis whose results lie closest together comes last. The order of the sums does not depend on it. Axes of one
    // element and one weight change nothing.
    let mut order: Vec<usize> = (0..count).filter(|&axis| shape[axis] > 1 || input.layout.shape[axis] > 1).collect();
    order.sort_by_key(|&axis| std::cmp::Reverse(output.layout.strides[axis].unsigned_abs()));
    make_rows_long(&mut order, &input.layout.shape, shape);
    let mut axes: Vec<_> = order
        .iter()
        .map(|&axis| BlockAxis {
            length: input.layout.shape[axis],
            from: input.layout.strides[axis],
            to: output.layout.strides[axis],
            size: shape[axis],
            before: before(shape[axis], origins[axis]),
            block: 1,
            packed: 1,
        })
        .collect();
    let single = BlockAxis { length: 1, from: 0, to: 0, size: 1, before: 0, block: 1, packed: 1 };
    if axes.is_empty() {
        axes.push(single); // an array without axes has one element
    }
    // The channels of a picture: a row holds all of them.
    let inner = match axes[..] {
        [.., _, last] if last.size == 1 && last.length <= MOST_CHANNELS => axes.pop().unwrap_or(single),
        _ => single,
    };
    set_blocks(&mut axes, inner.length, input.layout.element.size(), BLOCK / size_of::<A>());
    let mut places = inner.length;
    for axis in axes.iter_mut().rev() {
        axis.packed = places;
        places *= axis.padded();
    }

    // In the order of the weights, whatever that of the axes.
    let packed = |axis: usize| {
        let place = order.iter().position(|&number| number == axis);
        place.and_then(|place| axes.get(place)).map_or(0, |axis| axis.packed)
    };
    let packed: Vec<_> = (0..count).map(packed).collect();
    let mut taps = Vec::new();
    for (number, &weight) in weights.iter().enumerate() {
        if counts_as_0(&weight) {
            continue;
        }
        let (mut rest, mut offset) = (number, 0);
        for (&size, &packed) in shape.iter().zip(&packed).rev() {
            offset += rest % size * packed;
            rest /= size;
        }
        taps.push(Tap { offset: offset as isize, weight });
    }
    let narrowed: Vec<_> = taps.iter().map(|tap| Tap { offset: tap.offset, weight: A::from_f64(tap.weight) }).collect();
    let (taps, recheck) = (narrowed, recheck(taps));

    let planes = planes(correlation, &order, &axes, inner.length, &taps, partial);
    let jobs = axes.iter().map(BlockAxis::blocks).product();
    let work = input.layout.elements().saturating_mul(taps.len() + 1);
    let row = axes.last().map_or(1, |axis| axis.block) * inner.length + SLACK;
    let scratch = || Ok((Scratch::new(places + SLACK), Scratch::new(TILE_ROWS * row)));
    run_jobs(jobs, work, scratch, |(block, results), mut number| {
        let mut starts = vec![0; axes.len()];
        for (start, axis) in starts.iter_mut().zip(&axes).rev() {
            *start = number % axis.blocks() * axis.block;
            number /= axis.blocks();
        }
        let ranges: Vec<_> = axes
            .iter()
            .zip(&starts)
            .map(|(axis, &start)| {
                // A block at the end of an axis may have fewer results than the others.
                let read = axis.padded().min(axis.length - start + axis.size - 1);
                PaddedRange::new(border, start as isize - axis.before as isize, read, axis.length)
            })
            .collect();
        level.run(Block {
            level,
            input: &input,
            output: &output,
            axes: &axes,
            inner,
            starts: &starts,
            ranges: &ranges,
            outside: A::from_f64(value),
            taps: &taps,
            planes: planes.as_ref(),
            partial,
            recheck: &recheck,
            last,
            block: block.as_mut_ptr(),
            results: results.as_mut_ptr(),
            pitch: row as isize,
        });
    })
}

/// The weights of the axis of the rows and of the one before it, if they may be walked as rows of a picture: none of
/// them counts as 0, and the order of the sums is that of these axes.
fn planes<A: Real>(
    correlation: &Correlation<'_>,
    order: &[usize],
    axes: &[BlockAxis],
    column_step: usize,
    taps: &[Tap<A>],
    partial: usize,
) -> Option<Planes<A>> {
    let [.., above, row] = axes else { return None };
    let is_in_order = order.is_sorted() && taps.len() == correlation.weights.len();
    if !is_in_order || above.size == 1 {
        return None;
    }
    let of_plane = above.size * row.size;
    Some(Planes {
        offsets: taps.iter().step_by(of_plane).map(|tap| tap.offset).collect(),
        weights: taps.iter().map(|tap| tap.weight).collect(),
        rows: above.size,
        columns: row.size,
        row_step: above.packed,
        column_step,
        partial: if partial == usize::MAX { partial } else { rows_of_partial(row.size) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_row_have_one_length() {
        let axis = BlockAxis { length: 512, from: 0, to: 0, size: 3, before: 1, block: 1, packed: 1 };
        for (channels, expected) in [(1, 512), (3, 128), (4, 128), (31, 16)] {
            let mut axes = [axis; 2];
            set_blocks(&mut axes, channels, 2, BLOCK / size_of::<f64>());
            assert_eq!(axes[1].block, expected, "{channels} channels");
        }
    }
}
