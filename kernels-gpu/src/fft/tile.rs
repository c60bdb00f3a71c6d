//! Overlap-save: a block transforms a pair of tiles, multiplies by the mask's spectrum and transforms back, in one
//! kernel.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! # Tiling
//! A tile has 128 x 128 pixels. The circular correlation with a mask of `w x h` is right at its first `129 - w` columns
//! and `129 - h` rows. So tiles begin that far apart, and overlap. Two tiles side by side make one complex tile: the
//! pixels of the first are the real parts, those of the second the imaginary parts. The mask is real, so the same holds
//! for the results.
//!
//! # Thread mapping
//! 128 = 32 x 4 along both axes. A block has 512 threads and keeps the whole tile in registers, 32 points a thread:
//! ```text
//! rows        thread (r, t)       columns t + 4 j of row r:            32 points, then factors for t
//! columns     thread (k, s, t)    rows s + 4 i of column frequency k:  32 points, then factors for s
//! both        thread p            the 4 x 4 points that are left of both axes for frequencies k and l,
//!                                 times the spectrum, and back
//! columns, rows                   the inverse transforms in the opposite order
//! ```
//! Between two steps the tile goes through shared memory. The threads that have a column frequency belong to one warp,
//! so two of these exchanges need no barrier of the block. Rows of the image go through shared memory, too, so that a
//! warp reads and writes neighbouring pixels.
//!
//! # Bank conflicts
//! Rows of pixels are 132 complex numbers apart. The order after the row step is by column frequency, and neighbouring
//! threads have neighbouring numbers. The 16 points of a group are permuted by an exclusive or with the group's number.
//!
//! # Accuracy
//! Each result is proven to keep its bound, or it is computed again by the direct sum; see [`error`](super::error). The
//! mean of each tile is subtracted first, which makes the errors smaller.
//! - Results that hold are stored at once.
//! - A few fail: the warps of the block share a list of them. The lanes of a warp add the products of a window together,
//!   one window after the other.
//! - Many fail, or the sum of squares is too large or NaN: the block computes all results again, in the order of the
//!   direct kernels.

use cuda_std::prelude::*;

use super::complex::Complex;
use super::direct::{self, Direct};
use super::error::Transforms;
use super::failures::{self, Failures, count};
use super::judge::Judge;
use super::layout::{COEFFICIENTS, GROUPS, Header, LARGEST_MASK, LONG, SHORT, SIDE, SPECTRUM, TWIDDLES};
use super::load::{Facts, Pair};
use super::transform::{POINTS, reversed, transform_4, transform_32};
use super::warp_sum;
use crate::abi::kernel::Convergent;
use crate::abi::params::Params;
use crate::registry::{Accuracy, Arithmetic, Grid, Ineligible, MaskForm, MaskMemory, Request, Spec, f32_result};

/// Threads of a block.
pub const THREADS: u32 = 512;
/// Warps of a block.
pub(super) const WARPS: u32 = THREADS / 32;
/// Rows that a warp loads and stores.
pub(super) const ROWS_OF_WARP: u32 = SIDE / WARPS;
/// Complex numbers from one row of pixels to the next in shared memory.
pub(super) const PITCH: u32 = SIDE + 4;

/// Columns and rows of results of one tile, for a mask.
#[must_use]
pub const fn valid((mask_width, mask_height): (u32, u32)) -> (u32, u32) {
    (valid_of(mask_width), valid_of(mask_height))
}

/// The same for one axis. The size of the mask is checked before a launch. Here the limit spares a panic.
const fn valid_of(side: u32) -> u32 {
    if side > LARGEST_MASK { SIDE + 1 - LARGEST_MASK } else { SIDE + 1 - side }
}

/// With more failures than this the block computes all results again. That takes it as long as some 30 windows of each
/// warp. The list of them takes the place of the factors and the table, which have room for this many.
const MOST_FAILURES: u32 = WARPS * 32;
const _: () = assert!(4 * MOST_FAILURES == 8 * SIDE + 4 * 2 * SIDE);

/// The convergent instructions of the source.
pub const CONVERGENT: Convergent = Convergent {
    // The last two: whether there are failures; the pixels for the direct sums.
    barriers: 9 + 2,
    warp_barriers: 2,
    // Facts: 4 numbers; squares.
    shuffles: 5 * (4 + 1),
    votes: 1,
    ..Convergent::NONE
}
.and(failures::CONVERGENT);

/// The parts of a block's shared memory.
#[derive(Clone, Copy)]
pub(super) struct SharedParts {
    /// The tile, in the order of the step.
    pub(super) exchange: Shared<F32x2>,
    twiddles: Shared<F32x2>,
    table: Shared<i32>,
    /// For each warp: the sums and the least magnitudes of its pixels. Behind them: those of all.
    facts: Shared<F32x4>,
    /// For each warp: its sum of squares, and 0 if all numbers are 0.
    squares: Shared<F32x2>,
    /// One 0.
    zero: Shared<u32>,
    /// The mask for the direct sum.
    pub(super) coefficients: Shared<f32>,
}

/// Bytes in front of the coefficients.
const FIXED_BYTES: u32 = 8 * (SIDE * PITCH + SIDE) + 4 * 2 * SIDE + 16 * (WARPS + 1) + 8 * WARPS + 16;

impl SharedParts {
    #[inline(always)]
    fn new() -> Self {
        let exchange = Shared::<F32x2>::dynamic();
        let twiddles = exchange.offset(SIDE * PITCH);
        let table = twiddles.offset(SIDE).cast::<i32>();
        let facts = table.offset(2 * SIDE).cast::<F32x4>();
        let squares = facts.offset(WARPS + 1).cast::<F32x2>();
        let zero = squares.offset(WARPS).cast::<u32>();
        let coefficients = zero.offset(4).cast::<f32>();
        Self { exchange, twiddles, table, facts, squares, zero, coefficients }
    }
}

/// The calling thread's number plus a zero from shared memory. So the assembler takes it for another number after each
/// barrier. Otherwise it would keep the addresses of one step in registers until another step needs them.
///
/// # Safety
/// - The zero is in shared memory, and a barrier has passed since.
#[inline(always)]
unsafe fn this_thread(parts: &SharedParts) -> u32 {
    // SAFETY: as this function requires.
    thread::thread_idx_x() + unsafe { parts.zero.load(0) }
}

/// What a block computes.
#[derive(Clone, Copy)]
struct Place {
    /// The first result of the first tile.
    x: i32,
    y: i32,
    /// Columns and rows of results of one tile.
    valid: (u32, u32),
    /// Columns and rows of each tile whose results lie in the image.
    wanted_columns: [i32; 2],
    wanted_rows: i32,
}

impl Place {
    #[inline(always)]
    fn of_block(params: &Params) -> Self {
        let valid = valid((params.mask_width as u32, params.mask_height as u32));
        let x = (thread::black_box(thread::block_idx_x()) * 2 * valid.0) as i32;
        let y = (thread::black_box(thread::block_idx_y()) * valid.1) as i32 + params.first_row;
        let columns = valid.0 as i32;
        let wanted_columns = [columns.min(params.width - x), columns.min(params.width - x - columns)];
        Self { x, y, valid, wanted_columns, wanted_rows: (valid.1 as i32).min(params.height - y) }
    }

    #[inline(always)]
    fn pair(&self, params: &Params, image: Global<f32>, parts: &SharedParts) -> Pair {
        let (left, top) = (self.x - params.origin_x, self.y - params.origin_y);
        let distance = self.valid.0;
        // What lies further to the right or below serves no result.
        let columns = (2 * distance as i32).min(params.width - self.x);
        let last = (columns + params.mask_width - 2, self.wanted_rows + params.mask_height - 2);
        let edge = !params.contains::<1>(left, top, (SIDE + distance) as i32, SIDE as i32);
        Pair { image, left, top, last, distance, table: parts.table, edge }
    }
}

/// The factor `exp(-2 pi i t q / 128)`.
///
/// # Safety
/// - The factors are in shared memory, `q < 32` and `t < 4`.
#[inline(always)]
unsafe fn twiddle(parts: &SharedParts, q: u32, t: u32) -> Complex {
    // SAFETY: as this function requires.
    unsafe { parts.twiddles.load(q * SHORT + t) }.into()
}

/// The kernel.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, and do not overlap.
/// - `mask` is as [`layout`](super::layout) describes, for the mask in `params`. It is aligned to 16 bytes.
/// - The block has [`THREADS`] threads, and the shared memory of [`SPEC`].
#[inline(always)]
pub unsafe fn fft_tile(image: Global<f32>, result: GlobalMut<f32>, mask: Global<f32>, params: Params) {
    let parts = SharedParts::new();
    let thread = thread::thread_idx_x();
    let (warp, lane) = (thread / 32, thread % 32);
    let place = Place::of_block(&params);
    let pair = place.pair(&params, image, &parts);
    let edge = pair.edge;
    if thread < SIDE {
        // SAFETY: the mask holds 128 factors, and so does this part of shared memory. Each thread copies its own.
        unsafe {
            let factor = mask.offset(TWIDDLES as isize).cast::<F32x2>().load(thread as isize);
            parts.twiddles.store(thread, factor);
        }
    }
    if thread == 0 {
        // SAFETY: one thread stores it.
        unsafe { parts.zero.store(0, 0) };
    }
    if edge {
        // SAFETY: all threads of the block take this branch. The table has room for 256 columns.
        unsafe {
            pair.fill_table(&params, thread);
            thread::sync_threads();
        }
    }
    // SAFETY: the table is filled; each warp loads its own rows.
    let facts = unsafe { pair.load(&params, parts.exchange, (warp, lane)) };
    // SAFETY: all threads of the block call these, with a barrier between. It completes the pixels and the factors,
    // too.
    let transformed = unsafe {
        publish_facts(&parts, facts, (warp, lane));
        thread::sync_threads();
        let facts = all_facts(&parts);
        if thread == 0 {
            facts.store(parts.facts, WARPS);
        }
        transform(&parts, mask, facts.mean())
    };

    // From here on nothing lives in registers that did before: they hold 64 numbers of a transform in between.
    // SAFETY: the zero was stored before the first barrier.
    let thread = unsafe { this_thread(&parts) };
    let (warp, lane) = (thread / 32, thread % 32);
    let place = Place::of_block(&params);
    let Place { x, y, valid, wanted_columns, wanted_rows } = place;
    let (row, t) = (thread / SHORT, thread % SHORT);
    for j in 0..POINTS {
        let column = t + SHORT * j as u32;
        // SAFETY: (row, column) is this thread's alone, and lies in the tile. All threads have passed the barrier after
        // their last reads.
        unsafe { parts.exchange.store(row * PITCH + column, transformed[reversed(j)].into()) };
    }
    // SAFETY: all threads of the block are here. The mask begins with its header. Thread 0 stored the facts, and the
    // squares were complete, at a barrier within `transform`.
    let judge = unsafe {
        thread::sync_threads();
        judge(&Header::load(mask), &parts, &Facts::load(parts.facts, WARPS))
    };
    let (factor, summand) = params.exact_finish();
    // Otherwise each result loads it again.
    let factor = f32::from_bits(thread::black_box(factor.to_bits()));
    let (mut failures, mut q) = (0, 0);
    while q < thread::black_box(ROWS_OF_WARP) {
        thread::no_unroll();
        let row = warp * ROWS_OF_WARP + q;
        q += 1;
        if row as i32 >= wanted_rows {
            break;
        }
        let first = result.offset(params.dst_index(x + lane as i32, y + row as i32));
        let tiles = [first, first.offset(valid.0 as isize)];
        for group in 0..SIDE / 32 {
            let column = group * 32;
            // SAFETY: row and column are below 128.
            let sums = judge.sums(unsafe { parts.exchange.load(row * PITCH + column + lane) }.into());
            for tile in 0..2 {
                let (value, holds) = (fma(sums[tile], factor, summand), judge.accepts(tile, sums[tile]));
                let is_wanted = ((column + lane) as i32) < wanted_columns[tile];
                // No branches.
                if is_wanted & holds {
                    // SAFETY: the column lies in the result, and no other thread stores there.
                    unsafe { tiles[tile].store(column as isize, value) };
                }
                failures += u32::from(is_wanted & !holds);
            }
        }
    }
    // SAFETY: all threads of the block are here.
    if !unsafe { thread::sync_threads_or(failures > 0) } {
        return;
    }
    let coefficients = mask.offset(COEFFICIENTS as isize);
    /// Groups of 32 columns of both tiles.
    const GROUPS_OF_ROW: u32 = 2 * SIDE / 32;
    // SAFETY: all threads of the block are here, and after the barrier they take the same branch. Nobody uses the
    // squares, the factors and the table any more, but for the table in the first branch. In that branch, nobody uses
    // the tile any more. Row and column are below 128.
    unsafe {
        let (number, before) = count::<WARPS>(parts.squares, failures);
        if number > MOST_FAILURES {
            let pair = place.pair(&params, image, &parts);
            let direct = Direct { pair, params, coefficients, result, x, y };
            direct.tiles(&parts, valid, (wanted_columns, wanted_rows));
            return;
        }
        let mut failures = Failures::<WARPS>::new(parts.twiddles.cast(), before);
        let mut part = 0;
        // 4 groups of columns of 2 tiles in each row. The bound is opaque, so that the loop stays rolled.
        while part < thread::black_box(ROWS_OF_WARP * GROUPS_OF_ROW) {
            thread::no_unroll();
            let (row, group) = (warp * ROWS_OF_WARP + part / GROUPS_OF_ROW, part % GROUPS_OF_ROW);
            part += 1;
            let (column, is_second) = (group / 2 * 32 + lane, group % 2 != 0);
            let [of_first, of_second] = judge.sums(parts.exchange.load(row * PITCH + column).into());
            let fails = if is_second {
                (column as i32) < wanted_columns[1] && !judge.accepts(1, of_second)
            } else {
                (column as i32) < wanted_columns[0] && !judge.accepts(0, of_first)
            };
            let column_of_pair = column + if is_second { valid.0 } else { 0 };
            failures.add(fails && (row as i32) < wanted_rows, (column_of_pair, row));
        }
        failures.compute(number, (image, result, coefficients), &params, (x, y));
    }
}

/// Which results hold.
///
/// # Safety
/// - The squares of all warps are in shared memory, and a barrier has passed.
#[inline(always)]
unsafe fn judge(header: &Header, parts: &SharedParts, facts: &Facts) -> Judge {
    let mean = facts.mean();
    let (mut squares, mut any) = (0.0, 0.0);
    for warp in 0..WARPS {
        // SAFETY: each warp has stored its squares.
        let F32x2([of_warp, any_of_warp]) = unsafe { parts.squares.load(warp) };
        squares += of_warp;
        any += any_of_warp;
    }
    Judge::new(header, (squares, any), mean, facts.least)
}

/// Leaves what a warp knows of its pixels in shared memory.
///
/// # Safety
/// - All threads of the block call this, and no thread reads the facts before the next barrier.
#[inline(always)]
unsafe fn publish_facts(parts: &SharedParts, facts: Facts, (warp, lane): (u32, u32)) {
    let mut of_warp = facts;
    for tile in 0..2 {
        // SAFETY: all lanes of the warp are here.
        unsafe {
            of_warp.sum[tile] = warp_sum(of_warp.sum[tile]);
            for step in 0..5 {
                let least = &mut of_warp.least[tile];
                *least = least.min(warp::shuffle_xor(*least, 16 >> step));
            }
        }
    }
    if lane == 0 {
        // SAFETY: each warp has a place of its own.
        unsafe { of_warp.store(parts.facts, warp) };
    }
}

/// The facts of the whole pair.
///
/// # Safety
/// - All warps have published theirs, and a barrier has passed.
#[inline(always)]
unsafe fn all_facts(parts: &SharedParts) -> Facts {
    let mut all = Facts::NONE;
    for warp in 0..WARPS {
        // SAFETY: each warp has published its facts.
        let Facts { sum, least } = unsafe { Facts::load(parts.facts, warp) };
        all.sum = [all.sum[0] + sum[0], all.sum[1] + sum[1]];
        all.least = [all.least[0].min(least[0]), all.least[1].min(least[1])];
    }
    all
}

/// Transforms the pair of tiles, multiplies by the spectrum and transforms back.
///
/// The calling thread gets the points of its row; result `j` is element `reversed(j)`. All threads have done their last
/// reads of the exchange when this returns.
///
/// # Safety
/// - All threads of the block call this. The exchange holds the pixels, and the factors are there.
/// - `mask` is as [`layout`](super::layout) describes.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
unsafe fn transform(parts: &SharedParts, mask: Global<f32>, mean: [f32; 2]) -> [Complex; POINTS] {
    let exchange = parts.exchange;
    let mut v = [Complex::ZERO; POINTS];
    // The column frequency of a thread, and which of 4 x 4 points.
    let of_columns = |thread: u32| (thread / 16, thread % 16, thread % 16 / SHORT);
    let thread = thread::thread_idx_x();
    let (row, t) = (thread / SHORT, thread % SHORT);
    let mean = Complex { re: mean[0], im: mean[1] };
    // SAFETY: all threads of the block are here. All places are below 128 * 132. Each is written by one thread between
    // two barriers, and read by one; see the comments where a barrier of the warp is enough.
    unsafe {
        let (mut squares, mut bits) = (0.0_f32, 0);
        for j in 0..POINTS {
            let z = Complex::from(exchange.load(row * PITCH + t + SHORT * j as u32)) - mean;
            squares = fma(z.re, z.re, fma(z.im, z.im, squares));
            bits |= z.re.to_bits() | z.im.to_bits();
            v[j] = z;
        }
        let squares = warp_sum(squares);
        // Not the signs: -0 is 0.
        let any = warp::ballot(bits << 1 != 0);
        if thread.is_multiple_of(32) {
            parts.squares.store(thread / 32, F32x2([squares, if any != 0 { 1.0 } else { 0.0 }]));
        }
        transform_32::<false>(&mut v);
        thread::sync_threads();
        let thread = this_thread(parts);
        let t = thread % SHORT;
        for q in 0..POINTS {
            let z = v[reversed(q)];
            let z = if q == 0 { z } else { z.times(twiddle(parts, q as u32, t)) };
            exchange.store(q as u32 * THREADS + thread, z.into());
        }
        thread::sync_threads();

        let (k, point, _) = of_columns(this_thread(parts));
        for i in 0..POINTS {
            v[i] = exchange.load(k * THREADS + 16 * i as u32 + point).into();
        }
        transform_32::<false>(&mut v);
        // The 512 numbers of a column frequency are read and written by half a warp.
        warp::sync_warp();
        let (k, point, s) = of_columns(this_thread(parts));
        for q in 0..POINTS {
            let z = v[reversed(q)];
            let z = if q == 0 { z } else { z.times(twiddle(parts, q as u32, s)) };
            exchange.store(place(k * LONG + q as u32, point), z.into());
        }
        thread::sync_threads();

        let thread = this_thread(parts);
        let mut group = thread;
        while group < GROUPS {
            thread::no_unroll();
            multiply(exchange, mask, group);
            group += THREADS;
        }
        thread::sync_threads();

        let (k, point, s) = of_columns(this_thread(parts));
        for q in 0..POINTS {
            let z = Complex::from(exchange.load(place(k * LONG + q as u32, point)));
            v[q] = if q == 0 { z } else { z.times(twiddle(parts, q as u32, s).conjugate()) };
        }
        transform_32::<true>(&mut v);
        // As above.
        warp::sync_warp();
        let (k, point, _) = of_columns(this_thread(parts));
        for i in 0..POINTS {
            exchange.store(k * THREADS + 16 * i as u32 + point, v[reversed(i)].into());
        }
        thread::sync_threads();

        let thread = this_thread(parts);
        let t = thread % SHORT;
        for q in 0..POINTS {
            let z = Complex::from(exchange.load(q as u32 * THREADS + thread));
            v[q] = if q == 0 { z } else { z.times(twiddle(parts, q as u32, t).conjugate()) };
        }
        transform_32::<true>(&mut v);
        thread::sync_threads();
    }
    v
}

/// The place of point `point` of a group of 16.
#[inline(always)]
fn place(group: u32, point: u32) -> u32 {
    group * 16 + (point ^ (group % 16))
}

/// The 4 x 4 points of a group: transform, product by the spectrum, inverse transform.
///
/// # Safety
/// - The exchange holds the group, which is the calling thread's alone until the next barrier.
/// - `mask` is as [`layout`](super::layout) describes.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
unsafe fn multiply(exchange: Shared<F32x2>, mask: Global<f32>, group: u32) {
    let mut w = [Complex::ZERO; 16];
    for point in 0..16 {
        // SAFETY: the place is the thread's own.
        w[point] = unsafe { exchange.load(place(group, point as u32)) }.into();
    }
    for s in 0..4 {
        transform_4::<false>(&mut w, 4 * s, 1);
    }
    for t in 0..4 {
        transform_4::<false>(&mut w, t, 4);
    }
    let spectrum = mask.offset(SPECTRUM as isize).cast::<F32x4>().offset(group as isize);
    for vector in 0..8 {
        // SAFETY: the spectrum has 8 vectors of each of 1024 groups.
        let F32x4([re, im, next_re, next_im]) = unsafe { spectrum.load((vector as u32 * GROUPS) as isize) };
        w[2 * vector] = w[2 * vector].times(Complex { re, im });
        w[2 * vector + 1] = w[2 * vector + 1].times(Complex { re: next_re, im: next_im });
    }
    for t in 0..4 {
        transform_4::<true>(&mut w, t, 4);
    }
    for s in 0..4 {
        transform_4::<true>(&mut w, 4 * s, 1);
    }
    for point in 0..16 {
        // SAFETY: the place is the thread's own.
        unsafe { exchange.store(place(group, point as u32), w[point].into()) };
    }
}

crate::registry::instances! {
    FftTile;
    sm_70 "fft_tile_{T}_c{C}" for T in [f32], C in [1];
        |image, result, mask, params| fft_tile(image, result.cast(), mask, params)
}

/// The masks that a tile has room for.
fn requirement(request: &Request) -> Result<(), Ineligible> {
    let (least, most) = if request.mask.0 < request.mask.1 { request.mask } else { (request.mask.1, request.mask.0) };
    let (property, required) = ("the sides of the mask", (1.0, LARGEST_MASK as f32));
    if most > LARGEST_MASK {
        return Err(Ineligible::Range { property, required, found: (least as f32, most as f32) });
    }
    Ok(())
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "fft_tile",
    summary: "Fourier transforms of 128 x 128 tiles, two at a time, with a proof for each result",
    reason: "Fourier transforms of 128 x 128 tiles",
    accuracy: Accuracy::Bounded {
        error_constant: |_, mask| Transforms::TILE.error_constant(mask),
        arithmetic: Arithmetic::F32,
    },
    mask_memory: MaskMemory::Global,
    mask_form: MaskForm::Spectrum,
    mask_class: None,
    results: f32_result,
    border_is_pixel: |_| false,
    requirement,
    uses_fp32_units: false,
    grid: Grid::Tiles,
    block: |_| (THREADS, 1),
    outputs: |_, mask| {
        let (columns, rows) = valid(mask);
        (2 * columns, rows)
    },
    pixels_together: 1,
    shared_bytes: |_, mask| u64::from(FIXED_BYTES) + direct::coefficient_bytes(mask),
    launch_bounds: |_| Some((THREADS, 1)),
    convergent: |_| CONVERGENT,
};
