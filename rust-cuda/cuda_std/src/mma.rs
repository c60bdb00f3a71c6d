//! Products of small matrices, each computed by a warp in its tensor cores: PTX `mma.sync`, from compute capability 8.0 on.
//!
//! # Who holds what
//! Of `D = A B + C`, `A` is 16 x 32 bytes without a sign, `B` 32 x 8 bytes with a sign, `C` and `D` are 16 x 8 numbers of 32 bits. With
//! `g = lane / 4` and `t = lane % 4`, bytes of a word counted from the lowest on:
//!
//! | | rows | columns |
//! | --- | --- | --- |
//! | `a[0]`, `a[1]` | `g`, `g + 8` | `4 t` to `4 t + 3` |
//! | `a[2]`, `a[3]` | `g`, `g + 8` | `16 + 4 t` to `16 + 4 t + 3` |
//! | `b[0]`, `b[1]` | `4 t` to `4 t + 3`, the same from 16 on | `g` |
//! | `c[0]`, `c[1]` | `g` | `2 t`, `2 t + 1` |
//! | `c[2]`, `c[3]` | `g + 8` | `2 t`, `2 t + 1` |
//!
//! # Floating point
//! Of [`mma_m16n8k8_tf32`] `A` is 16 x 8, `B` 8 x 8 numbers of 19 bits, a sign, 8 bits of exponent and 11 digits: an `f32` whose lower
//! 13 bits are ignored. Of [`mma_m16n8k16_bf16`] `A` is 16 x 16, `B` 16 x 8, two numbers of [`bf16`](crate::bf16) to a word, the lower half first. `C` and `D` are `f32`:
//!
//! | | rows | columns: 19 bits | 16 bits |
//! | --- | --- | --- | --- |
//! | `a[0]`, `a[1]` | `g`, `g + 8` | `t` | `2 t`, `2 t + 1` |
//! | `a[2]`, `a[3]` | `g`, `g + 8` | `t + 4` | `8 + 2 t`, `8 + 2 t + 1` |
//! | `b[0]` | the columns of `a[0]` | `g` | `g` |
//! | `b[1]` | the columns of `a[2]` | `g` | `g` |
//! | `c` | as above | | |
//!
//! Products are exact. How a device adds them is its own: the terms of a sum are aligned to the largest of them and cut off behind 24
//! digits or a few more, as is the sum (Fasi, Higham, Mikaitis, Pranesh, *Numerical behavior of NVIDIA tensor cores*, 2021). On the host
//! each is added to the one before and rounded: other bits, not less exact.

#[cfg(not(target_arch = "nvptx64"))]
use crate::executor;

/// LLVM's intrinsics and not inline assembly: LLVM knows that these are convergent, so that it neither copies them into
/// the arms of
/// a branch nor moves them past one. The compiler accepts them from `sm_80` on only.
#[cfg(target_arch = "nvptx64")]
mod intrinsics {
    /// An error of the compiler in a build for an older architecture. Generic, so that only kernels that get here are
    /// asked.
    #[inline(always)]
    pub(super) fn require_sm_80<T>() {
        const { assert!(cfg!(target_feature = "sm_80"), "matrix products need a build for sm_80 or newer") };
    }

    /// The registers of `D`: the struct that LLVM returns.
    #[repr(C)]
    pub(super) struct Fragment<T>(pub(super) T, pub(super) T, pub(super) T, pub(super) T);

    // "unadjusted" passes and returns values as LLVM has them: "C" would return the struct through memory.
    #[allow(improper_ctypes)]
    unsafe extern "unadjusted" {
        #[link_name = "llvm.nvvm.mma.m16n8k32.row.col.u8.s8"]
        pub(super) fn mma_m16n8k32_u8s8(
            a0: u32,
            a1: u32,
            a2: u32,
            a3: u32,
            b0: u32,
            b1: u32,
            c0: i32,
            c1: i32,
            c2: i32,
            c3: i32,
        ) -> Fragment<i32>;
        #[link_name = "llvm.nvvm.mma.m16n8k8.row.col.tf32"]
        pub(super) fn mma_m16n8k8_tf32(
            a0: u32,
            a1: u32,
            a2: u32,
            a3: u32,
            b0: u32,
            b1: u32,
            c0: f32,
            c1: f32,
            c2: f32,
            c3: f32,
        ) -> Fragment<f32>;
        #[link_name = "llvm.nvvm.mma.m16n8k16.row.col.bf16"]
        pub(super) fn mma_m16n8k16_bf16(
            a0: u32,
            a1: u32,
            a2: u32,
            a3: u32,
            b0: u32,
            b1: u32,
            c0: f32,
            c1: f32,
            c2: f32,
            c3: f32,
        ) -> Fragment<f32>;
    }
}

/// A product of matrices: the intrinsic on the device, the executor's answer on the host.
macro_rules! mma {
    ($intrinsic:ident, $product:ident, $a:ident, $b:ident, $c:ident) => {{
        #[cfg(target_arch = "nvptx64")]
        {
            intrinsics::require_sm_80::<()>();
            let ([a0, a1, a2, a3], [b0, b1], [c0, c1, c2, c3]) = ($a, $b, $c);
            // SAFETY: arithmetic on registers; that all lanes take part is the caller's side, as documented.
            let d = unsafe { intrinsics::$intrinsic(a0, a1, a2, a3, b0, b1, c0, c1, c2, c3) };
            [d.0, d.1, d.2, d.3]
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            let values = [$a[0], $a[1], $a[2], $a[3], $b[0], $b[1]];
            let all = executor::current().gather(values, core::panic::Location::caller());
            $product(&all, crate::warp::lane_id() as usize, $c)
        }
    }};
}

/// `A B + C`, whole numbers that wrap around. All lanes of the warp must call it together, as with
/// [`warp`](crate::warp).
#[inline(always)]
#[track_caller]
#[must_use]
pub fn mma_m16n8k32_u8s8(a: [u32; 4], b: [u32; 2], c: [i32; 4]) -> [i32; 4] {
    mma!(mma_m16n8k32_u8s8, product, a, b, c)
}

/// `A B + C` of `f32` whose lower 13 bits do not count. All lanes of the warp must call it together.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn mma_m16n8k8_tf32(a: [f32; 4], b: [f32; 2], c: [f32; 4]) -> [f32; 4] {
    let (a, b) = (a.map(f32::to_bits), b.map(f32::to_bits));
    mma!(mma_m16n8k8_tf32, tf32_product, a, b, c)
}

/// `A B + C` of numbers of 16 bits. All lanes of the warp must call it together.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn mma_m16n8k16_bf16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    mma!(mma_m16n8k16_bf16, bf16_product, a, b, c)
}

/// What `lane` gets when the lanes hold `all` of `A` and `B` in numbers of 19 bits.
#[cfg(not(target_arch = "nvptx64"))]
fn tf32_product(all: &[[u32; executor::GATHERED]; 32], lane: usize, c: [f32; 4]) -> [f32; 4] {
    let value = |lane: usize, word: usize| f32::from_bits(all[lane][word] & !0x1fff);
    std::array::from_fn(|i| {
        let (row, column) = (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2);
        (0..8).fold(c[i], |sum, k| {
            let a = value(row % 8 * 4 + k % 4, row / 8 + k / 4 * 2);
            // A product has at most 22 digits: a fused step rounds the sum alone.
            a.mul_add(value(column * 4 + k % 4, 4 + k / 4), sum)
        })
    })
}

/// The same in numbers of 16 bits.
#[cfg(not(target_arch = "nvptx64"))]
fn bf16_product(all: &[[u32; executor::GATHERED]; 32], lane: usize, c: [f32; 4]) -> [f32; 4] {
    let pair = |lane: usize, word: usize| crate::bf16::unpack(all[lane][word]);
    std::array::from_fn(|i| {
        let (row, column) = (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2);
        (0..8).fold(c[i], |sum, word| {
            let a = pair(row % 8 * 4 + word % 4, row / 8 + word / 4 * 2);
            let b = pair(column * 4 + word % 4, 4 + word / 4);
            a.into_iter().zip(b).fold(sum, |sum, (a, b)| a.mul_add(b, sum))
        })
    })
}

/// What `lane` gets when the lanes hold `all` of `A` and `B`.
#[cfg(not(target_arch = "nvptx64"))]
fn product(all: &[[u32; executor::GATHERED]; 32], lane: usize, c: [i32; 4]) -> [i32; 4] {
    let (g, t) = (lane / 4, lane % 4);
    std::array::from_fn(|i| {
        let (row, column) = (g + i / 2 * 8, 2 * t + i % 2);
        // Four bytes of a word of either, for each half of the 32 and each of four lanes.
        let words = (0..8).map(|word| (word / 4, word % 4));
        words.fold(c[i], |sum, (half, of)| {
            let a = all[row % 8 * 4 + of][row / 8 + 2 * half].to_le_bytes();
            let b = all[column * 4 + of][4 + half].to_le_bytes();
            a.into_iter().zip(b).fold(sum, |sum, (a, b)| sum.wrapping_add(i32::from(a) * i32::from(b as i8)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{bf16_product, product, tf32_product};
    use crate::bf16;

    /// The table of the documentation against a product of matrices, written out.
    #[test]
    fn the_parts_of_the_lanes_make_the_product() {
        let a = |row: usize, k: usize| (row * 37 + k * 101 + row * k * 13) as u8;
        let b = |k: usize, column: usize| (k * 59 + column * 23 + k * column * 7) as u8 as i8;
        let word = |byte: &dyn Fn(usize) -> u8, first: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| byte(first + i)));
        let all = std::array::from_fn(|lane| {
            let (g, t) = (lane / 4, lane % 4);
            let of_a = |i: usize| word(&|k| a(g + i % 2 * 8, k), i / 2 * 16 + 4 * t);
            let of_b = |i: usize| word(&|k| b(k, g) as u8, i * 16 + 4 * t);
            [of_a(0), of_a(1), of_a(2), of_a(3), of_b(0), of_b(1)]
        });
        for lane in 0..32 {
            let d = product(&all, lane, [5, -6, 7, i32::MAX]);
            for (i, c) in [5, -6, 7, i32::MAX].into_iter().enumerate() {
                let (row, column) = (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2);
                let sum = (0..32).map(|k| i32::from(a(row, k)) * i32::from(b(k, column))).sum::<i32>();
                assert_eq!(d[i], sum.wrapping_add(c), "lane {lane}, {i}");
            }
        }
    }

    /// The same of floating-point numbers, whose products and sums here are exact.
    #[test]
    fn the_parts_of_the_lanes_make_the_products_of_floating_point_numbers() {
        let a = |row: usize, k: usize| ((row * 5 + k * 3 + row * k) % 201) as f32 - 40.0;
        let b = |k: usize, column: usize| (k * 7 + column * 11) as f32 / 8.0;
        let right = |lane: usize, i: usize, c: f32, most: usize| {
            let (row, column) = (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2);
            c + (0..most).map(|k| a(row, k) * b(k, column)).sum::<f32>()
        };
        let of = |part: &dyn Fn(usize, usize, usize) -> u32| {
            std::array::from_fn(|lane| {
                let (g, t) = (lane / 4, lane % 4);
                std::array::from_fn(|i| if i < 6 { part(g, t, i) } else { 0 })
            })
        };
        let words = of(&|g, t, i| match i {
            0..4 => a(g + i % 2 * 8, i / 2 * 4 + t).to_bits() | 0x1234,
            _ => b((i - 4) * 4 + t, g).to_bits() | 0x0fff,
        });
        let pairs = of(&|g, t, i| match i {
            0..4 => {
                let (row, k) = (g + i % 2 * 8, i / 2 * 8 + 2 * t);
                bf16::pack(a(row, k), a(row, k + 1))
            }
            _ => bf16::pack(b((i - 4) * 8 + 2 * t, g), b((i - 4) * 8 + 2 * t + 1, g)),
        });
        let c = [0.5, -6.0, 7.0, 1000.0];
        for lane in 0..32 {
            let (first, second) = (tf32_product(&words, lane, c), bf16_product(&pairs, lane, c));
            for (i, c) in c.into_iter().enumerate() {
                assert_eq!(first[i], right(lane, i, c, 8), "lane {lane}, {i}");
                assert_eq!(second[i], right(lane, i, c, 16), "lane {lane}, {i}");
            }
        }
    }
}
