//! The loops over the rows of a strip. They handle whole vectors alone, so lines have [`SLACK`] values more than are
//! asked for.

use super::Coefficients;
use crate::cpu::simd::{Dot, Simd, Work};
use crate::cpu::strips::have_room;

/// How many values after the last one the loops read and write: two vectors of 16-bit numbers, of 64 bytes each.
pub(super) const SLACK: usize = 64;

/// Bits of a byte's place in a 16-bit number: the largest that leaves the sign out.
pub(super) const PLACE: u32 = 7;

/// Two lines of bytes to 16-bit numbers, times `2^PLACE`.
///
/// The pixels of a pair are neighbours of one channel. With one channel, these are neighbours in memory, and `odd`
/// stays as it is. Otherwise, `even` has the pairs that begin with an even value, and `odd` has the others.
pub(super) struct Widen<'a> {
    pub(super) bytes: [&'a [u8]; 2],
    /// Values of a pixel.
    pub(super) step: usize,
    pub(super) even: [&'a mut [u16]; 2],
    pub(super) odd: [&'a mut [u16]; 2],
    pub(super) count: usize,
}

impl Work for Widen<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { bytes, step, mut even, mut odd, count } = self;
        let place = simd.splat_shorts(1 << PLACE);
        for ((bytes, even), odd) in bytes.iter().zip(&mut even).zip(&mut odd) {
            assert!(bytes.len() >= count + step + SLACK && even.len() >= count + SLACK);
            assert!(step == 1 || odd.len() >= count + SLACK);
            for x in (0..count).step_by(2 * S::LANES) {
                // SAFETY: less than SLACK values after the last one.
                unsafe {
                    let load = bytes.as_ptr().add(x);
                    let these = simd.mul_shorts(simd.load_u8_shorts(load), place);
                    if step == 1 {
                        simd.store_shorts(even.as_mut_ptr().add(x), these);
                        continue;
                    }
                    let next = simd.mul_shorts(simd.load_u8_shorts(load.add(step)), place);
                    simd.store_shorts(even.as_mut_ptr().add(x), simd.join_pairs(these, next, 0));
                    simd.store_shorts(odd.as_mut_ptr().add(x), simd.join_pairs(these, next, 16));
                }
            }
        }
    }
}

/// Two lines filtered along the row. A pair of the result is a value of both lines. Within a vector's length, the pairs
/// of even values come first, then those of odd values.
pub(super) struct AlongRow<'a, D> {
    pub(super) dot: D,
    pub(super) even: [&'a [u16]; 2],
    pub(super) odd: [&'a [u16]; 2],
    pub(super) step: usize,
    pub(super) row: &'a Coefficients,
    pub(super) to: &'a mut [u16],
    pub(super) count: usize,
}

impl<D: Dot> Work for AlongRow<'_, D> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { dot, even, odd, step, row, to, count } = self;
        let (vector, last) = (2 * S::LANES, 2 * (row.even.len() - 1) * step);
        assert!(even.iter().all(|line| line.len() >= count + last + SLACK) && to.len() >= 2 * (count + SLACK));
        assert!(step == 1 || odd.iter().all(|line| line.len() >= count + last + SLACK));
        assert!(row.even.len() == row.odd.len());
        let bias = simd.splat_pairs(row.bias);
        for x in (0..count).step_by(2 * vector) {
            // Of each line, of two vectors, of even and odd values.
            let mut sums = [[[bias; 2]; 2]; 2];
            for (j, (&of_even, &of_odd)) in row.even.iter().zip(&row.odd).enumerate() {
                let (of_even, of_odd) = (simd.splat_pairs(of_even), simd.splat_pairs(of_odd));
                for (line, sums) in sums.iter_mut().enumerate() {
                    for (i, [even_sum, odd_sum]) in sums.iter_mut().enumerate() {
                        let at = x + 2 * j * step + i * vector;
                        // SAFETY: less than SLACK values after the last one.
                        let pairs = unsafe { simd.load_shorts(even[line].as_ptr().add(at)) };
                        *even_sum = simd.dot_pairs(dot, *even_sum, pairs, of_even);
                        *odd_sum = if step == 1 {
                            simd.dot_pairs(dot, *odd_sum, pairs, of_odd)
                        } else {
                            // SAFETY: as above.
                            let pairs = unsafe { simd.load_shorts(odd[line].as_ptr().add(at)) };
                            simd.dot_pairs(dot, *odd_sum, pairs, of_even)
                        };
                    }
                }
            }
            let [first, second] = sums;
            for (i, (first, second)) in first.into_iter().zip(second).enumerate() {
                for (parity, (first, second)) in first.into_iter().zip(second).enumerate() {
                    let pairs = simd.join_pairs(first, second, row.shift);
                    // SAFETY: less than twice SLACK values after the last one.
                    unsafe { simd.store_shorts(to.as_mut_ptr().add(2 * (x + i * vector) + parity * vector), pairs) };
                }
            }
        }
    }
}

/// Two rows of results, from lines of [`AlongRow`]. `again` gets the places of those that could round to another
/// integer.
pub(super) struct AlongColumn<'a, D> {
    pub(super) dot: D,
    /// Filtered lines of [`AlongRow`], in a ring buffer.
    pub(super) lines: &'a [u16],
    /// Where the lines under the windows of the first row begin.
    pub(super) starts: &'a [usize],
    pub(super) column: &'a Coefficients,
    /// Results with a smaller fraction are uncertain, in units of 2^-8.
    pub(super) uncertain: u16,
    pub(super) to: [&'a mut [u8]; 2],
    pub(super) again: [&'a mut Places; 2],
}

impl<D: Dot> Work for AlongColumn<'_, D> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { dot, lines, starts, column, uncertain, to: [to, to_second], again: [again, again_second] } = self;
        let (vector, count) = (2 * S::LANES, to.len());
        assert!(have_room(starts, 2 * (count + SLACK), lines.len()) && to_second.len() == count);
        assert!(starts.len() == column.even.len() && starts.len() == column.odd.len());
        let bias = simd.splat_pairs(column.bias);
        for x in (0..count).step_by(2 * vector) {
            let (mut first, mut second) = ([bias; 4], [bias; 4]);
            for ((&start, &of_even), &of_odd) in starts.iter().zip(&column.even).zip(&column.odd) {
                let (of_even, of_odd) = (simd.splat_pairs(of_even), simd.splat_pairs(of_odd));
                for (i, (first, second)) in first.iter_mut().zip(&mut second).enumerate() {
                    // SAFETY: less than twice SLACK values after the last one.
                    let pairs = unsafe { simd.load_shorts(lines.as_ptr().add(start + 2 * x + i * vector)) };
                    *first = simd.dot_pairs(dot, *first, pairs, of_even);
                    *second = simd.dot_pairs(dot, *second, pairs, of_odd);
                }
            }
            put(simd, first, column.shift, uncertain, x, to, again);
            put(simd, second, column.shift, uncertain, x, to_second, again_second);
        }
    }
}

/// Writes two vectors of results from value `x` of a row on.
#[inline(always)]
fn put<S: Simd>(
    simd: S,
    [a, b, c, d]: [S::Shorts; 4],
    shift: u32,
    uncertain: u16,
    x: usize,
    to: &mut [u8],
    again: &mut Places,
) {
    let vector = 2 * S::LANES;
    let results = [simd.join_pairs(a, b, shift), simd.join_pairs(c, d, shift)];
    let left = to.len() - x;
    let mut buffer = [0; 64];
    let at = if left >= 2 * vector { to[x..].as_mut_ptr() } else { buffer.as_mut_ptr() };
    let mut bits = 0;
    for (i, &result) in results.iter().enumerate() {
        bits |= u64::from(simd.low_bytes_below(result, uncertain)) << (i * vector);
        // SAFETY: `at` has room for two vectors, of at most 64 bytes together.
        unsafe { simd.store_shorts_u8(at.add(i * vector), simd.shift_right_shorts(result, 8)) };
    }
    if left < 2 * vector {
        to[x..].copy_from_slice(&buffer[..left]);
        bits &= (1 << left) - 1;
    }
    again.add(x, bits);
}

/// Places in a row.
#[derive(Debug, Default)]
pub(super) struct Places {
    places: Vec<u32>,
    count: usize,
}

impl Places {
    /// Forgets all, and makes room for a row.
    pub(super) fn clear(&mut self, width: usize) {
        self.count = 0;
        if self.places.len() < width + SLACK {
            self.places.resize(width + SLACK, 0);
        }
    }

    /// Adds the places of the bits that are set, from `first` on.
    ///
    /// A branch for each bit would often be mispredicted. So three places are written whether they are there or not.
    #[inline(always)]
    fn add(&mut self, first: usize, mut bits: u64) {
        let count = bits.count_ones() as usize;
        let places = &mut self.places[self.count..][..SLACK];
        for place in &mut places[..3] {
            *place = first as u32 + bits.trailing_zeros();
            bits &= bits.wrapping_sub(1);
        }
        for place in places.iter_mut().take(count).skip(3) {
            *place = first as u32 + bits.trailing_zeros();
            bits &= bits - 1;
        }
        self.count += count;
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = usize> {
        self.places[..self.count].iter().map(|&place| place as usize)
    }
}
