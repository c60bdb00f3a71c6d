//! What the kernel finds in the place of a mask, and the order of the values in it.
//!
//! | values | from |
//! | --- | --- |
//! | [`Header`], 8 numbers | 0 |
//! | 128 complex factors `exp(-2 pi i t q / 128)`, number `4 q + t` | [`TWIDDLES`] |
//! | half of the spectrum of the mask, [`STORED`] complex numbers | [`SPECTRUM`] |
//! | the coefficients in window order | [`COEFFICIENTS`] |
//!
//! # The spectrum
//! Let `F[a, b]` be the transform of the mask, padded with zeros to 128 x 128, at row frequency `a` and column
//! frequency `b`. The kernel multiplies by `conj(F) / 128^2`: the conjugate makes the circular convolution a
//! correlation, whose output `(y, x)` is the window that begins there. [`frequency`] gives the order.
//!
//! The mask is real: `F[-a, -b]` is the conjugate of `F[a, b]`. Column frequencies with `b % 32 <= 16` are enough.

use cuda_std::prelude::*;

/// Rows and columns of a transform.
pub const SIDE: u32 = 128;
/// The largest width and height of a mask.
pub const LARGEST_MASK: u32 = 64;

/// Where the factors begin, in values.
pub const TWIDDLES: usize = Header::LENGTH;
/// Where the spectrum begins.
pub const SPECTRUM: usize = TWIDDLES + 2 * SIDE as usize;
/// Where the coefficients begin.
pub const COEFFICIENTS: usize = SPECTRUM + 2 * STORED as usize;

/// The values for a mask.
#[must_use]
pub const fn length((width, height): (u32, u32)) -> usize {
    COEFFICIENTS + (width * height) as usize
}

/// Points of a transform that a thread computes in one go, for each axis.
pub(super) const LONG: u32 = 32;
/// Points of the other transform of an axis.
pub(super) const SHORT: u32 = SIDE / LONG;
/// Points of a group: what a thread multiplies at a time.
pub(super) const GROUP: u32 = SHORT * SHORT;
/// Groups of the stored half of a spectrum: those with `group / 32 <= 16`.
pub(super) const STORED_GROUPS: u32 = LONG * (LONG / 2 + 1);
/// Complex numbers of the stored half.
pub const STORED: u32 = STORED_GROUPS * GROUP;

/// Row and column frequency of complex number `index` of the stored half of the spectrum.
///
/// A group is the 4 x 4 points with frequencies `group % 32 + 32 s` and `group / 32 + 32 t`. Eight vectors of two
/// points hold it. Vector `v` of all groups comes before vector `v + 1` of all groups, so that neighbouring threads
/// load neighbouring vectors.
#[must_use]
pub const fn frequency(index: u32) -> (u32, u32) {
    let (vector, half) = (index / 2, index % 2);
    let (point, group) = (vector / STORED_GROUPS * 2 + half, vector % STORED_GROUPS);
    (group % LONG + LONG * (point / SHORT), group / LONG + LONG * (point % SHORT))
}

/// The numbers about a mask that a block needs.
///
/// `||.||` is the 2-norm, `S` the sum of the coefficients, and `z` the pixels of a pair of tiles minus their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Header {
    /// A transformed sum is off by at most `transform * ||z|| + underflow`; see [`error`](super::error).
    pub transform: f32,
    /// See [`transform`](Self::transform).
    pub underflow: f32,
    /// A sum off by at most `e` keeps the bound if its magnitude is at least `least * e`. 0 accepts all.
    pub least: f32,
    /// `S`.
    pub sum: f32,
    /// At most the sum of the magnitudes of the coefficients.
    pub magnitudes: f32,
    /// With `||z||^2` above this an intermediate number might overflow.
    pub most_squares: f32,
}

impl Header {
    /// Numbers of a header, with the zeros that fill its two vectors.
    pub const LENGTH: usize = 8;

    /// In the order of the kernel.
    #[must_use]
    pub const fn values(&self) -> [f32; Self::LENGTH] {
        let Self { transform, underflow, least, sum, magnitudes, most_squares } = *self;
        [transform, underflow, least, sum, magnitudes, most_squares, 0.0, 0.0]
    }

    /// Reads a header.
    ///
    /// # Safety
    /// - `mask` is as the [module](self) describes, and aligned to 16 bytes.
    #[inline(always)]
    pub(super) unsafe fn load(mask: Global<f32>) -> Self {
        // SAFETY: a header has two vectors.
        let [F32x4(a), F32x4(b)] = [0, 1].map(|vector| unsafe { mask.cast::<F32x4>().load(vector) });
        let ([transform, underflow, least, sum], [magnitudes, most_squares, ..]) = (a, b);
        Self { transform, underflow, least, sum, magnitudes, most_squares }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    /// Each frequency or its negative is stored. Both are stored only where the column is a multiple of 16.
    #[test]
    fn each_frequency_is_there_once() {
        let mut seen = std::vec![false; (SIDE * SIDE) as usize];
        let mut see = |(row, column): (u32, u32)| {
            assert!(!core::mem::replace(&mut seen[(row * SIDE + column) as usize], true), "{row}, {column}");
        };
        for (row, column) in (0..STORED).map(frequency) {
            see((row, column));
            if column % 16 != 0 {
                see(((SIDE - row) % SIDE, SIDE - column));
            }
        }
        assert!(seen.iter().all(|&seen| seen));
    }

    #[test]
    fn vectors_are_aligned() {
        assert!([TWIDDLES, SPECTRUM, COEFFICIENTS].iter().all(|at| at % 4 == 0));
    }
}
