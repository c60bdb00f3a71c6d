//! Separable masks for bytes in the integer tensor cores, bit-exact with the ordered sum in `f32`.
//!
//! The kernel is that of [`tensor_core_u8`](super), but for the sums: rows are filtered first, then columns. So a
//! pixel takes `width + height` products instead of `width * height`.
//!
//! # Fixed point
//! The host writes both factors as integers of [`DIGITS`] signed bytes. A filtered value is a sum of 32 bits. Its
//! upper three bytes are kept: `h2`, `h1`, `h0`. Let `p2`, `p1`, `p0` be the digits of the column factor. Then
//! ```text
//! sum of  (p2 * h2) << 16  +  (p1 * h2 + p2 * h1) << 8  +  (p0 * h2 + p1 * h1 + p2 * h0)
//! ```
//! plus a bias is the pixel in units of `2^-24`. The host's radius counts what that leaves out: the lowest byte of
//! filtered values, the other products of digits, and the rounding of the factors. It also counts the roundings of the
//! ordered sum. The upper byte is the result. So the host refuses masks whose results may leave 0 to 255.
//!
//! # Matrix products
//! In [`mma_m16n8k32_s8u8`] the mask is the left matrix. It is a Toeplitz matrix: each row has the factor one column
//! further right than the row above. Let `g = lane / 4` and `t = lane % 4`.
//! 1. To filter rows, the right matrix has 32 bytes of 8 rows of the image, and the product has 16 columns of outputs.
//!    A lane has the columns `g` and `g + 8`, in two of these rows. The rows are chosen so that two products give
//!    a lane the rows `4 t` to `4 t + 3`. Then each of the three bytes fills one word for each column.
//! 2. These words are the right matrix of the products that filter columns: 32 filtered rows of 8 columns. The product
//!    has 16 rows of outputs. So filtered rows never leave the registers.
//!
//! Masks up to 17 x 17 take one *chunk* of 32 bytes in each direction. Larger masks take two. Half of the second is
//! zeros. A chunk takes 3 matrix products for 128 filtered values, and 6 for 128 results.
//!
//! # Cost
//! 16 columns in 64 rows take 78 matrix products and some 430 instructions of a warp, with masks of more than 17 rows
//! 168 and 670. With 31 x 31 about 1 % of the pixels are uncertain. Each takes 961 multiply-adds.
//!
//! H200, 2026-11-30, 8192 x 8192, one channel: 93 µs with 13 x 13, 34 % of the roofline.

use cuda_std::bytes::{byte_perm, with_at_least};
use cuda_std::mma::mma_m16n8k32_s8u8;
use cuda_std::prelude::*;

use super::layout::shared_bytes_of;
use super::store::result_offset;
use super::uncertain::UncertainList;
use super::{
    BLOCK, Layout, MAX_REGISTER_MATRICES, MMA_K, MMA_N, ROWS, SLABS, convergent_of, few_uncertain, outputs,
    planar_channels, result_pitch, tensor_core_u8, this_thread, warp_columns,
};
use crate::abi::pixel::PixelType;
use crate::registry::{Accuracy, Grid, MaskForm, MaskMemory, Occupancy, RowPartition, Spec};

/// Bytes of an integer of a factor.
pub const DIGITS: u32 = 3;
/// Fraction bits of a sum. The byte above them is the result.
pub const FRACTION_BITS: u32 = 24;
/// Rows, or columns, of a matrix product's outputs.
pub(super) const GROUP: u32 = 16;
/// Groups of rows of outputs in a step.
const GROUPS: usize = (ROWS / GROUP) as usize;

/// The row of a group that is row `row` of a matrix product.
///
/// The two rows that a product gives a lane, `g` and `g + 8`, lie two slabs apart.
pub(super) const fn place_of_row(row: u32) -> u32 {
    row % 4 * SLABS + row / 4
}

/// Groups of rows of the image that a group of outputs reads in addition to its own.
const fn halo(side: u32) -> usize {
    ((side + GROUP - 2) / GROUP) as usize
}

/// The matrix products in the source, for a channel or for 16 columns.
const fn products(layout: &Layout, side: u32) -> u32 {
    let to_filter_rows = (GROUPS + halo(side)) as u32 * 2 * DIGITS * layout.chunks;
    // Of the products of digits, six are kept.
    to_filter_rows + GROUPS as u32 * 2 * 6 * layout.column_chunks(side)
}

/// Four filtered rows of two columns, 8 columns apart: a word of each byte that is kept, the lowest first.
type Filtered = [[u32; DIGITS as usize]; 2];

/// 16 columns of a channel in 64 rows, while a warp computes them.
struct Part<'a> {
    /// The lane's first word in a stage.
    from: Shared<u8>,
    /// The place of the lane's first result.
    to: Shared<u8>,
    /// The lane's fragments of all matrices.
    matrices: &'a [[u32; 4]; MAX_REGISTER_MATRICES],
    /// The filtered groups that the next group of outputs reads, its own first.
    filtered: [Filtered; 3],
    /// See [`SeparableProducts::part`].
    certain: u32,
}

/// The matrix products of a block's steps, for separable masks.
pub(super) struct SeparableProducts<const CHANNELS: u32, const SIDE: u32> {
    pub(super) layout: Layout,
    /// Bytes of a slab.
    pub(super) slab: u32,
    /// See [`header`](super::header) for these two.
    pub(super) bias: [i32; 4],
    pub(super) uncertain: u32,
    /// The bytes of a step's results.
    pub(super) results: Shared<u8>,
    pub(super) lists: UncertainList,
}

impl<const CHANNELS: u32, const SIDE: u32> SeparableProducts<CHANNELS, SIDE> {
    /// Channel planes.
    const PLANAR: u32 = planar_channels(CHANNELS, SIDE);
    /// Parts of a warp's results that it computes one after another: 16 columns of a channel.
    const PARTS: u32 = if Self::PLANAR == 1 { warp_columns(1) / GROUP } else { Self::PLANAR };

    /// Computes all results of a step and the lists of the uncertain ones.
    ///
    /// The block has `inside` columns in the image. Columns beyond them may be left out.
    ///
    /// # Safety
    /// - All threads of the block call it.
    /// - `stage` holds the rows of the step. `matrices` holds the lane's fragments of all matrices.
    /// - A barrier has passed since. No thread uses the results and the lists before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn compute(&self, stage: Shared<u8>, inside: i32, matrices: &[[u32; 4]; MAX_REGISTER_MATRICES]) {
        let (warp, lane) = (this_thread() / 32, this_thread() % 32);
        let (group, member) = (lane / 4, lane % 4);
        let first = warp * warp_columns(Self::PLANAR);
        let flags = self.lists.flags(Self::PLANAR, warp, lane);
        // The rows of a tile are 4 (g / 2) + g % 2, and those of the other tile two rows further down.
        let from = group % 2 * self.slab + group / 2 * self.layout.pitch + self.layout.first + first + 4 * member;
        let to = result_offset(Self::PLANAR, place_of_row(group), Self::PLANAR * (first + 2 * member));
        let (mut from, mut to) = (stage.offset(from), self.results.offset(to));
        let across = if Self::PLANAR == 1 { GROUP } else { 0 };
        // black_box keeps LLVM from unrolling the loop.
        let parts = thread::black_box(Self::PARTS);
        let mut part = 0;
        while part < parts && ((first + part * across) as i32) < inside {
            thread::no_unroll();
            // SAFETY: as this function requires; the columns belong to this warp.
            let certain = unsafe { self.part(from, to, matrices) };
            // SAFETY: the list is this warp's, the word this lane's.
            unsafe { flags.store(part * 32, !certain) };
            (from, to) = if Self::PLANAR == 1 {
                (from.offset(GROUP), to.offset(GROUP))
            } else {
                (from.offset(self.layout.run), to.offset(1))
            };
            part += 1;
        }
        // SAFETY: the loop above has stored the words of its parts.
        let uncertain = [0, 1, 2, 3].map(|i| if i < part { unsafe { flags.load(i * 32) } } else { 0 });
        // After the barrier the list may overwrite the flags.
        // SAFETY: all lanes are here: `part` and `inside` are equal in the warp.
        unsafe { warp::sync_warp() };
        // SAFETY: all lanes of the warp are here.
        unsafe { self.lists.push(Self::PLANAR, uncertain) };
    }

    /// Computes [16 columns of a channel in 64 rows](Part). Returns a bit for each result of the lane: whether it is
    /// certain.
    ///
    /// # Safety
    /// - All lanes of the warp call it.
    /// - `from` is the lane's first word in a stage, which is filled. `matrices` holds its fragments of all matrices.
    /// - `to` is the place of the lane's first result. No other thread uses the results of these columns.
    #[inline(always)]
    unsafe fn part(&self, from: Shared<u8>, to: Shared<u8>, matrices: &[[u32; 4]; MAX_REGISTER_MATRICES]) -> u32 {
        let mut part = Part { from, to, matrices, filtered: [Filtered::default(); 3], certain: 0 };
        for group in 0..halo(SIDE) {
            // SAFETY: all lanes are here.
            part.filtered[group] = unsafe { self.filter_rows(&part, group) };
        }
        // As a loop, LLVM would not unroll it, and would keep filtered rows in local memory.
        // SAFETY: all lanes are here.
        unsafe {
            self.group(&mut part, 0);
            self.group(&mut part, 1);
            self.group(&mut part, 2);
            self.group(&mut part, 3);
        }
        part.certain
    }

    /// Computes 16 rows of a part: group `group` of [`GROUPS`].
    ///
    /// # Safety
    /// As for [`part`](Self::part).
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn group(&self, part: &mut Part, group: usize) {
        let halo = halo(SIDE);
        // SAFETY: as this function requires.
        part.filtered[halo] = unsafe { self.filter_rows(part, group + halo) };
        let to = part.to.offset(group as u32 * (GROUP / SLABS) * result_pitch(Self::PLANAR));
        for n_tile in 0..2 {
            // SAFETY: all lanes are here.
            let sums = unsafe { self.filter_columns(part, n_tile) };
            for i in 0..4 {
                part.certain = with_at_least(part.certain, sums[i] << (32 - FRACTION_BITS), self.uncertain);
            }
            let to = to.offset(n_tile as u32 * Self::PLANAR * MMA_N);
            for half in 0..2 {
                // The upper bytes of two neighbouring columns.
                let pair = byte_perm(sums[2 * half], sums[2 * half + 1], 0x0073);
                let to = to.offset(half as u32 * 2 * (ROWS / SLABS) * result_pitch(Self::PLANAR));
                // SAFETY: two pixels of a row, which are this lane's alone.
                unsafe {
                    if Self::PLANAR == 1 {
                        to.cast::<u16>().store(0, pair as u16);
                    } else {
                        to.store(0, pair as u8);
                        to.store(Self::PLANAR, (pair >> 8) as u8);
                    }
                }
            }
        }
        let [_, first, second] = part.filtered;
        part.filtered = [first, second, second];
    }

    /// Filters group `group` of the rows of a stage. A lane has rows `4 t` to `4 t + 3` of the columns `g` and `g + 8`.
    ///
    /// # Safety
    /// As for [`part`](Self::part).
    #[inline(always)]
    unsafe fn filter_rows(&self, part: &Part, group: usize) -> Filtered {
        let chunks = self.layout.chunks;
        let from = part.from.offset(group as u32 * (GROUP / SLABS) * self.layout.pitch);
        let mut sums = [[0_u32; 4]; 2];
        for (tile, sums) in sums.iter_mut().enumerate() {
            let mut digits = [[0; 4]; DIGITS as usize];
            for chunk in 0..chunks {
                let from = from.offset(2 * tile as u32 * self.slab + chunk * MMA_K).cast::<u32>();
                // The matrix has zeros for the second half of the second chunk, so any word will do there.
                let second = if chunk == 0 { MMA_K / 8 } else { 0 };
                // SAFETY: the stage has four slabs, and a row has all chunks.
                let b = [0, second].map(|word| unsafe { from.load(word) });
                for (digit, sums) in (0..).zip(&mut digits) {
                    // SAFETY: all lanes are here, as this function requires.
                    *sums = unsafe { mma_m16n8k32_s8u8(part.matrices[(digit * chunks + chunk) as usize], b, *sums) };
                }
            }
            *sums = joined(digits);
        }
        let mut filtered = Filtered::default();
        for half in 0..2 {
            let [[a, b], [c, d]] = sums.map(|sums| [sums[2 * half], sums[2 * half + 1]]);
            // Bytes 2 and 3 of two rows, and byte 1 of two rows.
            let (upper, lower) = (byte_perm(a, b, 0x7632), byte_perm(c, d, 0x7632));
            let lowest = byte_perm(byte_perm(a, b, 0x0051), byte_perm(c, d, 0x0051), 0x5410);
            filtered[half] = [lowest, byte_perm(upper, lower, 0x6420), byte_perm(upper, lower, 0x7531)];
        }
        filtered
    }

    /// The sums of 16 rows and 8 columns, of the filtered rows of `part`.
    ///
    /// # Safety
    /// All lanes of the warp call it.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn filter_columns(&self, part: &Part, n_tile: usize) -> [u32; 4] {
        let chunks = self.layout.column_chunks(SIDE) as usize;
        let matrices = &part.matrices[(DIGITS * self.layout.chunks) as usize..];
        let mut sums = [self.bias, [0; 4], [0; 4]];
        for chunk in 0..chunks {
            // Of the second chunk, the matrix has zeros for the second group.
            let (upper, lower) = (part.filtered[2 * chunk][n_tile], part.filtered[1][n_tile]);
            let [h0, h1, h2] = [0, 1, 2].map(|byte| [upper[byte], lower[byte]]);
            let [p0, p1, p2] = [0, 1, 2].map(|digit| matrices[digit * chunks + chunk]);
            // SAFETY: all lanes are here, as this function requires.
            unsafe {
                sums[2] = mma_m16n8k32_s8u8(p2, h2, sums[2]);
                sums[1] = mma_m16n8k32_s8u8(p1, h2, sums[1]);
                sums[0] = mma_m16n8k32_s8u8(p0, h2, sums[0]);
                sums[1] = mma_m16n8k32_s8u8(p2, h1, sums[1]);
                sums[0] = mma_m16n8k32_s8u8(p1, h1, sums[0]);
                sums[0] = mma_m16n8k32_s8u8(p2, h0, sums[0]);
            }
        }
        joined(sums)
    }
}

/// `digits[0] + (digits[1] << 8) + (digits[2] << 16)`, modulo `2^32`.
#[inline(always)]
fn joined([low, middle, high]: [[i32; 4]; 3]) -> [u32; 4] {
    let mut sums = [0; 4];
    for i in 0..4 {
        sums[i] = (low[i] as u32).wrapping_add((middle[i] as u32) << 8).wrapping_add((high[i] as u32) << 16);
    }
    sums
}

crate::registry::instances! {
    SeparableTensorCoreU8;
    sm_80 "separable_tensor_core_u8_{T}_c{C}_{K}x{K}" for T in [u8], C in [1, 3, 4], K in [13, 17, 21, 25, 31, 33];
        |image, result, mask, params| tensor_core_u8::<C, K, true>(image, result, mask, params)
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "separable_tensor_core_u8",
    summary: "separable masks on bytes in the tensor cores; uncertain results are recomputed in order",
    reason: "a separable mask on bytes in the tensor cores",
    accuracy: Accuracy::Exact,
    mask_memory: MaskMemory::Global,
    mask_form: MaskForm::SeparableFixedPoint,
    mask_class: None,
    results: |_| &[PixelType::U8],
    border_is_pixel: |_| true,
    requirement: |request| few_uncertain(request.separable_uncertain),
    uses_fp32_units: false,
    grid: Grid::Partition(RowPartition {
        least_rows: |_, _| ROWS,
        block_row_alignment: ROWS,
        launch_row_alignment: 1,
        occupancy: |entry, _| Occupancy { blocks_per_sm: 4, waves: if entry.channels > 1 { 12 } else { 8 } },
    }),
    block: |_| BLOCK,
    outputs: |entry, _| (outputs(entry.channels, entry.side()), ROWS),
    pixels_together: 1,
    shared_bytes: |entry, mask| {
        shared_bytes_of(&Layout::separable(entry.channels, entry.side(), 0), mask, entry.side())
    },
    // Shared memory holds this many blocks. Smaller masks need fewer registers.
    launch_bounds: |entry| if entry.side() > 17 { Some((BLOCK.0, 4)) } else { None },
    convergent: |entry| {
        let layout = Layout::separable(entry.channels, entry.side(), 0);
        let mut convergent = convergent_of(&layout, entry.side(), products(&layout, entry.side()));
        if layout.planar == 1 {
            convergent.warp_barriers = 1;
        }
        convergent
    },
};
