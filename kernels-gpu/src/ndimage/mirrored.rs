//! A correlation along one axis with symmetric or antisymmetric weights, in the order of `scipy.ndimage.correlate1d`.
//!
//! `output[i] = middle * input[c] + sum over d = h to 1 of weight[d] * (input[c - d] ± input[c + d])`
//!
//! The filter has 2h + 1 weights, and `c = i - origin`. For antisymmetric weights the two elements of a pair are
//! subtracted, not added. The axis is axis 0.
//!
//! # The list
//! That of [`tile`](super::tile), with these numbers in the headers. The columns are those of the first result's
//! elements. The left element of the outermost pair is in column 0.
//!
//! | word | low half | high half |
//! | --- | --- | --- |
//! | 5 | column of the middle element, or [`NONE`] | column of the outermost pair's right element |
//! | 6 | number of pairs | 0 |
//!
//! The words of a pass are the middle weight, unless it has none, and the weights of the pairs, the outermost first.
//!
//! # Thread mapping
//! That of [`tile`](super::tile). A thread slides two windows of values towards each other.
//!
//! # Cost
//! `f64` sums: one product and two additions for each pair and result, and three eighths of a load from shared memory.

use cuda_std::prelude::*;

use super::element::Value;
use super::params::ArrayParams;
use super::sum::Sum;
use super::tile::{Block, CONVERGENT, Pass, RESULTS, WINDOW};
use super::{functions, list, type_instances};

/// The column of the middle element in a pass without the middle weight.
pub const NONE: u32 = u32::MAX;

/// The filter for elements of type `T` with sums of type `A`.
///
/// # Safety
/// - Those of [`correlate`](super::correlate::correlate) but for the runs.
/// - All elements of the middle and of the pairs are in the pass.
#[inline(always)]
pub unsafe fn mirrored<T: Value, A: Sum>(
    input: Global<u8>,
    output: GlobalMut<u8>,
    list: Global<u64>,
    params: ArrayParams,
) {
    let block = Block::new(&params);
    let has_results = block.has_results(&params);
    let sign = (params.is_odd as u64) << 63;
    let mut sums = [A::ZERO; RESULTS as usize];
    let mut number = 0;
    while number < params.passes {
        // SAFETY: the list has the pass, and the branch around this is the same in all threads.
        let pass = unsafe { block.stage::<T, A>(input, list, &params, number) };
        if has_results {
            // SAFETY: the elements are in the pass.
            unsafe { add_pairs(&pass, sign, &mut sums) };
        }
        number += 1;
    }
    // SAFETY: the output is as this function requires, and all threads are here.
    unsafe { block.store(output, &params, sums) };
}

/// Adds the products of the middle and of all pairs of a pass.
///
/// # Safety
/// All their elements are in the pass.
#[inline(always)]
unsafe fn add_pairs<A: Sum>(pass: &Pass<A>, sign: u64, sums: &mut [A; RESULTS as usize]) {
    let [middle, right, mut pairs, _] = pass.numbers;
    let mut weights = pass.words;
    if middle != NONE {
        // SAFETY: the first word is the middle weight.
        let weight = unsafe { A::weight(weights, 0) };
        weights = weights.offset(1);
        let mut r = 0;
        while r < RESULTS {
            // SAFETY: the middle elements are in the pass.
            let value = unsafe { pass.values.load(middle + r) };
            sums[r as usize] = A::weigh(weight, value, sums[r as usize]);
            r += 1;
        }
    }
    if pairs == 0 {
        return;
    }
    let (left, right) = (pass.values, pass.values.offset(right));
    let mut windows = Windows { left: [A::ZERO; REST], right: [A::ZERO; REST] };
    let mut i = 0;
    while i < REST {
        // SAFETY: the elements of the outermost pairs are in the pass.
        unsafe {
            windows.left[i] = left.load(i as u32);
            windows.right[i] = right.load(i as u32 + 1).flipped(sign);
        }
        i += 1;
    }
    let mut next = Next { left: left.offset(REST as u32), right, weights, sign };
    // SAFETY: each part has as many pairs as the pass still has.
    unsafe {
        while pairs >= 8 {
            next.add::<8>(&mut windows, sums);
            pairs -= 8;
        }
        if pairs & 4 != 0 {
            next.add::<4>(&mut windows, sums);
        }
        if pairs & 2 != 0 {
            next.add::<2>(&mut windows, sums);
        }
        if pairs & 1 != 0 {
            next.add::<1>(&mut windows, sums);
        }
    }
}

/// Values that stay in registers from one pair to the next.
const REST: usize = RESULTS as usize - 1;

/// Values of a pair: the left ones but for the last result, and the right ones but for the first result.
struct Windows<A> {
    left: [A; REST],
    right: [A; REST],
}

/// Where the next pair is.
struct Next<A> {
    /// The left element of the last result.
    left: Shared<A>,
    /// The right element of the first result.
    right: Shared<A>,
    weights: Shared<u64>,
    /// The highest bit if the weights are antisymmetric.
    sign: u64,
}

impl<A: Sum> Next<A> {
    /// Adds the products of the next `N` pairs, and slides both windows past them.
    ///
    /// # Safety
    /// - `N` is at most [`RESULTS`].
    /// - There are `N` more weights, and the elements of these pairs are in the pass.
    #[inline(always)]
    unsafe fn add<const N: usize>(&mut self, windows: &mut Windows<A>, sums: &mut [A; RESULTS as usize]) {
        let (mut left, mut right) = ([A::ZERO; WINDOW], [A::ZERO; WINDOW]);
        let mut i = 0;
        while i < REST {
            left[i] = windows.left[i];
            right[N + i] = windows.right[i];
            i += 1;
        }
        let mut pair = 0;
        while pair < N {
            // SAFETY: the elements of this pair are in the pass.
            unsafe {
                left[REST + pair] = self.left.load(pair as u32);
                right[N - 1 - pair] = self.right.load((pair as u32).wrapping_neg()).flipped(self.sign);
            }
            pair += 1;
        }
        let mut pair = 0;
        while pair < N {
            // SAFETY: there are as many weights as pairs.
            let weight = unsafe { A::weight(self.weights, pair as u32) };
            let mut r = 0;
            while r < RESULTS as usize {
                let sum = left[pair + r].plus(right[N - 1 - pair + r]);
                sums[r] = A::weigh(weight, sum, sums[r]);
                r += 1;
            }
            pair += 1;
        }
        let mut i = 0;
        while i < REST {
            windows.left[i] = left[N + i];
            windows.right[i] = right[i];
            i += 1;
        }
        self.left = self.left.offset(N as u32);
        self.right = self.right.offset((N as u32).wrapping_neg());
        self.weights = self.weights.offset(N as u32);
    }
}

type_instances! {
    mirrored, Mirrored, CONVERGENT:
    "ndimage_mirrored_{T}_{A}" for T in [i8, u8, i16, u16, i32, u32, i64, u64, f32, f64], A in [f64];
    "ndimage_mirrored_{T}_{A}" for T in [f32], A in [f32];
}
