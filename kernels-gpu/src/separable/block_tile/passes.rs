//! The row pass and the column pass of a thread.

use cuda_std::prelude::*;

use crate::common::async_rows::{STEP_ROWS, VECTOR};
use crate::teaching::constant_mask::MASK;

/// Neighbouring outputs of a thread in the row pass, and coefficients of a step.
const RUN: usize = STEP_ROWS;

/// Adds a group of filtered rows to the sums of a group of outputs.
///
/// The rows are the `distance`-th group after the one with which the windows of the outputs begin. The first `skip`
/// rows of a window, fewer than a step, have no coefficients.
///
/// # Safety
/// Constant memory holds the column, padded with `skip` elements before it.
#[inline(always)]
pub(in crate::separable) unsafe fn add<const GROUP: usize>(
    sums: &[f32; GROUP],
    values: &[f32; GROUP],
    distance: usize,
    groups: usize,
    skip: u32,
) -> [f32; GROUP] {
    let mut sums = *sums;
    // Coefficient `GROUP * distance + r - o` multiplies value `r` for output `o`: one coefficient for each diagonal.
    // Each output receives its rows from top to bottom.
    for diagonal in 0..2 * GROUP - 1 {
        let k = GROUP * distance + diagonal;
        if k < GROUP - 1 || k - (GROUP - 1) > GROUP * groups {
            continue;
        }
        let k = k - (GROUP - 1);
        if k + 1 >= RUN || k as u32 >= skip {
            // SAFETY: k <= GROUP * groups, the last coefficient of the column.
            let coefficient = unsafe { MASK.load(k) };
            for (o, sum) in sums.iter_mut().enumerate() {
                let r = diagonal + o;
                if r + 1 >= GROUP && r + 1 < 2 * GROUP {
                    *sum = fma(values[r + 1 - GROUP], coefficient, *sum);
                }
            }
        }
    }
    sums
}

/// The pixels of a run of outputs, in two halves: the row pass reads one while it adds the other.
type Window = [f32; 2 * RUN];

/// Filters 16 neighbouring columns of a row of pixels. Their first window begins `lead` columns after `pixels`.
///
/// If `unrolled`, the width of the mask is a constant.
///
/// # Safety
/// - The pixels under the 16 windows, padded to whole steps, have arrived, and a barrier has passed since.
/// - Constant memory holds the row of coefficients from offset `first + lead` on.
#[inline(always)]
pub(super) unsafe fn filter(
    pixels: Shared<f32>,
    first: usize,
    lead: u32,
    mask_width: u32,
    unrolled: bool,
) -> [f32; RUN] {
    let mut source = pixels.cast::<F32x4>();
    let mut window = [0.0; 2 * RUN];
    for i in 0..RUN / 4 {
        // SAFETY: the first RUN pixels lie under the windows.
        let F32x4(vector) = unsafe { source.load(i as u32) };
        window[4 * i..4 * i + 4].copy_from_slice(&vector);
    }
    let mut sums = [0.0; RUN];
    let (mut at, mut from, mut left) = (first, lead, lead + mask_width);
    while left > 0 {
        if !unrolled {
            thread::no_unroll();
        }
        source = source.offset(RUN as u32 / 4);
        // SAFETY: a step adds at most `left` more coefficients, so it ends with the mask.
        unsafe {
            if !unrolled && left >= 2 * RUN as u32 {
                // black_box keeps LLVM from specializing copies of the steps.
                add_run(&mut sums, &mut window, 0, source, at, thread::black_box(from), RUN as u32);
                source = source.offset(RUN as u32 / 4);
                add_run(&mut sums, &mut window, RUN, source, at + RUN, 0, RUN as u32);
                left -= 2 * RUN as u32;
                at += 2 * RUN;
                from = 0;
                continue;
            }
            let (first, end) = if unrolled { (from, left) } else { (thread::black_box(from), thread::black_box(left)) };
            add_run(&mut sums, &mut window, 0, source, at, first, end);
        }
        for i in 0..RUN {
            window[i] = window[RUN + i];
        }
        left = left.saturating_sub(RUN as u32);
        at += RUN;
        from = 0;
    }
    sums
}

/// Adds coefficients `from` to `to - 1` of a step, and reads the next pixels into the other half of the window.
///
/// `half` is where the window begins: 0 or `RUN`.
///
/// # Safety
/// - `source` is the pixels after those in the window. They have arrived as far as coefficient `to - 1` needs them.
/// - Constant memory holds coefficients `from` to `to - 1` from offset `at` on.
#[inline(always)]
unsafe fn add_run(
    sums: &mut [f32; RUN],
    window: &mut Window,
    half: usize,
    source: Shared<F32x4>,
    at: usize,
    from: u32,
    to: u32,
) {
    for l in 0..RUN {
        // Coefficients `l + 1` to `l + 4` need this vector.
        if l % 4 == 0 && to >= l as u32 + 2 {
            // SAFETY: coefficient l + 1 < to needs the vector, so it has arrived.
            let F32x4(vector) = unsafe { source.load(l as u32 / 4) };
            for (i, &pixel) in vector.iter().enumerate() {
                window[(RUN + half + l + i) % (2 * RUN)] = pixel;
            }
        }
        if (l + 1 >= VECTOR as usize || from <= l as u32) && (l as u32) < to {
            // SAFETY: from <= l < to.
            let coefficient = unsafe { MASK.load(at + l) };
            for (o, sum) in sums.iter_mut().enumerate() {
                *sum = fma(window[(half + l + o) % (2 * RUN)], coefficient, *sum);
            }
        }
    }
}
