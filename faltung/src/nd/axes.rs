//! Filters along several axes, one after the other.

use super::bands::Bands;
use super::byte_axes::ByteAxes;
use super::float_means::FloatMeans;
use super::{Input, Lines, Output, Sums, correlate1d, uniform1d};
use crate::Result;
use crate::cpu::simd::Level;

/// What is computed along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Along<'a> {
    /// The mean of so many elements, as [`uniform1d`] computes it.
    Mean(usize),
    /// The sum with these weights, as [`correlate1d`] computes it.
    Weights(&'a [f64]),
}

impl Along<'_> {
    /// Elements that a result reads.
    #[must_use]
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Mean(size) => *size,
            Self::Weights(weights) => weights.len(),
        }
    }
}

/// A filter along one axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AxisFilter<'a> {
    /// What is computed.
    pub along: Along<'a>,
    /// The axis, and how the filter lies on it.
    pub lines: Lines,
}

/// Filters an array along one axis after the other. The second filter reads the results of the first one, in the type
/// of the output. The results are those of [`correlate1d`] and [`uniform1d`], called one after the other. Two filters
/// of a two-dimensional array take one pass over memory, but for means of numbers larger than a byte, where only those
/// of floating-point numbers do.
///
/// Means of `f32` with sums of `f32` are sums of the window alone.
///
/// Input and output are the same array, of the same layout, or have no byte in common.
/// Without filters the output is unwritten.
///
/// # Errors
/// As for [`correlate1d`].
///
/// ```
/// use faltung::BorderMode;
/// use faltung::nd::{Along, AxisFilter, Input, Lines, Output, Sums, filter_axes};
///
/// let (values, mut result) = ([0_u8, 9, 0, 0, 9, 0], [0_u8; 6]);
/// let (input, output) = (Input::new(&values, &[2, 3])?, Output::new(&mut result, &[2, 3])?);
/// let lines = |axis| Lines { axis, origin: 0, border: BorderMode::Clamp, value: 0.0 };
/// let filter = |axis| AxisFilter { along: Along::Mean(3), lines: lines(axis) };
/// filter_axes(input, output, &[filter(0), filter(1)], Sums::F64)?;
/// assert_eq!(result, [3; 6]);
/// # Ok::<(), faltung::Error>(())
/// ```
pub fn filter_axes(input: Input<'_>, output: Output<'_>, filters: &[AxisFilter<'_>], sums: Sums) -> Result<()> {
    sums.check(input.layout.element, output.layout.element)?;
    output.layout.check_shape(&input.layout)?;
    for filter in filters {
        filter.lines.check_on_cpu(filter.along.size(), &input.layout)?;
    }
    if input.layout.elements() == 0 {
        return Ok(());
    }
    let level = Level::chosen()?;
    // The output, and what a later filter reads there.
    let written = || {
        let (first, layout) = (output.first, output.layout.clone());
        // SAFETY: the output is lent for as long as this function runs. A filter along lines may work in place.
        unsafe { Ok::<_, crate::Error>((Input::from_raw(first, layout.clone())?, Output::from_raw(first, layout)?)) }
    };
    if let Some((pair, others)) = filters.split_at_checked(2)
        && let Some(bytes) = ByteAxes::new(&input, &output, pair)
    {
        bytes.run(level, &input, &output)?;
        let (from, to) = written()?;
        return filter_axes(from, to, others, sums);
    }
    if let Some(means) = FloatMeans::new(&input, &output, filters, sums) {
        return means.run(level);
    }
    if let Some(bands) = Bands::new(&input, &output, filters, sums) {
        return bands.run();
    }
    let mut from = input;
    for filter in filters {
        let (next, to) = written()?;
        match filter.along {
            Along::Mean(size) => uniform1d(from, to, size, &filter.lines)?,
            Along::Weights(weights) => correlate1d(from, to, weights, &filter.lines, sums)?,
        }
        from = next;
    }
    Ok(())
}
