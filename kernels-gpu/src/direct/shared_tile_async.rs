//! For images that do not fill the device: a block requests all of its data at once and waits once.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! A small image takes as long as one of its blocks, and a block spends most of its time waiting: for parameters, for
//! pixels, for coefficients, for the chain of `K * K` multiply-adds. [`shared_tile`](crate::teaching::shared_tile)
//! waits for its coefficients line by line, because the constant cache is empty when a kernel starts. Here the mask
//! lies in global memory. Pixels and coefficients come to shared memory by asynchronous copies
//! ([`cuda_std::cp_async`]), with one wait for both.
//!
//! # Thread mapping
//! A block of 8 x 16 threads computes 32 x 16 outputs. Thread (tx, ty) computes columns `4 tx` to `4 tx + 3` of row ty,
//! so that it has four independent chains of multiply-adds. While it adds one row of the window, it reads the next.
//!
//! # Tiling
//! ```text
//!   shared memory, in vectors of four f32:   K rows of coefficients, each padded to whole vectors (by the host)
//!                                            K + 15 rows of pixels: 8 vectors and the halo
//! ```
//! A row of the tile begins up to three columns before the first window, so that its vectors are aligned in the image.
//! Eight threads read 32 neighbouring words, so there are no bank conflicts. A coefficient is a broadcast.
//!
//! # Edge
//! A vector in the image is one copy. So is a vector across the edge if the border is zero: the copy fills it up. Other
//! vectors arrive pixel by pixel.
//!
//! # Cost
//! For a row of the mask a thread loads `ceil((K + 3 + lead) / 4)` vectors of pixels and `ceil(K / 4)` of coefficients,
//! for `4 K` products.
//!
//! H100, 2026-11-21, 200 x 200: 2.7 µs with 3 x 3, 3.2 µs with 13 x 13; an empty kernel takes 2.4 µs there.

use cuda_std::cp_async::{commit_group, cp_async_4, cp_async_16_if, cp_async_16_zfill, wait_group};
use cuda_std::prelude::*;

use crate::abi::border;
use crate::abi::kernel::Convergent;
use crate::abi::params::Params;
use crate::registry::{Accuracy, Grid, MaskForm, MaskMemory, Spec, f32_result, no_launch_bounds, no_requirement};

/// Threads of a block in x and y.
pub const BLOCK: (u32, u32) = (8, 16);
/// Outputs of a block in x and y.
pub const OUTPUTS: (u32, u32) = (BLOCK.0 * VECTOR as u32, BLOCK.1);
/// The convergent instructions of the source: one barrier, after which all copies have arrived.
pub const CONVERGENT: Convergent = Convergent::barriers(1);

/// Values from one row of coefficients to the next: whole vectors.
#[must_use]
pub const fn mask_pitch(mask_width: u32) -> u32 {
    mask_width.next_multiple_of(VECTOR as u32)
}

/// The dynamic shared memory of a block for a mask of `side` x `side`, in bytes: coefficients and tile.
#[must_use]
pub const fn shared_bytes(side: u32) -> u64 {
    let layout = Layout::new(side as usize);
    (layout.mask + layout.across * layout.down) as u64 * size_of::<F32x4>() as u64
}

/// Outputs of a thread, and pixels of an access.
const VECTOR: usize = 4;
/// Threads of a block.
const THREADS: usize = (BLOCK.0 * BLOCK.1) as usize;
/// The most vectors of pixels, and of coefficients, that a thread reads for a row.
const MAX_VECTORS: (usize, usize) = (9, 8);

/// The layout of shared memory. All sizes are in vectors, except where columns are named.
#[derive(Clone, Copy)]
struct Layout {
    /// Columns from the beginning of a window to its output, for the anchor in the middle.
    origin: usize,
    /// Columns from the beginning of a row of the tile to the first window.
    lead: usize,
    /// A row of coefficients.
    coefficients: usize,
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
    const fn new(side: usize) -> Self {
        let origin = (side - 1) / 2;
        let lead = (VECTOR - origin % VECTOR) % VECTOR;
        let coefficients = side.div_ceil(VECTOR);
        let window = (lead + VECTOR + side - 1).div_ceil(VECTOR);
        let (across, down) = (BLOCK.0 as usize + window - 1, BLOCK.1 as usize + side - 1);
        Self { origin, lead, coefficients, mask: coefficients * side, window, across, down }
    }
}

/// A row of pixels and a row of coefficients in registers: all indices are constants after unrolling.
#[derive(Clone, Copy)]
struct Row<const K: usize> {
    pixels: [F32x4; MAX_VECTORS.0],
    coefficients: [F32x4; MAX_VECTORS.1],
}

impl<const K: usize> Row<K> {
    const LAYOUT: Layout = {
        assert!(K % 2 == 1);
        let layout = Layout::new(K);
        assert!(layout.window <= MAX_VECTORS.0 && layout.coefficients <= MAX_VECTORS.1 && layout.across <= THREADS);
        layout
    };

    /// Reads the `k`-th row from `pixels` and `coefficients` on.
    ///
    /// # Safety
    /// - Row `k` of the thread's window lies in the tile, row `k` of the coefficients in the mask.
    /// - Both have arrived, and a barrier has passed since.
    #[inline(always)]
    unsafe fn read(pixels: Shared<F32x4>, coefficients: Shared<F32x4>, k: usize) -> Self {
        let mut row = Self { pixels: Default::default(), coefficients: Default::default() };
        for i in 0..Self::LAYOUT.window {
            // SAFETY: i < window, so the vector lies in the window's row.
            row.pixels[i] = unsafe { pixels.load((k * Self::LAYOUT.across + i) as u32) };
        }
        for i in 0..Self::LAYOUT.coefficients {
            // SAFETY: i < coefficients, so the vector lies in the mask's row.
            row.coefficients[i] = unsafe { coefficients.load((k * Self::LAYOUT.coefficients + i) as u32) };
        }
        row
    }

    /// Adds the row to the sums of the thread's four outputs.
    #[inline(always)]
    fn add(&self, sums: &mut [f32; VECTOR]) {
        for l in 0..K {
            for (c, sum) in sums.iter_mut().enumerate() {
                let i = Self::LAYOUT.lead + l + c;
                *sum = fma(self.pixels[i / VECTOR].0[i % VECTOR], self.coefficients[l / VECTOR].0[l % VECTOR], *sum);
            }
        }
    }
}

/// The kernel for a mask of `K` x `K`.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, and do not overlap.
/// - `image`, `result` and `mask` begin at multiples of 16 bytes.
/// - The mask is `K` x `K`, and `mask` holds `K` rows of `K` coefficients, [`mask_pitch`] values apart.
/// - The block is [`BLOCK`], the dynamic shared memory at least [`shared_bytes`].
#[inline(always)]
pub unsafe fn shared_tile_async<const K: usize>(
    image: Global<f32>,
    result: GlobalMut<f32>,
    mask: Global<f32>,
    params: Params,
) {
    let layout = Row::<K>::LAYOUT;
    let (tx, ty) = (thread::thread_idx_x(), thread::thread_idx_y());
    let x = (thread::block_idx_x() * OUTPUTS.0 + tx * VECTOR as u32) as i32;
    let block_y = (thread::block_idx_y() * OUTPUTS.1) as i32 + params.first_row;
    let y = block_y + ty as i32;

    let coefficients = Shared::<F32x4>::dynamic();
    let tile = coefficients.offset(layout.mask as u32);
    let rank = (ty * BLOCK.0 + tx) as usize;
    for first in (0..layout.mask).step_by(THREADS) {
        let i = first + rank;
        let from = mask.cast::<F32x4>().offset(i as isize);
        // SAFETY: i < layout.mask lies in the mask and in shared memory, and is this thread's alone.
        unsafe { cp_async_16_if(i < layout.mask, coefficients.offset(i as u32), from) };
    }
    let left = (thread::block_idx_x() * OUTPUTS.0) as i32 - params.origin_x - layout.lead as i32;
    let corner = Corner { left, top: block_y - params.origin_y };
    // SAFETY: `image` has the size and pitch of `params`, and its alignment; the tile follows the coefficients.
    unsafe { fill::<K>(tile, image, corner, rank, &params) };
    commit_group();
    wait_group::<0>();
    // SAFETY: all threads are here: threads without an output return below.
    unsafe { thread::sync_threads() };
    if x >= params.width || y >= params.height {
        return;
    }

    let mut pixels = tile.offset(ty * layout.across as u32 + tx);
    let mut coefficients = coefficients;
    let mut sums = [0.0; VECTOR];
    // SAFETY: k is below K, so the rows lie in tile and mask; both arrived before the barrier.
    let read = |pixels, coefficients, k| unsafe { Row::<K>::read(pixels, coefficients, k) };
    if K < 9 {
        for k in 0..K {
            read(pixels, coefficients, k).add(&mut sums);
        }
    } else {
        // Two rows per iteration: one is read while the other is added. Complete unrolling would be 1 to 3 % faster,
        // and several times slower to compile.
        let mut row = read(pixels, coefficients, 0);
        let mut k = 2;
        while k < params.mask_height {
            thread::no_unroll();
            let next = read(pixels, coefficients, 1);
            row.add(&mut sums);
            row = read(pixels, coefficients, 2);
            next.add(&mut sums);
            pixels = pixels.offset(2 * layout.across as u32);
            coefficients = coefficients.offset(2 * layout.coefficients as u32);
            k += 2;
        }
        row.add(&mut sums);
    }

    let to = result.offset(params.dst_index(x, y));
    let values = sums.map(|sum| params.finish(sum));
    if params.dst_pitch & (VECTOR as i32 - 1) == 0 && x + VECTOR as i32 <= params.width {
        // SAFETY: the vector lies in the result; x and the pitch are multiples of 4; (x, y) is this thread's alone.
        unsafe { to.cast::<F32x4>().store(0, F32x4(values)) };
    } else {
        for (c, &value) in values.iter().enumerate() {
            if x + (c as i32) < params.width {
                // SAFETY: column x + c lies in the result, and is this thread's alone.
                unsafe { to.store(c as isize, value) };
            }
        }
    }
}

/// The column and the row of the image at which a tile begins. They may lie outside.
#[derive(Clone, Copy)]
struct Corner {
    left: i32,
    top: i32,
}

/// Begins the copies to the tile. The caller commits them and waits for them.
///
/// The threads take the tile's vectors row by row. Each thread stays in one column of vectors.
///
/// # Safety
/// - `image` holds `params.height` rows of `params.width` pixels, `params.src_pitch` values apart.
/// - `image` begins at a multiple of 16 bytes.
/// - The tile fits in the dynamic shared memory.
/// - Each thread of the block calls this with its own `rank`.
/// - No thread reads the tile until the copies have been waited for and a barrier has passed.
#[inline(always)]
unsafe fn fill<const K: usize>(tile: Shared<F32x4>, image: Global<f32>, corner: Corner, rank: usize, params: &Params) {
    let layout = Row::<K>::LAYOUT;
    let Corner { left, top } = corner;
    let rows_at_once = THREADS / layout.across;
    let (row, column) = (rank / layout.across, rank % layout.across);
    let x = left + (column * VECTOR) as i32;
    let aligned = params.origin_x == layout.origin as i32 && params.src_pitch & (VECTOR as i32 - 1) == 0;
    // A border of -0 would change the sign of a zero sum, so the copies may fill in +0 only.
    let fills = params.border == 0 && params.border_value.to_bits() == 0;
    // The branch is uniform in the block.
    if aligned && (fills || params.contains::<1>(left, top, (layout.across * VECTOR) as i32, layout.down as i32)) {
        // Vectors to the left of the image lie wholly outside.
        let bytes = if x < 0 { 0 } else { ((params.width - x) * size_of::<f32>() as i32).clamp(0, 16) };
        let from = image.offset(params.src_index(x, top + row as i32));
        let step = params.src_index(0, rows_at_once as i32);
        for first in (0..layout.down).step_by(rows_at_once) {
            let r = first + row;
            let exists = bytes > 0 && ((top + r as i32) as u32) < params.height as u32;
            let from = if exists { from.offset(step * (first / rows_at_once) as isize) } else { image }.cast();
            let (predicate, bytes) = (row < rows_at_once && r < layout.down, if exists { bytes as u32 } else { 0 });
            let to = tile.offset((r * layout.across + column) as u32);
            // SAFETY: the vector of the image is aligned and has `bytes` bytes in its row; that of the tile is this
            // thread's alone.
            unsafe { cp_async_16_zfill(predicate, to, from, bytes) };
        }
        return;
    }
    let is_interior = aligned && x >= 0 && x + VECTOR as i32 <= params.width;
    let columns = [0, 1, 2, 3].map(|i| border::map(params.border, x + i, params.width));
    let (mut r, mut steps) = (row, warp::Steps::begin());
    while row < rows_at_once && r < layout.down {
        steps.next();
        thread::no_unroll();
        let to = tile.offset((r * layout.across + column) as u32);
        let y = border::map(params.border, top + r as i32, params.height);
        // For OUTSIDE the pointer is computed and never read.
        let from = image.offset(params.src_index(0, y));
        if is_interior && y >= 0 {
            // SAFETY: the vector lies in the row and is aligned; that of the tile is this thread's alone.
            unsafe { cp_async_16_if(true, to, from.offset(x as isize).cast()) };
        } else {
            for (i, &x) in columns.iter().enumerate() {
                let to = to.cast::<f32>().offset(i as u32);
                // SAFETY: where x >= 0 and y >= 0, (x, y) lies in the image; `to` is this thread's alone.
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
        |image, result, mask, params| shared_tile_async::<{ K as usize }>(image, result.cast(), mask, params)
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
    outputs: |_, _| OUTPUTS,
    pixels_together: 1,
    shared_bytes: |_, (width, _)| shared_bytes(width),
    launch_bounds: no_launch_bounds,
    convergent: |_| CONVERGENT,
};
