//! Statistics of samples that do not assume a distribution.

/// How many standard errors are more than chance. In a normal distribution 0.3 % of all values are further away.
pub(super) const STANDARD_ERRORS: f64 = 3.0;
/// The change from run to run that comes of clocks and addresses, as a share of the time. It may exceed the spread
/// within a run.
pub(super) const RUN_TO_RUN: f64 = 0.01;
/// The least change of a time that a report speaks about, as a share: of a drift, of a clock, between two variants.
pub(super) const MATTERS: f64 = 0.05;

/// Median and spread of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The median: half of the samples are at most this.
    pub median: f64,
    /// The median absolute deviation from it, not scaled to a standard deviation.
    pub mad: f64,
    /// How many samples there were.
    pub count: usize,
}

impl Summary {
    /// Summarises samples; None if there are none or one is not a finite number.
    ///
    /// ```
    /// use host::bench::stats::Summary;
    ///
    /// let summary = Summary::of(&[1.0, 2.0, 2.5, 3.0, 1000.0]).unwrap();
    /// assert_eq!((summary.median, summary.mad), (2.5, 0.5)); // one outlier moves neither
    /// ```
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        if !samples.iter().all(|sample| sample.is_finite()) {
            return None;
        }
        let median = median(samples.to_vec())?;
        let mad = self::median(samples.iter().map(|sample| (sample - median).abs()).collect())?;
        Some(Self { median, mad, count: samples.len() })
    }
}

/// The middle sample in order, or the mean of the two in the middle.
fn median(mut samples: Vec<f64>) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    match samples.len() {
        0 => None,
        length if length % 2 == 1 => Some(samples[middle]),
        _ => Some(samples[middle - 1].midpoint(samples[middle])),
    }
}

/// The medians of at most 64 blocks of successive samples, in their order.
///
/// Successive times are not independent: what disturbs one often disturbs the next. Their blocks are much less so.
pub(super) fn block_medians(samples: &[f64]) -> Vec<f64> {
    const BLOCKS: usize = 64;
    let (length, blocks) = (samples.len(), samples.len().min(BLOCKS));
    let block = |i: usize| &samples[i * length / blocks..(i + 1) * length / blocks];
    (0..blocks).filter_map(|i| median(block(i).to_vec())).collect()
}

/// How far the median of a larger number of samples may be from theirs: down and up, as shares of it. None with fewer
/// than 9 samples, which can't have [`STANDARD_ERRORS`], or with a median that is not above 0.
///
/// This is the interval of the sign test on [`block_medians`].
pub(super) fn median_interval(samples: &[f64]) -> Option<(f64, f64)> {
    const FEWEST: usize = 9;
    let middle = Summary::of(samples).filter(|summary| summary.count >= FEWEST)?.median;
    let mut blocks = block_medians(samples);
    blocks.sort_by(f64::total_cmp);
    let count = blocks.len() as f64;
    // The number of samples below the median is binomial, with a standard deviation of sqrt(count) / 2.
    let rank = (count / 2.0 - STANDARD_ERRORS * count.sqrt() / 2.0).floor().max(1.0) as usize;
    let (least, most) = (blocks[rank - 1], blocks[blocks.len() - rank]);
    (middle > 0.0).then(|| ((1.0 - least / middle).max(0.0), (most / middle - 1.0).max(0.0)))
}

/// The geometric mean; None without values, or if one is not above 0.
pub(super) fn geometric_mean(values: &[f64]) -> Option<f64> {
    let valid = !values.is_empty() && values.iter().all(|value| value.is_finite() && *value > 0.0);
    valid.then(|| (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// Samples with a known distribution, for tests.
#[cfg(test)]
pub(super) mod synthetic {
    /// Times around 100 with a standard deviation of `spread`: the sum of 12 uniform numbers less 6 is nearly normal.
    pub(in crate::bench) fn normal(random: &mut fastrand::Rng, count: usize, spread: f64) -> Vec<f64> {
        let mut unit = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        (0..count).map(|_| 100.0 + spread * unit()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_each_sample_once() {
        for count in [1, 7, 64, 65, 1000] {
            let samples: Vec<f64> = (0..count).map(f64::from).collect();
            let blocks = block_medians(&samples);
            assert_eq!(blocks.len(), samples.len().min(64));
            assert!(blocks.is_sorted(), "{count}: {blocks:?}");
            // Of blocks of nearly one size, the mean of the medians is nearly that of the samples.
            let mean = blocks.iter().sum::<f64>() / blocks.len() as f64;
            assert!((mean - f64::from(count - 1) / 2.0).abs() <= 0.5, "{count}: {mean}");
        }
        assert!(block_medians(&[]).is_empty());
    }

    /// The interval of a sample holds the median of the distribution. One standard error less, and it would miss it in
    /// one of 20 samples.
    #[test]
    fn the_interval_holds_the_median() {
        const SEED: u64 = 7;
        let mut random = fastrand::Rng::with_seed(SEED);
        for count in [9, 64, 100, 1500] {
            let missed = (0..1000).filter(|_| {
                let samples = synthetic::normal(&mut random, count, 2.0);
                let middle = median(samples.clone()).expect("samples");
                let (down, up) = median_interval(&samples).expect("samples");
                assert!(down + up < 0.2, "{count}: from {down} to {up}");
                !(middle * (1.0 - down)..=middle * (1.0 + up)).contains(&100.0)
            });
            let missed = missed.count();
            assert!(missed <= 10, "{count} samples, seed {SEED}: {missed} of 1000 missed");
        }
        let nine = [5.0, 4.0, 6.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0];
        assert_eq!(median_interval(&nine), Some((1.0 - 4.0 / 5.0, 6.0 / 5.0 - 1.0)));
        assert_eq!((median_interval(&nine[1..]), median_interval(&[0.0; 9])), (None, None));
    }

    #[test]
    fn a_geometric_mean_takes_ratios_and_their_inverses_alike() {
        let mean = |values: &[f64]| geometric_mean(values).expect("ratios");
        assert!((mean(&[4.0, 0.25]) - 1.0).abs() < 1e-12, "an arithmetic mean would be 2.125");
        assert!((mean(&[2.0, 8.0, 4.0]) - 4.0).abs() < 1e-12);
        assert_eq!((geometric_mean(&[]), geometric_mean(&[1.0, 0.0]), geometric_mean(&[f64::NAN])), (None, None, None));
    }

    #[test]
    fn medians() {
        let of = |samples: &[f64]| Summary::of(samples).map(|summary| (summary.median, summary.mad, summary.count));
        assert_eq!(of(&[4.0]), Some((4.0, 0.0, 1)));
        assert_eq!(of(&[3.0, 1.0]), Some((2.0, 1.0, 2)));
        assert_eq!(of(&[9.0, 1.0, 5.0]), Some((5.0, 4.0, 3)));
        assert_eq!(of(&[1.0, 2.0, 4.0, 100.0]), Some((3.0, 1.5, 4)));
    }

    #[test]
    fn what_is_no_number_has_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN, 2.0]), None);
        assert_eq!(Summary::of(&[1.0, f64::INFINITY]), None);
    }
}
