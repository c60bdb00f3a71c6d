//! Masks of rank 1 in the tensor cores: `f32` in two parts, both passes in registers.
//!
//! What [`separable`](crate::separable::error_bound) computes, `O = column * (row * I)`, as products of small matrices. For large masks
//! two passes of multiply-adds take longer than memory does; the tensor cores have many times their rate, but know
//! only short numbers.
//!
//! # Two parts
//! Of a number the first 11 digits are what the tensor cores call `tf32`, with the range of an `f32`. A second word holds two
//! `bf16`: what is left, and the whole number again, each rounded to 8 digits. With `m` for a coefficient and `p` for a pixel
//! ```text
//! m p  ~  high(m) high(p)  +  [all(m), left(m)] . [left(p), all(p)]
//! ```
//! is one product of matrices of `tf32` and one of pairs, which has the same shape and takes the same time.
//! No scale is needed, and no two pixels have to do with each other.
//!
//! # The two passes
//! The row pass has coefficients as its left factor: 16 rows of a matrix with the mask's row in each, one further to the
//! right from row to row (a Toeplitz matrix), and pixels as the right one, 8 columns in 8 rows. So 16 outputs take
//! `ceil((K + 15) / 8)` such products. What comes out, 16 columns in 8 rows, lies in the lanes just as the column pass
//! wants its left factor, but for the order of the rows, which is put into the coefficients: nothing is exchanged. The
//! column pass adds it to the sums of all groups of 8 outputs whose windows it touches, [`blocks`] of them; the sums
//! that are not finished stay in registers.
//!
//! # Thread mapping and tiling
//! A warp owns 16 columns, or 32 ([`tiles`]), and goes down a strip in steps of 32 rows, or 16 ([`subtiles`]). The warps of
//! a block copy the rows of the step after the next one into shared memory ([`cuda_std::cp_async`]); one barrier a step.
//!
//! # What shapes it
//! - *Loads from shared memory* were the first limit: coefficients lie there as the lanes take them, 16 bytes a lane. A
//!   step of 32 rows uses each four times. In registers they would have to be put together by moves, four for each product.
//! - *Registers.* A lane has 4 sums for each group of 8 outputs that is not finished, up to 64: so 16 warps a multiprocessor
//!   for masks of up to 33 and 65 columns and rows, 12 for the others.
//! - *Cut, not rounded.* The first 11 digits of a pixel are what the tensor cores take of it anyway, so that splitting it is
//!   three instructions.
//! - *Blocks at the edge as fast as others*: where the border is zero, the copies fill it in.
//!
//! # Order and rounding
//! Within a step all is added in the tensor cores, from the left and from above; the steps' sums in `f32`. [`error_constant`]
//! says how far a result may be off. How tensor cores add is their own affair, so bits differ from one generation of
//! devices to another, and with the place of an output in its 16 columns and 32 rows; they do not depend on the strips of
//! a launch, the number of blocks or the run, if launches begin a multiple of [`STRIP_STEP`] rows apart.
//!
//! # NaN, infinity, overflow
//! A zero of the matrix times infinity is NaN, in outputs whose window does not hold it. So where any sum of a warp's step is
//! not finite, the step is computed again in `f32`, in the order of `separable`: NaN and infinity touch only what
//! they must. That takes up to a hundred times as long as the other way, for the columns and rows that need it. (Rows below the last
//! one of a launch count: what lies under their windows may decide which way the rows above them go, and so last bits.)
//!
//! The host takes only masks whose coefficients are far from the ends of the range: [`EXPONENTS`].
//!
//! # What it costs
//! For 256 outputs `2 (blocks + 1)` products of either kind in the row pass and `2 blocks` in the column pass. A tensor core
//! of compute capability 9.0 does one in 6.8 cycles. At 8192 x 8192, with the rows that two strips compute, that is 138 µs for
//! 63 x 63 and 265 for 127 x 127; memory asks for 178. The other instructions, some 770 and 1,600 of a warp for 512
//! outputs, take 100 and 150 µs of issue slots, the loads from shared memory 130 and 180; the rest of the time is lost because they
//! overlap no better with 4 and 3 warps a scheduler.
//!
//! On an H100 (8192 x 8192, one channel, zero border), µs; its time is that of the entry, whatever the mask's size within it:
//!
//! | up to | 33 x 33 | 49 x 49 | 65 x 65 | 97 x 97 | 129 x 129 |
//! | --- | --- | --- | --- | --- | --- |
//! | `separable_tensor` | 200 | 239 | 263 | 382 | 464 |
//! | [`separable_tile`](crate::separable::block_tile), made for the size | 31 x 31: 217 | | 63 x 63: 366 | | 127 x 127: 773 |
//! | for any size | 33 x 33: 305 | 48 x 48: 376 | 64 x 64: 505 | 95 x 95: 672 | 128 x 128: 913 |
//!
//! With Gaussians its largest error there, in units of `2^-24 sum |M I|`, was 22 to 32, at the root of the mean square 8 to 12, most of it the
//! bias of sums that are cut off; `separable_tile`: 8 to 15, and 1.5 to 2.6.

mod layout;
mod nonfinite_fallback;
mod split;

use cuda_std::cp_async::{commit_group, wait_group};
use cuda_std::prelude::*;
use cuda_std::warp;

use self::layout::{STAGES, TABLES, elements, lead, odd, pieces, pitch};
pub use self::layout::{blocks, columns, rows, shared_bytes, subtiles, tiles, warps};
use self::split::{Factor, add_high, add_high_columns, add_low, add_low_columns, high, pairs};
use super::block_tile;
use crate::abi::kernel::Convergent;
use crate::abi::params::Params;
use crate::common::async_rows::{Copies, PIECE, RUN, whole};
use crate::common::partition::block_rows;
use crate::registry::{
    Accuracy, Arithmetic, FactorPlaces, Grid, Ineligible, MaskClass, MaskForm, MaskMemory, Occupancy, Partition, Spec,
    f32_result,
};
use crate::separable::error_bound::MASK_ERROR;

/// The oldest compute capability that has the products and the copies.
pub const COMPUTE_CAPABILITY: (u32, u32) = (8, 0);
/// Threads of the largest blocks.
pub const BLOCK: (u32, u32) = (32 * warps(9), 1);
/// Rows that a product has at a time.
const SUBTILE: u32 = 8;
/// Strips begin a multiple of so many rows apart: a multiple of each [`rows`].
pub const STRIP_STEP: u32 = 32;
/// What the exponents of the coefficients of row and column may be, but for those that are 0.
pub const EXPONENTS: (i32, i32) = (-100, 100);

/// Whether two parts hold coefficients with these exponents, least and largest: below `2^-114` the last digits would lie below those of
/// the smallest numbers.
#[must_use]
pub const fn holds(exponents: (i32, i32)) -> bool {
    exponents.0 >= EXPONENTS.0 && exponents.1 <= EXPONENTS.1
}

/// The constant `c` of the error bound for masks of so many [`blocks`], whatever their size: as in
/// [`separable::error_constant`](crate::separable::error_bound::error_constant), `|O - exact| <= gamma(c) * sum |M I|`.
///
/// With `u = 2^-24`, `A` the sum of a pass's absolute products, `m = mh + ml` a coefficient in two parts, `|ml| <= 2^-11 |m|`, and
/// `p = ph + pl` a pixel, or a filtered one, which is cut: `|pl| <= 2^-10 |p|`. Then `m p = mh ph + m pl + ml p - ml pl`. A number of 8 digits
/// is off by at most `2^-8` of itself, one that is less than `2^-10` times a power of two by `2^-19` times that, one of at most `2^-11` times
/// it by `2^-20`. So each pass is off by at most, in units of `u A`:
/// ```text
///  96               m pl: 64 for m, rounded to 8 digits, 32 for pl
///  48               ml p: 32 for p, 16 for ml
///   8               ml pl, which is left out: 2^-21
///   1               products of these errors
///  22 (blocks + 1)  sums of the row pass in the tensor cores; see below
///  22 subtiles      sums of the column pass there
///   2               the small ones of both passes, whose magnitude is 2^-9 of the products'
///   1               large and small sums of the row pass added
///   blocks           the column pass's sums added up
/// ```
/// [`MASK_ERROR`] for a mask that is nearly an outer product, and products of all of these errors: less than 2, as `c^2 u` is.
///
/// *Sums in the tensor cores.* Products are exact. Those of compute capability 8.0 and later add 4 or more of them and the sum so far
/// at a time: aligned to the largest, cut off behind at least 24 digits, the sum cut off to an `f32` (Fasi, Higham, Mikaitis, Pranesh,
/// *Numerical behavior of NVIDIA tensor cores*, 2021; Khattak, Mikaitis, *Accurate models of NVIDIA tensor cores*, 2025, finds
/// no fewer digits on later ones; an H100 keeps two digits more). That cuts 8 products and one sum, each by at most `2 u` times the largest, and two sums by `2 u`
/// each: `22 u` times the sum so far, which is at most `A`, for each product of matrices. A chain of the row pass has `blocks + 1` of them, one
/// of the column pass [`subtiles`].
#[must_use]
pub const fn error_constant(blocks: u32) -> u64 {
    let (blocks, subtiles) = (blocks as u64, subtiles(blocks) as u64);
    2 * 153 + 22 * (blocks + 1) + 22 * subtiles + 3 + blocks + MASK_ERROR as u64 + 2
}

/// Sums of 16 columns in 8 rows.
type Sums = [f32; 4];

/// 16 columns of filtered pixels in 8 rows.
type Filtered = [Factor; 4];

/// What the kernel for masks of up to so many [`blocks`] has of each convergent instruction.
#[must_use]
pub const fn convergent(blocks: u32) -> Convergent {
    let tiles = tiles(blocks) * subtiles(blocks);
    // Each with the large and with the small parts. A row's window has one block more than a mask, for the 16 outputs
    // of a tile.
    let (row_pass, column_pass) = (2 * tiles * (blocks + 1), 2 * tiles * blocks);
    Convergent {
        // Behind which the tables are whole, and one in each step.
        barriers: 2,
        warp_barriers: 0,
        matrix_products: row_pass + column_pass,
        // `pin_register`: the share of the copies, the place in the table, the place among the pixels.
        shuffles: 3,
        // `are_finite`.
        votes: 1,
    }
}

/// The kernel for masks of up to `BLOCKS` [`blocks`], one more than `KEPT`, with as many [`tiles`], [`subtiles`] and [`rows`]; `COLUMNS` is 16 for each tile,
/// `THREADS` 32 times [`warps`].
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, begin at a multiple of 16 bytes and do not overlap.
/// - The block is one row of `THREADS`, the dynamic shared memory at least [`shared_bytes`].
/// - `mask` holds the coefficients of the mask's row, then those of its column, in window order.
#[inline(always)]
pub unsafe fn separable_tensor<
    const BLOCKS: usize,
    const KEPT: usize,
    const TILES: usize,
    const SUBTILES: usize,
    const COLUMNS: u32,
    const ROWS: u32,
    const THREADS: u32,
>(
    image: Global<f32>,
    result: GlobalMut<f32>,
    mask: Global<f32>,
    params: Params,
) {
    const {
        assert!(BLOCKS == KEPT + 1 && KEPT.is_multiple_of(SUBTILES) && THREADS == 32 * warps(BLOCKS as u32));
        assert!(TILES as u32 == tiles(BLOCKS as u32) && SUBTILES as u32 == subtiles(BLOCKS as u32));
        assert!(COLUMNS == 16 * TILES as u32 && ROWS == rows(BLOCKS as u32));
    };
    let blocks = BLOCKS as u32;
    let (pitch, pieces, elements) = (pitch(blocks), pieces(blocks), elements(blocks));
    let (lead, odd) = (lead(params.origin_x), odd(params.origin_x));
    let first_column = (thread::block_idx_x() * columns(blocks)) as i32;
    let left = first_column - params.origin_x - lead as i32;
    let (first, rows) = block_rows::<STRIP_STEP>(&params);
    if rows <= 0 {
        return;
    }
    let thread = thread::thread_idx_x();

    let pixels = Shared::<f32>::dynamic();
    let tables = pixels.offset(STAGES * ROWS * pitch);
    // SAFETY: all threads are here: what is returned before depends on the block alone.
    let share = Copies::<THREADS>::share(unsafe { pin_register(thread) });
    let mut copies = Copies::<THREADS> {
        image,
        params,
        whole: whole(left, pieces, &params),
        left,
        y: first - params.origin_y,
        to: pixels.offset(share.0 * pitch + share.1 * PIECE),
        pieces,
        pitch,
        table: tables.offset(TABLES * 4 * elements).cast(),
    };
    // SAFETY: the table has an element for each column that is read; nobody reads it before the next barrier.
    unsafe { copies.fill_table(thread) };
    let tables = tables.cast::<F32x4>();
    let mut i = thread;
    while i < elements {
        thread::no_unroll();
        let first = i as i32 - 7;
        let coefficient = |from: i32, count: i32, k: i32| {
            // SAFETY: the caller's promise for the mask.
            if k >= 0 && k < count { unsafe { mask.load((from + k) as isize) } } else { 0.0 }
        };
        let of_row = [0, -8, 1, -7].map(|k| coefficient(0, params.mask_width, first - odd as i32 + k));
        let of_column = [0, 1].map(|k| coefficient(params.mask_width, params.mask_height, first + k));
        let of_column = [of_column[0], of_column[1], 0.0, 0.0];
        let (first, second) = (high(of_column), pairs(of_column));
        // SAFETY: there is room for the tables; each element is one thread's.
        unsafe {
            tables.store(i, F32x4(high(of_row)));
            tables.store(elements + i, F32x4(pairs(of_row)));
            tables.store(2 * elements + i, F32x4([first[0], first[1], second[0], second[1]]));
        }
        i += THREADS;
    }

    let (warp, lane) = (thread / 32, thread % 32);
    let (g, t) = (lane / 4, lane % 4);
    // SAFETY: all threads are here: what is returned before depends on the block alone.
    let row_table = tables.offset(unsafe { pin_register(7 + 2 * t - g) });
    let column_table = row_table.offset(2 * elements);
    // SAFETY: all threads are here: what is returned before depends on the block alone.
    let own = pixels.offset(unsafe { pin_register(g * pitch + warp * COLUMNS + lead - odd + 2 * t) });
    let bytes = copies.bytes(share);

    // The tables are whole before they are read.
    // SAFETY: all threads are here: what is returned before depends on the block alone.
    unsafe { thread::sync_threads() };
    // SAFETY: all threads are here; nobody reads or writes the buffers.
    unsafe {
        let mut i = 0;
        // Opaque, or LLVM would unroll the loop.
        while i < thread::black_box(2) {
            thread::no_unroll();
            next::<THREADS, ROWS>(&mut copies, i * ROWS * pitch, share, bytes);
            i += 1;
        }
    }
    let mut kept = [[[0.0; 4]; TILES]; KEPT];
    // The first row of outputs that is finished in this step; before row 0 their sums are only begun.
    let mut done = -((SUBTILE as usize * KEPT) as i32);
    let (mut fill, mut read) = (2 * ROWS * pitch, 0);
    loop {
        thread::no_unroll();
        // This step's rows have arrived, and nobody reads those of the step before any more.
        wait_group::<1>();
        // SAFETY: all threads are here: the loop over steps depends on the block alone.
        unsafe { thread::sync_threads() };
        if done + 2 * (ROWS as i32) < rows {
            // SAFETY: all threads are here; see above.
            unsafe { next::<THREADS, ROWS>(&mut copies, fill, share, bytes) };
        } else {
            commit_group();
        }
        let from = own.offset(read).cast::<F32x2>();
        // SAFETY: all lanes are here; the rows have arrived, the tables were written before the barrier; the rows from `done` on to `rows`
        // are the strip's.
        unsafe {
            let filtered = filter_rows::<BLOCKS, TILES, SUBTILES>(from, pitch, row_table, elements);
            let zero = (params.width >> 31) as u32;
            filter_columns(&filtered, column_table, zero, &mut kept, |finished: &[[Sums; TILES]; SUBTILES]| {
                let most = rows - done;
                // From the number of the thread each time, so that no register holds it.
                let corner = first_column + (thread::black_box(thread::thread_idx_x()) / 32 * COLUMNS) as i32;
                // Opaque: computed here, for the same reason.
                let params = Params { scale: here(params.scale), ..params };
                let (scale, offset) = params.exact_finish();
                let results = Results { result, params, x: corner, y: first + done, scale, offset };
                if done < 0 {
                    return;
                }
                if !are_finite(finished) {
                    nonfinite_fallback::slow::<COLUMNS, SUBTILES>(
                        image,
                        result,
                        mask,
                        &params,
                        (corner, first + done),
                        most,
                    );
                } else if corner + COLUMNS as i32 <= params.width && most >= ROWS as i32 {
                    results.write(finished);
                } else {
                    results.write_some(finished, most);
                }
            });
        }
        done += ROWS as i32;
        if done >= rows {
            return;
        }
        fill = read;
        read = if read == (STAGES - 1) * ROWS * pitch { 0 } else { read + ROWS * pitch };
    }
}

/// Begins the copies of a step's rows.
///
/// # Safety
/// As for [`Copies::next_shared`].
#[inline(always)]
unsafe fn next<const THREADS: u32, const ROWS: u32>(
    copies: &mut Copies<THREADS>,
    at: u32,
    share: (u32, u32),
    bytes: u32,
) {
    let mut row = 0;
    while row < ROWS {
        // SAFETY: the caller's promise.
        unsafe { copies.next_shared(at + row * copies.pitch, share, bytes) };
        row += RUN as u32;
    }
    commit_group();
}

/// The number, exchanged with itself: the assembler would compute it again and again, from the number of the thread on, and wait for that.
///
/// # Safety
/// All 32 lanes of the warp execute this call together.
#[inline(always)]
unsafe fn pin_register(number: u32) -> u32 {
    // SAFETY: all lanes are here, as required above; the block is whole warps.
    unsafe { warp::shuffle_xor(number, 0) }
}

/// Filters the rows of a step, the columns of a warp, from the lane's first two pixels on.
///
/// # Safety
/// All lanes of the warp call it; everything was written before the last barrier.
#[inline(always)]
unsafe fn filter_rows<const BLOCKS: usize, const TILES: usize, const SUBTILES: usize>(
    from: Shared<F32x2>,
    pitch: u32,
    table: Shared<F32x4>,
    elements: u32,
) -> [[Filtered; TILES]; SUBTILES] {
    let mut large = [[[0.0; 4]; TILES]; SUBTILES];
    let mut small = [[[0.0; 4]; TILES]; SUBTILES];
    let load = |block: usize| -> [[Factor; 2]; SUBTILES] {
        core::array::from_fn(|subtile| {
            let at = subtile as u32 * SUBTILE * pitch / 2 + 4 * block as u32;
            // SAFETY: the caller's promise.
            unsafe { from.load(at) }.0.map(Factor::of)
        })
    };
    // The second tile's columns begin two blocks later.
    let ahead = 2 * (TILES - 1);
    let mut pixels = [load(0), load(0), load(0)];
    for block in 0..ahead {
        pixels = [pixels[1], pixels[2], load(block)];
    }
    // One more block than for 8 outputs: a tile has 16.
    for block in 0..BLOCKS + 1 {
        pixels = [pixels[1], pixels[2], load(block + ahead)];
        let at = SUBTILE * block as u32;
        // SAFETY: the caller's promise.
        let (F32x4(first), F32x4(rest)) = unsafe { (table.load(at), table.load(elements + at)) };
        for subtile in 0..SUBTILES {
            for tile in 0..TILES {
                let pixels = pixels[2 - ahead + 2 * tile][subtile];
                // SAFETY: all lanes are here: the loops are the same for all of them.
                large[subtile][tile] = unsafe { add_high(first, pixels, large[subtile][tile]) };
            }
        }
        for subtile in 0..SUBTILES {
            for tile in 0..TILES {
                let pixels = pixels[2 - ahead + 2 * tile][subtile];
                // SAFETY: all lanes are here: the loops are the same for all of them.
                small[subtile][tile] = unsafe { add_low(rest, pixels, small[subtile][tile]) };
            }
        }
    }
    core::array::from_fn(|subtile| {
        core::array::from_fn(|tile| {
            core::array::from_fn(|i| Factor::of(large[subtile][tile][i] + small[subtile][tile][i]))
        })
    })
}

/// Adds filtered rows to the sums of all outputs that need them. `finish` gets those that are finished, as soon as they are. `zero` is 0, which
/// the compiler must not know.
///
/// # Safety
/// As for [`filter_rows`].
#[inline(always)]
unsafe fn filter_columns<const KEPT: usize, const TILES: usize, const SUBTILES: usize>(
    filtered: &[[Filtered; TILES]; SUBTILES],
    mut table: Shared<F32x4>,
    zero: u32,
    kept: &mut [[Sums; TILES]; KEPT],
    mut finish: impl FnMut(&[[Sums; TILES]; SUBTILES]),
) {
    let mut finished = [[[0.0; 4]; TILES]; SUBTILES];
    // Group `j` of 8 outputs takes 8 rows with coefficients `KEPT - j` blocks on, each next 8 rows with those one block later.
    // SAFETY: the caller's promise.
    let load = |table: Shared<F32x4>, group: usize| unsafe { table.load(SUBTILE * (KEPT - group) as u32) }.0;
    let takes = |group: usize, subtile: usize| group >= subtile && group <= KEPT + subtile;
    let small = |group: usize, coefficients: &[[f32; 4]; SUBTILES]| -> [Sums; TILES] {
        let mut sums = [[0.0; 4]; TILES];
        for subtile in 0..SUBTILES {
            if takes(group, subtile) {
                let [.., a, b] = coefficients[subtile];
                for tile in 0..TILES {
                    // SAFETY: all lanes are here: loops and conditions are the same for all of them.
                    sums[tile] = unsafe { add_low_columns(&filtered[subtile][tile], [a, b], sums[tile]) };
                }
            }
        }
        sums
    };
    let mut next = [[0.0; 4]; SUBTILES];
    next[0] = load(table, 0);
    let mut sums = small(0, &next);
    for group in 0..KEPT + SUBTILES {
        let (coefficients, mut new) = (next, sums);
        for subtile in (1..SUBTILES).rev() {
            next[subtile] = next[subtile - 1];
        }
        if group < KEPT {
            next[0] = load(table, group + 1);
        }
        if group + 1 < KEPT + SUBTILES {
            sums = small(group + 1, &next);
        }
        for subtile in 0..SUBTILES {
            if takes(group, subtile) {
                let [a, b, ..] = coefficients[subtile];
                for tile in 0..TILES {
                    // SAFETY: all lanes are here: loops and conditions are the same for all of them.
                    new[tile] = unsafe { add_high_columns(&filtered[subtile][tile], [a, b], new[tile]) };
                }
            }
        }
        for tile in 0..TILES {
            if group < KEPT {
                new[tile] = core::array::from_fn(|i| here(kept[group][tile][i] + new[tile][i]));
            }
        }
        if group >= SUBTILES && KEPT > 8 {
            // Always by 0, which the assembler can't know: it would load the coefficients of all groups first, and have too few registers.
            table = table.offset(new[0][0].to_bits() & zero);
        }
        if group < SUBTILES {
            finished[group] = new;
            if group + 1 == SUBTILES {
                finish(&finished);
            }
        } else {
            kept[group - SUBTILES] = new;
        }
    }
}

/// The value, computed at this place: LLVM would put off all sums until after all products, which would need registers.
#[inline(always)]
fn here(value: f32) -> f32 {
    f32::from_bits(thread::black_box(value.to_bits()))
}

/// Whether all sums of the warp are finite.
///
/// # Safety
/// All 32 lanes of the warp execute this call together.
#[inline(always)]
unsafe fn are_finite<const TILES: usize, const SUBTILES: usize>(sums: &[[Sums; TILES]; SUBTILES]) -> bool {
    let mut zero = [0.0; 4];
    for sums in sums.as_flattened() {
        for (zero, &sum) in zero.iter_mut().zip(sums) {
            *zero = fma(sum, 0.0, *zero);
        }
    }
    let [a, b, c, d] = zero;
    // SAFETY: all lanes are here, as required above; the block is whole warps.
    unsafe { warp::ballot(((a + b) + (c + d)).is_nan()) == 0 }
}

/// Where a warp's results of a step go.
struct Results {
    result: GlobalMut<f32>,
    params: Params,
    /// The first one's column.
    x: i32,
    /// Its row.
    y: i32,
    scale: f32,
    offset: f32,
}

impl Results {
    /// Writes `scale * sum + offset` of each.
    ///
    /// # Safety
    /// The rows and the columns are in the result, and this warp's.
    #[inline(always)]
    unsafe fn write<const TILES: usize, const SUBTILES: usize>(&self, sums: &[[Sums; TILES]; SUBTILES]) {
        self.each(sums, |to, _, _, value| {
            // SAFETY: the caller's promise.
            unsafe { to.store(0, value) };
        });
    }

    /// The same of at most `most` rows, and of columns that are in the result.
    ///
    /// # Safety
    /// The rows are in the result; the columns that are in it are this warp's.
    #[inline(always)]
    unsafe fn write_some<const TILES: usize, const SUBTILES: usize>(
        &self,
        sums: &[[Sums; TILES]; SUBTILES],
        most: i32,
    ) {
        self.each(sums, |to, column, row, value| {
            if self.x + column < self.params.width && row < most {
                // SAFETY: the caller's promise.
                unsafe { to.store(0, value) };
            }
        });
    }

    /// Each of the lane's results: its place, by how many columns and rows it lies beyond the warp's first one, and its value.
    #[inline(always)]
    fn each<const TILES: usize, const SUBTILES: usize>(
        &self,
        sums: &[[Sums; TILES]; SUBTILES],
        mut store: impl FnMut(GlobalMut<f32>, i32, i32, f32),
    ) {
        let lane = thread::black_box(thread::thread_idx_x()) % 32;
        let (g, t) = (lane as i32 / 4, lane as i32 % 4);
        let pitch = thread::black_box(self.params.dst_pitch as u32) as i32 as isize;
        let mut row = self.result.offset(self.params.dst_index(self.x + g, self.y + 2 * t));
        for (subtile, sums) in sums.iter().enumerate() {
            for odd in 0..2 {
                for (tile, sums) in sums.iter().enumerate() {
                    for right in 0..2 {
                        let column = 16 * tile as i32 + 8 * right;
                        let sum = sums[2 * right as usize + odd];
                        let value = fma(sum, self.scale, self.offset);
                        let below = (8 * subtile + odd) as i32;
                        store(row.offset(column as isize), g + column, 2 * t + below, value);
                    }
                }
                row = row.offset(if odd == 0 { pitch } else { 7 * pitch });
            }
        }
    }
}

crate::registry::instances! {
    SeparableTensorCore;
    sm_80 "separable_tensor_core_{T}_c{C}_blocks_{BLOCKS}" for T in [f32], C in [1], BLOCKS in [5, 7, 9, 13, 17];
        |image, result, mask, params| {
            separable_tensor::<
                { BLOCKS as usize },
                { BLOCKS as usize - 1 },
                { tiles(BLOCKS) as usize },
                { subtiles(BLOCKS) as usize },
                { 16 * tiles(BLOCKS) },
                { rows(BLOCKS) },
                { 32 * warps(BLOCKS) },
            >(image, result.cast(), mask, params)
        }
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "separable_tensor_core",
    summary: "separable masks in the tensor cores, each number split into two",
    reason: "a separable mask: rows, then columns, in the tensor cores, within an error bound",
    accuracy: Accuracy::Bounded {
        error_constant: |entry, _| error_constant(entry.class()),
        arithmetic: Arithmetic::SplitTf32,
    },
    mask_memory: MaskMemory::Global,
    mask_form: MaskForm::Factors(FactorPlaces::side_by_side),
    mask_class: Some(MaskClass {
        contains: |class, (width, height), origin_x| blocks(width, height, origin_x) <= class,
        example: |class| (2, 8 * class - 7),
        masks: "masks of up to 129 columns and rows, with some anchors 128 columns",
    }),
    results: f32_result,
    border_is_pixel: |_| false,
    requirement: |request| match request.factor_exponents {
        Some((least, most)) if least < EXPONENTS.0 || most > EXPONENTS.1 => Err(Ineligible::Range {
            property: "binary exponents of the coefficients of the row and column factors",
            required: (EXPONENTS.0 as f32, EXPONENTS.1 as f32),
            found: (least as f32, most as f32),
        }),
        Some(_) | None => Ok(()),
    },
    uses_fp32_units: false,
    grid: Grid::Partition(Partition {
        least_rows: |entry, mask_height| rows(entry.class()) + block_tile::reach(mask_height),
        step: STRIP_STEP,
        row_step: STRIP_STEP,
        occupancy: |_, _| Occupancy { blocks_per_sm: block_tile::RESIDENT, waves: block_tile::WAVES },
    }),
    block: |entry| (32 * warps(entry.class()), 1),
    outputs: |entry| (columns(entry.class()), rows(entry.class())),
    shared_bytes: |entry, _| shared_bytes(entry.class()),
    // So many threads would get fewer registers than they need; one block is enough.
    launch_bounds: |entry| Some((32 * warps(entry.class()), 1)),
    convergent: |entry| convergent(entry.class()),
};
