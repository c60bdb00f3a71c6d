//! The row pass of a separable mask: a line of `f32`, filtered by the mask's row.

use super::simd::{Simd, Work};

/// Vectors of sums in registers. A multiply-add takes four cycles, and two begin in each cycle. So eight independent
/// chains keep the CPU busy.
const SUMS: usize = 8;

/// `filtered[x] = sum over l of coefficients[l] * line[x + l * step]`, l ascending, one fused multiply-add a step from
/// 0.
pub(super) struct RowPass<'a> {
    /// The values under the windows.
    pub(super) line: &'a [f32],
    /// The row of the mask.
    pub(super) coefficients: &'a [f32],
    /// Values from one pixel to the next.
    pub(super) step: usize,
    /// The filtered line: whole vectors.
    pub(super) filtered: &'a mut [f32],
}

impl Work for RowPass<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { line, coefficients, step, filtered } = self;
        assert!(line.len() >= filtered.len() + (coefficients.len() - 1) * step);
        assert!(filtered.len().is_multiple_of(S::LANES));
        let mut x = 0;
        while x + SUMS * S::LANES <= filtered.len() {
            // SAFETY: SUMS vectors from x on are in `filtered`, their windows in `line`, as asserted.
            unsafe { vectors::<S, SUMS>(simd, line.as_ptr().add(x), coefficients, step, filtered.as_mut_ptr().add(x)) };
            x += SUMS * S::LANES;
        }
        while x < filtered.len() {
            // SAFETY: `filtered` is whole vectors, so one from x on is in it, and its windows are in `line`.
            unsafe { vectors::<S, 1>(simd, line.as_ptr().add(x), coefficients, step, filtered.as_mut_ptr().add(x)) };
            x += S::LANES;
        }
    }
}

/// `N` vectors of the filtered line.
///
/// # Safety
/// - `line` is valid for reads of `N * LANES + (coefficients.len() - 1) * step` values.
/// - `filtered` is valid for writes of `N * LANES` values.
#[inline(always)]
unsafe fn vectors<S: Simd, const N: usize>(
    simd: S,
    line: *const f32,
    coefficients: &[f32],
    step: usize,
    filtered: *mut f32,
) {
    let mut sums = [simd.splat(0.0); N];
    for (l, &coefficient) in coefficients.iter().enumerate() {
        let coefficient = simd.splat(coefficient);
        for (n, sum) in sums.iter_mut().enumerate() {
            // SAFETY: l < coefficients.len() and n < N.
            *sum = simd.fma(coefficient, unsafe { simd.load(line.add(l * step + n * S::LANES)) }, *sum);
        }
    }
    for (n, &sum) in sums.iter().enumerate() {
        // SAFETY: n < N.
        unsafe { simd.store(filtered.add(n * S::LANES), sum) };
    }
}
