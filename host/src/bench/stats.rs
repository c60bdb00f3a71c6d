//! Median and median absolute deviation of samples.

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

#[cfg(test)]
mod tests {
    use super::*;

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
