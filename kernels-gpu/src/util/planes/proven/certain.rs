//! Groups of four pixels: their conversion, and which of their values are certain.

use cuda_std::prelude::*;

use super::layout::GROUP;
use super::{CLASSES, ProvenParams, ValueLimits, Whole};
use crate::abi::params::Params;
use crate::util::planes::words::{MAX_WORDS, words_of};

/// Four neighbouring pixels of the tile, or those of them that lie in the image.
#[derive(Clone, Copy)]
pub(super) struct Group {
    /// The number in the tile, row by row.
    pub(super) number: u32,
    /// The column of the first pixel in the image.
    pub(super) x: i32,
    /// The row in the image.
    pub(super) y: i32,
    /// Pixels that lie in the image, in a row that is converted.
    pub(super) pixels: u32,
}

impl ValueLimits {
    /// Whether the integer of `value` may differ from that of the ordered sum.
    #[inline(always)]
    fn leaves_open<T: Whole>(&self, value: f32) -> bool {
        /// Above it an `f32` has no fraction: a sum with it is rounded to the nearest integer, ties to even.
        const ROUNDING: f32 = 8_388_608.0;
        let mut limit = self.limits[0];
        for class in 1..CLASSES {
            if value < self.below[class] {
                limit = self.limits[class];
            }
        }
        // Comparisons, because `min` and `max` would make a number of NaN.
        let clamped = if value > T::MOST { T::MOST } else { value };
        let clamped = if clamped < 0.0 { 0.0 } else { clamped };
        let integer = (clamped + ROUNDING) - ROUNDING;
        let is_certain = (clamped - integer).abs() <= limit;
        !is_certain
    }
}

impl Group {
    /// Loads the values of the planes, pixel by pixel, channels interleaved.
    ///
    /// # Safety
    /// The group's pixels lie in the planes, and rows of the planes begin at multiples of 16 bytes.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(super) unsafe fn load<const C: u32>(self, planes: Global<f32>, params: &ProvenParams) -> [f32; MAX_WORDS] {
        let mut values = [0.0; MAX_WORDS];
        for c in 0..C as usize {
            let row = c as i64 * params.plane_stride + i64::from(self.y) * i64::from(params.plane_pitch);
            let from = planes.offset((row + i64::from(self.x)) as isize);
            if self.pixels == GROUP {
                // SAFETY: the four values lie in row y of plane c, x being a multiple of 4.
                let F32x4(pixels) = unsafe { from.cast().load(0) };
                for pixel in 0..GROUP as usize {
                    values[pixel * C as usize + c] = pixels[pixel];
                }
            } else {
                for pixel in 0..GROUP as usize {
                    if (pixel as u32) < self.pixels {
                        // SAFETY: the pixel lies in row y of plane c.
                        values[pixel * C as usize + c] = unsafe { from.load(pixel as isize) };
                    }
                }
            }
        }
        values
    }

    /// Converts the values of the planes to results in shared memory. Returns a bit for each value that is uncertain.
    ///
    /// # Safety
    /// `results` holds the results of the rows to convert. No other thread accesses those of the group before the next
    /// barrier.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(super) unsafe fn convert<T: Whole, const C: u32>(
        self,
        values: &[f32; MAX_WORDS],
        results: Shared<u32>,
        params: &ProvenParams,
    ) -> u32 {
        if self.pixels == 0 {
            return 0;
        }
        let mut uncertain = 0;
        for i in 0..(GROUP * C) as usize {
            if params.certain.leaves_open::<T>(values[i]) {
                uncertain |= 1 << i;
            }
        }
        let count = const { words_of::<T, C>() };
        let to = results.offset(self.number * count as u32);
        let word = |i: usize| f32::from_bits(T::pack(values, i));
        // SAFETY: the group's results are this thread's; they begin at a multiple of their size.
        unsafe {
            if count.is_multiple_of(4) {
                for i in 0..count / 4 {
                    let vector = F32x4([word(4 * i), word(4 * i + 1), word(4 * i + 2), word(4 * i + 3)]);
                    to.cast().store(i as u32, vector);
                }
            } else if count.is_multiple_of(2) {
                for i in 0..count / 2 {
                    to.cast().store(i as u32, F32x2([word(2 * i), word(2 * i + 1)]));
                }
            } else {
                for i in 0..count {
                    to.store(i as u32, T::pack(values, i));
                }
            }
        }
        // Pixels beyond the image are not computed.
        uncertain & ((1 << (self.pixels * C)) - 1)
    }

    /// Copies the results of the group from shared memory to the image.
    ///
    /// # Safety
    /// - The group's pixels lie in the image, and rows of the image begin at multiples of 16 bytes.
    /// - No other thread stores them, and a barrier has passed since another thread has changed them in shared memory.
    #[inline(always)]
    pub(super) unsafe fn store<T: Whole, const C: u32>(
        self,
        results: Shared<u32>,
        image: GlobalMut<T>,
        params: &Params,
    ) {
        if self.pixels == 0 {
            return;
        }
        let to = image.offset(params.dst_index(self.x * C as i32, self.y));
        let count = const { words_of::<T, C>() };
        let from = results.offset(self.number * count as u32);
        if self.pixels == GROUP {
            // SAFETY: the group's results, which begin at a multiple of their size; in the image as well.
            unsafe { copy_words(from, to.cast(), count) };
            return;
        }
        let mut value = 0;
        while value < self.pixels * C {
            thread::no_unroll();
            // SAFETY: the value belongs to a pixel of the image.
            unsafe { to.store(value as isize, from.cast::<T>().load(value)) };
            value += 1;
        }
    }
}

/// Copies words in the widest vectors whose size divides theirs.
///
/// # Safety
/// - Both hold `count` words, and are aligned as [`load_words`](crate::util::planes::words::load_words) requires.
/// - No other thread accesses them.
#[inline(always)]
unsafe fn copy_words(from: Shared<u32>, to: GlobalMut<u32>, count: usize) {
    // SAFETY: the vectors lie in the words, as this function requires.
    unsafe {
        if count.is_multiple_of(4) {
            for i in 0..count / 4 {
                to.cast::<F32x4>().store(i as isize, from.cast().load(i as u32));
            }
        } else if count.is_multiple_of(2) {
            for i in 0..count / 2 {
                to.cast::<F32x2>().store(i as isize, from.cast().load(i as u32));
            }
        } else {
            for i in 0..count {
                to.store(i as isize, from.load(i as u32));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value is certain exactly where both ends of the radius around it become the same integer.
    fn check<T: Whole>(radius: f32) {
        let limits = ValueLimits::uniform((0.5 - radius).next_down());
        let most = T::MOST as i32;
        for integer in [-3, -1, 0, 1, 2, 126, 127, 128, most - 2, most - 1, most, most + 1, most + 300] {
            for step in -64..=64 {
                let value = integer as f32 + step as f32 / 64.0;
                // In `f64` the ends are exact.
                let end = |by: f64| (f64::from(value) + by).clamp(0.0, T::MOST.into()).round_ties_even();
                let radius = 1.01 * f64::from(radius);
                let is_open = end(-radius) != end(radius);
                assert_eq!(limits.leaves_open::<T>(value), is_open, "{value} with the radius {radius}");
            }
        }
    }

    #[test]
    fn values_near_a_boundary_are_open() {
        for radius in [0.001, 0.01, 0.1, 0.2, 0.4] {
            check::<u8>(radius);
            check::<u16>(radius);
        }
    }

    #[test]
    fn values_that_are_no_numbers_are_open() {
        let limits = ValueLimits::uniform(0.49);
        assert!(limits.leaves_open::<u8>(f32::NAN) && limits.leaves_open::<u16>(-f32::NAN));
        for value in [f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30] {
            assert!(!limits.leaves_open::<u8>(value) && !limits.leaves_open::<u16>(value));
        }
    }

    /// Each class has its limit; a negative one leaves all open.
    #[test]
    fn classes_have_their_limits() {
        let limits = ValueLimits { limits: [-1.0, 0.3, 0.4, 0.45], below: [f32::INFINITY, 128.0, 64.0, 32.0] };
        for (value, is_open) in [
            (200.0, true),
            (128.0, true),
            (127.25, false),
            (127.6, true),
            (100.35, true),
            (63.35, false),
            (63.42, true),
            (31.42, false),
            (31.47, true),
            (-7.0, false),
        ] {
            assert_eq!(limits.leaves_open::<u8>(value), is_open, "{value}");
        }
    }
}
