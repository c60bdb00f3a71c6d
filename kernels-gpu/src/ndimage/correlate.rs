//! A correlation with any list of taps.
//!
//! `output[i] = sum over taps t, in their order, of weight[t] * input[i + delta[t]]`
//!
//! The host makes the list: `scipy.ndimage.correlate` has a tap for each weight of more than 2^-52, `correlate1d` one
//! for each weight, the last one first.
//!
//! # The list of n taps
//! | 64-bit words | |
//! | --- | --- |
//! | 0 to 2n - 1 | of each tap the distance in bytes from the result's own element, and the weight |
//! | 2n to 4n - 1 | of each tap the distance along axes 0 and 1, and along axes 2 and 3, 32 bits each |
//!
//! # Thread mapping
//! That of [`params`](super::params): a thread has [`RESULTS`] results. Where all of them read inside of the array, a
//! product is one load at a distance, and the load of a tap serves all of them. At the border a thread maps the
//! positions of each tap, one result after the other.
//!
//! # Cost
//! `f64` sums: one load, one conversion, one product and one addition for each tap and result.

use cuda_std::prelude::*;

use super::element::{Value, store};
use super::params::{AXES, ArrayParams, RESULTS};
use super::position::{OUTSIDE, position};
use super::sum::Sum;
use super::{functions, list, type_instances};

/// The correlation of elements of type `T` with sums of type `A`.
///
/// # Safety
/// - `input` has an element of type `T` at each index of the array, and `output` room for a result.
/// - All of them are aligned.
/// - No two results have a byte in common, and none has one in common with `input` or `taps`.
/// - `taps` holds the list of `params.taps` taps. No distance along an axis is beyond the axis' `before` and `after`.
/// - Blocks and grid are those of [`params`](super::params) for these parameters.
#[inline(always)]
pub unsafe fn correlate<T: Value, A: Sum>(
    input: Global<u8>,
    output: GlobalMut<u8>,
    taps: Global<u64>,
    params: ArrayParams,
) {
    let first = params.first_index();
    let count = params.taps as isize;
    if params.reads_inside(first, params.later(first, RESULTS - 1)) {
        let next = params.from(params.later([0; AXES], 1));
        let from = input.offset(params.from(first));
        let mut sums = [A::ZERO; RESULTS as usize];
        let mut tap = 0;
        while tap < count {
            // SAFETY: the list has 2 words for each tap. All that these results read lies in the array.
            unsafe {
                let from = from.offset(taps.load(2 * tap) as isize);
                let weight = A::weight(taps, 2 * tap + 1);
                let mut r = 0;
                while r < RESULTS as usize {
                    let value = from.offset(r as isize * next).cast::<T::Stored>().load(0);
                    sums[r] = A::weigh(weight, A::of::<T>(value), sums[r]);
                    r += 1;
                }
            }
            tap += 1;
        }
        let mut r = 0;
        while r < RESULTS as usize {
            let to = output.offset(params.to(params.later(first, r as u32)));
            // SAFETY: the result is one of the array, and no other thread has it.
            unsafe { store(to, params.result, sums[r].to_f64()) };
            r += 1;
        }
        return;
    }

    let outside = A::from_f64(params.value);
    // The compiler does not know the bound: this path exists once, not once for each result.
    let results = thread::black_box(RESULTS);
    let mut r = 0;
    while r < results {
        let index = params.later(first, r);
        r += 1;
        if !params.has(index) {
            continue;
        }
        let is_inside = params.reads_inside(index, index);
        let own = input.offset(params.from(index));
        let mut sum = A::ZERO;
        let mut tap = 0;
        while tap < count {
            // SAFETY: the list has 2 words for each tap.
            let weight = unsafe { A::weight(taps, 2 * tap + 1) };
            let from = if is_inside {
                // SAFETY: as above.
                Some(own.offset(unsafe { taps.load(2 * tap) } as isize))
            } else {
                // SAFETY: the list has 2 more words for each tap.
                let delta = unsafe { [taps.load(2 * count + 2 * tap), taps.load(2 * count + 2 * tap + 1)] };
                mapped(&params, index, delta).map(|bytes| input.offset(bytes))
            };
            let value = match from {
                // SAFETY: the element is one of the array.
                Some(from) => A::of::<T>(unsafe { from.cast::<T::Stored>().load(0) }),
                None => outside,
            };
            sum = A::weigh(weight, value, sum);
            tap += 1;
        }
        // SAFETY: the result is one of the array, and no other thread has it.
        unsafe { store(output.offset(params.to(index)), params.result, sum.to_f64()) };
    }
}

/// Bytes from the input's first element to the one that stands at a distance from `index`; None where the border's
/// value stands.
#[inline(always)]
fn mapped(params: &ArrayParams, index: [i64; AXES], delta: [u64; 2]) -> Option<isize> {
    let mut at = [0; AXES];
    let mut is_outside = false;
    let mut axis = 0;
    while axis < AXES {
        let delta = (delta[axis / 2] >> (axis % 2 * 32)) as u32 as i32;
        at[axis] = position(params.border, index[axis] + delta as i64, params.axes[axis].length);
        is_outside |= at[axis] == OUTSIDE;
        axis += 1;
    }
    if is_outside { None } else { Some(params.from(at)) }
}

type_instances! {
    correlate, Correlate:
    "ndimage_correlate_{T}_{A}" for T in [i8, u8, i16, u16, i32, u32, i64, u64, f32, f64], A in [f64];
    "ndimage_correlate_{T}_{A}" for T in [f32], A in [f32];
}
