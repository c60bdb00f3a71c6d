//! Matrix products `C = A B` of bfloat16 with sums in `f32`, row by row in memory: tiles in shared memory, fragments by
//! `ldmatrix`, products in the tensor cores. Needs compute capability 8.0.

use cuda_std::half::Bf16;
use cuda_std::ldmatrix::{ldmatrix_x4, ldmatrix_x4_trans};
use cuda_std::mma::mma_m16n8k16_bf16;
use cuda_std::prelude::*;

/// The rows and columns of `C` that a block computes. Each of its four warps computes a quarter of 32 x 32.
pub const TILE: u32 = 64;
/// The columns of `A` and rows of `B` that lie in shared memory at a time.
pub const DEPTH: u32 = 32;
/// The elements from row to row of the tiles: 16 bytes more, so that the eight rows of a matrix lie in different banks.
const STRIDES: [u32; 2] = [DEPTH + 8, TILE + 8];
/// The elements of the shared memory of a block.
pub const SHARED: usize = (TILE * STRIDES[0] + DEPTH * STRIDES[1]) as usize;

/// An element of a matrix with rows of `columns` elements, or 0 outside.
///
/// # Safety
/// - `matrix` holds `rows * columns` elements.
#[inline(always)]
#[track_caller]
unsafe fn element(matrix: Global<Bf16>, [rows, columns]: [u32; 2], row: u32, column: u32) -> Bf16 {
    let inside = row < rows && column < columns;
    // SAFETY: the element lies in the matrix where it is read.
    if inside { unsafe { matrix.load((row * columns + column) as isize) } } else { Bf16::default() }
}

/// The product of `rows` x `inner` and `inner` x `columns`: each block one tile of `C`.
///
/// # Safety
/// - `a` holds `rows * inner` elements, `b` `inner * columns`, and `c` `rows * columns`.
/// - A block has 32 x 4 threads and [`SHARED`] elements of shared memory. The grid has a block for each tile of `C`.
#[kernel(lengths(a = rows * inner, b = inner * columns, c = rows * columns), launch_bounds(128))]
pub unsafe fn product_bf16(a: Global<Bf16>, b: Global<Bf16>, c: GlobalMut<f32>, rows: u32, columns: u32, inner: u32) {
    let (lane, warp, thread) = (thread::thread_idx_x(), thread::thread_idx_y(), thread::thread_rank());
    let (first_row, first_column) = (thread::block_idx_y() * TILE, thread::block_idx_x() * TILE);
    // The warp's quarter of the tile.
    let (row, column) = (warp / 2 * 32, warp % 2 * 32);
    let (tile_a, tile_b) = (Shared::<Bf16>::dynamic(), Shared::<Bf16>::dynamic().offset(TILE * STRIDES[0]));
    let mut sums = [[[0.0; 4]; 4]; 2];
    let mut first = 0;
    while first < inner {
        for i in 0..TILE * DEPTH / 128 {
            let at = i * 128 + thread;
            // SAFETY: the matrices hold as many elements. The thread's elements of the tiles are its own.
            unsafe {
                let (row, k) = (at / DEPTH, at % DEPTH);
                tile_a.store(row * STRIDES[0] + k, element(a, [rows, inner], first_row + row, first + k));
                let (k, column) = (at / TILE, at % TILE);
                tile_b.store(k * STRIDES[1] + column, element(b, [inner, columns], first + k, first_column + column));
            }
        }
        // SAFETY: all threads of the block are here: the bounds of the loop are equal in all.
        unsafe { thread::sync_threads() };
        for k in [0, 16] {
            // Lane i passes row i % 16 of two matrices beside each other.
            let (of_row, beside) = (lane % 16, lane / 16 * 8);
            let row_of_a = |m: u32| tile_a.offset((row + m * 16 + of_row) * STRIDES[0] + k + beside);
            let row_of_b = |n: u32| tile_b.offset((k + of_row) * STRIDES[1] + column + n * 16 + beside);
            // SAFETY: the rows lie in the tiles, and were written before the barrier. All lanes are here.
            unsafe {
                let (of_a, of_b) = (|m| ldmatrix_x4(row_of_a(m)), |n| ldmatrix_x4_trans(row_of_b(n)));
                let (fragments_a, fragments_b) = ([of_a(0), of_a(1)], [of_b(0), of_b(1)]);
                for m in 0..2 {
                    for n in 0..4 {
                        let [b0, b1] = [0, 1].map(|half| fragments_b[n / 2][n % 2 * 2 + half]);
                        sums[m][n] = mma_m16n8k16_bf16(fragments_a[m], [b0, b1], sums[m][n]);
                    }
                }
            }
        }
        // Nobody may write the next tiles before all have read these. SAFETY: as above.
        unsafe { thread::sync_threads() };
        first += DEPTH;
    }
    // `cuda_std::mma` has the table of which lane holds which elements.
    for i in 0..32 {
        let (m, n, part) = (i / 16, i / 4 % 4, i % 4);
        let row = first_row + row + m * 16 + lane / 4 + part / 2 * 8;
        let column = first_column + column + n * 8 + lane % 4 * 2 + part % 2;
        if row < rows && column < columns {
            // SAFETY: the element lies in the matrix, and no other thread has it.
            unsafe { c.store((row * columns + column) as isize, sums[m as usize][n as usize][part as usize]) };
        }
    }
}
