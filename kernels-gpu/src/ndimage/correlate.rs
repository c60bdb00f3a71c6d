//! A correlation with any list of taps.
//!
//! `output[i] = sum over taps t, in their order, of weight[t] * input[i + delta[t]]`
//!
//! The host makes the list. That of `scipy.ndimage.correlate` has a tap for each weight of a magnitude above 2^-52.
//! That of `correlate1d` has a tap for each weight, the last weight first.
//!
//! # The list
//! That of [`tile`](super::tile). The taps of a pass form *runs*: taps at adjacent columns of a row that follow each
//! other in the order of the sum. A row of a dense mask is one run, and so is a single tap. The low half of word 5 of a
//! header is the number of runs. The words of a pass are one word for each run, and then the weights of all runs:
//!
//! | | low half | high half |
//! | --- | --- | --- |
//! | run | place of its first element in the tile | number of its taps |
//!
//! # Thread mapping
//! That of [`tile`](super::tile). A thread slides a window of values along a run: each tap loads one value and one
//! weight for as many products as the thread has results.
//!
//! # Cost
//! `f64` sums: one product and one addition for each tap and result, and a quarter of a load from shared memory.

use cuda_std::prelude::*;

use super::element::Value;
use super::params::ArrayParams;
use super::sum::Sum;
use super::tile::{Block, CONVERGENT, Pass, RESULTS, WINDOW, halves};
use super::{functions, list, type_instances};

/// The correlation of elements of type `T` with sums of type `A`.
///
/// # Safety
/// - `input` has an element of type `T` at each index of the array, and `output` room for a result.
/// - All of them are aligned.
/// - No two results have a byte in common, and none has one in common with `input` or `list`.
/// - `list` is the list of `params.passes` passes. All elements of a run are in the pass.
/// - The block, the grid and the dynamic shared memory are those of [`tile`](super::tile) for these parameters.
#[inline(always)]
pub unsafe fn correlate<T: Value, A: Sum>(
    input: Global<u8>,
    output: GlobalMut<u8>,
    list: Global<u64>,
    params: ArrayParams,
) {
    let block = Block::new(&params);
    let has_results = block.has_results(&params);
    let mut sums = [A::ZERO; RESULTS as usize];
    let mut number = 0;
    while number < params.passes {
        // SAFETY: the list has the pass, and the branch around this is the same in all threads.
        let pass = unsafe { block.stage::<T, A>(input, list, &params, number) };
        if has_results {
            // SAFETY: the elements of the runs are in the pass.
            unsafe { add_runs(&pass, &mut sums) };
        }
        number += 1;
    }
    // SAFETY: the output is as this function requires, and all threads are here.
    unsafe { block.store(output, &params, sums) };
}

/// Adds the products of all runs of a pass.
///
/// # Safety
/// All elements of the runs are in the pass.
#[inline(always)]
unsafe fn add_runs<A: Sum>(pass: &Pass<A>, sums: &mut [A; RESULTS as usize]) {
    let [runs, ..] = pass.numbers;
    let mut weights = pass.words.offset(runs);
    let mut run = 0;
    while run < runs {
        // SAFETY: the pass has a word for each run.
        let [place, mut taps] = halves(unsafe { pass.words.load(run) });
        let mut from = pass.values.offset(place);
        let mut window = [A::ZERO; WINDOW];
        let mut i = 0;
        while i < RESULTS - 1 {
            // SAFETY: the elements under the run's first tap are in the pass.
            window[i as usize] = unsafe { from.load(i) };
            i += 1;
        }
        from = from.offset(RESULTS - 1);
        // SAFETY: each part has as many taps as the run still has.
        unsafe {
            while taps >= 8 {
                add_taps::<A, 8>(&mut from, &mut weights, &mut window, sums);
                taps -= 8;
            }
            if taps & 4 != 0 {
                add_taps::<A, 4>(&mut from, &mut weights, &mut window, sums);
            }
            if taps & 2 != 0 {
                add_taps::<A, 2>(&mut from, &mut weights, &mut window, sums);
            }
            if taps & 1 != 0 {
                add_taps::<A, 1>(&mut from, &mut weights, &mut window, sums);
            }
        }
        run += 1;
    }
}

/// Adds the products of `N` taps, and slides the window past them.
///
/// The first `RESULTS - 1` values of the window are those of the results at the first tap, but for the last result.
///
/// # Safety
/// - `N` is at most [`RESULTS`].
/// - `from` is the element of the last result at the first tap. It and those at the later taps are in the pass.
/// - `weights` has the weights of the taps.
#[inline(always)]
unsafe fn add_taps<A: Sum, const N: usize>(
    from: &mut Shared<A>,
    weights: &mut Shared<u64>,
    window: &mut [A; WINDOW],
    sums: &mut [A; RESULTS as usize],
) {
    const REST: usize = RESULTS as usize - 1;
    let mut tap = 0;
    while tap < N {
        // SAFETY: the element of this tap is in the pass.
        window[REST + tap] = unsafe { from.load(tap as u32) };
        tap += 1;
    }
    let mut tap = 0;
    while tap < N {
        // SAFETY: there are as many weights as taps.
        let weight = unsafe { A::weight(*weights, tap as u32) };
        let mut r = 0;
        while r < RESULTS as usize {
            sums[r] = A::weigh(weight, window[tap + r], sums[r]);
            r += 1;
        }
        tap += 1;
    }
    let mut i = 0;
    while i < REST {
        window[i] = window[N + i];
        i += 1;
    }
    *from = from.offset(N as u32);
    *weights = weights.offset(N as u32);
}

type_instances! {
    correlate, Correlate, CONVERGENT:
    "ndimage_correlate_{T}_{A}" for T in [i8, u8, i16, u16, i32, u32, i64, u64, f32, f64], A in [f64];
    "ndimage_correlate_{T}_{A}" for T in [f32], A in [f32];
}
