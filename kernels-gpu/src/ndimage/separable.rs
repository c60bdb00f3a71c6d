//! Two correlations along two axes in one launch, each with symmetric or antisymmetric weights.
//!
//! `between[y, x] = middle * input[y', x] + sum over d = h to 1 of weight[d] * (input[y' - d, x] ± input[y' + d, x])`
//!
//! `output[y, x]` is the same sum along `x` of `between`. The first filter has 2h + 1 weights, and
//! `y' = y - origin`. For antisymmetric weights the two elements of a pair are subtracted, not added. The first filter
//! lies along axis 1, the second one along axis 0. The results are bit-exact with those of two launches of
//! [`mirrored`](super::mirrored).
//!
//! # Tiling
//! A block has [`COLUMNS`] x [`TILE`](tile::TILE) results. It copies the elements under both filters to shared memory,
//! as [`tile`] says, in one pass. It filters all columns of the pass along axis 1, into a second tile. Then
//! it filters the rows of that tile along axis 0. The first filter also computes the columns of the halo. So a tile has
//! more columns than rows.
//!
//! # Thread mapping
//! First filter: adjacent lanes have adjacent columns, and a thread has [`RESULTS`] adjacent rows of its column. Second
//! filter: lane `i` of a warp has [`RESULTS`] adjacent results of row `i`. A thread loads all elements of its results
//! into registers, each of them once.
//!
//! # The list
//! That of [`tile`] with one pass, and with these numbers in its header.
//!
//! | word | low half | high half |
//! | --- | --- | --- |
//! | 5 | pairs of the first filter | pairs of the second filter |
//! | 6 | [`FIRST_IS_ODD`] and [`SECOND_IS_ODD`] | 0 |
//!
//! The words are the weights of the first filter and then those of the second one: the middle weight, and the weights
//! of the pairs, the outermost first.
//!
//! # Border
//! A column outside of the array is a copy of an inside column. So the first filter gives the same results there. Under
//! [`BorderMode::Constant`](crate::abi::border::BorderMode::Constant) it is not a copy. The second filter reads the
//! border's value there, not a filtered one.
//!
//! # Cost
//! 9 weights along each axis: 72 x 40 elements for 64 x 32 results, which is 1.41 loads from L2 for each result. The
//! first filter computes 72 x 32 sums. Each sum takes 14 operations of `f64` and two loads from shared memory.

use cuda_std::prelude::*;

use super::element::{ResultKind, Value};
use super::params::{ArrayParams, divide};
use super::sum::Sum;
use super::tile::{self, OUTSIDE, RESULTS, TileBlock, pass_bytes, pitch, result_bytes};
use super::{functions, list, type_instances};
use crate::abi::kernel::Convergent;

/// Columns of a block's results.
pub const COLUMNS: u32 = 64;

/// Threads of a block.
pub const THREADS: u32 = tile::threads(COLUMNS);

/// Blocks that a multiprocessor runs at a time. With more of them registers would spill.
pub const BLOCKS_PER_SM: u32 = 3;

/// The most pairs of a filter: with more of them registers would spill.
pub const MOST_PAIRS: u32 = 6;

/// The weights of the first filter are antisymmetric.
pub const FIRST_IS_ODD: u32 = 1;

/// The weights of the second filter are antisymmetric.
pub const SECOND_IS_ODD: u32 = 2;

/// Elements that a thread loads before it stores the first of them. For 9 weights along each axis a thread has 12.
const LOADS: usize = 6;

/// The barriers of a tile, and the one between the filters.
const CONVERGENT: Convergent = tile::CONVERGENT.and(Convergent::barriers(1));

/// The dynamic shared memory in bytes for a pass with so many columns, rows and words, of which the first filter makes
/// `results` rows.
#[must_use]
pub const fn shared_bytes(columns: u64, rows: u64, results: u64, words: u64) -> u64 {
    let size = size_of::<f64>() as u64;
    let pass = pass_bytes(columns, rows, words, size) + results * (columns | 1) * size;
    let results = result_bytes(COLUMNS, size);
    if pass > results { pass } else { results }
}

/// Both filters for elements and results of type `T`, which is that of the sums.
///
/// # Safety
/// - `input` has an element of type `T` at each index of the array, and `output` room for a result.
/// - All of them are aligned.
/// - No two results have a byte in common, and none has one in common with `input` or `list`.
/// - `list` is a list of one pass. The pass has the elements under both filters, for a multiple of [`RESULTS`] rows of
///   results. No filter has more than [`MOST_PAIRS`] pairs.
/// - `params.fold` is 0.
/// - The block and the grid are those of a [`TileBlock`] with [`COLUMNS`] columns for these parameters. The dynamic
///   shared memory is [`shared_bytes`].
#[inline(always)]
pub unsafe fn separable<T: Value, A: Sum>(
    input: Global<u8>,
    output: GlobalMut<u8>,
    list: Global<u64>,
    params: ArrayParams,
) {
    // The compiler then leaves out what other values need.
    let params = ArrayParams { fold: 0, result: ResultKind::F64.code(), ..params };
    let staging = TileBlock::<COLUMNS, LOADS>::new(&params);
    // SAFETY: the list has the pass, and all threads are here.
    let pass = unsafe { staging.stage::<T, A>(input, list, &params, 0) };
    let [first_pairs, second_pairs, odd_flags, _] = pass.numbers;
    let between = pass.tile.offset(pass.rows * pitch(pass.columns));
    let groups = (pass.rows - 2 * first_pairs) / RESULTS;
    let is_odd = odd_flags & FIRST_IS_ODD != 0;
    let outside = A::from_f64(params.value);

    let (mut group, mut column) = divide(thread::thread_idx_x(), pass.columns);
    while group < groups {
        // The compiler can't see this value. Otherwise it would compute addresses before the loop, and spill registers.
        let pitch = thread::black_box(pitch(pass.columns));
        let place = group * RESULTS * pitch + column;
        let middle = pass.tile.offset(place + first_pairs * pitch);
        // SAFETY: the elements are in the pass, and the words are its weights. All were written before its last
        // barrier.
        let sums = unsafe { line_sums(middle, pitch, pass.words, first_pairs, is_odd) };
        // SAFETY: each column has a term, which was written before that barrier, too.
        let is_outside = unsafe { pass.terms.load(column) } == OUTSIDE;
        let mut to = between.offset(place);
        let mut r = 0;
        while r < RESULTS {
            let value = if is_outside { outside } else { sums[r as usize] };
            // SAFETY: the second tile has this row and column. No other thread writes to the place.
            unsafe { to.store(0, value) };
            to = to.offset(pitch);
            r += 1;
        }
        column += THREADS;
        while column >= pass.columns {
            column -= pass.columns;
            group += 1;
        }
    }
    // SAFETY: all threads are here.
    unsafe { thread::sync_threads() };

    // The block's position is computed again: during the first filter its registers are needed for the elements.
    let [tiles_0, tiles_1, length_2] = params.tiles;
    let tiles = [thread::black_box(tiles_0), thread::black_box(tiles_1), thread::black_box(length_2)];
    let params = ArrayParams { tiles, ..params };
    let block = TileBlock::<COLUMNS, LOADS>::new(&params);
    let mut results = [A::ZERO; RESULTS as usize];
    if block.has_results(&params) {
        let (row, column) = tile::result_position();
        let middle = between.offset(row * pitch(pass.columns) + column + second_pairs);
        let is_odd = odd_flags & SECOND_IS_ODD != 0;
        // SAFETY: the second tile has the row, because the result is one of the array, and the columns under the
        // filter. The words after those of the first filter are the weights. All were written before the barrier.
        results = unsafe { line_sums(middle, 1, pass.words.offset(1 + first_pairs), second_pairs, is_odd) };
    }
    // SAFETY: the output is as this function requires, and all threads are here.
    unsafe { block.store(output, &params, results) };
}

/// The place of the first result's middle element among the values of a thread.
const MIDDLE: usize = MOST_PAIRS as usize;

/// Values under the filter of [`RESULTS`] adjacent results.
const VALUES: usize = RESULTS as usize + 2 * MIDDLE;

/// The sums of [`RESULTS`] adjacent results along an axis with this step in shared memory.
///
/// # Safety
/// - `middle` is the middle element of the first result.
/// - There are `pairs` elements before it, and `pairs + RESULTS - 1` elements after it. `pairs` is at most
///   [`MOST_PAIRS`].
/// - `weights` are the middle weight and those of the pairs.
/// - All were written before the last barrier.
#[inline(always)]
unsafe fn line_sums<A: Sum>(
    middle: Shared<A>,
    step: u32,
    weights: Shared<u64>,
    pairs: u32,
    is_odd: bool,
) -> [A; RESULTS as usize] {
    let mut values = [A::ZERO; VALUES];
    let mut next = middle;
    let mut r = 0;
    while r < RESULTS as usize {
        // SAFETY: the middle element of this result.
        values[MIDDLE + r] = unsafe { next.load(0) };
        next = next.offset(step);
        r += 1;
    }
    let mut previous = middle;
    // The conditions are the same in all threads. The indices are constants, so the values stay in registers.
    let mut distance = 1;
    while distance <= MIDDLE {
        if distance as u32 <= pairs {
            previous = previous.offset(step.wrapping_neg());
            // SAFETY: there are as many elements before and after the middle ones.
            unsafe {
                values[MIDDLE - distance] = previous.load(0);
                values[MIDDLE + RESULTS as usize - 1 + distance] = next.load(0);
            }
            next = next.offset(step);
        }
        distance += 1;
    }
    // SAFETY: the first word is the middle weight.
    let weight = unsafe { A::weight(weights, 0) };
    let mut sums = [A::ZERO; RESULTS as usize];
    let mut r = 0;
    while r < RESULTS as usize {
        sums[r] = A::weigh(weight, values[MIDDLE + r], sums[r]);
        r += 1;
    }
    // SAFETY: the weights of the pairs follow.
    unsafe {
        if is_odd {
            add_pairs(&values, weights.offset(1), pairs, &mut sums, A::minus);
        } else {
            add_pairs(&values, weights.offset(1), pairs, &mut sums, A::plus);
        }
    }
    sums
}

/// Adds the products of all pairs, the outermost first. `pair` adds or subtracts the two elements of a pair.
///
/// # Safety
/// `weights` are those of the pairs.
#[inline(always)]
unsafe fn add_pairs<A: Sum>(
    values: &[A; VALUES],
    mut weights: Shared<u64>,
    pairs: u32,
    sums: &mut [A; RESULTS as usize],
    pair: impl Fn(A, A) -> A,
) {
    let mut distance = MIDDLE;
    while distance > 0 {
        if distance as u32 <= pairs {
            // SAFETY: each pair has a weight.
            let weight = unsafe { A::weight(weights, 0) };
            weights = weights.offset(1);
            let mut r = 0;
            while r < RESULTS as usize {
                let (before, after) = (values[MIDDLE - distance + r], values[MIDDLE + distance + r]);
                sums[r] = A::weigh(weight, pair(before, after), sums[r]);
                r += 1;
            }
        }
        distance -= 1;
    }
}

type_instances! {
    separable, Separable, CONVERGENT:
    "ndimage_separable_{T}_{A}" for T in [f64], A in [f64];
}
