//! For images that do not fill the device: all that a block needs is asked for at once, and the sums wait for nothing else.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! A small image takes as long as one block does, and a block's time is made of waits: for parameters, for pixels, for
//! coefficients, for the chain of `K * K` multiply-adds. [`shared_tile`](crate::teaching::shared_tile) waits for its coefficients again and again: they come
//! from constant memory, whose cache is empty when a kernel starts, line by line. Here the mask lies in global memory and comes into shared
//! memory with the pixels, in one wait ([`cuda_std::cp_async`]). A thread computes four neighbours, so that its four sums are added up at the
//! same time, and reads the next row of pixels and coefficients while it adds up one.
//!
//! # Thread mapping
//! A block of 8 x 16 threads computes 32 x 16 outputs, thread (tx, ty) those of columns `4 tx` to `4 tx + 3` in row ty.
//!
//! # Tiling
//! ```text
//!   shared memory, in quads of four f32:   K rows of coefficients, each filled up to whole quads (the host does it)
//!                                          K + 15 rows of 8 quads, and of those that the windows need beside them
//! ```
//! A row of the tile begins up to three columns left of the first window, so that its quads are the image's, aligned to 16 bytes. Eight threads read
//! 32 neighbouring words: never a bank conflict. A coefficient is read by all threads at once.
//!
//! # The edge
//! A quad inside of the image is copied; so is one that crosses the edge where the border is zero: the copy fills up. Others are put together
//! pixel by pixel.
//!
//! # What it costs
//! Loads of a thread for a row of the mask: `(K + 3 + lead) / 4` quads of pixels and `K / 4` of coefficients, both rounded up, for `4 K` products;
//! 9 for 52 at 13 x 13. On an H100, zero border, in µs, a stream of launches (`docs/measurements/2026-11-21-h100-small.md`):
//!
//! | 200 x 200 | 3 x 3 | 5 x 5 | 7 x 7 | 9 x 9 | 11 x 11 | 13 x 13 | 15 x 15 |
//! | --- | --- | --- | --- | --- | --- | --- | --- |
//! | this kernel | 2.7 | 2.7 | 2.8 | 2.9 | 3.3 | 3.2 | 3.6 |
//! | of which the sums | 0.1 | 0.1 | 0.2 | 0.3 | 0.6 | 0.7 | 0.9 |
//! | `shared_tile` | 3.6 | 3.7 | 4.0 | 4.6 | 5.0 | 5.5 | 6.1 |
//! | `stream` | 6.9 | 8.4 | 9.7 | 11.6 | 12.8 | 16.0 | 20.3 |
//!
//! | 200 x 200 | 17 x 17 | 21 x 21 | 25 x 25 | 31 x 31 |
//! | --- | --- | --- | --- | --- |
//! | this kernel | 3.6 | 4.3 | 4.9 | 6.5 |
//! | `shared_tile` | 9.3 | 12.7 | 16.3 | 21.9 |
//! | `stream` | 16.6 | 23.4 | 62.4 | 90.1 |
//!
//! (the second table by `host bench`, `docs/measurements/2026-11-21-h100-all.md`). A kernel that does nothing takes 2.4 there, which is what the driver needs for a launch; from a graph of launches that one takes 0.9 to 1.1,
//! and this one 2.2 at 13 x 13. The chain of 169 multiply-adds alone is 0.35, at 4 clocks each.

use cuda_std::cp_async::{commit_group, cp_async_4, cp_async_16_if, cp_async_16_zfill, wait_group};
use cuda_std::prelude::*;

use crate::abi::border;
use crate::abi::kernel::Convergent;
use crate::abi::params::Params;
use crate::registry::{Accuracy, Grid, MaskForm, MaskMemory, Spec, f32_result, no_launch_bounds, no_requirement};

/// Threads of a block in x and y.
pub const BLOCK: (u32, u32) = (8, 16);
/// Columns and rows of outputs of a block.
pub const OUTPUTS: (u32, u32) = (BLOCK.0 * QUAD as u32, BLOCK.1);
/// The oldest compute capability that has the copies.
pub const COMPUTE_CAPABILITY: (u32, u32) = (8, 0);

/// Outputs of a thread, and pixels of an access.
const QUAD: usize = 4;
/// Threads of a block.
const THREADS: usize = (BLOCK.0 * BLOCK.1) as usize;
/// The most quads of pixels that a thread reads of a row, and of coefficients.
const MOST_QUADS: (usize, usize) = (9, 8);

/// Values from one row of coefficients to the next in the mask that the kernel reads: whole quads.
#[must_use]
pub const fn mask_pitch(mask_width: u32) -> u32 {
    mask_width.next_multiple_of(QUAD as u32)
}

/// The dynamic shared memory that a launch needs, in bytes.
#[must_use]
pub const fn shared_bytes(size: u32) -> u64 {
    let layout = Layout::new(size as usize);
    (layout.mask + layout.across * layout.down) as u64 * size_of::<F32x4>() as u64
}

/// Where the shared memory has what, in quads.
#[derive(Clone, Copy)]
struct Layout {
    /// Columns by which a window begins further left than its output, with the anchor in the middle.
    origin: usize,
    /// Columns by which a row of the tile begins further left than the first window.
    lead: usize,
    /// A row of coefficients.
    factors: usize,
    /// All coefficients.
    mask: usize,
    /// What a thread reads of a row of the tile.
    window: usize,
    /// A row of the tile.
    across: usize,
    /// Rows of the tile.
    down: usize,
}

impl Layout {
    const fn new(size: usize) -> Self {
        let origin = (size - 1) / 2;
        let lead = (QUAD - origin % QUAD) % QUAD;
        let factors = size.div_ceil(QUAD);
        let window = (lead + QUAD + size - 1).div_ceil(QUAD);
        let (across, down) = (BLOCK.0 as usize + window - 1, BLOCK.1 as usize + size - 1);
        Self { origin, lead, factors, mask: factors * size, window, across, down }
    }
}

/// A row of pixels and of coefficients in a thread's registers: every index is a constant after unrolling.
#[derive(Clone, Copy)]
struct Row<const K: usize> {
    pixels: [F32x4; MOST_QUADS.0],
    factors: [F32x4; MOST_QUADS.1],
}

impl<const K: usize> Row<K> {
    const LAYOUT: Layout = {
        assert!(K % 2 == 1);
        let layout = Layout::new(K);
        assert!(layout.window <= MOST_QUADS.0 && layout.factors <= MOST_QUADS.1 && layout.across <= THREADS);
        layout
    };

    /// Reads row `k` after those that `pixels` and `factors` are at.
    ///
    /// # Safety
    /// The row lies in tile and mask, both are whole.
    #[inline(always)]
    unsafe fn read(pixels: Shared<F32x4>, factors: Shared<F32x4>, k: usize) -> Self {
        let mut row = Self { pixels: Default::default(), factors: Default::default() };
        for i in 0..Self::LAYOUT.window {
            // SAFETY: the caller's promise.
            row.pixels[i] = unsafe { pixels.load((k * Self::LAYOUT.across + i) as u32) };
        }
        for i in 0..Self::LAYOUT.factors {
            // SAFETY: the caller's promise.
            row.factors[i] = unsafe { factors.load((k * Self::LAYOUT.factors + i) as u32) };
        }
        row
    }

    /// Adds the row to the sums of the thread's four outputs.
    #[inline(always)]
    fn add(&self, sums: &mut [f32; QUAD]) {
        for l in 0..K {
            for (c, sum) in sums.iter_mut().enumerate() {
                let i = Self::LAYOUT.lead + l + c;
                *sum = fma(self.pixels[i / QUAD].0[i % QUAD], self.factors[l / QUAD].0[l % QUAD], *sum);
            }
        }
    }
}

/// What the kernel has of each convergent instruction: one barrier, behind which all copies have come.
pub const CONVERGENT: Convergent = Convergent::barriers(1);

/// The kernel for a mask of `K` x `K`.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, begin at a multiple of 16 bytes and do not
///   overlap.
/// - `mask` holds `K` rows of `K` coefficients, [`mask_pitch`] values apart, and begins at a multiple of 16 bytes.
/// - The block is [`BLOCK`], the dynamic shared memory at least [`shared_bytes`], the mask `K` x `K`.
#[inline(always)]
pub unsafe fn small_tile<const K: usize>(
    image: Global<f32>,
    result: GlobalMut<f32>,
    mask: Global<f32>,
    params: Params,
) {
    let layout = Row::<K>::LAYOUT;
    let (tx, ty) = (thread::thread_idx_x(), thread::thread_idx_y());
    let x = (thread::block_idx_x() * OUTPUTS.0 + tx * QUAD as u32) as i32;
    let block_y = (thread::block_idx_y() * OUTPUTS.1) as i32 + params.first_row;
    let y = block_y + ty as i32;

    let factors = Shared::<F32x4>::dynamic();
    let tile = factors.offset(layout.mask as u32);
    let rank = (ty * BLOCK.0 + tx) as usize;
    for first in (0..layout.mask).step_by(THREADS) {
        let i = first + rank;
        let from = mask.cast::<F32x4>().offset(i as isize);
        // SAFETY: quad `i` lies in the mask and in its part of shared memory, and no other thread copies it.
        unsafe { cp_async_16_if(i < layout.mask, factors.offset(i as u32), from) };
    }
    let left = (thread::block_idx_x() * OUTPUTS.0) as i32 - params.origin_x - layout.lead as i32;
    let corner = Corner { left, top: block_y - params.origin_y };
    // SAFETY: the caller's promise for the image; the tile lies behind the coefficients.
    unsafe { fill::<K>(tile, image, corner, rank, &params) };
    commit_group();
    wait_group::<0>();
    // SAFETY: all threads are here: those without an output return only below.
    unsafe { thread::sync_threads() };
    if x >= params.width || y >= params.height {
        return;
    }

    let mut pixels = tile.offset(ty * layout.across as u32 + tx);
    let mut factors = factors;
    let mut sums = [0.0; QUAD];
    // SAFETY: rows 0 to K - 1 from the thread's window on lie in the tile, and in the mask, both filled before the barrier.
    let read = |pixels, factors, k| unsafe { Row::<K>::read(pixels, factors, k) };
    if K < 9 {
        for k in 0..K {
            read(pixels, factors, k).add(&mut sums);
        }
    } else {
        // Two rows a step, one being read while the other is added. Unrolled whole, the code would be 1 to 3 % faster and take the driver
        // several times as long to compile.
        let mut row = read(pixels, factors, 0);
        let mut k = 2;
        while k < params.mask_height {
            thread::no_unroll();
            let next = read(pixels, factors, 1);
            row.add(&mut sums);
            row = read(pixels, factors, 2);
            next.add(&mut sums);
            pixels = pixels.offset(2 * layout.across as u32);
            factors = factors.offset(2 * layout.factors as u32);
            k += 2;
        }
        row.add(&mut sums);
    }

    let to = result.offset(params.dst_index(x, y));
    let values = sums.map(|sum| params.finish(sum));
    if params.dst_pitch & (QUAD as i32 - 1) == 0 && x + QUAD as i32 <= params.width {
        // SAFETY: the quad lies in the result, is aligned, as its row and its column are, and no other thread has it.
        unsafe { to.cast::<F32x4>().store(0, F32x4(values)) };
    } else {
        for (c, &value) in values.iter().enumerate() {
            if x + (c as i32) < params.width {
                // SAFETY: the column is inside, and no other thread has it.
                unsafe { to.store(c as isize, value) };
            }
        }
    }
}

/// The image's column and row at which a tile begins; they may lie outside.
#[derive(Clone, Copy)]
struct Corner {
    left: i32,
    top: i32,
}

/// Fills the tile, or begins to: what is copied is there after [`wait`].
///
/// The threads take the tile's quads row by row; each stays in its column.
///
/// # Safety
/// `image` is as `params` say, and the tile fits the dynamic shared memory.
#[inline(always)]
unsafe fn fill<const K: usize>(tile: Shared<F32x4>, image: Global<f32>, corner: Corner, rank: usize, params: &Params) {
    let layout = Row::<K>::LAYOUT;
    let Corner { left, top } = corner;
    let rows_at_once = THREADS / layout.across;
    let (row, column) = (rank / layout.across, rank % layout.across);
    let x = left + (column * QUAD) as i32;
    let aligned = params.origin_x == layout.origin as i32 && params.src_pitch & (QUAD as i32 - 1) == 0;
    // Of both zeros only one has no bits: a sum tells them apart.
    let zeros = params.border == 0 && params.border_value.to_bits() == 0;
    // All threads of the block take the same way.
    if aligned && (zeros || params.contains::<1>(left, top, (layout.across * QUAD) as i32, layout.down as i32)) {
        // A quad begins at a multiple of 4, so it lies wholly to the left of the image, or not at all.
        let bytes = if x < 0 { 0 } else { ((params.width - x) * size_of::<f32>() as i32).clamp(0, 16) };
        let from = image.offset(params.src_index(x, top + row as i32));
        let step = params.src_index(0, rows_at_once as i32);
        for first in (0..layout.down).step_by(rows_at_once) {
            let r = first + row;
            let exists = bytes > 0 && ((top + r as i32) as u32) < params.height as u32;
            let from = if exists { from.offset(step * (first / rows_at_once) as isize) } else { image }.cast();
            let (mine, bytes) = (row < rows_at_once && r < layout.down, if exists { bytes as u32 } else { 0 });
            // SAFETY: the quad of the tile is this thread's alone; that of the image is aligned, and its first `bytes` bytes are pixels.
            unsafe { cp_async_16_zfill(mine, tile.offset((r * layout.across + column) as u32), from, bytes) };
        }
        return;
    }
    let whole = aligned && x >= 0 && x + QUAD as i32 <= params.width;
    let columns = [0, 1, 2, 3].map(|i| border::map(params.border, x + i, params.width));
    let (mut r, mut steps) = (row, warp::Steps::begin());
    while row < rows_at_once && r < layout.down {
        steps.next();
        thread::no_unroll();
        let to = tile.offset((r * layout.across + column) as u32);
        let y = border::map(params.border, top + r as i32, params.height);
        // Of a row that does not exist no pixel is read; its pointer is only made.
        let from = image.offset(params.src_index(0, y));
        if whole && y >= 0 {
            // SAFETY: the quad lies in the row and is aligned; that of the tile is this thread's alone.
            unsafe { cp_async_16_if(true, to, from.offset(x as isize).cast()) };
        } else {
            for (i, &x) in columns.iter().enumerate() {
                let to = to.cast::<f32>().offset(i as u32);
                // SAFETY: row and column are those of a pixel; the place in the tile is this thread's alone.
                unsafe {
                    if x >= 0 && y >= 0 {
                        cp_async_4(to, from.offset(x as isize));
                    } else {
                        to.store(0, params.border_value);
                    }
                }
            }
        }
        r += rows_at_once;
    }
}

crate::registry::instances! {
    SharedTileAsync;
    sm_80 "shared_tile_async_{T}_c{C}_{K}x{K}" for
        T in [f32], C in [1], K in [3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31];
        |image, result, mask, params| small_tile::<{ K as usize }>(image, result.cast(), mask, params)
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "shared_tile_async",
    summary: "for small images: pixels and mask reach shared memory by asynchronous copies",
    reason: "a small image: one wait for pixels and mask",
    accuracy: Accuracy::Exact,
    mask_memory: MaskMemory::Global,
    mask_form: MaskForm::Rows(|mask_width, row| row * mask_pitch(mask_width)),
    mask_class: None,
    results: f32_result,
    border_is_pixel: |_| false,
    requirement: no_requirement,
    uses_fp32_units: true,
    grid: Grid::Tiles,
    block: |_| BLOCK,
    outputs: |_| OUTPUTS,
    shared_bytes: |_, (width, _)| shared_bytes(width),
    launch_bounds: no_launch_bounds,
    convergent: |_| CONVERGENT,
};
