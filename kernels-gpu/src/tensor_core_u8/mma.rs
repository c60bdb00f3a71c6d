//! The matrix products of a step: sums, bytes, and which of them are uncertain.

use cuda_std::bytes::{byte_perm, pack_sat_u8x2, with_at_least};
use cuda_std::mma::mma_m16n8k32_u8s8;
use cuda_std::prelude::*;

use super::store::result_offset;
use super::uncertain::UncertainList;
use super::{
    Layout, M_TILES, MAX_MASK_ROWS, MAX_REGISTER_MATRICES, MMA_K, MMA_N, N_TILES, SLABS, mask_rows, planar_channels,
    result_pitch, this_thread, warp_columns,
};

/// The accumulators of a lane, for each M tile: the products of the coefficients' low bytes and of their high bytes.
type Sums = [[[i32; 4]; 2]; M_TILES];

/// The matrix products in the source of one iteration of [`Products::compute`], for each channel plane.
///
/// Each matrix is multiplied with four M tiles, and has two bytes.
pub(super) const fn products_per_tile(layout: &Layout, side: u32) -> u32 {
    let of_matrix = 2 * SLABS;
    if layout.in_registers {
        return of_matrix * if layout.paired { side.div_ceil(2) } else { side };
    }
    // The loop over rows of the mask is unrolled only for the rows that are in registers at a time. Pairs and fours
    // have loops of their own, over two matrices.
    let in_loops = if layout.chunks > 0 { layout.mask_rows } else { 0 } + layout.paired as u32 + layout.in_fours as u32;
    N_TILES as u32 * of_matrix * in_loops
}

/// A lane's result bytes of 64 rows and 8 columns: two neighbours in each of the rows `4 (group + 8 half) + s`.
///
/// The index is `2 s + half`.
type Pairs = [u32; 2 * M_TILES];

/// The matrix products of a block's steps.
pub(super) struct Products<const CHANNELS: u32, const SIDE: u32> {
    pub(super) layout: Layout,
    /// Rows of the mask.
    pub(super) rows: u32,
    /// Bytes of a slab.
    pub(super) slab: u32,
    /// The matrices that are not in registers.
    pub(super) matrices: Shared<f32>,
    /// See [`header`](super::header) for these three.
    pub(super) shift: u32,
    pub(super) bias: [i32; 4],
    pub(super) uncertain: u32,
    /// The bytes of a step's results.
    pub(super) results: Shared<u8>,
    pub(super) lists: UncertainList,
}

impl<const CHANNELS: u32, const SIDE: u32> Products<CHANNELS, SIDE> {
    /// Channel planes.
    const PLANAR: u32 = planar_channels(CHANNELS, SIDE);

    /// Computes all results of a step and the lists of the uncertain ones.
    ///
    /// The block has `inside` columns in the image. A warp whose columns all lie beyond them computes nothing.
    ///
    /// # Safety
    /// - All threads of the block call it.
    /// - `stage` holds the rows of the step. The matrices are filled, in `registers` or in shared memory.
    /// - A barrier has passed since. No thread uses the results and the lists before the next barrier.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(super) unsafe fn compute(&self, stage: Shared<u8>, inside: i32, registers: &[[u32; 4]; MAX_REGISTER_MATRICES]) {
        let (warp, lane) = (this_thread() / 32, this_thread() % 32);
        let (group, member) = (lane / 4, lane % 4);
        let first = warp * warp_columns(Self::PLANAR);
        let mut from = stage.offset(group * self.layout.pitch + 4 * member + self.layout.first + first);
        let mut column = first;
        // Interleaved channels: two N tiles make a word of flags. Planar channels: an N tile has two words. The memory
        // of the list holds them until the list is written.
        let mut certain = [u32::MAX; 2];
        let waiting = self.lists.flags(Self::PLANAR, warp, lane);
        // N tiles are computed in pairs.
        let inside = (inside + 2 * MMA_N as i32 - 1) & !(2 * MMA_N as i32 - 1);
        while column < first + warp_columns(Self::PLANAR) && (column as i32) < inside {
            thread::no_unroll();
            // N tiles side by side.
            let n_tiles = if self.layout.in_registers { 1 } else { N_TILES };
            let mut pairs = [[[0; 2 * M_TILES]; 2]; N_TILES];
            let mut of_channels = [0; N_TILES];
            for channel in 0..Self::PLANAR {
                let from = from.offset(channel * self.layout.run);
                let sums = if self.layout.in_registers {
                    // SAFETY: `registers` holds all matrices, and column < inside.
                    [unsafe { self.sums_from_registers(from.cast(), registers) }, Sums::default()]
                } else {
                    // SAFETY: shared memory holds the matrices, and column < inside.
                    unsafe { self.sums_from_shared(from, lane) }
                };
                for i in 0..n_tiles {
                    // The first two channels make a word, and the other two.
                    let pairs = &mut pairs[i][channel as usize / 2];
                    if Self::PLANAR == 1 {
                        *pairs = self.pairs(&sums[i], pairs, &mut certain[1]);
                        continue;
                    }
                    *pairs = self.pairs(&sums[i], pairs, &mut of_channels[i]);
                    let word = (column - first) / MMA_N * 2 + 2 * i as u32 + channel / 2;
                    let bits = if channel % 2 == 0 { !of_channels[i] << 16 } else { !of_channels[i] };
                    if channel % 2 == 1 || channel + 1 == Self::PLANAR {
                        // SAFETY: the list is this warp's, the word this lane's; `waiting` has four words a lane.
                        unsafe { waiting.store(word * 32, bits) };
                    }
                }
            }
            for i in 0..n_tiles {
                // SAFETY: the results of these columns are this warp's, those of group and member this lane's.
                unsafe { self.store(&pairs[i], column, group, member) };
                column += MMA_N;
                from = from.offset(MMA_N);
            }
            if Self::PLANAR == 1 && column % warp_columns(Self::PLANAR) == 2 * MMA_N {
                certain[0] = certain[1];
            }
        }
        let mut uncertain = [0; 4];
        if Self::PLANAR == 1 {
            // Otherwise the second half lies beyond the image.
            let all = column % warp_columns(Self::PLANAR) != 2 * MMA_N;
            (uncertain[0], uncertain[1]) = (!certain[0], if all { !certain[1] } else { 0 });
        } else {
            if (first as i32) < inside {
                // SAFETY: the loop above has stored the words of both N tiles.
                uncertain = [0, 1, 2, 3].map(|word| unsafe { waiting.load(word * 32) });
            }
            // After the barrier the list may overwrite the flags.
            // SAFETY: all lanes are here: `first` and `inside` are equal in the warp.
            unsafe { warp::sync_warp() };
        }
        // SAFETY: all lanes of the warp are here.
        unsafe { self.lists.push(Self::PLANAR, uncertain) };
    }

    /// Packs the result bytes of sums into the lower halves of words. The lower halves of `above` become the upper
    /// ones.
    ///
    /// For each byte, shifts a bit into `certain`: 1 if the byte is certain.
    #[inline(always)]
    fn pairs(&self, sums: &Sums, above: &Pairs, certain: &mut u32) -> Pairs {
        let mut pairs = Pairs::default();
        for (s, [low, high]) in sums.iter().enumerate() {
            for half in 0..2 {
                let mut bytes = [0; 2];
                for (i, byte) in bytes.iter_mut().enumerate() {
                    let sum = high[2 * half + i].wrapping_mul(256).wrapping_add(low[2 * half + i]);
                    *certain = with_at_least(*certain, (sum as u32) << (32 - self.shift), self.uncertain);
                    *byte = sum >> self.shift;
                }
                pairs[2 * s + half] = pack_sat_u8x2(bytes[0], bytes[1], above[2 * s + half]);
            }
        }
        pairs
    }

    /// Stores the bytes of 64 rows and 8 columns among the results, with the channels of a pixel interleaved.
    ///
    /// # Safety
    /// - `column` is a column of this warp, `group` and `member` are those of this lane.
    /// - No other thread uses the results before the next barrier.
    #[inline(always)]
    unsafe fn store(&self, pairs: &[Pairs; 2], column: u32, group: u32, member: u32) {
        let to = self.results.offset(group * result_pitch(Self::PLANAR) + Self::PLANAR * (column + 2 * member));
        // Let a to d be the channels, 0 and 1 the pixels. From the lowest byte on, `ab` is b0 b1 a0 a1, and `cd` is d0
        // d1 c0 c1, or c0 c1 with three channels. Their six bytes begin in the middle of a word in every other lane:
        // they are stored as a0 b0 c0 a1, b1 c1 or as a0 b0, c0 a1 b1 c1.
        let odd = member % 2;
        let (four, two) = if odd == 0 { (0x3402, 0x0051) } else { (0x5134, 0x0002) };
        for (i, (&ab, &cd)) in pairs[0].iter().zip(&pairs[1]).enumerate() {
            let row = (i / 2 + 32 * (i % 2)) as u32;
            let to = to.offset(result_offset(Self::PLANAR, row, 0));
            // SAFETY: two pixels of the row, which are this lane's alone.
            unsafe {
                match Self::PLANAR {
                    1 => to.cast::<u16>().store(0, ab as u16),
                    3 => {
                        to.offset(2 * odd).cast::<u32>().store(0, byte_perm(ab, cd, four));
                        to.offset(4 - 4 * odd).cast::<u16>().store(0, byte_perm(ab, cd, two) as u16);
                    }
                    _ => {
                        // a0 b0 c0 d0 and a1 b1 c1 d1.
                        let words = [0x4602, 0x5713].map(|bytes| f32::from_bits(byte_perm(ab, cd, bytes)));
                        to.cast::<F32x2>().store(0, F32x2(words));
                    }
                }
            }
        }
    }

    /// The sums of 64 rows and 8 columns, with all matrices in registers.
    ///
    /// # Safety
    /// - `from` is the lane's first word in the first row of a stage, which is filled. A barrier has passed since.
    /// - `registers` holds the lane's fragments of all matrices.
    #[inline(always)]
    unsafe fn sums_from_registers(&self, from: Shared<u32>, registers: &[[u32; 4]; MAX_REGISTER_MATRICES]) -> Sums {
        let mut sums = [[self.bias, [0; 4]]; M_TILES];
        // SAFETY: `registers` has the matrices of all rows.
        unsafe { self.add(from, registers, self.rows, self.layout.paired, &mut sums) };
        sums
    }

    /// The sums of 64 rows and 16 columns, with [`mask_rows`] rows of the mask in registers at a time.
    ///
    /// # Safety
    /// - `from` is the lane's first word in the first row of a stage, which is filled. A barrier has passed since.
    /// - Shared memory holds all matrices.
    #[inline(always)]
    unsafe fn sums_from_shared(&self, from: Shared<u8>, lane: u32) -> [Sums; N_TILES] {
        let mut sums = [[[self.bias, [0; 4]]; M_TILES]; N_TILES];
        let mut matrices = self.matrices.cast::<F32x4>().offset(lane);
        // black_box keeps LLVM from unrolling the loops.
        let (chunks, rows) = (thread::black_box(self.layout.chunks), thread::black_box(self.layout.rows(self.rows)));
        let mut chunk = 0;
        // Masks of any size always have chunks. For the others the test is a constant, and may leave out the loop.
        while (SIDE == 0 || self.layout.chunks > 0) && chunk < chunks {
            thread::no_unroll();
            // SAFETY: as this function requires.
            unsafe { self.add_chunk(from.offset(chunk * MMA_K), rows, &mut matrices, &mut sums) };
            chunk += 1;
        }
        let mut from = from.offset(self.layout.chunks * MMA_K);
        if self.layout.paired {
            // SAFETY: as this function requires.
            unsafe { self.add_joined(from, 2, &mut matrices, &mut sums) };
            from = from.offset(MMA_K / 2);
        }
        if self.layout.in_fours {
            // Four lanes read 8 bytes of each of two rows, instead of 16 bytes of one row.
            let from = from.offset(lane % 4 / 2 * (self.slab - MMA_K / 4));
            // SAFETY: as this function requires.
            unsafe { self.add_joined(from, 4, &mut matrices, &mut sums) };
        }
        sums
    }

    /// Adds the products of 64 rows and 16 columns with a chunk of each of `rows` rows of the mask.
    ///
    /// `matrices` is the lane's fragment of the first matrix, and is moved behind those of the last row.
    ///
    /// # Safety
    /// - `from` is the lane's first word of the chunk, in the first row of a stage, which is filled. A barrier has
    ///   passed since.
    /// - Shared memory holds the matrices. `rows` is a multiple of [`mask_rows`].
    #[inline(always)]
    unsafe fn add_chunk(&self, from: Shared<u8>, rows: u32, matrices: &mut Shared<F32x4>, sums: &mut [Sums; N_TILES]) {
        let mut from = from;
        let mut row = 0;
        while row < rows {
            thread::no_unroll();
            let mut held = [[0; 4]; MAX_MASK_ROWS as usize];
            let at_a_time = const { mask_rows(planar_channels(CHANNELS, SIDE), SIDE) };
            for fragment in &mut held[..at_a_time as usize] {
                // SAFETY: each row of the padded mask and each chunk has a matrix of 32 fragments.
                *fragment = unsafe { matrices.load(0) }.0.map(f32::to_bits);
                *matrices = matrices.offset(32);
            }
            for (n_tile, sums) in sums.iter_mut().enumerate() {
                // SAFETY: `held` has the matrices of the rows at `from`.
                unsafe { self.add(from.offset(n_tile as u32 * MMA_N).cast(), &held, at_a_time, false, sums) };
            }
            from = from.offset(at_a_time / SLABS * self.layout.pitch);
            row += at_a_time;
        }
    }

    /// Adds the products of 64 rows and 16 columns with the matrices that `rows` rows of the mask share: 2 or 4.
    ///
    /// A step takes two matrices: tiles 0 and 2 the first one, tiles 1 and 3 the one that begins a row earlier. Tiles 2
    /// and 3 take the rows of the image two rows further down. `matrices` is the lane's fragment of the first matrix,
    /// and is moved behind the last one.
    ///
    /// # Safety
    /// - `from` is the lane's first word of the part, in the first row of a stage, which is filled. For fours it is in
    ///   the second row in lanes 2 and 3 of each group of four. A barrier has passed since.
    /// - Shared memory holds the matrices.
    #[inline(always)]
    unsafe fn add_joined(&self, from: Shared<u8>, rows: u32, matrices: &mut Shared<F32x4>, sums: &mut [Sums; N_TILES]) {
        let fours = rows == 4;
        let (pitch, slab) = (self.layout.pitch / 4, self.slab / 4);
        // Half of a fragment: a word of the lane's row 4 m + t, and of the row 8 slots further down in the slab. Rows
        // below the stage lie in its next slab; the matrix has zeros there.
        let half = |n_tile: usize, t: u32| {
            let from = from.offset(n_tile as u32 * MMA_N).cast::<u32>();
            let row = t / SLABS * pitch + t % SLABS * slab;
            // SAFETY: the stage has four slabs, and a row has the part's bytes.
            [row, row + 8 * pitch].map(|word| unsafe { from.load(word) })
        };
        let steps = thread::black_box(self.rows.div_ceil(rows));
        // The fragments of tiles 0 and 1. Of fours, the second half is that of tiles 2 and 3.
        let mut upper = [[[0; 2]; 2]; N_TILES];
        for (n_tile, upper) in upper.iter_mut().enumerate() {
            *upper = [half(n_tile, 0), if fours { [0; 2] } else { half(n_tile, 1) }];
        }
        for step in 0..steps {
            thread::no_unroll();
            // SAFETY: each step has two matrices of 32 fragments.
            let held = [0, 32].map(|fragment| unsafe { matrices.load(fragment) }.0.map(f32::to_bits));
            *matrices = matrices.offset(2 * 32);
            for (n_tile, (upper, sums)) in upper.iter_mut().zip(sums.iter_mut()).enumerate() {
                let t = rows * step + 2;
                let lower = [half(n_tile, t), half(n_tile, if fours { t + 2 } else { t + 1 })];
                if fours {
                    upper[1] = lower[0];
                }
                for (s, sums) in sums.iter_mut().enumerate() {
                    let [[a0, a1], [a2, a3]] = if s < 2 { *upper } else { lower };
                    // SAFETY: all lanes are here: the loops are equal in all lanes of the warp.
                    unsafe { multiply([a0, a1, a2, a3], held[s % 2], sums) };
                }
                *upper = if fours { [lower[1]; 2] } else { lower };
            }
        }
    }

    /// Adds the products with a chunk of each of `rows` rows of the mask, or with 16 bytes if rows are `paired`. `held`
    /// has the lane's fragments of the matrices.
    ///
    /// # Safety
    /// - `from` is the lane's first word of the part, in the row of a stage that meets the first of these rows. The
    ///   stage is filled.
    /// - `held` has a fragment for each row. Pairs have two: even row first and odd row first.
    #[inline(always)]
    unsafe fn add(&self, from: Shared<u32>, held: &[[u32; 4]], rows: u32, paired: bool, sums: &mut Sums) {
        let (pitch, slab) = (self.layout.pitch / 4, self.slab / 4);
        // A word of the lane's row 4 m + t, or of the row 8 slots further down in the slab.
        let word = |t: u32, half: u32, further: u32| {
            let row = (t / SLABS + 8 * further) * pitch + t % SLABS * slab;
            // SAFETY: the stage has rows 4 m + t for m up to 15, and a row has the part's bytes.
            unsafe { from.load(row + 4 * half) }
        };
        let of_image = rows + SLABS - 1;
        let matrices = if paired { rows.div_ceil(2) } else { rows };
        for i in 0..if paired { of_image.div_ceil(2) } else { of_image } {
            let a = if paired {
                // The last row may lie beyond the stage. The matrix has zeros there, so any row will do.
                let (t, next) = (2 * i, if 2 * i + 1 < of_image { 2 * i + 1 } else { 2 * i });
                [word(t, 0, 0), word(t, 0, 1), word(next, 0, 0), word(next, 0, 1)]
            } else {
                [word(i, 0, 0), word(i, 0, 1), word(i, 1, 0), word(i, 1, 1)]
            };
            for (s, sums) in sums.iter_mut().enumerate() {
                let later = if paired { s as u32 / 2 } else { s as u32 };
                if i < later || i - later >= matrices {
                    continue;
                }
                let matrix = if paired { 2 * (i - later) + s as u32 % 2 } else { i - later };
                // SAFETY: all lanes are here: the loops are equal in all lanes of the warp.
                unsafe { multiply(a, held[matrix as usize], sums) };
            }
        }
    }
}

/// Adds the products of a fragment of the image with the low and with the high bytes of a matrix.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
unsafe fn multiply(a: [u32; 4], matrix: [u32; 4], [low, high]: &mut [[i32; 4]; 2]) {
    let [low0, low1, high0, high1] = matrix;
    // SAFETY: all lanes are here, as this function requires.
    unsafe {
        *low = mma_m16n8k32_u8s8(a, [low0, low1], *low);
        *high = mma_m16n8k32_u8s8(a, [high0, high1], *high);
    }
}
