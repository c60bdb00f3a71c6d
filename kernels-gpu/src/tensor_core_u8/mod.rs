//! Bytes in the integer tensor cores, with the bits of the ordered sum in `f32`.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! A tensor core multiplies bytes with bytes and adds exactly, at about twenty times the rate of the FP32 units. It
//! knows neither `f32` nor an order. Here it computes an answer that is *nearly* right, together with a proof of how
//! near; the few pixels for which that does not settle the byte are computed again, the ordinary way. So the result is
//! right to the last bit.
//!
//! # Near, and how near
//! The host writes `scale * W` in fixed point, `Q * 2^-shift` with whole numbers `Q` of two signed bytes each. For a
//! window of bytes `T = sum of Q * I` is exact in 32 bits. `T * 2^-shift + offset` differs from the value that the
//! contract names by at most a `radius` that the host knows (`FixedPoint` in the host's plan derives it): what was cut
//! off `W`, times 255, and what `f32` rounds in so many steps. So with `y = (T + bias) * 2^-shift`, where `bias` holds
//! the offset, the half for rounding and the radius:
//! - the byte is `y`, cut off and saturated, where `y` is more than `2 * radius` above a whole number;
//! - otherwise the two might round to different bytes, or the value is just between two. Such a pixel is *uncertain*.
//!
//! Of a random mask of 7 x 7 whose sum is 1 some 0.7 % are, and of sums of whole numbers none.
//!
//! # The product
//! `multiply_add` ([`cuda_std::mma`]) takes 16 rows of 32 bytes of the image, as they lie there, and a matrix of 32
//! x 8 with a row of the mask in each column, one further down from column to column (a Toeplitz matrix): 8 columns of
//! outputs in 16 rows, for one row of the mask and one of its two bytes. Where a row and its shifts span at most 16 bytes, as up to 9 x
//! 9, two rows make one matrix; one that spans more than 32 takes several *chunks*.
//!
//! # Several channels
//! In interleaved channels the mask's row would take every third or fourth place, with zeros between, and half as many rows of it a matrix. So from 5 x 5
//! on channels lie *apart*: each warp copies its rows as they are, parts the pixels in their place, 8 at a time from registers, and computes each
//! channel like an image of one. The bytes of a pixel meet again in registers before they are written. In 3 x 3 a row with its zeros still spans
//! half a matrix; there channels stay side by side, and a column is a value.
//!
//! # Thread mapping
//! A block of [`WARPS`] warps owns [`outputs`] values of a row, walks down a strip, and computes [`ROWS`] rows a step.
//! A warp has 32 columns, or 16 of each channel, 8 at a time: 4 products of 16 rows that lie between each other, product `s` having the rows
//! `4 m + s`. So the rows
//! `4 m + t` of the image serve product `s` with row `t - s` of the mask, all 4 from registers:
//! ```text
//!   t          0   1   2   3   4   5 …      rows 4 m + t of the image, read once
//!   s = 0      0   1   2   3   4   5        row of the mask
//!   s = 1          0   1   2   3   4
//!   s = 2              0   1   2   3
//!   s = 3                  0   1   2
//! ```
//!
//! Each lane has its parts of all matrices in registers, if there are no more than `MOST_HELD`. Otherwise those of
//! `AT_A_TIME` rows come from shared memory, and serve 16 columns.
//!
//! # Shared memory
//! Two stages of `ROWS + mask_height - 1` rows of the image, one being copied while one is used, but only one where channels lie apart: there more blocks
//! at a time are worth more than copies ahead; the step's results, in
//! which uncertain pixels are replaced before they are written in pieces of 16 bytes; the list of those, in whose place flags wait before; the mask, as
//! coefficients and perhaps as matrices; at the edge a table of columns. Row `r` lies in plane `r % 4`, so that the 8 rows that a warp
//! reads at once are neighbours, an odd number of 16 bytes apart: no bank conflict.
//!
//! # What it costs
//! | | for each value of the result |
//! | --- | --- |
//! | products | 2 for each row of the mask and chunk, half of that for two rows in one, for 128 values; at the 1250 TOP/s measured for them 6.9 µs a row of the mask at 8192 x 8192 |
//! | bytes of device memory | 2; of the second-level cache `1 + mask_height / 64` times the image |
//! | instructions of a thread | about 6 to put two sums together, compare, shift and pack them; the uncertain part of `K * K` times 5 |
//!
//! On an H100 (8192 x 8192 pixels, zero border, random masks whose sum is 1); the floor is 2 bytes a value at the 2.98
//! TB/s of a copy:
//!
//! | | 3 x 3 | 5 x 5 | 7 x 7 | 9 x 9 | 11 x 11 | 13 x 13 | 15 x 15 | 21 x 21 | 31 x 31 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | one channel, µs | 60 | 65 | 76 | 84 | 140 | 158 | 203 | 307 | 931 |
//! | of the floor | 75 % | 69 % | 59 % | 53 % | 32 % | 28 % | 22 % | 15 % | 5 % |
//! | three channels, µs | 163 | 204 | 227 | 264 | 459 | | | | |
//! | of the floor | 83 % | 66 % | 59 % | 51 % | 29 % | | | | |
//! | four channels, µs | 215 | 278 | 341 | | | | | | |
//!
//! (Four channels with 7 x 7 are of an earlier version.) Up to 9 x 9 instructions, latencies and
//! the three barriers of a step bound it, for large masks the uncertain pixels: at 31 x 31, 961 products for 1.7 % of them. For a mask of any size, without a
//! kernel of its own, it takes 1.5 to 2.5 times as long.

mod deinterleave;
mod layout;
mod load;
mod mma;
mod recompute;
mod store;

use cuda_std::cp_async::wait_group;
use cuda_std::prelude::*;

use self::deinterleave::Parter;
pub use self::layout::{Layout, coefficient_pitch, header, shared_bytes};
use self::layout::{image_bytes, plane_bytes};
use self::load::Filler;
use self::mma::Products;
use self::recompute::Again;
use self::store::write;
use crate::abi::border;
use crate::abi::kernel::Convergent;
use crate::abi::params::{OutputPtr, Params};
use crate::abi::pixel::PixelType;
use crate::common::partition::block_rows;
use crate::registry::{Accuracy, Grid, Ineligible, MaskForm, MaskMemory, Occupancy, Partition, Spec};

/// Warps of a block.
pub const WARPS: u32 = 4;
/// Threads of a block.
pub const BLOCK: (u32, u32) = (32 * WARPS, 1);
/// Rows that a block computes in a step.
pub const ROWS: u32 = 64;
/// The oldest compute capability that has the products and the copies.
pub const COMPUTE_CAPABILITY: (u32, u32) = (8, 0);

/// Channels that lie apart in shared memory, each in rows of its own: all of them, or one. In several channels a row of the mask has zeros
/// between its coefficients unless they do; where it is so short that two of them make one product with their zeros, nothing is gained.
const fn apart(channels: u32, size: u32) -> u32 {
    if channels == 1 || size > 0 && TILE + (size - 1) * channels <= CHUNK / 2 { 1 } else { channels }
}

/// Values of a row that a block of the kernel for masks of `size` computes.
#[must_use]
pub const fn outputs(channels: u32, size: u32) -> u32 {
    columns(apart(channels, size))
}

/// The same by the channels that lie apart.
const fn columns(apart: u32) -> u32 {
    of_block(apart) * apart
}

/// Columns that a block computes: pixels of channels that lie apart, or else values.
const fn of_block(apart: u32) -> u32 {
    WARPS * of_warp(apart)
}

/// Those of a warp.
const fn of_warp(apart: u32) -> u32 {
    if apart == 1 { 32 } else { 16 }
}

/// A number of blocks for each multiprocessor, and how many times as many a launch has: so many that of 8192 x 8192 pixels each gets three
/// steps, measured with 1 to 43 of them; larger masks want steps of their own in one channel.
#[must_use]
pub const fn schedule(channels: u32, size: u32) -> (u32, u32) {
    let waves = match size {
        _ if apart(channels, size) > 1 => 12,
        1..=9 => 6 * channels,
        _ => 8,
    };
    (4, waves)
}

/// The blocks that a multiprocessor shall hold at a time, where the assembler has to know: as many as shared memory does, unless
/// they had too few registers then.
#[must_use]
pub const fn resident(channels: u32, size: u32) -> Option<u32> {
    match size {
        1..=5 if apart(channels, size) == 1 => Some(6),
        1..=9 if channels == 1 => Some(5),
        7 if channels == 3 => Some(5),
        _ => None,
    }
}

/// The largest part of all pixels that may be uncertain, for the kernel to be used.
pub const MOST_UNCERTAIN_PART: f32 = 0.1;

/// Uncertain values of a warp and a step that the list holds: more than that part of them. Where more are, all of the block's are computed again.
const fn most_uncertain(apart: u32) -> u32 {
    match apart {
        1 => 256,
        3 => 320,
        _ => 416,
    }
}

/// Where a warp's list begins, in entries.
const fn list_of(apart: u32, warp: u32) -> u32 {
    warp * most_uncertain(apart)
}

/// Bytes of a copy and of a piece of the result.
const PIECE: u32 = 16;
/// Pixels of several channels that a thread parts at a time.
const GRANULE: u32 = 8;
/// Products of 16 rows whose rows lie between each other; rows of the image lie in as many planes.
const PLANES: u32 = 4;
/// The same, to count with.
const TILES: usize = PLANES as usize;
/// Columns of a product.
const TILE: u32 = 8;
/// Products side by side, where matrices are in shared memory.
const ACROSS: usize = 2;
/// Bytes of a row of the image in one product.
const CHUNK: u32 = 32;
/// Words of a row of the mask in one chunk, or of a pair of rows, for the whole warp.
const WORDS: u32 = 4 * 32;
/// Rows of the mask that are in registers at a time then: zeros make up whole times of it.
const AT_A_TIME: u32 = 4;
/// The most matrices that a thread holds its part of.
const MOST_HELD: usize = 14;

/// Bytes from one row of a plane of results to the next.
const fn result_pitch(apart: u32) -> u32 {
    columns(apart) + PIECE
}

/// What the kernel for `channels` interleaved channels, and masks of `size` x `size` or any, has of each convergent
/// instruction.
#[must_use]
pub const fn convergent(channels: u32, size: u32) -> Convergent {
    // Of masks of any size nothing is held, nor unrolled, whatever their width.
    let layout = Layout::new(channels, if size > 0 { size } else { 1 }, 0, size);
    let are_apart = layout.apart > 1;
    Convergent {
        // Behind which the table is whole; in each step behind the copies, the results, and what is computed again.
        barriers: 1 + 3,
        // Behind the words that wait in the place of the list, and those of the parting.
        warp_barriers: if are_apart { 1 + deinterleave::warp_barriers(&layout, size) } else { 0 },
        matrix_products: layout.apart * mma::of_tile(&layout, size),
        // A prefix sum over the lanes, or else votes: one before the rounds and one in each.
        shuffles: if are_apart { 32_u32.ilog2() } else { 0 },
        votes: if are_apart { 1 } else { 2 },
    }
}

/// The kernel for `CHANNELS` interleaved channels, and a mask of `SIZE` x `SIZE`, or of any size where `SIZE` is 0.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels of bytes at their pitches, begin at a multiple of 16
///   bytes and do not overlap.
/// - The block is [`BLOCK`], the dynamic shared memory at least [`shared_bytes`], the border's value a whole number
///   from 0 to 255 where it stands for pixels.
/// - `mask` holds the words of the [`header`], the coefficients, and the matrices of all parts for this origin, each at
///   a multiple of 16 bytes.
#[inline(always)]
pub unsafe fn tensor<const CHANNELS: u32, const SIZE: u32>(
    image: Global<u8>,
    result: OutputPtr,
    mask: Global<f32>,
    params: Params,
) {
    let (mask_width, rows) =
        if SIZE > 0 { (SIZE, SIZE) } else { (params.mask_width as u32, params.mask_height as u32) };
    let layout = Layout::new(CHANNELS, mask_width, params.origin_x, SIZE);
    let apart = const { apart(CHANNELS, SIZE) };
    let thread = thread::thread_idx_x();
    let values = params.width * CHANNELS as i32;
    let block_v = (thread::block_idx_x() * outputs(CHANNELS, SIZE)) as i32;

    let (first, own) = block_rows::<ROWS>(&params);
    if own <= 0 {
        return;
    }
    let end = first + own;

    let plane = plane_bytes(&layout, rows);
    let stages = Shared::<u8>::dynamic();
    let results = stages.offset(image_bytes(&layout, rows));
    let list = results.offset(ROWS * result_pitch(apart));
    let counts = list.offset(WARPS * 2 * most_uncertain(apart)).cast::<u32>();
    let coefficients = counts.offset(WARPS).cast::<f32>();
    let matrices = coefficients.offset(coefficient_pitch(mask_width) * rows);
    // Words of the matrices that are not in registers.
    let of_matrices = if layout.held { 0 } else { layout.parts(rows) * WORDS };
    let table = matrices.offset(of_matrices).cast::<i32>();

    let before = layout.left * apart as i32 + layout.lead as i32;
    let left = block_v - before;
    let aligned = (params.src_pitch | before) % PIECE as i32 == 0;
    let edge = !aligned || left < 0 || left + layout.copied as i32 > values;
    if edge {
        let mut i = thread;
        while i < layout.copied {
            thread::no_unroll();
            // A multiple of the channels is added, so that the quotient is rounded down.
            let v = (left + i as i32 + (CHANNELS << 24) as i32) as u32;
            let x = border::map(params.border, (v / CHANNELS) as i32 - (1 << 24), params.width);
            let v = if x >= 0 { x * CHANNELS as i32 + (v % CHANNELS) as i32 } else { x };
            // SAFETY: the table has `pitch` elements, no fewer than `copied`; each is one thread's.
            unsafe { table.store(i, v) };
            i += BLOCK.0;
        }
    }
    let filler = Filler::<CHANNELS, SIZE> {
        image,
        params,
        edge,
        aligned,
        left,
        rows: ROWS + layout.rows(rows) - 1,
        plane,
        pitch: layout.pitch,
        bytes: layout.copied,
        table,
    };
    let parter = Parter::<CHANNELS, SIZE> { layout, rows: filler.rows, plane };
    // The table is whole before it is read.
    // SAFETY: all threads are here: what is returned before depends on the block alone.
    unsafe { thread::sync_threads() };
    let mut y = first;
    let mut stage = 0;
    // SAFETY: nobody reads or writes the stages.
    unsafe { filler.fill(stages, y - params.origin_y) };

    // Coefficients and matrices lie behind each other there and here.
    let from = mask.offset(header::WORDS as isize).cast::<F32x4>();
    let quads = (coefficient_pitch(mask_width) * rows + of_matrices) / 4;
    let mut i = thread;
    while i < quads {
        thread::no_unroll();
        // SAFETY: the caller's promise for the mask, and there is room for as much.
        unsafe { coefficients.cast::<F32x4>().store(i, from.load(i as isize)) };
        i += BLOCK.0;
    }
    let mut held = [[0; 4]; MOST_HELD];
    if layout.held {
        for part in 0..layout.parts(rows) {
            let quad = coefficient_pitch(mask_width) * rows / 4 + part * 32 + thread % 32;
            // SAFETY: the caller's promise for the mask.
            held[part as usize] = unsafe { from.load(quad as isize) }.0.map(f32::to_bits);
        }
    }
    // SAFETY: the header is there.
    let word = |index: u32| unsafe { mask.load(index as isize) }.to_bits();
    let (shift, uncertain) = (word(header::SHIFT), word(header::UNCERTAIN));
    let bias = if SIZE > 0 { [4, 5, 6, 7].map(|i| word(i) as i32) } else { [word(header::BIAS) as i32; 4] };

    let products =
        Products::<CHANNELS, SIZE> { layout, rows, matrices, plane, shift, bias, uncertain, results, list, counts };
    while y < end {
        thread::no_unroll();
        wait_group::<0>();
        let pixels = stages.offset(stage);
        if apart > 1 {
            // SAFETY: this warp's copies have come.
            unsafe { parter.part(pixels) };
        }
        // The stage is there, nobody reads any more from the other one, and the results of the step before are written.
        // SAFETY: all threads are here: the loop over rows depends on the block alone.
        unsafe { thread::sync_threads() };
        let next = y + ROWS as i32;
        if apart == 1 {
            stage = PLANES * plane - stage;
            if next < end {
                // SAFETY: see above.
                unsafe { filler.fill(stages.offset(stage), next - params.origin_y) };
            }
        }
        // SAFETY: the stage was filled, the mask copied; all threads are here.
        unsafe { products.compute(pixels, (values - block_v) / apart as i32, &held) };
        // SAFETY: all threads are here: the loop over rows depends on the block alone.
        unsafe { thread::sync_threads() };
        let again = Again { layout, rows, mask_width, plane, coefficients, list, counts, results, params };
        // SAFETY: the lists were written before the barrier; all threads are here.
        unsafe { again.run::<CHANNELS, SIZE>(pixels) };
        if apart > 1 && next < end {
            // SAFETY: nobody reads any more from this one.
            unsafe { filler.fill(pixels, next - params.origin_y) };
        }
        // Opaque, or what is computed from them would be kept from step to step in registers that the sums need.
        let column =
            if resident(CHANNELS, SIZE).is_some() { block_v } else { thread::black_box(block_v as u32) as i32 };
        let to = result.offset(params.dst_index(column, y));
        // SAFETY: results are written, all of them before a barrier; rows `y` to `end` and the columns are this
        // block's.
        unsafe { write(apart, results, to, values - block_v, end - y, params.dst_pitch) };
        y = thread::black_box(next as u32) as i32;
    }
}

/// How the lanes of a warp share out rows of `units` units: how many rows at a time, and which of them and which unit this lane has. Of a row of
/// more than 32 units a lane has every 32nd one from there on.
#[inline(always)]
const fn shared_out(units: u32, lane: u32) -> (u32, u32, u32) {
    if units > 32 { (1, 0, lane) } else { (32 / units, lane / units, lane % units) }
}

/// The thread's number, of which the compiler knows nothing: what is computed from it in a step would be kept from step
/// to step otherwise, in registers that the sums need.
#[inline(always)]
fn this_thread() -> u32 {
    thread::black_box(thread::thread_idx_x())
}

crate::registry::instances! {
    TensorCoreU8;
    sm_80 "tensor_core_u8_{T}_c{C}" for T in [u8], C in [1, 3, 4];
        |image, result, mask, params| tensor::<C, 0>(image, result, mask, params)
    sm_80 "tensor_core_u8_{T}_c{C}_{K}x{K}" for T in [u8], C in [1, 3, 4], K in [3, 5, 7, 9, 11];
        |image, result, mask, params| tensor::<C, K>(image, result, mask, params)
    sm_80 "tensor_core_u8_{T}_c{C}_{K}x{K}" for T in [u8], C in [1], K in [13, 15, 21, 31];
        |image, result, mask, params| tensor::<C, K>(image, result, mask, params)
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "tensor_core_u8",
    summary: "bytes in the tensor cores; pixels that fixed point does not decide are recomputed in order",
    reason: "bytes in the tensor cores",
    accuracy: Accuracy::Exact,
    mask_memory: MaskMemory::Global,
    mask_form: MaskForm::FixedPoint,
    mask_class: None,
    results: |_| &[PixelType::U8],
    border_is_pixel: |_| true,
    requirement: |request| {
        if request.undecided > MOST_UNCERTAIN_PART {
            let property = "fraction of the results that fixed point does not decide";
            let (required, found) = ((0.0, MOST_UNCERTAIN_PART), (request.undecided, request.undecided));
            return Err(Ineligible::Range { property, required, found });
        }
        Ok(())
    },
    uses_fp32_units: false,
    grid: Grid::Partition(Partition {
        least_rows: |_, _| ROWS,
        step: ROWS,
        row_step: 1,
        occupancy: |entry, _| {
            let (blocks_per_sm, waves) = schedule(entry.channels, entry.side());
            Occupancy { blocks_per_sm, waves }
        },
    }),
    block: |_| BLOCK,
    outputs: |entry| (outputs(entry.channels, entry.side()), ROWS),
    shared_bytes: |entry, (width, height)| shared_bytes(entry.channels, width, height, entry.side()),
    launch_bounds: |entry| resident(entry.channels, entry.side()).map(|blocks| (BLOCK.0, blocks)),
    convergent: |entry| convergent(entry.channels, entry.side()),
};
