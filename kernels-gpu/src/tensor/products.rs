//! The tensor cores' sums, what they become, and which of it is uncertain.

use cuda_std::bytes::{saturated_pair, with_at_least};
use cuda_std::matrix::{multiply_add, multiply_add_sparse};
use cuda_std::prelude::*;

use super::layout::padded;
use super::results::result_place;
use super::{
    ACROSS, AT_A_TIME, CHUNK, COLUMNS, Layout, MOST_HELD, MOST_UNCERTAIN, OF_WARP, PAIR_PITCH, PLANES, RESULT_PITCH,
    SPARSE_PLANES, SPARSE_TILES, TILE, TILES, this_thread,
};

/// The sums of a product for each tile, of the lower and of the higher bytes of the coefficients.
type Sums = [[[i32; 4]; 2]; TILES];

/// The same of a sparse one: two of the lower and two of the higher bytes.
type SparseSums = [[i32; 4]; SPARSE_TILES];

/// The tensor cores' part.
pub(super) struct Products {
    pub(super) layout: Layout,
    /// Of the mask.
    pub(super) rows: u32,
    pub(super) plane: u32,
    pub(super) matrices: Shared<f32>,
    /// Of a sparse matrix.
    pub(super) pattern: u32,
    pub(super) shift: u32,
    pub(super) bias: [i32; 4],
    pub(super) uncertain: u32,
    pub(super) results: Shared<u8>,
    pub(super) list: Shared<u8>,
    pub(super) counts: Shared<u32>,
}

impl Products {
    /// A step: all results, and the lists of the uncertain ones. Warps whose columns are all beyond `inside` have none.
    ///
    /// # Safety
    /// All threads of the block call it. `pixels` is a stage that was filled before the last barrier, the matrices are
    /// in place, and nobody reads the results and the lists.
    #[inline(always)]
    pub(super) unsafe fn compute(&self, pixels: Shared<u8>, inside: i32, held: &[[u32; 4]; MOST_HELD]) {
        let (warp, lane) = (this_thread() / 32, this_thread() % 32);
        let (group, member) = (lane / 4, lane % 4);
        let mut from = pixels.offset(group * self.layout.pitch + 4 * member + self.layout.first + warp * OF_WARP);
        let mut column = warp * OF_WARP;
        // One bit for each of the last 32 results, the last one lowest, and for the 32 before.
        let (mut certain, mut before) = (u32::MAX, u32::MAX);
        // Two tiles are looked through at a time: of a pair that is begun inside, both are computed.
        let inside = (inside + 2 * TILE as i32 - 1) & !(2 * TILE as i32 - 1);
        while column < (warp + 1) * OF_WARP && (column as i32) < inside {
            thread::no_unroll();
            if self.layout.sparse {
                // SAFETY: the caller's promise.
                let sums = unsafe { self.sums_sparse(from.cast(), held) };
                // SAFETY: the results are this thread's.
                unsafe { self.finish_sparse(&sums, column, group, member, &mut certain) };
                column += TILE;
                from = from.offset(TILE);
            } else if self.layout.held {
                // SAFETY: the caller's promise.
                let sums = unsafe { self.sums_held(from.cast(), held) };
                // SAFETY: the results are this thread's.
                unsafe { self.finish(&sums, column, group, member, &mut certain) };
                column += TILE;
                from = from.offset(TILE);
            } else {
                // SAFETY: the caller's promise.
                let sums = unsafe { self.sums(from, lane) };
                for sums in &sums {
                    // SAFETY: the results are this thread's.
                    unsafe { self.finish(sums, column, group, member, &mut certain) };
                    column += TILE;
                }
                from = from.offset(TILE * ACROSS as u32);
            }
            if column % OF_WARP == 2 * TILE {
                before = certain;
            }
        }
        if column % OF_WARP == 2 * TILE {
            // The others are beyond the image.
            certain = u32::MAX;
        }
        // SAFETY: the list is this warp's.
        let count = unsafe { push(self.layout.sparse, self.list.cast(), [!before, !certain]) };
        let thread = this_thread();
        if thread.is_multiple_of(32) {
            // SAFETY: one number a warp.
            unsafe { self.counts.store(thread / 32, count) };
        }
    }

    /// The results of 64 rows and 8 columns.
    ///
    /// # Safety
    /// Nobody else has this thread's results.
    #[inline(always)]
    unsafe fn finish(&self, sums: &Sums, column: u32, group: u32, member: u32, certain: &mut u32) {
        let to = self.results.offset(result_place(false, 0, column + 2 * member) + group * RESULT_PITCH);
        for (s, [low, high]) in sums.iter().enumerate() {
            for half in 0..2 {
                let at = 2 * half;
                let pair = self.pair([low[at], low[at + 1]], [high[at], high[at + 1]], certain);
                // Row 4 (group + 8 half) + s.
                let place = result_place(false, 32 * half as u32 + s as u32, 0);
                // SAFETY: the two values are this thread's.
                unsafe { to.offset(place).cast::<u16>().store(0, pair) };
            }
        }
    }

    /// The same behind sparse products.
    ///
    /// # Safety
    /// As for [`finish`](Self::finish).
    #[inline(always)]
    unsafe fn finish_sparse(&self, sums: &SparseSums, column: u32, group: u32, member: u32, certain: &mut u32) {
        let to = self.results.offset(result_place(true, 0, column + group) + member * PAIR_PITCH);
        for (s, &[low, low_below, high, high_below]) in sums.iter().enumerate() {
            let pair = self.pair([low, low_below], [high, high_below], certain);
            // Rows 16 member + s and 8 below.
            let place = result_place(true, s as u32, 0);
            // SAFETY: the two values are this thread's.
            unsafe { to.offset(place).cast::<u16>().store(0, pair) };
        }
    }

    /// The bytes of two sums, the first one lower; whether they are certain goes into the lowest bits of `certain`.
    #[inline(always)]
    fn pair(&self, low: [i32; 2], high: [i32; 2], certain: &mut u32) -> u16 {
        let mut bytes = [0; 2];
        for (i, byte) in bytes.iter_mut().enumerate() {
            let sum = high[i].wrapping_mul(256).wrapping_add(low[i]);
            *certain = with_at_least(*certain, (sum as u32) << (32 - self.shift), self.uncertain);
            *byte = sum >> self.shift;
        }
        saturated_pair(bytes[0], bytes[1]) as u16
    }

    /// The sums of 64 rows and 8 columns where the mask is the sparse factor; `from` is the thread's first word in the first row of a
    /// stage.
    ///
    /// # Safety
    /// As for [`compute`](Self::compute).
    #[inline(always)]
    unsafe fn sums_sparse(&self, from: Shared<u32>, held: &[[u32; 4]; MOST_HELD]) -> SparseSums {
        let (pitch, plane) = (self.layout.pitch / 4, self.plane / 4);
        let mut sums = [self.bias; SPARSE_TILES];
        let of_image = self.rows + SPARSE_PLANES - 1;
        let parts = self.rows.div_ceil(2);
        for i in 0..of_image.div_ceil(2) {
            // Of two rows the thread's words in either half of the chunk. The last one may be beyond all rows, where the matrices
            // are 0.
            let words = [0, 1, 2, 3].map(|word| {
                let t = if 2 * i + word / 2 < of_image { 2 * i + word / 2 } else { 2 * i };
                let row = t / SPARSE_PLANES * pitch + t % SPARSE_PLANES * plane;
                // SAFETY: rows 8 g + t with g up to 7 are in the stage, and the chunk's bytes are in the row.
                unsafe { from.load(row + word % 2 * 4) }
            });
            for (s, sums) in sums.iter_mut().enumerate() {
                let later = s as u32 / 2;
                if i < later || i - later >= parts {
                    continue;
                }
                let part = 2 * (i - later) + s as u32 % 2;
                *sums = multiply_add_sparse(held[part as usize], self.pattern, words, *sums);
            }
        }
        sums
    }

    /// The sums of 64 rows and 8 columns with all matrices in registers; `from` is the thread's first word in the first
    /// row of a stage.
    ///
    /// # Safety
    /// As for [`compute`](Self::compute).
    #[inline(always)]
    unsafe fn sums_held(&self, from: Shared<u32>, held: &[[u32; 4]; MOST_HELD]) -> Sums {
        let mut sums = [[self.bias, [0; 4]]; TILES];
        // SAFETY: the caller's promise.
        unsafe { self.add(from, held, self.rows, self.layout.paired, &mut sums) };
        sums
    }

    /// The sums of 64 rows and 16 columns, a few rows of the mask at a time in registers.
    ///
    /// # Safety
    /// As for [`compute`](Self::compute).
    #[inline(always)]
    unsafe fn sums(&self, from: Shared<u8>, lane: u32) -> [Sums; ACROSS] {
        let mut sums = [[[self.bias, [0; 4]]; TILES]; ACROSS];
        let mut matrices = self.matrices.cast::<F32x4>().offset(lane);
        // Opaque, or the loops would be unrolled where they are known.
        let (chunks, rows) = (thread::opaque(self.layout.chunks), thread::opaque(padded(self.rows)));
        let mut chunk = 0;
        while chunk < chunks {
            thread::no_unroll();
            let mut at = from.offset(chunk * CHUNK);
            let mut row = 0;
            while row < rows {
                thread::no_unroll();
                let mut held = [[0; 4]; AT_A_TIME as usize];
                for part in &mut held {
                    // SAFETY: the matrices have 32 such parts for each row of the mask and chunk.
                    *part = unsafe { matrices.load(0) }.0.map(f32::to_bits);
                    matrices = matrices.offset(32);
                }
                for (across, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: the caller's promise.
                    unsafe { self.add(at.offset(across as u32 * TILE).cast(), &held, AT_A_TIME, false, sums) };
                }
                at = at.offset(self.layout.pitch);
                row += AT_A_TIME;
            }
            chunk += 1;
        }
        sums
    }

    /// Adds the products with `rows` rows of the mask, or pairs of them, of which `held` has the thread's parts.
    ///
    /// # Safety
    /// As for [`compute`](Self::compute).
    #[inline(always)]
    unsafe fn add(&self, from: Shared<u32>, held: &[[u32; 4]], rows: u32, paired: bool, sums: &mut Sums) {
        let (pitch, plane) = (self.layout.pitch / 4, self.plane / 4);
        // A word of the thread's row of those for `t`, or of the one 8 further down.
        let word = |t: u32, half: u32, further: u32| {
            let row = (t / PLANES + 8 * further) * pitch + t % PLANES * plane;
            // SAFETY: rows 4 m + t with m up to 15 are in the stage, and the chunk's bytes are in the row.
            unsafe { from.load(row + 4 * half) }
        };
        let of_image = rows + PLANES - 1;
        let parts = if paired { rows.div_ceil(2) } else { rows };
        for i in 0..if paired { of_image.div_ceil(2) } else { of_image } {
            let a = if paired {
                // The last one may be beyond all rows, where the matrices are 0.
                let (t, next) = (2 * i, if 2 * i + 1 < of_image { 2 * i + 1 } else { 2 * i });
                [word(t, 0, 0), word(t, 0, 1), word(next, 0, 0), word(next, 0, 1)]
            } else {
                [word(i, 0, 0), word(i, 0, 1), word(i, 1, 0), word(i, 1, 1)]
            };
            for (s, [low, high]) in sums.iter_mut().enumerate() {
                let later = if paired { s as u32 / 2 } else { s as u32 };
                if i < later || i - later >= parts {
                    continue;
                }
                let part = if paired { 2 * (i - later) + s as u32 % 2 } else { i - later };
                let [low0, low1, high0, high1] = held[part as usize];
                *low = multiply_add(a, [low0, low1], *low);
                *high = multiply_add(a, [high0, high1], *high);
            }
        }
    }
}

/// Puts a lane's `doubtful` results, those of 16 columns in either word, onto its warp's list; returns how many there are, which may be more
/// than fit.
///
/// # Safety
/// The list is this warp's.
#[inline(always)]
unsafe fn push(sparse: bool, list: Shared<u16>, doubtful: [u32; 2]) -> u32 {
    let (warp, lane) = (this_thread() / 32, this_thread() % 32);
    let (mut count, [mut first, mut second]) = (0, doubtful);
    // Each round takes one of each lane that has one.
    let mut lanes = warp::ballot(first | second != 0);
    while lanes != 0 {
        thread::no_unroll();
        let place = count + (lanes & ((1 << lane) - 1)).count_ones();
        if first | second != 0 {
            let column = warp * OF_WARP + if first == 0 { 2 * TILE } else { 0 };
            let word = if first == 0 { &mut second } else { &mut first };
            // In the order of `finish` and `finish_sparse`: two tiles of 8 columns, then 4 of rows and 2 halves of each, or 8 of rows; and 2
            // values.
            let which = word.leading_zeros();
            *word &= !(1 << (31 - which));
            let column = column + (which & 16) / 2;
            let (row, column) = if sparse {
                (lane % 4 * 16 + (which & 1) * SPARSE_PLANES + which / 2 % SPARSE_PLANES, column + lane / 4)
            } else {
                (PLANES * (lane / 4 + (which & 2) * 4) + which / 4 % PLANES, column + lane % 4 * 2 + (which & 1))
            };
            if place < MOST_UNCERTAIN {
                // SAFETY: the place is in this warp's list, and this thread's alone.
                unsafe { list.store(warp * MOST_UNCERTAIN + place, (row * COLUMNS + column) as u16) };
            }
        }
        count += lanes.count_ones();
        lanes = warp::ballot(first | second != 0);
    }
    count
}
