//! Overlap-save: a block transforms a pair of tiles, multiplies by the mask's spectrum and transforms back, in one
//! kernel.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! # Tiling
//! A tile has 128 x 128 pixels. The circular correlation with a mask of `w x h` is right at its first `129 - w` columns
//! and `129 - h` rows. So tiles begin that far apart, and overlap. Two tiles make one complex tile: the pixels of the
//! first are the real parts, those of the second the imaginary parts. The mask is real, so the same holds for the
//! results.
//!
//! With one channel the two tiles lie side by side. With interleaved channels they are mostly two channels of one
//! place. Then a lane and its neighbour load and store neighbouring values. Such tiles are
//! [scaled](super::error#scales), so that a channel of small values does not lose digits to its partner.
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
//! Between two steps the tile goes through shared memory, with a barrier before the stores and one before the loads.
//! Half a warp has a whole column frequency, so a barrier of the warp is enough before the stores of both column steps.
//! Rows of the image go through shared memory, too, so that a warp reads and writes neighbouring pixels. A warp stores
//! whole rows, so a barrier of the warp is enough before it loads its results.
//!
//! # Bank conflicts
//! Rows of pixels are 132 complex numbers apart. The order after the row step is by column frequency, and neighbouring
//! threads have neighbouring numbers. The 16 points of a group are permuted by an exclusive or with the group's number.
//!
//! # Accuracy
//! Each result is proven to keep its bound, or it is computed again by the direct sum; see [`error`](super::error). The
//! mean of each tile is subtracted first, which makes the errors smaller.
//! - Results that hold are stored at once.
//! - A few fail: the warps of the block share a list of them. The lanes of a warp add the products of a window
//!   together, one window after the other.
//! - Many fail, or the sum of squares is too large or NaN: the block computes all results again, in the order of the
//!   direct kernels.

use cuda_std::prelude::*;

use super::complex::Complex;
use super::direct::{self, Direct};
use super::error::Transforms;
use super::failures::{self, Failures, count};
use super::judge::Judge;
use super::layout::{COEFFICIENTS, Header, LARGEST_MASK, SHORT, SIDE, TWIDDLES};
use super::load::Facts;
use super::place::Place;
use super::results::{GROUPS_OF_WARP, Results, place_in_tile};
use super::spectral::{self, Normalization, transform};
use super::transform::{POINTS, reversed};
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

/// The convergent instructions of the source, for images of `channels` channels.
const fn convergent(channels: u32) -> Convergent {
    Convergent {
        // Tables; facts; whether there are failures; the pixels for the direct sums.
        barriers: 4,
        // Transformed rows.
        warp_barriers: 1,
        // Facts: 4 numbers, or 6.
        shuffles: 5 * if channels == 1 { 4 } else { 6 },
        ..Convergent::NONE
    }
    .and(spectral::convergent(channels))
    .and(failures::CONVERGENT)
}

/// The parts of a block's shared memory.
#[derive(Clone, Copy)]
pub(super) struct SharedParts {
    /// The tile, in the order of the step.
    pub(super) exchange: Shared<F32x2>,
    twiddles: Shared<F32x2>,
    /// Where the pixels of each column of both tiles lie in a row of the image.
    pub(super) table: Shared<i32>,
    /// The rows of the image.
    pub(super) rows: Shared<i32>,
    /// For each warp: the sums and the least magnitudes of its pixels. Behind them: those of all.
    facts: Shared<F32x4>,
    /// For each warp: its sum of squares, and a bit for each tile with numbers other than 0.
    pub(super) squares: Shared<F32x2>,
    /// For each warp: the sums of the squares of its pixels. Behind them: the scales of both tiles.
    scales: Shared<F32x2>,
    /// One 0.
    zero: Shared<u32>,
    /// The mask for the direct sum.
    pub(super) coefficients: Shared<f32>,
}

/// Bytes in front of the coefficients.
const FIXED_BYTES: u32 = 8 * (SIDE * PITCH + SIDE) + 4 * 3 * SIDE + 16 * (WARPS + 1) + 8 * WARPS + 8 * (WARPS + 2) + 16;

impl SharedParts {
    #[inline(always)]
    fn new() -> Self {
        let exchange = Shared::<F32x2>::dynamic();
        let twiddles = exchange.offset(SIDE * PITCH);
        let table = twiddles.offset(SIDE).cast::<i32>();
        let rows = table.offset(2 * SIDE);
        let facts = rows.offset(SIDE).cast::<F32x4>();
        let squares = facts.offset(WARPS + 1).cast::<F32x2>();
        let scales = squares.offset(WARPS);
        // The vectors behind it begin at multiples of 16 bytes.
        let zero = scales.offset(WARPS + 2).cast::<u32>();
        let coefficients = zero.offset(4).cast::<f32>();
        Self { exchange, twiddles, table, rows, facts, squares, scales, zero, coefficients }
    }
}

/// The calling thread's number plus a zero from shared memory. So the assembler takes it for another number after each
/// barrier. Otherwise it would keep the addresses of one step in registers until another step needs them.
///
/// # Safety
/// - The zero is in shared memory, and a barrier has passed since.
#[inline(always)]
pub(super) unsafe fn this_thread(parts: &SharedParts) -> u32 {
    // SAFETY: as this function requires.
    thread::thread_idx_x() + unsafe { parts.zero.load(0) }
}

/// A parameter plus a zero from shared memory. Otherwise the assembler loads it again at each use.
///
/// # Safety
/// - The zero is in shared memory, and a barrier has passed since.
#[inline(always)]
unsafe fn in_register(parts: &SharedParts, value: f32) -> f32 {
    // SAFETY: as this function requires.
    f32::from_bits(value.to_bits() + unsafe { parts.zero.load(0) })
}

/// The factor `exp(-2 pi i t q / 128)`.
///
/// # Safety
/// - The factors are in shared memory, `q < 32` and `t < 4`.
#[inline(always)]
pub(super) unsafe fn twiddle(parts: &SharedParts, q: u32, t: u32) -> Complex {
    // SAFETY: as this function requires.
    unsafe { parts.twiddles.load(q * SHORT + t) }.into()
}

/// The kernel.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels of `C` channels at their pitches, and do not overlap.
/// - `mask` is as [`layout`](super::layout) describes, for the mask in `params`. It is aligned to 16 bytes.
/// - The block has [`THREADS`] threads, and the shared memory of [`SPEC`].
#[inline(always)]
pub unsafe fn fft_tile<const C: u32>(image: Global<f32>, result: GlobalMut<f32>, mask: Global<f32>, params: Params) {
    let parts = SharedParts::new();
    let thread = thread::thread_idx_x();
    let (warp, lane) = (thread / 32, thread % 32);
    let place = Place::<C>::of_block(&params);
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
        // SAFETY: all threads of the block take this branch.
        unsafe {
            pair.fill_tables(&params, thread);
            thread::sync_threads();
        }
    }
    // SAFETY: the tables are filled; each warp loads its own rows.
    let facts = unsafe { pair.load(&params, parts.exchange, (warp, lane)) };
    // SAFETY: the image is as this function requires.
    unsafe { Place::<C>::prefetch_later(&params, image, thread) };
    // SAFETY: all threads of the block call these, with a barrier between. It completes the pixels and the factors,
    // too.
    let transformed = unsafe {
        publish_facts::<C>(&parts, facts, (warp, lane));
        thread::sync_threads();
        let facts = all_facts::<C>(&parts);
        let scale = if C == 1 { [1.0; 2] } else { facts.scales() };
        if thread == 0 {
            facts.store(parts.facts, WARPS);
            if C != 1 {
                parts.scales.store(WARPS, F32x2(scale));
            }
        }
        transform::<C>(&parts, mask, Normalization { mean: facts.mean(), scale })
    };

    // From here on nothing lives in registers that did before: they hold 64 numbers of a transform in between.
    // SAFETY: the zero was stored before the first barrier.
    let thread = unsafe { this_thread(&parts) };
    let (warp, lane) = (thread / 32, thread % 32);
    let place = Place::<C>::of_block(&params);
    let (row, t) = (thread / SHORT, thread % SHORT);
    for j in 0..POINTS {
        let column = t + SHORT * j as u32;
        // SAFETY: (row, column) is this thread's alone, and lies in the tile. All threads have passed the barrier after
        // their last reads.
        unsafe { parts.exchange.store(row * PITCH + column, transformed[reversed(j)].into()) };
    }
    // SAFETY: all lanes of the warp are here. It loads only rows that it has stored. The mask begins with its header.
    // Thread 0 stored the facts and the scales, and the squares were complete, at a barrier within `transform`.
    let judge = unsafe {
        warp::sync_warp();
        judge::<C>(&Header::load(mask), &parts, &Facts::load(parts.facts, WARPS))
    };
    let results = Results { sums: parts.exchange, judge, place, result, lane };
    let first_row = warp * ROWS_OF_WARP;
    let (factor, summand) = params.exact_finish();
    // SAFETY: the zero is in shared memory. The warp has stored the sums of its rows, and their results are its own.
    let are_proven = unsafe {
        let finish = (in_register(&parts, factor), in_register(&parts, summand));
        if results.have_wide_rows() {
            results.store::<true>(first_row, &params, finish)
        } else {
            results.store::<false>(first_row, &params, finish)
        }
    };
    // SAFETY: all threads of the block are here.
    if !unsafe { thread::sync_threads_or(!are_proven) } {
        return;
    }
    let coefficients = mask.offset(COEFFICIENTS as isize);
    // SAFETY: all threads of the block are here, and after the barrier they take the same branch. Nobody uses the
    // squares, the factors and the tables any more, but for the tables in the first branch. In that branch, nobody uses
    // the tile any more.
    unsafe {
        let (number, before) = count::<WARPS>(parts.squares, results.failures(first_row));
        if number > MOST_FAILURES {
            let pair = place.pair(&params, image, &parts);
            let direct = Direct { place, pair, params, coefficients, result };
            direct.tiles(&parts);
            return;
        }
        let mut failures = Failures::<WARPS>::new(parts.twiddles.cast(), before);
        failures.add(GROUPS_OF_WARP, |group| results.fails(first_row, group));
        failures.compute::<C>(number, (image, result, coefficients), &params, |number| {
            let (is_second, in_tile) = place_in_tile(number);
            place.position(is_second, in_tile)
        });
    }
}

/// Which results hold.
///
/// # Safety
/// - The squares of all warps are in shared memory, the scales as well, and a barrier has passed.
#[inline(always)]
unsafe fn judge<const C: u32>(header: &Header, parts: &SharedParts, facts: &Facts) -> Judge {
    let (mut squares, mut tiles) = (0.0, 0);
    for warp in 0..WARPS {
        // SAFETY: each warp has stored its squares.
        let F32x2([of_warp, tiles_of_warp]) = unsafe { parts.squares.load(warp) };
        squares += of_warp;
        tiles |= tiles_of_warp.to_bits();
    }
    let any = [tiles & 1 != 0, tiles & 2 != 0];
    let mut inverse = [1.0; 2];
    if C != 1 {
        // SAFETY: thread 0 has stored the scales.
        let F32x2(scales) = unsafe { parts.scales.load(WARPS) };
        for tile in 0..2 {
            // 1 divided by a power of two. The transform of zeros is 0, whatever the other tile adds by rounding.
            let exact = f32::from_bits((254 << 23) - scales[tile].to_bits());
            inverse[tile] = if any[tile] { exact } else { 0.0 };
        }
    }
    Judge::new(header, (squares, any), (facts.mean(), facts.least), inverse)
}

/// Leaves what a warp knows of its pixels in shared memory.
///
/// # Safety
/// - All threads of the block call this, and no thread reads the facts before the next barrier.
#[inline(always)]
unsafe fn publish_facts<const C: u32>(parts: &SharedParts, facts: Facts, (warp, lane): (u32, u32)) {
    let mut of_warp = facts;
    for tile in 0..2 {
        // SAFETY: all lanes of the warp are here.
        unsafe {
            of_warp.sum[tile] = warp_sum(of_warp.sum[tile]);
            for step in 0..5 {
                let least = &mut of_warp.least[tile];
                *least = least.min(warp::shuffle_xor(*least, 16 >> step));
            }
            if C != 1 {
                of_warp.squares[tile] = warp_sum(of_warp.squares[tile]);
            }
        }
    }
    if lane == 0 {
        // SAFETY: each warp has places of its own.
        unsafe {
            of_warp.store(parts.facts, warp);
            if C != 1 {
                parts.scales.store(warp, F32x2(of_warp.squares));
            }
        }
    }
}

/// The facts of the whole pair.
///
/// # Safety
/// - All warps have published theirs, and a barrier has passed.
#[inline(always)]
unsafe fn all_facts<const C: u32>(parts: &SharedParts) -> Facts {
    let mut all = Facts::NONE;
    for warp in 0..WARPS {
        // SAFETY: each warp has published its facts.
        let Facts { sum, least, .. } = unsafe { Facts::load(parts.facts, warp) };
        all.sum = [all.sum[0] + sum[0], all.sum[1] + sum[1]];
        all.least = [all.least[0].min(least[0]), all.least[1].min(least[1])];
        if C != 1 {
            // SAFETY: as above.
            let F32x2([first, second]) = unsafe { parts.scales.load(warp) };
            all.squares = [all.squares[0] + first, all.squares[1] + second];
        }
    }
    all
}

crate::registry::instances! {
    FftTile;
    sm_70 "fft_tile_{T}_c{C}" for T in [f32], C in [1, 2, 3, 4];
        |image, result, mask, params| fft_tile::<C>(image, result.cast(), mask, params)
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
    grid: Grid::ChannelTiles,
    block: |_| (THREADS, 1),
    outputs: |_, mask| {
        let (columns, rows) = valid(mask);
        (2 * columns, rows)
    },
    pixels_together: 1,
    shared_bytes: |_, mask| u64::from(FIXED_BYTES) + direct::coefficient_bytes(mask),
    launch_bounds: |_| Some((THREADS, 1)),
    convergent: |entry| convergent(entry.channels),
};
