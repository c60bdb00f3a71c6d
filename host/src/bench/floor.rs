//! The floor: the time that a method can't beat on a device, by the rates measured in the same run.

use serde::Serialize;

use crate::{Problem, Rates};

/// Which of the two bounds is the higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Reading the image once and writing the result once.
    Memory,
    /// The multiply-adds of each value.
    Fma,
}

impl Bound {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Fma => "FMA",
        }
    }
}

/// The floor of a problem on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// Microseconds.
    pub us: f64,
    /// The bound that makes it.
    pub bound: Bound,
}

impl Floor {
    /// `max(bytes / copy rate, 2 products values / FMA rate)`: each value of the image read once, each of the result written once
    /// (8 bytes together in `f32`, 2 in `u8`), and for each value of the result as many multiply-adds in FP32 as the method
    /// does: the mask's width times its height for a direct one, their sum for one that filters rows, then columns,
    /// none for one in the tensor cores.
    ///
    /// ```
    /// use host::bench::floor::{Bound, Floor};
    /// use host::{Filter, Mask, Problem, Rates};
    ///
    /// let problem = Problem::new(1000, 1000, &Filter::new(Mask::new(5, 5, vec![0.04; 25])?))?;
    /// let rates = Rates { copy_bytes_per_s: 8e9, flop_per_s: 1e12 };
    /// assert_eq!(Floor::new(&problem, 25, rates), Floor { us: 1000.0, bound: Bound::Memory });
    /// # Ok::<(), host::Error>(())
    /// ```
    #[must_use]
    pub fn new(problem: &Problem, products: u64, rates: Rates) -> Self {
        let (layout, values) = (problem.layout(), problem.values() as f64);
        let bytes = (layout.input.bytes() + layout.output.bytes()) as f64;
        let memory = bytes * values / rates.copy_bytes_per_s * 1e6;
        let fma = 2.0 * products as f64 * values / rates.flop_per_s * 1e6;
        if memory >= fma { Self { us: memory, bound: Bound::Memory } } else { Self { us: fma, bound: Bound::Fma } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Filter, Mask};

    /// The floor of an H100, in Gpix/s, for an n = 8192 image.
    fn floor(k: usize) -> (f64, Bound) {
        let h100 = Rates { copy_bytes_per_s: 3.01e12, flop_per_s: 62.7e12 };
        let problem = Problem::new(8192, 8192, &Filter::new(Mask::new(k, k, vec![1.0; k * k]).unwrap())).unwrap();
        let floor = Floor::new(&problem, (k * k) as u64, h100);
        (8192.0 * 8192.0 / floor.us / 1e3, floor.bound)
    }

    #[test]
    fn the_higher_bound_holds() {
        for (k, gpix, bound) in
            [(3, 376.0, Bound::Memory), (9, 376.0, Bound::Memory), (13, 185.5, Bound::Fma), (31, 32.6, Bound::Fma)]
        {
            let found = floor(k);
            assert!((found.0 / gpix - 1.0).abs() < 2e-3 && found.1 == bound, "k = {k}: {found:?}");
        }
    }
}
