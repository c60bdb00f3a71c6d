//! The row pass of a separable mask over bytes, in fixed point. One instruction of AVX-512 VNNI (`vpdpbusd`) adds four
//! products of an unsigned and a signed byte to a lane of 32 bits.
//!
//! A coefficient in fixed point is three signed digits of 8 bits. Each digit has sums of its own. All sums are exact:
//! ```text
//! for each group of four coefficients of the row
//!     for each lane: the four bytes under them, steps of a pixel apart      vpermb
//!     for each digit: sum[digit] += digits of the four coefficients * bytes vpdpbusd
//! filtered = (sum[2] * 256 + sum[1]) * 256 + sum[0]
//! ```

use super::simd::Level;

/// The row of a mask in fixed point. There is one only where the CPU has the instructions for it.
#[derive(Clone, Debug)]
pub(super) struct ByteRow {
    /// For each group of four coefficients the three digits, the lowest first. Byte i is the digit of coefficient i.
    groups: Vec<[i32; 3]>,
    /// The coefficients, times `2^shift`.
    whole: Vec<i32>,
    shift: i32,
}

impl ByteRow {
    /// The most binary digits behind the point.
    const MOST_SHIFT: i32 = 24;

    /// `row` with the most binary digits whose sums fit 32 bits. None if this CPU lacks the instructions, or the
    /// coefficients are too large.
    pub(super) fn of(level: Level, row: &[f32]) -> Option<Self> {
        if !level.has_byte_instructions() {
            return None;
        }
        (1..=Self::MOST_SHIFT).rev().find_map(|shift| Self::with_shift(row, shift))
    }

    fn with_shift(row: &[f32], shift: i32) -> Option<Self> {
        let mut most = 0_i64;
        let mut whole = Vec::with_capacity(row.len());
        let mut digits = Vec::with_capacity(row.len());
        for &coefficient in row {
            let scaled = (f64::from(coefficient) * f64::from(1 << shift)).round();
            if scaled.abs() > f64::from(i32::MAX / 2) {
                return None;
            }
            let scaled = scaled as i32;
            // The low digit is the low byte as a signed one; the rest is a multiple of 256.
            let low = scaled as i8;
            let rest = (scaled - i32::from(low)) >> 8;
            let middle = rest as i8;
            let high = i8::try_from((rest - i32::from(middle)) >> 8).ok()?;
            most += i64::from(high).abs() * 65_536 + i64::from(middle).abs() * 256 + i64::from(low).abs();
            whole.push(scaled);
            digits.push([low, middle, high]);
        }
        // No sum of some of the products overflows.
        if most * 255 > i64::from(i32::MAX) {
            return None;
        }
        let groups = digits
            .chunks(4)
            .map(|group| {
                std::array::from_fn(|digit| {
                    let byte = |i: usize| group.get(i).map_or(0, |digits| digits[digit] as u8);
                    i32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])
                })
            })
            .collect();
        Some(Self { groups, whole, shift })
    }

    /// Coefficient `l`, rounded to fixed point.
    pub(super) fn coefficient(&self, l: usize) -> f64 {
        f64::from(self.whole[l]) * self.unit()
    }

    /// The unit of filtered values: `2^-shift`.
    pub(super) fn unit(&self) -> f64 {
        f64::powi(2.0, -self.shift)
    }

    /// The bytes that a line needs for `width` filtered values.
    pub(super) fn line_bytes(&self, width: usize, step: usize) -> usize {
        // Vectors of 64 bytes are loaded, the last one for the last 16 values and the last group.
        width + 4 * (self.groups.len() - 1) * step + 64
    }

    /// `filtered[x] = sum over l of whole[l] * line[x + l * step]`, rounded once, to `f32`.
    ///
    /// # Panics
    /// If `line` is shorter than [`line_bytes`](Self::line_bytes), or `filtered` is not a multiple of 16 long.
    pub(super) fn filter(&self, line: &[u8], step: usize, filtered: &mut [f32]) {
        assert!(line.len() >= self.line_bytes(filtered.len(), step));
        assert!(filtered.len().is_multiple_of(16) && (1..=4).contains(&step));
        // SAFETY: the assertions above are what `filter` requires, and `of` has asked the CPU.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            filter(&self.groups, line, step, filtered);
        }
    }
}

/// [`ByteRow::filter`].
///
/// # Safety
/// - The CPU has AVX-512 F, BW, VL, VNNI and VBMI.
/// - `line` has at least [`ByteRow::line_bytes`] bytes for `filtered.len()` values and `step`, which is 1 to 4.
/// - `filtered.len()` is a multiple of 16.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi")]
unsafe fn filter(groups: &[[i32; 3]], line: &[u8], step: usize, filtered: &mut [f32]) {
    use std::arch::x86_64::_mm512_loadu_si512;

    // The bytes of lane i: i, i + step, i + 2 step, i + 3 step.
    let mut order = [0_u8; 64];
    for (at, byte) in order.iter_mut().enumerate() {
        *byte = (at / 4 + at % 4 * step) as u8;
    }
    // SAFETY: `order` is 64 bytes.
    let order = unsafe { _mm512_loadu_si512(order.as_ptr().cast()) };
    let mut x = 0;
    while x < filtered.len() {
        // SAFETY: the line has 64 bytes from each 16 values and the last group on; there are as many values.
        x += unsafe {
            let (line, filtered, left) = (line.as_ptr().add(x), filtered.as_mut_ptr().add(x), filtered.len() - x);
            if left >= 64 {
                filter_vectors::<4>(groups, order, line, step, filtered)
            } else {
                filter_vectors::<1>(groups, order, line, step, filtered)
            }
        };
    }
}

/// Filters `V` vectors and returns `16 * V`. Several independent chains hide the latency of the additions.
///
/// # Safety
/// - The CPU has the instructions.
/// - `line` is valid for reads of `16 * (V - 1) + 4 * (groups.len() - 1) * step + 64` bytes.
/// - `filtered` is valid for writes of `16 * V` values.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi")]
#[inline]
unsafe fn filter_vectors<const V: usize>(
    groups: &[[i32; 3]],
    order: std::arch::x86_64::__m512i,
    line: *const u8,
    step: usize,
    filtered: *mut f32,
) -> usize {
    use std::arch::x86_64::*;

    let (mut low, mut middle, mut high) =
        ([_mm512_setzero_si512(); V], [_mm512_setzero_si512(); V], [_mm512_setzero_si512(); V]);
    for (i, digits) in groups.iter().enumerate() {
        for v in 0..V {
            // SAFETY: v < V and i < groups.len().
            let bytes = unsafe { _mm512_loadu_si512(line.add(16 * v + 4 * i * step).cast()) };
            let bytes = _mm512_permutexvar_epi8(order, bytes);
            low[v] = _mm512_dpbusd_epi32(low[v], bytes, _mm512_set1_epi32(digits[0]));
            middle[v] = _mm512_dpbusd_epi32(middle[v], bytes, _mm512_set1_epi32(digits[1]));
            high[v] = _mm512_dpbusd_epi32(high[v], bytes, _mm512_set1_epi32(digits[2]));
        }
    }
    for v in 0..V {
        let sum = _mm512_add_epi32(_mm512_slli_epi32::<8>(high[v]), middle[v]);
        let sum = _mm512_add_epi32(_mm512_slli_epi32::<8>(sum), low[v]);
        // SAFETY: v < V.
        unsafe { _mm512_storeu_ps(filtered.add(16 * v), _mm512_cvtepi32_ps(sum)) };
    }
    16 * V
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact() {
        if !Level::Avx512.has_byte_instructions() {
            println!("this CPU has no byte dot products");
            return;
        }
        let mut random = fastrand::Rng::with_seed(5);
        for width in [1, 2, 3, 4, 5, 7, 8, 13, 31, 64] {
            for step in 1..=4 {
                let row: Vec<f32> = (0..width).map(|_| (random.f32() - 0.3) / width as f32).collect();
                let bytes = ByteRow::of(Level::Avx512, &row).unwrap();
                for (l, &coefficient) in row.iter().enumerate() {
                    assert!((bytes.coefficient(l) - f64::from(coefficient)).abs() <= bytes.unit() / 2.0);
                }
                let line: Vec<u8> = (0..bytes.line_bytes(80 + 16, step)).map(|_| random.u8(..)).collect();
                let mut filtered = vec![f32::NAN; 80 + 16];
                bytes.filter(&line, step, &mut filtered);
                for (x, &found) in filtered.iter().enumerate() {
                    let sum: i32 = (0..width).map(|l| bytes.whole[l] * i32::from(line[x + l * step])).sum();
                    assert_eq!(found, sum as f32, "{width} coefficients, step {step}, value {x}");
                }
            }
        }
        // The largest sums: all of one sign.
        let bytes = ByteRow::of(Level::Avx512, &[0.125; 4]).unwrap();
        let mut filtered = [0.0; 16];
        bytes.filter(&vec![255; bytes.line_bytes(16, 1)], 1, &mut filtered);
        assert_eq!(f64::from(filtered[0]) * bytes.unit(), 127.5);
        assert!(ByteRow::of(Level::Avx512, &[1e9]).is_none());
    }
}
