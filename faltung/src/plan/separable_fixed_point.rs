//! A separable mask in fixed point, as the tensor cores take it, and how far its sums can be from the direct ones.

use kernels_gpu::tensor_core_u8::separable::{DIGITS, FRACTION_BITS};
use kernels_gpu::tensor_core_u8::{Factor, Layout};

use super::Factors;
use super::direct_sum::{ABOVE, DirectSum, power};
use super::fixed_point::Square;
use crate::Problem;

/// The largest magnitude of a number: three signed digits of 8 bits.
const MOST: f64 = (127 * 65_536 + 127 * 256 + 127) as f64;

/// Both factors of a separable mask, nearly: `scale * W[k, l] = column[k] * row[l] * 2^-48`.
///
/// # Why the radius holds
/// Let `w` be the coefficients, `p` any window of bytes, and `d = scale * w * 2^48 - column * row` what the numbers
/// leave out. The kernel has `S`, the sum of `row * p` in a row of the window, exact. It keeps `h`, the integer below
/// `S * 2^-8`, as bytes `h0` (the lowest), `h1` and `h2`. Let `c0`, `c1` and `c2` be the digits of `column`. Of their
/// product it leaves out `c0 * h1`, `c1 * h0` and `c0 * h0`. The contract names `v`, as in
/// [`FixedPoint`](super::FixedPoint). Then `v - offset` differs from the sum `T` of the kept products, both in units of
/// `2^-24`, by
/// 1. the sum of `d * p`;
/// 2. less than a unit of `h` in each row, times `column`;
/// 3. the products that are left out. Their sum lies between 255 times the negative and 255 times the positive digits,
///    each times its place;
/// 4. the rounding errors of the contract's own steps: `DirectSum` bounds them;
/// 5. the rounding of the bias, which has the middles of 1, 2 and 3.
///
/// The kernel adds the bias to `T`: the offset, those middles, the half for rounding, and the radius. The upper byte of
/// that sum is the result. So the sum must not leave `0..2^32`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeparableFixedPoint {
    row: Vec<i32>,
    column: Vec<i32>,
    bias: u32,
    /// In units of `2^-24`.
    radius: u32,
    uncertain: f32,
}

/// The sums of the negative and of the positive values.
fn signed_sums(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((0.0, 0.0), |(negative, positive), value| (negative + value.min(0.0), positive + value.max(0.0)))
}

impl SeparableFixedPoint {
    /// None if no sum would be certain, or if a result could leave 0 to 255: a coefficient or the scale is negative, or
    /// the sums are too large. Also if half of the column's weight is in one coefficient, which does not fit three
    /// digits then. A Gaussian of sigma 0.8 is such a mask.
    pub(super) fn of(problem: &Problem, factors: &Factors) -> Option<Self> {
        let direct = DirectSum::of(problem)?;
        let (scale, offset) = problem.scale_and_offset();
        let (scale, offset) = (f64::from(scale), f64::from(offset));
        let coefficients = problem.window().coefficients();
        if scale <= 0.0 || offset < -0.5 || coefficients.iter().any(|&coefficient| coefficient < 0.0) {
            return None;
        }
        // If both factors are negative, their product is not.
        let magnitudes = |factor: &[f32]| factor.iter().map(|&value| f64::from(value.abs())).collect::<Vec<_>>();
        let (row, column) = (magnitudes(factors.row()), magnitudes(factors.column()));
        let largest = row.iter().copied().fold(0.0, f64::max);
        // Filtered rows use all 32 bits. The subtrahend leaves room for the rounding of the factors.
        let one = f64::min((power(32) - 255.0 * row.len() as f64) / (255.0 * row.iter().sum::<f64>()), MOST / largest);
        let fitted = |factor: &[f64], one: f64| -> Option<Vec<i32>> {
            let fitted = factor.iter().map(|value| (value * one).round());
            fitted.map(|value| (value <= MOST).then_some(value as i32)).collect()
        };
        let (row, column) = (fitted(&row, one)?, fitted(&column, scale * power(48) / one)?);

        let width = row.len();
        let left_out = coefficients.iter().enumerate().map(|(i, &coefficient)| {
            f64::from(coefficient) * scale * power(48) - f64::from(column[i / width]) * f64::from(row[i % width])
        });
        let (negative, positive) = signed_sums(left_out);
        // The digits of the products that are left out, times the place of the byte.
        let of_low_digits = column.iter().map(|&number| digits(number).map(f64::from));
        let of_low_digits = of_low_digits.flat_map(|[c0, c1, _]| [c0 * (power(-8) + power(-16)), c1 * power(-8)]);
        let (low_negative, low_positive) = signed_sums(of_low_digits);
        // Half of what the rows may lose.
        let of_rows = power(7 - 24) * column.iter().map(|&number| f64::from(number)).sum::<f64>();
        // In units of 2^-24.
        let middle = 127.5 * ((negative + positive) * power(-24) + low_negative + low_positive) + of_rows;
        let spread = 127.5 * ((positive - negative) * power(-24) + low_positive - low_negative);
        let wanted = offset * power(24) + middle;
        let bias = wanted.round();
        let radius = ABOVE * (spread + of_rows + direct.error() * power(24) + (wanted - bias).abs());
        // Products of the mask are below 2^49, so each difference above is exact to within 2^-5.
        let radius = (radius + power(-9)).ceil();
        let brightest = 255.0 * scale * coefficients.iter().map(|&coefficient| f64::from(coefficient)).sum::<f64>();
        let most = ABOVE * (brightest + offset) * power(24) + power(23) + 2.0 * radius;
        if radius >= power(23) || most >= power(32) {
            return None;
        }
        let uncertain = f64::max(2.0 * radius * power(-24), direct.half_way_part()) as f32;
        // The bias is not negative: the offset is at least -1/2, and the radius at least minus the middle.
        Some(Self { row, column, bias: (bias + power(23) + radius) as u32, radius: radius as u32, uncertain })
    }

    /// What part of the results is uncertain, where their fractions are spread evenly.
    pub(super) fn uncertain_part(&self) -> f32 {
        self.uncertain
    }

    /// Where a fraction of 32 bits is below this, the pixel is uncertain.
    fn limit(&self) -> u32 {
        (2 * self.radius + 1) << (32 - FRACTION_BITS)
    }

    /// What the kernel for masks of `side` x `side` reads, as `f32`s with these bits.
    pub(super) fn words(&self, problem: &Problem, side: u32) -> Vec<f32> {
        let square = Square::around(problem, side);
        let layout = Layout::separable(problem.format().channels as u32, side, square.origin_x);
        let numbers = [FRACTION_BITS, self.bias, self.limit()];
        let size = (square.width, square.height);
        square.words(problem, numbers, layout.matrices(side), |matrix, lane, place| {
            let Some((factor, index, digit)) = layout.factor_element(size, matrix, lane, place) else { return 0 };
            let number = match factor {
                Factor::Row => index.checked_sub(square.left).and_then(|index| self.row.get(index as usize)),
                Factor::Column => self.column.get(index as usize),
            };
            number.map_or(0, |&number| digits(number)[digit as usize])
        })
    }

    /// The same with another radius, to see that a wrong one is noticed.
    #[cfg(test)]
    pub(crate) fn with_radius(&self, radius: u32) -> Self {
        Self { bias: self.bias - self.radius + radius, radius, ..self.clone() }
    }

    /// The kernel's answer for a window of bytes: the byte, if it is certain.
    #[cfg(test)]
    fn byte(&self, window: &[u8]) -> Option<u8> {
        let mut sum = self.bias;
        for (row, &number) in window.chunks_exact(self.row.len()).zip(&self.column) {
            let filtered = self.row.iter().zip(row).map(|(&a, &p)| a as u32 * u32::from(p)).sum::<u32>();
            let [_, h0, h1, h2] = filtered.to_le_bytes().map(i32::from);
            let [c0, c1, c2] = digits(number).map(i32::from);
            let products = [(c2 * h2) << 16, (c1 * h2 + c2 * h1) << 8, c0 * h2 + c1 * h1 + c2 * h0];
            sum = products.into_iter().fold(sum, |sum, product| sum.wrapping_add(product as u32));
        }
        (sum << (32 - FRACTION_BITS) >= self.limit()).then_some((sum >> FRACTION_BITS) as u8)
    }
}

/// The signed digits of a number, the lowest first.
fn digits(number: i32) -> [i8; DIGITS as usize] {
    let low = number as i8;
    let rest = (number - i32::from(low)) >> 8;
    let middle = rest as i8;
    [low, middle, ((rest - i32::from(middle)) >> 8) as i8]
}

#[cfg(test)]
mod tests {
    use super::super::fixed_point::tests::{direct, problem};
    use super::*;

    /// Factors of all kinds, normalized or of another sum.
    fn problems(random: &mut fastrand::Rng) -> Vec<Problem> {
        let mut all = Vec::new();
        for (width, height) in [(13, 13), (15, 9), (7, 31), (33, 33), (20, 17), (9, 9)] {
            for kind in 0..6 {
                let mut factor = |length: usize| -> Vec<f64> {
                    let middle = (length as f64 - 1.0) / 2.0;
                    let value = |i: usize| match kind {
                        0 | 1 => (-0.5 * ((i as f64 - middle) * 5.0 / length as f64).powi(2)).exp(),
                        2 => 1.0,
                        3 => random.f64(),
                        4 => f64::from(random.u8(1..4)),
                        _ => random.f64().powi(4) + 0.01,
                    };
                    let values: Vec<f64> = (0..length).map(value).collect();
                    let sum: f64 = values.iter().sum();
                    values.iter().map(|value| value / sum).collect()
                };
                let (column, row) = (factor(height), factor(width));
                let mask = column.iter().flat_map(|a| row.iter().map(move |b| (a * b) as f32)).collect();
                let (scale, offset) = if kind == 1 { (0.75, 3.5) } else { (1.0, 0.0) };
                all.push(problem(width, height, mask, scale, offset));
            }
        }
        all
    }

    /// Random windows, and windows that were changed until their result lies near the middle between two integers.
    fn windows(problem: &Problem, random: &mut fastrand::Rng) -> Vec<Vec<u8>> {
        let coefficients = problem.window().coefficients();
        let (scale, offset) = problem.scale_and_offset();
        let (scale, offset) = (f64::from(scale), f64::from(offset));
        let mut all = Vec::new();
        for turn in 0..40 {
            let (low, high) = [(0, 255), (0, 60), (200, 255), (255, 255)][turn % 4];
            let mut window: Vec<u8> = coefficients.iter().map(|_| random.u8(low..=high)).collect();
            let products = coefficients.iter().zip(&window).map(|(&w, &p)| f64::from(w) * f64::from(p));
            let mut value = products.sum::<f64>() * scale + offset;
            for _ in 0..if turn < 4 { 0 } else { 400 } {
                let (at, pixel) = (random.usize(..window.len()), random.u8(..));
                let change = f64::from(coefficients[at]) * (f64::from(pixel) - f64::from(window[at])) * scale;
                if ((value + change).fract() - 0.5).abs() < (value.fract() - 0.5).abs() {
                    (window[at], value) = (pixel, value + change);
                }
            }
            all.push(window);
        }
        all
    }

    /// Calls `judge` with the fixed point of each problem, the problem, and each of its windows. Returns the number of
    /// problems.
    fn judged(random: &mut fastrand::Rng, mut judge: impl FnMut(&SeparableFixedPoint, &Problem, &[u8])) -> usize {
        let mut problems_with_fixed_point = 0;
        for problem in problems(random) {
            let factors = Factors::of(problem.window()).unwrap();
            let Some(fixed) = SeparableFixedPoint::of(&problem, &factors) else { continue };
            problems_with_fixed_point += 1;
            for window in windows(&problem, random) {
                judge(&fixed, &problem, &window);
            }
        }
        problems_with_fixed_point
    }

    #[test]
    fn what_is_certain_is_right_and_with_a_radius_of_0_it_would_not_be() {
        let seed = 17;
        println!("seed {seed}");
        let (mut certain, mut wrong_without) = (0, 0);
        let problems = judged(&mut fastrand::Rng::with_seed(seed), |fixed, problem, window| {
            let right = direct(problem, window);
            if let Some(byte) = fixed.byte(window) {
                certain += 1;
                assert_eq!(byte, right, "{fixed:?}");
            }
            wrong_without += usize::from(fixed.with_radius(0).byte(window).is_some_and(|byte| byte != right));
        });
        assert!(problems > 30 && certain > 500, "{problems} problems, {certain} certain");
        assert!(wrong_without > 20, "{wrong_without} wrong with a radius of 0");
    }

    /// A Gaussian leaves about a per cent uncertain, or less.
    #[test]
    fn few_results_are_uncertain() {
        for (length, most) in [(13_usize, 0.003), (17, 0.004), (33, 0.012)] {
            let middle = (length as f64 - 1.0) / 2.0;
            let value = |i: usize| (-0.5 * ((i as f64 - middle) * 8.0 / length as f64).powi(2)).exp();
            let sum: f64 = (0..length).map(value).sum();
            let mask = (0..length).flat_map(|i| (0..length).map(move |j| (value(i) * value(j) / sum / sum) as f32));
            let problem = problem(length, length, mask.collect(), 1.0, 0.0);
            let fixed = SeparableFixedPoint::of(&problem, &Factors::of(problem.window()).unwrap()).unwrap();
            assert!((0.0005..most).contains(&fixed.uncertain_part()), "{length}: {}", fixed.uncertain_part());
        }
    }

    #[test]
    fn what_may_leave_the_bytes_is_refused() {
        let of = |mask: Vec<f32>, scale, offset| {
            let problem = problem(3, 3, mask, scale, offset);
            SeparableFixedPoint::of(&problem, &Factors::of(problem.window()).unwrap())
        };
        assert!(of(vec![1.0 / 9.0; 9], 1.0, 0.0).is_some());
        assert_eq!(of(vec![1.0 / 8.0; 9], 1.0, 0.0), None);
        assert_eq!(of(vec![1.0 / 9.0; 9], 1.0, 1.0), None);
        assert_eq!(of(vec![1.0 / 9.0; 9], 1.0, -1.0), None);
        assert_eq!(of(vec![1.0 / 9.0; 9], -1.0, 255.0), None);
        let sobel = [-0.125, 0.0, 0.125, -0.25, 0.0, 0.25, -0.125, 0.0, 0.125];
        assert_eq!(of(sobel.to_vec(), 1.0, 128.0), None);
        // A column of one coefficient has more than three digits.
        let row = problem(9, 1, vec![1.0 / 9.0; 9], 1.0, 0.0);
        assert_eq!(SeparableFixedPoint::of(&row, &Factors::of(row.window()).unwrap()), None);
    }

    #[test]
    fn digits_make_the_number() {
        for number in [0, 1, 127, 128, 255, 256, 32_767, 32_768, MOST as i32, 5_000_000] {
            let [low, middle, high] = digits(number).map(i32::from);
            assert_eq!(low + 256 * middle + 65_536 * high, number);
        }
    }
}
