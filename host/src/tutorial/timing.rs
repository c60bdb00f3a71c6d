//! Times as IPython's `%timeit` has them: mean and standard deviation over 7 runs of many loops.

use std::fmt;
use std::time::Duration;

use crate::units::time;
use faltung::Result;

/// The runs of a measurement: those of IPython's `%timeit`.
const RUNS: usize = 7;
/// The most loops of a run.
const MOST_LOOPS: usize = 10_000;

/// The time of one execution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanTime {
    /// The mean over the runs, in microseconds.
    pub mean: f64,
    /// The standard deviation over the runs, in microseconds.
    pub deviation: f64,
    /// Executions of each of the 7 runs.
    pub loops: usize,
}

impl MeanTime {
    /// Measures `run`, which executes a number of loops and returns their time. A run takes at least `least`, within
    /// the most loops. The search for the number of loops is the warm-up.
    ///
    /// # Errors
    /// Those of `run`.
    pub(super) fn of(least: Duration, mut run: impl FnMut(usize) -> Result<Duration>) -> Result<Self> {
        let mut loops = 1;
        loop {
            let time = run(loops)?;
            if time >= least || loops >= MOST_LOOPS {
                break;
            }
            let wanted = 1.2 * loops as f64 * least.as_secs_f64() / time.as_secs_f64().max(1e-9);
            loops = (wanted.ceil() as usize).clamp(2 * loops, 10 * loops).min(MOST_LOOPS);
        }
        let mut times = [0.0; RUNS];
        for time in &mut times {
            *time = run(loops)?.as_secs_f64() * 1e6 / loops as f64;
        }
        Ok(Self::summary(&times, loops))
    }

    /// Mean and standard deviation of these runs. As in `%timeit`, the deviation is not an estimate for all possible
    /// runs.
    fn summary(times: &[f64], loops: usize) -> Self {
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / times.len() as f64;
        Self { mean, deviation: variance.sqrt(), loops }
    }
}

impl fmt::Display for MeanTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ± {}", time(self.mean), time(self.deviation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation() {
        let timing = MeanTime::summary(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], 10);
        assert_eq!((timing.mean, timing.deviation), (5.0, 2.0));
        assert_eq!(timing.to_string(), "5.00 µs ± 2.00 µs");
    }

    #[test]
    fn loops_grow_until_a_run_is_long_enough() {
        let (mut calls, mut last) = (0, 0);
        let timing = MeanTime::of(Duration::from_millis(10), |loops| {
            (calls, last) = (calls + 1, loops);
            Ok(Duration::from_micros(3 * loops as u64))
        });
        let timing = timing.unwrap();
        assert_eq!(timing.loops, last);
        assert!(3 * last >= 10_000 && last < 5_000, "{last}");
        assert_eq!((timing.mean.round(), timing.deviation.round()), (3.0, 0.0));
        assert!(calls < 20);
        // A clock that stands still ends, too.
        assert_eq!(MeanTime::of(Duration::from_secs(1), |_| Ok(Duration::ZERO)).unwrap().loops, MOST_LOOPS);
    }
}
