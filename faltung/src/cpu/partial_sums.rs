//! Uncertain results of a separable mask, decided by their partial sums.
//!
//! A result is uncertain if the two passes can't say on which side of a boundary between two integers its ordered sum
//! lies. Here the distance from the boundary is compared with bounds that hold for this result alone.
//!
//! # Steps of one binade
//! Masks and pixels are not negative, so the partial sums `s` of the ordered sum never fall. Consider the steps for
//! which `2^e <= s <= 2^(e + 1)` before and after. Let `U = 2^(e - 23)`, the unit in the last place. `s` is a multiple
//! of `U`. So a step adds its product, rounded to a multiple of `U`:
//! ```text
//! fma(c, p, s) = s + round_U(c p)
//! ```
//! The rounding does not depend on `s`, except for ties: products half-way between two multiples of `U`. So the order
//! of such steps is free. Here eight or more chains add them, each lane its own coefficients, each chain from `2^e` on.
//! No chain reaches `2^(e + 1)`, because all chains together add what the ordered sum adds.
//!
//! # Bounds
//! The filtered rows `f[k]` are in the ring. They give the partial sums in real numbers from the last row up:
//! `S[k] = S[k + 1] - column[k] f[k]`. A window row is
//! - *exact* if the chains have added it,
//! - else *bounded*: each step rounds by at most half a unit in the last place of `S[k + 1]`.
//!
//! ```text
//! |ordered sum - (S + sum of the exact rows of (chains - column[k] f[k]))| <= bounds of the other rows + ties + passes
//! ```
//! Some rows become exact at a time, from the last one up, until the distance from the boundary is larger than the
//! bound. Results that stay undecided are recomputed in order.

use super::simd::{Simd, Work};
use crate::Problem;
use crate::plan::direct_sum::{ABOVE, exponent, half_unit, power, unit_of};

/// Binades of partial sums that are told apart. Smaller sums are bounded together.
const BINADES: usize = 6;
/// Rows of coefficients are padded to a multiple of this with zeros. It is a multiple of the lanes of each level.
const GROUP: usize = 16;
/// Chains in registers.
const CHAINS: usize = 8;
/// Rows that become exact before the bound is looked at.
const ROWS_AT_ONCE: usize = 8;

/// What is known of the partial sums of a mask before any image is seen.
#[derive(Debug)]
pub(super) struct PartialSums {
    /// The window's rows, each zero-padded to [`pitch`](Self::pitch) values.
    coefficients: Vec<f32>,
    /// A multiple of [`GROUP`].
    pitch: usize,
    /// The column of the mask, as the column pass uses it.
    column: Vec<f64>,
    /// For each row the coefficients that are not 0.
    steps: Vec<f64>,
    /// Entry `[k][i]` bounds what the steps of rows `0..k` round if no partial sum reaches `2^(top - i)`.
    before: Vec<[f64; BINADES]>,
    /// What ties can make of the chains in binade `i`, sums from `2^(top - i - 1)` to `2^(top - i)`.
    ties: [f64; BINADES],
    /// Half a unit in the last place of each binade's sums.
    half_units: [f64; BINADES],
    /// The lower end of each binade.
    starts: [f64; BINADES],
    top: i32,
    /// The errors of both passes and of the factors.
    passes: f64,
    /// How far a partial sum of this module can be from that of the ordered sum, and of the chains.
    margin: f64,
}

impl PartialSums {
    /// For masks without negative coefficients of images of bytes. `passes` bounds the errors of the separable method
    /// without those of the ordered sum, `radius` bounds both.
    pub(super) fn new(problem: &Problem, column: &[f32], passes: f64, radius: f64) -> Self {
        let width = problem.window().width();
        let pitch = width.next_multiple_of(GROUP);
        let mut coefficients = Vec::with_capacity(column.len() * pitch);
        let (mut steps, mut partial_sums) = (Vec::with_capacity(column.len()), Vec::new());
        let (mut sum, mut error) = (0.0, 0.0);
        for row in problem.window().coefficients().chunks_exact(width) {
            coefficients.extend_from_slice(row);
            coefficients.resize(coefficients.len().next_multiple_of(pitch), 0.0);
            let begin = partial_sums.len();
            for &coefficient in row.iter().filter(|&&coefficient| coefficient != 0.0) {
                sum += 255.0 * f64::from(coefficient);
                error += half_unit(ABOVE * (sum + error));
                partial_sums.push(ABOVE * (sum + error));
            }
            steps.push((partial_sums.len() - begin) as f64);
        }
        let top = exponent(ABOVE * (sum + error)) + 1;
        let mut before = vec![[0.0; BINADES]; column.len() + 1];
        let mut ties = [0.0; BINADES];
        for i in 0..BINADES {
            let limit = 0.999 * power(top - i as i32);
            let (mut bound, mut at) = (0.0, 0);
            for (k, &steps) in steps.iter().enumerate() {
                let of_row = &partial_sums[at..at + steps as usize];
                at += steps as usize;
                bound += ABOVE * of_row.iter().map(|&sum| half_unit(sum.min(limit))).sum::<f64>();
                before[k + 1][i] = bound;
            }
            let unit = top - i as i32 - 24;
            // The lowest bit of a byte is one of eight.
            let can_tie =
                |&&coefficient: &&f32| coefficient != 0.0 && (0..8).contains(&(unit - 1 - unit_of(coefficient)));
            ties[i] = problem.window().coefficients().iter().filter(can_tie).count() as f64 * power(unit);
        }
        let margin = radius + ties.iter().copied().fold(0.0, f64::max) + 1e-9;
        let column = column.iter().map(|&value| value.into()).collect();
        let half_units = std::array::from_fn(|i| power(top - i as i32 - 25));
        let starts = std::array::from_fn(|i| power(top - i as i32 - 1));
        let passes = passes + 1e-9;
        Self { coefficients, pitch, column, steps, before, ties, half_units, starts, top, passes, margin }
    }

    /// The same with bounds of 0, to see that wrong results are noticed.
    #[cfg(test)]
    pub(super) fn trust_all(&mut self) {
        self.passes = 0.0;
        self.ties = [0.0; BINADES];
        self.before.fill([0.0; BINADES]);
    }

    /// Bytes of a line from the pixel of the first coefficient on.
    pub(super) fn pitch(&self) -> usize {
        self.pitch
    }

    /// The binade of sums up to `sum`, but for the margin. It may be [`BINADES`] or more.
    #[inline(always)]
    fn binade(&self, sum: f64) -> usize {
        (self.top - 1 - exponent(sum + self.margin)).max(0) as usize
    }
}

/// An uncertain result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// The row of the band.
    pub(super) row: usize,
    /// The value in the row of the strip.
    pub(super) column: usize,
    /// Where its window begins in a line of bytes.
    pub(super) line_at: usize,
    /// The sum of both passes.
    pub(super) sum: f32,
}

/// Candidates, and what is decided of them.
#[derive(Debug, Default)]
pub(super) struct Decider {
    pub(super) candidates: Vec<Candidate>,
    /// For each candidate a number that rounds as its ordered sum does. NaN if it is not decided.
    pub(super) decided: Vec<f32>,
}

/// Decides candidates of a band.
pub(super) struct Decide<'a> {
    pub(super) partial_sums: &'a PartialSums,
    /// The filtered lines under the band.
    pub(super) filtered: &'a [&'a [f32]],
    /// The same lines as bytes.
    pub(super) lines: &'a [&'a [u8]],
    pub(super) decider: &'a mut Decider,
}

impl Work for Decide<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { partial_sums, filtered, lines, decider: Decider { candidates, decided } } = self;
        let height = partial_sums.column.len();
        let values = filtered.iter().map(|line| line.len()).min().unwrap_or(0);
        let bytes = lines.iter().map(|line| line.len()).min().unwrap_or(0);
        decided.clear();
        for &Candidate { row, column, line_at, sum } in &*candidates {
            let (filtered, lines) = (&filtered[row..row + height], &lines[row..row + height]);
            assert!(column < values && line_at + partial_sums.pitch <= bytes);
            // SAFETY: as asserted.
            decided.push(unsafe { decide(simd, partial_sums, (filtered, column), (lines, line_at), sum) });
        }
    }
}

/// Decides one candidate: a number on the ordered sum's side of the boundary, or NaN if it can't be told.
///
/// # Safety
/// - `filtered` and `lines` have a line for each row of the window.
/// - Each line of `filtered` has a value `x`.
/// - Each line of `lines` has [`PartialSums::pitch`] bytes from `at` on.
#[inline(always)]
unsafe fn decide<S: Simd>(
    simd: S,
    of: &PartialSums,
    (filtered, x): (&[&[f32]], usize),
    (lines, at): (&[&[u8]], usize),
    sum: f32,
) -> f32 {
    let boundary = f64::from(sum).floor() + 0.5;
    // `sum` is the partial sum of the rows `0..first`, `distance` the estimate of the ordered sum, less the boundary.
    let (mut sum, mut first) = (f64::from(sum), of.column.len());
    let mut distance = sum - boundary;
    // The error of the estimate, without that of the rows `0..first`.
    let mut bound = of.passes;
    let mut seen = BINADES;
    while first > 0 {
        let binade = of.binade(sum);
        if binade >= BINADES {
            break;
        }
        let start = of.starts[binade] + of.margin;
        // SAFETY: `k` is a row of the window.
        let product = |k: usize| of.column[k] * f64::from(unsafe { *filtered.get_unchecked(k).get_unchecked(x) });
        let (end, sum_of_end) = (first, sum);
        first = end.saturating_sub(ROWS_AT_ONCE);
        sum -= products(first..end, product);
        if sum < start {
            // These rows leave the binade. Only the last ones are taken, which stay in it.
            (first, sum) = (end - 1, sum_of_end - product(end - 1));
            while first > 0 && sum >= start && sum - product(first - 1) >= start {
                (first, sum) = (first - 1, sum - product(first - 1));
            }
            if sum < start {
                // The last row alone leaves it: it is bounded.
                bound += of.steps[first] * of.half_units[binade];
                continue;
            }
        }
        if binade != seen {
            (seen, bound) = (binade, bound + of.ties[binade]);
        }
        // SAFETY: these are rows of the window; the rest is as this function requires.
        let added = unsafe { add_rows(simd, of, (lines, at), first..end, of.starts[binade] as f32) };
        distance += added - (sum_of_end - sum);
        if distance.abs() > bound + of.before[first][of.binade(sum).min(BINADES - 1)] {
            return (boundary + 0.25_f64.copysign(distance)) as f32;
        }
    }
    f32::NAN
}

/// What the steps of some rows of a window add to a sum of the binade that begins at `start`.
///
/// # Safety
/// - `rows` are rows of the window.
/// - `lines` has a line for each of them, with [`PartialSums::pitch`] bytes from `at` on.
#[inline(always)]
unsafe fn add_rows<S: Simd>(
    simd: S,
    of: &PartialSums,
    (lines, at): (&[&[u8]], usize),
    rows: std::ops::Range<usize>,
    start: f32,
) -> f64 {
    let mut total = simd.splat(0.0);
    let groups = of.pitch / S::LANES;
    let mut group = 0;
    while group < groups {
        macro_rules! chains {
            ($count:expr) => {{
                let mut chains = [simd.splat(start); $count];
                for k in rows.clone() {
                    let from = group * S::LANES;
                    // SAFETY: `group + count <= groups`, and a row of coefficients and a line have as many groups.
                    unsafe {
                        let coefficients = of.coefficients.as_ptr().add(k * of.pitch + from);
                        let pixels = lines.get_unchecked(k).as_ptr().add(at + from);
                        for (n, chain) in chains.iter_mut().enumerate() {
                            let coefficient = simd.load(coefficients.add(n * S::LANES));
                            *chain = simd.fma(coefficient, simd.load_u8(pixels.add(n * S::LANES)), *chain);
                        }
                    }
                }
                for chain in chains {
                    // Multiples of a unit in the last place that stay below 2^24 of them: nothing is rounded.
                    total = simd.add(total, simd.sub(chain, simd.splat(start)));
                }
                group += $count;
            }};
        }
        match groups - group {
            CHAINS.. => chains!(CHAINS),
            4.. => chains!(4),
            2.. => chains!(2),
            _ => chains!(1),
        }
    }
    let mut lanes = [0.0_f32; GROUP];
    // SAFETY: a vector has at most GROUP lanes.
    unsafe { simd.store(lanes.as_mut_ptr(), total) };
    // By halves: no addition waits for more than three others.
    let mut half = GROUP;
    while half > 1 {
        half /= 2;
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
    }
    f64::from(lanes[0])
}

/// The sum of the products of some rows, in two chains: an addition waits for the one before.
#[inline(always)]
fn products(rows: std::ops::Range<usize>, product: impl Fn(usize) -> f64) -> f64 {
    let (mut even, mut odd) = (0.0, 0.0);
    let mut k = rows.start;
    while k + 1 < rows.end {
        even += product(k);
        odd += product(k + 1);
        k += 2;
    }
    if k < rows.end { even + odd + product(k) } else { even + odd }
}
