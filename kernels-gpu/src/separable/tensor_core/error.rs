//! The error bound of the tensor-core kernel.

use super::subtiles;
use crate::separable::error_bound::MASK_ERROR;

/// The constant `c` of the error bound `|O - exact| <= gamma(c) * sum |M I|`, for images of so many channels and masks
/// of up to this many [`blocks`](super::blocks).
///
/// The form of the bound is that of [`error_bound::error_constant`](crate::separable::error_bound::error_constant). Let
/// `u = 2^-24`, and let `A` be the sum of a pass's absolute products.
///
/// # Products
/// A coefficient is split as `m = mh + ml` with `|ml| <= 2^-11 |m|`. A pixel, or a filtered one, is truncated:
/// `p = ph + pl` with `|pl| <= 2^-10 |p|`. Then `m p = mh ph + m pl + ml p - ml pl`.
///
/// Rounding to 8 bits is off by at most `2^-8` of the number. A number below `2^-10` times a power of two is off by at
/// most `2^-19` times that power, one of at most `2^-11` times it by `2^-20`.
///
/// # Terms
/// In units of `u A`, each pass is off by at most
/// ```text
///  96               m pl: 64 for m, rounded to 8 bits, 32 for pl
///  48               ml p: 32 for p, 16 for ml
///   8               ml pl, which is left out: 2^-21
///   1               products of these errors
///  22 (blocks + 1)  sums of the row pass in the tensor cores; see below
///  22 subtiles      sums of the column pass in the tensor cores
///   2               sums of the bf16 products of both passes, which are 2^-9 as large as the others
///   1               tf32 and bf16 sums of the row pass added
///   blocks           sums of the column pass added
/// ```
/// [`MASK_ERROR`] covers a mask that is nearly an outer product. Products of all of these errors are less than 2, as
/// `c^2 u` is.
///
/// # Sums in the tensor cores
/// Products are exact. From compute capability 8.0 on, a tensor core adds 4 or more products and the sum so far at a
/// time. It aligns them to the largest, truncates after at least 24 bits, and truncates the sum to an `f32`. (Fasi,
/// Higham, Mikaitis, Pranesh, *Numerical behavior of NVIDIA tensor cores*, 2021. Khattak, Mikaitis, *Accurate models of
/// NVIDIA tensor cores*, 2025, finds no fewer bits on later ones.)
///
/// One product of matrices truncates 8 products and one sum, each by at most `2 u` times the largest, and two sums by
/// `2 u` each. That is `22 u` times the sum so far, which is at most `A`. A chain of the row pass has `blocks + 1`
/// products of matrices, a chain of the column pass has [`subtiles`].
#[must_use]
pub const fn error_constant(channels: u32, blocks: u32) -> u64 {
    let (blocks, subtiles) = (blocks as u64, subtiles(channels, blocks) as u64);
    2 * 153 + 22 * (blocks + 1) + 22 * subtiles + 3 + blocks + MASK_ERROR as u64 + 2
}
