//! How far a transformed sum can be from the exact one.
//!
//! `u = 2^-24`, and `||.||` is the 2-norm. `z` are the complex numbers of a pair of tiles: the pixels of one tile are
//! the real parts, those of the other the imaginary parts, both minus a number near the mean of their tile. `M` is the
//! mask. [`Transforms`] has what differs between `fft_tile`, whose tiles have 128 x 128 pixels, and `fft_passes`, whose
//! tiles have 1024 x 1024.
//!
//! # Single operations
//! A complex sum or difference has a relative error of at most `u`. A complex product by two products and two fused
//! multiply-adds has one of at most `2 u` (Jeannerod, Kornerup, Louvet, Muller, *Error bounds on complex floating-point
//! multiplication with an FMA*, 2017). A factor `w` is rounded to nearest, which is off by at most `u |w|`. So a
//! product with a factor is off by at most `3 u`. A product by `h (x +- y)` with `h = sqrt(1/2)` is, too. A product by
//! `i` is exact.
//!
//! # A transform
//! A transform of 32 points has 5 sums on each path, and 3 factors: the first three stages have one, the fourth only
//! multiplies by `i`, the fifth has none. A transform of 4 points has 2 sums and no factor. One factor stands between
//! two such transforms.
//! - `fft_tile`: 128 = 32 x 4 points of one axis have 7 sums and 4 factors. That is `7 + 4 * 3 = 19` roundings, and 38
//!   for both axes.
//! - `fft_passes`: 1024 = 32 x 32 points have 10 sums and 7 factors. That is `10 + 7 * 3 = 31`, and 62 for both axes.
//!
//! *Forward*, in the 2-norm: each stage is a multiple of a unitary matrix. Its rounding errors are relative to each
//! element, so they are relative to the norm as well, and the following stages keep that ratio. After k roundings
//! `||error|| <= ((1 + u)^k - 1) ||F z||` (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd edition,
//! Theorem 24.2; Schatzman, *Accuracy of the discrete Fourier transform and the fast Fourier transform*, 1996).
//!
//! *Inverse*, for one result: the operations that lead to it form a tree, whose leaves are the `P` products `W` of the
//! spectra. Each leaf is multiplied by a number of magnitude 1, and by a factor `1 + e` for each of the k roundings on
//! its path. So the error is at most `((1 + u)^k - 1) sum |W|`.
//!
//! # Together
//! Let `P` be the number of points of a tile, and `H` the spectrum of the mask with `||H|| = sqrt(P) ||M||`. `W = H F z
//! / P`, so by Cauchy and Schwarz `sum |W| <= 1/P ||H|| ||F z|| = ||M|| ||z||`. The error `D` of the tile's spectrum
//! moves a result by at most `1/P sum |H D| <= 1/P ||H|| ||D||`, which is the relative error of the spectrum times
//! `||M|| ||z||`. In units of `u ||M|| ||z||`:
//! ```text
//!  1         pixel - mean
//! 38 or 62   forward transform
//!  1         the mask's spectrum: f64, then rounded to nearest
//!  2         product of the spectra
//! 38 or 62   inverse transform
//! ```
//! That is 80 or 128. Terms of second order are less than 1, and errors of the `f64` transform of the mask as well. So
//! [`Transforms::constant`] is 82 or 130. Measured errors are about 1.
//!
//! # Underflow
//! Each product may lose `2^-150` in each of its two parts, and each path has fewer than 16 products.
//! - Before the spectra are multiplied that is a loss of at most `32 sqrt(P) ||M|| 2^-150` in a result.
//! - Afterwards it is one of at most `32 P 2^-150`.
//! - A value of the mask's spectrum may lose as much. That costs `2 P ||z|| 2^-150`.
//!
//! [`Transforms::underflow`] and [`Transforms::relative`] have twice as much. The sum of squares may lose `2^-149` for
//! each of `2 P` numbers. So the norm may be `sqrt(P) 2^-74` larger than its square tells.
//!
//! # The sum
//! The result is `O = y + m S`, rounded, with the transformed sum `y`, the mean `m` and the sum `S` of the
//! coefficients, rounded. So `|O - exact| <= e + u |O|` with `e = E + u |m S|`.
//!
//! # Scales
//! With several channels, `fft_tile` multiplies the pixels minus the mean by a power of two for each tile, `s`. It is
//! exact: a fused multiply-add rounds `s (pixel - mean)` as often as a sum rounds `pixel - mean`. The scale is at least
//! 1, so nothing underflows. `||z||` is then the norm of the scaled numbers. The product of a transformed number and
//! `1 / s` is exact as well, unless it underflows. So `E` is divided by `s`, and the kernel adds the least normal
//! number.
//!
//! The scales bring the contrasts of both tiles within a factor of two. So `||z|| / s` is at most about `sqrt(5)` times
//! the 2-norm of the tile's own contrast, however large the other tile's is. The kernel knows the contrasts before the
//! transform only as a difference, `sum x^2 - (sum x)^2 / P`. A wrong scale costs proofs, and no correct bits.
//!
//! A tile of one number has only zeros left. Their exact transform is 0, so the kernel takes 0, and `E = 0`.
//!
//! In the class Normwise nothing is proven, and the scales must not increase the errors too much. The summation of the
//! squares is off by less than `2^-17` of the sum, so the difference is taken to be at least `2^-16` of it. Then the
//! contrast of a tile is at most `sqrt(2)` times what the kernel takes it for. With the rounding of the exponents,
//! `||z||^2` is at most `||I||^2 (1 + 4)` for the pixels `I` of both tiles.
//!
//! # The proof
//! Let `A = sum |M I|`, which is at least `|exact| >= |O| - u |O| - e`. The class allows `gamma A`. So it holds where
//! ```text
//! e + u |O| <= gamma (|O| - u |O| - e),   that is   |O| >= e (1 + gamma) / (gamma (1 - u) - u)
//! ```
//! `A` is also at least the sum of the magnitudes of the coefficients times the least magnitude of the tile's pixels.
//! If that is large enough, all results of the tile hold. [`least`] has 1 % more than the quotient. That covers the
//! roundings of the comparison itself, those of the sum of squares, and the difference between both rules.

/// The transforms of a tile, as far as errors depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transforms {
    /// The binary logarithm of the points of one axis: the sums on each path.
    bits: u32,
    /// The factors on each path.
    factors: u32,
    /// The least constant c of the bound `gamma(c) sum |M I|`.
    ///
    /// The error of a transform does not shrink with the mask. With the constant of a small mask most sums would be
    /// computed again. With these ones, noise from 0 to 1 and a mask of such noise are proven beside a border of zeros:
    /// from about 13 x 13 coefficients on by `fft_tile`, and from 47 x 47 on by `fft_passes`.
    least_constant: u64,
}

impl Transforms {
    /// Those of [`fft_tile`](super::tile).
    pub const TILE: Self = Self { bits: 7, factors: 4, least_constant: 2048 };
    /// Those of [`fft_passes`](super::passes).
    pub const PASSES: Self = Self { bits: 10, factors: 7, least_constant: 8192 };

    /// The error of a transformed sum in units of `u ||M|| ||z||`.
    #[must_use]
    pub const fn constant(&self) -> u32 {
        let transform = 2 * (self.bits + 3 * self.factors);
        1 + 2 * transform + 3 + 2
    }

    /// The constant c of the bound, for a mask: at least that of the ordered sum, which takes the place of sums that
    /// prove nothing.
    #[must_use]
    pub const fn error_constant(&self, (width, height): (u32, u32)) -> u64 {
        let coefficients = width as u64 * height as u64;
        if coefficients > self.least_constant { coefficients } else { self.least_constant }
    }

    /// Points of a tile.
    #[must_use]
    pub fn points(&self) -> f64 {
        exp2(2 * i64::from(self.bits))
    }

    /// The error of a transformed sum for `||z|| = 1`, for a mask with this norm.
    #[must_use]
    pub fn relative(&self, mask_norm: f64) -> f64 {
        f64::from(self.constant()) * U * mask_norm + self.points() * exp2(2 - 150)
    }

    /// What underflow adds to the error, whatever the pixels are.
    #[must_use]
    pub fn underflow(&self, mask_norm: f64) -> f64 {
        let norm = exp2(i64::from(self.bits) - 73);
        self.relative(mask_norm) * norm + self.points() * exp2(6 - 150) * (1.0 + mask_norm)
    }
}

const _: () = assert!(Transforms::TILE.constant() == 82 && Transforms::PASSES.constant() == 130);

/// The unit roundoff of `f32`.
const U: f64 = 1.0 / (1 << 24) as f64;

/// A result with an error of at most `e` keeps the bound with the constant c if its magnitude is at least this times
/// `e`.
#[must_use]
pub fn least(constant: u64) -> f64 {
    let cu = constant as f64 * U;
    let gamma = cu / (1.0 - cu);
    1.01 * (1.0 + gamma) / (gamma * (1.0 - U) - U)
}

/// `2^exponent`.
fn exp2(exponent: i64) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}
