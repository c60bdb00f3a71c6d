//! A correlation along one axis with symmetric or antisymmetric weights, in the order of `scipy.ndimage.correlate1d`.
//!
//! `output[i] = middle * input[c] + sum over d = h to 1 of weight[d] * (input[c - d] ± input[c + d])`
//!
//! The filter has 2h + 1 weights, and `c = i - origin`. For antisymmetric weights the two elements of a pair are
//! subtracted, not added.
//!
//! # The list
//! Word 0 is the middle weight. Words 1 to h are the weights before it, the outermost first.
//!
//! # Thread mapping
//! As in [`params`](super::params): each thread computes [`RESULTS`] results. At the border it computes one result
//! after the other, and maps both positions of each pair.
//!
//! # Cost
//! `f64` sums: two loads, two conversions, one product and two additions for each pair and result.

use cuda_std::prelude::*;

use super::element::{Value, store};
use super::params::{AXES, ArrayParams, Axis, RESULTS};
use super::position::{OUTSIDE, position};
use super::sum::Sum;
use super::{functions, list, type_instances};

/// The filter for elements of type `T` with sums of type `A`.
///
/// # Safety
/// - Those of [`correlate`](super::correlate::correlate) but for `taps`.
/// - `taps` holds the list of `params.taps` + 1 weights.
/// - `params.line` names the axis. `before + after` of it is `2 * params.taps`, and 0 of every other axis.
#[inline(always)]
pub unsafe fn mirrored<T: Value, A: Sum>(
    input: Global<u8>,
    output: GlobalMut<u8>,
    taps: Global<u64>,
    params: ArrayParams,
) {
    let first = params.first_index();
    if params.reads_inside(first, params.later(first, RESULTS - 1)) {
        // SAFETY: all that these results read lies in the array; the rest is required of this function, too.
        unsafe {
            if params.is_odd != 0 {
                inside::<T, A, true>(input, output, taps, &params, first);
            } else {
                inside::<T, A, false>(input, output, taps, &params, first);
            }
        }
        return;
    }
    // `black_box` hides the bound, so the compiler does not unroll this loop.
    let results = thread::black_box(RESULTS);
    let mut r = 0;
    while r < results {
        let index = params.later(first, r);
        r += 1;
        if params.has(index) {
            // SAFETY: the result is one of the array; the rest is required of this function, too.
            unsafe { at_border::<T, A>(input, output, taps, &params, index) };
        }
    }
}

/// `a + b`, or `a - b` for antisymmetric weights.
#[inline(always)]
fn pair<A: Sum>(a: A, b: A, is_odd: bool) -> A {
    if is_odd { a.minus(b) } else { a.plus(b) }
}

/// The results from `first` on, in the interior: they read nothing outside of the array.
///
/// # Safety
/// Those of [`mirrored`], and all that the results read lies in the array.
#[inline(always)]
unsafe fn inside<T: Value, A: Sum, const IS_ODD: bool>(
    input: Global<u8>,
    output: GlobalMut<u8>,
    taps: Global<u64>,
    params: &ArrayParams,
    first: [i64; AXES],
) {
    let half = params.taps as isize;
    let (Axis { from: stride, before, .. }, _) = params.line(first);
    let next = params.from(params.later([0; AXES], 1));
    // The middle of the filter.
    let from = input.offset(params.from(first) + (half - before as isize) * stride as isize);
    // SAFETY: the element at a distance from that of result r lies in the array.
    let value = |distance: isize, r: usize| unsafe {
        A::of::<T>(from.offset(distance * stride as isize + r as isize * next).cast::<T::Stored>().load(0))
    };
    let mut sums = [A::ZERO; RESULTS as usize];
    // SAFETY: the list has half + 1 words.
    let middle = unsafe { A::weight(taps, 0) };
    let mut r = 0;
    while r < RESULTS as usize {
        sums[r] = A::weigh(middle, value(0, r), sums[r]);
        r += 1;
    }
    let mut distance = half;
    while distance > 0 {
        // SAFETY: as above.
        let weight = unsafe { A::weight(taps, half + 1 - distance) };
        let mut r = 0;
        while r < RESULTS as usize {
            sums[r] = A::weigh(weight, pair(value(-distance, r), value(distance, r), IS_ODD), sums[r]);
            r += 1;
        }
        distance -= 1;
    }
    let mut r = 0;
    while r < RESULTS as usize {
        let to = output.offset(params.to(params.later(first, r as u32)));
        // SAFETY: the result is one of the array, and no other thread has it.
        unsafe { store(to, params.result, sums[r].to_f64()) };
        r += 1;
    }
}

/// One result anywhere in the array.
///
/// # Safety
/// Those of [`mirrored`], and `index` is in the array.
#[inline(always)]
unsafe fn at_border<T: Value, A: Sum>(
    input: Global<u8>,
    output: GlobalMut<u8>,
    taps: Global<u64>,
    params: &ArrayParams,
    index: [i64; AXES],
) {
    let half = params.taps as i64;
    let (Axis { length, from: stride, before, .. }, place) = params.line(index);
    let middle = place + half - before;
    // The element at position 0 of the line.
    let from = input.offset(params.from(index) - (place * stride) as isize);
    let value = |i: i64| match position(params.border, i, length) {
        OUTSIDE => A::from_f64(params.value),
        // SAFETY: the position lies in the array.
        i => A::of::<T>(unsafe { from.offset((i * stride) as isize).cast::<T::Stored>().load(0) }),
    };
    // SAFETY: the list has half + 1 words.
    let mut sum = A::weigh(unsafe { A::weight(taps, 0) }, value(middle), A::ZERO);
    let mut distance = half;
    while distance > 0 {
        // SAFETY: as above.
        let weight = unsafe { A::weight(taps, (half + 1 - distance) as isize) };
        let pair = pair(value(middle - distance), value(middle + distance), params.is_odd != 0);
        sum = A::weigh(weight, pair, sum);
        distance -= 1;
    }
    // SAFETY: the result is one of the array, and no other thread has it.
    unsafe { store(output.offset(params.to(index)), params.result, sum.to_f64()) };
}

type_instances! {
    mirrored, Mirrored:
    "ndimage_mirrored_{T}_{A}" for T in [i8, u8, i16, u16, i32, u32, i64, u64, f32, f64], A in [f64];
    "ndimage_mirrored_{T}_{A}" for T in [f32], A in [f32];
}
