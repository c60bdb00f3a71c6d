//! What the three passes find in the place of a mask, and in their scratch memory.
//!
//! # The mask
//! | values | from |
//! | --- | --- |
//! | [`Header`], 8 numbers | 0 |
//! | 1024 complex factors `exp(-2 pi i t q / 1024)`, number `32 q + t` | [`TWIDDLES`] |
//! | the spectrum of the mask, 1024 x 1024 complex numbers | [`SPECTRUM`] |
//! | the coefficients in window order | [`COEFFICIENTS`] |
//!
//! The spectrum is `conj(F) / 1024^2` with the transform `F` of the padded mask, as for
//! [`fft_tile`](crate::fft::layout). [`frequency`] gives the order.
//!
//! # The scratch memory
//! Each pair of tiles has [`PAIR`] values. First 1024 x 1024 complex numbers, in groups of [`GROUP`] columns: the rows
//! of a group follow each other, so a block of the second pass reads and writes one piece of memory. Then
//! 8 numbers about each row of pixels, and as many about all rows.

use crate::fft::layout::Header;

/// Rows and columns of a transform.
pub const POINTS: u32 = 1024;
/// The largest width and height of a mask.
pub const LARGEST_MASK: u32 = 512;

/// Where the factors begin, in values.
pub const TWIDDLES: usize = Header::LENGTH;
/// Where the spectrum begins.
pub const SPECTRUM: usize = TWIDDLES + 2 * POINTS as usize;
/// Where the coefficients begin.
pub const COEFFICIENTS: usize = SPECTRUM + 2 * (POINTS * POINTS) as usize;

/// Columns that a block of the second pass transforms.
pub const GROUP: u32 = 4;
/// Complex numbers of such a group.
pub(super) const GROUP_POINTS: u32 = GROUP * POINTS;
/// Where the facts of a pair begin in its scratch memory, in values.
pub(super) const FACTS: isize = 2 * (POINTS * POINTS) as isize;
/// Numbers about each row of pixels, and about all of them: see [`Facts`](super::tiles::Facts).
pub(super) const FACTS_OF_ROW: u32 = 8;
/// Values of scratch memory for a pair of tiles.
pub const PAIR: usize = FACTS as usize + (FACTS_OF_ROW * (POINTS + 1)) as usize;

/// Points of a transform that a thread computes in one go. A row or a column has the square of this number.
pub(super) const LONG: u32 = 32;

const _: () = assert!(LONG * LONG == POINTS);

/// The values for a mask.
#[must_use]
pub const fn length((width, height): (u32, u32)) -> usize {
    COEFFICIENTS + (width * height) as usize
}

/// Row and column frequency of complex number `index` of the spectrum.
///
/// The numbers of a group of columns follow each other. A thread of the second pass has one of the columns. It loads
/// its numbers in vectors of two, and neighbouring threads load neighbouring vectors.
#[must_use]
pub const fn frequency(index: u32) -> (u32, u32) {
    let (group, point) = (index / GROUP_POINTS, index % GROUP_POINTS);
    let (vector, half) = (point / 2, point % 2);
    let (column, thread, element) = (vector % GROUP, vector / GROUP % LONG, vector / GROUP / LONG * 2 + half);
    (thread + LONG * element, group * GROUP + column)
}

/// The index of complex number (`row`, `column`) of a pair in its scratch memory. If `step` is a multiple of [`GROUP`],
/// the number `step` columns further lies `place(0, step)` numbers later.
#[inline(always)]
pub(super) const fn place(row: u32, column: u32) -> isize {
    (column / GROUP * GROUP_POINTS + row * GROUP + column % GROUP) as isize
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    /// The spectrum has each frequency once, and so has the scratch memory.
    #[test]
    fn each_number_has_a_place_of_its_own() {
        let mut seen = std::vec![0; (POINTS * POINTS) as usize];
        for (row, column) in (0..POINTS * POINTS).map(frequency) {
            seen[(row * POINTS + column) as usize] += 1;
            seen[place(row, column) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count == 2));
    }

    #[test]
    fn vectors_are_aligned() {
        assert!([TWIDDLES, SPECTRUM, COEFFICIENTS, FACTS as usize, PAIR].iter().all(|at| at % 4 == 0));
    }
}
