//! The oracle: a convolution in `f64`, by a formula that no backend uses.
//!
//! It shares only the problem with the backends. It walks pixel by pixel out of the image (`walk`), where they map
//! positions by a formula. It has no tiles. It adds one coefficient's products to a whole row of outputs at a time.
//!
//! # How exact it is
//! The product of two `f32` has 48 bits and is exact in `f64`. The sum of n products takes n roundings of 2^-53 each,
//! so its error is at most about n * 2^-53 * sum|M*I|. For any n below a million that is 2^-9 of the error that `f32`
//! may have. Because products are exact, fused and separate operations are bit-exact.

use rayon::prelude::*;

use faltung::{Border, Problem};

/// The outputs whose sums are computed together. They stay in the L1 cache.
const COLUMNS: usize = 1024;

/// The result of a problem in `f64`, and the magnitude for its error bounds. Both are `height` rows of `width` values.
///
/// ```
/// use host::oracle::Oracle;
/// use faltung::{Filter, Mask, Problem};
///
/// let problem = Problem::new(2, 1, &Filter::new(Mask::new(3, 1, vec![1.0, -2.0, 1.0])?).scale(0.5))?;
/// let oracle = Oracle::new(&problem, &[3.0, 5.0]);
/// assert_eq!(oracle.exact, [-0.5, -3.5]);
/// assert_eq!(oracle.magnitude, [11.0, 13.0]);
/// assert_eq!(oracle.norm, 34.0_f64.sqrt());
/// # Ok::<(), host::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Oracle {
    /// `scale * sum(M * I) + offset`.
    pub exact: Vec<f64>,
    /// `sum |M * I|`, without scale and offset.
    pub magnitude: Vec<f64>,
    /// The 2-norm of all pixels that the windows read, outside ones included. That of a tile is not greater.
    pub norm: f64,
}

impl Oracle {
    /// Computes `problem` for `source`, `height` rows of `width` values. NaN and infinity do what IEEE 754 says.
    ///
    /// # Panics
    /// If `source` has not `width * height` values.
    #[must_use]
    pub fn new(problem: &Problem, source: &[f32]) -> Self {
        let (width, height) = (problem.width(), problem.height());
        assert_eq!(source.len(), width * height, "values of the source");
        let (window, (above, before)) = (problem.window(), problem.origin());
        let rows = walk(problem.border(), height, above, window.height() - 1 - above);
        let columns = walk(problem.border(), width, before, window.width() - 1 - before);
        let pixel = |row: Option<usize>, column: Option<usize>| match (row, column) {
            (Some(row), Some(column)) => source[row * width + column],
            _ => problem.border().value(),
        };

        let squares: f64 = rows
            .par_iter()
            .map(|&row| columns.iter().map(|&column| f64::from(pixel(row, column)).powi(2)).sum::<f64>())
            .sum();
        let (exact, magnitude) = (vec![0.0; width * height], vec![0.0; width * height]);
        let mut oracle = Self { exact, magnitude, norm: squares.sqrt() };
        let outputs = oracle.exact.par_chunks_mut(width).zip(oracle.magnitude.par_chunks_mut(width));
        outputs.enumerate().for_each_init(Vec::new, |padded, (y, (exact, magnitude))| {
            for k in 0..window.height() {
                padded.clear();
                padded.extend(columns.iter().map(|&column| f64::from(pixel(rows[y + k], column))));
                let coefficients = &window.coefficients()[k * window.width()..][..window.width()];
                let parts = exact.chunks_mut(COLUMNS).zip(magnitude.chunks_mut(COLUMNS));
                for (part, (exact, magnitude)) in parts.enumerate() {
                    gather(coefficients, &padded[part * COLUMNS..], exact, magnitude);
                }
            }
            let (scale, offset) = problem.scale_and_offset();
            for value in exact {
                *value = *value * f64::from(scale) + f64::from(offset);
            }
        });
        oracle
    }
}

/// Adds the products of one row of the window to the sums of a row of outputs.
fn gather(coefficients: &[f32], pixels: &[f64], exact: &mut [f64], magnitude: &mut [f64]) {
    #[cfg(target_arch = "x86_64")]
    {
        /// The same, compiled for 4 values at a time.
        #[target_feature(enable = "avx2")]
        fn avx2(coefficients: &[f32], pixels: &[f64], exact: &mut [f64], magnitude: &mut [f64]) {
            gather_here(coefficients, pixels, exact, magnitude);
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2.
            return unsafe { avx2(coefficients, pixels, exact, magnitude) };
        }
    }
    gather_here(coefficients, pixels, exact, magnitude);
}

#[inline(always)]
fn gather_here(coefficients: &[f32], pixels: &[f64], exact: &mut [f64], magnitude: &mut [f64]) {
    for (l, &coefficient) in coefficients.iter().enumerate() {
        let coefficient = f64::from(coefficient);
        for ((sum, total), pixel) in exact.iter_mut().zip(&mut *magnitude).zip(&pixels[l..]) {
            let product = coefficient * pixel;
            *sum += product;
            *total += product.abs();
        }
    }
}

/// The positions on an axis of `length` pixels from `before` pixels in front of it to `after` behind it; None where the
/// border's value stands.
fn walk(border: Border, length: usize, before: usize, after: usize) -> Vec<Option<usize>> {
    let mut steps: Vec<_> = Walker::new(border, length, Side::Before).take(before).collect();
    steps.reverse();
    steps.extend((0..length).map(Some));
    steps.extend(Walker::new(border, length, Side::After).take(after));
    steps
}

/// Where a walk leaves the axis.
#[derive(Clone, Copy)]
enum Side {
    Before,
    After,
}

/// A position that leaves the image by one pixel a step. There it turns round, jumps or stays, as the border says.
struct Walker {
    border: Border,
    last: usize,
    at: usize,
    up: bool,
}

impl Walker {
    fn new(border: Border, length: usize, side: Side) -> Self {
        let last = length - 1;
        let (at, up) = match side {
            Side::Before => (0, false),
            Side::After => (last, true),
        };
        Self { border, last, at, up }
    }
}

impl Iterator for Walker {
    type Item = Option<usize>;

    fn next(&mut self) -> Option<Option<usize>> {
        let at_edge = if self.up { self.at == self.last } else { self.at == 0 };
        let forward = if self.up { self.at + 1 } else { self.at.wrapping_sub(1) };
        self.at = match self.border {
            Border::Constant(_) => return Some(None),
            _ if !at_edge => forward,
            Border::Clamp => self.at,
            Border::Wrap => self.last - self.at,
            Border::Reflect => {
                self.up = !self.up;
                self.at
            }
            Border::Mirror if self.last == 0 => self.at,
            Border::Mirror => {
                self.up = !self.up;
                if self.up { 1 } else { self.last - 1 }
            }
        };
        Some(Some(self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faltung::{Filter, Mask, Operation};
    use kernels_gpu::abi::border::{OUTSIDE, map};

    #[test]
    fn walks_as_documented() {
        let row = ['a', 'b', 'c', 'd'];
        let seen = |border| -> String { walk(border, 4, 9, 9).iter().map(|at| at.map_or('v', |at| row[at])).collect() };
        assert_eq!(seen(Border::ZERO), "vvvvvvvvvabcdvvvvvvvvv");
        assert_eq!(seen(Border::Clamp), "aaaaaaaaaabcdddddddddd");
        assert_eq!(seen(Border::Reflect), "aabcddcbaabcddcbaabcdd");
        assert_eq!(seen(Border::Mirror), "dcbabcdcbabcdcbabcdcba");
        assert_eq!(seen(Border::Wrap), "dabcdabcdabcdabcdabcda");
    }

    /// Two ways to the same map.
    #[test]
    fn walk_and_formula_agree() {
        for border in [Border::Constant(1.0), Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap] {
            for length in 1..9 {
                for (i, at) in walk(border, length, 40, 30).into_iter().enumerate() {
                    let by_formula = map(border.mode().code(), i as i32 - 40, length as i32);
                    assert_eq!(at.map_or(OUTSIDE, |at| at as i32), by_formula, "{border}, {i} of {length}");
                }
            }
        }
    }

    /// The definition of BEHAVIOUR: the mask as given, the anchor as given, no window order.
    #[test]
    fn follows_the_definition() {
        let (width, height, mw, mh, ay, ax) = (7, 5, 4, 3, 2, 1);
        let source: Vec<f32> = (0..width * height).map(|i| ((i * i) % 23) as f32 - 11.0).collect();
        let mask: Vec<f32> = (0..mw * mh).map(|i| ((i * 5) % 13) as f32 - 6.0).collect();
        let at = |y: isize, x: isize| {
            let inside = (0..height as isize).contains(&y) && (0..width as isize).contains(&x);
            if inside { source[y as usize * width + x as usize] } else { 2.5 }
        };
        for operation in [Operation::Convolve, Operation::Correlate] {
            let filter = Filter::new(Mask::new(mw, mh, mask.clone()).unwrap())
                .operation(operation)
                .anchor(ay, ax)
                .border(Border::Constant(2.5))
                .scale(0.25)
                .offset(3.0);
            let oracle = Oracle::new(&Problem::new(width, height, &filter).unwrap(), &source);
            for y in 0..height {
                for x in 0..width {
                    let mut sum = 0.0;
                    for k in 0..mh {
                        for l in 0..mw {
                            let (dy, dx) = (k as isize - ay as isize, l as isize - ax as isize);
                            let sign = if operation == Operation::Convolve { -1 } else { 1 };
                            sum += mask[k * mw + l] * at(y as isize + sign * dy, x as isize + sign * dx);
                        }
                    }
                    // Small integers and halves: exact in any arithmetic.
                    assert_eq!(oracle.exact[y * width + x], f64::from(sum * 0.25 + 3.0), "{operation:?} {x}, {y}");
                }
            }
        }
    }

    /// Rows that are gathered in parts.
    #[test]
    fn wide_rows() {
        let width = 2 * COLUMNS + 3;
        let source: Vec<f32> = (0..width).map(|x| x as f32).collect();
        let filter = Filter::new(Mask::new(3, 1, vec![-1.0, 0.0, 1.0]).unwrap()).border(Border::Clamp);
        let oracle = Oracle::new(&Problem::new(width, 1, &filter).unwrap(), &source);
        for x in 0..width {
            let (left, right) = (x.saturating_sub(1) as f64, (x + 1).min(width - 1) as f64);
            assert_eq!(oracle.exact[x], left - right, "{x}");
            assert_eq!(oracle.magnitude[x], left + right, "{x}");
        }
    }

    #[test]
    fn nan_and_infinity() {
        let problem = Problem::new(3, 1, &Filter::new(Mask::new(1, 1, vec![0.0]).unwrap())).unwrap();
        let oracle = Oracle::new(&problem, &[f32::INFINITY, 1.0, f32::NAN]);
        assert!(oracle.exact[0].is_nan() && oracle.exact[1] == 0.0 && oracle.exact[2].is_nan());
        // A zero outside, times an infinite coefficient.
        let mask = Mask::new(3, 1, vec![f32::INFINITY, 1.0, 1.0]).unwrap();
        let oracle = Oracle::new(&Problem::new(2, 1, &Filter::new(mask)).unwrap(), &[1.0, 1.0]);
        assert!(oracle.exact[0] == f64::INFINITY && oracle.exact[1].is_nan());
    }
}
