//! The roofline: the least time that a method needs on a device, by the device's measured rates. And what it means that
//! a row is faster.

use serde::Serialize;

use faltung::{Problem, Rates};

/// The ceiling that bounds a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ceiling {
    /// Reading the image once and writing the result once.
    Memory,
    /// The multiply-adds of each value.
    Fma,
}

impl Ceiling {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Fma => "FMA",
        }
    }
}

/// The least work of a method on a problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Bytes: each value of the image read once, each of the result written once.
    pub bytes: f64,
    /// FP32 operations, two for each multiply-add.
    pub flop: f64,
}

impl Work {
    /// The work of `products` multiply-adds per value of the result in the FP32 units. `products` is the mask's width
    /// times its height for a direct method, and their sum for a method that filters rows, then columns. It is 0 for a
    /// method in the tensor cores.
    ///
    /// ```
    /// use host::bench::roofline::{Ceiling, Roofline, Work};
    /// use faltung::{Filter, Mask, Problem, Rates};
    ///
    /// let problem = Problem::new(1000, 1000, &Filter::new(Mask::new(5, 5, vec![0.04; 25])?))?;
    /// let rates = Rates { copy_bytes_per_s: 8e9, flop_per_s: 1e12 };
    /// assert_eq!(Work::new(&problem, 25).roofline(rates), Roofline { us: 1000.0, ceiling: Ceiling::Memory });
    /// # Ok::<(), host::Error>(())
    /// ```
    #[must_use]
    pub fn new(problem: &Problem, products: u64) -> Self {
        let (format, values) = (problem.format(), problem.values() as f64);
        let bytes = (format.input.bytes() + format.output.bytes()) as f64;
        Self { bytes: bytes * values, flop: 2.0 * products as f64 * values }
    }

    /// For a method of the CPU, by the name of its variant. "direct" has all products of the mask, "separable" those of
    /// a row and a column. The operations of an FFT are not multiply-adds of the mask: it has its bytes alone, and so
    /// has a method that is not known here.
    #[must_use]
    pub fn on_cpu(problem: &Problem, variant: &str) -> Self {
        let (width, height) = (problem.window().width() as u64, problem.window().height() as u64);
        let products = match variant {
            "direct" => width * height,
            "separable" => width + height,
            _ => 0,
        };
        Self::new(problem, products)
    }

    /// `max(bytes / copy rate, operations / FMA rate)`.
    #[must_use]
    pub fn roofline(self, rates: Rates) -> Roofline {
        let memory = self.bytes / rates.copy_bytes_per_s * 1e6;
        let fma = self.flop / rates.flop_per_s * 1e6;
        if memory >= fma {
            Roofline { us: memory, ceiling: Ceiling::Memory }
        } else {
            Roofline { us: fma, ceiling: Ceiling::Fma }
        }
    }
}

/// What bounds methods on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// The measured rates.
    pub rates: Rates,
    /// Bytes of the last-level cache; 0 if they are not known. What fits it does not need the memory.
    pub cache_bytes: u64,
}

/// A share of the roofline above this is more than noise.
const MOST_SHARE: f64 = 1.05;

/// Why a row is faster than its roofline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AboveRoofline {
    /// Image and result fit the last-level cache of the device, so the memory does not bound the row. Its multiply-adds
    /// are within their ceiling.
    FitsCache,
    /// Nothing explains it: the measured ceilings are too low, and the share means nothing.
    CeilingTooLow,
}

impl AboveRoofline {
    /// Judges a run of `us` microseconds; None if it is not faster than its roofline by more than noise.
    ///
    /// ```
    /// use host::bench::roofline::{AboveRoofline, Ceilings, Work};
    /// use faltung::Rates;
    ///
    /// let work = Work { bytes: 8e6, flop: 0.0 };
    /// let rates = Rates { copy_bytes_per_s: 8e9, flop_per_s: 1e12 }; // 1000 µs
    /// let of = |us, cache_bytes| AboveRoofline::of(work, us, Ceilings { rates, cache_bytes });
    /// assert_eq!(of(960.0, 0), None);
    /// assert_eq!(of(500.0, 8_000_000), Some(AboveRoofline::FitsCache));
    /// assert_eq!(of(500.0, 7_999_999), Some(AboveRoofline::CeilingTooLow));
    /// ```
    #[must_use]
    pub fn of(work: Work, us: f64, Ceilings { rates, cache_bytes }: Ceilings) -> Option<Self> {
        if work.roofline(rates).us <= MOST_SHARE * us {
            return None;
        }
        let is_within_fma = work.flop / rates.flop_per_s * 1e6 <= MOST_SHARE * us;
        let is_cached = work.bytes <= cache_bytes as f64;
        Some(if is_cached && is_within_fma { Self::FitsCache } else { Self::CeilingTooLow })
    }

    /// The name in JSON and CSV.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FitsCache => "fits the last-level cache",
            Self::CeilingTooLow => "above the measured ceiling",
        }
    }
}

/// The least time for some [`Work`] on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// Microseconds.
    pub us: f64,
    /// The higher of the two ceilings.
    pub ceiling: Ceiling,
}

#[cfg(test)]
mod tests {
    use super::*;
    use faltung::{Filter, Mask};

    /// The roofline of an H100, in Gpix/s, for an n = 8192 image.
    fn roofline(k: usize) -> (f64, Ceiling) {
        let h100 = Rates { copy_bytes_per_s: 3.01e12, flop_per_s: 62.7e12 };
        let problem = Problem::new(8192, 8192, &Filter::new(Mask::new(k, k, vec![1.0; k * k]).unwrap())).unwrap();
        let roofline = Work::new(&problem, (k * k) as u64).roofline(h100);
        (8192.0 * 8192.0 / roofline.us / 1e3, roofline.ceiling)
    }

    #[test]
    fn the_higher_bound_holds() {
        for (k, gpix, bound) in [
            (3, 376.0, Ceiling::Memory),
            (9, 376.0, Ceiling::Memory),
            (13, 185.5, Ceiling::Fma),
            (31, 32.6, Ceiling::Fma),
        ] {
            let found = roofline(k);
            assert!((found.0 / gpix - 1.0).abs() < 2e-3 && found.1 == bound, "k = {k}: {found:?}");
        }
    }

    /// The direct method's work for all methods would put a separable one far above the roofline.
    #[test]
    fn each_method_of_the_cpu_has_its_own_work() {
        let problem = Problem::new(10, 7, &Filter::new(Mask::average(5, 3).unwrap())).unwrap();
        for (variant, products) in [("direct", 15), ("separable", 8), ("fft", 0)] {
            assert_eq!(Work::on_cpu(&problem, variant), Work { bytes: 560.0, flop: (2 * products * 70) as f64 });
        }
    }

    /// A cache replaces the memory. It adds no multiply-adds.
    #[test]
    fn a_cache_does_not_explain_more_multiply_adds_than_there_are() {
        let rates = Rates { copy_bytes_per_s: 1e9, flop_per_s: 1e9 };
        let ceilings = Ceilings { rates, cache_bytes: 1 << 20 };
        // Both ceilings are 1000 µs.
        let work = Work { bytes: 1e6, flop: 1e6 };
        assert_eq!(AboveRoofline::of(work, 500.0, ceilings), Some(AboveRoofline::CeilingTooLow));
        assert_eq!(AboveRoofline::of(work, 953.0, ceilings), None);
        let work = Work { flop: 0.5e6, ..work };
        assert_eq!(AboveRoofline::of(work, 500.0, ceilings), Some(AboveRoofline::FitsCache));
        assert_eq!(AboveRoofline::of(work, 470.0, ceilings), Some(AboveRoofline::CeilingTooLow));
    }
}
