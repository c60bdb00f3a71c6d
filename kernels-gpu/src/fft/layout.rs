//! What the kernel finds in the place of a mask, or of a part of a mask, and the order of the values in it.
//!
//! | values | from |
//! | --- | --- |
//! | [`Header`], 8 numbers | 0 |
//! | 128 complex factors `exp(-2 pi i j / 128)` | [`TWIDDLES`] |
//! | the spectrum of the mask, 128 x 128 complex numbers | [`SPECTRUM`] |
//! | the coefficients in window order | [`COEFFICIENTS`] |
//!
//! # The spectrum
//! Let `F[a, b]` be the transform of the mask, padded with zeros to 128 x 128, at row frequency `a` and column
//! frequency `b`. The kernel multiplies by `conj(F) / 128^2`: the conjugate makes the circular convolution a
//! correlation, whose output `(y, x)` is the window that begins there. [`frequency`] gives the order.

use cuda_std::prelude::*;

/// Rows and columns of a transform.
pub const SIDE: u32 = 128;
/// The largest width and height of a part of a mask.
pub const LARGEST_PART: u32 = 64;
/// The largest width and height of a mask.
pub const LARGEST_MASK: u32 = 256;

/// Where the factors begin, in values.
pub const TWIDDLES: usize = Header::LENGTH;
/// Where the spectrum begins.
pub const SPECTRUM: usize = TWIDDLES + 2 * SIDE as usize;
/// Where the coefficients begin.
pub const COEFFICIENTS: usize = SPECTRUM + 2 * (SIDE * SIDE) as usize;

/// A part of a mask in window order.
///
/// A mask of more than 64 columns or rows is cut into parts. A launch for each adds its sums to the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// First column and row.
    pub first: (u32, u32),
    /// Columns and rows.
    pub size: (u32, u32),
    /// Where its values begin.
    pub offset: usize,
}

/// Columns and rows of the parts of a mask, but for the last ones, which may have fewer.
#[must_use]
pub const fn part_size((width, height): (u32, u32)) -> (u32, u32) {
    (width.div_ceil(width.div_ceil(LARGEST_PART)), height.div_ceil(height.div_ceil(LARGEST_PART)))
}

/// The parts of a mask, rows of parts from top to bottom.
pub fn parts(mask: (u32, u32)) -> impl Iterator<Item = Part> {
    let (width, height) = part_size(mask);
    let firsts = (0..mask.1)
        .step_by(height as usize)
        .flat_map(move |top| (0..mask.0).step_by(width as usize).map(move |left| (left, top)));
    firsts.scan(0, move |next, first| {
        let size = (width.min(mask.0 - first.0), height.min(mask.1 - first.1));
        let offset = core::mem::replace(next, *next + part_length(size));
        Some(Part { first, size, offset })
    })
}

/// The values for a mask.
#[must_use]
pub fn length(mask: (u32, u32)) -> usize {
    parts(mask).map(|part| part_length(part.size)).sum()
}

/// The rows of a launch begin at a multiple of this, so that tiles of each part begin at the same rows in all launches.
#[must_use]
pub fn launch_row_alignment(mask: (u32, u32)) -> u32 {
    let divisor = |mut a: u32, mut b: u32| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let rows = parts(mask).map(|part| SIDE + 1 - part.size.1);
    rows.fold(1, |all, rows| all / divisor(all, rows) * rows)
}

/// The values for a part of this size, padded so that the next part is aligned.
const fn part_length((width, height): (u32, u32)) -> usize {
    (COEFFICIENTS + (width * height) as usize).next_multiple_of(4)
}

/// Points of a transform that a thread computes in one go, for each axis.
pub(super) const LONG: u32 = 32;
/// What is left of an axis.
pub(super) const SHORT: u32 = SIDE / LONG;
/// Groups of 16 points: what a thread multiplies at a time.
pub(super) const GROUPS: u32 = LONG * LONG;

/// Row and column frequency of complex number `index` of the spectrum.
///
/// A group is the 4 x 4 points with frequencies `group % 32 + 32 s` and `group / 32 + 32 t`. Eight vectors of two
/// points hold it. Vector `v` of all groups comes before vector `v + 1` of all groups, so that neighbouring threads
/// load neighbouring vectors.
#[must_use]
pub const fn frequency(index: u32) -> (u32, u32) {
    let (vector, half) = (index / 2, index % 2);
    let (point, group) = (vector / GROUPS * 2 + half, vector % GROUPS);
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
    /// 1 if the sums are added to the result, otherwise 0.
    pub accumulates: f32,
    /// 1 if scale and offset are applied, otherwise 0.
    pub finishes: f32,
}

impl Header {
    /// Numbers of a header.
    pub const LENGTH: usize = 8;

    /// In the order of the kernel.
    #[must_use]
    pub const fn values(&self) -> [f32; Self::LENGTH] {
        let Self { transform, underflow, least, sum, magnitudes, most_squares, accumulates, finishes } = *self;
        [transform, underflow, least, sum, magnitudes, most_squares, accumulates, finishes]
    }

    /// Reads a header.
    ///
    /// # Safety
    /// - `mask` is as the [module](self) describes, and aligned to 16 bytes.
    #[inline(always)]
    pub(super) unsafe fn load(mask: Global<f32>) -> Self {
        // SAFETY: a header has two vectors.
        let [F32x4(a), F32x4(b)] = [0, 1].map(|vector| unsafe { mask.cast::<F32x4>().load(vector) });
        let ([transform, underflow, least, sum], [magnitudes, most_squares, accumulates, finishes]) = (a, b);
        Self { transform, underflow, least, sum, magnitudes, most_squares, accumulates, finishes }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn each_frequency_is_there_once() {
        let mut seen = std::vec![false; (SIDE * SIDE) as usize];
        for (row, column) in (0..SIDE * SIDE).map(frequency) {
            assert!(!core::mem::replace(&mut seen[(row * SIDE + column) as usize], true), "{row}, {column}");
        }
        assert!(seen.iter().all(|&seen| seen));
    }

    #[test]
    fn all_parts_are_aligned() {
        assert!([TWIDDLES, SPECTRUM, COEFFICIENTS, length((3, 5))].iter().all(|at| at % 4 == 0));
        assert_eq!(length((3, 5)), COEFFICIENTS + 16);
    }

    #[test]
    fn parts_cover_a_mask_once() {
        for mask in [(1, 1), (64, 64), (65, 3), (127, 64), (130, 129), (256, 255), (5, 200)] {
            let mut seen = std::vec![0; (mask.0 * mask.1) as usize];
            let mut end = 0;
            for Part { first, size, offset } in parts(mask) {
                assert!(size.0 <= part_size(mask).0 && size.1 <= part_size(mask).1 && offset == end);
                assert!(part_size(mask).0 <= LARGEST_PART && part_size(mask).1 <= LARGEST_PART);
                end = offset + part_length(size);
                for (y, x) in (0..size.1).flat_map(|y| (0..size.0).map(move |x| (y, x))) {
                    seen[((first.1 + y) * mask.0 + first.0 + x) as usize] += 1;
                }
                assert_eq!(launch_row_alignment(mask) % (SIDE + 1 - size.1), 0, "{mask:?}");
            }
            assert_eq!(end, length(mask));
            assert!(seen.iter().all(|&count| count == 1), "{mask:?}");
        }
        assert_eq!((launch_row_alignment((9, 31)), launch_row_alignment((9, 127))), (98, 65 * 66));
    }
}
