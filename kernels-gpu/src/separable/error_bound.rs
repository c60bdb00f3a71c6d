//! The error bound of the separable kernels that compute in `f32`.

/// How far a separable mask may differ from the given mask, in units of `2^-24` of each coefficient.
///
/// The host uses a separable kernel only within this limit. An outer product that was computed in `f64` and rounded is
/// off by 1. Of its factors the row, taken as it stands, is off by 1 more. The column, a quotient of two rounded
/// numbers, is off by 3. A mask that was divided by its sum after rounding is off by 1 more. The limit of 16 is
/// `2^-20`.
pub const MASK_ERROR: u32 = 16;

/// The constant `c` of the error bound `|O - exact| <= gamma(c) * sum over k, l of |M[k, l] I|`.
///
/// Here `u = 2^-24`, `gamma(n) = n u / (1 - n u)`, and `exact` is the sum with the given mask `M`.
///
/// A sum of n fused multiply-adds from 0 is off by at most `gamma(n)` times the sum of the absolute products. Let `r`
/// be the row of w coefficients, `c` the column of h coefficients, and `T` the filtered rows. Then
/// ```text
/// row pass:        |T - sum_l r_l I|       <= gamma(w) sum_l |r_l I|
/// column pass:     |O - sum_k c_k T|       <= gamma(h) sum_k |c_k T|
/// both passes:     |O - sum_kl c_k r_l I|  <= (gamma(w) + gamma(h) + gamma(w) gamma(h)) A
///                                          <= gamma(w + h) A            where A = sum_kl |c_k r_l I|
/// the mask:        |M_kl - c_k r_l|        <= m u |M_kl|                where m = MASK_ERROR
///                  A                       <= (1 + m u) B               where B = sum_kl |M_kl I|
/// together:        |O - sum_kl M_kl I|     <= (gamma(w + h) (1 + m u) + m u) B
///                                          <= gamma(w + h + m) B
/// ```
/// The sums of gammas follow lemma 3.3 of Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd edition.
///
/// Below the normal numbers each step may lose `2^-150` more. What the row pass loses is multiplied with the column.
#[must_use]
pub const fn error_constant(mask_width: u32, mask_height: u32) -> u64 {
    mask_width as u64 + mask_height as u64 + MASK_ERROR as u64
}
