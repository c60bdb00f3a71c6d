//! Fourier transforms of 32 and of 4 points in the registers of one thread.
//!
//! `V[q] = sum over j of v[j] * w^(j q)` with `w = exp(-2 pi i / 32)`, or with `exp(2 pi i / 32)` for the inverse,
//! which is not divided by 32.
//!
//! Radix 2, decimation in frequency. A stage with distance `d` replaces a pair `(a, b)` by `(a + b, (a - b) w^t)`. The
//! results lie in bit-reversed order: `V[q]` is element [`reversed`]`(q)`.
//!
//! All loops have constant bounds. The compiler unrolls them, so the array stays in registers and each power of `w` is
//! a constant of the instruction.

use super::complex::Complex;

/// Points of the longer transform.
pub(super) const POINTS: usize = 32;

/// `cos(pi / 4)`.
const DIAGONAL: f32 = core::f32::consts::FRAC_1_SQRT_2;

/// The cosines of `2 pi t / 32` for the first eighth of a turn: `t` from 0 to 4.
const COSINES: [f32; 5] = [1.0, 0.980_785_25, 0.923_879_5, 0.831_469_6, DIAGONAL];
/// The sines.
const SINES: [f32; 5] = [0.0, 0.195_090_32, 0.382_683_43, 0.555_570_24, DIAGONAL];

/// Cosine and sine of `2 pi t / 32`, for `t` from 0 to 15.
const fn cosine_and_sine(t: usize) -> (f32, f32) {
    match t {
        0..=4 => (COSINES[t], SINES[t]),
        5..=8 => (SINES[8 - t], COSINES[8 - t]),
        9..=12 => (-SINES[t - 8], COSINES[t - 8]),
        _ => (-COSINES[16 - t], SINES[16 - t]),
    }
}

/// The 5 bits of an index in reversed order.
#[inline(always)]
pub(super) const fn reversed(index: usize) -> usize {
    (index & 1) << 4 | (index & 2) << 2 | index & 4 | (index & 8) >> 2 | (index & 16) >> 4
}

/// `value * w^t`. Multiples of an eighth of a turn have cheaper forms.
#[inline(always)]
fn turned<const INVERSE: bool>(value: Complex, t: usize) -> Complex {
    let Complex { re, im } = value;
    match (t, INVERSE) {
        (0, _) => value,
        (8, false) => value.times_i::<true>(),
        (8, true) => value.times_i::<false>(),
        (4, false) => Complex { re: DIAGONAL * (re + im), im: DIAGONAL * (im - re) },
        (4, true) => Complex { re: DIAGONAL * (re - im), im: DIAGONAL * (re + im) },
        (12, false) => Complex { re: DIAGONAL * (im - re), im: -DIAGONAL * (re + im) },
        (12, true) => Complex { re: -DIAGONAL * (re + im), im: DIAGONAL * (re - im) },
        _ => {
            let (cosine, sine) = cosine_and_sine(t);
            value.times(Complex { re: cosine, im: if INVERSE { sine } else { -sine } })
        }
    }
}

/// The stage that combines elements `DISTANCE` apart.
#[inline(always)]
fn stage<const DISTANCE: usize, const INVERSE: bool>(v: &mut [Complex; POINTS]) {
    for i in 0..POINTS / 2 {
        let first = i / DISTANCE * 2 * DISTANCE + i % DISTANCE;
        let (a, b) = (v[first], v[first + DISTANCE]);
        v[first] = a + b;
        v[first + DISTANCE] = turned::<INVERSE>(a - b, i % DISTANCE * (POINTS / 2 / DISTANCE));
    }
}

/// The transform of 32 points. Result `q` becomes element [`reversed`]`(q)`.
#[inline(always)]
pub(super) fn transform_32<const INVERSE: bool>(v: &mut [Complex; POINTS]) {
    stage::<16, INVERSE>(v);
    stage::<8, INVERSE>(v);
    stage::<4, INVERSE>(v);
    stage::<2, INVERSE>(v);
    stage::<1, INVERSE>(v);
}

/// The transform of the 4 points `FIRST`, `FIRST + STRIDE`, ... of 16, in order.
#[inline(always)]
pub(super) fn transform_4<const INVERSE: bool>(v: &mut [Complex; 16], first: usize, stride: usize) {
    let [a, b, c, d] = [v[first], v[first + stride], v[first + 2 * stride], v[first + 3 * stride]];
    let (even, odd) = (a + c, b + d);
    let (difference, turned) = (a - c, b - d);
    let turned = if INVERSE { turned.times_i::<false>() } else { turned.times_i::<true>() };
    v[first] = even + odd;
    v[first + stride] = difference + turned;
    v[first + 2 * stride] = even - odd;
    v[first + 3 * stride] = difference - turned;
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::f64::consts::TAU;

    use super::*;

    /// The sum that defines a transform, in `f64`.
    fn defined(v: &[Complex], sign: f64, q: usize) -> (f64, f64) {
        let mut sum = (0.0, 0.0);
        for (j, value) in v.iter().enumerate() {
            let (sine, cosine) = (sign * TAU * (j * q % v.len()) as f64 / v.len() as f64).sin_cos();
            let (re, im) = (f64::from(value.re), f64::from(value.im));
            sum = (sum.0 + re * cosine - im * sine, sum.1 + re * sine + im * cosine);
        }
        sum
    }

    /// No two points alike.
    fn point(j: usize) -> Complex {
        Complex { re: (j * j % 29) as f32 - 11.0, im: (j * 7 % 23) as f32 * 0.75 - 6.0 }
    }

    fn assert_close(found: Complex, (re, im): (f64, f64), q: usize) {
        let error = (f64::from(found.re) - re).hypot(f64::from(found.im) - im);
        assert!(error < 1e-4, "result {q}: {found:?}, not {re} + {im} i");
    }

    #[test]
    fn transforms_are_what_defines_them() {
        let v: [Complex; POINTS] = core::array::from_fn(point);
        let (mut forward, mut inverse) = (v, v);
        transform_32::<false>(&mut forward);
        transform_32::<true>(&mut inverse);
        for q in 0..POINTS {
            assert_close(forward[reversed(q)], defined(&v, -1.0, q), q);
            assert_close(inverse[reversed(q)], defined(&v, 1.0, q), q);
        }
        let v: [Complex; 16] = core::array::from_fn(point);
        let (mut forward, mut inverse) = (v, v);
        transform_4::<false>(&mut forward, 2, 4);
        transform_4::<true>(&mut inverse, 4, 1);
        for q in 0..4 {
            assert_close(forward[2 + 4 * q], defined(&[v[2], v[6], v[10], v[14]], -1.0, q), q);
            assert_close(inverse[4 + q], defined(&v[4..8], 1.0, q), q);
        }
    }

    /// The bound of the errors assumes that each factor is rounded to nearest.
    #[test]
    fn factors_are_rounded_to_nearest() {
        for t in 0..16 {
            let (sine, cosine) = (TAU * t as f64 / 32.0).sin_cos();
            let (found_cosine, found_sine) = cosine_and_sine(t);
            // f64 has 6e-17 in the place of the cosine of a right angle.
            let rounded = |exact: f64| if exact.abs() < 1e-9 { 0.0 } else { exact as f32 };
            assert_eq!((found_cosine, found_sine), (rounded(cosine), rounded(sine)), "{t}");
        }
    }
}
