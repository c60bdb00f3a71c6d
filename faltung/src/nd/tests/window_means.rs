//! Means of windows against sums of whole numbers.

use super::*;
use crate::nd::window_means::{WindowMeans, rounded_mean};

const TYPES: [Element; 6] = [Element::U8, Element::U16, Element::I16, Element::I32, Element::F32, Element::F64];

/// An image whose rows may have gaps between them and any order.
fn image(random: &mut fastrand::Rng, element: Element, [height, width, step]: [usize; 3]) -> Array {
    let row = (width * step + random.usize(..3)) * element.size();
    let is_backwards = random.bool();
    let stride = if is_backwards { -(row as isize) } else { row as isize };
    let strides = vec![stride, (step * element.size()) as isize, element.size() as isize];
    let layout = Layout { element, shape: vec![height, width, step], strides };
    Array { bytes: vec![0xa5; height * row], first: if is_backwards { (height - 1) * row } else { 0 }, layout }
}

struct Problem {
    sizes: [usize; 2],
    lines: [Lines; 2],
}

impl Problem {
    fn random(random: &mut fastrand::Rng, most: [usize; 2]) -> Self {
        let sizes = most.map(|most| random.usize(1..=most));
        let value = if random.usize(..6) == 0 { 268_435_456.0 } else { random.i64(-3..100) as f64 };
        let lines = std::array::from_fn(|axis| {
            let size = sizes[axis];
            let origin = random.isize(-((size / 2) as isize)..=((size - 1) / 2) as isize);
            Lines { axis, origin, border: BorderMode::ALL[random.usize(..5)], value }
        });
        Self { sizes, lines }
    }

    /// The value of a place of the window at a pixel, or the border's.
    fn value(&self, input: &Array, index: &[usize], place: [usize; 2]) -> f64 {
        let at = [0, 1].map(|axis| {
            let Lines { origin, border, .. } = self.lines[axis];
            let first = index[axis] as isize - (self.sizes[axis] / 2) as isize - origin;
            position(border, first + place[axis] as isize, input.layout.shape[axis])
        });
        match at {
            [Some(row), Some(column)] => input.get(&[row, column, index[2]]),
            _ => self.lines[0].value,
        }
    }

    fn window(&self, input: &Array, index: &[usize]) -> Vec<f64> {
        let places = (0..self.sizes[0]).flat_map(|k| (0..self.sizes[1]).map(move |l| [k, l]));
        places.map(|place| self.value(input, index, place)).collect()
    }

    fn run(&self, level: Level, input: &Array, output: &mut Array) {
        let (from, to) = (input.input(), output.output());
        WindowMeans::new(&from, &to, self.sizes, &self.lines).unwrap().run(level).unwrap();
    }
}

/// Sums of whole numbers round nothing in `f64`.
#[test]
fn means_are_quotients_of_exact_sums() {
    for seed in 0..150 {
        let mut random = fastrand::Rng::with_seed(seed);
        let element = TYPES[random.usize(..6)];
        let shape = match seed {
            0..3 => [3, 2500, 1],
            3..6 => [300, 9, 2],
            _ => [random.usize(1..30), random.usize(1..40), random.usize(1..6)],
        };
        let problem = Problem::random(&mut random, if seed < 6 { [9, 9] } else { [40, 40] });
        let mut input = image(&mut random, element, shape);
        for index in indices(&shape) {
            input.set(&index, random.i64(0..30_000) - if matches!(element, Element::I16) { 15_000 } else { 0 });
        }
        for level in Level::available() {
            let mut found = image(&mut random, element, shape);
            problem.run(level, &input, &mut found);
            for _ in 0..60 {
                let index = shape.map(|length| random.usize(..length));
                let mean =
                    problem.window(&input, &index).iter().sum::<f64>() / problem.sizes.iter().product::<usize>() as f64;
                let expected = if element.is_integer() { mean.round_ties_even() } else { mean };
                let expected = if element == Element::F32 { f64::from(expected as f32) } else { expected };
                let expected = if element.is_integer() { converted(element, expected) } else { expected };
                assert_eq!(found.get(&index), expected, "seed {seed}, {level:?}, {element:?}, {shape:?}, {index:?}");
            }
        }
    }
}

/// Halves of integers and their neighbours, against integers.
#[test]
fn means_by_the_inverse_round_half_to_even() {
    for area in [1_i64, 2, 3, 6, 10, 49, 96, 250, 1022, 4094, 21_846, 65_792, 131_070, 131_072] {
        for mean in (-32_768..65_535).step_by(331).chain([-1, 0, 1, 65_534]) {
            for sum in [-1, 0, 1].into_iter().flat_map(|more| [mean * area + area / 2 + more, mean * area + more]) {
                let (quotient, rest) = (sum.div_euclid(area), sum.rem_euclid(area));
                let is_up = 2 * rest > area || 2 * rest == area && quotient % 2 != 0;
                let expected = (quotient + i64::from(is_up)) as u16;
                assert_eq!(rounded_mean(sum as f64, 1.0 / area as f64), expected, "{sum} / {area}");
            }
        }
    }
}

/// NaN, infinities and large values reach only the results whose windows have them.
#[test]
fn a_value_reaches_its_windows_alone() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let shape = [random.usize(20..200), random.usize(20..40), random.usize(1..4)];
        let problem = Problem::random(&mut random, [30, 30]);
        let of = |random: &mut fastrand::Rng, bad: f64| {
            let mut input = image(&mut random.clone(), Element::F64, shape);
            let mut values = random.clone();
            for index in indices(&shape) {
                let value = if values.usize(..400) == 0 { bad } else { values.f64() };
                let at = input.offset(&index);
                input.bytes[at..][..8].copy_from_slice(&value.to_ne_bytes());
            }
            input
        };
        let (bad, good) = ([f64::NAN, f64::INFINITY, 1e300][random.usize(..3)], 1.0);
        let (with, without) = (of(&mut random, bad), of(&mut random, good));
        for level in Level::available() {
            let (mut found, mut expected) = (with_layout(&with), with_layout(&without));
            problem.run(level, &with, &mut found);
            problem.run(level, &without, &mut expected);
            for index in indices(&shape) {
                let window = problem.window(&with, &index);
                let is_reached = window.iter().any(|value| value.is_nan() || *value > 1.0 && *value == bad);
                let are_same = found.get(&index).to_bits() == expected.get(&index).to_bits();
                assert_eq!(are_same, !is_reached, "seed {seed}, {level:?}, {bad}, {index:?}: {}", found.get(&index));
            }
        }
    }
}

/// Zeros with the layout of an array.
fn with_layout(array: &Array) -> Array {
    Array { bytes: vec![0; array.bytes.len()], first: array.first, layout: array.layout.clone() }
}

/// Windows too tall for sums of rows that are kept.
#[test]
fn a_very_tall_window() {
    let mut random = fastrand::Rng::with_seed(1);
    let shape = [7, 1100, 2];
    let lines = [0, 1].map(|axis| Lines { axis, origin: 0, border: BorderMode::Mirror, value: 0.0 });
    let problem = Problem { sizes: [1101, 3], lines };
    let mut input = image(&mut random, Element::F32, shape);
    for index in indices(&shape) {
        input.set(&index, random.i64(0..1000));
    }
    for level in Level::available() {
        let mut found = with_layout(&input);
        problem.run(level, &input, &mut found);
        for index in [[0, 0, 0], [3, 517, 1], [6, 1099, 0]] {
            let expected = problem.window(&input, &index).iter().sum::<f64>() / 3303.0;
            assert_eq!(found.get(&index), f64::from(expected as f32), "{level:?}, {index:?}");
        }
    }
}

#[test]
fn what_is_refused() {
    let mut random = fastrand::Rng::with_seed(1);
    let problem = Problem::random(&mut random, [3, 3]);
    let error = |from: &Array, to: &mut Array, lines: &[Lines; 2]| {
        window_means(from.input(), to.output(), [3, 3], lines).unwrap_err().to_string()
    };
    let of =
        |element, shape: [usize; 3]| Array { bytes: vec![0; 1000], first: 0, layout: Layout::dense(element, &shape) };
    let lines = problem.lines.map(|lines| Lines { origin: 0, ..lines });
    let (u8s, mut other) = (of(Element::U8, [3, 4, 2]), of(Element::U8, [3, 4, 1]));
    assert!(error(&u8s, &mut other, &lines).contains("the shape of the result"));
    assert!(error(&u8s, &mut of(Element::U16, [3, 4, 2]), &lines).contains("the type of the result"));
    assert!(error(&of(Element::I64, [3, 4, 2]), &mut of(Element::I64, [3, 4, 2]), &lines).contains("elements"));
    let swapped = [lines[1], lines[0]];
    assert!(error(&u8s, &mut of(Element::U8, [3, 4, 2]), &swapped).contains("the axis"));
    let mut gaps = of(Element::U8, [3, 4, 2]);
    gaps.layout.strides[1] = 3;
    assert!(error(&gaps, &mut of(Element::U8, [3, 4, 2]), &lines).contains("without gaps"));
}
