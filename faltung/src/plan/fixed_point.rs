//! A mask in fixed point, as the tensor cores take it, and how far its sums can be from the direct ones.

use kernels_gpu::tensor_core_u8::{Layout, header};
use kernels_gpu::util::planes::proven::Whole;

use super::direct_sum::{ABOVE, DirectSum, power};
use super::proof::{in_unit, sum_unit};
use crate::Problem;

/// The largest magnitude of a coefficient: two signed digits of 8 bits, `127 * 256 + 127`.
const MOST: f64 = 32_639.0;

/// `scale * W = (digits[0] + 256 * digits[1]) * 2^-shift`, nearly.
///
/// # Why the radius holds
/// Let `w` be the coefficients, `p` any window of bytes, `q` the whole numbers here, and `d = scale * w * 2^shift - q`
/// what they leave out; everything in units of `2^-shift`. The contract names `v`, which is the sum of `w * p`, added
/// up in order in `f32`, times `scale`, plus `offset`, rounded once. The kernel has `T = sum of q * p`, exact. Then `v
/// - offset` differs from `T` by
/// 1. the sum of `d * p`, which lies between 255 times the sum of the negative `d` and 255 times that of the positive
///    ones. The middle of the two is added to the kernel's bias, which leaves half of 255 times the sum of their
///    magnitudes;
/// 2. the rounding errors of the contract's own steps: `DirectSum` bounds them;
/// 3. the rounding of the bias.
///
/// Sums in `f64` are rounded up as those of `DirectSum` are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FixedPoint {
    /// For each coefficient, in window order.
    digits: Vec<[i8; 2]>,
    shift: u32,
    bias: i32,
    /// In units of `2^-shift`.
    radius: u32,
    /// All values are multiples of this power of two, in the same units.
    unit: u32,
}

impl FixedPoint {
    /// With as many digits behind the point as fit. None if no sum would be certain, or if one could overflow.
    pub(super) fn of(problem: &Problem) -> Option<Self> {
        let sum = DirectSum::of(problem)?;
        (1..=24).rev().find_map(|shift| Self::with_shift(problem, &sum, shift))
    }

    fn with_shift(problem: &Problem, direct: &DirectSum, shift: u32) -> Option<Self> {
        let one = f64::from(1_u32 << shift);
        let (scale, offset) = problem.scale_and_offset();
        let (mut positive, mut negative, mut total) = (0.0, 0.0, 0.0);
        let (mut digits, mut bits) = (Vec::new(), 0);
        for &coefficient in problem.window().coefficients() {
            let wanted = f64::from(coefficient) * f64::from(scale) * one;
            let whole = wanted.round();
            if whole.abs() > MOST {
                return None;
            }
            let left = wanted - whole;
            *(if left > 0.0 { &mut positive } else { &mut negative }) += left;
            total += whole.abs();
            bits |= whole as i64;
            // The low digit is the low byte as a signed one; the rest is a multiple of 256.
            let low = whole as i32 as i8;
            digits.push([low, ((whole as i32 - i32::from(low)) / 256) as i8]);
        }
        let middle = 127.5 * (positive + negative);
        let spread = 127.5 * (positive - negative);
        let wanted = f64::from(offset) * one + middle;
        let rounded = wanted.round();
        // The sum above is exact without a middle, and below 2^31 to within 2^-22 with one.
        let rest = if spread > 0.0 { power(-20) } else { 0.0 };
        let radius = (ABOVE * (spread + direct.error() * one + (wanted - rounded).abs()) + rest).ceil();
        let bias = rounded + one / 2.0 + radius;
        // Less than half, or nothing would be certain.
        if radius >= one / 2.0 || 255.0 * total + bias.abs() >= f64::from(i32::MAX) {
            return None;
        }
        let unit = 1 << (bits | rounded as i64).trailing_zeros().min(shift);
        Some(Self { digits, shift, bias: bias as i32, radius: radius as u32, unit })
    }

    /// The same with another radius, to see that a wrong one is noticed.
    #[cfg(test)]
    fn with_radius(&self, radius: u32) -> Self {
        Self { bias: self.bias - self.radius as i32 + radius as i32, radius, ..self.clone() }
    }

    /// What part of the results is uncertain, where their fractions are spread evenly: twice the radius, and of exact
    /// values those that are just between two bytes.
    pub(super) fn uncertain_part(&self) -> f32 {
        let exact = if self.unit < 1 << self.shift { self.unit } else { 0 };
        (2 * self.radius).max(exact) as f32 / (1_u32 << self.shift) as f32
    }

    /// Where a fraction of 32 bits is below this, the pixel is uncertain.
    fn limit(&self) -> u32 {
        (2 * self.radius + 1) << (32 - self.shift)
    }

    /// What the kernel for masks of `side` x `side`, or of any size for 0, reads, as `f32`s with these bits: the
    /// header, the coefficients, the matrices.
    pub(super) fn words(&self, problem: &Problem, side: u32) -> Vec<f32> {
        let square = Square::around(problem, side);
        let layout = Layout::new(problem.format().channels as u32, square.width, square.origin_x, side);
        let numbers = [self.shift, self.bias as u32, self.limit()];
        square.words(problem, numbers, layout.matrices(square.height), |matrix, lane, place| {
            let element = layout.element((square.width, square.height), matrix, lane, place);
            let digit = element.and_then(|(row, column, digit)| Some((square.index(row, column)?, digit)));
            digit.map_or(0, |(index, digit)| self.digits[index][digit as usize])
        })
    }

    /// The kernel's answer for a window of bytes: the byte, if it is certain.
    #[cfg(test)]
    fn byte(&self, window: &[u8]) -> Option<u8> {
        let products = self
            .digits
            .iter()
            .zip(window)
            .map(|(&[low, high], &pixel)| (i32::from(low) + 256 * i32::from(high)) * i32::from(pixel));
        let sum = products.sum::<i32>() + self.bias;
        ((sum as u32) << (32 - self.shift) >= self.limit()).then(|| (sum >> self.shift).clamp(0, 255) as u8)
    }
}

/// Where a mask lies in that of a kernel: in the upper rows of a square, its output's column in the middle, zeros
/// around it. If the kernel takes the mask as it is, it is the mask.
pub(super) struct Square {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) origin_x: i32,
    /// Width and height of the mask.
    mask: (u32, u32),
    /// Columns of the square before the mask.
    pub(super) left: u32,
}

impl Square {
    /// That of a kernel for masks of `side` x `side`, or of any size for 0.
    pub(super) fn around(problem: &Problem, side: u32) -> Self {
        let mask = (problem.window().width() as u32, problem.window().height() as u32);
        let origin = problem.origin().1 as u32;
        if side == 0 || mask == (side, side) {
            return Self { width: mask.0, height: mask.1, origin_x: origin as i32, mask, left: 0 };
        }
        let middle = (side - 1) / 2;
        Self { width: side, height: side, origin_x: middle as i32, mask, left: middle - origin }
    }

    /// The index of the mask's coefficient that the square has there.
    fn index(&self, row: u32, column: u32) -> Option<usize> {
        let column = column.checked_sub(self.left).filter(|&column| column < self.mask.0)?;
        (row < self.mask.1).then_some((row * self.mask.0 + column) as usize)
    }

    /// What the kernel reads, as `f32`s with these bits: a [`header`] with shift, bias and limit, the coefficients, and
    /// the fragments of `matrices` matrices, of which `digit` gives the byte `(word, byte)` of a lane.
    pub(super) fn words(
        &self,
        problem: &Problem,
        [shift, bias, limit]: [u32; 3],
        matrices: u32,
        digit: impl Fn(u32, u32, (u32, u32)) -> i8,
    ) -> Vec<f32> {
        let mut words = vec![0_u32; header::WORDS as usize];
        words[header::SHIFT as usize] = shift;
        words[header::BIAS as usize] = bias;
        words[header::UNCERTAIN as usize] = limit;
        words[4..].fill(bias);
        let coefficients = problem.window().coefficients();
        let unit = sum_unit(coefficients.iter().copied(), u8::FACTOR_EXPONENT).unwrap_or(0.0);
        words[header::UNIT as usize] = unit.to_bits();
        let in_unit = |index: usize| in_unit(coefficients[index], unit, u8::FACTOR_EXPONENT).to_bits();
        for row in 0..self.height {
            let at = |column| self.index(row, column).map_or(0, in_unit);
            words.extend((0..self.width).map(at));
            words.resize(words.len().next_multiple_of(4), 0);
        }
        for matrix in 0..matrices {
            for (lane, word) in (0..32).flat_map(|lane| (0..4).map(move |word| (lane, word))) {
                words.push(u32::from_le_bytes([0, 1, 2, 3].map(|byte| digit(matrix, lane, (word, byte)) as u8)));
            }
        }
        words.into_iter().map(f32::from_bits).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{Filter, Mask, Operation, PixelFormat};

    pub(in crate::plan) fn problem(width: usize, height: usize, mask: Vec<f32>, scale: f32, offset: f32) -> Problem {
        let mask = Mask::new(width, height, mask).unwrap();
        let filter = Filter::new(mask).operation(Operation::Correlate).scale(scale).offset(offset);
        Problem::new(100, 100, &filter).unwrap().with_format(PixelFormat::of::<u8, u8>(1)).unwrap()
    }

    /// The byte that the contract names.
    pub(in crate::plan) fn direct(problem: &Problem, window: &[u8]) -> u8 {
        let coefficients = problem.window().coefficients().iter();
        let sum = coefficients.zip(window).fold(0.0, |sum, (&w, &p)| f32::mul_add(w, f32::from(p), sum));
        let value = problem.finish(sum);
        if value > 0.0 { value.round_ties_even().min(255.0) as u8 } else { 0 }
    }

    /// Masks of all kinds.
    fn problems(random: &mut fastrand::Rng) -> Vec<Problem> {
        let mut all = Vec::new();
        for (width, height) in [(1, 1), (3, 2), (3, 3), (4, 4), (7, 7), (9, 9), (15, 15), (31, 5), (1, 13)] {
            let count = width * height;
            for kind in 0..7 {
                let mut mask: Vec<f32> = (0..count).map(|_| random.f32()).collect();
                let sum: f32 = mask.iter().sum();
                let (mut scale, mut offset) = (1.0, 0.0);
                match kind {
                    0 => mask.iter_mut().for_each(|value| *value /= sum),
                    1 => mask.fill(1.0 / count as f32),
                    2 => mask.iter_mut().for_each(|value| *value = (*value - 0.5) / (count as f32).sqrt()),
                    // A few large ones, and tiny ones.
                    3 => mask.iter_mut().for_each(|value| *value = value.powi(40)),
                    4 => (scale, offset) = (1.0 / sum, 127.3),
                    5 => mask.iter_mut().for_each(|value| *value = (*value * 8.0).floor() / 16.0),
                    _ => {
                        mask.iter_mut().for_each(|value| *value = (*value * 9.0).floor() - 4.0);
                        (scale, offset) = (-0.125, 128.0);
                    }
                }
                all.push(problem(width, height, mask, scale, offset));
            }
        }
        all
    }

    /// Windows at random; those that bring a sum to its ends; and those whose result lies near the middle between two
    /// bytes.
    fn windows(problem: &Problem, fixed: &FixedPoint, random: &mut fastrand::Rng) -> Vec<Vec<u8>> {
        let coefficients = problem.window().coefficients();
        let mut all = Vec::new();
        for turn in 0..60 {
            let mut window: Vec<u8> = coefficients.iter().map(|_| random.u8(..)).collect();
            if turn % 3 == 1 {
                // What fixed point leaves out, all of one sign.
                let one = f64::from(1_u32 << fixed.shift);
                for (pixel, &w) in window.iter_mut().zip(coefficients) {
                    let wanted = f64::from(w) * f64::from(problem.scale_and_offset().0) * one;
                    *pixel = if (wanted - wanted.round() > 0.0) == (turn % 2 == 0) { 255 } else { 0 };
                }
            }
            let value = |window: &[u8]| {
                let products = coefficients.iter().zip(window).map(|(&w, &p)| f64::from(w) * f64::from(p));
                let (scale, offset) = problem.scale_and_offset();
                products.sum::<f64>() * f64::from(scale) + f64::from(offset)
            };
            let from_half = |window: &[u8]| (value(window).fract().abs() - 0.5).abs();
            // Downhill, one pixel at a time, to a half.
            for _ in 0..if turn % 3 == 2 { 300 } else { 40 } {
                let (at, before) = (random.usize(..window.len()), from_half(&window));
                let old = std::mem::replace(&mut window[at], random.u8(..));
                if from_half(&window) > before {
                    window[at] = old;
                }
            }
            all.push(window);
        }
        all
    }

    /// Of those windows, how many the fixed point is certain of, and how many of these are wrong.
    fn judged(problem: &Problem, fixed: &FixedPoint, windows: &[Vec<u8>]) -> (usize, usize) {
        let certain = windows.iter().filter_map(|window| Some((window, fixed.byte(window)?)));
        let (mut count, mut wrong) = (0, 0);
        for (window, byte) in certain {
            count += 1;
            wrong += usize::from(byte != direct(problem, window));
        }
        (count, wrong)
    }

    #[test]
    fn what_is_certain_is_right_and_with_a_radius_of_0_it_would_not_be() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut certain, mut wrong_without, mut exact) = (0, 0, 0);
        for problem in problems(&mut random) {
            let fixed = FixedPoint::of(&problem).unwrap();
            let windows = windows(&problem, &fixed, &mut random);
            let (count, wrong) = judged(&problem, &fixed, &windows);
            assert_eq!(wrong, 0, "{problem:?}: {fixed:?}");
            certain += count;
            exact += usize::from(fixed.radius == 0);
            let (_, wrong) = judged(&problem, &fixed.with_radius(0), &windows);
            wrong_without += wrong;
        }
        assert!(certain > 1000 && exact > 10, "{certain} certain, {exact} masks exact");
        assert!(wrong_without > 20, "{wrong_without} wrong with a radius of 0");
    }

    /// The direct value of any window is within the radius of the one in fixed point, and some come near it.
    #[test]
    fn the_radius_is_no_larger_than_it_must_be() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut nearest = 0.0_f64;
        for problem in problems(&mut random) {
            let fixed = FixedPoint::of(&problem).unwrap();
            let one = f64::from(1_u32 << fixed.shift);
            for window in windows(&problem, &fixed, &mut random) {
                let coefficients = problem.window().coefficients().iter();
                let sum = coefficients.zip(&window).fold(0.0, |sum, (&w, &p)| f32::mul_add(w, f32::from(p), sum));
                let products = fixed
                    .digits
                    .iter()
                    .zip(&window)
                    .map(|(&[low, high], &pixel)| (i64::from(low) + 256 * i64::from(high)) * i64::from(pixel));
                let sum_here = products.sum::<i64>() + i64::from(fixed.bias) - i64::from(fixed.radius);
                let here = sum_here as f64 / one - 0.5;
                let off = (f64::from(problem.finish(sum)) - here).abs();
                if here.abs() < 512.0 {
                    let radius = f64::from(fixed.radius) / one;
                    assert!(off <= radius, "{off} of {radius}: {problem:?}");
                    nearest = nearest.max(off / radius.max(1e-9));
                }
            }
        }
        assert!(nearest > 0.8, "at most {nearest} of a radius");
    }

    #[test]
    fn whole_numbers_and_binary_fractions_are_exact() {
        for (mask, scale, offset) in [
            (vec![-1.0, 0.0, 1.0, -2.0, 0.0, 2.0, -1.0, 0.0, 1.0], 1.0, 0.0),
            (vec![1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0], 1.0 / 16.0, 0.0),
            (vec![-1.0, -1.0, -1.0, -1.0, 8.0, -1.0, -1.0, -1.0, -1.0], 0.25, 127.5),
            (vec![0.0; 9], 1.0, 0.0),
        ] {
            let fixed = FixedPoint::of(&problem(3, 3, mask, scale, offset)).unwrap();
            assert_eq!(fixed.radius, 0, "{fixed:?}");
        }
        let part = |mask, offset| FixedPoint::of(&problem(3, 1, mask, 1.0, offset)).unwrap().uncertain_part();
        // Whole numbers are never between two bytes; quarters are in one of four cases, and with half a unit more whole
        // ones always.
        assert_eq!(part(vec![1.0, -2.0, 1.0], 3.0), 0.0);
        assert_eq!(part(vec![0.25, 0.5, 0.25], 0.0), 0.25);
        assert_eq!(part(vec![1.0, 0.0, 0.0], 0.5), 0.5);
        assert!((0.0..0.01).contains(&part(vec![0.3, 0.3, 0.4], 0.5)));
        assert!(FixedPoint::of(&problem(3, 1, vec![0.1, 0.2, 0.7], 1.0, 0.0)).unwrap().radius > 0);
    }

    #[test]
    fn what_can_not_be_held_is_refused() {
        for (mask, scale, offset) in [
            (vec![f32::NAN, 0.0], 1.0, 0.0),
            (vec![f32::INFINITY, 0.0], 1.0, 0.0),
            (vec![1e30, -1e30], 1.0, 0.0),
            (vec![1e36, 1e37], 1e-36, 0.0),
            (vec![1.0, 1.0], 1.0, 3e9),
            (vec![20_000.0, 1.0], 1.0, 0.0),
        ] {
            assert_eq!(FixedPoint::of(&problem(2, 1, mask, scale, offset)), None);
        }
        let large = FixedPoint::of(&problem(2, 1, vec![30.3, -29.7], 1.0, 0.0)).unwrap();
        assert!(large.uncertain_part() > kernels_gpu::tensor_core_u8::MAX_UNCERTAIN_FRACTION, "{large:?}");
    }
}
