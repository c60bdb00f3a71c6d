//! Tiles in shared memory: how a block reads what its results need, and stores the results.
//!
//! # Thread mapping
//! A block of [`THREADS`] threads has [`TILE`] x [`TILE`] results: `TILE` columns along axis 0, and `TILE` rows along
//! axis 1. Lane `i` of a warp has [`RESULTS`] adjacent results of row `i`. So a value that a thread loads from shared
//! memory serves as many products, and the sums stay in registers. A [`TileBlock`] may have more columns. It then has
//! proportionally more threads.
//!
//! If axis 1 has too few positions, the rows are parts of axis 0: row `y` begins at position `y * fold`.
//!
//! # Passes
//! A block computes its sums in passes. A pass copies some weights and the elements under them to shared memory, border
//! included, and converts each element to the type of the sums. Then each thread adds the products of the pass. The
//! host divides the taps among passes, in their order, such that each pass fits in shared memory.
//!
//! The address of an element is a sum of one term for its row and one for its column. Threads compute these terms, with
//! the border map, once for each row and each column of a pass.
//!
//! # The list
//! The list begins with [`HEADER`] words for each pass. A word has two numbers of 32 bits:
//!
//! | word | low half | high half |
//! | --- | --- | --- |
//! | 0 | distance of the elements from the results along axis 2 | the same along axis 3 |
//! | 1 | distance of the first column from the tile's first result | the same of the first row |
//! | 2 | columns | rows |
//! | 3 | columns before the gap | positions that the gap leaves out, or fewer than 0 |
//! | 4 | first word of the pass in the list | number of these words |
//! | 5, 6 | defined by the kernel | defined by the kernel |
//!
//! The words of a pass have weights, and what the kernel defines.
//!
//! # Bank conflicts
//! The number of elements from one row of the tile to the next is odd. So 16 lanes load 16 values of `f64` from
//! different banks, and 32 lanes 32 values of `f32`.

use cuda_std::prelude::*;

use super::element::{Value, store};
use super::params::{AXES, ArrayParams, LOAD_ROWS, STORE_ROWS, divide};
use super::position::{self, position};
use super::sum::Sum;
use crate::abi::kernel::Convergent;

/// Columns and rows of a block's results.
pub const TILE: u32 = 32;

/// Results of a thread.
pub const RESULTS: u32 = 8;

/// Threads of a block.
pub const THREADS: u32 = threads(TILE);

/// Threads of a block with so many columns of results.
#[inline(always)]
#[must_use]
pub const fn threads(columns: u32) -> u32 {
    columns * TILE / RESULTS
}

/// Blocks that a multiprocessor runs at a time: while some wait for their elements, others compute. With more of them
/// registers would spill.
#[must_use]
pub const fn blocks_per_sm(has_f32_sums: bool) -> u32 {
    if has_f32_sums { 8 } else { 7 }
}

/// Words of a pass at the start of the list.
pub const HEADER: u32 = 7;

/// The convergent instructions: three barriers in [`Block::stage`], and two in [`Block::store`].
pub const CONVERGENT: Convergent = Convergent::barriers(5);

/// Elements from one row of a pass with so many columns to the next.
#[inline(always)]
#[must_use]
pub const fn pitch(columns: u32) -> u32 {
    columns | 1
}

/// The dynamic shared memory in bytes for a pass, and for the results. A value of the sums has `size` bytes.
#[must_use]
pub const fn shared_bytes(columns: u64, rows: u64, words: u64, size: u64) -> u64 {
    let pass = pass_bytes(columns, rows, words, size);
    let results = result_bytes(TILE, size);
    if pass > results { pass } else { results }
}

/// The bytes of a pass in shared memory.
#[must_use]
pub const fn pass_bytes(columns: u64, rows: u64, words: u64, size: u64) -> u64 {
    (words + columns + rows) * 8 + rows * (columns | 1) * size
}

/// The bytes of the results of a block with so many columns in shared memory.
#[must_use]
pub const fn result_bytes(columns: u32, size: u64) -> u64 {
    TILE as u64 * pitch(columns) as u64 * size
}

/// Elements that a thread of a [`Block`] loads before it stores the first of them. That is all for a filter of 3 x 3,
/// or of 9 along one axis.
const LOADS: usize = 5;

/// In the table of terms: here the border's value stands.
pub(super) const OUTSIDE: u64 = 1 << 63;

/// A block with a tile of [`TILE`] x [`TILE`] results.
pub type Block = TileBlock<TILE, LOADS>;

/// A block's tile of `COLUMNS` columns and [`TILE`] rows of results. A thread loads `LOADS` elements before it stores
/// the first of them.
#[derive(Clone, Copy)]
pub struct TileBlock<const COLUMNS: u32, const LOADS: usize> {
    /// Position of the first column and of the first row, and the positions on axes 2 and 3.
    first: [i64; AXES],
}

/// A pass in shared memory, as a thread sees it.
#[derive(Clone, Copy)]
pub struct Pass<A> {
    /// The words of the pass.
    pub words: Shared<u64>,
    /// The first column's element in this thread's row, offset by the column of the thread's first result.
    pub values: Shared<A>,
    /// Words 5 and 6 of the header.
    pub numbers: [u32; 4],
    /// The term of each column: what the addresses of its elements have in common, or that it is outside.
    pub terms: Shared<u64>,
    /// The element in the first column of the first row.
    pub tile: Shared<A>,
    /// Columns.
    pub columns: u32,
    /// Rows.
    pub rows: u32,
}

/// The two numbers of a word.
#[inline(always)]
#[must_use]
pub fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// The row of this thread's results in the tile, and the column of the first one.
#[inline(always)]
pub(super) fn result_position() -> (u32, u32) {
    let thread = thread::thread_idx_x();
    (thread % TILE, thread / TILE * RESULTS)
}

/// The term of an address for a position on an axis, or [`OUTSIDE`].
#[inline(always)]
fn term(params: &ArrayParams, axis: usize, at: i64) -> u64 {
    match position(params.border, at, params.axes[axis].length) {
        position::OUTSIDE => OUTSIDE,
        at => (at * params.axes[axis].from) as u64,
    }
}

/// The sum of two terms, or [`OUTSIDE`].
#[inline(always)]
fn sum_of(a: u64, b: u64) -> u64 {
    if a == OUTSIDE || b == OUTSIDE { OUTSIDE } else { a.wrapping_add(b) }
}

impl<const COLUMNS: u32, const LOADS: usize> TileBlock<COLUMNS, LOADS> {
    /// Threads of the block.
    pub const THREADS: u32 = threads(COLUMNS);

    /// This block.
    #[inline(always)]
    #[must_use]
    pub fn new(params: &ArrayParams) -> Self {
        let [tile_0, tile_1, index_2, index_3] = params.tile();
        Self { first: [tile_0 as i64 * COLUMNS as i64, tile_1 as i64 * TILE as i64, index_2 as i64, index_3 as i64] }
    }

    /// Whether the thread's first result is one of the array.
    #[inline(always)]
    #[must_use]
    pub fn has_results(&self, params: &ArrayParams) -> bool {
        let (row, column) = result_position();
        let y = self.first[1] + row as i64;
        let x = self.first[0] + column as i64 + y * params.fold as i64;
        x < params.axes[0].length && y < params.axes[1].length
    }

    /// Copies pass number `pass` to shared memory.
    ///
    /// # Safety
    /// - `input` has an element of type `T` at each index of the array. All of them are aligned.
    /// - `list` has the pass, and the dynamic shared memory has [`shared_bytes`] for it.
    /// - All threads of the block call this together.
    #[inline(always)]
    pub unsafe fn stage<T: Value, A: Sum>(
        &self,
        input: Global<u8>,
        list: Global<u64>,
        params: &ArrayParams,
        pass: u32,
    ) -> Pass<A> {
        let thread = thread::thread_idx_x();
        // SAFETY: the list has the pass, and so its header.
        let header = |word: u32| halves(unsafe { list.load((pass * HEADER + word) as isize) });
        let [delta_2, delta_3] = header(0);
        let [first_column, first_row] = header(1);
        let [columns, rows] = header(2);
        let [split, gap] = header(3);
        let [begin, count] = header(4);
        let pitch = pitch(columns);
        let words = Shared::<u64>::dynamic();
        let terms = words.offset(count);
        let tile = terms.offset(columns + rows).cast::<A>();
        // The distance of a column from the tile's first result.
        let distance = |column: u32| {
            let skipped = if column < split { 0 } else { gap as i32 as i64 };
            first_column as i32 as i64 + column as i64 + skipped
        };

        // The other threads may still read the pass before this one.
        // SAFETY: all threads are here, as this function requires.
        unsafe { thread::sync_threads() };
        let mut i = thread;
        while i < count {
            // SAFETY: the word is one of the pass. No other thread writes to its place.
            unsafe { words.store(i, list.load((begin + i) as isize)) };
            i += Self::THREADS;
        }
        let mut i = thread;
        while i < columns + rows {
            let is_column = i < columns;
            let at = if is_column {
                self.first[0] + distance(i)
            } else {
                self.first[1] + first_row as i32 as i64 + (i - columns) as i64
            };
            let term = if is_column { term(params, 0, at) } else { term(params, 1, at) };
            // SAFETY: there is a place for the term of each column and row. No other thread writes to it.
            unsafe { terms.store(i, term) };
            i += Self::THREADS;
        }
        // SAFETY: as above.
        unsafe { thread::sync_threads() };

        let plane = sum_of(
            term(params, 2, self.first[2] + delta_2 as i32 as i64),
            term(params, 3, self.first[3] + delta_3 as i32 as i64),
        );
        let fill = Fill { input, tile, columns, rows, threads: Self::THREADS };
        // SAFETY: each term is that of an element of the array. The tile has room for all elements.
        unsafe {
            if params.fold == 0 {
                // The terms of the row and of the column were written before the barrier.
                fill.all::<T, LOADS>(params, |row, column| {
                    sum_of(plane, sum_of(terms.load(column), terms.load(columns + row)))
                });
            } else {
                let at = |row: u32, column: u32| {
                    self.first[0] + distance(column) + (self.first[1] + row as i64) * params.fold as i64
                };
                if at(0, 0) >= 0 && at(rows - 1, columns - 1) < params.axes[0].length {
                    let from = params.axes[0].from;
                    fill.all::<T, LOADS>(params, |row, column| sum_of(plane, (at(row, column) * from) as u64));
                } else {
                    fill.all::<T, 1>(params, |row, column| sum_of(plane, term(params, 0, at(row, column))));
                }
            }
        }
        // SAFETY: as above.
        unsafe { thread::sync_threads() };
        let (row, column) = result_position();
        // Loaded last: before, their registers are needed for the elements.
        let ([a, b], [c, d]) = (header(5), header(6));
        let values = tile.offset(row * pitch + column);
        Pass { words, values, numbers: [a, b, c, d], terms, tile, columns, rows }
    }

    /// Stores the results of all threads.
    ///
    /// The results go through shared memory, so that the lanes of a warp store adjacent ones.
    ///
    /// # Safety
    /// - `output` has room for a result at each index of the array. All of them are aligned.
    /// - No other block has a byte of these results.
    /// - All threads of the block call this together.
    #[inline(always)]
    pub unsafe fn store<A: Sum>(&self, output: GlobalMut<u8>, params: &ArrayParams, sums: [A; RESULTS as usize]) {
        let results = Shared::<A>::dynamic();
        let pitch = pitch(COLUMNS);
        // The other threads may still read the last pass.
        // SAFETY: all threads are here, as this function requires.
        unsafe { thread::sync_threads() };
        let (row, column) = result_position();
        let mut r = 0;
        while r < RESULTS {
            // SAFETY: the place is in the tile of the results. No other thread writes to it.
            unsafe { results.store(row * pitch + column + r, sums[r as usize]) };
            r += 1;
        }
        // SAFETY: as above.
        unsafe { thread::sync_threads() };

        let thread = thread::thread_idx_x();
        let by_rows = params.lanes & STORE_ROWS != 0;
        let (row, column) = if by_rows { (thread % TILE, thread / TILE) } else { (thread / COLUMNS, thread % COLUMNS) };
        let (row_step, column_step) = if by_rows { (0, Self::THREADS / TILE) } else { (Self::THREADS / COLUMNS, 0) };
        let [left, top, index_2, index_3] = self.first;
        let [axis_0, axis_1, axis_2, axis_3] = params.axes;
        let mut y = top + row as i64;
        let mut x = left + column as i64 + y * params.fold as i64;
        let y_step = row_step as i64;
        let x_step = column_step as i64 + y_step * params.fold as i64;
        let mut place = row * pitch + column;
        let mut to = x * axis_0.to + y * axis_1.to + index_2 * axis_2.to + index_3 * axis_3.to;
        let to_step = x_step * axis_0.to + y_step * axis_1.to;
        // The compiler does not know the bound: the conversions exist once, not once for each result.
        let mut rest = thread::black_box(RESULTS);
        while rest > 0 {
            if x < axis_0.length && y < axis_1.length {
                // SAFETY: the sum was written before the barrier. The result is one of the array, and no other thread
                // has it.
                unsafe { store(output.offset(to as isize), params.result, results.load(place).to_f64()) };
            }
            x += x_step;
            y += y_step;
            to += to_step;
            place += row_step * pitch + column_step;
            rest -= 1;
        }
    }
}

/// The elements of a pass.
struct Fill<A> {
    input: Global<u8>,
    tile: Shared<A>,
    columns: u32,
    rows: u32,
    threads: u32,
}

impl<A: Sum> Fill<A> {
    /// Copies all elements to the tile. A thread loads `N` elements before it stores the first of them.
    ///
    /// # Safety
    /// - `term` returns the bytes from the first element of the array to another one, or [`OUTSIDE`].
    /// - All elements are aligned.
    /// - The tile has room for all elements of the pass, and no other thread uses it.
    #[inline(always)]
    unsafe fn all<T: Value, const N: usize>(&self, params: &ArrayParams, term: impl Fn(u32, u32) -> u64) {
        let (columns, rows) = (self.columns, self.rows);
        let outside = A::from_f64(params.value);
        let by_rows = params.lanes & LOAD_ROWS != 0;
        let (length, total) = (if by_rows { rows } else { columns }, rows * columns);
        let mut number = thread::thread_idx_x();
        let (mut slow, mut fast) = divide(number, length);
        let (slow_step, fast_step) = divide(self.threads, length);
        while number < total {
            // All terms, then all loads, then all stores: so the loads wait for memory together.
            let (mut terms, mut places) = ([0; N], [0; N]);
            let mut i = 0;
            while i < N {
                let is_one = number + i as u32 * self.threads < total;
                let (row, column) = if by_rows { (fast, slow) } else { (slow, fast) };
                let (row, column) = if is_one { (row, column) } else { (0, 0) };
                terms[i] = term(row, column);
                places[i] = row * pitch(columns) + column;
                slow += slow_step;
                fast += fast_step;
                if fast >= length {
                    fast -= length;
                    slow += 1;
                }
                i += 1;
            }
            let mut values = [A::ZERO; N];
            let mut i = 0;
            while i < N {
                let is_outside = terms[i] == OUTSIDE;
                // The array's first element takes the place of one that does not exist, so that no load is conditional.
                let from = self.input.offset(if is_outside { 0 } else { terms[i] as isize });
                // SAFETY: the element is one of the array.
                let value = A::of::<T>(unsafe { from.cast::<T::Stored>().load(0) });
                values[i] = if is_outside { outside } else { value };
                i += 1;
            }
            let mut i = 0;
            while i < N {
                if number + i as u32 * self.threads < total {
                    // SAFETY: the place is in the tile. No other thread writes to it.
                    unsafe { self.tile.store(places[i], values[i]) };
                }
                i += 1;
            }
            number += N as u32 * self.threads;
        }
    }
}

/// Values that a thread has in registers: those of its results at one tap, and as many for the taps after it.
pub(super) const WINDOW: usize = 2 * RESULTS as usize - 1;
