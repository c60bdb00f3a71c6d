//! The roofline: the least time that a method needs on a device, by the device's measured rates.

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
    /// For `products` multiply-adds per value of the result in the FP32 units: the mask's width times its height for a
    /// direct method, their sum for one that filters rows, then columns, none for one in the tensor cores.
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
}
