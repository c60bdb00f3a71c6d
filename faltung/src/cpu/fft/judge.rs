//! Which of the transformed sums of a row are accepted.

use super::error::Rule;
use crate::cpu::simd::{Level, Simd, Work};

/// A sum that is not accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rejected {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) sum: f64,
}

/// Sums that are judged at a time.
const LANES: usize = 16;

/// Writes what becomes of the sums of row `y` to `to`, accepted or not: the sums as `f32`, or the integers. Adds those
/// that are not accepted to `rejected`.
pub(super) fn judge(level: Level, rule: Rule, y: usize, sums: &[f64], to: &mut [f32], rejected: &mut Vec<Rejected>) {
    match rule {
        Rule::Magnitude { least } => {
            let accept = |sum: f64| (sum as f32, sum.abs() >= least);
            level.run(Judge { accept, y, sums, to, rejected });
        }
        Rule::Multiple { unit } => {
            let per_unit = 1.0 / unit;
            // An ordered sum is never -0.
            let accept = |sum: f64| (((sum * per_unit).round_ties_even() * unit + 0.0) as f32, true);
            level.run(Judge { accept, y, sums, to, rejected });
        }
        Rule::Rounded { scale, offset, radius, most } => {
            let accept = |sum: f64| {
                let value = sum * scale + offset;
                let [low, high] = ends(value, radius, most);
                (low as f32, low == high)
            };
            level.run(Judge { accept, y, sums, to, rejected });
        }
    }
}

/// The integers of both ends of `value +- radius`.
#[inline(always)]
pub(super) fn ends(value: f64, radius: f64, most: f64) -> [f64; 2] {
    [value - radius, value + radius].map(|end| end.max(0.0).min(most).round_ties_even())
}

struct Judge<'a, A> {
    accept: A,
    y: usize,
    sums: &'a [f64],
    to: &'a mut [f32],
    rejected: &'a mut Vec<Rejected>,
}

impl<A: Fn(f64) -> (f32, bool)> Work for Judge<'_, A> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, _: S) {
        let Self { accept, y, sums, to, rejected } = self;
        let mut reject = |x: usize, sum: f64| rejected.push(Rejected { x: x as u32, y: y as u32, sum });
        let (chunks, rest) = sums.as_chunks::<LANES>();
        let (tos, to_rest) = to.as_chunks_mut::<LANES>();
        for (chunk, (sums, to)) in chunks.iter().zip(tos).enumerate() {
            let mut accepted = [0_u64; LANES];
            for i in 0..LANES {
                let (value, is_accepted) = accept(sums[i]);
                to[i] = value;
                accepted[i] = u64::from(is_accepted);
            }
            if accepted.iter().fold(1, |all, one| all & one) == 0 {
                for (i, &sum) in sums.iter().enumerate().filter(|&(i, _)| accepted[i] == 0) {
                    reject(chunk * LANES + i, sum);
                }
            }
        }
        for (i, (&sum, to)) in rest.iter().zip(to_rest).enumerate() {
            let (value, is_accepted) = accept(sum);
            *to = value;
            if !is_accepted {
                reject(chunks.len() * LANES + i, sum);
            }
        }
    }
}
