//! Filters along a line in floating point.

use super::block::Places;
use super::kernel::{Mirrored, Real, Tap, divide, group, mirrored_sums, running_means, weighted_sums, window_sums};
use super::lines::LineSums;
use super::narrow::{Final, Order, PARTIAL, Recheck};
use crate::cpu::simd::Simd;

/// What is computed along a line.
pub(super) enum LineFilter<A> {
    /// The weights in the order in which they are added.
    Taps(Vec<Tap<A>>),
    Mirrored(Mirrored<A>),
    /// The mean of so many values, of which no sum rounds.
    Windows(usize),
    /// The mean of so many values, summed in SciPy's order.
    Running(usize),
}

/// Whether the weights after the middle are the negatives of those before it, or else equal to them; None if neither.
///
/// As in SciPy, two weights differ only if their difference is above a bound. So a NaN differs from no weight, and
/// neither do two infinities of one sign.
pub(super) fn is_odd<A: Real>(weights: &[A]) -> Option<bool> {
    let middle = weights.len() / 2;
    let is = |sign: f64| {
        (1..=middle).all(|d| {
            let (before, after) = (weights[middle - d].to_f64(), weights[middle + d].to_f64());
            let differ = (after - sign * before).abs() > f64::EPSILON;
            !differ
        })
    };
    match weights.len() % 2 {
        1 if is(1.0) => Some(false),
        1 if is(-1.0) => Some(true),
        _ => None,
    }
}

impl<A: Real> LineFilter<A> {
    pub(super) fn of(weights: &[A]) -> Self {
        if let Some(is_odd) = is_odd(weights) {
            let middle = weights.len() / 2;
            return Self::Mirrored(Mirrored { middle: weights[middle], before: weights[..middle].to_vec(), is_odd });
        }
        let size = weights.len();
        // The last one comes first, as in SciPy.
        let numbers = size.checked_sub(1).into_iter().chain(0..size.saturating_sub(1));
        Self::Taps(numbers.map(|number| Tap { offset: number as isize, weight: weights[number] }).collect())
    }

    fn size(&self) -> usize {
        match self {
            Self::Taps(taps) => taps.len(),
            Self::Mirrored(mirrored) => 2 * mirrored.before.len() + 1,
            Self::Windows(size) | Self::Running(size) => *size,
        }
    }
}

impl LineFilter<f64> {
    /// With weights of `f32`.
    pub(super) fn narrowed(&self) -> LineFilter<f32> {
        match self {
            Self::Taps(taps) => LineFilter::Taps(
                taps.iter().map(|&Tap { offset, weight }| Tap { offset, weight: weight as f32 }).collect(),
            ),
            Self::Mirrored(Mirrored { middle, before, is_odd }) => LineFilter::Mirrored(Mirrored {
                middle: *middle as f32,
                before: before.iter().map(|&weight| weight as f32).collect(),
                is_odd: *is_odd,
            }),
            Self::Windows(size) => LineFilter::Windows(*size),
            Self::Running(size) => LineFilter::Running(*size),
        }
    }

    /// The most additions that a product goes through, in partial sums of [`PARTIAL`] products.
    pub(super) fn additions(&self) -> usize {
        match self {
            // Both values of a pair are added first.
            Self::Mirrored(mirrored) => mirrored.before.len() + 2,
            _ => PARTIAL + self.size().div_ceil(PARTIAL),
        }
    }

    /// The products of a sum in their order.
    pub(super) fn order(&self) -> Order {
        let tap = |(distance, weight)| Tap { offset: distance as isize, weight };
        match self {
            Self::Mirrored(Mirrored { middle, before, is_odd }) => {
                let pairs = (1..=before.len()).rev().zip(before.iter().copied()).map(tap).collect();
                Order::Mirrored { middle: *middle, pairs, is_odd: *is_odd }
            }
            Self::Taps(taps) => Order::Taps(taps.clone()),
            Self::Windows(_) | Self::Running(_) => unreachable!("means are not summed again"),
        }
    }
}

/// A filter with its partial sums of so many products, and what looks at the sums.
pub(super) struct Summed<A, R> {
    pub(super) filter: LineFilter<A>,
    pub(super) partial: usize,
    pub(super) recheck: R,
}

impl<A> Summed<A, Final> {
    pub(super) fn of(filter: LineFilter<A>) -> Self {
        Self { filter, partial: usize::MAX, recheck: Final }
    }
}

impl<A: Real, R: Recheck<A>> LineSums for Summed<A, R> {
    type Value = A;

    fn size(&self) -> usize {
        self.filter.size()
    }

    fn is_running(&self) -> bool {
        matches!(self.filter, LineFilter::Running(_))
    }

    #[inline(always)]
    fn fewest<S: Simd>(&self) -> usize {
        match self.filter {
            LineFilter::Taps(_) | LineFilter::Mirrored(_) if !R::NEEDS_SLACK => group::<S, A>(),
            LineFilter::Running(_) => 1,
            _ => usize::MAX,
        }
    }

    #[inline(always)]
    unsafe fn run<S: Simd>(&self, simd: S, places: &Places<A>) {
        let Places { values: from, step, results: to, .. } = *places;
        let (rows, count) = places.adjacent();
        // SAFETY: `Places` has the rows of the results and as many before and after them as the filter reads. It has
        // SLACK values more where a row is shorter than `fewest`.
        unsafe {
            match &self.filter {
                LineFilter::Taps(taps) => {
                    for row in 0..rows {
                        let (from, to) = (places.values_of(row), places.results_of(row));
                        weighted_sums(simd, from, step, taps, self.partial, to, count);
                        self.recheck.run(simd, from, step, to, count);
                    }
                }
                LineFilter::Mirrored(filter) => {
                    for row in 0..rows {
                        let (from, to) = (places.values_of(row + filter.before.len()), places.results_of(row));
                        if filter.is_odd {
                            mirrored_sums::<_, _, true>(simd, from, step, filter, to, count);
                        } else {
                            mirrored_sums::<_, _, false>(simd, from, step, filter, to, count);
                        }
                        self.recheck.run(simd, from, step, to, count);
                    }
                }
                LineFilter::Windows(size) => {
                    window_sums(simd, from, *size, places.width, to, count);
                    divide(to, count, A::from_f64(*size as f64));
                }
                LineFilter::Running(size) => running_means(places, *size),
            }
        }
    }
}
