//! Drift: times that rise or fall while they are measured, as those of a device whose clock falls.

use super::stats::{MATTERS, RUN_TO_RUN, STANDARD_ERRORS, Summary, block_medians};

/// A trend in the times of a measurement, in their order.
///
/// The test of Mann and Kendall finds it. It counts for each pair of times which one is larger, so neither a
/// distribution nor the size of an outlier matters. It runs on the medians of blocks of successive times.
/// Seven times that all rise are the fewest that it finds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// The median of the last third of the times over that of the first third, less 1.
    pub change: f64,
}

impl Drift {
    /// The trend of samples; None if they have none, or one of less than 1 %.
    ///
    /// ```
    /// use host::bench::drift::Drift;
    ///
    /// let rising: Vec<f64> = (0..60).map(|i| 100.0 + f64::from(i % 3) + 0.2 * f64::from(i)).collect();
    /// let steady: Vec<f64> = (0..60).map(|i| 100.0 + f64::from(i % 3)).collect();
    /// assert!(Drift::of(&rising).is_some_and(|drift| (0.07..0.09).contains(&drift.change)));
    /// assert_eq!(Drift::of(&steady), None);
    /// ```
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        if standard_errors(&block_medians(samples)) <= STANDARD_ERRORS {
            return None;
        }
        // Thirds show a step and a slope alike. The median slope of all pairs is near 0 for a late step.
        let third = samples.len() / 3;
        let median = |part: &[f64]| Some(Summary::of(part)?.median);
        let change = median(&samples[samples.len() - third..])? / median(&samples[..third])? - 1.0;
        (change.is_finite() && change.abs() >= RUN_TO_RUN).then_some(Self { change })
    }

    /// Whether the reader should measure again: times have changed by 5 % or more.
    ///
    /// ```
    /// use host::bench::drift::Drift;
    ///
    /// assert!(Drift { change: -0.06 }.matters());
    /// assert!(!Drift { change: 0.02 }.matters());
    /// ```
    #[must_use]
    pub fn matters(self) -> bool {
        self.change.abs() >= MATTERS
    }
}

impl std::fmt::Display for Drift {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = if self.change > 0.0 { "rise" } else { "fall" };
        write!(f, "times {what} by {:.1} % from the first third to the last", 100.0 * self.change.abs())
    }
}

/// Kendall's S of values in their order, in standard errors of values without a trend. Ties are counted.
fn standard_errors(values: &[f64]) -> f64 {
    let pairs = (1..values.len()).flat_map(|later| (0..later).map(move |earlier| (values[earlier], values[later])));
    let s: f64 = pairs.map(|(earlier, later)| f64::from(i8::from(later > earlier) - i8::from(later < earlier))).sum();
    let of_ties = |count: usize| (count * (count - 1) * (2 * count + 5)) as f64 / 18.0;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ties: f64 = sorted.chunk_by(|a, b| a == b).map(|equal| of_ties(equal.len())).sum();
    let variance = of_ties(values.len().max(1)) - ties;
    // S is even or odd, so it grows by 2: half of that is the correction for continuity.
    if variance > 0.0 { (s.abs() - 1.0).max(0.0) / variance.sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::stats::synthetic::normal;

    const SEED: u64 = 20_262;
    const SERIES: usize = 1000;

    /// In how many series of `count` times, changed by `change`, a drift is found that `counts`.
    fn found(
        count: usize,
        spread: f64,
        change: impl Fn(&mut fastrand::Rng, &mut [f64]),
        counts: fn(Drift) -> bool,
    ) -> usize {
        let mut random = fastrand::Rng::with_seed(SEED);
        let is_found = |random: &mut fastrand::Rng| {
            let mut series = normal(random, count, spread);
            change(random, &mut series);
            Drift::of(&series).is_some_and(counts)
        };
        (0..SERIES).filter(|_| is_found(&mut random)).count()
    }

    /// In how many series a drift of any size is found.
    fn alarms(count: usize, spread: f64, change: impl Fn(&mut fastrand::Rng, &mut [f64])) -> usize {
        found(count, spread, change, |_| true)
    }

    /// Times that change evenly by so much from the first to the last.
    fn slope(change: f64) -> impl Fn(&mut fastrand::Rng, &mut [f64]) {
        move |_: &mut fastrand::Rng, series: &mut [f64]| {
            let last = (series.len() - 1) as f64;
            series.iter_mut().enumerate().for_each(|(i, time)| *time *= 1.0 + change * i as f64 / last);
        }
    }

    #[test]
    fn steady_noise_gives_no_alarm() {
        for count in [3, 7, 15, 60, 1500] {
            for spread in [0.2, 1.0, 5.0] {
                let found = alarms(count, spread, |_, _| ());
                assert!(found * 100 <= SERIES, "{count} times, spread {spread} %, seed {SEED}: {found} alarms");
            }
            // One time in ten is twice as long.
            let found = alarms(count, 1.0, |random, series| {
                series.iter_mut().filter(|_| random.u8(..10) == 0).for_each(|time| *time *= 2.0);
            });
            assert!(found * 100 <= SERIES, "{count} times with outliers, seed {SEED}: {found} alarms");
            // The clock has a resolution: many times are equal.
            let found = alarms(count, 2.0, |_, series| series.iter_mut().for_each(|time| *time = time.round()));
            assert!(found * 100 <= SERIES, "{count} rounded times, seed {SEED}: {found} alarms");
        }
    }

    /// What disturbs one batch of 0.2 ms disturbs the next ones. Without blocks this is an alarm in one of 6 series.
    #[test]
    fn disturbances_of_several_batches_give_no_alarm() {
        let found = alarms(1500, 5.0, |_, series| {
            for i in 1..series.len() {
                series[i] += 0.7 * (series[i - 1] - 100.0);
            }
        });
        assert!(found * 100 <= SERIES, "seed {SEED}: {found} alarms");
    }

    #[test]
    fn a_slope_of_5_percent_is_found() {
        for (count, spread) in [(7, 0.1), (15, 0.5), (60, 1.0), (1500, 5.0)] {
            for sign in [1.0, -1.0] {
                let found = alarms(count, spread, slope(sign * 0.05));
                assert!(found * 100 >= 99 * SERIES, "{count} times, spread {spread} %, seed {SEED}: {found} found");
            }
        }
    }

    /// From the first third to the last, a slope changes by two thirds of what it changes in all.
    #[test]
    fn a_reader_hears_of_6_percent_and_not_of_3() {
        let told = |count, spread, change| found(count, spread, slope(change), Drift::matters);
        for (count, spread) in [(7, 0.1), (15, 0.5), (60, 1.0), (1500, 5.0)] {
            for sign in [1.0, -1.0] {
                let large = told(count, spread, sign * 0.1);
                assert!(large * 100 >= 99 * SERIES, "{count} times, spread {spread} %, seed {SEED}: {large} told");
                let small = told(count, spread, sign * 0.045);
                assert!(small * 100 <= SERIES, "{count} times, spread {spread} %, seed {SEED}: {small} told");
            }
            // The fact is found all the same: the reports for programs have it.
            let known = alarms(count, spread, slope(0.045));
            assert!(known * 100 >= 95 * SERIES, "{count} times, spread {spread} %, seed {SEED}: {known} known");
        }
    }

    /// A clock that falls once, late.
    #[test]
    fn a_step_is_found_and_its_size_is_told() {
        let step = |_: &mut fastrand::Rng, series: &mut [f64]| {
            let late = 2 * series.len() / 3;
            series[late..].iter_mut().for_each(|time| *time *= 1.05);
        };
        let found = alarms(60, 1.0, step);
        assert!(found * 100 >= 99 * SERIES, "seed {SEED}: {found} found");
        let mut random = fastrand::Rng::with_seed(SEED);
        let mut series = normal(&mut random, 60, 1.0);
        step(&mut random, &mut series);
        let drift = Drift::of(&series).expect("a drift");
        assert!((0.04..0.06).contains(&drift.change), "seed {SEED}: {drift:?}");
        assert_eq!(Drift { change: -0.042 }.to_string(), "times fall by 4.2 % from the first third to the last");
    }

    /// Significant, and too small to matter.
    #[test]
    fn a_change_of_half_a_percent_is_none() {
        let series: Vec<f64> = (0..60).map(|i| 100.0 + f64::from(i) * 0.5 / 59.0).collect();
        assert!(standard_errors(&series) > 10.0);
        assert_eq!(Drift::of(&series), None);
    }

    /// By hand: 7 values in order have S = 21 and a variance of 7 * 6 * 19 / 18; ties take 3 * 2 * 11 / 18 away.
    #[test]
    fn kendalls_s_is_that_of_the_books() {
        let rising: Vec<f64> = (0..7).map(f64::from).collect();
        assert!((standard_errors(&rising) - 20.0 / (133.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        let tied = [1.0, 1.0, 1.0, 2.0, 3.0];
        assert!((standard_errors(&tied) - 6.0 / (50.0_f64 / 3.0 - 11.0 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!((standard_errors(&[4.0; 9]), standard_errors(&[])), (0.0, 0.0));
    }
}
