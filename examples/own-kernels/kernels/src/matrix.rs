//! Matrix products `C = A B` of `f32`, row by row in memory: with tiles in shared memory, and with the tensor cores.

use cuda_std::mma::mma_m16n8k8_tf32;
use cuda_std::prelude::*;

/// The side of the square tiles of [`product_tiled`], and of its blocks.
pub const TILE: u32 = 16;
/// The warps of a block of [`product_tensor`]. Each computes 16 rows and 8 columns.
pub const WARPS: u32 = 4;

/// The product of `rows` x `inner` and `inner` x `columns`: each block one tile of `C`.
///
/// # Safety
/// - `a` holds `rows * inner` elements, `b` `inner * columns`, and `c` `rows * columns`.
/// - A block has [`TILE`] x [`TILE`] threads and `2 * TILE * TILE` elements of shared memory.
#[kernel(lengths(a = rows * inner, b = inner * columns, c = rows * columns), launch_bounds(256))]
pub unsafe fn product_tiled(a: Global<f32>, b: Global<f32>, c: GlobalMut<f32>, rows: u32, columns: u32, inner: u32) {
    let (column, row) = thread::index_2d();
    let (tx, ty) = (thread::thread_idx_x(), thread::thread_idx_y());
    let (tile_a, tile_b) = (Shared::<f32>::dynamic(), Shared::<f32>::dynamic().offset(TILE * TILE));
    let mut sum = 0.0;
    let mut first = 0;
    while first < inner {
        // Each thread loads one element of both tiles. Outside of the matrices they are 0.
        let (k_of_a, k_of_b) = (first + tx, first + ty);
        // SAFETY: the elements lie in the matrices where they are read. The thread's element of a tile is its own.
        unsafe {
            let inside = row < rows && k_of_a < inner;
            tile_a.store(ty * TILE + tx, if inside { a.load((row * inner + k_of_a) as isize) } else { 0.0 });
            let inside = column < columns && k_of_b < inner;
            tile_b.store(ty * TILE + tx, if inside { b.load((k_of_b * columns + column) as isize) } else { 0.0 });
        }
        // SAFETY: all threads of the block are here: the bounds of the loop are equal in all.
        unsafe { thread::sync_threads() };
        for k in 0..TILE {
            // SAFETY: the elements lie in the tiles, which were written before the barrier.
            sum = unsafe { fma(tile_a.load(ty * TILE + k), tile_b.load(k * TILE + tx), sum) };
        }
        // Nobody may write the next tiles before all have read these. SAFETY: as above.
        unsafe { thread::sync_threads() };
        first += TILE;
    }
    if row < rows && column < columns {
        // SAFETY: the element lies in the matrix, and no other thread has it.
        unsafe { c.store((row * columns + column) as isize, sum) };
    }
}

/// An element of a matrix with rows of `columns` elements, or 0 outside.
///
/// # Safety
/// - `matrix` holds `rows * columns` elements.
#[inline(always)]
#[track_caller]
unsafe fn element(matrix: Global<f32>, [rows, columns]: [u32; 2], row: u32, column: u32) -> f32 {
    // SAFETY: the element lies in the matrix where it is read.
    if row < rows && column < columns { unsafe { matrix.load((row * columns + column) as isize) } } else { 0.0 }
}

/// The same product in the tensor cores, whose factors have the 10 bits of TF32 after the leading one. Needs compute
/// capability 8.0.
///
/// # Safety
/// - `a` holds `rows * inner` elements, `b` `inner * columns`, and `c` `rows * columns`.
/// - A block has 32 x [`WARPS`] threads. The grid has a block for each 8 columns and for each `16 * WARPS` rows.
#[kernel(lengths(a = rows * inner, b = inner * columns, c = rows * columns), launch_bounds(128))]
pub unsafe fn product_tensor(a: Global<f32>, b: Global<f32>, c: GlobalMut<f32>, rows: u32, columns: u32, inner: u32) {
    // A row of threads is a warp. `cuda_std::mma` has the table of which lane holds which elements.
    let (g, t) = (thread::thread_idx_x() / 4, thread::thread_idx_x() % 4);
    let first_row = (thread::block_idx_y() * WARPS + thread::thread_idx_y()) * 16;
    let first_column = thread::block_idx_x() * 8;
    let mut sums = [0.0; 4];
    let mut k = 0;
    while k < inner {
        // SAFETY: the matrices hold as many elements. All lanes of the warp are here: the bounds of the loop are equal.
        unsafe {
            let of_a = |row, column| element(a, [rows, inner], first_row + row, k + column);
            let of_b = |row, column| element(b, [inner, columns], k + row, first_column + column);
            let fragment_a = [of_a(g, t), of_a(g + 8, t), of_a(g, t + 4), of_a(g + 8, t + 4)];
            let fragment_b = [of_b(t, g), of_b(t + 4, g)];
            sums = mma_m16n8k8_tf32(fragment_a, fragment_b, sums);
        }
        k += 8;
    }
    for i in 0..4 {
        let (row, column) = (first_row + g + i / 2 * 8, first_column + 2 * t + i % 2);
        if row < rows && column < columns {
            // SAFETY: the element lies in the matrix, and no other thread has it.
            unsafe { c.store((row * columns + column) as isize, sums[i as usize]) };
        }
    }
}
