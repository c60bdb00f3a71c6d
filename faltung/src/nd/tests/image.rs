//! Correlations of images with OpenCV's rounding against sums that are written out. Seeds are in the messages.

use super::*;
use crate::nd::convert::{ExactStep, LastStep};
use crate::nd::image::are_exact;
use crate::nd::image_lines::ImageLines;
use crate::nd::narrow::Values;
use crate::{Accuracy, Border};

const TYPES: [Element; 6] = [Element::U8, Element::U16, Element::I16, Element::I32, Element::F32, Element::F64];

/// Rounded as OpenCV rounds.
fn rounded(element: Element, value: f64) -> f64 {
    let integer = value.round_ties_even();
    match element {
        Element::U8 => integer.clamp(0.0, 255.0),
        Element::U16 => integer.clamp(0.0, 65_535.0),
        Element::I16 => integer.clamp(-32_768.0, 32_767.0),
        Element::I32 => integer.clamp(-2_147_483_648.0, 2_147_483_647.0),
        Element::F32 => f64::from(value as f32),
        _ => value,
    }
}

struct Problem {
    random: fastrand::Rng,
    input: Array,
    output: Array,
    size: [usize; 2],
    anchor: [usize; 2],
    border: Border,
    offset: f64,
}

impl Problem {
    fn new(seed: u64, from: Element, to: Element, shape: &[usize], most: [usize; 2]) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut input = Array::new(&mut random, from, shape);
        let limits = match from {
            Element::U8 => 0..=255,
            Element::U16 => 0..=65_535,
            Element::I16 => -32_768..=32_767,
            _ => -5000..=5000,
        };
        for index in indices(shape) {
            // A part is constant: there many sums are close to the middle between two integers.
            input.set(&index, if index[1] < 8 { 101 } else { random.i64(limits.clone()) });
        }
        let output = Array::new(&mut random, to, shape);
        let size = most.map(|most| random.usize(1..=most));
        let anchor = size.map(|size| random.usize(..size));
        let borders =
            [Border::ZERO, Border::Constant(-7.5), Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap];
        let border = borders[random.usize(..borders.len())];
        let offset = [0.0, 0.5, -3.25][random.usize(..3)];
        Self { random, input, output, size, anchor, border, offset }
    }

    /// The value that the coefficient at `place` of the mask meets at a result.
    fn value(&self, index: &[usize], place: [usize; 2]) -> f64 {
        let at = [0, 1].map(|axis| {
            let at = (index[axis] + place[axis]) as isize - self.anchor[axis] as isize;
            position(self.border.mode(), at, self.input.layout.shape[axis])
        });
        let [Some(row), Some(column)] = at else { return self.border.value().into() };
        self.input.get(&[&[row, column], &index[2..]].concat())
    }

    /// The sum of the products in their order, and that of the magnitudes.
    fn sums(&self, mask: &[f64], index: &[usize]) -> (f64, f64) {
        let places = indices(&self.size);
        places.iter().zip(mask).fold((0.0, 0.0), |(sum, magnitudes), (place, coefficient)| {
            let product = coefficient * self.value(index, [place[0], place[1]]);
            (sum + product, magnitudes + product.abs())
        })
    }

    fn run(&mut self, mask: ImageMask<'_>, accuracy: Accuracy) {
        let &mut Self { size, anchor, border, offset, .. } = self;
        let filter = ImageFilter { mask, size, anchor, border, offset, accuracy };
        correlate_image(self.input.input(), self.output.output(), &filter).unwrap();
    }

    fn some_indices(&mut self, count: usize) -> Vec<Vec<usize>> {
        let shape = self.input.layout.shape.clone();
        (0..count).map(|_| shape.iter().map(|&length| self.random.usize(..length)).collect()).collect()
    }
}

fn types(random: &mut fastrand::Rng) -> (Element, Element) {
    (TYPES[random.usize(..6)], TYPES[random.usize(..6)])
}

/// Sums of small whole numbers round nothing, and halves are ties.
#[test]
fn separable_masks_of_whole_numbers_are_exact() {
    let mut exact = 0;
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (from, to) = types(&mut random);
        let shape = match seed {
            0..4 => vec![5, 1300, 1],
            4..8 => vec![90, 23, 3],
            _ => {
                let channels = [vec![], vec![random.usize(1..7)]][random.usize(..2)].clone();
                [vec![random.usize(1..40), random.usize(1..60)], channels].concat()
            }
        };
        let mut problem = Problem::new(seed, from, to, &shape, [13, 13]);
        let [column, row] = problem.size.map(|size| {
            let kind = random.u8(..3);
            let mut line: Vec<f64> = (0..size).map(|_| random.i32(-3..4).into()).collect();
            let reversed: Vec<f64> = line.iter().rev().copied().collect();
            if kind > 0 {
                let sign = if kind == 1 { 1.0 } else { -1.0 };
                line.iter_mut().zip(reversed).for_each(|(value, other)| *value += sign * other);
            }
            line
        });
        let row: Vec<f64> = row.iter().map(|value| value / 2.0).collect();
        let mask: Vec<f64> = column.iter().flat_map(|c| row.iter().map(move |r| c * r)).collect();
        let lines = [0, 1].map(|axis| Lines {
            axis,
            origin: problem.anchor[axis] as isize - (problem.size[axis] / 2) as isize,
            border: problem.border.mode(),
            value: problem.border.value().into(),
        });
        let outside = (lines[0].border == BorderMode::Constant).then_some(lines[0].value);
        let weights: [&[f64]; 2] = [&column, &row];
        let is_exact = problem.offset == 0.0 && are_exact(Values::new(from, outside), weights, 1.0);
        exact += usize::from(is_exact);
        for (level, is_f32) in Level::available().flat_map(|level| [(level, false), (level, is_exact)]) {
            {
                let (input, output) = (problem.input.input(), problem.output.output());
                if is_f32 {
                    ImageLines::new(&input, &output, weights, lines, ExactStep(1.0)).run(level).unwrap();
                } else {
                    let last = LastStep { scale: 1.0, offset: problem.offset };
                    ImageLines::<f64, _>::new(&input, &output, weights, lines, last).run(level).unwrap();
                }
            }
            for index in problem.some_indices(80) {
                let expected = rounded(to, problem.sums(&mask, &index).0 + problem.offset);
                let found = problem.output.get(&index);
                assert_eq!(found, expected, "seed {seed}, {level:?}, {from:?} to {to:?}, {shape:?}, {index:?}");
            }
        }
    }
    assert!((10..180).contains(&exact), "{exact} of 200 problems have exact sums of f32");
}

#[test]
fn separable_masks_keep_a_bound_of_f64() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (from, to) = (types(&mut random).0, Element::F64);
        let shape = [random.usize(1..70), random.usize(1..90), random.usize(1..4)];
        let mut problem = Problem::new(seed, from, to, &shape, [60, 40]);
        let [column, row] =
            problem.size.map(|size| (0..size).map(|_| 1e-30 * (random.f64() - 0.4)).collect::<Vec<_>>());
        problem.offset = 0.0;
        problem.run(ImageMask::Separable(&column, &row), Accuracy::Bounded);
        let mask: Vec<f64> = column.iter().flat_map(|c| row.iter().map(move |r| c * r)).collect();
        for index in problem.some_indices(60) {
            let ((sum, magnitudes), found) = (problem.sums(&mask, &index), problem.output.get(&index));
            let bound = 2.0 * (mask.len() + 110) as f64 * (f64::EPSILON / 2.0) * magnitudes;
            assert!((found - sum).abs() <= bound, "seed {seed}, {from:?}, {index:?}: {found}, not {sum}");
        }
    }
}

/// Masks: a mean of an even number of pixels, small whole numbers, and random ones of both signs.
fn dense(random: &mut fastrand::Rng, count: usize) -> Vec<f64> {
    let kind = random.u8(..3);
    let coefficient = |random: &mut fastrand::Rng| match kind {
        0 => 1.0 / count as f64,
        1 => f64::from(random.i32(-2..3)) / 64.0,
        _ => (random.f64() - 0.4) / count as f64,
    };
    (0..count).map(|_| coefficient(random)).collect()
}

/// Integers have the bits of the sums in order, whether they are transformed or not.
#[test]
fn integers_of_dense_masks_have_the_bits_of_the_sums_in_order() {
    let mut transformed = 0;
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let integers = [Element::U8, Element::U16, Element::I16];
        let (from, to) = (integers[random.usize(..3)], integers[random.usize(..3)]);
        let shape = [vec![random.usize(30..60), random.usize(30..60)], vec![2; random.usize(..2)]].concat();
        let is_large = seed % 2 == 0;
        let mut problem = Problem::new(seed, from, to, &shape, [4, 5]);
        if is_large {
            problem.size = [0; 2].map(|_| 2 * random.usize(12..18));
            problem.anchor = problem.size.map(|size| random.usize(..size));
        }
        let mask = dense(&mut random, problem.size.iter().product());
        transformed += usize::from(is_large && is_transformed(&mut problem, &mask, Accuracy::Exact));
        problem.run(ImageMask::Dense(&mask), Accuracy::Exact);
        for index in problem.some_indices(300) {
            let expected = rounded(to, problem.sums(&mask, &index).0 + problem.offset);
            let found = problem.output.get(&index);
            assert_eq!(found, expected, "seed {seed}, {from:?} to {to:?}, {shape:?}, {:?}, {index:?}", problem.size);
        }
    }
    assert!(transformed > 12, "{transformed} were transformed");
}

fn correlation<'a>(
    problem: &Problem,
    mask: &'a [f64],
    shape: &'a mut Vec<usize>,
    origins: &'a mut Vec<isize>,
) -> Correlation<'a> {
    let more = problem.input.layout.shape.len() - 2;
    *shape = [&problem.size[..], &vec![1; more]].concat();
    *origins = [0, 1].map(|axis| problem.anchor[axis] as isize - (problem.size[axis] / 2) as isize).to_vec();
    origins.resize(2 + more, 0);
    Correlation { weights: mask, shape, origins, border: problem.border.mode(), value: problem.border.value().into() }
}

/// The transforms of a problem, if there are any.
fn tiles(problem: &mut Problem, mask: &[f64], accuracy: Accuracy) -> Option<Tiles> {
    let (mut shape, mut origins) = (Vec::new(), Vec::new());
    let correlation = correlation(problem, mask, &mut shape, &mut origins);
    let results = Results::Rounded(LastStep { scale: 1.0, offset: problem.offset }, accuracy);
    let values = Values::new(problem.input.layout.element, Some(problem.border.value().into()));
    let (input, output) = (problem.input.input(), problem.output.output());
    Tiles::new(Level::chosen().unwrap(), &input, &output, &correlation, values, results).unwrap()
}

fn is_transformed(problem: &mut Problem, mask: &[f64], accuracy: Accuracy) -> bool {
    tiles(problem, mask, accuracy).is_some()
}

/// Where all pixels are equal, the sums of this mask lie in the middle between two integers. To which of them the sum in
/// order is rounded, only the order tells.
#[test]
fn without_a_radius_rounded_integers_are_wrong() {
    let shape = [30, 1200];
    let mut problem = Problem::new(5, Element::I16, Element::I16, &shape, [1, 1]);
    (problem.size, problem.anchor, problem.offset, problem.border) = ([24, 25], [3, 4], 0.5, Border::Clamp);
    for index in indices(&shape) {
        problem.input.set(&index, 7 * (index[1] as i64 / 40) - 100);
    }
    let mask = vec![1.0 / 600.0; 600];
    let results = |problem: &Problem| indices(&shape).iter().map(|index| problem.output.get(index)).collect::<Vec<_>>();
    problem.run(ImageMask::Dense(&mask), Accuracy::Bounded);
    let expected = results(&problem);
    for index in problem.some_indices(500) {
        assert_eq!(problem.output.get(&index), rounded(Element::I16, problem.sums(&mask, &index).0 + 0.5), "{index:?}");
    }

    let tiles = tiles(&mut problem, &mask, Accuracy::Bounded).unwrap().without_radius();
    let (mut shape, mut origins) = (Vec::new(), Vec::new());
    let correlation = correlation(&problem, &mask, &mut shape, &mut origins);
    tiles.run(&problem.input.input(), &problem.output.output(), &correlation).unwrap();
    let wrong = results(&problem).iter().zip(&expected).filter(|(found, expected)| found != expected).count();
    assert!(wrong > 100, "{wrong} are wrong");
}

/// Results of floating point keep the bound of their class, and those of class Exact are the sums in order.
#[test]
fn floats_of_dense_masks_keep_their_class() {
    for seed in 0..24 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (from, to) = [
            (Element::I16, Element::F32),
            (Element::I16, Element::F64),
            (Element::U8, Element::F64),
            (Element::F64, Element::F64),
        ][random.usize(..4)];
        let shape = [random.usize(40..70), random.usize(40..70)];
        let mut problem = Problem::new(seed, from, to, &shape, [1, 1]);
        problem.size = [0; 2].map(|_| random.usize(24..34));
        problem.anchor = problem.size.map(|size| random.usize(..size));
        if seed % 3 == 0 {
            // Zeros: nothing is certain about their sums but that they are 0.
            indices(&shape).iter().filter(|index| index[0] < 50).for_each(|index| problem.input.set(index, 0));
        }
        let mask = dense(&mut random, problem.size.iter().product());
        let steps = mask.len() as f64 / f64::from(1 << 24);
        for accuracy in Accuracy::ALL {
            if accuracy != Accuracy::Exact {
                assert!(is_transformed(&mut problem, &mask, accuracy), "seed {seed}, {accuracy:?}");
            }
            problem.run(ImageMask::Dense(&mask), accuracy);
            for index in problem.some_indices(200) {
                let ((sum, magnitudes), found) = (problem.sums(&mask, &index), problem.output.get(&index));
                let bound = match accuracy {
                    Accuracy::Exact => 0.0,
                    Accuracy::Bounded => steps / (1.0 - steps) * magnitudes,
                    Accuracy::Normwise => 1e-11 * 65_536.0,
                };
                let rounding = bound.min(1.0) * f64::from(f32::EPSILON) * (sum + problem.offset).abs();
                let expected = if bound == 0.0 { rounded(to, sum + problem.offset) } else { sum + problem.offset };
                assert!(
                    (found - expected).abs()
                        <= bound
                            + rounding
                            + if to == Element::F32 { expected.abs() * 6e-8 * bound.signum() } else { 0.0 },
                    "seed {seed}, {accuracy:?}, {from:?} to {to:?}, {index:?}: {found}, not {expected}"
                );
            }
        }
    }
}

/// A value that can't be transformed reaches the results whose windows have it, and no others.
#[test]
fn values_that_are_not_finite_stay_in_their_windows() {
    for (bad, accuracy) in
        [(f64::NAN, Accuracy::Normwise), (f64::INFINITY, Accuracy::Bounded), (1e300, Accuracy::Bounded)]
    {
        let mut problem = Problem::new(1, Element::F64, Element::F64, &[70, 80], [1, 1]);
        (problem.size, problem.anchor) = ([31, 33], [3, 30]);
        let at = problem.input.offset(&[40, 41]);
        problem.input.bytes[at..][..8].copy_from_slice(&bad.to_ne_bytes());
        let mask = vec![0.25; 31 * 33];
        assert!(is_transformed(&mut problem, &mask, accuracy));
        problem.run(ImageMask::Dense(&mask), accuracy);
        for index in problem.some_indices(300) {
            let (expected, found) = (problem.sums(&mask, &index).0 + problem.offset, problem.output.get(&index));
            assert!(
                found == expected || found.is_nan() && expected.is_nan(),
                "{bad}, {index:?}: {found}, not {expected}"
            );
        }
    }
}

#[test]
fn what_is_refused() {
    let mut problem = Problem::new(1, Element::U8, Element::U8, &[9, 9], [1, 1]);
    let ones = [1.0; 6];
    let mut error = |mask, size, anchor| {
        let filter = ImageFilter { mask, size, anchor, border: Border::Clamp, offset: 0.0, accuracy: Accuracy::Exact };
        correlate_image(problem.input.input(), problem.output.output(), &filter).unwrap_err().to_string()
    };
    assert!(error(ImageMask::Dense(&ones), [2, 2], [0, 0]).contains("the number of coefficients"));
    assert!(error(ImageMask::Separable(&ones[..2], &ones[..3]), [3, 2], [0, 0]).contains("the number of coefficients"));
    assert!(error(ImageMask::Dense(&[]), [0, 3], [0, 0]).contains("the number of coefficients"));
    assert!(error(ImageMask::Dense(&ones), [2, 3], [0, 3]).contains("the anchor"));
}
