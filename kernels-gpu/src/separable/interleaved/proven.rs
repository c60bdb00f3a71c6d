//! Bytes with the bits of the ordered sum: which values are certain, and the list of the others.
//!
//! A finished sum `s` is near the exact sum, and so is the ordered sum that the contract names. The host knows a radius
//! for each binade of `s`: `radius = constant + factor * 2^e` where `2^e <= s < 2^(e + 1)`. It bounds the distance of
//! both results, scale and offset included. So the byte is certain if no rounding boundary is as near:
//! ```text
//! |c - nearest(c)| <= 1/2 - radius     c = scale * s + offset, clamped to 0..=255
//! ```
//! The ordered sum may lie in the next binade if `s` is near its end. So the binade is that of `s * (1 + 2^-7)`.

use cuda_std::prelude::*;

use super::layout::{ListEntry, ROWS};
use crate::abi::params::Params;

/// The two numbers that say which values are certain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Certain {
    /// `1/2 - constant`. If it is negative, no value is certain.
    pub(super) limit: f32,
    /// `-factor`.
    pub(super) slope: f32,
}

impl Certain {
    /// The byte of a sum, in the lowest 8 bits of a word, and whether it may differ from that of the ordered sum.
    #[inline(always)]
    pub(super) fn convert(self, sum: f32, (scale, offset): (f32, f32)) -> (u32, bool) {
        /// Above it an `f32` has no fraction: a sum with it is rounded to the nearest integer, ties to even.
        const ROUNDING: f32 = 8_388_608.0;
        /// The exponent's bits.
        const EXPONENT: u32 = 0x7f80_0000;
        // `clamp` would keep NaN, which must become 0.
        #[allow(clippy::manual_clamp)]
        let clamped = fma(sum, scale, offset).max(0.0).min(255.0);
        let rounded = clamped + ROUNDING;
        let distance = (clamped - (rounded - ROUNDING)).abs();
        let binade = f32::from_bits((sum * 1.007_812_5).to_bits() & EXPONENT);
        let is_certain = distance <= fma(binade, self.slope, self.limit);
        (rounded.to_bits(), !is_certain)
    }
}

/// The column of the result that a thread writes from top to bottom.
pub(super) struct ByteColumn {
    /// The next value of the column.
    next: GlobalMut<u8>,
    /// Values from one row of the result to the next.
    pitch: i32,
    finish: (f32, f32),
    certain: Certain,
    /// Whether the thread writes at all.
    is_active: bool,
}

impl ByteColumn {
    /// Column `v` from row `y` on. A thread that is not active writes nothing, and has no uncertain values.
    ///
    /// # Safety
    /// Where active:
    /// - `result` holds `params.height` rows of bytes, `params.dst_pitch` apart.
    /// - Value `v` lies in them.
    /// - No other thread writes what this thread stores, unless a barrier is between.
    #[inline(always)]
    pub(super) unsafe fn new(
        result: GlobalMut<u8>,
        params: &Params,
        (v, y): (i32, i32),
        certain: Certain,
        is_active: bool,
    ) -> Self {
        let next = result.offset(params.dst_index(v, y));
        Self { next, pitch: params.dst_pitch, finish: params.exact_finish(), certain, is_active }
    }

    /// Stores the next `COUNT` rows, of which only the first `most` exist. Returns a bit for each uncertain value,
    /// whose byte may be wrong.
    ///
    /// # Safety
    /// The first `most` of the next rows lie in the result.
    #[inline(always)]
    pub(super) unsafe fn store<const COUNT: usize>(&mut self, sums: &[f32; COUNT], most: i32) -> u32 {
        let mut uncertain = 0;
        let mut bytes = [0; COUNT];
        for (i, &sum) in sums.iter().enumerate() {
            let (byte, is_uncertain) = self.certain.convert(sum, self.finish);
            bytes[i] = byte;
            uncertain |= u32::from(is_uncertain) << i;
        }
        let mut next = self.next;
        let rows = if most >= COUNT as i32 { (1 << COUNT) - 1 } else { (1 << most.max(0)) - 1 };
        if self.is_active && most >= COUNT as i32 {
            for &byte in &bytes {
                // SAFETY: all COUNT rows lie in the result, and `new` promised the column.
                unsafe { next.store(0, byte as u8) };
                next = next.offset(self.pitch as isize);
            }
        } else {
            for (i, &byte) in bytes.iter().enumerate() {
                if self.is_active && (i as i32) < most {
                    // SAFETY: i < most, so the row lies in the result, and `new` promised the column.
                    unsafe { next.store(0, byte as u8) };
                }
                next = next.offset(self.pitch as isize);
            }
            // There is no loop here. See `ColumnStore::store`.
            thread::no_unroll();
        }
        self.next = self.next.offset(COUNT as isize * self.pitch as isize);
        if self.is_active { uncertain & rows } else { 0 }
    }
}

/// Appends the uncertain values of a thread's column to a list. Bit `i` of `bits` is row `i` of the step.
///
/// # Safety
/// - The list has room for all values of a step, and nobody reads list and count before the next barrier.
/// - No value is appended twice.
#[inline(always)]
pub(super) unsafe fn append(list: Shared<u16>, count: Shared<u32>, bits: u32, column: u32) {
    if bits == 0 {
        return;
    }
    // SAFETY: as this function requires; all threads of the block use the count by atomic additions.
    let mut place = unsafe { count.atomic_add(0, bits.count_ones()) };
    let mut bits = bits;
    while bits != 0 {
        thread::no_unroll();
        let row = bits.trailing_zeros();
        debug_assert!(row < ROWS);
        bits &= bits - 1;
        // SAFETY: the place is this value's alone.
        unsafe { list.store(place, ListEntry { column, row }.pack()) };
        place += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_std::round_to_u16;

    /// A value is certain exactly where both ends of the radius around it become the same byte.
    #[test]
    fn values_near_a_boundary_are_open() {
        for (constant, factor) in [(0.01_f32, 0.0_f32), (0.0, 0.001), (0.002, 0.000_5), (0.3, 0.0)] {
            let certain = Certain { limit: (0.5 - constant).next_down(), slope: -factor };
            for step in -300..33_000 {
                let value = step as f32 / 128.0 + 1e-4;
                let binade = f64::from(value * 1.007_812_5).abs().log2().floor().exp2();
                let radius = f64::from(constant) + f64::from(factor) * binade;
                let end = |by: f64| (f64::from(value) + by).clamp(0.0, 255.0).round_ties_even();
                let (byte, is_open) = certain.convert(value, (1.0, -0.0));
                assert_eq!(byte & 0xff, u32::from(round_to_u16(value).min(255)), "{value}");
                // Next to the limit both answers are right.
                let differs = |radius: f64| end(-radius) != end(radius);
                if differs(radius * 0.999 - 1e-6) == differs(radius * 1.001 + 1e-6) {
                    assert_eq!(is_open, differs(radius), "{value} with {radius}");
                }
            }
        }
    }

    #[test]
    fn scale_and_offset_are_those_of_the_result() {
        let certain = Certain { limit: 0.499, slope: 0.0 };
        assert_eq!(certain.convert(100.0, (0.5, 3.0)).0 & 0xff, 53);
        assert_eq!(certain.convert(1000.0, (1.0, -0.0)).0 & 0xff, 255);
        assert_eq!(certain.convert(-1000.0, (1.0, -0.0)).0 & 0xff, 0);
        assert!(certain.convert(100.0, (1.0, 0.5)).1);
    }
}
