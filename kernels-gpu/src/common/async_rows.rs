//! Asynchronous copies of image rows from global to shared memory, 16 bytes at a time (`cp.async`).
//!
//! [`copy_zfill`] copies one *vector* of 16 bytes of a row, and writes zeros for what lies outside of the row.
//! [`RowCopies`] brings `f32` rows to shared memory, [`STEP_ROWS`] rows at a time, for kernels that walk down a strip:
//!
//! | vector | how it arrives |
//! | --- | --- |
//! | in the interior | one copy of 16 bytes |
//! | across or beyond the edge, border of zeros | one copy that fills with zeros |
//! | across or beyond the edge, any other border | value by value, through a [`border_table`] |

use cuda_std::cp_async::{commit_group, cp_async_4, cp_async_16_if, cp_async_16_zfill};
use cuda_std::prelude::*;

use crate::abi::border;
use crate::abi::params::Params;
use crate::common::border_table;

/// Bytes of a vector: the largest asynchronous copy.
pub(crate) const VECTOR_BYTES: u32 = 16;
/// Values of a vector of `f32`.
pub(crate) const VECTOR: u32 = VECTOR_BYTES / size_of::<f32>() as u32;
/// Rows that [`RowCopies`] copies at a time.
pub(crate) const STEP_ROWS: usize = 16;

/// The unit of a vector's count. A row has whole pixels, so the count is a multiple of the largest power of two that
/// divides the channels.
const fn count_unit(channels: u32) -> u32 {
    let unit = 1 << channels.trailing_zeros();
    if unit < VECTOR { unit } else { VECTOR }
}

/// Bits of a number of units from 0 to all units of a vector.
const fn count_bits(channels: u32) -> u32 {
    (VECTOR / count_unit(channels)).ilog2() + 1
}

/// How many values of the vector that begins with value `first` of a row lie in the row.
///
/// The row has `values` values, or none unless it `exists`. `first` is a multiple of a vector's length, so a vector
/// with a negative `first` lies wholly outside.
#[inline(always)]
pub(crate) fn values_in_row<T>(exists: bool, first: i32, values: i32) -> i32 {
    let most = const { VECTOR_BYTES as i32 / size_of::<T>() as i32 };
    if first >= 0 && exists { (values - first).clamp(0, most) } else { 0 }
}

/// Begins the copy of the vector from value `first` of a row on. All but its first `count` values arrive as zeros.
///
/// # Safety
/// - The `count` values from `first` on lie in `row`, and value `first` is aligned to 16 bytes.
/// - `image` is any readable address that is aligned to 16 bytes.
/// - `to` is aligned to 16 bytes and has room for 16 bytes.
/// - No thread reads or writes them until the copy has been waited for.
#[inline(always)]
pub(crate) unsafe fn copy_zfill<T: Scalar>(
    to: Shared<T>,
    row: Global<T>,
    (first, count): (i32, i32),
    image: Global<T>,
) {
    let from = if count > 0 { row.offset(first as isize) } else { image };
    // SAFETY: `count` values lie in `row`, or `count` is 0 and nothing is read; `to` has 16 aligned bytes.
    unsafe { cp_async_16_zfill(true, to, from, const { size_of::<T>() as u32 } * count as u32) };
}

/// The vectors of a row that lie in the image and are aligned, from the first to the one past the last.
///
/// The row has `vectors` vectors and begins with value `left` of the image's row.
#[inline(always)]
pub(crate) fn interior_vectors<const C: u32>(left: i32, vectors: u32, params: &Params) -> (u32, u32) {
    if (params.src_pitch | left) & (VECTOR as i32 - 1) != 0 {
        return (0, 0);
    }
    let end = ((params.row_values::<C>() - left).max(0) as u32 / VECTOR).min(vectors);
    ((left.min(0).unsigned_abs() / VECTOR).min(end), end)
}

/// The vectors that a thread copies in [`RowCopies::copy_partitioned`]: of one row, at regular distances.
#[derive(Clone, Copy)]
pub(crate) struct Partition {
    /// The row, below [`STEP_ROWS`].
    pub(crate) row: u32,
    /// The first vector.
    pub(crate) vector: u32,
}

/// From one vector of a thread's [`Partition`] to the next.
const fn partition_stride(threads: u32) -> u32 {
    threads / STEP_ROWS as u32
}

/// Whether the counts of a thread's [`Partition`] fit in one `u32`: [`RowCopies::partition_counts`] packs them.
pub(crate) const fn counts_fit_in_word(channels: u32, vectors: u32, threads: u32) -> bool {
    count_bits(channels) * vectors.div_ceil(partition_stride(threads)) <= u32::BITS
}

/// Copies rows to shared memory, one step after the other, by a block of `THREADS` threads. The `C` channels stay
/// interleaved.
pub(crate) struct RowCopies<const C: u32, const THREADS: u32> {
    pub(crate) image: Global<f32>,
    pub(crate) params: Params,
    /// From [`interior_vectors`].
    pub(crate) interior: (u32, u32),
    /// The value of the image's row with which each row begins. It may lie outside.
    pub(crate) left: i32,
    /// The next row. It may lie outside.
    pub(crate) y: i32,
    /// The thread's first destination in the first buffer.
    pub(crate) to: Shared<f32>,
    /// Vectors of a row.
    pub(crate) vectors: u32,
    /// Values from one row to the next in shared memory.
    pub(crate) pitch: u32,
    /// The values of the border: see [`border_table`].
    pub(crate) table: Shared<i32>,
}

impl<const C: u32, const THREADS: u32> RowCopies<C, THREADS> {
    /// The vectors of a row that are not in the interior.
    #[inline(always)]
    fn border_vectors(&self) -> u32 {
        self.vectors - (self.interior.1 - self.interior.0)
    }

    /// Fills the border table, where a row has border vectors.
    ///
    /// # Safety
    /// - All threads of the block call this, each with its rank.
    /// - The table has an element for each value of the vectors.
    /// - No thread reads the table before the next barrier.
    #[inline(always)]
    pub(crate) unsafe fn fill_table(&self, thread: u32) {
        if self.border_vectors() > 0 {
            // SAFETY: all threads call this, `thread` is below THREADS, and the table has this length.
            unsafe {
                let length = self.vectors * VECTOR;
                border_table::fill::<C>(self.table, &self.params, self.left, length, (thread, THREADS));
            }
        }
    }

    /// Begins the copies of the next [`STEP_ROWS`] rows, a warp per row, and commits them as one group.
    ///
    /// `at` is the distance of the destination from the first buffer, in values.
    ///
    /// # Safety
    /// - All threads of the block call this. `to` is the beginning of row `thread / 32` in the first buffer.
    /// - The border table is filled, and a barrier has passed since.
    /// - No thread reads or writes the destination until the copies have been waited for and a barrier has passed.
    #[inline(always)]
    pub(crate) unsafe fn copy_by_warps(&mut self, at: u32) {
        let params = &self.params;
        let (warps, warp, lane) = (THREADS / 32, thread::thread_idx_x() / 32, thread::thread_idx_x() % 32);
        let rows = STEP_ROWS as u32;
        let mut to = self.to.offset(at);
        if self.y >= 0 && self.y + rows as i32 <= params.height {
            let first = params.src_index(self.left + (lane * VECTOR) as i32, self.y + warp as i32);
            for pass in 0..self.vectors.div_ceil(32) {
                let vector = lane + pass * 32;
                let is_interior = vector >= self.interior.0 && vector < self.interior.1;
                let mut from = self.image.offset(first + (pass * 32 * VECTOR) as isize);
                for i in 0..rows.div_ceil(warps) {
                    let predicate = is_interior && (rows.is_multiple_of(warps) || i * warps < rows - warp);
                    // SAFETY: an interior vector of a row of the image; the destination is this lane's alone.
                    unsafe { cp_async_16_if(predicate, to.offset(i * warps * self.pitch + vector * VECTOR), from) };
                    from = from.offset(warps as isize * params.src_pitch as isize);
                }
            }
            if self.border_vectors() > 0 {
                let mut row = warp;
                // black_box keeps LLVM from unrolling the loops.
                while row < thread::black_box(rows) {
                    thread::no_unroll();
                    let mut i = lane;
                    while i < thread::black_box(self.border_vectors()) {
                        thread::no_unroll();
                        let vector = if i < self.interior.0 { i } else { i + self.interior.1 - self.interior.0 };
                        // SAFETY: the row lies in the image; the destination is this lane's alone.
                        unsafe { self.copy_border_vector(to.offset(vector * VECTOR), self.y + row as i32, vector) };
                        i += 32;
                    }
                    row += warps;
                    to = to.offset(warps * self.pitch);
                }
            }
        } else {
            let mut row = warp;
            while row < thread::black_box(rows) {
                thread::no_unroll();
                let y = border::map(params.border, self.y + row as i32, params.height);
                let mut vector = lane;
                while vector < thread::black_box(self.vectors) {
                    thread::no_unroll();
                    // SAFETY: `y` is a row of the image or OUTSIDE; the destination is this lane's alone.
                    unsafe { self.copy_vector(to.offset(vector * VECTOR), y, vector) };
                    vector += 32;
                }
                row += warps;
                to = to.offset(warps * self.pitch);
            }
        }
        commit_group();
        self.y += rows as i32;
    }

    /// The thread's part of a step's vectors, with the same number of vectors for each thread.
    ///
    /// Eight neighbouring threads copy eight neighbouring vectors of a row.
    #[inline(always)]
    pub(crate) fn partition(thread: u32) -> Partition {
        let rows = STEP_ROWS as u32;
        Partition { row: thread / 8 % rows, vector: thread % 8 + thread / (8 * rows) * 8 }
    }

    /// For each vector of the partition, how many of its values lie in the row. Counts are in units of [`count_unit`].
    /// Each takes [`count_bits`] bits.
    ///
    /// [`counts_fit_in_word`] holds. A vector that is copied value by value counts 0.
    #[inline(always)]
    pub(crate) fn partition_counts(&self, partition: Partition) -> u32 {
        let stride = const {
            assert!(THREADS.is_multiple_of(8 * STEP_ROWS as u32));
            partition_stride(THREADS)
        };
        let mut packed = 0;
        for pass in 0..self.vectors.div_ceil(stride) {
            let vector = partition.vector + pass * stride;
            let count =
                values_in_row::<f32>(true, self.left + (vector * VECTOR) as i32, self.params.row_values::<C>()) as u32;
            let is_interior = vector >= self.interior.0 && vector < self.interior.1;
            if vector < self.vectors && (is_interior || self.fills_with_zeros()) {
                packed |= (count / const { count_unit(C) }) << (const { count_bits(C) } * pass);
            }
        }
        packed
    }

    /// Begins the copies of the next [`STEP_ROWS`] rows, the same number for each thread, and does not commit them.
    ///
    /// `at` is the distance of the destination from the first buffer, in values; `counts` comes from
    /// [`partition_counts`](Self::partition_counts). Where the border is zero, blocks at the edge are as fast as
    /// others.
    ///
    /// # Safety
    /// - All threads of the block call this. `to` is the destination of the first vector of `partition`.
    /// - `counts` are those of `partition`, and [`counts_fit_in_word`] holds.
    /// - The border table is filled, and a barrier has passed since.
    /// - No thread reads or writes the destination until the copies have been waited for and a barrier has passed.
    #[inline(always)]
    pub(crate) unsafe fn copy_partitioned(&mut self, at: u32, partition: Partition, counts: u32) {
        let params = &self.params;
        let Partition { row, vector: first } = partition;
        let to = self.to.offset(at);
        let stride = partition_stride(THREADS);
        let fills = self.fills_with_zeros();
        let y = self.y + row as i32;
        if fills || self.y >= 0 && self.y + STEP_ROWS as i32 <= params.height {
            let inside = (y as u32) < params.height as u32;
            let counts = if inside { counts } else { 0 };
            // Where the vector has no values, the address is computed and never read.
            let from = self.image.offset(params.src_index(self.left + (first * VECTOR) as i32, y));
            for pass in 0..self.vectors.div_ceil(stride) {
                let (bits, bytes_of_unit) = const { (count_bits(C), count_unit(C) * size_of::<f32>() as u32) };
                let of_vector = bytes_of_unit * (counts >> (bits * pass) & ((1 << bits) - 1));
                // A vector that the loop below copies must not be filled here: the order of the two is undefined.
                let predicate = first + pass * stride < self.vectors && (fills || of_vector > 0);
                let offset = pass * stride * VECTOR;
                // SAFETY: the first `of_vector` bytes lie in the row; the destination is this thread's alone.
                unsafe { cp_async_16_zfill(predicate, to.offset(offset), from.offset(offset as isize), of_vector) };
            }
            if !fills && self.border_vectors() > 0 {
                let mut vector = first;
                while vector < thread::black_box(self.vectors) {
                    thread::no_unroll();
                    if vector < self.interior.0 || vector >= self.interior.1 {
                        // SAFETY: the row lies in the image; the destination is this thread's alone.
                        unsafe { self.copy_border_vector(to.offset((vector - first) * VECTOR), y, vector) };
                    }
                    vector += stride;
                }
            }
        } else {
            let y = border::map(params.border, y, params.height);
            let mut vector = first;
            while vector < thread::black_box(self.vectors) {
                thread::no_unroll();
                // SAFETY: `y` is a row of the image or OUTSIDE; the destination is this thread's alone.
                unsafe { self.copy_vector(to.offset((vector - first) * VECTOR), y, vector) };
                vector += stride;
            }
        }
        self.y += STEP_ROWS as i32;
    }

    /// Whether copies of whole vectors can fill all of the border: it is zero, and the rows are aligned.
    #[inline(always)]
    fn fills_with_zeros(&self) -> bool {
        self.params.border_is_zero() && (self.params.src_pitch | self.left) & (VECTOR as i32 - 1) == 0
    }

    /// Begins the copy of any vector of row `y`.
    ///
    /// # Safety
    /// As for [`copy_border_vector`](Self::copy_border_vector).
    #[inline(always)]
    unsafe fn copy_vector(&self, to: Shared<f32>, y: i32, vector: u32) {
        if y >= 0 && vector >= self.interior.0 && vector < self.interior.1 {
            let from = self.image.offset(self.params.src_index(self.left + (vector * VECTOR) as i32, y));
            // SAFETY: y >= 0 and the vector is interior, tested above; the vector at `to` is this thread's alone.
            unsafe { cp_async_16_if(true, to, from) };
        } else {
            // SAFETY: `y`, `vector` and `to` are passed on unchanged, to a function with the same conditions.
            unsafe { self.copy_border_vector(to, y, vector) };
        }
    }

    /// Begins the copy of a vector that is not in the interior, or of a row that does not exist.
    ///
    /// # Safety
    /// - `y` is a row of the image or [`border::OUTSIDE`], and `vector` is below `vectors`.
    /// - `to` has room for the vector, and no other thread reads or writes there.
    /// - The border table is filled where `y` is a row of the image.
    #[inline(always)]
    unsafe fn copy_border_vector(&self, to: Shared<f32>, y: i32, vector: u32) {
        let params = &self.params;
        let first = vector * VECTOR;
        // For OUTSIDE the pointer is computed and never read.
        let row = self.image.offset(params.src_index(0, y));
        if self.fills_with_zeros() {
            let v = self.left + first as i32;
            let count = values_in_row::<f32>(y >= 0, v, params.row_values::<C>());
            // SAFETY: `count` values lie in the row, and `fills_with_zeros` says that vectors are aligned.
            unsafe { copy_zfill(to, row, (v, count), self.image) };
            return;
        }
        for i in 0..VECTOR {
            // SAFETY: the table has an entry for the value: one of the image's row or OUTSIDE.
            let v = if y >= 0 { unsafe { self.table.load(first + i) } } else { y };
            // SAFETY: v >= 0 only if row `y` exists and has value v; `to` has room for VECTOR values of this thread.
            unsafe {
                if v >= 0 {
                    cp_async_4(to.offset(i), row.offset(v as isize));
                } else {
                    to.store(i, params.border_value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_row_counts_the_values_of_a_vector() {
        fn check<T>(per_vector: i32) {
            for values in 1..40 {
                for first in (-32..64).step_by(per_vector as usize) {
                    let count = (first..first + per_vector).filter(|v| (0..values).contains(v)).count();
                    assert_eq!(values_in_row::<T>(true, first, values) as usize, count, "{first} of {values}");
                    assert_eq!(values_in_row::<T>(false, first, values), 0);
                }
            }
        }
        check::<f32>(4);
        check::<u8>(16);
    }

    #[test]
    fn interior_vectors_lie_in_the_image() {
        check_interior_vectors::<1>();
        check_interior_vectors::<3>();
    }

    fn check_interior_vectors<const C: u32>() {
        for (width, pitch) in [(1, 4), (15, 16), (16, 16), (40, 44), (40, 41)] {
            let params = Params { src_pitch: pitch, ..Params::of_image(width, 1) };
            for left in -20..24 {
                for vectors in 1..12 {
                    let aligned = left % 4 == 0 && pitch % 4 == 0;
                    let inside = |i: &u32| {
                        let first = left + 4 * *i as i32;
                        aligned && first >= 0 && first + 4 <= width * C as i32
                    };
                    let (begin, end) = interior_vectors::<C>(left, vectors, &params);
                    assert!(begin <= end && end <= vectors, "{width}, {left}: {begin}..{end} of {vectors}");
                    assert!((0..vectors).filter(inside).eq(begin..end), "{width}, {left}: {begin}..{end} of {vectors}");
                }
            }
        }
    }

    /// The packed counts of a thread are those of its vectors, whatever the channels.
    #[test]
    fn counts_are_those_of_the_vectors() {
        check_counts::<1>();
        check_counts::<2>();
        check_counts::<3>();
        check_counts::<4>();
    }

    fn check_counts<const C: u32>() {
        const THREADS: u32 = 256;
        let vectors = 16 * (u32::BITS / count_bits(C)).min(12);
        assert!(counts_fit_in_word(C, vectors, THREADS));
        for width in [1, 37, 90, 300] {
            let params = Params { src_pitch: 4 * width * C as i32, ..Params::of_image(width, 1) };
            for left in [-64, -4, 0, 60] {
                let copies = RowCopies::<C, THREADS> {
                    image: Global::new(core::ptr::null()),
                    interior: interior_vectors::<C>(left, vectors, &params),
                    params,
                    left,
                    y: 0,
                    to: Shared::dynamic(),
                    vectors,
                    pitch: VECTOR * vectors,
                    table: Shared::dynamic(),
                };
                for vector in 0..16 {
                    let packed = copies.partition_counts(Partition { row: 0, vector });
                    for (pass, vector) in (vector..vectors).step_by(16).enumerate() {
                        let count = packed >> (count_bits(C) * pass as u32) & ((1 << count_bits(C)) - 1);
                        let values = values_in_row::<f32>(true, left + 4 * vector as i32, width * C as i32);
                        assert_eq!(count * count_unit(C), values as u32, "{C} channels, {width}, {left}, {vector}");
                    }
                }
            }
        }
    }

    #[test]
    fn partitions_hold_every_vector_once() {
        const THREADS: u32 = 384;
        for vectors in 1..100 {
            let mut seen = [[0; 100]; STEP_ROWS];
            for thread in 0..THREADS {
                let Partition { row, vector } = RowCopies::<1, THREADS>::partition(thread);
                for vector in (vector..vectors).step_by(partition_stride(THREADS) as usize) {
                    seen[row as usize][vector as usize] += 1;
                }
            }
            assert!(seen.iter().all(|row| row[..vectors as usize].iter().all(|&count| count == 1)), "{vectors}");
        }
    }
}
