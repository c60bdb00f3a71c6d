//! Checks of a result: exact, bit-exact with another one, or within a bound that follows from the computation.

use std::fmt::Debug;

/// How close a result is, or what is wrong with it.
pub(super) type CheckResult = Result<String, String>;

/// The unit roundoff of `f32`.
pub(super) const U: f64 = 1.0 / (1 << 24) as f64;

/// The error bound of a sum, as a part of the sum of magnitudes, where each element passes through n = `depth`
/// additions: `n u / (1 - n u)` (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd edition, sections 3.1
/// and 4.2).
pub(super) fn gamma(depth: u64) -> f64 {
    let nu = depth as f64 * U;
    if nu < 1.0 { nu / (1.0 - nu) } else { f64::INFINITY }
}

/// Integers, which are right or wrong.
pub(super) fn exact<T: PartialEq + Debug>(found: &[T], expected: &[T]) -> CheckResult {
    same(found, expected, |a, b| a == b).map(|()| all_exact(found.len()))
}

fn all_exact(count: usize) -> String {
    if count == 1 { "exact".to_owned() } else { format!("all {count} values exact") }
}

/// A part of a bound, such as "0.28", or "3e-3" where two places would show nothing.
pub(super) fn of_bound(part: f64) -> String {
    if part == 0.0 || part >= 0.01 { format!("{part:.2}") } else { format!("{part:.0e}") }
}

/// Floats with the very bits that were expected.
pub(super) fn bits(found: &[f32], expected: &[f32]) -> CheckResult {
    same(found, expected, |a, b| a.to_bits() == b.to_bits())
        .map(|()| format!("all {} values are bit-exact with the CPU's", found.len()))
}

fn same<T: Debug>(found: &[T], expected: &[T], equal: impl Fn(&T, &T) -> bool) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("{} values instead of {}", found.len(), expected.len()));
    }
    let mut wrong = found.iter().zip(expected).enumerate().filter(|(_, (a, b))| !equal(a, b));
    match wrong.next() {
        None => Ok(()),
        Some((i, (a, b))) => {
            Err(format!("{} values differ; the first is value {i}: {a:?} instead of {b:?}", 1 + wrong.count()))
        }
    }
}

/// Floats, each within `bound(i)` of what is exact.
pub(super) fn within(found: &[f32], exact: &[f64], bound: impl Fn(usize) -> f64) -> CheckResult {
    let values = found.iter().map(|&value| f64::from(value));
    near(values, found.len(), exact, bound).map(|(error, part)| {
        if error == 0.0 {
            return all_exact(found.len());
        }
        format!("largest error {error:.2e}, {} of the bound", of_bound(part))
    })
}

/// Pixels, each at most `most` from what is exact.
pub(super) fn pixels(found: &[u8], exact: &[f64], most: f64) -> CheckResult {
    let values = found.iter().map(|&value| f64::from(value));
    near(values, found.len(), exact, |_| most).map(|(error, _)| format!("at most {error:.4} from the exact value"))
}

/// The largest error, and the largest in units of the bound.
fn near(
    found: impl Iterator<Item = f64>,
    length: usize,
    exact: &[f64],
    bound: impl Fn(usize) -> f64,
) -> Result<(f64, f64), String> {
    if length != exact.len() {
        return Err(format!("{length} values instead of {}", exact.len()));
    }
    let (mut largest, mut part) = (0.0_f64, 0.0_f64);
    for (i, (value, &exact)) in found.zip(exact).enumerate() {
        let (error, bound) = ((value - exact).abs(), bound(i));
        // NaN must fail, so this tests for `<=`, not `>`.
        let right = error <= bound;
        if !right {
            return Err(format!("value {i} is {value:e} instead of {exact:e}: off by {error:e}, {bound:e} is allowed"));
        }
        largest = largest.max(error);
        part = part.max(if error == 0.0 { 0.0 } else { error / bound });
    }
    Ok((largest, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_found() {
        assert_eq!(exact(&[1_u8, 2], &[1, 2]).unwrap(), "all 2 values exact");
        assert_eq!(exact(&[1_u8], &[1]).unwrap(), "exact");
        assert!(exact(&[1_u8, 2], &[1, 3]).unwrap_err().contains("value 1: 2 instead of 3"));
        assert!(exact(&[1_u8], &[1, 3]).is_err());
        assert!(bits(&[0.0], &[0.0]).is_ok());
        assert!(bits(&[0.0], &[-0.0]).is_err());
        assert!(within(&[1.0, 2.0], &[1.0, 2.0], |_| 0.0).is_ok());
        for wrong in [f32::NAN, f32::INFINITY, 2.1] {
            assert!(within(&[1.0, wrong], &[1.0, 2.0], |_| 0.01).is_err(), "{wrong}");
        }
        assert!(within(&[], &[1.0], |_| 1.0).is_err());
        assert!(pixels(&[7], &[7.5], 0.5).is_ok() && pixels(&[7], &[7.6], 0.5).is_err());
    }

    #[test]
    fn small_parts_of_a_bound_are_not_zero() {
        assert_eq!([0.0, 0.283, 0.0100, 0.003_21].map(of_bound), ["0.00", "0.28", "0.01", "3e-3"]);
    }

    #[test]
    fn gamma_grows_and_ends() {
        assert_eq!(gamma(0), 0.0);
        assert!(gamma(100) > 100.0 * U && gamma(100) < 100.1 * U);
        assert_eq!(gamma(1 << 24), f64::INFINITY);
    }
}
