//! Numbers of 16 bits, matrices of them from shared memory, and their products.

use cuda_std::half::{Bf16, Bf16x2, F16, F16x2};
use cuda_std::ldmatrix::*;
use cuda_std::mma::mma_m16n8k16_bf16;
use cuda_std::prelude::*;
use cuda_std::shared_array;

/// The words of a thread's results of [`halves_f16`] and [`halves_bf16`].
const RESULTS: u32 = 9;

/// Makes a kernel that applies each operation of a type of 16 bits to three numbers of each thread.
macro_rules! halves {
    ($kernel:ident, $one:ident, $two:ident) => {
        /// Each thread applies each operation to three numbers. One of them goes through shared memory.
        ///
        /// # Safety
        /// - The launch is that of the kernel's [`Case`](crate::Case).
        #[kernel]
        pub unsafe fn $kernel(input: Global<u32>, output: GlobalMut<u32>) {
            let tx = thread::thread_idx_x();
            let (ones, twos) = (shared_array![$one; 32; $one], shared_array![$two; 32; $two]);
            // SAFETY: the arrays have the elements. Each thread accesses its own ones.
            unsafe {
                let [a, b, c] = [0, 1, 2].map(|i| f32::from_bits(input.load((3 * tx + i) as isize)));
                let [x, y, z] = [a, b, c].map($one::from_f32);
                ones.store(tx, x);
                let x = ones.load(tx);
                let (p, q, r) = ($two::from_f32(a, b), $two::new(y, x), $two::splat(z));
                twos.store(tx, p);
                let p = twos.load(tx);
                let words = [
                    $two::new(x, y).to_bits(),
                    x.to_f32().to_bits(),
                    $two::new(x + y, x - y).to_bits(),
                    $two::new(x * y, x.fma(y, z)).to_bits(),
                    p.to_bits(),
                    (p + r).to_bits(),
                    (p - q).to_bits(),
                    (p * r).to_bits(),
                    p.fma(q, -r).to_bits(),
                ];
                for (i, word) in (RESULTS * tx..).zip(words) {
                    output.store(i as isize, word);
                }
            }
        }
    };
}

halves! { halves_f16, F16, F16x2 }
halves! { halves_bf16, Bf16, Bf16x2 }

/// The words of a lane that [`matrices`] loads.
const LOADED: u32 = 2 * (1 + 2 + 4);

/// Loads one, two and four matrices, and the same transposed.
///
/// # Safety
/// - The launch is that of the kernel's [`Case`](crate::Case).
#[kernel]
pub unsafe fn matrices(input: Global<u32>, output: GlobalMut<u32>) {
    let lane = thread::thread_idx_x();
    let tile = Shared::<u32>::dynamic();
    // SAFETY: the arrays have the elements, and a barrier lies between the accesses of two threads. Rows have 16 bytes.
    unsafe {
        for word in 0..4 {
            tile.store(4 * lane + word, input.load((4 * lane + word) as isize));
        }
        thread::sync_threads();
        let row = tile.cast::<u16>().offset(8 * lane);
        let ([a], [b, c], [d, e, f, g]) = (ldmatrix_x1(row), ldmatrix_x2(row), ldmatrix_x4(row));
        let ([h], [i, j], [k, l, m, n]) = (ldmatrix_x1_trans(row), ldmatrix_x2_trans(row), ldmatrix_x4_trans(row));
        for (i, word) in (LOADED * lane..).zip([a, b, c, d, e, f, g, h, i, j, k, l, m, n]) {
            output.store(i as isize, word);
        }
    }
}

/// The product of 16 x 16 and 16 x 8 elements of bfloat16, row by row in the input.
///
/// # Safety
/// - The launch is that of the kernel's [`Case`](crate::Case).
#[kernel]
pub unsafe fn product_bf16(input: Global<u32>, output: GlobalMut<u32>) {
    let lane = thread::thread_idx_x();
    let (tile, input) = (Shared::<Bf16>::dynamic(), input.cast::<Bf16>());
    // SAFETY: the arrays have the elements, and a barrier lies between the accesses of two threads. Rows have 16 bytes.
    unsafe {
        for i in 0..12 {
            tile.store(32 * i + lane, input.load((32 * i + lane) as isize));
        }
        thread::sync_threads();
        let a = ldmatrix_x4(tile.offset(lane % 16 * 16 + lane / 16 * 8));
        let b = ldmatrix_x2_trans(tile.offset(16 * 16 + lane % 16 * 8));
        let d = mma_m16n8k16_bf16(a, b, [0.5; 4]);
        for (i, element) in (4 * lane..).zip(d) {
            output.cast::<f32>().store(i as isize, element);
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use host::cases;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use std::vec::Vec;

    use super::*;
    use crate::case::{Case, exact};

    /// Three numbers of each thread: normal and subnormal ones, ties, zeros, and sums that become infinite.
    fn numbers() -> Vec<[f32; 3]> {
        let power = |exponent: i32| 2.0_f32.powi(exponent);
        let mut numbers = std::vec![
            [1.0, 2049.0, -3.0],
            [0.1, -0.3, 1e-3],
            [65504.0, 65504.0, 1.0],
            [0.0, -0.0, -0.0],
            [192.0, 250.0, -power(-100)],
            [192.0, 246.0, power(-100)],
            [power(-24), power(-14), 3.0 * power(-24)],
            [power(-130), power(-126), 1.5],
            [1.0 + power(-11), 1.0 + 3.0 * power(-11), power(-12)],
            [f32::MAX, -1.0, 1.0],
        ];
        let number = |i: u32, step| (i.wrapping_mul(2_654_435_761).wrapping_mul(step) as i32 as f32) * power(-27);
        let more = (numbers.len() as u32..32).map(|i| [37, 101, 53].map(|step| number(i, step)));
        numbers.extend(more);
        numbers
    }

    /// The results of the kernel of a type, by the functions that the unit tests of `cuda_std::half` check.
    macro_rules! expected {
        ($one:ident, $two:ident) => {
            numbers().into_iter().flat_map(|[a, b, c]| {
                let [x, y, z] = [a, b, c].map($one::from_f32);
                let of = |low: $one, high: $one| $two::new(low, high).to_bits();
                [
                    of(x, y),
                    x.to_f32().to_bits(),
                    of(x + y, x - y),
                    of(x * y, x.fma(y, z)),
                    of(x, y),
                    of(x + z, y + z),
                    of(x - y, y - x),
                    of(x * z, y * z),
                    of(x.fma(y, -z), y.fma(x, -z)),
                ]
            })
        };
    }

    /// Row `row` and column `column` of the matrices, below each other.
    fn element(row: usize, column: usize) -> u32 {
        (256 * row + 16 * column + 5) as u32
    }

    /// What a lane gets of [`matrices`].
    fn loaded(lane: usize) -> Vec<u32> {
        let (g, t) = (lane / 4, lane % 4);
        let straight = |matrix: usize| element(8 * matrix + g, 2 * t) | element(8 * matrix + g, 2 * t + 1) << 16;
        let transposed = |matrix: usize| element(8 * matrix + 2 * t, g) | element(8 * matrix + 2 * t + 1, g) << 16;
        let counts = [1, 2, 4_usize];
        let all = counts.iter().flat_map(|&count| (0..count).map(straight));
        all.chain(counts.iter().flat_map(|&count| (0..count).map(transposed))).collect()
    }

    /// The cases of this module.
    pub(crate) fn cases() -> Vec<Case> {
        let input: Vec<u32> = numbers().into_iter().flatten().map(f32::to_bits).collect();
        let of_f16 = exact("halves_f16", halves_f16, expected!(F16, F16x2).collect());
        let of_bf16 = exact("halves_bf16", halves_bf16, expected!(Bf16, Bf16x2).collect());

        let pair = |row, column| element(row, column) | element(row, column + 1) << 16;
        let tile = (0..32).flat_map(|row| [0, 2, 4, 6].map(|column| pair(row, column))).collect();
        let of_matrices = exact("matrices", matrices, (0..32).flat_map(loaded).collect());

        // Small integers, whose products and sums are exact.
        let a = |row: usize, k: usize| (row * 5 + k * 3 + row * k) as f32 % 61.0 - 30.0;
        let b = |k: usize, column: usize| (k * 7 + column * 11) as f32 % 37.0 / 4.0;
        let elements = (0..256).map(|i| a(i / 16, i % 16)).chain((0..128).map(|i| b(i / 8, i % 8)));
        let elements: Vec<u16> = elements.map(|value| Bf16::from_f32(value).to_bits()).collect();
        let words = elements.chunks(2).map(|pair| u32::from(pair[0]) | u32::from(pair[1]) << 16).collect();
        let products = (0..128).map(|i| {
            let (lane, i) = (i / 4, i % 4);
            let (row, column) = (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2);
            (0.5 + (0..16).map(|k| a(row, k) * b(k, column)).sum::<f32>()).to_bits()
        });
        let of_product = exact("product_bf16", product_bf16, products.collect());
        std::vec![
            Case { input: input.clone(), ..of_f16 },
            Case { arch: 80, input, ..of_bf16 },
            Case { arch: 75, shared_bytes: 32 * 16, input: tile, ..of_matrices },
            Case { arch: 80, shared_bytes: 2 * (256 + 128), input: words, ..of_product },
        ]
    }
}
