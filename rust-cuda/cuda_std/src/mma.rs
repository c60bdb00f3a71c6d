//! Matrix products of one warp in the tensor cores: PTX `mma.sync`, from compute capability 8.0 on.
//!
//! Each function computes `D = A B + C`. Each lane holds a fragment of every matrix. In the tables below `g = lane / 4`
//! and `t = lane % 4`, and a word's bytes and halves are listed from the lowest on.
//!
//! # Integers
//! `A` is 16 x 32, `B` is 32 x 8, `C` and `D` are 16 x 8 of `i32`. [`mma_m16n8k32_u8s8`] has `u8` in `A` and `i8` in
//! `B`, [`mma_m16n8k32_s8u8`] has `i8` in `A` and `u8` in `B`.
//!
//! | | rows | columns |
//! | --- | --- | --- |
//! | `a[0]`, `a[1]` | `g`, `g + 8` | `4 t` to `4 t + 3` |
//! | `a[2]`, `a[3]` | `g`, `g + 8` | `16 + 4 t` to `16 + 4 t + 3` |
//! | `b[0]` | `4 t` to `4 t + 3` | `g` |
//! | `b[1]` | `16 + 4 t` to `16 + 4 t + 3` | `g` |
//! | `c[0]`, `c[1]` | `g` | `2 t`, `2 t + 1` |
//! | `c[2]`, `c[3]` | `g + 8` | `2 t`, `2 t + 1` |
//!
//! # Floating point
//! - [`mma_m16n8k8_tf32`]: `A` is 16 x 8 and `B` is 8 x 8 of TF32. TF32 is an `f32` whose lower 13 bits are ignored.
//! - [`mma_m16n8k16_bf16`]: `A` is 16 x 16 and `B` is 16 x 8 of [`Bf16`](crate::half::Bf16), two to a word.
//!   [`ldmatrix`](crate::ldmatrix) loads such fragments from shared memory.
//!
//! `C` and `D` are 16 x 8 of `f32`, with the fragments above.
//!
//! | | rows of `A`, columns of `B` | columns of `A`, rows of `B`: TF32 | bf16 |
//! | --- | --- | --- | --- |
//! | `a[0]`, `a[1]` | `g`, `g + 8` | `t` | `2 t`, `2 t + 1` |
//! | `a[2]`, `a[3]` | `g`, `g + 8` | `t + 4` | `8 + 2 t`, `8 + 2 t + 1` |
//! | `b[0]` | `g` | `t` | `2 t`, `2 t + 1` |
//! | `b[1]` | `g` | `t + 4` | `8 + 2 t`, `8 + 2 t + 1` |
//!
//! The products are exact. The device aligns the terms of a sum to the largest one and truncates them to 24 bits or a
//! few more (Fasi, Higham, Mikaitis, Pranesh, *Numerical behavior of NVIDIA tensor cores*, 2021). On the host each term
//! is added with one rounding. The results are as accurate, but not bit-exact.

#[cfg(not(target_arch = "nvptx64"))]
use crate::executor;

/// LLVM's intrinsics.
///
/// LLVM knows that they are convergent: it neither copies them into the arms of a branch nor moves them across one. It
/// would do so with inline assembly. It accepts them from `sm_80` on.
#[cfg(target_arch = "nvptx64")]
mod intrinsics {
    /// The fragment of `D`: the struct that LLVM returns.
    #[repr(C)]
    pub(super) struct Fragment<T>(pub(super) T, pub(super) T, pub(super) T, pub(super) T);

    /// One declaration per shape: four words of `A`, two of `B`, four elements of `C`.
    macro_rules! declare {
        ($($name:ident($element:ty) = $link_name:literal;)*) => {
            // The ABI "unadjusted" passes and returns values as LLVM has them. "C" would return the struct by memory.
            #[allow(improper_ctypes)]
            unsafe extern "unadjusted" {$(
                #[link_name = $link_name]
                pub(super) fn $name(
                    a0: u32, a1: u32, a2: u32, a3: u32, b0: u32, b1: u32,
                    c0: $element, c1: $element, c2: $element, c3: $element,
                ) -> Fragment<$element>;
            )*}
        };
    }

    declare! {
        mma_m16n8k32_u8s8(i32) = "llvm.nvvm.mma.m16n8k32.row.col.u8.s8";
        mma_m16n8k32_s8u8(i32) = "llvm.nvvm.mma.m16n8k32.row.col.s8.u8";
        mma_m16n8k8_tf32(f32) = "llvm.nvvm.mma.m16n8k8.row.col.tf32";
        mma_m16n8k16_bf16(f32) = "llvm.nvvm.mma.m16n8k16.row.col.bf16";
    }
}

/// One matrix product: the intrinsic on the device, the executor's answer on the host.
macro_rules! mma {
    ($intrinsic:ident, $product:ident, $a:ident, $b:ident, $c:ident) => {{
        #[cfg(target_arch = "nvptx64")]
        {
            require_arch!(concat!("mma::", stringify!($intrinsic)), "sm_80", "Sm80");
            let ([a0, a1, a2, a3], [b0, b1], [c0, c1, c2, c3]) = ($a, $b, $c);
            // SAFETY: all 32 lanes of the warp are converged here, as the function requires. The operands are values.
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

/// `A B + C` of integers, unsigned bytes in `A` and signed ones in `B`; sums wrap around.
///
/// # Safety
/// - All 32 lanes of the warp execute this call together. No lane has returned.
/// - Every branch around the call depends on values that are equal in all lanes.
/// - The number of threads of the block is a multiple of 32.
#[inline(always)]
#[track_caller]
#[must_use]
pub unsafe fn mma_m16n8k32_u8s8(a: [u32; 4], b: [u32; 2], c: [i32; 4]) -> [i32; 4] {
    mma!(mma_m16n8k32_u8s8, u8s8_product, a, b, c)
}

/// `A B + C` of integers, signed bytes in `A` and unsigned ones in `B`; sums wrap around.
///
/// # Safety
/// - All 32 lanes of the warp execute this call together. No lane has returned.
/// - Every branch around the call depends on values that are equal in all lanes.
/// - The number of threads of the block is a multiple of 32.
#[inline(always)]
#[track_caller]
#[must_use]
pub unsafe fn mma_m16n8k32_s8u8(a: [u32; 4], b: [u32; 2], c: [i32; 4]) -> [i32; 4] {
    mma!(mma_m16n8k32_s8u8, s8u8_product, a, b, c)
}

/// `A B + C` of TF32.
///
/// # Safety
/// - All 32 lanes of the warp execute this call together. No lane has returned.
/// - Every branch around the call depends on values that are equal in all lanes.
/// - The number of threads of the block is a multiple of 32.
#[inline(always)]
#[track_caller]
#[must_use]
pub unsafe fn mma_m16n8k8_tf32(a: [f32; 4], b: [f32; 2], c: [f32; 4]) -> [f32; 4] {
    let (a, b) = (a.map(f32::to_bits), b.map(f32::to_bits));
    mma!(mma_m16n8k8_tf32, tf32_product, a, b, c)
}

/// `A B + C` of bfloat16.
///
/// # Safety
/// - All 32 lanes of the warp execute this call together. No lane has returned.
/// - Every branch around the call depends on values that are equal in all lanes.
/// - The number of threads of the block is a multiple of 32.
#[inline(always)]
#[track_caller]
#[must_use]
pub unsafe fn mma_m16n8k16_bf16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    mma!(mma_m16n8k16_bf16, bf16_product, a, b, c)
}

/// The fragment of `D` of `lane`, where `all` holds the fragments of `A` and `B` of all lanes, in TF32.
#[cfg(not(target_arch = "nvptx64"))]
fn tf32_product(all: &[[u32; executor::GATHERED]; 32], lane: usize, c: [f32; 4]) -> [f32; 4] {
    let value = |lane: usize, word: usize| f32::from_bits(all[lane][word] & !0x1fff);
    std::array::from_fn(|i| {
        let (row, column) = (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2);
        (0..8).fold(c[i], |sum, k| {
            let a = value(row % 8 * 4 + k % 4, row / 8 + k / 4 * 2);
            // A product has at most 22 significant bits, so `mul_add` rounds the sum alone.
            a.mul_add(value(column * 4 + k % 4, 4 + k / 4), sum)
        })
    })
}

/// The fragment of `D` of `lane`, where `all` holds the fragments of `A` and `B` of all lanes, in bfloat16.
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

#[cfg(not(target_arch = "nvptx64"))]
fn u8s8_product(all: &[[u32; executor::GATHERED]; 32], lane: usize, c: [i32; 4]) -> [i32; 4] {
    integer_product(all, lane, c, |a, b| i32::from(a) * i32::from(b as i8))
}

#[cfg(not(target_arch = "nvptx64"))]
fn s8u8_product(all: &[[u32; executor::GATHERED]; 32], lane: usize, c: [i32; 4]) -> [i32; 4] {
    integer_product(all, lane, c, |a, b| i32::from(a as i8) * i32::from(b))
}

/// The fragment of `D` of `lane`, where `all` holds the fragments of `A` and `B` of all lanes, in integers.
#[cfg(not(target_arch = "nvptx64"))]
fn integer_product(
    all: &[[u32; executor::GATHERED]; 32],
    lane: usize,
    c: [i32; 4],
    product: fn(u8, u8) -> i32,
) -> [i32; 4] {
    let (g, t) = (lane / 4, lane % 4);
    std::array::from_fn(|i| {
        let (row, column) = (g + i / 2 * 8, 2 * t + i % 2);
        // Each half of the 32 terms lies in four lanes, four bytes in each.
        let words = (0..8).map(|word| (word / 4, word % 4));
        words.fold(c[i], |sum, (half, of)| {
            let a = all[row % 8 * 4 + of][row / 8 + 2 * half].to_le_bytes();
            let b = all[column * 4 + of][4 + half].to_le_bytes();
            a.into_iter().zip(b).fold(sum, |sum, (a, b)| sum.wrapping_add(product(a, b)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{bf16_product, s8u8_product, tf32_product, u8s8_product};
    use crate::bf16;

    /// The fragments of the documentation against a matrix product by definition.
    #[test]
    fn integer_fragments_make_the_product() {
        let a = |row: usize, k: usize| (row * 37 + k * 101 + row * k * 13) as u8;
        let b = |k: usize, column: usize| (k * 59 + column * 23 + k * column * 7) as u8;
        let word = |byte: &dyn Fn(usize) -> u8, first: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| byte(first + i)));
        let all = std::array::from_fn(|lane| {
            let (g, t) = (lane / 4, lane % 4);
            let of_a = |i: usize| word(&|k| a(g + i % 2 * 8, k), i / 2 * 16 + 4 * t);
            let of_b = |i: usize| word(&|k| b(k, g), i * 16 + 4 * t);
            [of_a(0), of_a(1), of_a(2), of_a(3), of_b(0), of_b(1)]
        });
        for lane in 0..32 {
            let c = [5, -6, 7, i32::MAX];
            let (u8s8, s8u8) = (u8s8_product(&all, lane, c), s8u8_product(&all, lane, c));
            for (i, c) in c.into_iter().enumerate() {
                let (row, column) = (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2);
                let sum = |product: fn(u8, u8) -> i32| {
                    (0..32).map(|k| product(a(row, k), b(k, column))).sum::<i32>().wrapping_add(c)
                };
                assert_eq!(u8s8[i], sum(|a, b| i32::from(a) * i32::from(b as i8)), "lane {lane}, {i}");
                assert_eq!(s8u8[i], sum(|a, b| i32::from(a as i8) * i32::from(b)), "lane {lane}, {i}");
            }
        }
    }

    /// All products and sums of these values are exact.
    #[test]
    fn floating_point_fragments_make_the_products() {
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
