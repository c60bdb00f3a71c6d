//! A thread computes a tile of outputs from registers, for a mask of any size: the kernel behind
//! [`sliding_window`](crate::direct::sliding_window).
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! # Thread mapping and tiling
//! A thread computes [`COLUMNS`] x [`ROWS`] neighbouring outputs, a warp a row of 32 such tiles, a block as many rows
//! of tiles as it has warps. The thread walks over all rows of pixels that its tile needs, and along each in steps of
//! [`STEP`] columns. In a step it has `COLUMNS + STEP` neighbouring pixels in registers and multiplies them with `STEP`
//! coefficients of each row of the mask that joins this row of pixels to one of its rows of outputs:
//! ```text
//!   row of pixels r  ── row r - 0 of the mask ──> outputs of row 0
//!                    ── row r - 1 of the mask ──> outputs of row 1
//!                       …                          (those with a row of the mask between 0 and its height)
//! ```
//! So `COLUMNS * ROWS * STEP` products come out of `STEP` pixels and `ROWS * STEP` coefficients. Each output gets the
//! rows of its window from top to bottom and each row from left to right, the order of every direct kernel.
//!
//! The mask lies in shared memory, each row filled up to a multiple of `STEP` (what fills it up is multiplied with
//! nothing): four coefficients are one load, the same for a whole warp.
//!
//! # Alignment
//! Pixels are read four at a time, aligned to 16 bytes. The window of a column begins `origin_x` further left, so the
//! columns of the block begin up to three further left than its outputs, where their windows are aligned; a block
//! stores [`OUTPUTS`] of its 256 columns. Blocks at the edge read pixel by pixel, through a table of which column
//! stands for which.
//!
//! # Rows and edges
//! Only the first and last `ROWS - 1` rows of pixels miss some of the tile's rows of outputs, and are asked about; those between have a
//! loop without questions, in which the next step's pixels are read ahead. A block at the edge has a loop of its own: a
//! question before each load would make every block wait for it.
//!
//! # What it costs
//! Beside the 512 products of a whole step: 16 loads of coefficients, 2 of pixels, 17 moves. A mask's
//! width modulo `STEP` is done in steps of 4, 2 and 1.
//!
//! On an H100 (8192 x 8192, one channel, zero border); the floor is the longer of 8 bytes a pixel at
//! the 2.98 TB/s of a copy and `K * K` products a pixel at 62.5 TFLOP/s:
//!
//! | | 3 x 3 | 7 x 7 | 9 x 9 | 13 x 13 | 16 x 16 | 24 x 24 | 32 x 32 | 48 x 48 | 63 x 63 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | µs | 361 | 461 | 523 | 886 | 1017 | 1924 | 3140 | 6540 | 12,389 |
//! | of the floor | 50 % | 39 % | 35 % | 41 % | 54 % | 64 % | 70 % | 76 % | 69 % |

use cuda_std::prelude::*;

use crate::abi::border;
use crate::abi::kernel::Convergent;
use crate::abi::params::Params;
use crate::common::contributing_rows::MaskRowBits as Needed;

/// Threads of a block.
pub const BLOCK: (u32, u32) = (32, 4);

/// Columns of a thread's tile.
pub const COLUMNS: usize = 8;

/// Rows of a thread's tile.
pub const ROWS: usize = 8;

/// Columns of the mask in one step.
pub const STEP: usize = 8;

/// Columns that a block computes, stored or not.
const COMPUTED: u32 = BLOCK.0 * COLUMNS as u32;

/// Outputs of a block.
pub const OUTPUTS: (u32, u32) = (COMPUTED - 4, BLOCK.1 * ROWS as u32);

/// Elements from one row of coefficients in shared memory to the next.
#[inline(always)]
pub(crate) const fn filled_up(mask_width: u32) -> u32 {
    mask_width.next_multiple_of(STEP as u32)
}

/// Columns that the threads of a block need: those of the last step end with the last thread's.
#[inline(always)]
pub(crate) const fn columns_read(mask_width: u32) -> u32 {
    COMPUTED + filled_up(mask_width)
}

/// Columns that they read: those of one step more are read ahead of use, whether used or not.
#[inline(always)]
const fn columns_ahead(mask_width: u32) -> u32 {
    columns_read(mask_width) + STEP as u32
}

/// The dynamic shared memory that a launch needs, in bytes: the coefficients and the table of columns.
#[must_use]
pub const fn shared_bytes(mask_width: u32, mask_height: u32) -> u64 {
    let coefficients = filled_up(mask_width) as u64 * mask_height as u64;
    (coefficients + columns_ahead(mask_width) as u64) * size_of::<f32>() as u64
}

/// Where a thread reads the pixels of one row from.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    /// The row's pixel in the thread's first column, or, at the edge, in the image's first one.
    pub(crate) pixels: Global<f32>,
    /// At the edge: the column of the image for each column from the thread's first one on.
    pub(crate) columns: Shared<i32>,
    /// Whether the columns go through the table.
    pub(crate) edge: bool,
    /// Whether the row is anywhere in the image.
    pub(crate) exists: bool,
    /// What stands outside.
    pub(crate) border_value: f32,
}

impl Source {
    /// Turns to row `y`, which may be any, at the edge.
    #[inline(always)]
    fn turn_to(&mut self, image: Global<f32>, params: &Params, y: i32) {
        let y = border::map(params.border, y, params.height);
        self.pixels = image.offset(params.src_index(0, y));
        self.exists = y >= 0;
    }

    /// The pixels in `COLUMNS` columns from the `first`-th one of the thread on.
    ///
    /// # Safety
    /// `first` is a multiple of 4, and the columns are among those that the block reads.
    #[inline(always)]
    pub(crate) unsafe fn read(&self, first: u32) -> [f32; COLUMNS] {
        // SAFETY: the caller's promise.
        if self.edge { unsafe { self.read_any(first) } } else { unsafe { self.read_inside(first) } }
    }

    /// The same at the edge.
    ///
    /// # Safety
    /// As for [`read`](Self::read).
    #[inline(always)]
    unsafe fn read_any(&self, first: u32) -> [f32; COLUMNS] {
        core::array::from_fn(|i| {
            // SAFETY: the table has all columns that the block reads.
            let x = unsafe { self.columns.load(first + i as u32) };
            if x >= 0 && self.exists {
                // SAFETY: the row exists and the table's columns lie in it.
                unsafe { self.pixels.load(x as isize) }
            } else {
                self.border_value
            }
        })
    }

    /// The same where it is not the edge.
    ///
    /// # Safety
    /// As for [`read`](Self::read), with `edge` false.
    #[inline(always)]
    unsafe fn read_inside(&self, first: u32) -> [f32; COLUMNS] {
        let quads = self.pixels.offset(first as isize).cast::<F32x4>();
        let mut pixels = [0.0; COLUMNS];
        for i in 0..COLUMNS / 4 {
            // SAFETY: all columns lie in the image, and begin at a multiple of 16 bytes.
            let F32x4(quad) = unsafe { quads.load(i as isize) };
            pixels[4 * i..4 * i + 4].copy_from_slice(&quad);
        }
        pixels
    }
}

/// What the kernel has of each convergent instruction: one barrier, behind which the coefficients are there.
pub const CONVERGENT: Convergent = Convergent::barriers(1);

/// The kernel.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, begin at a multiple of 16 bytes and do
///   not overlap.
/// - `mask` holds `mask_width * mask_height` coefficients.
/// - The block is [`BLOCK`], the dynamic shared memory at least [`shared_bytes`].
#[inline(always)]
pub unsafe fn register_tile(image: Global<f32>, result: GlobalMut<f32>, mask: Global<f32>, params: Params) {
    let (tx, ty) = (thread::thread_idx_x(), thread::thread_idx_y());
    let (mask_width, mask_height) = (params.mask_width as u32, params.mask_height as u32);
    let pitch = filled_up(mask_width);
    let first_column = (thread::block_idx_x() * OUTPUTS.0) as i32;
    let block_y = (thread::block_idx_y() * OUTPUTS.1) as i32 + params.first_row;
    // The first column of pixels is a multiple of 4.
    let left = (first_column - params.origin_x) & !3;
    let block_x = left + params.origin_x;
    let top = block_y - params.origin_y;

    let edge = params.src_pitch & 3 != 0
        || !params.contains::<1>(left, top, columns_ahead(mask_width) as i32, (OUTPUTS.1 + mask_height - 1) as i32);
    let coefficients = Shared::<f32>::dynamic();
    let table = coefficients.offset(pitch * mask_height).cast::<i32>();
    // SAFETY: shared memory and mask are as the caller promised.
    unsafe { fill(coefficients, mask, mask_width, mask_height) };
    if edge {
        let mut i = ty * BLOCK.0 + tx;
        while i < columns_ahead(mask_width) {
            thread::no_unroll();
            // SAFETY: the table has an element for each column that the block reads.
            unsafe { table.store(i, border::map(params.border, left + i as i32, params.width)) };
            i += BLOCK.0 * BLOCK.1;
        }
    }
    thread::sync_threads();

    let (column, row) = (tx * COLUMNS as u32, ty * ROWS as u32);
    let (x, y) = (block_x + column as i32, block_y + row as i32);
    if x >= params.width || y >= params.height {
        return;
    }
    let mut sums = [[0.0; COLUMNS]; ROWS];
    let mut source = Source {
        pixels: image.offset(params.src_index(left + column as i32, top + row as i32)),
        columns: table.offset(column),
        edge,
        exists: true,
        border_value: params.border_value,
    };
    let (mut r, all) = (0, mask_height as i32);
    let end = all + ROWS as i32 - 1;
    // At the edge the whole tile is summed up in a loop of its own.
    while edge && r < end {
        thread::no_unroll();
        source.turn_to(image, &params, y - params.origin_y + r);
        // SAFETY: the row's columns are among those that the block reads; the coefficients were filled in before the barrier.
        unsafe { add_row::<true>(&mut sums, &source, coefficients, (mask_width, mask_height), r, Needed::at(r, all)) };
        r += 1;
    }
    // The rows that miss some of the tile's outputs, a question for each of those, and between them those that miss none.
    let mut upto = end.min(ROWS as i32 - 1);
    loop {
        while r < upto {
            thread::no_unroll();
            // SAFETY: the row's columns are among those that the block reads; the coefficients were filled in before the
            // barrier.
            unsafe {
                add_row::<false>(&mut sums, &source, coefficients, (mask_width, mask_height), r, Needed::at(r, all))
            };
            source.pixels = source.pixels.offset(params.src_pitch as isize);
            r += 1;
        }
        while r < all {
            thread::no_unroll();
            // SAFETY: as above; each row of outputs is joined to this one by a row of the mask.
            unsafe { add_row::<false>(&mut sums, &source, coefficients, (mask_width, mask_height), r, Needed::ALL) };
            source.pixels = source.pixels.offset(params.src_pitch as isize);
            r += 1;
        }
        if r >= end {
            break;
        }
        upto = end;
    }

    for (o, sums) in sums.iter().enumerate() {
        let y = y + o as i32;
        if y >= params.height {
            return;
        }
        for (c, &sum) in sums.iter().enumerate() {
            let x = x + c as i32;
            if x >= first_column && x < params.width.min(first_column + OUTPUTS.0 as i32) {
                // SAFETY: (x, y) lies in the result, and no other thread stores it: columns are stored by the block
                // whose outputs they are.
                unsafe { result.store(params.dst_index(x, y), params.finish(sum)) };
            }
        }
    }
}

/// The coefficients of a step lie together, row after row: element (k, l) of the mask.
#[inline(always)]
fn place(k: u32, l: u32, mask_height: u32) -> u32 {
    (l / STEP as u32 * mask_height + k) * STEP as u32 + l % STEP as u32
}

/// Copies the mask into shared memory, each row filled up with zeros.
///
/// # Safety
/// The block's shared memory holds the filled-up mask, and `mask` the mask.
#[inline(always)]
unsafe fn fill(coefficients: Shared<f32>, mask: Global<f32>, mask_width: u32, mask_height: u32) {
    let pitch = filled_up(mask_width);
    let mut k = thread::thread_idx_y();
    while k < mask_height {
        thread::no_unroll();
        let mut l = thread::thread_idx_x();
        while l < pitch {
            thread::no_unroll();
            // SAFETY: (k, l) lies in the filled-up mask, and is read where it lies in the mask.
            unsafe {
                let value = if l < mask_width { mask.load((k * mask_width + l) as isize) } else { 0.0 };
                coefficients.store(place(k, l, mask_height), value);
            }
            l += BLOCK.0;
        }
        k += BLOCK.1;
    }
}

/// The pixels that a step needs, and those of the next one.
type Pixels = [f32; COLUMNS + 2 * STEP];

/// Pixels `BY` columns further right. (A copy within the array would put it into local memory.)
#[inline(always)]
fn moved<const BY: usize>(pixels: &Pixels) -> Pixels {
    core::array::from_fn(|i| if i + BY < pixels.len() { pixels[i + BY] } else { 0.0 })
}

/// Sets those from the `AT`-th one on. (Elsewhere a copy of the slice or an iterator gave slower code, by up to 5 %.)
#[allow(clippy::manual_memcpy)]
#[inline(always)]
fn set<const AT: usize>(pixels: &mut Pixels, values: [f32; COLUMNS]) {
    for i in 0..COLUMNS {
        pixels[AT + i] = values[i];
    }
}

/// Adds row `r` of the pixels of a tile to each row of outputs that needs it.
///
/// # Safety
/// `source` has the row's pixels, `coefficients` the filled-up mask, and row `r - o` of the mask exists for each `o`
/// needed.
#[inline(always)]
unsafe fn add_row<const EDGE: bool>(
    sums: &mut [[f32; COLUMNS]; ROWS],
    source: &Source,
    coefficients: Shared<f32>,
    (mask_width, mask_height): (u32, u32),
    r: i32,
    needed: Needed,
) {
    const STEP_: u32 = STEP as u32;
    // SAFETY: where it is called.
    let read = |first| unsafe { if EDGE { source.read_any(first) } else { source.read_inside(first) } };
    let mut pixels: Pixels = [0.0; COLUMNS + 2 * STEP];
    // SAFETY: `first` is below the mask's width, here and below, so that the columns are among those that the block reads.
    set::<0>(&mut pixels, read(0));
    set::<STEP>(&mut pixels, read(STEP_));
    let mut chunk = coefficients;
    let mut first = 0;
    while first + STEP_ <= mask_width {
        thread::no_unroll();
        set::<{ 2 * STEP }>(&mut pixels, read(first + 2 * STEP_));
        // SAFETY: the step is a whole one; the rest is the caller's promise.
        unsafe { add_step(sums, &pixels, chunk, STEP_, r, needed) };
        pixels = moved::<STEP>(&pixels);
        chunk = chunk.offset(STEP_ * mask_height);
        first += STEP_;
    }
    // What is left of the mask's width.
    let left = thread::black_box(mask_width - first);
    // SAFETY: as above.
    unsafe {
        if left & 4 != 0 {
            add_step(sums, &pixels, chunk, 4, r, needed);
            pixels = moved::<4>(&pixels);
            chunk = chunk.offset(4);
        }
        if left & 2 != 0 {
            add_step(sums, &pixels, chunk, 2, r, needed);
            pixels = moved::<2>(&pixels);
            chunk = chunk.offset(2);
        }
        if left & 1 != 0 {
            add_step(sums, &pixels, chunk, 1, r, needed);
        }
    }
}

/// The products with `width` columns of the mask, whose coefficients in row 0 `chunk` begins with.
///
/// # Safety
/// As for [`add_row`]; `chunk` has that many columns, and is aligned to 4 of them where there are more than 2.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
unsafe fn add_step(
    sums: &mut [[f32; COLUMNS]; ROWS],
    pixels: &Pixels,
    chunk: Shared<f32>,
    width: u32,
    r: i32,
    needed: Needed,
) {
    for (o, sums) in sums.iter_mut().enumerate() {
        if !needed.has(o) {
            continue;
        }
        let row = chunk.offset((r - o as i32) as u32 * STEP as u32);
        let mut factors = [0.0; STEP];
        // SAFETY: the row of the mask exists, as the caller promised, and so do its columns; rows are filled up to a whole step.
        unsafe {
            if width > 2 {
                for i in 0..STEP / 4 {
                    if 4 * i < width as usize {
                        let quad = row.cast::<F32x4>().load(i as u32).0;
                        for j in 0..4 {
                            factors[4 * i + j] = quad[j];
                        }
                    }
                }
            } else {
                for l in 0..2 {
                    if (l as u32) < width {
                        factors[l] = row.load(l as u32);
                    }
                }
            }
        }
        for l in 0..STEP {
            if l as u32 >= width {
                continue;
            }
            for (c, sum) in sums.iter_mut().enumerate() {
                *sum = fma(pixels[l + c], factors[l], *sum);
            }
        }
    }
}
