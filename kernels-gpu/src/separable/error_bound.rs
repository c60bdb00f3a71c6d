//! How far the result of a separable kernel may be from the exact sum.

/// How far a column times a row may be from the mask's coefficient, in units of `2^-24` of that coefficient, for the
/// kernels for separable masks to take its place.
///
/// An outer product that was computed in `f64` and rounded is off by 1, its row as it stands by 1 more, the column, a
/// quotient of two rounded ones, by 3; a mask divided by its sum after it was rounded by 1 more. 16 is `2^-20`.
pub const MASK_ERROR: u32 = 16;

/// The constant `c` of the error bound of the kernels for separable masks: with `u = 2^-24` and `gamma(n) = n u / (1 -
/// n u)`, `|O - exact| <= gamma(c) * sum over k, l of |M[k, l] I|`, `exact` being the sum with the mask `M` itself.
///
/// A sum of n fused multiply-adds from 0 is off by at most `gamma(n)` times the sum of the absolute products. So with
/// `r` the row of w coefficients and `c` the column of h:
/// ```text
/// |T - sum_l r_l I|           <= gamma(w) sum_l |r_l I|                            the rows
/// |O - sum_k c_k T|           <= gamma(h) sum_k |c_k T|                            the columns, so together
/// |O - sum_kl c_k r_l I|      <= (gamma(w) + gamma(h) + gamma(w) gamma(h)) A       A = sum_kl |c_k r_l I|
///                             <= gamma(w + h) A
/// |M_kl - c_k r_l|            <= m u |M_kl|        m = MASK_ERROR, which the host makes sure of, so A <= (1 + m u) B
/// |O - sum_kl M_kl I|         <= (gamma(w + h) (1 + m u) + m u) B                  B = sum_kl |M_kl I|
///                             <= gamma(w + h + m) B
/// ```
/// (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd edition, lemma 3.3 for the sums of gammas.) Below the
/// normal numbers each step may lose `2^-150` more, those of the rows multiplied with the column.
#[must_use]
pub const fn error_constant(mask_width: u32, mask_height: u32) -> u64 {
    mask_width as u64 + mask_height as u64 + MASK_ERROR as u64
}
