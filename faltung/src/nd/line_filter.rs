//! Filters along a line in floating point.

use super::kernel::{Mirrored, Real, Tap, divide, mirrored_sums, running_sums, weighted_sums, window_sums};
use super::lines::{LineSums, Places, ReadySums};
use super::narrow::{Order, PARTIAL, Recheck};
use crate::cpu::simd::Simd;

/// What is computed along a line.
pub(super) enum LineFilter<A> {
    /// The weights in the order in which they are added, each with its number.
    Taps(Vec<(usize, A)>),
    Mirrored(Mirrored<A>),
    /// The mean of so many values, of which no sum rounds.
    Windows(usize),
    /// The mean of so many values, summed in SciPy's order.
    Running(usize),
}

/// Whether the weights after the middle are the negatives of those before it, or else equal to them; None if neither.
pub(super) fn is_odd<A: Real>(weights: &[A]) -> Option<bool> {
    let middle = weights.len() / 2;
    let is = |sign: f64| {
        (1..=middle).all(|d| {
            let (before, after) = (weights[middle - d].to_f64(), weights[middle + d].to_f64());
            (after - sign * before).abs() <= f64::EPSILON
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
        Self::Taps(numbers.map(|number| (number, weights[number])).collect())
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
            Self::Taps(taps) => {
                LineFilter::Taps(taps.iter().map(|&(number, weight)| (number, weight as f32)).collect())
            }
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

    /// The products of a sum in their order, where the values of a line are `step` places apart.
    pub(super) fn order(&self, step: usize) -> Order {
        let tap = |(places, weight)| Tap { offset: (places * step) as isize, weight };
        match self {
            Self::Mirrored(Mirrored { middle, before, is_odd }) => {
                let pairs = (1..=before.len()).rev().zip(before.iter().copied()).map(tap).collect();
                Order::Mirrored { middle: *middle, pairs, is_odd: *is_odd }
            }
            Self::Taps(taps) => Order::Taps(taps.iter().copied().map(tap).collect()),
            Self::Windows(_) | Self::Running(_) => unreachable!("means are not summed again"),
        }
    }
}

/// A filter with its partial sums of so many products. `recheck` makes what looks at the sums, for values of a line
/// that are so many places apart.
pub(super) struct Summed<A, M> {
    filter: LineFilter<A>,
    partial: usize,
    recheck: M,
}

impl<A, M> Summed<A, M> {
    pub(super) fn new<R>(filter: LineFilter<A>, partial: usize, recheck: M) -> Self
    where
        M: Fn(usize) -> R + Sync,
        R: Recheck<A>,
    {
        Self { filter, partial, recheck }
    }
}

impl<A: Real, R: Recheck<A>, M: Fn(usize) -> R + Sync> LineSums for Summed<A, M> {
    type Value = A;
    type Ready = ReadySummed<A, R>;

    fn size(&self) -> usize {
        self.filter.size()
    }

    fn is_running(&self) -> bool {
        matches!(self.filter, LineFilter::Running(_))
    }

    fn ready(self, step: usize) -> Self::Ready {
        let taps = match &self.filter {
            LineFilter::Taps(taps) => {
                taps.iter().map(|&(number, weight)| Tap { offset: (number * step) as isize, weight }).collect()
            }
            _ => Vec::new(),
        };
        ReadySummed { filter: self.filter, taps, partial: self.partial, recheck: (self.recheck)(step) }
    }
}

/// A [`Summed`] for values that are a known number of places apart.
pub(super) struct ReadySummed<A, R> {
    filter: LineFilter<A>,
    taps: Vec<Tap<A>>,
    partial: usize,
    recheck: R,
}

impl<A: Real, R: Recheck<A>> ReadySums for ReadySummed<A, R> {
    type Value = A;

    #[inline(always)]
    unsafe fn run<S: Simd>(&self, simd: S, places: &Places<A>) {
        let Places { values: from, results: to, sums, rows, width, is_first } = *places;
        let count = rows * width;
        // SAFETY: `Places` has the rows of the results and as many before and after them as the filter reads, and SLACK
        // values more.
        unsafe {
            match &self.filter {
                LineFilter::Taps(_) => {
                    weighted_sums(simd, from, &self.taps, self.partial, to, count);
                    self.recheck.run(simd, from, to, count);
                }
                LineFilter::Mirrored(filter) => {
                    let from = from.add(filter.before.len() * width);
                    if filter.is_odd {
                        mirrored_sums::<_, _, true>(simd, from, width, filter, to, count);
                    } else {
                        mirrored_sums::<_, _, false>(simd, from, width, filter, to, count);
                    }
                    self.recheck.run(simd, from, to, count);
                }
                LineFilter::Windows(size) => {
                    window_sums(simd, from, *size, width, to, count);
                    divide(to, count, A::from_f64(*size as f64));
                }
                LineFilter::Running(size) => {
                    let from = if is_first { from } else { from.add(width) };
                    running_sums(from, *size, width, rows, is_first, sums, to);
                    divide(to, count, A::from_f64(*size as f64));
                }
            }
        }
    }
}
