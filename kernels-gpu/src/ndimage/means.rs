//! The mean of neighbouring elements along one axis: `scipy.ndimage.uniform_filter1d`.
//!
//! `output[i] = (input[i - before] + .. + input[i + after]) / size`, with `size = before + after + 1`
//!
//! # Thread mapping
//! That of [`params`](super::params), with strips of [`STRIP`] positions in place of positions of the filtered axis. A
//! thread has one strip. It adds the elements of the first result, from first to last. For each later result it adds
//! the difference of the element that comes and the element that goes.
//!
//! # Bits
//! Sums of integers below 2^53 are exact, and the results are bit-exact with a running sum along the whole axis. Sums
//! of floating point are rounded. There the results differ from such a sum by its roundings, and a NaN or an infinity
//! does not reach beyond its strip.
//!
//! # Cost
//! A strip loads `size + 2 * (STRIP - 1)` elements for [`STRIP`] results.

use cuda_std::prelude::*;

use super::element::{Value, store};
use super::params::{ArrayParams, Axis};
use super::position::{OUTSIDE, position};
use super::sum::Sum;
use super::{functions, list, type_instances};
use crate::abi::kernel::Convergent;

/// Results of a thread.
pub const STRIP: u32 = 32;

/// The means for elements of type `T` with sums of type `A`.
///
/// # Safety
/// - `input` has an element of type `T` at each index of the array, and `output` room for a result.
/// - All of them are aligned.
/// - No two results have a byte in common, and none has one in common with `input`.
/// - Blocks and grid are those of [`params`](super::params) for these parameters.
/// - `params.line` names the axis. `before` and `after` of every other axis are 0.
#[inline(always)]
pub unsafe fn means<T: Value, A: Sum>(
    input: Global<u8>,
    output: GlobalMut<u8>,
    _taps: Global<u64>,
    params: ArrayParams,
) {
    let mut index = params.index();
    let mut axis = 0;
    while axis < index.len() {
        if params.line == axis as u32 {
            index[axis] *= STRIP as i64;
        }
        axis += 1;
    }
    if !params.has(index) {
        return;
    }
    let (line, start) = params.line(index);
    let rest = line.length - start;
    let end = start + if rest < STRIP as i64 { rest } else { STRIP as i64 };
    // The element and the result at position 0 of the line.
    let input = input.offset(params.from(index) - (start * line.from) as isize);
    let output = output.offset(params.to(index) - (start * line.to) as isize);
    // SAFETY: the strip lies in the array, and no other thread has it.
    unsafe {
        if start >= line.before && end - 1 + line.after < line.length {
            strip::<A>(output, &params, line, (start, end), |i| {
                // SAFETY: all that the strip reads lies in the array.
                A::of::<T>(input.offset((i * line.from) as isize).cast::<T::Stored>().load(0))
            });
        } else {
            let outside = A::from_f64(params.value);
            strip::<A>(output, &params, line, (start, end), |i| match position(params.border, i, line.length) {
                OUTSIDE => outside,
                // SAFETY: the position lies in the array.
                i => A::of::<T>(input.offset((i * line.from) as isize).cast::<T::Stored>().load(0)),
            });
        }
    }
}

/// The results of a strip, from the elements that `value` reads.
///
/// # Safety
/// The results lie in the array, and no other thread has them.
#[inline(always)]
unsafe fn strip<A: Sum>(
    output: GlobalMut<u8>,
    params: &ArrayParams,
    line: Axis,
    (start, end): (i64, i64),
    value: impl Fn(i64) -> A,
) {
    let size = (line.before + line.after + 1) as f64;
    let mut sum = A::ZERO;
    let mut i = start - line.before;
    while i <= start + line.after {
        sum = sum.plus(value(i));
        i += 1;
    }
    let mut i = start;
    loop {
        // SAFETY: the result is one of the strip.
        unsafe { store(output.offset((i * line.to) as isize), params.result, sum.to_f64() / size) };
        i += 1;
        if i >= end {
            return;
        }
        sum = sum.plus(value(i + line.after).minus(value(i - 1 - line.before)));
    }
}

type_instances! {
    means, Means, Convergent::NONE:
    "ndimage_means_{T}_{A}" for T in [i8, u8, i16, u16, i32, u32, i64, u64, f32, f64], A in [f64];
}
