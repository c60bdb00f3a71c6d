//! Test values, and comparisons of answers.

use faltung::{Device, Result};
use host::tutorial::launch::Launcher;
use libtest_mimic::Failed;

/// A launcher on a device with kernels.
pub(crate) fn launcher(device: &Device) -> Result<Launcher> {
    Ok(Launcher::new(device)?.expect("only the CPU has none"))
}

/// The unit roundoff of f32.
pub(crate) const U: f64 = 1.0 / (1 << 24) as f64;

/// Lengths around those of warps and blocks, primes, and nothing.
pub(crate) const LENGTHS: [usize; 13] = [0, 1, 2, 31, 32, 33, 97, 255, 256, 257, 511, 1000, 2053];

/// Values of both signs and of many magnitudes.
pub(crate) fn values(random: &mut fastrand::Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| (random.f32() - 0.4) * 10.0_f32.powi(random.i32(-3..4))).collect()
}

/// Pixels.
pub(crate) fn pixels(random: &mut fastrand::Rng, count: usize) -> Vec<u8> {
    (0..count).map(|_| random.u8(..)).collect()
}

/// `n` additions in f32 are off by at most this part of the sum of magnitudes.
pub(crate) fn gamma(n: usize) -> f64 {
    let nu = n as f64 * U;
    nu / (1.0 - nu)
}

/// Fails unless each value is within `bound` of what is exact: pairs of both, in f64.
pub(crate) fn close(what: &str, found: &[f32], expected: &[(f64, f64)]) -> Result<(), Failed> {
    if found.len() != expected.len() {
        return Err(format!("{what}: {} values instead of {}", found.len(), expected.len()).into());
    }
    for (i, (&value, &(exact, bound))) in found.iter().zip(expected).enumerate() {
        // NaN must fail, so this tests for `<=`, not `>`.
        let right = (f64::from(value) - exact).abs() <= bound;
        if !right {
            return Err(format!("{what}: value {i} is {value:e} instead of {exact:e}, allowed is {bound:e}").into());
        }
    }
    Ok(())
}

/// Fails unless all values are equal; floats by their bits, NaN to NaN.
pub(crate) fn same<T: Copy + std::fmt::Debug + Bits>(what: &str, found: &[T], expected: &[T]) -> Result<(), Failed> {
    if found.len() != expected.len() {
        return Err(format!("{what}: {} values instead of {}", found.len(), expected.len()).into());
    }
    match found.iter().zip(expected).position(|(a, b)| a.bits() != b.bits()) {
        Some(i) => Err(format!("{what}: value {i} is {:?} instead of {:?}", found[i], expected[i]).into()),
        None => Ok(()),
    }
}

/// What makes two values the same.
pub(crate) trait Bits {
    fn bits(self) -> u64;
}

impl Bits for u8 {
    fn bits(self) -> u64 {
        self.into()
    }
}

impl Bits for f32 {
    fn bits(self) -> u64 {
        if self.is_nan() { u64::MAX } else { self.to_bits().into() }
    }
}

/// The comparisons find wrong answers.
pub(crate) fn wrong_answers_are_found() -> Result<(), Failed> {
    let expected = [(1.0, 0.1), (2.0, 0.0), (-3.0, 0.5)];
    close("right", &[1.05, 2.0, -3.5], &expected)?;
    for wrong in [[1.2, 2.0, -3.0], [1.0, 2.000_001, -3.0], [1.0, 2.0, f32::NAN], [2.0, -3.0, 1.0]] {
        if close("wrong", &wrong, &expected).is_ok() {
            return Err(format!("{wrong:?} went through").into());
        }
    }
    let short = close("short", &[1.0], &expected).is_ok() || same("short", &[1_u8], &[1, 2]).is_ok();
    if short || same("wrong", &[0.0_f32], &[-0.0]).is_ok() || same("wrong", &[1_u8], &[2]).is_ok() {
        return Err("a wrong answer went through".into());
    }
    Ok(())
}
