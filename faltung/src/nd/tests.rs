//! The filters against sums that are written out, in SciPy's order.

use kernels_gpu::abi::border::BorderMode;

use super::border::position;
use super::convert::for_element;
use super::narrow::{Narrow, Radius, Values};
use super::transformed::{Results, Tiles};
use super::*;
use crate::cpu::simd::Level;

mod axes;
mod image;
pub(super) mod in_place;
mod lines;
mod short;
mod window_means;

/// Memory of an array whose axes have any order, direction and gaps.
struct Array {
    bytes: Vec<u8>,
    first: usize,
    layout: Layout,
}

impl Array {
    fn new(random: &mut fastrand::Rng, element: Element, shape: &[usize]) -> Self {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        random.shuffle(&mut order);
        let (mut strides, mut span, mut first) = (vec![0; shape.len()], element.size(), 0);
        for &axis in &order {
            let stride = span + random.usize(..3) * element.size();
            span = stride * shape[axis].max(1);
            let is_backwards = random.bool();
            strides[axis] = if is_backwards { -(stride as isize) } else { stride as isize };
            first += if is_backwards { stride * shape[axis].saturating_sub(1) } else { 0 };
        }
        Self { bytes: vec![0; span], first, layout: Layout { element, shape: shape.to_vec(), strides } }
    }

    fn offset(&self, index: &[usize]) -> usize {
        let steps = index.iter().zip(&self.layout.strides).map(|(&i, &stride)| i as isize * stride);
        self.first.strict_add_signed(steps.sum())
    }

    fn set(&mut self, index: &[usize], value: i64) {
        let at = self.offset(index);
        let value = if self.layout.element == Element::Bool { value & 1 } else { value };
        for_element!(self.layout.element, T => {
            let bytes = (value as T).to_ne_bytes();
            self.bytes[at..][..bytes.len()].copy_from_slice(&bytes);
        });
    }

    fn get(&self, index: &[usize]) -> f64 {
        let at = self.offset(index);
        for_element!(self.layout.element, T => {
            let bytes = self.bytes[at..][..size_of::<T>()].try_into().unwrap();
            T::from_ne_bytes(bytes) as f64
        })
    }

    fn input(&self) -> Input<'_> {
        // SAFETY: the bytes hold an element at each index, and are borrowed.
        unsafe { Input::from_raw(self.bytes.as_ptr().add(self.first), self.layout.clone()).unwrap() }
    }

    fn output(&mut self) -> Output<'_> {
        // SAFETY: as above; the strides of `new` keep the elements apart.
        unsafe { Output::from_raw(self.bytes.as_mut_ptr().add(self.first), self.layout.clone()).unwrap() }
    }
}

fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![vec![]], |all, &length| {
        all.iter().flat_map(|index| (0..length).map(move |i| [&index[..], &[i]].concat())).collect()
    })
}

/// As the element's type converts sums that are no larger than the tests'.
#[expect(clippy::unnecessary_cast, reason = "the arm of f64 casts to its own type")]
fn converted(element: Element, sum: f64) -> f64 {
    match element {
        Element::F32 => sum as f32 as f64,
        Element::F64 => sum,
        _ => for_element!(element, T => sum as i64 as T as f64),
    }
}

struct Case {
    random: fastrand::Rng,
    input: Array,
    output: Array,
    border: BorderMode,
    value: f64,
}

impl Case {
    fn new(seed: u64, most_axes: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let axes = random.usize(1..=most_axes);
        let shape: Vec<_> = (0..axes).map(|_| random.usize(1..if axes < 3 { 40 } else { 9 })).collect();
        let mut input = {
            let element = Element::ALL[random.usize(..Element::ALL.len())];
            Array::new(&mut random, element, &shape)
        };
        for index in indices(&shape) {
            // A negative number would be a large one of these types, and sums of it beyond what the test converts.
            let is_wide = matches!(input.layout.element, Element::U32 | Element::U64);
            let value = random.i64(if is_wide { 0 } else { -100 }..1000);
            input.set(&index, value);
        }
        let element = Element::ALL[random.usize(..Element::ALL.len())];
        let output = Array::new(&mut random, element, &shape);
        let border = BorderMode::ALL[random.usize(..5)];
        Self { random, input, output, border, value: 7.5 }
    }

    /// The input at an index that may lie outside.
    fn at(&self, index: &[isize]) -> f64 {
        let inside: Option<Vec<_>> =
            index.iter().zip(&self.input.layout.shape).map(|(&i, &length)| position(self.border, i, length)).collect();
        inside.map_or(self.value, |index| self.input.get(&index))
    }

    fn origin(&mut self, size: usize) -> isize {
        self.random.isize(-((size / 2) as isize)..=((size - 1) / 2) as isize)
    }

    fn weights(&mut self, count: usize) -> Vec<f64> {
        let is_whole = self.random.bool();
        let mut weight = || if is_whole { self.random.i32(-3..4).into() } else { self.random.f64() - 0.3 };
        (0..count).map(|_| weight()).collect()
    }

    /// The sum for a result, product after product.
    fn ordered_sum(&self, correlation: &Correlation<'_>, index: &[usize]) -> f64 {
        let Correlation { weights, shape, origins, .. } = *correlation;
        let offset = |tap: &[usize], axis: usize| tap[axis] as isize - (shape[axis] / 2) as isize - origins[axis];
        indices(shape).iter().zip(weights).filter(|&(_, &weight)| weight.abs() > f64::EPSILON).fold(
            0.0,
            |sum, (tap, weight)| {
                let offsets = (0..shape.len()).map(|axis| offset(tap, axis));
                sum + weight * self.at(&shifted(index, offsets))
            },
        )
    }

    fn compare(&self, seed: u64, expected: impl Fn(&[usize]) -> f64) {
        for index in indices(&self.input.layout.shape) {
            let (found, expected) = (self.output.get(&index), converted(self.output.layout.element, expected(&index)));
            let layouts = (&self.input.layout, &self.output.layout);
            assert!(found == expected, "seed {seed}, {index:?}: {found}, not {expected}: {layouts:?}");
        }
    }
}

fn shifted(index: &[usize], offsets: impl Iterator<Item = isize>) -> Vec<isize> {
    index.iter().zip(offsets).map(|(&i, offset)| i as isize + offset).collect()
}

fn along(axis: usize, axes: usize, offset: isize) -> impl Iterator<Item = isize> {
    (0..axes).map(move |other| if other == axis { offset } else { 0 })
}

#[test]
fn correlations_have_the_bits_of_the_sums_in_order() {
    for seed in 0..400 {
        let mut case = Case::new(seed, 4);
        let axes = case.input.layout.shape.len();
        let shape: Vec<_> = (0..axes).map(|_| case.random.usize(1..6)).collect();
        let origins: Vec<_> = shape.iter().map(|&size| case.origin(size)).collect();
        let weights = case.weights(shape.iter().product());
        let correlation =
            Correlation { weights: &weights, shape: &shape, origins: &origins, border: case.border, value: case.value };
        correlate(case.input.input(), case.output.output(), &correlation, Sums::F64).unwrap();
        case.compare(seed, |index| case.ordered_sum(&correlation, index));
    }
}

/// An array of small integers in which a part is constant, so that sums lie at whole numbers there.
fn integers(random: &mut fastrand::Rng, element: Element, shape: &[usize]) -> Array {
    let mut array = Array::new(random, element, shape);
    let most = element.largest().unwrap().min(60_000.0) as i64 - 1;
    for index in indices(shape) {
        array.set(&index, if index[shape.len() - 1] < 10 { most } else { random.i64(0..=most) });
    }
    array
}

/// Weights as filters have them: a mean, a Gaussian, random ones of both signs, small whole numbers.
fn filter(random: &mut fastrand::Rng, shape: &[usize]) -> Vec<f64> {
    let count: usize = shape.iter().product();
    let kind = random.u8(..4);
    let weight = |random: &mut fastrand::Rng, index: &[usize]| match kind {
        0 => 1.0 / count as f64,
        1 => {
            let squares = index.iter().zip(shape).map(|(&i, &size)| (i as f64 - size as f64 / 2.0).powi(2));
            (-squares.sum::<f64>() / 8.0).exp()
        }
        2 => (random.f64() - 0.4) / count as f64,
        _ => random.i32(-2..3).into(),
    };
    indices(shape).iter().map(|index| weight(random, index)).collect()
}

const SMALL: [Element; 5] = [Element::Bool, Element::I8, Element::U8, Element::I16, Element::U16];

/// Sums of `f32` and transformed sums of small integers give the integers of the sums in order.
#[test]
fn integers_have_the_bits_of_the_sums_in_order() {
    let (mut transformed, mut proven, mut exact) = (0, 0, 0);
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let is_large = seed % 3 == 0;
        let shape = [vec![2; random.usize(..2)], vec![random.usize(30..60), random.usize(30..60)]].concat();
        let mut size = || if is_large { random.usize(17..29) } else { random.usize(1..7) };
        let mut weights_shape = vec![1; shape.len()];
        let last = shape.len() - 1;
        (weights_shape[last - 1], weights_shape[last]) = (size(), size());
        let (from, to) = (SMALL[random.usize(..5)], SMALL[random.usize(..5)]);
        let input = integers(&mut random, from, &shape);
        let output = Array::new(&mut random, to, &shape);
        let border = BorderMode::ALL[random.usize(..5)];
        let weights = filter(&mut random, &weights_shape);
        let mut case = Case { random, input, output, border, value: 7.5 };
        let origins: Vec<_> = weights_shape.iter().map(|&size| case.origin(size)).collect();
        let correlation =
            Correlation { weights: &weights, shape: &weights_shape, origins: &origins, border, value: case.value };
        let (input, output) = (case.input.input(), case.output.output());

        let values = Values::new(from, (border == BorderMode::Constant).then_some(7.5));
        match Narrow::new(values, to, &weights, 100) {
            Some(Narrow::Exact) => exact += 1,
            narrow => {
                let tiles =
                    Tiles::new(Level::chosen().unwrap(), &input, &output, &correlation, values, Results::Dropped)
                        .unwrap();
                transformed += usize::from(tiles.is_some());
                proven += usize::from(tiles.is_none() && narrow.is_some());
            }
        }
        correlate(input, output, &correlation, Sums::F64).unwrap();
        case.compare(seed, |index| case.ordered_sum(&correlation, index));
    }
    assert!(transformed > 4 && proven > 4 && exact > 4, "{transformed} transformed, {proven} proven, {exact} exact");
}

/// Where all values are equal, the sums of a mean lie at a whole number. Which side of it the ordered sum is on, only
/// the order tells.
#[test]
fn without_a_radius_integers_are_wrong() {
    let (shape, sizes) = ([30, 1200], [21, 19]);
    let (count, mut random) = (21 * 19, fastrand::Rng::with_seed(5));
    let weights = vec![1.0 / f64::from(count); 21 * 19];
    let correlation =
        Correlation { weights: &weights, shape: &sizes, origins: &[0, 0], border: BorderMode::Clamp, value: 0.0 };
    let mut input = Array::new(&mut random, Element::U8, &shape);
    for index in indices(&shape) {
        input.set(&index, 7 * (index[1] as i64 / 40));
    }
    let results = |run: &dyn Fn(Input<'_>, Output<'_>) -> crate::Result<()>| {
        let mut output = Array::new(&mut fastrand::Rng::with_seed(6), Element::U8, &shape);
        run(input.input(), output.output()).unwrap();
        indices(&shape).iter().map(|index| output.get(index)).collect::<Vec<_>>()
    };
    let expected = results(&|input, output| correlate(input, output, &correlation, Sums::F64));
    let narrow = results(&|input, output| dense::proven(input, output, &correlation, Radius::NONE));
    let transformed = results(&|input, output| {
        let values = Values::new(Element::U8, None);
        let level = Level::chosen()?;
        let tiles = Tiles::new(level, &input, &output, &correlation, values, Results::Dropped)?.expect("large weights");
        tiles.without_radius().run(&input, &output, &correlation).map(drop)
    });
    let different = |results: &[f64]| results.iter().zip(&expected).filter(|(a, b)| a != b).count();
    assert!(different(&narrow) > 100 && different(&transformed) > 100);
}

/// The sum of a filter along a line, in SciPy's order.
fn scipys_sum(weights: &[f64], value: impl Fn(usize) -> f64) -> f64 {
    let (last, middle) = (weights.len() - 1, weights.len() / 2);
    let is = |sign: f64| last % 2 == 0 && (1..=middle).all(|d| weights[middle + d] == sign * weights[middle - d]);
    if is(1.0) || is(-1.0) {
        let sign = if is(1.0) { 1.0 } else { -1.0 };
        return (0..middle)
            .fold(weights[middle] * value(middle), |sum, j| sum + weights[j] * (value(j) + sign * value(last - j)));
    }
    (0..last).fold(weights[last] * value(last), |sum, j| sum + weights[j] * value(j))
}

/// Blocks of several jobs, in several threads, give the sums of one.
#[test]
fn large_arrays_are_cut_without_a_seam() {
    let (width, height) = (1_500, 700);
    let mut input =
        Array { bytes: vec![0; width * height], first: 0, layout: Layout::dense(Element::U8, &[height, width]) };
    let mut random = fastrand::Rng::with_seed(5);
    random.fill(&mut input.bytes);
    let mut output =
        Array { bytes: vec![0; width * height * 8], first: 0, layout: Layout::dense(Element::F64, &[height, width]) };
    let weights: Vec<f64> = (0..35).map(|_| random.f64()).collect();
    let mut case = |case: usize| {
        let lines = |axis| Lines { axis, origin: 0, border: BorderMode::Mirror, value: 0.0 };
        let correlation =
            Correlation { weights: &weights, shape: &[5, 7], origins: &[0, 0], border: BorderMode::Mirror, value: 0.0 };
        let (from, to) = (input.input(), output.output());
        match case {
            0 => correlate(from, to, &correlation, Sums::F64).unwrap(),
            1 | 2 => correlate1d(from, to, &weights, &lines(case - 1), Sums::F64).unwrap(),
            _ => uniform1d(from, to, 35, &lines(case - 3)).unwrap(),
        }
        for (y, x) in [(0, 0), (3, 512), (699, 1499), (127, 511), (350, 1024), (255, 255), (256, 256), (64, 700)] {
            let at = |dy: isize, dx: isize| {
                let y = position(BorderMode::Mirror, y as isize + dy, height).unwrap();
                let x = position(BorderMode::Mirror, x as isize + dx, width).unwrap();
                input.get(&[y, x])
            };
            let expected = match case {
                0 => (0..35_usize).fold(0.0, |sum, i| sum + weights[i] * at(i as isize / 7 - 2, i as isize % 7 - 3)),
                1 | 2 => (0..34).chain([34]).rev().take(1).chain(0..34).fold(0.0, |sum, j| {
                    let d = j as isize - 17;
                    sum + weights[j] * if case == 1 { at(d, 0) } else { at(0, d) }
                }),
                _ => (-17..=17).map(|d| if case == 3 { at(d, 0) } else { at(0, d) }).sum::<f64>() / 35.0,
            };
            assert_eq!(output.get(&[y, x]), expected, "case {case}, row {y}, column {x}");
        }
    };
    (0..5).for_each(&mut case);
}

/// What rounds in `f32` stays within a bound of the products' magnitudes, and NaN does not pass a weight of 0.
#[test]
fn sums_of_f32() {
    let mut case = Case::new(1, 1);
    (case.input, case.output) = (
        Array { bytes: vec![0; 4_000], first: 0, layout: Layout::dense(Element::F32, &[20, 50]) },
        Array { bytes: vec![0; 4_000], first: 0, layout: Layout::dense(Element::F32, &[20, 50]) },
    );
    for index in indices(&[20, 50]) {
        let value = case.random.i64(-1000..1000);
        case.input.set(&index, value);
    }
    let weights = case.weights(15);
    let correlation =
        Correlation { weights: &weights, shape: &[3, 5], origins: &[0, 0], border: BorderMode::Clamp, value: 0.0 };
    case.border = BorderMode::Clamp;
    correlate(case.input.input(), case.output.output(), &correlation, Sums::F32).unwrap();
    for index in indices(&[20, 50]) {
        let terms: Vec<f64> = (0..15)
            .map(|i| weights[i as usize] * case.at(&shifted(&index, [i / 5 - 1, i % 5 - 2].into_iter())))
            .collect();
        let (sum, magnitude) = (terms.iter().sum::<f64>(), terms.iter().map(|term| term.abs()).sum::<f64>());
        let error = (case.output.get(&index) - sum).abs();
        assert!(error <= 17.0 * 2.0_f64.powi(-24) * magnitude, "{index:?}: {error}");
    }
    let nan = f32::NAN.to_ne_bytes();
    case.input.bytes[..4].copy_from_slice(&nan);
    let correlation = Correlation { weights: &[0.0, 1.0], shape: &[1, 2], ..correlation };
    correlate(case.input.input(), case.output.output(), &correlation, Sums::F32).unwrap();
    assert!(case.output.get(&[0, 0]).is_nan() && !case.output.get(&[0, 1]).is_nan());
}

#[test]
fn what_is_refused_is_named() {
    let mut random = fastrand::Rng::with_seed(1);
    let input = Array::new(&mut random, Element::U8, &[4, 5]);
    let mut output = Array::new(&mut random, Element::U8, &[4, 5]);
    let mut other = Array::new(&mut random, Element::U8, &[5, 4]);
    let lines = Lines { axis: 0, origin: 0, border: BorderMode::Wrap, value: 0.0 };
    let error = |result: Result<()>| result.unwrap_err().to_string();
    let run = |to: Output<'_>, weights: &[f64], lines: &Lines, sums| {
        error(correlate1d(input.input(), to, weights, lines, sums))
    };
    for (found, part) in [
        (run(other.output(), &[1.0], &lines, Sums::F64), "the shape of the result"),
        (run(output.output(), &[1.0], &Lines { axis: 2, ..lines }, Sums::F64), "the axis"),
        (run(output.output(), &[], &lines, Sums::F64), "the size of the filter"),
        (run(output.output(), &[1.0, 2.0], &Lines { origin: 1, ..lines }, Sums::F64), "the origin"),
        (run(output.output(), &[1.0], &lines, Sums::F32), "the type of the sums"),
    ] {
        assert!(found.contains(part), "{found:?} does not name {part:?}");
    }
}

#[test]
fn each_filter_can_be_cancelled() {
    let mut random = fastrand::Rng::with_seed(2);
    let cancelled = std::sync::Arc::new(true.into());
    let lines = Lines { axis: 0, origin: 0, border: BorderMode::Wrap, value: 0.0 };
    let weights = vec![0.5; 81];
    let (shape, origins) = (&[9, 9][..], &[0, 0][..]);
    let dense = Correlation { weights: &weights, shape, origins, border: BorderMode::Wrap, value: 0.0 };
    let filters = [Along::Mean(9), Along::Weights(&weights[..9])].map(|along| AxisFilter { along, lines });
    for element in [Element::U8, Element::F32, Element::F64] {
        let input = Array::new(&mut random, element, &[400, 300]);
        let mut output = Array::new(&mut random, element, &[400, 300]);
        let mut check = |name: &str, filter: &dyn Fn(Input<'_>, Output<'_>) -> Result<()>| {
            let result = crate::cancellable(&cancelled, || filter(input.input(), output.output()));
            assert_eq!(result, Err(Error::Cancelled), "{name}, {element:?}");
        };
        check("correlate", &|from, to| correlate(from, to, &dense, Sums::F64));
        check("correlate1d", &|from, to| correlate1d(from, to, &weights, &lines, Sums::F64));
        check("uniform1d", &|from, to| uniform1d(from, to, 9, &lines));
        for filter in &filters {
            check("filter_axes", &|from, to| filter_axes(from, to, &[*filter, *filter], Sums::F64));
        }
    }
}
